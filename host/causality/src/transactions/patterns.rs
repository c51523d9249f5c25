// SPDX-License-Identifier: Apache-2.0
//! What many transactions have in common (AppInsight, OSDI 2012, § 7 and § 8.2).

use std::collections::BTreeMap;

use super::component::Component;
use super::find::Transactions;
use super::groups::Group;
use super::measured::Measured;
use super::model::TransactionId;
use super::path::Paths;
use super::spread::median;
use crate::session::Session;

/// The first transaction of a process is slow if it took so many times as long as the others of its group …
const FIRST_IS_SLOW: f64 = 2.0;
/// … and so much longer, ns.
const FIRST_IS_SLOW_NS: f64 = 50_000_000.0;
/// Requests in series are reported if so great a part of a group has two or more on its critical paths.
const SERIAL_PART: f64 = 0.5;

/// A critical path that transactions of a group have in common: the same work in the same order.
#[derive(Clone, Debug)]
pub struct CommonPath {
    /// A transaction that has it.
    pub example: TransactionId,
    /// The number of transactions that have it.
    pub count: usize,
}

/// What the transactions of a group have in common.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    /// The different critical paths, the most common first.
    pub paths: Vec<CommonPath>,
    /// Whether the longest stage is not the same in all transactions of the most common path.
    pub dominant_varies: bool,
    /// The number of transactions that were interrupted.
    pub interrupted: usize,
    /// CPU time that interrupted ones used after they had been interrupted, ns.
    pub wasted_ns: u64,
    /// The number of transactions with two or more network requests in series on the critical path, if that is a pattern.
    pub serial_requests: Option<usize>,
    /// The first transaction of a process took much longer than later ones.
    pub first_use: Option<FirstUse>,
}

/// The first transactions of processes are slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstUse {
    /// The number of processes.
    pub processes: usize,
    /// Median of the lengths of the first ones, ns.
    pub first_ns: f64,
    /// Median of the lengths of the others, ns.
    pub later_ns: f64,
}

/// The patterns of a group; `measured` has its transactions.
pub fn patterns(
    session: &Session,
    found: &Transactions,
    paths: &Paths<'_>,
    group: &Group,
    measured: &[&Measured],
) -> Patterns {
    let mut by_path: BTreeMap<u64, Vec<&Measured>> = BTreeMap::new();
    for one in measured {
        by_path.entry(one.signature).or_default().push(one);
    }
    let mut common: Vec<Vec<&Measured>> = by_path.into_values().collect();
    common.sort_by_key(|c| (std::cmp::Reverse(c.len()), c[0].id));
    let dominant_varies = common.first().is_some_and(|same| {
        let mut dominant = same.iter().map(|m| m.dominant().map(|s| s.signature));
        let first = dominant.next();
        dominant.any(|d| Some(d) != first)
    });
    let (mut interrupted, mut wasted_ns) = (0, 0);
    for &id in &group.transactions {
        let by = found.get(id).and_then(|t| t.interrupted_by);
        if let Some(by) = by.and_then(|by| found.get(by)) {
            interrupted += 1;
            wasted_ns += paths.used_after(id, by.begin_ns)[Component::Running];
        }
    }
    let serial = measured.iter().filter(|m| m.requests > 1).count();
    let is_pattern = serial > 0 && serial as f64 >= SERIAL_PART * measured.len() as f64;
    Patterns {
        paths: common
            .iter()
            .map(|same| CommonPath {
                example: same[0].id,
                count: same.len(),
            })
            .collect(),
        dominant_varies,
        interrupted,
        wasted_ns,
        serial_requests: is_pattern.then_some(serial),
        first_use: first_use(session, found, measured),
    }
}

fn first_use(session: &Session, found: &Transactions, measured: &[&Measured]) -> Option<FirstUse> {
    /// Fewer later ones say little.
    const LEAST_LATER: usize = 3;
    let mut processes: BTreeMap<usize, Vec<(u64, f64)>> = BTreeMap::new();
    for one in measured {
        let transaction = found.get(one.id)?;
        let trace = session.about(transaction.thread).trace();
        let lengths = processes.entry(trace).or_default();
        lengths.push((transaction.begin_ns, one.path_ns as f64));
    }
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for lengths in processes.values_mut() {
        lengths.sort_by_key(|l| l.0);
        first.push(lengths[0].1);
        later.extend(lengths[1..].iter().map(|l| l.1));
    }
    if later.len() < LEAST_LATER {
        return None;
    }
    let found = FirstUse {
        processes: first.len(),
        first_ns: median(first),
        later_ns: median(later),
    };
    let is_slow = found.first_ns >= FIRST_IS_SLOW * found.later_ns
        && found.first_ns - found.later_ns >= FIRST_IS_SLOW_NS;
    is_slow.then_some(found)
}

/// Two groups of which a transaction of the user often follows one of the other: their indices, and how often. The most
/// frequent first.
pub fn sequences(
    session: &Session,
    found: &Transactions,
    groups: &[Group],
) -> Vec<((usize, usize), usize)> {
    let mut group_of: BTreeMap<TransactionId, usize> = BTreeMap::new();
    for (i, group) in groups.iter().enumerate() {
        group_of.extend(group.transactions.iter().map(|&t| (t, i)));
    }
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (id, transaction) in found.iter() {
        let Some(&group) = group_of.get(&id).filter(|_| transaction.kind.is_of_user()) else {
            continue;
        };
        let trace = session.about(transaction.thread).trace();
        if let Some(before) = last.insert(trace, group) {
            *counts.entry((before, group)).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
    counts
}
