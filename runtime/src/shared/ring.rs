// SPDX-License-Identifier: Apache-2.0
//! The rings of the memory, and the windows in which threads record into them.
//!
//! A window has the notes before the slots, and each segment between two pages that can be read and are always zero: a store to
//! the page after a segment faults, so that the thread goes on in the next one, and an exit that looks at the slot before a
//! segment finds no entry there.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{
    segments_of, under_way_before, RingControl, RingState, OPEN_CALLS_BYTES,
};

use super::layout::{before_rings, before_windows, events_start, ring_bytes, window_bytes};
use super::mapping::{Part, SharedMemory};
use crate::fork;
use crate::sync::lock;

impl SharedMemory {
    /// A ring that nobody uses, all zeros.
    ///
    /// # Errors
    /// If none is left, it cannot be mapped, or, with the kind `StorageFull`, the service gives no more room for rings of events.
    pub(crate) fn ring(self: &Arc<Self>, mode: RingMode) -> io::Result<SharedRing> {
        let mut unused = lock(&self.unused);
        let list = match mode {
            RingMode::Calls => &mut unused.calls,
            RingMode::Events => &mut unused.events,
        };
        let index = list.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        if mode == RingMode::Events && !self.room.take_events(ring_bytes(&self.regions, mode)) {
            list.push(index);
            return Err(io::ErrorKind::StorageFull.into());
        }
        let ring = SharedRing {
            memory: Arc::clone(self),
            index,
            mode,
        };
        if mode == RingMode::Calls && !unused.mapped[index as usize] {
            // The lock is free again before the ring may be dropped.
            let mapped = ring.map_window();
            unused.mapped[index as usize] = mapped.is_ok();
            drop(unused);
            mapped?;
        } else {
            drop(unused);
        }
        ring.reserve()?;
        Ok(ring)
    }
}

/// A ring's part of the memory. When it is dropped, the memory is given back.
pub(crate) struct SharedRing {
    memory: Arc<SharedMemory>,
    index: u32,
    mode: RingMode,
}

impl std::fmt::Debug for SharedRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedRing({:?} {})", self.mode, self.index)
    }
}

impl SharedRing {
    fn geometry(&self) -> Geometry {
        match self.mode {
            RingMode::Calls => self.memory.regions.calls.1,
            RingMode::Events => self.memory.regions.events.1,
        }
    }

