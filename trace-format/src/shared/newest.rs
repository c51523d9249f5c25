// SPDX-License-Identifier: Apache-2.0
//! The newest slot of a ring whose cursor is lost.

use crate::slot::{Slot, SLOT_BYTES, TAG_TAKEN_BACK};

/// Bytes of slots that were recorded into the current segment of a ring of calls.
///
/// The segment was zero, or cleared, when its thread entered it. Since then only its first slots were written, one after the
/// other; behind the newest one stand at most slots of calls that were taken back, and cleared ones, which look the same. A slot
/// that is all zeros, an exit at a counter whose lower half is 0, is lost if it is the newest.
pub fn newest_in_segment(segment: &[u8]) -> usize {
    let is_recorded = |bytes: &[u8; SLOT_BYTES]| {
        let slot = Slot(u64::from_le_bytes(*bytes));
        slot.0 != 0 && slot.low() != TAG_TAKEN_BACK
    };
    let slots = segment.len() / SLOT_BYTES;
    let newest = (0..slots).rev().find(|index| {
        let bytes = segment[index * SLOT_BYTES..].first_chunk();
        bytes.is_some_and(is_recorded)
    });
    newest.map_or(0, |index| (index + 1) * SLOT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(slots: &[Slot], length: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
        bytes.resize(length * SLOT_BYTES, 0);
        bytes
    }

    #[test]
    fn what_was_taken_back_or_never_written_is_not_recorded() {
        let entry = Slot::entry(0x7000_0000, 5);
        let taken_back = Slot::taken_back(6);
        for (slots, expected) in [
            (&[][..], 0),
            (&[entry], 1),
            (&[entry, Slot::exit(9), taken_back], 2),
            (&[taken_back, taken_back], 0),
            (&[entry, taken_back, entry], 3),
        ] {
            assert_eq!(newest_in_segment(&segment(slots, 8)), expected * SLOT_BYTES);
        }
        assert_eq!(newest_in_segment(&segment(&[entry; 8], 8)), 8 * SLOT_BYTES);
    }
}
