// SPDX-License-Identifier: Apache-2.0
//! The comparison of a stuck node with one that went well (P-4; Argus, algorithm 3).

use super::doing::{doing, is_work, nodes_in, Waited};
use super::slice::{path_from, threads_of, CausePath, MOST_STEPS};
use super::target::target;
use super::windows::Windows;
use crate::graph::{Edge, EdgeId, Graph, NodeId, NodeKind, Reason, Wait};
use crate::session::{EventId, Session, ThreadId};

/// A wait this long, ns, stands out (Argus's implementation).
pub const LONG_WAIT_NS: u64 = 800_000_000;
/// A run this long, ns, stands out (Argus's implementation).
pub const LONG_RUN_NS: u64 = 1_500_000_000;
/// The last nodes of a thread that are searched (Argus's implementation).
const MOST_SEARCHED: usize = 64;
/// The first nodes of a thread in the stuck node's time that are searched for what they sent.
const MOST_SENDERS: usize = 4_096;

/// How a wait that went well was ended.
pub(crate) struct WakeUp {
    /// The edges from the earliest cause to the end of the wait.
    pub(crate) path: CausePath,
    /// The threads of the path, that of the waker first.
    pub(crate) threads: Vec<ThreadId>,
}

/// What led to the end of a wait since it began: its waker, what that one was waiting for or was given to do, and so on.
pub(crate) fn path_of_wake_up(graph: &Graph, wait: &Wait) -> Option<WakeUp> {
    let end = Some(wait.end_event).filter(|&e| e != Wait::NOT_RECORDED)?;
    let node = graph.node_of(EventId {
        thread: wait.thread,
        event: end,
    })?;
    let edges = graph.incoming(node).iter().map(|&id| (id, graph.edge(id)));
    let mut ends = edges.filter(|(_, e)| {
        let is_end = matches!(e.reason, Reason::Wake | Reason::Reply);
        is_end && e.to_event == end
    });
    let (id, edge) = ends.next()?;
    // What was before the wait did not happen because of it.
    let since = |from_ns: u64| from_ns >= wait.begin_ns;
    let mut path = path_from(graph, edge.from, edge.from_ns, true, &|e, _| since(e.to_ns));
    path.is_cut |= path.edges.len() >= MOST_STEPS;
    path.edges.push(id);
    let mut threads = threads_of(graph, &path);
    threads.retain(|&t| t != wait.thread);
    Some(WakeUp { path, threads })
}

/// What a thread of the baseline's path did otherwise this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The thread.
    pub thread: ThreadId,
    /// The node.
    pub node: NodeId,
    /// The long wait in it; without one, the node itself was long.
    pub wait: Option<Wait>,
    /// The length of the wait, or of the node, ns.
    pub ns: u64,
}

/// The differences, in the order of the baseline's path from its end; and input events of the stuck thread's process in that
/// time.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// Candidates for the next question.
    pub found: Vec<Difference>,
    /// The user's input on the stuck thread between the two.
    pub input: Vec<NodeId>,
    /// The threads of the baseline's path.
    pub threads: Vec<ThreadId>,
    /// The earliest edge of the baseline's path from one thread to another that has no like in the time of the stuck node: its
    /// first thread should have done that.
    pub missing: Option<EdgeId>,
}

