// SPDX-License-Identifier: Apache-2.0
//! Random programs are recorded and decoded; the result must be the calls that they made.
//!
//! The model below runs forwards and knows the whole program; the decoder runs backwards and knows only the ring's
//! contents. They share no code.

use std::path::Path;

use hindsight_decoder::{Call, Extension, Flags, MethodId, Trace, NO_PARENT};
use hindsight_testkit::{Script, EPOCH, FIRST_METHOD};
use proptest::prelude::*;

/// The smallest ring: random programs fill it more than once.
const RING_LOG2: u32 = 12;
/// The control thread samples at less than half a wrap of the 32-bit counter.
const SAMPLE_PERIOD: u64 = (1 << 31) - 1000;
/// Wide methods are above 4 GiB.
const WIDE: u64 = 0x7f00_0000_0000;

#[derive(Clone, Debug)]
enum Op {
    Enter(u64),
    /// The native part of a method.
    EnterNative(u64),
    Exit,
    /// As `Exit`, of a native call.
    LeaveNative,
    Unwind(u64),
    LockWait,
    /// An event of a newer writer, with this many payload slots.
    Unknown(usize),
    /// Tracing was stopped for a while; this many methods were entered or left meanwhile.
    Restart(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..20_u64).prop_map(|m| Op::Enter(FIRST_METHOD + 40 * m)),
        2 => (0..5_u64).prop_map(|m| Op::Enter(WIDE + 40 * m)),
        2 => (0..20_u64).prop_map(|m| Op::EnterNative(FIRST_METHOD + 40 * m)),
        10 => Just(Op::Exit),
        2 => Just(Op::LeaveNative),
        1 => (0..6_u64).prop_map(Op::Unwind),
        1 => Just(Op::LockWait),
        1 => (0..8_usize).prop_map(Op::Unknown),
    ]
}

/// Mostly short, sometimes equal times, sometimes many wraps of the counter.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => Just(0_u64),
        80 => 1..5_000_u64,
        2 => 1..(3_u64 << 32),
    ]
}

fn program() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let restart = (0..4_usize).prop_map(Op::Restart);
    let with_restarts = prop_oneof![400 => op(), 1 => restart];
    prop_oneof![
        prop::collection::vec((delay(), op()), 0..60),
        prop::collection::vec((delay(), with_restarts), 0..1_500),
    ]
}

/// How many open calls have names in the file; `None`: it does not say which calls were open.
fn named() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![Just(None), Just(Some(1000)), (0..6_usize).prop_map(Some)]
}

/// One event as the model sees it.
struct Event {
    at: u64,
    op: Op,
    /// Index of the first slot it took.
    first_slot: usize,
}

/// A frame on the model's stack.
#[derive(Clone, Copy)]
struct Frame {
    /// Index into the expected calls, if its entry or its exit is in the ring.
    call: Option<usize>,
}

/// What a thread notes when its ring wraps: the calls that are open then, of those that began while it recorded.
struct Noted {
    /// Their methods, outermost first.
    methods: Vec<u64>,
    /// Methods that are written: the outermost ones.
    named: usize,
    /// Number of the events before the wrap.
    at: usize,
}

impl Noted {
    fn new(events: &[Event], at: usize, named: usize) -> Self {
        let mut methods = Vec::new();
        for event in &events[..at] {
            match event.op {
                Op::Enter(method) | Op::EnterNative(method) => methods.push(method),
                Op::Exit | Op::LeaveNative => drop(methods.pop()),
                Op::Unwind(n) => methods.truncate(methods.len().saturating_sub(n as usize)),
                Op::Restart(_) => methods.clear(),
                Op::LockWait | Op::Unknown(_) => {}
            }
        }
        Noted { methods, named, at }
    }
}

