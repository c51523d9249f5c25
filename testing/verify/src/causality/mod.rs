// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify causality`: random programs whose causes are known by construction run in the lab. The graphs of their
//! recordings must have the same causes, and the diagnosis of their stall must name the culprit, or say why it does not know it.

mod cases;
mod culprit;
mod generate;
mod java;
mod judge;
mod mutate;
mod paths;
mod plan;
mod run;
mod totals;
mod transactions;
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use hindsight_causality::{Graph, Session};
use hindsight_lab::run_test::Mode;
use hindsight_lab::Framework;

use crate::rounds::{keep, now};
use judge::judge;
use plan::Plan;
use run::{Programs, Round};
use totals::{Subject, Totals};

/// Options of `verify causality`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The number of programs
    #[arg(long, default_value_t = 8)]
    programs: u64,
    /// Seed of the first program; default: a new one for each run
    #[arg(long)]
    seed: Option<u64>,
    /// The modes of execution, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["interpreter", "jit", "aot"])]
    mode: Vec<Mode>,
    /// Also run the programs of lab/causality/cases, and compare with the answers beside them
    #[arg(long)]
    cases: bool,
    /// Time limit of a program in seconds
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Keep the files of all programs in this folder, not only those of programs with findings
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Judge the files that were kept in this folder, of the same seed, once more
    #[arg(long, value_name = "DIR", requires = "seed", conflicts_with_all = ["keep", "cases"])]
    kept: Option<PathBuf>,
}

/// What is recorded, by the remainder of the program's seed: what else is recorded must not change the graph.
const CONFIGURATIONS: [&str; 4] = [
    "events=all",
    "events=all,trace=main,ring=22",
    // Rings that are put together again from the spool.
    "events=all,event-ring=13",
    ALL_CALLS,
];
/// With all calls of at least 1 µs: shorter ones are only those that a program makes in a loop.
const ALL_CALLS: &str = "events=all,trace=all,ring=24,max-rings=unlimited,rewind=1us";

/// The configuration of the program of a seed.
fn configuration(seed: u64) -> &'static str {
    CONFIGURATIONS[(seed % CONFIGURATIONS.len() as u64) as usize]
}

/// Runs the programs and prints what is wrong. Returns whether nothing is.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(now);
    println!(
        "causality: {} programs in {} modes, seed {seed} (again: --seed {seed} --programs {})",
        options.programs,
        options.mode.len(),
        options.programs
    );
    let plans: Vec<(u64, Plan)> = (0..options.programs).map(|n| plan(seed, n)).collect();
    let scratch = tempfile::tempdir()?;
    let mut totals = Totals::default();
    let mut programs = None;
    if options.kept.is_none() {
        let framework = run::framework()?;
        if options.cases {
            run_cases(options, &framework, checkout, scratch.path(), &mut totals)?;
        }
        let plans: Vec<&Plan> = plans.iter().map(|(_, plan)| plan).collect();
        if !plans.is_empty() {
            let compiled = Programs::compile(&framework, checkout, scratch.path(), &plans)?;
            programs = Some(compiled);
        }
    }
    let kept = std::env::temp_dir().join(format!("hindsight-causality-{seed}"));
    let kept = options.keep.as_ref().unwrap_or(&kept);
    for (seed, plan) in &plans {
        for &mode in &options.mode {
            let name = format!("{}-{}", plan.package, mode.name());
            let round = Round {
                mode,
                configuration: configuration(*seed),
                limit: Duration::from_secs(options.timeout),
            };
            let of = Subject {
                name: format!("{}, {}", plan.package, mode.name()),
                again: again(&format!("--programs 1 --seed {seed}"), mode),
            };
            if let Some(programs) = &programs {
                let folder = scratch.path().join(&name);
                let files = programs.run(plan, &round, &folder);
                let is_clean = files_of(files, plan, &round, &of, &mut totals);
                if !is_clean || options.keep.is_some() {
                    keep_files(plan, &round, &folder, &kept.join(&name))?;
                }
                fs::remove_dir_all(&folder)?;
            } else if let Some(folder) = (options.kept.as_ref()).map(|kept| kept.join(&name)) {
                if folder.is_dir() {
                    let files = run::files(plan, &folder);
                    files_of(files, plan, &round, &of, &mut totals);
                }
            }
        }
    }
    totals.print();
    Ok(totals.is_clean())
}

