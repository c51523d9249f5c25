// SPDX-License-Identifier: Apache-2.0
//! Reading a ring: its slots in the order of time, and its events from the newest backwards.
//!
//! Backwards is the only unambiguous direction: the low half of an event's last slot gives the number of
//! payload slots before it. This module never allocates, needs no alignment and cannot fail.

use crate::ring::Position;
use crate::slot::{payload_slots, Event, Slot, CLEARED, PAYLOAD_MASK, SLOT_BYTES, TAG_TAKEN_BACK};

/// The slots of a ring, oldest first, across the wrap. A view: cheap to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slots<'a> {
    older: &'a [u8],
    newer: &'a [u8],
}

impl<'a> Slots<'a> {
    /// The slots of a ring that stands at `position`.
    ///
    /// `raw` is the ring's memory from its start; of a ring in its first lap it may be just the part
    /// written so far. An offset beyond `raw` counts as its end; part of a slot is left out. Slots of calls that were taken
    /// back stand after the newest slot, and are left out, too.
    pub fn new(raw: &'a [u8], position: Position) -> Self {
        let whole = raw.len() - raw.len() % SLOT_BYTES;
        let raw = &raw[..whole];
        let offset = usize::try_from(position.offset).map_or(whole, |o| o.min(whole));
        let (newer, older) = raw.split_at(offset - offset % SLOT_BYTES);
        match position.laps {
            0 => Self::of_halves(&[], newer),
            _ => Self::of_halves(older, newer),
        }
    }

    fn of_halves(older: &'a [u8], newer: &'a [u8]) -> Self {
        let kept = without_taken_back(older);
        // If nothing of the older half is left, slots without entries may go on at the start of the memory: a thread that
        // was killed had begun to clear the part that stands there. In the first lap it did so if there are more such slots
        // than an event has.
        let goes_on = match older.is_empty() {
            true => begins_cleared(newer),
            false => kept.is_empty(),
        };
        Slots {
            older: kept,
            newer: if goes_on {
                without_taken_back(newer)
            } else {
                newer
            },
        }
    }

    /// Slots that stand in two places of a ring's memory, at multiples of a slot from its start; without those of calls that
    /// were taken back, as in [`Slots::new`].
    pub fn of_parts(older: &'a [u8], newer: &'a [u8]) -> Self {
        let whole = |bytes: &'a [u8]| &bytes[..bytes.len() - bytes.len() % SLOT_BYTES];
        Self::of_halves(whole(older), whole(newer))
    }

    /// The oldest `count` of these slots, or all if there are fewer.
    #[must_use]
    pub fn oldest(self, count: usize) -> Self {
        let of_older = count.min(self.split());
        let of_newer = (count.min(self.len()) - of_older) * SLOT_BYTES;
        Slots {
            older: &self.older[..of_older * SLOT_BYTES],
            newer: &self.newer[..of_newer],
        }
    }

    /// The newest `count` of these slots, or all if there are fewer.
    #[must_use]
    pub fn newest(self, count: usize) -> Self {
        let drop = self.len().saturating_sub(count);
        let of_older = drop.min(self.split());
        Slots {
            older: &self.older[of_older * SLOT_BYTES..],
            newer: &self.newer[(drop - of_older) * SLOT_BYTES..],
        }
    }

    /// Number of slots.
    pub const fn len(&self) -> usize {
        (self.older.len() + self.newer.len()) / SLOT_BYTES
    }

