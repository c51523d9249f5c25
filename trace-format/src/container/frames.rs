// SPDX-License-Identifier: Apache-2.0
//! A ring's slots in compressed frames. `docs/trace-format.md` has the layout.
//!
//! Frames do not depend on each other, and each has its own checksum: a damaged one costs its own slots. They are written one
//! after the other, from buffers of a few hundred KiB.

use std::io;
use std::ops::Range;

use crate::slot::SLOT_BYTES;

/// Slots in a frame; the last frame of a ring may have fewer.
pub const FRAME_SLOTS: usize = 1 << 14;
/// Bytes of a ring's memory in a frame.
pub const FRAME_BYTES: usize = FRAME_SLOTS * SLOT_BYTES;
/// Magic, number, slots, length of the data, checksum: 4 bytes each.
pub(super) const FRAME_HEADER_BYTES: usize = 20;
const MAGIC: [u8; 4] = *b"\x8aHSF";
/// Size of a slot before LZ4, at most: its low half, and five times seven bits for its counter.
const PACKED_SLOT_BYTES: usize = 9;
/// Longest data of a frame: LZ4 makes its input longer by 1/255 and 16 bytes at most.
const MAX_DATA_BYTES: usize = FRAME_SLOTS * PACKED_SLOT_BYTES * 256 / 255 + 32;
/// Shortest data of a full frame, with its header: a byte of LZ4 stands for 255 bytes at most, and a slot is packed into 5 or more.
const MIN_FULL_FRAME_BYTES: usize = FRAME_HEADER_BYTES + FRAME_SLOTS * 5 / 255;

/// Compresses the frames of a ring, one after the other, in buffers that are used again.
#[derive(Default)]
pub(super) struct Compressor {
    packed: Vec<u8>,
    frame: Vec<u8>,
}

impl Compressor {
    /// Compresses the slots of the frame with this number, [`FRAME_BYTES`] or the rest of the ring; returns header and data.
    pub(super) fn frame(&mut self, number: u32, slots: &[u8]) -> io::Result<&[u8]> {
        pack(slots, &mut self.packed);
        let most = lz4_flex::block::get_maximum_output_size(self.packed.len());
        self.frame.resize(FRAME_HEADER_BYTES + most, 0);
        let (header, data) = self.frame.split_at_mut(FRAME_HEADER_BYTES);
        let length =
            lz4_flex::block::compress_into(&self.packed, data).map_err(io::Error::other)?;
        let count = (slots.len() / SLOT_BYTES) as u32;
        header[..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&number.to_le_bytes());
        header[8..12].copy_from_slice(&count.to_le_bytes());
        header[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        let crc = checksum(header, &data[..length]);
        header[16..].copy_from_slice(&crc.to_le_bytes());
        Ok(&self.frame[..FRAME_HEADER_BYTES + length])
    }
}

/// CRC-32 of the numbers in a frame's header, and of its data.
fn checksum(header: &[u8], data: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header[4..16]);
    crc.update(data);
    crc.finalize()
}

/// First the low halves of all slots: calls of the same methods repeat them. Then, for each slot, how much greater its upper
/// half is than the one before (modulo 2^32), seven bits a byte: counters grow by little.
fn pack(slots: &[u8], packed: &mut Vec<u8>) {
    packed.clear();
    packed.reserve(slots.len() / SLOT_BYTES * PACKED_SLOT_BYTES);
    let slots = slots.chunks_exact(SLOT_BYTES);
    let halves = slots.map(|s| ([s[0], s[1], s[2], s[3]], [s[4], s[5], s[6], s[7]]));
    packed.extend(halves.clone().flat_map(|(low, _)| low));
    let mut before = 0_u32;
    for (_, upper) in halves {
        let upper = u32::from_le_bytes(upper);
        let mut by = upper.wrapping_sub(before);
        before = upper;
        while by >= 0x80 {
            packed.push(by as u8 | 0x80);
            by >>= 7;
        }
        packed.push(by as u8);
    }
}

