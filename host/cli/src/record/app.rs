// SPDX-License-Identifier: Apache-2.0
//! The app itself, ended and started by adb.

use anyhow::{ensure, Context as _, Result};

use super::adb;

/// Ends the app.
pub(super) fn stop(serial: Option<&str>, package: &str) -> Result<()> {
    let words = ["shell", "am", "force-stop", package];
    adb::run(serial, &words).with_context(|| format!("{package} cannot be ended"))?;
    Ok(())
}

/// Starts the app, as its icon does.
pub(super) fn start(serial: Option<&str>, package: &str) -> Result<()> {
    let category = "android.intent.category.LAUNCHER";
    let words = ["shell", "monkey", "-p", package, "-c", category, "1"];
    let said = adb::run(serial, &words).with_context(|| format!("{package} cannot be started"))?;
    ensure!(
        !said.contains("No activities found"),
        "{package} cannot be started: {}",
        said.trim()
    );
    Ok(())
}
