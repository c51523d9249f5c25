// SPDX-License-Identifier: Apache-2.0
//! Why transactions of a group differ (P-11; AppInsight, OSDI 2012, § 6.4 and § 8.1.3): analysis of variance.

use std::collections::BTreeMap;

use hindsight_analysis::{corrected, f_test};

use super::component::Component;
use super::measured::Measured;
use super::model::Transaction;
use super::spread::Spread;
use crate::session::Session;

/// Groups of fewer transactions are not analysed (AppInsight).
pub const LEAST_FOR_VARIANCE: usize = 10;
/// A corrected probability below this is no chance.
pub const SIGNIFICANT: f64 = 0.05;

/// The parts of the variance of a group's lengths.
#[derive(Clone, Debug, PartialEq)]
pub struct Variance {
    /// Mean and spread of the lengths, ns.
    pub spread: Spread,
    /// For each component, cov(x, y) / var(y), where x is its time and y the length. They add up to 1; a negative one makes
    /// the lengths more alike.
    pub parts: Vec<(Component, f64)>,
}

/// The parts of the variance of the lengths. `None` if there are too few transactions, or if they all took the same time.
pub fn variance(group: &[&Measured]) -> Option<Variance> {
    if group.len() < LEAST_FOR_VARIANCE {
        return None;
    }
    let lengths: Vec<f64> = group.iter().map(|m| m.path_ns as f64).collect();
    let spread = Spread::of(&lengths);
    let square = spread.deviation.powi(2) * (lengths.len() as f64 - 1.0);
    if square <= 0.0 {
        return None;
    }
    let part = |component: Component| {
        let times = group.iter().map(|m| m.shares[component] as f64);
        let mean = times.clone().sum::<f64>() / lengths.len() as f64;
        let products = times
            .zip(&lengths)
            .map(|(x, y)| (x - mean) * (y - spread.mean));
        products.sum::<f64>() / square
    };
    let parts = Component::ALL.into_iter().map(|c| (c, part(c)));
    let mut parts: Vec<_> = parts.filter(|(_, p)| *p != 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(Variance { spread, parts })
}

/// A fact about the device or the process in which the transactions of a group differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Factor {
    /// Index of the group.
    pub group: usize,
    /// The fact's name, such as `model`.
    pub name: String,
    /// Its values, with the number of transactions and the mean of their lengths, ns.
    pub values: Vec<(String, usize, f64)>,
    /// The part of the variance that it explains, η², from 0 to 1.
    pub explained: f64,
    /// The probability of that by chance, by the F test.
    pub p: f64,
    /// The same, corrected for the number of facts and groups that were tested (Benjamini and Hochberg).
    pub q: f64,
}

/// The facts that may explain why transactions of one group differ: of each group and each fact.
pub fn factors(session: &Session, groups: &[Vec<(&Transaction, &Measured)>]) -> Vec<Factor> {
    let mut found = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        if group.len() < LEAST_FOR_VARIANCE {
            continue;
        }
        // By fact and value, the lengths.
        let mut facts: BTreeMap<String, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
        for (transaction, measured) in group {
            for (name, value) in facts_of(session, transaction) {
                let lengths = facts.entry(name).or_default().entry(value).or_default();
                lengths.push(measured.path_ns as f64);
            }
        }
        let of_group = facts
            .into_iter()
            .filter_map(|(name, values)| factor(index, name, &values));
        found.extend(of_group);
    }
    let corrected = corrected(&found.iter().map(|f| f.p).collect::<Vec<_>>());
    for (factor, q) in found.iter_mut().zip(corrected) {
        factor.q = q;
    }
    found.sort_by(|a, b| {
        a.q.total_cmp(&b.q)
            .then(b.explained.total_cmp(&a.explained))
    });
    found
}

/// The facts about the device and process of a transaction.
fn facts_of(session: &Session, transaction: &Transaction) -> Vec<(String, String)> {
    let process = &session.trace_of(transaction.thread).process;
    let mut facts = process.extra.clone();
    facts.push(("isa".to_owned(), process.isa.clone()));
    facts.push(("process".to_owned(), process.name.clone()));
    facts
}

fn factor(group: usize, name: String, values: &BTreeMap<String, Vec<f64>>) -> Option<Factor> {
    /// Values of which there is one each, such as a time, are no factor.
    const LEAST_EACH: usize = 2;
    let kept: Vec<_> = values
        .iter()
        .filter(|(_, l)| l.len() >= LEAST_EACH)
        .collect();
    let count: usize = kept.iter().map(|(_, l)| l.len()).sum();
    if kept.len() < 2 || count <= kept.len() {
        return None;
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let all: Vec<f64> = kept.iter().flat_map(|(_, l)| l.iter().copied()).collect();
    let total_mean = mean(&all);
    let square = |of: &[f64], mean: f64| of.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    let total = square(&all, total_mean);
    let within: f64 = kept.iter().map(|(_, l)| square(l, mean(l))).sum();
    if total <= 0.0 {
        return None;
    }
    let between = (total - within).max(0.0);
    let freedom = (kept.len() as f64 - 1.0, (count - kept.len()) as f64);
    let f = (between / freedom.0) / (within / freedom.1);
    let values = kept.into_iter().map(|(v, l)| (v.clone(), l.len(), mean(l)));
    let p = f_test(f, freedom.0, freedom.1);
    Some(Factor {
        group,
        name,
        values: values.collect(),
        explained: between / total,
        p,
        q: p,
    })
}
