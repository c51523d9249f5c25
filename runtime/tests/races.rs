// SPDX-License-Identifier: Apache-2.0
//! Threads record while several others start, stop and end threads, take snapshots and unload loaders at random. Made
//! for ThreadSanitizer, see testing/verify/README.md; without it, the test still checks that no ring has an event too many or
//! too few.
//!
//! Every thread goes through the same cycle of entries and exits, so any part of a ring can be checked.
#![cfg(not(miri))]

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{gettid, FakeHost, Managed, World};
use hindsight_runtime::{NanoscopeCommand, Recorder, Severity};
use hindsight_trace_format::container::{Reader, Symbol};
use hindsight_trace_format::slot::Event;

const PATIENCE: Duration = Duration::from_secs(600);
/// Numbers of threads that live as long as the test, and of threads that come and go meanwhile.
const WORKERS: usize = 5;
const SHORT_LIVED: usize = 3;
/// A loader's method, which the journal names after the unloading.
const LOADED: u64 = 0x9_0000;

/// The events that a thread repeats: `Some` is an entry, `None` an exit.
const CYCLE: [Option<u64>; 12] = [
    Some(0x1_0000),
    Some(0x1_0010),
    None,
    Some(0x1_0020),
    Some(0x1_0030),
    Some(0x1_0040),
    None,
    None,
    None,
    Some(LOADED),
    None,
    None,
];

/// Number of actions of each controller: the environment variable HINDSIGHT_RACES, or 15.
fn rounds() -> u64 {
    std::env::var("HINDSIGHT_RACES").map_or(15, |n| n.parse().expect("HINDSIGHT_RACES is a number"))
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound
    }
}

/// Repeats the cycle while `cycles` returns true, with a safepoint after each event.
fn work(thread: &mut Managed<'_>, cycles: impl Fn(u64) -> bool) {
    let mut number = 0;
    while cycles(number) {
        number += 1;
        for step in CYCLE {
            match step {
                Some(method) => thread.enter(method),
                None => thread.exit(),
            }
            thread.safepoint();
        }
    }
}

/// Checks every ring of a file; returns the number of events.
fn check(path: &Path) -> u64 {
    let bytes = std::fs::read(path).unwrap();
    let reader = Reader::new(&bytes).unwrap();
    reader.verify_all().unwrap();
    let symbols = reader.symbols().unwrap().symbols;
    let named: BTreeSet<u64> = symbols.iter().map(|s| s.address).collect();
    let mut count = 0;
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        let mut events: Vec<_> = ring.slots().events().collect();
        events.reverse();
        // The possible positions of the thread in the cycle.
        let mut places: Vec<usize> = (0..CYCLE.len()).collect();
        for event in events {
            let step = match event.event() {
                Event::Entry { .. } | Event::WideEntry => event.entered_method(),
                Event::Exit => None,
                Event::Extension { .. } => continue,
            };
            if let Some(method) = step {
                assert!(named.contains(&method), "{method:#x} has no name");
            }
            places.retain(|place| CYCLE[*place] == step);
            assert!(
                !places.is_empty(),
                "{step:?} is not what comes next in {}",
                path.display()
            );
            for place in &mut places {
                *place = (*place + 1) % CYCLE.len();
            }
            count += 1;
        }
    }
    count
}

/// Checks and removes all files in the folder; returns the number of events.
fn check_all(folder: &Path) -> u64 {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|x| x == "hindsight") {
            count += check(&path);
            std::fs::remove_file(path).unwrap();
        }
    }
    count
}

/// A random command for the socket, for a thread that lives, has ended, or never existed.
fn command(dice: &mut Dice, threads: &Mutex<Vec<u32>>, file: u64) -> String {
    let thread = |dice: &mut Dice| {
        let threads = threads.lock().unwrap();
        let other = dice.below(20) == 0;
        let tid = threads[dice.below(threads.len())];
        tid + u32::from(other)
    };
    match dice.below(20) {
        0..=4 => format!("start {}", thread(dice)),
        5..=8 => format!("stop {}", thread(dice)),
        9..=11 => format!("foreground {}", thread(dice)),
        12..=15 => "snapshot races".to_owned(),
        16 => "status".to_owned(),
        17 => format!("max-rings {}", 1 + dice.below(6)),
        18 => "max-rings unlimited".to_owned(),
        _ if dice.below(2) == 0 => format!("property dev.nanoscope=test:p{file}.hindsight"),
        _ => "property dev.nanoscope=".to_owned(),
    }
}

/// Races until one of them has recorded something: in a short race with few rings, by chance no thread that has one may be saved.
fn races(configuration: &str, seed: u64) {
    let recorded = (0..20).any(|attempt| race(configuration, seed + 100_000 * attempt) > 0);
    assert!(recorded, "nothing was recorded");
}

