// SPDX-License-Identifier: Apache-2.0
//! Tests of one thread's trace; the test itself plays the thread.

use super::*;
use crate::handshake::TracedThread;
use crate::thread::ring::RingPool;
use hindsight_trace_format::ring::{Geometry, Position, MIN_LOG2_BYTES};
use hindsight_trace_format::slot::Event;

fn ring() -> Ring {
    Ring::new(Geometry::new(MIN_LOG2_BYTES).unwrap()).unwrap()
}

fn extension(extension: Extension) -> Event {
    Event::Extension {
        number: extension.number(),
    }
}

/// A traced thread with these words; the test itself plays the thread.
fn traced(words: &ThreadWords) -> TracedThread {
    // A change of the counter's upper half is an event of its own: none comes for at least half its period.
    while clock::counter() as u32 > u32::MAX / 2 {
        std::thread::yield_now();
    }
    // SAFETY: the words outlive the trace in every test.
    let trace = unsafe { TracedThread::new(1, "test", words) };
    // SAFETY: this test is the thread.
    unsafe { trace.begin(ring(), StartReason::Request) }.unwrap();
    trace
}

#[test]
fn what_is_recorded_is_what_is_taken() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    // SAFETY: this test is the thread.
    let taken = unsafe {
        trace.record_entry(0x7000_1000);
        trace.record_entry(0x12_3456_7890);
        trace.record_unwound(1);
        trace.record_event(Extension::LockWait.number(), &[77, 0xabcd]);
        trace.record_exit();
        trace.take(&mut None).unwrap()
    };
    assert_eq!(words.cursor().load(Ordering::Relaxed), 0);
    assert!(!words.is_marked_traced());
    let mut events: Vec<_> = taken
        .slots()
        .events()
        .map(|e| (e.event(), e.payloads().collect::<Vec<_>>()))
        .collect();
    events.reverse();
    assert_eq!(
        events,
        [
            (extension(Extension::Started), vec![1]),
            (
                Event::Entry {
                    method: 0x7000_1000
                },
                vec![]
            ),
            (Event::WideEntry, vec![0x12_3456_7890]),
            (extension(Extension::Unwound), vec![1]),
            (extension(Extension::LockWait), vec![77, 0xabcd]),
            (Event::Exit, vec![]),
            (extension(Extension::Stopped), vec![]),
        ]
    );
    assert_eq!(taken.written_bytes().len(), 12 * SLOT_BYTES);
}

fn events_ring() -> Ring {
    ring().with_mode(RingMode::Events)
}

/// A thread that records these events only; the test itself plays the thread.
fn with_events(words: &ThreadWords, spool: Option<Arc<Spool>>) -> TracedThread {
    // SAFETY: the words outlive the trace in every test.
    let thread = unsafe { TracedThread::new_in_process(1, 5, "test", words, spool) };
    thread.trace().set_events(Category::Waits.bit());
    // SAFETY: this test is the thread.
    unsafe { thread.begin(events_ring(), StartReason::Configuration) }.unwrap();
    thread
}

/// The events in a ring, oldest first, with their payloads.
fn events(taken: &TakenRing) -> Vec<(Extension, Vec<u64>)> {
    let mut events: Vec<_> = (taken.slots().events())
        .filter_map(|e| match e.event() {
            Event::Extension { number } => {
                Some((Extension::from_number(number)?, e.payloads().collect()))
            }
            _ => None,
        })
        .collect();
    events.reverse();
    events
}

