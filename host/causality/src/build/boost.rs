// SPDX-License-Identifier: Apache-2.0
//! Weak edges between nodes that have uncommon methods in common (A-P2, of Argus's implementation).

use hindsight_decoder::ThreadEvent;

use crate::graph::{EdgeClass, Edges, Nodes, Reason};
use crate::session::Session;

/// A method is uncommon if the stacks of fewer nodes have it.
const UNCOMMON: u32 = 100;
/// An edge is boosted if more uncommon methods are in stacks of both of its nodes.
const MORE_THAN: usize = 3;

/// The methods in the stacks of each node.
struct Methods {
    /// By node, its first place in `methods`; one more than nodes.
    first: Vec<usize>,
    /// The session's numbers of their names, each once for a node, in their order.
    methods: Vec<u32>,
    /// By name: the number of nodes.
    nodes: Vec<u32>,
}

/// Boosts the edges from nodes to the next ones of their threads.
pub(super) fn boost(session: &Session, nodes: &Nodes, edges: &mut Edges) {
    if session.traces().all(|trace| trace.stacks.is_empty()) {
        return;
    }
    let found = Methods::of(session, nodes);
    for i in 0..edges.len() {
        if edges.reason[i] != Reason::Next {
            continue;
        }
        let ends = [edges.from[i], edges.to[i]].map(|n| found.of_node(n.index()));
        if found.uncommon_in_both(ends) > MORE_THAN {
            edges.class[i] = EdgeClass::Boosted;
        }
    }
}

impl Methods {
    fn of(session: &Session, nodes: &Nodes) -> Self {
        let mut found = Methods {
            first: vec![0],
            methods: Vec::new(),
            nodes: Vec::new(),
        };
        let mut of_node: Vec<u32> = Vec::new();
        for node in 0..nodes.len() {
            let thread = nodes.thread[node];
            let (trace, events) = (
                session.about(thread).trace(),
                &session.thread(thread).events,
            );
            let own = nodes.first_event[node] as usize..nodes.end_event[node] as usize;
            let own = events.get(own).unwrap_or_default();
            of_node.clear();
            for stack in own.iter().filter_map(ThreadEvent::stack) {
                let frames = session.trace(trace).stacks.frames(stack);
                of_node.extend(frames.map(|f| session.method(trace, f.method).0));
            }
            of_node.sort_unstable();
            of_node.dedup();
            // 0 is no name.
            for &method in of_node.iter().filter(|&&m| m != 0) {
                let index = method as usize;
                if found.nodes.len() <= index {
                    found.nodes.resize(index + 1, 0);
                }
                found.nodes[index] += 1;
                found.methods.push(method);
            }
            found.first.push(found.methods.len());
        }
        found
    }

    fn of_node(&self, node: usize) -> &[u32] {
        &self.methods[self.first[node]..self.first[node + 1]]
    }

    fn uncommon_in_both(&self, [a, b]: [&[u32]; 2]) -> usize {
        let is_uncommon = |method: u32| self.nodes[method as usize] < UNCOMMON;
        let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
        let both = few.iter().filter(|m| many.binary_search(m).is_ok());
        both.filter(|&&m| is_uncommon(m)).count()
    }
}
