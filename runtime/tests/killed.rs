// SPDX-License-Identifier: Apache-2.0
//! The rings of a process that is killed at any moment are in the memory that it shares, up to the slot that it was writing.

mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use common::{FakeHost, Managed, World};
use hindsight_runtime::{Config, Recorder};
use hindsight_trace_format::catalogue::Extension;
use hindsight_trace_format::container::{RingMode, Symbol};
use hindsight_trace_format::shared::{read, Ended, EndedRing};
use hindsight_trace_format::slot::{payload_slots, Event};

/// Address of the first method; the one of call `n` is `8 * n` after it.
const FIRST: u64 = 0x1000_0000;
/// Calls have different methods, up to this number.
const METHODS: u64 = 1 << 20;
/// Calls that a child makes within each other.
const DEPTH: u64 = 5;
/// Words that `Wakes` has beside its own.
const WORDS: usize = payload_slots(Extension::Wakes.number());
const MAX_RINGS_BYTES: u64 = 1 << 30;

/// How much the child has recorded, in a file that it shares with its parent.
struct Progress(*const AtomicU64);

impl Progress {
    fn open(folder: &Path) -> Self {
        let path = folder.join("progress");
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        let file = file.open(path).unwrap();
        file.set_len(4096).unwrap();
        // SAFETY: maps a file of the test's own, which nobody shortens.
        let memory = unsafe {
            use std::os::fd::AsRawFd;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(memory, libc::MAP_FAILED);
        Progress(memory.cast())
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: mapped in `open`, for the rest of the process.
        unsafe { &*self.0 }
    }
}

/// Records calls and events with consecutive numbers, until the process is killed.
#[test]
#[ignore = "runs only as a child of the tests below"]
fn child_that_records_until_it_is_killed() {
    let Some(folder) = std::env::var_os("HINDSIGHT_TEST_FOLDER").map(PathBuf::from) else {
        return;
    };
    let options = std::env::var("HINDSIGHT_TEST_OPTIONS").unwrap();
    let text = format!("{options},dir={0},shared-memory={0}", folder.display());
    let world = Arc::new(World::default());
    let method = |n: u64| Symbol {
        address: FIRST + 8 * n,
        class: format!("Class{}", n / 100),
        name: format!("m{n}"),
        ..Symbol::default()
    };
    world.linked.lock().unwrap().extend((0..1000).map(method));
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let recorder = Recorder::start(Config::parse(&text).unwrap(), host).unwrap();
    assert_eq!(*world.log.lock().unwrap(), []);
    let progress = Progress::open(&folder);
    Managed::run(&recorder, &world, |thread| {
        for number in 1.. {
            let calls = 1 + number % DEPTH;
            for call in 0..calls {
                thread.enter(FIRST + 8 * ((number + call) % METHODS));
            }
            // SAFETY: this is the thread.
            unsafe {
                thread
                    .state()
                    .record_event(Extension::Wakes.number(), &[number; WORDS])
            };
            progress.word().store(number, Ordering::Release);
            for _ in 0..calls {
                thread.exit();
            }
        }
    });
}

/// Runs the child with these options, kills it when it has recorded `after` events, and reads its memory.
fn kill(options: &str, after: u64) -> (Ended, u64) {
    let folder = tempfile::tempdir().unwrap();
    let progress = Progress::open(folder.path());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "child_that_records_until_it_is_killed",
        ])
        .env("HINDSIGHT_TEST_FOLDER", folder.path())
        .env("HINDSIGHT_TEST_OPTIONS", options)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while progress.word().load(Ordering::Acquire) < after {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the child ended by itself"
        );
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let memory = folder.path().join(format!("{}.memory", child.id()));
    let memory = File::open(memory).unwrap();
    let recorded = progress.word().load(Ordering::Acquire);
    (read(&memory, MAX_RINGS_BYTES).unwrap(), recorded)
}

/// The numbers of the events in these rings, oldest first.
fn numbers(rings: &[EndedRing]) -> Vec<u64> {
    let mut rings: Vec<&EndedRing> = rings.iter().collect();
    rings.sort_by_key(|ring| ring.header.part);
    let of = |ring: &EndedRing| {
        let wakes = |e: &hindsight_trace_format::reverse::EventRef<'_>| {
            e.slot.low() == Extension::Wakes.number()
        };
        let mut numbers: Vec<u64> = (ring.slots().events().filter(wakes))
            .map(|event| event.payload(0).unwrap())
            .collect();
        numbers.reverse();
        numbers
    };
    rings.into_iter().flat_map(of).collect()
}