/// Compares a stuck node with a similar one that went well: for each thread of the path that led to the latter's end, the long
/// waits and runs between then and now.
pub fn compare(
    session: &Session,
    graph: &Graph,
    stuck: NodeId,
    baseline: NodeId,
    wait: Option<&Wait>,
) -> Differences {
    let (spin, normal) = (graph.node(stuck), graph.node(baseline));
    let wake_up = wait.and_then(|w| path_of_wake_up(graph, w));
    let path = match &wake_up {
        Some(wake_up) => wake_up.path.clone(),
        None => path_from(graph, baseline, normal.end_ns, true, &|_, _| true),
    };
    let threads = match wake_up {
        Some(wake_up) => wake_up.threads,
        None => threads_of(graph, &path),
    };
    let half = spin.duration_ns() / 2;
    let mut found = Vec::new();
    for &thread in threads.iter().filter(|&&t| t != spin.thread) {
        let since_ns = last_in_path(graph, &path, thread);
        // A baseline after the stuck node: only the stuck node's own time counts.
        let from_ns = match since_ns < spin.end_ns {
            true => since_ns,
            false => spin.begin_ns,
        };
        let different = of_thread(session, graph, thread, (from_ns, spin.end_ns), half);
        found.extend(different.filter(|d| !waits_for(session, graph, d, spin.thread)));
    }
    let is_one_run = session.about(spin.thread).trace() == session.about(normal.thread).trace();
    let missing = wait
        .filter(|_| is_one_run)
        .and_then(|_| missing(graph, &path, (spin.begin_ns, spin.end_ns)));
    let between = (normal.end_ns.min(spin.end_ns), spin.end_ns);
    let input = nodes_in(graph, spin.thread, between);
    let input = input.filter(|&n| graph.node(n).kind == NodeKind::Input);
    Differences {
        found,
        input: input.take(MOST_SEARCHED).collect(),
        threads,
        missing,
    }
}

/// The earliest edge of a path from one thread to another that has no like in `span`: of the same reason, between the same
/// threads.
fn missing(graph: &Graph, path: &CausePath, span: (u64, u64)) -> Option<EdgeId> {
    let threads = |e: &Edge| (graph.node(e.from).thread, graph.node(e.to).thread);
    let has_like = |edge: &Edge| {
        let nodes = nodes_in(graph, threads(edge).0, span).take(MOST_SENDERS);
        let mut sent = nodes
            .flat_map(|n| graph.outgoing(n))
            .map(|&e| graph.edge(e));
        sent.any(|e| {
            let is_then = span.0 <= e.from_ns && e.from_ns <= span.1;
            is_then && e.reason == edge.reason && threads(&e) == threads(edge)
        })
    };
    let mut edges = path.edges.iter().map(|&id| (id, graph.edge(id)));
    let lacks = |(_, edge): &(EdgeId, Edge)| {
        let (from, to) = threads(edge);
        from != to && edge.reason != Reason::AwaitedBy && !has_like(edge)
    };
    edges.find(lacks).map(|(id, _)| id)
}

/// Whether it waited for this thread: then it is held up by it, and not the other way round.
fn waits_for(session: &Session, graph: &Graph, different: &Difference, stuck: ThreadId) -> bool {
    different.wait.is_some_and(|wait| {
        let when = Windows::one(wait.begin_ns, wait.end_ns);
        target(session, graph, &Waited { wait, when }).who == Ok(stuck)
    })
}

/// When the path was on this thread for the last time.
fn last_in_path(graph: &Graph, path: &CausePath, thread: ThreadId) -> u64 {
    let edges = path.edges.iter().map(|&e| graph.edge(e));
    let ends = edges.flat_map(|e| {
        let of = |node, ns| (graph.node(node).thread == thread).then_some(ns);
        [of(e.from, e.from_ns), of(e.to, e.to_ns)]
    });
    ends.flatten().max().unwrap_or(0)
}

/// The last node of the thread in that time that waited or ran long.
fn of_thread(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
    span: (u64, u64),
    half: u64,
) -> Option<Difference> {
    let nodes: Vec<NodeId> = nodes_in(graph, thread, span).collect();
    for &id in nodes.iter().rev().take(MOST_SEARCHED) {
        let node = graph.node(id);
        if node.kind == NodeKind::Idle {
            continue;
        }
        let within = Windows::one(node.begin_ns.max(span.0), node.end_ns.min(span.1));
        let did = doing(session, graph, thread, &within);
        let longest = did.waits.iter().max_by_key(|w| w.when.total_ns());
        let long = longest.filter(|w| w.when.total_ns() >= LONG_WAIT_NS.min(half.max(1)));
        if let Some(long) = long {
            return Some(Difference {
                thread,
                node: id,
                wait: Some(long.wait),
                ns: long.when.total_ns(),
            });
        }
        let ran = did.ran_ns() + did.slept_ns;
        if ran >= LONG_RUN_NS.min(half.max(1)) && (is_work(node.kind) || node.kind == NodeKind::Run)
        {
            return Some(Difference {
                thread,
                node: id,
                wait: None,
                ns: ran,
            });
        }
    }
    None
}
