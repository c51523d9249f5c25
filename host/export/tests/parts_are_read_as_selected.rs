// SPDX-License-Identifier: Apache-2.0
//! A part of a trace that is written as `.hindsight` is read exactly as it was selected: for random traces and random
//! windows, the threads, their calls (name, times, depth, flags) and their events are the same.

use std::path::Path;

use hindsight_analysis::{Selection, Window};
use hindsight_decoder::{Extension, Flags, ThreadEvent, Trace};
use hindsight_export::{write_file, Format};
use hindsight_testkit::{Script, EPOCH, FIRST_METHOD};
use proptest::prelude::*;

/// The smallest ring: the longer ones of the random programs fill it more than once.
const RING_LOG2: u32 = 12;
/// Anchors are taken at less than half a wrap of the 32-bit counter.
const ANCHOR_PERIOD: u64 = (1 << 31) - 1000;
/// Addresses above 4 GiB.
const WIDE: u64 = 0x7f00_0000_0000;

#[derive(Clone, Debug)]
enum Op {
    Enter(u64),
    EnterNative(u64),
    Exit,
    LeaveNative,
    Unwind(u64),
    LockWait,
    Wake,
    /// An event of a newer writer, with this many payload slots.
    Unknown(usize),
    /// Tracing was off for this long, ns.
    Restart(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        // Some methods have no symbol.
        100 => (0..12_u64).prop_map(|m| Op::Enter(FIRST_METHOD + 40 * m)),
        20 => (0..3_u64).prop_map(|m| Op::Enter(WIDE + 40 * m)),
        20 => (0..12_u64).prop_map(|m| Op::EnterNative(FIRST_METHOD + 40 * m)),
        100 => Just(Op::Exit),
        20 => Just(Op::LeaveNative),
        10 => (0..6_u64).prop_map(Op::Unwind),
        15 => Just(Op::LockWait),
        15 => Just(Op::Wake),
        10 => (0..3_usize).prop_map(Op::Unknown),
        8 => prop_oneof![Just(0), 1..100_u64].prop_map(Op::Restart),
    ]
}

/// Equal times are common, and some pauses are longer than slots can count.
fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![
        30 => Just(0_u64),
        100 => 1..20_u64,
        1 => 1..(3_u64 << 32),
    ]
}

type Program = Vec<(u64, Op)>;

fn program() -> impl Strategy<Value = Program> {
    prop_oneof![
        4 => prop::collection::vec((delay(), op()), 0..40),
        1 => prop::collection::vec((delay(), op()), 400..900),
    ]
}

/// A window and a depth. The window goes from one time that occurs in the trace to another, each a little earlier or
/// later.
type Question = (
    prop::sample::Index,
    i64,
    prop::sample::Index,
    i64,
    Option<u32>,
);

fn question() -> impl Strategy<Value = Question> {
    let depth = prop_oneof![3 => Just(None), 1 => (1..5_u32).prop_map(Some)];
    (
        any::<prop::sample::Index>(),
        -2..3_i64,
        any::<prop::sample::Index>(),
        -2..3_i64,
        depth,
    )
}

fn record(programs: &[Program], after: u64) -> Trace {
    let mut script = Script::new("random");
    script.ring_log2_bytes(RING_LOG2);
    for i in 0..10 {
        script.method(&format!("C.m{i}"), "()V");
    }
    let mut latest = 0;
    let mut last = Vec::new();
    for (i, program) in programs.iter().enumerate() {
        // A thread id may come again when its first thread has ended.
        let tid = [7, 8, 7][i % 3];
        let thread = script.thread(tid, &format!("thread {i}"));
        let (mut now, mut next_anchor) = (0, ANCHOR_PERIOD);
        let mut pass = |script: &mut Script, until: u64| {
            while next_anchor <= until {
                script.at(thread, next_anchor).anchor();
                next_anchor += ANCHOR_PERIOD;
            }
        };
        for (delay, op) in program {
            now += delay;
            pass(&mut script, now);
            let mut r = script.at(thread, now);
            match *op {
                Op::Enter(method) => r.enter(method),
                Op::EnterNative(method) => r.extension(Extension::NativeEntered, &[method]),
                Op::Exit => r.exit(),
                Op::LeaveNative => r.extension(Extension::NativeLeft, &[]),
                Op::Unwind(frames) => r.unwind(frames),
                Op::LockWait => r.extension(Extension::LockWait, &[8, 0xabc]),
                Op::Wake => r.extension(Extension::WokenBy, &[8]),
                Op::Unknown(payload) => {
                    r.raw_extension(0xf00 + payload as u32, &[1, 0, 9][..payload])
                }
                Op::Restart(off) => {
                    // Otherwise the last event before the pause is a method entry or exit.
                    if off % 2 == 0 {
                        r.extension(Extension::Stopped, &[]);
                    }
                    now += off;
                    script.at(thread, now).extension(Extension::Started, &[1])
                }
            };
        }
        latest = latest.max(now + after);
        last.push((thread, next_anchor));
    }
    // All rings are taken at the same time.
    for (thread, mut next_anchor) in last {
        while next_anchor <= latest {
            script.at(thread, next_anchor).anchor();
            next_anchor += ANCHOR_PERIOD;
        }
    }
    script.stop_at(latest);
    Trace::decode(Path::new("random"), &script.encode()).expect("a sound file")
}

