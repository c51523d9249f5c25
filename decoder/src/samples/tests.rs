// SPDX-License-Identifier: Apache-2.0
//! Stacks, and the calls that are made of them.

use super::*;
use crate::clock::Clock;
use crate::methods::{Merger, Method};
use hindsight_trace_format::container::{self, StackGeneration, StackNode};

const MS: u64 = 1_000_000;

/// A thread's events; frames are letters, each with a dex pc: `A1`, or `A-` for a native method.
#[derive(Default)]
struct Script {
    generation: StackGeneration,
    events: Vec<ThreadEvent>,
}

impl Script {
    fn event(mut self, at_ms: u64, kind: Extension, payload: [u64; 4]) -> Self {
        self.events.push(ThreadEvent {
            at_ns: at_ms * MS,
            kind,
            payload,
            method: MethodId::NOT_RECORDED,
        });
        self
    }

    /// A stack, outermost frame first.
    fn stack(mut self, at_ms: u64, frames: &str, reason: u64) -> Self {
        let mut parent = 0;
        for frame in frames.split_whitespace() {
            let (name, pc) = frame.split_at(1);
            let node = StackNode {
                method: 0x1_0000 + u64::from(name.as_bytes()[0]),
                parent,
                dex_pc: pc.parse().unwrap_or(NO_DEX_PC),
            };
            let nodes = &mut self.generation.nodes;
            let at = nodes.iter().position(|n| *n == node).unwrap_or_else(|| {
                nodes.push(node);
                nodes.len() - 1
            });
            parent = at as u32 + 1;
        }
        let node = u64::from(parent) | u64::from(self.generation.number) << 32;
        self.event(at_ms, Extension::Stack, [node, reason, 0, 0])
    }

    fn cut(mut self) -> Self {
        self.events.last_mut().unwrap().payload[1] |= 1 << 8;
        self
    }

    fn decode(&self) -> (Sampled, Vec<String>) {
        self.decode_until(u64::MAX)
    }

    /// The thread was recorded until then.
    fn decode_until(&self, until_ns: u64) -> (Sampled, Vec<String>) {
        let file = container::Stacks {
            generations: vec![self.generation.clone()],
        };
        let mut merger = Merger::default();
        let events = self.events.iter();
        let used = events.filter_map(|event| Some((event.stack()?, event.at_ns)));
        let clock = Clock::nanoseconds("test", 0);
        let (stacks, _) = Stacks::new(&file, used, None, &clock, &mut merger);
        let mut methods = Vec::new();
        for (_, method) in merger.finish().iter() {
            let letter = char::from((method.address - 0x1_0000) as u8);
            // L is a dispatcher.
            let (class, name) = match letter {
                'L' => ("android.os.Looper", "loop".to_owned()),
                letter => ("T", letter.to_string()),
            };
            methods.push(Method {
                class: class.into(),
                name,
                ..method.clone()
            });
        }
        let methods = Methods::new(methods);
        let sampler = Sampler::new(&stacks, &methods);
        let mut building = Building::new(&sampler);
        building.add(&self.events, until_ns);
        let sampled = building.out;
        let lines = sampled.calls.iter().map(|call| {
            assert!(call.flags.contains(Flags::SAMPLED));
            let name = methods.name(call.method);
            let name = name.rsplit('.').next().unwrap_or_default().to_owned();
            let (start, end) = (call.start_ns / MS, call.end_ns / MS);
            let more = call.end_ns % MS;
            format!(
                "{}{name} {start}-{end}+{more}",
                " ".repeat(call.depth as usize)
            )
        });
        let lines = lines.collect();
        (sampled, lines)
    }

    fn calls(&self) -> Vec<String> {
        self.decode().1
    }
}

#[test]
fn time_between_stacks_is_that_of_their_common_frames() {
    // The example of B-25: A, B, C, E and the C below E are five nodes.
    let script = Script::default()
        .stack(0, "A1 B1 C1", 2)
        .stack(1, "A1 B1 C1", 2)
        .stack(2, "A1 E1 C1", 2);
    assert_eq!(script.generation.nodes.len(), 5);
    assert_eq!(
        script.calls(),
        [
            "A 0-2+10",
            " B 0-1+10",
            "  C 0-1+10",
            " E 2-2+10",
            "  C 2-2+10"
        ]
    );
}

#[test]
fn a_call_from_another_place_is_another_call() {
    // B is called twice, from two places in A; C only goes on to another instruction.
    let script = Script::default()
        .stack(0, "A1 B1 C1", 2)
        .stack(1, "A2 B1 C1", 2)
        .stack(2, "A2 B1 C7", 2);
    assert_eq!(
        script.calls(),
        [
            "A 0-2+10",
            " B 0-0+10",
            "  C 0-0+10",
            " B 1-2+10",
            "  C 1-2+10"
        ]
    );
}

