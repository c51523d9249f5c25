// SPDX-License-Identifier: Apache-2.0
//! The process's one recorder, with ART as its host.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;
use std::time::Duration;

use hindsight_runtime::{
    Config, Host, ProcessIdentity, Recorder, Severity, SnapshotOutcome, StubTable, Stubs,
    ThreadWords,
};
use hindsight_trace_format::container::Symbol;

use crate::bridge::ffi;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// How long a Java caller waits for the control thread.
const CALLER_PATIENCE: Duration = Duration::from_secs(30);

/// Calls `f`; a panic is logged, and the result is then `fallback`. A panic that reached C++ would end
/// the app.
fn guarded<T>(what: &str, fallback: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        ffi::Log(3, &format!("internal error in {what}; please report it"));
        fallback
    })
}

/// What the control thread wants done at a safepoint.
pub(crate) struct SafepointRequest<'a> {
    action: &'a mut (dyn FnMut() + Send),
}

impl SafepointRequest<'_> {
    pub(crate) fn run(&mut self) {
        guarded("a safepoint request", (), || (self.action)());
    }
}

/// Where ART puts the names of methods.
pub(crate) struct SymbolSink<'a> {
    named: &'a mut dyn FnMut(Symbol),
}

impl SymbolSink<'_> {
    pub(crate) fn add(&mut self, method: &ffi::MethodName<'_>) {
        guarded("naming a method", (), || {
            (self.named)(Symbol {
                address: method.address,
                valid_from: 0,
                class: method.class_name.to_owned(),
                name: method.name.to_owned(),
                signature: method.signature.to_owned(),
                source_file: method.source_file.to_owned(),
                dex_checksum: method.dex_checksum,
                dex_method_index: method.dex_method_index,
            });
        });
    }
}

/// ART, as the recorder sees it.
struct Art;

impl Host for Art {
    fn attach_control_thread(&self) -> bool {
        ffi::AttachControlThread()
    }

    fn detach_control_thread(&self) {
        ffi::DetachControlThread();
    }

    fn run_at_safepoint(&self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool {
        ffi::RunAtSafepoint(tid, &mut SafepointRequest { action })
    }

    fn runs_managed_code(&self, words: *const ThreadWords) -> bool {
        ffi::RunsManagedCode(words as usize)
    }

    fn obstacle_to_lock_free(&self) -> Option<&'static str> {
        Some(ffi::ObstacleToLockFree()).filter(|obstacle| !obstacle.is_empty())
    }

    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol)) {
        ffi::Symbolize(addresses, &mut SymbolSink { named });
    }

    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        ffi::NameMethodsOfLoader(loader, &mut SymbolSink { named });
    }

    fn identity(&self) -> ProcessIdentity {
        ProcessIdentity {
            name: ffi::ProcessName(),
            extra: vec![("art.release".into(), ffi::ArtRelease())],
        }
    }

    fn log(&self, severity: Severity, message: &str) {
        let severity = match severity {
            Severity::Debug => 0,
            Severity::Info => 1,
            Severity::Warning => 2,
            Severity::Error => 3,
        };
        ffi::Log(severity, message);
    }
}

/// Starts the recorder as configured; false if there is nothing to trace, or it cannot be.
pub(crate) fn start(configuration: &str, stubs: &ffi::StubTable) -> bool {
    guarded("start", false, || {
        let from_bridge = |stubs: &ffi::Stubs| Stubs {
            exit: stubs.exit,
            leaf_entry: stubs.leaf_entry,
            entry: stubs.entry,
        };
        hindsight_runtime::set_stubs(StubTable {
            recording: from_bridge(&stubs.recording),
            slow_path: from_bridge(&stubs.slow_path),
            entry_slot: stubs.entry_slot,
        });
        let config = match Config::parse(configuration) {
            Ok(config) => config,
            Err(e) => {
                ffi::Log(
                    3,
                    &format!("not tracing, the configuration '{configuration}' is wrong: {e}"),
                );
                return false;
            }
        };
        if config.is_off() {
            return false;
        }
        match Recorder::start(config, Box::new(Art)) {
            Ok(recorder) => RECORDER.set(recorder).is_ok(),
            Err(e) => {
                ffi::Log(3, &format!("not tracing: {e}"));
                false
            }
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
        recorder.loader_unloading(loader);
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
    let Some(command) = hindsight_runtime::thread_name_command(name) else {
        return false;
    };
    with_recorder("thread_name_command", false, |recorder| {
        if let Err(e) = recorder.nanoscope(tid, command, CALLER_PATIENCE) {
            ffi::Log(3, &format!("{name}: {e}"));
        }
        true
    })
}

pub(crate) fn trace_thread(tid: u32, trace: bool) -> bool {
    with_recorder("trace_thread", false, |recorder| {
        let done = recorder.trace_thread(tid, trace, CALLER_PATIENCE);
        if let Err(e) = &done {
            ffi::Log(2, e);
        }
        done.is_ok()
    })
}

/// Writes the rings of all threads to a file. Returns its path, or an empty string: then the log says why.
pub(crate) fn snapshot(reason: String, tid: u32) -> String {
    with_recorder("snapshot", String::new(), |recorder| {
        match recorder.snapshot(reason, tid, CALLER_PATIENCE) {
            SnapshotOutcome::Written(path) => path.to_string_lossy().into_owned(),
            SnapshotOutcome::Failed(_) => String::new(),
            SnapshotOutcome::TimedOut => {
                ffi::Log(
                    2,
                    "the control thread is busy; the snapshot may still appear",
                );
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
