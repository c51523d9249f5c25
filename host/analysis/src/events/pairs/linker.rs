// SPDX-License-Identifier: Apache-2.0
//! The pairs of several traces.

use hindsight_decoder::Trace;

use super::finder::Finder;
use super::found::{Found, Handed};
use super::handed::Exchange;
use super::model::{Link, LinkEnd, Unmatched};
use super::recorded::{event, At, Joined, Recorded, Tids};

/// Finds the pairs of several traces of one device. Each trace's events are read once: those of transactions, which may be
/// with other processes, are kept until all traces are there. The identity of a transaction is the same in all of them.
#[derive(Default)]
pub struct Linker<'a> {
    threads: Vec<Recorded<'a>>,
    sent: Vec<Handed>,
    finder: Finder,
    // Used again for each trace.
    found: Found,
    order: Vec<(u64, u32)>,
}

impl<'a> Linker<'a> {
    /// Adds a trace, and calls `link` with its pairs without transactions, in the order of their effects. The trace's threads
    /// have the numbers from `first_thread` on; `note` has the caller's number for the event with this index of the thread
    /// with this index in the trace.
    pub fn add(
        &mut self,
        trace: &'a Trace,
        first_thread: u32,
        note: impl Fn(u32, u32) -> u32,
        mut link: impl FnMut(&Link),
    ) {
        let threads = Recorded::all_of(trace, first_thread);
        let found = &mut self.found;
        found.fill(&threads, |(t, event)| note(t, event));
        let first = self.threads.len() as u32;
        let sent = found.sent.iter().map(|handed| Handed {
            at: (handed.at.0 + first, handed.at.1),
            ..*handed
        });
        self.sent.extend(sent);
        self.threads.extend_from_slice(&threads);
        self.finder.find(&threads, found);
        let pairs = &self.finder.pairs;
        let time = |p: &Joined| p.at_ns;
        sort(&mut self.order, pairs, time, |p| (p.kind, p.from, p.to));
        let end = |at: At, at_ns: u64| LinkEnd {
            thread: first_thread + at.0,
            event: at.1,
            at_ns,
            note: note(at.0, at.1),
        };
        for pair in self.order.iter().map(|&(_, i)| &pairs[i as usize]) {
            link(&Link {
                kind: pair.kind,
                from: end(pair.from, event(&threads, pair.from).at_ns),
                to: end(pair.to, pair.at_ns),
            });
        }
    }

    /// Calls `link` with the transactions, and their replies, of all traces that were added, in the order of their effects.
    /// Returns how many events have no other end.
    pub fn finish(self, mut link: impl FnMut(&Link)) -> Vec<Unmatched> {
        let Linker {
            threads,
            sent,
            mut finder,
            mut order,
            ..
        } = self;
        let tids = Tids::of(&threads);
        let mut links: Vec<Link> = Vec::with_capacity(sent.len() / 2);
        let end = |handed: &Handed| LinkEnd {
            thread: threads[handed.at.0 as usize].number,
            event: handed.at.1,
            at_ns: handed.at_ns,
            note: handed.note,
        };
        let sent = in_parts(&sent);
        let mut exchange = Exchange::new(&threads, &tids, &mut finder.unmatched);
        for part in sent.parts() {
            exchange.join(part, &mut finder.chains, |kind, from, to| {
                links.push(Link {
                    kind,
                    from: end(from),
                    to: end(to),
                });
            });
        }
        let place = |end: &LinkEnd| (end.thread, end.event);
        let key = |l: &Link| (l.kind, place(&l.from), place(&l.to));
        sort(&mut order, &links, |l| l.to.at_ns, key);
        for &(_, i) in &order {
            link(&links[i as usize]);
        }
        finder.unmatched.finish()
    }
}

/// The places of all of them, in the order of their times; at one time, in the order of their keys. Of large ones, only the
/// places are moved.
fn sort<T, K: Ord>(
    order: &mut Vec<(u64, u32)>,
    all: &[T],
    at_ns: impl Fn(&T) -> u64,
    key: impl Fn(&T) -> K,
) {
    order.clear();
    order.extend(all.iter().map(&at_ns).zip(0..));
    order.sort_unstable_by_key(|&(at_ns, _)| at_ns);
    for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
        if same.len() > 1 {
            same.sort_by_key(|&(_, i)| key(&all[i as usize]));
        }
    }
}

/// Events by identity: all events of one identity are in one part.
struct Parts {
    all: Vec<Handed>,
    /// The first place of each part, and the end.
    bounds: Vec<usize>,
}

impl Parts {
    fn parts(&self) -> impl Iterator<Item = &[Handed]> {
        self.bounds.windows(2).map(|w| &self.all[w[0]..w[1]])
    }
}

/// About so many events are in one part, so that a part and the map of its identities fit into the processor's caches.
const PART: usize = 1 << 14;
/// Most parts.
const MOST_PARTS: usize = 1 << 12;

/// The same events, in parts.
fn in_parts(all: &[Handed]) -> Parts {
    let count = (all.len() / PART).next_power_of_two().min(MOST_PARTS);
    // The upper bits of the product depend on all bits of the identity (Knuth, multiplicative hashing).
    let part_of = |handed: &Handed| {
        let hash = handed.id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (count - 1)
    };
    let mut bounds = vec![0; count + 1];
    for handed in all {
        bounds[part_of(handed) + 1] += 1;
    }
    let mut sum = 0;
    for bound in &mut bounds {
        sum += *bound;
        *bound = sum;
    }
    let mut next = bounds.clone();
    let mut order = vec![0_u32; all.len()];
    for (handed, i) in all.iter().zip(0..) {
        let place = &mut next[part_of(handed)];
        order[*place] = i;
        *place += 1;
    }
    Parts {
        all: order.iter().map(|&i| all[i as usize]).collect(),
        bounds,
    }
}
