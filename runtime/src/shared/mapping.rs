// SPDX-License-Identifier: Apache-2.0
//! Makes the memory file, and maps its parts.
//!
//! One range of addresses is reserved for all parts, so that a forked child, which must not write into its parent's rings, can
//! replace them all by one system call:
//!
//! ```text
//! header, journal, controls, stacks | rings of events | window of ring of calls 0 | … 1 | …
//! ```
//!
//! A window has the page of the open calls, and each segment between two pages that can be read and are always zero: a store to
//! the page after a segment faults, so that the thread goes on in the next one, and an exit that looks at the slot before a
//! segment finds no entry there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use hindsight_trace_format::container::{ClockSample, RingMode};
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{
    segments_of, BootImage, Counter, CrashNote, Header, JournalWriter, Loss, Region, Regions,
    RingControl, RingState, Serving, StackArena, HEADER_BYTES, MAX_RINGS, MAX_SHARED_BYTES,
    OPEN_CALLS_BYTES, SERVING, SHARED_MAGIC, SHARED_VERSION,
};

use super::memfd;
use super::room::Room;
use crate::config::Config;
use crate::fork::{self, Descriptor};
use crate::sync::lock;

/// What the memory is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes for names.
    pub(crate) journal_bytes: u64,
    /// Bytes for the nodes of stacks.
    pub(crate) stacks_bytes: u64,
    /// The most rings of calls, and their size.
    pub(crate) calls: (u32, Geometry),
    /// The most rings of events, and their size.
    pub(crate) events: (u32, Geometry),
}

/// Bytes for the names of a process's classes: some ten thousand classes. Only what is written takes memory.
const JOURNAL_BYTES: u64 = 1 << 26;
/// Rings of calls, where their number has no limit.
const MANY_RINGS: usize = 64;

impl Sizes {
    /// What this configuration asks for. A snapshot holds a second ring of each thread for a while; a service holds one more.
    pub(crate) fn of(config: &Config) -> Self {
        let times = if config.service.is_some() { 3 } else { 2 };
        let rings = |threads: usize, more: usize| times * threads as u32 + more as u32;
        let calls = config.max_rings().unwrap_or(MANY_RINGS);
        let spooled = config.events.spooled_rings();
        Sizes {
            journal_bytes: JOURNAL_BYTES,
            stacks_bytes: 1 << config.stacks.table,
            calls: (rings(calls, 2), config.geometry),
            events: (
                rings(config.events.max_rings, times as usize * spooled),
                config.events.geometry,
            ),
        }
    }
}

/// The facts at the start of the memory.
pub(crate) struct Facts<'a> {
    pub(crate) isa: &'a str,
    pub(crate) source: &'a str,
    pub(crate) read_traps: bool,
    pub(crate) ticks_per_second: u64,
    pub(crate) started: ClockSample,
    pub(crate) boot_image: BootImage,
}

/// Rings that are not in use.
struct Unused {
    calls: Vec<u32>,
    events: Vec<u32>,
    /// Whether the window of a ring of calls is mapped.
    mapped: Vec<bool>,
}

/// The memory file of this process, mapped.
pub(crate) struct SharedMemory {
    file: File,
    /// The file is in memory and has no name: there is no file system whose room could end.
    is_memfd: bool,
    /// The reserved range.
    start: NonNull<u8>,
    reserved: usize,
    regions: Regions,
    unused: Mutex<Unused>,
    pub(super) journal: Mutex<JournalWriter>,
    room: Room,
}

// SAFETY: the mapping is not tied to a thread; its shared parts are accessed by atomics, or by their one owner.
unsafe impl Send for SharedMemory {}
// SAFETY: shared references give access to atomics only; the parts with one owner are reached through its `SharedRing`, or with
// the lock of the journal held.
unsafe impl Sync for SharedMemory {}

fn page_bytes() -> u64 {
    // SAFETY: no precondition.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// A new file that only this user can read.
fn new_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600);
    file.open(path)
}

/// Where the parts stand, and their length together, bytes.
///
/// # Errors
/// If that is too much.
fn regions(sizes: Sizes) -> io::Result<(Regions, u64)> {
    let regions = Regions {
        page: page_bytes(),
        journal_bytes: sizes.journal_bytes,
        stacks_bytes: sizes.stacks_bytes,
        calls: sizes.calls,
        events: sizes.events,
    };
    let bytes = regions.bytes();
    if bytes > MAX_SHARED_BYTES || regions.rings() > MAX_RINGS {
        return Err(io::Error::other("the rings are too many, or too large"));
    }
    Ok((regions, bytes))
}

