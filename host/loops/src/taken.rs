// SPDX-License-Identifier: Apache-2.0
//! A method's instructions, and the way that a call took through them.

use std::collections::{BTreeMap, BTreeSet};

use crate::branches::Edge;
use crate::dex::{decode, switch_targets, Code, Kind};

/// The instructions of a method, and the way that a call took through them.
pub(crate) struct Taken<'a> {
    code: &'a Code,
    instructions: BTreeMap<u32, (Kind, u32)>,
    before: BTreeMap<u32, Vec<u32>>,
}

impl<'a> Taken<'a> {
    pub(crate) fn new(code: &'a Code, edges: &[Edge]) -> Self {
        let mut instructions = BTreeMap::new();
        let mut at = 0;
        while let Some((kind, length)) = decode(&code.units, at) {
            let (Ok(place), Ok(length32)) = (u32::try_from(at), u32::try_from(length)) else {
                break;
            };
            instructions.insert(place, (kind, length32));
            at += length;
        }
        let mut taken: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for edge in edges.iter().filter(|e| e.times != 0) {
            taken.entry(edge.from).or_default().push(edge.to);
        }
        let mut next = BTreeMap::new();
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            let Some((kind, length)) = instructions.get(&at) else {
                continue;
            };
            if next.contains_key(&at) {
                continue;
            }
            let after = match kind {
                Kind::Leaves => Vec::new(),
                Kind::Goto(_) | Kind::If { .. } | Kind::Switch { .. } => {
                    taken.get(&at).cloned().unwrap_or_default()
                }
                _ => vec![at + length],
            };
            open.extend(&after);
            next.insert(at, after);
        }
        Taken {
            before: invert(&next),
            code,
            instructions,
        }
    }

    pub(crate) fn kind(&self, at: u32) -> Option<Kind> {
        self.instructions.get(&at).map(|&(kind, _)| kind)
    }

    /// The instructions that were followed by the one at `at`.
    pub(crate) fn before(&self, at: u32) -> &[u32] {
        self.before.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Whether the instruction only copies a register.
    pub(crate) fn is_move(&self, at: u32) -> bool {
        let unit = self.code.units.get(at as usize);
        unit.is_some_and(|&unit| matches!(unit as u8, 0x01..=0x09))
    }

    /// The instructions from which `end` is reached without passing `begin`, `begin` included; `None` if `begin` does not
    /// lead to `end`.
    pub(crate) fn between(&self, begin: u32, end: u32) -> Option<BTreeSet<u32>> {
        let mut found = BTreeSet::from([begin]);
        let mut open = vec![end];
        let mut is_reached = begin == end;
        while let Some(at) = open.pop() {
            if !found.insert(at) {
                continue;
            }
            for &before in self.before(at) {
                is_reached |= before == begin;
                open.push(before);
            }
        }
        is_reached.then_some(found)
    }

    /// All places where a branch can go, whether it did or not.
    pub(crate) fn targets(&self, at: u32) -> Vec<u32> {
        let Some(&(kind, length)) = self.instructions.get(&at) else {
            return Vec::new();
        };
        let to = |offset: i32| at.wrapping_add_signed(offset);
        match kind {
            Kind::If { offset, .. } => vec![to(offset), at + length],
            Kind::Switch { table, .. } => {
                let targets = switch_targets(&self.code.units, to(table) as usize);
                let targets = targets.unwrap_or_default().into_iter().map(to);
                targets.chain([at + length]).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The instructions before each one, of the next ones of each.
fn invert(next: &BTreeMap<u32, Vec<u32>>) -> BTreeMap<u32, Vec<u32>> {
    let mut before: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&from, all) in next {
        for &to in all {
            before.entry(to).or_default().push(from);
        }
    }
    before
}
