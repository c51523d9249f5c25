// SPDX-License-Identifier: Apache-2.0
//! The disk's part of uploads: which report may leave next, and its bytes.

use std::fs;
use std::io::{self, Read as _};

use hindsight_trace_query::{Answer, MAX_FILE_BYTES};

use crate::consent::Allowed;
use crate::context::{Context, MAX_CONTEXT_BYTES};
use crate::engine::Report;
use crate::policy::Level;
use crate::store::{Entry, State, Store};
use crate::upload::{document, Device, Item, Kind, Sent, DEVICE, SENT};

/// Methods that a text names.
const METHODS: usize = 40;

/// What may leave next.
#[derive(Debug)]
pub(super) enum Next {
    /// This file; if it is a text, its report and the level that it was made for.
    Item(Item, Option<(Report, Level)>),
    /// One of these reports, each with its group, if it may count as an upload; at least one.
    Candidates(Vec<(Report, Report)>),
    /// Nothing.
    Nothing,
}

/// Before the store counts as used: from then on a missing list is a lost one.
pub fn begin_uploads(store: &mut Store) {
    if store.was_used() {
        return;
    }
    if let Err(e) = store.save_state(SENT, &Sent::default().to_toml()) {
        store.note(format!("the list of uploads cannot be saved: {e}"));
    }
}

/// Reports that have left, as saved. A list that is damaged or lost has all reports: none leaves twice.
fn load(store: &mut Store) -> Sent {
    let problem = match store.load_state(SENT) {
        State::Missing if !store.was_used() => return Sent::default(),
        State::Missing => "it is missing".to_owned(),
        State::Damaged(why) => why,
        State::Found(text) => match Sent::from_toml(&text) {
            Some(sent) => return sent,
            None => "it is no list of reports".to_owned(),
        },
    };
    store.note(format!(
        "the list of uploads: {problem}; none of the reports until now is uploaded"
    ));
    let sent = Sent::all(store.reports().map(|entry| entry.report));
    if let Err(e) = store.save_state(SENT, &sent.to_toml()) {
        store.note(format!("the list of uploads cannot be saved: {e}"));
    }
    sent
}

/// What the device is called; a new secret if there is none that can be read.
fn device(store: &mut Store, allowed: &Allowed) -> io::Result<Device> {
    let secret = match store.load_state(DEVICE) {
        State::Found(secret) => secret,
        _ => {
            let mut bytes = [0; 32];
            fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
            let secret: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            store.save_state(DEVICE, &secret)?;
            secret
        }
    };
    Ok(Device {
        secret,
        user: allowed.person.user,
        region: allowed.person.region.clone(),
        policy: allowed.policy.revision,
    })
}

/// What is known around a report; nothing, if that is damaged.
fn context(store: &mut Store, report: Report) -> Context {
    let read = store.context(report, MAX_CONTEXT_BYTES);
    let read = read.map_err(|e| e.to_string());
    let parsed = read.and_then(|text| match text {
        Some(text) => Context::from_toml(&text),
        None => Ok(Context::default()),
    });
    parsed.unwrap_or_else(|e| {
        store.note(format!(
            "the context of report {report} cannot be read: {e}"
        ));
        Context::default()
    })
}

