// SPDX-License-Identifier: Apache-2.0
//! The thread that waits for the disk.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::consent::{Allowed, CHOICES};
use crate::engine::Report;
use crate::os::{System, Waker};
use crate::policy::Level;
use crate::store::{PublishError, Store, MAX_STATE_BYTES};
use crate::upload::Kind;

use super::boot_names::{self, GivenNames};
use super::leaving::{self, Next};
use super::write::WriteJob;

/// Name of the list of admitted reports in the store.
pub const LIMITS: &str = "limits";

/// Something that waits for the disk.
#[derive(Debug)]
pub enum Job {
    /// Write a report.
    Write(Box<WriteJob>),
    /// Keep the names of the boot image that a process gives.
    LearnNames(GivenNames),
    /// Numbers up to this one are used: the next service uses higher ones.
    Reserve(Report),
    /// Save the list of admitted reports. Reports after it are only written if it could be.
    SaveLimits(String),
    /// Save a text under a name.
    Save {
        /// Its name.
        name: &'static str,
        /// The text; `None` removes what was saved.
        text: Option<String>,
        /// The client that waits for it.
        client: u64,
    },
    /// Save the choices about consent, or make sure that none are found.
    SaveChoices {
        /// The text.
        text: String,
        /// The client that waits for it.
        client: u64,
    },
    /// Remove all reports that are not allowed.
    Enforce {
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The client that waits for it, and its answer.
        client: Option<(u64, String)>,
    },
    /// Say what may leave the device next.
    NextUpload {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// This report counts as an upload from now on.
        admitted: Option<Report>,
    },
    /// Say whether a part that was handed out may still leave.
    StillUpload {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// The collector has a part of a report.
    Uploaded {
        /// The client that says so.
        client: u64,
        /// The report.
        report: Report,
        /// The part.
        kind: Kind,
    },
    /// Show what may leave of a report.
    Preview {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
    },
    /// Say which reports there are.
    List {
        /// The client that asks.
        client: u64,
    },
    /// Open a report.
    Open {
        /// The client that asks.
        client: u64,
        /// What is allowed.
        allowed: Box<Allowed>,
        /// The report.
        report: Report,
    },
    /// Remove a report.
    Remove {
        /// The client that asks.
        client: u64,
        /// The report.
        report: Report,
    },
    /// Read a policy file.
    ReadPolicy {
        /// The client that asks.
        client: u64,
        /// Where it is.
        path: PathBuf,
    },
}

/// What came of a job.
#[derive(Debug)]
pub enum Outcome {
    /// Nobody asks.
    Nothing,
    /// Of [`Job::Write`].
    Written {
        /// The report.
        report: Report,
        /// Whether there is one now.
        is_kept: bool,
    },
    /// Of jobs of clients that are answered by text: lines after the first one, or why it failed.
    Answer {
        /// The client.
        client: u64,
        /// What it is told.
        result: Result<Vec<String>, String>,
    },
    /// Of [`Job::SaveChoices`].
    Chosen {
        /// The client.
        client: u64,
        /// Why they are not saved.
        result: Result<(), String>,
    },
    /// Of [`Job::Open`].
    Opened {
        /// The client.
        client: u64,
        /// The trace, and the report as JSON.
        file: File,
        /// The report as JSON.
        json: String,
    },
    /// Of [`Job::NextUpload`]: a report that may leave if it may count as an upload.
    Candidate {
        /// The client.
        client: u64,
        /// The report.
        report: Report,
    },
    /// Of [`Job::ReadPolicy`].
    Policy {
        /// The client.
        client: u64,
        /// The text.
        result: Result<String, String>,
    },
}

/// The end of a job.
#[derive(Debug)]
pub struct Done {
    /// What came of it.
    pub outcome: Outcome,
    /// Lines for the log.
    pub log: Vec<String>,
    /// Reports in the store now.
    pub reports: usize,
    /// Bytes in the store now.
    pub bytes: u64,
    /// Only the store had something to do; no job has ended.
    pub is_by_itself: bool,
}

/// The thread, which has one job at a time.
pub struct Worker {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    is_busy: bool,
}

impl Worker {
    /// Starts the thread; the store is its own from now on. The waker is woken after each job.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn start(store: Store, system: Arc<dyn System>) -> io::Result<Self> {
        let waker = Arc::new(Waker::new()?);
        let (jobs, receiver) = mpsc::sync_channel(1);
        let (sender, done) = mpsc::channel();
        let wakes = Arc::clone(&waker);
        let thread = std::thread::Builder::new()
            .name("hindsightd-disk".to_owned())
            .spawn(move || {
                let are_limits_saved = true;
                let mut disk = Disk {
                    store,
                    system,
                    are_limits_saved,
                    text: None,
                    retry_s: 0,
                };
                while let Some((outcome, is_by_itself)) = disk.next(&receiver) {
                    let store = &mut disk.store;
                    let done = Done {
                        outcome,
                        log: store.take_log(),
                        reports: store.reports().count(),
                        bytes: store.total_bytes(),
                        is_by_itself,
                    };
                    if sender.send(done).is_err() {
                        break;
                    }
                    wakes.wake();
                }
            })?;
        Ok(Worker {
            jobs: Some(jobs),
            done,
            waker,
            thread: Some(thread),
            is_busy: false,
        })
    }

