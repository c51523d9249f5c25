// SPDX-License-Identifier: Apache-2.0
//! A tree of what a call made, added up by method, without the branches that took little time.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Calls, MethodId, Trace};
use serde::Serialize;

/// A branch is listed if it took at least this part of the chain's time.
const WORTH_LISTING: f64 = 0.05;
/// Most branches listed of one caller.
const MAX_CALLEES: usize = 5;
/// Most levels of the tree.
const MAX_LEVELS: usize = 6;

/// Calls of one method by another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Callee {
    /// `class.name`.
    pub method: String,
    /// How often.
    pub calls: u64,
    /// How long, together, ns.
    pub ns: u64,
    /// The calls it made in turn that took at least 5 % of the chain's time, longest first.
    pub callees: Vec<Callee>,
    /// Its other calls.
    pub others: Others,
}

/// Calls that each took too little of the time to be listed one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Others {
    /// Of how many methods.
    pub methods: u64,
    /// How many.
    pub calls: u64,
    /// How long, together, ns.
    pub ns: u64,
}

/// The calls of one method on one way down.
#[derive(Default)]
struct Node {
    method: Option<MethodId>,
    calls: u64,
    ns: u64,
    callees: Vec<usize>,
}

/// The calls that `caller` made, added up by method; `whole_ns` is the time of the chain.
pub(crate) fn callees(
    trace: &Trace,
    calls: &Calls,
    caller: usize,
    whole_ns: u64,
) -> (Vec<Callee>, Others) {
    let mut nodes = vec![Node::default()];
    let mut places: HashMap<(usize, MethodId), usize> = HashMap::new();
    // The nodes on the path from the root to the caller of call `i`.
    let mut callers = vec![0];
    let base = calls.depth[caller] as usize + 1;
    for i in caller + 1..calls.subtree_end(caller) {
        let level = calls.depth[i] as usize - base;
        if level >= MAX_LEVELS {
            continue;
        }
        callers.truncate(level + 1);
        let Some(&caller) = callers.get(level) else {
            continue;
        };
        let method = calls.method[i];
        let node = *places.entry((caller, method)).or_insert_with(|| {
            nodes.push(Node {
                method: Some(method),
                ..Node::default()
            });
            let new = nodes.len() - 1;
            nodes[caller].callees.push(new);
            new
        });
        nodes[node].calls += 1;
        nodes[node].ns += calls.end_ns[i] - calls.start_ns[i];
        callers.push(node);
    }
    largest(trace, &nodes, 0, whole_ns)
}

/// The callees of a node that are worth listing, and the sum of the others.
fn largest(trace: &Trace, nodes: &[Node], node: usize, whole_ns: u64) -> (Vec<Callee>, Others) {
    let least = (whole_ns as f64 * WORTH_LISTING) as u64;
    let mut order: Vec<&usize> = nodes[node].callees.iter().collect();
    order.sort_by_key(|&&n| Reverse(nodes[n].ns));
    let worth = order.iter().take_while(|&&&n| nodes[n].ns >= least).count();
    let (worth, others) = order.split_at(worth.min(MAX_CALLEES));
    let worth = worth
        .iter()
        .map(|&&n| {
            let (callees, others) = largest(trace, nodes, n, whole_ns);
            let method = nodes[n].method.unwrap_or(MethodId::NOT_RECORDED);
            Callee {
                method: trace.methods.name(method).into_owned(),
                calls: nodes[n].calls,
                ns: nodes[n].ns,
                callees,
                others,
            }
        })
        .collect();
    let others = Others {
        methods: others.len() as u64,
        calls: others.iter().map(|&&n| nodes[n].calls).sum(),
        ns: others.iter().map(|&&n| nodes[n].ns).sum(),
    };
    (worth, others)
}
