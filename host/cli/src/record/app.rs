// SPDX-License-Identifier: Apache-2.0
//! The app itself, ended and started by adb.

use std::process::Stdio;

use anyhow::{ensure, Context as _, Result};
use hindsight_control::adb_command;

/// Ends the app.
pub(super) fn stop(serial: Option<&str>, package: &str) -> Result<()> {
    adb(serial, package, &["shell", "am", "force-stop", package])
}

/// Starts the app, as its icon does.
pub(super) fn start(serial: Option<&str>, package: &str) -> Result<()> {
    let category = "android.intent.category.LAUNCHER";
    let words = ["shell", "monkey", "-p", package, "-c", category, "1"];
    adb(serial, package, &words)
}

fn adb(serial: Option<&str>, package: &str, words: &[&str]) -> Result<()> {
    let output = adb_command(serial)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .context("adb cannot be run")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success() && !said.contains("No activities found"),
        "{package} cannot be started: adb {}: {}{}",
        words.join(" "),
        said.trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
