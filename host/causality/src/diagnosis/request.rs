// SPDX-License-Identifier: Apache-2.0
//! Requests whose answers end waits: the way of a request that is still under way tells whom a wait is for that nobody ended.
//!
//! A thread hands work over, and then waits to be notified. If all of its recorded waits for the same object were ended by what
//! came of the same request, on the same way through other threads, such a wait is for the answer. The request that was
//! sent before a wait that did not end is followed on that way: the thread with which it was pending, or that was at work on
//! it, for most of the wait is the one that the thread waited for. Each of these facts is recorded.

use std::ops::Range;

use hindsight_decoder::{Extension, ThreadEvent};

use super::doing::{is_most, Waited};
use super::how::How;
use super::people::named;
use super::similar::alike;
use super::slice::path_from;
use super::stretch::PAUSE_NS;
use super::target::Target;
use crate::graph::{Edge, EdgeClass, Graph, NodeId, NodeKind, Reason, Wait, WaitKind, WaitResult};
use crate::session::{EventId, Session, ThreadId};

/// Least number of earlier waits that the answer has ended.
const LEAST_ANSWERED: usize = 2;
/// Most earlier waits that are looked at, the nearest first.
const MOST_ANSWERED: usize = 64;
/// Most events before a wait that are searched for what the thread handed over.
const MOST_BEFORE: u32 = 256;

/// The node in which a thread was right before a wait, and the events of that before the wait. Outside any work, that is the
/// node before the wait's own.
pub(super) fn before(graph: &Graph, wait: &Wait) -> Option<(NodeId, Range<u32>)> {
    let node = graph.node_of(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    })?;
    let is_outside = graph.node(node).kind == NodeKind::Wait;
    let earlier = graph.previous(node).filter(|&earlier| {
        is_outside && graph.node(earlier).kind == NodeKind::Run && graph.next(earlier) == Some(node)
    });
    let node = earlier.unwrap_or(node);
    let first = graph.node(node).first_event;
    let first = first.max(wait.begin_event.saturating_sub(MOST_BEFORE));
    Some((node, first..wait.begin_event))
}

/// One step of the way of a request: why it came to the next thread, and the trace of that one. Threads of a pool may differ.
type Step = (Reason, usize);

/// How a wait was ended by the answer to a request.
struct Answer {
    /// The event of the waiting thread that sent the request.
    request: u32,
    /// The way from the request to the thread that ended the wait.
    way: Vec<Step>,
}

/// Whom a thread waited for that nobody ended, if it waited for the answer to a request.
pub(super) fn awaited(session: &Session, graph: &Graph, waited: &Waited) -> Option<Target> {
    let wait = &waited.wait;
    let is_open = matches!(wait.result, WaitResult::TimedOut | WaitResult::NotRecorded);
    let is_possible = matches!(wait.kind, WaitKind::Object | WaitKind::Park);
    if !is_open || !is_possible || wait.duration_ns() < PAUSE_NS {
        return None;
    }
    let answer = answers(session, graph, wait)?;
    let of_wait = Request {
        session,
        graph,
        waited,
        way: &answer.way,
    };
    let (node, own) = before(graph, wait)?;
    let trace = session.about(wait.thread).trace();
    let precedent = event(session, wait.thread, answer.request)?;
    let is_same = |e: &u32| {
        let sent = event(session, wait.thread, *e);
        sent.is_some_and(|sent| alike(session, (trace, precedent), (trace, sent)))
    };
    let mut held = own
        .filter(is_same)
        .map(|e| of_wait.holder(node, e..e + 1, 0));
    let (holder, span) = held.next()??;
    // Of several such requests, all have to be with one thread.
    if held.any(|other| other.is_none_or(|(thread, _)| thread != holder)) || holder == wait.thread {
        return None;
    }
    Some(Target {
        who: Ok(holder),
        how: How::HadRequest,
        when: waited.when.cut(span),
        at: None,
        tid: session.about(holder).tid,
    })
}

