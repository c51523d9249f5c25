// SPDX-License-Identifier: Apache-2.0
//! What else is recorded of a stall: other long waits, pauses of garbage collections, and threads that wait for each other.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, ThreadEvent, Trace};

use super::model::{GcPauses, Holder};
use crate::events::{spans, Span, SpanKind, Spans, Waiting};
use crate::evidence::is_whole;

/// Less than this part of a stall did not hold the thread up.
const LEAST_PART: u64 = 10;

/// The waits of one kind for one other thread.
pub(super) struct Group<'a> {
    /// The longest one.
    pub(super) longest: &'a Waiting,
    /// How many.
    pub(super) count: u64,
    /// Their time in the stall, ns.
    pub(super) ns: u64,
    /// Of waits for locks: the id of the thread that held them when the waits began, if it is recorded.
    pub(super) held_by: Option<u64>,
}

/// The other thread of a wait: its id or, if that is not recorded, the wait's own index.
#[derive(PartialEq, Eq, Hash)]
enum Other {
    Thread(u64),
    Wait(usize),
}

/// What a thread waited for during a part of a stall that counts; the longest time first. Sleeps, and waits for work, are
/// the thread's own choice.
pub(super) fn long_waits<'a>(
    thread: &Thread,
    own: &Spans,
    waits: impl Iterator<Item = &'a Waiting>,
    within: (u64, u64),
) -> Vec<Group<'a>> {
    let mut groups: HashMap<(u64, Other), Group<'a>> = HashMap::new();
    for wait in waits.filter(|w| w.overlap(within) > 0) {
        if matches!(wait.kind, Waiting::SLEEP | Waiting::POLL) {
            continue;
        }
        let ns = wait.overlap(within);
        let key = (wait.kind, other(thread, own, wait));
        let held_by = match key {
            (Waiting::LOCK, Other::Thread(tid)) => Some(tid),
            _ => None,
        };
        let group = groups.entry(key).or_insert(Group {
            held_by,
            longest: wait,
            count: 0,
            ns: 0,
        });
        group.count += u64::from(wait.is_first);
        group.ns += ns;
        if ns > group.longest.overlap(within) {
            group.longest = wait;
        }
    }
    let length = within.1.saturating_sub(within.0);
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.retain(|group| group.ns >= length.div_ceil(LEAST_PART));
    groups.sort_by_key(|group| (Reverse(group.ns), group.longest.span.0));
    groups
}

/// The owner is recorded right before a wait for a lock, the waker right before the end of a wait.
fn other(thread: &Thread, own: &Spans, wait: &Waiting) -> Other {
    let of = &own.spans[wait.of];
    let before = |event: usize| event.checked_sub(1).map(|i| &thread.events[i]);
    let tid = match wait.kind {
        Waiting::TRANSACTION => None,
        Waiting::LOCK => before(of.begin)
            .filter(|e| e.kind == Extension::LockWait)
            .map(|e| e.get("held by")),
        _ => (of.end.and_then(before))
            .filter(|e| e.kind == Extension::WokenBy)
            .map(|e| e.get("by")),
    };
    match tid {
        Some(tid) if tid != 0 => Other::Thread(tid),
        _ => Other::Wait(wait.of),
    }
}

/// The pauses in which garbage collections suspended all threads, by the thread that collected; those that are a part of the
/// stall that counts. With the time that was outside of the waits.
pub(super) fn pauses(trace: &Trace, waits: &[Waiting], within: (u64, u64)) -> Vec<GcPauses> {
    let mut found = Vec::new();
    for thread in &trace.threads {
        let collects = |kind| kind == Extension::GcPauseBegin;
        if !thread.events.iter().any(|e| collects(e.kind)) {
            continue;
        }
        let mut of_thread = GcPauses {
            tid: thread.tid,
            ring: thread.key.ring,
            thread: thread.name.clone(),
            count: 0,
            ns: 0,
            outside_waits_ns: 0,
        };
        // Without an end it is not known how long a pause took.
        let all = spans(thread).spans;
        let pauses = (all.iter()).filter(|s| s.kind == SpanKind::GcPause && s.end.is_some());
        for pause in pauses {
            let (from, to) = (pause.start_ns.max(within.0), pause.end_ns.min(within.1));
            let Some(ns) = to.checked_sub(from).filter(|&ns| ns > 0) else {
                continue;
            };
            let waited: u64 = waits.iter().map(|w| w.overlap((from, to))).sum();
            of_thread.count += 1;
            of_thread.ns += ns;
            of_thread.outside_waits_ns += ns.saturating_sub(waited);
        }
        found.push(of_thread);
    }
    let length = within.1.saturating_sub(within.0);
    found.retain(|pauses| pauses.ns >= length.div_ceil(LEAST_PART));
    found.sort_by_key(|pauses| Reverse(pauses.ns));
    found
}

/// The threads that wait for each other's locks, each for the next one's and the last one for the first one's, at the end of
/// the trace. Empty if this thread, and who it waits for, are in no such circle.
pub(super) fn circle(trace: &Trace, thread: &Thread) -> Vec<Holder> {
    let mut path: Vec<&Thread> = Vec::new();
    let mut next = thread;
    loop {
        if let Some(at) = path.iter().position(|t| t.key == next.key) {
            let holder = |thread: &&Thread| Holder {
                tid: thread.tid,
                ring: thread.key.ring,
                thread: thread.name.clone(),
            };
            return path[at..].iter().map(holder).collect();
        }
        path.push(next);
        let Some(owner) = awaited(trace, next) else {
            return Vec::new();
        };
        next = owner;
    }
}

/// The owner of the lock that the thread waits for at the end of its recording.
fn awaited<'a>(trace: &'a Trace, thread: &Thread) -> Option<&'a Thread> {
    let own = spans(thread);
    let goes_on = |s: &&Span| {
        s.kind == SpanKind::Wait
            && s.end.is_none()
            && s.end_ns >= thread.end_ns
            && thread.events[s.begin].get("kind") == Waiting::LOCK
    };
    let wait = own.spans.iter().rev().find(goes_on)?;
    let before = &thread.events[wait.begin.checked_sub(1)?];
    let tid = (before.kind == Extension::LockWait).then(|| before.get("held by"))?;
    // Of an id that several threads had it is not certain which one is meant.
    let mut owners = trace.threads.iter().filter(|t| u64::from(t.tid) == tid);
    let (Some(owner), None) = (owners.next(), owners.next()) else {
        return None;
    };
    // A thread that began later has an id that was used again.
    if !is_whole(trace, owner, (before.at_ns, owner.end_ns)) {
        return None;
    }
    // It may have released the lock since, to another thread.
    let lock = before.get("lock");
    let released = |e: &ThreadEvent| {
        e.kind == Extension::Released && e.at_ns >= before.at_ns && e.get("lock") == lock
    };
    (!owner.events.iter().any(released)).then_some(owner)
}

#[cfg(test)]
mod tests;
