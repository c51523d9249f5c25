// SPDX-License-Identifier: Apache-2.0
//! The random script, and what must come of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _, Result};
use hindsight_lab::device::{Device, Service};

use crate::stress::dice::Dice;

use super::apps::{App, Apps};
use super::observe::Observer;
use super::sampler::Sampler;
use super::status::{list, log_of, until, Report, Status, LIMIT};
use super::stranger::{self, Prey};
use super::{hostile, reports};

/// Seconds that the clock of the day jumps ahead: back to 1970, half an hour back, a day, some years.
const JUMPS: [i64; 5] = [-1_800_000_000, -1_800, 0, 86_400, 300_000_000];

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) kills: u64,
    pub(super) service_kills: u64,
    pub(super) freezes: u64,
    pub(super) jumps: u64,
    pub(super) attacks: u64,
    pub(super) thefts: u64,
    pub(super) reports: u64,
    pub(super) calls: u64,
    pub(super) events: u64,
    /// Threads that found no room for a ring.
    pub(super) without_room: u64,
    /// Reports that name such threads.
    pub(super) reports_without_room: u64,
    /// Methods without a name, of processes that ended before they had written their first names.
    pub(super) too_early: u64,
    /// Reports that have such methods.
    pub(super) reports_too_early: u64,
    /// By kind of promise.
    pub(super) problems: BTreeMap<Kind, u64>,
}

/// Which promise was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A report is missing, or wrong.
    Report,
    /// The service was killed, and an app suffers.
    Service,
    /// A client did what it must not.
    Hostile,
    /// A report of an app that did nothing.
    Quiet,
}

/// A device, and what is going on there.
pub(super) struct Script<'a> {
    device: &'a Device,
    pub(super) service: Service,
    pub(super) apps: Apps<'a>,
    pub(super) sampler: Sampler,
    policy: PathBuf,
    /// How many apps live at a time.
    wanted: usize,
    dice: Dice,
    /// Processes that ended in a way that is worth a report, which was not read yet, and in which way.
    expected: BTreeMap<u32, String>,
    /// Processes that ended by themselves: no report says that they were killed.
    left: BTreeMap<u32, String>,
    /// Where wrong reports are kept.
    wrong: PathBuf,
    pub(super) totals: Totals,
}

impl<'a> Script<'a> {
    /// So many apps live at a time, and so many of them are left alone.
    pub(super) fn new(
        device: &'a Device,
        policy: PathBuf,
        seed: u64,
        (wanted, quiet): (usize, usize),
    ) -> Result<Self> {
        let wrong = device.logs().join("wrong-reports");
        std::fs::create_dir_all(&wrong).context("cannot make a folder")?;
        let service = device.start_service(Some(&policy))?;
        let sampler = Sampler::start(device.store());
        sampler.set_service(service.pid());
        let mut script = Script {
            device,
            service,
            apps: Apps::new(device, quiet),
            sampler,
            policy,
            wanted,
            dice: Dice::new(seed, 0x0064_6576_6963_6500),
            expected: BTreeMap::new(),
            left: BTreeMap::new(),
            wrong,
            totals: Totals::default(),
        };
        script.fill()?;
        Ok(script)
    }

    /// Starts apps until there are as many as wanted.
    fn fill(&mut self) -> Result<()> {
        while self.apps.len() < self.wanted {
            let pid = self.apps.start(&mut self.dice)?;
            // The kernel uses ids again.
            self.left.remove(&pid);
            self.sampler.add(pid);
        }
        Ok(())
    }

    /// Waits until the service knows all apps.
    pub(super) fn wait_until_all_are_known(&self) -> Result<()> {
        until(&self.service, "all apps are known to the service", || {
            let status = Status::of(&self.service)?;
            let pids = self.apps.pids();
            Ok(pids.iter().all(|pid| status.connected(*pid).is_some()))
        })
    }

    /// Does random things for so long, and kills the service at least so many times. The reports are about as many as the
    /// service admits, or fewer, spread over the time.
    pub(super) fn run(
        &mut self,
        time: Duration,
        service_kills: u64,
        most_reports: u64,
    ) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < time || self.totals.service_kills < service_kills {
            // Some may come at once in the beginning.
            let part = 0.1 + 0.9 * (start.elapsed().as_secs_f64() / time.as_secs_f64().max(1.0));
            if self.totals.reports as f64 > most_reports as f64 * part.min(1.0)
                && start.elapsed() < time
            {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
            self.step()?;
            self.fill()?;
            if self.expected.len() > 8 {
                self.read_reports()?;
            }
        }
        self.read_reports()
    }

