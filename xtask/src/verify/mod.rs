// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify …`: checks of what was built that do not trust what built it.

mod balance;
mod graphs;
pub(crate) mod images;
mod oat;
mod oracle;
mod recording;
mod stress;
mod unit;

use std::path::Path;

use anyhow::Result;

/// What to check; nothing said: what is recorded, by the oracle, by balance and under stress.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: Option<Verify>,
    #[command(flatten)]
    recording: recording::Options,
}

/// A check.
#[derive(clap::Subcommand)]
enum Verify {
    /// Disassembles the boot image: every method has its trace points, and nothing else has any
    Oat(oat::Options),
    /// Counts the instructions that trace points execute, by running compiled methods under qemu
    Instructions(oat::instructions::Options),
    /// Runs the C++ unit tests of the hooks
    Unit(unit::Options),
    /// Checks what the programs in lab/checker say about the compiler's graphs
    Checker(graphs::checker::Options),
    /// Compares the compiler's graphs with those of a compiler without trace points
    Graphs(graphs::Options),
    /// Runs programs, and compares what was recorded with what ART's own tracer sees
    Oracle(oracle::Options),
    /// Runs ART's run-tests traced: every thread ends with an empty stack
    Balance(balance::Options),
    /// Traces a program of many threads while tracing is started, stopped and put into snapshots at random
    Stress(stress::Options),
}

/// Checks, and prints what was found. The result is whether there is no problem.
pub(crate) fn run(arguments: &Arguments, checkout: &Path) -> Result<bool> {
    match &arguments.what {
        Some(what) => check(what, checkout),
        None => recording::run(&arguments.recording, checkout),
    }
}

fn check(what: &Verify, checkout: &Path) -> Result<bool> {
    match what {
        Verify::Oat(options) => oat::run(options, checkout),
        Verify::Instructions(options) => oat::instructions::run(options, checkout),
        Verify::Unit(options) => unit::run(options, checkout),
        Verify::Checker(options) => graphs::checker::run(options, checkout),
        Verify::Graphs(options) => graphs::run(options, checkout),
        Verify::Oracle(options) => oracle::run(options, checkout),
        Verify::Balance(options) => balance::run(options, checkout),
        Verify::Stress(options) => stress::run(options, checkout),
    }
}
