// SPDX-License-Identifier: Apache-2.0
//! The time of a thread's recording of which nothing is known.

use hindsight_decoder::catalogue::{Category, Purpose};
use hindsight_decoder::{Extension, Thread, ThreadPart};

use crate::events::Waiting;

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
    /// The gaps between the thread's rings; and the time from the beginning of a ring to its oldest event, if what came before the
    /// ring is not known: the thread stood still, in what is not known either, unless the event says that it waited for work.
    pub(super) fn of(thread: &Thread) -> Self {
        let length = |from: u64, to: u64| {
            let to = to.min(thread.end_ns);
            to.saturating_sub(from.max(thread.start_ns))
        };
        let gaps = thread.gaps().map(|g| length(g.from_ns, g.to_ns));
        let parts = thread.parts.iter().enumerate();
        let follow_unknown =
            parts.filter(|(i, part)| part.follows_gap || *i == 0 && part.number > 0);
        let still = follow_unknown.map(|(_, part)| {
            let until_ns = stood_still_until(thread, part);
            until_ns.map_or(0, |until_ns| length(part.start_ns, until_ns))
        });
        let is_empty = thread.calls.is_empty() && thread.events.is_empty();
        Unrecorded {
            ns: gaps.chain(still).sum(),
            is_silent: is_empty && thread.parts.first().is_some_and(|part| part.number > 0),
        }
    }

    /// Whether a stall may be in it.
    pub(super) fn hides(self, stall_ns: u64) -> bool {
        self.is_silent || self.ns >= stall_ns
    }
}

/// When the thread went on for the first time in this part, CLOCK_BOOTTIME, ns; `None` if it waited for work until then.
fn stood_still_until(thread: &Thread, part: &ThreadPart) -> Option<u64> {
    let event = thread.events.partition_point(|e| e.at_ns < part.start_ns);
    let events = thread.events[event..].iter();
    let mut events = events.take_while(|e| e.at_ns <= part.end_ns);
    let call = thread
        .calls
        .start_ns
        .partition_point(|&start| start < part.start_ns);
    let call = thread.calls.start_ns.get(call);
    let oldest_ns = events.clone().map(|e| e.at_ns).next();
    let oldest_ns = oldest_ns.into_iter().chain(call.copied()).min();
    // The managed runtime's own requests run in a wait, too.
    let ended = events.find(|e| {
        let spec = e.spec();
        let is_own = !matches!(spec.category, Category::Runtime | Category::Recording);
        spec.purpose == Purpose::Boundary && is_own
    });
    let is_idle =
        ended.is_some_and(|e| e.kind == Extension::WaitEnd && e.get("kind") == Waiting::POLL);
    (!is_idle).then(|| oldest_ns.unwrap_or(part.end_ns).min(part.end_ns))
}
