// SPDX-License-Identifier: Apache-2.0
//! From the stacks of a thread to its calls.
//!
//! A frame that two stacks have in common is one call, if its callers are the same calls and were at the same instruction
//! (P-14: B-31, B-32). A call lasts from the first to the last stack that has it; the time from there to the next stack
//! belongs only to the frames that both have. So each call really ran at its start and at its end, and the bounds of the
//! error are the neighbouring stacks ([`SampleTimes::bounds`]).
//!
//! Two executions of the same code look like one call if no stack was taken in between. The events of messages and tasks
//! tell them apart: below the method that dispatches messages or runs tasks, no call goes on from one to the next.

use hashbrown::HashMap;
use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::slot::Extension;

use crate::calls::{Call, Calls, Flags, NO_PARENT};
use crate::methods::{MethodId, Methods};
use crate::model::{Thread, ThreadEvent};
use crate::stacks::{Frame, Stacks, MAX_STACK_FRAMES, NO_DEX_PC};

/// Duration of a call that a single stack has, ns; shorter if the next stack is nearer.
pub const LEAST_DURATION_NS: u64 = 10;
/// A stack adds this many calls on average, or the rest of the thread's stacks is left out: damaged files would take any
/// amount of memory.
const MAX_CALLS_PER_STACK: usize = 64;
/// As many calls are allowed in any case.
const ALWAYS_ALLOWED_CALLS: usize = 1 << 20;

/// Methods below which no call goes on from one message or task to the next: class, name.
const DISPATCHERS: [(&str, &str); 7] = [
    ("android.os.Looper", "loop"),
    ("android.os.Looper", "loopOnce"),
    ("java.util.concurrent.ThreadPoolExecutor", "runWorker"),
    ("java.util.concurrent.ForkJoinPool", "runWorker"),
    ("java.util.concurrent.ForkJoinWorkerThread", "run"),
    ("java.util.TimerThread", "mainLoop"),
    ("java.util.TimerThread", "run"),
];

/// The calls that the stacks of a thread show.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    /// The calls, with [`Flags::SAMPLED`].
    pub calls: Calls,
    /// Stacks that were used, merged ones only by their last.
    pub stacks: u64,
    /// Stacks whose nodes are not in the file, and stacks beyond what this reader can hold.
    pub lost: u64,
}

/// Turns stacks into calls, for one trace.
pub struct Sampler<'a> {
    stacks: &'a Stacks,
    /// Whether a method is a dispatcher.
    dispatchers: HashMap<MethodId, ()>,
    /// Levels of calls to keep, the outermost first.
    levels: u32,
}

/// A call that the last stack has.
struct Running {
    call: usize,
    frame: Frame,
}

/// Reasons for stacks, as the catalogue numbers them.
const WAIT_BEGINS: u64 = 0;
const WAIT_ENDS: u64 = 1;
const NATIVE_CALL: u64 = 3;

/// Something that happened on the thread.
enum Item<'a> {
    /// A stack, and the reason for it.
    Stack(&'a ThreadEvent, u64),
    /// The last stack was found again.
    Again,
    /// A message or task begins or ends.
    Boundary,
}

impl<'a> Sampler<'a> {
    /// For the stacks and methods of a trace.
    pub fn new(stacks: &'a Stacks, methods: &Methods) -> Self {
        let is_dispatcher = |class: &str, name: &str| DISPATCHERS.contains(&(class, name));
        let dispatchers = methods
            .iter()
            .filter(|(_, m)| is_dispatcher(&m.class, &m.name));
        Sampler {
            stacks,
            dispatchers: dispatchers.map(|(id, _)| (id, ())).collect(),
            levels: u32::MAX,
        }
    }

    /// Keeps only this number of levels of calls of the threads that it adds calls to, as of a trace whose deeper calls were
    /// removed.
    pub(crate) fn keep_levels(&mut self, levels: Option<u32>) {
        self.levels = levels.unwrap_or(u32::MAX);
    }

    /// The calls in these events of a thread, oldest first.
    pub fn calls<'e>(&self, events: impl IntoIterator<Item = &'e ThreadEvent>) -> Sampled {
        let mut building = Building::new(self);
        building.add(events, u64::MAX);
        building.out
    }

    /// As [`calls`](Self::calls), for the parts of a thread in which it recorded no calls.
    pub(crate) fn add_to(&self, thread: &mut Thread) {
        let mut building = Building::new(self);
        // Parts that follow each other are one; calls do not go on over a part with exact calls.
        for parts in thread.parts.chunk_by(|a, b| a.mode == b.mode) {
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
                continue;
            };
            if first.mode == RingMode::Events {
                let from = thread.events.partition_point(|e| e.at_ns < first.start_ns);
                let to = thread.events.partition_point(|e| e.at_ns <= last.end_ns);
                building.add(&thread.events[from..to.max(from)], last.end_ns);
            }
        }
        let mut sampled = building.out;
        let is_kept = |call: &Call| call.depth < self.levels;
        sampled.calls = sampled.calls.filtered(is_kept).into_owned();
        thread.stats.stacks = sampled.stacks;
        thread.stats.lost_stacks = sampled.lost;
        if sampled.calls.len() + thread.calls.len() < NO_PARENT as usize {
            let exact = std::mem::take(&mut thread.calls);
            thread.calls = merge(exact, sampled.calls);
        }
    }
}

