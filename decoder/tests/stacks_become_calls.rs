// SPDX-License-Identifier: Apache-2.0
//! From a file with stacks to sampled calls, beside exact ones.

use hindsight_decoder::{Flags, Mode, RingMode, SampleTimes, Trace};
use hindsight_testkit::{Script, ThreadIndex};
use hindsight_trace_format::container::SectionKind;
use hindsight_trace_format::slot::Extension;

const MS: u64 = 1_000_000;

fn decode(script: &Script) -> Trace {
    Trace::decode("test".as_ref(), &script.encode()).unwrap()
}

/// The calls of a thread: level, name, start and end, ms, and whether they are sampled.
fn calls(trace: &Trace, thread: usize) -> Vec<(u32, String, u64, u64, bool)> {
    let thread = &trace.threads[thread];
    let start = trace.threads[0].start_ns / MS * MS;
    let calls = thread.calls.iter().map(|call| {
        let name = trace.methods.name(call.method);
        let name = name.rsplit('.').next().unwrap_or_default().to_owned();
        let ms = |ns: u64| (ns - start) / MS;
        let sampled = call.flags.contains(Flags::SAMPLED);
        (
            call.depth,
            name,
            ms(call.start_ns),
            ms(call.end_ns),
            sampled,
        )
    });
    calls.collect()
}

fn take(script: &mut Script, thread: ThreadIndex, at_ms: u64, frames: &[(u64, u32)]) {
    let payload = script.stack(frames);
    script
        .at(thread, at_ms * MS)
        .extension(Extension::Stack, &payload);
}

#[test]
fn a_thread_without_calls_has_the_calls_of_its_stacks() {
    let mut script = Script::new("test");
    let [a, b, c] = ["A.a", "A.b", "A.c"].map(|name| script.method(name, "()V"));
    let thread = script.events_thread(100, "main", 1);
    take(&mut script, thread, 1, &[(a, 1), (b, 2)]);
    take(&mut script, thread, 4, &[(a, 1), (b, 3)]);
    take(&mut script, thread, 6, &[(a, 5), (c, 0)]);
    script.stop_at(9 * MS);
    let trace = decode(&script);
    let main = &trace.threads[0];
    assert_eq!(
        (main.mode, main.stats.stacks, main.stats.lost_stacks),
        (Mode::Events, 3, 0)
    );
    let lines = calls(&trace, 0);
    let line = |depth, name: &str, start, end| (depth, name.to_owned(), start, end, true);
    // The thread's time begins with its first event, at 1 ms.
    assert_eq!(
        lines,
        [line(0, "a", 0, 5), line(1, "b", 0, 3), line(1, "c", 5, 5)]
    );
    let times = SampleTimes::of(main);
    let b = main.calls.get(1);
    let (earliest, latest) = times.bounds(&b);
    assert_eq!((b.start_ns - earliest, latest - b.end_ns), (0, 2 * MS - 10));
    // The event still names its frames, innermost first.
    let frames = trace.stacks.frames(main.events[2].stack().unwrap());
    let names: Vec<_> = frames.map(|f| trace.methods.name(f.method)).collect();
    assert_eq!(names, ["A.c", "A.a"]);
}

#[test]
fn a_thread_that_records_calls_at_times_has_both_kinds() {
    let mut script = Script::new("test");
    let [a, b] = ["A.a", "A.b"].map(|name| script.method(name, "()V"));
    let first = script.events_thread(100, "main", 1);
    take(&mut script, first, 0, &[(a, 1)]);
    take(&mut script, first, 2, &[(a, 1)]);
    let exact = script.next_part(first, RingMode::Calls, 3 * MS);
    script.at(exact, 4 * MS).enter(b).after(MS).exit();
    // The stacks of a thread that records its calls are events only.
    take(&mut script, exact, 6, &[(a, 1)]);
    let last = script.next_part(exact, RingMode::Events, 7 * MS);
    take(&mut script, last, 8, &[(a, 1)]);
    script.stop_at(9 * MS);
    let trace = decode(&script);
    assert_eq!(trace.threads.len(), 1);
    assert_eq!(trace.threads[0].mode, Mode::Both);
    let line = |name: &str, start, end, sampled| (0, name.to_owned(), start, end, sampled);
    let expected = [
        line("a", 0, 2, true),
        line("b", 4, 5, false),
        line("a", 8, 8, true),
    ];
    assert_eq!(calls(&trace, 0), expected);
    assert_eq!(trace.threads[0].calls.exact().len(), 1);
}

