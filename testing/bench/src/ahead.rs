// SPDX-License-Identifier: Apache-2.0
//! Boot images and programs, compiled ahead of time.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{BootImage, BootImageSpec, BootJar, Lab};

/// Variables of dex2oat and of the processes that run its code, which choose the trace points.
pub(crate) type Environment = &'static [(&'static str, &'static str)];

/// The environment of code without trace points in trivial methods.
pub(crate) const LEFT_OUT: Environment = &[("HINDSIGHT_TRIVIAL_METHODS", "left-out")];

/// The boot image of these jars with other trace points than the lab's, in a folder of its own.
pub(crate) fn boot_image(
    lab: &Lab,
    jars: &[BootJar],
    folder: &Path,
    environment: Environment,
) -> Result<BootImage> {
    let files = folder.join(lab.isa().name());
    fs::create_dir_all(&files).with_context(|| format!("cannot make {}", files.display()))?;
    let spec = BootImageSpec {
        jars: jars.to_vec(),
        filter: "speed".to_owned(),
        image: files.join("core.art"),
        options: Vec::new(),
    };
    let mut command = lab.boot_image_command(&spec, lab.isa());
    run(command.envs(environment.iter().copied()))?;
    Ok(BootImage {
        jars: spec.jars,
        // ART adds the folder of the instruction set.
        image: folder.join("core.art"),
    })
}

/// Compiles a jar to the file beside it in which ART looks for its code. `options`: further ones of dex2oat.
pub(crate) fn compile(
    lab: &Lab,
    image: &BootImage,
    jar: &Path,
    environment: Environment,
    options: &[&str],
) -> Result<()> {
    let stem = jar.file_stem().context("no name")?;
    let oat = jar.with_file_name("oat").join(lab.isa().name());
    fs::create_dir_all(&oat)?;
    let mut command = lab.dex2oat_command_with(image);
    let oat_file = oat.join(stem).with_extension("odex");
    command
        .envs(environment.iter().copied())
        .arg(format!("--dex-file={}", jar.display()))
        .arg(format!("--oat-file={}", oat_file.display()))
        .args([
            "--compiler-filter=speed",
            "--class-loader-context=PCL[]",
            "--host",
            "-j1",
        ])
        .arg("--instruction-set-features=runtime")
        .args(options);
    run(&mut command)
}

fn run(dex2oat: &mut Command) -> Result<()> {
    let output = dex2oat.output().context("cannot run dex2oat")?;
    ensure!(
        output.status.success(),
        "dex2oat fails:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
