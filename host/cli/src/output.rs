// SPDX-License-Identifier: Apache-2.0
//! Standard output: JSON, and errors of its own type.

use std::io::{self, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Standard output cannot be written. A type of its own: an [`io::Error`] among the causes of an error may just
/// as well say that an input cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result: {0}")]
pub(crate) struct OutputError(#[from] pub(crate) io::Error);

impl OutputError {
    /// Whether the reader of a pipe has closed it, which is no failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

/// Whether `error` says that the reader of our output has closed its pipe.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let output = error.downcast_ref::<OutputError>();
    output.is_some_and(OutputError::is_closed_pipe)
}

/// Runs `show`; a reader that has closed its pipe has seen enough, so that is no error.
pub(crate) fn unless_closed(shown: Result<()>) -> Result<()> {
    match shown {
        Err(e) if !is_closed_pipe(&e) => Err(e),
        _ => Ok(()),
    }
}

/// Writes a file with `write`, and gives it its name only when all of it is on the disk: an error leaves the old file, or none.
pub(crate) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let written = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let mut out = io::BufWriter::new(file.as_file_mut());
        write(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    // The name of the unfinished file says nothing.
    let without_name = |e: io::Error| io::Error::from(e.kind());
    written()
        .map_err(without_name)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes `value` to standard output, indented.
pub(crate) fn write_json(value: &impl Serialize) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush())
        .map_err(OutputError)?;
    Ok(())
}
