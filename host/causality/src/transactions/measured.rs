// SPDX-License-Identifier: Apache-2.0
//! How long transactions took, in numbers that many of them are compared by.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::component::{Component, Shares};
use super::find::Transactions;
use super::model::TransactionId;
use super::path::{CriticalPath, Paths, StepKind};
use crate::graph::Graph;
use crate::session::Session;

/// The critical path of a transaction, in numbers.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The transaction.
    pub id: TransactionId,
    /// Length of its critical path, ns.
    pub path_ns: u64,
    /// On what it is spent.
    pub shares: Shares,
    /// The same for paths of the same work in the same order.
    pub signature: u64,
    /// Its stages: neighbouring steps of the same work are one.
    pub stages: Vec<Stage>,
    /// Number of edges of the path between pieces of work.
    pub edges: usize,
    /// Number of edges of the transaction.
    pub all_edges: usize,
    /// Number of separate stretches of the path that are of the network.
    pub requests: usize,
}

/// A part of a critical path: one piece of work, one wait, or one time in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// What most of it is spent on.
    pub component: Component,
    /// The same for stages of the same work.
    pub signature: u64,
    /// Its length, ns.
    pub ns: u64,
    /// The index of its first step.
    pub step: usize,
}

impl Measured {
    /// The stage that takes the most time.
    pub fn dominant(&self) -> Option<&Stage> {
        self.stages
            .iter()
            .max_by_key(|s| (s.ns, std::cmp::Reverse(s.step)))
    }

    /// The part of the time that the two longest stages take, from 0 to 1. `None` if it took no time.
    pub fn two_longest(&self) -> Option<f64> {
        let mut lengths: Vec<u64> = self.stages.iter().map(|s| s.ns).collect();
        lengths.sort_unstable_by_key(|&ns| std::cmp::Reverse(ns));
        let longest: u64 = lengths.iter().take(2).sum();
        (self.path_ns > 0).then(|| longest as f64 / self.path_ns as f64)
    }
}

/// All transactions, measured.
pub fn measure(
    session: &Session,
    graph: &Graph,
    found: &Transactions,
    paths: &Paths<'_>,
) -> Vec<Measured> {
    let all = found.iter().filter_map(|(id, _)| paths.path(id));
    all.map(|path| Measured::of(session, graph, found, &path))
        .collect()
}

impl Measured {
    /// Of a critical path.
    pub fn of(session: &Session, graph: &Graph, found: &Transactions, path: &CriticalPath) -> Self {
        let mut stages: Vec<Stage> = Vec::new();
        for (i, step) in path.steps.iter().enumerate() {
            let mut hasher = DefaultHasher::new();
            let about = graph.node(step.node);
            about.kind.name().hash(&mut hasher);
            session.string(about.what).hash(&mut hasher);
            // Waits inside work are a part of it: whether a thread has to wait is chance.
            let is_handed_over = matches!(step.kind, StepKind::HandedOver(_) | StepKind::Delivery);
            is_handed_over.hash(&mut hasher);
            let signature = hasher.finish();
            let ns = step.end_ns - step.begin_ns;
            match stages.last_mut().filter(|s| s.signature == signature) {
                Some(stage) => stage.ns += ns,
                None => stages.push(Stage {
                    component: Component::Unknown,
                    signature,
                    ns,
                    step: i,
                }),
            }
        }
        for i in 0..stages.len() {
            let end = stages.get(i + 1).map_or(path.steps.len(), |next| next.step);
            let mut shares = Shares::default();
            for step in &path.steps[stages[i].step..end] {
                shares.add_all(&step.shares);
            }
            if let Some((component, _)) = shares.largest() {
                stages[i].component = component;
            }
        }
        let mut hasher = DefaultHasher::new();
        for stage in &stages {
            stage.signature.hash(&mut hasher);
        }
        let is_request = |s: &super::path::Step| {
            s.shares
                .largest()
                .is_some_and(|l| l.0 == Component::Network)
        };
        let members = found.get(path.transaction).map_or(0, |t| t.members.len());
        Measured {
            id: path.transaction,
            path_ns: path.duration_ns(),
            shares: path.shares(),
            signature: hasher.finish(),
            edges: path.steps.iter().filter(|s| s.edge.is_some()).count(),
            all_edges: members.saturating_sub(1),
            requests: path.steps.iter().filter(|s| is_request(s)).count(),
            stages,
        }
    }
}
