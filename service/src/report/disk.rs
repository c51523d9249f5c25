// SPDX-License-Identifier: Apache-2.0
//! The work of the thread that waits for the disk.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use crate::consent::{Allowed, CHOICES};
use crate::engine::Report;
use crate::os::System;
use crate::policy::{Level, UIDS_OF_A_USER};
use crate::store::{Entry, PublishError, Store, MAX_STATE_BYTES};
use crate::upload::Kind;

use super::boot_names;
use super::job::{failed, Job, Outcome};
use super::leaving::{self, Next};
use super::saving::save;
use super::write::WriteJob;

/// Name of the list of admitted reports in the store.
pub const LIMITS: &str = "limits";

/// What the thread has.
pub(super) struct Disk {
    pub(super) store: Store,
    system: Arc<dyn System>,
    /// The list of admitted reports is on the disk as the engine has it.
    are_limits_saved: bool,
    /// The text that was handed out last, and the level that it was made for.
    text: Option<(Report, Level)>,
    /// Reports that are too old could not be removed; before this time it is not tried again, s by `CLOCK_BOOTTIME`.
    retry_s: u64,
}

/// After so long it is tried again to remove reports that are too old, s.
const RETRY_S: u64 = 4 * 3600;
/// The longest wait without a look at the clock, s: waits do not go on while the device is suspended, ages of reports do.
const LOOK_S: u64 = 3600;

impl Disk {
    /// The store, with nothing done yet.
    pub(super) fn new(store: Store, system: Arc<dyn System>) -> Self {
        Disk {
            store,
            system,
            are_limits_saved: true,
            text: None,
            retry_s: 0,
        }
    }