/// Returns the number of events in all files.
fn race(configuration: &str, seed: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("control");
    let config = common::parse(&format!(
        "{configuration},ring=12,dir={0},socket={0}/control",
        folder.path().display()
    ));
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let recorder = Recorder::start(config.unwrap(), host).unwrap();
    let over = AtomicBool::new(false);
    let threads = Mutex::new(vec![gettid()]);
    let events = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (recorder, world, over, threads) = (&recorder, &*world, &over, &threads);
        let (events, folder, socket) = (&events, folder.path(), &socket);
        for number in 0..WORKERS {
            scope.spawn(move || {
                Managed::run(recorder, world, |thread| {
                    threads.lock().unwrap().push(gettid());
                    let tid = gettid();
                    let mut dice = Dice(seed + 31 * number as u64 + 7);
                    while !over.load(Ordering::Relaxed) {
                        let cycles = 1 + dice.below(200) as u64;
                        work(thread, |n| n < cycles);
                        thread.native(|| match dice.below(24) {
                            0 => drop(recorder.snapshot("a thread".into(), tid, PATIENCE)),
                            1 => recorder.thread_in_foreground(tid),
                            2 => recorder.thread_renamed(tid, "another name"),
                            3 => {
                                let file = folder.join(format!("n{tid}.hindsight"));
                                let start = NanoscopeCommand::Start;
                                let stop = NanoscopeCommand::Stop(file);
                                // Another thread may have got the ring meanwhile, so errors are allowed.
                                let _ = recorder.nanoscope(tid, start, PATIENCE);
                                let _ = recorder.nanoscope(tid, stop, PATIENCE);
                            }
                            4 => std::thread::sleep(Duration::from_micros(50)),
                            5 => drop(recorder.trace_thread(tid, true, PATIENCE)),
                            _ => {}
                        });
                    }
                });
            });
        }
        for number in 0..SHORT_LIVED {
            scope.spawn(move || {
                let mut dice = Dice(seed + 1000 + number as u64);
                while !over.load(Ordering::Relaxed) {
                    let cycles = dice.below(30) as u64;
                    let tid = std::thread::scope(|inner| {
                        let one = inner.spawn(|| {
                            Managed::run(recorder, world, |thread| {
                                work(thread, |n| n < cycles);
                                gettid()
                            })
                        });
                        one.join().unwrap()
                    });
                    let mut threads = threads.lock().unwrap();
                    threads.push(tid);
                    if threads.len() > 64 {
                        threads.remove(1 + WORKERS);
                    }
                }
            });
        }
        let controllers: Vec<_> = (0..3)
            .map(|side| {
                scope.spawn(move || {
                    let mut dice = Dice(seed + 77 * side + 1);
                    for round in 0..rounds() {
                        match side {
                            2 => {
                                let symbol = Symbol {
                                    address: LOADED,
                                    class: "Gone".into(),
                                    name: "by".into(),
                                    ..Symbol::default()
                                };
                                let loader = round as usize + 1;
                                world.loaders.lock().unwrap().insert(loader, vec![symbol]);
                                recorder.loader_unloading(loader);
                                events.fetch_add(check_all(folder), Ordering::Relaxed);
                            }
                            _ => {
                                let command = command(&mut dice, threads, side << 32 | round);
                                let mut client = UnixStream::connect(socket).unwrap();
                                client.set_read_timeout(Some(PATIENCE)).unwrap();
                                writeln!(client, "{command}").unwrap();
                                let mut answer = String::new();
                                BufReader::new(client).read_line(&mut answer).unwrap();
                                assert!(
                                    answer.starts_with("ok") || answer.starts_with("error"),
                                    "{command}: {answer}"
                                );
                                assert!(!answer.contains("does not answer"), "{command}: {answer}");
                            }
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = controllers.into_iter().map(|c| c.join()).collect();
        // Also after a failure: the other threads would go on for ever.
        over.store(true, Ordering::Relaxed);
        for end in ended {
            end.unwrap();
        }
    });
    recorder.shutdown();
    let last = check_all(folder.path());
    assert!(!world.logged(Severity::Error, "internal error"));
    events.into_inner() + last
}

#[test]
fn nothing_is_torn_with_every_thread_traced() {
    races("trace=all,max-rings=unlimited,snapshot-at-exit=yes", 1);
}

#[test]
fn nothing_is_torn_with_few_rings() {
    races("trace=off,max-rings=3", 2);
}

#[cfg(feature = "lock-free")]
#[test]
fn nothing_is_torn_without_safepoints() {
    races(
        "trace=all,max-rings=unlimited,snapshot-at-exit=yes,protocol=lock-free",
        5,
    );
    races("trace=off,max-rings=3,protocol=lock-free", 6);
}
