// SPDX-License-Identifier: Apache-2.0
//! The edges at each node.

use super::kinds::{EdgeId, NodeId};

/// The edges at each node, in one array.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjacency {
    /// By node, its first place in `edges`; one more than nodes.
    first: Vec<u32>,
    edges: Vec<EdgeId>,
}

impl Adjacency {
    /// Of the nodes at one end of each edge.
    pub(crate) fn of_ends(ends: &[NodeId], nodes: usize) -> Self {
        let mut first = vec![0_u32; nodes + 1];
        for node in ends {
            first[node.index() + 1] += 1;
        }
        let mut sum = 0;
        for count in &mut first {
            sum += *count;
            *count = sum;
        }
        let mut edges = vec![EdgeId(0); ends.len()];
        let mut next = first.clone();
        for (node, edge) in ends.iter().zip(0..) {
            let place = &mut next[node.index()];
            edges[*place as usize] = EdgeId(edge);
            *place += 1;
        }
        Adjacency { first, edges }
    }

    pub(crate) fn of(&self, node: NodeId) -> &[EdgeId] {
        let at = |i: usize| self.first.get(i).map(|&f| f as usize);
        match (at(node.index()), at(node.index() + 1)) {
            (Some(start), Some(end)) => &self.edges[start..end],
            _ => &[],
        }
    }
}
