// SPDX-License-Identifier: Apache-2.0
//! Files and folders that are being written under temporary names, for programs that are interrupted: a signal
//! ends a process without running destructors, which would otherwise remove them.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::{fs, io, mem};

static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn paths() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, [`remove_unfinished`] removes the path.
pub(crate) struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes a temporary file or folder. An interruption finds either nothing or what is known here.
    pub(crate) fn create<T>(
        create: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> PathBuf,
    ) -> io::Result<(T, Unfinished)> {
        let mut paths = paths();
        let created = create()?;
        let path = path(&created);
        paths.push(path.clone());
        Ok((created, Unfinished(path)))
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
    let mut paths = paths();
    for path in mem::take(&mut *paths) {
        // It may be either, and may have got its final name meanwhile. Files may still be added to a folder.
        let _ = fs::remove_file(&path);
        for _ in 0..100 {
            match fs::remove_dir_all(&path) {
                Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                _ => break,
            }
        }
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
        let create = |path: &PathBuf, bytes: &[u8]| {
            Unfinished::create(|| fs::write(path, bytes), |()| path.clone()).unwrap()
        };
        let _file = create(&file, b"half");
        let _dir = Unfinished::create(|| fs::create_dir(&dir), |()| dir.clone()).unwrap();
        fs::write(dir.join("part"), "half").unwrap();
        drop(create(&finished, b"whole"));

        remove_unfinished();

        assert!(!file.exists() && !dir.exists());
        assert_eq!(fs::read(&finished).unwrap(), b"whole");
    }
}
