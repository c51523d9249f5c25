// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify balance`: ART's run-tests with all threads traced. Every thread of every process must end
//! with an empty stack, have no exit without its entry, and no entry without a name.
//!
//! The recorder checks each thread when it ends (`check-balance`), and `lab run-test --trace` reads its report. This
//! command runs all tests for the report, whether or not they pass.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{ensure, Result};
use clap::Parser as _;
use hindsight_lab::run_test::{self, Layout, Mode, Outcome, Report, Status};
use hindsight_lab::{Isa, Lab, Release, Variant};

/// Options of `verify balance`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Tests, by name (`001-HelloWorld`) or number (`001`)
    #[arg(required_unless_present_any = ["all", "set"])]
    names: Vec<String>,
    /// All tests, including tests that AOSP's lists or known-failures.toml say can't pass
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The tests listed in FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "all"])]
    set: Option<String>,
    /// The modes of execution, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["aot", "jit", "interpreter"])]
    mode: Vec<Mode>,
    /// The release of Android
    #[arg(long, default_value = "10")]
    release: Release,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Record all events, too
    #[arg(long)]
    events: bool,
    /// Tests at a time
    #[arg(short = 'j', long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit of a test in seconds; a busy machine needs more
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    timeout: u64,
}

/// `lab run-test`'s options, from its command line.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct RunTest {
    #[command(flatten)]
    options: run_test::Options,
}

/// The sums over all modes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    programs: u64,
    threads: u64,
    wrapped: u64,
    events: u64,
    problems: u64,
}

/// Tests that are not counted as programs, by reason.
type LeftOut = BTreeMap<String, Vec<String>>;

impl Totals {
    /// Adds the result of a run, and returns its problems.
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

    fn of(report: &Report) -> Totals {
        let mut totals = Totals::default();
        totals.add(report);
        totals
    }

    fn line(&self) -> String {
        format!(
            "{} programs, {} threads, {} events, {} problems",
            self.programs, self.threads, self.events, self.problems
        )
    }
}

/// The tests of a run without a recording, by reason.
fn left_out(report: &Report) -> LeftOut {
    let mut left_out = LeftOut::new();
    for (name, outcome) in &report.tests {
        if outcome.events.is_some() {
            continue;
        }
        let reason = match outcome.status {
            Status::Skipped => outcome.reason.as_deref(),
            _ => outcome.untraced.as_deref(),
        };
        let reason = reason.unwrap_or("there is no report on its recording");
        left_out
            .entry(reason.to_owned())
            .or_default()
            .push(name.clone());
    }
    left_out
}

/// Puts the outcomes of normally skipped tests, which were run for this check only, in their places. If such a test
/// recorded nothing, both reasons are given.
fn merge(report: &mut Report, extra: Report) {
    for (name, mut outcome) in extra.tests {
        let Some(skipped) = report.tests.get_mut(&name) else {
            continue;
        };
        if let Some(why) = &mut outcome.untraced {
            let reason = skipped.reason.as_deref().unwrap_or_default();
            *why = format!("{why}; {reason}");
        }
        *skipped = outcome;
    }
}

/// Tests that load a JVMTI agent: the number with a recording, and of all.
fn agents(report: &Report) -> (usize, usize) {
    let with_agent = report.tests.values().filter(|outcome| outcome.agent);
    let recorded = with_agent.clone().filter(|o| o.events.is_some()).count();
    (recorded, with_agent.count())
}

/// Runs tests as `lab run-test` does; this check ignores their output.
fn run_tests(layout: &Layout, mode: Mode, which: &[&str]) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("report").display().to_string();
    let mut arguments = vec!["--trace", "--mode", mode.name(), "--report", &file];
    arguments.extend(which);
    let run = RunTest::try_parse_from(arguments)?;
    run_test::run(layout, &run.options)?;
    Report::load(file.as_ref())
}

