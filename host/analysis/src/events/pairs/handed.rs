// SPDX-License-Identifier: Apache-2.0
//! Tasks, messages, posts, traversals and transactions: joined by identities that are unique while they are pending.

use std::hash::{Hash, Hasher};

use hashbrown::HashMap;

use super::found::{Handed, Role};
use super::model::{PairKind, Side, Why};
use super::recorded::{Alone, Recorded, Tids};

/// No event.
const NONE: u32 = u32::MAX;

/// Causes of one identity without their effects so far.
enum Pending<'a> {
    None,
    One(&'a Handed),
    /// It is not certain which is which: the number of causes less the number of effects.
    Several(u64),
}

/// What is handed over, by its identity and kind. An event of one kind never belongs to one of another kind.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    id: u64,
    kind: PairKind,
}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // One number is enough: few events of different kinds have the same identity.
        state.write_u64(self.id ^ (self.kind as u64) << 56);
    }
}

/// The events of each identity, as chains of their places.
#[derive(Default)]
pub(super) struct Chains {
    last: HashMap<Identity, u32>,
    /// By event, the next one of its identity.
    next: Vec<u32>,
    heads: Vec<u32>,
}

impl Chains {
    fn clear(&mut self, events: usize) {
        self.last.clear();
        self.next.clear();
        self.next.resize(events, NONE);
        self.heads.clear();
    }

    fn add(&mut self, handed: &Handed, place: u32) {
        let identity = Identity {
            id: handed.id,
            kind: handed.kind,
        };
        match self.last.insert(identity, place) {
            Some(before) => self.next[before as usize] = place,
            None => self.heads.push(place),
        }
    }

    /// The places of a chain's events.
    fn from(&self, head: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |&place: &u32| self.next.get(place as usize).copied();
        std::iter::successors(Some(head), next).take_while(|&place| place != NONE)
    }
}

/// Joins the events of some threads that hand something over.
pub(super) struct Exchange<'a> {
    threads: &'a [Recorded<'a>],
    tids: &'a Tids,
    unmatched: &'a mut Alone,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(
        threads: &'a [Recorded<'a>],
        tids: &'a Tids,
        unmatched: &'a mut Alone,
    ) -> Self {
        Exchange {
            threads,
            tids,
            unmatched,
        }
    }

    /// Calls `pair` with the kind and both ends of each pair, in no order. `chains` is only memory.
    pub(super) fn join(
        &mut self,
        all: &[Handed],
        chains: &mut Chains,
        mut pair: impl FnMut(PairKind, &Handed, &Handed),
    ) {
        // Only the order among the events of one identity counts, and these are few.
        chains.clear(all.len());
        for (handed, place) in all.iter().zip(0..) {
            if handed.id != 0 {
                chains.add(handed, place);
            } else if handed.role != Role::Cancel {
                // Without an identity, nothing is known.
                let side = match handed.role {
                    Role::Cause => Side::From,
                    _ => Side::To,
                };
                self.unmatched.add(handed.kind, side, Why::Ambiguous, 1);
            }
        }
        let mut chain: Vec<&Handed> = Vec::new();
        for &head in &chains.heads {
            chain.clear();
            chain.extend(chains.from(head).map(|place| &all[place as usize]));
            // At equal times, the cause comes first.
            chain.sort_unstable_by_key(|handed| (handed.at_ns, handed.role, handed.at));
            self.join_one(&chain, &mut pair);
        }
    }

    /// Joins the events of one identity, in the order of time.
    fn join_one(&mut self, chain: &[&Handed], pair: &mut impl FnMut(PairKind, &Handed, &Handed)) {
        let mut pending = Pending::None;
        for &handed in chain {
            pending = match handed.role {
                Role::Cause => {
                    let (now, ambiguous) = match pending {
                        Pending::None => (Pending::One(handed), 0),
                        Pending::One(_) => (Pending::Several(2), 2),
                        Pending::Several(n) => (Pending::Several(n + 1), 1),
                    };
                    if ambiguous > 0 {
                        let kind = handed.kind;
                        self.unmatched
                            .add(kind, Side::From, Why::Ambiguous, ambiguous);
                    }
                    now
                }
                Role::Effect | Role::Cancel => self.effect(pending, handed, pair),
            }
        }
        if let Pending::One(cause) = pending {
            let why = self.tids.missing(cause.for_tid);
            self.unmatched.add(cause.kind, Side::From, why, 1);
        }
    }

    /// What is pending after an effect.
    fn effect<'h>(
        &mut self,
        pending: Pending<'h>,
        handed: &'h Handed,
        pair: &mut impl FnMut(PairKind, &Handed, &Handed),
    ) -> Pending<'h> {
        let (is_cancel, kind) = (handed.role == Role::Cancel, handed.kind);
        match pending {
            Pending::None if is_cancel => Pending::None,
            Pending::None => {
                self.unmatched.add(kind, Side::To, Why::NotRecorded, 1);
                Pending::None
            }
            Pending::One(cause) => {
                if is_cancel {
                    pair(PairKind::Cancelled, cause, handed);
                } else if self.fit(cause, handed) {
                    pair(kind, cause, handed);
                } else {
                    // The identity was used again: ends between these two are missing.
                    self.unmatched.add(kind, Side::From, Why::Ambiguous, 1);
                    self.unmatched.add(kind, Side::To, Why::Ambiguous, 1);
                }
                Pending::None
            }
            Pending::Several(n) => {
                if !is_cancel {
                    self.unmatched.add(kind, Side::To, Why::Ambiguous, 1);
                }
                match n {
                    0 | 1 => Pending::None,
                    n => Pending::Several(n - 1),
                }
            }
        }
    }

    /// Whether two ends may belong together.
    fn fit(&self, cause: &Handed, effect: &Handed) -> bool {
        let class = |handed: &Handed| {
            let methods = &self.threads[handed.at.0 as usize].trace.methods;
            methods.get(handed.class).map(|m| m.class.as_str())
        };
        let same_class = match (class(cause), class(effect)) {
            (Some(a), Some(b)) => a == b || a.is_empty() || b.is_empty(),
            _ => true,
        };
        let same_thread =
            cause.for_tid == 0 || cause.for_tid == self.threads[effect.at.0 as usize].thread.tid;
        same_class && same_thread && cause.sort == effect.sort
    }
}