/// The calls that a decoder must find that sees the events from `kept` on. `before`: frames at the very start. `noted`: what
/// the ring's file has besides.
fn model(
    events: &[Event],
    kept: usize,
    before: usize,
    stopped: u64,
    noted: Option<&Noted>,
) -> Vec<Call> {
    // First: which exit ends which entry? Frames are numbered in the order of entry.
    #[derive(Clone, Copy)]
    struct Life {
        entry: Option<usize>,
        exit: Option<(usize, bool)>,
        segment: usize,
        method: u64,
    }
    let mut lives: Vec<Life> = Vec::new();
    let mut stack: Vec<usize> = Vec::new();
    let mut segment = 0;
    let unseen = |lives: &mut Vec<Life>, stack: &mut Vec<usize>, n: usize, segment: usize| {
        for _ in 0..n {
            stack.push(lives.len());
            lives.push(Life {
                entry: None,
                exit: None,
                segment,
                method: 0,
            });
        }
    };
    unseen(&mut lives, &mut stack, before, segment);
    for (i, event) in events.iter().enumerate() {
        match event.op {
            Op::Enter(method) | Op::EnterNative(method) => {
                stack.push(lives.len());
                lives.push(Life {
                    entry: Some(i),
                    exit: None,
                    segment,
                    method,
                });
            }
            Op::Exit | Op::LeaveNative => {
                let life = stack.pop().expect("programs are balanced");
                lives[life].exit = Some((i, false));
            }
            Op::Unwind(n) => {
                for _ in 0..n {
                    let life = stack.pop().expect("programs are balanced");
                    lives[life].exit = Some((i, true));
                }
            }
            Op::Restart(n) => {
                segment += 1;
                stack.clear();
                unseen(&mut lives, &mut stack, n, segment);
            }
            Op::LockWait | Op::Unknown(_) => {}
        }
    }
    // Where each segment starts and ends, as far as the ring shows it. The restart belongs to the
    // segment that it starts.
    let mut segments = vec![(u64::MAX, stopped)];
    for (i, event) in events.iter().enumerate() {
        if matches!(event.op, Op::Restart(_)) {
            let last = if i > kept { events[i - 1].at } else { stopped };
            segments.last_mut().unwrap().1 = last;
            segments.push((u64::MAX, stopped));
        }
        let start = &mut segments.last_mut().unwrap().0;
        if i >= kept {
            *start = (*start).min(event.at);
        }
    }

    // The calls that are noted and are not in the ring, with their methods. After a restart in the older lap there are none.
    let restarted = |noted: &&Noted| {
        let mut between = events[kept.min(noted.at)..noted.at].iter();
        !between.any(|e| matches!(e.op, Op::Restart(_)))
    };
    let mut from_notes: Vec<Option<Option<u64>>> = vec![None; lives.len()];
    if let Some(noted) = noted.filter(restarted) {
        let segment = |i: usize| {
            let restarts = events[..i].iter();
            restarts.filter(|e| matches!(e.op, Op::Restart(_))).count()
        };
        let is_open = |life: &Life| {
            life.segment == segment(noted.at)
                && life.entry.is_some_and(|i| i < noted.at)
                && life.exit.is_none_or(|(i, _)| i >= noted.at)
        };
        let open = (0..lives.len()).filter(|&i| is_open(&lives[i]));
        for (nth, life) in open.enumerate() {
            assert_eq!(lives[life].method, noted.methods[nth]);
            let method = (nth < noted.named).then_some(lives[life].method);
            from_notes[life] = Some(method);
        }
    }

    // Then: lay them out in the order of their starts, callers first.
    let is_kept = |i: usize| i >= kept;
    let mut out: Vec<Call> = Vec::new();
    let mut open: Vec<(usize, Frame)> = Vec::new();
    let mut current = 0;
    for (number, life) in lives.iter().enumerate() {
        let entry = life.entry.filter(|&i| is_kept(i));
        let exit = life.exit.filter(|&(i, _)| is_kept(i));
        // A frame that had ended before this one began is no caller of it.
        let began = life.entry;
        if life.segment != current {
            current = life.segment;
            open.clear();
        }
        open.retain(|&(other, _)| {
            let other: &Life = &lives[other];
            match (other.exit, began) {
                (Some((exit, _)), Some(began)) => exit > began,
                _ => true,
            }
        });
        let mut frame = Frame { call: None };
        if entry.is_some() || exit.is_some() || from_notes[number].is_some() {
            let callers: Vec<usize> = open.iter().filter_map(|(_, f)| f.call).collect();
            let (segment_start, segment_end) = segments[life.segment];
            let mut flags = Flags::default();
            if entry.is_none() {
                flags = flags.with(Flags::OPEN_START);
            }
            if exit.is_none() {
                flags = flags.with(Flags::OPEN_END);
            }
            if entry.is_some_and(|i| matches!(events[i].op, Op::EnterNative(_))) {
                flags = flags.with(Flags::NATIVE);
            }
            if exit.is_some_and(|(_, exception)| exception) {
                flags = flags.with(Flags::BY_EXCEPTION);
            }
            frame.call = Some(out.len());
            out.push(Call {
                start_ns: entry.map_or(segment_start, |i| events[i].at),
                end_ns: exit.map_or(segment_end, |(i, _)| events[i].at),
                // Compared by address.
                method: match entry {
                    Some(_) => MethodId((life.method & 0xffff_ffff) as u32),
                    None => match from_notes[number] {
                        Some(Some(method)) => MethodId((method & 0xffff_ffff) as u32),
                        _ => MethodId::NOT_RECORDED,
                    },
                },
                depth: callers.len() as u32,
                parent: callers.last().map_or(NO_PARENT, |&i| i as u32),
                flags,
            });
        }
        open.push((number, frame));
    }
    out
}

