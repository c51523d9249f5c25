// SPDX-License-Identifier: Apache-2.0
//! Cycles in the graph of modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tree::Crate;
use super::uses::{Edges, Use};
use crate::problem::Problem;

/// Items that a problem names.
const ITEMS_SHOWN: usize = 3;

/// Finds each dependency that is part of a cycle, and shows the shortest cycle that it is part of.
pub(super) fn find(edges: &Edges, krate: &Crate) -> Vec<Problem> {
    let mut next: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        next.entry(*from).or_default().insert(*to);
    }
    edges
        .iter()
        .filter_map(|((from, to), uses)| {
            let mut cycle = vec![*from];
            cycle.extend(way(*to, *from, &next)?);
            Some(problem(uses, &cycle, krate))
        })
        .collect()
}

/// The shortest way between two modules, with both ends.
fn way(from: usize, to: usize, next: &BTreeMap<usize, BTreeSet<usize>>) -> Option<Vec<usize>> {
    let mut before = BTreeMap::from([(from, from)]);
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let mut way = vec![at];
            while way[way.len() - 1] != from {
                way.push(before[&way[way.len() - 1]]);
            }
            way.reverse();
            return Some(way);
        }
        for &to in next.get(&at).into_iter().flatten() {
            before.entry(to).or_insert_with(|| {
                queue.push_back(to);
                at
            });
        }
    }
    None
}

fn problem(uses: &[Use], cycle: &[usize], krate: &Crate) -> Problem {
    let mut items: Vec<&str> = Vec::new();
    for one in uses {
        if !items.contains(&one.item.as_str()) {
            items.push(&one.item);
        }
    }
    let more = match items.len().saturating_sub(ITEMS_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<&str> = cycle
        .iter()
        .map(|module| krate.modules[*module].name.as_str())
        .collect();
    Problem::new(
        &uses[0].file,
        uses[0].line,
        format!(
            "{} uses {}{more}, in the cycle {}: move items so that one direction remains, for instance shared ones \
             to a module of their own",
            names[0],
            items[..items.len().min(ITEMS_SHOWN)].join(", "),
            names.join(" → ")
        ),
    )
}
