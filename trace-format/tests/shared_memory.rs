// SPDX-License-Identifier: Apache-2.0
//! The memory of a process that has ended: what its layout allows, and an event that was not complete.

use std::io;
use std::mem::offset_of;

use hindsight_trace_format::catalogue::Extension;
use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{
    read, Header, ReadAt, Region, RingControl, RingState, StackArena, HEADER_BYTES, SHARED_MAGIC,
    SHARED_VERSION,
};
use hindsight_trace_format::slot::{payload_slots, Slot, SLOT_BYTES};

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
fn an_event_that_was_not_complete_does_not_change_the_oldest_one() {
    const OLD: u64 = 1;
    const NEW: u64 = 2;
    const KIND: Extension = Extension::Started;
    assert_eq!(payload_slots(KIND.number()), 1);
    let geometry = Geometry::new(12).unwrap();
    let controls = HEADER_BYTES;
    let slots = controls + 2 * 4096;
    let mut memory = Sparse::new((slots + geometry.bytes()) as u64);
    let bytes = size_of::<RingControl>() as u64;
    memory.region(offset_of!(Header, controls), controls as u64, bytes);
    for (field, value) in [
        (offset_of!(RingControl, state), RingState::Recording as u32),
        (offset_of!(RingControl, mode), RingMode::Events as u32),
        (offset_of!(RingControl, log2_bytes), geometry.log2_bytes()),
        (offset_of!(RingControl, segments), 1),
    ] {
        memory.u32(controls + field, value);
    }
    let written = geometry.slots() as u64;
    memory.u64(controls + offset_of!(RingControl, slots), slots as u64);
    memory.u64(controls + offset_of!(RingControl, slots_written), written);
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
