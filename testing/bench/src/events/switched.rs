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
const PAIRS: usize = 81;
/// CPU time of a round to aim at, seconds.
const ROUND_SECONDS: f64 = 0.2;
/// Work before the first round, in rounds.
const WARM_UP: f64 = 5.0;

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

    /// CPU time in seconds of this work with all events, or without.
    fn round(&mut self, events: &str, times: u64) -> Result<f64> {
        self.socket.ask(&format!("events {events}"))?;
        // What follows a switch is not measured: rings are made, and stacks are seen for the first time.
        self.work(times.div_ceil(8))?;
        self.work(times)
    }
}

/// How much more CPU time the program takes with all events than without, in percent. Its configuration must have the control
/// socket at `socket`.
pub(super) fn cost(command: Command, socket: &Path, name: &str) -> Result<Vec<(String, f64)>> {
    let mut process = Process::start(command)?;
    process.line()?;
    let mut program = Switched {
        process,
        socket: ControlSocket::connect(socket)?,
    };
    let mut times = 1;
    loop {
        let seconds = program.work(times)?;
        if seconds >= ROUND_SECONDS / 2.0 {
            let each = seconds / times as f64;
            program.work((WARM_UP * ROUND_SECONDS / each) as u64)?;
            let each = program.work(times)? / times as f64;
            times = ((ROUND_SECONDS / each) as u64).max(1);
            break;
        }
        ensure!(times < 1 << 40, "its work takes no CPU time");
        times *= 2;
    }
    let mut costs = Vec::new();
    for pair in 0..PAIRS {
        let (off, on) = if pair % 2 == 0 {
            let off = program.round("off", times)?;
            (off, program.round("all", times)?)
        } else {
            let on = program.round("all", times)?;
            (program.round("off", times)?, on)
        };
        costs.push((on / off - 1.0) * 100.0);
    }
    program.process.end()?;
    let (low, high) = interval_of_median(&costs);
    let key = format!("program_{name}_pct");
    Ok(vec![
        (format!("{key}_low"), low),
        (format!("{key}_high"), high),
        (key, median(costs)),
    ])
}
