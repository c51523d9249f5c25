// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify perfetto`: apps of the lab's device, hindsightd, the data source `dev.hindsight` and a real traced. Each round
//! takes one trace in another way, and asks Perfetto's own trace processor what is in it.

mod consumer;
mod expected;
mod ftrace;
mod queries;
mod scene;
mod scenes;
mod setting;
mod text_config;
mod traced;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::device::Device;
use hindsight_lab::{build, BuildOptions, Framework, Isa, Parts, Variant};

use scenes::Scenes;
use setting::Sockets;

/// Options of `verify perfetto`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many traces
    #[arg(long, default_value_t = scene::SCENES.len() as u64)]
    rounds: u64,
    /// Keep the files in this folder, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Compiles a program of the project, and returns its path: beside this one.
fn program(checkout: &Path, name: &str, package: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's folder")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(checkout);
    build.args(["build", "--quiet", "--package", package]);
    let status = build.status().context("cannot run cargo")?;
    ensure!(status.success(), "{build:?} failed ({status})");
    let program = own.with_file_name(name);
    ensure!(program.is_file(), "{} is not there", program.display());
    Ok(program)
}

/// Runs the rounds. Returns whether there is no problem.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let traced = traced::program(checkout)?;
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(Isa::X86_64, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify perfetto: building {step}"))?;
    let service = program(checkout, "hindsightd", "hindsight-service")?;
    let source = program(checkout, "hindsight-perfetto", "hindsight-perfetto-source")?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = match &options.keep {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
            folder.canonicalize()?
        }
        None => temporary.path().canonicalize()?,
    };
    let device = Device::new(&framework, checkout, &service, &folder)?;
    let sockets = Sockets {
        producers: folder.join("traced-producers"),
        consumers: folder.join("traced-consumers"),
        folder,
    };
    let mut scenes = Scenes::new(&device, &sockets, checkout, &traced, &source)?;
    for round in 0..options.rounds {
        scenes.round(round)?;
    }
    let totals = scenes.finish();
    println!("{totals}");
    Ok(totals.problems == 0)
}
