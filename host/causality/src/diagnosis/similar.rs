// SPDX-License-Identifier: Apache-2.0
//! Nodes that did the same as another one, and ended otherwise (P-2; Argus, algorithm 2).

use hindsight_decoder::{Extension, MethodId, ThreadEvent};

use crate::graph::{Graph, Node, NodeId, NodeKind, Wait, WaitKind, WaitResult};
use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// Most events of a node that are compared.
pub const MOST_COMPARED: usize = 4_096;
/// Most similar nodes that are kept.
pub const MOST_SIMILAR: usize = 64;

/// What counts as similar.
#[derive(Clone, Debug)]
pub struct SimilarQuestion {
    /// The wait in which the node is stuck. If it did not end as expected, other nodes only have to agree up to it.
    pub wait: Option<Wait>,
    /// The least difference of the nodes' lengths, if their waits ended alike, ns.
    pub least_ns: u64,
    /// The number of nodes before both that have to be of the same kind and class.
    pub preceding: usize,
    /// The kinds of events that are compared; empty: those of [`is_telling`].
    pub kinds: Vec<Extension>,
}

/// A similar node.
#[derive(Clone, Copy, Debug)]
pub struct Similar {
    /// The node.
    pub node: NodeId,
    /// Its wait that corresponds to the stuck one.
    pub wait: Option<Wait>,
    /// Whether that is for the same object.
    pub same_object: bool,
}

/// The similar nodes that are kept, the nearest in time first, and the number of all.
#[derive(Clone, Debug, Default)]
pub struct SimilarNodes {
    /// At most [`MOST_SIMILAR`].
    pub nodes: Vec<Similar>,
    /// How many there are.
    pub count: usize,
    /// Number of nodes that were compared.
    pub compared: usize,
}

/// Whether events of this kind tell what a node does: they are compared by default (Argus's default set: system calls, input
/// events, messages, waits, tasks submitted and begun, shared fields). Stacks are none of them: they are taken at intervals.
pub fn is_telling(kind: Extension) -> bool {
    use Extension as E;
    matches!(
        kind,
        E::WaitBegin
            | E::TaskSubmitted
            | E::TaskBegin
            | E::ItemPut
            | E::ItemTaken
            | E::MessageEnqueued
            | E::MessageDispatched
            | E::CallbackPosted
            | E::CallbackRun
            | E::TraversalScheduled
            | E::TraversalBegin
            | E::InputBegin
            | E::BinderSend
            | E::BinderServe
            | E::LifecycleBegin
            | E::UserBegin
            | E::UserMark
            | E::UserPost
            | E::RuleBegin
            | E::FieldRead
            | E::FieldWritten
    )
}

/// Whether two events, each of its trace, are alike: connection events name the same peer, others have the same attributes.
/// Identities differ each time.
pub(crate) fn alike(session: &Session, a: (usize, &ThreadEvent), b: (usize, &ThreadEvent)) -> bool {
    use Extension as E;
    let ((of_a, a), (of_b, b)) = (a, b);
    let same = |field: &str| a.get(field) == b.get(field);
    let same_class = || same_class(session, (of_a, a.method), (of_b, b.method));
    // Strings and threads have numbers of their trace.
    let same_name = || session.mark(of_a, a.get("name")) == session.mark(of_b, b.get("name"));
    let peer = |trace: usize, event: &ThreadEvent| {
        let tid = u32::try_from(event.get("for thread")).ok()?;
        let thread = session.thread_at(trace, tid, event.at_ns)?;
        Some(session.about(thread).name)
    };
    let same_peer = || match of_a == of_b {
        true => same("for thread"),
        false => peer(of_a, a) == peer(of_b, b),
    };
    a.kind == b.kind
        && match a.kind {
            E::WaitBegin => same("kind") && (a.get("timeout") == 0) == (b.get("timeout") == 0),
            E::TaskSubmitted | E::TaskBegin => same("kind") && same_class(),
            E::MessageEnqueued => same_peer(),
            E::MessageDispatched => same("what") && same_class(),
            E::CallbackRun | E::InputBegin => same("type") && same_class(),
            E::BinderSend | E::BinderServe => same("code"),
            E::LifecycleBegin => same("step") && same_class(),
            E::UserBegin
            | E::UserMark
            | E::UserPost
            | E::RuleBegin
            | E::FieldRead
            | E::FieldWritten => same_name(),
            _ => same_class(),
        }
}

