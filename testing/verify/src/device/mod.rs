// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify device`: the lab's device under a random script of starts, stalls, crashes and kills, of apps and of the
//! service. Then every report is read.

mod apps;
mod hostile;
mod reports;
mod script;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use hindsight_lab::device::Device;
use hindsight_lab::{build, BuildOptions, Framework, Isa, Parts, Variant};

use script::Script;

/// Options of `verify device`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Number of the script; default: another one each time
    #[arg(long)]
    seed: Option<u64>,
    /// How many apps live at a time
    #[arg(long, default_value_t = 20)]
    apps: usize,
    /// Keep the files of the device in this folder, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs the script. Returns whether there is no problem.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(Isa::X86_64, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify device: building {step}"))?;
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
    let device = Device::new(&framework, checkout, &program, &folder)?;
    let seed = options.seed.unwrap_or_else(|| std::process::id().into());
    println!(
        "seed {seed}; the same script again: cargo xtask verify device --seconds {} --apps {} --seed {seed}",
        options.seconds, options.apps
    );
    let mut script = Script::new(&device, seed, options.apps)?;
    script.run(Duration::from_secs(options.seconds))?;
    let totals = script.finish()?;
    println!("{totals}");
    Ok(totals.problems == 0)
}

/// hindsightd, which is beside this program.
pub(crate) fn program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's folder")?;
    let program = own.with_file_name("hindsightd");
    anyhow::ensure!(
        program.is_file(),
        "{} is not there: compile it by 'cargo build -p hindsight-service'",
        program.display()
    );
    Ok(program)
}
