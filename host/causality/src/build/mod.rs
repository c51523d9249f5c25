// SPDX-License-Identifier: Apache-2.0
//! From a session to its graph (P-1).

mod boost;
mod changes;
mod circles;
mod edges;
mod fields;
mod herds;
mod idle;
mod made;
mod nodes;
mod of_thread;
mod sorts;

use hindsight_analysis::SpanFinder;

use crate::graph::{Adjacency, Graph};
use crate::rules::Rules;
use crate::session::Session;

pub(crate) use circles::of_circles;
use edges::Finder;
use made::Made;
use of_thread::OfThread;

/// Why there is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The traces have more events than can be numbered.
    #[error("the traces have {events} events; a graph has at most {most}: give fewer traces, or a part of them")]
    TooManyEvents {
        /// Number of events.
        events: usize,
        /// The greatest number.
        most: usize,
    },
}

/// The most events of a graph: numbers of nodes, events and edges have 32 bits, and an event makes at most four edges.
const MOST_EVENTS: usize = 1 << 29;

impl Graph {
    /// The graph of a session.
    ///
    /// # Errors
    /// If the traces are too large.
    pub fn build(session: &Session) -> Result<Graph, BuildError> {
        Graph::build_with(session, &Rules::default())
    }

    /// The graph of a session, changed by the user's rules.
    ///
    /// # Errors
    /// If the traces are too large.
    pub fn build_with(session: &Session, rules: &Rules) -> Result<Graph, BuildError> {
        let events = session.event_count();
        if events > MOST_EVENTS {
            return Err(BuildError::TooManyEvents {
                events,
                most: MOST_EVENTS,
            });
        }
        let beginnings = changes::beginnings(session, rules);
        let mut made = Made::for_events(events);
        let mut spans = SpanFinder::default();
        let mut finder = Finder::new(session, rules, events);
        // One trace after the other: its events are still in the processor's caches when its edges are found.
        for trace in 0..session.traces().len() {
            for thread in session.threads_of(trace) {
                let beginnings = &beginnings[thread.0 as usize];
                let rules = OfThread::new(session, thread, rules, beginnings);
                nodes::add(session, thread, &rules, &mut spans, &mut made);
            }
            finder.of_trace(trace, &made);
        }
        let (mut edges, mut facts) = finder.finish(&made);
        let Made {
            nodes,
            waits,
            thread_nodes,
            thread_waits,
        } = made;
        boost::boost(session, &nodes, &mut edges);
        changes::apply(session, rules, &nodes, &mut edges, &mut facts);
        let edges = circles::without(edges, &nodes, &mut facts);
        Ok(Graph {
            incoming: Adjacency::of_ends(&edges.to, nodes.len()),
            outgoing: Adjacency::of_ends(&edges.from, nodes.len()),
            nodes,
            edges,
            waits,
            thread_nodes,
            thread_waits,
            facts,
        })
    }
}