    /// Watches three apps, which live until the end, by strace: a quiet one if there is one, one that is told things, and one from its
    /// start. `Err` in the result: this machine does not allow it.
    pub(super) fn observe(&mut self) -> Result<Result<Vec<Observer>>> {
        let mut pids: Vec<u32> = self.apps.first_quiet().into_iter().collect();
        pids.extend(self.apps.keep_last());
        let started = self.apps.start(&mut self.dice)?;
        self.sampler.add(started);
        pids.extend(self.apps.keep_last());
        let logs = self.device.logs();
        let attach = |pid| Observer::attach(pid, logs.join(format!("strace-{pid}.txt")));
        Ok(pids.into_iter().map(attach).collect())
    }

    fn step(&mut self) -> Result<()> {
        match self.dice.below(50) {
            0..20 => self.kill(),
            20..26 => self.apps.bring_to_foreground(&mut self.dice),
            26..28 => self.apps.any(&mut self.dice).tell("work 2000"),
            28..30 => self.apps.any(&mut self.dice).tell("stall 450"),
            30..32 => self.apps.any(&mut self.dice).tell("lock 450"),
            32..34 => self.crash(),
            34..36 => self.crash_natively(),
            36..38 => self.end(),
            38..42 => self.attack(),
            42..43 => self.steal(),
            43..44 => self.freeze(),
            44..46 => self.jump(),
            _ => self.kill_service(),
        }
    }

    /// Waits until the service knows the process: earlier, nobody can know what it recorded.
    fn wait_until_known(&self, app: &App) -> Result<()> {
        let pid = app.process.pid();
        until(&self.service, "an app is known to the service", || {
            Ok(Status::of(&self.service)?.connected(pid).is_some())
        })
    }

    /// Kills an app at a random instant.
    fn kill(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        let command = self.dice.pick(&["busy", "busy", "busy", "stuck", "work 5"]);
        app.ask(command)?;
        let instant = Instant::now() + Duration::from_micros(self.dice.below(20_000));
        while Instant::now() < instant {
            std::hint::spin_loop();
        }
        app.process.kill();
        self.totals.kills += 1;
        let how = format!("{}, SIGKILL", app.history());
        self.expected.insert(app.process.pid(), how);
        Ok(())
    }

    /// An exception that nobody catches ends an app.
    fn crash(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        app.ask("crash")?;
        app.process.wait()?;
        self.expected.insert(app.process.pid(), app.history());
        Ok(())
    }

    /// A fault of native code, or of the runtime, ends an app.
    fn crash_natively(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        app.tell("busy")?;
        let signal = self
            .dice
            .pick(&[libc::SIGABRT, libc::SIGSEGV, libc::SIGBUS]);
        app.process.end_by(signal)?;
        let how = format!("{}, signal {signal}", app.history());
        self.expected.insert(app.process.pid(), how);
        Ok(())
    }

    /// An app ends by itself.
    fn end(&mut self) -> Result<()> {
        let mut app = self.apps.take(&mut self.dice);
        self.wait_until_known(&app)?;
        app.ask("exit")?;
        app.process.wait()?;
        self.left.insert(app.process.pid(), app.history());
        Ok(())
    }

    fn attack(&mut self) -> Result<()> {
        self.totals.attacks += 1;
        hostile::attack(&self.device.socket(), &mut self.dice)?;
        self.check_service("a hostile client")
    }

    fn check_service(&mut self, who: &str) -> Result<()> {
        if !self.service.is_running()? {
            bail!(
                "{who} ended the service; its log is {}",
                self.service.log().display()
            );
        }
        Ok(())
    }

    /// Another user wants reports and memory.
    fn steal(&mut self) -> Result<()> {
        let prey = Prey {
            commands: self.device.commands(),
            store: self.device.store(),
            report: list(&self.service)?.first().map(|report| report.report),
            pid: self.apps.any(&mut self.dice).process.pid(),
        };
        if let Some(tried) = stranger::visit(&prey)? {
            self.totals.thefts += tried.attempts;
            for got in tried.got {
                self.problem(Kind::Hostile, &format!("another user: {got}"));
            }
        }
        self.check_service("another user")
    }

    /// The service does nothing for some time: all apps go on, also one that has much to say.
    fn freeze(&mut self) -> Result<()> {
        self.read_reports()?;
        self.totals.freezes += 1;
        let signal = |signal| {
            // SAFETY: takes numbers; it is a child of this process that was not waited for.
            unsafe { libc::kill(self.service.pid() as i32, signal) };
        };
        signal(libc::SIGSTOP);
        let answers = (0..3).try_for_each(|_| self.apps.bring_to_foreground(&mut self.dice));
        let talks = answers.and_then(|()| {
            let app = self.apps.any(&mut self.dice);
            for _ in 0..300 {
                app.tell("foreground")?;
                app.tell("background")?;
            }
            app.is_foreground = false;
            app.ask("work 5")
        });
        signal(libc::SIGCONT);
        if let Err(error) = talks {
            self.problem(
                Kind::Service,
                &format!("while the service did nothing: {error:#}"),
            );
        }
        self.wait_until_all_are_known()
    }

