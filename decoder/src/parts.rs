// SPDX-License-Identifier: Apache-2.0
//! Rings that one thread recorded into, one after the other, become one recording of the thread.

use hashbrown::HashMap;
use hindsight_trace_format::container::RingMode;

use crate::calls::{Calls, Flags, NO_PARENT};
use crate::marks::Marks;
use crate::model::{Mode, Stats, Thread};

/// A decoded ring with the parts of its header that tell which thread it belongs to.
pub(crate) struct Part {
    pub(crate) thread: Thread,
    /// Number of the thread in its process; 0: not known.
    pub(crate) number: u64,
    /// CLOCK_BOOTTIME of the newest event, ns; 0 if there is none.
    pub(crate) newest_ns: u64,
    /// CLOCK_BOOTTIME of the oldest event, ns; the end of the recording if there is none.
    pub(crate) oldest_ns: u64,
    /// Which events only say what was under way when recording into the ring began.
    pub(crate) marks: Marks,
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
            let begins_ns = part.marks.begins_ns().unwrap_or(part.oldest_ns);
            let follows = begins_ns >= newest;
            if !follows || calls + part.thread.calls.len() >= NO_PARENT as usize {
                threads.push((its_place, part.thread));
                continue;
            }
            if let Some(before) = chain.last() {
                follow(before, &mut part, newest);
            }
            // An empty ring before may have begun later than what goes on in this one.
            let start_ns = part.thread.start_ns;
            let later = chain.iter_mut().rev();
            later
                .take_while(|before| before.end_ns > start_ns)
                .for_each(|before| end_at(before, start_ns));
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

/// Lets a part follow the one before. `newest_ns`: the newest event of all parts before.
fn follow(before: &Thread, part: &mut Part, newest_ns: u64) {
    carry_over(&mut part.thread, &part.marks, newest_ns);
    let mut follows_gap = !is_next(before, &part.thread);
    let start_ns = match part.marks.complete_from_ns() {
        None => part.thread.start_ns.max(newest_ns),
        Some(complete_from_ns) => {
            let is_complete = part.marks.are_both() && complete_from_ns <= newest_ns;
            follows_gap &= !is_complete;
            // Up to its end, all is known from the part before.
            let from_ns = if is_complete {
                before.end_ns.max(newest_ns)
            } else {
                complete_from_ns
            };
            let begins_ns = part.marks.begins_ns().unwrap_or(complete_from_ns);
            oldest_after(&part.thread, newest_ns)
                .min(from_ns)
                .min(begins_ns)
        }
    };
    start_at(&mut part.thread, start_ns);
    if let Some(first) = part.thread.parts.first_mut() {
        first.follows_gap = follows_gap;
    }
}

/// Whether no event between the two is missing, by the numbers of their rings.
fn is_next(before: &Thread, part: &Thread) -> bool {
    let last = before.parts.last().map(|p| p.number);
    let first = part.parts.first().map(|p| p.number);
    let is_whole = part.stats.overwritten_slots == 0 && part.stats.cut_slots == 0;
    is_whole && first.is_some() && first == last.map(|n| n.wrapping_add(1))
}

/// Takes out of a part the events that the parts before have as well: what was still under way. It began in the parts before, and
/// went on over the gap between.
fn carry_over(thread: &mut Thread, marks: &Marks, newest_ns: u64) {
    let repeated = thread.events.get(..marks.repeated_events());
    // What hangs is often the newest event of the part before.
    let old = repeated.map_or(0, |events| events.partition_point(|e| e.at_ns <= newest_ns));
    let carried = thread.events.drain(..old).take(MOST_CARRIED);
    let carried = carried.map(|e| (e.kind, e.payload)).collect();
    if let Some(part) = thread.parts.first_mut() {
        part.carried = carried;
    }
}

/// The time of the oldest event or call after this one, ns; the largest number if there is none.
fn oldest_after(thread: &Thread, ns: u64) -> u64 {
    let calls = &thread.calls.start_ns;
    let event = thread.events.first().map(|e| e.at_ns.max(ns));
    let call = calls.get(calls.partition_point(|&start_ns| start_ns <= ns));
    event
        .into_iter()
        .chain(call.copied())
        .min()
        .unwrap_or(u64::MAX)
}

/// Lets a recording start at `from_ns`, which is not after its oldest event. Calls that seem to be older began in earlier parts.
fn start_at(thread: &mut Thread, from_ns: u64) {
    let old = thread.calls.start_ns.partition_point(|&s| s < from_ns);
    thread.calls.start_ns[..old].fill(from_ns);
    for flags in &mut thread.calls.flags[..old] {
        thread.stats.open_starts += u64::from(!flags.contains(Flags::OPEN_START));
        *flags = flags.with(Flags::OPEN_START);
    }
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
    thread.start_ns = thread.start_ns.min(until_ns);
    if let Some(part) = thread.parts.last_mut() {
        part.end_ns = until_ns;
        part.start_ns = part.start_ns.min(until_ns);
    }
}

/// One recording of parts that follow each other.
fn concatenate(chain: Vec<Thread>) -> Thread {
    let mut parts = chain.into_iter();
    let Some(mut thread) = parts.next() else {
        return Thread::default();
    };
    for part in parts {
        let follows_gap = part.parts.first().is_some_and(|p| p.follows_gap);
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
