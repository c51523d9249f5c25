// SPDX-License-Identifier: Apache-2.0
//! What a thread recorded about its own time: waits, and readings of its counters.

use hindsight_decoder::Thread;

use super::resources::Resources;
use super::spans::{spans, SpanKind};

/// A recorded wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnWait {
    /// Its time, CLOCK_BOOTTIME, ns.
    pub(crate) span: (u64, u64),
    /// The kind, by its index in the catalogue.
    pub(crate) kind: u64,
}

impl OwnWait {
    /// Index of the kind of waits for a lock.
    pub(crate) const LOCK: u64 = 0;
    /// Of sleeps.
    pub(crate) const SLEEP: u64 = 2;
    /// Of waits for work in a poll.
    pub(crate) const POLL: u64 = 5;

    /// How much of `within` it took, ns.
    pub(crate) fn overlap(&self, within: (u64, u64)) -> u64 {
        let end = self.span.1.min(within.1);
        end.saturating_sub(self.span.0.max(within.0))
    }
}

/// What a thread recorded about its own time.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// One after the other, in the order of time.
    pub(crate) waits: Vec<OwnWait>,
    pub(crate) resources: Resources,
}

impl Own {
    pub(crate) fn of(thread: &Thread) -> Self {
        let spans = spans(thread).spans.into_iter();
        let waits = spans.filter(|s| s.kind == SpanKind::Wait);
        Own {
            waits: waits
                .map(|wait| OwnWait {
                    span: (wait.start_ns, wait.end_ns),
                    kind: thread.events[wait.begin].get("kind"),
                })
                .collect(),
            resources: Resources::of(thread),
        }
    }

    /// The waits in a stretch of time, ns: for anything but work, and asleep.
    pub(crate) fn waited(&self, within: (u64, u64)) -> (u64, u64) {
        let sum = |is: fn(u64) -> bool| {
            let waits = self.waits.iter().filter(|w| is(w.kind));
            waits.map(|w| w.overlap(within)).sum()
        };
        (
            sum(|kind| kind != OwnWait::POLL),
            sum(|kind| kind == OwnWait::SLEEP),
        )
    }
}
