// SPDX-License-Identifier: Apache-2.0
//! Commands that take several files: a file that cannot be read is reported, and the command answers for the others.

use std::collections::hash_map::{DefaultHasher, Entry, HashMap};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use serde::Serialize;

use crate::page::palette;

/// A file that could not be read.
#[derive(Serialize)]
pub(crate) struct Failure {
    /// The file.
    pub(crate) file: String,
    /// Why, and what to do.
    pub(crate) error: String,
}

impl Failure {
    /// Reports a failure on standard error, and keeps it for JSON.
    pub(crate) fn report(file: &Path, error: &anyhow::Error) -> Self {
        print_error(error);
        Failure {
            file: file.display().to_string(),
            error: with_causes(error),
        }
    }
}

/// The files that were read, by their contents: the same trace counts once.
#[derive(Default)]
pub(crate) struct Seen {
    files: HashMap<(u64, u64), PathBuf>,
}

impl Seen {
    /// Whether an earlier file has the same contents. Then a note on standard error says so. A file that cannot be read
    /// is new: reading it reports the error.
    pub(crate) fn repeats(&mut self, file: &Path) -> bool {
        let Ok(contents) = fingerprint(file) else {
            return false;
        };
        match self.files.entry(contents) {
            Entry::Vacant(new) => {
                new.insert(file.to_owned());
                false
            }
            Entry::Occupied(earlier) => {
                // An error of standard error itself cannot be reported.
                let _ = writeln!(
                    io::stderr(),
                    "note: {} has the same contents as {}, and is not counted again",
                    file.display(),
                    earlier.get().display()
                );
                true
            }
        }
    }
}

/// The trace files that a path stands for: a file, or all .hindsight files of a folder.
pub(crate) fn trace_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = || format!("cannot read the folder {}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let file = entry.with_context(cannot)?.path();
        if file.extension().is_some_and(|e| e == "hindsight") {
            files.push(file);
        }
    }
    ensure!(
        !files.is_empty(),
        "{}: the folder holds no .hindsight files",
        path.display()
    );
    files.sort();
    Ok(files)
}

/// The length and a hash of a file's contents.
fn fingerprint(file: &Path) -> io::Result<(u64, u64)> {
    if !file.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut input = std::fs::File::open(file)?;
    let mut hasher = DefaultHasher::new();
    let mut length = 0;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok((length, hasher.finish())),
            n => {
                hasher.write(&buffer[..n]);
                length += n as u64;
            }
        }
    }
}

/// Writes `hindsight: …` to standard error.
pub(crate) fn print_error(error: &anyhow::Error) {
    let style = palette(&io::stderr());
    // An error of standard error itself cannot be reported.
    let _ = writeln!(
        io::stderr(),
        "{}hindsight:{} {}",
        style.strong,
        style.reset,
        with_causes(error)
    );
}

/// The error and its causes in one line, without causes that the error's own text contains.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}
