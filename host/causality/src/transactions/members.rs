// SPDX-License-Identifier: Apache-2.0
//! Which work belongs to which transaction (P-8): all that a root caused, in one pass over the graph in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use hindsight_decoder::Extension;

use super::awaited::is_awaited;
use super::flow::Flow;
use super::model::{Limits, Member, TransactionId, Via};
use super::places::{Growing, Places};
use super::roots::Candidate;
use super::scope::end_of_part;
use crate::graph::{EdgeId, Graph, Node, NodeId, NodeKind, Reason, WaitKind};
use crate::session::{EventId, Session};

/// A node belongs to at most so many transactions that earlier ones waited for.
const MOST_SHARED: usize = 32;

/// What happens next, in the order of time. At one time: effects of edges, a thread going on, roots that are certain, others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    at_ns: u64,
    order: Order,
    /// The edge, the node, or the candidate.
    what: u32,
    /// The member that causes it.
    by: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Effect,
    Next,
    Certain,
    Candidate,
}

/// What belongs to transactions.
pub(super) struct Members {
    /// Causes before effects.
    pub(super) all: Vec<Member>,
    pub(super) places: Places,
    /// By transaction: the candidate that began it.
    pub(super) begun_by: Vec<usize>,
    pub(super) limits: Limits,
}

/// Finds all members of all transactions.
pub(super) fn find(
    session: &Session,
    graph: &Graph,
    flow: &Flow,
    candidates: &[Candidate],
) -> Members {
    let mut finder = Finder {
        session,
        graph,
        flow,
        candidates,
        certain: HashMap::new(),
        marks: HashMap::new(),
        touches: HashMap::new(),
        steps: BinaryHeap::new(),
        growing: Growing::new(graph.node_count()),
        members: Members {
            all: Vec::new(),
            places: Places::default(),
            begun_by: Vec::new(),
            limits: Limits::default(),
        },
    };
    finder.run();
    let Finder {
        mut members,
        growing,
        ..
    } = finder;
    members.places = growing.finish(&members.all);
    members
}

struct Finder<'a> {
    session: &'a Session,
    graph: &'a Graph,
    flow: &'a Flow,
    candidates: &'a [Candidate],
    /// The events that begin transactions whatever caused them, with their nodes.
    certain: HashMap<(NodeId, u32), usize>,
    /// By node, the events in it at which a thread's own code begins something new, in order.
    marks: HashMap<NodeId, Vec<u32>>,
    /// The transaction of each touch.
    touches: HashMap<u32, TransactionId>,
    steps: BinaryHeap<Reverse<Step>>,
    members: Members,
    growing: Growing,
}

/// What is about to become a member.
struct New {
    node: NodeId,
    transaction: TransactionId,
    first_event: u32,
    end_event: u32,
    begin_ns: u64,
    via: Via,
    parent: Option<u32>,
    is_shared: bool,
    is_of_mark: bool,
    is_borrowed: bool,
}

