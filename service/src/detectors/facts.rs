// SPDX-License-Identifier: Apache-2.0
//! Facts of the system and of processes, and the metrics that they make.

use std::collections::BTreeMap;

use hindsight_trace_format::shared::{Counter, COUNTERS};

use crate::engine::Connection;
use crate::policy::Metric;

/// Facts of the system. What it does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemFacts {
    /// Time since boot in which some work waited for processors, for input and output, and for memory; µs.
    pub stalled_us: [Option<u64>; 3],
    /// The highest temperature of any zone, thousandths of a degree Celsius.
    pub millicelsius: Option<i64>,
    /// How long the main thread of each process, by its kernel id, has waited for a processor; ns.
    pub run_delay_ns: BTreeMap<u32, u64>,
}

/// Facts of a process that the user sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Kernel id.
    pub pid: u32,
    /// Its counters, by number of the [`Counter`].
    pub counters: [u64; COUNTERS],
}

/// All facts at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Of the system.
    pub system: SystemFacts,
    /// Of processes that the user sees.
    pub processes: BTreeMap<Connection, ProcessFacts>,
}

/// Metrics of a process between two looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    values: BTreeMap<Metric, f64>,
    /// It has done anything.
    pub(super) is_active: bool,
}

impl Rates {
    /// A metric; `None`: the system does not tell it.
    pub(super) fn get(&self, metric: Metric) -> Option<f64> {
        self.values.get(&metric).copied()
    }
}

/// The metrics of each process that was there at both looks, `ns` apart.
pub(super) fn rates(before: &Facts, now: &Facts, ns: u64) -> Vec<(Connection, Rates)> {
    if ns == 0 {
        return Vec::new();
    }
    let seconds = ns as f64 / 1e9;
    let mut of_system = BTreeMap::new();
    let psi = [Metric::PsiCpu, Metric::PsiIo, Metric::PsiMemory];
    let stalled = before.system.stalled_us.iter().zip(now.system.stalled_us);
    for (metric, (then, now)) in psi.into_iter().zip(stalled) {
        if let (Some(then), Some(now)) = (then, now) {
            let us = now.saturating_sub(*then) as f64;
            of_system.insert(metric, us / 1e6 / seconds * 100.0);
        }
    }
    let both = now.processes.iter().filter_map(|(connection, process)| {
        let then = before.processes.get(connection)?;
        Some((*connection, then, process))
    });
    both.map(|(connection, then, process)| {
        let mut values = of_system.clone();
        let grown = |counter: Counter| {
            let at = counter as usize;
            process.counters[at].saturating_sub(then.counters[at]) as f64 / seconds
        };
        let ms = |counter| grown(counter) / 1e6;
        let of_process = [
            (Metric::Frames, grown(Counter::Frames)),
            (Metric::LateFrames, grown(Counter::LateFrames)),
            (Metric::Messages, ms(Counter::MessageNs)),
            (Metric::LockWait, ms(Counter::LockNs)),
            (Metric::BinderWait, ms(Counter::BinderNs)),
            (Metric::GcStopped, ms(Counter::GcNs)),
            (Metric::Collections, grown(Counter::Collections)),
        ];
        if keeps_counters(process) {
            values.extend(of_process);
        }
        if process.counters[Counter::AllocatedBytes as usize] != 0 {
            let kib = grown(Counter::AllocatedBytes) / 1024.0;
            values.insert(Metric::Allocated, kib);
        }
        let by_system = |facts: &Facts| facts.system.run_delay_ns.get(&process.pid).copied();
        let by_system = by_system(before).zip(by_system(now));
        if let Some((then, now)) = own_run_delays(then, process).or(by_system) {
            let ns = now.saturating_sub(then) as f64;
            values.insert(Metric::RunDelay, ns / 1e6 / seconds);
        }
        let is_active = process.counters != then.counters;
        (connection, Rates { values, is_active })
    })
    .collect()
}

/// Whether the process counts what detectors need. One that follows no rules does not, so that nothing is known of it; memory is
/// counted with the thread's other resources.
fn keeps_counters(process: &ProcessFacts) -> bool {
    let mut counters = process.counters.iter().enumerate();
    counters.any(|(at, counter)| at != Counter::AllocatedBytes as usize && *counter != 0)
}

/// What the process itself has read of its main thread's delay, at both looks, ns. The service may not look for it everywhere.
fn own_run_delays(then: &ProcessFacts, now: &ProcessFacts) -> Option<(u64, u64)> {
    let of = |facts: &ProcessFacts| {
        let delay = facts.counters[Counter::RunDelayNs as usize];
        (delay != 0).then_some(delay)
    };
    of(then).zip(of(now))
}
