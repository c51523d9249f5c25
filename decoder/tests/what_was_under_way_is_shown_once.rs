// SPDX-License-Identifier: Apache-2.0
//! A thread whose second ring is not in the file: the third one begins with what was under way, of which the first ring has a part.

use hindsight_decoder::{Extension, Flags, RingMode, Thread, Trace};
use hindsight_testkit::{Recorder, Script, EPOCH};
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::ring::Position;
use hindsight_trace_format::shared::{Open, OpenEvent, UnderWay};
use hindsight_trace_format::slot::{Event, Slot};

const DISPATCHED: Extension = Extension::MessageDispatched;
const MESSAGE: [u64; 3] = [7, 0, 0];
const WAIT: [u64; 3] = [3, 0, 0];
const WAITED: [u64; 1] = [3];

/// An event of what is under way, at this time.
fn open(ns: u64, low: u32, payload: &[u64]) -> OpenEvent {
    let counter = EPOCH + ns;
    let closing = Slot::new(low, counter).0;
    let slots = payload.iter().copied().chain([closing]).collect();
    OpenEvent { counter, slots }
}

fn message(ns: u64) -> OpenEvent {
    open(ns, DISPATCHED.number(), &MESSAGE)
}

fn wait(ns: u64) -> OpenEvent {
    open(ns, Extension::WaitBegin.number(), &WAIT)
}

/// Lets a ring begin with what was under way, as a writer of files does.
fn begin_with(r: &mut Recorder<'_>, under_way: &UnderWay) {
    let slots = under_way.slots();
    let raw: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
    let position = Position {
        laps: 0,
        offset: raw.len() as u64,
    };
    let mut events: Vec<_> = Slots::new(&raw, position).events().collect();
    events.reverse();
    for event in events {
        // All times are in few seconds after the script's time 0.
        r.at(u64::from(event.counter().wrapping_sub(EPOCH as u32)));
        let payload: Vec<u64> = event.payloads().collect();
        match event.event() {
            Event::Exit => r.exit(),
            Event::Entry { method } => r.enter(u64::from(method)),
            Event::WideEntry => r.enter(payload[0]),
            Event::Extension { number } => r.raw_extension(number, &payload),
        };
    }
}

