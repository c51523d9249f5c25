// SPDX-License-Identifier: Apache-2.0
//! Stacks that threads take of themselves.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::{FakeHost, Managed, World};
use hindsight_runtime::stacks::Spacing;
use hindsight_runtime::{Recorder, SnapshotOutcome, TracedThread};
use hindsight_trace_format::catalogue::Spec;
use hindsight_trace_format::container::{Reader, Stacks};
use hindsight_trace_format::slot::{Event, Extension};

fn start(folder: &Path, more: &str) -> (Recorder, Arc<World>) {
    let world = Arc::new(World::default());
    let host = Box::new(FakeHost(Arc::clone(&world)));
    let configuration = format!("dir={},{more}", folder.display());
    let recorder = Recorder::start(common::parse(&configuration).unwrap(), host).unwrap();
    (recorder, world)
}

/// Takes the thread's stack, given innermost first. False if none was wanted.
fn take(thread: &TracedThread, methods: &[u64], force: bool) -> bool {
    take_for(thread, methods, force, ALLOCATION)
}

/// As [`take`], for this reason.
fn take_for(thread: &TracedThread, methods: &[u64], force: bool, reason: u8) -> bool {
    // SAFETY: the caller is the thread.
    let frames = unsafe {
        thread.begin_stack(if force {
            Spacing::None
        } else {
            Spacing::Interval
        })
    };
    if frames.is_null() {
        return false;
    }
    for (i, method) in methods.iter().enumerate() {
        // SAFETY: there is memory for more frames than any test has.
        let frame = unsafe { &mut *frames.add(i) };
        frame.method = *method;
        frame.dex_pc = 7;
    }
    // SAFETY: the caller is the thread.
    unsafe { thread.end_stack(reason, methods.len(), false) };
    true
}

/// Indices in `STACK_REASONS`.
const WAIT_ENDS: u8 = 1;
const ALLOCATION: u8 = 2;
const GC_WAIT: u8 = 8;
const TRANSACTION: u8 = 9;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// An event of a stack, as written.
#[derive(Debug, PartialEq, Eq)]
enum Recorded {
    Stack(Vec<u64>),
    Again(u64),
    Other,
}

/// The events of the file's rings, oldest first.
fn recorded(bytes: &[u8]) -> (Vec<Recorded>, Stacks) {
    let reader = Reader::new(bytes).unwrap();
    let stacks = reader.stacks().unwrap();
    let mut events = Vec::new();
    for index in reader.ring_indices() {
        let ring = reader.ring(index).unwrap().unwrap();
        let newest_first: Vec<_> = ring.slots().events().collect();
        for event in newest_first.iter().rev() {
            let Event::Extension { number } = event.event() else {
                events.push(Recorded::Other);
                continue;
            };
            let spec = Spec::from_number(number).unwrap();
            let payload: Vec<u64> = event.payloads().collect();
            let field = |name| spec.field(name).unwrap().get(&payload);
            events.push(match spec.extension {
                Extension::PackedStack => {
                    assert_eq!(field("reason"), u64::from(ALLOCATION));
                    let generation = stacks.generation(field("generation") as u32).unwrap();
                    let frames = generation.frames(field("node") as u32);
                    Recorded::Stack(frames.map(|f| f.method).collect())
                }
                Extension::StackAgain => Recorded::Again(field("times")),
                _ => Recorded::Other,
            });
        }
    }
    (events, stacks)
}

fn snapshot(thread: &mut Managed<'_>, recorder: &Recorder) -> Vec<u8> {
    match thread.native(|| recorder.snapshot("test".into(), 0, PATIENCE)) {
        SnapshotOutcome::Written(path) => std::fs::read(path).unwrap(),
        other => panic!("{other:?}"),
    }
}

const A: u64 = 0x7000_0000;
const B: u64 = 0x7000_0020;
const C: u64 = 0x7000_0040;

#[test]
fn a_thread_without_calls_has_stacks_with_names() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "events=stacks,stack-interval=0");
    let bytes = Managed::run(&recorder, &world, |thread| {
        assert!(!thread.is_traced());
        assert!(take(thread.state(), &[C, B, A], false));
        assert!(take(thread.state(), &[B, A], false));
        snapshot(thread, &recorder)
    });
    let (events, stacks) = recorded(&bytes);
    let expected = [
        Recorded::Other,
        Recorded::Stack(vec![C, B, A]),
        Recorded::Stack(vec![B, A]),
    ];
    assert_eq!(events, expected);
    assert_eq!(stacks.generations[0].nodes.len(), 3);
    assert!(stacks.generations[0].nodes.iter().all(|n| n.dex_pc == 7));
    let symbols = Reader::new(&bytes).unwrap().symbols().unwrap();
    let named: Vec<u64> = symbols.symbols.iter().map(|s| s.address).collect();
    assert_eq!(named, [A, B, C]);
}

