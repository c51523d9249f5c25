// SPDX-License-Identifier: Apache-2.0
//! What events cost a program: CPU time of the same work in one process, while events are on and while they are off.
//!
//! Between two processes the CPU time of a program differs by several percent (where its memory lies, when its garbage
//! collections begin). Within one, events are switched on and off by the control socket, many times.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::ControlSocket;
use crate::statistics::{interval_of_median, median};
use crate::worker::Worker;

/// Pairs of rounds, with events and without.
const PAIRS: usize = 301;
/// CPU time of a round to aim at, seconds.
const ROUND_SECONDS: f64 = 0.1;
/// Work before the first round, in rounds.
const WARM_UP: f64 = 10.0;

/// A program, and the socket by which its events are switched.
struct Switched {
    worker: Worker,
    socket: ControlSocket,
}

impl Switched {
    /// CPU time in seconds of this work with all events, or without.
    fn round(&mut self, events: &str, times: u64) -> Result<f64> {
        self.socket.ask(&format!("events {events}"))?;
        // What follows a switch is not measured: rings are made, and stacks are seen for the first time.
        self.worker.work(times.div_ceil(8))?;
        self.worker.work(times)
    }
}

/// What events cost a program.
pub(super) struct Cost {
    /// How much more CPU time it takes with all events than without, in percent; each of a pair of rounds.
    percent: Vec<f64>,
    /// Additional CPU time of doing the work once, ns; each of a pair of rounds.
    ns: Vec<f64>,
}

impl Cost {
    /// `program_NAME_pct`, with its interval.
    pub(super) fn metrics(&self, name: &str) -> Vec<(String, f64)> {
        let (low, high) = interval_of_median(&self.percent);
        let key = format!("program_{name}_pct");
        vec![
            (format!("{key}_low"), low),
            (format!("{key}_high"), high),
            (key, median(self.percent.iter().copied())),
        ]
    }

    pub(super) fn ns(&self) -> f64 {
        median(self.ns.iter().copied())
    }
}

/// Measures a program. Its configuration must have the control socket at `socket`.
pub(super) fn cost(command: Command, socket: &Path) -> Result<Cost> {
    let mut program = Switched {
        worker: Worker::start(command)?,
        socket: ControlSocket::connect(socket)?,
    };
    let times = program.worker.warm_up(ROUND_SECONDS, WARM_UP)?;
    let mut cost = Cost {
        percent: Vec::new(),
        ns: Vec::new(),
    };
    for pair in 0..PAIRS {
        let (off, on) = if pair % 2 == 0 {
            let off = program.round("off", times)?;
            (off, program.round("all", times)?)
        } else {
            let on = program.round("all", times)?;
            (program.round("off", times)?, on)
        };
        cost.percent.push((on / off - 1.0) * 100.0);
        cost.ns.push((on - off) * 1e9 / times as f64);
    }
    program.worker.end()?;
    Ok(cost)
}