/// What the stacks of a thread consist of, in the order of time.
///
/// A thread stands still while it waits: a stack that was taken at one end of a wait holds at the other end, too.
fn items<'e>(events: impl IntoIterator<Item = &'e ThreadEvent>) -> Vec<(u64, Item<'e>)> {
    let mut items = Vec::new();
    // The waits under way, the innermost last, and the one that has just ended.
    let mut waits: Vec<Wait> = Vec::new();
    let mut ended: Option<Wait> = None;
    for event in events {
        let at_ns = event.at_ns;
        match event.kind {
            Extension::Stack => {
                let reason = event.get("reason");
                if let Some(wait) = waits.last_mut() {
                    wait.has_stack |= reason == WAIT_BEGINS;
                }
                if let Some(wait) = ended.take() {
                    if reason == WAIT_ENDS && !wait.has_stack {
                        items.push((wait.begin_ns, Item::Stack(event, WAIT_BEGINS)));
                    }
                }
                items.push((at_ns, Item::Stack(event, reason)));
            }
            Extension::StackAgain => {
                items.push((at_ns.saturating_sub(event.get("ago")), Item::Again));
            }
            Extension::WaitBegin => waits.push(Wait {
                number: event.get("number"),
                begin_ns: at_ns,
                has_stack: false,
            }),
            Extension::WaitEnd => {
                let number = event.get("number");
                let place = waits.iter().rposition(|wait| wait.number == number);
                ended = place.and_then(|place| waits.drain(place..).next());
                if ended.as_ref().is_some_and(|wait| wait.has_stack) {
                    items.push((at_ns, Item::Again));
                }
            }
            Extension::MessageDispatched
            | Extension::MessageDone
            | Extension::TaskBegin
            | Extension::TaskEnd => items.push((at_ns, Item::Boundary)),
            _ => {}
        }
    }
    // Some were recorded late. Stable: the order of the ring decides between equal times.
    items.sort_by_key(|(at_ns, _)| *at_ns);
    items
}

/// A wait under way.
struct Wait {
    number: u64,
    begin_ns: u64,
    /// A stack was taken at its begin.
    has_stack: bool,
}

/// The state between two stacks.
struct Building<'a> {
    sampler: &'a Sampler<'a>,
    out: Sampled,
    /// The calls that the last stack has, outermost first.
    running: Vec<Running>,
    last_ns: u64,
    last_is_cut: bool,
    /// A message or task began or ended since the last stack.
    separated: bool,
    /// Scratch memory.
    frames: Vec<Frame>,
}

impl<'a> Building<'a> {
    fn new(sampler: &'a Sampler<'a>) -> Self {
        Building {
            sampler,
            out: Sampled::default(),
            running: Vec::new(),
            last_ns: 0,
            last_is_cut: false,
            separated: false,
            frames: Vec::new(),
        }
    }

    /// Adds the calls in these events, oldest first. None of them ends after `until_ns`.
    fn add<'e>(&mut self, events: impl IntoIterator<Item = &'e ThreadEvent>, until_ns: u64) {
        for (at_ns, item) in items(events) {
            match item {
                Item::Stack(event, reason) => self.stack(at_ns, event, reason),
                Item::Again => self.again(at_ns),
                Item::Boundary => self.separated = true,
            }
        }
        self.pop_to(0, until_ns);
    }

    fn stack(&mut self, at_ns: u64, event: &ThreadEvent, reason: u64) {
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        frames.extend(
            self.sampler
                .stacks
                .frames(event.stack().unwrap_or_default()),
        );
        frames.reverse();
        let budget = ALWAYS_ALLOWED_CALLS + MAX_CALLS_PER_STACK * self.out.stacks as usize;
        if frames.is_empty() || self.out.calls.len() + frames.len() > budget {
            self.out.lost += 1;
            self.frames = frames;
            return;
        }
        let is_cut = event.get("cut") != 0 || frames.len() == MAX_STACK_FRAMES;
        // The innermost frame is a native call that has just begun.
        let begins = matches!(reason, WAIT_BEGINS | NATIVE_CALL);
        let is_new_leaf = begins && frames.last().is_some_and(|f| f.dex_pc == NO_DEX_PC);
        let common = self.common(&frames, is_cut, is_new_leaf);
        self.pop_to(common, at_ns);
        for (running, frame) in self.running.iter_mut().zip(&frames) {
            running.frame = *frame;
        }
        for frame in &frames[common..] {
            let parent = self.running.last().map_or(NO_PARENT, |r| r.call as u32);
            self.running.push(Running {
                call: self.out.calls.len(),
                frame: *frame,
            });
            self.out.calls.push(Call {
                start_ns: at_ns,
                end_ns: at_ns,
                method: frame.method,
                depth: self.running.len() as u32 - 1,
                parent,
                flags: Flags::SAMPLED,
            });
        }
        self.out.stacks += 1;
        self.last_ns = at_ns;
        self.last_is_cut = is_cut;
        self.separated = false;
        self.frames = frames;
    }

    fn again(&mut self, at_ns: u64) {
        if !self.running.is_empty() {
            self.last_ns = self.last_ns.max(at_ns);
            self.out.stacks += 1;
        }
    }

    /// The number of calls of the last stack that go on in a stack of these frames, outermost first.
    fn common(&self, frames: &[Frame], is_cut: bool, is_new_leaf: bool) -> usize {
        if is_cut || self.last_is_cut {
            // The outermost frames of the two may be anywhere. Equal stacks are taken for the same.
            let same = self
                .running
                .iter()
                .map(|r| r.frame)
                .eq(frames.iter().copied());
            let goes_on = same && is_cut == self.last_is_cut && !self.separated && !is_new_leaf;
            return if goes_on { frames.len() } else { 0 };
        }
        let mut common = 0;
        for (running, frame) in self.running.iter().zip(frames) {
            let same_caller = common == 0 || {
                let caller = common - 1;
                self.running[caller].frame.dex_pc == frames[caller].dex_pc
            };
            if running.frame.method != frame.method || !same_caller {
                break;
            }
            common += 1;
        }
        if self.separated {
            let of_both = &frames[..common];
            let is_dispatcher = |f: &Frame| self.sampler.dispatchers.contains_key(&f.method);
            // The innermost dispatcher goes on. Without one, nothing is known to.
            common = of_both.iter().rposition(is_dispatcher).map_or(0, |i| i + 1);
        }
        if is_new_leaf && common == frames.len() {
            common -= 1;
        }
        common
    }

    /// Ends the calls from this depth on. The next stack is at `next_ns`.
    fn pop_to(&mut self, depth: usize, next_ns: u64) {
        let end_ns = self.last_ns.saturating_add(LEAST_DURATION_NS).min(next_ns);
        for running in self.running.drain(depth..) {
            let end = &mut self.out.calls.end_ns[running.call];
            *end = end_ns.max(self.out.calls.start_ns[running.call]);
        }
    }
}

