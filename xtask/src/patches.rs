// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask patches`: `hindsight_rom` checks the patches, which scripts/rom applies, and the lab builds with them.

use std::path::Path;
use std::time::Instant;

use anyhow::{anyhow, ensure, Result};
use hindsight_lab::{build, BuildOptions, Isa, Parts, Variant};
pub(crate) use hindsight_rom::patch_sets::Patches;
use hindsight_rom::release::Release;

/// The results of a build, below `ANDROID_ROOT`.
const LINKED: [&str; 3] = ["lib64/libart.so", "lib64/libart-compiler.so", "bin/dex2oat"];

pub(crate) fn run(command: &Patches, checkout: &Path) -> Result<()> {
    hindsight_rom::patch_sets::run(command, checkout, &build_release)
}

/// Builds the pinned sources with the patches, also if the environment names a work tree.
fn build_release(release: Release) -> Result<String> {
    let started = Instant::now();
    let lab = build(&BuildOptions {
        release: release
            .number()
            .to_string()
            .parse()
            .map_err(|error: String| anyhow!(error))?,
        isa: Isa::X86_64,
        variant: Variant::Hindsight,
        parts: Parts::All,
        art_source: None,
    })?;
    for file in LINKED {
        let path = lab.root().join(file);
        ensure!(path.is_file(), "the build made no {}", path.display());
    }
    let image = if lab.boot_class_path().is_empty() {
        "no boot image, as there are no core libraries"
    } else {
        "its boot image is compiled with it"
    };
    Ok(format!(
        "art compiles, {} link, {image} ({} s)",
        LINKED.join(", "),
        started.elapsed().as_secs()
    ))
}
