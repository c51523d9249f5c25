// SPDX-License-Identifier: Apache-2.0
//! Files and folders that are being written under temporary names, for programs that are interrupted: a signal
//! ends a process without running destructors, which would otherwise remove them.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, mem};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn paths() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, [`remove_unfinished`] removes the path.
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    pub(crate) fn new(path: &Path) -> Unfinished {
        paths().push(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        paths().retain(|path| *path != self.0);
    }
}

/// Removes what exports that are under way have written so far. For a program's last moment, such as when it
/// is interrupted: those exports fail, or write to files without a name. Waits for no export.
pub fn remove_unfinished() {
    for path in mem::take(&mut *paths()) {
        // It may be either, and may have got its final name meanwhile.
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_is_unfinished_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let [file, dir, finished] =
            ["file", "dir", "finished"].map(|name| folder.path().join(name));
        fs::write(&file, "half").unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("part"), "half").unwrap();
        fs::write(&finished, "whole").unwrap();
        let _file = Unfinished::new(&file);
        let _dir = Unfinished::new(&dir);
        drop(Unfinished::new(&finished));

        remove_unfinished();

        assert!(!file.exists() && !dir.exists());
        assert_eq!(fs::read(&finished).unwrap(), b"whole");
    }
}