fn event(session: &Session, thread: ThreadId, event: u32) -> Option<&ThreadEvent> {
    session.event(EventId { thread, event })
}

/// The way of the answers that ended all earlier waits of the thread for the same object.
fn answers(session: &Session, graph: &Graph, wait: &Wait) -> Option<Answer> {
    let object = |w: &Wait| event(session, w.thread, w.begin_event).map_or(0, |e| e.get("object"));
    let own = object(wait);
    let waits = graph.waits_of(wait.thread);
    let earlier = waits.partition_point(|w| w.begin_event < wait.begin_event);
    let same = |w: &&Wait| {
        own != 0 && w.kind == wait.kind && w.result == WaitResult::Signalled && object(w) == own
    };
    let ended = waits[..earlier].iter().rev().filter(same);
    let mut found: Option<Answer> = None;
    let mut count = 0;
    let trace = session.about(wait.thread).trace();
    for other in ended.take(MOST_ANSWERED) {
        let answer = answer(session, graph, other)?;
        let sent = |a: &Answer| Some((trace, event(session, wait.thread, a.request)?));
        if let Some(found) = &found {
            let is_same = alike(session, sent(found)?, sent(&answer)?) && found.way == answer.way;
            if !is_same {
                return None;
            }
        }
        found.get_or_insert(answer);
        count += 1;
    }
    found.filter(|_| count >= LEAST_ANSWERED)
}

/// How a wait was ended, if that came of what the thread had handed over right before.
fn answer(session: &Session, graph: &Graph, wait: &Wait) -> Option<Answer> {
    let (node, own) = before(graph, wait)?;
    let since_ns = event(session, wait.thread, own.start)?.at_ns;
    let end = graph.node_of(EventId {
        thread: wait.thread,
        event: wait.end_event,
    })?;
    let edges = graph.incoming(end).iter().map(|&e| graph.edge(e));
    let mut ends = edges.filter(|e| e.reason == Reason::Wake && e.to_event == wait.end_event);
    let wake = ends.next()?;
    let is_asked = |e: &Edge, _| e.class == EdgeClass::Strong && e.from_ns >= since_ns;
    let path = path_from(graph, wake.from, wake.from_ns, false, &is_asked);
    let first = graph.edge(*path.edges.first()?);
    if path.is_cut || first.from != node || !own.contains(&first.from_event) {
        return None;
    }
    let step = |e: Edge| {
        let to = graph.node(e.to).thread;
        (e.reason, session.about(to).trace())
    };
    Some(Answer {
        request: first.from_event,
        way: path.edges.iter().map(|&e| step(graph.edge(e))).collect(),
    })
}

/// A thread, and when it had the request: from when it was sent to it, to the end of its work on it.
type Held = (ThreadId, (u64, u64));

/// The request before a wait that did not end.
struct Request<'a> {
    session: &'a Session,
    graph: &'a Graph,
    waited: &'a Waited,
    way: &'a [Step],
}

