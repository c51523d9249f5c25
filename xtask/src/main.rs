// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask`: the project's own commands.

mod lab;

use clap::{Parser, Subcommand};
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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Lab(command) => lab::run(command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
