// SPDX-License-Identifier: Apache-2.0
//! A ring's section to bytes and back: its header, and its slots, as in memory or in compressed frames.

use std::borrow::Cow;

use super::codec::{align8, clip, Decoder, Encoder, MAX_STRING_BYTES};
use super::error::DecodeError;
use super::frames;
use super::sections::{Epochs, Ring, RingHeader, RingMode};
use crate::ring::{Geometry, Position};
use crate::slot::SLOT_BYTES;

/// The fields of a ring's header, before the thread's name.
const RING_FIELDS_BYTES: usize = 48;
/// The fields of a ring's header after the thread's name, which older writers leave out.
const RING_LATER_FIELDS_BYTES: usize = 16;
/// The fields of a ring's header after those, which only writers of [`Epochs`] have.
const RING_EPOCHS_BYTES: usize = 16;
/// The last fields of a compressed ring's header: how the slots are stored, and the header's own checksum.
const RING_STORAGE_BYTES: usize = 8;
/// The slots are stored in frames.
const IN_FRAMES: u32 = 1;

/// How a ring's slots are stored after its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// As in memory.
    Memory,
    /// In compressed frames. The header has a checksum of its own.
    Frames {
        /// Whether that checksum is right.
        sound_header: bool,
    },
}

impl Storage {
    /// From the last fields of the header of a section with these bytes.
    fn decode(d: &mut Decoder<'_>, bytes: &[u8]) -> Result<Self, DecodeError> {
        match d.u32("the storage of the slots")? {
            0 => {
                d.take(4, "padding")?;
                Ok(Storage::Memory)
            }
            IN_FRAMES => {
                let crc = crc32fast::hash(&bytes[..d.at()]);
                let sound_header = d.u32("the header's checksum")? == crc;
                Ok(Storage::Frames { sound_header })
            }
            other => Err(d.error(format!(
                "the slots are stored in a way that this version does not know ({other})"
            ))),
        }
    }
}

impl RingHeader {
    /// The bytes that stand before the ring's memory; a multiple of 8.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_fields(0).0
    }

    /// The bytes that stand before the ring's frames; a multiple of 8.
    pub(super) fn encode_compressed(&self) -> Vec<u8> {
        let mut e = self.encode_fields(RING_STORAGE_BYTES);
        e.u32(IN_FRAMES);
        e.u32(crc32fast::hash(&e.0));
        e.0
    }

    /// A header that has this many bytes more, without them.
    fn encode_fields(&self, more: usize) -> Encoder {
        let name = clip(&self.name);
        let mut e = Encoder::default();
        let epochs_bytes = self.epochs.map_or(0, |_| RING_EPOCHS_BYTES);
        let own = align8(RING_FIELDS_BYTES + name.len()) + RING_LATER_FIELDS_BYTES + epochs_bytes;
        e.u32((own + more) as u32);
        e.u32(self.tid);
        e.u32(self.geometry.log2_bytes());
        e.u32(name.len() as u32);
        e.u64(self.position.laps);
        e.u64(self.position.offset);
        e.u64(self.started_counter);
        e.u64(self.stopped_counter);
        e.0.extend_from_slice(name.as_bytes());
        e.pad8();
        e.u64(self.thread);
        e.u32(self.part);
        e.u32(self.mode as u32);
        if let Some(epochs) = self.epochs {
            e.u64(epochs.taken_back);
            e.u32(epochs.rewind_below);
            e.u32(epochs.epoch);
        }
        e
    }

    /// Number of bytes of the ring's memory that follow the header in the file: up to the cursor in the
    /// first lap, the whole ring later.
    pub fn stored_bytes(&self) -> usize {
        self.position.used_bytes(self.geometry)
    }
}

