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
use hindsight_runtime::{Recorder, Severity, SnapshotOutcome};

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
fn a_snapshot_larger_than_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "trace=all,ring=21,max-mib=1,dir={}",
        folder.path().display()
    );
    let (recorder, world) = start(&configuration);
    let recorder = recorder.unwrap();
    Managed::run(&recorder, &world, |thread| {
        for _ in 0..1 << 17 {
            thread.enter(0x10_0000);
            thread.exit();
        }
        let outcome = thread.native(|| recorder.snapshot("x".into(), 0, PATIENCE));
        let SnapshotOutcome::Failed(message) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(message.contains("max-mib=1"), "{message}");
    });
    assert!(names(folder.path(), ".hindsight").is_empty());
    recorder.shutdown();
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
