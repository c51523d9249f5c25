// SPDX-License-Identifier: Apache-2.0
//! Errors of the reader, and the sections that they name.

use std::fmt;

use super::sections::SectionKind;
use super::MAJOR_VERSION;

/// An error in a section's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of the section: {what}")]
pub struct DecodeError {
    /// Byte offset in the section.
    pub offset: usize,
    /// The fault.
    pub what: String,
}

/// An entry of the section table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// Its kind, as a number; see [`SectionKind::from_number`].
    pub kind: u32,
    /// Index among the sections of that kind.
    pub index: u32,
    /// Byte offset in the file, a multiple of 8.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// CRC-32 of its bytes.
    pub crc: u32,
}

impl fmt::Display for SectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SectionKind::from_number(self.kind) {
            Some(kind) => write!(f, "{kind:?}")?,
            None => write!(f, "kind {}", self.kind)?,
        }
        write!(
            f,
            " {} (bytes {}..{})",
            self.index,
            self.offset,
            self.offset + self.length
        )
    }
}

/// An error of reading a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are explained by the messages")]
pub enum ReadError {
    /// The magic is missing.
    #[error("this is not a .hindsight file: its first 8 bytes are others; check that it was copied in binary mode and is not compressed")]
    NotHindsight,
    /// The file ends too early.
    #[error("the file is cut off: it has {actual} bytes, {expected} are expected; copy it again")]
    Truncated { expected: u64, actual: u64 },
    /// A newer format.
    #[error("the file has format version {major}.{minor}, this program reads up to {MAJOR_VERSION}.x; use a newer version of Hindsight")]
    NewerVersion { major: u16, minor: u16 },
    /// The header or the section table is inconsistent, or has a wrong checksum.
    #[error("the file's {part} at byte {offset} is damaged: {what}; copy the file again")]
    DamagedTable {
        part: &'static str,
        offset: u64,
        what: String,
    },
    /// A section has a wrong checksum.
    #[error("section {section} is damaged: bytes of it have changed since it was written (their checksum is {actual:08x} now, it was {:08x}); copy the file again", section.crc)]
    Checksum { section: SectionInfo, actual: u32 },
    /// Frames of a compressed ring are damaged; the others are sound.
    #[error("section {section} is damaged: {lost} of its {frames} frames have changed since they were written, or are missing; copy the file again")]
    LostFrames {
        section: SectionInfo,
        lost: usize,
        frames: usize,
    },
    /// A section goes on beyond the end of a file that was cut off.
    #[error("the file is cut off in section {section}; copy it again")]
    CutSection { section: SectionInfo },
    /// A section has the right checksum but makes no sense.
    #[error("section {section} makes no sense at byte {offset} of the file: {what}; the program that wrote it is faulty")]
    Malformed {
        section: SectionInfo,
        offset: u64,
        what: String,
    },
    /// A section that every file must have is missing.
    #[error("the file has no {0:?} section; the program that wrote it is faulty")]
    Missing(SectionKind),
}
