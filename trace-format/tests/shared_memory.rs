// SPDX-License-Identifier: Apache-2.0
//! The memory of a process that has ended: what its layout allows, and an event that was not complete.

use std::cell::Cell;
use std::io;
use std::mem::offset_of;

use hindsight_trace_format::catalogue::Extension;
use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{
    read, Header, Loss, ReadAt, Region, RingControl, RingState, StackArena, HEADER_BYTES,
    SHARED_MAGIC, SHARED_VERSION,
};
use hindsight_trace_format::slot::{payload_slots, Event, Slot, CLEARED, SLOT_BYTES};

/// Memory of zeros, with these bytes at these offsets.
struct Sparse {
    length: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

impl Sparse {
    /// With a header that has no parts.
    fn new(length: u64) -> Self {
        let version = offset_of!(Header, version) as u64;
        Sparse {
            length,
            parts: vec![
                (0, SHARED_MAGIC.to_vec()),
                (version, SHARED_VERSION.to_le_bytes().to_vec()),
            ],
        }
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.parts.push((at as u64, value.to_le_bytes().to_vec()));
    }

    fn region(&mut self, at: usize, offset: u64, bytes: u64) {
        self.u64(at + offset_of!(Region, offset), offset);
        self.u64(at + offset_of!(Region, bytes), bytes);
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.parts.push((at as u64, value.to_le_bytes().to_vec()));
    }
}

impl ReadAt for Sparse {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        into.fill(0);
        for (at, part) in &self.parts {
            for (place, byte) in (*at..).zip(part) {
                let index = place.checked_sub(offset).map(|index| index as usize);
                if let Some(to) = index.and_then(|index| into.get_mut(index)) {
                    *to = *byte;
                }
            }
        }
        Ok(())
    }
}

#[test]
fn the_second_generation_of_the_largest_table_is_found() {
    // `stack-table=28`.
    const STACKS_BYTES: u64 = 1 << 28;
    const METHOD: u64 = 0x7000_0000;
    let stacks = HEADER_BYTES as u64;
    let mut memory = Sparse::new(stacks + STACKS_BYTES);
    memory.region(offset_of!(Header, stacks), stacks, STACKS_BYTES);
    let arena = offset_of!(Header, arenas) + size_of::<StackArena>();
    memory.u64(arena + offset_of!(StackArena, state), 2 << 32);
    memory.u32(arena + offset_of!(StackArena, used), 1);
    memory.u64((stacks + STACKS_BYTES / 2) as usize, METHOD);
    let ended = read(&memory, 0).unwrap();
    let [generation] = &ended.stacks.generations[..] else {
        panic!("{:?}", ended.stacks);
    };
    assert_eq!(generation.number, 2);
    assert_eq!(generation.nodes[0].method, METHOD);
}

#[test]
fn losses_that_the_process_counted_are_told() {
    let mut memory = Sparse::new(HEADER_BYTES as u64);
    for (loss, count) in Loss::ALL.into_iter().zip(1..) {
        memory.u64(offset_of!(Header, losses) + 8 * loss as usize, count);
    }
    let losses = read(&memory, 0).unwrap().losses;
    let expected = Loss::ALL.map(|loss| loss.text().to_owned());
    assert!(losses.into_iter().eq(expected.into_iter().zip(1..)));
}

/// Where the control of the only ring stands, and where its slots begin, bytes.
const CONTROL: usize = HEADER_BYTES;
const SLOTS: usize = CONTROL + 2 * 4096;

fn ring_geometry() -> Geometry {
    Geometry::new(12).unwrap()
}

/// Memory with a ring of events, which is full of zeros.
fn full_ring(state: RingState) -> Sparse {
    let geometry = ring_geometry();
    let mut memory = Sparse::new((SLOTS + geometry.bytes()) as u64);
    let bytes = size_of::<RingControl>() as u64;
    memory.region(offset_of!(Header, controls), CONTROL as u64, bytes);
    for (field, value) in [
        (offset_of!(RingControl, state), state as u32),
        (offset_of!(RingControl, mode), RingMode::Events as u32),
        (offset_of!(RingControl, log2_bytes), geometry.log2_bytes()),
        (offset_of!(RingControl, segments), 1),
    ] {
        memory.u32(CONTROL + field, value);
    }
    let written = geometry.slots() as u64;
    memory.u64(CONTROL + offset_of!(RingControl, slots), SLOTS as u64);
    memory.u64(CONTROL + offset_of!(RingControl, slots_written), written);
    memory
}

/// Memory of a process that uses its ring for something else when the ring's slots are read.
struct Changing {
    before: Sparse,
    after: Sparse,
    has_changed: Cell<bool>,
}

