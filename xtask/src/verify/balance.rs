// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify balance`: ART's run-tests with all threads traced. Every thread of every process has to end
//! with an empty stack, leave nothing that it has not entered, and enter nothing that has no name.
//!
//! The recorder looks when a thread ends (`check-balance`), and `lab run-test --trace` reads what it says; here that is
//! asked of all tests, whether or not they pass otherwise.

use std::path::Path;

use anyhow::{ensure, Result};
use clap::Parser as _;
use hindsight_lab::run_test::{self, Layout, Mode, Report, Status};
use hindsight_lab::{Isa, Lab, Release, Variant};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tests, by name (`001-HelloWorld`) or number (`001`)
    #[arg(required_unless_present_any = ["all", "set"])]
    names: Vec<String>,
    /// All tests but those that AOSP or known-failures.toml says can't pass
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The tests listed in FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "all"])]
    set: Option<String>,
    /// How they are executed; several, divided by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["aot", "jit", "interpreter"])]
    mode: Vec<Mode>,
    /// The release of Android
    #[arg(long, default_value = "10")]
    release: Release,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Tests at a time
    #[arg(short = 'j', long, value_name = "N")]
    jobs: Option<usize>,
}

/// `lab run-test`'s options, from its command line.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct RunTest {
    #[command(flatten)]
    options: run_test::Options,
}

/// What was recorded, of all modes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    programs: u64,
    threads: u64,
    wrapped: u64,
    events: u64,
    problems: u64,
}

impl Totals {
    /// Adds what a run has found, and says what is wrong.
    fn add(&mut self, report: &Report) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, outcome) in &report.tests {
            if outcome.status == Status::Skipped {
                continue;
            }
            self.programs += u64::from(outcome.events.is_some());
            self.events += outcome.events.unwrap_or(0);
            self.threads += outcome.threads.unwrap_or(0);
            self.wrapped += outcome.wrapped.unwrap_or(0);
            let mode = report.mode.name();
            problems.extend(
                (outcome.unbalanced.iter()).map(|which| format!("{name} ({mode}): {which}")),
            );
        }
        self.problems += problems.len() as u64;
        problems
    }

    fn line(&self) -> String {
        format!(
            "balance: {} programs, {} threads, {} events, {} problems",
            self.programs, self.threads, self.events, self.problems
        )
    }
}

/// Runs the tests, and prints what is not balanced. The result is whether that is nothing.
pub(crate) fn run(options: &Options, _checkout: &Path) -> Result<bool> {
    let lab = Lab::open(options.release, options.isa, Variant::Hindsight)?;
    let layout = Layout::of(&lab);
    let folder = tempfile::tempdir()?;
    let mut totals = Totals::default();
    for &mode in &options.mode {
        let file = folder.path().join(mode.name()).display().to_string();
        let mut arguments = vec!["--trace", "--mode", mode.name(), "--report", &file];
        let jobs = options.jobs.map(|jobs| jobs.to_string());
        if let Some(jobs) = &jobs {
            arguments.extend(["--jobs", jobs]);
        }
        if options.all {
            arguments.push("--all");
        }
        if let Some(set) = &options.set {
            arguments.extend(["--set", set]);
        }
        arguments.extend(options.names.iter().map(String::as_str));
        let run = RunTest::try_parse_from(arguments)?;
        // Whether they print what they should is what `lab run-test` is for.
        run_test::run(&layout, &run.options)?;
        let report = Report::load(file.as_ref())?;
        for problem in totals.add(&report) {
            println!("problem: {problem}");
        }
    }
    ensure!(totals.events != 0, "nothing was recorded");
    if totals.wrapped != 0 {
        println!(
            "{} threads recorded more than their rings hold: only that they end with an empty stack was checked",
            totals.wrapped
        );
    }
    println!("{}", totals.line());
    Ok(totals.problems == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_counted_by_thread_and_method() {
        let json = r#"{"variant":"hindsight","mode":"jit","trace":true,"seconds":1.0,"tests":{
            "001-a":{"status":"passed","events":10,"threads":3},
            "002-b":{"status":"passed","events":5,"threads":1,"wrapped":1,"unbalanced":["unbalanced: x","unknown: y"]},
            "003-c":{"status":"failed"},
            "004-d":{"status":"skipped"}}}"#;
        let report: Report = serde_json::from_str(json).unwrap();
        let mut totals = Totals::default();
        let problems = totals.add(&report);
        assert_eq!(problems[0], "002-b (jit): unbalanced: x");
        assert_eq!(
            totals.line(),
            "balance: 2 programs, 4 threads, 15 events, 2 problems"
        );
        assert_eq!(totals.wrapped, 1);
    }
}
