// SPDX-License-Identifier: Apache-2.0
//! The process's recorder.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::Duration;

use hindsight_runtime::{
    Config, Host, Recorder, Severity, SnapshotOutcome, StubTable, ThreadWords,
};

use crate::modified_utf8::decode;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// How long a Java caller waits for the control thread.
const CALLER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a thread that ends by an exception waits for its snapshot.
const CRASH_TIMEOUT: Duration = Duration::from_secs(5);

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

/// Starts the recorder as configured by this line of UTF-8. Returns false if the configuration traces nothing or, with a line in the log, if
/// the process cannot be traced. `obstacle` is the host's reason why it cannot, or empty.
pub(crate) fn start(
    configuration: &[u8],
    stubs: StubTable,
    obstacle: &str,
    host: Box<dyn Host>,
    log: fn(Severity, &str),
) -> bool {
    LOG.get_or_init(|| log);
    hindsight_runtime::log_panics(log);
    let refuse = |reason: &str| {
        log(Severity::Error, &format!("not tracing: {reason}"));
        false
    };
    guarded("start", false, || {
        hindsight_runtime::set_stubs(stubs);
        let configuration = String::from_utf8_lossy(configuration);
        let config = match Config::parse(&configuration) {
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
        match Recorder::start(config, host) {
            Ok(recorder) => RECORDER.set(recorder).is_ok(),
            Err(e) => refuse(&e.to_string()),
        }
    })
}

pub(crate) fn shutdown() {
    with_recorder("shutdown", (), Recorder::shutdown);
}

pub(crate) fn thread_started(tid: u32, name: &[u8], words: usize) {
    with_recorder("thread_started", (), |recorder| {
        // SAFETY: ART's hook passes the calling thread's own words.
        unsafe { recorder.thread_started(tid, &decode(name), words as *const ThreadWords) };
    });
}

pub(crate) fn thread_exiting(words: usize) {
    with_recorder("thread_exiting", (), |recorder| {
        // SAFETY: ART's hook passes the calling thread's own words.
        unsafe { recorder.thread_exiting(words as *const ThreadWords) }
    });
}

pub(crate) fn thread_renamed(tid: u32, name: &[u8]) {
    with_recorder("thread_renamed", (), |recorder| {
        recorder.thread_renamed(tid, &decode(name));
    });
}

pub(crate) fn register_name(name: &[u8]) -> u32 {
    with_recorder("register_name", 0, |recorder| {
        recorder.register_name(&decode(name))
    })
}

pub(crate) fn class_loader_unloading(loader: usize) {
    with_recorder("class_loader_unloading", (), |recorder| {
        recorder.loader_unloading(loader);
    });
}

pub(crate) fn class_linked(class: usize) {
    with_recorder("class_linked", (), |recorder| {
        recorder.class_linked(class);
    });
}

pub(crate) fn thread_in_foreground(tid: u32) {
    with_recorder("thread_in_foreground", (), |recorder| {
        recorder.thread_in_foreground(tid);
    });
}

pub(crate) fn process_in_background() {
    with_recorder("process_in_background", (), Recorder::process_in_background);
}

pub(crate) fn activities(are_started: bool) {
    with_recorder("activities", (), |recorder| {
        recorder.activities(are_started);
    });
}

pub(crate) fn stacks_wanted() {
    with_recorder("stacks_wanted", (), Recorder::stacks_wanted);
}

pub(crate) fn app_is_known() {
    with_recorder("app_is_known", (), Recorder::app_is_known);
}

pub(crate) fn trim_memory() {
    with_recorder("trim_memory", (), Recorder::trim_memory);
}

pub(crate) fn thread_name_command(tid: u32, name: &[u8]) -> bool {
    with_recorder("thread_name_command", false, |recorder| {
        let name = decode(name);
        let Some(command) = hindsight_runtime::thread_name_command(&name) else {
            return false;
        };
        if let Err(e) = recorder.nanoscope(tid, command, CALLER_TIMEOUT) {
            log(Severity::Error, &format!("{name}: {e}"));
        }
        true
    })
}

pub(crate) fn trace_thread(tid: u32, trace: bool) -> bool {
    with_recorder("trace_thread", false, |recorder| {
        let done = recorder.trace_thread(tid, trace, CALLER_TIMEOUT);
        if let Err(e) = &done {
            log(Severity::Warning, e);
        }
        done.is_ok()
    })
}

/// Writes the rings of all threads to a file. Returns its path, or an empty string: then the log says why.
pub(crate) fn snapshot(reason: &[u8], tid: u32) -> String {
    with_recorder("snapshot", String::new(), |recorder| {
        match recorder.snapshot(decode(reason).into_owned(), tid, CALLER_TIMEOUT) {
            SnapshotOutcome::Written(path) => path.to_string_lossy().into_owned(),
            // The service has been told; whatever comes of it is its own.
            SnapshotOutcome::Reported | SnapshotOutcome::Failed(_) => String::new(),
            SnapshotOutcome::TimedOut => {
                let message = "the control thread is busy; the snapshot may still appear";
                log(Severity::Warning, message);
                String::new()
            }
        }
    })
}

pub(crate) fn crashed(exception: &[u8], tid: u32) {
    with_recorder("crashed", (), |recorder| {
        recorder.crashed(&decode(exception), tid, CRASH_TIMEOUT);
    })
}

fn with_recorder<T>(what: &str, fallback: T, f: impl FnOnce(&Recorder) -> T) -> T {
    match RECORDER.get() {
        Some(recorder) => guarded(what, fallback, || f(recorder)),
        None => fallback,
    }
}
