// SPDX-License-Identifier: Apache-2.0
//! `build`: compiles the Rust half and the system image.

use crate::context::{Context, GIT};
use anyhow::{bail, Result};
use clap::Args;
use hindsight_rom::overlay;
use hindsight_rom::project::State;
use hindsight_rom::release::Release;
use hindsight_rom::rust_libs::{self, Target};
use std::process::Command;

/// Options of `build`.
#[derive(Args)]
pub(crate) struct Build {
    /// What to build, e.g. aosp_cf_x86_64_phone
    #[arg(long)]
    product: Option<String>,
    /// user, userdebug or eng
    #[arg(long, default_value = "userdebug", value_parser = ["user", "userdebug", "eng"])]
    variant: String,
    /// Compile only the Rust half
    #[arg(long)]
    rust_only: bool,
    /// How many commands run at a time; by default the build system chooses
    #[arg(long, short)]
    jobs: Option<u32>,
    /// Goals for m in place of the whole image, e.g. nothing, which only checks the build files
    goals: Vec<String>,
}

pub(crate) fn build(context: &Context, options: &Build) -> Result<()> {
    let product = options
        .product
        .as_deref()
        .unwrap_or(context.release.products()[0]);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !plain(product) {
        bail!(
            "'{product}' is no name of a product; products for {}: {}",
            context.release,
            context.release.products().join(", ")
        );
    }
    if let Some(goal) = options.goals.iter().find(|goal| {
        !goal
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    }) {
        bail!("'{goal}' is no goal of m");
    }
    if !context.release.products().contains(&product) {
        println!(
            "{product} is none of the known products ({}): continuing with it",
            context.release.products().join(", ")
        );
    }
    let (disk, memory) = if options.rust_only { (3, 2) } else { (160, 16) };
    context.check(
        disk,
        memory,
        &[
            ("cargo", "rustup"),
            ("bash", "the Debian package bash"),
            GIT,
        ],
    )?;
    let _lock = context.lock()?;
    for project in context.projects()? {
        let (state, _) = project.state()?;
        if state != State::Applied {
            bail!(
                "{}: {state}; run 'scripts/rom apply' first",
                project.pinned.path
            );
        }
    }
    if !context.overlay()?.is_current()? {
        bail!(
            "{} is not up to date; run 'scripts/rom apply' first",
            overlay::PATH
        );
    }
    if !options.rust_only && !context.tree.join("build/envsetup.sh").exists() {
        let text = format!(
            "{} has no build/envsetup.sh: run 'scripts/rom sync'",
            context.tree.display()
        );
        if !context.runner.dry_run {
            bail!(text);
        }
        println!("missing: {text}");
    }
    let overlay = context.tree.join(overlay::PATH);
    rust_libs::build(
        &context.checkout,
        &overlay,
        &Target::of_product(product),
        context.runner,
    )?;
    if options.rust_only {
        return Ok(());
    }
    let mut script = format!(
        "set -e; source build/envsetup.sh; lunch {product}-{}; m",
        options.variant
    );
    if let Some(jobs) = options.jobs {
        script += &format!(" -j{jobs}");
    }
    for goal in &options.goals {
        script += &format!(" {goal}");
    }
    let mut command = Command::new("bash");
    command.current_dir(&context.tree).args(["-c", &script]);
    if context.release >= Release::Android14 {
        // By default, Android 14 uses a prebuilt ART module.
        command.env("ART_MODULE_BUILD_FROM_SOURCE", "true");
    }
    context.runner.run(&mut command)
}
