// SPDX-License-Identifier: Apache-2.0
//! One ring of a process that has ended, or one that was taken.

use std::io;
use std::mem::offset_of;

use crate::container::{Anchor, Epochs, OpenCalls, RingHeader, RingMode};
use crate::methods::MethodAddresses;
use crate::reverse::Slots;
use crate::ring::{Geometry, Position};
use crate::slot::{payload_slots, Extension, Slot, CLEARED, PAYLOAD_MASK, SLOT_BYTES};

use super::layout::{
    under_way_before, OpenCallsPage, RingControl, RingState, FLAG_EPOCHS_MARKED, NAME_BYTES,
    OPEN_CALLS_BYTES, OPEN_CALLS_NAMED,
};
use super::newest::newest_in_segment;
use super::source::{read_vec, Copied, ReadAt};
use super::under_way::UnderWay;

/// A ring as it was when the process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRing {
    /// Its thread, and the position of its newest slot.
    pub header: RingHeader,
    /// Binds the newest slot to the counter.
    pub anchor: Anchor,
    /// The calls that were open at the start of its newest segment.
    pub open_calls: Option<OpenCalls>,
    /// What was under way when recording into it began; only the calls, if the ring that the thread had before is read, too.
    pub under_way: Option<UnderWay>,
    /// Its thread was recording into it when the process ended.
    pub was_recording: bool,
    /// The ring's memory from its start: `RingHeader::stored_bytes` of it.
    pub raw: Vec<u8>,
}

impl EndedRing {
    /// The slots recorded, oldest first.
    pub fn slots(&self) -> Slots<'_> {
        Slots::new(&self.raw, self.header.position)
    }

    /// Adds the addresses of all methods in the ring.
    pub fn add_methods(&self, addresses: &mut MethodAddresses) {
        addresses.add_slots(self.slots());
        let open = self.open_calls.iter().flat_map(|open| &open.methods);
        open.for_each(|method| addresses.add(*method));
        if let Some(under_way) = &self.under_way {
            under_way.add_methods(addresses);
        }
    }
}

/// Which rings are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFilter {
    /// All that are in use: the process has ended, and nobody writes any more.
    All,
    /// Only those that were taken: the threads of the process live, and record into the others.
    Taken,
}

impl RingFilter {
    pub(super) fn keeps(self, state: u32) -> bool {
        state == TAKEN || (self == RingFilter::All && state == RECORDING)
    }
}

const RECORDING: u32 = RingState::Recording as u32;
const TAKEN: u32 = RingState::Taken as u32;

/// A ring whose description makes sense.
pub(super) struct Found {
    pub(super) geometry: Geometry,
    segments: u64,
    slots: u64,
    mode: RingMode,
}

impl Found {
    /// Of memory of this length, bytes.
    pub(super) fn new(control: &Copied<'_>, length: u64) -> Option<Self> {
        let geometry = Geometry::new(control.u32(offset_of!(RingControl, log2_bytes)))?;
        let segments = u64::from(control.u32(offset_of!(RingControl, segments)));
        let found = Found {
            geometry,
            segments,
            slots: control.u64(offset_of!(RingControl, slots)),
            mode: RingMode::from_number(control.u32(offset_of!(RingControl, mode))),
        };
        let is_sound = segments.is_power_of_two() && segments <= geometry.slots() as u64;
        let end = found.slots.checked_add(geometry.bytes() as u64)?;
        let is_inside = found.slots >= under_way_before(found.mode) && end <= length;
        (is_sound && is_inside).then_some(found)
    }

    fn segment_slots(&self) -> u64 {
        self.geometry.slots() as u64 / self.segments
    }

    fn position(&self, slots_written: u64) -> Position {
        let slots = self.geometry.slots() as u64;
        Position {
            laps: slots_written / slots,
            offset: slots_written % slots * SLOT_BYTES as u64,
        }
    }

