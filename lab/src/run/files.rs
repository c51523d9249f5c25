// SPDX-License-Identifier: Apache-2.0
//! The source files of a program, and their digest.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::error::{Error, IoContext as _, Result};
use crate::util::{hex, read};

/// The lines of a list, without comments.
pub(super) fn list_file(path: &Path) -> Result<Vec<String>> {
    Ok(read(path)?
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect())
}

/// The Java sources below a folder, sorted.
pub(crate) fn java_files(dir: &Path) -> Result<Vec<PathBuf>> {
    files_with_extension(dir, "java")
}

/// The files below a folder with this extension, sorted.
pub(super) fn files_with_extension(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(dir).sort_by_file_name() {
        let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
        if entry
            .path()
            .extension()
            .is_some_and(|found| found == extension)
        {
            files.push(entry.into_path());
        }
    }
    Ok(files)
}

/// A digest of the names and contents of these files, and of all files below these folders.
pub(super) fn digest(folders: &[&Path]) -> Result<String> {
    let mut hash = Sha256::new();
    for folder in folders {
        let base = match folder.is_dir() {
            true => folder,
            false => folder.parent().unwrap_or(folder),
        };
        for entry in walkdir::WalkDir::new(folder).sort_by_file_name() {
            let entry = entry.map_err(|error| Error::Other(error.to_string()))?;
            if entry.file_type().is_file() {
                let name = entry.path().strip_prefix(base).unwrap_or(entry.path());
                let contents = std::fs::read(entry.path()).context("read", entry.path())?;
                hash.update(format!("{} {}\n", name.display(), contents.len()));
                hash.update(contents);
            }
        }
    }
    Ok(hex(&hash.finalize()))
}
