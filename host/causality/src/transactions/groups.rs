// SPDX-License-Identifier: Apache-2.0
//! Groups of transactions that are the same interaction (P-10; AppInsight, OSDI 2012, § 6.4).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use hindsight_analysis::is_platform_class;

use super::find::Transactions;
use super::model::{Member, RootKind, Transaction, TransactionId, Via};
use crate::graph::{Graph, Reason};
use crate::session::{EventId, Session};
use crate::strings::StringId;

/// What transactions of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The graph: the same work, caused in the same way. Waits, times and threads do not count.
    Graph,
    /// What began it, and the class that handled it.
    Handler,
}

/// Transactions that are the same interaction.
#[derive(Clone, Debug)]
pub struct Group {
    /// Identifies it: the same in all sessions, for the same program.
    pub key: u64,
    /// What began its transactions.
    pub kind: RootKind,
    /// The class that handled them; see [`handler`].
    pub handler: StringId,
    /// Number of pieces of work of the first one.
    pub work: usize,
    /// In the order of their beginnings.
    pub transactions: Vec<TransactionId>,
}

/// The first class of the program, and not of the platform, that did something for a transaction; if there is none, the class
/// or name of its root.
pub fn handler(
    session: &Session,
    graph: &Graph,
    found: &Transactions,
    transaction: &Transaction,
) -> StringId {
    let classes = transaction
        .members
        .iter()
        .map(|&m| graph.node(found.member(m).node).what);
    let own = std::iter::once(transaction.what)
        .chain(classes)
        .find(|&what| {
            let class = session.string(what);
            !class.is_empty() && !is_platform_class(class)
        });
    own.unwrap_or(transaction.what)
}

/// The groups of all transactions, the largest first.
pub fn groups(session: &Session, graph: &Graph, found: &Transactions, by: GroupBy) -> Vec<Group> {
    let mut groups: BTreeMap<u64, Group> = BTreeMap::new();
    for (id, transaction) in found.iter() {
        let handler = handler(session, graph, found, transaction);
        let mut hasher = DefaultHasher::new();
        transaction.kind.name().hash(&mut hasher);
        session.string(handler).hash(&mut hasher);
        if by == GroupBy::Graph {
            shape(session, graph, found, transaction).hash(&mut hasher);
        }
        let key = hasher.finish();
        let group = groups.entry(key).or_insert_with(|| Group {
            key,
            kind: transaction.kind,
            handler,
            work: transaction.members.len(),
            transactions: Vec::new(),
        });
        group.transactions.push(id);
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|g| (std::cmp::Reverse(g.transactions.len()), g.transactions[0]));
    groups
}

/// An effect of a piece of work: its place among the effects, and its hash. Effects of the same thread are in the order of its
/// program; others, whose order is chance, in the order of their hashes.
type Effect = (bool, u64, u64);

/// A hash of the graph of a transaction: the same for transactions with the same graph.
fn shape(session: &Session, graph: &Graph, found: &Transactions, transaction: &Transaction) -> u64 {
    let members = &transaction.members;
    let place = |member: u32| members.binary_search(&member).ok();
    let mut effects: Vec<Vec<Effect>> = vec![Vec::new(); members.len()];
    let mut roots: Vec<u64> = Vec::new();
    // Effects come after their causes.
    for (i, &index) in members.iter().enumerate().rev() {
        let member = found.member(index);
        let own = std::mem::take(&mut effects[i]);
        let parent = place(member.parent);
        match (passed_on(graph, member), parent) {
            // It is no work of its own: its effects are those of its cause.
            (Some(keeps_order), Some(parent)) => {
                let own =
                    own.into_iter()
                        .map(|(is_ordered, at, hash)| match keeps_order && is_ordered {
                            true => (true, at, hash),
                            false => (false, hash, hash),
                        });
                effects[parent].extend(own);
            }
            (_, parent) => {
                let is_root = matches!(member.via, Via::Root(_));
                let is_empty = own.is_empty();
                let hash = hash_of(session, graph, member, own);
                match parent {
                    // An input event that caused nothing, such as a movement of the finger, does not count.
                    _ if is_root && is_empty && members.len() > 1 => {}
                    Some(parent) if !is_root => {
                        effects[parent].push((true, sent_by(graph, member), hash))
                    }
                    _ => roots.push(hash),
                }
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    roots.reverse();
    roots.hash(&mut hasher);
    hasher.finish()
}

/// Whether a member is only what a thread does next, or after a wait, and then whether it keeps the order of its cause.
fn passed_on(graph: &Graph, member: &Member) -> Option<bool> {
    match member.via {
        Via::Next => Some(true),
        Via::Edge(id) if graph.edge(id).reason == Reason::Wake => Some(false),
        _ => None,
    }
}

/// The event of the cause.
fn sent_by(graph: &Graph, member: &Member) -> u64 {
    match member.via {
        Via::Edge(id) => graph.edge(id).from_event.into(),
        _ => 0,
    }
}

fn hash_of(session: &Session, graph: &Graph, member: &Member, mut effects: Vec<Effect>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let about = graph.node(member.node);
    about.kind.name().hash(&mut hasher);
    session.string(about.what).hash(&mut hasher);
    let event = EventId {
        thread: about.thread,
        event: member.first_event,
    };
    // Messages of one handler differ by this number.
    let event = session.event(event);
    event.map_or(0, |e| e.get("what")).hash(&mut hasher);
    event.map(|e| e.spec().identifier).hash(&mut hasher);
    if let Via::Edge(id) = member.via {
        graph.edge(id).reason.name().hash(&mut hasher);
    }
    // In the order of the program, and those without an order by their hashes.
    effects.sort_unstable_by_key(|&(is_ordered, at, hash)| (!is_ordered, at, hash));
    for (_, _, hash) in effects {
        hash.hash(&mut hasher);
    }
    hasher.finish()
}