/// The opposite of [`pack`]. `None` if these bytes were not made by it for as many slots as `slots` has room for.
fn unpack(packed: &[u8], slots: &mut [u8]) -> Option<()> {
    let count = slots.len() / SLOT_BYTES;
    let (lows, mut uppers) = packed.split_at_checked(count * 4)?;
    let mut before = 0_u32;
    let both = slots.chunks_exact_mut(SLOT_BYTES).zip(lows.chunks_exact(4));
    for (slot, low) in both {
        let (mut by, mut shift) = (0_u32, 0);
        loop {
            let (&byte, rest) = uppers.split_first()?;
            uppers = rest;
            by |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 28 {
                return None;
            }
        }
        before = before.wrapping_add(by);
        slot[..4].copy_from_slice(low);
        slot[4..].copy_from_slice(&before.to_le_bytes());
    }
    uppers.is_empty().then_some(())
}

/// The slots in the sound frames of a ring.
#[derive(Debug, Default)]
pub(super) struct Inflated {
    /// The ring's memory from its start to the end of the last sound frame; zeros in place of lost frames before that.
    pub(super) raw: Vec<u8>,
    /// The bytes of lost frames in `raw`.
    pub(super) lost: Vec<Range<usize>>,
}

/// A frame whose checksum is right.
struct Frame<'a> {
    number: usize,
    slots: usize,
    data: &'a [u8],
}

/// The extent of a frame that begins there, by its header alone; it may exceed `bytes`.
fn extent(bytes: &[u8]) -> Option<Range<usize>> {
    let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
    let length = word(header, 12);
    let is_one = header.starts_with(&MAGIC) && length <= MAX_DATA_BYTES;
    is_one.then_some(FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + length)
}

fn word(header: &[u8; FRAME_HEADER_BYTES], at: usize) -> usize {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]) as usize
}

/// Finds the sound frames after a ring's header, in order. If one is damaged, those of other rings may come next.
struct Frames<'a> {
    bytes: &'a [u8],
    /// Bytes of the ring's slots; at most so many, if the header is damaged: then the first shorter frame is the last one.
    stored: usize,
    is_exact: bool,
    /// The least number of a frame that may come next.
    number: usize,
    /// Where that frame has to be, unless the one before is damaged.
    next_at: usize,
    at: usize,
    /// Bytes whose checksum may still be computed in vain, or hostile files would take long.
    budget: usize,
}

impl<'a> Frames<'a> {
    fn new(bytes: &'a [u8], stored: usize, is_exact: bool) -> Self {
        Frames {
            bytes,
            stored,
            is_exact,
            number: 0,
            next_at: 0,
            at: 0,
            budget: 4 * bytes.len() + MAX_DATA_BYTES,
        }
    }

    /// The number of slots of the frame with this number; 0 if it is beyond the ring's end.
    fn slots_of(&self, number: usize) -> usize {
        let before = number.saturating_mul(FRAME_BYTES);
        (self.stored.saturating_sub(before) / SLOT_BYTES).min(FRAME_SLOTS)
    }

    /// The frame at the current place, if it is sound.
    fn here(&mut self) -> Option<(Frame<'a>, usize)> {
        let bytes = &self.bytes[self.at..];
        let header = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        let range = extent(bytes)?;
        let end = self.at + range.end;
        let data = bytes.get(range)?;
        let (number, slots) = (word(header, 4), word(header, 8));
        // Each frame before it has its place in the file. This bounds the memory that a file can claim.
        let is_credible = number <= self.at / MIN_FULL_FRAME_BYTES;
        // A frame with a number that was there before, or with another number of slots, is of another ring.
        let expected = self.slots_of(number);
        let fits = slots == expected || (!self.is_exact && slots < expected);
        if !is_credible || number < self.number || slots == 0 || !fits {
            return None;
        }
        if checksum(header, data) != word(header, 16) as u32 {
            self.budget = self.budget.saturating_sub(data.len());
            return None;
        }
        self.number = number + 1;
        if slots < expected {
            self.stored = number * FRAME_BYTES + slots * SLOT_BYTES;
        }
        Some((
            Frame {
                number,
                slots,
                data,
            },
            end,
        ))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    fn next(&mut self) -> Option<Frame<'a>> {
        while self.budget > 0 && self.slots_of(self.number) > 0 {
            if let Some((frame, end)) = self.here() {
                self.at = end;
                self.next_at = end;
                return Some(frame);
            }
            // A frame at its place that is damaged: what comes later has a greater number, whatever this one's header says.
            let is_damaged = self.at == self.next_at && self.bytes[self.at..].starts_with(&MAGIC);
            self.number += usize::from(is_damaged);
            let rest = self.bytes.get(self.at + 1..)?;
            let found = rest.windows(MAGIC.len()).position(|bytes| bytes == MAGIC)?;
            self.at += 1 + found;
        }
        None
    }
}

