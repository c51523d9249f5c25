// SPDX-License-Identifier: Apache-2.0
//! Reading a `.hindsight` file in place.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::encoding::SymbolTable;
use super::error::{DecodeError, ReadError, SectionInfo};
use super::frames::{self, FRAME_BYTES};
use super::recover;
use super::ring_section::Storage;
use super::sections::{
    Anchor, Clocks, Losses, OpenCalls, ProcessFacts, Ring, RingHeader, SectionKind, Stacks,
    Strings, Symbols,
};
use super::table::{damaged, range, sections_of, Header};
use crate::reverse::Slots;
use crate::slot::SLOT_BYTES;

/// A `.hindsight` file in memory, usually mapped. Needs no alignment.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    minor: u16,
    sections: Vec<SectionInfo>,
    /// Sections whose checksum was right, or isn't known.
    verified: Vec<AtomicBool>,
    /// Sections were found by their contents; the last one may be cut off.
    recovered: bool,
}

/// A damaged file, as far as its sections could be found.
#[derive(Debug)]
pub struct Recovered<'a> {
    /// Reads the sections that were found.
    pub reader: Reader<'a>,
    /// Why the header or the section table could not be used; `None` if they are sound.
    pub damage: Option<ReadError>,
    /// Byte ranges of the file in which no section was found.
    pub gaps: Vec<Range<u64>>,
    /// Number of the file's sections that were not found; `None` if it is not known how many there were.
    pub missing: Option<usize>,
    /// Number of sections whose checksums are lost: damage to them is not noticed.
    pub unchecked: usize,
}

/// A ring as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingParts<'a> {
    /// Thread, size, position. Any field may be wrong if the checksum is.
    pub header: RingHeader,
    /// The ring's memory from its start: [`RingHeader::stored_bytes`] of it, or fewer if the file is cut off.
    pub raw: Cow<'a, [u8]>,
    /// Why the ring is not whole and sound.
    pub damage: Option<ReadError>,
    /// Parts of the ring's memory that lost frames had, in its order, up to [`RingHeader::stored_bytes`]. In `raw` they are
    /// zeros, or missing at its end.
    pub lost: Vec<Range<usize>>,
    /// The header and all of `raw` that is not lost are as they were written, by checksums of their own.
    pub verified: bool,
}

impl RingParts<'_> {
    /// The slots, oldest first; all of them if there is no damage.
    pub fn slots(&self) -> Slots<'_> {
        Slots::new(&self.raw, self.header.position)
    }
}

impl<'a> RingParts<'a> {
    /// A ring that is stored as in memory.
    fn in_memory(header: RingHeader, raw: &'a [u8], damage: Option<ReadError>) -> Self {
        RingParts {
            header,
            raw: Cow::Borrowed(raw),
            verified: damage.is_none(),
            damage,
            lost: Vec::new(),
        }
    }
}

/// Makes a damaged header's position fit the slots that are there. False if that is not possible.
fn correct_position(header: &mut RingHeader, raw: &[u8]) -> bool {
    if raw.len() == header.stored_bytes() {
        return true;
    }
    // In the first lap, the number of slots tells it.
    let is_position = raw.len() < header.geometry.bytes() && raw.len() % SLOT_BYTES == 0;
    if header.position.laps != 0 || !is_position {
        return false;
    }
    header.position.offset = raw.len() as u64;
    true
}

impl<'a> Reader<'a> {
    /// Checks the header and the section table. Allocates in proportion to the table, which is part
    /// of `bytes`.
    ///
    /// # Errors
    /// If the file is cut off, or its header or section table is damaged; [`Reader::recover`] reads such a file.
    pub fn new(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let header = Header::of(bytes)?;
        header.check(bytes)?;
        let table = bytes
            .get(header.table_range())
            .ok_or_else(|| header.table_outside())?;
        let crc = crc32fast::hash(table);
        if crc != header.table_crc {
            let what = format!(
                "its bytes have changed since it was written (their checksum is {crc:08x} now, it was {:08x})",
                header.table_crc
            );
            return Err(damaged("section table", header.table_offset, what));
        }
        let sections = sections_of(table, header.table_offset, bytes)?;
        Ok(Self::with(bytes, header.minor, sections, Vec::new()))
    }

