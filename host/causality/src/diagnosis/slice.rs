// SPDX-License-Identifier: Apache-2.0
//! Backward slicing (P-3; Argus): what led to a node.

use std::collections::BinaryHeap;

use crate::graph::{Edge, EdgeClass, EdgeId, Graph, NodeId, NodeKind, Reason};
use crate::session::ThreadId;

/// Most nodes of a slice, unless asked otherwise.
pub const MOST_IN_SLICE: usize = 20_000;
/// Most steps of a path.
pub const MOST_STEPS: usize = 256;

/// Nodes by their numbers, one bit each.
struct Seen(Vec<u64>);

impl Seen {
    fn of(nodes: usize) -> Self {
        Seen(vec![0; nodes.div_ceil(64)])
    }

    /// Whether it is new.
    fn insert(&mut self, node: NodeId) -> bool {
        let (at, bit) = (node.0 as usize / 64, 1_u64 << (node.0 % 64));
        let Some(word) = self.0.get_mut(at) else {
            return false;
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// What led to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The nodes, and the node itself, in the order of their beginnings.
    pub nodes: Vec<NodeId>,
    /// Whether there are more: the earliest ones are left out.
    pub is_cut: bool,
}

/// Which edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceQuestion {
    /// The most nodes; the latest ones are kept.
    pub most: usize,
    /// Whether weak and boosted edges are followed.
    pub weak: bool,
}

impl Default for SliceQuestion {
    fn default() -> Self {
        SliceQuestion {
            most: MOST_IN_SLICE,
            weak: true,
        }
    }
}

/// Whether nothing before this node is asked for: the user did something.
pub(crate) fn is_origin(kind: NodeKind) -> bool {
    kind == NodeKind::Input
}

/// Whether an edge may have led to its target. From a wait to what ended it, it leads to what is still to come; a lock's
/// release is mutual exclusion, unless a rule says otherwise.
pub(crate) fn leads(edge: &Edge) -> bool {
    edge.reason != Reason::AwaitedBy
}

/// All nodes from which edges lead to `node`, up to `until_ns` (CLOCK_BOOTTIME) in that node. A cause comes before its
/// effect: from the source of an edge only the edges into it up to that time are followed.
pub fn slice(graph: &Graph, node: NodeId, until_ns: u64, question: &SliceQuestion) -> Slice {
    let mut seen = Seen::of(graph.node_count());
    // The latest first: each node is reached first at the latest time at which it had to do with the end.
    let mut open = BinaryHeap::from([(until_ns, node)]);
    let mut nodes = Vec::new();
    while let Some((until_ns, node)) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        if nodes.len() == question.most {
            let is_cut = true;
            return sorted(graph, nodes, is_cut);
        }
        nodes.push(node);
        if is_origin(graph.node(node).kind) {
            continue;
        }
        for &edge in graph.incoming(node) {
            let edge = graph.edge(edge);
            let is_asked = question.weak || edge.class == EdgeClass::Strong;
            if is_asked && leads(&edge) && edge.to_ns <= until_ns {
                open.push((edge.from_ns, edge.from));
            }
        }
    }
    sorted(graph, nodes, false)
}

fn sorted(graph: &Graph, mut nodes: Vec<NodeId>, is_cut: bool) -> Slice {
    nodes.sort_by_key(|&n| (graph.node(n).begin_ns, n));
    Slice { nodes, is_cut }
}

/// A path to a node: its edges, the earliest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CausePath {
    /// The edges, each from a cause to its effect.
    pub edges: Vec<EdgeId>,
    /// Whether the path was cut at [`MOST_STEPS`].
    pub is_cut: bool,
}

/// Up to which time events led to a node that caused something at `at_ns`.
pub(crate) fn begin_limit(graph: &Graph, node: NodeId, at_ns: u64) -> u64 {
    let about = graph.node(node);
    match about.kind {
        NodeKind::Run | NodeKind::Wait | NodeKind::Idle => at_ns,
        _ => about.begin_ns.min(at_ns),
    }
}

/// The path form of a slice: of each node one predecessor, the one with the latest strong edge, or else the cheapest weak one.
/// It begins at a time in the node, and follows the edges that `is_asked` accepts, which is asked with
/// the time at which the edge's target caused the next one.
///
/// Of a piece of work in the path, only what came before it began counts: what happened to it later did not start it. Of a
/// thread's own code, what came before it caused the next one.
pub(crate) fn path_from(
    graph: &Graph,
    node: NodeId,
    until_ns: u64,
    weak: bool,
    is_asked: &dyn Fn(&Edge, u64) -> bool,
) -> CausePath {
    let mut path = CausePath::default();
    let (mut node, mut until_ns) = (node, until_ns);
    let mut visited = vec![node];
    while !is_origin(graph.node(node).kind) {
        let edges = graph.incoming(node).iter();
        let possible = edges.filter_map(|&id| {
            let edge = graph.edge(id);
            let is_allowed = weak || edge.class == EdgeClass::Strong;
            let is_new = !visited.contains(&edge.from);
            (leads(&edge)
                && is_allowed
                && is_new
                && edge.to_ns <= until_ns
                && is_asked(&edge, until_ns))
            .then_some((id, edge))
        });
        let rank = |(id, edge): &(EdgeId, Edge)| {
            // A strong edge first, then the cheapest; a cause of another thread before the thread's own past.
            let from_other = !edge.reason.is_of_thread();
            let strong = edge.class == EdgeClass::Strong;
            let latest = (edge.to_ns, edge.from_ns);
            (
                strong && from_other,
                strong,
                -edge.class.penalty(),
                latest,
                std::cmp::Reverse(id.0),
            )
        };
        let Some((id, edge)) = possible.max_by_key(rank) else {
            break;
        };
        if path.edges.len() == MOST_STEPS {
            path.is_cut = true;
            break;
        }
        path.edges.push(id);
        node = edge.from;
        visited.push(node);
        until_ns = begin_limit(graph, node, edge.from_ns);
    }
    path.edges.reverse();
    path
}

/// The threads of a path, the latest first, without repeats.
pub(crate) fn threads_of(graph: &Graph, path: &CausePath) -> Vec<ThreadId> {
    let mut threads: Vec<ThreadId> = Vec::new();
    for &edge in path.edges.iter().rev() {
        let edge = graph.edge(edge);
        for node in [edge.to, edge.from] {
            let thread = graph.node(node).thread;
            if !threads.contains(&thread) {
                threads.push(thread);
            }
        }
    }
    threads
}
