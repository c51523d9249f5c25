// SPDX-License-Identifier: Apache-2.0
//! What a process may write, and what follows from starts that fail.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{FakeHost, Managed, World};
use hindsight_runtime::{NanoscopeCommand, Recorder, Severity, SnapshotOutcome};
use hindsight_trace_format::container::Reader;

const PATIENCE: Duration = Duration::from_secs(60);

fn start(configuration: &str) -> (std::io::Result<Recorder>, Arc<World>) {
    let world = Arc::new(World::default());
    let config = common::parse(configuration).unwrap();
    let recorder = Recorder::start(config, Box::new(FakeHost(Arc::clone(&world))));
    (recorder, world)
}

fn ask(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{command}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

fn names(folder: &Path, extension: &str) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(extension))
        .collect();
    names.sort();
    names
}

#[test]
fn a_program_that_triggers_too_many_snapshots_is_refused_and_a_user_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let configuration = format!(
        "trace=all,ring=12,snapshot-interval=86400,max-files=3,dir={},socket={}",
        folder.path().display(),
        socket.display()
    );
    let (recorder, world) = start(&configuration);
    let recorder = recorder.unwrap();
    Managed::run(&recorder, &world, |thread| {
        thread.enter(0x10_0000);
        thread.native(|| {
            let snapshot = || recorder.snapshot("program".into(), 0, PATIENCE);
            let outcomes: Vec<_> = (0..10).map(|_| snapshot()).collect();
            let is_written =
                |outcome: &&SnapshotOutcome| matches!(outcome, SnapshotOutcome::Written(_));
            assert_eq!(outcomes.iter().filter(is_written).count(), 8);
            let SnapshotOutcome::Failed(message) = &outcomes[9] else {
                panic!("{outcomes:?}");
            };
            assert!(message.contains("snapshot-interval"), "{message}");
            assert!(world.logged(Severity::Warning, "the program has triggered too many"));
            let answer = ask(&socket, "snapshot user");
            assert!(answer.starts_with("ok "), "{answer}");
        });
    });
    assert_eq!(names(folder.path(), ".hindsight").len(), 3);
    recorder.shutdown();
    // The snapshots of this process count for the next one, too: three are left.
    let (recorder, world) = start(&configuration);
    let recorder = recorder.unwrap();
    Managed::run(&recorder, &world, |thread| {
        thread.enter(0x10_0000);
        thread.native(|| {
            let snapshot = || recorder.snapshot("program".into(), 0, PATIENCE);
            let written = (0..10).filter(|_| matches!(snapshot(), SnapshotOutcome::Written(_)));
            assert_eq!(written.count(), 5);
        });
    });
    recorder.shutdown();
}

#[test]
fn a_snapshot_larger_than_the_limit_is_refused_and_its_rings_stay() {
    const CALLS: usize = 1 << 17;
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "trace=all,ring=21,max-mib=1,snapshot-interval=86400,dir={}",
        folder.path().display()
    );
    let (recorder, world) = start(&configuration);
    let recorder = recorder.unwrap();
    Managed::run(&recorder, &world, |thread| {
        for _ in 0..CALLS - 100 {
            thread.enter(0x10_0000);
            thread.exit();
        }
        // A snapshot that is refused does not count for `snapshot-interval`.
        for _ in 0..10 {
            let outcome = thread.native(|| recorder.snapshot("x".into(), 0, PATIENCE));
            let SnapshotOutcome::Failed(message) = outcome else {
                panic!("{outcome:?}");
            };
            assert!(message.contains("max-mib=1"), "{message}");
        }
        assert!(thread.is_traced());
        assert!(names(folder.path(), ".hindsight").is_empty());
        let path = folder.path().join("named");
        let stop = NanoscopeCommand::Stop(path.clone());
        thread
            .native(|| recorder.nanoscope(common::gettid(), stop, PATIENCE))
            .unwrap();
        assert_eq!(entries(&path), CALLS - 100);
    });
    recorder.shutdown();
}

/// The entries on the first thread of the file.
fn entries(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let ring = reader.ring(0).unwrap().unwrap();
    let events = ring.slots().events();
    events.filter_map(|e| e.entered_method()).count()
}

