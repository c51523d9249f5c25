// SPDX-License-Identifier: Apache-2.0
//! The pairs among the events of some threads, in no order.

use super::found::Found;
use super::handed::{Chains, Exchange};
use super::recorded::{Alone, Joined, Recorded, Tids};
use super::waits::Waits;

/// Finds pairs among the events of some threads, and then of others in the same memory.
#[derive(Default)]
pub(super) struct Finder {
    /// The pairs of the last threads.
    pub(super) pairs: Vec<Joined>,
    /// Of all threads so far.
    pub(super) unmatched: Alone,
    pub(super) chains: Chains,
}

impl Finder {
    /// Finds the pairs of these threads.
    pub(super) fn find(&mut self, threads: &[Recorded<'_>], found: &mut Found) {
        let tids = Tids::of(threads);
        let Finder {
            pairs,
            unmatched,
            chains,
        } = self;
        pairs.clear();
        let mut exchange = Exchange::new(threads, &tids, unmatched);
        exchange.join(&found.handed, chains, |kind, from, to| {
            pairs.push(Joined {
                at_ns: to.at_ns,
                kind,
                from: from.at,
                to: to.at,
            });
        });
        let mut waits = Waits::new(threads, &tids, pairs, unmatched);
        waits.wakes(found);
        waits.locks(found);
    }
}
