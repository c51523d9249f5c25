// SPDX-License-Identifier: Apache-2.0
//! A lock: one build at a time.

use crate::error::{Error, IoContext, Result};
use crate::util::create_dir;
use std::fs::{File, TryLockError};
use std::path::Path;

/// Held while sources and outputs of a release are changed; released when dropped, also when the
/// process dies.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock; says so and waits if another process holds it.
    pub(crate) fn take(dir: &Path) -> Result<Lock> {
        create_dir(dir)?;
        let path = dir.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .context("open", &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                eprintln!(
                    "another lab build is running; waiting for it ({})",
                    path.display()
                );
                file.lock().context("lock", &path)?;
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::Io {
                    what: "lock",
                    path,
                    source,
                });
            }
        }
        Ok(Lock { _file: file })
    }
}
