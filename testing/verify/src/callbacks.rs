// SPDX-License-Identifier: Apache-2.0
//! Compares a graph with what a program knows of its callbacks: no edge may lead to another callback than the one that was handed
//! over, and each callback has a path to it, or has none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{ensure, Context as _, Error, Result};
use hindsight_causality::{Edge, EdgeClass, EventId, Graph, NodeId, Reason, Rules, Session};
use hindsight_decoder::{library_rules, Extension, Trace};

use crate::hops::{Hop, Hops};

/// What is known of a program's callbacks.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Edges that hand work over, from thread to thread.
    pub edges: u64,
    /// How many of them lead to a callback that was just handed over: the program knows to which.
    pub judged: u64,
    /// Edges that lead to another callback than the one that was handed over.
    pub wrong: Vec<String>,
    /// Callbacks to which a path leads from where they were handed over, without any rule.
    pub found: u64,
    /// Callbacks to which a path leads only with the rules for libraries.
    pub found_with_rules: u64,
    /// Callbacks to which no path leads, by the names of the threads that handed them over and ran them.
    pub unknown: BTreeMap<String, u64>,
}

/// Compares the graph of these files, with and without the rules for libraries, with the marks in them.
///
/// # Errors
/// If a file cannot be read, or a callback is not recorded where it was handed over and where it ran.
pub fn judge(files: &[PathBuf]) -> Result<Verdict> {
    let mut traces = Vec::new();
    for file in files {
        let trace = Trace::open(file).with_context(|| format!("{}", file.display()))?;
        traces.push((file.clone(), trace));
    }
    judge_session(&Session::of(traces))
}

fn judge_session(session: &Session) -> Result<Verdict> {
    let hops = Hops::of(session)?;
    let is_whole = |hop: &&Hop| hop.submitted.is_some() && hop.ran.is_some();
    let whole = hops.all.values().filter(is_whole).count();
    ensure!(whole > 0, "it has recorded no callbacks");
    ensure!(
        whole == hops.all.len(),
        "{whole} of {} callbacks are recorded",
        hops.all.len()
    );
    let without = Graph::build(session)?;
    let with = Graph::build_with(session, &Rules::default().with_libraries(session))?;
    let mut verdict = Verdict::default();
    let taken = taken_from_libraries(session, &with);
    let mut wrong = BTreeSet::new();
    let mut reached = Vec::new();
    for graph in [&without, &with] {
        graph.check(session).map_err(Error::msg)?;
        let edges = Edges::of(session, &hops, graph, &taken);
        let found = edges.wrong();
        wrong.extend(found.wrong);
        (verdict.edges, verdict.judged) = (found.edges, found.judged);
        let is_reached = |(&number, hop): (&u64, &Hop)| edges.lead_to(number, hop);
        reached.push(hops.all.iter().map(is_reached).collect::<Vec<bool>>());
    }
    verdict.wrong = wrong.into_iter().collect();
    for (i, hop) in hops.all.values().enumerate() {
        match (reached[0][i], reached[1][i]) {
            (true, _) => verdict.found += 1,
            (false, true) => verdict.found_with_rules += 1,
            (false, false) => {
                *verdict.unknown.entry(threads(session, hop)).or_default() += 1;
            }
        }
    }
    Ok(verdict)
}

/// The events with which threads take work out of queues of libraries: those that rules join, and those that give an element.
fn taken_from_libraries(session: &Session, graph: &Graph) -> BTreeSet<EventId> {
    let edges = graph.edge_ids().map(|e| graph.edge(e));
    let joined = edges.filter(|edge| edge.reason == Reason::Rule);
    let mut taken: BTreeSet<EventId> = joined
        .map(|edge| EventId {
            thread: graph.node(edge.to).thread,
            event: edge.to_event,
        })
        .collect();
    for thread in session.thread_ids() {
        let trace = session.about(thread).trace();
        let events = session.thread(thread).events.iter().zip(0..);
        let elements = events.filter(|(event, _)| {
            let name = || session.string(session.mark(trace, event.get("name")));
            event.kind == Extension::RuleEnd
                && event.get("object") != 0
                && (name().starts_with(library_rules::PREFIX) && name().ends_with("-take"))
        });
        taken.extend(elements.map(|(_, event)| EventId { thread, event }));
    }
    taken
}

/// `pool-1-thread-1 to main`.
fn threads(session: &Session, hop: &Hop) -> String {
    let name = |at: Option<EventId>| at.map_or("", |at| session.thread_name(at.thread));
    format!("{} to {}", name(hop.submitted), name(hop.ran))
}

/// What an edge says about callbacks.
#[derive(Default)]
struct Found {
    edges: u64,
    judged: u64,
    wrong: BTreeSet<String>,
}

/// The edges of a graph that hand work over.
struct Edges<'a> {
    session: &'a Session,
    hops: &'a Hops,
    graph: &'a Graph,
    /// The events with which threads take work out of queues of libraries.
    taken: &'a BTreeSet<EventId>,
    /// By thread, in the order of their causes.
    of_thread: Vec<Vec<Edge>>,
}

