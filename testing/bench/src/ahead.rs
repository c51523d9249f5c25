// SPDX-License-Identifier: Apache-2.0
//! Programs compiled ahead of time.

use std::fs;
use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{BootImage, Lab};

/// The environment variable that selects a form of trace points for a compiler.
pub(crate) const TRACE_POINTS: &str = "HINDSIGHT_TRACE_POINTS";

/// Compiles a jar to the file beside it in which ART looks for its code. `trace_points`: a value of [`TRACE_POINTS`].
/// `options`: further ones of dex2oat.
pub(crate) fn compile(
    lab: &Lab,
    image: &BootImage,
    jar: &Path,
    trace_points: Option<&str>,
    options: &[&str],
) -> Result<()> {
    let stem = jar.file_stem().context("no name")?;
    let oat = jar.with_file_name("oat").join(lab.isa().name());
    fs::create_dir_all(&oat)?;
    let mut command = lab.dex2oat_command_with(image);
    if let Some(form) = trace_points {
        command.env(TRACE_POINTS, form);
    }
    let oat_file = oat.join(stem).with_extension("odex");
    let output = command
        .arg(format!("--dex-file={}", jar.display()))
        .arg(format!("--oat-file={}", oat_file.display()))
        .args([
            "--compiler-filter=speed",
            "--class-loader-context=PCL[]",
            "--host",
            "-j1",
        ])
        .arg("--instruction-set-features=runtime")
        .args(options)
        .output()
        .context("cannot run dex2oat")?;
    ensure!(
        output.status.success(),
        "dex2oat fails:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