    /// Bytes from the start of the file to the first slot.
    pub(crate) fn offset(&self) -> u64 {
        self.memory.regions.slots(self.index)
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> u32 {
        match self.mode {
            RingMode::Calls => segments_of(self.geometry(), self.memory.regions.page),
            RingMode::Events => 1,
        }
    }

    /// Distance between the addresses of two segments, bytes.
    pub(crate) fn stride(&self) -> usize {
        let bytes = self.geometry().bytes() / self.segments() as usize;
        bytes + self.memory.regions.page as usize
    }

    /// The ring's description.
    pub(crate) fn control(&self) -> &RingControl {
        self.memory.control(self.index)
    }

    /// Start of the window of a ring of calls, in the reserved range.
    fn window(&self) -> usize {
        let regions = &self.memory.regions;
        let before = before_windows(regions);
        (before + u64::from(self.index) * window_bytes(regions)) as usize
    }

    fn map_window(&self) -> io::Result<()> {
        let page = self.memory.regions.page as usize;
        let slots = self.memory.regions.slots(self.index);
        let notes = self.notes_bytes() as usize;
        let segment = self.stride() - page;
        let window = self.window();
        let zeros = |at| Part {
            at,
            bytes: page,
            file: None,
        };
        self.memory.map(&Part {
            at: window,
            bytes: notes,
            file: Some(slots - notes as u64),
        })?;
        self.memory.map(&zeros(window + notes))?;
        for number in 0..self.segments() as usize {
            let at = window + notes + page + number * self.stride();
            self.memory.map(&Part {
                at,
                bytes: segment,
                file: Some(slots + (number * segment) as u64),
            })?;
            self.memory.map(&zeros(at + segment))?;
        }
        Ok(())
    }

    /// Address of the first slot.
    pub(crate) fn first_slot(&self) -> usize {
        let regions = &self.memory.regions;
        let start = self.memory.start.as_ptr() as usize;
        match self.mode {
            RingMode::Calls => {
                start + self.window() + self.notes_bytes() as usize + regions.page as usize
            }
            RingMode::Events => {
                let in_events = regions.slots(self.index) - events_start(regions);
                start + (before_rings(regions) + in_events) as usize
            }
        }
    }

    /// Bytes of the notes before the slots.
    fn notes_bytes(&self) -> u64 {
        self.memory.regions.before_slots(self.mode)
    }

    /// Address after the notes: of the slots, or of the zeros before them.
    fn end_of_notes(&self) -> usize {
        match self.mode {
            RingMode::Calls => self.first_slot() - self.memory.regions.page as usize,
            RingMode::Events => self.first_slot(),
        }
    }

    /// Address of the page with the open calls, of a ring of calls.
    pub(crate) fn open_calls(&self) -> usize {
        self.end_of_notes() - OPEN_CALLS_BYTES
    }

    /// Address of the [`UnderWayPage`].
    pub(crate) fn under_way(&self) -> usize {
        self.end_of_notes() - under_way_before(self.mode) as usize
    }

    /// A second mapping of the slots, one segment after the other, that can only be read.
    ///
    /// # Errors
    /// If `mmap` fails.
    pub(crate) fn view(&self) -> io::Result<View> {
        let bytes = self.geometry().bytes();
        let offset = self.memory.regions.slots(self.index);
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                self.memory.file.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(View { start, bytes })
    }

    /// Makes sure that the file system has room for the ring.
    fn reserve(&self) -> io::Result<()> {
        let notes = self.notes_bytes();
        let bytes = notes + self.geometry().bytes() as u64;
        self.memory.reserve(self.offset() - notes, bytes)
    }

    /// Returns the memory to the system. All slots become zero.
    pub(crate) fn release_memory(&mut self) {
        if fork::is_child() {
            // Neither the file nor the mapping is there.
            return;
        }
        let control = self.control();
        control
            .state
            .store(RingState::Free as u32, Ordering::Release);
        let notes = self.notes_bytes();
        let offset = self.offset() - notes;
        let bytes = self.geometry().bytes() as u64 + notes;
        // SAFETY: a system call on this process's own file; nobody uses the ring.
        let done = unsafe {
            libc::fallocate(
                self.memory.file.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
        if done != 0 && self.is_mapped() {
            self.clear();
        }
    }

    /// Not if mapping it has failed: then nobody has written into it.
    fn is_mapped(&self) -> bool {
        let of_calls = self.index as usize;
        match self.mode {
            RingMode::Calls => lock(&self.memory.unused).mapped[of_calls],
            RingMode::Events => true,
        }
    }

    /// Stores zeros, where the file system of a plain file cannot make holes.
    fn clear(&mut self) {
        let segment = self.geometry().bytes() / self.segments() as usize;
        for number in 0..self.segments() as usize {
            let at = self.first_slot() + number * self.stride();
            // SAFETY: a segment of this ring, which nobody uses.
            unsafe { std::ptr::write_bytes(at as *mut u8, 0, segment) };
        }
        let notes = under_way_before(self.mode) as usize;
        // SAFETY: the notes of a ring that nobody uses.
        unsafe { std::ptr::write_bytes(self.under_way() as *mut u8, 0, notes) };
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        self.release_memory();
        let mut unused = lock(&self.memory.unused);
        match self.mode {
            RingMode::Calls => unused.calls.push(self.index),
            RingMode::Events => {
                unused.events.push(self.index);
                let bytes = ring_bytes(&self.memory.regions, RingMode::Events);
                self.memory.room.give_back_events(bytes);
            }
        }
    }
}

/// A mapping of a ring's slots without gaps.
#[derive(Debug)]
pub(crate) struct View {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: a mapping is not tied to a thread.
unsafe impl Send for View {}
// SAFETY: it can only be read, by `bytes`, whose caller rules out writers.
unsafe impl Sync for View {}

impl View {
    /// The slots.
    ///
    /// # Safety
    /// No thread may record into the ring while the slice is in use.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, readable, and the caller rules out writers.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.bytes) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: this object's own mapping.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}
