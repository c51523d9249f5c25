// SPDX-License-Identifier: Apache-2.0
//! The columns of a graph.

use std::ops::Range;

use hindsight_analysis::Unmatched;

use super::adjacency::Adjacency;
use super::kinds::{DropReason, EdgeClass, EdgeId, NodeId, NodeKind, Reason, WaitKind, WaitResult};
use crate::session::{EventId, ThreadId};
use crate::strings::StringId;

/// The columns of the nodes, in the order of threads, and within a thread of the events that begin them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) thread: Vec<ThreadId>,
    pub(crate) begin_ns: Vec<u64>,
    pub(crate) end_ns: Vec<u64>,
    /// Index of the first event among the thread's events.
    pub(crate) first_event: Vec<u32>,
    /// Index after the last event.
    pub(crate) end_event: Vec<u32>,
    pub(crate) kind: Vec<NodeKind>,
    pub(crate) flags: Vec<u8>,
    pub(crate) what: Vec<StringId>,
}

impl Nodes {
    pub(crate) fn len(&self) -> usize {
        self.thread.len()
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.thread.reserve(more);
        self.begin_ns.reserve(more);
        self.end_ns.reserve(more);
        self.first_event.reserve(more);
        self.end_event.reserve(more);
        self.kind.reserve(more);
        self.flags.reserve(more);
        self.what.reserve(more);
    }

    /// Whether the node interrupts another one.
    pub(crate) fn is_inside(&self, node: usize) -> bool {
        self.flags[node] & NODE_INSIDE != 0
    }

    /// Whether it is not known what the thread did before the node.
    pub(crate) fn begins_anew(&self, node: usize) -> bool {
        self.flags[node] & NODE_BEGINS_ANEW != 0
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        self.thread.truncate(length);
        self.begin_ns.truncate(length);
        self.end_ns.truncate(length);
        self.first_event.truncate(length);
        self.end_event.truncate(length);
        self.kind.truncate(length);
        self.flags.truncate(length);
        self.what.truncate(length);
    }
}

/// The end of the node's work is not recorded.
pub(crate) const NODE_OPEN_END: u8 = 1;
/// The node interrupts another one.
pub(crate) const NODE_INSIDE: u8 = 2;

/// It is not known what the thread did before the node: it recorded nothing.
pub(crate) const NODE_BEGINS_ANEW: u8 = 4;

/// The columns of the edges.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    pub(crate) from: Vec<NodeId>,
    pub(crate) to: Vec<NodeId>,
    pub(crate) from_event: Vec<u32>,
    pub(crate) to_event: Vec<u32>,
    pub(crate) from_ns: Vec<u64>,
    pub(crate) to_ns: Vec<u64>,
    pub(crate) class: Vec<EdgeClass>,
    pub(crate) reason: Vec<Reason>,
    pub(crate) flags: Vec<u8>,
}

impl Edges {
    pub(crate) fn len(&self) -> usize {
        self.from.len()
    }

    pub(crate) fn push(&mut self, edge: &Edge) {
        self.from.push(edge.from);
        self.to.push(edge.to);
        self.from_event.push(edge.from_event);
        self.to_event.push(edge.to_event);
        self.from_ns.push(edge.from_ns);
        self.to_ns.push(edge.to_ns);
        self.class.push(edge.class);
        self.reason.push(edge.reason);
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(edge.is_inferred, INFERRED)
            | flag(edge.is_ambiguous, AMBIGUOUS)
            | flag(edge.is_herd, HERD);
        self.flags.push(flags);
    }

    /// Notes that an edge's cause ended the waits of several threads at once.
    pub(crate) fn mark_herd(&mut self, index: usize) {
        if let Some(flags) = self.flags.get_mut(index) {
            *flags |= HERD;
        }
    }

    /// Makes room for so many more.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.from.reserve(more);
        self.to.reserve(more);
        self.from_event.reserve(more);
        self.to_event.reserve(more);
        self.from_ns.reserve(more);
        self.to_ns.reserve(more);
        self.class.reserve(more);
        self.reason.reserve(more);
        self.flags.reserve(more);
    }

    /// Keeps the edges of which `keep` says so.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        fn column<T>(column: &mut Vec<T>, keep: &[bool]) {
            let mut keep = keep.iter();
            column.retain(|_| keep.next().copied().unwrap_or(false));
        }
        column(&mut self.from, keep);
        column(&mut self.to, keep);
        column(&mut self.from_event, keep);
        column(&mut self.to_event, keep);
        column(&mut self.from_ns, keep);
        column(&mut self.to_ns, keep);
        column(&mut self.class, keep);
        column(&mut self.reason, keep);
        column(&mut self.flags, keep);
    }
}

const INFERRED: u8 = 1;
const AMBIGUOUS: u8 = 2;
const HERD: u8 = 4;

