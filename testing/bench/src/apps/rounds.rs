// SPDX-License-Identifier: Apache-2.0
//! Rounds of a program's work.

use std::process::Command;

use anyhow::Result;

use crate::programs::Mode;
use crate::worker::Worker;

/// CPU time of a round to aim at, in seconds.
pub(super) const ROUND_SECONDS: f64 = 0.1;

/// Starts a program, and does its work until its code is compiled. Returns how often a round does the work.
pub(super) fn warm(command: Command, mode: Mode) -> Result<(Worker, u64)> {
    let mut worker = Worker::start(command)?;
    let rounds = match mode {
        Mode::Ahead => 3.0,
        Mode::Jit => 20.0,
    };
    let times = worker.warm_up(ROUND_SECONDS, rounds)?;
    Ok((worker, times))
}

/// How much more `with` is than `without`, %.
pub(super) fn more(with: f64, without: f64) -> f64 {
    (with / without - 1.0) * 100.0
}
