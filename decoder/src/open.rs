// SPDX-License-Identifier: Apache-2.0
//! Opening a trace of any format that can be read.

use std::path::Path;

use crate::detect::{self, Format};
use crate::error::Error;
use crate::import::{art_trace, hubble, nanoscope, shared_memory};
use crate::model::Trace;
use crate::{file, hindsight};

/// How a trace is opened.
///
/// ```no_run
/// use hindsight_decoder::OpenOptions;
///
/// let trace = OpenOptions { strict: true }.open("demo.hindsight".as_ref())?;
/// assert!(trace.damaged.is_empty());
/// # Ok::<(), hindsight_decoder::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Refuse a damaged `.hindsight` file. By default its sound parts are read, and [`Trace::damaged`] lists the others.
    pub strict: bool,
}

impl OpenOptions {
    /// Opens a trace: `.hindsight`, the memory that a process shared until it ended, ART's method trace, Nanoscope's text or the published layout, told apart by their
    /// first bytes (the last one by its name). The threads of a `.hindsight` file are decoded in parallel.
    ///
    /// # Errors
    /// If the file cannot be read, is of none of these formats, or nothing of it makes sense.
    pub fn open(self, path: &Path) -> Result<Trace, Error> {
        let start = file::start(path)?;
        match detect::format(path, &start) {
            Some(Format::ArtTrace) => Ok(art_trace::read(path)?.to_trace()),
            Some(Format::Nanoscope) => nanoscope::read(path),
            Some(Format::Hubble) => hubble::read(path),
            Some(Format::SharedMemory) => {
                let (memory, _) = file::open(path)?;
                hindsight::decode(path, &shared_memory::to_file(path, &memory)?, self.strict)
            }
            Some(Format::Hindsight) => {
                let map = file::map(path)?;
                hindsight::decode(path, &map, self.strict)
            }
            None => Err(detect::refuse(path, &start)),
        }
    }

    /// As [`OpenOptions::open`], for a file that is in memory; `path` is its name in errors. Not for the published
    /// layout, which is several files.
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub fn decode(self, path: &Path, bytes: &[u8]) -> Result<Trace, Error> {
        let start = &bytes[..bytes.len().min(file::START_BYTES)];
        match detect::format(path, start) {
            Some(Format::ArtTrace) => Ok(art_trace::parse(path, bytes)?.to_trace()),
            Some(Format::Nanoscope) => nanoscope::parse(path, bytes),
            Some(Format::SharedMemory) => {
                hindsight::decode(path, &shared_memory::to_file(path, bytes)?, self.strict)
            }
            Some(Format::Hindsight | Format::Hubble) => hindsight::decode(path, bytes, self.strict),
            None => Err(detect::refuse(path, start)),
        }
    }
}

impl Trace {
    /// Opens a trace with the default [`OpenOptions`].
    ///
    /// # Errors
    /// As for [`OpenOptions::open`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        OpenOptions::default().open(path)
    }

    /// Decodes a file in memory with the default [`OpenOptions`]; `path` is its name in errors.
    ///
    /// # Errors
    /// As for [`OpenOptions::decode`].
    pub fn decode(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        OpenOptions::default().decode(path, bytes)
    }
}
