// SPDX-License-Identifier: Apache-2.0
//! Yield loops: which field a thread looks at again and again, and which thread should have written it.

use std::collections::BTreeMap;

use hindsight_decoder::{Extension, ThreadEvent};

use super::certainty::Certainty;
use super::chain::{go_on, Chain, End, Hop};
use super::doing::{is_most, is_work};
use super::expected::expected;
use super::how::How;
use super::stretch::{is_pause, Stretch};
use super::target::Unknown;
use super::windows::Windows;
use crate::graph::{Graph, NodeId, Reason};
use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// Most fields that are kept, those that were read most often.
const MOST_FIELDS: usize = 8;
/// Least number of other loops that a thread has ended.
const LEAST_LOOPS: usize = 2;

/// A field that was read in the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldUse {
    /// Its name: that of the rule that recorded it.
    pub name: StringId,
    /// How often it was read.
    pub reads: u64,
    /// The threads that wrote it at any time, and how often.
    pub writers: Vec<(ThreadId, u64)>,
    /// The last write during the loop by another thread that was read.
    pub written: Option<EventId>,
}

/// The fields that the stretch read, those that were read most often first.
pub fn fields(session: &Session, graph: &Graph, stretch: &Stretch) -> Vec<FieldUse> {
    let trace = session.about(stretch.thread).trace();
    let mut reads: BTreeMap<u64, u64> = BTreeMap::new();
    for (_, event) in stretch.events(session, graph) {
        if event.kind == Extension::FieldRead {
            *reads.entry(event.get("name")).or_default() += 1;
        }
    }
    if reads.is_empty() {
        return Vec::new();
    }
    let mut writers: BTreeMap<u64, BTreeMap<ThreadId, u64>> = BTreeMap::new();
    for thread in session.threads_of(trace) {
        for event in &session.thread(thread).events {
            if event.kind == Extension::FieldWritten && reads.contains_key(&event.get("name")) {
                let of_field = writers.entry(event.get("name")).or_default();
                *of_field.entry(thread).or_default() += 1;
            }
        }
    }
    let mut found: Vec<FieldUse> = Vec::new();
    for (&field, &reads) in &reads {
        let of_field = writers.remove(&field).unwrap_or_default();
        found.push(FieldUse {
            name: session.mark(trace, field),
            reads,
            writers: of_field.into_iter().collect(),
            written: written(session, graph, stretch, field),
        });
    }
    found.sort_by_key(|f| (std::cmp::Reverse(f.reads), f.name));
    found.truncate(MOST_FIELDS);
    found
}

/// The last write by another thread in the loop, or right after it, that the thread read.
fn written(session: &Session, graph: &Graph, stretch: &Stretch, field: u64) -> Option<EventId> {
    let mut last: Option<(u64, EventId)> = None;
    for node in (stretch.first.0..=stretch.last.0).map(NodeId) {
        for &edge in graph.incoming(node) {
            let edge = graph.edge(edge);
            let from = EventId {
                thread: graph.node(edge.from).thread,
                event: edge.from_event,
            };
            let is_in_loop = edge.reason == Reason::Field && edge.from_ns >= stretch.begin_ns;
            if !is_in_loop || from.thread == stretch.thread {
                continue;
            }
            let is_field = session.event(from).is_some_and(|e| e.get("name") == field);
            if is_field && last.is_none_or(|(at, _)| edge.from_ns >= at) {
                last = Some((edge.from_ns, from));
            }
        }
    }
    last.map(|(_, event)| event)
}

/// The thread that ended all other such loops, two at least, by writing the field: the loop's last read of it is of that write.
fn ended_by(
    session: &Session,
    graph: &Graph,
    stretch: &Stretch,
    field: StringId,
) -> Option<ThreadId> {
    let stuck = graph.node(stretch.first);
    let trace = session.about(stretch.thread).trace();
    let events = &session.thread(stretch.thread).events;
    let (mut by, mut loops) = (None, 0);
    for id in graph.nodes_of(stretch.thread) {
        let node = graph.node(id);
        let is_loop = (node.kind, node.what) == (stuck.kind, stuck.what) && id != stretch.first;
        if !is_loop || !is_work(node.kind) || graph.is_inside(id) {
            continue;
        }
        let is_read = |e: &ThreadEvent| {
            e.kind == Extension::FieldRead && session.mark(trace, e.get("name")) == field
        };
        let own = events.get(node.events()).unwrap_or_default();
        let Some(last) = own.iter().rposition(is_read) else {
            continue;
        };
        let last = node.first_event + last as u32;
        let edges = graph.incoming(id).iter().map(|&e| graph.edge(e));
        let mut of_read = edges.filter(|e| e.reason == Reason::Field && e.to_event == last);
        let writer = graph.node(of_read.next()?.from).thread;
        if by.is_some_and(|by| by != writer) {
            return None;
        }
        by = Some(writer);
        loops += 1;
    }
    by.filter(|_| loops >= LEAST_LOOPS)
}

/// Whom a yield loop waited for: the thread that wrote the field late; or the only one that writes it at all; or, if no field is
/// recorded, who would have ended its pauses.
pub fn follow_loop(
    session: &Session,
    graph: &Graph,
    stretch: &Stretch,
    fields: &[FieldUse],
) -> Chain {
    let whole = stretch.window();
    let hop = |to, how, certainty, when: &Windows, at| Hop {
        from: stretch.thread,
        wait: None,
        count: 1,
        ns: when.total_ns(),
        to,
        how,
        certainty,
        when: when.clone(),
        at,
    };
    for field in fields {
        let Some(at) = field.written else { continue };
        let written_ns = session.event(at).map_or(0, |e| e.at_ns);
        let when = whole.cut((stretch.begin_ns, written_ns));
        if is_most(when.total_ns(), whole.total_ns()) {
            let first = hop(
                at.thread,
                How::WroteField,
                Certainty::Recorded,
                &when,
                Some(at),
            );
            return go_on(session, graph, vec![first], at.thread, &when);
        }
    }
    for field in fields {
        let others = field.writers.iter().filter(|(t, _)| *t != stretch.thread);
        let others: Vec<_> = others.collect();
        if let [(thread, times)] = others[..] {
            let because = format!(
                "of all other threads, only \"{}\" writes {} in this recording ({})",
                session.thread_name(*thread),
                session.string(field.name),
                match times {
                    1 => "once".to_owned(),
                    n => format!("{n} times"),
                }
            );
            let certainty = match ended_by(session, graph, stretch, field.name) {
                Some(by) if by == *thread => Certainty::Recorded,
                _ => Certainty::Inferred { because },
            };
            let first = hop(*thread, How::WroteField, certainty, &whole, None);
            return go_on(session, graph, vec![first], *thread, &whole);
        }
    }
    let last = stretch.waits(graph).iter().rfind(|w| is_pause(w));
    let guess = last.and_then(|w| expected(session, graph, w, &whole, whole.total_ns()));
    match guess {
        Some(guess) => {
            let first = hop(guess.thread, guess.how, guess.certainty, &whole, None);
            go_on(session, graph, vec![first], guess.thread, &whole)
        }
        None => Chain {
            hops: Vec::new(),
            end: End::Unknown {
                thread: stretch.thread,
                wait: last.copied(),
                why: Unknown::NobodyEndedIt,
                tid: 0,
            },
        },
    }
}
