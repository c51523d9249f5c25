// SPDX-License-Identifier: Apache-2.0
//! Options of `verify oracle`.

use std::path::PathBuf;

use hindsight_lab::Isa;

use super::mode::Mode;

/// Whether trivial methods have trace points: a value of `HINDSIGHT_TRIVIAL_METHODS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum TrivialMethods {
    /// All methods have trace points: the default of the build
    Traced,
    /// Trivial methods have none
    LeftOut,
}

impl TrivialMethods {
    /// The value of the environment variable.
    pub(super) fn name(self) -> &'static str {
        match self {
            TrivialMethods::Traced => "traced",
            TrivialMethods::LeftOut => "left-out",
        }
    }
}

/// Options of `verify oracle`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    pub(super) isa: Isa,
    /// Only these programs: run-tests by name, the others by class
    pub(super) names: Vec<String>,
    /// Only the programs of lab/oracle
    #[arg(long)]
    pub(super) own: bool,
    /// Only programs of Debian's Java packages
    #[arg(long, conflicts_with = "own")]
    pub(super) debian: bool,
    /// Only the run-tests listed in FILE, one a line, `#` starts a comment
    #[arg(long, value_name = "FILE", conflicts_with_all = ["own", "debian"])]
    pub(super) set: Option<PathBuf>,
    /// Only these modes of execution
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Mode::ALL)]
    pub(super) mode: Vec<Mode>,
    /// Whether trivial methods have trace points
    #[arg(long, value_enum, default_value_t = TrivialMethods::Traced)]
    pub(super) trivial: TrivialMethods,
    /// Record all events, too
    #[arg(long)]
    pub(super) events: bool,
    /// Take back calls that are shorter than this (rewind=), and note which: the noted calls and the recorded ones together
    /// are compared
    #[arg(long, value_name = "TIME")]
    pub(super) rewind: Option<String>,
    /// Programs that run at the same time
    #[arg(long, default_value_t = 2)]
    pub(super) jobs: usize,
    /// Time limit of a run in seconds
    #[arg(long, default_value_t = 60)]
    pub(super) timeout: u64,
    /// Keep the traces of differences in this folder
    #[arg(long)]
    pub(super) keep: Option<PathBuf>,
    /// Run nothing: compare art.trace with the other traces in this folder, made by --keep
    #[arg(long, requires = "main")]
    pub(super) kept: Option<PathBuf>,
    /// The class with the main method of these traces
    #[arg(long)]
    pub(super) main: Option<String>,
}
