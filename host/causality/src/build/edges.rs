// SPDX-License-Identifier: Apache-2.0
//! The edges of the graph (P-1; Argus, algorithm 4, lines 23 to 44).

use hindsight_analysis::{Link, LinkEnd, Linker, PairKind, Unmatched};
use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension, ThreadEvent};

use crate::graph::{
    DropReason, Edge, EdgeClass, Edges, Facts, NodeId, NodeKind, Nodes, Reason, WaitKind,
};
use crate::rules::Rules;
use crate::session::{EventId, Session, ThreadId};

use super::herds::{self, Woken};
use super::made::Made;
use super::{changes, fields};

/// An event that is in no node.
const NONE: u32 = u32::MAX;

/// The edges, while they are found.
pub(super) struct Finder<'a> {
    session: &'a Session,
    rules: &'a Rules,
    linker: Linker<'a>,
    edges: Edges,
    facts: Facts,
    /// Waits for objects that other threads ended.
    woken: Vec<Woken>,
    /// By node: whether a wait, which the node is, was ended by another thread.
    resumed: Vec<bool>,
    places: Places,
}

/// The nodes of the events of one trace.
#[derive(Default)]
struct Places {
    /// By event of the trace's threads.
    node_of: Vec<u32>,
    /// By thread of the trace, the place of its first event.
    first: Vec<usize>,
    first_thread: u32,
}

impl Places {
    /// Notes the nodes of all events of a trace.
    fn fill(&mut self, session: &Session, trace: usize, made: &Made) {
        self.node_of.clear();
        self.first.clear();
        self.first_thread = session.threads_of(trace).next().map_or(0, |t| t.0);
        for thread in session.threads_of(trace) {
            let place = self.node_of.len();
            self.first.push(place);
            let events = session.thread(thread).events.len();
            self.node_of.resize(place + events, NONE);
            for node in made.nodes_of(thread) {
                let first = made.nodes.first_event[node as usize] as usize;
                let end = made.nodes.end_event[node as usize] as usize;
                // Maintenance comes after the node that it interrupts.
                self.node_of[place + first..place + end].fill(node);
            }
        }
    }

    /// The node of an event, given by the index of its thread in the trace, or [`NONE`].
    fn node(&self, thread: u32, event: u32) -> u32 {
        let place = self.first.get(thread as usize);
        let node = place.and_then(|place| self.node_of.get(place + event as usize));
        node.copied().unwrap_or(NONE)
    }
}

impl<'a> Finder<'a> {
    pub(super) fn new(session: &'a Session, rules: &'a Rules, events: usize) -> Self {
        let mut edges = Edges::default();
        // Most events have half an edge. What is not used takes no memory.
        edges.reserve(events / 4 * 3);
        Finder {
            session,
            rules,
            linker: Linker::default(),
            edges,
            facts: Facts::default(),
            woken: Vec::new(),
            resumed: Vec::with_capacity(events / 2),
            places: Places::default(),
        }
    }

    /// Finds the edges between the threads of a trace, of which the nodes have just been made.
    pub(super) fn of_trace(&mut self, trace: usize, made: &Made) {
        let session = self.session;
        self.resumed.resize(made.nodes.len(), false);
        self.places.fill(session, trace, made);
        let first_thread = self.places.first_thread;
        // Its transactions are its own if its clock is.
        let is_apart = session.apart(trace).is_some();
        let mut linker = match is_apart {
            true => Linker::default(),
            false => std::mem::take(&mut self.linker),
        };
        let places = std::mem::take(&mut self.places);
        let node = |thread, event| places.node(thread, event);
        linker.add(session.trace(trace), first_thread, node, |link| {
            self.link(link, &places, made);
        });
        fields::edges(session, trace, |from, to| {
            self.join_events((from, to), Reason::Field, &places, made);
        });
        let rules = self.rules;
        for rule in &rules.edges {
            changes::joined(session, trace, rule, |from, to| {
                self.join_events((from, to), Reason::Rule, &places, made);
            });
        }
        match is_apart {
            true => self.transactions(linker, made),
            false => self.linker = linker,
        }
        self.places = places;
    }

    /// Finds the edges between traces, and those along threads.
    pub(super) fn finish(mut self, made: &Made) -> (Edges, Facts) {
        self.places = Places::default();
        let linker = std::mem::take(&mut self.linker);
        self.transactions(linker, made);
        self.next(made);
        herds::mark(self.session, self.woken, &mut self.edges);
        (self.edges, self.facts)
    }

    fn transactions(&mut self, linker: Linker<'_>, made: &Made) {
        let unmatched = linker.finish(|link| self.transaction(link, made));
        self.unmatched(unmatched);
    }