    /// Reads the ring, and finds its newest slot.
    pub(super) fn read(
        &self,
        memory: &(impl ReadAt + ?Sized),
        control: &Copied<'_>,
    ) -> io::Result<EndedRing> {
        let mut raw = read_vec(memory, self.slots, self.geometry.bytes() as u64)?;
        let is_taken = control.u32(offset_of!(RingControl, state)) == TAKEN;
        let newest = match is_taken || self.mode == RingMode::Events {
            true => Newest::stated(control),
            false => self.find_newest(control, &mut raw),
        };
        let position = self.position(newest.slots_written);
        // A thread that goes on at the start of the ring's memory notes that before it writes there.
        let has_wrapped = control.u64(offset_of!(RingControl, segments_done)) != 0;
        if self.mode == RingMode::Events && !is_taken && position.laps != 0 && has_wrapped {
            clear_unfinished(&mut raw, position);
        }
        let started = control.u64(offset_of!(RingControl, started_counter));
        let newest_counter = newest.counter.max(started);
        // Until its ring was taken the thread was in what its newest event began. Older builds have an earlier time here.
        let stopped = match (self.mode, is_taken) {
            (RingMode::Events, true) => control.u64(offset_of!(RingControl, segment_counter)),
            _ => 0,
        };
        let flags = control.u32(offset_of!(RingControl, flags));
        let is_exact = self.mode == RingMode::Calls && flags & FLAG_EPOCHS_MARKED != 0;
        let header = RingHeader {
            tid: control.u32(offset_of!(RingControl, tid)),
            name: self.name(control),
            geometry: self.geometry,
            position,
            started_counter: started,
            stopped_counter: newest_counter.max(stopped),
            thread: control.u64(offset_of!(RingControl, thread)),
            part: control.u32(offset_of!(RingControl, part)),
            mode: self.mode,
            epochs: is_exact.then(|| Epochs {
                rewind_below: control.u32(offset_of!(RingControl, rewind_below)),
                taken_back: control.u64(offset_of!(RingControl, taken_back)),
                epoch: newest.epoch,
            }),
        };
        raw.truncate(header.stored_bytes());
        let done = control.u64(offset_of!(RingControl, segments_done));
        Ok(EndedRing {
            anchor: Anchor {
                counter: newest_counter,
                slots_written: newest.slots_written,
            },
            open_calls: match self.mode {
                RingMode::Calls => self.open_calls(memory, done),
                RingMode::Events => None,
            },
            under_way: self.under_way(memory, started),
            was_recording: !is_taken,
            header,
            raw,
        })
    }

    fn name(&self, control: &Copied<'_>) -> String {
        control.text(offset_of!(RingControl, name), NAME_BYTES)
    }

    /// The newest slot of a ring of calls, which its thread was recording into. Clears the rest of its segment.
    fn find_newest(&self, control: &Copied<'_>, raw: &mut [u8]) -> Newest {
        let done = control.u64(offset_of!(RingControl, segments_done));
        let segment_slots = self.segment_slots();
        let segment_bytes = segment_slots as usize * SLOT_BYTES;
        let start = (done % self.segments) as usize * segment_bytes;
        let segment = &mut raw[start..start + segment_bytes];
        let before = done.saturating_mul(segment_slots);
        let in_segment = newest_in_segment(segment) / SLOT_BYTES;
        let mut slots_written = before.saturating_add(in_segment as u64);
        let pending = control.u64(offset_of!(RingControl, pending));
        if let Some(event) = pending.checked_sub(1) {
            // An event has at most so many slots.
            if (slots_written.saturating_sub(8)..=slots_written).contains(&event) {
                slots_written = event;
            }
        }
        let kept = slots_written.saturating_sub(before) as usize * SLOT_BYTES;
        clear(&mut segment[kept.min(segment_bytes)..]);
        // The event began in the segment before: its slots are no event, and readers find the oldest slot behind those that are
        // cleared.
        for slot in slots_written..before {
            let at = (slot % self.geometry.slots() as u64) as usize * SLOT_BYTES;
            clear(&mut raw[at..at + SLOT_BYTES]);
        }
        let mut newest = Newest {
            slots_written,
            counter: 0,
            epoch: control.u32(offset_of!(RingControl, epoch)),
        };
        let segment_counter = control.u64(offset_of!(RingControl, segment_counter));
        newest.find_time(
            Slots::new(raw, self.position(slots_written)),
            segment_slots,
            segment_counter,
        );
        newest
    }