#[test]
fn a_blocking_call_lasts_from_its_begin_to_its_end() {
    let script = Script::default()
        .stack(0, "A1 W-", WAIT_BEGINS)
        .stack(5, "A1 W-", WAIT_ENDS)
        // In a loop: the same place, but another call.
        .stack(6, "A1 W-", WAIT_BEGINS)
        .stack(9, "A1 W-", WAIT_ENDS);
    assert_eq!(script.calls(), ["A 0-9+10", " W 0-5+10", " W 6-9+10"]);
}

#[test]
fn a_stack_at_one_end_of_a_wait_holds_at_the_other() {
    let begin = |number: u64| [number << 32, 0, 0, 0];
    // Both stacks at the begin were throttled, and the last one at the end.
    let script = Script::default()
        .event(0, Extension::WaitBegin, begin(1))
        .event(5, Extension::WaitEnd, begin(1))
        .stack(5, "A1 W-", WAIT_ENDS)
        .event(6, Extension::WaitBegin, begin(2))
        .event(9, Extension::WaitEnd, begin(2))
        .stack(9, "A1 W-", WAIT_ENDS)
        .event(20, Extension::WaitBegin, begin(3))
        .stack(20, "A1 W-", WAIT_BEGINS)
        .event(21, Extension::WaitEnd, begin(3));
    assert_eq!(
        script.calls(),
        ["A 0-21+10", " W 0-5+10", " W 6-9+10", " W 20-21+10"]
    );
    // Another wait's end.
    let script = Script::default()
        .event(0, Extension::WaitBegin, begin(1))
        .event(5, Extension::WaitEnd, begin(9))
        .stack(5, "A1 W-", WAIT_ENDS);
    assert_eq!(script.calls(), ["A 5-5+10", " W 5-5+10"]);
}

#[test]
fn a_wait_that_goes_on_has_its_stack_until_the_end() {
    let begin = |number: u64| [number << 32, 0, 0, 0];
    let waits = || {
        Script::default()
            .event(1, Extension::WaitBegin, begin(1))
            .stack(1, "A1 W-", WAIT_BEGINS)
    };
    let until = |script: Script| script.decode_until(9 * MS).1;
    assert_eq!(until(waits()), ["A 1-9+0", " W 1-9+0"]);
    // Counters are read at the begin, and tell nothing about the thread.
    let counted = waits().event(1, Extension::ThreadCpuTime, [0; 4]);
    assert_eq!(until(counted), ["A 1-9+0", " W 1-9+0"]);
    // It is in another place, or was not seen at the begin of the wait, or its end is unknown.
    let alone = ["A 1-1+10", " W 1-1+10"];
    assert_eq!(
        until(waits().event(2, Extension::WaitEnd, begin(1)))[1],
        " W 1-2+10"
    );
    assert_eq!(
        until(waits().event(2, Extension::WaitBegin, begin(2))),
        alone
    );
    assert_eq!(
        until(waits().event(2, Extension::MessageDone, [1, 0, 0, 0])),
        alone
    );
    // It did not record for a while since then.
    assert_eq!(until(waits().event(2, Extension::Started, [0; 4])), alone);
    let before = Script::default().stack(1, "A1 W-", NATIVE_CALL);
    let before = before.event(1, Extension::WaitBegin, begin(1));
    assert_eq!(until(before), alone);
    assert_eq!(waits().calls(), alone);
}

#[test]
fn the_reasons_are_those_of_the_catalogue() {
    use hindsight_trace_format::catalogue::STACK_REASONS;
    let name = |reason: u64| STACK_REASONS[reason as usize];
    assert_eq!(name(WAIT_BEGINS), "wait begins");
    assert_eq!(name(WAIT_ENDS), "wait ends");
    assert_eq!(name(NATIVE_CALL), "native call");
}

#[test]
fn a_message_or_task_ends_what_the_one_before_it_called() {
    let dispatched = |script: Script, at| {
        let script = script.event(at, Extension::MessageDone, [1, 0, 0, 0]);
        script.event(at, Extension::MessageDispatched, [2, 0, 0, 0])
    };
    let script = Script::default().stack(0, "M1 L1 A1 B1", 2);
    let script = dispatched(script, 1).stack(2, "M1 L1 A1 B1", 2);
    assert_eq!(
        script.calls(),
        [
            "M 0-2+10",
            " loop 0-2+10",
            "  A 0-0+10",
            "   B 0-0+10",
            "  A 2-2+10",
            "   B 2-2+10"
        ]
    );
    // Nobody knows what goes on without a dispatcher.
    let script = Script::default().stack(0, "M1 A1", 2);
    let script = dispatched(script, 1).stack(2, "M1 A1", 2);
    assert_eq!(
        script.calls(),
        ["M 0-0+10", " A 0-0+10", "M 2-2+10", " A 2-2+10"]
    );
}