#[test]
fn a_thread_with_events_only_has_no_trace_points() {
    let words = ThreadWords::new();
    let thread = with_events(&words, None);
    assert_eq!(words.events(), Category::Waits.bit());
    assert!(!words.is_marked_traced() && !thread.trace().is_traced());
    let wakes = Extension::Wakes.number();
    // SAFETY: this test is the thread.
    let (only_events, with_calls) = unsafe {
        thread.record_entry(0x7000_1000);
        thread.record_event(wakes, &[1]);
        thread.record_event_suspended(wakes, &[2]);
        let only_events = thread.take(&mut Some(ring())).unwrap();
        assert!(words.is_marked_traced() && thread.trace().is_traced());
        thread.record_event(wakes, &[3]);
        thread.record_exit();
        (only_events, thread.retire().unwrap())
    };
    let wakes = |n| (Extension::Wakes, vec![n]);
    assert_eq!(
        events(&only_events),
        [(Extension::Started, vec![0]), wakes(1), wakes(2)]
    );
    assert_eq!(only_events.slots().events().count(), 3, "no calls");
    assert_eq!(
        events(&with_calls),
        [wakes(3), (Extension::Stopped, vec![])]
    );
    assert_eq!(with_calls.slots().events().count(), 3, "and an exit");
    let header = |taken: &TakenRing| (taken.header.thread, taken.header.part, taken.header.mode);
    assert_eq!(header(&only_events), (5, 0, RingMode::Events));
    assert_eq!(header(&with_calls), (5, 1, RingMode::Calls));
    assert_eq!(words.events(), 0);
}

#[test]
fn full_rings_of_events_go_to_the_spool_oldest_out_first() {
    let pool = RingPool::with_mode(ring().geometry(), RingMode::Events);
    let spool = Arc::new(Spool::new(2, pool));
    let words = ThreadWords::new();
    let thread = with_events(&words, Some(Arc::clone(&spool)));
    // An event has 2 slots, and the first ring 2 for the start.
    let a_ring = (4096 / SLOT_BYTES / 2) as u64;
    let count = 4 * a_ring + 3;
    for i in 0..count {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[i]) };
    }
    // SAFETY: this test is the thread.
    let last = unsafe { thread.retire() }.unwrap();
    let (mut rings, dropped) = spool.take_all();
    assert_eq!((rings.len(), dropped), (2, 2));
    rings.push(last);
    assert_eq!(
        rings.iter().map(|r| r.header.part).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    let numbers: Vec<u64> = (rings.iter().flat_map(events))
        .filter(|(e, _)| *e == Extension::Wakes)
        .map(|(_, payload)| payload[0])
        .collect();
    let oldest = 2 * a_ring - 1;
    assert_eq!(numbers, (oldest..count).collect::<Vec<_>>());
}

/// A thread that gives its full rings to the spool.
fn with_spool(words: &ThreadWords) -> (TracedThread, Arc<Spool>) {
    let pool = RingPool::with_mode(ring().geometry(), RingMode::Events);
    let spool = Arc::new(Spool::new(4, pool));
    (with_events(words, Some(Arc::clone(&spool))), spool)
}

#[test]
fn no_event_is_older_than_the_start_of_its_ring() {
    let words = ThreadWords::new();
    let (thread, spool) = with_spool(&words);
    while spool.summary().0 < 2 {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[1]) };
    }
    // SAFETY: this test is the thread.
    let taken = unsafe { thread.take(&mut None) }.unwrap();
    // The newest event is also the oldest: the one that the ring was exchanged for.
    let [anchor] = taken.anchors[..] else {
        panic!("{:?}", taken.anchors);
    };
    assert_eq!(anchor.slots_written, 3, "an event, and the stop");
    let (full, _) = spool.take_all();
    assert!(full[1].header.stopped_counter <= taken.header.started_counter);
    let first = taken.slots().events().last().unwrap();
    assert_eq!(first.counter(), taken.header.started_counter as u32);
}

#[test]
fn a_suspended_thread_gives_its_full_rings_to_the_spool() {
    let words = ThreadWords::new();
    let (thread, spool) = with_spool(&words);
    let count = 3 * (4096 / SLOT_BYTES / 2) as u64;
    for i in 0..count {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event_suspended(Extension::Wakes.number(), &[i]) };
    }
    // SAFETY: this test is the thread.
    let last = unsafe { thread.retire() }.unwrap();
    let (mut rings, _) = spool.take_all();
    rings.push(last);
    assert!(rings.iter().all(|ring| ring.header.position.laps == 0));
    let recorded = rings
        .iter()
        .flat_map(events)
        .filter(|(e, _)| *e == Extension::Wakes);
    assert_eq!(recorded.count() as u64, count);
}