    /// Whether there is no slot.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the slots `start..end`, but only up to [`Slots::split`], where the ring's memory wraps.
    #[inline]
    pub fn bytes(&self, start: usize, end: usize) -> &'a [u8] {
        let split = self.split();
        let (half, from, to) = if start < split {
            (self.older, start, end.min(split))
        } else {
            (self.newer, start - split, end.saturating_sub(split))
        };
        let to = to.min(half.len() / SLOT_BYTES);
        // `to` is at most the half's length; a range that ends before its start gives nothing.
        half.get(from.saturating_mul(SLOT_BYTES)..to * SLOT_BYTES)
            .unwrap_or_default()
    }

    /// Index of the slot at the start of the ring's memory.
    pub const fn split(&self) -> usize {
        self.older.len() / SLOT_BYTES
    }

    /// The slot at `index`; 0 is the oldest.
    #[inline]
    pub fn get(&self, index: usize) -> Option<Slot> {
        let split = self.split();
        let (half, index) = if index < split {
            (self.older, index)
        } else {
            (self.newer, index - split)
        };
        let start = index.checked_mul(SLOT_BYTES)?;
        let bytes = half.get(start..)?.first_chunk::<SLOT_BYTES>()?;
        Some(Slot(u64::from_le_bytes(*bytes)))
    }

    /// All slots, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Slot> + ExactSizeIterator + 'a {
        let slots = *self;
        (0..slots.len()).map(move |i| slots.get(i).unwrap_or_default())
    }

    /// The events, newest first.
    pub const fn events(self) -> ReverseEvents<'a> {
        ReverseEvents::new(self)
    }
}

/// Whether these slots begin with more cleared ones than an event has words.
fn begins_cleared(slots: &[u8]) -> bool {
    const MORE: usize = PAYLOAD_MASK as usize + 1;
    let is_cleared = |slot: &[u8]| slot == CLEARED.0.to_le_bytes();
    slots.len() >= MORE * SLOT_BYTES && (slots.chunks_exact(SLOT_BYTES).take(MORE)).all(is_cleared)
}

/// These slots, without those at their start whose entries were taken back.
fn without_taken_back(slots: &[u8]) -> &[u8] {
    let is_taken_back = |slot: &[u8]| {
        slot.first_chunk::<4>().map(|low| u32::from_le_bytes(*low)) == Some(TAG_TAKEN_BACK)
    };
    let kept = slots
        .chunks_exact(SLOT_BYTES)
        .position(|slot| !is_taken_back(slot));
    kept.and_then(|at| slots.get(at * SLOT_BYTES..))
        .unwrap_or_default()
}

/// An event: its closing slot, and the payload slots before it.
#[derive(Clone, Copy, Debug)]
pub struct EventRef<'a> {
    slots: Slots<'a>,
    /// The slot that closes the event.
    pub slot: Slot,
    /// Index of that slot among [`Slots`]; 0 is the oldest.
    pub index: usize,
}

impl<'a> EventRef<'a> {
    /// The event.
    #[inline]
    pub const fn event(&self) -> Event {
        self.slot.event()
    }

    /// The low 32 bits of the counter, ticks.
    #[inline]
    pub const fn counter(&self) -> u32 {
        self.slot.counter()
    }

    /// Number of the event's payload slots.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        payload_slots(self.slot.low())
    }

    /// Payload slot `i`, in the order they were written.
    #[inline]
    pub fn payload(&self, i: usize) -> Option<u64> {
        let n = self.payload_len();
        if i >= n {
            return None;
        }
        self.slots.get(self.index - n + i).map(|slot| slot.0)
    }

    /// All payload slots, in the order they were written.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        let event = *self;
        (0..event.payload_len()).map(move |i| event.payload(i).unwrap_or_default())
    }

    /// The address of the method that was entered, narrow or wide.
    #[inline]
    pub fn entered_method(&self) -> Option<u64> {
        match self.event() {
            Event::Entry { method } => Some(method as u64),
            Event::WideEntry => self.payload(0),
            _ => None,
        }
    }
}