    /// Waits for a job and does it, or removes what has become too old. `None`: there will be no more jobs.
    pub(super) fn next(&mut self, jobs: &Receiver<Job>) -> Option<(Outcome, bool)> {
        let job = loop {
            let Some(seconds) = self.next_expiry_s() else {
                break jobs.recv().ok()?;
            };
            if seconds == 0 {
                self.expire();
                return Some((Outcome::Nothing, true));
            }
            match jobs.recv_timeout(Duration::from_secs(seconds.min(LOOK_S))) {
                Ok(job) => break job,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        };
        // It may have waited for long.
        if self.next_expiry_s() == Some(0) {
            self.expire();
        }
        let answer = failed(&job);
        // A mistake in the reader must not end the service: a process would only have to find it.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.run(job)));
        Some((outcome.unwrap_or(answer), false))
    }

    /// In how many seconds a report is to be removed because of its age, by the clock now.
    fn next_expiry_s(&mut self) -> Option<u64> {
        let now_s = self.system.now().boottime_ns / 1_000_000_000;
        let seconds = self.store.next_expiry_s()?;
        Some(seconds.max(self.retry_s.saturating_sub(now_s)))
    }

    /// Removes what is too old. A disk that refuses will do so again: it is left alone for a while.
    fn expire(&mut self) {
        self.store.make_room();
        if self.store.next_expiry_s() == Some(0) {
            let now_s = self.system.now().boottime_ns / 1_000_000_000;
            self.retry_s = now_s.saturating_add(RETRY_S);
        }
    }

    fn run(&mut self, job: Job) -> Outcome {
        let store = &mut self.store;
        match job {
            Job::Write(job) => self.write(&job),
            Job::LearnNames(given) => {
                if let Some(line) = boot_names::learn(store, &given) {
                    store.note(line);
                }
                Outcome::Nothing
            }
            Job::SaveLimits(text) => {
                self.save_limits(&text);
                Outcome::Nothing
            }
            Job::Reserve(report) => {
                if let Err(e) = store.reserve(report) {
                    store.note(format!("numbers of reports cannot be reserved: {e}"));
                }
                Outcome::Nothing
            }
            Job::Save { texts, client } => Outcome::Answer {
                client,
                result: save(store, &texts).map(|()| Vec::new()),
            },
            Job::SaveChoices { text, client } => Outcome::Chosen {
                client,
                result: self.save_choices(&text),
            },
            Job::NextUpload {
                client,
                allowed,
                admitted,
            } => self.next_upload(client, &allowed, admitted),
            Job::StillUpload {
                client,
                allowed,
                report,
                kind,
            } => {
                let text = self.text.filter(|(of, _)| *of == report);
                let level = match kind {
                    Kind::Text => text.map(|(_, level)| level),
                    Kind::Trace => Some(Level::Full),
                };
                let may = level.is_some_and(|l| leaving::may(store, &allowed, report, kind, l));
                let line = match may {
                    true => "still",
                    false => "nothing it may not leave any more",
                };
                Outcome::Answer {
                    client,
                    result: Ok(vec![line.to_owned()]),
                }
            }
            Job::Uploaded {
                client,
                report,
                kind,
            } => Outcome::Answer {
                client,
                result: leaving::done(store, report, kind)
                    .map(|()| Vec::new())
                    .map_err(|e| e.to_string()),
            },
            Job::Preview {
                client,
                allowed,
                report,
            } => Outcome::Answer {
                client,
                result: leaving::preview(store, &allowed, report).map_err(|e| missing(report, &e)),
            },
            Job::Enforce {
                allowed,
                of_user,
                client,
            } => self.enforce(&allowed, of_user, client),
            Job::RemoveOfUser { user, client } => self.remove_of_user(user, client),
            Job::List { client } => Outcome::Answer {
                client,
                result: Ok(store.reports().map(|entry| entry.to_json()).collect()),
            },
            Job::Open {
                client,
                allowed,
                report,
            } => match store.open_report(report) {
                Ok((_, entry)) if !allowed.allows(entry) => Outcome::Answer {
                    client,
                    result: Err(format!(
                        "report {report} is not handed out: there is no consent to it now; 'consent show' says what holds"
                    )),
                },
                Ok((file, entry)) => Outcome::Opened {
                    client,
                    file,
                    json: entry.to_json(),
                },
                Err(e) => Outcome::Answer {
                    client,
                    result: Err(missing(report, &e)),
                },
            },
            Job::Context {
                client,
                allowed,
                report,
            } => Outcome::Answer {
                client,
                result: leaving::context_lines(store, &allowed, report)
                    .map_err(|e| missing(report, &e)),
            },
            Job::Remove { client, report } => Outcome::Answer {
                client,
                result: match store.remove_with_group(report) {
                    Ok(()) => Ok(Vec::new()),
                    Err(e) => Err(missing(report, &e)),
                },
            },
            Job::ReadPolicy { client, path } => Outcome::Policy {
                client,
                result: read_policy(&path).map_err(|e| format!("{}: {e}", path.display())),
            },
        }
    }

    /// If the list cannot be saved, the old one must not be found by the next service: it would admit reports again.
    fn save_limits(&mut self, text: &str) {
        let saved = self.store.save_state(LIMITS, text);
        self.are_limits_saved = saved.is_ok();
        if let Err(e) = saved {
            let spoiled = self.store.spoil_state(LIMITS);
            let more = spoiled
                .err()
                .map_or(String::new(), |e| format!(", and stays: {e}"));
            self.store.note(format!(
                "the list of admitted reports cannot be saved, so that no report is written: {e}; the old list is not right any more{more}"
            ));
        }
    }

    /// If the choices cannot be saved, the old ones must not be found by the next service: they may allow more.
    fn save_choices(&mut self, text: &str) -> Result<(), String> {
        let Err(e) = self.store.save_state(CHOICES, text) else {
            return Ok(());
        };
        let spoiled = self.store.spoil_state(CHOICES);
        let stays = spoiled.err();
        let stays = stays.map_or(String::new(), |e| format!(", and the old one stays: {e}"));
        let problem = format!("the choice cannot be saved: {e}{stays}");
        self.store.note(problem.clone());
        Err(problem)
    }

    fn next_upload(&mut self, client: u64, allowed: &Allowed, admitted: Option<Report>) -> Outcome {
        let lost = admitted.is_some() && !self.are_limits_saved;
        let next = match lost {
            true => Err(io::Error::other("the list of uploads could not be saved")),
            false => leaving::next(&mut self.store, allowed, admitted),
        };
        match next {
            Ok(Next::Item(item, text)) => {
                self.text = text.or(self.text);
                Outcome::Opened {
                    client,
                    file: item.file,
                    json: item.line,
                }
            }
            Ok(Next::Candidates(reports)) => Outcome::Candidates { client, reports },
            Ok(Next::Nothing) => Outcome::Answer {
                client,
                result: Ok(vec!["nothing there is no report to be sent".to_owned()]),
            },
            Err(e) => Outcome::Answer {
                client,
                result: Err(e.to_string()),
            },
        }
    }

    fn enforce(
        &mut self,
        allowed: &Allowed,
        of_user: Option<u32>,
        client: Option<(u64, String)>,
    ) -> Outcome {
        let is_of = |entry: &Entry| {
            let user = entry.uid / UIDS_OF_A_USER;
            of_user.is_none_or(|of_user| !entry.is_unreadable && user == of_user)
        };
        let is_kept = |entry: &Entry| !is_of(entry) || allowed.allows(entry);
        let result = self.store.retain(is_kept, "there is no consent to it");
        match client {
            None => Outcome::Nothing,
            Some((client, line)) => Outcome::Answer {
                client,
                result: result.map(|()| vec![line]),
            },
        }
    }

    fn remove_of_user(&mut self, user: u32, (client, line): (u64, String)) -> Outcome {
        // Nobody knows whose an unreadable one is.
        let is_kept = |entry: &Entry| !entry.is_unreadable && entry.uid / UIDS_OF_A_USER != user;
        let result = self.store.retain(is_kept, "its user was removed");
        let again = |problem| format!("{problem}; the choice is forgotten: say it again for them");
        Outcome::Answer {
            client,
            result: result.map(|()| vec![line]).map_err(again),
        }
    }

    fn write(&mut self, job: &WriteJob) -> Outcome {
        let store = &mut self.store;
        let report = job.report;
        let result = match self.are_limits_saved {
            true => job.run(store, &*self.system).map(|entry| entry.bytes),
            false => Err(PublishError::Contents(
                "the list of admitted reports could not be saved".to_owned(),
            )),
        };
        let (pid, uid) = (job.peer.pid, job.peer.uid);
        let who = format!("report {report} of process {pid}, user {uid}");
        let is_kept = result.is_ok();
        store.note(match result {
            Ok(bytes) => format!("{who}: {bytes} bytes written"),
            Err(e) => format!("{who} is not kept: {e}"),
        });
        Outcome::Written { report, is_kept }
    }
}

fn missing(report: Report, e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no report {report}; 'reports' lists those that there are")
        }
        _ => format!("report {report}: {e}"),
    }
}

/// Reads a short regular file; nothing else, which could wait for ever.
fn read_policy(path: &Path) -> io::Result<String> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() > MAX_STATE_BYTES as u64 {
        let what = format!("no regular file of at most {MAX_STATE_BYTES} bytes");
        return Err(io::Error::other(what));
    }
    let mut text = String::new();
    file.take(MAX_STATE_BYTES as u64)
        .read_to_string(&mut text)?;
    Ok(text)
}
