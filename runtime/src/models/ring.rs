// SPDX-License-Identifier: Apache-2.0
//! Replaces `thread::ring` in models: a ring of a few slots, each of which loom watches for races.

use std::io;
use std::sync::Arc;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::RingControl;
use loom::cell::UnsafeCell;

use crate::shared::SharedMemory;

/// Distance between the addresses of two neighbouring slots, bytes.
pub(crate) const SLOT_STRIDE: usize = std::mem::size_of::<UnsafeCell<u64>>();
/// Number of slots of a ring.
pub(crate) const SLOTS: usize = 3;

/// A ring of [`SLOTS`] slots.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[UnsafeCell<u64>; SLOTS]>,
    geometry: Geometry,
    mode: RingMode,
}

// SAFETY: `ThreadTrace` lets only one thread at a time write to a ring; loom reports a race if it fails to.
unsafe impl Send for Ring {}
// SAFETY: a shared reference only gives read access; loom reports a race with a writer.
unsafe impl Sync for Ring {}

impl Ring {
    /// A ring of [`SLOTS`] slots; the geometry is only stored.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        Ok(Ring {
            slots: Box::new(std::array::from_fn(|_| UnsafeCell::new(0))),
            geometry,
            mode: RingMode::Calls,
        })
    }

    /// The ring, for a thread that records this.
    pub(crate) fn with_mode(mut self, mode: RingMode) -> Self {
        self.mode = mode;
        self
    }

    /// What a thread records into the ring.
    pub fn mode(&self) -> RingMode {
        self.mode
    }

    /// No ring of a model is in shared memory.
    pub(crate) fn is_shared(&self) -> bool {
        false
    }

    /// Address of the first slot.
    pub fn base(&self) -> usize {
        self.slots.as_ptr() as usize
    }

    /// Address after the last slot.
    pub fn end(&self) -> usize {
        self.base() + SLOTS * SLOT_STRIDE
    }

    /// One segment.
    pub(crate) fn segments(&self) -> (u32, usize) {
        (1, 0)
    }

    /// No notes.
    pub(crate) fn notes(&self) -> usize {
        0
    }

    /// No ring of a model is in shared memory.
    pub(crate) fn control(&self) -> Option<&RingControl> {
        None
    }

    /// As [`control`](Self::control).
    pub(crate) fn offset(&self) -> u64 {
        0
    }

    /// The geometry given to [`new`](Self::new).
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> u64 {
        SLOTS as u64
    }

    /// A copy of the slots, as bytes of a real ring.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        self.slots
            .iter()
            // SAFETY: loom reports a race with a writer.
            .flat_map(|slot| slot.with(|p| unsafe { *p }).to_le_bytes())
            .collect()
    }

    /// A copy of the ring's bytes.
    ///
    /// # Safety
    /// No thread may record into the ring.
    pub unsafe fn bytes(&self) -> &[u8] {
        Box::leak(self.snapshot().into_boxed_slice())
    }
}

/// Writes a slot.
///
/// # Safety
/// `at` is the address of a slot of a ring that the calling thread records into.
pub(crate) unsafe fn write_slot(at: usize, word: u64) {
    // SAFETY: the caller passes the address of a slot.
    let slot = unsafe { &*(at as *const UnsafeCell<u64>) };
    // SAFETY: loom reports a race with any other use.
    slot.with_mut(|p| unsafe { *p = word });
}

/// Reads a slot.
///
/// # Safety
/// `at` is the address of a slot of a ring that the calling thread records into.
pub(crate) unsafe fn read_slot(at: usize) -> u64 {
    // SAFETY: the caller passes the address of a slot.
    let slot = unsafe { &*(at as *const UnsafeCell<u64>) };
    // SAFETY: loom reports a race with a writer.
    slot.with(|p| unsafe { *p })
}

/// Makes a new ring for each request.
#[derive(Debug)]
pub struct RingPool {
    geometry: Geometry,
    mode: RingMode,
}

impl RingPool {
    /// A pool of rings of this geometry.
    pub fn new(geometry: Geometry) -> Self {
        Self::with_mode(geometry, RingMode::Calls)
    }

    /// A pool of rings of this geometry and mode.
    pub(crate) fn with_mode(geometry: Geometry, mode: RingMode) -> Self {
        RingPool { geometry, mode }
    }

    /// The pool: no ring of a model is in shared memory.
    pub(crate) fn in_memory(self, _shared: Option<&Arc<SharedMemory>>) -> Self {
        self
    }

    /// There is always room.
    pub(crate) fn has_spare_room(&self) -> bool {
        true
    }

    /// A new ring.
    pub fn take(&self) -> io::Result<Ring> {
        Ok(Ring::new(self.geometry)?.with_mode(self.mode))
    }

    /// Drops the ring.
    pub fn put(&self, ring: Ring) {
        drop(ring);
    }
}
