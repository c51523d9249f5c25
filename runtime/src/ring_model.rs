// SPDX-License-Identifier: Apache-2.0
//! Stands in for `ring` in models: a ring of a few slots, each of which loom watches for races.

use std::io;

use hindsight_trace_format::ring::Geometry;
use loom::cell::UnsafeCell;

/// Distance of two slots' addresses, bytes.
pub(crate) const SLOT_STRIDE: usize = std::mem::size_of::<UnsafeCell<u64>>();
/// Slots of a ring.
pub(crate) const SLOTS: usize = 3;

/// A ring of [`SLOTS`] slots.
#[derive(Debug)]
pub struct Ring {
    slots: Box<[UnsafeCell<u64>; SLOTS]>,
    geometry: Geometry,
}

// SAFETY: as the real one; loom checks it.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// As the real one; of the geometry nothing is used.
    pub fn new(geometry: Geometry) -> io::Result<Self> {
        Ok(Ring {
            slots: Box::new(std::array::from_fn(|_| UnsafeCell::new(0))),
            geometry,
        })
    }

    /// Address of the first slot.
    pub fn base(&self) -> usize {
        self.slots.as_ptr() as usize
    }

    /// Address after the last slot.
    pub fn end(&self) -> usize {
        self.base() + SLOTS * SLOT_STRIDE
    }

    /// What was given to [`new`](Self::new).
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How many slots it has.
    pub(crate) fn slots(&self) -> u64 {
        SLOTS as u64
    }

    /// A copy of the slots, as the bytes that a real ring would have.
    pub(crate) fn snapshot(&self) -> Vec<u8> {
        self.slots
            .iter()
            // SAFETY: loom checks that nobody writes to it.
            .flat_map(|slot| slot.with(|p| unsafe { *p }).to_le_bytes())
            .collect()
    }

    /// # Safety
    /// As the real one.
    pub unsafe fn bytes(&self) -> &[u8] {
        Box::leak(self.snapshot().into_boxed_slice())
    }
}

/// # Safety
/// As the real one.
pub(crate) unsafe fn write_slot(at: usize, word: u64) {
    // SAFETY: the address of a slot, says the caller.
    let slot = unsafe { &*(at as *const UnsafeCell<u64>) };
    // SAFETY: loom checks that nobody else uses it.
    slot.with_mut(|p| unsafe { *p = word });
}

/// Makes rings.
#[derive(Debug)]
pub struct RingPool {
    geometry: Geometry,
}

impl RingPool {
    /// As the real one.
    pub fn new(geometry: Geometry) -> Self {
        RingPool { geometry }
    }

    /// As the real one.
    pub fn take(&self) -> io::Result<Ring> {
        Ring::new(self.geometry)
    }

    /// As the real one.
    pub fn put(&self, ring: Ring) {
        drop(ring);
    }
}
