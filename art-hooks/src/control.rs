// SPDX-License-Identifier: Apache-2.0
//! The process's one recorder, with ART as its host.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::Duration;

use hindsight_runtime::config::Unloading;
use hindsight_runtime::{AnomalyOutcome, Config, Host, Recorder, Severity, StubTable, ThreadWords};

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// How long a Java caller waits for the file of its anomaly.
const ANOMALY_PATIENCE: Duration = Duration::from_secs(30);

/// Writes to the host's log; set by [`start`].
static LOG: OnceLock<fn(Severity, &str)> = OnceLock::new();

fn log(severity: Severity, message: &str) {
    if let Some(log) = LOG.get() {
        log(severity, message);
    }
}

/// Calls `f`; a panic is logged, and the result is then `fallback`. A panic that reached C++ would end the app.
pub(crate) fn guarded<T>(what: &str, fallback: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        let message = format!("internal error in {what}; please report it");
        log(Severity::Error, &message);
        fallback
    })
}

/// Starts the recorder as configured. Returns false if the configuration traces nothing or, with a line in the log, if
/// the process cannot be traced. `obstacle` is the host's reason why it cannot, or empty.
pub(crate) fn start(
    configuration: &str,
    stubs: StubTable,
    obstacle: &str,
    host: Box<dyn Host>,
    log: fn(Severity, &str),
) -> bool {
    LOG.get_or_init(|| log);
    let refuse = |reason: &str| {
        log(Severity::Error, &format!("not tracing: {reason}"));
        false
    };
    guarded("start", false, || {
        hindsight_runtime::set_stubs(stubs);
        let config = match Config::parse(configuration) {
            Ok(config) => config,
            Err(e) => {
                return refuse(&format!(
                    "the configuration '{configuration}' is wrong: {e}"
                ))
            }
        };
        if config.is_off() {
            return false;
        }
        if !obstacle.is_empty() {
            return refuse(obstacle);
        }
        if config.unloading != Unloading::Journal {
            // Loaders are unloaded in the middle of a garbage collection, which cannot wait for threads
            // to reach a safepoint.
            return refuse("of unload=, ART can only do journal");
        }
        match Recorder::start(config, host) {
            Ok(recorder) => RECORDER.set(recorder).is_ok(),
            Err(e) => refuse(&e.to_string()),
        }
    })
}

pub(crate) fn shutdown() {
    with_recorder("shutdown", (), Recorder::shutdown);
}

pub(crate) fn thread_started(tid: u32, name: &str, words: usize) {
    with_recorder("thread_started", (), |recorder| {
        // SAFETY: ART's hook passes the calling thread's own words.
        unsafe { recorder.thread_started(tid, name, words as *const ThreadWords) };
    });
}

pub(crate) fn thread_exiting(words: usize) {
    with_recorder("thread_exiting", (), |recorder| {
        // SAFETY: as above.
        unsafe { recorder.thread_exiting(words as *const ThreadWords) }
    });
}

pub(crate) fn thread_renamed(tid: u32, name: &str) {
    with_recorder("thread_renamed", (), |recorder| {
        recorder.thread_renamed(tid, name)
    });
}

pub(crate) fn class_loader_unloading(loader: usize) {
    with_recorder("class_loader_unloading", (), |recorder| {
        // The journal, which `start` insists on, never waits.
        recorder.loader_unloading(loader, Duration::ZERO);
    });
}

pub(crate) fn thread_woken(tid: u32, waker: u32) {
    with_recorder("thread_woken", (), |recorder| {
        recorder.thread_woken(tid, waker);
    });
}

pub(crate) fn thread_in_foreground(tid: u32) {
    with_recorder("thread_in_foreground", (), |recorder| {
        recorder.thread_in_foreground(tid);
    });
}

pub(crate) fn thread_name_command(tid: u32, name: &str) -> bool {
    let Some(command) = hindsight_runtime::nanoscope::thread_name_command(name) else {
        return false;
    };
    with_recorder("thread_name_command", false, |recorder| {
        if let Err(e) = recorder.nanoscope(tid, command, ANOMALY_PATIENCE) {
            log(Severity::Error, &format!("{name}: {e}"));
        }
        true
    })
}

pub(crate) fn trace_thread(tid: u32, trace: bool) -> bool {
    with_recorder("trace_thread", false, |recorder| {
        let done = recorder.trace_thread(tid, trace, ANOMALY_PATIENCE);
        if let Err(e) = &done {
            log(Severity::Warning, e);
        }
        done.is_ok()
    })
}

/// Persists the rings; the path of the file, or nothing (the log says why).
pub(crate) fn raise_anomaly(reason: String, tid: u32) -> String {
    with_recorder("raise_anomaly", String::new(), |recorder| {
        match recorder.raise_anomaly(reason, tid, ANOMALY_PATIENCE) {
            AnomalyOutcome::Persisted(path) => path.to_string_lossy().into_owned(),
            AnomalyOutcome::Failed(_) => String::new(),
            AnomalyOutcome::TimedOut => {
                let message = "the control thread is busy; the trace may still appear";
                log(Severity::Warning, message);
                String::new()
            }
        }
    })
}

fn with_recorder<T>(what: &str, fallback: T, f: impl FnOnce(&Recorder) -> T) -> T {
    match RECORDER.get() {
        Some(recorder) => guarded(what, fallback, || f(recorder)),
        None => fallback,
    }
}
