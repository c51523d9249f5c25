// SPDX-License-Identifier: Apache-2.0
//! The memory that a process would have shared with these events, if it had been killed after them.

use std::mem::offset_of;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{
    segments_of, under_way_before, Entry, Header, JournalWriter, LinkedClass, NamedMethod, Region,
    Regions, RingControl, RingState, StackArena, FLAG_EPOCHS_MARKED, SHARED_MAGIC, SHARED_VERSION,
};
use hindsight_trace_format::slot::{CLEARED, SLOT_BYTES};

use super::{Script, ThreadScript, EPOCH, REALTIME_OFFSET};

const PAGE: u64 = 4096;

/// Bytes that are written at offsets.
struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at as u64, &value.to_le_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at as u64, &value.to_le_bytes());
    }

    fn region(&mut self, at: usize, offset: u64, bytes: u64) {
        self.u64(at + offset_of!(Region, offset), offset);
        self.u64(at + offset_of!(Region, bytes), bytes);
    }
}

impl Script {
    /// The shared memory of the process, killed at the time of its newest event. All rings have the geometry of
    /// [`Script::ring_log2_bytes`].
    pub fn shared_memory(&self) -> Vec<u8> {
        let journal = self.journal();
        let nodes: Vec<u8> = (self.stacks.generations.iter().flat_map(|g| &g.nodes))
            .flat_map(|node| {
                let rest = u64::from(node.parent) << 32 | u64::from(node.dex_pc);
                [node.method.to_le_bytes(), rest.to_le_bytes()].concat()
            })
            .collect();
        let regions = Regions {
            page: PAGE,
            journal_bytes: journal.len() as u64,
            stacks_bytes: 2 * nodes.len() as u64,
            calls: (self.threads.len() as u32, self.geometry),
            events: (0, Geometry::default()),
        };
        let mut image = Image(vec![0; regions.bytes() as usize]);
        self.put_header(&mut image, &regions);
        image.put(regions.journal(), &journal);
        image.put(regions.stacks(), &nodes);
        image.u64(offset_of!(Header, committed), journal.len() as u64);
        image.u64(offset_of!(Header, are_named), 1);
        if let Some(generation) = self.stacks.generations.first() {
            let arena = offset_of!(Header, arenas);
            let state = u64::from(generation.number) << 32;
            image.u64(arena + offset_of!(StackArena, state), state);
            let used = generation.nodes.len() as u32;
            image.u32(arena + offset_of!(StackArena, used), used);
        }
        for (index, thread) in (0..).zip(&self.threads) {
            thread.put_ring(&mut image, &regions, index);
        }
        image.0
    }

    fn put_header(&self, image: &mut Image, regions: &Regions) {
        image.put(0, &SHARED_MAGIC);
        image.u32(offset_of!(Header, version), SHARED_VERSION);
        let first = self.threads.first().map_or(1, |t| t.header.tid);
        let pid = if self.process.pid == 0 {
            first
        } else {
            self.process.pid
        };
        image.u32(offset_of!(Header, pid), pid);
        image.u32(offset_of!(Header, uid), self.process.uid);
        let texts = [
            (offset_of!(Header, isa), &self.process.isa),
            (offset_of!(Header, source), &self.clocks.source),
        ];
        for (at, text) in texts {
            image.put(at as u64, text.as_bytes());
        }
        let rate = self.clocks.ticks_per_second;
        image.u64(offset_of!(Header, ticks_per_second), rate);
        let sample = [EPOCH, EPOCH, EPOCH, REALTIME_OFFSET + EPOCH];
        for (i, value) in sample.into_iter().enumerate() {
            image.u64(offset_of!(Header, started) + 8 * i, value);
        }
        for (at, offset, bytes) in [
            (
                offset_of!(Header, journal),
                regions.journal(),
                regions.journal_bytes,
            ),
            (
                offset_of!(Header, controls),
                regions.controls(),
                regions.controls_bytes(),
            ),
            (
                offset_of!(Header, stacks),
                regions.stacks(),
                regions.stacks_bytes,
            ),
        ] {
            image.region(at, offset, bytes);
        }
    }

