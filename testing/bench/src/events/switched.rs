// SPDX-License-Identifier: Apache-2.0
//! What events cost a program: CPU time of the same work in one process, while events are on and while they are off.
//!
//! Between two processes the CPU time of a program differs by several percent (where its memory lies, when its garbage
//! collections begin). Within one, events are switched on and off by the control socket, many times.

use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Result};

use crate::process::{ControlSocket, Process};
use crate::statistics::{interval_of_median, median};

/// Pairs of rounds, with events and without.
const PAIRS: usize = 301;
/// CPU time of a round to aim at, seconds.
const ROUND_SECONDS: f64 = 0.1;
/// Work before the first round, in rounds.
const WARM_UP: f64 = 10.0;

/// A program that prints a line when it is ready, and answers the line N when it has done its work N times.
struct Switched {
    process: Process,
    socket: ControlSocket,
}

impl Switched {
    fn work(&mut self, times: u64) -> Result<f64> {
        let before = self.process.cpu_time()?;
        self.process.ask(&times.to_string())?;
        Ok((self.process.cpu_time()? - before).as_secs_f64())
    }

    /// Works for some rounds. Returns how often a round does the work.
    fn warm_up(&mut self) -> Result<u64> {
        let mut times = 1;
        loop {
            let seconds = self.work(times)?;
            if seconds >= ROUND_SECONDS / 2.0 {
                let each = seconds / times as f64;
                self.work((WARM_UP * ROUND_SECONDS / each) as u64)?;
                let each = self.work(times)? / times as f64;
                return Ok(((ROUND_SECONDS / each) as u64).max(1));
            }
            ensure!(times < 1 << 40, "its work takes no CPU time");
            times *= 2;
        }
    }

    /// CPU time in seconds of this work with all events, or without.
    fn round(&mut self, events: &str, times: u64) -> Result<f64> {
        self.socket.ask(&format!("events {events}"))?;
        // What follows a switch is not measured: rings are made, and stacks are seen for the first time.
        self.work(times.div_ceil(8))?;
        self.work(times)
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
    let mut process = Process::start(command)?;
    process.line()?;
    let mut program = Switched {
        process,
        socket: ControlSocket::connect(socket)?,
    };
    let times = program.warm_up()?;
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
    program.process.end()?;
    Ok(cost)
}