    fn unmatched(&mut self, unmatched: Vec<Unmatched>) {
        for one in unmatched {
            let all = &mut self.facts.unmatched;
            let is_same =
                |u: &&mut Unmatched| (u.kind, u.side, u.why) == (one.kind, one.side, one.why);
            match all.iter_mut().find(is_same) {
                Some(same) => same.count += one.count,
                None => all.push(one),
            }
        }
    }

    /// Adds the edges of a cause and its effect in one process.
    fn link(&mut self, link: &Link, places: &Places, made: &Made) {
        let cause = EventId {
            thread: ThreadId(link.from.thread),
            event: link.from.event,
        };
        let Some(cause) = self.session.event(cause) else {
            return;
        };
        let Some((reason, class)) = reason(link.kind, cause) else {
            return;
        };
        if !self.join((&link.from, &link.to), reason, class, made) {
            return;
        }
        if matches!(reason, Reason::Wake | Reason::Lock) {
            self.awaited(link, reason, places, made);
        }
    }

    /// Adds the edge of a transaction, or its reply. Its events are not looked at again: they are all over the memory.
    fn transaction(&mut self, link: &Link, made: &Made) {
        let (reason, is_reply) = match link.kind {
            PairKind::Transaction => (Reason::Transaction, false),
            _ => (Reason::Reply, true),
        };
        let ends = (&link.from, &link.to);
        if self.join(ends, reason, EdgeClass::Strong, made)
            && is_reply
            && made.nodes.kind[link.to.note as usize].is_wait()
            && made.ended_by(event_of(&link.to)).is_some()
        {
            self.resumed[link.to.note as usize] = true;
        }
    }

    /// Notes which event ended a wait.
    fn awaited(&mut self, link: &Link, reason: Reason, places: &Places, made: &Made) {
        let node = link.to.note as usize;
        let is_wait = made.nodes.kind[node].is_wait();
        // Only of a wake-up it has to be known where a wait inside other work began.
        if !is_wait && reason != Reason::Wake {
            return;
        }
        let Some(begin) = self.begin_of(&link.to, made) else {
            return;
        };
        self.resumed[node] |= is_wait;
        if reason == Reason::Wake {
            let (from, to) = (
                EventId {
                    event: begin,
                    ..event_of(&link.to)
                },
                event_of(&link.from),
            );
            self.woken_by(&link.from, from);
            self.join_events((from, to), Reason::AwaitedBy, places, made);
        }
    }

    /// Notes who ended a wait for an object's notification: by the edge that was added last.
    fn woken_by(&mut self, by: &LinkEnd, begin: EventId) {
        const KIND: Field = field(Extension::WaitBegin, "kind");
        const OBJECT: Field = field(Extension::WaitBegin, "object");
        let Some(wait) = self.session.event(begin) else {
            return;
        };
        let object = OBJECT.get(&wait.payload);
        let kind = WaitKind::from_number(KIND.get(&wait.payload));
        let edge = self.edges.len().checked_sub(1);
        if let (WaitKind::Object, Some(edge)) = (kind, edge.filter(|_| object != 0)) {
            self.woken.push(Woken {
                by: ThreadId(by.thread),
                event: by.event,
                object,
                edge,
            });
        }
    }

    /// The event that begins the wait that an event ends.
    fn begin_of(&self, end: &LinkEnd, made: &Made) -> Option<u32> {
        // Nearly always the node is the wait, and begins with it, or with the event that names the owner of a lock.
        let node = end.note as usize;
        let events = &self.session.thread(ThreadId(end.thread)).events;
        let is_wait = |event: &u32| {
            let event = events.get(*event as usize);
            event.is_some_and(|e| e.kind == Extension::WaitBegin)
        };
        if made.nodes.end_event[node] == end.event + 1 && made.nodes.kind[node].is_wait() {
            let first = made.nodes.first_event[node];
            if let Some(begin) = [first, first + 1].into_iter().find(is_wait) {
                return Some(begin);
            }
        }
        made.ended_by(event_of(end)).map(|wait| wait.begin_event)
    }

    /// Adds an edge between the nodes of two events of the current trace.
    fn join_events(
        &mut self,
        (from, to): (EventId, EventId),
        reason: Reason,
        places: &Places,
        made: &Made,
    ) {
        let end = |id: EventId| {
            let thread = id.thread.0.checked_sub(places.first_thread)?;
            Some(LinkEnd {
                thread: id.thread.0,
                event: id.event,
                at_ns: self.session.event(id)?.at_ns,
                note: places.node(thread, id.event),
            })
        };
        if let (Some(from), Some(to)) = (end(from), end(to)) {
            let class = match reason {
                Reason::AwaitedBy => EdgeClass::Weak,
                _ => EdgeClass::Strong,
            };
            self.join((&from, &to), reason, class, made);
        }
    }

