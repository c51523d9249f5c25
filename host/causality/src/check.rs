// SPDX-License-Identifier: Apache-2.0
//! What holds for every graph.

use hashbrown::HashSet;

use crate::build::of_circles;
use crate::graph::{Edge, EdgeId, Graph, NodeId, Reason};
use crate::session::{EventId, Session, ThreadId};

impl Graph {
    /// Checks what holds for every graph, whatever the traces are: nodes are in order and have their events, no edge leads
    /// back in time, no edges make a circle, and what began was submitted once.
    ///
    /// # Errors
    /// The first thing that does not hold, in words.
    pub fn check(&self, session: &Session) -> Result<(), String> {
        for thread in session.thread_ids() {
            self.check_nodes(session, thread)?;
        }
        let mut begun: HashSet<(EventId, Reason)> = HashSet::new();
        let mut submitted: HashSet<(EventId, Reason)> = HashSet::new();
        for id in self.edge_ids() {
            let edge = self.edge(id);
            self.check_edge(session, id, &edge)?;
            if is_handed_over(edge.reason) {
                let (from, to) = self.ends(&edge);
                if !begun.insert((to, edge.reason)) {
                    return Err(format!("{edge:?} is the second cause of one beginning"));
                }
                if !submitted.insert((from, edge.reason)) {
                    return Err(format!("{edge:?} is the second effect of one cause"));
                }
            }
        }
        self.check_adjacency()?;
        match of_circles(&self.edges, &self.nodes).first() {
            Some(&edge) => Err(format!("{:?} is part of a circle", self.edge(edge))),
            None => Ok(()),
        }
    }

    fn check_nodes(&self, session: &Session, thread: ThreadId) -> Result<(), String> {
        let events = &session.thread(thread).events;
        let mut last: Option<NodeId> = None;
        let mut last_first = 0;
        for id in self.nodes_of(thread) {
            let node = self.node(id);
            let wrong = |what: &str| Err(format!("{id:?}, {node:?}: {what}"));
            if node.thread != thread {
                return wrong("it is of another thread");
            }
            if node.begin_ns > node.end_ns {
                return wrong("it ends before it begins");
            }
            let Some(own) = events.get(node.events()) else {
                return wrong("it has events that do not exist");
            };
            if node.first_event < last_first {
                return wrong("it begins before the last one");
            }
            last_first = node.first_event;
            if own.first().is_some_and(|e| e.at_ns < node.begin_ns) {
                return wrong("it begins after its first event");
            }
            if self.is_inside(id) {
                let around = last.map(|l| self.node(l));
                if around.is_none_or(|a| a.end_event < node.end_event) {
                    return wrong("it is inside no node");
                }
                continue;
            }
            if let Some(before) = last.map(|l| self.node(l)) {
                if before.end_event > node.first_event || before.end_ns > node.begin_ns {
                    return wrong("it overlaps the last one");
                }
            }
            last = Some(id);
        }
        Ok(())
    }

    fn ends(&self, edge: &Edge) -> (EventId, EventId) {
        let event = |node: NodeId, event| EventId {
            thread: self.node(node).thread,
            event,
        };
        (
            event(edge.from, edge.from_event),
            event(edge.to, edge.to_event),
        )
    }

    fn check_edge(&self, session: &Session, id: EdgeId, edge: &Edge) -> Result<(), String> {
        let wrong = |what: &str| Err(format!("{id:?}, {edge:?}: {what}"));
        if edge.from_ns > edge.to_ns {
            return wrong("the effect is before its cause");
        }
        if edge.from == edge.to {
            return wrong("it leads from a node to itself");
        }
        if edge.reason.is_of_thread() {
            return match self.next(edge.from) == Some(edge.to) {
                true => Ok(()),
                false => wrong("it does not lead to the next node"),
            };
        }
        let (from, to) = self.ends(edge);
        if self.node_of(from) != Some(edge.from) || self.node_of(to) != Some(edge.to) {
            return wrong("its events are of other nodes");
        }
        let at = |event| session.event(event).map(|e| e.at_ns);
        if at(from) != Some(edge.from_ns) || at(to) != Some(edge.to_ns) {
            return wrong("its times are not those of its events");
        }
        Ok(())
    }

    fn check_adjacency(&self) -> Result<(), String> {
        let (mut into, mut out) = (0, 0);
        for node in self.node_ids() {
            let incoming = self.incoming(node).iter();
            into += incoming.filter(|&&e| self.edge(e).to == node).count();
            let outgoing = self.outgoing(node).iter();
            out += outgoing.filter(|&&e| self.edge(e).from == node).count();
        }
        match (into, out) == (self.edge_count(), self.edge_count()) {
            true => Ok(()),
            false => Err("the edges at the nodes are not all edges".to_owned()),
        }
    }
}

/// Whether one thing is handed over: it begins once.
fn is_handed_over(reason: Reason) -> bool {
    use Reason::{
        FrameCallback, Item, Message, Post, Reply, Task, ThreadStart, Timer, Transaction, Traversal,
    };
    matches!(
        reason,
        Message
            | Task
            | ThreadStart
            | Item
            | Timer
            | FrameCallback
            | Traversal
            | Post
            | Transaction
            | Reply
    )
}
