// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify detectors`: the corpus of lab/detectors on the lab's ART, with a real hindsightd. Each detector must find what
//! is injected, and nothing in the rest.

mod case;
mod cases;
mod device;
mod facts;
mod joint;
mod load;
mod service_cases;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hindsight_lab::{build, BuildOptions, Execution, Framework, Isa, Parts, Variant};

use case::{Case, Outcome};
use device::Corpus;
use joint::Joint;
use service_cases::ServiceCase;

/// Options of `verify detectors`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only the cases whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// How many cases run at a time
    #[arg(long, default_value_t = 4)]
    jobs: usize,
    /// Keep the files of the cases in this folder, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// What came of all cases.
#[derive(Debug, Default)]
struct Totals {
    cases: u64,
    found: u64,
    missed: u64,
    false_reports: u64,
    problems: u64,
    lived: Duration,
}

impl Totals {
    /// Adds a case, and prints its line.
    fn add(&mut self, name: &str, result: &Result<Outcome>) {
        self.cases += 1;
        match result {
            Ok(outcome) => {
                self.lived += outcome.lived;
                self.false_reports += outcome.false_reports.len() as u64;
                let found = match &outcome.found {
                    Some(reason) => format!("fired as it must: {reason}"),
                    None => "MISSED".to_owned(),
                };
                let quiet = match outcome.false_reports.as_slice() {
                    [] => "quiet as it must be".to_owned(),
                    reports => format!("FALSE: {}", reports.join("; ")),
                };
                self.found += u64::from(outcome.found.is_some());
                self.missed += u64::from(outcome.found.is_none());
                println!("{name}: {found}; {quiet}");
            }
            Err(problem) => {
                self.problems += 1;
                println!("{name}: PROBLEM: {problem:#}");
            }
        }
    }

    /// Adds a case of two apps, and prints its line.
    fn add_joint(&mut self, case: &Joint, result: Result<String>) {
        self.cases += 1;
        match result {
            Ok(found) => {
                self.found += 1;
                println!("{}: {found}", case.name);
            }
            Err(problem) => {
                self.problems += 1;
                println!("{}: PROBLEM: {problem:#}", case.name);
            }
        }
    }

    fn print(&self) {
        let hours = self.lived.as_secs_f64() / 3600.0;
        let recall = self.found as f64 / (self.found + self.missed).max(1) as f64;
        println!(
            "recall {recall:.2}, {:.2} false reports an app-hour in {hours:.3} app-hours",
            self.false_reports as f64 / hours.max(f64::MIN_POSITIVE)
        );
        println!(
            "detectors: {} cases, {} found, {} missed, {} false, {} problems",
            self.cases, self.found, self.missed, self.false_reports, self.problems
        );
    }
}

/// Runs the cases. Returns whether there is no problem.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(Isa::X86_64, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify detectors: building {step}"))?;
    let program = crate::device::program()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            folder.canonicalize()?
        }
        None => temporary.path().canonicalize()?,
    };
    let corpus = Corpus::new(&framework, checkout, &program, &folder, Execution::Jit)?;
    // Those of the service take longest.
    let of_service = service_cases::all().into_iter().map(Any::Service);
    let cases: Vec<Any> = of_service
        .chain(cases::all().into_iter().map(Any::App))
        .filter(|case| case.name().contains(&options.only))
        .collect();
    let joint: Vec<Joint> = (joint::all().into_iter())
        .filter(|case| case.name.contains(&options.only))
        .collect();
    anyhow::ensure!(
        !cases.is_empty() || !joint.is_empty(),
        "no case has '{}' in its name",
        options.only
    );
    let began = Instant::now();
    let mut totals = run_all(&corpus, &cases, options.jobs);
    for case in &joint {
        totals.add_joint(case, case.run(&corpus));
    }
    totals.print_after(began);
    Ok(totals.missed == 0 && totals.false_reports == 0 && totals.problems == 0)
}

impl Totals {
    fn print_after(&self, began: Instant) {
        println!("{:.0} s", began.elapsed().as_secs_f64());
        self.print();
    }
}

/// A case of any kind.
enum Any {
    /// Of a detector in apps.
    App(Case),
    /// Of a detector in the service.
    Service(ServiceCase),
}

impl Any {
    fn name(&self) -> &'static str {
        match self {
            Any::App(case) => case.name,
            Any::Service(case) => case.name,
        }
    }

    fn run(&self, corpus: &Corpus) -> Result<Outcome> {
        match self {
            Any::App(case) => case.run(corpus),
            Any::Service(case) => case.run(corpus),
        }
    }
}

/// Runs the cases, so many at a time: most of them sleep.
fn run_all(corpus: &Corpus, cases: &[Any], jobs: usize) -> Totals {
    let totals = Mutex::new(Totals::default());
    let waiting: Mutex<VecDeque<&Any>> = Mutex::new(cases.iter().collect());
    let next = || {
        waiting
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .pop_front()
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let result = case.run(corpus);
                    let mut totals = totals.lock().unwrap_or_else(|e| e.into_inner());
                    totals.add(case.name(), &result);
                }
            });
        }
    });
    totals.into_inner().unwrap_or_else(|e| e.into_inner())
}
