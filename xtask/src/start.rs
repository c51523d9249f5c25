// SPDX-License-Identifier: Apache-2.0
//! Programs of `testing/`, which only the commands that need them compile.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Builds a program of the workspace and becomes it. Returns only if there is no cargo.
pub(crate) fn program(
    package: &str,
    arguments: &[OsString],
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--package", package, "--"]);
    let error = cargo.args(arguments).exec();
    Err(format!("cannot run {:?}: {error}", cargo.get_program()).into())
}
