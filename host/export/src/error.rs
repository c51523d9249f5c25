// SPDX-License-Identifier: Apache-2.0
//! Reasons why a trace cannot be exported.

use std::io;
use std::path::PathBuf;

use crate::format::Format;

/// Why a trace cannot be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be written; nothing is left of it.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
    /// The format is not a stream of bytes: it is a folder, or not written from its start to its end.
    #[error("{0:?} cannot be written as a stream of bytes: name a file as the output, such as trace.{ext}", ext = .0.extension())]
    NoStream(Format),
    /// The trace has no thread.
    #[error("the trace has no threads: nothing was traced, or no ring could be saved or read")]
    NoThreads,
}
