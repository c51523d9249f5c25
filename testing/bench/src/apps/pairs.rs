// SPDX-License-Identifier: Apache-2.0
//! Stock ART against Hindsight's with tracing off, in pairs of processes.

use anyhow::Result;

use super::rounds::{more, warm, ROUND_SECONDS};
use crate::programs::{Installed, Mode};
use crate::statistics::median;
use crate::worker::Worker;

/// Rounds of each process of a pair; the median of their differences counts.
const ROUNDS: usize = 15;

/// What Hindsight costs that is off; each of a pair of processes.
pub(super) struct Costs {
    /// Additional CPU time, %.
    pub(super) off: Vec<f64>,
    /// Additional CPU time of a start until the work is done for the first time, %.
    pub(super) start: Vec<f64>,
    /// CPU time of such a start on stock ART, ms.
    pub(super) start_stock_ms: f64,
    /// Additional memory.
    pub(super) memory_bytes: f64,
}

/// A pair of processes.
struct Pair {
    off: f64,
    start: f64,
    start_stock_ms: f64,
    memory_bytes: f64,
}

pub(super) fn measure(stock: &Installed, off: &Installed, pairs: usize) -> Result<Costs> {
    let (worker, times) = warm(stock.worker(""), stock.mode())?;
    worker.end()?;
    // Half a round is enough, since there are many.
    let times = times.div_ceil(2);
    let mut measured = Vec::new();
    for first in 0..pairs {
        measured.push(pair([stock, off], times, first)?);
    }
    let each = |f: fn(&Pair) -> f64| measured.iter().map(f).collect::<Vec<f64>>();
    Ok(Costs {
        off: each(|pair| pair.off),
        start: each(|pair| pair.start),
        start_stock_ms: median(each(|pair| pair.start_stock_ms)),
        memory_bytes: median(each(|pair| pair.memory_bytes)),
    })
}

/// Measures the two programs, stock ART's and off. Both processes are alive, and take turns in short rounds: the speed of a
/// shared machine changes within seconds. `first`: the one that begins, if even the first.
fn pair(programs: [&Installed; 2], times: u64, first: usize) -> Result<Pair> {
    let mut workers = Vec::new();
    let mut start_seconds = [0.0; 2];
    let order = |round: usize| [(first + round) % 2, (first + round + 1) % 2];
    for which in order(0) {
        let mut worker = Worker::start(programs[which].worker(""))?;
        worker.work(1)?;
        start_seconds[which] = worker.cpu_seconds()?;
        workers.push(worker);
    }
    if order(0) == [1, 0] {
        workers.swap(0, 1);
    }
    // The JIT needs a second.
    let warm_up = match programs[0].mode() {
        Mode::Ahead => 2,
        Mode::Jit => (1.0 / ROUND_SECONDS) as u64 * 2,
    };
    for worker in &mut workers {
        worker.work(times * warm_up)?;
    }
    let mut differences = Vec::new();
    for round in 0..ROUNDS {
        let mut seconds = [0.0; 2];
        for which in order(round) {
            seconds[which] = workers[which].work(times)?;
        }
        differences.push(more(seconds[1], seconds[0]));
    }
    let memory_bytes = workers[1].memory()? - workers[0].memory()?;
    for worker in workers {
        worker.end()?;
    }
    Ok(Pair {
        off: median(differences),
        start: more(start_seconds[1], start_seconds[0]),
        start_stock_ms: start_seconds[0] * 1e3,
        memory_bytes,
    })
}
