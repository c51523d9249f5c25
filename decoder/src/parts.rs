// SPDX-License-Identifier: Apache-2.0
//! Rings that one thread recorded into, one after the other, become one recording of the thread.

use hashbrown::HashMap;
use hindsight_trace_format::container::RingMode;

use crate::calls::{Calls, Flags, NO_PARENT};
use crate::model::{Mode, Stats, Thread};

/// A decoded ring with the parts of its header that tell which thread it belongs to.
pub(crate) struct Part {
    pub(crate) thread: Thread,
    /// Number of the thread in its process; 0: not known.
    pub(crate) number: u64,
    /// CLOCK_BOOTTIME of the newest event, ns; 0 if there is none.
    pub(crate) newest_ns: u64,
    /// CLOCK_BOOTTIME of the oldest event, ns; the end of the recording if there is none. Events that only say what was under way
    /// when recording into the ring began may be older.
    pub(crate) oldest_ns: u64,
}

/// Joins the rings of each thread. Rings that claim to be of one thread but overlap in time stay apart.
pub(crate) fn join(parts: Vec<Part>) -> Vec<Thread> {
    let mut groups: HashMap<(u64, u32), Vec<(usize, Part)>> = HashMap::new();
    let mut threads: Vec<(usize, Thread)> = Vec::new();
    for (place, part) in parts.into_iter().enumerate() {
        let group = match part.number {
            // What is left of a damaged ring may have several parts.
            0 => (0, part.thread.key.ring),
            number => (number, part.thread.tid),
        };
        groups.entry(group).or_default().push((place, part));
    }
    for mut group in groups.into_values() {
        group.sort_by_key(|(_, part)| {
            let number = part.thread.parts.first().map_or(0, |p| p.number);
            (part.thread.end_ns, number)
        });
        let mut rest = group.into_iter();
        let Some((mut place, first)) = rest.next() else {
            continue;
        };
        let mut chain = vec![first.thread];
        let mut newest = first.newest_ns;
        for (its_place, mut part) in rest {
            let calls: usize = chain.iter().map(|t| t.calls.len()).sum();
            let follows = part.oldest_ns >= newest;
            if !follows || calls + part.thread.calls.len() >= NO_PARENT as usize {
                threads.push((its_place, part.thread));
                continue;
            }
            carry_over(&mut part.thread, newest);
            start_at(&mut part.thread, newest);
            if let Some(before) = chain.last_mut() {
                end_at(before, part.thread.start_ns);
            }
            newest = newest.max(part.newest_ns);
            place = place.min(its_place);
            chain.push(part.thread);
        }
        threads.push((place, concatenate(chain)));
    }
    threads.sort_by_key(|(place, _)| *place);
    threads.into_iter().map(|(_, thread)| thread).collect()
}

/// So much may be under way at a ring's beginning: a damaged file may claim any number.
const MOST_CARRIED: usize = 64;

/// Takes out of a part what it says of the time before `newest_ns`, when the parts before had their newest event: what was still
/// under way. It began in the parts before, and went on over the gap between.
fn carry_over(thread: &mut Thread, newest_ns: u64) {
    let old = thread.events.partition_point(|e| e.at_ns < newest_ns);
    if old == 0 {
        return;
    }
    let carried: Vec<_> = thread
        .events
        .drain(..old)
        .take(MOST_CARRIED)
        .map(|e| (e.kind, e.payload))
        .collect();
    let oldest = thread.events.first().map(|e| e.at_ns);
    let call = thread.calls.start_ns.first().copied();
    let oldest_ns = oldest.into_iter().chain(call).min();
    thread.start_ns = oldest_ns.unwrap_or(thread.end_ns);
    if let Some(part) = thread.parts.first_mut() {
        part.start_ns = thread.start_ns;
        part.carried = carried;
    }
}

/// Lets a recording start no earlier than `from_ns`, which is not after its oldest event.
fn start_at(thread: &mut Thread, from_ns: u64) {
    if thread.start_ns >= from_ns {
        return;
    }
    let starts = thread.calls.start_ns.iter_mut();
    starts
        .take_while(|s| **s < from_ns)
        .for_each(|s| *s = from_ns);
    thread.start_ns = from_ns;
    if let Some(part) = thread.parts.first_mut() {
        part.start_ns = from_ns;
    }
}

