// SPDX-License-Identifier: Apache-2.0
//! Reading a `.hindsight` file in place.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::codec::Decoder;
use super::{
    Anchor, Clocks, Losses, ProcessFacts, Ring, SectionKind, SymbolTable, Symbols, HEADER_BYTES,
    MAGIC, MAJOR_VERSION, TABLE_ENTRY_BYTES,
};

/// Why a section's bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset} of the section: {what}")]
pub struct DecodeError {
    /// Byte offset in the section.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

/// Where a section is and what it claims to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionInfo {
    /// What it holds, as a number; [`SectionKind::from_number`] knows the known ones.
    pub kind: u32,
    /// Which of several sections of that kind.
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

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are explained by the messages")]
pub enum ReadError {
    /// The magic is missing.
    #[error("this is not a .hindsight file: it starts with {found:02x?} instead of {MAGIC:02x?}; check that it was copied in binary mode and is not compressed")]
    NotHindsight { found: Vec<u8> },
    /// The file ends too early.
    #[error("the file is cut off: it has {actual} bytes, {expected} are expected; copy it again")]
    Truncated { expected: u64, actual: u64 },
    /// A newer format.
    #[error("the file has format version {major}.{minor}, this program reads up to {MAJOR_VERSION}.x; use a newer version of Hindsight")]
    NewerVersion { major: u16, minor: u16 },
    /// A header or section table that contradicts its checksum or itself.
    #[error("the file's {part} at byte {offset} is damaged: {what}; copy the file again")]
    DamagedTable {
        part: &'static str,
        offset: u64,
        what: String,
    },
    /// A section whose bytes changed.
    #[error("section {section} is damaged: its checksum is {actual:08x} instead of {:08x}; copy the file again, the other sections may still be readable", section.crc)]
    Checksum { section: SectionInfo, actual: u32 },
    /// A section that is intact but makes no sense.
    #[error("section {section} makes no sense at byte {offset} of the file: {what}; the program that wrote it is faulty")]
    Malformed {
        section: SectionInfo,
        offset: u64,
        what: String,
    },
    /// A section that every file has.
    #[error("the file has no {0:?} section; the program that wrote it is faulty")]
    Missing(SectionKind),
}

/// A `.hindsight` file in memory, usually mapped. Needs no alignment.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    minor: u16,
    sections: Vec<SectionInfo>,
    /// Sections whose checksum was right.
    verified: Vec<AtomicBool>,
}