/// A piece of work, a wait, or a stretch of a thread's own code: a sequence of events of one thread for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The thread.
    pub thread: ThreadId,
    /// What the thread does in it.
    pub kind: NodeKind,
    /// CLOCK_BOOTTIME of its first event, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME of its end, ns: of its last event, or, if its end is not recorded, the latest time at which it may
    /// still have gone on.
    pub end_ns: u64,
    /// Index of its first event among the thread's events.
    pub first_event: u32,
    /// Index after its last event. Events of maintenance that interrupted it are in between.
    pub end_event: u32,
    /// The class of the task, message, input receiver or activity, the name of the work, or, of a thread's own code, the
    /// class that it runs; [`StringId::NONE`] if it is not known.
    pub what: StringId,
    /// Whether its end is not recorded.
    pub is_open: bool,
}

impl Node {
    /// Its length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// The indices of its events among the thread's events; those of maintenance that interrupted it are among them.
    pub fn events(&self) -> Range<usize> {
        self.first_event as usize..self.end_event as usize
    }
}

/// A cause and its effect, or what may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node of the cause.
    pub from: NodeId,
    /// The node of the effect.
    pub to: NodeId,
    /// The event of the cause: index among the events of its thread.
    pub from_event: u32,
    /// The event of the effect.
    pub to_event: u32,
    /// CLOCK_BOOTTIME of the cause, ns.
    pub from_ns: u64,
    /// CLOCK_BOOTTIME of the effect, ns; not before the cause.
    pub to_ns: u64,
    /// How certain it is.
    pub class: EdgeClass,
    /// Why it is there.
    pub reason: Reason,
    /// Whether it follows from other facts, such as times; if not, the events themselves name each other.
    pub is_inferred: bool,
    /// Whether it may be mutual exclusion instead of a cause.
    pub is_ambiguous: bool,
    /// Whether the cause ended the waits of several threads for one object at once, as `notifyAll` does.
    pub is_herd: bool,
}

/// A wait of a thread, in a task or outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread.
    pub thread: ThreadId,
    /// Index of the event that begins it.
    pub begin_event: u32,
    /// Index of the event that ends it; [`Wait::NOT_RECORDED`] if that is not recorded.
    pub end_event: u32,
    /// CLOCK_BOOTTIME, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, ns. If the end is not recorded: the latest time at which it may still have gone on.
    pub end_ns: u64,
    /// What for.
    pub kind: WaitKind,
    /// How it ended.
    pub result: WaitResult,
}

impl Wait {
    /// The index of an event that is not recorded.
    pub const NOT_RECORDED: u32 = u32::MAX;

    /// Its length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

/// What the graph was made of, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Edges that were left out, by [`DropReason`], in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Events without the other end of their pair, of each trace and of all together.
    pub unmatched: Vec<Unmatched>,
}

/// The graph of a [`Session`](crate::Session): nodes are pieces of work and waits of threads, edges lead from causes to their
/// effects.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub(crate) nodes: Nodes,
    pub(crate) edges: Edges,
    /// In the order of threads, and within a thread of the events that begin them.
    pub(crate) waits: Vec<Wait>,
    /// By thread, its first node; one more than threads.
    pub(crate) thread_nodes: Vec<u32>,
    /// By thread, its first wait; one more than threads.
    pub(crate) thread_waits: Vec<u32>,
    pub(crate) incoming: Adjacency,
    pub(crate) outgoing: Adjacency,
    pub(crate) facts: Facts,
}

