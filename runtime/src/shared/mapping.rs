// SPDX-License-Identifier: Apache-2.0
//! Makes the memory file, and maps its parts.
//!
//! One range of addresses is reserved for all parts, so that a forked child, which must not write into its parent's rings, can
//! replace them all by one system call:
//!
//! ```text
//! header, journal, controls, stacks | rings of events | window of ring of calls 0 | … 1 | …
//! ```

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::shared::{Header, JournalWriter, Regions, RingControl, HEADER_BYTES};

use super::layout::{
    before_rings, before_windows, events_start, regions, ring_bytes, window_bytes, Sizes,
};
use super::memfd;
use super::room::Room;
use crate::fork::{self, Descriptor};

/// Rings that are not in use.
pub(super) struct Unused {
    pub(super) calls: Vec<u32>,
    pub(super) events: Vec<u32>,
    /// Whether the window of a ring of calls is mapped.
    pub(super) mapped: Vec<bool>,
}

/// The memory file of this process, mapped.
pub(crate) struct SharedMemory {
    pub(super) file: File,
    /// The file is in memory and has no name: there is no file system whose room could end.
    is_memfd: bool,
    /// The reserved range.
    pub(super) start: NonNull<u8>,
    reserved: usize,
    pub(super) regions: Regions,
    pub(super) unused: Mutex<Unused>,
    pub(super) journal: Mutex<JournalWriter>,
    pub(super) room: Room,
}

// SAFETY: the mapping is not tied to a thread; its shared parts are accessed by atomics, or by their one owner.
unsafe impl Send for SharedMemory {}
// SAFETY: shared references give access to atomics only; the parts with one owner are reached through its `SharedRing`, or with
// the lock of the journal held.
unsafe impl Sync for SharedMemory {}

/// A new file that only this user can read.
fn new_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    file.open(path)
}

/// Address of a part of the reserved range, and what is mapped there.
pub(super) struct Part {
    pub(super) at: usize,
    pub(super) bytes: usize,
    /// Offset in the file; `None`: zeros that can only be read.
    pub(super) file: Option<u64>,
}