    fn journal(&self) -> Vec<u8> {
        let mut writer = JournalWriter::new(1 << 24);
        let process = Entry::Process {
            name: self.process.name.clone(),
            extra: self.process.extra.clone(),
        };
        let names = self.strings.strings.iter().cloned().map(Entry::EventName);
        let classes = self.symbols.iter().map(|symbol| {
            Entry::Class(LinkedClass {
                counter: symbol.valid_from,
                class: symbol.class.clone(),
                source_file: symbol.source_file.clone(),
                dex_checksum: symbol.dex_checksum,
                methods: vec![NamedMethod {
                    address: symbol.address,
                    name: symbol.name.clone(),
                    signature: symbol.signature.clone(),
                    dex_method_index: symbol.dex_method_index,
                }],
            })
        });
        let entries = std::iter::once(process).chain(names).chain(classes);
        let records = entries.filter_map(|entry| writer.records(&entry));
        records.flatten().collect()
    }
}

impl ThreadScript {
    fn put_ring(&self, image: &mut Image, regions: &Regions, index: u32) {
        let newest = self.slots.last().map_or(0, |slot| slot.counter());
        let epoch = self.header.started_counter >> 32;
        let newest = (epoch << 32 | u64::from(newest)).max(self.header.started_counter);
        let (header, mut raw) = self.ring(newest);
        let mode = header.mode;
        let segments = match mode {
            RingMode::Calls => segments_of(header.geometry, PAGE),
            RingMode::Events => 1,
        };
        let segment_slots = (header.geometry.slots() as u64) / u64::from(segments);
        let written = self.slots.len() as u64;
        let done = written / segment_slots;
        // A segment that was entered again is cleared.
        let (from, end) = (written, (done + 1) * segment_slots);
        if mode == RingMode::Calls {
            let slots = header.geometry.slots() as u64;
            for slot in from..end {
                let at = (slot % slots) as usize * SLOT_BYTES;
                if let Some(bytes) = raw.get_mut(at..at + SLOT_BYTES) {
                    bytes.copy_from_slice(&CLEARED.0.to_le_bytes());
                }
            }
        }
        image.put(regions.slots(index), &raw);
        if let Some(under_way) = &self.under_way {
            let at = regions.slots(index) - under_way_before(mode);
            image.put(at, &under_way.encode());
        }
        let at = regions.controls() as usize + index as usize * size_of::<RingControl>();
        let flags = if header.epochs.is_some() {
            FLAG_EPOCHS_MARKED
        } else {
            0
        };
        for (field, value) in [
            (offset_of!(RingControl, state), RingState::Recording as u32),
            (offset_of!(RingControl, mode), mode as u32),
            (
                offset_of!(RingControl, log2_bytes),
                header.geometry.log2_bytes(),
            ),
            (offset_of!(RingControl, segments), segments),
            (offset_of!(RingControl, tid), header.tid),
            (offset_of!(RingControl, part), header.part),
            (offset_of!(RingControl, flags), flags),
            (offset_of!(RingControl, epoch), epoch as u32),
            (
                offset_of!(RingControl, rewind_below),
                header.epochs.map_or(0, |epochs| epochs.rewind_below),
            ),
        ] {
            image.u32(at + field, value);
        }
        for (field, value) in [
            (offset_of!(RingControl, slots), regions.slots(index)),
            (offset_of!(RingControl, thread), header.thread),
            (
                offset_of!(RingControl, started_counter),
                header.started_counter,
            ),
            (offset_of!(RingControl, segments_done), done),
            (
                offset_of!(RingControl, segment_counter),
                header.started_counter,
            ),
            (offset_of!(RingControl, slots_written), written),
            (offset_of!(RingControl, newest_counter), newest),
        ] {
            image.u64(at + field, value);
        }
        let name = at + offset_of!(RingControl, name);
        image.put(name as u64, header.name.as_bytes());
    }
}
