// SPDX-License-Identifier: Apache-2.0
//! A thread that comes to the foreground is traced only if the configuration selects it, and nobody has stopped it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{
    NanoscopeCommand, Recorder, Ring, SnapshotOutcome, StartReason, TracedThread,
};
use hindsight_trace_format::ring::Geometry;

const PATIENCE: Duration = Duration::from_secs(60);

/// The thread of a test, and the recorder.
struct Subject<'a, 'r> {
    thread: &'a mut Managed<'r>,
    recorder: &'a Recorder,
}

impl Subject<'_, '_> {
    /// Brings the thread to the foreground; returns whether it is traced then.
    fn foreground(&mut self) -> bool {
        let (tid, recorder) = (gettid(), self.recorder);
        self.thread.native(|| {
            recorder.thread_in_foreground(tid);
            // The reply comes after the command before it was executed.
            let outcome = recorder.snapshot(String::new(), 0, PATIENCE);
            assert!(!matches!(outcome, SnapshotOutcome::TimedOut));
        });
        self.thread.is_traced()
    }

    fn trace(&mut self, trace: bool) -> Result<(), String> {
        let (tid, recorder) = (gettid(), self.recorder);
        self.thread
            .native(|| recorder.trace_thread(tid, trace, PATIENCE))
    }

    fn nanoscope(&mut self, command: NanoscopeCommand) -> Result<(), String> {
        let (tid, recorder) = (gettid(), self.recorder);
        self.thread
            .native(|| recorder.nanoscope(tid, command, PATIENCE))
    }
}

fn run(configuration: &str, test: impl FnOnce(&mut Subject<'_, '_>)) {
    let world = Arc::new(World::default());
    let config = common::parse(&format!("{configuration},ring=12,dir=/nonexistent")).unwrap();
    let recorder = Recorder::start(config, Box::new(FakeHost(Arc::clone(&world)))).unwrap();
    Managed::run(&recorder, &world, |thread| {
        test(&mut Subject {
            thread,
            recorder: &recorder,
        });
    });
    recorder.shutdown();
}

#[test]
fn off_means_off() {
    let folder = tempfile::tempdir().unwrap();
    let socket = format!("socket={}/control", folder.path().display());
    // This thread is not the main thread, which `main` selects.
    for configuration in ["trace=off", "nanoscope=yes", &socket, "trace=main"] {
        run(configuration, |subject| {
            assert!(!subject.foreground(), "{configuration}");
            // A thread that somebody has asked for stays traced.
            subject.trace(true).unwrap();
            assert!(subject.foreground(), "{configuration}");
            subject.trace(false).unwrap();
            assert!(!subject.foreground(), "{configuration}");
        });
    }
}

#[test]
fn a_stopped_thread_stays_stopped_until_somebody_asks_for_it() {
    run("trace=all", |subject| {
        assert!(subject.foreground());
        subject.trace(false).unwrap();
        assert!(!subject.foreground());
        subject.trace(true).unwrap();
        assert!(subject.foreground());
    });
}

#[test]
fn a_thread_that_begins_by_itself_during_a_request_keeps_its_right_to_the_ring() {
    let world = Arc::new(World::default());
    let config = common::parse("trace=off,ring=12,dir=/nonexistent").unwrap();
    let recorder = Recorder::start(config, Box::new(FakeHost(Arc::clone(&world)))).unwrap();
    Managed::run(&recorder, &world, |thread| {
        let state = std::ptr::from_ref(thread.state()) as usize;
        // As a thread that registers meanwhile, and that the configuration selects.
        *world.before_safepoint.lock().unwrap() = Some(Box::new(move |_| {
            let ring = Ring::new(Geometry::new(12).unwrap()).unwrap();
            // SAFETY: the thread is registered, and waits in native code.
            let state = unsafe { &*(state as *const TracedThread) };
            // SAFETY: the thread waits in native code.
            assert!(unsafe { state.begin(ring, StartReason::Configuration) }.is_ok());
        }));
        let tid = gettid();
        let mut request = || thread.native(|| recorder.trace_thread(tid, true, PATIENCE));
        let message = format!("thread {tid} is traced already");
        assert_eq!(request(), Err(message));
        // With the right to its ring, it is only marked as wanted.
        assert_eq!(request(), Ok(()));
    });
    recorder.shutdown();
}

#[test]
fn nanoscope_changes_nothing_about_the_foreground() {
    let folder = tempfile::tempdir().unwrap();
    let stop = NanoscopeCommand::Stop(folder.path().join("out.hindsight"));
    run("trace=all", |subject| {
        subject.trace(false).unwrap();
        subject.nanoscope(NanoscopeCommand::Start).unwrap();
        subject.nanoscope(stop.clone()).unwrap();
        assert!(!subject.foreground(), "stopped before");
        subject.trace(true).unwrap();
        subject.nanoscope(NanoscopeCommand::Start).unwrap();
        subject.nanoscope(stop).unwrap();
        assert!(subject.foreground());
    });
}
