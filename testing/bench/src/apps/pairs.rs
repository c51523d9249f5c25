// SPDX-License-Identifier: Apache-2.0
//! Stock ART against Hindsight's with tracing off, in pairs of processes.

use anyhow::Result;

use super::rounds::{more, warm, ROUND_SECONDS};
use crate::programs::{Installed, Mode};
use crate::statistics::median;
use crate::worker::Worker;

/// Rounds of a process; their median counts.
const ROUNDS: usize = 7;

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

/// One process.
struct Run {
    seconds: f64,
    start_seconds: f64,
    memory_bytes: f64,
}

pub(super) fn measure(stock: &Installed, off: &Installed, pairs: usize) -> Result<Costs> {
    let (worker, times) = warm(stock.worker(""), stock.mode())?;
    worker.end()?;
    // Half a round is enough, since there are many processes.
    let times = times.div_ceil(2);
    let mut runs = Vec::new();
    for pair in 0..pairs {
        runs.push(if pair % 2 == 0 {
            let stock = run(stock, times)?;
            (stock, run(off, times)?)
        } else {
            let off = run(off, times)?;
            (run(stock, times)?, off)
        });
    }
    let each = |f: fn(&Run, &Run) -> f64| runs.iter().map(|(stock, off)| f(stock, off)).collect();
    Ok(Costs {
        off: each(|stock, off| more(off.seconds, stock.seconds)),
        start: each(|stock, off| more(off.start_seconds, stock.start_seconds)),
        start_stock_ms: median(runs.iter().map(|(stock, _)| stock.start_seconds * 1e3)),
        memory_bytes: median(
            runs.iter()
                .map(|(stock, off)| off.memory_bytes - stock.memory_bytes),
        ),
    })
}

fn run(program: &Installed, times: u64) -> Result<Run> {
    let mut worker = Worker::start(program.worker(""))?;
    worker.work(1)?;
    let start_seconds = worker.cpu_seconds()?;
    // The JIT needs a second.
    let warm_up = match program.mode() {
        Mode::Ahead => 2,
        Mode::Jit => (1.0 / ROUND_SECONDS) as u64 * 2,
    };
    worker.work(times * warm_up)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(worker.work(times)?);
    }
    let memory_bytes = worker.memory()?;
    worker.end()?;
    Ok(Run {
        seconds: median(rounds),
        start_seconds,
        memory_bytes,
    })
}
