// SPDX-License-Identifier: Apache-2.0
//! Options of `verify stress`.

use std::path::PathBuf;

use hindsight_lab::Isa;

/// All of them.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Duration
    #[arg(long, default_value_t = 40, conflicts_with = "minutes")]
    pub(super) seconds: u64,
    /// The same in minutes
    #[arg(long)]
    pub(super) minutes: Option<u64>,
    /// Seed of all sequences of actions; default: a new one for each run
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// The sanitizer that the lab was built with
    #[arg(long, value_enum, default_value = "none", conflicts_with = "stock")]
    pub(super) sanitizer: Sanitizer,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    pub(super) isa: Isa,
    /// Folder for logs and for files with findings; without it they are kept only if there are findings
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Run the program on stock ART, without recording: shows whether a finding is Hindsight's
    #[arg(long)]
    pub(super) stock: bool,
    /// Record all events, too, in rings of random sizes. The lock-free protocol, which has none, is left out
    #[arg(long, conflicts_with = "stock")]
    pub(super) events: bool,
    /// Stop after the first round with a finding
    #[arg(long)]
    pub(super) first: bool,
}

/// A tool that checks the program while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Sanitizer {
    /// AddressSanitizer
    Address,
    /// None
    None,
}
