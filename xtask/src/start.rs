// SPDX-License-Identifier: Apache-2.0
//! Programs of `testing/`, which only the commands that need them compile.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Arguments that a program reads itself.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// Arguments; --help lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Builds a program of the workspace and becomes it. Returns only if there is no cargo.
pub(crate) fn program(
    package: &str,
    arguments: &Arguments,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", package, "--"]);
    let error = cargo.args(&arguments.arguments).exec();
    Err(format!("cannot run {:?}: {error}", cargo.get_program()).into())
}
