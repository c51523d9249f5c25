// SPDX-License-Identifier: Apache-2.0
//! What began the work in which a thread is stuck.

use hindsight_decoder::Extension;
use serde::Serialize;

use super::slice::CausePath;
use super::stretch::Stretch;
use crate::graph::{Edge, Graph, NodeKind, Reason};
use crate::session::{EventId, Session, ThreadId};
use crate::strings::StringId;

/// The step of an activity's lifecycle by which it ends, in events.
const DESTROY: u64 = 5;

/// What began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerKind {
    /// A class was used for the first time, in work that a thread sent.
    FirstUse,
    /// The user did something.
    Input,
    /// A file changed: a `FileObserver` reported it.
    File,
    /// A broadcast was received.
    Broadcast,
    /// An activity that was over by then had sent it.
    EarlierScreen,
    /// A time was over.
    Timer,
    /// Another process asked for it.
    Transaction,
    /// A thread sent a message.
    Message,
    /// A thread submitted a task, started a thread, put an element into a queue, or handed work over.
    Task,
    /// A frame was due.
    Frame,
    /// A field was written.
    Field,
}

/// What began the work, and who.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What began it.
    pub kind: TriggerKind,
    /// The thread that sent the work.
    pub sender: ThreadId,
    /// The event by which it did.
    pub at: EventId,
    /// The activity that had sent it, if it was over by then.
    pub screen: Option<StringId>,
    /// The thread at the beginning of the path.
    pub origin: ThreadId,
}

/// What began the work of a stretch, of the path that led to it, and of whether it is the first use of a class. `None` without a path: the thread decided to do it.
pub fn trigger(
    session: &Session,
    graph: &Graph,
    stretch: &Stretch,
    path: &CausePath,
    is_first_use: bool,
) -> Option<Trigger> {
    let edges: Vec<Edge> = path.edges.iter().map(|&e| graph.edge(e)).collect();
    let (first, last) = (edges.first()?, edges.last()?);
    let sender = graph.node(last.from).thread;
    let at = EventId {
        thread: sender,
        event: last.from_event,
    };
    let kinds = || edges.iter().map(|e| graph.node(e.from));
    let screen = screen(session, graph, last, stretch.begin_ns);
    let what = session.string(graph.node(stretch.first).what);
    let is_file = |what: StringId| session.string(what).starts_with("android.os.FileObserver$");
    let kind = if is_first_use {
        TriggerKind::FirstUse
    } else if kinds().any(|n| n.kind == NodeKind::Input) {
        TriggerKind::Input
    } else if kinds().any(|n| is_file(n.what)) {
        TriggerKind::File
    } else if what.ends_with("ReceiverDispatcher$Args") {
        TriggerKind::Broadcast
    } else if screen.is_some() {
        TriggerKind::EarlierScreen
    } else if edges.iter().any(|e| e.reason == Reason::Transaction) {
        TriggerKind::Transaction
    } else {
        of_reason(last.reason)
    };
    Some(Trigger {
        kind,
        sender,
        at,
        screen,
        origin: graph.node(first.from).thread,
    })
}

const fn of_reason(reason: Reason) -> TriggerKind {
    match reason {
        Reason::Timer => TriggerKind::Timer,
        Reason::Message => TriggerKind::Message,
        Reason::FrameCallback | Reason::Traversal => TriggerKind::Frame,
        Reason::Field => TriggerKind::Field,
        _ => TriggerKind::Task,
    }
}

/// The activity in whose lifecycle step work was sent, if it was destroyed before `until_ns`.
fn screen(session: &Session, graph: &Graph, edge: &Edge, until_ns: u64) -> Option<StringId> {
    let node = graph.node(edge.from);
    let events = &session.thread(node.thread).events;
    let before = events.get(node.first_event as usize..edge.from_event as usize)?;
    let mut ended = 0;
    let step = before.iter().rev().find(|e| match e.kind {
        Extension::LifecycleEnd => {
            ended += 1;
            false
        }
        Extension::LifecycleBegin if ended > 0 => {
            ended -= 1;
            false
        }
        kind => kind == Extension::LifecycleBegin,
    })?;
    let activity = step.get("activity");
    let later = events.get(edge.from_event as usize..)?.iter();
    let mut later = later.take_while(|e| e.at_ns <= until_ns);
    let is_over = later.any(|e| {
        let is_destroyed = e.kind == Extension::LifecycleBegin && e.get("step") == DESTROY;
        is_destroyed && activity != 0 && e.get("activity") == activity
    });
    let trace = session.about(node.thread).trace();
    is_over.then(|| session.class(trace, step.method))
}
