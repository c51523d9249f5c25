// SPDX-License-Identifier: Apache-2.0
//! The program adb, run to its end.

use std::process::Stdio;

use anyhow::{ensure, Context as _, Result};
use hindsight_control::adb_command;

/// Runs adb with these words. Returns its output.
///
/// # Errors
/// If it cannot be run, or fails: with what it said.
pub(super) fn run(serial: Option<&str>, words: &[&str]) -> Result<String> {
    let output = adb_command(serial)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .context("adb cannot be run")?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let first = words.first().copied().unwrap_or_default();
    ensure!(
        output.status.success(),
        "adb {first}: {}",
        [out.trim(), said.trim()].join(" ").trim()
    );
    Ok(out)
}
