// SPDX-License-Identifier: Apache-2.0
//! Finding the sections of a file whose header or section table is damaged or missing.
//!
//! Sections have no tags, but their contents tell their lengths, and writers put them one after the other in a fixed
//! order: process, clocks, each ring with its anchors and open calls, symbols, strings, stacks, losses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::codec::align8;
use super::encoding::{begins, measure};
use super::error::SectionInfo;
use super::sections::SectionKind;
use super::table::{entry, range, sections_of};
use super::{HEADER_BYTES, TABLE_ENTRY_BYTES};

/// Longest table that is searched for, in sections.
const MAX_SECTIONS: usize = 1 << 14;
/// After this many gaps the rest of the file is one: each costs time in proportion to the file.
const MAX_GAPS: usize = 64;

/// The sections that were found.
#[derive(Default)]
pub(super) struct Found {
    /// In the order of the file.
    pub(super) sections: Vec<SectionInfo>,
    /// Indices of the `sections` without a known checksum.
    pub(super) unchecked: Vec<usize>,
    /// Number of sound sections of unknown kinds.
    pub(super) unknown: usize,
    /// Ranges of bytes in which nothing was found.
    pub(super) gaps: Vec<Range<u64>>,
}

/// Finds a sound section table at the end of a file with a damaged header: `crc` is the header's checksum of it, which
/// may be the damaged part. The first section of every file begins after the header.
pub(super) fn table(bytes: &[u8], crc: u32) -> Option<Vec<SectionInfo>> {
    // Each byte takes part in few checksums, or hostile files would take long.
    let mut budget = bytes.len();
    let most = (bytes.len().checked_sub(HEADER_BYTES)? / TABLE_ENTRY_BYTES).min(MAX_SECTIONS);
    for count in 1..=most {
        let start = bytes.len() - count * TABLE_ENTRY_BYTES;
        let table = &bytes[start..];
        if !entry(table).is_ok_and(|first| first.offset == HEADER_BYTES as u64) {
            continue;
        }
        budget = budget.checked_sub(table.len())?;
        if crc32fast::hash(table) == crc || is_chain(table, start) {
            return sections_of(table, start as u64, bytes).ok();
        }
    }
    None
}

/// Whether the sections of a table follow each other from the header to the table.
fn is_chain(table: &[u8], table_start: usize) -> bool {
    let mut at = HEADER_BYTES as u64;
    for chunk in table.chunks_exact(TABLE_ENTRY_BYTES) {
        let Ok(info) = entry(chunk) else { return false };
        let known = SectionKind::from_number(info.kind).is_some();
        if !known || info.offset != at || info.length > table_start as u64 {
            return false;
        }
        at = (at + info.length).next_multiple_of(8);
    }
    at == table_start as u64
}

/// Entries of a damaged table whose sections have the right checksums, by offset.
fn sound_entries(bytes: &[u8], limit: usize, table: &[u8]) -> BTreeMap<usize, SectionInfo> {
    let mut budget = 2 * bytes.len();
    let mut sound = BTreeMap::new();
    for chunk in table.chunks_exact(TABLE_ENTRY_BYTES) {
        let Ok(info) = entry(chunk) else { continue };
        let Some(range) = range(info.offset, info.length, &bytes[..limit]) else {
            continue;
        };
        let Some(left) = budget.checked_sub(range.len()) else {
            break;
        };
        budget = left;
        if crc32fast::hash(&bytes[range.clone()]) == info.crc {
            sound.insert(range.start, info);
        }
    }
    sound
}

/// Kinds of sections that may follow one of this kind.
fn successors(kind: Option<SectionKind>) -> &'static [SectionKind] {
    use SectionKind::{
        Anchors, Clocks, Losses, OpenCalls, Process, Ring, Stacks, Strings, Symbols,
    };
    match kind {
        None => &[Process],
        Some(Process) => &[Clocks],
        Some(Clocks | OpenCalls) => &[Ring, Symbols, Losses],
        // A ring's header is the most telling.
        Some(Ring) => &[Ring, Anchors, OpenCalls, Symbols, Losses],
        Some(Anchors) => &[Ring, OpenCalls, Symbols, Losses],
        // Stacks are the most telling; losses may be taken for strings.
        Some(Symbols) => &[Stacks, Losses, Strings],
        Some(Strings) => &[Stacks, Losses],
        // Some writers put them before the strings.
        Some(Stacks) => &[Losses, Strings],
        Some(_) => &[],
    }
}

/// Goes from section to section up to `limit`. Uses the entries of a damaged `table` whose sections have the recorded
/// checksum.
pub(super) fn walk(bytes: &[u8], limit: usize, table: &[u8]) -> Found {
    let sound = sound_entries(bytes, limit, table);
    let is_cut = table.is_empty() && limit == bytes.len();
    let mut found = Found::default();
    let mut names = BTreeSet::new();
    let (mut at, mut previous, mut rings) = (HEADER_BYTES, None, 0_u32);
    while at < limit {
        let here = &bytes[at..limit];
        let (kind, length, crc) = match sound.get(&at) {
            Some(info) => {
                let section = &here[..info.length as usize];
                let fits = |kind: &SectionKind| measure(*kind, section) == Some(info.length);
                let kind = SectionKind::from_number(info.kind).filter(fits);
                let kind = kind.or_else(|| successors(previous).iter().copied().find(fits));
                (kind, info.length as usize, Some(info.crc))
            }
            None => {
                let measured = successors(previous).iter().find_map(|&kind| {
                    if let Some(length) = measure(kind, here) {
                        let length = usize::try_from(length).ok()?;
                        return Some((kind, length.min(here.len())));
                    }
                    (is_cut && begins(kind, here)).then_some((kind, here.len()))
                });
                match measured {
                    Some((kind, length)) => (Some(kind), length, None),
                    None => {
                        let next = sound.range(at + 1..).next().map_or(limit, |(&at, _)| at);
                        let is_last = found.gaps.len() + 1 == MAX_GAPS;
                        let next = if is_last { limit } else { next };
                        found.gaps.push(at as u64..next as u64);
                        at = next;
                        continue;
                    }
                }
            }
        };
        if let Some(kind) = kind {
            rings += u32::from(kind == SectionKind::Ring);
            let index = match kind {
                SectionKind::Ring | SectionKind::Anchors | SectionKind::OpenCalls => {
                    rings.saturating_sub(1)
                }
                _ => 0,
            };
            if names.insert((kind, index)) {
                if crc.is_none() {
                    found.unchecked.push(found.sections.len());
                }
                found.sections.push(SectionInfo {
                    kind: kind.into(),
                    index,
                    offset: at as u64,
                    length: length as u64,
                    crc: crc.unwrap_or_default(),
                });
            }
            previous = Some(kind);
        } else {
            found.unknown += 1;
        }
        at = align8(at + length.max(1));
    }
    found
}