#[test]
fn equal_stacks_are_recorded_before_the_ring_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "events=stacks,stack-interval=0");
    let (first, second) = Managed::run(&recorder, &world, |thread| {
        let enough = |thread: &Managed<'_>| {
            // The counter's rate is measured after 20 ms; without it no stacks are merged.
            for _ in 0..5 {
                take(thread.state(), &[B, A], false);
            }
        };
        let started = std::time::Instant::now();
        while started.elapsed() < std::time::Duration::from_millis(25) {
            take(thread.state(), &[A], false);
        }
        enough(thread);
        let first = snapshot(thread, &recorder);
        enough(thread);
        (first, snapshot(thread, &recorder))
    });
    let (events, _) = recorded(&first);
    let end = &events[events.len() - 2..];
    assert_eq!(end, [Recorded::Stack(vec![B, A]), Recorded::Again(4)]);
    // A new ring begins with a whole stack, after the one that was there before.
    let (events, _) = recorded(&second);
    let stacks = events.into_iter().filter(|event| *event != Recorded::Other);
    let stack = || Recorded::Stack(vec![B, A]);
    assert!(stacks.eq([stack(), stack(), Recorded::Again(4)]));
}

#[test]
fn stacks_are_in_order_with_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "trace=all,events=stacks,stack-interval=0");
    let bytes = Managed::run(&recorder, &world, |thread| {
        thread.enter(0x1_0000);
        assert!(take(thread.state(), &[A], false));
        thread.exit();
        // The same stack, but something was recorded since.
        assert!(take(thread.state(), &[A], false));
        snapshot(thread, &recorder)
    });
    let (events, _) = recorded(&bytes);
    let expected = [
        Recorded::Other,
        Recorded::Other,
        Recorded::Stack(vec![A]),
        Recorded::Other,
        Recorded::Stack(vec![A]),
    ];
    assert_eq!(events, expected);
}

#[test]
fn stacks_are_throttled_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    // An hour for the main thread, and for others.
    let (recorder, world) = start(folder.path(), "events=stacks,stack-interval=3600000000");
    Managed::run(&recorder, &world, |thread| {
        assert!(take(thread.state(), &[A], false));
        assert!(!take(thread.state(), &[A], false));
        assert!(take(thread.state(), &[A], true));
        assert!(!take(thread.state(), &[A], false));
    });
}

#[test]
fn a_stack_that_was_asked_for_is_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let (recorder, world) = start(folder.path(), "events=stacks,stack-interval=3600000000");
    let bytes = Managed::run(&recorder, &world, |thread| {
        let ask = |thread: &Managed<'_>, reason, force| {
            // SAFETY: this is the thread.
            unsafe { thread.state().ask_for_stack(reason, force) }
        };
        let asked_for = |thread: &Managed<'_>| thread.state().stack_asked_for();
        assert_eq!(asked_for(thread), None);
        // It waits for the collector, to allocate. Only then can it take its stack at its next safepoint.
        assert!(ask(thread, GC_WAIT, true), "the first one");
        assert!(ask(thread, ALLOCATION, false));
        thread.state().stack_is_coming();
        assert!(!ask(thread, TRANSACTION, true), "one is coming");
        assert_eq!(asked_for(thread), Some(GC_WAIT));
        assert!(take_for(thread.state(), &[A], true, GC_WAIT));
        assert!(!ask(thread, TRANSACTION, false), "too soon");
        assert!(!take_for(thread.state(), &[A], false, WAIT_ENDS));
        // A stack that is taken earlier has its own reason, and takes the place of the one that is asked for.
        assert!(ask(thread, GC_WAIT, true));
        assert!(take_for(thread.state(), &[B], false, WAIT_ENDS));
        assert!(!take_for(thread.state(), &[B], false, WAIT_ENDS));
        assert_eq!(asked_for(thread), None);
        // Another request after it is for another place.
        assert!(ask(thread, GC_WAIT, true), "none is coming any more");
        assert!(ask(thread, TRANSACTION, true));
        assert_eq!(asked_for(thread), Some(TRANSACTION));
        assert!(!take_for(thread.state(), &[B], false, WAIT_ENDS));
        snapshot(thread, &recorder)
    });
    let reader = Reader::new(&bytes).unwrap();
    let ring = reader.ring(0).unwrap().unwrap();
    let reasons: Vec<u64> = (ring.slots().events())
        .filter(|e| e.slot.low() == Extension::PackedStack.number())
        .map(|e| {
            let payload: Vec<u64> = e.payloads().collect();
            let spec = Extension::PackedStack.spec();
            spec.field("reason").unwrap().get(&payload)
        })
        .collect();
    // Newest first.
    assert_eq!(reasons, [WAIT_ENDS, GC_WAIT].map(u64::from));
}
