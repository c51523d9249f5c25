// SPDX-License-Identifier: Apache-2.0
//! What random checks have in common: a new seed for each run, and the files of a round that failed.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The time in seconds since 1970, for a new seed.
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs())
}

/// Copies the files of a round's folder.
pub(crate) fn keep(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
