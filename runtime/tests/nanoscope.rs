// SPDX-License-Identifier: Apache-2.0
//! Nanoscope's two interfaces.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{thread_name_command, NanoscopeCommand, Recorder};
use hindsight_trace_format::container::Reader;

const PATIENCE: Duration = Duration::from_secs(60);

fn start(configuration: &str) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let config = common::parse(configuration).unwrap();
    (Recorder::start(config, host).unwrap(), world)
}

/// The thread ids in the file, and the methods entered on the first of them.
fn read(path: &std::path::Path) -> (Vec<u32>, Vec<u64>) {
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let rings: Vec<_> = reader
        .ring_indices()
        .map(|i| reader.ring(i).unwrap().unwrap())
        .collect();
    let mut methods: Vec<u64> = rings[0]
        .slots()
        .events()
        .filter_map(|e| e.entered_method())
        .collect();
    methods.reverse();
    (rings.iter().map(|r| r.header.tid).collect(), methods)
}

/// Renames the thread as `Thread.setName` does. Returns the reply, and whether the thread is traced then.
fn rename(thread: &mut Managed<'_>, recorder: &Recorder, name: &str) -> (Result<(), String>, bool) {
    let command = thread_name_command(name).unwrap();
    let done = thread.native(|| recorder.nanoscope(gettid(), command, PATIENCE));
    (done, thread.is_traced())
}

#[test]
fn a_thread_asks_by_its_name_and_gets_its_own_trace_only() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start("trace=off,ring=12,max-rings=4");
    let path = folder.path().join("out.hindsight");
    std::thread::scope(|scope| {
        let (recorder, world) = (&recorder, &*world);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let (done, is_done) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            Managed::run(recorder, world, |thread| {
                thread
                    .native(|| recorder.nanoscope(gettid(), NanoscopeCommand::Start, PATIENCE))
                    .unwrap();
                thread.enter(0x9000);
                ready.send(()).unwrap();
                let _ = thread.native(|| is_done.recv());
                assert!(thread.is_traced(), "others are not stopped");
            });
        });
        is_ready.recv().unwrap();
        Managed::run(recorder, world, |thread| {
            assert_eq!(rename(thread, recorder, "START_TRACING"), (Ok(()), true));
            thread.enter(0x1000);
            thread.exit();
            let stop = format!("STOP_TRACING:{}", path.display());
            assert_eq!(rename(thread, recorder, &stop), (Ok(()), false));
            assert_eq!(read(&path), (vec![gettid()], vec![0x1000]));
            let again = format!("thread {} is not traced", gettid());
            assert_eq!(rename(thread, recorder, &stop), (Err(again), false));
        });
        drop(done);
    });
}

#[test]
fn a_thread_asks_for_itself() {
    let (recorder, world) = start("trace=off,ring=12");
    Managed::run(&recorder, &world, |thread| {
        let tid = gettid();
        let mut ask = |trace| thread.native(|| recorder.trace_thread(tid, trace, PATIENCE));
        assert_eq!(ask(false), Err(format!("thread {tid} is not traced")));
        assert_eq!((ask(true), ask(true)), (Ok(()), Ok(())));
        assert_eq!(ask(false), Ok(()));
        assert!(!thread.is_traced());
    });
    recorder.shutdown();
    let late = recorder.trace_thread(1, true, PATIENCE);
    assert_eq!(late, Err("tracing was shut down".into()));
}

#[test]
fn a_thread_that_was_traced_anyway_goes_on_being_traced() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start("trace=all,ring=12");
    let path = folder.path().join("out.hindsight");
    Managed::run(&recorder, &world, |thread| {
        let mut ask = |command| thread.native(|| recorder.nanoscope(gettid(), command, PATIENCE));
        ask(NanoscopeCommand::Start).unwrap();
        ask(NanoscopeCommand::Stop(path.clone())).unwrap();
        assert!(thread.is_traced());
        let nowhere = NanoscopeCommand::Stop("/nonexistent/x".into());
        let error = thread.native(|| recorder.nanoscope(gettid(), nowhere, PATIENCE));
        assert!(error.unwrap_err().contains("/nonexistent/x"));
        assert!(thread.is_traced());
    });
}
