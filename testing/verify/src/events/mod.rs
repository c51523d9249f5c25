// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify events`: random programs know which thread ended which wait, who released a lock to whom, and who
//! ran whose tasks. The pairs that `hindsight-analysis` finds in their recordings must be the same.

mod judge;
mod run;
mod truth;

use crate::rounds::{keep, now};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use hindsight_analysis::pairs;
use hindsight_lab::run_test::Mode;
use hindsight_lab::{Isa, Lab, Release, Variant};

use judge::{judge, Verdict};
use run::{Program, Round};

/// Options of `verify events`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The number of programs in each mode
    #[arg(long, default_value_t = 8)]
    programs: u64,
    /// The number of scenes in each program
    #[arg(long, default_value_t = 40)]
    scenes: u64,
    /// Seed of the first program; default: a new one for each run
    #[arg(long)]
    seed: Option<u64>,
    /// The modes of execution, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["interpreter", "jit", "aot"])]
    mode: Vec<Mode>,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Time limit of a program in seconds
    #[arg(long, default_value_t = 80)]
    timeout: u64,
    /// Keep the files of all programs in this folder, not only those of wrong or missing pairs
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The configurations: what else is recorded must not change the pairs.
const CONFIGURATIONS: [&str; 4] = [
    "events=all",
    "events=all,trace=main,ring=24",
    "events=waits+tasks+messages+marks",
    // Rings that are put together again from the spool.
    "events=all,event-ring=13",
];

/// The sums over all programs.
#[derive(Default)]
struct Totals {
    programs: u64,
    right: BTreeMap<&'static str, u64>,
    wrong: u64,
    missing: u64,
    perhaps: (u64, u64),
}

impl Totals {
    fn add(&mut self, verdict: &Verdict) {
        self.programs += 1;
        for (kind, count) in &verdict.right {
            *self.right.entry(kind).or_default() += count;
        }
        self.wrong += verdict.wrong.count() as u64;
        self.missing += verdict.missing.count() as u64;
        self.perhaps.0 += verdict.perhaps.0;
        self.perhaps.1 += verdict.perhaps.1;
    }

    fn line(&self) -> String {
        format!(
            "{} programs, {} pairs, {} wrong, {} missing",
            self.programs,
            self.right.values().sum::<u64>(),
            self.wrong,
            self.missing
        )
    }
}

/// Runs the programs and prints what is wrong. Returns whether nothing is.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)?;
    let scratch = tempfile::tempdir()?;
    let program = Program::compile(&lab, checkout, scratch.path())?;
    let seed = options.seed.unwrap_or_else(now);
    println!(
        "events: {} programs of {} scenes in each of {} modes, seed {seed} (again: --seed {seed} --programs {} --scenes {})",
        options.programs,
        options.scenes,
        options.mode.len(),
        options.programs,
        options.scenes
    );
    let kept = (options.keep.clone())
        .unwrap_or_else(|| std::env::temp_dir().join(format!("hindsight-events-{seed}")));
    let mut totals = Totals::default();
    let mut failed = 0;
    for index in 0..options.programs {
        for &mode in &options.mode {
            let round = Round {
                seed: seed.wrapping_add(index),
                scenes: options.scenes,
                mode,
                configuration: CONFIGURATIONS[index as usize % CONFIGURATIONS.len()],
                timeout: Duration::from_secs(options.timeout),
            };
            let name = format!("{}-{}", round.seed, mode.name());
            let folder = scratch.path().join(&name);
            fs::create_dir(&folder)?;
            let is_clean = match one(&lab, &program, &round, &folder, &mut totals) {
                Ok(is_clean) => is_clean,
                Err(error) => {
                    println!("error: {name}: {error:#}");
                    failed += 1;
                    false
                }
            };
            if !is_clean || options.keep.is_some() {
                keep(&folder, &kept.join(&name))?;
                println!("{name} ({}) is in {}", round.configuration, kept.display());
            }
            fs::remove_dir_all(&folder)?;
        }
    }
    for (kind, count) in &totals.right {
        println!("{kind}: {count} pairs");
    }
    println!(
        "{} of {} wake-ups that may have come too early for a wait are recorded as pairs",
        totals.perhaps.0, totals.perhaps.1
    );
    println!("events: {}", totals.line());
    Ok(totals.wrong == 0 && totals.missing == 0 && failed == 0 && !totals.right.is_empty())
}

/// Runs and judges a program. Returns whether all its pairs are right.
fn one(
    lab: &Lab,
    program: &Program,
    round: &Round,
    folder: &Path,
    totals: &mut Totals,
) -> Result<bool> {
    let recorded = run::run(lab, program, round, folder)?;
    let verdict = judge(&recorded.trace, &pairs(&recorded.trace), &recorded.truth);
    let what = format!(
        "{}, {}, {}",
        round.seed,
        round.mode.name(),
        round.configuration
    );
    for (title, findings) in [("wrong", &verdict.wrong), ("missing", &verdict.missing)] {
        /// More of them rarely say more.
        const SHOWN: usize = 5;
        for (about, findings) in &findings.0 {
            for finding in findings.iter().take(SHOWN) {
                println!("{title}: {what}: {about}: {finding}");
            }
            if findings.len() > SHOWN {
                println!("{title}: {what}: {about}: {} more", findings.len() - SHOWN);
            }
        }
    }
    totals.add(&verdict);
    Ok(verdict.wrong.count() + verdict.missing.count() == 0)
}