    /// As [`Reader::new`], but a damaged or missing section table is made up for: the sections are found by their
    /// contents. Takes time in proportion to the file at most.
    ///
    /// # Errors
    /// If this is no `.hindsight` file, is of a newer version, or no section can be found.
    pub fn recover(bytes: &'a [u8]) -> Result<Recovered<'a>, ReadError> {
        let damage = match Self::new(bytes) {
            Ok(reader) => {
                return Ok(Recovered {
                    reader,
                    damage: None,
                    gaps: Vec::new(),
                    missing: Some(0),
                    unchecked: 0,
                })
            }
            Err(e) => e,
        };
        let header = Header::of(bytes)?;
        let table = match header.check_crc() {
            Ok(()) if matches!(damage, ReadError::NewerVersion { .. }) => return Err(damage),
            Ok(()) => header.table_range(),
            Err(crc) => {
                // The version may be the damaged part: then the table has the checksum of this version's header.
                if let Some(sections) = recover::table(bytes, header.table_crc) {
                    return Ok(Recovered {
                        reader: Self::with(bytes, header.minor, sections, Vec::new()),
                        damage: Some(crc),
                        gaps: Vec::new(),
                        missing: Some(0),
                        unchecked: 0,
                    });
                }
                if matches!(damage, ReadError::NewerVersion { .. }) {
                    return Err(damage);
                }
                bytes.len()..bytes.len()
            }
        };
        let limit = table.start.min(bytes.len());
        let entries = bytes.get(table).unwrap_or_default();
        let found = recover::walk(bytes, limit, entries);
        if found.sections.is_empty() {
            return Err(damage);
        }
        let unchecked = found.unchecked.len();
        let known = found.sections.len() + found.unknown;
        let missing = (header.count as usize).saturating_sub(known);
        let mut reader = Self::with(bytes, header.minor, found.sections, found.unchecked);
        reader.recovered = true;
        Ok(Recovered {
            reader,
            damage: Some(damage),
            gaps: found.gaps,
            missing: header.check_crc().is_ok().then_some(missing),
            unchecked,
        })
    }

    /// `unchecked`: places of sections whose checksums are not known.
    fn with(
        bytes: &'a [u8],
        minor: u16,
        sections: Vec<SectionInfo>,
        unchecked: Vec<usize>,
    ) -> Self {
        let verified: Vec<_> = sections.iter().map(|_| AtomicBool::new(false)).collect();
        for place in unchecked {
            verified[place].store(true, Ordering::Relaxed);
        }
        Reader {
            bytes,
            minor,
            sections,
            verified,
            recovered: false,
        }
    }

    /// The file's minor version.
    pub fn minor_version(&self) -> u16 {
        self.minor
    }

    /// All sections, known and unknown, in the order of the table.
    pub fn sections(&self) -> &[SectionInfo] {
        &self.sections
    }

    fn bytes_of(&self, i: usize) -> &'a [u8] {
        let section = self.sections[i];
        range(section.offset, section.length, self.bytes)
            .map(|range| &self.bytes[range])
            .unwrap_or_default()
    }

    /// Whether the section may go on beyond the file's end.
    fn is_cut(&self, i: usize) -> bool {
        let section = self.sections[i];
        self.recovered && section.offset + section.length == self.bytes.len() as u64
    }

    /// The error for a section that cannot be decoded.
    fn fault(&self, i: usize, error: DecodeError) -> ReadError {
        let section = self.sections[i];
        if self.is_cut(i) {
            return ReadError::CutSection { section };
        }
        ReadError::Malformed {
            section,
            offset: section.offset + error.offset as u64,
            what: error.what,
        }
    }