/// Inflates all sound frames of the bytes after a ring's header that belong to a ring with `stored` bytes of slots, or with at
/// most so many unless `is_exact`. Memory is bounded by `stored`, however far away a frame claims to be.
pub(super) fn inflate(bytes: &[u8], stored: usize, is_exact: bool) -> Inflated {
    let frames: Vec<Frame<'_>> = Frames::new(bytes, stored, is_exact).collect();
    let end = frames.last().map_or(0, |last| {
        last.number * FRAME_BYTES + last.slots * SLOT_BYTES
    });
    let mut inflated = Inflated {
        raw: vec![0; end],
        lost: Vec::new(),
    };
    let most_slots = frames.iter().map(|frame| frame.slots).max();
    let mut packed = vec![0; most_slots.unwrap_or(0) * PACKED_SLOT_BYTES];
    let mut at = 0;
    for frame in &frames {
        let start = frame.number * FRAME_BYTES;
        let slots = &mut inflated.raw[start..start + frame.slots * SLOT_BYTES];
        let length = lz4_flex::block::decompress_into(frame.data, &mut packed);
        let done = length
            .ok()
            .and_then(|length| unpack(&packed[..length], slots));
        if done.is_none() {
            slots.fill(0);
            continue;
        }
        if at < start {
            inflated.lost.push(at..start);
        }
        at = start + frame.slots * SLOT_BYTES;
    }
    inflated.raw.truncate(at);
    inflated
}

