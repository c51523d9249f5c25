// SPDX-License-Identifier: Apache-2.0
//! The recorder as a whole: threads record while others take snapshots.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc};
use std::time::Duration;

use common::{gettid, snapshots as files, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, Severity, SnapshotOutcome};
use hindsight_trace_format::container::{Reader, Ring};
use hindsight_trace_format::slot::{Event, Extension};

const PATIENCE: Duration = Duration::from_secs(60);
/// The first method address that the tests use.
const FIRST: u64 = 0x10_0000;

fn start(configuration: &str) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let config = common::parse(configuration).unwrap();
    let recorder = Recorder::start(config, Box::new(FakeHost(Arc::clone(&world)))).unwrap();
    (recorder, world)
}

fn written(outcome: SnapshotOutcome) -> PathBuf {
    match outcome {
        SnapshotOutcome::Written(path) => path,
        other => panic!("{other:?}"),
    }
}

/// The methods entered, oldest first. Checks that all events lie within the time of the recording.
fn entries(ring: &Ring<'_>) -> Vec<u64> {
    let mut events = ring.slots().events();
    let (mut entries, mut is_own) = (Vec::new(), true);
    let (mut newest, mut oldest) = (None, None);
    for event in events.by_ref() {
        newest = newest.or(Some(event.counter()));
        oldest = Some(event.counter());
        // What was under way when the thread got the ring is in the file before, too.
        is_own &= event.slot.low() != Extension::PartBegins.number();
        entries.extend(event.entered_method().filter(|_| is_own));
    }
    // Rings are recorded in far less than half a wrap of the counter here.
    if let (Some(newest), Some(oldest)) = (newest, oldest) {
        let before = oldest.wrapping_sub(ring.header.started_counter as u32);
        let after = (ring.header.stopped_counter as u32).wrapping_sub(newest);
        assert!(before < 1 << 31 && after < 1 << 31, "{:?}", ring.header);
    }
    entries.reverse();
    entries
}

#[test]
fn nothing_is_lost_or_doubled_by_snapshots_while_threads_record() {
    snapshots_while_threads_record("checkpoint");
}

#[cfg(feature = "lock-free")]
#[test]
fn nothing_is_lost_or_doubled_by_lock_free_snapshots() {
    snapshots_while_threads_record("lock-free");
}

fn snapshots_while_threads_record(protocol: &str) {
    const THREADS: u64 = 3;
    const CALLS: u64 = 60_000;
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=21,dir={},snapshot-at-exit=yes,protocol={protocol}",
        folder.path().display()
    ));

    let mut tids = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (recorder, world) = (&recorder, &*world);
                scope.spawn(move || {
                    Managed::run(recorder, world, |thread| {
                        for call in 0..CALLS {
                            // Every third method address is above 4 GiB.
                            let wide = if call % 3 == 0 { 1 << 40 } else { 0 };
                            thread.enter(FIRST + call + wide);
                            thread.safepoint();
                            thread.exit();
                            if call % 10_000 == 0 {
                                thread.native(std::thread::yield_now);
                            }
                        }
                        gettid()
                    })
                })
            })
            .collect();
        for n in 0..20 {
            if threads.iter().all(|t| t.is_finished()) {
                break;
            }
            // The first try may come before any thread is registered.
            match recorder.snapshot(format!("try {n}"), 0, PATIENCE) {
                SnapshotOutcome::Written(_) => {}
                SnapshotOutcome::Failed(why) => {
                    assert!(why.starts_with("nothing to write"), "{why}")
                }
                SnapshotOutcome::Reported => panic!("there is no service"),
                SnapshotOutcome::TimedOut => panic!("timed out"),
            }
        }
        tids.extend(threads.into_iter().map(|t| t.join().unwrap()));
    });
    recorder.shutdown();

    let mut recorded: BTreeMap<u32, Vec<(u64, Vec<u64>)>> = BTreeMap::new();
    for path in files(folder.path()) {
        let bytes = std::fs::read(&path).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        reader.verify_all().unwrap();
        for index in reader.ring_indices() {
            let ring = reader.ring(index).unwrap().unwrap();
            assert_eq!(ring.header.position.laps, 0, "the rings are large enough");
            assert_eq!(ring.header.name, "worker");
            recorded
                .entry(ring.header.tid)
                .or_default()
                .push((ring.header.started_counter, entries(&ring)));
        }
    }
    assert_eq!(recorded.len() as u64, THREADS);
    for tid in tids {
        let mut rings = recorded.remove(&tid).unwrap();
        rings.sort();
        let methods: Vec<u64> = rings.into_iter().flat_map(|(_, methods)| methods).collect();
        assert_eq!(methods.len() as u64, CALLS);
        for (call, method) in (0..).zip(methods) {
            assert_eq!(method & 0xffff_ffff, FIRST + call);
            assert_eq!(method >> 32 != 0, call % 3 == 0);
        }
    }
}

