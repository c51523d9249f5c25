// SPDX-License-Identifier: Apache-2.0
//! Ring geometry: sizes, cursors, laps.
//!
//! A ring is `2^k` bytes of slots at a page boundary, followed by a `PROT_NONE` guard page. The
//! cursor is the *address* of the next slot; `0` means that tracing is off. A store to the guard page
//! wraps the cursor, so until that store the cursor can stand at the ring's end.

use crate::slot::SLOT_BYTES;

/// Default ring size: 8 MiB, 1 Mi slots.
pub const DEFAULT_LOG2_BYTES: u32 = 23;
/// Smallest ring: one 4 KiB page.
pub const MIN_LOG2_BYTES: u32 = 12;
/// Largest ring: 1 GiB.
pub const MAX_LOG2_BYTES: u32 = 30;
/// Value of a cursor while tracing is off.
pub const CURSOR_OFF: u64 = 0;

/// The size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    log2_bytes: u32,
}

impl Geometry {
    /// A ring of `2^log2_bytes` bytes, or `None` outside
    /// [`MIN_LOG2_BYTES`]`..=`[`MAX_LOG2_BYTES`].
    pub const fn new(log2_bytes: u32) -> Option<Self> {
        if log2_bytes < MIN_LOG2_BYTES || log2_bytes > MAX_LOG2_BYTES {
            return None;
        }
        Some(Geometry { log2_bytes })
    }

    /// log2 of the size in bytes.
    pub const fn log2_bytes(self) -> u32 {
        self.log2_bytes
    }

    /// Size in bytes, without the guard page.
    pub const fn bytes(self) -> usize {
        1 << self.log2_bytes
    }

    /// Number of slots in the ring.
    pub const fn slots(self) -> usize {
        self.bytes() / SLOT_BYTES
    }
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry {
            log2_bytes: DEFAULT_LOG2_BYTES,
        }
    }
}

/// Position of a ring's cursor: the number of completed laps, and the byte offset of the next slot.
///
/// Slots written since the start: `laps * slots + offset / 8`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Completed laps.
    pub laps: u64,
    /// Byte offset of the next slot, `0 ..= bytes` (it is `bytes` until the guard page wraps it).
    pub offset: u64,
}

impl Position {
    /// Slots written since the start of the ring.
    ///
    /// Saturates, so that positions read from a file cannot overflow it.
    pub const fn slots_written(self, geometry: Geometry) -> u64 {
        self.laps
            .saturating_mul(geometry.slots() as u64)
            .saturating_add(self.offset / SLOT_BYTES as u64)
    }

    /// Number of bytes of the ring's memory, from its start, that hold slots.
    pub const fn used_bytes(self, geometry: Geometry) -> usize {
        let bytes = geometry.bytes();
        if self.laps == 0 && self.offset < bytes as u64 {
            self.offset as usize
        } else {
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometry_refuses_sizes_out_of_bounds() {
        assert_eq!(Geometry::new(MIN_LOG2_BYTES - 1), None);
        assert_eq!(Geometry::new(MAX_LOG2_BYTES + 1), None);
        assert_eq!(Geometry::default().slots(), 1 << 20);
    }

    #[test]
    fn the_first_lap_uses_only_what_was_written() {
        let g = Geometry::new(12).unwrap();
        let used = |laps, offset| Position { laps, offset }.used_bytes(g);
        assert_eq!([used(0, 0), used(0, 8), used(0, 4096)], [0, 8, 4096]);
        assert_eq!([used(1, 0), used(1, 8), used(0, 9999)], [4096, 4096, 4096]);
    }

    #[test]
    fn a_cursor_at_the_end_counts_the_same_as_one_wrapped_to_the_start() {
        let g = Geometry::new(12).unwrap();
        let at_end = Position {
            laps: 2,
            offset: 4096,
        };
        let wrapped = Position { laps: 3, offset: 0 };
        assert_eq!(at_end.slots_written(g), wrapped.slots_written(g));
        assert_eq!(at_end.slots_written(g), 3 * 512);
    }
}
