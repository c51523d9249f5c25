// SPDX-License-Identifier: Apache-2.0
//! Events of two threads that belong together: a cause and its effect.
//!
//! A wrong pair is worse than a missing one. Where an identity does not name one event, there is no pair, and the event is
//! counted with the reason.

use hindsight_decoder::Trace;

mod finder;
mod found;
mod handed;
mod linker;
mod model;
mod recorded;
mod waits;

use finder::Finder;
use found::Found;
pub use linker::Linker;
pub use model::{End, Link, LinkEnd, Pair, PairKind, Pairs, Side, Unmatched, Why};
use recorded::{At, Recorded};

/// The pairs among the events of all threads.
pub fn pairs(trace: &Trace) -> Pairs {
    let threads = Recorded::all_of(trace, 0);
    let mut found = Found::default();
    found.fill(&threads, |_| 0);
    found.handed.append(&mut found.sent);
    let mut finder = Finder::default();
    finder.find(&threads, &mut found);
    let end = |(t, event): At| End {
        thread: threads[t as usize].thread.key,
        event: event as usize,
    };
    let pairs = finder.pairs.iter().map(|pair| {
        let found = Pair {
            kind: pair.kind,
            from: end(pair.from),
            to: end(pair.to),
        };
        (pair.at_ns, found)
    });
    let mut pairs: Vec<(u64, Pair)> = pairs.collect();
    pairs.sort_unstable();
    Pairs {
        pairs: pairs.into_iter().map(|(_, pair)| pair).collect(),
        unmatched: finder.unmatched.finish(),
    }
}

#[cfg(test)]
mod tests;
