// SPDX-License-Identifier: Apache-2.0
//! The list of the checks.

use std::path::Path;

use anyhow::Result;

use crate::{
    balance, case_runs, cases, causality, detectors, device, events, graphs, oat, oracle, perfetto,
    samples, stress, unit,
};

/// A check, with its options.
#[derive(clap::Subcommand)]
pub(crate) enum Check {
    /// Disassembles the boot image: every method has its trace points, and nothing else has any
    Oat(oat::Options),
    /// Counts the instructions that trace points execute, by running compiled methods under qemu
    Instructions(oat::instructions::Options),
    /// Runs the C++ unit tests of the hooks
    Unit(unit::Options),
    /// Checks the assertions of lab/checker about the compiler's graphs
    Checker(graphs::checker::Options),
    /// Compares the compiler's graphs with the graphs of a compiler without trace points
    Graphs(graphs::Options),
    /// Runs programs, and compares the recorded events with the trace of ART's own tracer
    Oracle(oracle::Options),
    /// Runs ART's run-tests traced: every thread ends with an empty stack
    Balance(balance::Options),
    /// Traces a program of many threads while tracing is started, stopped and put into snapshots at random
    Stress(stress::Options),
    /// Runs random programs, and compares the pairs of events with what they know
    Events(events::Options),
    /// Runs the programs of lab/causality, and checks that what a diagnosis needs is recorded
    Cases(case_runs::Options),
    /// Runs random programs whose causes are known, and compares their graphs and the culprits of their stalls
    Causality(causality::Options),
    /// Runs apps and hindsightd under a random script of stalls, crashes and kills, and reads all reports
    Device(device::Options),
    /// Runs the programs of lab/detectors with hindsightd: each detector fires where it must, and is quiet where it must be
    Detectors(detectors::Options),
    /// Writes rings of apps into sessions of a real traced, and asks Perfetto's trace processor about the traces
    Perfetto(perfetto::Options),
    /// Compares the calls that stacks show with the calls that the same threads record
    Samples(samples::Options),
}

impl Check {
    /// Checks and prints the findings. Returns whether there is no problem.
    pub(crate) fn run(&self, checkout: &Path) -> Result<bool> {
        match self {
            Check::Oat(options) => oat::run(options, checkout),
            Check::Instructions(options) => oat::instructions::run(options, checkout),
            Check::Unit(options) => unit::run(options, checkout),
            Check::Checker(options) => graphs::checker::run(options, checkout),
            Check::Graphs(options) => graphs::run(options, checkout),
            Check::Oracle(options) => oracle::run(options, checkout),
            Check::Balance(options) => balance::run(options, checkout),
            Check::Stress(options) => stress::run(options, checkout),
            Check::Events(options) => events::run(options, checkout),
            Check::Cases(options) => cases::run(options, checkout),
            Check::Causality(options) => causality::run(options, checkout),
            Check::Device(options) => device::run(options, checkout),
            Check::Detectors(options) => detectors::run(options, checkout),
            Check::Perfetto(options) => perfetto::run(options, checkout),
            Check::Samples(options) => samples::run(options, checkout),
        }
    }
}
