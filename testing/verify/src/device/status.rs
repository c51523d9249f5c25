// SPDX-License-Identifier: Apache-2.0
//! What hindsightd says about itself, and waiting for it to say something.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hindsight_lab::device::Service;
use serde::Deserialize;

/// The longest wait for anything, on a machine that does much else.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// A line of the answer to `reports`.
#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) report: u64,
    pub(super) pid: u32,
    pub(super) detector: String,
}

/// The part of the answer to `status` that this program needs.
#[derive(Deserialize)]
pub(super) struct Status {
    /// How often the service's detectors have looked.
    pub(super) looks: u64,
    pub(super) engine: Engine,
}

#[derive(Deserialize)]
pub(super) struct Engine {
    pub(super) processes: Vec<Process>,
    /// What became of reports, and how often.
    pub(super) reports: BTreeMap<String, u64>,
    pub(super) memory: Memory,
}

#[derive(Deserialize)]
pub(super) struct Memory {
    /// What processes and reports may need now, bytes.
    pub(super) demand_bytes: u64,
}

#[derive(Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    connection: String,
    pub(super) rings_granted: u32,
    pub(super) rings_held: u32,
    /// The memory that it may use for all but rings of calls, and that it asked for; bytes.
    pub(super) other_bytes: u64,
    pub(super) needed_bytes: u64,
}

impl Status {
    pub(super) fn of(service: &Service) -> Result<Status> {
        let lines = service.ask("status")?;
        let text = lines.first().context("hindsightd has no status")?;
        serde_json::from_str(text).with_context(|| format!("no status: {text}"))
    }

    /// The process with this id, if it is connected.
    pub(super) fn connected(&self, pid: u32) -> Option<&Process> {
        let mut all = self.engine.processes.iter();
        all.find(|process| process.pid == pid && process.connection == "connected")
    }
}

/// The reports that there are.
pub(super) fn list(service: &Service) -> Result<Vec<Report>> {
    let lines = service.ask("reports")?;
    let reports = lines.iter();
    reports
        .map(|line| serde_json::from_str(line).with_context(|| format!("no report: {line}")))
        .collect()
}

/// What the service's log said last of the process with this id.
pub(super) fn log_of(service: &Service, pid: u32) -> String {
    let log = std::fs::read_to_string(service.log()).unwrap_or_default();
    let process = format!("process {pid},");
    let last = log.lines().rev().find(|line| line.contains(&process));
    last.unwrap_or("its log says nothing").to_owned()
}

/// Waits until something is so.
pub(super) fn until(
    service: &Service,
    what: &str,
    mut is_so: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let end = Instant::now() + LIMIT;
    while !is_so()? {
        anyhow::ensure!(
            Instant::now() < end,
            "{what}: not within five minutes; the service's log is {}",
            service.log().display()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
