// SPDX-License-Identifier: Apache-2.0
//! Whom a thread waited for.

use hindsight_decoder::Extension;
use serde::Serialize;

use super::doing::Waited;
use super::how::How;
use super::locks::{holder, Holder};
use super::people::{named, Absent};
use super::windows::Windows;
use crate::graph::{Edge, Graph, NodeId, Reason, Wait, WaitKind, WaitResult};
use crate::scheduled::{servers_of, waker_of};
use crate::session::{EventId, Session, ThreadId};

/// Why it is not known whom a thread waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Unknown {
    /// The event that names the owner of the lock is missing.
    OwnerNotRecorded,
    /// The lock was released in the wait, and no thread is known to have held it for most of the time.
    LockChangedHands,
    /// A thread is named, and is not among the recorded ones.
    ThreadNotRecorded {
        /// Its id.
        tid: u32,
        /// Its process, as far as it is known.
        process: Option<u32>,
        /// Why.
        absent: Absent,
    },
    /// Nothing ended the wait: it went on, or its time was over.
    NobodyEndedIt,
    /// The wait ended, and no event tells by whom.
    WakerNotRecorded,
    /// The process that serves the transaction is not among the traces, or its event has no identity.
    ServerNotRecorded {
        /// Code of the transaction.
        code: u64,
    },
    /// It waited for a garbage collection.
    Collection,
}

/// Whom a wait was for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) who: Result<ThreadId, Unknown>,
    pub(crate) how: How,
    /// In which part of the wait.
    pub(crate) when: Windows,
    /// The event of the other thread that ended the wait, or began to serve it.
    pub(crate) at: Option<EventId>,
    /// The id of the thread, as it is recorded; 0 if none is.
    pub(crate) tid: u32,
}

impl Target {
    fn unknown(why: Unknown, how: How, when: Windows) -> Self {
        let tid = match why {
            Unknown::ThreadNotRecorded { tid, .. } => tid,
            _ => 0,
        };
        Target {
            who: Err(why),
            how,
            when,
            at: None,
            tid,
        }
    }
}

/// Whom a thread waited for, as far as events record it.
pub(crate) fn target(session: &Session, graph: &Graph, waited: &Waited) -> Target {
    let (wait, when) = (&waited.wait, waited.when.clone());
    match wait.kind {
        WaitKind::Lock => lock(session, graph, wait, when),
        WaitKind::Transaction => transaction(session, graph, wait, when),
        WaitKind::Gc => Target::unknown(Unknown::Collection, How::EndedWait, when),
        _ => {
            let waker = waker(session, graph, wait);
            waker
                .unwrap_or_else(|| {
                    let is_ended =
                        matches!(wait.result, WaitResult::Signalled | WaitResult::Interrupted);
                    let task = task_of_future(session, graph, wait);
                    let task = task.or_else(|| by_kernel(session, wait).filter(|_| is_ended));
                    task.unwrap_or_else(|| {
                        let why = match is_ended {
                            true => Unknown::WakerNotRecorded,
                            false => Unknown::NobodyEndedIt,
                        };
                        Target::unknown(why, How::EndedWait, when.clone())
                    })
                })
                .with(when)
        }
    }
}

impl Target {
    fn with(mut self, when: Windows) -> Self {
        self.when = match self.when.spans() {
            [] => when,
            [span, ..] => when.cut(*span),
        };
        self
    }
}

fn lock(session: &Session, graph: &Graph, wait: &Wait, when: Windows) -> Target {
    let hold = match holder(session, graph, wait, &when) {
        Holder::One(hold) => hold,
        Holder::NotRecorded => {
            return Target::unknown(Unknown::OwnerNotRecorded, How::HeldLock, when)
        }
        Holder::ChangedHands => {
            return Target::unknown(Unknown::LockChangedHands, How::HeldLock, when)
        }
    };
    let process = session.trace_of(wait.thread).process.pid;
    Target {
        who: hold.thread.map_err(|absent| Unknown::ThreadNotRecorded {
            tid: hold.tid,
            process: Some(process),
            absent,
        }),
        how: match hold.is_later {
            true => How::GotLock,
            false => How::HeldLock,
        },
        when: when.cut(hold.span),
        at: hold.released,
        tid: hold.tid,
    }
}

/// The edges to the event that ends a wait, of these reasons.
fn ended_by(graph: &Graph, wait: &Wait, reason: Reason) -> Option<Edge> {
    if wait.end_event == Wait::NOT_RECORDED {
        return None;
    }
    let node = graph.node_of(EventId {
        thread: wait.thread,
        event: wait.end_event,
    })?;
    let edges = graph.incoming(node).iter().map(|&e| graph.edge(e));
    let mut of_wait = edges.filter(|e| e.reason == reason && e.to_event == wait.end_event);
    of_wait.next()
}

fn event_of(graph: &Graph, node: NodeId, event: u32) -> EventId {
    EventId {
        thread: graph.node(node).thread,
        event,
    }
}

