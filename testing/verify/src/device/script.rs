// SPDX-License-Identifier: Apache-2.0
//! The random script, and what must come of it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use hindsight_lab::device::{Device, Service};
use serde::Deserialize;

use crate::stress::dice::Dice;

use super::apps::{App, Apps};
use super::{hostile, reports};

/// The longest wait for anything, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Totals {
    apps: u64,
    kills: u64,
    service_kills: u64,
    attacks: u64,
    reports: u64,
    calls: u64,
    events: u64,
    hours: f64,
    pub(super) problems: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} kills of the service, {} hostile clients, {} calls with a checked caller, {} events",
            self.service_kills, self.attacks, self.calls, self.events
        )?;
        write!(
            f,
            "device: {} apps, {} kills, {} reports, {:.2} app-hours, {} problems",
            self.apps, self.kills, self.reports, self.hours, self.problems
        )
    }
}

/// A line of the answer to `reports`.
#[derive(Deserialize)]
struct Report {
    report: u64,
    pid: u32,
}

/// The part of the answer to `status` that this program needs.
#[derive(Deserialize)]
struct Status {
    engine: Engine,
}

#[derive(Deserialize)]
struct Engine {
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    pid: u32,
}

/// A device, and what is going on there.
pub(super) struct Script<'a> {
    device: &'a Device,
    service: Service,
    apps: Apps<'a>,
    /// How many apps live at a time.
    wanted: usize,
    dice: Dice,
    /// Processes that ended in a way that is worth a report, which was not read yet.
    expected: BTreeSet<u32>,
    /// Processes that ended by themselves: no report says that they were killed.
    totals: Totals,
}

impl<'a> Script<'a> {
    pub(super) fn new(device: &'a Device, seed: u64, wanted: usize) -> Result<Self> {
        let policy = device.logs().join("policy.toml");
        std::fs::write(&policy, POLICY)
            .with_context(|| format!("cannot write {}", policy.display()))?;
        let mut script = Script {
            device,
            service: device.start_service(Some(&policy))?,
            apps: Apps::new(device),
            wanted,
            dice: Dice::new(seed, 0x0064_6576_6963_6500),
            expected: BTreeSet::new(),
            totals: Totals::default(),
        };
        script.fill()?;
        Ok(script)
    }

    /// Starts apps until there are as many as wanted.
    fn fill(&mut self) -> Result<()> {
        while self.apps.len() < self.wanted {
            self.apps.start(&mut self.dice)?;
        }
        Ok(())
    }

    /// Does random things for so long.
    pub(super) fn run(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.step()?;
            self.fill()?;
            if self.expected.len() > 8 {
                self.read_reports()?;
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        match self.dice.below(40) {
            0..20 => self.kill(),
            20..26 => self.apps.bring_to_foreground(&mut self.dice),
            26..28 => self.let_work("work 2000"),
            28..30 => self.let_work("stall 450"),
            30..32 => self.let_work("lock 450"),
            32..34 => self.crash(),
            34..36 => self.end(),
            36..38 => self.attack(),
            _ => self.kill_service(),
        }
    }

    fn let_work(&mut self, command: &str) -> Result<()> {
        Ok(self.apps.any(&mut self.dice).process.tell(command)?)
    }

    /// Waits until the service knows the process: earlier, nobody can know what it recorded.
    fn wait_until_known(&self, app: &App) -> Result<()> {
        let pid = app.process.pid();
        self.until("an app is known to the service", || {
            let known = self.status()?;
            Ok(known.engine.processes.iter().any(|p| p.pid == pid))
        })
    }

    /// Kills an app at a random instant.
    fn kill(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        let command = self.dice.pick(&["busy", "busy", "busy", "stuck", "work 5"]);
        app.process.ask(command)?;
        let instant = Instant::now() + Duration::from_micros(self.dice.below(20_000));
        while Instant::now() < instant {
            std::hint::spin_loop();
        }
        app.process.kill();
        self.totals.kills += 1;
        self.expected.insert(app.process.pid());
        Ok(())
    }

    /// An exception that nobody catches ends an app.
    fn crash(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        app.process.ask("crash")?;
        app.process.wait()?;
        self.expected.insert(app.process.pid());
        Ok(())
    }

    /// An app ends by itself.
    fn end(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        app.process.ask("exit")?;
        app.process.wait()?;
        Ok(())
    }

    fn attack(&mut self) -> Result<()> {
        self.totals.attacks += 1;
        hostile::attack(&self.device.socket(), &mut self.dice)?;
        if !self.service.is_running()? {
            bail!(
                "a hostile client ended the service; its log is {}",
                self.service.log().display()
            );
        }
        Ok(())
    }

    /// Kills the service at a random instant, and starts it again: the apps go on, and come back.
    fn kill_service(&mut self) -> Result<()> {
        // The memory of a process that has ended is gone with the service.
        self.read_reports()?;
        self.service.kill();
        self.totals.service_kills += 1;
        let policy = self.device.logs().join("policy.toml");
        self.service = self.device.start_service(Some(&policy))?;
        let wanted = self.wanted.min(self.apps.len());
        self.until("all apps have come back", || {
            Ok(self.status()?.engine.processes.len() >= wanted)
        })
    }

    fn status(&self) -> Result<Status> {
        let lines = self.service.ask("status")?;
        let text = lines.first().context("hindsightd has no status")?;
        serde_json::from_str(text).with_context(|| format!("no status: {text}"))
    }

    /// Waits until something is so.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let end = Instant::now() + LIMIT;
        while !is_so()? {
            anyhow::ensure!(
                Instant::now() < end,
                "{what}: not within five minutes; the service's log is {}",
                self.service.log().display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits for all reports that must come, and reads and removes all that are there.
    fn read_reports(&mut self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            for report in self.list()? {
                self.read(&report)?;
                self.expected.remove(&report.pid);
            }
            if self.expected.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                for pid in std::mem::take(&mut self.expected) {
                    self.problem(&format!("no report of process {pid}, which was killed"));
                }
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn list(&self) -> Result<Vec<Report>> {
        let lines = self.service.ask("reports")?;
        let reports = lines.iter();
        reports
            .map(|line| serde_json::from_str(line).with_context(|| format!("no report: {line}")))
            .collect()
    }

    fn read(&mut self, report: &Report) -> Result<()> {
        let path = self
            .device
            .store()
            .join(format!("{}.hindsight", report.report));
        self.totals.reports += 1;
        match reports::check(&path, report.pid) {
            Ok(counts) => {
                self.totals.calls += counts.calls;
                self.totals.events += counts.events;
                self.service.ask(&format!("remove {}", report.report))?;
            }
            Err(problem) => self.problem(&format!("{}: {problem}", path.display())),
        }
        Ok(())
    }

    fn problem(&mut self, what: &str) {
        self.totals.problems += 1;
        println!("problem: {what}");
    }

    /// Reads what is left, and ends the device.
    pub(super) fn finish(mut self) -> Result<Totals> {
        self.read_reports()?;
        self.totals.apps = self.apps.started;
        self.totals.hours = self.apps.lived().as_secs_f64() / 3600.0;
        Ok(self.totals)
    }
}

/// Everything that ends is worth a report, as often as it happens; the user has agreed to everything.
const POLICY: &str = r#"
version = 1

[memory]
budget-mib = 4096
uid-share = 100
processes-per-uid = 64

[reports]
killed = "all"
queue = 64

[limits]
device = 1000
per-uid = 1000
per-detector = 1000

[consent.end-user]
unasked = "full"
"#;