impl ReadAt for Changing {
    fn length(&self) -> io::Result<u64> {
        self.before.length()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.has_changed
            .set(self.has_changed.get() || offset == SLOTS as u64);
        match self.has_changed.get() {
            true => self.after.read_at(offset, into),
            false => self.before.read_at(offset, into),
        }
    }
}

#[test]
fn a_ring_that_is_used_again_while_it_is_read_is_left_out() {
    let rings = |change: &dyn Fn(&mut Sparse)| {
        let before = full_ring(RingState::Taken);
        let mut after = full_ring(RingState::Taken);
        change(&mut after);
        let memory = Changing {
            before,
            after,
            has_changed: Cell::new(false),
        };
        let ended = read(&memory, 1 << 20).unwrap();
        assert!(ended.losses.is_empty(), "{:?}", ended.losses);
        ended.rings.len()
    };
    assert_eq!(rings(&|_| ()), 1);
    let state = CONTROL + offset_of!(RingControl, state);
    let free = RingState::Free as u32;
    assert_eq!(rings(&|after| after.u32(state, free)), 0);
    let thread = CONTROL + offset_of!(RingControl, thread);
    assert_eq!(rings(&|after| after.u64(thread, 7)), 0);
    let part = CONTROL + offset_of!(RingControl, part);
    assert_eq!(rings(&|after| after.u32(part, 7)), 0);
    let started = CONTROL + offset_of!(RingControl, started_counter);
    assert_eq!(rings(&|after| after.u64(started, 7)), 0);
}

#[test]
fn an_event_that_was_not_complete_at_the_end_of_a_segment_is_left_out() {
    const SEGMENTS: u32 = 8;
    const KIND: Extension = Extension::Wakes;
    assert_eq!(payload_slots(KIND.number()), 1);
    let slots = ring_geometry().slots();
    let in_segment = slots / SEGMENTS as usize;
    // The thread has entered and cleared the second segment, or the first one, and written nothing there.
    for current in [1, 0] {
        let mut memory = full_ring(RingState::Recording);
        memory.u32(
            CONTROL + offset_of!(RingControl, mode),
            RingMode::Calls as u32,
        );
        memory.u32(CONTROL + offset_of!(RingControl, segments), SEGMENTS);
        let done = u64::from(SEGMENTS) + current as u64;
        memory.u64(CONTROL + offset_of!(RingControl, segments_done), done);
        let before = done * in_segment as u64;
        memory.u64(CONTROL + offset_of!(RingControl, pending), 1 + before - 1);
        let mut put = |slot: usize, word: Slot| memory.u64(SLOTS + slot * SLOT_BYTES, word.0);
        for slot in 0..slots {
            put(slot, Slot::exit(1 + slot as u64));
        }
        let start = current * in_segment;
        for slot in start..start + in_segment {
            put(slot, CLEARED);
        }
        // Its first slot is the last one before; so it was with the event that was there a lap before.
        put((start + slots - 1) % slots, Slot(77));
        put(start + in_segment, Slot::extension(KIND, 2));
        let ended = read(&memory, 1 << 20).unwrap();
        let mut events = ended.rings[0].slots().events();
        assert!(events.by_ref().all(|event| event.event() == Event::Exit));
        assert_eq!(events.cut_slots(), 1, "segment {current}");
        assert_eq!(ended.rings[0].slots().len(), slots - in_segment - 1);
    }
}

#[test]
fn an_event_that_was_not_complete_does_not_change_the_oldest_one() {
    const OLD: u64 = 1;
    const NEW: u64 = 2;
    const KIND: Extension = Extension::Started;
    assert_eq!(payload_slots(KIND.number()), 1);
    let geometry = ring_geometry();
    let slots = SLOTS;
    let mut memory = full_ring(RingState::Recording);
    for event in 0..geometry.slots() / 2 {
        let at = slots + 2 * event * SLOT_BYTES;
        memory.u64(at, OLD);
        memory.u64(at + SLOT_BYTES, Slot::extension(KIND, event as u64).0);
    }
    // Full, and nothing was overwritten.
    let events = |memory: &Sparse| {
        let ended = read(memory, 1 << 20).unwrap();
        let events = ended.rings[0].slots().events();
        events.map(|e| e.payload(0).unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(events(&memory), vec![OLD; geometry.slots() / 2]);
    // The thread wrote its first slot over the oldest one.
    memory.u64(CONTROL + offset_of!(RingControl, segments_done), 1);
    memory.u64(slots, NEW);
    let payloads = events(&memory);
    assert!(payloads.iter().all(|payload| *payload == OLD));
    // An event has 8 slots at most, and `FullTime` before it 3.
    assert!(payloads.len() >= geometry.slots() / 2 - 6);
}