/// All events up to the one that was recorded last are there, one after the other.
fn check_numbers(ended: &Ended, recorded: u64) {
    let numbers = numbers(&ended.rings);
    assert!(numbers.windows(2).all(|w| w[1] == w[0] + 1), "{numbers:?}");
    let newest = *numbers.last().unwrap();
    assert!(
        (recorded..=recorded + 1).contains(&newest),
        "{newest}, but {recorded} were recorded"
    );
}

/// Slots of calls and events of the child are as it records them: never an exit too many, and the right methods.
fn check_calls(ring: &EndedRing) {
    let mut events: Vec<_> = ring.slots().events().collect();
    events.reverse();
    let mut counter = 0;
    let mut inside = None;
    for event in events {
        if event.slot.low() != Extension::FullTime.number() {
            let passed = event.counter().wrapping_sub(counter);
            assert!(counter == 0 || passed < 1 << 31, "times go back");
        }
        counter = event.counter();
        match event.event() {
            Event::Entry { method } => {
                let call = (u64::from(method) - FIRST) / 8;
                if let Some(last) = inside {
                    assert_eq!(call, last + 1, "an entry of another call");
                }
                inside = Some(call);
            }
            _ => inside = None,
        }
    }
}

#[test]
fn rings_of_calls_have_all_but_the_last_slot() {
    let mut wrapped = 0;
    for (options, most) in [
        ("trace=all,events=waits,rewind=off,ring=16", 40_000),
        ("trace=all,events=waits,rewind=all,ring=14", 20_000),
        ("trace=all,events=waits,rewind=off,ring=20", 20_000),
    ] {
        for nth in 0..8_u64 {
            let (ended, recorded) = kill(options, 1 + nth * nth * most / 64);
            // Only a part of the methods has names.
            assert_eq!(ended.name, "test");
            wrapped += u32::from(ended.rings.iter().any(|ring| ring.header.position.laps > 0));
            let [ring] = &ended.rings[..] else {
                panic!("{} rings", ended.rings.len());
            };
            assert_eq!(ring.header.mode, RingMode::Calls);
            assert!(ring.header.stopped_counter >= ring.header.started_counter);
            check_numbers(&ended, recorded);
            check_calls(ring);
            let named = ended
                .symbols
                .iter()
                .all(|s| s.name == format!("m{}", (s.address - FIRST) / 8));
            assert!(named && ended.strings.strings.is_empty());
        }
    }
    assert!(wrapped >= 10, "segments are to be entered again: {wrapped}");
}

#[test]
fn rings_of_events_have_all_events() {
    for nth in 0..6_u64 {
        let options = "trace=off,events=waits,event-ring=12,event-spool=16";
        let (ended, recorded) = kill(options, 1 + nth * 5000);
        let modes = ended.rings.iter().map(|r| r.header.mode);
        assert!(modes.into_iter().all(|mode| mode == RingMode::Events));
        check_numbers(&ended, recorded);
    }
}

/// A forked child, as heap dumpers make, has the memory of its parent's rings neither mapped nor open.
#[test]
fn a_forked_child_does_not_write_into_its_parents_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let text = format!("trace=all,rewind=off,ring=14,dir={path},shared-memory={path}");
    let recorder = Recorder::start(Config::parse(&text).unwrap(), host).unwrap();
    let memory = folder.path().join(format!("{}.memory", std::process::id()));
    let memory = || read(&File::open(&memory).unwrap(), MAX_RINGS_BYTES).unwrap();
    let methods = |ended: &Ended| {
        let entered = ended.rings[0].slots();
        let mut entered: Vec<u64> = entered
            .events()
            .filter_map(|e| e.entered_method())
            .collect();
        entered.reverse();
        entered
    };
    Managed::run(&recorder, &world, |thread| {
        thread.enter(FIRST);
        // SAFETY: the child only passes trace points, and ends by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for _ in 0..10_000 {
                thread.enter(FIRST + 8);
            }
            // SAFETY: no precondition.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child crashed");
        thread.enter(FIRST + 16);
        assert_eq!(methods(&memory()), [FIRST, FIRST + 16]);
        for _ in 0..3 {
            thread.exit();
        }
    });
}
