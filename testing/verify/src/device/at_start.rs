// SPDX-License-Identifier: Apache-2.0
//! `verify device --at-start N`: apps that are killed in the first milliseconds after the service knows them. Which of their
//! methods have no name?

use std::time::{Duration, Instant};

use anyhow::Result;
use hindsight_lab::device::{Device, Service};
use hindsight_lab::Execution;

use crate::stress::dice::Dice;

use super::reports;
use super::status::{list, until, Status};

/// The latest kill after the service has heard of the app, us.
const LATEST_US: u64 = 20_000;

/// What was seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    kills: u64,
    reports: u64,
    /// Reports with a method without a name.
    unnamed_reports: u64,
    unnamed_methods: u64,
    problems: u64,
}

impl Counts {
    pub(super) fn is_good(&self) -> bool {
        self.problems == 0
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let percent = 100.0 * self.unnamed_reports as f64 / self.reports.max(1) as f64;
        write!(
            f,
            "at start: {} kills, {} reports, {} of them ({percent:.1} %) with {} methods without a name, {} problems",
            self.kills, self.reports, self.unnamed_reports, self.unnamed_methods, self.problems
        )
    }
}

/// Kills so many apps.
pub(super) fn run(
    device: &Device,
    service: &Service,
    kills: u64,
    configuration: &str,
    dice: &mut Dice,
) -> Result<Counts> {
    let mut counts = Counts::default();
    for _ in 0..kills {
        let execution = dice.pick(&[Execution::Interpreter, Execution::Jit, Execution::Aot]);
        let mut app = device.spawn_app(execution, configuration)?;
        let pid = app.pid();
        until(service, "an app is known to the service", || {
            Ok(Status::of(service)?.connected(pid).is_some())
        })?;
        let instant = Instant::now() + Duration::from_micros(dice.below(LATEST_US));
        while Instant::now() < instant {
            std::hint::spin_loop();
        }
        app.kill();
        counts.kills += 1;
        until(service, "the service is done with an app", || {
            let status = Status::of(service)?;
            Ok(!status.engine.processes.iter().any(|p| p.pid == pid))
        })?;
        for report in list(service)?.iter().filter(|report| report.pid == pid) {
            let path = device.store().join(format!("{}.hindsight", report.report));
            counts.reports += 1;
            match reports::unnamed(&path) {
                Ok(0) => {}
                Ok(methods) => {
                    counts.unnamed_reports += 1;
                    counts.unnamed_methods += methods;
                }
                Err(problem) => {
                    counts.problems += 1;
                    println!("problem: {}: {problem}", path.display());
                }
            }
            service.ask(&format!("remove {}", report.report))?;
        }
    }
    Ok(counts)
}

/// An app runs until the service has the names of the boot image from it.
pub(super) fn name_boot_image(
    device: &Device,
    service: &Service,
    configuration: &str,
) -> Result<()> {
    let mut app = device.spawn_app(Execution::Jit, configuration)?;
    let pid = app.pid();
    let names = device.store().join("names-64.state");
    until(service, "the names of the boot image are kept", || {
        Ok(names.exists())
    })?;
    println!("names of the boot image: {} bytes", names.metadata()?.len());
    app.kill();
    until(service, "the service is done with an app", || {
        let status = Status::of(service)?;
        Ok(!status.engine.processes.iter().any(|p| p.pid == pid))
    })?;
    for report in list(service)? {
        service.ask(&format!("remove {}", report.report))?;
    }
    Ok(())
}
