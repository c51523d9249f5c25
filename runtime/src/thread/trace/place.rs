// SPDX-License-Identifier: Apache-2.0
//! Where in its ring a thread records: the current segment, and how many there were before it.
//!
//! A ring in memory of its own has one segment, so that a segment is a lap. A ring in the memory that the process shares has
//! several, and a control that tells readers of a killed process where the newest slot is
//! (`hindsight_trace_format::shared`). There a thread clears a segment of an earlier lap when it enters it.

#[cfg(not(feature = "loom"))]
use std::sync::atomic::compiler_fence;
use std::sync::atomic::AtomicU8;

use hindsight_trace_format::container::{RingHeader, RingMode};
use hindsight_trace_format::ring::Position;
use hindsight_trace_format::shared::{RingControl, RingState, FLAG_CONTINUES, FLAG_EPOCHS_MARKED};
use hindsight_trace_format::slot::{CLEARED, SLOT_BYTES};

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::thread::ring::{Ring, SLOT_STRIDE};

/// The atomics of a control, which no model has.
use std::sync::atomic::{
    AtomicPtr as ControlPtr, AtomicU32 as ControlU32, AtomicU64 as ControlU64,
    Ordering::{Relaxed, Release},
};

/// Keeps the compiler from moving stores across. The thread may be killed at any instruction; the processor completes all
/// stores before it.
fn in_this_order() {
    #[cfg(not(feature = "loom"))]
    compiler_fence(Ordering::SeqCst);
}

/// Fills a segment, of so many bytes, of the calling thread's own ring with slots that readers skip. Async-signal-safe.
fn clear(start: usize, bytes: usize) {
    let slots = bytes / SLOT_STRIDE;
    // SAFETY: the address and length of a segment of the thread's own ring, which only the thread writes.
    let slots = unsafe { std::slice::from_raw_parts_mut(start as *mut u64, slots) };
    slots.fill(CLEARED.0.to_le());
}

#[derive(Default)]
pub(super) struct Place {
    /// Address of the first slot of the current segment; 0 without a ring.
    base: AtomicUsize,
    /// Address after its last slot; 0 without a ring.
    end: AtomicUsize,
    /// Segments that were filled.
    done: AtomicU64,
    /// Number of segments of the ring.
    segments: AtomicU32,
    /// Distance between the addresses of two segments, bytes.
    stride: AtomicUsize,
    /// Address of the notes about open calls.
    notes: AtomicUsize,
    /// Of a ring in shared memory; null of another one.
    control: ControlPtr<RingControl>,
}

impl Place {
    /// Address of the first slot of the current segment; 0 without a ring.
    pub(super) fn base(&self) -> usize {
        self.base.load(Ordering::Relaxed)
    }

    /// Address after the last slot of the current segment; 0 without a ring.
    pub(super) fn end(&self) -> usize {
        self.end.load(Ordering::Relaxed)
    }

    /// Segments that were filled since recording into the ring began.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Address of the notes about open calls.
    #[cfg(not(feature = "loom"))]
    pub(super) fn notes(&self) -> usize {
        self.notes.load(Ordering::Relaxed)
    }

    fn control(&self) -> Option<&RingControl> {
        // SAFETY: null, or the control of the ring that is installed, whose memory is mapped as long as the ring exists.
        unsafe { self.control.load(Relaxed).as_ref() }
    }

    /// Bytes of slots of a segment.
    fn segment_bytes(&self) -> u64 {
        (self.end().wrapping_sub(self.base()) / SLOT_STRIDE * SLOT_BYTES) as u64
    }

    /// Bytes of slots between the start of the current segment and `cursor`.
    fn offset(&self, cursor: usize) -> u64 {
        (cursor.wrapping_sub(self.base()) / SLOT_STRIDE * SLOT_BYTES) as u64
    }

    /// The position of a cursor in the current segment.
    pub(super) fn position(&self, cursor: usize) -> Position {
        let segments = u64::from(self.segments.load(Ordering::Relaxed)).max(1);
        let done = self.done();
        Position {
            laps: done / segments,
            offset: done % segments * self.segment_bytes() + self.offset(cursor),
        }
    }

    /// Slots recorded so far, with the cursor there.
    fn slots_written(&self, cursor: usize) -> u64 {
        (self.done().wrapping_mul(self.segment_bytes()) + self.offset(cursor)) / SLOT_BYTES as u64
    }

