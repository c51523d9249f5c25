// SPDX-License-Identifier: Apache-2.0
//! Programs of `testing/`, which only the commands that need them compile.

use anyhow::{ensure, Context as _};
use hindsight_lab::vm::Programs;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
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

/// Builds the `hindsight` program, which takes no time if nothing has changed. Without optimization: the
/// traces are small, and compiling the program optimized takes minutes.
pub(crate) fn hindsight_program(checkout: &Path) -> anyhow::Result<PathBuf> {
    build_program(checkout, "hindsight-cli", "hindsight")
}

/// Builds the system service, hindsightd.
pub(crate) fn service_program(checkout: &Path) -> anyhow::Result<PathBuf> {
    build_program(checkout, "hindsight-service", "hindsightd")
}

/// Builds the programs of the virtual machine: hindsightd as the library that Android's program links, and, if wanted, the natives of
/// programs that use the kernel's binder.
pub(crate) fn guest_programs(checkout: &Path, with_binder: bool) -> anyhow::Result<Programs> {
    let guest = build_program(checkout, "hindsight-vm-guest", "vm-guest")?;
    let library = (with_binder)
        .then(|| build_program(checkout, "hindsight-kernel-binder", "libkernel_binder.so"));
    let binder = library.transpose()?;
    let library = "rustc --quiet --package hindsight-service --lib --crate-type staticlib";
    let arguments: Vec<&str> = library.split(' ').collect();
    let built = build(checkout, &arguments)?;
    Ok(Programs {
        service: built.join("libhindsight_service.a"),
        guest,
        binder,
    })
}

fn build_program(checkout: &Path, package: &str, program: &str) -> anyhow::Result<PathBuf> {
    let built = build(checkout, &["build", "--quiet", "--package", package])?;
    Ok(built.join(program))
}

/// Runs cargo in the checkout with these arguments; returns the folder of what it has built.
fn build(checkout: &Path, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // This folder also if CARGO_TARGET_DIR is set.
    let target = checkout.join("target");
    let mut build = Command::new(cargo);
    build.current_dir(checkout).args(arguments);
    build.arg("--target-dir").arg(&target);
    let status = build
        .status()
        .with_context(|| format!("cannot run {build:?}"))?;
    ensure!(status.success(), "{build:?} failed ({status})");
    Ok(target.join("debug"))
}
