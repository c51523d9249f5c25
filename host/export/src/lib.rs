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
mod chrome;
mod container;
mod error;
mod events;
mod firefox;
mod folded;
mod json;
mod nanoscope;
mod parquet;
mod perfetto;
mod pprof;
mod speedscope;
mod tree;
mod unfinished;

use std::io::{BufWriter, Write};
use std::path::Path;

use hindsight_decoder::{MethodId, Methods, Thread, Trace};

use unfinished::Unfinished;

pub use error::Error;
pub use perfetto::MAX_DEPTH as PERFETTO_MAX_DEPTH;
pub use tree::MAX_LEVELS;
pub use unfinished::remove_unfinished;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Perfetto's protobuf format, for <https://ui.perfetto.dev> and its trace processor.
    Perfetto,
    /// Chrome's Trace Event Format, JSON.
    Chrome,
    /// The Firefox Profiler's processed profile format, gzipped JSON, for <https://profiler.firefox.com>.
    Firefox,
    /// speedscope's JSON format, for <https://www.speedscope.app>.
    Speedscope,
    /// Folded stacks, for flame graphs.
    Folded,
    /// pprof's profile.proto, gzipped.
    Pprof,
    /// A folder of Parquet tables, for DuckDB and its like.
    Parquet,
    /// Nanoscope's text format, one thread a file: a time in ns, then `+method` or `POP`.
    Nanoscope,
    /// Our own format, `.hindsight`.
    Hindsight,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 9] = [
        Format::Perfetto,
        Format::Chrome,
        Format::Firefox,
        Format::Speedscope,
        Format::Folded,
        Format::Pprof,
        Format::Parquet,
        Format::Nanoscope,
        Format::Hindsight,
    ];

    /// What file names of the format usually end with.
    pub fn extension(self) -> &'static str {
        self.extensions()[0]
    }

    /// What file names of the format end with, the usual one first.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Perfetto => &["pftrace", "perfetto-trace"],
            Format::Chrome => &["chrome.json"],
            Format::Firefox => &["firefox.json.gz"],
            Format::Speedscope => &["speedscope.json"],
            Format::Folded => &["folded", "collapsed"],
            Format::Pprof => &["pb.gz", "pprof"],
            Format::Parquet => &["parquet"],
            Format::Nanoscope => &["nanoscope.txt"],
            Format::Hindsight => &["hindsight"],
        }
    }

    /// The format that the name of a file says, if it does.
    pub fn of_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|format| {
            let mut extensions = format.extensions().iter();
            extensions.any(|e| name.strip_suffix(e).is_some_and(|n| n.ends_with('.')))
        })
    }

    /// Whether [`write()`] can write it; the others are written by [`write_file`] only.
    pub fn is_stream(self) -> bool {
        !matches!(self, Format::Parquet | Format::Hindsight)
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
    pub calls: u64,
    /// Calls deeper than the format's readers show in one track; they stand in tracks of their own.
    pub deep_calls: u64,
    /// Calls deeper than [`MAX_LEVELS`], which formats leave out that have a record for each chain of calls; their
    /// time is their caller's.
    pub left_out_calls: u64,
    /// Chains of calls, in the formats that have a record for each.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Summary {
    fn of(threads: &[&Thread]) -> Self {
        Summary {
            threads: threads.len() as u64,
            calls: threads.iter().map(|t| t.calls.len() as u64).sum(),
            ..Summary::default()
        }
    }
}

/// The names of all methods by their ids, and after them that of calls whose entry wasn't recorded.
fn method_names(trace: &Trace) -> Vec<String> {
    let known = trace.methods.iter().map(|(_, m)| m.full_name());
    known
        .chain([Methods::NOT_RECORDED_NAME.to_owned()])
        .collect()
}

/// One of [`method_names`].
fn name_of(names: &[String], method: MethodId) -> &str {
    let at = (method.0 as usize).min(names.len() - 1);
    &names[at]
}

/// Writes `trace` to `out`. Fails for formats that are not a stream of bytes, see [`Format::is_stream`].
pub fn write(
    trace: &Trace,
    format: Format,
    options: &Options,
    out: &mut dyn Write,
) -> Result<Summary, Error> {
    let threads = selected(trace, options)?;
    let mut out = Counting { out, bytes: 0 };
    let summary = match format {
        Format::Perfetto => perfetto::write(trace, &threads, &mut out)?,
        Format::Chrome => chrome::write(trace, &threads, &mut out)?,
        Format::Firefox => firefox::write(trace, &threads, &mut out)?,
        Format::Speedscope => speedscope::write(trace, &threads, &mut out)?,
        Format::Folded => folded::write(trace, &threads, &mut out)?,
        Format::Pprof => pprof::write(trace, &threads, &mut out)?,
        Format::Parquet | Format::Hindsight => return Err(Error::NoStream(format)),
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

/// The threads that are to be written.
fn selected<'a>(trace: &'a Trace, options: &Options) -> Result<Vec<&'a Thread>, Error> {
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
    Ok(threads)
}

/// Writes `trace` into a file, or a folder where the format is one, so that `path` names either a whole file or what it named before.
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
    match format {
        Format::Parquet => {
            return parquet::write_folder(trace, &selected(trace, options)?, path);
        }
        Format::Hindsight => return container::write_to(trace, &selected(trace, options)?, path),
        _ => {}
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".hindsight-export");
    let (file, _unfinished) = Unfinished::create(
        || temporary.tempfile_in(folder),
        |file| file.path().to_owned(),
    )
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