/// Whether two methods are of one class. Classes without a name, as in damaged files, are not known to be the same.
fn same_class(session: &Session, a: (usize, MethodId), b: (usize, MethodId)) -> bool {
    let class = session.class(a.0, a.1);
    let is_same_method = a.1 == b.1 && (a.0 == b.0 || a.1 == MethodId::NOT_RECORDED);
    class == session.class(b.0, b.1) && (class != StringId::NONE || is_same_method)
}

/// Whether two traces were recorded at the same time: then they are of two processes, even if these have one name.
fn at_once(session: &Session, a: usize, b: usize) -> bool {
    let joined = session.apart(a).is_none() && session.apart(b).is_none();
    let (a, b) = (session.trace(a), session.trace(b));
    joined && a.start_ns() < b.end_ns() && b.start_ns() < a.end_ns()
}

/// The thread itself, and those of other traces of the same program that have its name: a run that went well may be a file of
/// its own.
fn candidates(session: &Session, thread: ThreadId) -> Vec<ThreadId> {
    let about = session.about(thread);
    let own = &session.trace(about.trace()).process.name;
    let mut found = vec![thread];
    for trace in (0..session.traces().len()).filter(|&t| t != about.trace()) {
        let is_run = session.trace(trace).process.name == *own;
        if is_run && !at_once(session, trace, about.trace()) {
            let of_name = session.threads_of(trace);
            found.extend(of_name.filter(|&t| session.about(t).name == about.name));
        }
    }
    found
}

fn is_gc_wait(event: &ThreadEvent) -> bool {
    event.kind == Extension::WaitBegin && WaitKind::from_number(event.get("kind")) == WaitKind::Gc
}

/// The events of a node that are compared.
struct Telling<'a> {
    session: &'a Session,
    question: &'a SimilarQuestion,
}

impl<'a> Telling<'a> {
    fn of(&self, node: &Node) -> impl Iterator<Item = (u32, &'a ThreadEvent)> + 'a {
        let events = &self.session.thread(node.thread).events;
        let own = events.get(node.events()).unwrap_or_default();
        let kinds = &self.question.kinds;
        let of_kind = |kind| match kinds.is_empty() {
            true => is_telling(kind),
            false => kinds.contains(&kind),
        };
        let own = own.iter().zip(node.first_event..);
        own.filter(move |(e, _)| of_kind(e.kind) && !is_gc_wait(e))
            .map(|(e, i)| (i, e))
    }
}

/// The nodes of the same thread that did the same as `stuck`, and whose wait ended otherwise, or that were much shorter; also
/// nodes of that thread in other traces of the program.
pub fn similar(
    session: &Session,
    graph: &Graph,
    stuck: NodeId,
    question: &SimilarQuestion,
) -> SimilarNodes {
    let telling = Telling { session, question };
    let node = graph.node(stuck);
    let trace = session.about(node.thread).trace();
    let (expected, is_prefix) = expected(&telling, &node, question);
    let mut found = SimilarNodes::default();
    let at = question.wait.map(|w| w.begin_event);
    let ordinal = at.and_then(|at| expected.iter().position(|(i, _)| *i == at));
    let is_kind =
        |other: &Node| other.kind == node.kind || is_wait(other.kind) && is_wait(node.kind);
    let mut all: Vec<Similar> = Vec::new();
    let threads = candidates(session, node.thread);
    for id in threads.into_iter().flat_map(|t| graph.nodes_of(t)) {
        let other = graph.node(id);
        if id == stuck {
            continue;
        }
        if !is_kind(&other) || other.what != node.what || graph.is_inside(id) {
            continue;
        }
        found.compared += 1;
        let of_other = session.about(other.thread).trace();
        let mut own = telling.of(&other);
        let mut place = None;
        let is_same = expected.iter().enumerate().all(|(i, (_, event))| {
            let Some((index, same)) = own.next() else {
                return false;
            };
            if Some(i) == ordinal {
                place = Some(index);
            }
            alike(session, (trace, event), (of_other, same))
        });
        if !is_same || (!is_prefix && own.next().is_some()) {
            continue;
        }
        let wait = place.and_then(|place| wait_at(graph, other.thread, place));
        if !is_different(&node, &other, question, wait.as_ref())
            || !preceded_alike(graph, stuck, id, question.preceding)
        {
            continue;
        }
        let object = |wait: &Wait| {
            let event = session.event(EventId {
                thread: wait.thread,
                event: wait.begin_event,
            });
            event.map_or(0, |e| e.get("object"))
        };
        let both = question.wait.as_ref().zip(wait.as_ref());
        all.push(Similar {
            node: id,
            wait,
            same_object: of_other == trace
                && both.is_some_and(|(a, b)| object(a) != 0 && object(a) == object(b)),
        });
    }
    // Nodes that waited for the same object tell more.
    if all.iter().any(|s| s.same_object) {
        all.retain(|s| s.same_object);
    }
    found.count = all.len();
    let distance = |s: &Similar| {
        let other = graph.node(s.node);
        let is_later = other.begin_ns > node.begin_ns;
        let is_elsewhere = other.thread != node.thread;
        let distance = other.begin_ns.abs_diff(node.begin_ns);
        (is_elsewhere, is_later, distance, s.node)
    };
    all.sort_by_key(distance);
    all.truncate(MOST_SIMILAR);
    found.nodes = all;
    found
}

const fn is_wait(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Wait | NodeKind::Idle)
}