    /// Becomes readable after each job.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether a job has not ended yet.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Gives the thread a job; only while it has none.
    pub fn give(&mut self, job: Job) {
        // There is room for it, as there is no other job; the thread only ends when the channel does.
        self.is_busy = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.try_send(job).is_ok());
    }

    /// The end of a job.
    pub fn take_done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        self.is_busy &= done.is_by_itself;
        Some(done)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Disk {
    store: Store,
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
    /// Waits for a job and does it, or removes what has become too old. `None`: there will be no more jobs.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<(Outcome, bool)> {
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
            Job::Save { name, text, client } => {
                let result = match text {
                    Some(text) => store.save_state(name, &text),
                    None => store.remove_state(name),
                };
                let result = result.map_err(|e| self.not_saved(name, &e));
                Outcome::Answer {
                    client,
                    result: result.map(|()| Vec::new()),
                }
            }
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
            Job::Enforce { allowed, client } => self.enforce(&allowed, client),
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
            Job::Remove { client, report } => Outcome::Answer {
                client,
                result: match store.remove(report) {
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

    /// The policy or the recording switch could not be saved: the next service must not find the old one, which may allow more.
    fn not_saved(&mut self, name: &str, problem: &io::Error) -> String {
        let next = match self.store.spoil_state(name) {
            Ok(()) => "the next start records nothing until it is said again".to_owned(),
            Err(e) => format!("the next start finds the old one, which stays: {e}"),
        };
        let problem = format!("it holds, but could not be saved: {problem}; {next}");
        self.store.note(format!("{name}: {problem}"));
        problem
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
            Ok(Next::Candidate(report)) => Outcome::Candidate { client, report },
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

    fn enforce(&mut self, allowed: &Allowed, client: Option<(u64, String)>) -> Outcome {
        let result = self.store.retain(|entry| allowed.allows(entry));
        match client {
            None => Outcome::Nothing,
            Some((client, line)) => Outcome::Answer {
                client,
                result: result.map(|()| vec![line]),
            },
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

/// The outcome of a job that panicked.
fn failed(job: &Job) -> Outcome {
    let why = || "the service has a bug; its log has more".to_owned();
    match job {
        Job::Write(job) => Outcome::Written {
            report: job.report,
            is_kept: false,
        },
        Job::List { client }
        | Job::Open { client, .. }
        | Job::Remove { client, .. }
        | Job::NextUpload { client, .. }
        | Job::StillUpload { client, .. }
        | Job::Uploaded { client, .. }
        | Job::Preview { client, .. }
        | Job::Save { client, .. } => Outcome::Answer {
            client: *client,
            result: Err(why()),
        },
        Job::ReadPolicy { client, .. } => Outcome::Policy {
            client: *client,
            result: Err(why()),
        },
        Job::SaveChoices { client, .. } => Outcome::Chosen {
            client: *client,
            result: Err(why()),
        },
        Job::Enforce {
            client: Some((client, _)),
            ..
        } => Outcome::Answer {
            client: *client,
            result: Err(why()),
        },
        Job::Reserve(_)
        | Job::LearnNames(_)
        | Job::SaveLimits(_)
        | Job::Enforce { client: None, .. } => Outcome::Nothing,
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
