// SPDX-License-Identifier: Apache-2.0
//! Rings that are exchanged while things are under way; the test itself plays the thread, and the control thread.

use super::*;
use crate::handshake::TracedThread;
use crate::thread::ring::Ring;
use crate::thread::trace::StartReason;
use crate::thread::words::ThreadWords;
use hindsight_trace_format::ring::{Geometry, MIN_LOG2_BYTES};

const MESSAGE: u32 = Extension::MessageDispatched.number();
const DONE: u32 = Extension::MessageDone.number();
const WAIT: u32 = Extension::WaitBegin.number();
const WAITED: u32 = Extension::WaitEnd.number();
const HELD: u32 = Extension::LockWait.number();
const STACK: u32 = Extension::Stack.number();
/// In tests: the entry of a call.
const ENTERED: u32 = 0;
const BEGINS: (u32, Vec<u64>) = (Extension::PartBegins.number(), Vec::new());

fn ring(mode: RingMode) -> Ring {
    let geometry = Geometry::new(MIN_LOG2_BYTES).unwrap();
    Ring::new(geometry).unwrap().with_mode(mode)
}

/// A thread that records into a ring of this mode.
fn traced(words: &ThreadWords, mode: RingMode) -> TracedThread {
    // SAFETY: the words outlive the trace in every test.
    let thread = unsafe { TracedThread::new(1, "test", words) };
    // SAFETY: this test is the thread.
    unsafe { thread.begin(ring(mode), StartReason::Configuration) }.unwrap();
    thread
}

/// Takes the thread's ring, as the control thread does for a report.
fn exchange(thread: &TracedThread, mode: RingMode) -> TakenRing {
    // SAFETY: this test is the thread.
    let taken = unsafe { thread.take(&mut Some(ring(mode))) }.unwrap();
    thread.trace().note_under_way(&taken);
    taken
}

/// The events with which a ring begins in a file, oldest first, with their payloads: of calls, only the method. All that stands
/// after `BEGINS` has its own time.
fn begins_with(taken: &TakenRing) -> Vec<(u32, Vec<u64>)> {
    let slots = taken.under_way().unwrap().slots();
    let raw: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
    let position = Position {
        laps: 0,
        offset: raw.len() as u64,
    };
    let events = Slots::new(&raw, position).events();
    let mut events: Vec<_> = events
        .filter(|event| event.slot.low() != FULL_TIME)
        .map(|event| match event.entered_method() {
            Some(method) => (ENTERED, vec![method]),
            None if event.slot.low() == ENTERED_BEFORE => {
                (ENTERED_BEFORE, vec![event.payload(0).unwrap()])
            }
            None => (event.slot.low(), event.payloads().collect()),
        })
        .collect();
    events.reverse();
    assert_eq!(events.pop(), Some(BEGINS), "the ring's own slots begin");
    events
}

/// Calls that began before all is known, and later ones.
fn calls(before: &[u64], since: &[u64]) -> Vec<(u32, Vec<u64>)> {
    let of = |number: u32, methods: &[u64]| methods.iter().map(|m| (number, vec![*m])).collect();
    let parts: [Vec<_>; 3] = [of(ENTERED_BEFORE, before), of(ENTERED, since), Vec::new()];
    [vec![BEGINS], parts.concat()].concat()
}

/// Records events with their payloads, as the thread.
fn record(thread: &TracedThread, events: &[(u32, Vec<u64>)]) {
    for (number, payload) in events {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(*number, payload) };
    }
}

