// SPDX-License-Identifier: Apache-2.0
//! A case: a detector, what it must find, and what it must leave alone.

use std::time::Duration;

use anyhow::{bail, ensure, Result};

use super::device::{CaseApp, CaseDevice, Corpus};

/// What is done where the detector must be quiet took longer than this because the machine was busy: it proves nothing.
const QUIET: Duration = Duration::from_millis(1000);
/// How often such a try is made again.
const TRIES: usize = 10;

/// How a case ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The app goes on.
    Lives,
    /// The last command ends it.
    Ends,
    /// It is killed after the last command.
    Killed,
}

/// A case.
pub(super) struct Case {
    /// Its name.
    pub(super) name: &'static str,
    /// The detector that must fire.
    pub(super) detector: &'static str,
    /// The rules in the policy file.
    pub(super) rules: &'static str,
    /// Commands after which it must be quiet.
    pub(super) quiet: &'static [&'static str],
    /// Commands after which it must have fired.
    pub(super) fires: &'static [&'static str],
    /// How the app of `fires` ends.
    pub(super) end: End,
    /// Rules that take the place of `rules` before `fires`, in the running app.
    pub(super) reloaded: Option<&'static str>,
    /// Rules that must be refused before `fires`, and a part of the service's answer.
    pub(super) refused: Option<(&'static str, &'static str)>,
    /// Part of the reason.
    pub(super) reason: &'static str,
}

/// What came of a case.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The reason of the detector's report; `None`: there is none.
    pub(super) found: Option<String>,
    /// Reports that nothing was injected for.
    pub(super) false_reports: Vec<String>,
    /// How long the apps lived.
    pub(super) lived: Duration,
}

impl Case {
    /// Runs it.
    pub(super) fn run(&self, corpus: &Corpus) -> Result<Outcome> {
        let device = corpus.start(self.name, self.rules)?;
        let mut outcome = Outcome::default();
        match self.end {
            End::Lives => {
                let mut app = device.app()?;
                self.be_quiet(&device, &mut app, &mut outcome)?;
                self.change_rules(&device)?;
                app.settle()?;
                self.fire(&device, &mut app, &mut outcome)?;
                outcome.lived += app.lived();
            }
            // The end itself is what must be told from other ends.
            End::Ends | End::Killed => {
                let mut quiet = device.app()?;
                self.be_quiet(&device, &mut quiet, &mut outcome)?;
                quiet.ask("exit")?;
                quiet.wait_for_end()?;
                outcome.lived += quiet.lived();
                outcome.take_false(&device, self, 0)?;
                let mut app = device.app()?;
                app.settle()?;
                self.fire(&device, &mut app, &mut outcome)?;
                outcome.lived += app.lived();
            }
        }
        Ok(outcome)
    }

    fn be_quiet(
        &self,
        device: &CaseDevice,
        app: &mut CaseApp<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        app.settle()?;
        for command in self.quiet {
            self.be_quiet_in(device, app, outcome, command)?;
        }
        Ok(())
    }

    fn be_quiet_in(
        &self,
        device: &CaseDevice,
        app: &mut CaseApp<'_>,
        outcome: &mut Outcome,
        command: &str,
    ) -> Result<()> {
        // With other rules later, the same commands must fire then: it is meant to take long.
        let is_long = self.reloaded.is_some();
        for _ in 0..TRIES {
            let before = device.reports()?.len();
            let took = app.ask(command)?;
            app.settle()?;
            let reports = device.reports()?;
            if is_long || took < QUIET || reports.len() == before {
                let new = reports.iter().skip(before);
                let new = new.map(|report| format!("'{command}': {}", report.reason));
                outcome.false_reports.extend(new);
                return Ok(());
            }
        }
        bail!("'{command}' took over {QUIET:?} in all of {TRIES} tries: the machine is too busy")
    }

    fn change_rules(&self, device: &CaseDevice) -> Result<()> {
        if let Some(rules) = self.reloaded {
            device.load(rules)?;
        }
        if let Some((rules, problem)) = self.refused {
            let answer = match device.load(rules) {
                Ok(()) => bail!("the service takes rules that are wrong: {rules}"),
                Err(error) => error.to_string(),
            };
            ensure!(
                answer.contains(problem),
                "the refusal is '{answer}', without '{problem}'"
            );
        }
        Ok(())
    }

    fn fire(
        &self,
        device: &CaseDevice,
        app: &mut CaseApp<'_>,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let before = device.reports()?.len();
        for command in self.fires {
            app.ask(command)?;
        }
        match self.end {
            // The report may come from another thread, later.
            End::Lives => device.wait_for_more_than(before)?,
            End::Ends => app.wait_for_end()?,
            End::Killed => {
                app.kill();
                app.wait_for_end()?;
            }
        }
        let pid = app.pid();
        let is_it = |report: &super::device::Report| {
            report.pid == pid
                && report.detector == self.detector
                && report.reason.contains(self.reason)
        };
        let reports = device.reports()?;
        let mut new = reports.into_iter().skip(before);
        outcome.found = new.find(is_it).map(|report| report.reason);
        outcome.take_false(device, self, before)?;
        Ok(())
    }
}

impl Outcome {
    /// Reports of other detectors, or of other reasons, after the first ones.
    fn take_false(&mut self, device: &CaseDevice, case: &Case, first: usize) -> Result<()> {
        let reports = device.reports()?;
        let others = reports.iter().skip(first).filter(|report| {
            report.detector != case.detector || !report.reason.contains(case.reason)
        });
        let others = others.map(|report| format!("{}: {}", report.detector, report.reason));
        self.false_reports.extend(others);
        Ok(())
    }
}