#[test]
fn merged_stacks_count_until_the_last_of_them() {
    let script = Script::default()
        .stack(0, "A1 B1", 2)
        .event(9, Extension::MessageDone, [1, 0, 0, 0])
        // Recorded after the message's end, but found before it.
        .event(10, Extension::StackAgain, [4, 7 * MS, 0, 0])
        .stack(10, "A1 C1", 2);
    assert_eq!(
        script.calls(),
        ["A 0-3+10", " B 0-3+10", "A 10-10+10", " C 10-10+10"]
    );
    assert_eq!(script.decode().0.stacks, 3);
}

#[test]
fn the_frames_of_cut_stacks_are_not_compared() {
    let script = Script::default()
        .stack(0, "A1 B1", 2)
        .stack(1, "A1 B1", 2)
        .cut()
        .stack(2, "A1 B1", 2)
        .cut()
        .stack(3, "A1 C1", 2)
        .cut();
    assert_eq!(
        script.calls(),
        [
            "A 0-0+10",
            " B 0-0+10",
            "A 1-2+10",
            " B 1-2+10",
            "A 3-3+10",
            " C 3-3+10"
        ]
    );
}

#[test]
fn bounds_are_the_neighbouring_stacks() {
    let script = Script::default()
        .stack(1, "A1", 2)
        .stack(3, "A1 B1", 2)
        .stack(6, "A1 B1", 2)
        .stack(8, "A1", 2);
    let (sampled, lines) = script.decode();
    assert_eq!(lines, ["A 1-8+10", " B 3-6+10"]);
    let thread = Thread {
        events: script.events,
        start_ns: 0,
        end_ns: 20 * MS,
        ..Thread::default()
    };
    let times = SampleTimes::of(&thread);
    assert_eq!(times.bounds(&sampled.calls.get(1)), (MS, 8 * MS));
    assert_eq!(times.bounds(&sampled.calls.get(0)), (0, 20 * MS));
}

#[test]
fn a_cut_stack_is_no_bound() {
    let script = Script::default()
        .stack(1, "A1 B1", 2)
        .stack(2, "C1 D1", 2)
        .cut()
        .stack(9, "A1", 2);
    let thread = Thread {
        events: script.events.clone(),
        end_ns: 20 * MS,
        ..Thread::default()
    };
    let times = SampleTimes::of(&thread);
    let (sampled, lines) = script.decode();
    assert_eq!(lines[1], " B 1-1+10");
    assert_eq!(times.bounds(&sampled.calls.get(1)), (0, 20 * MS));
    assert_eq!(lines[2], "C 2-2+10");
    assert_eq!(times.bounds(&sampled.calls.get(2)), (MS, 9 * MS));
    assert_eq!(lines[4], "A 9-9+10");
    assert_eq!(times.bounds(&sampled.calls.get(4)), (0, 20 * MS));
}

#[test]
fn stacks_that_are_not_in_the_file_are_counted() {
    let lost = [7_u64 << 32 | 1, 0, 0, 0];
    let script = Script::default()
        .stack(0, "A1", 2)
        .event(1, Extension::Stack, lost)
        .stack(2, "A1", 2);
    let (sampled, lines) = script.decode();
    assert_eq!((sampled.stacks, sampled.lost), (2, 1));
    assert_eq!(lines, ["A 0-2+10"]);
}

#[test]
fn damaged_stacks_take_no_more_memory_than_their_events() {
    let mut script = Script::default();
    let deep: String = (0..250).map(|i| format!("A{i} ")).collect();
    script = script.stack(0, &deep, 2);
    let event = script.events[0].clone();
    for i in 0..8_000 {
        // Each time all frames are new.
        let event = ThreadEvent {
            at_ns: i * MS,
            ..event.clone()
        };
        script.events.push(ThreadEvent {
            kind: Extension::MessageDone,
            ..event.clone()
        });
        script.events.push(event);
    }
    let (sampled, _) = script.decode();
    assert!(sampled.lost > 0);
    assert!(sampled.calls.len() <= ALWAYS_ALLOWED_CALLS + 8_000 * MAX_CALLS_PER_STACK);
}

#[test]
fn exact_and_sampled_calls_are_in_one_order() {
    let call = |start_ns, parent, depth, flags| Call {
        start_ns,
        end_ns: start_ns + 1,
        method: MethodId(0),
        depth,
        parent,
        flags,
    };
    let mut exact = Calls::default();
    exact.push(call(10, NO_PARENT, 0, Flags::default()));
    exact.push(call(11, 0, 1, Flags::default()));
    let mut sampled = Calls::default();
    for start in [5, 20] {
        let parent = sampled.len() as u32;
        sampled.push(call(start, NO_PARENT, 0, Flags::SAMPLED));
        sampled.push(call(start, parent, 1, Flags::SAMPLED));
    }
    let merged = merge(exact, sampled);
    assert_eq!(merged.start_ns, [5, 5, 10, 11, 20, 20]);
    assert_eq!(merged.parent, [NO_PARENT, 0, NO_PARENT, 2, NO_PARENT, 4]);
}