/// Address of a part of the reserved range, and what is mapped there.
struct Part {
    at: usize,
    bytes: usize,
    /// Offset in the file; `None`: zeros that can only be read.
    file: Option<u64>,
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
    fn map(&self, part: &Part) -> io::Result<()> {
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
    fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < self.regions.slots(0));
        // SAFETY: within the reserved range.
        unsafe { self.start.as_ptr().add(offset as usize) }
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: mapped for as long as `self` lives, aligned to a page, all fields are atomic.
        unsafe { &*self.address(0).cast() }
    }

    fn control(&self, ring: u32) -> &RingControl {
        let at = self.regions.controls() + u64::from(ring) * size_of::<RingControl>() as u64;
        // SAFETY: mapped for as long as `self` lives; aligned to 256 bytes; all fields are atomic.
        unsafe { &*self.address(at).cast() }
    }

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

    /// Makes sure that the file system has room for these bytes: a store to a page that gets none ends the process by SIGBUS.
    ///
    /// # Errors
    /// If it has none, or cannot promise it.
    fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
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

impl Drop for SharedMemory {
    fn drop(&mut self) {
        fork::replace_in_child(0, 0);
        fork::leave_in_child(Descriptor::Memory, self.file.as_raw_fd());
        // SAFETY: the range is this object's own; rings keep the object alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.reserved) };
    }
}

/// Bytes of a ring in the file, with its page before the slots.
fn ring_bytes(regions: &Regions, mode: RingMode) -> u64 {
    let geometry = match mode {
        RingMode::Calls => regions.calls.1,
        RingMode::Events => regions.events.1,
    };
    geometry.bytes() as u64 + regions.page
}

/// Bytes of the file before the rings: they are mapped as they are.
fn before_rings(regions: &Regions) -> u64 {
    regions.slots(0) - regions.page
}

/// Where the rings of events begin in the file.
fn events_start(regions: &Regions) -> u64 {
    regions.slots(regions.calls.0) - regions.page
}

/// Where the windows begin in the reserved range.
fn before_windows(regions: &Regions) -> u64 {
    before_rings(regions) + regions.bytes() - events_start(regions)
}

/// Addresses of a ring of calls: its open calls, a page of zeros, and each segment with a page of zeros after it.
fn window_bytes(regions: &Regions) -> u64 {
    let geometry = regions.calls.1;
    let segments = u64::from(segments_of(geometry, regions.page));
    2 * regions.page + geometry.bytes() as u64 + segments * regions.page
}

/// Stores a text, padded with zeros.
pub(super) fn store_text(to: &[AtomicU8], text: &str) {
    let bytes = text.bytes().chain(std::iter::repeat(0));
    for (to, byte) in to.iter().zip(bytes) {
        to.store(byte, Ordering::Relaxed);
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
        let segment = self.stride() - page;
        let window = self.window();
        let zeros = |at| Part {
            at,
            bytes: page,
            file: None,
        };
        self.memory.map(&Part {
            at: window,
            bytes: page,
            file: Some(slots - page as u64),
        })?;
        self.memory.map(&zeros(window + page))?;
        for number in 0..self.segments() as usize {
            let at = window + 2 * page + number * self.stride();
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
            RingMode::Calls => start + self.window() + 2 * regions.page as usize,
            RingMode::Events => {
                let in_events = regions.slots(self.index) - events_start(regions);
                start + (before_rings(regions) + in_events) as usize
            }
        }
    }

    /// Address of the page with the open calls.
    pub(crate) fn open_calls(&self) -> usize {
        let zeros = match self.mode {
            RingMode::Calls => self.memory.regions.page as usize,
            RingMode::Events => 0,
        };
        self.first_slot() - zeros - OPEN_CALLS_BYTES
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
        let page = self.memory.regions.page;
        let bytes = page + self.geometry().bytes() as u64;
        self.memory.reserve(self.offset() - page, bytes)
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
        let page = self.memory.regions.page;
        let offset = self.memory.regions.slots(self.index) - page;
        let bytes = self.geometry().bytes() as u64 + page;
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
        // SAFETY: the page of the open calls, of a ring that nobody uses.
        unsafe { std::ptr::write_bytes(self.open_calls() as *mut u8, 0, OPEN_CALLS_BYTES) };
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