/// Whether an edge says that work was handed over. A wake-up only says that a wait was ended: the woken thread may find other
/// work than its waker's.
fn hands_over(edge: &Edge) -> bool {
    let is_handed = matches!(
        edge.reason,
        Reason::Message
            | Reason::Task
            | Reason::Item
            | Reason::Timer
            | Reason::FrameCallback
            | Reason::Post
            | Reason::Transaction
            | Reason::Rule
    );
    is_handed && edge.class == EdgeClass::Strong
}

impl<'a> Edges<'a> {
    fn of(
        session: &'a Session,
        hops: &'a Hops,
        graph: &'a Graph,
        taken: &'a BTreeSet<EventId>,
    ) -> Self {
        let mut of_thread = vec![Vec::new(); session.threads().len()];
        for edge in graph.edge_ids().map(|e| graph.edge(e)).filter(hands_over) {
            of_thread[graph.node(edge.from).thread.0 as usize].push(edge);
        }
        for edges in &mut of_thread {
            edges.sort_by_key(|edge: &Edge| edge.from_event);
        }
        Edges {
            session,
            hops,
            graph,
            taken,
            of_thread,
        }
    }

    fn cause(&self, edge: &Edge) -> EventId {
        EventId {
            thread: self.graph.node(edge.from).thread,
            event: edge.from_event,
        }
    }

    /// What a thread does after the effect of an edge, until it takes other work: up to which event that is, and the callback
    /// with which that begins.
    fn leads_to(&self, edge: &Edge, takes: impl Fn(EventId) -> bool) -> (u32, Option<u64>) {
        let node = self.graph.node(edge.to);
        let thread = node.thread;
        let mut later = (edge.to_event + 1)..node.end_event;
        let until = later.find(|&event| takes(EventId { thread, event }));
        let until = until.unwrap_or(node.end_event);
        match self.hops.first_run(thread, edge.to_event..until) {
            Some((run, event)) => (event, Some(run)),
            None => (until, None),
        }
    }

    /// Whether a thread takes work out of a queue with this event: the work that it took before has nothing to do with it.
    fn takes_work(&self, at: EventId) -> bool {
        use Extension::{ItemTaken, MessageDispatched, TaskBegin};
        let kind = self.session.event(at).map(|event| event.kind);
        kind.is_some_and(|kind| matches!(kind, ItemTaken | MessageDispatched | TaskBegin))
    }

    /// Judges the edges between threads.
    fn wrong(&self) -> Found {
        let mut found = Found::default();
        for edge in self.of_thread.iter().flatten() {
            let cause = self.cause(edge);
            if cause.thread == self.graph.node(edge.to).thread {
                continue;
            }
            found.edges += 1;
            // Where a library's task takes work out of the library's queue, its edge is not about that work.
            let takes = |at| self.takes_work(at) || self.taken.contains(&at);
            let handed_over = self.hops.handed_over_at(cause);
            let (Some(handed_over), (_, Some(ran))) = (handed_over, self.leads_to(edge, takes))
            else {
                continue;
            };
            found.judged += 1;
            if handed_over != ran {
                let words = self.words(edge, handed_over, ran);
                found.wrong.insert(words);
            }
        }
        found
    }

    fn words(&self, edge: &Edge, handed_over: u64, ran: u64) -> String {
        let cause = self.cause(edge);
        let to = self.graph.node(edge.to).thread;
        format!(
            "{} from {} (event {}), where {handed_over} was handed over, to {}, where {ran} runs",
            edge.reason.name(),
            self.session.thread_name(cause.thread),
            edge.from_event,
            self.session.thread_name(to)
        )
    }

    /// Whether a path of edges leads from where a callback was handed over to where it ran, and through no other callback.
    fn lead_to(&self, number: u64, hop: &Hop) -> bool {
        let (Some(submitted), Some(ran)) = (hop.submitted, hop.ran) else {
            return false;
        };
        if submitted.thread == ran.thread && self.is_at_once(submitted, ran) {
            return true;
        }
        let of_thread = &self.of_thread[submitted.thread.0 as usize];
        let is_handing_over = |e: &&Edge| (submitted.event..hop.until).contains(&e.from_event);
        let mut ahead: Vec<Edge> = of_thread.iter().filter(is_handing_over).copied().collect();
        let mut seen: BTreeSet<(NodeId, u32)> = BTreeSet::new();
        while let Some(edge) = ahead.pop() {
            let (until, ran) = self.leads_to(&edge, |at| self.takes_work(at));
            if ran == Some(number) {
                return true;
            }
            if seen.insert((edge.to, edge.to_event)) {
                let further = self.graph.outgoing(edge.to).iter();
                let further = further.map(|&e| self.graph.edge(e)).filter(hands_over);
                let is_next = |e: &Edge| (edge.to_event..until).contains(&e.from_event);
                ahead.extend(further.filter(is_next));
            }
        }
        false
    }

    /// Whether a callback ran in the piece of work that handed it over, before any other one.
    fn is_at_once(&self, submitted: EventId, ran: EventId) -> bool {
        let is_same = self.graph.node_of(submitted) == self.graph.node_of(ran);
        let between = submitted.event..ran.event;
        is_same && self.hops.first_run(submitted.thread, between).is_none()
    }
}

#[cfg(test)]
mod tests;
