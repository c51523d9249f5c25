// SPDX-License-Identifier: Apache-2.0
//! The interface of a device, as the suite needs it.

use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Whether the target can run the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// It can.
    Ready,
    /// It can't here, for this reason.
    Skipped(String),
}

/// A device, or the lab in its place.
pub trait Target {
    /// The name in the report.
    fn name(&self) -> String;

    /// Starts it unless it is running, and waits until apps can be started.
    ///
    /// # Errors
    /// If it has not booted within `deadline`.
    fn boot(&mut self, deadline: Duration) -> Result<()>;

    /// The OAT file of the first boot image. Its header names the trace points of the code.
    ///
    /// # Errors
    /// If there is none.
    fn boot_oat(&self) -> Result<Vec<u8>>;

    /// Copies the test program (a jar with `classes.dex`) to it.
    ///
    /// # Errors
    /// If it can't be copied.
    fn install(&mut self, jar: &Path) -> Result<()>;

    /// Runs the class of the test program, with tracing on if `traced`; returns the program's output.
    ///
    /// # Errors
    /// If it can't be started, fails, or does not end.
    fn run(&self, class: &str, arguments: &[&str], traced: bool) -> Result<String>;

    /// The paths of its trace files.
    ///
    /// # Errors
    /// If they can't be listed.
    fn traces(&self) -> Result<Vec<String>>;

    /// The contents of a file.
    ///
    /// # Errors
    /// If it can't be read.
    fn pull(&self, path: &str) -> Result<Vec<u8>>;

    /// Installs the app (an APK, see [`crate::apk`]).
    ///
    /// # Errors
    /// If it is refused.
    fn install_app(&mut self, apk: &Path) -> Result<Start>;

    /// Starts the app with tracing on, and returns while it runs.
    ///
    /// # Errors
    /// If it can't be started.
    fn start_app(&mut self) -> Result<()>;

    /// Whether the app still runs; true if the target can't say.
    ///
    /// # Errors
    /// If it was not started.
    fn app_runs(&mut self) -> Result<bool>;

    /// Ends the app and takes it off; does nothing if it was not installed. Returns what it has said, where that can be had.
    ///
    /// # Errors
    /// If that fails.
    fn stop_app(&mut self) -> Result<String>;

    /// Makes a system call that Android forbids apps, as the app; returns what came of it. `None` if the target can't.
    ///
    /// # Errors
    /// If the call did not end the process with SIGSYS.
    fn forbidden_call(&mut self) -> Result<Option<String>>;

    /// The system's log since [`Target::boot`] or the last call; `None` if it keeps no log.
    ///
    /// # Errors
    /// If it can't be read.
    fn log(&mut self) -> Result<Option<String>>;

    /// Restores everything that the suite has changed, and stops the programs that [`Target::boot`] started.
    ///
    /// # Errors
    /// If that fails.
    fn finish(&mut self) -> Result<()>;
}