#[test]
fn a_thread_that_stands_still_has_its_calls_in_each_of_its_rings() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Calls);
    // SAFETY: this test is the thread.
    unsafe {
        thread.record_entry(0x7000_1000);
        thread.record_entry(0x7000_3000);
        thread.record_exit();
        thread.record_entry(0x12_3456_7890);
    }
    let first = exchange(&thread, RingMode::Calls);
    assert!(first.under_way().is_none(), "it had no ring before");
    // The exit belongs to a call that began after the first one.
    let open = calls(&[0x7000_1000], &[0x12_3456_7890]);
    for _ in 0..3 {
        let taken = exchange(&thread, RingMode::Calls);
        assert!(taken.slots().is_empty());
        assert_eq!(begins_with(&taken), open);
    }
    // It goes on.
    // SAFETY: this test is the thread.
    unsafe {
        thread.record_exit();
        thread.record_entry(0x7000_5000);
    }
    assert_eq!(begins_with(&exchange(&thread, RingMode::Calls)), open);
    let taken = exchange(&thread, RingMode::Calls);
    assert_eq!(begins_with(&taken), calls(&[0x7000_1000], &[0x7000_5000]));
    record(&thread, &[(UNWOUND, vec![2])]);
    exchange(&thread, RingMode::Calls);
    assert_eq!(begins_with(&exchange(&thread, RingMode::Calls)), [BEGINS]);
}

#[test]
fn what_was_open_before_recording_began_anew_is_not_known() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Calls);
    // SAFETY: this test is the thread.
    unsafe {
        thread.record_entry(0x7000_1000);
        assert!(thread.take(&mut None).is_some());
        let ring = ring(RingMode::Calls);
        thread.begin(ring, StartReason::Request).unwrap();
        thread.record_entry(0x7000_2000);
    }
    exchange(&thread, RingMode::Calls);
    let taken = exchange(&thread, RingMode::Calls);
    assert_eq!(begins_with(&taken), calls(&[], &[0x7000_2000]));
}

#[test]
fn only_the_ring_that_follows_gets_what_was_under_way() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Calls);
    // SAFETY: this test is the thread.
    unsafe { thread.record_entry(0x7000_1000) };
    // SAFETY: this test is the thread.
    let first = unsafe { thread.take(&mut Some(ring(RingMode::Calls))) }.unwrap();
    // Before the control thread has noted it, the thread ends, or changes its ring.
    // SAFETY: this test is the thread.
    let second = unsafe { thread.take(&mut Some(ring(RingMode::Calls))) }.unwrap();
    thread.trace().note_under_way(&first);
    assert!(second.under_way().is_none());
    // SAFETY: this test is the thread.
    let third = unsafe { thread.retire() }.unwrap();
    thread.trace().note_under_way(&second);
    assert!(third.under_way().is_none());
}

#[test]
fn the_message_the_wait_and_the_last_stack_go_on() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Events);
    let open = [
        (MESSAGE, vec![2, 0x7000_2000, 7]),
        (HELD, vec![77, 0xabcd]),
        (WAIT, vec![9 << 32 | 1, 0xabcd, 0]),
        (STACK, vec![4 << 32 | 12, 0]),
    ];
    record(
        &thread,
        &[
            (MESSAGE, vec![1, 0x7000_2000, 7]),
            (STACK, vec![4 << 32 | 11, 0]),
            (DONE, vec![1]),
        ],
    );
    record(&thread, &open[..1]);
    record(&thread, &[(HELD, vec![78, 0xabce])]);
    record(&thread, &[(WAIT, vec![8 << 32 | 1, 0xabce, 0])]);
    record(&thread, &[(WAITED, vec![8 << 32 | 1])]);
    record(&thread, &open[1..]);
    let first = exchange(&thread, RingMode::Events);
    for _ in 0..2 {
        let taken = exchange(&thread, RingMode::Events);
        let [message, rest @ ..] = &open;
        let begins = [&[message.clone(), BEGINS][..], rest].concat();
        assert_eq!(begins_with(&taken), begins);
        let oldest = taken.under_way().unwrap().oldest();
        assert!((first.header.started_counter..first.header.stopped_counter).contains(&oldest));
        assert!(oldest < taken.header.started_counter);
    }
    record(&thread, &[(WAITED, vec![9 << 32 | 1])]);
    exchange(&thread, RingMode::Events);
    let taken = exchange(&thread, RingMode::Events);
    assert_eq!(
        begins_with(&taken),
        [open[0].clone(), open[3].clone(), BEGINS]
    );
    record(&thread, &[(DONE, vec![2])]);
    exchange(&thread, RingMode::Events);
    assert_eq!(begins_with(&exchange(&thread, RingMode::Events)), [BEGINS]);
}