/// The option of `lab run-test` for events.
fn events(options: &Options) -> Option<&'static str> {
    options.events.then_some("--events")
}

/// Runs the selected tests in one mode.
fn run_mode(layout: &Layout, options: &Options, mode: Mode) -> Result<Report> {
    let timeout = options.timeout.to_string();
    let jobs = options.jobs.map(|jobs| jobs.to_string());
    let jobs = jobs.as_deref().map_or(vec![], |jobs| vec!["--jobs", jobs]);
    let mut which = vec!["--timeout", &timeout];
    which.extend(&jobs);
    which.extend(events(options));
    if options.all {
        which.push("--all");
    }
    if let Some(set) = &options.set {
        which.extend(["--set", set]);
    }
    which.extend(options.names.iter().map(String::as_str));
    let mut report = run_tests(layout, mode, &which)?;
    // A test with wrong output has a recording, too.
    let skipped: Vec<String> = (report.tests.iter())
        .filter(|(_, outcome)| outcome.status == Status::Skipped)
        .filter(|(_, outcome)| options.isa.is_native() || !outcome.agent)
        .map(|(name, _)| name.clone())
        .collect();
    if options.all && !skipped.is_empty() {
        println!("{} more tests, which may fail:", skipped.len());
        // Some of them never end.
        let timeout = (options.timeout / 3).to_string();
        let mut which = vec!["--timeout", &timeout, "--no-retry"];
        which.extend(&jobs);
        which.extend(events(options));
        which.extend(skipped.iter().map(String::as_str));
        merge(&mut report, run_tests(layout, mode, &which)?);
    }
    check_wrapped(layout, options, mode, &mut report)?;
    Ok(report)
}

/// Repeats the tests in which a thread recorded more than its ring holds, with larger rings and one at a time.
fn check_wrapped(
    layout: &Layout,
    options: &Options,
    mode: Mode,
    report: &mut Report,
) -> Result<()> {
    let is_wrapped = |outcome: &Outcome| outcome.wrapped.is_some_and(|threads| threads != 0);
    let wrapped: Vec<String> = (report.tests.iter())
        .filter(|(_, outcome)| is_wrapped(outcome))
        .map(|(name, _)| name.clone())
        .collect();
    if wrapped.is_empty() {
        return Ok(());
    }
    println!("{} tests again, in larger rings:", wrapped.len());
    let (timeout, ring) = (options.timeout.to_string(), large_ring(options.isa));
    let mut which = vec!["--timeout", &timeout, "--ring", ring, "--no-retry"];
    which.extend(["--jobs", "1"]);
    which.extend(events(options));
    which.extend(wrapped.iter().map(String::as_str));
    let again = run_tests(layout, mode, &which)?;
    replace_wrapped(report, again);
    Ok(())
}

/// log2 of the bytes of a ring that is large enough for nearly all tests, and small enough for several in a process.
fn large_ring(isa: Isa) -> &'static str {
    if isa.is_64_bit() {
        "30"
    } else {
        "26"
    }
}

/// Replaces incomplete recordings by the new ones in larger rings. Problems that were found before stay.
fn replace_wrapped(report: &mut Report, again: Report) {
    for (name, mut outcome) in again.tests {
        let Some(first) = report.tests.get_mut(&name) else {
            continue;
        };
        if outcome.events.is_some() {
            outcome.unbalanced.append(&mut first.unbalanced);
            *first = outcome;
        } else {
            let why = outcome.untraced.unwrap_or_default();
            println!("{name}: nothing was recorded in larger rings: {why}");
        }
    }
}

