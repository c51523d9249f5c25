// SPDX-License-Identifier: Apache-2.0
//! Ways down a call tree: the calls in which a stretch of time was spent.

use hindsight_decoder::{Calls, Method, Trace};
use serde::Serialize;

use crate::known;

/// A path goes on into a call that takes more than this part of the time.
pub(crate) const DOMINANT: f64 = 0.5;

/// A call in a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainCall {
    /// `class.name`.
    pub method: String,
    /// Source file, or empty.
    pub source_file: String,
    /// Its time within the examined span, calls it made included, ns.
    pub ns: u64,
    /// Time in itself, ns.
    pub self_ns: u64,
    /// Whether it belongs to the program rather than to the platform or the language.
    pub own: bool,
    /// Methods that R8 inlined into it, as far as a mapping says so: their time is part of its self time.
    pub inlined: Vec<String>,
}

/// How much of `span` a call covers, ns.
pub(crate) fn overlap(calls: &Calls, i: usize, span: (u64, u64)) -> u64 {
    calls.end_ns[i]
        .min(span.1)
        .saturating_sub(calls.start_ns[i].max(span.0))
}

/// `head`, then the callee that covers most of `span`, and so on, as long as it covers more than half.
pub(crate) fn heaviest_path(calls: &Calls, head: usize, span: (u64, u64)) -> Vec<usize> {
    let dominant = ((span.1 - span.0) as f64 * DOMINANT) as u64;
    let end = calls.subtree_end(head);
    let mut path = vec![head];
    // Children follow their parent, so one pass finds each call of the path; a later child that covers more
    // than half cannot exist beside one that does.
    for i in head + 1..end {
        let last = path[path.len() - 1];
        if calls.parent[i] as usize == last && overlap(calls, i, span) > dominant {
            path.push(i);
        }
    }
    path
}

/// The longest stretch of a call in which it called nothing.
pub(crate) fn longest_gap(calls: &Calls, i: usize) -> (u64, u64) {
    let (start, end) = (calls.start_ns[i], calls.end_ns[i]);
    let children = (i + 1..calls.subtree_end(i)).filter(|&c| calls.parent[c] as usize == i);
    let mut longest = (start, start);
    let mut from = start;
    let edges = children.map(|c| (calls.start_ns[c], calls.end_ns[c]));
    for (child_start, child_end) in edges.chain([(end, end)]) {
        if child_start - from > longest.1 - longest.0 {
            longest = (from, child_start);
        }
        from = child_end;
    }
    longest
}

/// The self times of the calls of a `path`, each of which called the next, ns.
pub(crate) fn self_times(calls: &Calls, path: &[usize]) -> Vec<u64> {
    let duration = |i: usize| calls.end_ns[i] - calls.start_ns[i];
    let mut own: Vec<u64> = path.iter().map(|&i| duration(i)).collect();
    let Some(&head) = path.first() else {
        return own;
    };
    for i in head + 1..calls.subtree_end(head) {
        let level = (calls.depth[i] - calls.depth[head] - 1) as usize;
        if path.get(level) == Some(&(calls.parent[i] as usize)) {
            own[level] = own[level].saturating_sub(duration(i));
        }
    }
    own
}

/// The calls of `path`, a chain in which each call made the next, with their times within `span`.
pub(crate) fn chain_calls(
    trace: &Trace,
    calls: &Calls,
    path: &[usize],
    span: (u64, u64),
) -> Vec<ChainCall> {
    let self_times = self_times(calls, path);
    let of = |(&i, self_ns)| {
        let method = trace.methods.get(calls.method[i]);
        ChainCall {
            method: trace.methods.name(calls.method[i]).into_owned(),
            source_file: method.map_or_else(String::new, |m| m.source_file.clone()),
            ns: overlap(calls, i, span),
            self_ns,
            own: method.is_some_and(|m| m.is_named() && !known::is_platform(m)),
            inlined: method.map_or_else(Vec::new, |m| m.inlined.clone()),
        }
    };
    path.iter().zip(self_times).map(of).collect()
}

/// The names of the methods of some calls.
pub(crate) fn names(trace: &Trace, calls: &Calls, path: &[usize]) -> Vec<String> {
    path.iter()
        .map(|&i| trace.methods.name(calls.method[i]).into_owned())
        .collect()
}

/// The method that says best what the thread did in these calls: the program's innermost one; without any, the
/// innermost one that does not wait, if possible one with a name. And whether it may be another one, because a deeper
/// call has no name.
pub(crate) fn telling_method(trace: &Trace, calls: &Calls, path: &[usize]) -> (String, bool) {
    let method = |&&i: &&usize| trace.methods.get(calls.method[i]);
    let inner = || path.iter().rev();
    let own = inner().find(|i| method(i).is_some_and(|m| m.is_named() && !known::is_platform(m)));
    let is_named = |i: &&usize| method(i).is_some_and(Method::is_named);
    let waits = |i: &&usize| method(i).is_some_and(known::sleeps_or_waits);
    let found = own.or_else(|| inner().find(|i| is_named(i) && !waits(i)));
    let found = found.or_else(|| inner().find(|i| !waits(i)));
    let Some(&found) = found.or(path.last()) else {
        return (String::new(), false);
    };
    let uncertain = inner().take_while(|&&i| i != found).any(|i| !is_named(&i));
    let name = trace.methods.name(calls.method[found]).into_owned();
    (name, uncertain)
}
