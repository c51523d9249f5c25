// SPDX-License-Identifier: Apache-2.0
//! What led to a stuck node: the user's input, a message, a timer …

use hindsight_decoder::{Extension, ThreadEvent};

use super::doing::{is_most, is_work};
use super::slice::{begin_limit, path_from, CausePath};
use super::stretch::PAUSE_NS;
use crate::graph::{Edge, EdgeClass, EdgeId, Graph, NodeId, NodeKind, Reason};
use crate::session::Session;

/// Whether an edge leads to the beginning of work.
const fn begins_work(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Message
            | Reason::Task
            | Reason::ThreadStart
            | Reason::Item
            | Reason::Timer
            | Reason::FrameCallback
            | Reason::Traversal
            | Reason::Post
            | Reason::Transaction
            | Reason::Rule
    )
}

/// What led to a node, the earliest cause first: of each node the cause of its beginning. The path ends at the user's input,
/// or at a thread's own code to which no event led: that thread decided to do it.
///
/// A frame begins because time passes: of a node in which a callback or a traversal took most of the time, that one's cause
/// counts.
pub fn cause_path(session: &Session, graph: &Graph, node: NodeId) -> CausePath {
    let is_asked = |edge: &Edge, until_ns: u64| is_causal(graph, edge, until_ns);
    let about = graph.node(node);
    if let Some((id, edge)) = inner_work(session, graph, node) {
        let until_ns = begin_limit(graph, edge.from, edge.from_ns);
        let mut path = path_from(graph, edge.from, until_ns, true, &is_asked);
        path.edges.push(id);
        return path;
    }
    let until_ns = match is_work(about.kind) {
        true => about.begin_ns,
        false => about.end_ns,
    };
    path_from(graph, node, until_ns, true, &is_asked)
}

/// Whether an edge says why something was done. What a thread did before does not, in its own code: it may do the same again
/// and again.
/// Nor does the start of a thread that did something else first.
fn is_causal(graph: &Graph, edge: &Edge, until_ns: u64) -> bool {
    if edge.reason == Reason::ThreadStart && until_ns.saturating_sub(edge.to_ns) > PAUSE_NS {
        return false;
    }
    if edge.class == EdgeClass::Strong {
        return begins_work(edge.reason) || edge.reason == Reason::Field;
    }
    // Work right after other work is a part of what that one led to only if a rule says so.
    edge.class == EdgeClass::Boosted && is_work(graph.node(edge.from).kind)
}

/// The edge to the callback or traversal in a node that took most of its time.
fn inner_work(session: &Session, graph: &Graph, node: NodeId) -> Option<(EdgeId, Edge)> {
    let about = graph.node(node);
    if !matches!(about.kind, NodeKind::Message | NodeKind::Frame) {
        return None;
    }
    let events = &session.thread(about.thread).events;
    let edges = graph.incoming(node).iter().map(|&id| (id, graph.edge(id)));
    let inner = edges.filter(|(_, e)| {
        let is_inner = matches!(
            e.reason,
            Reason::FrameCallback | Reason::Traversal | Reason::Timer
        );
        is_inner && e.to_ns > about.begin_ns
    });
    let length = |edge: &Edge| {
        let own = events.get(edge.to_event as usize + 1..about.end_event as usize);
        let end = own.unwrap_or_default().iter().find(|e| ends_inner(e));
        let end_ns = end.map_or(about.end_ns, |e| e.at_ns);
        end_ns.saturating_sub(edge.to_ns)
    };
    let longest = inner.max_by_key(|(id, e)| (length(e), std::cmp::Reverse(id.0)));
    longest.filter(|(_, e)| is_most(length(e), about.duration_ns()))
}

fn ends_inner(event: &ThreadEvent) -> bool {
    matches!(
        event.kind,
        Extension::TraversalEnd
            | Extension::CallbackRun
            | Extension::FrameCallbacks
            | Extension::FrameEnd
    )
}
