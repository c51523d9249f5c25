// SPDX-License-Identifier: Apache-2.0
//! Where everything stands in the shared memory.
//!
//! The structs are written in place by the process, through its mapping. Each field is atomic, because the process's threads
//! write while another one, or the service, reads; but not those of [`OpenCallsPage`], which only the ring's thread uses while it
//! records. A store with `Release` comes after all that it announces.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicU8};

use crate::container::RingMode;
use crate::ring::Geometry;
use crate::slot::PAYLOAD_MASK;

use super::counters::COUNTERS;
use super::crash::CrashNote;
use super::losses::Loss;
use super::serving::{Serving, SERVING};

/// The first bytes of a process's shared memory.
pub const SHARED_MAGIC: [u8; 8] = *b"\x89HSSM\r\n\x1a";
/// Readers refuse another version: both sides belong to one build of the system, or fall back to no sharing.
pub const SHARED_VERSION: u32 = 1;
/// Size of [`Header`], bytes, with room for additions.
pub const HEADER_BYTES: usize = 4096;
/// Longest shared memory that is read: address space, not memory.
pub const MAX_SHARED_BYTES: u64 = 1 << 36;
/// The most rings of one process.
pub const MAX_RINGS: u32 = 1 << 14;
/// Longest name of a thread that is kept, bytes.
pub const NAME_BYTES: usize = 144;
/// How many open calls are known by name, the outermost ones.
pub const OPEN_CALLS_NAMED: usize = 250;
/// Room for [`OpenCallsPage`] before the slots of a ring of calls, bytes.
pub const OPEN_CALLS_BYTES: usize = 4096;

/// Room for [`UnderWayPage`] before a ring, bytes.
pub const UNDER_WAY_BYTES: usize = 4096;
/// Words for events and calls in [`UnderWayPage`].
pub(super) const UNDER_WAY_WORDS: usize = UNDER_WAY_BYTES / size_of::<u64>() - 4;

/// A ring's times are exact: the thread marks each change of the counter's upper half.
pub const FLAG_EPOCHS_MARKED: u32 = 1;
/// Calls were under way when recording into the ring began.
pub const FLAG_CONTINUES: u32 = 2;

/// A part of the shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Region {
    /// Bytes from the start of the memory.
    pub offset: AtomicU64,
    /// Length, bytes.
    pub bytes: AtomicU64,
}

/// The start of the shared memory.
#[derive(Debug)]
#[repr(C)]
pub struct Header {
    /// [`SHARED_MAGIC`]; written last, so that memory without it is not ready.
    pub magic: [AtomicU8; 8],
    /// [`SHARED_VERSION`].
    pub version: AtomicU32,
    /// Kernel id of the process.
    pub pid: AtomicU32,
    /// User id.
    pub uid: AtomicU32,
    /// 1 if reading the counter may trap.
    pub read_traps: AtomicU32,
    /// The instruction set, as in `ProcessFacts::isa`, padded with zeros.
    pub isa: [AtomicU8; 16],
    /// The counter's name, as in `Clocks::source`, padded with zeros.
    pub source: [AtomicU8; 16],
    /// The counter's rate, ticks per second; 0 while it is not known.
    pub ticks_per_second: AtomicU64,
    /// Counter (ticks), monotonic, boot and real time (ns), read together when recording started.
    pub started: [AtomicU64; 4],
    /// The journal.
    pub journal: Region,
    /// Bytes of the journal that have whole records.
    pub committed: AtomicU64,
    /// Records that found no room in the journal.
    pub dropped: AtomicU64,
    /// The controls of all rings.
    pub controls: Region,
    /// Both arenas of stacks, each in half of it.
    pub stacks: Region,
    /// The state of each arena.
    pub arenas: [StackArena; 2],
    /// Rings that found no room here: the threads recorded into memory of the process's own.
    pub outside: AtomicU64,
    /// 1 once the journal has the names of all classes that were linked before recording started.
    pub are_named: AtomicU64,
    /// What the process knew to be missing when its rings were taken last, by number of the [`Loss`]. Older builds have zeros here.
    pub losses: [AtomicU64; Loss::ALL.len()],
    /// How the process began to end. Older builds have zeros here, or the first crash, also if the process has survived it.
    pub crash: CrashNote,
    /// By number of the [`Counter`](super::Counter). Older builds have zeros here.
    pub counters: [AtomicU64; COUNTERS],
    /// The boot image: its checksum, address and length (bytes), as in [`BootImage`](super::BootImage). Older builds have zeros here.
    pub boot_image: [AtomicU64; 3],
    /// 1 once the process ends by itself. It may have no connection then on which it could say so. Older builds have zero here.
    pub has_left: AtomicU64,
    /// Transactions of other processes that the process serves, or has served for long. Older builds have zeros here.
    pub serving: [Serving; SERVING],
}

/// The state of one generation of stacks.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StackArena {
    /// The generation's number in the upper half (0: never used), the number of users in the lower one.
    pub state: AtomicU64,
    /// Number of nodes.
    pub used: AtomicU32,
    /// Always 0.
    pub padding: AtomicU32,
}

