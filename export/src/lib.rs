// SPDX-License-Identifier: Apache-2.0
//! Writes decoded traces in the formats of other tools; one module a format.
//!
//! ```no_run
//! use hindsight_export::{write_file, Format, Options};
//!
//! let trace = hindsight_decoder::Trace::open("demo.hindsight".as_ref())?;
//! write_file(&trace, Format::Perfetto, &Options::default(), "demo.pftrace".as_ref())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod calls;
mod error;
mod nanoscope;
mod perfetto;

use std::io::{BufWriter, Write};
use std::path::Path;

use hindsight_decoder::Trace;

pub use error::Error;
pub use perfetto::MAX_DEPTH as PERFETTO_MAX_DEPTH;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Perfetto's protobuf format, for <https://ui.perfetto.dev> and its trace processor.
    Perfetto,
    /// Nanoscope's text format, one thread a file: a time in ns, then `+method` or `POP`.
    Nanoscope,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 2] = [Format::Perfetto, Format::Nanoscope];

    /// What file names of the format usually end with.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Perfetto => "pftrace",
            Format::Nanoscope => "nanoscope.txt",
        }
    }
}

/// What to write.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only the thread with this id. Formats that hold one thread only take the main thread otherwise, or
    /// the first if that wasn't traced.
    pub tid: Option<u32>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Threads.
    pub threads: u64,
    /// Calls.
    pub slices: u64,
    /// Calls deeper than the format's readers show in one track; they stand in tracks of their own.
    pub deep_slices: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Writes `trace` to `out`.
pub fn write(
    trace: &Trace,
    format: Format,
    options: &Options,
    out: &mut dyn Write,
) -> Result<Summary, Error> {
    let threads: Vec<_> = match options.tid {
        None => trace.threads.iter().collect(),
        Some(tid) => trace.threads.iter().filter(|t| t.tid == tid).collect(),
    };
    if let (Some(tid), true) = (options.tid, threads.is_empty()) {
        return Err(Error::NoSuchThread {
            tid,
            present: trace.threads.iter().map(|t| t.tid).collect(),
        });
    }
    let mut out = Counting { out, bytes: 0 };
    let summary = match format {
        Format::Perfetto => perfetto::write(trace, &threads, &mut out)?,
        Format::Nanoscope => {
            let main = trace.main_thread().filter(|_| options.tid.is_none());
            let thread = main.or(threads.first().copied()).ok_or(Error::NoThreads)?;
            nanoscope::write(trace, thread, &mut out)?
        }
    };
    out.flush()?;
    Ok(Summary {
        bytes: out.bytes,
        ..summary
    })
}

/// Writes `trace` into a file, so that `path` names either a whole file or what it named before.
pub fn write_file(
    trace: &Trace,
    format: Format,
    options: &Options,
    path: &Path,
) -> Result<Summary, Error> {
    let cannot_write = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let file = tempfile::Builder::new()
        .prefix(".hindsight-export")
        .tempfile_in(folder)
        .map_err(cannot_write)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let summary = write(trace, format, options, &mut out).map_err(|e| match e {
        Error::Write(source) => cannot_write(source),
        other => other,
    })?;
    let file = out.into_inner().map_err(|e| cannot_write(e.into_error()))?;
    file.as_file().sync_all().map_err(cannot_write)?;
    file.persist(path).map_err(|e| cannot_write(e.error))?;
    Ok(summary)
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