#[test]
fn without_free_space_nothing_is_taken_from_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "trace=off,ring=12,min-free-mib={},snapshot-interval=86400,dir={}",
        1 << 20,
        folder.path().display()
    );
    let (recorder, world) = start(&configuration);
    let recorder = recorder.unwrap();
    Managed::run(&recorder, &world, |thread| {
        let tid = common::gettid();
        let ask = |command| recorder.nanoscope(tid, command, PATIENCE);
        thread.native(|| ask(NanoscopeCommand::Start)).unwrap();
        thread.enter(0x10_0000);
        for _ in 0..10 {
            let stop = NanoscopeCommand::Stop(folder.path().join("named"));
            let refused = thread.native(|| ask(stop)).unwrap_err();
            assert!(refused.contains("min-free-mib"), "{refused}");
            assert!(thread.is_traced());
        }
    });
    recorder.shutdown();
}

/// The property is about the main thread. The harness has its own, so a child process forks: what forks is the main thread there.
#[test]
fn without_free_space_the_property_can_be_emptied_again() {
    const CHILD: &str = "HINDSIGHT_TEST_FORKS";
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "--nocapture",
            "without_free_space_the_property_can_be_emptied_again",
        ]);
        let output = child.env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    // SAFETY: no recorder and no other test runs in this process.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = std::panic::catch_unwind(empty_the_property_again);
        // SAFETY: no precondition.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}

fn empty_the_property_again() {
    assert_eq!(common::gettid(), std::process::id(), "the main thread");
    for trace in ["off", "all"] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let (recorder, world) = start(&format!(
            "trace={trace},ring=12,min-free-mib={},dir={},socket={}",
            1 << 20,
            folder.path().display(),
            socket.display()
        ));
        let recorder = recorder.unwrap();
        Managed::run(&recorder, &world, |thread| {
            let set = |value: &str| ask(&socket, &format!("property dev.nanoscope={value}"));
            assert_eq!(thread.native(|| set("test:named")), "ok\n");
            thread.enter(0x10_0000);
            for _ in 0..3 {
                let refused = thread.native(|| set(""));
                assert!(refused.contains("min-free-mib"), "{trace}: {refused}");
                assert!(thread.is_traced());
            }
        });
        recorder.shutdown();
    }
}

/// Each process that this test starts runs the same test, because the name of its thread is a part of the file's.
#[test]
fn after_starts_that_failed_tracing_is_off_until_a_user_wants_it() {
    const CONFIGURATION: &str = "HINDSIGHT_TEST_CONFIGURATION";
    if let Ok(configuration) = std::env::var(CONFIGURATION) {
        let started = start(&configuration).0.is_ok();
        // As after a crash: without the end of the recorder.
        // SAFETY: no precondition.
        unsafe { libc::_exit(i32::from(!started)) };
    }
    for with_socket in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let mut configuration = format!(
            "trace=all,ring=12,max-failed-starts=2,dir={}",
            folder.path().display()
        );
        if with_socket {
            configuration += &format!(",socket={}", socket.display());
        }
        for _ in 0..2 {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args([
                "--exact",
                "after_starts_that_failed_tracing_is_off_until_a_user_wants_it",
            ]);
            let status = child.env(CONFIGURATION, &configuration).status();
            assert_eq!(status.unwrap().code(), Some(0));
        }
        let files = names(folder.path(), ".starts");
        assert_eq!(files.len(), 1);
        let (recorder, world) = start(&configuration);
        if with_socket {
            let recorder = recorder.unwrap();
            assert!(world.logged(Severity::Error, "tracing has switched itself off"));
            Managed::run(&recorder, &world, |thread| assert!(!thread.is_traced()));
            let status = ask(&socket, "status");
            let expected = r#""failed_starts":2,"switched_off":true"#;
            assert!(status.contains(expected), "{status}");
            recorder.shutdown();
        } else {
            let error = recorder.err().unwrap().to_string();
            assert!(
                error.contains(&files[0]) && error.contains("remove"),
                "{error}"
            );
        }
        std::fs::remove_file(folder.path().join(&files[0])).unwrap();
        let (recorder, world) = start(&configuration);
        let recorder = recorder.unwrap();
        Managed::run(&recorder, &world, |thread| assert!(thread.is_traced()));
        assert_eq!(names(folder.path(), ".starts"), files);
        recorder.shutdown();
        assert!(names(folder.path(), ".starts").is_empty());
    }
}
