// SPDX-License-Identifier: Apache-2.0
//! The loops of a traced call: which instructions they have, and which branches could leave them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::branches::{Edge, TracedCall};
use crate::dex::{Archive, Kind};
use crate::sources::{value_of, Scene, Source, Value};
use crate::taken::Taken;

/// A loop that a call went through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loop {
    /// Its first instruction.
    pub begin: u32,
    /// How often it went round.
    pub times: u64,
    /// When rounds were recorded for the first and for the last time, CLOCK_BOOTTIME, ns.
    pub recorded_ns: (u64, u64),
    /// The branches on its way that can leave it; `None` without the method's code, or if the way is not known whole (a
    /// handler of exceptions is part of it).
    pub exits: Option<Vec<Exit>>,
}

/// A branch that can leave a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Exit {
    /// The branch instruction.
    pub at: u32,
    /// How often it left the loop in this call.
    pub times: u64,
    /// When it leaves; `None` for a `switch`.
    pub sense: Option<Sense>,
    /// Where the value that it looks at comes from, or the left one of two.
    pub left: Vec<Source>,
    /// Whether that is computed from these, rather than being one of them.
    pub left_is_computed: bool,
    /// The right one of two; empty if the left one is compared with 0.
    pub right: Vec<Source>,
    /// As for the left one.
    pub right_is_computed: bool,
}

/// A comparison: `==`, `!=`, `<`, `>=`, `>` or `<=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sense(&'static str);

impl Sense {
    /// As Java writes it.
    pub fn symbol(self) -> &'static str {
        self.0
    }
}

/// The loops that a call went through, those that went round most often first. What their branches read is found in
/// `archive`.
pub fn loops(archive: &Archive, call: &TracedCall) -> Vec<Loop> {
    let found = archive.code(&call.method);
    let taken = found
        .as_ref()
        .map(|(dex, code)| (*dex, Taken::new(code, &call.edges)));
    let mut begins: BTreeMap<u32, Vec<&Edge>> = BTreeMap::new();
    for edge in call.edges.iter().filter(|e| e.to <= e.from) {
        begins.entry(edge.to).or_default().push(edge);
    }
    let one = |(begin, back): (u32, Vec<&Edge>)| Loop {
        begin,
        times: back.iter().map(|e| e.times).sum(),
        recorded_ns: back.iter().fold((u64::MAX, 0), |(first, last), e| {
            (first.min(e.recorded_ns.0), last.max(e.recorded_ns.1))
        }),
        exits: taken.as_ref().and_then(|(dex, taken)| {
            let inside = inside(taken, &back)?;
            let scene = Scene {
                archive,
                dex,
                taken,
                inside: &inside,
            };
            Some(exits(scene, call))
        }),
    };
    let mut loops: Vec<Loop> = begins.into_iter().map(one).collect();
    loops.sort_by_key(|l| std::cmp::Reverse(l.times));
    loops
}

/// The instructions of a loop, given by the edges that go back to its begin; `None` if the way is not known whole.
fn inside(taken: &Taken<'_>, back: &[&Edge]) -> Option<BTreeSet<u32>> {
    let mut inside = BTreeSet::new();
    for edge in back {
        inside.append(&mut taken.between(edge.to, edge.from)?);
    }
    Some(inside)
}

/// The branches of a loop that can leave it.
fn exits(scene: Scene<'_>, call: &TracedCall) -> Vec<Exit> {
    let Scene { taken, inside, .. } = scene;
    let times = |from: u32, to: u32| {
        let edge = call.edges.iter().find(|e| (e.from, e.to) == (from, to));
        edge.map_or(0, |e| e.times)
    };
    let mut exits = Vec::new();
    for &branch in inside {
        let targets = taken.targets(branch).into_iter();
        let outside: BTreeSet<u32> = targets.filter(|to| !inside.contains(to)).collect();
        let Some(&first) = outside.first() else {
            continue;
        };
        let times = outside.iter().map(|&to| times(branch, to)).sum();
        exits.extend(exit(scene, branch, first, times));
    }
    exits
}

/// The branch at `branch` as an exit to `to`.
fn exit(scene: Scene<'_>, branch: u32, to: u32, times: u64) -> Option<Exit> {
    let value = |register| value_of(scene, branch, register);
    let exit = |sense, left: Value, right: Option<Value>| Exit {
        at: branch,
        times,
        sense,
        left: left.sources,
        left_is_computed: left.is_computed,
        right_is_computed: right.as_ref().is_some_and(|r| r.is_computed),
        right: right.map_or_else(Vec::new, |r| r.sources),
    };
    match scene.taken.kind(branch)? {
        Kind::If {
            compare,
            registers: (left, right),
            offset,
        } => {
            let compare = match branch.wrapping_add_signed(offset) == to {
                true => compare,
                false => compare.negated(),
            };
            let sense = Some(Sense(compare.symbol()));
            Some(exit(sense, value(left), right.map(value)))
        }
        Kind::Switch { register, .. } => Some(exit(None, value(register), None)),
        _ => None,
    }
}