/// The events that another node must have, with their indices, and whether it may have more.
fn expected<'a>(
    telling: &Telling<'a>,
    node: &Node,
    question: &SimilarQuestion,
) -> (Vec<(u32, &'a ThreadEvent)>, bool) {
    let all = telling.of(node).take(MOST_COMPARED);
    match question.wait {
        // What came after the stuck wait is not what comes after one that ends as it should.
        Some(wait) => (
            all.take_while(|(i, _)| *i <= wait.begin_event).collect(),
            true,
        ),
        None => {
            let all: Vec<_> = all.collect();
            let is_prefix = node.is_open || all.len() == MOST_COMPARED;
            (all, is_prefix)
        }
    }
}

fn wait_at(graph: &Graph, thread: ThreadId, begin_event: u32) -> Option<Wait> {
    let waits = graph.waits_of(thread);
    let at = waits.partition_point(|w| w.begin_event < begin_event);
    waits
        .get(at)
        .filter(|w| w.begin_event == begin_event)
        .copied()
}

/// Whether the waits ended differently, or the one node was much shorter.
fn is_different(
    node: &Node,
    other: &Node,
    question: &SimilarQuestion,
    wait: Option<&Wait>,
) -> bool {
    if let (Some(stuck), Some(wait)) = (&question.wait, wait) {
        if wait.result == WaitResult::Signalled && stuck.result != WaitResult::Signalled {
            return true;
        }
        return stuck.duration_ns() >= wait.duration_ns().saturating_add(question.least_ns)
            && wait.result != WaitResult::NotRecorded;
    }
    node.duration_ns() >= other.duration_ns().saturating_add(question.least_ns)
}

/// Whether the nodes before both are of the same kinds and classes.
fn preceded_alike(graph: &Graph, a: NodeId, b: NodeId, count: usize) -> bool {
    let (mut a, mut b) = (a, b);
    for _ in 0..count {
        let (Some(before_a), Some(before_b)) = (graph.previous(a), graph.previous(b)) else {
            return false;
        };
        (a, b) = (before_a, before_b);
        let (of_a, of_b) = (graph.node(a), graph.node(b));
        if (of_a.kind, of_a.what) != (of_b.kind, of_b.what) {
            return false;
        }
    }
    true
}
