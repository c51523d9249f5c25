// SPDX-License-Identifier: Apache-2.0
//! A program that does its work on request (`lab/bench/Repeat.java`), and what it uses meanwhile.

use std::fs;
use std::process::Command;

use anyhow::{ensure, Context as _, Result};

use crate::process::Process;

/// A program that prints a line when it is ready, and answers the line N when it has done its work N times.
pub(crate) struct Worker {
    process: Process,
}

impl Worker {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(command: Command) -> Result<Self> {
        let mut process = Process::start(command)?;
        process.line()?;
        Ok(Worker { process })
    }

    /// Does the work this often. Returns the CPU time of all threads, in seconds.
    pub(crate) fn work(&mut self, times: u64) -> Result<f64> {
        let before = self.process.cpu_time()?;
        self.process.ask(&times.to_string())?;
        Ok((self.process.cpu_time()? - before).as_secs_f64())
    }

    /// Works for `rounds` rounds of this CPU time. Returns how often a round does the work.
    pub(crate) fn warm_up(&mut self, round_seconds: f64, rounds: f64) -> Result<u64> {
        let mut times = 1;
        loop {
            let seconds = self.work(times)?;
            if seconds >= round_seconds / 2.0 {
                let each = seconds / times as f64;
                self.work((rounds * round_seconds / each).max(1.0) as u64)?;
                let each = self.work(times)? / times as f64;
                return Ok(((round_seconds / each) as u64).max(1));
            }
            ensure!(times < 1 << 40, "its work takes no CPU time");
            times *= 2;
        }
    }

    /// Starts ART's own method tracing.
    pub(crate) fn start_arts_tracing(&mut self) -> Result<()> {
        self.process.ask("art").map(drop)
    }

    /// CPU time of all its threads so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        Ok(self.process.cpu_time()?.as_secs_f64())
    }

    /// The process, which is also its main thread's id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The ids of its threads, also of those that run no Java code.
    pub(crate) fn threads(&self) -> Result<Vec<u32>> {
        let folder = format!("/proc/{}/task", self.pid());
        let mut threads = Vec::new();
        for entry in fs::read_dir(&folder).context("cannot list its threads")? {
            if let Some(tid) = entry?.file_name().to_str().and_then(|tid| tid.parse().ok()) {
                threads.push(tid);
            }
        }
        Ok(threads)
    }

    /// Its memory (proportional set size), in bytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()))
            .context("cannot read smaps_rollup")?;
        let kilobytes: Option<f64> = (rollup.lines())
            .find_map(|line| line.strip_prefix("Pss:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok());
        Ok(kilobytes.context("smaps_rollup has no sum")? * 1024.0)
    }

    /// Lets it end by itself.
    pub(crate) fn end(mut self) -> Result<()> {
        self.process.end()
    }
}
