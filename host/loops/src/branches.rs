// SPDX-License-Identifier: Apache-2.0
//! The branches that threads took in traced methods, call by call.

use std::collections::BTreeMap;

use hindsight_decoder::catalogue::NO_DEX_PC;
use hindsight_decoder::{Extension, MethodId, Thread, ThreadEvent, ThreadKey, Trace};

use crate::dex::MethodName;

/// A branch that was taken: the thread went on at `to` after the instruction at `from`. Both are indices in the method's dex
/// code, in units of 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The branch instruction.
    pub from: u32,
    /// The next instruction.
    pub to: u32,
    /// How often.
    pub times: u64,
    /// When that was recorded for the first and for the last time, CLOCK_BOOTTIME, ns: at most 10 ms after it happened,
    /// unless the thread came to no branch meanwhile.
    pub recorded_ns: (u64, u64),
}

/// A call of a method whose branches were traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedCall {
    /// The thread's identity.
    pub key: ThreadKey,
    /// The kernel's thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// The method.
    pub method: MethodName,
    /// Whether its end is recorded: if not, it was running when the trace was taken.
    pub has_ended: bool,
    /// The branches, by their places.
    pub edges: Vec<Edge>,
    /// The number of branches that were not told apart, because the method has too many different ones.
    pub others: u64,
}

/// A call so far.
#[derive(Default)]
struct Counted {
    /// Of the newest event.
    method: Option<MethodId>,
    edges: BTreeMap<(u32, u32), Edge>,
    others: u64,
}

impl Counted {
    fn add(&mut self, event: &ThreadEvent) {
        self.method = Some(event.method);
        let times = event.get("times");
        let (from, to) = (event.get("from"), event.get("to"));
        if from == NO_DEX_PC {
            self.others += times;
            return;
        }
        // Both have 32 bits.
        let place = (from as u32, to as u32);
        let edge = self.edges.entry(place).or_insert(Edge {
            from: place.0,
            to: place.1,
            times: 0,
            recorded_ns: (event.at_ns, event.at_ns),
        });
        edge.times += times;
        edge.recorded_ns.1 = event.at_ns;
    }
}

/// The calls of one rule's methods by one thread.
#[derive(Default)]
struct OfRule {
    /// Those that have not ended, outermost first.
    running: Vec<Counted>,
    /// The last one that has ended, and has branches.
    ended: Option<Counted>,
}

/// For each thread and rule, the calls that were running when the trace was taken, innermost last; if there are none, the
/// last one that has ended. Only events from `from_ns` on count (CLOCK_BOOTTIME). Of a method that calls itself, an inner call that has ended has the branches that the
/// outer ones took in the 10 ms before.
pub fn traced_calls(trace: &Trace, from_ns: u64) -> Vec<TracedCall> {
    trace
        .threads
        .iter()
        .flat_map(|t| of_thread(trace, t, from_ns))
        .collect()
}

fn of_thread(trace: &Trace, thread: &Thread, from_ns: u64) -> Vec<TracedCall> {
    let mut rules: BTreeMap<u64, OfRule> = BTreeMap::new();
    for event in thread.events.iter().filter(|e| e.at_ns >= from_ns) {
        let of_rule = || event.get("name");
        match event.kind {
            Extension::RuleBegin => {
                let running = &mut rules.entry(of_rule()).or_default().running;
                running.push(Counted::default());
            }
            Extension::RuleEnd => {
                let rule = rules.entry(of_rule()).or_default();
                if let Some(ended) = rule.running.pop().filter(|c| c.method.is_some()) {
                    rule.ended = Some(ended);
                }
            }
            Extension::BranchTaken => {
                let running = &mut rules.entry(of_rule()).or_default().running;
                if running.is_empty() {
                    // Its begin is not in the trace any more.
                    running.push(Counted::default());
                }
                if let Some(call) = running.last_mut() {
                    call.add(event);
                }
            }
            _ => {}
        }
    }
    let mut calls = Vec::new();
    for rule in rules.into_values() {
        let running = rule.running.into_iter().filter(|c| c.method.is_some());
        let mut found: Vec<_> = running.map(|c| (c, false)).collect();
        if found.is_empty() {
            found.extend(rule.ended.map(|c| (c, true)));
        }
        let call = |(counted, has_ended)| call(trace, thread, counted, has_ended);
        calls.extend(found.into_iter().filter_map(call));
    }
    calls
}

/// `None` if the method has no name.
fn call(trace: &Trace, thread: &Thread, counted: Counted, has_ended: bool) -> Option<TracedCall> {
    let method = trace.methods.get(counted.method?)?;
    Some(TracedCall {
        key: thread.key,
        tid: thread.tid,
        thread: thread.name.clone(),
        method: MethodName {
            class: method.class.clone(),
            name: method.name.clone(),
            signature: method.signature.clone(),
        },
        has_ended,
        edges: counted.edges.into_values().collect(),
        others: counted.others,
    })
}