impl Finder<'_> {
    fn run(&mut self) {
        for (i, candidate) in self.candidates.iter().enumerate() {
            let first = candidate.root.event.event;
            if candidate.is_forced {
                self.certain.insert((candidate.node, first), i);
                let is_whole = candidate.end_event == self.graph.node(candidate.node).end_event;
                // A mark lasts until the next one.
                if is_whole {
                    self.marks.entry(candidate.node).or_default().push(first);
                }
            }
            self.steps.push(Reverse(Step {
                at_ns: candidate.at_ns,
                order: match candidate.is_forced {
                    true => Order::Certain,
                    false => Order::Candidate,
                },
                what: i as u32,
                by: 0,
            }));
        }
        for marks in self.marks.values_mut() {
            marks.sort_unstable();
        }
        while let Some(Reverse(step)) = self.steps.pop() {
            match step.order {
                Order::Effect => self.effect(EdgeId(step.what), step.by),
                Order::Next => self.next(NodeId(step.what), step.by),
                Order::Certain | Order::Candidate => self.root(step.what as usize),
            }
        }
    }

    /// The first mark in a node after an event, or else the end of the part of the node that begins with it.
    fn end(&self, node: NodeId, first: u32) -> u32 {
        let about = self.graph.node(node);
        let events = &self.session.thread(about.thread).events;
        let end = end_of_part(events, first, about.end_event);
        let marks = self.marks.get(&node).map_or(&[][..], Vec::as_slice);
        let next = marks.get(marks.partition_point(|&m| m <= first));
        next.map_or(end, |&mark| mark.min(end))
    }

    /// The members of a node that an event, the latest so far, belongs to.
    fn of(&self, node: NodeId, event: u32) -> impl Iterator<Item = &Member> {
        self.growing.of(&self.members.all, node, event)
    }

    fn root(&mut self, index: usize) {
        let candidate = &self.candidates[index];
        let first = candidate.root.event.event;
        if !candidate.is_forced && self.of(candidate.node, first).next().is_some() {
            return;
        }
        let known = candidate.touch.and_then(|t| self.touches.get(&t).copied());
        let transaction = known.unwrap_or_else(|| {
            let id = TransactionId(self.members.begun_by.len() as u32);
            self.members.begun_by.push(index);
            id
        });
        if let Some(touch) = candidate.touch {
            self.touches.insert(touch, transaction);
        }
        let end = self.end(candidate.node, first);
        let kind = self.graph.node(candidate.node).kind;
        self.add(New {
            node: candidate.node,
            transaction,
            first_event: first,
            end_event: candidate.end_event.min(end),
            begin_ns: candidate.at_ns,
            via: Via::Root(candidate.root),
            parent: None,
            is_shared: false,
            is_of_mark: kind == NodeKind::Run,
            is_borrowed: kind == NodeKind::Run,
        });
    }

    fn effect(&mut self, id: EdgeId, by: u32) {
        let edge = self.graph.edge(id);
        let (node, first) = (edge.to, edge.to_event);
        let kind = self.graph.node(node).kind;
        // A reply is for the one who asked. If that was work of the transaction, it goes on anyway.
        if edge.reason == Reason::Reply {
            return;
        }
        // What comes after a wait for work has causes of its own.
        if matches!(kind, NodeKind::Idle | NodeKind::Maintenance) {
            return;
        }
        if self.certain.contains_key(&(node, first)) {
            return;
        }
        let cause = self.members.all[by as usize];
        let transaction = cause.transaction;
        // It was given other work before it did this.
        if cause.is_cut && cause.end_event <= edge.from_event {
            return;
        }
        if self.of(node, first).any(|m| m.transaction == transaction) {
            return;
        }
        let left = match edge.reason {
            Reason::Item => self.leave(node, first, edge.to_ns),
            _ => Vec::new(),
        };
        let others = self.of(node, first).count();
        if !self.may_share(id, others) {
            return;
        }
        self.add(New {
            node,
            transaction,
            first_event: first,
            end_event: self.end(node, first),
            begin_ns: edge.to_ns,
            via: Via::Edge(id),
            parent: Some(by),
            is_shared: others > 0,
            is_of_mark: false,
            is_borrowed: matches!(kind, NodeKind::Run | NodeKind::Wait)
                && edge.reason != Reason::ThreadStart,
        });
        for member in left {
            self.stay(member, (node, first), edge.to_ns);
        }
    }

    /// Whether an effect may belong to one more transaction than to so many others. If not, that is counted.
    fn may_share(&mut self, id: EdgeId, others: usize) -> bool {
        use Reason::{Item, Lock, Rule, Wake};
        let edge = self.graph.edge(id);
        let waits = matches!(edge.reason, Wake | Item | Rule | Lock);
        let mut members = self.of(edge.to, edge.to_event);
        let is_effect = others == 0 || waits || members.any(|m| m.via == Via::Edge(id));
        drop(members);
        self.members.limits.of_others += u64::from(!is_effect);
        let is_too_shared = is_effect && others >= MOST_SHARED;
        self.members.limits.too_shared += u64::from(is_too_shared);
        is_effect && !is_too_shared
    }

    /// A thread takes an element out of a queue, in its own code: that gives it other work. The members that the code belongs to
    /// end there. Returns those of transactions that wait for what the thread does next.
    fn leave(&mut self, node: NodeId, first: u32, at_ns: u64) -> Vec<u32> {
        if !matches!(self.graph.node(node).kind, NodeKind::Run | NodeKind::Wait) {
            return Vec::new();
        }
        let members = self.growing.numbers(&self.members.all, node, first);
        let goes_on = |m: &u32| !self.members.all[*m as usize].is_of_mark;
        let mut left: Vec<u32> = members.filter(goes_on).collect();
        for &m in &left {
            let member = &mut self.members.all[m as usize];
            member.is_cut = true;
            member.end_event = first;
            member.end_ns = at_ns.max(member.begin_ns);
        }
        left.retain(|&m| self.is_awaited(&self.members.all[m as usize], (node, first), at_ns));
        left
    }

    /// The transaction of a member waits for what its thread does after it.
    fn stay(&mut self, member: u32, (node, first): (NodeId, u32), at_ns: u64) {
        let before = self.members.all[member as usize];
        self.add(New {
            node,
            transaction: before.transaction,
            first_event: first,
            end_event: self.end(node, first),
            begin_ns: at_ns,
            via: Via::Next,
            parent: Some(member),
            is_shared: true,
            is_of_mark: before.is_of_mark,
            is_borrowed: before.is_borrowed,
        });
    }

    /// The thread goes on after a member that is its own code, or a wait.
    fn next(&mut self, node: NodeId, by: u32) {
        let member = self.members.all[by as usize];
        let about = self.graph.node(node);
        // It was given other work meanwhile.
        if member.is_cut {
            return;
        }
        if about.kind == NodeKind::Wait && !self.goes_on_after(node, &member) {
            return;
        }
        let first = about.first_event;
        if self
            .of(node, first)
            .any(|m| m.transaction == member.transaction)
        {
            return;
        }
        let others = self.of(node, first).count();
        if others >= MOST_SHARED {
            self.members.limits.too_shared += 1;
            return;
        }
        if self.certain.contains_key(&(node, first)) {
            return;
        }
        self.add(New {
            node,
            transaction: member.transaction,
            first_event: first,
            end_event: self.end(node, first),
            begin_ns: about.begin_ns,
            via: Via::Next,
            parent: Some(by),
            is_shared: member.is_shared || others > 0,
            is_of_mark: member.is_of_mark,
            is_borrowed: member.is_borrowed,
        });
    }

    /// Whether a wait of a thread's own code is of the transaction: not if another transaction ended it, as that gave the
    /// thread other work, unless the transaction waits for the thread at this time. If the transaction did not start the
    /// thread, it must have ended the wait itself, or wait for the thread.
    fn goes_on_after(&self, node: NodeId, member: &Member) -> bool {
        if self.goes_on_anyway(node) {
            return true;
        }
        let Some(wait) = self.graph.waits_in(node).first() else {
            return true;
        };
        let mut is_of_others = false;
        for id in self.flow.into(node, wait.end_event) {
            let edge = self.graph.edge(id);
            let mut wakers = self.of(edge.from, edge.from_event).peekable();
            is_of_others |= wakers.peek().is_some();
            if wakers.any(|w| w.transaction == member.transaction) {
                return true;
            }
        }
        !is_of_others && !member.is_borrowed
            || self.is_awaited(member, (node, wait.end_event), wait.end_ns)
    }

    /// Whether a wait is of the transaction, whoever ends it: nobody gives the thread other work by that.
    fn goes_on_anyway(&self, node: NodeId) -> bool {
        use WaitKind::{Gc, Lock, Transaction};
        let wait = self.graph.waits_in(node).first();
        wait.is_none_or(|w| matches!(w.kind, Lock | Gc | Transaction))
    }

    /// Whether the transaction of a member waits for what the thread does from an event on.
    fn is_awaited(&self, member: &Member, from: (NodeId, u32), at_ns: u64) -> bool {
        let is_member = |node, event| {
            self.of(node, event)
                .any(|m| m.transaction == member.transaction)
        };
        is_awaited(self.graph, self.flow, from, at_ns, |waiter, begin| {
            // A wait outside of work is judged when it ends: until then, what the thread did before tells.
            let is_outside = self.graph.node(waiter).kind == NodeKind::Wait;
            let before = self.graph.previous(waiter).filter(|_| is_outside);
            let last = |n: NodeId| self.graph.node(n).end_event.saturating_sub(1);
            is_member(waiter, begin) || before.is_some_and(|n| is_member(n, last(n)))
        })
    }

    fn add(&mut self, new: New) {
        let about = self.graph.node(new.node);
        let index = self.members.all.len() as u32;
        let end_event = new.end_event.max(new.first_event);
        let is_whole = end_event >= about.end_event;
        let end_ns = match is_whole {
            true => self.crash_ns(&about).unwrap_or(about.end_ns),
            // It goes on until what comes next.
            false => self.at_ns(about.thread, end_event).unwrap_or(about.end_ns),
        };
        let ends_itself = !is_whole && self.is_end(about.thread, end_event);
        let end_ns = match ends_itself {
            true => self.at_ns(about.thread, end_event - 1).unwrap_or(end_ns),
            false => end_ns,
        };
        let member = Member {
            node: new.node,
            transaction: new.transaction,
            first_event: new.first_event,
            end_event,
            begin_ns: new.begin_ns,
            end_ns: end_ns.max(new.begin_ns),
            via: new.via,
            parent: new.parent.unwrap_or(index),
            is_shared: new.is_shared,
            is_of_mark: new.is_of_mark,
            is_borrowed: new.is_borrowed,
            is_cut: false,
        };
        self.members.all.push(member);
        self.growing.add(&member, is_whole);
        for id in self.flow.out(
            new.node,
            member.first_event..end_event.max(member.first_event + 1),
        ) {
            self.steps.push(Reverse(Step {
                at_ns: self.graph.edge(id).to_ns,
                order: Order::Effect,
                what: id.0,
                by: index,
            }));
        }
        if is_whole && matches!(about.kind, NodeKind::Run | NodeKind::Wait) {
            self.go_on(new.node, member.end_ns, index);
        }
    }

    /// The time of the exception that ended the work, if its end is not recorded for that reason.
    fn crash_ns(&self, about: &Node) -> Option<u64> {
        /// Readings and stacks may follow the exception.
        const MOST_AFTER: usize = 8;
        let events = self
            .session
            .thread(about.thread)
            .events
            .get(about.events())?;
        let mut last = events.iter().rev().take(MOST_AFTER);
        let crash = last.find(|e| e.kind == Extension::Uncaught);
        crash
            .filter(|_| about.is_open || about.kind == NodeKind::Run)
            .map(|e| e.at_ns)
    }

    /// The thread's own code goes on in the next node.
    fn go_on(&mut self, node: NodeId, end_ns: u64, by: u32) {
        let Some(next) = self.graph.next(node) else {
            return;
        };
        let about = self.graph.node(next);
        if matches!(about.kind, NodeKind::Run | NodeKind::Wait) {
            // A wait is judged at its end, when it is known what ended it, unless that makes no difference.
            let at_ns = match about.kind {
                NodeKind::Wait if !self.goes_on_anyway(next) => about.end_ns,
                _ => about.begin_ns,
            };
            self.steps.push(Reverse(Step {
                at_ns: at_ns.max(end_ns),
                order: Order::Next,
                what: next.0,
                by,
            }));
        }
    }

    fn at_ns(&self, thread: crate::session::ThreadId, event: u32) -> Option<u64> {
        self.session
            .event(EventId { thread, event })
            .map(|e| e.at_ns)
    }

    /// Whether the part that ends before an event ends with an event of its own.
    fn is_end(&self, thread: crate::session::ThreadId, end_event: u32) -> bool {
        use Extension::{InputEnd, TraversalEnd};
        let last = end_event.checked_sub(1);
        let last = last.and_then(|event| self.session.event(EventId { thread, event }));
        last.is_some_and(|e| matches!(e.kind, InputEnd | TraversalEnd))
    }
}
