// SPDX-License-Identifier: Apache-2.0
//! The stretches of a thread's recording between its gaps: each is a ring of its own in a file of Hindsight's format.

use std::borrow::Cow;
use std::ops::Range;

use hindsight_decoder::{Calls, Mode, RingMode, Thread, ThreadPart, NO_PARENT};

/// A stretch, and the number of its ring among the thread's rings: it does not follow the one before, if it follows a gap.
pub(crate) struct Piece<'a> {
    pub(crate) thread: Cow<'a, Thread>,
    pub(crate) number: u32,
}

/// The stretches, oldest first. Without gaps, the whole thread.
pub(crate) fn pieces(thread: &Thread) -> Vec<Piece<'_>> {
    // What came before the thread's first ring in the file is not known, if that had a number above 0.
    let first = u32::from(thread.parts.first().is_some_and(|part| part.number > 0));
    let rings = thread.parts.chunk_by(|_, next| !next.follows_gap);
    if rings.clone().count() < 2 {
        return vec![Piece {
            thread: Cow::Borrowed(thread),
            number: first,
        }];
    }
    let exact = thread.calls.exact();
    let (mut event, mut call) = (0, 0);
    let mut found = Vec::new();
    let mut rest = rings.peekable();
    while let Some(parts) = rest.next() {
        let next_ns = rest
            .peek()
            .and_then(|next| next.first())
            .map(|part| part.start_ns);
        let is_before = |ns: u64| next_ns.is_none_or(|next_ns| ns < next_ns);
        let events = thread.events.partition_point(|e| is_before(e.at_ns));
        let calls = exact.start_ns.partition_point(|&ns| is_before(ns));
        let (events, calls) = (event..events.max(event), call..calls.max(call));
        (event, call) = (events.end, calls.end);
        let mut piece = of_parts(thread, parts);
        // A time may be selected that the stretch is not in.
        if piece.start_ns == piece.end_ns && events.is_empty() && calls.is_empty() {
            continue;
        }
        (piece.calls, piece.events) = (part_of(&exact, calls), thread.events[events].to_vec());
        if !found.is_empty() {
            // They are counted once.
            piece.stats.taken_back = 0;
        }
        let number = first + 2 * found.len() as u32;
        found.push(Piece {
            thread: Cow::Owned(piece),
            number,
        });
    }
    found
}

/// The thread as it was in these parts, without its calls and events.
fn of_parts(thread: &Thread, parts: &[ThreadPart]) -> Thread {
    let has = |mode| parts.iter().any(|part| part.mode == mode);
    let within = |ns: Option<u64>| ns.map(|ns| ns.clamp(thread.start_ns, thread.end_ns));
    Thread {
        key: thread.key,
        tid: thread.tid,
        name: thread.name.clone(),
        stats: thread.stats,
        parts: parts.to_vec(),
        start_ns: within(parts.first().map(|p| p.start_ns)).unwrap_or(thread.start_ns),
        end_ns: within(parts.last().map(|p| p.end_ns)).unwrap_or(thread.end_ns),
        mode: match (has(RingMode::Calls), has(RingMode::Events)) {
            (false, true) => Mode::Events,
            (true, true) => Mode::Both,
            _ => Mode::Calls,
        },
        ..Thread::default()
    }
}

/// These calls; none of them has a caller among the others.
fn part_of(calls: &Calls, range: Range<usize>) -> Calls {
    let first = range.start as u32;
    let parents = calls.parent[range.clone()].iter();
    let parent = |&parent: &u32| match parent {
        NO_PARENT => NO_PARENT,
        parent => parent.saturating_sub(first),
    };
    Calls {
        start_ns: calls.start_ns[range.clone()].to_vec(),
        end_ns: calls.end_ns[range.clone()].to_vec(),
        method: calls.method[range.clone()].to_vec(),
        depth: calls.depth[range.clone()].to_vec(),
        parent: parents.map(parent).collect(),
        flags: calls.flags[range].to_vec(),
    }
}