impl SharedMemory {
    /// Makes the file at this path, and maps it. If that fails, there is no file, or the one of somebody else.
    ///
    /// # Errors
    /// If a system call fails, the file system has no room, or the memory would be too long.
    pub(crate) fn create(sizes: Sizes, path: &Path) -> io::Result<Arc<Self>> {
        let (regions, bytes) = regions(sizes)?;
        let file = new_file(path)?;
        let made = (file.set_len(bytes)).and_then(|()| Self::with_file(file, regions, false));
        if made.is_err() {
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Makes a memory file without a name, whose length cannot be changed where the kernel knows seals, and maps it.
    ///
    /// # Errors
    /// If a system call fails, or the memory would be too long.
    pub(crate) fn unnamed(sizes: Sizes) -> io::Result<Arc<Self>> {
        let (regions, bytes) = regions(sizes)?;
        Self::with_file(memfd::new(bytes)?, regions, true)
    }

    fn with_file(file: File, regions: Regions, is_memfd: bool) -> io::Result<Arc<Self>> {
        let windows = u64::from(regions.calls.0) * window_bytes(&regions);
        let reserved = before_windows(&regions) + windows;
        let reserved = usize::try_from(reserved).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let (calls, events) = (regions.calls.0, regions.events.0);
        let memory = SharedMemory {
            file,
            is_memfd,
            start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            reserved,
            unused: Mutex::new(Unused {
                calls: (0..calls).rev().collect(),
                events: (calls..calls + events).rev().collect(),
                mapped: vec![false; calls as usize],
            }),
            journal: Mutex::new(JournalWriter::new(0)),
            room: Room::new(
                HEADER_BYTES as u64 + regions.controls_bytes(),
                regions.bytes() - u64::from(calls) * ring_bytes(&regions, RingMode::Calls),
            ),
            regions,
        };
        memory.reserve(0, regions.journal())?;
        let after_journal = regions.controls();
        memory.reserve(after_journal, before_rings(&regions) - after_journal)?;
        memory.map_common()?;
        fork::replace_in_child(memory.start.as_ptr() as usize, memory.reserved);
        fork::close_in_child(Descriptor::Memory, memory.file.as_raw_fd());
        Ok(Arc::new(memory))
    }

    /// The file, for another process.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Maps all but the rings of calls.
    fn map_common(&self) -> io::Result<()> {
        let before_rings = before_rings(&self.regions);
        let events = events_start(&self.regions);
        self.map(&Part {
            at: 0,
            bytes: before_rings as usize,
            file: Some(0),
        })?;
        let events_bytes = (self.regions.bytes() - events) as usize;
        if events_bytes == 0 {
            return Ok(());
        }
        self.map(&Part {
            at: before_rings as usize,
            bytes: events_bytes,
            file: Some(events),
        })
    }

    /// Maps a part of the file, or zeros, in the reserved range.
    pub(super) fn map(&self, part: &Part) -> io::Result<()> {
        assert!(part.at + part.bytes <= self.reserved);
        let (flags, protection, file, offset) = match part.file {
            Some(offset) => (
                libc::MAP_SHARED,
                libc::PROT_READ | libc::PROT_WRITE,
                self.file.as_raw_fd(),
                offset,
            ),
            None => (
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                libc::PROT_READ,
                -1,
                0,
            ),
        };
        // SAFETY: replaces a part of this object's own reserved range, which nobody uses yet.
        unsafe {
            let at = self.start.as_ptr().add(part.at).cast();
            let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
            let flags = flags | libc::MAP_FIXED;
            if libc::mmap(at, part.bytes, protection, flags, file, offset) == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            // A forked child has nothing there until its handler has put zeros there.
            libc::madvise(at, part.bytes, libc::MADV_DONTFORK);
            libc::madvise(at, part.bytes, libc::MADV_DONTDUMP);
        }
        Ok(())
    }

    /// How much the process may use for all but rings of calls.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// The address of a place in the file, before the rings of calls.
    pub(super) fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.regions.slots(0));
        // SAFETY: within the reserved range.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: mapped for as long as `self` lives, aligned to a page, all fields are atomic.
        unsafe { &*self.address(0).cast() }
    }

    pub(super) fn control(&self, ring: u32) -> &RingControl {
        let at = self.regions.controls() + u64::from(ring) * size_of::<RingControl>() as u64;
        // SAFETY: mapped for as long as `self` lives; aligned to 256 bytes; all fields are atomic.
        unsafe { &*self.address(at).cast() }
    }

    /// Makes sure that the file system has room for these bytes: a store to a page that gets none ends the process by SIGBUS.
    ///
    /// # Errors
    /// If it has none, or cannot promise it.
    pub(super) fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if self.is_memfd {
            // There is as much room as the system has memory, and an idle process is to take none.
            return Ok(());
        }
        // SAFETY: a system call on this object's own file.
        let error = unsafe {
            libc::posix_fallocate(
                self.file.as_raw_fd(),
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
        match error {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Gives the journal more room. False if there is none.
    pub(super) fn extend_journal(&self, journal: &mut JournalWriter) -> bool {
        const STEP: u64 = 1 << 18;
        let before = journal.capacity();
        let after = (before + STEP).min(self.regions.journal_bytes);
        let more = after.saturating_sub(before);
        if more == 0 || !self.room.take(more) {
            return false;
        }
        let reserved = self.reserve(self.regions.journal() + before, more);
        if reserved.is_err() {
            self.room.give_back(more);
            return false;
        }
        journal.set_capacity(after);
        true
    }

    /// Writes bytes of the journal. The caller holds the lock of the journal, and there is room for them.
    pub(super) fn write_journal(&self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.regions.journal_bytes);
        let to = self.address(self.regions.journal() + at);
        // SAFETY: within the journal's region; only the holder of the journal's lock writes there, and nobody in this process
        // reads it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        let committed = at + bytes.len() as u64;
        self.header().committed.store(committed, Ordering::Release);
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        fork::replace_in_child(0, 0);
        fork::leave_in_child(Descriptor::Memory, self.file.as_raw_fd());
        // SAFETY: the range is this object's own; rings keep the object alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}
