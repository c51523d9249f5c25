// SPDX-License-Identifier: Apache-2.0
//! The service is asked to record, until the time is over or somebody ends it.

use std::io::{self, BufRead as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_control::{Device, DeviceError, ProcessReport};
use serde_json::Value;
use signal_hook::consts::SIGINT;

/// What is recorded, and for how long.
pub(super) struct Plan<'a> {
    pub(super) device: &'a Device,
    pub(super) package: &'a str,
    pub(super) time: Duration,
    /// The time counts from when a process of the package is there; until then no more than this passes.
    pub(super) wait: Option<Duration>,
}

/// Whether the user has ended the recording: by Ctrl-C, or by Enter.
pub(super) struct Early(Arc<AtomicBool>);

impl Early {
    /// Ctrl-C ends the recording; a second time, the program. `by_enter`: a line on standard input ends it, too.
    pub(super) fn new(by_enter: bool) -> Result<Self> {
        let is_ended = Arc::new(AtomicBool::new(false));
        let flag = || Arc::clone(&is_ended);
        let registered = signal_hook::flag::register_conditional_default(SIGINT, flag())
            .and_then(|_| signal_hook::flag::register(SIGINT, flag()));
        registered.context("Ctrl-C cannot be handled")?;
        if by_enter {
            let is_ended = flag();
            // It waits for a line as long as the program runs.
            std::thread::spawn(move || {
                if io::stdin().lock().read_line(&mut String::new()).is_ok() {
                    is_ended.store(true, Ordering::Relaxed);
                }
            });
        }
        Ok(Early(is_ended))
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the service says at the end of a recording.
type Answer = Result<Vec<ProcessReport>, DeviceError>;

/// Asks the service to record, and calls `begun` once it does. Returns its answer. A service that ends meanwhile, and is started
/// again, is asked for the rest of the time.
pub(super) fn record(
    plan: &Plan<'_>,
    early: &Early,
    begun: impl FnOnce() -> Result<()>,
) -> Result<Vec<ProcessReport>> {
    /// The service is back within this time, or not at all.
    const BACK: Duration = Duration::from_secs(60);
    let most = plan.wait.unwrap_or(plan.time);
    let end = Instant::now() + most;
    let mut begun = Some(begun);
    let mut lost_at = None;
    // When the time is over, once it counts.
    let mut over_at = None;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = (left.as_secs_f64().ceil() as u64).clamp(1, most.as_secs());
        let asked_at = Instant::now();
        let (sender, answer) = mpsc::channel();
        let (asked, name) = (plan.device.clone(), plan.package.to_owned());
        std::thread::spawn(move || {
            let answer = asked.ask_for_reports(&format!("record {name} {left}"), left);
            // The receiver is gone after an error.
            let _ = sender.send(answer);
        });
        let mut answered = None;
        if begun.is_some() {
            answered = wait_until_begun(plan, &answer)?;
        }
        if answered.is_none() {
            if let Some(begun) = begun.take() {
                begun()?;
            }
        }
        let answered = match answered {
            Some(answer) => answer,
            None => wait_for_end(plan, early, &mut over_at, &answer)?,
        };
        if asked_at.elapsed() > BACK / 10 {
            // It was there meanwhile.
            lost_at = None;
        }
        match answered {
            Err(DeviceError::NoAnswer { .. })
                if begun.is_none() && lost_at.get_or_insert_with(Instant::now).elapsed() < BACK =>
            {
                anstream::eprintln!("note: the service does not answer; it is asked again");
                std::thread::sleep(Duration::from_millis(500));
            }
            Err(DeviceError::Refused(message)) => bail!(message),
            answer => return Ok(answer?),
        }
    }
}

/// Waits until the service's status has the recording, or the answer is there.
fn wait_until_begun(plan: &Plan<'_>, answer: &Receiver<Answer>) -> Result<Option<Answer>> {
    loop {
        if let Some(answer) = try_answer(answer, Duration::from_millis(20))? {
            return Ok(Some(answer));
        }
        let status = status(plan.device);
        let recordings = status["engine"]["recordings"].as_array();
        if recordings.is_some_and(|all| all.iter().any(|r| r["package"] == plan.package)) {
            return Ok(None);
        }
    }
}

/// Waits for the answer. Says when the recording is over, if the service does not know.
fn wait_for_end(
    plan: &Plan<'_>,
    early: &Early,
    over_at: &mut Option<Instant>,
    answer: &Receiver<Answer>,
) -> Result<Answer> {
    loop {
        if let Some(answer) = try_answer(answer, Duration::from_millis(100))? {
            return Ok(answer);
        }
        if plan.wait.is_some() && over_at.is_none() && has_process(plan.device, plan.package) {
            *over_at = Some(Instant::now() + plan.time);
        }
        if early.is_asked() || over_at.is_some_and(|at| at <= Instant::now()) {
            let ended = plan
                .device
                .ask(&format!("record {} end", plan.package), "", 0);
            if let Err(DeviceError::Refused(message)) = ended {
                // If it has just ended, the answer is on its way.
                anstream::eprintln!("note: the recording goes on to its end: {message}");
            }
            return Ok(answer.recv()?);
        }
    }
}

fn try_answer(answer: &Receiver<Answer>, patience: Duration) -> Result<Option<Answer>> {
    match answer.recv_timeout(patience) {
        Ok(answer) => Ok(Some(answer)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => bail!("the service was not asked"),
    }
}

/// Waits until the service knows no process of the app any more. A service that does not answer is noticed later.
pub(super) fn wait_until_ended(device: &Device, package: &str) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let begin = Instant::now();
    while let Some(pid) = process(device, package) {
        ensure!(
            begin.elapsed() < PATIENCE,
            "process {pid} of {package} does not end: 'adb shell am force-stop {package}' should end it; without --restart it is recorded as it is"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// A process of the package that the service knows and that has not ended: its id.
fn process(device: &Device, package: &str) -> Option<Value> {
    let status = status(device);
    let processes = status["engine"]["processes"].as_array();
    let is_of_app = |process: &&Value| {
        let name = process["name"].as_str().unwrap_or("");
        let rest = name.strip_prefix(package);
        let is_app = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        // Of an ended one, a report is written; it cannot be recorded.
        is_app && process["connection"] != "ended"
    };
    let process = processes.and_then(|all| all.iter().find(is_of_app))?;
    Some(process["pid"].clone())
}

fn has_process(device: &Device, package: &str) -> bool {
    process(device, package).is_some()
}

/// The service's status; null if there is no answer.
fn status(device: &Device) -> Value {
    let status = device.ask("status", "", 0).unwrap_or_default();
    let status = status
        .first()
        .and_then(|line| serde_json::from_str(line).ok());
    status.unwrap_or_default()
}