    /// Adds an edge between two events, whose notes are their nodes. Returns whether it did.
    fn join(
        &mut self,
        (from, to): (&LinkEnd, &LinkEnd),
        reason: Reason,
        class: EdgeClass,
        made: &Made,
    ) -> bool {
        // Inside one node, the order of events says it all.
        if from.note == NONE || to.note == NONE || from.note == to.note {
            return false;
        }
        if made.nodes.kind[from.note as usize] == NodeKind::Maintenance {
            return self.leave_out(DropReason::Maintenance);
        }
        if from.at_ns > to.at_ns {
            return self.leave_out(DropReason::Backwards);
        }
        self.edges.push(&Edge {
            from: NodeId(from.note),
            to: NodeId(to.note),
            from_event: from.event,
            to_event: to.event,
            from_ns: from.at_ns,
            to_ns: to.at_ns,
            class,
            reason,
            is_inferred: matches!(reason, Reason::Lock | Reason::Field | Reason::Rule),
            is_ambiguous: reason == Reason::Lock,
            is_herd: false,
        });
        true
    }

    fn leave_out(&mut self, reason: DropReason) -> bool {
        self.facts.dropped[reason as usize] += 1;
        false
    }

    /// Consecutive nodes of a thread. None from and to waits for work: what comes after them has other causes.
    fn next(&mut self, made: &Made) {
        for thread in self.session.thread_ids() {
            let mut last: Option<usize> = None;
            for node in made.nodes_of(thread).map(|n| n as usize) {
                if made.nodes.is_inside(node) {
                    continue;
                }
                if let Some(before) = last.replace(node) {
                    self.next_of(before, node, &made.nodes);
                }
            }
        }
    }

    fn next_of(&mut self, before: usize, node: usize, nodes: &Nodes) {
        let is_idle = |n: usize| nodes.kind[n] == NodeKind::Idle;
        if is_idle(before) || is_idle(node) || nodes.begins_anew(node) {
            return;
        }
        let (reason, class) = match self.resumed[before] {
            true => (Reason::Resume, EdgeClass::Strong),
            false => (Reason::Next, EdgeClass::Weak),
        };
        // A node without events begins with the event before it.
        let is_empty = nodes.first_event[node] == nodes.end_event[node];
        self.edges.push(&Edge {
            from: NodeId(before as u32),
            to: NodeId(node as u32),
            from_event: nodes.end_event[before].saturating_sub(1),
            to_event: nodes.first_event[node].saturating_sub(u32::from(is_empty)),
            from_ns: nodes.end_ns[before].min(nodes.begin_ns[node]),
            to_ns: nodes.begin_ns[node],
            class,
            reason,
            is_inferred: true,
            is_ambiguous: false,
            is_herd: false,
        });
    }
}

fn event_of(end: &LinkEnd) -> EventId {
    EventId {
        thread: ThreadId(end.thread),
        event: end.event,
    }
}

/// The reason for an edge, and its class, of a pair with this cause. `None`: nothing came of the cause.
fn reason(kind: PairKind, cause: &ThreadEvent) -> Option<(Reason, EdgeClass)> {
    /// The kind of the tasks that threads run for all their lives.
    const THREAD: u64 = super::sorts::THREAD_TASK;
    const KIND: Field = field(Extension::TaskSubmitted, "kind");
    const TASK_DELAY: Field = field(Extension::TaskSubmitted, "delay");
    const MESSAGE_DELAY: Field = field(Extension::MessageEnqueued, "delay");
    const CALLBACK_DELAY: Field = field(Extension::CallbackPosted, "delay");
    let is_delayed = |delay: Field| delay.get(&cause.payload) != 0;
    let reason = match kind {
        PairKind::Cancelled => return None,
        PairKind::Lock => return Some((Reason::Lock, EdgeClass::Weak)),
        PairKind::Task if KIND.get(&cause.payload) == THREAD => Reason::ThreadStart,
        PairKind::Task if is_delayed(TASK_DELAY) => Reason::Timer,
        PairKind::Message if is_delayed(MESSAGE_DELAY) => Reason::Timer,
        PairKind::Callback if is_delayed(CALLBACK_DELAY) => Reason::Timer,
        PairKind::Task => Reason::Task,
        PairKind::Message => Reason::Message,
        PairKind::Callback => Reason::FrameCallback,
        PairKind::Item => Reason::Item,
        PairKind::Wake => Reason::Wake,
        PairKind::Post => Reason::Post,
        PairKind::Traversal => Reason::Traversal,
        PairKind::Transaction => Reason::Transaction,
        PairKind::Reply => Reason::Reply,
    };
    Some((reason, EdgeClass::Strong))
}