    /// What was noted to be under way when recording into the ring began, at this counter.
    fn under_way(&self, memory: &(impl ReadAt + ?Sized), started: u64) -> Option<UnderWay> {
        let at = self.slots - under_way_before(self.mode);
        UnderWay::read_at(memory, at, started).ok().flatten()
    }

    /// The open calls that were noted when so many segments were complete.
    fn open_calls(&self, memory: &(impl ReadAt + ?Sized), done: u64) -> Option<OpenCalls> {
        if done == 0 {
            return None;
        }
        let mut bytes = vec![0; size_of::<OpenCallsPage>()];
        let at = self.slots - OPEN_CALLS_BYTES as u64;
        memory.read_at(at, &mut bytes).ok()?;
        let page = Copied(&bytes);
        let count = page.u64(offset_of!(OpenCallsPage, count));
        let named = count.min(OPEN_CALLS_NAMED as u64) as usize;
        let method = |i: usize| page.u64(offset_of!(OpenCallsPage, methods) + 8 * i);
        (page.u64(offset_of!(OpenCallsPage, laps)) == done).then(|| OpenCalls {
            slots_written: done.saturating_mul(self.segment_slots()),
            count,
            methods: (0..named).map(method).collect(),
        })
    }
}

/// Clears the oldest slots of a ring of events that has wrapped: its thread may have overwritten some of them with an event that
/// it did not complete, so that the oldest event would have a wrong payload.
fn clear_unfinished(raw: &mut [u8], position: Position) {
    /// Of an event and the `FullTime` before it.
    const MAX_SLOTS: usize =
        PAYLOAD_MASK as usize + 1 + payload_slots(Extension::FullTime.number()) + 1;
    let start = (position.offset as usize).min(raw.len());
    let end = raw.len().min(start + MAX_SLOTS * SLOT_BYTES);
    clear(&mut raw[start..end]);
}

/// Fills slots with ones that readers skip.
fn clear(slots: &mut [u8]) {
    for slot in slots.chunks_exact_mut(SLOT_BYTES) {
        slot.copy_from_slice(&CLEARED.0.to_le_bytes());
    }
}

/// The newest slot of a ring.
struct Newest {
    slots_written: u64,
    /// No slot is newer, ticks.
    counter: u64,
    /// The upper half of the counter at the newest slot.
    epoch: u32,
}

impl Newest {
    /// As the ring's control says.
    fn stated(control: &Copied<'_>) -> Self {
        Newest {
            slots_written: control.u64(offset_of!(RingControl, slots_written)),
            counter: control.u64(offset_of!(RingControl, newest_counter)),
            epoch: control.u32(offset_of!(RingControl, epoch)),
        }
    }

    /// The time of the newest of these slots: of the last `segment_slots` one may change the upper half of the counter, which is
    /// `epoch` before.
    fn find_time(&mut self, slots: Slots<'_>, segment_slots: u64, segment_counter: u64) {
        let first = slots.len().saturating_sub(segment_slots as usize);
        let mut events = slots.events();
        let newest = events.clone().next().map(|event| event.slot);
        let full_time = events
            .find(|event| event.slot.low() == Extension::FullTime.number() || event.index < first);
        if let Some(event) = full_time.filter(|e| e.slot.low() == Extension::FullTime.number()) {
            let counter = event.payload(FULL_TIME_COUNTER).unwrap_or_default();
            self.epoch = self.epoch.max((counter >> 32) as u32);
        }
        let low = newest.map_or(0, Slot::counter);
        let counter = u64::from(self.epoch) << 32 | u64::from(low);
        self.counter = counter.max(segment_counter);
    }
}

/// Index of the whole counter among the payload of `FullTime`.
const FULL_TIME_COUNTER: usize = 1;
const _: () = assert!(payload_slots(Extension::FullTime.number()) == 2);
