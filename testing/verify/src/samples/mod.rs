// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify samples`: programs record all their calls and take stacks at the same time; the calls that the stacks
//! show are compared with the recorded ones. Each stack that was walked over known frames is compared with one that ART walks.

mod compare;
mod execute;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hindsight_lab::{Isa, Lab, Release, Variant};

use compare::Sums;
use execute::{Mode, Program, Walks};

/// Options of `verify samples`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Folder for the traces; without it they are deleted
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// The least time between two stacks of a thread, ns: the default of `stack-interval`.
const INTERVAL_NS: u64 = 1_000_000;
/// Calls of at least this many intervals must be found.
const LONG: u64 = 10;
/// Percent of the long calls that must be found.
const LEAST_COVERAGE: f64 = 90.0;

/// Runs the programs, prints the findings, and returns whether there is none.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)?;
    let scratch = tempfile::tempdir()?;
    let folder = options.keep.as_deref().unwrap_or(scratch.path());
    std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    let jar = execute::compile(&lab, checkout, folder)?;
    let mut total = Sums::default();
    let mut all_walks = Walks::default();
    let mut programs = 0;
    let mut right = true;
    for mode in Mode::ALL {
        for kind in [
            "computing",
            "waiting",
            "allocating",
            "mixed",
            "deep",
            "changing",
            "unloading",
        ] {
            let program = Program {
                jar: &jar,
                kind,
                seed: programs,
                mode,
            };
            let name = format!("{kind}-{}", mode.name());
            let (trace, walks) = execute::execute(&lab, &program, &folder.join(&name))
                .with_context(|| name.clone())?;
            let sums = compare::compare(&trace, LONG * INTERVAL_NS);
            println!("{name}: {sums}; {walks}");
            for example in &sums.examples {
                println!("  {example}");
            }
            right &= sums.stacks != 0 && sums.wrong == 0 && sums.outside == 0;
            right &= walks.known != 0 && walks.different == 0;
            total.add(&sums);
            all_walks.add(walks);
            programs += 1;
        }
    }
    println!("{total}; {all_walks}");
    println!(
        "samples: {programs} programs, {} calls, coverage {:.0} %, error {:.1} %",
        total.calls,
        total.coverage(),
        total.error()
    );
    Ok(right && total.calls != 0 && total.coverage() >= LEAST_COVERAGE)
}
