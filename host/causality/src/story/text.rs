// SPDX-License-Identifier: Apache-2.0
//! A report as text. Each statement says whether it is recorded or inferred.

use hindsight_analysis::{duration, Place};

use super::not_stuck::{not_stuck, nothing_then};
use super::report::{
    CauseStep, CulpritReport, CulpritThreadReport, EndReport, HopReport, NodeName, Report,
    ThreadName, TriggerReport,
};
use crate::diagnosis::{
    Activity, Certainty, CircleKind, How, Kind, Role, TriggerKind, WaitsMissing, LEAST_PAUSES,
};

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The most important sentence.
    Strong(String),
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// An item of a list.
    Item(String),
    /// Methods, each of which called the next one.
    Calls(Vec<String>),
}

/// How threads are named: with their process if there are several.
#[derive(Clone, Copy)]
struct Names {
    with_process: bool,
}

impl Names {
    fn thread(self, name: &ThreadName) -> String {
        match self.with_process {
            true => format!(
                "thread \"{}\" (tid {}) of {}",
                name.thread, name.tid, name.process
            ),
            false => format!("thread \"{}\" (tid {})", name.thread, name.tid),
        }
    }
}

fn names(report: &Report) -> Names {
    let mut processes: Vec<_> = report.files.iter().map(|f| (f.pid, &f.process)).collect();
    processes.sort_unstable();
    processes.dedup();
    Names {
        with_process: processes.len() > 1 || report.chain.iter().any(|h| h.to.system_only),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// `[recorded]`, or `[inferred, because …]`.
fn mark(certainty: &Certainty) -> String {
    match certainty {
        Certainty::Recorded => "[recorded]".to_owned(),
        Certainty::Inferred { because } => format!("[inferred, because {because}]"),
    }
}

/// The report as text, with the reason for which the trace was saved.
pub fn text(report: &Report) -> Vec<Block> {
    let file = report
        .node
        .as_ref()
        .and_then(|n| report.files.get(n.thread.file));
    let reason = file.map(|f| &f.reason).filter(|r| !r.is_empty());
    let reason = reason.filter(|_| report.stuck != Some(false));
    let reason = reason.map(|reason| Block::Text(format!("Saved because: {reason}")));
    reason.into_iter().chain(standstill(report)).collect()
}

/// The report as text, without the reason.
pub fn standstill(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    let names = names(report);
    let Some(node) = &report.node else {
        if !report.then.is_empty() {
            blocks.push(Block::Strong(
                "No thread was stuck at that time.".to_owned(),
            ));
            let told = report.then.iter();
            blocks
                .extend(told.map(|t| Block::Item(nothing_then(t, &names.thread(&t.node.thread)))));
            return blocks;
        }
        blocks.push(Block::Strong(
            "No thread recorded anything in which it may be stuck: ask about another time, record events (events=all), or ask \
             hindsight why about calls."
                .to_owned(),
        ));
        return blocks;
    };
    if report.stuck == Some(false) {
        let mut said = not_stuck(report, node, &names.thread(&node.thread)).into_iter();
        blocks.extend(said.next().map(Block::Strong));
        blocks.extend(said.map(Block::Text));
        return blocks;
    }
    stuck(report, node, names, &mut blocks);
    if !report.cause.is_empty() {
        blocks.push(Block::Heading("What led to it".to_owned()));
        blocks.extend(
            report
                .trigger
                .as_ref()
                .map(|t| Block::Text(trigger_words(t, names))),
        );
        blocks.extend(causes(&report.cause, names).map(Block::Item));
    }
    blocks.extend(waits(report));
    blocks.extend(verdict(report));
    compared(report, names, &mut blocks);
    blocks
}

/// Whom the thread waited for, as text; nothing if it waited for nobody.
pub fn waits(report: &Report) -> Vec<Block> {
    let (names, mut blocks) = (names(report), Vec::new());
    if !report.chain.is_empty() {
        blocks.push(Block::Heading("Whom it waited for".to_owned()));
        for hop in &report.chain {
            blocks.push(Block::Item(hop_words(hop, names)));
        }
        blocks.extend(end_words(report.end.as_ref(), names).map(Block::Item));
    }
    blocks
}

fn stuck(report: &Report, node: &NodeName, names: Names, blocks: &mut Vec<Block>) {
    let until = match report.still_running {
        true => "and still did not when the snapshot was taken".to_owned(),
        false if report.ended_before_ns == 0 => "until the end of its recording".to_owned(),
        false => format!(
            "until {} before the end of its recording",
            duration(report.ended_before_ns)
        ),
    };
    blocks.push(Block::Strong(format!(
        "{} did not go on for {}, {until}: {}.",
        capital(&names.thread(&node.thread)),
        duration(report.held_ns),
        node.words(),
    )));
    if let Some(kind) = report.kind {
        blocks.push(Block::Text(kind_words(report, kind)));
    }
    if let Some(place) = &report.place {
        blocks.push(Block::Text("It was in:".to_owned()));
        blocks.push(Block::Calls(place.calls.clone()));
    }
    if let Some(class) = &report.first_use_of {
        blocks.push(Block::Text(format!(
            "It is the first use of {class}: the class was being initialized. [recorded]"
        )));
    }
}

fn kind_words(report: &Report, kind: Kind) -> String {
    let cpu = match report.cpu_ns {
        Some(ns) => format!("used {} of CPU time", duration(ns)),
        None => "its CPU time is not recorded".to_owned(),
    };
    let waited = duration(report.waited_ns);
    let mut facts = vec![match report.waits_missing {
        None => format!("waited {waited} for others"),
        Some(WaitsMissing::Damaged) => {
            format!("waited {waited} for others in the part of its ring that can be read")
        }
        Some(WaitsMissing::NotRecorded) if report.waited_ns == 0 => {
            "recorded no wait, as no thread of its process did".to_owned()
        }
        Some(WaitsMissing::NotRecorded) => {
            format!("waited {waited} for replies; other waits are not recorded")
        }
    }];
    if report.slept_ns > 0 {
        facts.push(format!("slept {}", duration(report.slept_ns)));
    }
    if report.pauses > 0 {
        facts.push(pauses_words(report.pauses, report.steps));
    }
    let mut text = format!(
        "Kind: {}. It {}; {cpu}. [recorded]",
        kind.name(),
        facts.join(", ")
    );
    let innermost = report.place.as_ref().and_then(|p| p.calls.last());
    if let (Kind::Yield, Some(call), true) = (kind, innermost, report.pauses < LEAST_PAUSES) {
        text += &format!(
            " It was in {call} for most of the time. [inferred, because its stacks end there; single calls of it are no events]"
        );
    }
    if let Some(scheduled) = &report.scheduled {
        return format!("{text} {}", scheduled.words());
    }
    let switches = report.voluntary_switches.zip(report.involuntary_switches);
    if let (Kind::Busy, Some((own, taken))) = (kind, switches) {
        if report.cpu_ns.is_some_and(|cpu| cpu < report.held_ns / 2) {
            text += &format!(
                " For the rest it was ready to run, but not on a processor. [inferred, because the processor was taken \
                 from it {taken} times, and it gave it up {own} times itself]"
            );
        }
    }
    text
}

/// How often a thread paused, as text.
fn pauses_words(pauses: u64, steps: u64) -> String {
    let times = match pauses {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let plural = if steps == 1 { "" } else { "s" };
    format!("paused {times} in {steps} step{plural}")
}

fn trigger_words(trigger: &TriggerReport, names: Names) -> String {
    let from = names.thread(&trigger.from);
    let work = trigger
        .work
        .as_ref()
        .map(|w| format!(", in {},", w.words()));
    let sent = format!("{from}{}", work.unwrap_or_default());
    let sender = sent.trim_end_matches(',');
    match trigger.kind {
        TriggerKind::Input => format!("The user's input began it: {sender}. [recorded]"),
        TriggerKind::File => format!(
            "A file changed: {from} reported it. [inferred, because that is a FileObserver's thread; who changed the file is \
             not recorded]"
        ),
        TriggerKind::Broadcast => format!(
            "A broadcast was received, which {} sent. [inferred, because of the message's class]",
            names.thread(&trigger.origin)
        ),
        TriggerKind::EarlierScreen => format!(
            "It is work of {}, which was over by then: {sent} sent it. [recorded]",
            trigger.screen.as_deref().unwrap_or_default()
        ),
        TriggerKind::Timer => format!("A time was over that {sender} had set. [recorded]"),
        TriggerKind::Transaction => format!(
            "{} asked for it by a transaction. [recorded]",
            capital(&names.thread(&trigger.origin))
        ),
        TriggerKind::Message | TriggerKind::FirstUse => format!("{} sent it. [recorded]", capital(&sent)),
        TriggerKind::Task => format!("{} handed it over. [recorded]", capital(&sent)),
        TriggerKind::Frame => format!("{} asked for a frame. [recorded]", capital(&sent)),
        TriggerKind::Field => format!("{} wrote a field that it read. [recorded]", capital(&sent)),
    }
}

/// Steps that are the same but for their times are one line: a message that posts itself again leads to a long row of them.
fn causes<'a>(steps: &'a [CauseStep], names: Names) -> impl Iterator<Item = String> + 'a {
    let is_same = |a: &CauseStep, b: &CauseStep| {
        (&a.node.thread, a.node.words(), &a.place) == (&b.node.thread, b.node.words(), &b.place)
            && (a.edge, &a.certainty) == (b.edge, &b.certainty)
    };
    steps
        .chunk_by(is_same)
        .map(move |row| cause_words(row, names))
}

/// `row` has at least one step; all are the same but for their times.
fn cause_words(row: &[CauseStep], names: Names) -> String {
    let step = &row[0];
    let place = step.place.as_ref().map(|p| format!(", in {}", p.method));
    let led = match step.edge {
        "next" | "resume" => "went on to the next step".to_owned(),
        edge => format!("led to the next step by a {edge}"),
    };
    let times = row.iter().map(|s| s.after_ns);
    let (least, most) = times.fold((u64::MAX, 0), |(a, b), ns| (a.min(ns), b.max(ns)));
    let when = match row.len() {
        1 => format!("{} before that began", duration(least)),
        n => format!(
            "{n} times in a row, each {} to {} before that began",
            duration(least),
            duration(most)
        ),
    };
    format!(
        "{}: {}{} {led}, {when} {}",
        names.thread(&step.node.thread),
        step.node.words(),
        place.unwrap_or_default(),
        mark(&step.certainty)
    )
}

/// What led to a node, as text: each step on a line, or several in a row that are the same but for their times.
pub fn cause_text(steps: &[CauseStep]) -> Vec<String> {
    let with_process = true;
    let names = Names { with_process };
    causes(steps, names).collect()
}

fn waited(hop: &HopReport) -> String {
    let times = match hop.waits {
        0 | 1 => String::new(),
        n => format!(", {n} times"),
    };
    let time = duration(hop.waited_ns);
    let timeout = match (hop.timeout_ns, hop.result) {
        (0, Some("timed out")) => ", until its time was over".to_owned(),
        (0, _) => String::new(),
        (ns, Some("timed out")) => format!(", until its time of {} was over", duration(ns)),
        (ns, _) => format!(", with a timeout of {}", duration(ns)),
    };
    match hop.waited_for {
        "lock" => format!("waited {time}{times} for the lock {:#x}", hop.object),
        "transaction" => format!("waited {time}{times} for the reply to a transaction"),
        "work" => format!("waited {time} for work"),
        "kernel" => {
            format!("waited {time}{times} in the kernel, without an event that tells what for")
        }
        "field" if hop.field.is_empty() => format!("waited {time} in a loop"),
        "field" => format!("read {} in a loop for {time}", hop.field),
        "object" => format!("waited {time}{times} to be notified{timeout}"),
        "park" => format!("was parked for {time}{times}{timeout}"),
        other => format!("waited {time}{times} ({other}){timeout}"),
    }
}

fn role_of(hop: &HopReport, names: Names) -> String {
    let to = names.thread(&hop.to);
    match hop.how {
        How::HeldLock => format!("which {to} held when the wait began"),
        How::GotLock => format!("which {to} got meanwhile, and held for most of the time"),
        How::EndedWait => format!("which {to} ended"),
        How::Served => format!("which {to} served"),
        How::RanTask => format!("for the task that {to} ran"),
        How::SentWork => format!("which {to} sent in the end"),
        How::WroteField => format!("which {to} writes"),
        How::HadRequest => format!("for the answer to a request that {to} had not dealt with"),
        How::EndedBefore => format!("and {to} is the one that would have led to its end"),
        How::WasGivenWork => format!("and {to} had been given work by it"),
    }
}

fn hop_words(hop: &HopReport, names: Names) -> String {
    let place = hop.place.as_ref().map(|p| format!(" in {}", p.method));
    format!(
        "{} {}{}, {}. {}",
        capital(&names.thread(&hop.thread)),
        waited(hop),
        place.unwrap_or_default(),
        role_of(hop, names),
        mark(&hop.certainty)
    )
}

/// A hop as text.
pub fn hop_text(hop: &HopReport) -> String {
    let with_process = true;
    hop_words(hop, Names { with_process })
}

fn end_words(end: Option<&EndReport>, names: Names) -> Option<String> {
    let end = end?;
    let thread = capital(&names.thread(end.thread.as_ref()?));
    let place: Option<&Place> = end.place.as_ref();
    let in_place = place.map_or(String::new(), |p| format!(", in {}", p.method));
    let work = end.work.as_ref();
    let in_work = work.map_or(String::new(), |w| format!(", in {}", w.words()));
    let of = duration(end.of_ns);
    let did = match end.activity? {
        Activity::Computed => format!(
            "computed for {} of {of}",
            duration(end.cpu_ns.unwrap_or_default())
        ),
        Activity::Slept => format!("slept for {} of {of}", duration(end.slept_ns)),
        Activity::Ran => format!("waited for no other thread in these {of}; its CPU time is not recorded"),
        Activity::Outside => format!(
            "neither computed nor waited for another thread for most of {of}: it waited outside the runtime, as for a file or \
             the network, or was not scheduled"
        ),
    };
    let scheduled = end.scheduled.as_ref();
    let scheduled = scheduled.map_or(String::new(), |s| format!(" {}", s.words()));
    let only = match end.thread.as_ref()?.system_only {
        true => " It is in the system trace only: to know which code it was in, record its process, too, and name that file.",
        false => "",
    };
    Some(format!(
        "{thread} {did}{in_work}{in_place}. [recorded]{scheduled}{only}"
    ))
}

/// Who held the thread up, or why that is not known, as text.
pub fn verdict(report: &Report) -> Vec<Block> {
    let (names, mut blocks) = (names(report), Vec::new());
    if let Some(culprit) = &report.culprit {
        let culprit = culprit_words(culprit, names);
        blocks.push(Block::Strong(format!("Culprit: {culprit}.")));
        blocks.extend(report.next.iter().cloned().map(Block::Item));
        return blocks;
    }
    if let Some(suspect) = &report.suspect {
        blocks.push(Block::Strong(format!(
            "Most likely: {}. {}",
            culprit_words(suspect, names),
            mark(&suspect.certainty)
        )));
    }
    if let Some(unknown) = &report.unknown {
        blocks.push(Block::Strong(format!("Culprit: unknown: {}.", unknown.why)));
        blocks.extend(unknown.remedy.iter().cloned().map(Block::Item));
    }
    blocks
}

fn who(thread: &CulpritThreadReport, names: Names) -> String {
    let on = names.thread(&thread.thread);
    thread
        .what()
        .map_or_else(|| on.clone(), |what| format!("{what}, on {on}"))
}

fn culprit_words(culprit: &CulpritReport, names: Names) -> String {
    let all: Vec<String> = culprit.threads.iter().map(|t| who(t, names)).collect();
    let first = all.first().cloned().unwrap_or_default();
    match culprit.role {
        Role::ItselfComputed => format!("{first}, which computed: no other thread held it up"),
        Role::ItselfSlept => format!("{first}, which slept for a time that it chose"),
        Role::ItselfOutside => {
            format!("{first}, which waited outside the runtime, as for a file or the network")
        }
        Role::Waited { how, activity } => {
            let did = match activity {
                Activity::Slept => " and slept",
                Activity::Computed => " and computed",
                Activity::Outside => {
                    " and waited outside the runtime, as for a file or the network"
                }
                Activity::Ran => "",
            };
            let how = match how {
                How::HeldLock | How::GotLock => "held the lock",
                How::EndedWait => "ended the wait",
                How::Served => "served the transaction",
                How::RanTask => "ran the task",
                How::SentWork => "sent the work",
                How::WroteField => "writes the field",
                How::HadRequest => "had the request",
                How::EndedBefore => "would have led to the end of the wait",
                How::WasGivenWork => "had been given work",
            };
            format!("{first}, which {how}{did}")
        }
        Role::Delayed { delay_ns } => format!(
            "{first}, which sent the work with a delay of {}",
            duration(delay_ns)
        ),
        Role::Circle { circle, timeout_ns } => {
            let all = all.join("; and ");
            match circle {
                CircleKind::Deadlock => {
                    format!("a deadlock: these wait for each other for ever: {all}")
                }
                CircleKind::Livelock => format!(
                    "these wait for each other until a timeout{}: {all}",
                    match timeout_ns {
                        0 | 1 => String::new(),
                        ns => format!(" of {}", duration(ns)),
                    }
                ),
                CircleKind::Ended => format!("these waited for each other: {all}"),
            }
        }
    }
}

/// A culprit as text.
pub fn culprit_text(culprit: &CulpritReport) -> String {
    let with_process = true;
    culprit_words(culprit, Names { with_process })
}

fn compared(report: &Report, names: Names, blocks: &mut Vec<Block>) {
    let Some(nearest) = report.similar.first() else {
        return;
    };
    let count = match report.similar_count {
        1 => "One node did the same and went well".to_owned(),
        n => format!("{n} nodes did the same and went well"),
    };
    blocks.push(Block::Heading("When it went well".to_owned()));
    blocks.push(Block::Text(format!(
        "{count}. The nearest is node {}: {} in {}. [recorded]",
        nearest.node.node,
        nearest.node.words(),
        duration(nearest.node.held_ns),
    )));
    for difference in &report.differences {
        let did = match difference.what_long {
            "wait" => "waited",
            _ => "spent",
        };
        blocks.push(Block::Item(format!(
            "Since then {} {did} {} in {} (node {}). [recorded]",
            names.thread(&difference.node.thread),
            duration(difference.ns),
            difference.node.words(),
            difference.node.node,
        )));
        let hops = difference.chain.iter().map(|hop| hop_words(hop, names));
        blocks.extend(
            hops.chain(end_words(difference.end.as_ref(), names))
                .map(Block::Item),
        );
    }
    if let Some(missing) = &report.missing {
        blocks.push(Block::Item(format!(
            "Then {} led to {} on {} by a {}; this time it did not. {}",
            names.thread(&missing.from),
            missing.to.words(),
            names.thread(&missing.to.thread),
            missing.edge,
            mark(&missing.certainty)
        )));
    }
}