impl Graph {
    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Number of edges.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// The numbers of all nodes: thread by thread, and within a thread in the order of time.
    pub fn node_ids(&self) -> impl ExactSizeIterator<Item = NodeId> + DoubleEndedIterator {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The numbers of all edges.
    pub fn edge_ids(&self) -> impl ExactSizeIterator<Item = EdgeId> {
        (0..self.edges.len() as u32).map(EdgeId)
    }

    /// A node.
    ///
    /// # Panics
    /// If it is not a node of this graph.
    pub fn node(&self, id: NodeId) -> Node {
        let (n, i) = (&self.nodes, id.index());
        Node {
            thread: n.thread[i],
            kind: n.kind[i],
            begin_ns: n.begin_ns[i],
            end_ns: n.end_ns[i],
            first_event: n.first_event[i],
            end_event: n.end_event[i],
            what: n.what[i],
            is_open: n.flags[i] & NODE_OPEN_END != 0,
        }
    }

    /// An edge.
    ///
    /// # Panics
    /// If it is not an edge of this graph.
    pub fn edge(&self, id: EdgeId) -> Edge {
        let (e, i) = (&self.edges, id.index());
        Edge {
            from: e.from[i],
            to: e.to[i],
            from_event: e.from_event[i],
            to_event: e.to_event[i],
            from_ns: e.from_ns[i],
            to_ns: e.to_ns[i],
            class: e.class[i],
            reason: e.reason[i],
            is_inferred: e.flags[i] & INFERRED != 0,
            is_ambiguous: e.flags[i] & AMBIGUOUS != 0,
            is_herd: e.flags[i] & HERD != 0,
        }
    }

    /// The edges to a node, in the order of their numbers.
    pub fn incoming(&self, node: NodeId) -> &[EdgeId] {
        self.incoming.of(node)
    }

    /// The edges from a node, in the order of their numbers.
    pub fn outgoing(&self, node: NodeId) -> &[EdgeId] {
        self.outgoing.of(node)
    }

    /// The nodes of a thread, in the order of time.
    pub fn nodes_of(
        &self,
        thread: ThreadId,
    ) -> impl ExactSizeIterator<Item = NodeId> + DoubleEndedIterator {
        self.node_range(thread).map(NodeId)
    }

    fn node_range(&self, thread: ThreadId) -> Range<u32> {
        range(&self.thread_nodes, thread)
    }

    /// All waits of a thread, in tasks and outside, in the order of time.
    pub fn waits_of(&self, thread: ThreadId) -> &[Wait] {
        let range = range(&self.thread_waits, thread);
        &self.waits[range.start as usize..range.end as usize]
    }

    /// The waits that begin in a node, those of maintenance that interrupted it among them.
    pub fn waits_in(&self, node: NodeId) -> &[Wait] {
        let node = self.node(node);
        let waits = self.waits_of(node.thread);
        let from = waits.partition_point(|w| w.begin_event < node.first_event);
        let length = waits[from..].partition_point(|w| w.begin_event < node.end_event);
        &waits[from..from + length]
    }

    /// The innermost node that an event is in. `None` for events that are in none, such as those that only concern the
    /// recording.
    pub fn node_of(&self, event: EventId) -> Option<NodeId> {
        let range = self.node_range(event.thread);
        let first_events = self
            .nodes
            .first_event
            .get(range.start as usize..range.end as usize)?;
        let after = first_events.partition_point(|&first| first <= event.event);
        self.containing(range.start, range.start + after as u32, |n| {
            self.nodes.end_event[n.index()] > event.event
        })
    }

    /// The innermost node of a thread at a time; if a node ends where the next one begins, the next one.
    pub fn node_at(&self, thread: ThreadId, at_ns: u64) -> Option<NodeId> {
        let range = self.node_range(thread);
        let begins = self
            .nodes
            .begin_ns
            .get(range.start as usize..range.end as usize)?;
        let after = begins.partition_point(|&begin| begin <= at_ns);
        self.containing(range.start, range.start + after as u32, |n| {
            self.nodes.end_ns[n.index()] >= at_ns
        })
    }

    /// The last node before `after` that is in reach, behind maintenance that is not.
    fn containing(
        &self,
        first: u32,
        after: u32,
        reaches: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        for n in (first..after).rev().map(NodeId) {
            if reaches(n) {
                return Some(n);
            }
            if !self.is_inside(n) {
                return None;
            }
        }
        None
    }

    /// The next node of the thread that is no maintenance inside this one.
    pub fn next(&self, node: NodeId) -> Option<NodeId> {
        let end = self.nodes.end_event[node.index()];
        let range = self.node_range(self.nodes.thread[node.index()]);
        let mut later = (node.0 + 1..range.end).map(NodeId);
        later.find(|n| self.nodes.first_event[n.index()] >= end)
    }

    /// The node before this one on the thread; not one that this one interrupts.
    pub fn previous(&self, node: NodeId) -> Option<NodeId> {
        let first = self.nodes.first_event[node.index()];
        let range = self.node_range(self.nodes.thread[node.index()]);
        let mut earlier = (range.start..node.0).rev().map(NodeId);
        earlier.find(|n| self.nodes.end_event[n.index()] <= first && !self.is_inside(*n))
    }

    /// Whether a node interrupts another one.
    pub fn is_inside(&self, node: NodeId) -> bool {
        self.nodes.is_inside(node.index())
    }

    /// What the graph was made of, and what was left out.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The number of edges that were left out for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.facts.dropped[reason as usize]
    }

    /// Memory that its columns take, bytes.
    pub fn bytes(&self) -> usize {
        let node = 4 + 8 + 8 + 4 + 4 + 1 + 1 + 4;
        let edge = 4 + 4 + 4 + 4 + 8 + 8 + 3;
        let adjacent = 2 * 4 * (self.node_count() + 1 + self.edge_count());
        self.node_count() * node
            + self.edge_count() * edge
            + adjacent
            + self.waits.len() * size_of::<Wait>()
    }
}

fn range(firsts: &[u32], thread: ThreadId) -> Range<u32> {
    let at = |i: usize| firsts.get(i).copied();
    match (at(thread.0 as usize), at(thread.0 as usize + 1)) {
        (Some(start), Some(end)) => start..end,
        _ => 0..0,
    }
}
