// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask`: the project's own commands.

mod bench;
mod demo;
mod lab;
mod patches;
mod start;
mod verify;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds and runs ART for Linux
    #[command(subcommand)]
    Lab(lab::Command),
    /// Traces an app with a stall in it, and says where the stall came from
    Demo(demo::Options),
    /// Measures, and writes target/bench/NAME.json
    Bench {
        /// What to measure
        name: bench::Name,
    },
    /// Counts and tries the patches to upstream's files
    #[command(subcommand)]
    Patches(patches::Patches),
    /// Checks dependencies between crates and modules, licence lines and links
    CheckLayout,
    /// Checks what was built without trusting what built it; alone: by the oracle, by balance and under stress
    Verify(verify::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Lab(command) => lab::run(command),
        Command::Demo(options) => done(demo::run(&options, &checkout())),
        Command::Bench { name } => done(bench::run(name, &checkout())),
        Command::Patches(what) => done(patches::run(&what, &checkout())),
        Command::CheckLayout => start::program("hindsight-check-layout", &[]),
        Command::Verify(what) => match verify::run(&what, &checkout()) {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => Ok(ExitCode::FAILURE),
            Err(error) => done(Err(error)),
        },
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The folder that cargo runs xtask from: this checkout.
fn checkout() -> PathBuf {
    Path::new(env!("HINDSIGHT_CHECKOUT"))
        .canonicalize()
        .unwrap_or_else(|_| ".".into())
}

fn done(result: anyhow::Result<()>) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // With its causes, in one line.
        Err(error) => Err(format!("{error:#}").into()),
    }
}
