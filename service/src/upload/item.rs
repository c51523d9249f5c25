// SPDX-License-Identifier: Apache-2.0
//! One file that may leave the device.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::engine::Report;

use super::sha256::Sha256;

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The text about a report.
    Text,
    /// The report's trace.
    Trace,
}

impl Kind {
    /// Its name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Trace => "trace",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Kind::Text, Kind::Trace]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Contents with their hash.
#[derive(Debug)]
pub struct Item {
    /// The contents, to be read only or a copy.
    pub file: File,
    /// For the uploader: number, kind, length and hash.
    pub line: String,
}

impl Item {
    /// A text, in a memory file.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn of_text(report: Report, text: &str) -> io::Result<Self> {
        let (number, flags) = (libc::SYS_memfd_create, libc::MFD_CLOEXEC);
        // Android 10's C library has no function for it.
        // SAFETY: the name ends with 0.
        let memory = unsafe { libc::syscall(number, c"hindsight-upload".as_ptr(), flags) };
        if memory < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made, and nobody else knows it.
        let mut file = File::from(unsafe { OwnedFd::from_raw_fd(memory as RawFd) });
        file.write_all(text.as_bytes())?;
        Item::of_file(report, Kind::Text, file)
    }

    /// A file, whatever its position.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_file(report: Report, kind: Kind, mut file: File) -> io::Result<Self> {
        file.rewind()?;
        let (hash, bytes) = Sha256::of_reader(&file)?;
        file.rewind()?;
        let kind = kind.name();
        Ok(Item {
            file,
            line: format!("item {report} {kind} {bytes} {hash}"),
        })
    }
}
