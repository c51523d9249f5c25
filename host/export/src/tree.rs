// SPDX-License-Identifier: Apache-2.0
//! The call tree of a thread: one node per call chain.

use hashbrown::HashMap;
use hindsight_decoder::{Call, Calls, MethodId, NO_PARENT};

/// [`Node::caller`] of an outermost method.
pub(crate) const NO_CALLER: u32 = u32::MAX;

/// Levels of calls in formats that write each call chain as a whole. A stack that overflows may have 100,000 levels, and
/// as many chains of up to 100,000 names.
pub const MAX_LEVELS: usize = 1 << 11;

/// A call chain: a method and its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Index of the caller's node, or [`NO_CALLER`]; less than the node's own index.
    pub(crate) caller: u32,
    pub(crate) method: MethodId,
    /// Number of calls.
    pub(crate) calls: u64,
    /// Self time, ns.
    pub(crate) self_ns: u64,
}

/// Call chains, callers before callees. Several threads may be added to one tree: equal chains are one node.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
    by_caller: HashMap<(u32, MethodId), u32>,
}

impl Tree {
    /// The node of `method` as called by `caller`.
    pub(crate) fn node(&mut self, caller: u32, method: MethodId) -> u32 {
        let nodes = &mut self.nodes;
        *self.by_caller.entry((caller, method)).or_insert_with(|| {
            nodes.push(Node {
                caller,
                method,
                calls: 0,
                self_ns: 0,
            });
            (nodes.len() - 1) as u32
        })
    }

    /// Adds the calls of a thread. Calls deeper than [`MAX_LEVELS`] are left out; their time counts as self time of
    /// the deepest caller that is not. `frame` is what a call is shown as, usually its method. Returns the number of
    /// calls left out.
    pub(crate) fn add(&mut self, calls: &Calls, frame: impl Fn(&Call) -> MethodId) -> u64 {
        // The node of each running call.
        let mut running: Vec<u32> = Vec::new();
        let mut left_out = 0;
        for call in calls.iter() {
            if call.depth as usize >= MAX_LEVELS {
                left_out += 1;
                continue;
            }
            running.truncate(call.depth as usize);
            let caller = match call.parent {
                NO_PARENT => NO_CALLER,
                _ => running.last().copied().unwrap_or(NO_CALLER),
            };
            let node = self.node(caller, frame(&call));
            running.push(node);
            let duration = call.duration_ns();
            let this = &mut self.nodes[node as usize];
            this.calls += 1;
            this.self_ns = this.self_ns.wrapping_add(duration);
            if let Some(caller) = self.nodes.get_mut(caller as usize) {
                // May be negative until the caller's own duration is added; the final sum is right.
                caller.self_ns = caller.self_ns.wrapping_sub(duration);
            }
        }
        left_out
    }

    /// The methods from `node` up to the outermost caller.
    pub(crate) fn stack(&self, node: u32) -> impl Iterator<Item = MethodId> + '_ {
        let mut next = Some(node);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next? as usize)?;
            next = Some(node.caller).filter(|&caller| caller != NO_CALLER);
            Some(node.method)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn equal_chains_are_one_node_with_the_sum_of_their_times() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        for _ in 0..3 {
            r.enter(f).after(5).call(g, 7).after(1).call(f, 2).exit();
        }
        r.call(g, 100);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut tree = Tree::default();
        tree.add(&trace.threads[0].calls, |call| call.method);
        let mut all: Vec<(String, u64, u64)> = (0..tree.nodes.len() as u32)
            .map(|n| {
                let names: Vec<_> = tree.stack(n).map(|m| trace.methods.name(m)).collect();
                let node = tree.nodes[n as usize];
                (names.join("<"), node.calls, node.self_ns)
            })
            .collect();
        all.sort();
        let expected = [
            ("a.C.f", 3, 18),
            ("a.C.f<a.C.f", 3, 6),
            ("a.C.g", 1, 100),
            ("a.C.g<a.C.f", 3, 21),
        ];
        assert_eq!(all, expected.map(|(n, c, t)| (n.to_owned(), c, t)));
    }

    #[test]
    fn what_is_too_deep_is_the_time_of_its_caller() {
        const DEEPER: usize = 50_000;
        let mut s = Script::new("p");
        let f = s.method("a.C.f", "()V");
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        for _ in 0..MAX_LEVELS + DEEPER {
            r.enter(f).after(1);
        }
        r.unwind((MAX_LEVELS + DEEPER) as u64);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut tree = Tree::default();
        assert_eq!(
            tree.add(&trace.threads[0].calls, |call| call.method),
            DEEPER as u64
        );
        let times: Vec<u64> = tree.nodes.iter().map(|node| node.self_ns).collect();
        let mut expected = vec![1; MAX_LEVELS];
        expected[MAX_LEVELS - 1] += DEEPER as u64;
        assert_eq!(times, expected);
    }
}