#[test]
fn a_file_says_who_was_traced_why_and_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={}",
        folder.path().display()
    ));
    let path = Managed::run(&recorder, &world, |thread| {
        recorder.thread_renamed(gettid(), "main");
        recorder.loader_unloading(0);
        for method in [FIRST, FIRST + 1, FIRST + 2] {
            thread.enter(method);
        }
        // Writes more slots than the ring's 512, so it wraps.
        for _ in 0..1000 {
            thread.exit();
            thread.enter(FIRST);
        }
        let tid = gettid();
        thread.native(|| written(recorder.snapshot("slow frame".into(), tid, PATIENCE)))
    });
    recorder.shutdown();
    assert!(world.logged(Severity::Info, "slow frame"));

    let bytes = std::fs::read(&path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let facts = reader.process().unwrap();
    assert_eq!(
        (
            facts.pid,
            facts.raised_by,
            facts.name.as_str(),
            facts.reason.as_str()
        ),
        (std::process::id(), gettid(), "test", "slow frame")
    );
    assert_eq!(facts.extra, [("host".to_owned(), "fake".to_owned())]);

    let clocks = reader.clocks().unwrap();
    let [first, last] = clocks.samples[..] else {
        panic!("{clocks:?}")
    };
    assert!(clocks.ticks_per_second > 0 && last.counter > first.counter);

    let ring = reader.ring(0).unwrap().unwrap();
    assert_eq!(ring.header.name, "main");
    assert!(ring.header.position.laps >= 3);
    assert_eq!(ring.slots().len(), 512);
    assert_eq!(
        ring.slots().get(511).unwrap().event(),
        Event::Entry {
            method: FIRST as u32
        }
    );
    assert!(ring.header.stopped_counter <= last.counter);

    // Only methods in the ring or of open calls have symbols: FIRST + 2 was overwritten. So was FIRST + 1, but its call is still
    // open; the host has no name for it.
    let symbols: Vec<_> = reader
        .symbols()
        .unwrap()
        .symbols
        .into_iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(symbols, [format!("m{FIRST:x}")]);
    let losses = reader.losses().unwrap().counts;
    let [loaders, nameless] = &losses[..] else {
        panic!("{losses:?}")
    };
    assert!(loaders.0.starts_with("class loaders unloaded") && loaders.1 == 1);
    assert_eq!(nameless, &("methods without a name".to_owned(), 1));
}

#[test]
fn methods_that_the_host_cannot_name_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={}",
        folder.path().display()
    ));
    let path = Managed::run(&recorder, &world, |thread| {
        for method in [FIRST, FIRST + 1, FIRST + 3, FIRST + 3] {
            thread.enter(method);
        }
        thread.native(|| written(recorder.snapshot("x".into(), 0, PATIENCE)))
    });
    let bytes = std::fs::read(path).unwrap();
    let losses = Reader::new(&bytes).unwrap().losses().unwrap();
    assert_eq!(losses.counts, [("methods without a name".to_owned(), 2)]);
}