    /// Somebody sets the clock.
    fn jump(&mut self) -> Result<()> {
        self.totals.jumps += 1;
        Ok(self.device.move_clock(self.dice.pick(&JUMPS))?)
    }

    /// Kills the service at a random instant, and starts it again: the apps go on, and come back.
    fn kill_service(&mut self) -> Result<()> {
        // The memory of a process that has ended is gone with the service.
        self.read_reports()?;
        // They are about to say something.
        for command in ["busy", "stall 450", "work 50"] {
            self.apps.any(&mut self.dice).tell(command)?;
        }
        std::thread::sleep(Duration::from_micros(self.dice.below(5_000)));
        self.service.kill();
        self.totals.service_kills += 1;
        self.apps.bring_to_foreground(&mut self.dice)?;
        self.service = self.device.start_service(Some(&self.policy))?;
        self.sampler.set_service(self.service.pid());
        self.wait_until_all_are_known()
    }

    /// Waits for all reports that must come, and reads and removes all that are there.
    pub(super) fn read_reports(&mut self) -> Result<()> {
        let end = Instant::now() + LIMIT;
        loop {
            // First: who is not known any more has all of its reports.
            let status = Status::of(&self.service)?;
            for report in list(&self.service)? {
                self.read(&report)?;
                self.expected.remove(&report.pid);
            }
            let is_over = |pid: &u32| !status.engine.processes.iter().any(|p| p.pid == *pid);
            let missing: Vec<u32> = self.expected.keys().copied().filter(is_over).collect();
            for pid in missing {
                let how = self.expected.remove(&pid).unwrap_or_default();
                let outcomes = &status.engine.reports;
                let log = log_of(&self.service, pid);
                let what =
                    format!("no report of process {pid} ({how}): {log}; outcomes: {outcomes:?}");
                self.problem(Kind::Report, &what);
            }
            if self.expected.is_empty() {
                return Ok(());
            }
            anyhow::ensure!(
                Instant::now() < end,
                "reports of {:?} are under way for five minutes; the service's log is {}",
                self.expected,
                self.service.log().display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn read(&mut self, report: &Report) -> Result<()> {
        let name = format!("{}.hindsight", report.report);
        let path = self.device.store().join(&name);
        // A hostile client is a thread of this process: what it recorded is no trace.
        if report.pid != std::process::id() {
            self.totals.reports += 1;
            match reports::check(&path, report.pid) {
                Ok(counts) => {
                    self.totals.calls += counts.calls;
                    self.totals.events += counts.events;
                    self.totals.without_room += counts.without_room;
                    self.totals.reports_without_room += u64::from(counts.without_room != 0);
                    self.totals.too_early += counts.too_early;
                    self.totals.reports_too_early += u64::from(counts.too_early != 0);
                }
                Err(problem) => {
                    let kept = self.wrong.join(&name);
                    // The answer is about the report, also if it cannot be kept.
                    let _ = std::fs::copy(&path, &kept);
                    let how = self.expected.get(&report.pid).cloned().unwrap_or_default();
                    let what = format!("{} ({how}): {problem}", kept.display());
                    self.problem(Kind::Report, &what);
                }
            }
            let (pid, detector) = (report.pid, &report.detector);
            if self.apps.is_quiet(pid) {
                let what = format!("process {pid} did nothing, and has a report: {detector}");
                self.problem(Kind::Quiet, &what);
            }
            let left = self.left.get(&pid).filter(|_| detector == "killed");
            if let Some(how) = left {
                let what = format!("process {pid} ({how}) ended by itself, and counts as killed");
                self.problem(Kind::Report, &what);
            }
        }
        self.service.ask(&format!("remove {}", report.report))?;
        Ok(())
    }

    pub(super) fn problem(&mut self, kind: Kind, what: &str) {
        *self.totals.problems.entry(kind).or_default() += 1;
        println!("problem: {what}");
    }

    /// Hostile clients have left nothing behind: waits until the service has no more descriptors than its processes need.
    pub(super) fn check_descriptors(&mut self) -> Result<u64> {
        let service = self.service.pid();
        let count = || {
            let descriptors = std::fs::read_dir(format!("/proc/{service}/fd"))?;
            anyhow::Ok(descriptors.count() as u64)
        };
        // Three for each process, and some of its own.
        let most = 3 * self.apps.len() as u64 + 40;
        until(&self.service, "hostile clients are forgotten", || {
            Ok(count()? <= most)
        })?;
        count()
    }
}