#[test]
fn a_thread_whose_calls_are_not_recorded_any_more_keeps_its_message() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Calls);
    let message = (MESSAGE, vec![2, 0x7000_2000, 7]);
    record(&thread, std::slice::from_ref(&message));
    // SAFETY: this test is the thread.
    unsafe { thread.record_entry(0x7000_1000) };
    exchange(&thread, RingMode::Events);
    let taken = exchange(&thread, RingMode::Events);
    assert_eq!(begins_with(&taken), [BEGINS, message]);
}

/// A small random number.
fn below(state: &mut u64, limit: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 16) % limit
}

/// Rings of any length, some of which wrap, at whose ends any calls are open.
#[test]
fn the_open_calls_are_right_after_any_program() {
    let (mut wrapped, mut deep) = (0, 0);
    for seed in 1..40 {
        let words = ThreadWords::new();
        let thread = traced(&words, RingMode::Calls);
        let mut state = seed * 0x9e37_79b9;
        // Each call with the ring in which it began.
        let mut open: Vec<(u64, u32)> = Vec::new();
        let mut is_exact = true;
        for part in 0..6 {
            let entries = 3 + below(&mut state, 5);
            for _ in 0..below(&mut state, 1200) {
                let method = 0x7000_1000 + 8 * below(&mut state, 100);
                // SAFETY: this test is the thread.
                unsafe {
                    if below(&mut state, 10) < entries && open.len() < 240 {
                        thread.record_entry(method);
                        open.push((method, part));
                    } else if below(&mut state, 20) == 0 {
                        let frames = below(&mut state, 3).min(open.len() as u64);
                        thread.record_event(UNWOUND, &[frames]);
                        open.truncate(open.len() - frames as usize);
                    } else if open.pop().is_some() {
                        thread.record_exit();
                    }
                }
            }
            let taken = exchange(&thread, RingMode::Calls);
            let is_whole = taken.header.position.laps == 0;
            wrapped += u32::from(!is_whole);
            // Of a ring that has wrapped, calls that began before it are not known.
            is_exact &= is_whole;
            let known = open.iter().filter(|(_, began)| is_exact || *began == part);
            let known: Vec<u64> = known.map(|(method, _)| *method).collect();
            deep += u32::from(known.len() > 150);
            let found = at_end_of(&taken);
            let since = found.since.iter().map(|event| event.slots[0] & 0xffff_ffff);
            let found: Vec<u64> = found.calls.iter().copied().chain(since).collect();
            if is_exact || !is_whole {
                assert_eq!(found, known, "seed {seed}, part {part}");
            } else {
                // Those that were known when it began, too.
                assert!(found.ends_with(&known), "seed {seed}, part {part}");
            }
        }
    }
    assert!(wrapped > 10 && deep > 10, "{wrapped}, {deep}");
}

#[test]
fn of_a_ring_that_is_too_long_to_be_read_nothing_older_is_taken_to_go_on() {
    let words = ThreadWords::new();
    let thread = traced(&words, RingMode::Calls);
    // SAFETY: this test is the thread.
    unsafe { thread.record_entry(0x7000_1000) };
    let first = exchange(&thread, RingMode::Calls);
    // SAFETY: this test is the thread.
    unsafe {
        // The call ends, and more follows than is read.
        thread.record_exit();
        for _ in 0..10 {
            thread.record_entry(0x7000_3000);
            thread.record_exit();
        }
        thread.record_entry(0x7000_5000);
    }
    let second = exchange(&thread, RingMode::Calls);
    assert_eq!(begins_with(&second), calls(&[], &[0x7000_1000]));
    for most in [1, 2, 21, 1000] {
        let open = at_end_within(&second, most);
        let since = open.since.len();
        assert!(
            open.before.is_empty() && open.calls.is_empty() && since == 1,
            "{most}: {open:?}"
        );
        let is_all = open.complete_from == second.header.started_counter;
        assert!(!is_all, "{most}: {open:?}");
    }
    drop(first);
}