#[test]
fn damaged_stacks_cost_the_sampled_calls_only() {
    let mut script = Script::new("test");
    let a = script.method("A.a", "()V");
    let thread = script.events_thread(100, "main", 1);
    take(&mut script, thread, 0, &[(a, 1)]);
    let mut bytes = script.encode();
    let reader = hindsight_trace_format::container::Reader::new(&bytes).unwrap();
    let section = reader
        .sections()
        .iter()
        .find(|s| s.kind == SectionKind::Stacks as u32);
    // The first node's parent is itself.
    let parent = section.unwrap().offset as usize + 8 + 12;
    bytes[parent] = 1;
    let trace = Trace::decode("test".as_ref(), &bytes).unwrap();
    assert!(trace
        .damaged
        .iter()
        .any(|d| d.to_string().contains("stacks")));
    assert_eq!(trace.threads[0].stats.lost_stacks, 1);
    assert!(trace.threads[0].calls.is_empty());
    assert_eq!(trace.threads[0].events.len(), 1);
}

#[test]
fn an_address_that_is_used_again_is_the_method_of_its_time() {
    let mut script = Script::new("test");
    let [a, b, c] = ["A.a", "A.b", "A.c"].map(|name| script.method(name, "()V"));
    script.reused_by(b, 5 * MS, "B.x");
    script.reused_by(c, 7 * MS, "B.y");
    let thread = script.events_thread(100, "main", 1);
    let frames = [(a, 1), (b, 2), (c, 3)];
    for at_ms in [1, 4, 6, 7, 8] {
        take(&mut script, thread, at_ms, &frames);
    }
    // Its callers' nodes have copies by now, it has none.
    take(&mut script, thread, 9, &frames[..1]);
    script.stop_at(10 * MS);
    let trace = decode(&script);
    let stacks: Vec<_> = (trace.threads[0].events.iter())
        .filter_map(|event| event.stack())
        .collect();
    let names: Vec<String> = (stacks.iter())
        .map(|stack| {
            let names = trace
                .stacks
                .frames(*stack)
                .map(|f| trace.methods.name(f.method));
            names.collect::<Vec<_>>().join(" ")
        })
        .collect();
    let [old, between, new] = ["A.c A.b A.a", "A.c B.x A.a", "B.y B.x A.a"];
    assert_eq!(names, [old, old, between, new, new, "A.a"]);
    // Equal stacks have one name.
    assert_eq!((stacks[0], stacks[3]), (stacks[1], stacks[4]));
    for (frame, parent) in trace.stacks.generations().flat_map(|(_, nodes)| nodes) {
        assert!(parent == 0 || frame.dex_pc > 1, "the outermost one");
    }
}

#[test]
fn calls_that_the_last_stack_has_may_go_on() {
    let mut script = Script::new("test");
    let [a, b, c] = ["A.a", "A.b", "A.c"].map(|name| script.method(name, "()V"));
    let looper = script.method("android.os.Looper.loop", "()V");
    let thread = script.events_thread(100, "main", 1);
    take(&mut script, thread, 1, &[(a, 1), (b, 2)]);
    take(&mut script, thread, 4, &[(a, 1), (c, 0)]);
    let other = script.events_thread(101, "looper", 2);
    take(&mut script, other, 5, &[(looper, 1), (a, 2)]);
    let done = [("message", 7)];
    script
        .at(other, 6 * MS)
        .event(Extension::MessageDone, &done);
    script.stop_at(9 * MS);
    let trace = decode(&script);
    let open = |thread: usize| -> Vec<bool> {
        let flags = trace.threads[thread].calls.flags.iter();
        flags.map(|f| f.contains(Flags::OPEN_END)).collect()
    };
    assert_eq!(open(0), [true, false, true]);
    // The looper goes on; what it called for the message has ended.
    assert_eq!(open(1), [true, false]);
    let open_ends = trace.threads.iter().map(|t| t.stats.open_ends);
    assert_eq!(open_ends.collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn no_call_goes_on_over_a_gap() {
    for is_gap in [false, true] {
        let mut script = Script::new("test");
        let [a, b] = ["A.a", "A.b"].map(|name| script.method(name, "()V"));
        let first = script.events_thread(100, "main", 1);
        take(&mut script, first, 1, &[(a, 1), (b, 2)]);
        let next = script.next_part(first, RingMode::Events, 5 * MS);
        script.header(next).part += u32::from(is_gap);
        take(&mut script, next, 8, &[(a, 1), (b, 2)]);
        script.stop_at(9 * MS);
        let trace = decode(&script);
        let thread = &trace.threads[0];
        assert_eq!(thread.gaps().count(), usize::from(is_gap));
        assert_eq!(thread.calls.len(), if is_gap { 4 } else { 2 });
        assert!(thread.calls.flags[0].contains(Flags::OPEN_END));
    }
}
