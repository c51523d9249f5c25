// SPDX-License-Identifier: Apache-2.0
//! Threads that record events only: their rings, the spool, snapshots, and changes of mode.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{Recorder, SnapshotOutcome};
use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{Reader, RingHeader, RingMode};
use hindsight_trace_format::slot::{Event, Extension};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(configuration: &str, folder: &Path) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let configuration = format!("{configuration},dir={}", folder.display());
    let recorder = Recorder::start(common::parse(&configuration).unwrap(), host).unwrap();
    (recorder, world)
}

/// Records the event `Wakes` with this number.
fn record(thread: &Managed<'_>, number: u64) {
    // SAFETY: `Managed` is the calling thread, which runs managed code.
    unsafe { (thread.state()).record_event(Extension::Wakes.number(), &[number]) }
}

/// A ring of a file: its header, the numbers of its events `Wakes`, and its trace points.
struct Part {
    header: RingHeader,
    numbers: Vec<u64>,
    points: usize,
}

fn parts(file: &Path) -> Vec<Part> {
    let bytes = std::fs::read(file).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    let rings = reader
        .ring_indices()
        .map(|i| reader.ring(i).unwrap().unwrap());
    rings
        .map(|ring| {
            let (mut numbers, mut points) = (Vec::new(), 0);
            for event in ring.slots().events() {
                match event.event() {
                    Event::Extension { number } if number == Extension::Wakes.number() => {
                        numbers.push(event.payload(0).unwrap());
                    }
                    Event::Extension { .. } => {}
                    _ => points += 1,
                }
            }
            numbers.reverse();
            Part {
                header: ring.header,
                numbers,
                points,
            }
        })
        .collect()
}

fn snapshot(thread: &mut Managed<'_>, recorder: &Recorder) -> Vec<Part> {
    let outcome = thread.native(|| recorder.snapshot("test".into(), 0, PATIENCE));
    match outcome {
        SnapshotOutcome::Written(path) => parts(&path),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_records_events_from_its_start_and_each_snapshot_has_the_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start("events=waits", folder.path());
    Managed::run(&recorder, &world, |thread| {
        assert!(!thread.is_traced());
        thread.enter(0x1_0000);
        record(thread, 1);
        let first = snapshot(thread, &recorder);
        record(thread, 2);
        record(thread, 3);
        let second = snapshot(thread, &recorder);
        let [first] = &first[..] else {
            panic!("{} rings", first.len())
        };
        let [second] = &second[..] else {
            panic!("{} rings", second.len())
        };
        assert_eq!((&first.numbers[..], first.points), (&[1][..], 0));
        assert_eq!((&second.numbers[..], second.points), (&[2, 3][..], 0));
        let id = |part: &Part| (part.header.mode, part.header.thread, part.header.part);
        assert_eq!(id(first), (RingMode::Events, 1, 0));
        assert_eq!(id(second), (RingMode::Events, 1, 1));
    });
    recorder.shutdown();
}

#[test]
fn a_thread_that_is_traced_keeps_its_events_and_goes_back_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start("events=waits", folder.path());
    Managed::run(&recorder, &world, |thread| {
        record(thread, 1);
        let trace = |thread: &mut Managed<'_>, on| {
            thread.native(|| recorder.trace_thread(gettid(), on, PATIENCE).unwrap());
        };
        trace(thread, true);
        assert!(thread.is_traced());
        record(thread, 2);
        thread.enter(0x1_0000);
        thread.exit();
        record(thread, 3);
        let mut found = snapshot(thread, &recorder);
        found.sort_by_key(|part| part.header.part);
        let modes: Vec<_> = found.iter().map(|p| p.header.mode).collect();
        assert_eq!(modes, [RingMode::Events, RingMode::Calls]);
        assert_eq!(
            (&found[0].numbers[..], &found[1].numbers[..]),
            (&[1][..], &[2, 3][..])
        );
        assert_eq!((found[0].points, found[1].points), (0, 2));
        trace(thread, false);
        assert!(!thread.is_traced());
        record(thread, 4);
        let last = snapshot(thread, &recorder);
        assert_eq!(last.len(), 1);
        assert_eq!(last[0].numbers, [4]);
    });
    // Its end leaves the last ring to the next snapshot.
    Managed::run(&recorder, &world, |thread| {
        let rest = snapshot(thread, &recorder);
        assert_eq!(rest.len(), 2);
    });
    recorder.shutdown();
}

