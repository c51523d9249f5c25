// SPDX-License-Identifier: Apache-2.0
//! From the stacks of a thread to its calls.
//!
//! A frame that two stacks have in common is one call, if its callers are the same calls and were at the same instruction
//! (P-14: B-31, B-32). A call lasts from the first to the last stack that has it; the time from there to the next stack
//! belongs only to the frames that both have. So each call really ran at its start and at its end, and the bounds of the
//! error are the neighbouring stacks ([`SampleTimes::bounds`]). Calls that may go on after the thread's last stack have
//! [`Flags::OPEN_END`].
//!
//! Two executions of the same code look like one call if no stack was taken in between. The events of messages and tasks
//! tell them apart: below the method that dispatches messages or runs tasks, no call goes on from one to the next.

use hashbrown::HashMap;
use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::slot::Extension;

use crate::calls::{Call, Calls, Flags, NO_PARENT};
use crate::methods::{MethodId, Methods};
use crate::model::{Thread, ThreadEvent, ThreadPart};
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
        // Parts that follow each other are one; calls do not go on over a part with exact calls, nor over a gap, in which the
        // thread may have done anything.
        let is_one = |a: &ThreadPart, b: &ThreadPart| a.mode == b.mode && !b.follows_gap;
        for parts in thread.parts.chunk_by(is_one) {
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
        let flags = sampled.calls.flags.iter();
        let open_ends = flags.filter(|f| f.contains(Flags::OPEN_END)).count() as u64;
        thread.stats.open_ends += open_ends;
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
/// A thread stands still while it waits: a stack that was taken at one end of a wait holds at the other end, too. A wait that goes on
/// at the end of the recording, `until_ns`, holds until then.
fn items<'e>(
    events: impl IntoIterator<Item = &'e ThreadEvent>,
    until_ns: u64,
) -> Vec<(u64, Item<'e>)> {
    let mut items = Vec::new();
    // The waits under way, the innermost last, and the one that has just ended.
    let mut waits: Vec<Wait> = Vec::new();
    let mut ended: Option<Wait> = None;
    // The last stack is of the begin of a wait that goes on.
    let mut stands_still = false;
    for event in events {
        let at_ns = event.at_ns;
        stands_still &= !moves(event.kind);
        match event.kind {
            Extension::Stack => {
                let reason = event.get("reason");
                if let Some(wait) = waits.last_mut() {
                    wait.has_stack |= reason == WAIT_BEGINS;
                    stands_still = reason == WAIT_BEGINS;
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
            // What the thread did before, while it did not record, nobody knows.
            Extension::Started => {
                waits.clear();
                ended = None;
            }
            Extension::MessageDispatched
            | Extension::MessageDone
            | Extension::TaskBegin
            | Extension::TaskEnd => items.push((at_ns, Item::Boundary)),
            _ => {}
        }
    }
    if stands_still && until_ns != u64::MAX {
        items.push((until_ns, Item::Again));
    }
    // Some were recorded late. Stable: the order of the ring decides between equal times.
    items.sort_by_key(|(at_ns, _)| *at_ns);
    items
}

/// Whether the thread does not stand still when it records such an event.
fn moves(kind: Extension) -> bool {
    matches!(
        kind,
        Extension::Stack
            | Extension::Started
            | Extension::WaitBegin
            | Extension::WaitEnd
            | Extension::MessageDispatched
            | Extension::MessageDone
            | Extension::TaskBegin
            | Extension::TaskEnd
    )
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
        for (at_ns, item) in items(events, until_ns) {
            match item {
                Item::Stack(event, reason) => self.stack(at_ns, event, reason),
                Item::Again => self.again(at_ns),
                Item::Boundary => self.separated = true,
            }
        }
        self.end(until_ns);
    }

    /// No stack follows: the calls of the last one may still run, but those below a dispatcher whose message or task has
    /// ended.
    fn end(&mut self, until_ns: u64) {
        let still = match self.separated {
            true => self.below_dispatcher(self.running.iter().map(|r| &r.frame)),
            false => self.running.len(),
        };
        for running in &self.running[..still] {
            let flags = &mut self.out.calls.flags[running.call];
            *flags = flags.with(Flags::OPEN_END);
        }
        self.pop_to(0, until_ns);
        // What follows a gap may be anything.
        self.separated = false;
        self.last_is_cut = false;
    }

    /// The number of frames, outermost first, up to the innermost dispatcher. Without one, nothing is known to go on when a
    /// message or task ends.
    fn below_dispatcher<'f>(
        &self,
        frames: impl DoubleEndedIterator<Item = &'f Frame> + ExactSizeIterator,
    ) -> usize {
        let is_dispatcher = |f: &Frame| self.sampler.dispatchers.contains_key(&f.method);
        let mut frames = frames;
        frames.rposition(is_dispatcher).map_or(0, |i| i + 1)
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
            common = self.below_dispatcher(frames[..common].iter());
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
        for (at_ns, item) in items(&thread.events, u64::MAX) {
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
mod tests;