/// Runs the tests and prints the problems. Returns whether there is none.
pub(crate) fn run(options: &Options, _checkout: &Path) -> Result<bool> {
    let lab = Lab::open(options.release, options.isa, Variant::Hindsight)?;
    let layout = Layout::of(&lab);
    let mut totals = Totals::default();
    for &mode in &options.mode {
        let report = run_mode(&layout, options, mode)?;
        for problem in totals.add(&report) {
            println!("problem: {problem}");
        }
        let left_out = left_out(&report);
        let count: usize = left_out.values().map(Vec::len).sum();
        println!(
            "{}: {} tests: {}; nothing was recorded of {count}",
            mode.name(),
            report.tests.len(),
            Totals::of(&report).line()
        );
        for (reason, names) in &left_out {
            println!(
                "  {} not recorded: {reason}: {}",
                names.len(),
                names.join(" ")
            );
        }
        let (recorded, with_agent) = agents(&report);
        if with_agent != 0 {
            println!("  {recorded} of {with_agent} tests with a JVMTI agent were recorded");
        }
    }
    ensure!(totals.events != 0, "nothing was recorded");
    if totals.wrapped != 0 {
        println!(
            "{} threads recorded more than the largest rings hold: only their last events were checked",
            totals.wrapped
        );
    }
    println!("balance: {}", totals.line());
    Ok(totals.problems == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let json = r#"{"variant":"hindsight","mode":"jit","trace":true,"seconds":1.0,"tests":{
            "001-a":{"status":"passed","events":10,"threads":3},
            "002-b":{"status":"passed","events":5,"threads":1,"wrapped":1,"unbalanced":["unbalanced: x","unknown: y"]},
            "003-c":{"status":"failed","untraced":"it aborts","agent":true},
            "004-d":{"status":"skipped","reason":"no slicer","agent":true},
            "005-e":{"status":"skipped","reason":"no slicer"}}}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn what_is_wrong_is_counted_by_thread_and_method() {
        let mut totals = Totals::default();
        let problems = totals.add(&report());
        assert_eq!(problems[0], "002-b (jit): unbalanced: x");
        assert_eq!(
            totals.line(),
            "2 programs, 4 threads, 15 events, 2 problems"
        );
        assert_eq!(totals.wrapped, 1);
    }

    #[test]
    fn what_was_not_recorded_is_named_by_reason() {
        let names = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let expected = [
            ("it aborts".to_owned(), names(&["003-c"])),
            ("no slicer".to_owned(), names(&["004-d", "005-e"])),
        ];
        assert_eq!(left_out(&report()), LeftOut::from(expected));
        assert_eq!(agents(&report()), (0, 2));
    }

    #[test]
    fn a_test_that_is_skipped_otherwise_counts_if_it_is_recorded() {
        let mut merged = report();
        let mut extra = report();
        extra.tests.retain(|name, _| name.as_str() > "004");
        let d = extra.tests.get_mut("004-d").unwrap();
        (d.status, d.events, d.threads) = (Status::Failed, Some(7), Some(1));
        d.unbalanced = vec!["unbalanced: z".to_owned()];
        let e = extra.tests.get_mut("005-e").unwrap();
        (e.status, e.untraced) = (Status::Failed, Some("it took over 60 s".to_owned()));
        merge(&mut merged, extra);
        let totals = Totals::of(&merged);
        assert_eq!(
            totals.line(),
            "3 programs, 5 threads, 22 events, 3 problems"
        );
        assert_eq!(agents(&merged), (1, 2));
        let left_out = left_out(&merged);
        assert_eq!(left_out["it took over 60 s; no slicer"], ["005-e"]);
    }
    #[test]
    fn what_a_ring_could_not_hold_is_recorded_again() {
        let mut first = report();
        let mut again = report();
        again.tests.retain(|name, _| name.as_str() < "004");
        let b = again.tests.get_mut("002-b").unwrap();
        (b.events, b.wrapped) = (Some(500), Some(0));
        b.unbalanced = vec!["unbalanced: z".to_owned()];
        again.tests.get_mut("001-a").unwrap().events = None;
        replace_wrapped(&mut first, again);
        let totals = Totals::of(&first);
        assert_eq!(
            (totals.events, totals.wrapped, totals.problems),
            (510, 0, 3)
        );
    }
}
