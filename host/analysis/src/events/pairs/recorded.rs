// SPDX-License-Identifier: Apache-2.0
//! The threads of which pairs are found, and what becomes of their events.

use std::collections::BTreeMap;

use hashbrown::HashSet;
use hindsight_decoder::{Thread, ThreadEvent, Trace};

use super::model::{PairKind, Side, Unmatched, Why};

/// An event: indices of the thread and of the event.
pub(super) type At = (u32, u32);

/// A pair, with the indices of its threads.
#[derive(Clone, Copy)]
pub(super) struct Joined {
    /// When the effect was, ns.
    pub(super) at_ns: u64,
    pub(super) kind: PairKind,
    pub(super) from: At,
    pub(super) to: At,
}

/// A thread, its trace, and the caller's number.
#[derive(Clone, Copy)]
pub(super) struct Recorded<'a> {
    pub(super) trace: &'a Trace,
    pub(super) thread: &'a Thread,
    pub(super) number: u32,
}

impl<'a> Recorded<'a> {
    /// The threads of a trace; the first one has this number.
    pub(super) fn all_of(trace: &'a Trace, first: u32) -> Vec<Self> {
        let threads = trace.threads.iter().zip(first..);
        let recorded = |(thread, number)| Recorded {
            trace,
            thread,
            number,
        };
        threads.map(recorded).collect()
    }
}

/// Events without the other end.
#[derive(Default)]
pub(super) struct Alone(BTreeMap<(PairKind, Side, Why), u64>);

impl Alone {
    pub(super) fn add(&mut self, kind: PairKind, side: Side, why: Why, count: u64) {
        *self.0.entry((kind, side, why)).or_default() += count;
    }

    pub(super) fn finish(self) -> Vec<Unmatched> {
        let all = self.0.into_iter();
        let unmatched = |((kind, side, why), count)| Unmatched {
            kind,
            side,
            why,
            count,
        };
        all.map(unmatched).collect()
    }
}

/// The ids of threads that recorded.
pub(super) struct Tids(HashSet<u32>);

impl Tids {
    pub(super) fn of(threads: &[Recorded<'_>]) -> Self {
        Tids(threads.iter().map(|t| t.thread.tid).collect())
    }

    /// Why nothing of a thread with this id is known; 0 is no id.
    pub(super) fn missing(&self, tid: u32) -> Why {
        match tid == 0 || self.0.contains(&tid) {
            true => Why::NotRecorded,
            false => Why::ThreadNotInFile,
        }
    }
}

/// An event of one of these threads.
pub(super) fn event<'a>(threads: &[Recorded<'a>], at: At) -> &'a ThreadEvent {
    &threads[at.0 as usize].thread.events[at.1 as usize]
}
