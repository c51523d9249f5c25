// SPDX-License-Identifier: Apache-2.0
//! ART's own method traces: the `.trace` files of `-Xmethod-trace`, `am profile` and
//! `Debug.startMethodTracing`, for comparison with Hindsight's.
//!
//! ```no_run
//! use hindsight_decoder::art_trace::{self, Action};
//!
//! let trace = art_trace::read("method.trace".as_ref())?;
//! for thread in &trace.threads {
//!     for event in thread.events.iter().filter(|e| e.action == Action::Enter) {
//!         println!("{}: {}", thread.name, trace.methods.name(event.method));
//!     }
//! }
//! # Ok::<(), hindsight_decoder::Error>(())
//! ```
//!
//! Both of ART's formats are read, as files and as streams: the first (`records`, versions 1 to 3 in its
//! header), and the one of Android 15 (`packets`, versions 4 and 5). `docs/file-formats.md` has the layouts.

mod calls;
mod model;
mod packets;
mod records;
mod text;

use std::path::Path;

use self::model::{Building, MAGIC, STREAMING};
use crate::bytes::{Bytes, Fault};
use crate::error::Error;
use crate::file;

pub use model::{Action, ArtEvent, ArtThread, ArtTrace};

/// Reads a `.trace` file.
pub fn read(path: &Path) -> Result<ArtTrace, Error> {
    parse(path, &file::read(path)?)
}

/// Reads the bytes of a `.trace` file; `path` is its name in errors.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<ArtTrace, Error> {
    parse_bytes(bytes).map_err(|fault| Error::Malformed {
        path: path.to_owned(),
        offset: fault.offset,
        what: fault.what,
    })
}

/// Whether these may be the first bytes of a `.trace` file.
pub fn is_art_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(b"*version\n") || bytes.starts_with(&MAGIC.to_le_bytes())
}

fn parse_bytes(bytes: &[u8]) -> Result<ArtTrace, Fault> {
    let mut input = Bytes::new(bytes);
    if !is_art_trace(bytes) {
        return Err(input.fault(
            "this is no method trace of ART: it starts neither with '*version' nor with 'SLOW'",
        ));
    }
    let mut building = Building::default();
    // A file starts with the text that a stream ends with.
    if bytes.starts_with(b"*") {
        text::section(&mut input, &mut building)?;
    }
    let header_at = input.at();
    if input.u32("the header's magic")? != MAGIC {
        return Err(Fault::new(
            header_at,
            "after the list of methods there is no 'SLOW', which the events begin with",
        ));
    }
    let version = input.u16("the version")?;
    let streaming = version & STREAMING == STREAMING;
    let version = version & !STREAMING;
    building.trace.version = version;
    building.trace.streaming = streaming;
    building.trace.file_bytes = bytes.len() as u64;
    match version {
        1..=3 => records::read(&mut input, header_at, building),
        4 | 5 => packets::read(&mut input, header_at, building),
        _ => Err(Fault::new(
            header_at + 4,
            format!("version {version} of ART's method traces is not one of 1 to 5, which are known here"),
        )),
    }
}
