// SPDX-License-Identifier: Apache-2.0
//! A budget of memory that is too small for what apps want.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use hindsight_decoder::Trace;
use hindsight_lab::device::{Device, Service};
use hindsight_lab::Execution;

use super::sampler::{Peaks, Sampler};
use super::status::{list, until, Status};

/// The budget, MiB.
pub(super) const BUDGET_MIB: u64 = 64;
/// Apps; the user sees all of them, and all are busy.
const APPS: usize = 8;
/// After so many reports an app is killed, as long as half of them are left.
const KILL_EACH: usize = 5;
/// Rings of calls of 2 MiB.
const CONFIGURATION: &str = "trace=main,events=all,ring=21,rewind=off";

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tight {
    /// The most that processes and reports could need, by the service's account; bytes.
    pub(super) demand: u64,
    /// The most that apps had asked for beyond that, bytes.
    pub(super) unmet: u64,
    /// What was in use.
    pub(super) peaks: Peaks,
    /// Reports that were written, whose files are whole.
    pub(super) reports: u64,
}

/// A service of its own with this policy, and apps of its own, for at least so long.
pub(super) fn run(device: &Device, policy: &str, folder: &Path, time: Duration) -> Result<Tight> {
    let file = folder.join("policy.toml");
    let text = policy.replace("[memory]", "[memory]\ncall-rings = 64");
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let service = device.start_service(Some(&file))?;
    let sampler = Sampler::start(device.store());
    sampler.set_service(service.pid());
    let mut apps = Vec::new();
    let mut seen = Tight::default();
    while apps.len() < APPS {
        let app = device.start_app(Execution::Aot, CONFIGURATION)?;
        sampler.add(app.pid());
        apps.push(app);
    }
    // Before any asks for more: later the service would refuse some.
    until(&service, "all apps are known to the service", || {
        let status = Status::of(&service)?;
        let mut all = apps.iter();
        Ok(all.all(|app| status.connected(app.pid()).is_some()))
    })?;
    for app in &mut apps {
        app.ask("foreground")?;
        app.tell("busy")?;
    }
    let end = Instant::now() + time;
    // Until it is tight: a busy machine takes longer.
    for turn in 0.. {
        let status = Status::of(&service)?;
        seen.demand = seen.demand.max(status.engine.memory.demand_bytes);
        let processes = status.engine.processes.iter();
        let unmet = processes.map(|p| p.needed_bytes.saturating_sub(p.other_bytes));
        seen.unmet = seen.unmet.max(unmet.sum());
        let pid = apps[turn % apps.len()].pid();
        let answer = service.ask(&format!("report {pid} tight"));
        // A report may find no memory; what is written is whole.
        drop(answer);
        if turn % KILL_EACH == KILL_EACH - 1 && apps.len() > APPS / 2 {
            // The service reads its memory, and gives its part to others.
            apps.swap_remove(0).kill();
        }
        seen.reports += read_reports(device, &service)?;
        if Instant::now() > end && (is_tight(&seen) || Instant::now() > end + LIMIT) {
            break;
        }
    }
    seen.peaks = sampler.finish();
    Ok(seen)
}

/// The longest time until it is tight.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether the budget was needed: at least 90 % of it could be used, and more was asked for.
pub(super) fn is_tight(seen: &Tight) -> bool {
    seen.demand >= (BUDGET_MIB << 20) / 10 * 9 && seen.unmet != 0 && seen.reports != 0
}

/// Reads and removes all reports. Returns how many there were.
fn read_reports(device: &Device, service: &Service) -> Result<u64> {
    let reports = list(service)?;
    for report in &reports {
        let name = format!("{}.hindsight", report.report);
        let path = device.store().join(name);
        let trace = Trace::open(&path).with_context(|| path.display().to_string())?;
        ensure!(
            trace.damaged.is_empty(),
            "{}: {:?}",
            path.display(),
            trace.damaged
        );
        service.ask(&format!("remove {}", report.report))?;
    }
    Ok(reports.len() as u64)
}
