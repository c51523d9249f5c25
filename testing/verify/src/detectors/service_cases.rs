// SPDX-License-Identifier: Apache-2.0
//! The detectors in the service: a real app does something steadily, the service looks at it once a second, and the facts of the
//! system are real or what the case writes. The cases wait for looks, however long these take on a busy machine.

use anyhow::{Context as _, Result};

use super::case::Outcome;
use super::device::{CaseApp, CaseDevice, Corpus};
use super::facts::FactsFolder;
use super::load::Load;

/// A case of a detector in the service.
pub(super) struct ServiceCase {
    /// Its name.
    pub(super) name: &'static str,
    detector: &'static str,
    /// Part of the reason.
    reason: &'static str,
    rules: &'static str,
    /// What must be quiet, and what must fire.
    quiet: fn(&mut Stage<'_>) -> Result<()>,
    fires: fn(&mut Stage<'_>) -> Result<()>,
}

/// What a case acts on.
struct Stage<'a> {
    device: &'a CaseDevice,
    app: CaseApp<'a>,
    facts: &'a FactsFolder,
    /// Ends with the case.
    load: Option<Load>,
}

/// Looks in which a condition that must not fire is there: more than any rule below waits for.
const LOOKS: u64 = 5;
/// A change is over when the service has looked so often: a look is about the time since the one before.
const CHANGE: u64 = 2;

/// All cases.
pub(super) fn all() -> Vec<ServiceCase> {
    vec![
        ServiceCase {
            name: "thermal",
            detector: "thermal",
            reason: "the device has 99 °C, over 95 °C for 2 s",
            rules: "[detectors.thermal]\ncelsius = 95\nfor-seconds = 3600",
            quiet: warm,
            fires: hot,
        },
        ServiceCase {
            name: "correlated",
            detector: "correlated-jam",
            reason: "over 20 and lock-wait-ms is",
            rules: "[[detectors.correlated]]\nname = \"jam\"\nall = [{ metric = \"psi-memory-percent\", over = 20, for-seconds = 2 }, \
                    { metric = \"lock-wait-ms\", over = 200, for-seconds = 2 }]",
            quiet: one_without_the_other,
            fires: both,
        },
        ServiceCase {
            name: "correlated-run-delay",
            detector: "correlated-starved",
            reason: "over 150 and messages-ms is",
            rules: "[[detectors.correlated]]\nname = \"starved\"\nall = [{ metric = \"run-delay-ms\", over = 150, for-seconds = 2 }, \
                    { metric = \"messages-ms\", over = 450, for-seconds = 2 }]",
            quiet: little_work_under_load,
            fires: much_work_under_load,
        },
        ServiceCase {
            name: "outlier",
            detector: "outlier",
            reason: "lock-wait-ms was",
            rules: "[detectors.outlier]\nenabled = true\nscore = 20\nfor-seconds = 2\nwarm-up-seconds = 10",
            quiet: steady,
            fires: burst,
        },
    ]
}

impl ServiceCase {
    /// Runs it.
    pub(super) fn run(&self, corpus: &Corpus) -> Result<Outcome> {
        let facts = FactsFolder::new(&corpus.folder_of(self.name)?.join("facts"))?;
        let device = corpus.start_with(self.name, self.rules, facts.path())?;
        let mut stage = Stage {
            device: &device,
            app: device.app()?,
            facts: &facts,
            load: None,
        };
        let mut outcome = Outcome::default();
        (self.quiet)(&mut stage)?;
        stage.app.settle()?;
        for report in device.reports()? {
            let what = format!("{}: {}", report.detector, report.reason);
            outcome.false_reports.push(what);
        }
        let before = outcome.false_reports.len();
        (self.fires)(&mut stage)?;
        device.wait_for_more_than(before)?;
        let pid = stage.app.pid();
        for report in device.reports()?.into_iter().skip(before) {
            let is_it = report.detector == self.detector && report.reason.contains(self.reason);
            if is_it && report.pid == pid && outcome.found.is_none() {
                outcome.found = Some(report.reason);
            } else {
                let what = format!("{}: {}", report.detector, report.reason);
                outcome.false_reports.push(what);
            }
        }
        outcome.lived = stage.app.lived();
        Ok(outcome)
    }
}

impl Stage<'_> {
    /// The app does this from now on.
    fn work(&mut self, kind: &str, millis: u32) -> Result<()> {
        self.app.ask(&format!("steady {kind} {millis}"))?;
        Ok(())
    }
}

/// At the limit for some time, and over it for a shorter time than the rule wants.
fn warm(stage: &mut Stage<'_>) -> Result<()> {
    stage.work("sleep", 1)?;
    stage.facts.heat(95)?;
    stage.device.wait_for_looks(LOOKS)?;
    stage.facts.heat(99)?;
    stage.device.wait_for_looks(LOOKS)
}

/// The temperature rises over the limit.
fn hot(stage: &mut Stage<'_>) -> Result<()> {
    stage.facts.heat(80)?;
    stage
        .device
        .load("[detectors.thermal]\ncelsius = 95\nfor-seconds = 2")?;
    for celsius in [90, 95, 99] {
        stage.facts.heat(celsius)?;
        stage.device.wait_for_looks(1)?;
    }
    Ok(())
}

fn one_without_the_other(stage: &mut Stage<'_>) -> Result<()> {
    stage.work("sleep", 1)?;
    stage.facts.stall(60);
    stage.device.wait_for_looks(LOOKS)?;
    stage.facts.stall(0);
    stage.device.wait_for_looks(CHANGE)?;
    stage.work("lock", 100)?;
    stage.device.wait_for_looks(LOOKS)
}

fn both(stage: &mut Stage<'_>) -> Result<()> {
    stage.facts.stall(60);
    Ok(())
}

/// The app's main thread shares a processor with threads that do nothing but compute, and seldom needs it.
fn little_work_under_load(stage: &mut Stage<'_>) -> Result<()> {
    stage.load = Some(Load::beside(stage.app.pid()).context("cannot load a processor")?);
    stage.work("sleep", 1)?;
    stage.device.wait_for_looks(LOOKS)
}

fn much_work_under_load(stage: &mut Stage<'_>) -> Result<()> {
    stage.work("compute", 200)
}

/// Twice the looks that the rule needs for the range: those that see nothing do not count.
fn steady(stage: &mut Stage<'_>) -> Result<()> {
    stage.work("sleep", 20)?;
    stage.device.wait_for_looks(20 + LOOKS)
}

fn burst(stage: &mut Stage<'_>) -> Result<()> {
    stage.work("lock", 100)
}