/// The thread that ended a wait, by an edge of the graph, or else by what the waiting thread recorded of it.
fn waker(session: &Session, graph: &Graph, wait: &Wait) -> Option<Target> {
    if let Some(edge) = ended_by(graph, wait, Reason::Wake) {
        let at = event_of(graph, edge.from, edge.from_event);
        return Some(Target {
            who: Ok(at.thread),
            how: How::EndedWait,
            when: Windows::one(wait.begin_ns, edge.from_ns.max(wait.begin_ns + 1)),
            at: Some(at),
            tid: session.about(at.thread).tid,
        });
    }
    let end = Some(wait.end_event).filter(|&e| e != Wait::NOT_RECORDED)?;
    let before = session.event(EventId {
        thread: wait.thread,
        event: end.checked_sub(1)?,
    })?;
    let tid = u32::try_from(before.get("by")).ok()?;
    if before.kind != Extension::WokenBy || tid == 0 {
        return None;
    }
    let trace = session.about(wait.thread).trace();
    let who = named(session, trace, tid, before.at_ns);
    Some(Target {
        who: who.map_err(|absent| Unknown::ThreadNotRecorded {
            tid,
            process: Some(session.trace(trace).process.pid),
            absent,
        }),
        how: How::EndedWait,
        when: Windows::one(wait.begin_ns, wait.end_ns),
        at: None,
        tid,
    })
}

/// The thread that ended a wait, as the kernel recorded it.
fn by_kernel(session: &Session, wait: &Wait) -> Option<Target> {
    let (thread, at_ns) = waker_of(session, wait.thread, wait.begin_ns, wait.end_ns)?;
    Some(Target {
        who: Ok(thread),
        how: How::EndedWait,
        when: Windows::one(wait.begin_ns, at_ns),
        at: None,
        tid: session.about(thread).tid,
    })
}

/// The bits of a task's identity that are the identity hash of its object.
const HASH: u64 = (1 << 28) - 1;
/// Most events of a thread that are searched for the task, backwards from the wait's end.
const MOST_SEARCHED: usize = 100_000;

/// The thread that runs the task for whose result the wait is: a `FutureTask` parks with itself as the blocker, and the task's
/// identity has the same identity hash.
fn task_of_future(session: &Session, graph: &Graph, wait: &Wait) -> Option<Target> {
    let begin = session.event(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    })?;
    let object = begin.get("object");
    if wait.kind != WaitKind::Park || object == 0 || object > HASH {
        return None;
    }
    let trace = session.about(wait.thread).trace();
    let mut found = None;
    for thread in session.threads_of(trace).filter(|&t| t != wait.thread) {
        let events = &session.thread(thread).events;
        let end = events.partition_point(|e| e.at_ns < wait.end_ns);
        let earlier = events[..end].iter().zip(0..end as u32).rev();
        let earlier = earlier.take(MOST_SEARCHED);
        for (event, index) in earlier {
            let is_task = event.kind == Extension::TaskBegin && event.get("task") & HASH == object;
            if !is_task {
                continue;
            }
            let at = EventId {
                thread,
                event: index,
            };
            let is_over = graph
                .node_of(at)
                .is_none_or(|n| graph.node(n).end_ns < wait.begin_ns);
            if is_over {
                break;
            }
            // Two tasks with one hash: it is not known which one is meant.
            if found.replace(at).is_some() {
                return None;
            }
            break;
        }
    }
    let at = found?;
    Some(Target {
        who: Ok(at.thread),
        how: How::RanTask,
        when: Windows::default(),
        at: Some(at),
        tid: session.about(at.thread).tid,
    })
}

fn transaction(session: &Session, graph: &Graph, wait: &Wait, when: Windows) -> Target {
    let begin = EventId {
        thread: wait.thread,
        event: wait.begin_event,
    };
    let sent = graph.node_of(begin).and_then(|node| {
        let edges = graph.outgoing(node).iter().map(|&e| graph.edge(e));
        let mut of_event =
            edges.filter(|e| e.reason == Reason::Transaction && e.from_event == wait.begin_event);
        of_event.next()
    });
    let Some(edge) = sent else {
        // Its server has no recording, or none that names it; the kernel knows it.
        let mut servers = servers_of(session, wait.thread, wait.begin_ns, wait.end_ns);
        if let Some(server) = servers.next() {
            return Target {
                who: Ok(server.thread),
                how: How::Served,
                when: when.cut(server.span),
                at: None,
                tid: session.about(server.thread).tid,
            };
        }
        let code = session.event(begin).map_or(0, |e| e.get("code"));
        return Target::unknown(Unknown::ServerNotRecorded { code }, How::Served, when);
    };
    let at = event_of(graph, edge.to, edge.to_event);
    Target {
        who: Ok(at.thread),
        how: How::Served,
        when,
        at: Some(at),
        tid: session.about(at.thread).tid,
    }
}