#[test]
fn a_folder_that_is_not_there_costs_the_trace_but_not_the_tracing() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let (recorder, world) = start(&format!("trace=all,ring=12,dir={}", missing.display()));
    Managed::run(&recorder, &world, |thread| {
        thread.enter(FIRST);
        let outcome = thread.native(|| recorder.snapshot("x".into(), 0, PATIENCE));
        let SnapshotOutcome::Failed(why) = outcome else {
            panic!("{outcome:?}")
        };
        assert!(why.contains(missing.to_str().unwrap()), "{why}");
        assert!(thread.is_traced());
        std::fs::create_dir(&missing).unwrap();
        thread.exit();
        thread.native(|| written(recorder.snapshot("x".into(), 0, PATIENCE)));
    });
    assert!(world.logged(Severity::Error, "cannot write the snapshot"));
    assert_eq!(files(&missing).len(), 1, "no temporary file is left");
}

#[test]
fn shutdown_takes_a_snapshot_stops_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={},snapshot-at-exit=yes",
        folder.path().display()
    ));
    Managed::run(&recorder, &world, |thread| {
        thread.enter(FIRST);
        thread.native(|| recorder.shutdown());
        assert!(!thread.is_traced());
        thread.native(|| recorder.shutdown());
        let outcome = recorder.snapshot("late".into(), 0, PATIENCE);
        assert!(matches!(outcome, SnapshotOutcome::Failed(_)), "{outcome:?}");
    });
    // A thread that starts after the shutdown is not traced.
    Managed::run(&recorder, &world, |thread| assert!(!thread.is_traced()));

    let files = files(folder.path());
    assert_eq!(files.len(), 1, "{files:?}");
    let bytes = std::fs::read(&files[0]).unwrap();
    let ring = Reader::new(&bytes).unwrap().ring(0).unwrap().unwrap();
    assert_eq!(entries(&ring), [FIRST]);
}

#[test]
fn the_newest_retired_rings_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={}",
        folder.path().display()
    ));
    for n in 0..6 {
        std::thread::scope(|scope| {
            scope.spawn(|| Managed::run(&recorder, &world, |thread| thread.enter(FIRST + n)));
        });
    }
    let path = written(recorder.snapshot("x".into(), 0, PATIENCE));
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let mut methods: Vec<u64> = reader
        .ring_indices()
        .flat_map(|index| entries(&reader.ring(index).unwrap().unwrap()))
        .collect();
    methods.sort_unstable();
    assert_eq!(
        methods,
        [FIRST + 2, FIRST + 3, FIRST + 4, FIRST + 5],
        "the newest four"
    );
}

#[test]
fn a_panic_on_the_control_thread_ends_tracing_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={}",
        folder.path().display()
    ));
    Managed::run(&recorder, &world, |thread| {
        thread.enter(FIRST);
        world.panic_in_symbolize.store(true, Ordering::SeqCst);
        let outcome = thread.native(|| recorder.snapshot("x".into(), 0, PATIENCE));
        assert!(matches!(outcome, SnapshotOutcome::Failed(_)), "{outcome:?}");
        // Tracing ends after the first reply, and before the second.
        let outcome = thread.native(|| recorder.snapshot("y".into(), 0, PATIENCE));
        assert!(matches!(outcome, SnapshotOutcome::Failed(_)), "{outcome:?}");
        assert!(!thread.is_traced());
        let tid = gettid();
        let error = thread.native(|| recorder.trace_thread(tid, true, PATIENCE));
        assert!(error.unwrap_err().contains("because of an internal error"));
    });
    Managed::run(&recorder, &world, |thread| assert!(!thread.is_traced()));
    assert!(world.logged(Severity::Error, "internal error"));
    recorder.shutdown();
    assert!(files(folder.path()).is_empty());
}

