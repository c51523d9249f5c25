// SPDX-License-Identifier: Apache-2.0
//! The arguments of `lab run-test`.

use std::path::PathBuf;

/// How the VM executes a test.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything interpreted (`-Xint`, dex code quickened).
    Interpreter,
    /// Interpreted at first, hot methods compiled.
    Jit,
    /// Compiled by dex2oat beforehand; checker tests compare the compiler's graphs too.
    Aot,
}

impl Mode {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "jit",
            Mode::Aot => "aot",
        }
    }
}

/// Arguments of `lab run-test`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Tests, by name (`001-HelloWorld`) or number (`001`).
    #[arg(required_unless_present_any = ["all", "set"])]
    pub names: Vec<String>,
    /// All tests except the known failures of AOSP and of known-failures.toml.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// The tests listed in FILE, one a line, `#` starts a comment.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "all"])]
    pub set: Option<PathBuf>,
    /// Interpreter, JIT or AOT.
    #[arg(long, value_enum, default_value_t = Mode::Aot)]
    pub mode: Mode,
    /// Trace every thread, and fail tests whose traces are not balanced.
    #[arg(long)]
    pub trace: bool,
    /// Record all events on every thread, with or without --trace.
    #[arg(long)]
    pub events: bool,
    /// log2 of the bytes of each thread's ring, with --trace (default: 24, in 32-bit processes 22).
    #[arg(long, value_name = "N", requires = "trace")]
    pub ring: Option<u32>,
    /// Run the tests of known-failures.toml and of AOSP's knownfailures.json too.
    #[arg(long)]
    pub include_known: bool,
    /// Only tests whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Tests at a time (default: as many as there are CPUs).
    #[arg(short = 'j', long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Seconds that a test may take to build, and again to run.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub timeout: u64,
    /// Write the results to FILE (JSON).
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Name the tests that pass here and fail in the results in FILE, or the reverse; fail if one got worse.
    #[arg(long, value_name = "FILE")]
    pub compare_with: Option<PathBuf>,
    /// Don't run failed tests again, alone.
    #[arg(long)]
    pub no_retry: bool,
    /// Keep the working folders of all tests, not only their logs.
    #[arg(long)]
    pub keep: bool,
}
