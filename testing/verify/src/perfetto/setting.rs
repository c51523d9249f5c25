// SPDX-License-Identifier: Apache-2.0
//! Where the programs of a round meet, and waiting for them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};

/// The longest wait for anything, on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(300);

/// The sockets of traced, and the folder with them.
pub(super) struct Sockets {
    pub(super) folder: PathBuf,
    pub(super) producers: PathBuf,
    pub(super) consumers: PathBuf,
}

impl Sockets {
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.txt"))
    }
}

/// Waits until this is something.
pub(super) fn wait_for<T>(
    what: &str,
    mut condition: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(value) = condition()? {
            return Ok(value);
        }
        ensure!(Instant::now() < end, "{what}: not within five minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}