impl<'a> Ring<'a> {
    /// Length of a ring's section that begins with these bytes, computed from its contents; it may exceed them. `None` if
    /// they make no sense as a ring.
    pub(super) fn measure(bytes: &[u8]) -> Option<u64> {
        let (header, storage, raw) = Ring::decode_header(bytes).ok()?;
        let header_bytes = bytes.len() - raw.len();
        // Exactly as writers encode it, so that other bytes hardly ever pass for a ring.
        let before = align8(RING_FIELDS_BYTES + header.name.len());
        let (is_as_written, length) = match storage {
            Storage::Memory => {
                let is_as_written = match header_bytes.checked_sub(before) {
                    Some(0) => true,
                    Some(RING_LATER_FIELDS_BYTES) => header.epochs.is_none(),
                    Some(later) => later == RING_LATER_FIELDS_BYTES + RING_EPOCHS_BYTES,
                    None => false,
                };
                (is_as_written, header.stored_bytes())
            }
            Storage::Frames { sound_header } => {
                (sound_header, frames::measure(raw, header.stored_bytes()))
            }
        };
        let times = header.started_counter <= header.stopped_counter;
        (is_as_written && times).then_some((header_bytes + length) as u64)
    }

    /// From a section's bytes; slots that are stored as in memory stay where they are.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (header, storage, rest) = Self::decode_header(bytes)?;
        let mut d = Decoder::new(bytes);
        d.take(bytes.len() - rest.len(), "the header")?;
        let stored = header.stored_bytes();
        let raw = match storage {
            Storage::Memory => Cow::Borrowed(d.take(stored, "the ring's slots")?),
            Storage::Frames { .. } => {
                let inflated = frames::inflate(rest, stored, true);
                if !inflated.lost.is_empty() || inflated.raw.len() != stored {
                    return Err(d.error(format!(
                        "the frames do not have the ring's {stored} bytes of slots"
                    )));
                }
                Cow::Owned(inflated.raw)
            }
        };
        Ok(Ring { header, raw })
    }

    /// The header of a section's bytes, how the slots are stored, and all bytes after the header.
    pub(super) fn decode_header(
        bytes: &'a [u8],
    ) -> Result<(RingHeader, Storage, &'a [u8]), DecodeError> {
        let mut d = Decoder::new(bytes);
        let header_bytes = d.u32("the header's length")? as usize;
        let tid = d.u32("tid")?;
        let log2_bytes = d.u32("the ring's size")?;
        let geometry = Geometry::new(log2_bytes)
            .ok_or_else(|| d.error(format!("a ring of 2^{log2_bytes} bytes is out of bounds")))?;
        let name_bytes = d.u32("the length of the name")? as usize;
        let position = Position {
            laps: d.u64("laps")?,
            offset: d.u64("offset")?,
        };
        if position.offset > geometry.bytes() as u64 || position.offset % SLOT_BYTES as u64 != 0 {
            return Err(d.error(format!(
                "{} is not the offset of a slot in a ring of {} bytes",
                position.offset,
                geometry.bytes()
            )));
        }
        let started_counter = d.u64("started_counter")?;
        let stopped_counter = d.u64("stopped_counter")?;
        let name_start = d.at();
        let name = std::str::from_utf8(d.take(name_bytes.min(MAX_STRING_BYTES), "the name")?)
            .map_err(|e| DecodeError {
                offset: name_start + e.valid_up_to(),
                what: "the thread's name is not UTF-8".into(),
            })?;
        if header_bytes < d.at() || header_bytes % SLOT_BYTES != 0 {
            return Err(DecodeError {
                offset: 0,
                what: format!(
                    "a header of {header_bytes} bytes cannot hold its {} bytes of fields, or is no multiple of 8",
                    d.at()
                ),
            });
        }
        let mut header = RingHeader {
            tid,
            name: name.to_owned(),
            geometry,
            position,
            started_counter,
            stopped_counter,
            ..RingHeader::default()
        };
        let mut storage = Storage::Memory;
        if header_bytes >= align8(d.at()) + RING_LATER_FIELDS_BYTES {
            d.take(align8(d.at()) - d.at(), "padding")?;
            header.thread = d.u64("the thread's number")?;
            header.part = d.u32("the part")?;
            header.mode = RingMode::from_number(d.u32("the mode")?);
            if header_bytes >= d.at() + RING_EPOCHS_BYTES {
                header.epochs = Some(Epochs {
                    taken_back: d.u64("the calls taken back")?,
                    rewind_below: d.u32("the limit of calls taken back")?,
                    epoch: d.u32("the newest slot's epoch")?,
                });
            }
            if header_bytes >= d.at() + RING_STORAGE_BYTES {
                storage = Storage::decode(&mut d, bytes)?;
            }
        }
        d.take(header_bytes - d.at(), "the rest of the header")?;
        Ok((header, storage, &bytes[header_bytes..]))
    }
}