/// A call: name, start, end, depth, caller, flags.
type Call = (String, u64, u64, u32, u32, Flags);
/// A thread: id, name, start, end, calls, events.
type Content = (u32, String, u64, u64, Vec<Call>, Vec<ThreadEvent>);

fn content(trace: &Trace) -> Vec<Content> {
    let threads = trace.threads.iter();
    threads
        .map(|thread| {
            let name =
                |call: &hindsight_decoder::Call| trace.methods.name(call.method).into_owned();
            let calls = thread.calls.iter();
            (
                thread.tid,
                thread.name.clone(),
                thread.start_ns,
                thread.end_ns,
                calls
                    .map(|c| (name(&c), c.start_ns, c.end_ns, c.depth, c.parent, c.flags))
                    .collect(),
                thread.events.clone(),
            )
        })
        .collect()
}

/// Writes the trace, and reads it again.
fn convert(trace: &Trace) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("part.hindsight");
    write_file(trace, Format::Hindsight, &file).unwrap();
    Trace::open(&file).unwrap()
}

fn selection(trace: &Trace, (from, by, to, to_by, depth): &Question) -> Selection {
    let mut times = vec![trace.start_ns(), trace.end_ns()];
    for thread in &trace.threads {
        times.extend(&thread.calls.start_ns);
        times.extend(&thread.calls.end_ns);
        times.extend(thread.events.iter().map(|e| e.at_ns));
    }
    times.sort_unstable();
    let time = |index: &prop::sample::Index, by: i64| index.get(&times).saturating_add_signed(by);
    let (a, b) = (time(from, *by), time(to, *to_by));
    let (from_ns, to_ns) = (a.min(b), a.max(b) + 1);
    Selection {
        window: Some(Window { from_ns, to_ns }),
        depth: *depth,
        ..Selection::default()
    }
}

fn assert_same(got: &Trace, expected: &Trace) -> Result<(), TestCaseError> {
    prop_assert_eq!(got.threads.len(), expected.threads.len());
    for (got, expected) in content(got).into_iter().zip(content(expected)) {
        prop_assert_eq!(got, expected);
    }
    for thread in &got.threads {
        prop_assert_eq!(thread.stats.unbounded_slots, 0);
        prop_assert_eq!(thread.stats.contradicting_times, 0);
        prop_assert_eq!(thread.stats.unknown_extensions, 0);
    }
    Ok(())
}

proptest! {
    // Files are synced five times per case.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_converted_part_is_read_as_it_was_selected(
        programs in prop::collection::vec(program(), 1..4),
        after in prop_oneof![Just(0), 1..50_u64, 1..(2_u64 << 32)],
        first in question(),
        second in question(),
    ) {
        let whole = record(&programs, after);
        assert_same(&convert(&whole), &whole)?;

        let part = selection(&whole, &first).apply(whole);
        let converted = convert(&part);
        assert_same(&converted, &part)?;

        // A part of a part is the same, too, whether it was a file meanwhile or not.
        let part_of_part = selection(&part, &second).apply(part);
        let question = selection(&converted, &second);
        assert_same(&question.apply(converted), &part_of_part)?;
        assert_same(&convert(&part_of_part), &part_of_part)?;
    }
}

#[test]
fn a_window_in_the_middle_keeps_names_open_calls_waits_and_silent_threads() {
    let mut s = Script::new("p");
    let (f, g, h) = (
        s.method("C.f", "()V"),
        s.method("C.g", "()V"),
        s.method("C.h", "()V"),
    );
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(f).after(10).enter(g).after(40);
    r.extension(Extension::LockWait, &[2, 0xabc]).after(50);
    r.enter(h)
        .after(100)
        .exit()
        .after(10)
        .exit()
        .after(10)
        .exit();
    let silent = s.thread(2, "silent");
    s.at(silent, 5).call(h, 5).at(190).call(h, 5);
    s.stop_at(300);
    let whole = Trace::decode(Path::new("p"), &s.encode()).unwrap();
    let window = Window {
        from_ns: EPOCH + 30,
        to_ns: EPOCH + 150,
    };
    let selection = Selection {
        window: Some(window),
        ..Selection::default()
    };
    let got = content(&convert(&selection.apply(whole)));

    let (start, end) = (EPOCH + 30, EPOCH + 150);
    let both = Flags::OPEN_START.with(Flags::OPEN_END);
    let wait = ThreadEvent {
        method: hindsight_decoder::MethodId::NOT_RECORDED,
        at_ns: EPOCH + 50,
        kind: Extension::LockWait,
        payload: [2, 0xabc, 0, 0],
    };
    let calls = vec![
        ("C.f".to_owned(), start, end, 0, u32::MAX, both),
        ("C.g".to_owned(), start, end, 1, 0, both),
        ("C.h".to_owned(), EPOCH + 100, end, 2, 1, Flags::OPEN_END),
    ];
    assert_eq!(
        got[0],
        (1, "main".to_owned(), start, end, calls, vec![wait])
    );
    assert_eq!(got[1], (2, "silent".to_owned(), start, end, vec![], vec![]));
}