/// The length of the frames of a ring with so many bytes of slots, by their headers and checksums; it may exceed `bytes`.
pub(super) fn measure(bytes: &[u8], stored: usize) -> usize {
    let mut frames = Frames::new(bytes, stored, true);
    let (mut at, mut is_whole) = (0, stored == 0);
    while let Some(frame) = frames.next() {
        at = frames.at;
        is_whole = (frame.number + 1) * FRAME_BYTES >= stored;
    }
    if is_whole {
        return at;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let by_header = extent(rest).map(|range| range.end);
    let is_cut = rest.len() < FRAME_HEADER_BYTES;
    let length = by_header.or(is_cut.then_some(FRAME_HEADER_BYTES));
    at + length.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compress(raw: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::default();
        let mut out = Vec::new();
        for (number, slots) in (0..).zip(raw.chunks(FRAME_BYTES)) {
            out.extend_from_slice(compressor.frame(number, slots).unwrap());
        }
        out
    }

    /// Slots whose counters grow by little, as in a ring.
    fn ring(slots: usize) -> Vec<u8> {
        let slot = |i: u64| (i * 70) << 32 | (0x7000_1000 + i % 17 * 40);
        (0..slots as u64)
            .flat_map(|i| slot(i).to_le_bytes())
            .collect()
    }

    #[test]
    fn slots_that_cannot_be_compressed_fit_into_the_bounds() {
        // The greatest steps, in no pattern.
        let mut state = 1_u64;
        let raw: Vec<u8> = (0..FRAME_SLOTS)
            .flat_map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (state | 1 << 63).to_le_bytes()
            })
            .collect();
        let frames = compress(&raw);
        assert!(frames.len() <= FRAME_HEADER_BYTES + MAX_DATA_BYTES);
        assert_eq!(inflate(&frames, raw.len(), true).raw, raw);
    }

    #[test]
    fn slots_that_are_all_equal_fit_into_the_bounds() {
        let raw = vec![0; 3 * FRAME_BYTES];
        let frames = compress(&raw);
        assert!(frames.len() >= 3 * MIN_FULL_FRAME_BYTES, "{}", frames.len());
        assert_eq!(inflate(&frames, raw.len(), true).raw, raw);
    }

    #[test]
    fn a_damaged_frame_costs_its_own_slots() {
        let raw = ring(4 * FRAME_SLOTS - 9);
        let frames = compress(&raw);
        let ends: Vec<usize> = (1..=4)
            .map(|n| compress(&raw[..raw.len().min(n * FRAME_BYTES)]).len())
            .collect();
        for at in (0..frames.len())
            .step_by(61)
            .chain(ends[0]..ends[0] + FRAME_HEADER_BYTES)
        {
            let mut bad = frames.clone();
            bad[at] ^= 0x10;
            let number = ends.iter().filter(|&&end| end <= at).count();
            let lost = number * FRAME_BYTES..((number + 1) * FRAME_BYTES).min(raw.len());
            let inflated = inflate(&bad, raw.len(), true);
            let mut expected = raw.clone();
            if number == 3 {
                expected.truncate(lost.start);
                assert_eq!(inflated.lost, []);
            } else {
                expected[lost.clone()].fill(0);
                assert_eq!(inflated.lost, [lost], "byte {at}");
            }
            assert!(inflated.raw == expected, "byte {at}");
            if number < 3 {
                assert_eq!(measure(&bad, raw.len()), frames.len(), "byte {at}");
            }
        }
    }

    #[test]
    fn the_frame_of_another_ring_does_not_take_the_place_of_a_damaged_one() {
        for (own, other) in [(300, 200), (300, 300), (FRAME_SLOTS + 400, 300)] {
            let own = ring(own);
            let frames = compress(&own);
            let last = compress(&own[..own.len() / FRAME_BYTES * FRAME_BYTES]).len();
            // A part of the last frame's data is lost, and of what follows up to another ring's frame.
            for kept in [FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 40] {
                let kept = last + kept;
                let mut bytes = frames[..kept].to_vec();
                bytes.extend(compress(&ring(other)));
                let inflated = inflate(&bytes, own.len(), true);
                assert_eq!(inflated.raw.len(), own.len() / FRAME_BYTES * FRAME_BYTES);
                assert_eq!(measure(&bytes, own.len()), frames.len());
            }
        }
    }

    #[test]
    fn a_frame_cannot_claim_more_slots_than_the_file_has_room_for() {
        let raw = ring(FRAME_SLOTS);
        let mut compressor = Compressor::default();
        let far = compressor.frame(4095, &raw).unwrap().to_vec();
        let stored = 4096 * FRAME_BYTES;
        assert!(inflate(&far, stored, true).raw.is_empty());
        // At its place it is one.
        let mut file = vec![0; 4095 * MIN_FULL_FRAME_BYTES];
        file.extend(far);
        assert_eq!(inflate(&file, stored, true).raw.len(), stored);
    }

    #[test]
    fn frames_that_lie_about_their_lengths_are_checked_a_few_times_only() {
        let mut header = MAGIC.to_vec();
        header.extend([1_u32.to_le_bytes(); 2].as_flattened());
        header.extend((MAX_DATA_BYTES as u32).to_le_bytes());
        header.extend([0; 4]);
        let bytes = header.repeat(1 << 14);
        let mut frames = Frames::new(&bytes, FRAME_BYTES + SLOT_BYTES, true);
        assert!(frames.next().is_none());
        assert_eq!(frames.budget, 0);
        assert!(frames.at < bytes.len() / 2);
    }

    #[test]
    fn a_frame_beyond_the_ring_takes_no_memory() {
        let frames = compress(&ring(3 * FRAME_SLOTS));
        let inflated = inflate(&frames, 2 * FRAME_BYTES, true);
        assert_eq!(inflated.raw.len(), 2 * FRAME_BYTES);
    }
}