/// Removes the calls of segments without any event in the ring. None of them calls one that stays.
fn remove_unseen(calls: &mut Vec<Call>) {
    let is_unseen = |call: &Call| call.start_ns == u64::MAX;
    let mut removed = 0;
    let numbers: Vec<u32> = calls
        .iter()
        .zip(0..)
        .map(|(call, number)| {
            let left = number - removed;
            removed += u32::from(is_unseen(call));
            left
        })
        .collect();
    calls.retain(|call| !is_unseen(call));
    for call in calls {
        if call.parent != NO_PARENT {
            call.parent = numbers[call.parent as usize];
        }
    }
}

/// Records the program, decodes the trace, and compares. `is_full`: as many entries follow as fill the ring exactly.
fn check(
    ring_log2: u32,
    before: usize,
    program: &[(u64, Op)],
    after: u64,
    named: Option<usize>,
    is_full: bool,
) -> Result<(), TestCaseError> {
    let mut script = Script::new("random");
    script.ring_log2_bytes(ring_log2);
    for i in 0..20 {
        script.method(&format!("C.m{i}"), "()V");
    }
    let thread = script.thread(7, "random");

    let (mut now, mut slots, mut depth) = (0, 0, before);
    let mut next_sample = SAMPLE_PERIOD;
    let mut events: Vec<Event> = Vec::new();
    let mut sample = |script: &mut Script, until: u64| {
        while next_sample <= until {
            script.at(thread, next_sample).anchor();
            next_sample += SAMPLE_PERIOD;
        }
    };
    let capacity = (1 << ring_log2) / 8;
    let last = (1, Op::Enter(FIRST_METHOD));
    let more = std::iter::repeat_n(&last, if is_full { capacity } else { 0 });
    for (nth, (delay, op)) in program.iter().chain(more).enumerate() {
        if nth >= program.len() && slots % capacity == 0 {
            break;
        }
        let op = match *op {
            Op::Exit | Op::LeaveNative if depth == 0 => continue,
            Op::Unwind(n) => Op::Unwind(n.min(depth as u64)),
            ref other => other.clone(),
        };
        now += delay;
        sample(&mut script, now);
        let first_slot = slots;
        let mut r = script.at(thread, now);
        match op {
            Op::Enter(method) => {
                r.enter(method);
                slots += if method >= 1 << 32 { 2 } else { 1 };
                depth += 1;
            }
            Op::EnterNative(method) => {
                r.extension(Extension::NativeEntered, &[method]);
                slots += 2;
                depth += 1;
            }
            Op::Exit => {
                r.exit();
                slots += 1;
                depth -= 1;
            }
            Op::LeaveNative => {
                r.extension(Extension::NativeLeft, &[]);
                slots += 1;
                depth -= 1;
            }
            Op::Unwind(n) => {
                r.unwind(n);
                slots += 2;
                depth -= n as usize;
            }
            Op::LockWait => {
                r.extension(Extension::LockWait, &[9, 10]);
                slots += 3;
            }
            Op::Unknown(n) => {
                // Payload with arbitrary bits.
                let payload = [0, 1, 0x11, 7 << 32, u64::MAX, 0x7000_1000, 0xf0f];
                r.raw_extension(0xf00 + n as u32, &payload[..n]);
                slots += 1 + n;
            }
            Op::Restart(n) => {
                r.extension(Extension::Started, &[1]);
                slots += 2;
                depth = n;
            }
        }
        events.push(Event {
            at: EPOCH + now,
            op,
            first_slot,
        });
    }
    now += after;
    sample(&mut script, now);
    script.stop_at(now);

    let kept_slots = slots.saturating_sub(capacity);
    let kept = events.partition_point(|e| e.first_slot < kept_slots);
    // An event that goes on after the wrap is not complete then.
    // A full ring wraps when the next slot is written.
    let laps = slots.saturating_sub(1) / capacity;
    let ends = |i: usize| events.get(i + 1).map_or(slots, |e| e.first_slot);
    let at = (0..events.len())
        .take_while(|&i| ends(i) <= laps * capacity)
        .count();
    let noted = named
        .filter(|_| laps > 0)
        .map(|named| Noted::new(&events, at, named));
    // What an event did that was being written then, and is cut, is not known.
    let changes_calls = |e: &Event| !matches!(e.op, Op::LockWait | Op::Unknown(_));
    let is_known = !events[at.min(kept)..kept].iter().any(changes_calls);
    if let Some(Noted { methods, named, .. }) = &noted {
        let written = &methods[..methods.len().min(*named)];
        script.open_calls(thread, methods.len() as u64, written);
    }
    let noted = noted.filter(|_| is_known);
    let mut expected = model(&events, kept, before, EPOCH + now, noted.as_ref());

    let trace = Trace::decode(Path::new("random"), &script.encode()).expect("a sound file");
    let decoded = &trace.threads[0];
    let mut got: Vec<Call> = decoded.calls.iter().collect();
    for call in &mut got {
        if let Some(method) = trace.methods.get(call.method) {
            call.method = MethodId(method.address as u32);
        }
    }
    // The model lists frames that were entered before anything was recorded in the order of their
    // depth, as the decoder does; all else is in the order of starts.
    remove_unseen(&mut expected);
    let same = got.iter().zip(&expected).take_while(|(a, b)| a == b);
    let same = same.count();
    prop_assert_eq!((same, got.get(same)), (same, expected.get(same)));
    prop_assert_eq!(got.len(), expected.len());

    let stats = decoded.stats;
    let count = |flags: Flags| expected.iter().filter(|s| s.flags.contains(flags)).count() as u64;
    prop_assert_eq!(stats.open_starts, count(Flags::OPEN_START));
    prop_assert_eq!(stats.open_ends, count(Flags::OPEN_END));
    prop_assert_eq!(stats.left_by_exception, count(Flags::BY_EXCEPTION));
    prop_assert_eq!(stats.overwritten_slots, kept_slots as u64);
    let cut = events.get(kept).map_or(slots, |e| e.first_slot) - kept_slots;
    prop_assert_eq!(stats.cut_slots, cut as u64);
    let wide = events[kept..]
        .iter()
        .filter(|e| matches!(e.op, Op::Enter(m) if m >= WIDE))
        .count();
    prop_assert_eq!(stats.unnamed_entries, wide as u64);
    let unknown = events[kept..]
        .iter()
        .filter(|e| matches!(e.op, Op::Unknown(_)))
        .count();
    prop_assert_eq!(stats.unknown_extensions, unknown as u64);
    prop_assert_eq!(stats.unbounded_slots, 0);
    prop_assert_eq!(stats.contradicting_times, 0);
    prop_assert_eq!(stats.anchors_ignored, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_decoded_is_what_was_called(
        before in 0..20_usize,
        program in program(),
        after in delay(),
        named in named(),
        is_full in any::<bool>(),
    ) {
        check(RING_LOG2, before, &program, after, named, is_full)?;
    }

    /// Any bytes in a ring: no panic, and no more calls than slots can give.
    #[test]
    fn any_ring_can_be_decoded(
        words in prop::collection::vec(
            prop_oneof![any::<u64>(), 0..5_000_u64, (0..5_000_u64, any::<u32>()).prop_map(|(l, t)| u64::from(t) << 32 | l)],
            0..512,
        ),
        anchors in prop::collection::vec((any::<u64>(), 0..600_u64), 0..5),
        started in any::<u64>(),
        stopped in any::<u64>(),
    ) {
        use hindsight_trace_format::container::*;
        use hindsight_trace_format::ring::{Geometry, Position};
        let header = RingHeader {
            geometry: Geometry::new(RING_LOG2).unwrap(),
            position: Position { laps: 0, offset: words.len() as u64 * 8 },
            started_counter: started,
            stopped_counter: stopped,
            ..RingHeader::default()
        };
        let clocks = Clocks {
            ticks_per_second: 1_000_000,
            samples: vec![ClockSample { counter: stopped, boottime_ns: started, ..ClockSample::default() }],
            ..Clocks::default()
        };
        let anchors: Vec<Anchor> = anchors
            .into_iter()
            .map(|(counter, slots_written)| Anchor { counter, slots_written })
            .collect();
        let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut file = std::io::Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut file).unwrap();
        writer.section(SectionKind::Process, 0, &[&ProcessFacts::default().encode()]).unwrap();
        writer.section(SectionKind::Clocks, 0, &[&clocks.encode()]).unwrap();
        writer.section(SectionKind::Ring, 0, &[&header.encode(), &raw]).unwrap();
        writer.section(SectionKind::Anchors, 0, &[&Anchor::encode_all(&anchors)]).unwrap();
        writer.finish().unwrap();
        let bytes = file.into_inner();
        if let Ok(trace) = Trace::decode(Path::new("any"), &bytes) {
            let calls = &trace.threads[0].calls;
            prop_assert!(calls.len() <= words.len() + (1 << 20));
            for call in calls.iter() {
                prop_assert!(call.start_ns <= call.end_ns);
                if call.parent != NO_PARENT {
                    let parent = calls.get(call.parent as usize);
                    prop_assert!(parent.start_ns <= call.start_ns && call.end_ns <= parent.end_ns);
                    prop_assert_eq!(parent.depth + 1, call.depth);
                }
            }
        }
    }
}

