// SPDX-License-Identifier: Apache-2.0
//! Periodic timers: work that arms its own next run. Each run begins a transaction (AppInsight, OSDI 2012, § 6.2).

use hashbrown::HashMap;
use hindsight_decoder::Extension;

use super::scope::end_of_part;
use crate::graph::{Edge, EdgeId, Graph, NodeId, NodeKind, Reason};
use crate::session::{EventId, Session};
use crate::strings::StringId;

/// A timer is periodic if so many of its runs follow each other.
const LEAST_RUNS: u32 = 3;

/// A run of a periodic timer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Firing {
    pub(super) node: NodeId,
    /// Its first event.
    pub(super) event: EventId,
    /// Index after its last event.
    pub(super) end_event: u32,
    /// CLOCK_BOOTTIME of its first event, ns.
    pub(super) at_ns: u64,
    /// CLOCK_BOOTTIME at which it was due, ns.
    pub(super) due_ns: u64,
    /// The class of the message, task or callback.
    pub(super) what: StringId,
}

/// The delay that the cause of an edge asked for, ns.
pub(super) fn delay_ns(session: &Session, graph: &Graph, edge: &Edge) -> u64 {
    let event = EventId {
        thread: graph.node(edge.from).thread,
        event: edge.from_event,
    };
    let delay_ms = session.event(event).map_or(0, |e| e.get("delay"));
    delay_ms.saturating_mul(1_000_000)
}

/// A run of any timer, or of a callback of a frame, and the run before it.
struct Run {
    firing: Firing,
    before: Option<usize>,
    /// Runs up to this one, and of the whole sequence.
    number: u32,
    of: u32,
}

/// The runs of periodic timers.
pub(super) fn firings(session: &Session, graph: &Graph) -> Vec<Firing> {
    let mut timed: Vec<EdgeId> = graph.edge_ids().collect();
    timed.retain(|&id| matches!(graph.edge(id).reason, Reason::Timer | Reason::FrameCallback));
    timed.sort_by_key(|&id| (graph.edge(id).to_ns, id));
    let mut runs: Vec<Run> = Vec::with_capacity(timed.len());
    // The last runs in each node, of each class.
    let mut last: HashMap<(NodeId, StringId), usize> = HashMap::new();
    for id in timed {
        let edge = graph.edge(id);
        let firing = firing(session, graph, &edge);
        let before = before(graph, &edge, firing.what, &last);
        let before = before.filter(|&b| runs[b].firing.event.event < edge.from_event);
        let number = before.map_or(1, |b| runs[b].number + 1);
        last.insert((firing.node, firing.what), runs.len());
        runs.push(Run {
            firing,
            before,
            number,
            of: number,
        });
    }
    // Each sequence is as long as the number of its last run.
    for i in (0..runs.len()).rev() {
        if let Some(before) = runs[i].before {
            runs[before].of = runs[before].of.max(runs[i].of);
        }
    }
    let periodic = runs.into_iter().filter(|r| r.of >= LEAST_RUNS);
    periodic.map(|r| r.firing).collect()
}

fn firing(session: &Session, graph: &Graph, edge: &Edge) -> Firing {
    let about = graph.node(edge.to);
    let from = graph.node(edge.from);
    let event = EventId {
        thread: about.thread,
        event: edge.to_event,
    };
    let class = |event: EventId| {
        let trace = session.about(event.thread).trace();
        session
            .event(event)
            .map_or(StringId::NONE, |e| session.class(trace, e.method))
    };
    let own = session.event(event).map(|e| e.kind);
    // A frame's callback names its class where it is posted.
    let what = match own {
        Some(Extension::CallbackRun) => class(EventId {
            thread: from.thread,
            event: edge.from_event,
        }),
        _ => class(event),
    };
    let events = &session.thread(about.thread).events;
    let due_ns = edge.from_ns.saturating_add(delay_ns(session, graph, edge));
    Firing {
        node: edge.to,
        event,
        end_event: end_of_part(events, edge.to_event, about.end_event),
        at_ns: edge.to_ns,
        // A callback is due at its frame, whose time is not that of its posting.
        due_ns: match edge.reason {
            Reason::Timer => due_ns.min(edge.to_ns),
            _ => edge.to_ns,
        },
        what,
    }
}

/// The run that armed this one, if it is of the same class: in the node of the cause, or just before the thread's own code
/// that is the cause, as an executor arms a repeating task after its run.
fn before(
    graph: &Graph,
    edge: &Edge,
    what: StringId,
    last: &HashMap<(NodeId, StringId), usize>,
) -> Option<usize> {
    if what == StringId::NONE {
        return None;
    }
    if let Some(&run) = last.get(&(edge.from, what)) {
        return Some(run);
    }
    if graph.node(edge.from).kind != NodeKind::Run {
        return None;
    }
    let task = graph.previous(edge.from)?;
    last.get(&(task, what)).copied()
}
