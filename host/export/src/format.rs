// SPDX-License-Identifier: Apache-2.0
//! The formats, and the names of their files.

use std::path::Path;

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
    /// A folder of Parquet tables, for DuckDB and similar tools.
    Parquet,
    /// Nanoscope's text format, one thread per file: a time in ns, then `+method` or `POP`.
    Nanoscope,
    /// Hindsight's own format, `.hindsight`.
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

    /// The usual extension of the format's files, without the dot.
    pub fn extension(self) -> &'static str {
        self.extensions()[0]
    }

    /// The extensions of the format's files, without the dot, the usual one first.
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

    /// The format that a file name's extension stands for, if any.
    pub fn of_name(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|format| {
            let mut extensions = format.extensions().iter();
            extensions.any(|e| name.strip_suffix(e).is_some_and(|n| n.ends_with('.')))
        })
    }

    /// Whether [`write()`](crate::write()) can write it; the others are written by
    /// [`write_file`](crate::write_file) only.
    pub fn is_stream(self) -> bool {
        !matches!(self, Format::Parquet | Format::Hindsight)
    }

    /// Whether its output is text, which a terminal can show.
    pub fn is_text(self) -> bool {
        use Format::{Chrome, Folded, Nanoscope, Speedscope};
        matches!(self, Chrome | Speedscope | Folded | Nanoscope)
    }
}