proptest! {
    // These are long.
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Long enough for several of the blocks that the decoder works in, with a change of time, an event or a wrap of the
    /// ring anywhere in or between them.
    #[test]
    fn so_it_is_across_blocks(
        before in 0..20_usize,
        program in program(),
        repeat in 2..9_usize,
        after in delay(),
        named in named(),
        is_full in any::<bool>(),
    ) {
        let program: Vec<_> = program.iter().cycle().take(program.len() * repeat).cloned().collect();
        check(RING_LOG2 + 3, before, &program, after, named, is_full)?;
    }
}

/// Tracing starts again in the first event of a lap: what was open at the wrap is neither in the ring nor any caller of it.
#[test]
fn a_ring_that_begins_with_a_restart_has_no_calls_from_before() {
    let begins = (1, Op::Enter(FIRST_METHOD + 40));
    let lap = std::iter::repeat_n(begins, (1 << RING_LOG2) / 8);
    let program: Vec<_> = lap.chain([(1, Op::Restart(0))]).collect();
    check(RING_LOG2, 0, &program, 0, Some(1000), true).unwrap();
}

/// A stack of several MiB that overflows fills any ring many times over.
#[test]
fn a_stack_that_is_deeper_than_the_ring_is_long_is_shown_whole() {
    const DEPTH: u64 = 500_000;
    let mut script = Script::new("deep");
    script.ring_log2_bytes(16);
    let thread = script.thread(7, "deep");
    script.at(thread, 1).unwind(DEPTH);
    let trace = Trace::decode(Path::new("deep"), &script.encode()).expect("a sound file");
    let decoded = &trace.threads[0];
    let deepest = decoded.calls.iter().map(|call| call.depth).max();
    assert_eq!(deepest.map(u64::from), Some(DEPTH - 1));
    assert_eq!(decoded.stats.left_by_exception, DEPTH);
    assert_eq!(decoded.stats.unshown_frames, 0);
}

