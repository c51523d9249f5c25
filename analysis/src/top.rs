// SPDX-License-Identifier: Apache-2.0
//! Methods, by the time they took.

use hindsight_decoder::{MethodId, Methods, Thread};
use serde::Serialize;

/// What all calls of a method took together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MethodTotals {
    /// `class.name`.
    pub method: String,
    /// As in the dex file; empty if unknown.
    pub signature: String,
    /// The types of its parameters, as in Java: `(long, String)`; empty if unknown.
    pub parameters: String,
    /// Calls seen, whole or in part.
    pub calls: u64,
    /// Time in the method itself, ns.
    pub self_ns: u64,
    /// Time in the method and what it called, ns. Where it calls itself, the outermost call counts.
    pub total_ns: u64,
    /// Its longest call, ns.
    pub max_ns: u64,
}

/// Totals of all methods that `threads` called, in no particular order.
pub fn top<'a>(
    methods: &Methods,
    threads: impl IntoIterator<Item = &'a Thread>,
) -> Vec<MethodTotals> {
    #[derive(Clone, Default)]
    struct Sum {
        calls: u64,
        self_ns: u64,
        total_ns: u64,
        max_ns: u64,
        /// Calls of it that are running.
        running: u32,
    }
    // The last one is for calls whose entry is not in the ring.
    let mut sums = vec![Sum::default(); methods.len() + 1];
    let place = |id: MethodId| (id.0 as usize).min(methods.len());
    for thread in threads {
        let slices = &thread.slices;
        let own = slices.self_ns();
        let mut stack: Vec<usize> = Vec::new();
        for (i, slice) in slices.iter().enumerate() {
            for left in stack.drain(stack.len().min(slice.depth as usize)..) {
                sums[left].running -= 1;
            }
            let at = place(slice.method);
            stack.push(at);
            let sum = &mut sums[at];
            sum.calls += 1;
            sum.self_ns += own[i];
            sum.max_ns = sum.max_ns.max(slice.duration_ns());
            if sum.running == 0 {
                sum.total_ns += slice.duration_ns();
            }
            sum.running += 1;
        }
        for left in stack {
            sums[left].running -= 1;
        }
    }
    sums.into_iter()
        .enumerate()
        .filter(|(_, sum)| sum.calls > 0)
        .map(|(i, sum)| {
            let id = MethodId(i as u32);
            MethodTotals {
                method: methods.name(id).into_owned(),
                signature: methods
                    .get(id)
                    .map_or_else(String::new, |m| m.signature.clone()),
                parameters: methods.get(id).map_or_else(String::new, |m| m.parameters()),
                calls: sum.calls,
                self_ns: sum.self_ns,
                total_ns: sum.total_ns,
                max_ns: sum.max_ns,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn recursion_counts_its_outermost_call_once() {
        let mut s = Script::new("p");
        let f = s.method("C.f", "()V");
        let g = s.method("C.g", "()V");
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        // f(10) { f(10) { g(5) } g(5) } and once more f(1).
        r.enter(f)
            .after(10)
            .enter(f)
            .after(10)
            .call(g, 5)
            .exit()
            .call(g, 5)
            .exit();
        r.after(100).call(f, 1);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let mut totals = top(&trace.methods, &trace.threads);
        totals.sort_by(|a, b| a.method.cmp(&b.method));
        let get = |m: &MethodTotals| (m.method.clone(), m.calls, m.self_ns, m.total_ns, m.max_ns);
        assert_eq!(get(&totals[0]), ("C.f".into(), 3, 21, 31, 30));
        assert_eq!(get(&totals[1]), ("C.g".into(), 2, 10, 10, 5));
        assert_eq!(totals.len(), 2);
    }

    #[test]
    fn calls_that_began_before_the_trace_are_counted_together() {
        let mut s = Script::new("p");
        let t = s.thread(1, "main");
        s.at(t, 0).exit().after(10).exit().after(5).exit();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let totals = top(&trace.methods, &trace.threads);
        assert_eq!(totals.len(), 1);
        assert_eq!(totals[0].method, "<entered before the trace>");
        assert_eq!(
            (totals[0].calls, totals[0].self_ns, totals[0].total_ns),
            (3, 15, 15)
        );
    }
}