/// What a ring is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RingState {
    /// Nothing.
    Free = 0,
    /// A thread records into it.
    Recording = 1,
    /// It was taken from its thread; its position and end are final.
    Taken = 2,
}

/// A ring's description.
#[derive(Debug)]
#[repr(C)]
pub struct RingControl {
    /// [`RingState`]; written last when a ring is taken into use, first when it is given back.
    pub state: AtomicU32,
    /// `RingMode` as a number.
    pub mode: AtomicU32,
    /// log2 of the ring's bytes of slots.
    pub log2_bytes: AtomicU32,
    /// Number of segments, a power of two.
    pub segments: AtomicU32,
    /// Bytes from the start of the memory to the first slot. Before a ring of calls stand an
    /// [`UnderWayPage`] and then an [`OpenCallsPage`]; before a ring of events, only the former. Older builds
    /// have something else in the place of the former, which does not name the ring's `started_counter`.
    pub slots: AtomicU64,
    /// The thread's kernel id.
    pub tid: AtomicU32,
    /// Rings that the thread had before this one.
    pub part: AtomicU32,
    /// The thread's number in its process.
    pub thread: AtomicU64,
    /// The counter when recording into the ring began, ticks.
    pub started_counter: AtomicU64,
    /// Segments that were filled since then. The current one has this number modulo `segments`.
    pub segments_done: AtomicU64,
    /// The counter when the current segment began; of a ring of events that is taken: when it was taken. Ticks.
    pub segment_counter: AtomicU64,
    /// While an event of several slots is being written: 1 + the number of slots, since recording into the ring began, before
    /// it. 0: none is.
    pub pending: AtomicU64,
    /// Ring of events, or taken ring: slots recorded so far.
    pub slots_written: AtomicU64,
    /// Ring of events: the counter at the newest event; ring of calls that is taken: when it was taken. Ticks.
    pub newest_counter: AtomicU64,
    /// How many calls were taken back, when the current segment began or the ring was taken.
    pub taken_back: AtomicU64,
    /// The largest limit of the calls taken back, ticks.
    pub rewind_below: AtomicU32,
    /// [`FLAG_EPOCHS_MARKED`], [`FLAG_CONTINUES`].
    pub flags: AtomicU32,
    /// The upper half of the counter when the current segment began, or when the ring was taken.
    pub epoch: AtomicU32,
    /// Always 0.
    pub padding: AtomicU32,
    /// The thread's name, UTF-8, padded with zeros.
    pub name: [AtomicU8; NAME_BYTES],
}

/// The calls that were open at the start of a ring's newest segment. All zeros at first.
#[derive(Debug)]
#[repr(C)]
pub struct OpenCallsPage {
    /// Segments (of a ring without them: laps) that were complete then; 0: none was noted.
    pub laps: u64,
    /// How many calls were open, of those that began since recording into the ring began.
    pub count: u64,
    /// Addresses of the first [`OPEN_CALLS_NAMED`] of them, outermost first.
    pub methods: [u64; OPEN_CALLS_NAMED],
    /// How many slots of an event were at the end of the last segment, and which: the event ends in the next one.
    pub unfinished: u64,
    /// These slots.
    pub payload: [u64; PAYLOAD_MASK as usize],
    /// The calls of the segment that are still open, while it is read; the outermost ones, in reverse.
    pub found: [u64; OPEN_CALLS_NAMED],
}

/// What was under way when recording into a ring began. Only the control thread writes it, never the ring's own thread.
#[derive(Debug)]
#[repr(C)]
pub struct UnderWayPage {
    /// The counter when recording into the ring began, ticks: written last. Another value than the ring's own: nothing is noted.
    pub started: AtomicU64,
    /// The counter at the oldest event, ticks.
    pub oldest: AtomicU64,
    /// From this counter on all is known that was recorded, ticks.
    pub complete_from: AtomicU64,
    /// Number of words of older events, of calls, and of younger events: 16 bits each, the lowest first.
    pub lengths: AtomicU64,
    /// The slots of older events; the methods of the calls, outermost first; the slots of younger events.
    pub words: [AtomicU64; UNDER_WAY_WORDS],
}

const _: () = assert!(size_of::<UnderWayPage>() == UNDER_WAY_BYTES);
const _: () = assert!(size_of::<OpenCallsPage>() <= OPEN_CALLS_BYTES);
const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
/// Bytes from the start of the memory to the counters.
pub const COUNTERS_OFFSET: usize = std::mem::offset_of!(Header, counters);
const _: () = assert!(size_of::<RingControl>() == 256);

/// How far before the slots of a ring its [`UnderWayPage`] begins, bytes.
pub const fn under_way_before(mode: RingMode) -> u64 {
    match mode {
        RingMode::Calls => (UNDER_WAY_BYTES + OPEN_CALLS_BYTES) as u64,
        RingMode::Events => UNDER_WAY_BYTES as u64,
    }
}