/// The recording of a thread that had its first ring until 100 ns, and its third one, with these notes, from `began` to 900 ns.
fn over_a_missing_ring(
    first: impl FnOnce(&mut Recorder<'_>),
    (began, mode): (u64, RingMode),
    open: impl FnOnce(u64) -> Open,
    third: impl FnOnce(&mut Recorder<'_>),
) -> Thread {
    let mut s = Script::new("p");
    s.method("a.C.f", "()V");
    let t = s.events_thread(7, "main", 1);
    s.header(t).mode = mode;
    first(&mut s.at(t, 0));
    let t = s.next_part(t, mode, 100);
    let under_way = UnderWay::new(EPOCH + began, &open(EPOCH));
    let header = s.header(t);
    (header.part, header.started_counter) = (2, under_way.oldest());
    let mut r = s.at(t, 0);
    begin_with(&mut r, &under_way);
    third(r.at(began));
    s.stop_at(900);
    let mut trace = Trace::decode("script".as_ref(), &s.encode()).unwrap();
    assert_eq!(trace.threads.len(), 1, "one recording of the thread");
    trace.threads.remove(0)
}

fn events(thread: &Thread) -> Vec<(u64, Extension)> {
    let events = thread.events.iter();
    events.map(|e| (e.at_ns - EPOCH, e.kind)).collect()
}

fn parts(thread: &Thread) -> Vec<(u64, u64)> {
    let parts = thread.parts.iter();
    let times = |p: &hindsight_decoder::ThreadPart| (p.start_ns - EPOCH, p.end_ns - EPOCH);
    parts.map(times).collect()
}

/// Start, end, and whether they are open.
fn calls(thread: &Thread) -> Vec<(u64, u64, (bool, bool))> {
    let calls = thread.calls.iter();
    let open = |f: Flags| (f.contains(Flags::OPEN_START), f.contains(Flags::OPEN_END));
    calls
        .map(|c| (c.start_ns - EPOCH, c.end_ns - EPOCH, open(c.flags)))
        .collect()
}

#[test]
fn what_was_the_newest_event_goes_on_over_the_gap() {
    let f = hindsight_testkit::FIRST_METHOD;
    let thread = over_a_missing_ring(
        |r| {
            r.at(10).extension(DISPATCHED, &MESSAGE);
        },
        (700, RingMode::Calls),
        // Something ended at 600 ns.
        |epoch| Open {
            complete_from: epoch + 600,
            before: vec![message(10)],
            calls: vec![f],
            since: vec![wait(650)],
        },
        |_| {},
    );
    let expected = [(10, DISPATCHED), (650, Extension::WaitBegin)];
    assert_eq!(events(&thread), expected);
    assert_eq!(parts(&thread), [(10, 100), (600, 900)]);
    let gaps: Vec<_> = thread.gaps().collect();
    assert_eq!((gaps.len(), thread.stats.gaps), (1, 1));
    assert_eq!((gaps[0].next_event, gaps[0].carried.len()), (1, 1));
    assert!(gaps[0].is_carried(&thread.events[0]) && !gaps[0].is_carried(&thread.events[1]));
    assert_eq!(calls(&thread), [(600, 900, (true, true))]);
}

#[test]
fn without_other_events_the_ring_begins_when_all_is_known() {
    let thread = over_a_missing_ring(
        |r| {
            r.at(10).extension(Extension::WaitBegin, &WAIT);
        },
        (700, RingMode::Events),
        |epoch| Open {
            complete_from: epoch + 600,
            before: vec![wait(10)],
            ..Open::default()
        },
        |r| {
            r.at(800).extension(Extension::UserMark, &[0]);
        },
    );
    let expected = [(10, Extension::WaitBegin), (800, Extension::UserMark)];
    assert_eq!(events(&thread), expected);
    assert_eq!(parts(&thread), [(10, 100), (600, 900)]);
    assert_eq!(thread.stats.gaps, 1);
}

/// What began in the missing ring has its own time, also if more is missing after it.
#[test]
fn what_began_in_the_missing_ring_is_kept() {
    let thread = over_a_missing_ring(
        |r| {
            r.at(10)
                .extension(DISPATCHED, &MESSAGE)
                .at(50)
                .extension(Extension::UserMark, &[0]);
        },
        (700, RingMode::Events),
        |epoch| Open {
            complete_from: epoch + 600,
            before: vec![message(10), wait(300)],
            ..Open::default()
        },
        |_| {},
    );
    let kinds = [DISPATCHED, Extension::UserMark, Extension::WaitBegin];
    let expected: Vec<_> = [10, 50, 300].into_iter().zip(kinds).collect();
    assert_eq!(events(&thread), expected);
    assert_eq!(parts(&thread), [(10, 100), (300, 900)]);
    let gap = thread.gaps().next().unwrap();
    assert_eq!((gap.next_event, gap.carried.len()), (2, 1));
}

#[test]
fn if_nothing_ended_since_the_newest_event_nothing_is_missing() {
    let f = hindsight_testkit::FIRST_METHOD;
    let first = |r: &mut Recorder<'_>| {
        r.at(10)
            .extension(DISPATCHED, &MESSAGE)
            .at(20)
            .enter(f)
            .at(30)
            .call(f, 10)
            .at(50)
            .extension(Extension::WaitBegin, &WAIT);
    };
    let third = |r: &mut Recorder<'_>| {
        r.at(700).extension(Extension::WaitEnd, &WAITED).exit();
    };
    // The first event of the missing ring, if there is one.
    for later in [None, Some(250)] {
        let held = later.map(|ns| open(ns, Extension::LockWait.number(), &[0; 2]));
        let thread = over_a_missing_ring(
            first,
            (300, RingMode::Calls),
            |epoch| Open {
                complete_from: epoch + 40,
                before: vec![message(10)],
                calls: vec![f],
                since: [wait(50)].into_iter().chain(held).collect(),
            },
            third,
        );
        let mut expected = vec![(10, DISPATCHED), (50, Extension::WaitBegin)];
        expected.extend(later.map(|ns| (ns, Extension::LockWait)));
        expected.push((700, Extension::WaitEnd));
        assert_eq!(events(&thread), expected);
        assert_eq!(parts(&thread), [(10, 100), (100, 900)]);
        assert_eq!(thread.stats.gaps, 0);
        let expected = [
            (20, 100, (false, true)),
            (30, 40, (false, false)),
            (100, 700, (true, false)),
        ];
        assert_eq!(calls(&thread), expected);
    }
}