#[test]
fn the_stop_of_a_full_ring_overwrites_nothing() {
    let words = ThreadWords::new();
    let (thread, spool) = with_spool(&words);
    // The ring has 512 slots, two of them for the start.
    for i in 0..255 {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[i]) };
    }
    assert_eq!(spool.summary().0, 0);
    // SAFETY: this test is the thread.
    let last = unsafe { thread.retire() }.unwrap();
    assert_eq!(events(&last), [(Extension::Stopped, vec![])]);
    let (rings, _) = spool.take_all();
    assert_eq!(rings[0].header.position.laps, 0);
    assert_eq!(events(&rings[0]).len(), 256);
}

#[test]
fn a_ring_of_events_wraps_where_the_spool_is_busy() {
    let words = ThreadWords::new();
    let thread = with_events(&words, None);
    for i in 0..1000 {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[i]) };
    }
    // SAFETY: this test is the thread.
    let taken = unsafe { thread.retire() }.unwrap();
    assert_eq!(taken.header.position.laps, 3);
    let events = events(&taken);
    assert_eq!(events[events.len() - 2], (Extension::Wakes, vec![999]));
    // The stop has one slot, so the oldest event is cut.
    assert_eq!(events.len(), 256);
}

#[test]
fn whole_counters_bound_a_long_pause() {
    let words = ThreadWords::new();
    let thread = with_events(&words, None);
    let record = || {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[1]) }
    };
    record();
    let before = thread.trace().newest.load(Ordering::Relaxed);
    let long_ago = before.saturating_sub(WHOLE_COUNTER_AFTER);
    thread
        .trace()
        .newest_whole
        .store(long_ago, Ordering::Relaxed);
    record();
    record();
    // SAFETY: this test is the thread.
    let taken = unsafe { thread.retire() }.unwrap();
    let events = events(&taken);
    let (kind, payload) = &events[2];
    assert_eq!((*kind, payload[0]), (Extension::FullTime, before));
    assert!(payload[1] >= before);
    assert_eq!(events.len(), 6, "{events:?}");
    let [anchor] = taken.anchors[..] else {
        panic!("{:?}", taken.anchors);
    };
    assert!(anchor.counter >= payload[1]);
    let newest = taken.slots().events().next().unwrap();
    assert_eq!(
        newest.counter(),
        anchor.counter as u32,
        "of the newest event"
    );
    assert_eq!(anchor.slots_written, 2 + 2 + 3 + 2 + 2 + 1);
}

#[test]
fn an_event_with_the_wrong_payload_is_not_recorded() {
    let words = ThreadWords::new();
    let thread = with_events(&words, None);
    let wrong = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: this test is the thread.
        unsafe { thread.record_event(Extension::Wakes.number(), &[1, 2]) }
    }));
    assert_eq!(wrong.is_err(), cfg!(debug_assertions));
    // SAFETY: this test is the thread.
    let taken = unsafe { thread.retire() }.unwrap();
    let mut events = events(&taken);
    // To print the panic may take a second, after which the thread records the time.
    events.retain(|(event, _)| *event != Extension::FullTime);
    assert_eq!(events.len(), 2);
}

#[test]
fn a_swap_loses_nothing_and_recording_goes_on() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    // SAFETY: this test is the thread.
    unsafe {
        trace.record_exit();
        assert!(words.is_marked_traced());
        let first = trace.take(&mut Some(ring())).unwrap();
        assert!(words.is_marked_traced());
        trace.record_exit();
        trace.record_exit();
        let second = trace.retire().unwrap();
        assert!(!words.is_marked_traced());
        let events =
            |taken: &TakenRing| -> Vec<_> { taken.slots().events().map(|e| e.event()).collect() };
        let started = extension(Extension::Started);
        assert_eq!(events(&first), [Event::Exit, started]);
        let stopped = extension(Extension::Stopped);
        assert_eq!(events(&second), [stopped, Event::Exit, Event::Exit]);
        assert!(second.header.started_counter >= first.header.stopped_counter);
        assert!(
            trace.begin(ring(), StartReason::Request).is_err(),
            "a retired thread stays so"
        );
    }
}

