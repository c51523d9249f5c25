// SPDX-License-Identifier: Apache-2.0
//! Slots: the 8 bytes that a trace point writes.
//!
//! A slot is a little-endian `u64`. Its upper half holds the low 32 bits of the counter (ticks; the
//! TSC on x86-64, CNTVCT on ARM), its lower half the kind of event:
//!
//! | low 32 bits | meaning |
//! |---|---|
//! | `0` | method exit |
//! | `1` | end of a wide entry: the slot before it is a whole 64-bit `ArtMethod*` |
//! | `2 ..= 4095` | extension event; `number & 7` slots of payload stand before it |
//! | `4088` | no event: the entry of a short call that was taken back ([`TAG_TAKEN_BACK`]) |
//! | anything else | method entry: the low 32 bits of the `ArtMethod*`, whose upper half is zero |
//!
//! Page zero is never mapped, so no method has one of the reserved addresses. Reading backwards is
//! unambiguous: the low half of an event's last slot says how many slots stand before it.

/// Size of a slot in bytes.
pub const SLOT_BYTES: usize = 8;
/// Byte offset, inside a slot, of the half with the kind of event.
pub const LOW_OFFSET: usize = 0;
/// Byte offset, inside a slot, of the low 32 bits of the counter.
pub const COUNTER_OFFSET: usize = 4;
/// Low half of a method exit.
pub const TAG_EXIT: u32 = 0;
/// Low half of the second slot of a wide entry.
pub const TAG_WIDE_ENTRY: u32 = 1;
/// Low half of the slot of an entry that was taken back: the call was short, and recording goes on in this slot. Such
/// slots stand only between the cursor and the oldest slot of the ring, so readers of rings skip them there.
pub const TAG_TAKEN_BACK: u32 = 0xff8;
/// A slot of a part of a ring that was cleared because recording goes on there: skipped like those that were taken back.
pub const CLEARED: Slot = Slot::taken_back(0);
/// The first low half that is an extension number.
pub const FIRST_EXTENSION: u32 = 2;
/// The smallest low half that is a method's address. Smaller addresses are in page zero, where no method can be.
pub const FIRST_METHOD: u32 = 4096;
/// `number & PAYLOAD_MASK` is the number of payload slots before an extension's slot.
pub const PAYLOAD_MASK: u32 = 7;

pub use crate::catalogue::Extension;

/// Number of payload slots before a slot with this low half (0 for exits and narrow entries).
pub const fn payload_slots(low: u32) -> usize {
    match low {
        TAG_EXIT => 0,
        TAG_WIDE_ENTRY => 1,
        FIRST_EXTENSION..FIRST_METHOD => (low & PAYLOAD_MASK) as usize,
        _ => 0,
    }
}

/// The event that a closing slot stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Entry of the method at this address (low 4 GiB).
    Entry {
        /// Low 32 bits of the `ArtMethod*`; the upper ones are zero.
        method: u32,
    },
    /// Entry of a method whose 64-bit address is in the slot before.
    WideEntry,
    /// Exit of the innermost method.
    Exit,
    /// An extension event, known or not; see [`Extension::from_number`].
    Extension {
        /// The extension's number.
        number: u32,
    },
}

/// One slot. `repr(transparent)`, so a ring can be viewed as `&[Slot]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Slot(pub u64);

impl Slot {
    /// A slot from its halves; of `counter` (ticks) the low 32 bits are kept.
    pub const fn new(low: u32, counter: u64) -> Self {
        Slot((counter << 32) | low as u64)
    }

    /// Narrow entry of `method`, which must be at least [`FIRST_METHOD`].
    pub const fn entry(method: u32, counter: u64) -> Self {
        debug_assert!(method >= FIRST_METHOD);
        Self::new(method, counter)
    }

    /// Method exit.
    pub const fn exit(counter: u64) -> Self {
        Self::new(TAG_EXIT, counter)
    }

    /// An entry that was taken back at this counter.
    pub const fn taken_back(counter: u64) -> Self {
        Self::new(TAG_TAKEN_BACK, counter)
    }

    /// Closing slot of a wide entry; the slot before it holds the whole `ArtMethod*`.
    pub const fn wide_entry(counter: u64) -> Self {
        Self::new(TAG_WIDE_ENTRY, counter)
    }

    /// Closing slot of an extension event; its payload stands before it.
    pub const fn extension(extension: Extension, counter: u64) -> Self {
        Self::new(extension.number(), counter)
    }

    /// The half with the kind of event.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The low 32 bits of the counter, in ticks.
    pub const fn counter(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The event, if this is a closing slot.
    pub const fn event(self) -> Event {
        match self.low() {
            TAG_EXIT => Event::Exit,
            TAG_WIDE_ENTRY => Event::WideEntry,
            number @ FIRST_EXTENSION..FIRST_METHOD => Event::Extension { number },
            method => Event::Entry { method },
        }
    }
}

impl core::fmt::Debug for Slot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:08x}:{:08x}", self.counter(), self.low())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_bytes_are_low_half_then_counter_little_endian() {
        let bytes = Slot::entry(0x7012_3456, 0xaaaa_bbbb_89ab_cdef)
            .0
            .to_le_bytes();
        assert_eq!(
            bytes[LOW_OFFSET..LOW_OFFSET + 4],
            0x7012_3456_u32.to_le_bytes()
        );
        assert_eq!(
            bytes[COUNTER_OFFSET..COUNTER_OFFSET + 4],
            0x89ab_cdef_u32.to_le_bytes()
        );
    }

    #[test]
    fn every_low_half_is_exactly_one_kind_of_event() {
        assert_eq!(Slot::new(0, 7).event(), Event::Exit);
        assert_eq!(Slot::new(1, 7).event(), Event::WideEntry);
        assert_eq!(Slot::new(2, 7).event(), Event::Extension { number: 2 });
        assert_eq!(
            Slot::new(4095, 7).event(),
            Event::Extension { number: 4095 }
        );
        assert_eq!(Slot::new(4096, 7).event(), Event::Entry { method: 4096 });
        assert_eq!(
            Slot::new(u32::MAX, 7).event(),
            Event::Entry { method: u32::MAX }
        );
        assert_eq!(Extension::from_number(4095), None);
    }
}
