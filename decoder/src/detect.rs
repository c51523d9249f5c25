// SPDX-License-Identifier: Apache-2.0
//! Tells formats apart by a file's first bytes.

use std::path::Path;

use hindsight_trace_format::container::MAGIC;
use hindsight_trace_format::shared::SHARED_MAGIC;

use crate::error::Error;
use crate::file;
use crate::import::{art_trace, hubble, nanoscope};

/// A format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Hindsight,
    SharedMemory,
    ArtTrace,
    Nanoscope,
    Hubble,
}

/// The format of the file with these first bytes.
pub(crate) fn format(path: &Path, start: &[u8]) -> Option<Format> {
    if start.starts_with(&MAGIC) {
        Some(Format::Hindsight)
    } else if start.starts_with(&SHARED_MAGIC) {
        Some(Format::SharedMemory)
    } else if art_trace::is_art_trace(start) {
        Some(Format::ArtTrace)
    } else if nanoscope::is_nanoscope(start) {
        Some(Format::Nanoscope)
    } else if hubble::is_hubble(path) {
        Some(Format::Hubble)
    } else {
        None
    }
}

/// First bytes of files that users take for traces, and the remedy.
const FOREIGN: [(&[u8], &str); 13] = [
    (
        b"\x1f\x8b",
        "it is compressed with gzip: unpack it first, with gunzip",
    ),
    (
        b"\x28\xb5\x2f\xfd",
        "it is compressed with zstd: unpack it first",
    ),
    (b"\xfd7zXZ", "it is compressed with xz: unpack it first"),
    (b"BZh", "it is compressed with bzip2: unpack it first"),
    (b"PK\x03\x04", "it is a zip archive: unpack it first"),
    (b"ustar", "it is a tar archive: unpack it first"),
    (
        b"PAR1",
        "it is a Parquet table, which is an export: open the trace that it was made of",
    ),
    (b"SQLite format 3", "it is an SQLite database"),
    (
        b"PERFILE2",
        "it is a recording of perf or simpleperf: open it in profiler.firefox.com",
    ),
    (
        b"SIMPLEPERF",
        "it is a recording of simpleperf: open it in profiler.firefox.com",
    ),
    (b"\x7fELF", "it is a program or a library, no trace"),
    (
        b"{",
        "it is JSON, which is an export: open it in ui.perfetto.dev or speedscope.app",
    ),
    (
        b"[",
        "it is JSON, which is an export: open it in ui.perfetto.dev or speedscope.app",
    ),
];

/// Why a file of no known format is refused, in words.
pub(crate) fn refuse(path: &Path, start: &[u8]) -> Error {
    let reason = if start.is_empty() {
        "the file is empty"
    } else if start.iter().all(|&byte| byte == 0) {
        "the file begins with zeros: its writer was stopped before it finished, or a copy failed; copy it again"
    } else if start.starts_with(&MAGIC[..5]) {
        "it is a .hindsight file whose first bytes were changed, as a transfer in text mode does: copy it again in binary mode"
    } else if MAGIC.starts_with(start) {
        "the file is cut off after its first bytes; copy it again"
    } else if let Some((_, reason)) = FOREIGN.iter().find(|(magic, _)| start.starts_with(magic)) {
        reason
    } else if is_perfetto(start) {
        "it is a Perfetto trace: open it in ui.perfetto.dev, or, if it has events of the scheduler, give it to hindsight diagnose, \
         debug, transactions or crashes beside .hindsight files"
    } else if is_text(start) {
        "it is a text file, but not Nanoscope's: its first line is neither '<ns>:<signature>' nor '<ns>:POP'"
    } else {
        "it is no trace of a known kind: .hindsight, ART's method trace, or Nanoscope's text"
    };
    Error::UnknownFormat {
        path: path.to_owned(),
        reason,
    }
}

/// Whether a file begins as a Perfetto trace does. A file that cannot be read does not.
pub fn is_perfetto_file(path: &Path) -> bool {
    file::start(path).is_ok_and(|start| is_perfetto(&start))
}

/// A Perfetto trace is a sequence of packets, field 1 of a message: tag, length, and a packet that starts with a tag.
fn is_perfetto(start: &[u8]) -> bool {
    let Some(after) = start.strip_prefix(b"\x0a") else {
        return false;
    };
    let length_bytes = after.iter().take_while(|&&byte| byte & 0x80 != 0).count() + 1;
    let has_tag = |tag: &u8| matches!(tag & 7, 0 | 1 | 2 | 5) && *tag >= 8;
    length_bytes <= 4 && after.get(length_bytes).is_some_and(has_tag) && !is_text(start)
}

fn is_text(start: &[u8]) -> bool {
    let is_printable = |c: char| !c.is_control() || c.is_ascii_whitespace();
    match std::str::from_utf8(start) {
        Ok(text) => text.chars().all(is_printable),
        // The last character may be cut.
        Err(e) if e.error_len().is_none() => {
            let text = std::str::from_utf8(&start[..e.valid_up_to()]).unwrap_or_default();
            text.chars().all(is_printable)
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(start: &[u8]) -> String {
        assert_eq!(format(Path::new("f"), start), None);
        refuse(Path::new("f"), start).to_string()
    }

    #[test]
    fn known_formats_are_told_apart_by_their_first_bytes() {
        let of = |start: &[u8]| format(Path::new("f"), start);
        assert_eq!(of(b"\x89HSGT\r\n\x1a\x01\x00"), Some(Format::Hindsight));
        assert_eq!(of(&SHARED_MAGIC), Some(Format::SharedMemory));
        assert_eq!(of(b"*version\n3\n"), Some(Format::ArtTrace));
        assert_eq!(of(b"SLOW\x03\x00"), Some(Format::ArtTrace));
        assert_eq!(of(b"12:+a.B.c\n"), Some(Format::Nanoscope));
        assert_eq!(of(b"12:POP\n"), Some(Format::Nanoscope));
        assert_eq!(
            format(Path::new("main.ring"), &[7; 9]),
            Some(Format::Hubble)
        );
    }

    #[test]
    fn other_files_are_refused_in_words_with_a_remedy() {
        for (start, expected) in [
            (&b""[..], "f: the file is empty"),
            (b"\0\0\0\0\0\0\0\0", "begins with zeros"),
            (b"\x1f\x8b\x08\x00", "gzip: unpack it first"),
            (b"PK\x03\x04\x14", "zip archive: unpack it first"),
            (b"\x89HSGT\n\x1a\x01\x00", "copy it again in binary mode"),
            (b"\x89HS", "cut off after its first bytes"),
            (
                b"\x0a\x81\x01\x3a\x0c\x40\x01",
                "Perfetto trace: open it in ui.perfetto.dev",
            ),
            (b"{\"traceEvents\":[", "JSON"),
            (b"\nsome text", "a text file"),
            ("yours, ä".as_bytes(), "a text file"),
            (b"\xff\xfe\x01\x02", "no trace of a known kind"),
        ] {
            let said = said(start);
            assert!(said.contains(expected), "{start:?}: {said}");
            assert!(!said.contains('['), "{said}");
        }
    }
}