impl Request<'_> {
    fn is_most(&self, span: (u64, u64)) -> bool {
        let when = &self.waited.when;
        is_most(when.overlap(span), when.total_ns())
    }

    /// Who had the request for most of the wait, if one of these events of a node sent it on its way's step `at`.
    fn holder(&self, node: NodeId, sent: Range<u32>, at: usize) -> Option<Held> {
        let step = *self.way.get(at)?;
        let end_ns = self.waited.wait.end_ns;
        let edges = self.graph.outgoing(node).iter();
        let edges = edges.map(|&e| self.graph.edge(e)).filter(|e| {
            let to = self.graph.node(e.to).thread;
            sent.contains(&e.from_event)
                && e.from_ns < end_ns
                && e.class == EdgeClass::Strong
                && step == (e.reason, self.session.about(to).trace())
        });
        let edges: Vec<Edge> = edges.take(2).collect();
        match edges[..] {
            [] => self.undelivered(node, sent, step),
            [edge] => self.received(&edge, at),
            // It is not known which one goes on with the request.
            _ => None,
        }
    }

    /// Who had the request for most of the wait, after it had been sent to this node.
    fn received(&self, edge: &Edge, at: usize) -> Option<Held> {
        let node = self.graph.node(edge.to);
        if self.is_most((edge.from_ns, edge.to_ns)) {
            return Some((node.thread, (edge.from_ns, edge.to_ns)));
        }
        let end_ns = self.waited.wait.end_ns;
        let rest = edge.to_event..node.end_event;
        // What it does after the wait's end came too late.
        let sends = |kinds: &[Extension]| {
            let events = rest
                .clone()
                .filter_map(|e| event(self.session, node.thread, e));
            let mut events = events.take_while(|e| e.at_ns < end_ns);
            events.any(|e| kinds.contains(&e.kind))
        };
        let has_sent = match self.way.get(at + 1) {
            Some(&(reason, _)) => match causes(reason) {
                [] => return None,
                kinds => sends(kinds),
            },
            // It would have ended the wait, and that would be recorded.
            None => false,
        };
        if has_sent {
            return self.holder(edge.to, rest, at + 1);
        }
        let span = (edge.from_ns, node.end_ns);
        self.is_most(span).then_some((node.thread, span))
    }

    /// The thread to whose looper the request was sent, if none of its recorded messages is the request.
    fn undelivered(&self, node: NodeId, sent: Range<u32>, step: Step) -> Option<Held> {
        let (thread, trace) = (self.graph.node(node).thread, step.1);
        if step.0 != Reason::Message || self.session.about(thread).trace() != trace {
            return None;
        }
        let mut joined: Vec<u32> = (self.graph.outgoing(node).iter())
            .map(|&e| self.graph.edge(e).from_event)
            .collect();
        joined.sort_unstable();
        let end_ns = self.waited.wait.end_ns;
        let messages = sent.filter(|e| joined.binary_search(e).is_err());
        let messages = messages.filter_map(|e| event(self.session, thread, e));
        let mut messages =
            messages.filter(|e| e.kind == Extension::MessageEnqueued && e.at_ns < end_ns);
        let (message, None) = (messages.next()?, messages.next()) else {
            return None;
        };
        let tid = u32::try_from(message.get("for thread")).ok()?;
        let to = named(self.session, trace, tid, message.at_ns).ok()?;
        let span = (message.at_ns, self.session.thread(to).end_ns);
        let is_pending = message.get("delay") == 0 && !self.was_removed(trace, message);
        (is_pending && self.is_most(span)).then_some((to, span))
    }

    /// Whether a message was taken out of its queue, or its number was used again.
    fn was_removed(&self, trace: usize, message: &ThreadEvent) -> bool {
        use Extension as E;
        let id = message.get("message");
        self.session.threads_of(trace).any(|thread| {
            let events = &self.session.thread(thread).events;
            let later = events.partition_point(|e| e.at_ns <= message.at_ns);
            events[later..].iter().any(|e| {
                let kinds = [E::MessageRemoved, E::MessageEnqueued, E::MessageDispatched];
                kinds.contains(&e.kind) && e.get("message") == id
            })
        })
    }
}

/// The events that are causes of edges with this reason, if the events alone tell that there was one: a thread that is notified
/// while it does not wait leaves none.
fn causes(reason: Reason) -> &'static [Extension] {
    use Extension as E;
    match reason {
        Reason::Message => &[E::MessageEnqueued],
        Reason::Task | Reason::ThreadStart => &[E::TaskSubmitted],
        Reason::Item => &[E::ItemPut],
        Reason::FrameCallback => &[E::CallbackPosted],
        Reason::Traversal => &[E::TraversalScheduled],
        Reason::Post => &[E::UserPost],
        Reason::Transaction => &[E::BinderSend],
        _ => &[],
    }
}