#[cfg(feature = "check-balance")]
#[test]
fn check_balance_reports_what_does_not_match_but_not_what_a_snapshot_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(&format!(
        "trace=all,ring=12,dir={0},check-balance={0},snapshot-at-exit=yes",
        folder.path().display()
    ));
    Managed::run(&recorder, &world, |thread| {
        thread.enter(FIRST);
        thread.native(|| written(recorder.snapshot("x".into(), 0, PATIENCE)));
        thread.exit();
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            Managed::run(&recorder, &world, |thread| {
                thread.enter(FIRST + 2);
                thread.exit();
                thread.exit();
            })
        });
    });
    recorder.shutdown();
    let report = folder
        .path()
        .join(format!("{}.balance", std::process::id()));
    let report = std::fs::read_to_string(report).unwrap();
    let lines: Vec<_> = report.lines().collect();
    assert_eq!(lines.len(), 2, "{report}");
    assert!(
        lines[0].ends_with("events 9 entries 2 unbalanced 1 unknown 0"),
        "{report}"
    );
    assert!(
        lines[1].contains("1 unmatched exits (first after Test.m100002)"),
        "{report}"
    );
}

/// The child process of the next test.
#[test]
#[ignore = "runs only as a child of a_process_killed_at_any_moment_leaves_whole_files"]
fn child_that_takes_snapshots_until_it_is_killed() {
    let Some(folder) = std::env::var_os("HINDSIGHT_TEST_FOLDER") else {
        return;
    };
    let folder = Path::new(&folder);
    let (recorder, world) = start(&format!("trace=all,ring=18,dir={}", folder.display()));
    Managed::run(&recorder, &world, |thread| loop {
        for call in 0..20_000 {
            thread.enter(FIRST + call);
            thread.exit();
        }
        thread.native(|| recorder.snapshot("again".into(), 0, PATIENCE));
    });
}

#[test]
fn a_process_killed_at_any_moment_leaves_whole_files() {
    let mut whole = 0;
    for n in 0..15_u64 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "child_that_takes_snapshots_until_it_is_killed",
            ])
            .env("HINDSIGHT_TEST_FOLDER", folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Until the first file is there; then a little longer each time, to hit different moments of the next one.
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|e| e == "hindsight");
        while !files(folder.path()).iter().any(is_whole) {
            assert!(
                child.try_wait().unwrap().is_none(),
                "the child ended by itself"
            );
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(n * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        for path in files(folder.path()) {
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with('.') {
                assert!(name.ends_with(".tmp"), "{name}");
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            Reader::new(&bytes).and_then(|r| r.verify_all()).unwrap();
            whole += 1;
        }
    }
    assert!(whole > 0);
}

/// One of two threads ends while the ring of the other is about to be taken: its ring must be in the file, too, as there
/// may be no later file.
#[test]
fn a_thread_that_ends_while_rings_are_taken_is_in_the_file() {
    for last in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (recorder, world) = start(&format!(
            "trace=all,ring=12,snapshot-at-exit=yes,dir={}",
            folder.path().display()
        ));
        std::thread::scope(|scope| {
            let (ready, is_ready) = mpsc::channel();
            let (ended, has_ended) = mpsc::channel();
            let mut ends = Vec::new();
            for _ in 0..2 {
                let (ready, ended) = (ready.clone(), ended.clone());
                let (end, is_to_end) = mpsc::channel::<()>();
                let (recorder, world) = (&recorder, &world);
                scope.spawn(move || {
                    Managed::run(recorder, world, |thread| {
                        thread.enter(FIRST);
                        thread.exit();
                        thread.native(|| {
                            ready.send(gettid()).unwrap();
                            let _ = is_to_end.recv();
                        });
                    });
                    let _ = ended.send(());
                });
                ends.push((is_ready.recv().unwrap(), end));
            }
            let (done, is_done) = mpsc::channel();
            *world.before_safepoint.lock().unwrap() = Some(Box::new(move |held| {
                ends.retain(|(tid, _)| *tid == held);
                has_ended.recv().unwrap();
                done.send(ends).unwrap();
            }));
            if last {
                recorder.shutdown();
            } else {
                written(recorder.snapshot("now".into(), 0, PATIENCE));
            }
            drop(is_done.recv().unwrap());
        });
        let first = files(folder.path()).remove(0);
        let bytes = std::fs::read(first).unwrap();
        let reader = Reader::new(&bytes).unwrap();
        let rings: Vec<_> = (reader.ring_indices())
            .map(|index| entries(&reader.ring(index).unwrap().unwrap()))
            .collect();
        assert_eq!(rings, [[FIRST], [FIRST]], "last: {last}");
        recorder.shutdown();
    }
}

