// SPDX-License-Identifier: Apache-2.0
//! What `verify cases` and `verify cases --libraries` have in common.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, Result};
use hindsight_lab::cases::CaseOptions;
use hindsight_lab::run_test::Mode;
use hindsight_lab::Execution;

/// Options of `verify cases`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The cases, by the names of their folders; default: all
    pub(crate) names: Vec<String>,
    /// Run the programs of lab/causality/libraries instead, and compare the graphs of their recordings with what they know of their
    /// callbacks
    #[arg(long)]
    pub(crate) libraries: bool,
    /// The modes of execution, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["interpreter", "jit", "aot"])]
    pub(crate) mode: Vec<Mode>,
    /// What is recorded; default: events=all, of libraries with rules=libraries
    #[arg(long)]
    pub(crate) configuration: Option<String>,
    /// Also record the uses of the fields that a diagnosis may ask for
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time limit of a case in seconds
    #[arg(long, default_value_t = 60)]
    pub(crate) timeout: u64,
    /// Keep the files: in DIR/CASE/MODE
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

impl Options {
    /// The names that were given, or all.
    pub(crate) fn chosen(&self, all: Vec<String>) -> Result<Vec<String>> {
        if let Some(name) = self.names.iter().find(|name| !all.contains(name)) {
            bail!("there is no {name}, only {}", all.join(", "));
        }
        let is_chosen = |name: &String| self.names.is_empty() || self.names.contains(name);
        Ok(all.into_iter().filter(is_chosen).collect())
    }

    /// How a program is run in a mode, with what is recorded unless the options say otherwise.
    pub(crate) fn how(&self, mode: Mode, recorded: &str) -> CaseOptions {
        CaseOptions {
            execution: execution(mode),
            configuration: self.configuration.as_deref().unwrap_or(recorded).to_owned(),
            watch: self.watch,
            limit: Duration::from_secs(self.timeout),
        }
    }
}

/// How many programs ran, and in how many something was wrong.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) problems: u64,
}

impl Totals {
    /// Counts and prints a run.
    pub(crate) fn add(&mut self, name: &str, mode: Mode, result: Result<String>) {
        self.runs += 1;
        self.problems += u64::from(result.is_err());
        let text = result.unwrap_or_else(|error| format!("{error:#}"));
        println!("{name} ({}): {text}", mode.name());
    }
}

fn execution(mode: Mode) -> Execution {
    match mode {
        Mode::Interpreter => Execution::Interpreter,
        Mode::Jit => Execution::Jit,
        Mode::Aot => Execution::Aot,
    }
}
