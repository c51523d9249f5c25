// SPDX-License-Identifier: Apache-2.0
//! Which members a node has: those that last until its end, and parts of it.

use super::model::{Member, TransactionId};
use crate::graph::NodeId;

/// Parts of a node that began before so many later ones are not looked for: they are nested a few deep at most.
const MOST_PARTS: usize = 64;
/// No member.
const NONE: u32 = u32::MAX;

/// Whether an event of the member's node belongs to it.
fn has(member: &Member, event: u32) -> bool {
    // A node without events has the event that it begins before.
    let end = match member.is_cut {
        true => member.end_event,
        false => member.end_event.max(member.first_event + 1),
    };
    member.first_event <= event && event < end
}

/// The members of nodes, while they are found in the order of time.
#[derive(Default)]
pub(super) struct Growing {
    /// By node, its last member that lasts until the end of the node, and its last part.
    last: Vec<[u32; 2]>,
    /// By member, the one before it of the same node and kind.
    before: Vec<u32>,
    is_part: Vec<bool>,
}

impl Growing {
    /// For the members of so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Growing {
            last: vec![[NONE; 2]; nodes],
            ..Growing::default()
        }
    }

    /// Adds the next member.
    pub(super) fn add(&mut self, member: &Member, is_whole: bool) {
        let index = self.before.len() as u32;
        let last = &mut self.last[member.node.index()][usize::from(!is_whole)];
        self.before.push(std::mem::replace(last, index));
        self.is_part.push(!is_whole);
    }

    /// The members of a node that an event belongs to, the one that came last first: parts, then those that last until the
    /// end of the node.
    pub(super) fn of<'m>(
        &'m self,
        all: &'m [Member],
        node: NodeId,
        event: u32,
    ) -> impl Iterator<Item = &'m Member> {
        self.numbers(all, node, event).map(|m| &all[m as usize])
    }

    /// The same, as indices among all members.
    pub(super) fn numbers<'m>(
        &'m self,
        all: &'m [Member],
        node: NodeId,
        event: u32,
    ) -> impl Iterator<Item = u32> + 'm {
        let [whole, part] = self.last[node.index()];
        let chain = |first: u32| {
            let first = (first != NONE).then_some(first);
            let before = |m: &u32| Some(self.before[*m as usize]).filter(|&b| b != NONE);
            std::iter::successors(first, before)
        };
        let members = chain(part).take(MOST_PARTS).chain(chain(whole));
        members.filter(move |&m| has(&all[m as usize], event))
    }

    /// When all members are found.
    pub(super) fn finish(self, all: &[Member]) -> Places {
        let mut order: Vec<u32> = (0..all.len() as u32).collect();
        order.sort_unstable_by_key(|&m| {
            let member = &all[m as usize];
            (member.node, self.is_part[m as usize], member.first_event, m)
        });
        Places {
            order,
            is_part: self.is_part,
        }
    }
}

/// The members of all nodes.
#[derive(Default)]
pub(super) struct Places {
    /// Of each node, first those that last until its end, then its parts; both in the order of their first events.
    order: Vec<u32>,
    /// By member.
    is_part: Vec<bool>,
}

impl Places {
    /// The members of a node that an event belongs to: parts, the one that began last first, and then those that last until
    /// the end of the node, too.
    pub(super) fn of<'m>(
        &'m self,
        all: &'m [Member],
        node: NodeId,
        event: u32,
    ) -> impl Iterator<Item = u32> + 'm {
        let key = |m: u32| {
            let member = &all[m as usize];
            (member.node, self.is_part[m as usize], member.first_event)
        };
        let up_to = |is_part| {
            self.order
                .partition_point(|&m| key(m) <= (node, is_part, event))
        };
        let of_kind = move |m: &u32, is_part| {
            all[*m as usize].node == node && self.is_part[*m as usize] == is_part
        };
        let parts = self.order[..up_to(true)].iter().rev().copied();
        let parts = parts.take_while(move |m| of_kind(m, true)).take(MOST_PARTS);
        let whole = self.order[..up_to(false)].iter().rev().copied();
        let whole = whole.take_while(move |m| of_kind(m, false));
        parts
            .chain(whole)
            .filter(move |&m| has(&all[m as usize], event))
    }

    /// The member of a transaction that an event of a node belongs to.
    pub(super) fn at(
        &self,
        all: &[Member],
        node: NodeId,
        event: u32,
        transaction: TransactionId,
    ) -> Option<u32> {
        self.of(all, node, event)
            .find(|&m| all[m as usize].transaction == transaction)
    }

    /// The member that an event of a node belongs to: a part of the node, if it is in one, and not one that only waited.
    pub(super) fn owner(&self, all: &[Member], node: NodeId, event: u32) -> Option<u32> {
        let mut members = self.of(all, node, event);
        let owner = self
            .of(all, node, event)
            .find(|&m| !all[m as usize].is_shared);
        owner.or_else(|| members.next())
    }
}