/// Number of segments of a ring of calls on a system with pages of so many bytes. Each has whole pages. A ring has eight, more if
/// that keeps them at 256 KiB, so that clearing one takes some µs, but at most 64: each takes two mappings.
pub const fn segments_of(geometry: Geometry, page: u64) -> u32 {
    const LARGEST_LOG2: u32 = 18;
    let log2 = geometry.log2_bytes();
    let mut segment = log2.saturating_sub(3);
    if segment > LARGEST_LOG2 {
        segment = LARGEST_LOG2;
    }
    if segment + 6 < log2 {
        segment = log2 - 6;
    }
    let page = page.trailing_zeros();
    if segment < page {
        segment = if page < log2 { page } else { log2 };
    }
    1 << (log2 - segment)
}

/// Where the parts of a process's shared memory stand; computed by the process that makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Bytes to which regions and rings are aligned: a page of the system.
    pub page: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes of the nodes of stacks, both generations.
    pub stacks_bytes: u64,
    /// Number and geometry of the rings of calls, and of the rings of events.
    pub calls: (u32, Geometry),
    /// Number and geometry of the rings of events.
    pub events: (u32, Geometry),
}

impl Regions {
    fn aligned(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.page) * self.page
    }

    /// Number of rings.
    pub const fn rings(&self) -> u32 {
        self.calls.0 + self.events.0
    }

    /// Offset of the journal, bytes.
    pub fn journal(&self) -> u64 {
        self.aligned(HEADER_BYTES as u64)
    }

    /// Offset of the rings' controls, bytes.
    pub fn controls(&self) -> u64 {
        self.journal() + self.aligned(self.journal_bytes)
    }

    /// Bytes of the rings' controls.
    pub const fn controls_bytes(&self) -> u64 {
        self.rings() as u64 * size_of::<RingControl>() as u64
    }

    /// Offset of the nodes of stacks, bytes.
    pub fn stacks(&self) -> u64 {
        self.controls() + self.aligned(self.controls_bytes())
    }

    /// Bytes of the notes before the slots of a ring.
    pub fn before_slots(&self, mode: RingMode) -> u64 {
        self.aligned(under_way_before(mode))
    }

    /// Bytes of one ring, with the notes before its slots.
    pub fn ring_bytes(&self, mode: RingMode) -> u64 {
        let (_, geometry) = match mode {
            RingMode::Calls => self.calls,
            RingMode::Events => self.events,
        };
        self.before_slots(mode) + self.aligned(geometry.bytes() as u64)
    }

    /// Offset of a ring, bytes: of the notes before its slots. Rings of calls come first.
    pub fn ring(&self, ring: u32) -> u64 {
        let of_calls = u64::from(ring.min(self.calls.0));
        let of_events = u64::from(ring.saturating_sub(self.calls.0));
        self.stacks()
            + self.aligned(self.stacks_bytes)
            + of_calls * self.ring_bytes(RingMode::Calls)
            + of_events * self.ring_bytes(RingMode::Events)
    }

    /// Offset of the first slot of a ring, bytes.
    pub fn slots(&self, ring: u32) -> u64 {
        let mode = match ring < self.calls.0 {
            true => RingMode::Calls,
            false => RingMode::Events,
        };
        self.ring(ring) + self.before_slots(mode)
    }

    /// Length of the memory, bytes.
    pub fn bytes(&self) -> u64 {
        self.ring(self.rings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_neither_too_short_nor_too_long() {
        let of = |log2, page| segments_of(Geometry::new(log2).unwrap(), page);
        assert_eq!(
            [of(12, 4096), of(13, 4096), of(15, 4096), of(18, 4096)],
            [1, 2, 8, 8]
        );
        assert_eq!(
            [of(21, 4096), of(23, 4096), of(26, 4096), of(30, 4096)],
            [8, 32, 64, 64]
        );
        assert_eq!(
            [of(12, 16384), of(15, 16384), of(16, 16384), of(23, 65536)],
            [1, 2, 4, 32]
        );
    }

    #[test]
    fn parts_follow_each_other_without_overlap() {
        let geometry = |log2| Geometry::new(log2).unwrap();
        let regions = Regions {
            page: 4096,
            journal_bytes: 10_000,
            stacks_bytes: 1 << 20,
            calls: (2, geometry(23)),
            events: (3, geometry(14)),
        };
        assert_eq!(regions.journal(), 4096);
        assert_eq!(regions.controls(), 4096 + 12288);
        assert_eq!(regions.stacks(), 4096 + 12288 + 4096);
        let first = regions.stacks() + (1 << 20);
        let call = (1 << 23) + 8192;
        let event = (1 << 14) + 4096;
        assert_eq!(regions.slots(0), first + 8192);
        assert_eq!(regions.ring(2), first + 2 * call);
        assert_eq!(regions.slots(2), first + 2 * call + 4096);
        assert_eq!(regions.slots(4), first + 2 * call + 2 * event + 4096);
        assert_eq!(regions.bytes(), first + 2 * call + 3 * event);
    }
}
