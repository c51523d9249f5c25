// SPDX-License-Identifier: Apache-2.0
//! Transactions as JSON (docs/json-output.md).

use hindsight_causality::transactions::{Component, CriticalPath, Shares, Step, StepKind};
use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::Row;
use super::groups::{ns, All, Grouped};
use super::words;
use crate::session::{Opened, ThreadReport};

/// A transaction, and how long its critical path is.
#[derive(Serialize)]
pub(super) struct TransactionReport {
    id: u32,
    kind: &'static str,
    /// What it is called: the first class of the program that did something for it.
    what: String,
    /// The class that received the input or handled the message that began it, or the mark's name.
    root: String,
    #[serde(flatten)]
    thread: ThreadReport,
    /// CLOCK_BOOTTIME, ns.
    begin_ns: u64,
    /// CLOCK_BOOTTIME of the end of all its work, ns.
    end_ns: u64,
    /// CLOCK_BOOTTIME of its updates of the screen, ns.
    updates_ns: Vec<u64>,
    /// Number of pieces of work.
    work: usize,
    /// Number of threads.
    threads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted_by: Option<u32>,
    unfinished: bool,
    /// Of the critical path to the last update, or to the last work: its length, and on what it is spent; all ns.
    path_ns: u64,
    /// Whether the path leads to an update.
    path_to_update: bool,
    components: Map<String, Value>,
}

impl TransactionReport {
    pub(super) fn of(opened: &Opened, row: &Row<'_>) -> Self {
        let (transaction, path) = (row.transaction, &row.path);
        TransactionReport {
            id: row.id.0,
            kind: transaction.kind.name(),
            what: row.what.clone(),
            root: opened.session.string(transaction.what).to_owned(),
            thread: ThreadReport::of(opened, transaction.thread),
            begin_ns: transaction.begin_ns,
            end_ns: transaction.end_ns,
            updates_ns: transaction.updates.iter().map(|u| u.at_ns).collect(),
            work: transaction.members.len(),
            threads: row.threads,
            interrupted_by: transaction.interrupted_by.map(|t| t.0),
            unfinished: transaction.is_unfinished,
            path_ns: path.duration_ns(),
            path_to_update: path.update.is_some(),
            components: components(&path.shares()),
        }
    }
}

/// Every component, with its time, ns.
pub(super) fn components(shares: &Shares) -> Map<String, Value> {
    let all = Component::ALL.into_iter();
    all.map(|c| (c.key().to_owned(), shares[c].into()))
        .collect()
}

/// A critical path with its steps.
#[derive(Serialize)]
pub(super) struct PathReport {
    transaction: u32,
    begin_ns: u64,
    end_ns: u64,
    components: Map<String, Value>,
    steps: Vec<StepReport>,
    polling: Vec<PollingReport>,
}

#[derive(Serialize)]
struct StepReport {
    kind: &'static str,
    begin_ns: u64,
    end_ns: u64,
    /// Those that have time, ns.
    components: Map<String, Value>,
    #[serde(flatten)]
    thread: ThreadReport,
    work: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    edge: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<ByReport>,
    /// The native method that it waited in for the network or for files, by inference.
    #[serde(skip_serializing_if = "Option::is_none")]
    inferred: Option<String>,
    text: String,
}

#[derive(Serialize)]
struct ByReport {
    #[serde(flatten)]
    thread: ThreadReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<String>,
    /// What it did in the time of the step, ns.
    components: Map<String, Value>,
}

#[derive(Serialize)]
struct PollingReport {
    #[serde(flatten)]
    thread: ThreadReport,
    work: String,
    yields: bool,
    times: u32,
    ns: u64,
}

impl PathReport {
    pub(super) fn of(opened: &Opened, path: &CriticalPath) -> Self {
        let polling = path.polling.iter().map(|p| PollingReport {
            thread: ThreadReport::of(opened, p.thread),
            work: opened.work(p.node),
            yields: p.yields,
            times: p.times,
            ns: p.ns,
        });
        PathReport {
            transaction: path.transaction.0,
            begin_ns: path.begin_ns,
            end_ns: path.end_ns,
            components: components(&path.shares()),
            steps: path.steps.iter().map(|s| step(opened, s)).collect(),
            polling: polling.collect(),
        }
    }
}

fn step(opened: &Opened, step: &Step) -> StepReport {
    let some = |shares: &Shares| {
        let parts = shares.parts();
        parts
            .map(|(c, ns)| (c.key().to_owned(), ns.into()))
            .collect()
    };
    StepReport {
        kind: match step.kind {
            StepKind::Own => "own",
            StepKind::Wait(_) => "wait",
            StepKind::Woken => "woken",
            StepKind::HandedOver(_) => "handed_over",
            StepKind::Delivery => "delivery",
            StepKind::Cut => "cut",
        },
        begin_ns: step.begin_ns,
        end_ns: step.end_ns,
        components: some(&step.shares),
        thread: ThreadReport::of(opened, step.thread),
        work: opened.work(step.node),
        edge: step.edge.map(|e| opened.graph.edge(e).reason.name()),
        by: step.by.map(|by| ByReport {
            thread: ThreadReport::of(opened, by.thread),
            work: by.node.map(|n| opened.work(n)),
            components: some(&by.did),
        }),
        inferred: step.inferred.map(|m| opened.session.string(m).to_owned()),
        text: words::step(opened, step),
    }
}

