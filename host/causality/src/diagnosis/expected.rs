// SPDX-License-Identifier: Apache-2.0
//! Who would have ended a wait that nobody ended: the comparison with a wait that went well (P-4; Argus, algorithm 3), and
//! work that was handed over right before.

use hindsight_decoder::Extension;

use super::certainty::Certainty;
use super::compare::path_of_wake_up;
use super::doing::{doing, is_most};
use super::how::How;
use super::people::named;
use super::request::before;
use super::similar::{similar, SimilarQuestion};
use super::windows::Windows;
use crate::graph::{EdgeClass, Graph, NodeId, Reason, Wait};
use crate::session::{EventId, Session, ThreadId};

/// Most similar nodes whose wake-ups are looked at.
const MOST_LOOKED_AT: usize = 8;

/// A thread that is held to be the one that was waited for.
pub(crate) struct Guess {
    pub(crate) thread: ThreadId,
    pub(crate) how: How,
    pub(crate) certainty: Certainty,
}

/// Who would have ended this wait, if that can be told from other waits or from what the thread did right before. `whole_ns` is
/// the time of which it must be most.
pub(crate) fn expected(
    session: &Session,
    graph: &Graph,
    wait: &Wait,
    when: &Windows,
    whole_ns: u64,
) -> Option<Guess> {
    let node = graph.node_of(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    })?;
    let by_baseline = by_similar(session, graph, node, wait, when, whole_ns);
    by_baseline.or_else(|| by_work(session, graph, wait))
}

/// In similar waits that ended well, threads caused the end one after the other: the first of them, from the wait backwards,
/// that did not just wait for work this time.
fn by_similar(
    session: &Session,
    graph: &Graph,
    node: NodeId,
    wait: &Wait,
    when: &Windows,
    whole_ns: u64,
) -> Option<Guess> {
    let question = SimilarQuestion {
        wait: Some(*wait),
        least_ns: wait.duration_ns() / 2,
        preceding: 0,
        kinds: Vec::new(),
    };
    let found = similar(session, graph, node, &question);
    for similar in found.nodes.iter().take(MOST_LOOKED_AT) {
        let Some(path) = similar.wait.and_then(|w| path_of_wake_up(graph, &w)) else {
            continue;
        };
        let trace = session.about(wait.thread).trace();
        let baseline = session.about(graph.node(similar.node).thread).trace();
        let path: Vec<ThreadId> = path
            .threads
            .iter()
            .filter_map(|&t| here(session, trace, baseline, t))
            .collect();
        let mut through: Vec<ThreadId> = Vec::new();
        for &thread in path.iter().filter(|&&t| t != wait.thread) {
            let did = doing(session, graph, thread, when);
            if is_most(did.idle_ns, whole_ns) || !is_most(did.recorded_ns, whole_ns) {
                through.push(thread);
                continue;
            }
            return Some(Guess {
                thread,
                how: How::EndedBefore,
                certainty: Certainty::Inferred {
                    because: because(session, found.count, &path, &through, thread),
                },
            });
        }
    }
    None
}

/// The thread itself, or, if `baseline` is another run of the program, the one thread of this trace that has its name.
fn here(session: &Session, own: usize, baseline: usize, thread: ThreadId) -> Option<ThreadId> {
    if own == baseline {
        return Some(thread);
    }
    let about = session.about(thread);
    if about.trace() != baseline {
        return None;
    }
    let of_name = |t: &ThreadId| session.about(*t).name == about.name;
    let mut named = session.threads_of(own).filter(of_name);
    match (named.next(), named.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}

fn because(
    session: &Session,
    count: usize,
    path: &[ThreadId],
    idle: &[ThreadId],
    thread: ThreadId,
) -> String {
    let name = |t: ThreadId| format!("\"{}\"", session.thread_name(t));
    let times = match count {
        1 => "a similar wait of the thread ended well".to_owned(),
        n => format!("{n} similar waits of the thread ended well"),
    };
    let by: Vec<String> = path.iter().map(|&t| name(t)).collect();
    let mut text = format!("{times}, the nearest because of {}", by.join(" ← "));
    if !idle.is_empty() {
        let idle: Vec<String> = idle.iter().map(|&t| name(t)).collect();
        text += &format!(
            "; this time {} waited for work, and {} did not",
            idle.join(" and "),
            name(thread)
        );
    }
    text
}

/// The one thread that was given work in the same node before the wait, or was started there, and had not finished it when
/// the wait began.
fn by_work(session: &Session, graph: &Graph, wait: &Wait) -> Option<Guess> {
    let (node, own) = before(graph, wait)?;
    let mut threads: Vec<ThreadId> = Vec::new();
    let mut joined: Vec<u32> = Vec::new();
    for &edge in graph.outgoing(node) {
        let edge = graph.edge(edge);
        let is_sent = edge.class == EdgeClass::Strong && !edge.reason.is_of_thread();
        if !is_sent || !own.contains(&edge.from_event) {
            continue;
        }
        joined.push(edge.from_event);
        let to = graph.node(edge.to);
        let end_ns = match edge.reason {
            // A thread is started for all that it does.
            Reason::ThreadStart => session.thread(to.thread).end_ns,
            _ => to.end_ns,
        };
        if end_ns > wait.begin_ns && to.thread != wait.thread {
            threads.push(to.thread);
        }
    }
    let trace = session.about(wait.thread).trace();
    joined.sort_unstable();
    for event in own.filter(|e| joined.binary_search(e).is_err()) {
        let id = EventId {
            thread: wait.thread,
            event,
        };
        let Some(sent) = session.event(id) else {
            continue;
        };
        let tid = match sent.kind {
            Extension::MessageEnqueued => sent.get("for thread"),
            _ => continue,
        };
        let to = u32::try_from(tid).ok().filter(|&tid| tid != 0);
        threads.extend(to.and_then(|tid| named(session, trace, tid, sent.at_ns).ok()));
    }
    threads.sort_unstable();
    threads.dedup();
    threads.retain(|&t| t != wait.thread);
    let [thread] = threads[..] else {
        return None;
    };
    Some(Guess {
        thread,
        how: How::WasGivenWork,
        certainty: Certainty::Inferred {
            because: format!(
                "the thread handed work to \"{}\" right before, which was not finished then",
                session.thread_name(thread)
            ),
        },
    })
}
