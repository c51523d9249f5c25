// SPDX-License-Identifier: Apache-2.0
//! Rules that the tool proposes where the graph looks wrong: a node that works for several processes that have nothing
//! to do with each other.

use std::collections::BTreeMap;

use crate::graph::{Edge, Graph, NodeId, NodeKind, Reason};
use crate::session::{EventId, Session};

/// The most edges back from a node to the process that it works for.
const MOST_BACK: usize = 8;

/// A rule that the user may want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    /// The node that looks wrong; the first one of several that do in the same way.
    pub node: NodeId,
    /// How many nodes do.
    pub nodes: usize,
    /// Names of the processes that it joins, some of them.
    pub processes: Vec<String>,
    /// The rule, as it is written in a rules file.
    pub rule: String,
}

/// The most names in a suggestion.
const MOST_NAMES: usize = 4;

impl Graph {
    /// Rules that split nodes that work for several other processes, the ones that are for most nodes first.
    pub fn suggestions(&self, session: &Session) -> Vec<Suggestion> {
        // By process, thread and event.
        let mut found: BTreeMap<(String, String, &'static str), Suggestion> = BTreeMap::new();
        for node in self.node_ids() {
            let causes: Vec<Edge> = self.causes(node).collect();
            if causes.len() < 2 {
                continue;
            }
            let own = session.about(self.node(node).thread).trace();
            let origins = causes.iter().filter_map(|e| self.origin(session, e));
            let mut origins: Vec<usize> = origins.filter(|&o| o != own).collect();
            origins.sort_unstable();
            origins.dedup();
            if origins.len() < 2 {
                continue;
            }
            let thread = self.node(node).thread;
            let event = session.event(EventId {
                thread,
                event: causes[1].to_event,
            });
            let Some(event) = event.map(|e| e.spec().name) else {
                continue;
            };
            let process = session.trace(own).process.name.clone();
            let name = |&o: &usize| session.trace(o).process.name.clone();
            let key = (process, session.thread_name(thread).to_owned(), event);
            let rule = rule(&key);
            let suggestion = found.entry(key).or_insert_with(|| Suggestion {
                node,
                nodes: 0,
                processes: origins.iter().take(MOST_NAMES).map(name).collect(),
                rule,
            });
            suggestion.nodes += 1;
        }
        let mut all: Vec<Suggestion> = found.into_values().collect();
        all.sort_by_key(|s| (std::cmp::Reverse(s.nodes), s.node));
        all
    }

    /// The edges by which work is handed to a node, in the order of their effects.
    fn causes(&self, node: NodeId) -> impl Iterator<Item = Edge> {
        let edges = self.incoming(node).iter().map(|&e| self.edge(e));
        let mut edges: Vec<Edge> = edges
            .filter(|e| {
                use Reason::{Item, Message, Post, Rule, Task, Transaction};
                matches!(e.reason, Item | Message | Post | Rule | Task | Transaction)
            })
            .collect();
        edges.sort_by_key(|e| e.to_event);
        edges.into_iter()
    }

    /// The index of the trace whose process the source of an edge works for: it serves a transaction, or was handed its
    /// work by a node that does.
    fn origin(&self, session: &Session, edge: &Edge) -> Option<usize> {
        let mut node = edge.from;
        for _ in 0..MOST_BACK {
            let cause = self.causes(node).next();
            let of = self.node(node);
            match cause {
                Some(cause) if of.kind == NodeKind::Service => {
                    let client = self.node(cause.from).thread;
                    return Some(session.about(client).trace());
                }
                Some(cause) if cause.to_event == of.first_event => node = cause.from,
                _ => return None,
            }
        }
        None
    }
}

fn rule((process, thread, event): &(String, String, &'static str)) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let (process, thread) = (quoted(process), quoted(thread));
    format!("[[split]]\nprocess = \"{process}\"\nthread = \"{thread}\"\nevent = \"{event}\"\n")
}