/// Groups, outliers, what explains differences, patterns.
#[derive(Serialize)]
pub(super) struct GroupsReport {
    groups: Vec<GroupReport>,
    factors: Vec<FactorReport>,
    sequences: Vec<SequenceReport>,
    /// Mean part of the time that the two longest stages of a critical path take, from 0 to 1.
    two_longest: Option<f64>,
    /// Medians.
    edges: usize,
    edges_of_paths: usize,
}

#[derive(Serialize)]
struct GroupReport {
    /// Identifies the group in other reports, too.
    key: String,
    kind: &'static str,
    what: String,
    transactions: Vec<u32>,
    mean_ns: u64,
    deviation_ns: u64,
    median_ns: u64,
    /// cov(component, length) / var(length); they add up to 1. Null for groups that are too small.
    variance: Option<Map<String, Value>>,
    outliers: Vec<OutlierReport>,
    paths: Vec<CommonPathReport>,
    dominant_stage_varies: bool,
    interrupted: usize,
    cpu_after_interruption_ns: u64,
    serial_requests: Option<usize>,
    first_use: Option<FirstUseReport>,
}

#[derive(Serialize)]
struct OutlierReport {
    transaction: u32,
    path_ns: u64,
    by_mean: bool,
    by_median: bool,
    blamed: Vec<&'static str>,
}

#[derive(Serialize)]
struct CommonPathReport {
    example: u32,
    count: usize,
}

#[derive(Serialize)]
struct FirstUseReport {
    processes: usize,
    first_ns: u64,
    later_ns: u64,
}

#[derive(Serialize)]
struct FactorReport {
    group: usize,
    name: String,
    values: Vec<FactorValue>,
    /// η², from 0 to 1.
    explained: f64,
    p: f64,
    q: f64,
}

#[derive(Serialize)]
struct FactorValue {
    value: String,
    count: usize,
    mean_ns: u64,
}

#[derive(Serialize)]
struct SequenceReport {
    from: usize,
    to: usize,
    count: usize,
}

impl GroupsReport {
    pub(super) fn of(all: &All) -> Self {
        let sequences = all.sequences.iter();
        GroupsReport {
            groups: all.groups.iter().map(group).collect(),
            factors: all.factors.iter().map(factor).collect(),
            sequences: sequences
                .map(|&((from, to), count)| SequenceReport { from, to, count })
                .collect(),
            two_longest: all.numbers.two_longest,
            edges: all.numbers.edges.0,
            edges_of_paths: all.numbers.edges.1,
        }
    }
}

fn group(g: &Grouped) -> GroupReport {
    let parts = |v: &hindsight_causality::transactions::Variance| {
        let parts = v.parts.iter();
        parts
            .map(|(c, part)| (c.key().to_owned(), (*part).into()))
            .collect()
    };
    GroupReport {
        key: format!("{:016x}", g.group.key),
        kind: g.group.kind.name(),
        what: g.name.clone(),
        transactions: g.group.transactions.iter().map(|t| t.0).collect(),
        mean_ns: ns(g.spread.mean),
        deviation_ns: ns(g.spread.deviation),
        median_ns: ns(g.spread.median),
        variance: g.variance.as_ref().map(parts),
        outliers: (g.outliers.iter())
            .map(|o| OutlierReport {
                transaction: o.id.0,
                path_ns: o.path_ns,
                by_mean: o.by_mean,
                by_median: o.by_median,
                blamed: o.blamed.iter().map(|c| c.key()).collect(),
            })
            .collect(),
        paths: (g.patterns.paths.iter())
            .map(|p| CommonPathReport {
                example: p.example.0,
                count: p.count,
            })
            .collect(),
        dominant_stage_varies: g.patterns.dominant_varies,
        interrupted: g.patterns.interrupted,
        cpu_after_interruption_ns: g.patterns.wasted_ns,
        serial_requests: g.patterns.serial_requests,
        first_use: g.patterns.first_use.map(|f| FirstUseReport {
            processes: f.processes,
            first_ns: ns(f.first_ns),
            later_ns: ns(f.later_ns),
        }),
    }
}

fn factor(f: &hindsight_causality::transactions::Factor) -> FactorReport {
    let values = f.values.iter();
    FactorReport {
        group: f.group,
        name: f.name.clone(),
        values: values
            .map(|(value, count, mean)| FactorValue {
                value: value.clone(),
                count: *count,
                mean_ns: ns(*mean),
            })
            .collect(),
        explained: f.explained,
        p: f.p,
        q: f.q,
    }
}
