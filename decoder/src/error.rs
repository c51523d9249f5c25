// SPDX-License-Identifier: Apache-2.0
//! Errors of opening and decoding a trace.

use std::io;
use std::path::PathBuf;

use hindsight_trace_format::container::ReadError;

/// An error of opening or decoding a trace. Each message names the file, the fault and a remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read at all.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A `.hindsight` file is damaged, so that strict opening refuses it, or nothing of it can be read.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The fault, its place and the remedy.
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
    /// The memory that a process shared makes no sense, or nothing was recorded.
    #[error("{}: {reason}", path.display())]
    SharedMemory {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// Its clocks cannot turn the counter into time.
    #[error("{}: section Clocks: {what}; the program that wrote the file is faulty, or was stopped before it could calibrate its counter: record again", path.display())]
    Clocks {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// A file of another format is malformed.
    #[error("{}: at byte {offset}: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Offset in the file, bytes.
        offset: u64,
        /// The fault and the remedy.
        what: String,
    },
    /// A line of a text file is malformed.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// The fault and the remedy.
        what: String,
    },
    /// A file cannot be written; nothing is left of it.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The trace has no such thread.
    #[error("{}: there is no thread{} in it; `hindsight info` lists its threads", path.display(), tid.map_or_else(String::new, |tid| format!(" {tid}")))]
    NoThread {
        /// The file.
        path: PathBuf,
        /// The requested thread id; `None` if any thread would do.
        tid: Option<u32>,
    },
}