/// Iterator over the events of a ring, newest first.
///
/// ```
/// use hindsight_trace_format::{reverse::Slots, ring::Position, slot::{Event, Slot}};
///
/// let written = [Slot::entry(0x7000_1000, 10), Slot(0x12_3456_7890), Slot::wide_entry(11)];
/// let raw: Vec<u8> = written.iter().flat_map(|s| s.0.to_le_bytes()).collect();
/// let mut events = Slots::new(&raw, Position { laps: 0, offset: 24 }).events();
/// assert_eq!(events.next().unwrap().entered_method(), Some(0x12_3456_7890));
/// assert_eq!(events.next().unwrap().event(), Event::Entry { method: 0x7000_1000 });
/// assert!(events.next().is_none());
/// assert_eq!(events.cut_slots(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct ReverseEvents<'a> {
    slots: Slots<'a>,
    remaining: usize,
    cut_slots: usize,
}

impl<'a> ReverseEvents<'a> {
    /// Starts at the newest event.
    pub const fn new(slots: Slots<'a>) -> Self {
        ReverseEvents {
            slots,
            remaining: slots.len(),
            cut_slots: 0,
        }
    }

    /// After the last event: the number of oldest slots that belong to an event cut by the wrap. 0 before.
    pub const fn cut_slots(&self) -> usize {
        self.cut_slots
    }
}

impl<'a> Iterator for ReverseEvents<'a> {
    type Item = EventRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EventRef<'a>> {
        let index = self.remaining.checked_sub(1)?;
        let slot = self.slots.get(index)?;
        let payload = payload_slots(slot.low());
        if payload > index {
            self.cut_slots = self.remaining;
            self.remaining = 0;
            return None;
        }
        self.remaining = index - payload;
        Some(EventRef {
            slots: self.slots,
            slot,
            index,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining / 8, Some(self.remaining))
    }
}

