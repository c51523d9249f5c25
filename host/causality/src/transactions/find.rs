// SPDX-License-Identifier: Apache-2.0
//! From the graph to transactions.

use hashbrown::HashMap;
use hindsight_decoder::catalogue::FRAME_CALLBACKS;
use hindsight_decoder::{Extension, ThreadEvent};

use super::flow::Flow;
use super::members::{self, Members};
use super::model::{Limits, Member, Transaction, TransactionId, Update, Via};
use super::periodic::firings;
use super::roots::{candidates, is_mark, Candidate};
use super::scope::end_of_part;
use crate::graph::{Graph, NodeId, NodeKind};
use crate::session::{EventId, Session, ThreadId};

/// The word of marks that stand for updates of the screen.
const UPDATE_MARK: &str = "update";

/// Whether the program marked an update of the screen.
pub(super) fn is_update_mark(session: &Session, thread: ThreadId, event: &ThreadEvent) -> bool {
    is_mark(session, thread, event, UPDATE_MARK)
}

/// The transactions of a session.
pub struct Transactions {
    list: Vec<Transaction>,
    members: Members,
    flow: Flow,
}

impl Transactions {
    /// All transactions of a graph, which is the graph of this session.
    pub fn find(session: &Session, graph: &Graph) -> Self {
        let flow = Flow::of(graph);
        let firings = firings(session, graph);
        let candidates = candidates(session, graph, &flow, &firings);
        let members = members::find(session, graph, &flow, &candidates);
        let mut list: Vec<Transaction> = members
            .begun_by
            .iter()
            .map(|&c| begin(&candidates[c]))
            .collect();
        for (index, member) in members.all.iter().enumerate() {
            add(session, graph, &mut list, index as u32, member);
        }
        for transaction in &mut list {
            end(graph, &members, transaction);
        }
        interrupt(session, &mut list);
        Transactions {
            list,
            members,
            flow,
        }
    }

    /// Number of transactions.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All transactions with their numbers, in the order of their beginnings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (TransactionId, &Transaction)> {
        self.list
            .iter()
            .enumerate()
            .map(|(i, t)| (TransactionId(i as u32), t))
    }

    /// A transaction; `None` if there is none with this number.
    pub fn get(&self, id: TransactionId) -> Option<&Transaction> {
        self.list.get(id.index())
    }

    /// A member, by its index among all members.
    ///
    /// # Panics
    /// If there is none.
    pub fn member(&self, index: u32) -> &Member {
        &self.members.all[index as usize]
    }

    /// Number of members of all transactions.
    pub fn member_count(&self) -> usize {
        self.members.all.len()
    }

    /// The members of a transaction, with their indices, causes before effects.
    pub fn members_of(&self, id: TransactionId) -> impl Iterator<Item = (u32, &Member)> {
        let members = self.get(id).map_or(&[][..], |t| &t.members[..]);
        members.iter().map(|&m| (m, self.member(m)))
    }

    /// The member that an event of a node belongs to; of several, that of the transaction that caused the work.
    pub fn at(&self, node: NodeId, event: u32) -> Option<u32> {
        self.members.places.owner(&self.members.all, node, event)
    }

    /// The member of a transaction that an event of a node belongs to.
    pub(super) fn member_at(&self, node: NodeId, event: u32, id: TransactionId) -> Option<u32> {
        self.members.places.at(&self.members.all, node, event, id)
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    /// What was left out.
    pub fn limits(&self) -> Limits {
        self.members.limits
    }
}

fn begin(candidate: &Candidate) -> Transaction {
    Transaction {
        kind: candidate.kind,
        thread: candidate.root.event.thread,
        what: candidate.what,
        begin_ns: candidate.root.origin_ns,
        end_ns: candidate.at_ns,
        members: Vec::new(),
        updates: Vec::new(),
        interrupted_by: None,
        is_unfinished: false,
    }
}