/// The text about a report at the level that holds now; `None`: there is no consent.
///
/// # Errors
/// If there is no such report, or its trace cannot be read.
pub(super) fn text(
    store: &mut Store,
    allowed: &Allowed,
    report: Report,
) -> io::Result<Option<(String, Level)>> {
    let (file, entry) = store.open_report(report)?;
    let (entry, level) = (entry.clone(), allowed.level(entry));
    if level == Level::None || !allowed.allows(&entry) {
        return Ok(None);
    }
    if file.metadata()?.len() > MAX_FILE_BYTES {
        return Err(io::Error::other(
            "its trace is too long for a summary on the device",
        ));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    let signatures = match level >= Level::Signatures {
        true => allowed.policy.uploads.signatures.as_slice(),
        false => &[],
    };
    let answer = Answer::of(&bytes, signatures, METHODS).map_err(io::Error::other)?;
    let context = context(store, report);
    let device = device(store, allowed)?;
    let text = document(&entry, &context, &answer, &device, level);
    Ok(Some((text, level)))
}

/// The file with the context of a report, as it is kept; it is shown where the trace may be handed out.
pub(super) fn context_lines(
    store: &Store,
    allowed: &Allowed,
    report: Report,
) -> io::Result<Vec<String>> {
    let (_, entry) = store.open_report(report)?;
    if !allowed.allows(entry) {
        return Err(io::Error::other("there is no consent to it now"));
    }
    let text = store.context(report, MAX_CONTEXT_BYTES)?;
    let text = text.unwrap_or_default();
    Ok(text.lines().map(str::to_owned).collect())
}

/// The parts of a report that may leave, as lines for people: exactly the text, and the hash of a trace.
pub(super) fn preview(
    store: &mut Store,
    allowed: &Allowed,
    report: Report,
) -> io::Result<Vec<String>> {
    let Some((text, level)) = text(store, allowed, report)? else {
        return Err(io::Error::other(
            "nothing of it may leave: there is no consent",
        ));
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if level == Level::Full {
        let (file, _) = store.open_report(report)?;
        let item = Item::of_file(report, Kind::Trace, file)?;
        lines.push(format!(
            "and the trace, which 'get {report}' hands out: {}",
            item.line
        ));
    }
    Ok(lines)
}

/// What may leave next. `admitted`: this report counts as an upload from now on.
///
/// # Errors
/// If it cannot be written down, or read.
pub(super) fn next(
    store: &mut Store,
    allowed: &Allowed,
    admitted: Option<Report>,
) -> io::Result<Next> {
    let mut sent = load(store);
    sent.retain(|report| store.reports().any(|entry| entry.report == report));
    if let Some(report) = admitted {
        sent.admit(report);
        store.save_state(SENT, &sent.to_toml())?;
    }
    let entries: Vec<Entry> = store.reports().cloned().collect();
    for entry in entries.iter().filter(|entry| allowed.allows(entry)) {
        let report = entry.report;
        let with_trace = allowed.level(entry) == Level::Full;
        return Ok(match sent.next_part(report, with_trace) {
            None => continue,
            Some(Kind::Text) => match text(store, allowed, report) {
                Ok(Some((text, level))) => {
                    Next::Item(Item::of_text(report, &text)?, Some((report, level)))
                }
                Ok(None) => continue,
                // It will not be better the next time: the other reports must not wait for it.
                Err(e) => {
                    store.note(format!("report {report} is not uploaded: {e}"));
                    done(store, report, Kind::Text)?;
                    done(store, report, Kind::Trace)?;
                    continue;
                }
            },
            Some(kind) => {
                let file = store.open_report(report)?.0;
                Next::Item(Item::of_file(report, kind, file)?, None)
            }
        });
    }
    let uploads = &allowed.policy.uploads;
    let is_candidate = |entry: &&Entry| {
        let is_selected = uploads.is_selected(entry.severity(), entry.uid, &entry.process);
        is_selected && allowed.allows(entry) && !sent.is_admitted(entry.report)
    };
    let candidates = entries.iter().filter(is_candidate);
    let candidates: Vec<(Report, Report)> = candidates
        .map(|entry| (entry.report, entry.group()))
        .collect();
    Ok(match candidates.is_empty() {
        true => Next::Nothing,
        false => Next::Candidates(candidates),
    })
}

/// Whether a part that was handed out, made for this level, may leave even now.
pub(super) fn may(
    store: &mut Store,
    allowed: &Allowed,
    report: Report,
    kind: Kind,
    made_for: Level,
) -> bool {
    let sent = load(store);
    let mut entries = store.reports();
    entries
        .find(|entry| entry.report == report)
        .is_some_and(|entry| {
            let level = allowed.level(entry);
            let is_next = sent.next_part(report, level == Level::Full) == Some(kind);
            is_next && level >= made_for && allowed.allows(entry)
        })
}

/// The collector has this part.
///
/// # Errors
/// If it cannot be written down: it will be sent again, and the collector says that it has it.
pub(super) fn done(store: &mut Store, report: Report, kind: Kind) -> io::Result<()> {
    let mut sent = load(store);
    sent.done(report, kind);
    store.save_state(SENT, &sent.to_toml())
}
