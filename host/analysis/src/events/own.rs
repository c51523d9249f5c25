// SPDX-License-Identifier: Apache-2.0
//! What a thread recorded about its own time: waits, and readings of its counters.

use hindsight_decoder::Thread;

use super::resources::Resources;
use super::spans::spans;
use super::waiting::{waiting, Waiting};

/// What a thread recorded about its own time.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// In the order of time.
    pub(crate) waits: Vec<Waiting>,
    pub(crate) resources: Resources,
}

impl Own {
    pub(crate) fn of(thread: &Thread) -> Self {
        Own {
            waits: waiting(thread, &spans(thread)),
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
            sum(|kind| kind != Waiting::POLL),
            sum(|kind| kind == Waiting::SLEEP),
        )
    }
}
