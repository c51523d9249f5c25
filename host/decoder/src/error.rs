// SPDX-License-Identifier: Apache-2.0
//! Why a trace cannot be decoded.

use std::io;
use std::path::PathBuf;

use hindsight_trace_format::container::ReadError;

/// Why a trace cannot be decoded. Each message names the file, what is wrong with it, and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read at all.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It can be read, but is not a whole and sound `.hindsight` file.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, where, and what to do.
        source: ReadError,
    },
    /// The file is of no format that can be read.
    #[error("{}: {reason}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its format as far as it is known, and the remedy.
        reason: &'static str,
    },
    /// Its clocks cannot turn the counter into time.
    #[error("{}: section Clocks: {what}; the program that wrote the file is faulty, or was stopped before it could calibrate its counter: record again", path.display())]
    Clocks {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file of another format that makes no sense.
    #[error("{}: at byte {offset}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it, bytes.
        offset: u64,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A line of a text file that makes no sense.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A file cannot be written; nothing is left of it.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The trace has no such thread.
    #[error("{}: there is no thread{} in it; `hindsight info` lists those that are", path.display(), tid.map_or_else(String::new, |tid| format!(" {tid}")))]
    NoThread {
        /// The file.
        path: PathBuf,
        /// The one that was asked for; any, if `None`.
        tid: Option<u32>,
    },
}