    fn verified_bytes(&self, i: usize) -> Result<&'a [u8], ReadError> {
        let section = self.sections[i];
        let bytes = self.bytes_of(i);
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
        decode(self.verified_bytes(i)?)
            .map(Some)
            .map_err(|e| self.fault(i, e))
    }

    /// Decodes a section whether or not its checksum is right. Returns the value, if there is one, and what is wrong
    /// with the section; neither if there is no such section.
    pub fn salvage<T>(
        &self,
        kind: SectionKind,
        index: u32,
        decode: impl FnOnce(&'a [u8]) -> Result<T, DecodeError>,
    ) -> (Option<T>, Option<ReadError>) {
        let Some(i) = self.find(kind.into(), index) else {
            return (None, None);
        };
        let damage = self.verified_bytes(i).err();
        match decode(self.bytes_of(i)) {
            Ok(value) => (Some(value), damage),
            Err(e) => (None, damage.or(Some(self.fault(i, e)))),
        }
    }

    /// A thread's ring as far as it can be read, or `None` if there is none with that index.
    ///
    /// # Errors
    /// If not even the ring's header makes sense.
    pub fn ring_parts(&self, index: u32) -> Result<Option<RingParts<'a>>, ReadError> {
        let Some(i) = self.find(SectionKind::Ring.into(), index) else {
            return Ok(None);
        };
        let damage = self.verified_bytes(i).err();
        let (mut header, raw) = match Ring::decode_header(self.bytes_of(i)) {
            Ok((header, Storage::Memory, raw)) => (header, raw),
            Ok((header, Storage::Frames { sound_header }, frames)) => {
                let parts = self.inflated_ring(i, header, sound_header, frames, damage);
                return parts.map(Some);
            }
            Err(e) => return Err(damage.unwrap_or_else(|| self.fault(i, e))),
        };
        let stored = header.stored_bytes();
        if raw.len() < stored && self.is_cut(i) {
            let section = self.sections[i];
            let damage = Some(ReadError::CutSection { section });
            return Ok(Some(RingParts::in_memory(header, raw, damage)));
        }
        let Some(damage) = damage else {
            let raw = raw.get(..stored).ok_or_else(|| {
                let what = format!("the ring has {stored} bytes, but {} are here", raw.len());
                self.fault(i, DecodeError { offset: 0, what })
            })?;
            return Ok(Some(RingParts::in_memory(header, raw, None)));
        };
        if !correct_position(&mut header, raw) {
            return Err(damage);
        }
        Ok(Some(RingParts::in_memory(header, raw, Some(damage))))
    }

    /// A compressed ring, of which `damage` is known. Frames that are damaged or missing are lost.
    fn inflated_ring(
        &self,
        i: usize,
        mut header: RingHeader,
        sound_header: bool,
        frames: &[u8],
        damage: Option<ReadError>,
    ) -> Result<RingParts<'a>, ReadError> {
        let section = self.sections[i];
        let frames::Inflated { raw, mut lost } = frames::inflate(
            frames,
            match sound_header {
                true => header.stored_bytes(),
                false => header.geometry.bytes(),
            },
            sound_header,
        );
        if !sound_header {
            let damage = damage.unwrap_or(ReadError::CutSection { section });
            if lost.is_empty() && !correct_position(&mut header, &raw) {
                return Err(damage);
            }
            return Ok(RingParts {
                header,
                raw: Cow::Owned(raw),
                damage: Some(damage),
                lost,
                verified: false,
            });
        }
        let stored = header.stored_bytes();
        if raw.len() < stored {
            lost.push(raw.len()..stored);
        }
        let is_faulty = damage.is_none() && !self.recovered;
        let fault = || {
            let what = format!("the frames do not have the ring's {stored} bytes of slots");
            self.fault(i, DecodeError { offset: 0, what })
        };
        if raw.len() > stored {
            return Err(damage.unwrap_or_else(fault));
        }
        let damage = match damage {
            _ if lost.is_empty() => damage,
            _ if is_faulty || self.is_cut(i) => Some(fault()),
            _ => Some(ReadError::LostFrames {
                section,
                lost: lost
                    .iter()
                    .map(|lost| lost.len().div_ceil(FRAME_BYTES))
                    .sum(),
                frames: stored.div_ceil(FRAME_BYTES),
            }),
        };
        Ok(RingParts {
            header,
            raw: Cow::Owned(raw),
            damage,
            lost,
            verified: true,
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

    /// The open calls of a ring, if it has some.
    pub fn open_calls(&self, ring_index: u32) -> Result<Option<OpenCalls>, ReadError> {
        self.decode(SectionKind::OpenCalls, ring_index, OpenCalls::decode)
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

    /// The strings that events name; none if the file has none.
    pub fn strings(&self) -> Result<Strings, ReadError> {
        self.decode(SectionKind::Strings, 0, Strings::decode)
            .map(Option::unwrap_or_default)
    }

    /// The stacks that events name; none if the file has none.
    pub fn stacks(&self) -> Result<Stacks, ReadError> {
        self.decode(SectionKind::Stacks, 0, Stacks::decode)
            .map(Option::unwrap_or_default)
    }

    /// What was lost; empty if the file does not say.
    pub fn losses(&self) -> Result<Losses, ReadError> {
        self.decode(SectionKind::Losses, 0, Losses::decode)
            .map(Option::unwrap_or_default)
    }
}
