// SPDX-License-Identifier: Apache-2.0
//! Where a thread was in its code.

use hindsight_analysis::{place_in_wait, place_longest, Place};

use super::doing::is_most;
use super::windows::Windows;
use crate::graph::{Graph, NodeId, NodeKind, Wait};
use crate::session::{Session, ThreadId};

/// When the work began in which calls are looked for. Calls from before say nothing about it.
fn since_ns(graph: &Graph, node: Option<NodeId>) -> u64 {
    let node = node.map(|n| graph.node(n));
    let work = node.filter(|n| !matches!(n.kind, NodeKind::Run | NodeKind::Wait));
    work.map_or(0, |n| n.begin_ns)
}

/// Where a thread was for most of some time, as its calls or stacks show.
pub fn place(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
    when: &Windows,
    node: Option<NodeId>,
) -> Option<Place> {
    let span = when.longest()?;
    let length = span.1 - span.0;
    if !is_most(length, when.total_ns()) {
        return None;
    }
    let trace = session.trace_of(thread);
    let found = place_longest(trace, session.thread(thread), span, since_ns(graph, node))?;
    is_most(found.ns, length).then_some(found)
}

/// Where a thread waited.
pub fn place_of_wait(session: &Session, graph: &Graph, wait: &Wait) -> Option<Place> {
    let node = graph.node_of(crate::session::EventId {
        thread: wait.thread,
        event: wait.begin_event,
    });
    let trace = session.trace_of(wait.thread);
    let span = (wait.begin_ns, wait.end_ns);
    place_in_wait(
        trace,
        session.thread(wait.thread),
        span,
        since_ns(graph, node),
    )
}
