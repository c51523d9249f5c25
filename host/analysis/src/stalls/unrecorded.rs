// SPDX-License-Identifier: Apache-2.0
//! The time of a thread's recording of which nothing is known.

use hindsight_decoder::Thread;

/// Whether a thread recorded nothing at all since its ring was exchanged for the one in the trace, as for an earlier report: it
/// stood still, and in what is not known.
pub fn is_silent(thread: &Thread) -> bool {
    Unrecorded::of(thread).is_silent
}

/// What is not known of a thread's recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unrecorded {
    /// For how long nothing is known of it, ns.
    pub(super) ns: u64,
    /// See [`is_silent`].
    pub(super) is_silent: bool,
}

impl Unrecorded {
    /// The gaps between the thread's rings. If the last ring follows a gap, or an earlier file, and is empty: also the time of
    /// that ring, as what the thread was in is not known.
    pub(super) fn of(thread: &Thread) -> Self {
        let length = |from: u64, to: u64| {
            let to = to.min(thread.end_ns);
            to.saturating_sub(from.max(thread.start_ns))
        };
        let gaps: u64 = thread.gaps().map(|g| length(g.from_ns, g.to_ns)).sum();
        let (Some(first), Some(last)) = (thread.parts.first(), thread.parts.last()) else {
            return Unrecorded::default();
        };
        let is_first = thread.parts.len() == 1;
        let follows_unknown = match is_first {
            true => first.number > 0,
            false => last.follows_gap,
        };
        let has_calls = thread.calls.end_ns.iter().any(|&end| end >= last.start_ns);
        let has_events = (thread.events.last()).is_some_and(|e| e.at_ns >= last.start_ns);
        let is_unknown = follows_unknown && !has_calls && !has_events;
        let last_ns = length(last.start_ns, last.end_ns);
        Unrecorded {
            ns: gaps + if is_unknown { last_ns } else { 0 },
            is_silent: is_unknown && is_first,
        }
    }

    /// Whether a stall may be in it.
    pub(super) fn hides(self, stall_ns: u64) -> bool {
        self.is_silent || self.ns >= stall_ns
    }
}