/// Adds a member to its transaction.
fn add(session: &Session, graph: &Graph, list: &mut [Transaction], index: u32, member: &Member) {
    let transaction = &mut list[member.transaction.index()];
    transaction.members.push(index);
    if let Via::Root(root) = member.via {
        transaction.begin_ns = transaction.begin_ns.min(root.origin_ns);
    }
    let about = graph.node(member.node);
    let thread = session.thread(about.thread);
    let range = member.first_event as usize..member.end_event as usize;
    let events = thread.events.get(range).unwrap_or_default();
    for (event, i) in events.iter().zip(member.first_event..) {
        let at = match event.kind {
            Extension::TraversalEnd => Some((i, event.at_ns)),
            Extension::CallbackRun => drawn(thread, i, about.end_event),
            _ if is_update_mark(session, about.thread, event) => Some((i, event.at_ns)),
            _ => None,
        };
        if let Some((event, at_ns)) = at {
            transaction.updates.push(Update {
                event: EventId {
                    thread: about.thread,
                    event,
                },
                at_ns,
                member: index,
            });
        }
    }
}

/// The end of a frame's callback that lays out and draws, if no traversal of a window is recorded in it.
fn drawn(thread: &hindsight_decoder::Thread, event: u32, node_end: u32) -> Option<(u32, u64)> {
    let begin = thread.events.get(event as usize)?;
    let sort = usize::try_from(begin.get("type")).ok()?;
    if FRAME_CALLBACKS.get(sort) != Some(&"traversal") {
        return None;
    }
    let end = end_of_part(&thread.events, event, node_end);
    let inside = thread.events.get(event as usize + 1..end as usize)?;
    if inside.iter().any(|e| e.kind == Extension::TraversalBegin) {
        return None;
    }
    let last = end.checked_sub(1)?;
    let at_ns = match thread.events.get(end as usize) {
        Some(next) if end < node_end => next.at_ns,
        _ => thread.events.get(last as usize)?.at_ns,
    };
    Some((last, at_ns))
}

/// Work that is not only the code of a thread that goes on after a mark.
fn is_work(graph: &Graph, member: &Member) -> bool {
    let kind = graph.node(member.node).kind;
    !(member.is_of_mark && matches!(kind, NodeKind::Run | NodeKind::Wait))
}

/// Notes the end of a transaction: of the work that only it caused.
fn end(graph: &Graph, members: &Members, transaction: &mut Transaction) {
    let own = |m: &&u32| !members.all[**m as usize].is_shared;
    let work = |m: &&u32| is_work(graph, &members.all[**m as usize]);
    let all = transaction.members.iter();
    let mut ends: Vec<&Member> = all
        .clone()
        .filter(own)
        .filter(work)
        .map(|&m| &members.all[m as usize])
        .collect();
    if ends.is_empty() {
        ends = all.map(|&m| &members.all[m as usize]).collect();
    }
    for member in &ends {
        transaction.end_ns = transaction.end_ns.max(member.end_ns);
        let about = graph.node(member.node);
        transaction.is_unfinished |= about.is_open && member.end_ns == about.end_ns;
    }
    transaction.updates.sort_by_key(|u| (u.at_ns, u.event));
    transaction.updates.dedup_by_key(|u| u.event);
    if let Some(last) = transaction.updates.last() {
        transaction.end_ns = transaction.end_ns.max(last.at_ns);
    }
    transaction.end_ns = transaction.end_ns.max(transaction.begin_ns);
}

/// Notes for each transaction of the user the next one of the same process, if it began too early.
fn interrupt(session: &Session, list: &mut [Transaction]) {
    // By trace: the next transaction of the user, from the last one on.
    let mut next: HashMap<usize, usize> = HashMap::new();
    for i in (0..list.len()).rev() {
        if !list[i].kind.is_of_user() {
            continue;
        }
        let trace = session.about(list[i].thread).trace();
        let until_ns = list[i].last_update().map_or(list[i].end_ns, |u| u.at_ns);
        let later = next.insert(trace, i);
        let later = later.filter(|&l| list[l].begin_ns < until_ns);
        list[i].interrupted_by = later.map(|l| TransactionId(l as u32));
    }
}