#[test]
fn appending_wraps_before_the_guard_page() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    let slots = 4096 / SLOT_BYTES;
    // SAFETY: this test is the thread.
    let taken = unsafe {
        for i in 0..slots + 3 {
            trace.record_entry(0x1_0000 + i as u64);
        }
        trace.take(&mut None).unwrap()
    };
    assert_eq!(
        taken.header.position,
        Position {
            laps: 1,
            offset: 6 * 8
        }
    );
    let newest = taken.slots().events().nth(1).unwrap();
    assert_eq!(newest.entered_method(), Some(0x1_0000 + slots as u64 + 2));
    // Two slots say that tracing started, one that it stopped.
    assert_eq!(taken.slots().get(0).unwrap().low(), 0x1_0000 + 4);
}

#[test]
fn only_the_cursor_at_the_end_wraps() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    let base = trace.trace().place.base();
    let end = base + 4096;
    assert_eq!(trace.wrap(end, end), Some(base));
    assert_eq!(trace.wrap(end + 4, end), Some(base));
    assert_eq!(trace.wrap(end + 8, end), None);
    assert_eq!(trace.wrap(end, base), None);
    assert_eq!(trace.wrap(0, 0), None);
    assert_eq!(trace.trace().place.done(), 2);
}

/// The events of calls, oldest first.
fn calls(taken: &TakenRing) -> Vec<Event> {
    let mut events: Vec<_> = taken.slots().events().map(|e| e.event()).collect();
    events.reverse();
    events.retain(|e| !matches!(e, Event::Extension { .. }));
    events
}

fn entry(method: u32) -> Event {
    Event::Entry { method }
}

#[test]
fn short_calls_are_taken_back_and_their_callers_too() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    trace.trace().set_rewind_below(|| u32::MAX);
    // SAFETY: this test is the thread.
    let taken = unsafe {
        trace.record_entry(0x7000_1000);
        trace.record_entry(0x7000_2000);
        trace.record_entry(0x7000_3000);
        trace.record_exit();
        trace.record_exit();
        // An event keeps the call in which it was recorded, and that call's callers.
        trace.record_event(Extension::UserMark.number(), &[7]);
        trace.record_entry(0x7000_4000);
        trace.record_exit();
        trace.record_exit();
        trace.take(&mut None).unwrap()
    };
    assert_eq!(calls(&taken), [entry(0x7000_1000), Event::Exit]);
    let epochs = taken.header.epochs.unwrap();
    assert_eq!((epochs.rewind_below, epochs.taken_back), (u32::MAX, 3));
}

#[test]
fn without_a_limit_all_calls_are_kept() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    // SAFETY: this test is the thread.
    let taken = unsafe {
        trace.record_entry(0x7000_1000);
        trace.record_exit();
        trace.take(&mut None).unwrap()
    };
    assert_eq!(calls(&taken), [entry(0x7000_1000), Event::Exit]);
    assert_eq!(taken.header.epochs.unwrap().taken_back, 0);
}

#[test]
fn the_time_between_entry_and_exit_decides() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    let trace = trace.trace();
    trace.set_rewind_below(|| 1000);
    let now = clock::counter();
    // A change of the upper half would keep the calls.
    let at = if now as u32 > u32::MAX - 5000 {
        now + 10_000
    } else {
        now
    };
    words.set_epoch((at >> 32) as u32);
    // SAFETY: this test is the thread.
    let (long, short) = unsafe {
        trace.append(at, &[Slot::entry(0x7000_1000, at).0]);
        let long = trace.take_back(at + 1000);
        (long, trace.take_back(at + 999))
    };
    assert_eq!((long, short), (false, true));
}

#[test]
fn an_exception_takes_short_calls_back() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    trace.trace().set_rewind_below(|| u32::MAX);
    // SAFETY: this test is the thread.
    let taken = unsafe {
        trace.record_entry(0x7000_1000);
        trace.record_event(Extension::UserMark.number(), &[7]);
        trace.record_entry(0x7000_2000);
        trace.record_entry(0x7000_3000);
        trace.record_unwound(3);
        trace.record_entry(0x7000_4000);
        trace.record_unwound(1);
        trace.take(&mut None).unwrap()
    };
    let unwound: Vec<_> = (taken.slots().events())
        .filter(|e| e.event() == extension(Extension::Unwound))
        .map(|e| e.payload(0))
        .collect();
    assert_eq!(
        (calls(&taken), unwound),
        (vec![entry(0x7000_1000)], vec![Some(1)])
    );
    assert_eq!(taken.header.epochs.unwrap().taken_back, 3);
}

