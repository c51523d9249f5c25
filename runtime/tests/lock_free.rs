// SPDX-License-Identifier: Apache-2.0
//! Starts and stops by the lock-free protocol: by the thread itself, on its behalf, and at a safepoint after all.
#![cfg(all(feature = "lock-free", not(miri)))]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, Severity};

const PATIENCE: Duration = Duration::from_secs(60);
const METHOD: u64 = 0x10_0000;

fn start(world: &Arc<World>) -> Recorder {
    let config = common::parse("trace=all,ring=14,protocol=lock-free").unwrap();
    Recorder::start(config, Box::new(FakeHost(Arc::clone(world)))).unwrap()
}

/// Ends the work of a test's thread, also when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a managed thread, and meanwhile stops and starts tracing it from outside. Returns the number of times
/// that it was brought to a safepoint.
fn stop_and_start(
    world: &Arc<World>,
    work: impl Fn(&mut Managed<'_>, &AtomicBool) + Sync,
) -> usize {
    stop_and_start_with(world, || (), work)
}

/// As `stop_and_start`; calls `once_stopped` after the first stop.
fn stop_and_start_with(
    world: &Arc<World>,
    once_stopped: impl Fn(),
    work: impl Fn(&mut Managed<'_>, &AtomicBool) + Sync,
) -> usize {
    let recorder = start(world);
    let over = AtomicBool::new(false);
    let (ready, is_ready) = mpsc::channel();
    let safepoints = std::thread::scope(|scope| {
        let _over = Over(&over);
        scope.spawn(|| {
            Managed::run(&recorder, world, |thread| {
                ready.send(gettid()).unwrap();
                work(thread, &over);
            });
        });
        let tid = is_ready.recv().unwrap();
        recorder.trace_thread(tid, false, PATIENCE).unwrap();
        once_stopped();
        recorder.trace_thread(tid, true, PATIENCE).unwrap();
        recorder.trace_thread(tid, false, PATIENCE).unwrap();
        let again = recorder.trace_thread(tid, false, PATIENCE).unwrap_err();
        assert_eq!(again, format!("thread {tid} is not traced"));
        world.safepoints.load(Ordering::Relaxed)
    });
    recorder.shutdown();
    assert!(!world.logged(Severity::Error, ""));
    safepoints
}

#[test]
fn a_thread_that_records_stops_itself() {
    let safepoints = stop_and_start(&Arc::default(), |thread, over| {
        while !over.load(Ordering::Relaxed) {
            thread.enter(METHOD);
            thread.exit();
        }
    });
    assert_eq!(safepoints, 0);
}

#[test]
fn a_thread_in_native_code_is_stopped_on_its_behalf() {
    let safepoints = stop_and_start(&Arc::default(), |thread, over| {
        thread.native(|| {
            while !over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        assert!(!thread.is_traced());
        thread.enter(METHOD);
        thread.exit();
    });
    assert_eq!(safepoints, 0);
}

#[test]
fn a_thread_without_trace_points_is_stopped_at_a_safepoint() {
    let safepoints = stop_and_start(&Arc::default(), |thread, over| {
        while !over.load(Ordering::Relaxed) {
            thread.safepoint();
        }
    });
    assert_eq!(safepoints, 2);
}

#[test]
fn a_host_that_cannot_do_without_safepoints_has_them() {
    let world = Arc::new(World::default());
    world.needs_safepoints.store(true, Ordering::Relaxed);
    let safepoints = stop_and_start(&world, |thread, over| {
        while !over.load(Ordering::Relaxed) {
            thread.enter(METHOD);
            thread.exit();
            thread.safepoint();
        }
    });
    assert_eq!(safepoints, 3);
    assert!(world.logged(
        Severity::Warning,
        "threads stop at checkpoints: the test does not want it"
    ));
}

#[test]
fn an_obstacle_that_turns_up_later_counts_from_then_on() {
    let world = Arc::new(World::default());
    let obstruct = || world.needs_safepoints.store(true, Ordering::Relaxed);
    let safepoints = stop_and_start_with(&world, obstruct, |thread, over| {
        while !over.load(Ordering::Relaxed) {
            thread.enter(METHOD);
            thread.exit();
            thread.safepoint();
        }
    });
    assert_eq!(safepoints, 2);
}