    /// The start of this ring, or nowhere.
    pub(super) fn install(&self, ring: Option<&Ring>) {
        let (segments, stride) = ring.map_or((1, 0), Ring::segments);
        self.segments.store(segments, Ordering::Relaxed);
        self.stride.store(stride, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        let notes = ring.map_or(0, Ring::notes);
        self.notes.store(notes, Ordering::Relaxed);
        let control = ring.and_then(Ring::control);
        let control = control.map_or(std::ptr::null(), std::ptr::from_ref);
        self.control.store(control.cast_mut(), Relaxed);
        let (base, end) = ring.map_or((0, 0), |r| (r.base(), r.end()));
        self.base.store(base, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
    }

    /// Goes on in the next segment: the first one after the last. Returns the address of its first slot. `counter`: now;
    /// `epoch` and `taken_back` are those of the thread. Async-signal-safe.
    pub(super) fn next(&self, counter: u64, epoch: u32, taken_back: u64) -> usize {
        let segments = u64::from(self.segments.load(Ordering::Relaxed)).max(1);
        let (base, end) = (self.base(), self.end());
        let stride = self.stride.load(Ordering::Relaxed);
        let done = self.done().wrapping_add(1);
        // Of one segment, the first is the next.
        let next = match done % segments {
            0 => base - stride * (segments as usize - 1),
            _ => base + stride,
        };
        if let Some(control) = self.control() {
            if done >= segments {
                clear(next, end - base);
            }
            in_this_order();
            control.segment_counter.store(counter, Relaxed);
            control.epoch.store(epoch, Relaxed);
            control.taken_back.store(taken_back, Relaxed);
            control.segments_done.store(done, Release);
        }
        self.base.store(next, Ordering::Relaxed);
        self.end.store(next + (end - base), Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
        next
    }

    /// An event of several slots is going to be recorded at this address.
    #[inline]
    pub(super) fn begin_event(&self, cursor: usize) {
        if let Some(control) = self.control() {
            control
                .pending
                .store(1 + self.slots_written(cursor), Release);
            in_this_order();
        }
    }

    /// The event is complete.
    #[inline]
    pub(super) fn end_event(&self) {
        if let Some(control) = self.control() {
            in_this_order();
            control.pending.store(0, Release);
        }
    }

    /// A ring of events has slots up to `cursor`; the newest event was at this counter.
    #[inline]
    pub(super) fn recorded(&self, newest: u64, cursor: usize) {
        if let Some(control) = self.control() {
            in_this_order();
            control.newest_counter.store(newest, Relaxed);
            control
                .slots_written
                .store(self.slots_written(cursor), Release);
        }
    }

    /// A thread begins to record into the ring that is installed.
    pub(super) fn describe(&self, about: &Description<'_>) {
        let Some(control) = self.control() else {
            return;
        };
        control.state.store(RingState::Free as u32, Release);
        in_this_order();
        let set = |to: &ControlU64, value: u64| to.store(value, Relaxed);
        let set32 = |to: &ControlU32, value: u32| to.store(value, Relaxed);
        let continues = if about.continues { FLAG_CONTINUES } else { 0 };
        let marked = if about.epochs_marked {
            FLAG_EPOCHS_MARKED
        } else {
            0
        };
        set32(&control.mode, about.mode as u32);
        set32(&control.log2_bytes, about.log2_bytes);
        set32(&control.segments, self.segments.load(Ordering::Relaxed));
        set(&control.slots, about.slots);
        set32(&control.tid, about.tid);
        set32(&control.part, about.part);
        set(&control.thread, about.thread);
        set(&control.started_counter, about.started);
        set(&control.segments_done, 0);
        set(&control.segment_counter, about.started);
        set(&control.pending, 0);
        set(&control.slots_written, 0);
        set(&control.newest_counter, about.started);
        set(&control.taken_back, 0);
        set32(&control.rewind_below, about.rewind_below);
        set32(&control.flags, continues | marked);
        set32(&control.epoch, (about.started >> 32) as u32);
        self.rename(about.name);
        in_this_order();
        control.state.store(RingState::Recording as u32, Release);
    }

    /// The thread has this name from now on.
    pub(super) fn rename(&self, name: &str) {
        let Some(control) = self.control() else {
            return;
        };
        let mut end = name.len().min(control.name.len());
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = name.as_bytes()[..end].iter().copied();
        let zeros = std::iter::repeat(0);
        let store = |(to, byte): (&AtomicU8, u8)| to.store(byte, Relaxed);
        control.name.iter().zip(bytes.chain(zeros)).for_each(store);
    }

    /// The largest limit of calls that were taken back is this one.
    pub(super) fn rewinds(&self, longest: u32) {
        if let Some(control) = self.control() {
            control.rewind_below.store(longest, Relaxed);
        }
    }

    /// The ring that is installed is taken, with this header.
    pub(super) fn taken(&self, header: &RingHeader) {
        let Some(control) = self.control() else {
            return;
        };
        let written = header.position.slots_written(header.geometry);
        control.slots_written.store(written, Relaxed);
        if let Some(epochs) = header.epochs {
            control.taken_back.store(epochs.taken_back, Relaxed);
            control.epoch.store(epochs.epoch, Relaxed);
        }
        // The newest event of a ring of events binds the times of its events: it is not the end.
        let stopped = match header.mode {
            RingMode::Calls => &control.newest_counter,
            RingMode::Events => &control.segment_counter,
        };
        stopped.store(header.stopped_counter, Relaxed);
        in_this_order();
        control.state.store(RingState::Taken as u32, Release);
    }
}

/// A ring's thread, and how it began.
pub(super) struct Description<'a> {
    pub(super) mode: RingMode,
    pub(super) log2_bytes: u32,
    /// Bytes from the start of the shared memory to the first slot.
    pub(super) slots: u64,
    pub(super) tid: u32,
    pub(super) part: u32,
    pub(super) thread: u64,
    pub(super) name: &'a str,
    /// Ticks.
    pub(super) started: u64,
    pub(super) rewind_below: u32,
    pub(super) continues: bool,
    pub(super) epochs_marked: bool,
}