impl core::iter::FusedIterator for ReverseEvents<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Extension;

    fn bytes(slots: &[Slot]) -> Vec<u8> {
        slots.iter().flat_map(|s| s.0.to_le_bytes()).collect()
    }

    /// A ring of 8 slots after these writes.
    fn ring(writes: &[Slot]) -> (Vec<u8>, Position) {
        let mut memory = [Slot(0xdead_beef_dead_beef); 8];
        for (i, slot) in writes.iter().enumerate() {
            memory[i % 8] = *slot;
        }
        let position = Position {
            laps: (writes.len() / 8) as u64,
            offset: (writes.len() % 8 * SLOT_BYTES) as u64,
        };
        (bytes(&memory), position)
    }

    #[test]
    fn slots_come_oldest_first_across_the_wrap() {
        for count in 0..30_u64 {
            let writes: Vec<Slot> = (0..count).map(|i| Slot::entry(5000, i)).collect();
            let (raw, position) = ring(&writes);
            let slots: Vec<Slot> = Slots::new(&raw, position).iter().collect();
            assert_eq!(slots, writes[writes.len().saturating_sub(8)..]);
        }
    }

    #[test]
    fn the_newest_slots_are_the_last_ones() {
        let writes: Vec<Slot> = (0..11).map(|i| Slot::entry(5000, i)).collect();
        let (raw, position) = ring(&writes);
        for count in 0..10 {
            let newest: Vec<Slot> = Slots::new(&raw, position).newest(count).iter().collect();
            assert_eq!(newest, writes[writes.len() - count.min(8)..]);
        }
    }

    #[test]
    fn bytes_are_those_of_the_slots_up_to_where_the_memory_ends() {
        let writes: Vec<Slot> = (0..11).map(|i| Slot::entry(5000, i)).collect();
        let (raw, position) = ring(&writes);
        let slots = Slots::new(&raw, position);
        assert_eq!(slots.split(), 5);
        let got = |start, end| slots.bytes(start, end).to_vec();
        assert_eq!(got(0, 8), bytes(&writes[3..8]));
        assert_eq!(got(2, 4), bytes(&writes[5..7]));
        assert_eq!(got(5, 8), bytes(&writes[8..11]));
        assert_eq!(got(6, 99), bytes(&writes[9..11]));
        for (start, end) in [(3, 3), (4, 2), (7, 5), (8, 9), (usize::MAX, usize::MAX)] {
            assert!(got(start, end).is_empty(), "{start}..{end}");
        }
    }

    #[test]
    fn slots_that_were_cleared_are_left_out_across_the_wrap() {
        // The first segment was being cleared while an event was to end there: its first slots are the ring's last ones.
        let kind = Extension::LockWait;
        let payload = payload_slots(kind.number());
        let mut writes = vec![Slot::taken_back(0); 2];
        writes.extend([Slot(9), Slot::extension(kind, 5), Slot::exit(6)]);
        writes.extend([Slot::taken_back(0); 3]);
        assert!(payload >= 2, "the event is cut");
        let position = Position {
            laps: 1,
            offset: 5 * SLOT_BYTES as u64,
        };
        let raw = bytes(&writes);
        for slots in [
            Slots::new(&raw, position),
            Slots::of_parts(&raw[5 * SLOT_BYTES..], &raw[..5 * SLOT_BYTES]),
        ] {
            assert_eq!(slots.get(0), Some(Slot(9)));
            let mut events = slots.events();
            assert_eq!(events.next().unwrap().event(), Event::Exit);
            assert!(events.next().is_none());
            assert_eq!(events.cut_slots(), 2);
        }
        // A ring in its first lap begins at its start.
        let first = Position {
            laps: 0,
            ..position
        };
        assert_eq!(Slots::new(&raw, first).len(), 5);
    }

    #[test]
    fn a_cursor_at_the_rings_end_has_the_whole_ring_before_it() {
        let writes: Vec<Slot> = (0..8).map(|i| Slot::entry(5000, i)).collect();
        let at_end = Position {
            laps: 0,
            offset: 64,
        };
        let slots: Vec<Slot> = Slots::new(&bytes(&writes), at_end).iter().collect();
        assert_eq!(slots, writes);
    }

    #[test]
    fn payloads_that_look_like_events_are_not_taken_for_events() {
        let writes = [
            Slot::entry(0x7000, 1),
            Slot(0),
            Slot(1),
            Slot(u64::MAX),
            Slot(4095),
            Slot::extension(Extension::ResourceUse, 2),
            Slot::exit(3),
        ];
        let (raw, position) = ring(&writes);
        let mut events = Slots::new(&raw, position).events();
        assert_eq!(events.next().unwrap().event(), Event::Exit);
        let extension = events.next().unwrap();
        assert_eq!(extension.counter(), 2);
        assert_eq!(
            extension.payloads().collect::<Vec<_>>(),
            [0, 1, u64::MAX, 4095]
        );
        assert_eq!(extension.payload(4), None);
        assert_eq!(events.next().unwrap().entered_method(), Some(0x7000));
        assert!(events.next().is_none());
        assert_eq!(events.cut_slots(), 0);
    }

    #[test]
    fn an_oldest_event_that_the_wrap_cut_is_dropped_and_counted() {
        // Nine writes: the first payload slot of the first event is overwritten.
        let mut writes = vec![Slot(77), Slot(88), Slot::extension(Extension::LockWait, 1)];
        writes.extend((0..6).map(Slot::exit));
        let (raw, position) = ring(&writes);
        let mut events = Slots::new(&raw, position).events();
        assert_eq!(events.by_ref().count(), 6);
        assert_eq!(events.cut_slots(), 2);
    }

    #[test]
    fn any_bytes_and_any_position_are_read_without_a_panic() {
        let raw: Vec<u8> = (0..61_u8).map(|i| i.wrapping_mul(37)).collect();
        for laps in [0, 1, u64::MAX] {
            for offset in (0..80).chain([u64::MAX]) {
                let slots = Slots::new(&raw, Position { laps, offset });
                let events: usize = slots.events().map(|e| 1 + e.payload_len()).sum();
                assert!(events <= slots.len());
            }
        }
    }
}