/// A call of the ring before is not shown as one that begins a second time.
#[test]
fn calls_since_all_is_known_began_in_the_ring_before() {
    let f = hindsight_testkit::FIRST_METHOD;
    let thread = over_a_missing_ring(
        |r| {
            r.at(10).enter(f).at(20).enter(f);
        },
        (300, RingMode::Calls),
        |epoch| Open {
            complete_from: epoch + 5,
            since: vec![open(10, f as u32, &[]), open(20, f as u32, &[])],
            ..Open::default()
        },
        |r| {
            r.at(400).exit();
        },
    );
    let expected = [
        (10, 100, (false, true)),
        (20, 100, (false, true)),
        (100, 900, (true, true)),
        (100, 400, (true, false)),
    ];
    assert_eq!(calls(&thread), expected);
    assert_eq!(thread.stats.open_starts, 2);
}

/// Calls of which only the exits are known do not hide the marks.
#[test]
fn a_ring_with_exits_of_unknown_calls_follows_too() {
    let thread = over_a_missing_ring(
        |r| {
            r.at(10).extension(DISPATCHED, &MESSAGE);
        },
        (300, RingMode::Calls),
        |epoch| Open {
            complete_from: epoch + 200,
            before: vec![message(10)],
            ..Open::default()
        },
        |r| {
            r.at(400).exit();
        },
    );
    assert_eq!(events(&thread), [(10, DISPATCHED)]);
    assert_eq!(parts(&thread), [(10, 100), (200, 900)]);
    assert_eq!(calls(&thread), [(200, 400, (true, false))]);
}

/// The time of an event alone does not tell that it is a repeated one.
#[test]
fn a_ring_s_own_events_are_kept() {
    let mark = |r: &mut Recorder<'_>| {
        r.at(100).extension(Extension::UserMark, &[0]);
    };
    let open = |epoch| Open {
        complete_from: epoch + 100,
        ..Open::default()
    };
    let thread = over_a_missing_ring(mark, (100, RingMode::Events), open, mark);
    let marks = [(100, Extension::UserMark), (100, Extension::UserMark)];
    assert_eq!(events(&thread), marks);
    assert_eq!(parts(&thread), [(100, 100), (100, 900)]);
}

/// The ring in the file before it is empty: it does not have what was under way.
#[test]
fn an_empty_ring_before_takes_nothing_away() {
    let thread = over_a_missing_ring(
        |_| {},
        (300, RingMode::Events),
        |epoch| Open {
            complete_from: epoch + 5,
            since: vec![wait(10)],
            ..Open::default()
        },
        |_| {},
    );
    assert_eq!(events(&thread), [(10, Extension::WaitBegin)]);
    assert!(thread.start_ns <= EPOCH + 10);
    assert!(thread
        .parts
        .windows(2)
        .all(|p| p[0].end_ns <= p[1].start_ns));
    assert!(thread.parts.iter().all(|p| p.start_ns <= p.end_ns));
}