/// The child process of the next test.
#[test]
#[ignore = "runs only as a child of a_snapshot_in_a_folder_that_cannot_be_read_succeeds"]
fn child_that_writes_to_a_folder_that_it_cannot_read() {
    let Some(folder) = std::env::var_os("HINDSIGHT_TEST_FOLDER") else {
        return;
    };
    let folder = Path::new(&folder);
    assert!(std::fs::read_dir(folder).is_err(), "it can be read");
    let configuration = "trace=all,ring=12,max-files=2,max-failed-starts=3";
    let (recorder, world) = start(&format!("{configuration},dir={}", folder.display()));
    Managed::run(&recorder, &world, |thread| {
        for _ in 0..4 {
            thread.enter(FIRST);
            thread.native(|| written(recorder.snapshot("x".into(), 0, PATIENCE)));
        }
    });
    recorder.shutdown();
    assert!(!world.logged(Severity::Error, ""));
    assert!(!world.logged(Severity::Warning, "starts"));
}

/// As on a device, where the folder has mode 0773: apps may create files in it, but not list it.
#[test]
fn a_snapshot_in_a_folder_that_cannot_be_read_succeeds() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let outer = tempfile::tempdir().unwrap();
    set_mode(outer.path(), 0o755);
    let folder = outer.path().join("trace");
    std::fs::create_dir(&folder).unwrap();
    // A copy, because nobody may not be able to reach this program.
    let program = outer.path().join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = std::process::Command::new(&program);
    // SAFETY: no precondition.
    if unsafe { libc::geteuid() } == 0 {
        child.uid(NOBODY).gid(NOBODY);
        set_mode(&folder, 0o773);
    } else {
        // Root alone can become another user; an owner without the right to read is in the same situation.
        set_mode(&folder, 0o300);
    }
    let child = child
        .args([
            "--ignored",
            "--exact",
            "child_that_writes_to_a_folder_that_it_cannot_read",
        ])
        .env("HINDSIGHT_TEST_FOLDER", &folder)
        .current_dir("/")
        .output()
        .unwrap();
    set_mode(&folder, 0o700);
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
    // Its own snapshots are found by their names, and kept within the limit.
    let numbers = files(&folder).into_iter().map(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        name.rsplit('-').next().unwrap().to_owned()
    });
    assert_eq!(Vec::from_iter(numbers), ["3", "4"]);
    // They, the list of their names, and the note of the last look at their ages: the start has succeeded.
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
}

/// Only one crash is saved, the first one for which there is a file.
#[test]
fn a_crash_that_cannot_be_saved_leaves_room_for_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("traces");
    let configuration = format!(
        "trace=all,ring=12,snapshot-at-crash=yes,dir={}",
        folder.display()
    );
    let (recorder, world) = start(&configuration);
    std::fs::write(&folder, "in the way").unwrap();
    Managed::run(&recorder, &world, |thread| {
        let mut crash = |class| thread.native(|| recorder.crashed(class, 0, PATIENCE));
        crash("a.First");
        std::fs::remove_file(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
        crash("a.Second");
        crash("a.Third");
    });
    let files = files(&folder);
    assert_eq!(files.len(), 1, "{files:?}");
    let bytes = std::fs::read(&files[0]).unwrap();
    let process = Reader::new(&bytes).unwrap().process().unwrap();
    assert_eq!(process.reason, "crash: a.Second");
}
