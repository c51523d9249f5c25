// SPDX-License-Identifier: Apache-2.0
//! Why a trace cannot be exported.

use std::io;
use std::path::PathBuf;

/// Why a trace cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written; nothing is left of it.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The trace has no such thread.
    #[error("the trace has no thread {tid}; it has {present:?}")]
    NoSuchThread {
        /// The one that was asked for.
        tid: u32,
        /// Those that are there.
        present: Vec<u32>,
    },
    /// The format is not a stream of bytes: it is a folder, or not written from its start to its end.
    #[error("{0:?} cannot be written as a stream of bytes: name a file as the output, such as trace.{ext}", ext = .0.extension())]
    NoStream(crate::Format),
    /// The trace has no thread.
    #[error("the trace has no threads: nothing was traced, or no ring could be saved")]
    NoThreads,
}