impl<'a> Reader<'a> {
    /// Checks the header and the section table. Allocates in proportion to the table, which is part
    /// of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.starts_with(magic) || magic.is_empty() {
            return Err(ReadError::NotHindsight {
                found: magic.to_vec(),
            });
        }
        let actual = bytes.len() as u64;
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(ReadError::Truncated {
                expected: HEADER_BYTES as u64,
                actual,
            });
        };
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let (major, minor) = (u32_at(8) as u16, (u32_at(8) >> 16) as u16);
        if major > MAJOR_VERSION {
            return Err(ReadError::NewerVersion { major, minor });
        }
        let damaged = |part, offset, what: String| ReadError::DamagedTable { part, offset, what };
        let crc = crc32fast::hash(&header[..HEADER_BYTES - 4]);
        if crc != u32_at(36) {
            let what = format!("its checksum is {crc:08x} instead of {:08x}", u32_at(36));
            return Err(damaged("header", 0, what));
        }
        let (count, table_offset, file_bytes) = (u32_at(12), u64_at(16), u64_at(24));
        if actual < file_bytes {
            return Err(ReadError::Truncated {
                expected: file_bytes,
                actual,
            });
        }
        let table = Self::range(
            table_offset,
            u64::from(count) * TABLE_ENTRY_BYTES as u64,
            bytes,
        )
        .map(|range| &bytes[range])
        .ok_or_else(|| {
            let what = format!("a table of {count} sections there is outside of the file");
            damaged("section table", table_offset, what)
        })?;
        let crc = crc32fast::hash(table);
        if crc != u32_at(32) {
            let what = format!("its checksum is {crc:08x} instead of {:08x}", u32_at(32));
            return Err(damaged("section table", table_offset, what));
        }

        let mut sections = Vec::with_capacity(count as usize);
        for (i, entry) in table.chunks_exact(TABLE_ENTRY_BYTES).enumerate() {
            let place = table_offset + (i * TABLE_ENTRY_BYTES) as u64;
            let parse = |d: &mut Decoder<'_>| {
                Ok(SectionInfo {
                    kind: d.u32("kind")?,
                    index: d.u32("index")?,
                    offset: d.u64("offset")?,
                    length: d.u64("length")?,
                    crc: d.u32("checksum")?,
                })
            };
            let info = parse(&mut Decoder::new(entry))
                .map_err(|e: DecodeError| damaged("section table", place, e.what))?;
            if Self::range(info.offset, info.length, bytes).is_none() || info.offset % 8 != 0 {
                let what = format!(
                    "section {}/{} claims {} bytes from byte {} on, which is outside of the file or not a multiple of 8",
                    info.kind, info.index, info.length, info.offset
                );
                return Err(damaged("section table", place, what));
            }
            sections.push(info);
        }
        let mut order: Vec<_> = sections.iter().map(|s| (s.kind, s.index)).collect();
        order.sort_unstable();
        if let Some(pair) = order.windows(2).find(|pair| pair[0] == pair[1]) {
            let what = format!("section {}/{} is there twice", pair[0].0, pair[0].1);
            return Err(damaged("section table", table_offset, what));
        }
        Ok(Reader {
            bytes,
            minor,
            verified: sections.iter().map(|_| AtomicBool::new(false)).collect(),
            sections,
        })
    }

    /// The part of `bytes` that is meant, if it lies between the header and the end.
    fn range(offset: u64, length: u64, bytes: &[u8]) -> Option<Range<usize>> {
        let end = usize::try_from(offset.checked_add(length)?).ok()?;
        let start = usize::try_from(offset).ok()?;
        (start >= HEADER_BYTES && end <= bytes.len()).then_some(start..end)
    }

    /// The file's minor version.
    pub fn minor_version(&self) -> u16 {
        self.minor
    }

    /// All sections, known and unknown, in the order of the table.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    fn verified_bytes(&self, i: usize) -> Result<&'a [u8], ReadError> {
        let section = self.sections[i];
        let bytes = Self::range(section.offset, section.length, self.bytes)
            .map(|range| &self.bytes[range])
            .unwrap_or_default();
        if !self.verified[i].load(Ordering::Relaxed) {
            let actual = crc32fast::hash(bytes);
            if actual != section.crc {
                return Err(ReadError::Checksum { section, actual });
            }
            self.verified[i].store(true, Ordering::Relaxed);
        }
        Ok(bytes)
    }

    fn find(&self, kind: u32, index: u32) -> Option<usize> {
        self.sections
            .iter()
            .position(|s| s.kind == kind && s.index == index)
    }

    /// The bytes of a section, or `None` if there is no such section. Its checksum is verified the
    /// first time.
    pub fn section(&self, kind: impl Into<u32>, index: u32) -> Result<Option<&'a [u8]>, ReadError> {
        self.find(kind.into(), index)
            .map(|i| self.verified_bytes(i))
            .transpose()
    }

    /// Verifies the checksums of all sections, known and unknown.
    pub fn verify_all(&self) -> Result<(), ReadError> {
        (0..self.sections.len()).try_for_each(|i| self.verified_bytes(i).map(drop))
    }

    fn decode<T>(
        &self,
        kind: SectionKind,
        index: u32,
        decode: impl FnOnce(&'a [u8]) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, ReadError> {
        let Some(i) = self.find(kind.into(), index) else {
            return Ok(None);
        };
        let section = self.sections[i];
        decode(self.verified_bytes(i)?)
            .map(Some)
            .map_err(|e| ReadError::Malformed {
                section,
                offset: section.offset + e.offset as u64,
                what: e.what,
            })
    }

    /// Facts about the traced process.
    pub fn process(&self) -> Result<ProcessFacts, ReadError> {
        self.decode(SectionKind::Process, 0, ProcessFacts::decode)?
            .ok_or(ReadError::Missing(SectionKind::Process))
    }

    /// The counter and the clocks.
    pub fn clocks(&self) -> Result<Clocks, ReadError> {
        self.decode(SectionKind::Clocks, 0, Clocks::decode)?
            .ok_or(ReadError::Missing(SectionKind::Clocks))
    }

    /// The indices of the rings, in the order of the table; for [`Reader::ring`] and
    /// [`Reader::anchors`].
    pub fn ring_indices(&self) -> impl Iterator<Item = u32> + '_ {
        self.sections
            .iter()
            .filter(|s| s.kind == SectionKind::Ring as u32)
            .map(|s| s.index)
    }

    /// A thread's ring, or `None` if there is none with that index.
    pub fn ring(&self, index: u32) -> Result<Option<Ring<'a>>, ReadError> {
        self.decode(SectionKind::Ring, index, Ring::decode)
    }

    /// The anchors of a ring, in the order taken; empty if it has none.
    pub fn anchors(&self, ring_index: u32) -> Result<Vec<Anchor>, ReadError> {
        self.decode(SectionKind::Anchors, ring_index, Anchor::decode_all)
            .map(Option::unwrap_or_default)
    }

    /// The symbols; empty if there are none.
    pub fn symbols(&self) -> Result<Symbols, ReadError> {
        self.decode(SectionKind::Symbols, 0, Symbols::decode)
            .map(Option::unwrap_or_default)
    }

    /// The symbols, read in place; `None` if there are none.
    pub fn symbol_table(&self) -> Result<Option<SymbolTable<'a>>, ReadError> {
        self.decode(SectionKind::Symbols, 0, SymbolTable::decode)
    }

    /// What was lost; empty if the file does not say.
    pub fn losses(&self) -> Result<Losses, ReadError> {
        self.decode(SectionKind::Losses, 0, Losses::decode)
            .map(Option::unwrap_or_default)
    }
}
