// SPDX-License-Identifier: Apache-2.0
//! What the suite needs of a device.

use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// A device, or what serves as one.
pub trait Target {
    /// For the report.
    fn name(&self) -> String;

    /// Starts it if it isn't running, and waits until apps can be started.
    ///
    /// # Errors
    /// If it doesn't come up in time.
    fn boot(&mut self, deadline: Duration) -> Result<()>;

    /// The first boot image's OAT file, whose header says what the code was compiled with.
    ///
    /// # Errors
    /// If there is none.
    fn boot_oat(&self) -> Result<Vec<u8>>;

    /// Puts the test program (a jar with `classes.dex`) there.
    ///
    /// # Errors
    /// If it can't be copied.
    fn install(&mut self, jar: &Path) -> Result<()>;

    /// Runs the test program's class with arguments; what it printed. `traced` says whether with tracing on.
    ///
    /// # Errors
    /// If it can't be started, fails, or does not end.
    fn run(&self, class: &str, arguments: &[&str], traced: bool) -> Result<String>;

    /// The trace files that are there.
    ///
    /// # Errors
    /// If they can't be listed.
    fn traces(&self) -> Result<Vec<String>>;

    /// A file from there.
    ///
    /// # Errors
    /// If it can't be read.
    fn pull(&self, path: &str) -> Result<Vec<u8>>;

    /// The system's log since [`Target::boot`] or the last call. `None` if it has none.
    ///
    /// # Errors
    /// If it can't be read.
    fn log(&mut self) -> Result<Option<String>>;

    /// Puts everything back that the suite has changed, and stops what [`Target::boot`] has started.
    ///
    /// # Errors
    /// If that fails.
    fn finish(&mut self) -> Result<()>;
}
