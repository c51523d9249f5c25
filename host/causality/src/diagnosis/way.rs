// SPDX-License-Identifier: Apache-2.0
//! A shortest way of edges from one node to another.

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::graph::{EdgeId, Graph, NodeId};

/// Most steps that are looked at for a way.
pub const MOST_LOOKED_AT: usize = 1_000_000;

/// What was found between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// The edges, from the cause to the effect; none if both are one node.
    Found(Vec<EdgeId>),
    /// There is none.
    None,
    /// None of the first [`MOST_LOOKED_AT`] steps leads there.
    TooLong,
}

/// A node on a way, and until when what led to it counts.
struct Visit {
    node: NodeId,
    until_ns: u64,
    /// The edge to the visit that it was reached from, and that visit; `None` for the effect itself.
    next: Option<(EdgeId, usize)>,
}

/// A way with the fewest edges from `from` to `to`. It does not lead back in time: an edge into a node only counts for what the
/// node did after it.
pub fn way(graph: &Graph, from: NodeId, to: NodeId) -> Way {
    // Backwards. A node may be reached again by a longer way that leaves it later, over which earlier edges into it count, too.
    let mut visits = vec![Visit {
        node: to,
        until_ns: graph.node(to).end_ns,
        next: None,
    }];
    let mut latest: HashMap<NodeId, u64> = HashMap::from([(to, graph.node(to).end_ns)]);
    let mut open = VecDeque::from([0]);
    if from == to {
        return Way::Found(Vec::new());
    }
    while let Some(at) = open.pop_front() {
        let (node, until_ns) = (visits[at].node, visits[at].until_ns);
        for &id in graph.incoming(node) {
            let edge = graph.edge(id);
            let is_known = latest.get(&edge.from).is_some_and(|&ns| ns >= edge.from_ns);
            if edge.to_ns > until_ns || is_known {
                continue;
            }
            if visits.len() >= MOST_LOOKED_AT {
                return Way::TooLong;
            }
            latest.insert(edge.from, edge.from_ns);
            visits.push(Visit {
                node: edge.from,
                until_ns: edge.from_ns,
                next: Some((id, at)),
            });
            if edge.from == from {
                return Way::Found(edges(&visits));
            }
            open.push_back(visits.len() - 1);
        }
    }
    Way::None
}

/// The edges from the last visit on.
fn edges(visits: &[Visit]) -> Vec<EdgeId> {
    let mut found = Vec::new();
    let mut next = visits.last().and_then(|v| v.next);
    while let Some((edge, visit)) = next {
        found.push(edge);
        next = visits[visit].next;
    }
    found
}