#[test]
fn a_call_across_the_rings_end_is_kept() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    trace.trace().set_rewind_below(|| u32::MAX);
    let slots = 4096 / SLOT_BYTES;
    // SAFETY: this test is the thread.
    let taken = unsafe {
        // `Started` has two slots: the last of these entries is the first slot of the second lap.
        for i in 0..slots as u64 - 1 {
            trace.record_entry(0x1_0000 + i);
        }
        trace.record_exit();
        trace.record_exit();
        trace.take(&mut None).unwrap()
    };
    let kept = [entry(0x1_0000 + slots as u32 - 3), Event::Exit];
    assert!(calls(&taken).ends_with(&kept));
    assert_eq!(taken.header.epochs.unwrap().taken_back, 1);
}

#[test]
fn slots_that_were_taken_back_are_no_slots_of_the_lap_before() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    let slots = 4096 / SLOT_BYTES;
    // SAFETY: this test is the thread.
    let taken = unsafe {
        for i in 0..slots as u64 {
            trace.record_entry(0x1_0000 + i);
        }
        trace.trace().set_rewind_below(|| u32::MAX);
        for _ in 0..3 {
            trace.record_entry(0x7000_1000);
        }
        for _ in 0..3 {
            trace.record_exit();
        }
        trace.take(&mut None).unwrap()
    };
    // `Started` pushed two entries into the second lap; three slots of the first are gone.
    assert_eq!(calls(&taken).first(), Some(&entry(0x1_0000 + 3)));
    assert_eq!(taken.slots().len(), slots - 3 + 1);
}

#[test]
fn a_change_of_the_counters_upper_half_is_recorded() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    trace.trace().set_rewind_below(|| u32::MAX);
    let epoch = (clock::counter() >> 32) as u32;
    // SAFETY: this test is the thread.
    let taken = unsafe {
        trace.record_entry(0x7000_1000);
        // As if the thread had recorded nothing for so long.
        words.set_epoch(epoch.wrapping_sub(2));
        trace.record_exit();
        trace.take(&mut None).unwrap()
    };
    let event = (taken.slots().events())
        .find(|e| e.event() == extension(Extension::FullTime))
        .unwrap();
    let before = u64::from(epoch.wrapping_sub(2)) << 32 | 0xffff_ffff;
    assert_eq!(event.payload(0), Some(before));
    let now = event.payload(1).unwrap();
    assert!(now as u32 == event.counter() && now >> 32 >= u64::from(epoch));
    // The call took longer than the low half of the counter shows.
    assert_eq!(calls(&taken), [entry(0x7000_1000), Event::Exit]);
}

#[test]
fn the_newest_slots_epoch_is_known_after_a_long_pause() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    let epoch = ((clock::counter() >> 32) as u32).wrapping_sub(3);
    // As if the last slot were that old.
    words.set_epoch(epoch);
    // SAFETY: this test is the thread.
    let taken = unsafe { trace.take(&mut Some(ring())).unwrap() };
    let epochs = taken.header.epochs.unwrap();
    assert_eq!(epochs.epoch, epoch);
    assert_eq!(taken.anchors[0].counter, epochs.end());
}

#[test]
fn a_ring_names_the_largest_limit_it_had() {
    let words = ThreadWords::new();
    let trace = traced(&words);
    for limit in [5, 70, 0] {
        trace.trace().set_rewind_below(|| limit);
    }
    let limit = |taken: TakenRing| taken.header.epochs.unwrap().rewind_below;
    // SAFETY: this test is the thread.
    unsafe {
        assert_eq!(limit(trace.take(&mut Some(ring())).unwrap()), 70);
        assert_eq!(limit(trace.take(&mut Some(ring())).unwrap()), 0);
    }
}