/// Lets a recording end no later than `until_ns`: calls that were still running are known to run until then.
pub(crate) fn end_at(thread: &mut Thread, until_ns: u64) {
    if thread.end_ns <= until_ns {
        return;
    }
    for (end, flags) in thread.calls.end_ns.iter_mut().zip(&thread.calls.flags) {
        if flags.contains(Flags::OPEN_END) {
            *end = (*end).min(until_ns);
        }
    }
    thread.end_ns = until_ns;
    if let Some(part) = thread.parts.last_mut() {
        part.end_ns = until_ns;
    }
}

/// One recording of parts that follow each other.
fn concatenate(chain: Vec<Thread>) -> Thread {
    let mut parts = chain.into_iter();
    let Some(mut thread) = parts.next() else {
        return Thread::default();
    };
    for mut part in parts {
        let last = thread.parts.last().map(|p| p.number);
        let is_next = part
            .parts
            .first()
            .is_some_and(|p| Some(p.number) == last.map(|n| n.wrapping_add(1)));
        let is_whole = part.stats.overwritten_slots == 0 && part.stats.cut_slots == 0;
        let follows_gap = !is_next || !is_whole;
        if let Some(first) = part.parts.first_mut() {
            first.follows_gap = follows_gap;
        }
        append(&mut thread.calls, part.calls);
        thread.events.extend(part.events);
        thread.stats = sum(thread.stats, part.stats);
        thread.stats.gaps += u64::from(follows_gap);
        thread.parts.extend(part.parts);
        thread.end_ns = part.end_ns;
        thread.end_is_missing = part.end_is_missing;
        thread.ring_bytes += part.ring_bytes;
        thread.name = part.name;
    }
    let calls = thread.parts.iter().any(|p| p.mode == RingMode::Calls);
    let events = thread.parts.iter().any(|p| p.mode == RingMode::Events);
    thread.mode = match (calls, events) {
        (true, true) => Mode::Both,
        (false, true) => Mode::Events,
        _ => Mode::Calls,
    };
    thread
}

fn append(calls: &mut Calls, mut other: Calls) {
    let offset = calls.len() as u32;
    for parent in &mut other.parent {
        if *parent != NO_PARENT {
            *parent += offset;
        }
    }
    calls.start_ns.append(&mut other.start_ns);
    calls.end_ns.append(&mut other.end_ns);
    calls.method.append(&mut other.method);
    calls.depth.append(&mut other.depth);
    calls.parent.append(&mut other.parent);
    calls.flags.append(&mut other.flags);
}

fn sum(a: Stats, b: Stats) -> Stats {
    Stats {
        slots: a.slots + b.slots,
        overwritten_slots: a.overwritten_slots.saturating_add(b.overwritten_slots),
        trace_points: a.trace_points + b.trace_points,
        open_starts: a.open_starts + b.open_starts,
        open_ends: a.open_ends + b.open_ends,
        left_by_exception: a.left_by_exception + b.left_by_exception,
        cut_slots: a.cut_slots + b.cut_slots,
        unknown_extensions: a.unknown_extensions + b.unknown_extensions,
        unnamed_entries: a.unnamed_entries + b.unnamed_entries,
        unbounded_slots: a.unbounded_slots + b.unbounded_slots,
        contradicting_times: a.contradicting_times + b.contradicting_times,
        anchors_ignored: a.anchors_ignored + b.anchors_ignored,
        incredible_frames: a.incredible_frames.saturating_add(b.incredible_frames),
        unshown_frames: a.unshown_frames.saturating_add(b.unshown_frames),
        taken_back: a.taken_back.saturating_add(b.taken_back),
        rewind_below_ns: a.rewind_below_ns.max(b.rewind_below_ns),
        gaps: a.gaps + b.gaps,
        stacks: a.stacks + b.stacks,
        lost_stacks: a.lost_stacks + b.lost_stacks,
    }
}
