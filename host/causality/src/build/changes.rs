// SPDX-License-Identifier: Apache-2.0
//! The user's rules about edges.

use hashbrown::HashMap;
use hindsight_analysis::spans;

use crate::graph::{DropReason, Edges, Facts, Nodes};
use crate::rules::{identity, ChangeRule, EdgeRule, Pattern, Rules};
use crate::session::{EventId, Session, ThreadId};

/// Applies the rules that make edges strong or weak, or leave them out.
pub(super) fn apply(
    session: &Session,
    rules: &Rules,
    nodes: &Nodes,
    edges: &mut Edges,
    facts: &mut Facts,
) {
    if rules.changes.is_empty() {
        return;
    }
    let rules: Vec<OfThreads<'_>> = rules
        .changes
        .iter()
        .map(|r| OfThreads::new(session, r))
        .collect();
    let mut keep = vec![true; edges.len()];
    for (edge, keep) in keep.iter_mut().enumerate() {
        let ends = [edges.from[edge], edges.to[edge]].map(|n| n.index());
        // The last one counts.
        let mut fitting = rules.iter().rev();
        let rule = fitting.find(|r| {
            let is_reason = r
                .rule
                .reason
                .is_none_or(|reason| reason == edges.reason[edge]);
            let is_end = |pattern: &Pattern, threads: &[bool], node: usize| {
                threads[nodes.thread[node].0 as usize]
                    && pattern.is_for_work(session, nodes.what[node])
            };
            is_reason
                && is_end(&r.rule.from, &r.from, ends[0])
                && is_end(&r.rule.to, &r.to, ends[1])
        });
        match rule.map(|r| r.rule.class) {
            Some(Some(class)) => edges.class[edge] = class,
            Some(None) => {
                facts.dropped[DropReason::Ignored as usize] += 1;
                *keep = false;
            }
            None => {}
        }
    }
    edges.retain(&keep);
}

/// A rule, and the threads that it is for.
struct OfThreads<'a> {
    rule: &'a ChangeRule,
    from: Vec<bool>,
    to: Vec<bool>,
}

impl<'a> OfThreads<'a> {
    fn new(session: &Session, rule: &'a ChangeRule) -> Self {
        let of = |pattern: &Pattern| {
            let threads = session.thread_ids();
            threads.map(|t| pattern.is_for_thread(session, t)).collect()
        };
        OfThreads {
            rule,
            from: of(&rule.from),
            to: of(&rule.to),
        }
    }
}

/// Calls `join` with the events that a rule joins, among the threads of one trace: each effect with the one cause of the same
/// identity that is pending. Where several are pending, it is not certain which, and there is none.
pub(super) fn joined(
    session: &Session,
    trace: usize,
    rule: &EdgeRule,
    mut join: impl FnMut(EventId, EventId),
) {
    let mut ends: Vec<(u64, bool, u64, EventId)> = Vec::new();
    for thread in session.threads_of(trace) {
        add(session, thread, rule, &mut ends);
    }
    // At one time, the cause comes first.
    ends.sort_unstable();
    // By identity: the last cause, the causes that still have no effect, and whether several were pending at a time.
    let mut pending: HashMap<u64, (EventId, u64, bool)> = HashMap::new();
    for (_, is_effect, identity, event) in ends {
        let before = pending.remove(&identity);
        let now = match (before, is_effect) {
            (None, true) => None,
            (None, false) => Some((event, 1, false)),
            (Some((cause, count, _)), false) => Some((cause, count + 1, true)),
            (Some((cause, 1, several)), true) => {
                if !several {
                    join(cause, event);
                }
                None
            }
            (Some((cause, count, _)), true) => Some((cause, count - 1, true)),
        };
        if let Some(now) = now {
            pending.insert(identity, now);
        }
    }
}

/// By thread, the events that begin nodes because rules join them with their causes, and the ends of the calls that they begin.
pub(super) fn beginnings(session: &Session, rules: &Rules) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new(); session.threads().len()];
    for rule in rules.edges.iter().filter(|rule| rule.split) {
        for trace in 0..session.traces().len() {
            joined(session, trace, rule, |_, to| {
                all[to.thread.0 as usize].push(to.event)
            });
        }
    }
    for (thread, events) in session.thread_ids().zip(&mut all) {
        if events.is_empty() {
            continue;
        }
        events.sort_unstable();
        let calls = spans(session.thread(thread)).spans.into_iter();
        let calls = calls.filter(|span| events.binary_search(&(span.begin as u32)).is_ok());
        let ends: Vec<u32> = calls.filter_map(|span| Some(span.end? as u32)).collect();
        events.extend(ends);
        events.sort_unstable();
    }
    all
}

/// Adds the events of a thread that a rule is for.
fn add(
    session: &Session,
    thread: ThreadId,
    rule: &EdgeRule,
    ends: &mut Vec<(u64, bool, u64, EventId)>,
) {
    let is_from = rule.from.is_for_thread(session, thread);
    let is_to = rule.to.is_for_thread(session, thread);
    if !is_from && !is_to {
        return;
    }
    for (event, index) in session.thread(thread).events.iter().zip(0..) {
        let id = EventId {
            thread,
            event: index,
        };
        let key = if rule.identity { identity(event) } else { 0 };
        // 0 is no identity.
        if rule.identity && key == 0 {
            continue;
        }
        if is_to && rule.to.is_for_event(session, id) {
            ends.push((event.at_ns, true, key, id));
        } else if is_from && rule.from.is_for_event(session, id) {
            ends.push((event.at_ns, false, key, id));
        }
    }
}