/// Sends a command to the control socket; returns the answer.
fn ask(socket: &Path, command: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    writeln!(stream, "{command}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

#[test]
fn categories_are_switched_while_threads_run() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let configuration = format!("trace=off,socket={}", socket.display());
    let (recorder, world) = start(&configuration, folder.path());
    Managed::run(&recorder, &world, |thread| {
        let command = |thread: &mut Managed<'_>, line: &str| thread.native(|| ask(&socket, line));
        record(thread, 1);
        assert_eq!(command(thread, "events waits+marks"), "ok");
        let mask = Category::Waits.bit() | Category::Marks.bit();
        assert_eq!(thread.events(), mask);
        record(thread, 2);
        assert_eq!(command(thread, "events tasks"), "ok");
        assert_eq!(thread.events(), Category::Tasks.bit());
        let status = command(thread, "status");
        assert!(
            status.contains(r#""events":{"categories":["tasks"],"threads":1,"refused":0,"#),
            "{status}"
        );
        assert_eq!(command(thread, "events off"), "ok");
        assert_eq!(thread.events(), 0);
        record(thread, 3);
        let found = snapshot(thread, &recorder);
        assert_eq!(found.len(), 1, "what was recorded until then is kept");
        assert_eq!(found[0].numbers, [2]);
        assert!(command(thread, "events calls").starts_with("error 'calls'"));
    });
    recorder.shutdown();
}

#[test]
fn threads_beyond_the_limit_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start("events=all,event-rings=1", folder.path());
    Managed::run(&recorder, &world, |thread| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                Managed::run(&recorder, &world, |other| assert_eq!(other.events(), 0));
            });
        });
        assert_ne!(thread.events(), 0);
        let outcome = thread.native(|| recorder.snapshot("test".into(), 0, PATIENCE));
        let SnapshotOutcome::Written(path) = outcome else {
            panic!("{outcome:?}")
        };
        let bytes = std::fs::read(path).unwrap();
        let losses = Reader::new(&bytes).unwrap().losses().unwrap().counts;
        let expected = "threads without events: no free ring (event-rings)";
        assert!(losses.contains(&(expected.into(), 1)), "{losses:?}");
    });
    // The ring of the ended thread is free again.
    Managed::run(&recorder, &world, |thread| assert_ne!(thread.events(), 0));
    recorder.shutdown();
}

/// Threads fill rings of events, end, and are traced and not, while snapshots are taken: all files together have every
/// event exactly once, except for events that a ring overwrote, which it says.
#[test]
fn no_event_is_lost_or_recorded_twice() {
    const THREADS: u64 = 3;
    const EVENTS: u64 = if cfg!(miri) { 200 } else { 20_000 };
    let folder = tempfile::tempdir().unwrap();
    // All rings fit into the spool.
    let (recorder, world) = start(
        "events=waits,event-ring=12,event-spool=24,max-rings=3,snapshot-at-exit=yes",
        folder.path(),
    );
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    Managed::run(&recorder, &world, |thread| {
                        for number in 0..EVENTS {
                            record(thread, number);
                            thread.safepoint();
                            if number % 5000 == 2500 {
                                // A ring of calls is dropped when tracing stops; nothing is recorded into it here.
                                let tid = gettid();
                                thread.native(|| {
                                    recorder.trace_thread(tid, true, PATIENCE).unwrap();
                                    recorder.trace_thread(tid, false, PATIENCE).unwrap();
                                });
                            }
                        }
                    });
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let outcome = recorder.snapshot("test".into(), 0, PATIENCE);
                assert!(!matches!(outcome, SnapshotOutcome::TimedOut));
            }
        });
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    recorder.shutdown();
    let mut threads: BTreeMap<u64, Vec<(u32, u64, Vec<u64>)>> = BTreeMap::new();
    for file in common::snapshots(folder.path()) {
        for part in parts(&file) {
            let of_thread = threads.entry(part.header.thread).or_default();
            of_thread.push((part.header.part, part.header.position.laps, part.numbers));
        }
    }
    assert_eq!(threads.len() as u64, THREADS);
    for (thread, mut parts) in threads {
        parts.sort();
        assert!(parts.windows(2).all(|w| w[0].0 < w[1].0), "two equal parts");
        let mut next = 0;
        for (part, laps, numbers) in parts {
            // A ring that has wrapped says how much is missing: an event has 2 of its 512 slots.
            let expected = next + laps.saturating_sub(1) * 256;
            let first = numbers.first().copied().unwrap_or(next);
            if laps == 0 {
                assert_eq!(first, next, "thread {thread}, part {part}");
            } else {
                assert!(
                    (expected..=expected + 257).contains(&first),
                    "{first} {next}"
                );
            }
            let is_sequence = numbers.iter().zip(first..).all(|(n, i)| *n == i);
            assert!(is_sequence, "thread {thread}, part {part}: {numbers:?}");
            next = first + numbers.len() as u64;
        }
        assert_eq!(next, EVENTS, "thread {thread}");
    }
}

#[test]
fn strings_above_the_configured_consent_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let contains = |consent: &str| -> Vec<bool> {
        let (recorder, world) = start(&format!("trace=all{consent}"), folder.path());
        Managed::run(&recorder, &world, |thread| {
            thread.enter(0x1_0000);
            let secret = "a message of alice".to_owned();
            let outcome = thread.native(|| recorder.snapshot(secret, 0, PATIENCE));
            let SnapshotOutcome::Written(path) = outcome else {
                panic!("{outcome:?}")
            };
            let bytes = std::fs::read(path).unwrap();
            let has = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
            thread.exit();
            ["m10000", "alice", "fake"].map(has).to_vec()
        })
    };
    assert_eq!(contains(",consent=structure"), [false; 3]);
    assert_eq!(contains(",consent=names"), [true, false, false]);
    assert_eq!(contains(""), [true; 3]);
}