/// Both in one order; they do not overlap.
fn merge(exact: Calls, sampled: Calls) -> Calls {
    if exact.is_empty() {
        return sampled;
    }
    let mut out = Calls::with_capacity(exact.len() + sampled.len());
    let mut places = [vec![0_u32; exact.len()], vec![0_u32; sampled.len()]];
    let sources = [&exact, &sampled];
    let mut next = [0; 2];
    while next[0] < exact.len() || next[1] < sampled.len() {
        let starts = [0, 1].map(|i| sources[i].start_ns.get(next[i]).copied());
        let from = match starts {
            [Some(exact), Some(sampled)] => usize::from(sampled < exact),
            [Some(_), None] => 0,
            _ => 1,
        };
        let mut call = sources[from].get(next[from]);
        if call.parent != NO_PARENT {
            call.parent = places[from][call.parent as usize];
        }
        places[from][next[from]] = out.len() as u32;
        next[from] += 1;
        out.push(call);
    }
    out
}

/// When a thread's stacks were taken.
#[derive(Clone, Debug, Default)]
pub struct SampleTimes {
    /// CLOCK_BOOTTIME, ns, ascending, and whether the stack was cut: a call that is not in it may have been running.
    stacks: Vec<(u64, bool)>,
    start_ns: u64,
    end_ns: u64,
}

impl SampleTimes {
    /// Of the events of a thread that has calls with [`Flags::SAMPLED`].
    pub fn of(thread: &Thread) -> Self {
        let mut stacks: Vec<(u64, bool)> = Vec::new();
        for (at_ns, item) in items(&thread.events) {
            let is_cut = match item {
                Item::Stack(event, _) => event.get("cut") != 0,
                Item::Again => stacks.last().is_some_and(|(_, cut)| *cut),
                Item::Boundary => continue,
            };
            stacks.push((at_ns, is_cut));
        }
        SampleTimes {
            stacks,
            start_ns: thread.start_ns,
            end_ns: thread.end_ns,
        }
    }

    /// The earliest start and the latest end of a sampled call, CLOCK_BOOTTIME, ns: it was not in the stack before its
    /// start, nor in the one after its end.
    pub fn bounds(&self, call: &Call) -> (u64, u64) {
        let before = self.stacks.partition_point(|(at, _)| *at < call.start_ns);
        let after = self.stacks.partition_point(|(at, _)| *at < call.end_ns);
        let earliest = match before.checked_sub(1).map(|i| self.stacks[i]) {
            Some((at, false)) => at,
            _ => self.start_ns.min(call.start_ns),
        };
        let latest = match self.stacks.get(after) {
            Some((at, false)) => *at,
            _ => self.end_ns.max(call.end_ns),
        };
        (earliest, latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let file = container::Stacks {
                generations: vec![self.generation.clone()],
            };
            let mut merger = Merger::default();
            let stacks = Stacks::new(
                &file,
                self.events.iter().filter_map(ThreadEvent::stack),
                None,
                &mut merger,
            );
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
            let sampled = Sampler::new(&stacks, &methods).calls(&self.events);
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
}
