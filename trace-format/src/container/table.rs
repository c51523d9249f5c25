// SPDX-License-Identifier: Apache-2.0
//! The file's header and section table.

use std::ops::Range;

use super::codec::Decoder;
use super::error::{DecodeError, ReadError, SectionInfo};
use super::{HEADER_BYTES, MAGIC, MAJOR_VERSION, TABLE_ENTRY_BYTES};

pub(super) fn damaged(part: &'static str, offset: u64, what: String) -> ReadError {
    ReadError::DamagedTable { part, offset, what }
}

/// The part of `bytes` at `offset`, if it lies between the header and the end.
pub(super) fn range(offset: u64, length: u64, bytes: &[u8]) -> Option<Range<usize>> {
    let end = usize::try_from(offset.checked_add(length)?).ok()?;
    let start = usize::try_from(offset).ok()?;
    (start >= HEADER_BYTES && end <= bytes.len()).then_some(start..end)
}

/// The fields of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    major: u16,
    pub(super) minor: u16,
    /// Sections in the table.
    pub(super) count: u32,
    pub(super) table_offset: u64,
    file_bytes: u64,
    pub(super) table_crc: u32,
    /// CRC-32 of the header, as it says and as it is.
    crc: (u32, u32),
}

impl Header {
    /// The header of a file that begins with the magic.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, ReadError> {
        let magic = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.starts_with(magic) || magic.is_empty() {
            return Err(ReadError::NotHindsight);
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(ReadError::Truncated {
                expected: HEADER_BYTES as u64,
                actual: bytes.len() as u64,
            });
        };
        let u32_at = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Ok(Header {
            major: u32_at(8) as u16,
            minor: (u32_at(8) >> 16) as u16,
            count: u32_at(12),
            table_offset: u64_at(16),
            file_bytes: u64_at(24),
            table_crc: u32_at(32),
            crc: (u32_at(36), crc32fast::hash(&header[..HEADER_BYTES - 4])),
        })
    }

    /// Checks version, checksum and the file's length.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), ReadError> {
        let (major, minor) = (self.major, self.minor);
        // The checksum of a newer version may be somewhere else.
        if major > MAJOR_VERSION {
            return Err(ReadError::NewerVersion { major, minor });
        }
        self.check_crc()?;
        if (bytes.len() as u64) < self.file_bytes {
            return Err(ReadError::Truncated {
                expected: self.file_bytes,
                actual: bytes.len() as u64,
            });
        }
        Ok(())
    }

    /// Checks the header's checksum.
    pub(super) fn check_crc(&self) -> Result<(), ReadError> {
        let (expected, crc) = self.crc;
        if crc == expected {
            return Ok(());
        }
        let what = format!("its bytes have changed since it was written (their checksum is {crc:08x} now, it was {expected:08x})");
        Err(damaged("header", 0, what))
    }

    /// Where the section table should be. It may be outside of the file.
    pub(super) fn table_range(&self) -> Range<usize> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let length = u64::from(self.count) * TABLE_ENTRY_BYTES as u64;
        let start = self.table_offset.max(HEADER_BYTES as u64);
        place(start)..place(self.table_offset.saturating_add(length).max(start))
    }

    /// The error for a table that is not in the file.
    pub(super) fn table_outside(&self) -> ReadError {
        let what = format!(
            "a table of {} sections there is outside of the file",
            self.count
        );
        damaged("section table", self.table_offset, what)
    }
}

/// An entry of the table.
pub(super) fn entry(bytes: &[u8]) -> Result<SectionInfo, DecodeError> {
    let mut d = Decoder::new(bytes);
    Ok(SectionInfo {
        kind: d.u32("kind")?,
        index: d.u32("index")?,
        offset: d.u64("offset")?,
        length: d.u64("length")?,
        crc: d.u32("checksum")?,
    })
}

/// Checks that no byte is in two sections: else a few bytes could stand for many rings.
fn check_overlaps(sections: &[SectionInfo], table_offset: u64) -> Result<(), ReadError> {
    let mut order: Vec<_> = sections.iter().filter(|s| s.length != 0).collect();
    order.sort_unstable_by_key(|s| s.offset);
    match order
        .windows(2)
        .find(|p| p[0].offset + p[0].length > p[1].offset)
    {
        Some(pair) => {
            let what = format!("sections {} and {} have bytes in common", pair[0], pair[1]);
            Err(damaged("section table", table_offset, what))
        }
        None => Ok(()),
    }
}

/// The sections of a table at `table_offset` of the file. Each is inside of the file, and none is there twice.
pub(super) fn sections_of(
    table: &[u8],
    table_offset: u64,
    bytes: &[u8],
) -> Result<Vec<SectionInfo>, ReadError> {
    let mut sections = Vec::with_capacity(table.len() / TABLE_ENTRY_BYTES);
    for (i, chunk) in table.chunks_exact(TABLE_ENTRY_BYTES).enumerate() {
        let place = table_offset + (i * TABLE_ENTRY_BYTES) as u64;
        let info = entry(chunk).map_err(|e| damaged("section table", place, e.what))?;
        if range(info.offset, info.length, bytes).is_none() || info.offset % 8 != 0 {
            let what = format!(
                "section {}/{} claims {} bytes from byte {} on, which is outside of the file or not a multiple of 8",
                info.kind, info.index, info.length, info.offset
            );
            return Err(damaged("section table", place, what));
        }
        sections.push(info);
    }
    check_overlaps(&sections, table_offset)?;
    let mut order: Vec<_> = sections.iter().map(|s| (s.kind, s.index)).collect();
    order.sort_unstable();
    if let Some(pair) = order.windows(2).find(|pair| pair[0] == pair[1]) {
        let what = format!("section {}/{} is there twice", pair[0].0, pair[0].1);
        return Err(damaged("section table", table_offset, what));
    }
    Ok(sections)
}