/// A claim of more frames than a stack can hold is the writer's error.
#[test]
fn frames_that_no_stack_has_are_not_believed() {
    let mut script = Script::new("claim");
    script.ring_log2_bytes(16);
    let thread = script.thread(7, "claim");
    script.at(thread, 1).unwind(u64::MAX);
    let trace = Trace::decode(Path::new("claim"), &script.encode()).expect("a sound file");
    let stats = &trace.threads[0].stats;
    assert!(stats.incredible_frames > u64::MAX - 3 && stats.unshown_frames == 0);
}

/// The memory for claimed frames does not grow with the number of rings, up to 64.
#[test]
fn claims_of_unseen_frames_in_many_rings_do_not_add_up() {
    let mut script = Script::new("claims");
    script.ring_log2_bytes(12);
    for tid in 1..=60 {
        let thread = script.thread(tid, "claims");
        script.at(thread, 1).unwind(1 << 19);
    }
    let trace = Trace::decode(Path::new("claims"), &script.encode()).expect("a sound file");
    let calls: usize = trace.threads.iter().map(|t| t.calls.len()).sum();
    assert!(calls <= (1 << 22) + 60 * 8, "{calls}");
    let folded: u64 = trace.threads.iter().map(|t| t.stats.unshown_frames).sum();
    assert_eq!(calls as u64 + folded, 60 << 19);
}

/// Tracing is switched off and on many times, and each time an exception claims to leave thousands of frames: their
/// total cost is bounded.
#[test]
fn claims_of_unseen_frames_do_not_add_up() {
    let mut script = Script::new("claims");
    script.ring_log2_bytes(16);
    let thread = script.thread(7, "claims");
    for i in 0..1_000 {
        let mut r = script.at(thread, i);
        r.extension(Extension::Started, &[1]).unwind(60_000);
    }
    let trace = Trace::decode(Path::new("claims"), &script.encode()).expect("a sound file");
    let decoded = &trace.threads[0];
    assert!(
        decoded.calls.len() <= 4_000 + (1 << 20),
        "{}",
        decoded.calls.len()
    );
    let frames = decoded.stats.left_by_exception + decoded.stats.unshown_frames;
    assert_eq!(frames, 60_000_000);
}
