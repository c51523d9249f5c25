// SPDX-License-Identifier: Apache-2.0
//! What a process writes into the header of its memory, for the service and other readers.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

use hindsight_trace_format::container::ClockSample;
use hindsight_trace_format::shared::{
    BootImage, Counter, CrashNote, Header, Loss, Region, Serving, StackArena, HEADER_BYTES,
    SERVING, SHARED_MAGIC, SHARED_VERSION,
};

use super::mapping::SharedMemory;

/// The facts at the start of the memory.
pub(crate) struct Facts<'a> {
    pub(crate) isa: &'a str,
    pub(crate) source: &'a str,
    pub(crate) read_traps: bool,
    pub(crate) ticks_per_second: u64,
    pub(crate) started: ClockSample,
    pub(crate) boot_image: BootImage,
}

impl SharedMemory {
    /// Adds to a counter that the service reads.
    pub(crate) fn count(&self, counter: Counter, more: u64) {
        self.header().counters[counter as usize].fetch_add(more, Ordering::Relaxed);
    }

    /// Sets a counter that the service reads.
    pub(crate) fn set_counter(&self, counter: Counter, value: u64) {
        self.header().counters[counter as usize].store(value, Ordering::Relaxed);
    }

    /// The state of one of the two arenas of stacks.
    pub(crate) fn arena(&self, number: usize) -> &StackArena {
        &self.header().arenas[number]
    }

    /// The place of an arena's nodes, and its length in bytes.
    pub(crate) fn nodes_of(&self, arena: usize) -> (NonNull<u8>, usize) {
        let half = self.regions.stacks_bytes / 2;
        let start = self.address(self.regions.stacks() + half * arena as u64);
        // SAFETY: an address in a mapping.
        let start = unsafe { NonNull::new_unchecked(start) };
        (start, half as usize)
    }

    /// Writes the header. From here on readers accept the memory.
    pub(crate) fn publish(&self, facts: &Facts<'_>) {
        let header = self.header();
        let set = |to: &AtomicU64, value: u64| to.store(value, Ordering::Relaxed);
        header.version.store(SHARED_VERSION, Ordering::Relaxed);
        header.pid.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: no precondition.
        header
            .uid
            .store(unsafe { libc::getuid() }, Ordering::Relaxed);
        let traps = facts.read_traps.into();
        header.read_traps.store(traps, Ordering::Relaxed);
        store_text(&header.isa, facts.isa);
        store_text(&header.source, facts.source);
        set(&header.ticks_per_second, facts.ticks_per_second);
        let started = facts.started;
        let samples = [
            started.counter,
            started.monotonic_ns,
            started.boottime_ns,
            started.realtime_ns,
        ];
        for (to, value) in header.started.iter().zip(samples) {
            set(to, value);
        }
        let image = facts.boot_image;
        let image = [image.checksum, image.begin, image.bytes];
        for (to, value) in header.boot_image.iter().zip(image) {
            set(to, value);
        }
        let regions = [
            (
                &header.journal,
                self.regions.journal(),
                self.regions.journal_bytes,
            ),
            (
                &header.controls,
                self.regions.controls(),
                self.regions.controls_bytes(),
            ),
            (
                &header.stacks,
                self.regions.stacks(),
                self.regions.stacks_bytes,
            ),
        ];
        for (Region { offset, bytes }, at, length) in regions {
            set(offset, at);
            set(bytes, length);
        }
        for (to, value) in header.magic.iter().zip(SHARED_MAGIC) {
            to.store(value, Ordering::Release);
        }
    }

    /// The counter's rate is known now, ticks per second.
    pub(crate) fn set_rate(&self, ticks_per_second: u64) {
        let rate = &self.header().ticks_per_second;
        rate.store(ticks_per_second, Ordering::Relaxed);
    }

    /// The journal has the names of all classes that were linked before recording started.
    pub(crate) fn set_named(&self) {
        self.header().are_named.store(1, Ordering::Release);
    }

    /// So much is missing in the rings.
    pub(crate) fn set_losses(&self, losses: impl IntoIterator<Item = (Loss, u64)>) {
        for (loss, count) in losses {
            self.header().losses[loss as usize].store(count, Ordering::Relaxed);
        }
    }

    /// The process ends by itself.
    pub(crate) fn set_left(&self) {
        self.header().has_left.store(1, Ordering::Release);
    }

    /// Where a crash is noted.
    pub(crate) fn crash(&self) -> &CrashNote {
        &self.header().crash
    }

    /// The transactions of other processes that this one serves; the service reads them.
    pub(crate) fn serving(&self) -> &[Serving; SERVING] {
        &self.header().serving
    }

    /// The place where a crash is noted, in a mapping of its own that is never removed: a signal may come at any time. A forked child
    /// does not have it.
    ///
    /// # Errors
    /// If it cannot be mapped.
    pub(crate) fn map_crash_for_ever(&self) -> io::Result<NonNull<CrashNote>> {
        let bytes = HEADER_BYTES.max(self.regions.page as usize);
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                self.file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping that was just made; the header is at its start, and the note in it.
        let note = unsafe {
            libc::madvise(start, bytes, libc::MADV_DONTFORK);
            start.byte_add(std::mem::offset_of!(Header, crash)).cast()
        };
        NonNull::new(note).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// A thread records into memory of the process's own instead.
    pub(crate) fn count_outside(&self) {
        self.header().outside.fetch_add(1, Ordering::Relaxed);
    }
}

/// Stores a text, padded with zeros.
pub(super) fn store_text(to: &[AtomicU8], text: &str) {
    let bytes = text.bytes().chain(std::iter::repeat(0));
    for (to, byte) in to.iter().zip(bytes) {
        to.store(byte, Ordering::Relaxed);
    }
}
