// SPDX-License-Identifier: Apache-2.0
//! Writes a trace in any of the formats.

use std::io::{BufWriter, Write};
use std::path::Path;

use hindsight_decoder::Trace;

use crate::error::Error;
use crate::format::Format;
use crate::output::{folder_of, Output};
use crate::written::Written;
use crate::{chrome, container, firefox, folded, nanoscope, parquet, perfetto, pprof, speedscope};

/// Writes all threads of `trace` to `out`; Nanoscope's format has one thread only, the main thread, or else the first.
///
/// # Errors
/// If `out` cannot be written, or if the format is not a stream of bytes ([`Format::is_stream`]).
pub fn write(trace: &Trace, format: Format, out: &mut dyn Write) -> Result<Written, Error> {
    let mut out = Counting { out, bytes: 0 };
    let written = match format {
        Format::Perfetto => perfetto::write(trace, &mut out)?,
        Format::Chrome => chrome::write(trace, &mut out)?,
        Format::Firefox => firefox::write(trace, &mut out)?,
        Format::Speedscope => speedscope::write(trace, &mut out)?,
        Format::Folded => folded::write(trace, &mut out)?,
        Format::Pprof => pprof::write(trace, &mut out)?,
        Format::Parquet | Format::Hindsight => return Err(Error::NoStream(format)),
        Format::Nanoscope => {
            let thread = trace.main_thread().or(trace.threads.first());
            nanoscope::write(trace, thread.ok_or(Error::NoThreads)?, &mut out)?
        }
    };
    out.flush()?;
    Ok(Written {
        bytes: out.bytes,
        ..written
    })
}

/// Writes all threads of `trace` into a file, or a folder where the format is one. A file at `path` is replaced
/// atomically when the new one is complete; on an error, nothing is left of the new one.
///
/// # Errors
/// If the file cannot be written; the error names it.
pub fn write_file(trace: &Trace, format: Format, path: &Path) -> Result<Written, Error> {
    let cannot_write = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    if format == Format::Parquet {
        return parquet::write_folder(trace, path).map_err(cannot_write);
    }
    let mut output = Output::create_in(folder_of(path)).map_err(cannot_write)?;
    let written = if format == Format::Hindsight {
        container::write(trace, &mut output.file).map_err(cannot_write)?
    } else {
        let mut out = BufWriter::with_capacity(1 << 20, &mut output.file);
        let written = write(trace, format, &mut out).map_err(|e| match e {
            Error::Write(source) => cannot_write(source),
            other => other,
        })?;
        out.flush().map_err(cannot_write)?;
        written
    };
    output.finish(path).map_err(cannot_write)?;
    Ok(written)
}

struct Counting<'a> {
    out: &'a mut dyn Write,
    bytes: u64,
}

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
