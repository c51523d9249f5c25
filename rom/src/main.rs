// SPDX-License-Identifier: Apache-2.0
//! `scripts/rom`: from an AOSP tree to a device that traces. See docs/rom.md.

mod context;
mod steps;

use crate::context::Context;
use crate::steps::{build, device, sync, tree};
use anyhow::{anyhow, bail, Result};
use clap::{Args, Parser, Subcommand};
use hindsight_rom::release::Release;
use hindsight_rom::runner::Runner;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "scripts/rom",
    bin_name = "scripts/rom",
    about = "Puts Hindsight into an AOSP tree, builds it, and puts it on a device",
    after_help = "Every step can be repeated, resumes after an interruption, and checks its requirements before it \
                  changes anything."
)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    step: Step,
}

/// Options of all steps.
#[derive(Args)]
struct Common {
    /// Android 10, 11 or 14
    #[arg(long, global = true, default_value = "10")]
    release: Release,
    /// The AOSP tree
    #[arg(long, global = true, env = "ANDROID_BUILD_TOP", default_value = ".")]
    tree: PathBuf,
    /// Only print what would be done
    #[arg(long, global = true)]
    dry_run: bool,
    /// Free disk space to require, in GB, in place of the step's own number
    #[arg(long, global = true, value_name = "GB")]
    min_disk: Option<u64>,
    /// Memory to require, in GB, in place of the step's own number
    #[arg(long, global = true, value_name = "GB")]
    min_memory: Option<u64>,
    /// The checkout of Hindsight; for tests
    #[arg(long, global = true, hide = true)]
    checkout: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Step {
    /// Downloads AOSP at the tag that the patches are for (repo init, repo sync)
    Sync(sync::Sync),
    /// Applies the patches and copies external/hindsight
    Apply,
    /// Reverts apply exactly
    Undo,
    /// Compiles the Rust half, then the system image (envsetup, lunch, m)
    Build(build::Build),
    /// Writes a build to a phone in fastboot mode, after asking
    Flash(device::Flash),
    /// Boots a build, or uses a running one, and checks that it traces
    BootTest(device::BootTest),
    /// Prints the state of the tree
    Status,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scripts/rom: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let common = arguments.common;
    let checkout = common
        .checkout
        .or_else(|| Some(PathBuf::from(env!("HINDSIGHT_CHECKOUT"))))
        .filter(|dir| dir.join("manifests").is_dir())
        .ok_or_else(|| {
            anyhow!(
                "the checkout that this program was built in is gone: run scripts/rom of another checkout"
            )
        })?;
    if matches!(arguments.step, Step::Sync(_)) && !common.dry_run {
        std::fs::create_dir_all(&common.tree)?;
    }
    let root = std::path::absolute(&common.tree)?;
    let looks_only = match &arguments.step {
        Step::Status => true,
        Step::BootTest(options) => options.target == "lab",
        _ => false,
    };
    if !looks_only && (root.starts_with(&checkout) || checkout.starts_with(&root)) {
        bail!(
            "the tree ({}) and this checkout ({}) may not be inside each other; name the AOSP tree with --tree",
            root.display(),
            checkout.display()
        );
    }
    let context = Context {
        checkout,
        tree: root,
        release: common.release,
        runner: Runner {
            dry_run: common.dry_run,
        },
        min_disk: common.min_disk,
        min_memory: common.min_memory,
    };
    match arguments.step {
        Step::Sync(options) => sync::sync(&context, &options),
        Step::Apply => tree::apply(&context),
        Step::Undo => tree::undo(&context),
        Step::Build(options) => build::build(&context, &options),
        Step::Flash(options) => device::flash(&context, &options),
        Step::BootTest(options) => device::boot_test(&context, &options),
        Step::Status => tree::status(&context),
    }
}
