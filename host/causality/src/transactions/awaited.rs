// SPDX-License-Identifier: Apache-2.0
//! Whether a transaction waits for what a thread does: then the thread works for it, whoever gave the thread its work.

use super::flow::Flow;
use crate::graph::{Edge, Graph, NodeId, NodeKind, Reason, Wait};

/// Most nodes of the thread that are looked at.
const MOST_NODES: usize = 64;
/// Most effects of them that are looked at.
const MOST_EFFECTS: usize = 256;
/// Waits that began before so many others of the same node are not looked at: they are nested a few deep at most.
const MOST_NESTED: usize = 16;

/// Whether a thread's own code, from this event of a node at `at_ns` on, ends a wait that had begun before: one of a node of
/// which `is_of` is true, with the event that began it.
pub(super) fn is_awaited(
    graph: &Graph,
    flow: &Flow,
    (node, event): (NodeId, u32),
    at_ns: u64,
    is_of: impl Fn(NodeId, u32) -> bool,
) -> bool {
    let nodes = std::iter::successors(Some(node), |&n| graph.next(n));
    let effects = nodes
        .take(MOST_NODES)
        .take_while(|&n| is_own_code(graph, n))
        .flat_map(|n| {
            let about = graph.node(n);
            flow.out(n, about.first_event.max(event)..about.end_event)
        });
    effects.take(MOST_EFFECTS).any(|id| {
        let edge = graph.edge(id);
        let ended = ended_by(graph, &edge).filter(|w| w.begin_ns < at_ns);
        ended.is_some_and(|w| is_of(edge.to, w.begin_event))
    })
}

/// The wait that an edge ended.
fn ended_by(graph: &Graph, edge: &Edge) -> Option<Wait> {
    if edge.reason != Reason::Wake {
        return None;
    }
    let waits = graph.waits_in(edge.to);
    let begun = waits.partition_point(|w| w.begin_event < edge.to_event);
    let mut last = waits[..begun].iter().rev().take(MOST_NESTED);
    last.find(|w| w.end_event == edge.to_event).copied()
}

/// Whether a node is no work that the thread was given, and no wait for that.
fn is_own_code(graph: &Graph, node: NodeId) -> bool {
    matches!(graph.node(node).kind, NodeKind::Run | NodeKind::Wait)
}
