// SPDX-License-Identifier: Apache-2.0
//! The edges along which work causes work, in the order in which each node sends and receives them.

use crate::graph::{EdgeClass, EdgeId, Graph, NodeId, Reason};

/// The causal edges between different pieces of work: of each node, those from it by the events that send them, and those to
/// it by the events that receive them.
#[derive(Debug)]
pub(super) struct Flow {
    out: Sorted,
    into: Sorted,
    /// Releases of locks, to the waits for them: they are no causes.
    locks: Sorted,
}

/// Edges by node, and then by event.
#[derive(Debug)]
struct Sorted {
    /// (node, event, edge)
    edges: Vec<(NodeId, u32, EdgeId)>,
}

impl Sorted {
    fn of(mut edges: Vec<(NodeId, u32, EdgeId)>) -> Self {
        edges.sort_unstable();
        Sorted { edges }
    }

    fn within(&self, node: NodeId, events: std::ops::Range<u32>) -> &[(NodeId, u32, EdgeId)] {
        let from = self
            .edges
            .partition_point(|&(n, e, _)| (n, e) < (node, events.start));
        let length = self.edges[from..].partition_point(|&(n, e, _)| n == node && e < events.end);
        &self.edges[from..from + length]
    }
}

/// Whether an edge leads from a cause to its effect in another piece of work.
fn is_causal(reason: Reason, class: EdgeClass) -> bool {
    let is_of_thread = reason.is_of_thread() || reason == Reason::AwaitedBy;
    class == EdgeClass::Strong && !is_of_thread
}

impl Flow {
    pub(super) fn of(graph: &Graph) -> Self {
        let (mut out, mut into, mut locks) = (Vec::new(), Vec::new(), Vec::new());
        for id in graph.edge_ids() {
            let edge = graph.edge(id);
            if is_causal(edge.reason, edge.class) {
                out.push((edge.from, edge.from_event, id));
                into.push((edge.to, edge.to_event, id));
            } else if edge.reason == Reason::Lock {
                locks.push((edge.to, edge.to_event, id));
            }
        }
        Flow {
            out: Sorted::of(out),
            into: Sorted::of(into),
            locks: Sorted::of(locks),
        }
    }

    /// The edges that these events of a node send.
    pub(super) fn out(
        &self,
        node: NodeId,
        events: std::ops::Range<u32>,
    ) -> impl Iterator<Item = EdgeId> + '_ {
        self.out
            .within(node, events)
            .iter()
            .map(|&(_, _, edge)| edge)
    }

    /// The edges that this event of a node receives.
    pub(super) fn into(&self, node: NodeId, event: u32) -> impl Iterator<Item = EdgeId> + '_ {
        let events = event..event.saturating_add(1);
        self.into
            .within(node, events)
            .iter()
            .map(|&(_, _, edge)| edge)
    }

    /// The releases of a lock that this event of a node waited for.
    pub(super) fn releases(&self, node: NodeId, event: u32) -> impl Iterator<Item = EdgeId> + '_ {
        let events = event..event.saturating_add(1);
        let edges = self.locks.within(node, events).iter();
        edges.map(|&(_, _, edge)| edge)
    }
}
