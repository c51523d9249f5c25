// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask`: the project's own commands.

mod catalogue;
mod demo;
mod device;
mod lab;
mod patches;
mod start;
mod vm;

use clap::{Parser, Subcommand};
use std::path::Path;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "xtask",
    bin_name = "cargo xtask",
    about = "The project's own commands"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds and runs ART for Linux
    #[command(subcommand)]
    Lab(lab::Command),
    /// Traces an app with a stall, and prints the cause of the stall
    Demo(demo::Options),
    /// Writes the files that are generated from the catalogue of events
    Catalogue(catalogue::Options),
    /// Measures, and writes target/bench/NAME.json
    #[command(disable_help_flag = true)]
    Bench(start::Arguments),
    /// Counts the patches to upstream's files, and checks that they apply
    #[command(subcommand)]
    Patches(patches::Patches),
    /// Checks dependencies between crates and modules, licence lines and links
    CheckLayout,
    /// Checks compiled code and recordings; without the name of a check: runs oracle, balance and stress
    #[command(disable_help_flag = true)]
    Verify(start::Arguments),
}

fn main() -> ExitCode {
    if let Some(status) = hindsight_lab::run_test::run_as_tool(std::env::args_os()) {
        return status;
    }
    let result = match Arguments::parse().command {
        Command::Lab(command) => lab::run(command),
        Command::Demo(options) => in_checkout(|checkout| demo::run(&options, checkout)),
        Command::Catalogue(options) => in_checkout(|checkout| catalogue::run(&options, checkout)),
        Command::Bench(arguments) => start::program("hindsight-bench", &arguments),
        Command::Patches(what) => in_checkout(|checkout| patches::run(&what, checkout)),
        Command::CheckLayout => {
            start::program("hindsight-check-layout", &start::Arguments::default())
        }
        Command::Verify(arguments) => start::program("hindsight-verify", &arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs a command that works on this checkout.
fn in_checkout(
    command: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match command(&hindsight_lab::checkout_dir()?) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // In one line, with its causes.
        Err(error) => Err(format!("{error:#}").into()),
    }
}