/// The plan with this number, and its own seed.
fn plan(seed: u64, number: u64) -> (u64, Plan) {
    let seed = seed.wrapping_add(number);
    let has_staying_threads = configuration(seed) == ALL_CALLS;
    let package = format!("p{number}");
    (
        seed,
        generate::generate(seed, &package, has_staying_threads),
    )
}

/// Judges the files of a program, if it has left some. Returns whether nothing is wrong.
fn files_of(
    files: Result<Vec<PathBuf>>,
    plan: &Plan,
    round: &Round,
    of: &Subject,
    totals: &mut Totals,
) -> bool {
    let judged = files.and_then(|files| one(&files, plan, round, of, totals));
    judged.unwrap_or_else(|error| {
        totals.failed(of, &error);
        false
    })
}

/// The command that runs something again.
fn again(what: &str, mode: Mode) -> String {
    format!("cargo xtask verify causality {what} --mode {}", mode.name())
}

/// Keeps the files of a program, with its plan.
fn keep_files(plan: &Plan, round: &Round, from: &Path, to: &Path) -> Result<()> {
    keep(from, to)?;
    fs::write(to.join("plan.txt"), format!("{plan:#?}\n"))?;
    println!("{} is in {}", round.configuration, to.display());
    Ok(())
}

/// Runs the cases in each mode, and compares the answers.
fn run_cases(
    options: &Options,
    framework: &Framework,
    checkout: &Path,
    scratch: &Path,
    totals: &mut Totals,
) -> Result<()> {
    let cases = cases::Compiled::new(framework, checkout)?;
    for case in cases.all() {
        for &mode in &options.mode {
            let of = Subject {
                name: format!("{}, {}", case.name, mode.name()),
                again: again("--programs 0 --cases", mode),
            };
            let round = Round {
                mode,
                configuration: CONFIGURATIONS[0],
                limit: Duration::from_secs(options.timeout),
            };
            let parent = options.keep.as_deref().unwrap_or(scratch);
            let folder = parent.join(&case.name).join(mode.name());
            match cases.ask(case, &round.options(), &folder) {
                Ok(answer) => {
                    totals.case();
                    totals.answer(&of, "the culprit", answer);
                }
                Err(error) => totals.failed(&of, &error),
            }
        }
    }
    Ok(())
}

/// Judges the recording of a program. Returns whether nothing is wrong.
fn one(
    files: &[PathBuf],
    plan: &Plan,
    round: &Round,
    of: &Subject,
    totals: &mut Totals,
) -> Result<bool> {
    let session = Session::open(files)?;
    let graph = Graph::build(&session)?;
    let truth = truth::derive(plan);
    let mut verdict = judge(&session, &graph, plan, &truth);
    verdict.wrong.extend(paths::judge(&session, &graph, plan));
    let mut is_clean = totals.add(of, verdict);
    if is_clean {
        let (unnoticed, changes) = mutate::unnoticed(&session, &graph, plan, &truth);
        is_clean = totals.changes(of, &unnoticed, changes);
    }
    if round.configuration == ALL_CALLS {
        is_clean &= totals.coverage(of, &transactions::judge(files, plan)?);
    }
    let stall = format!(
        "the culprit of {:?} after {} hops",
        plan.stall.terminal,
        plan.stall.chain.len() - 1
    );
    Ok(totals.answer(of, &stall, culprit::ask(&session, &graph, plan)) && is_clean)
}
