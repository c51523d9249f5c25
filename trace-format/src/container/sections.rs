// SPDX-License-Identifier: Apache-2.0
//! The contents of the sections of a `.hindsight` file, as typed values.

use std::borrow::Cow;

use crate::reverse::Slots;
use crate::ring::{Geometry, Position};

/// Kinds of sections, with their numbers in the file. Readers skip unknown ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum SectionKind {
    /// [`ProcessFacts`]; exactly one.
    Process = 1,
    /// [`Clocks`]; exactly one.
    Clocks = 2,
    /// [`RingHeader`] followed by the ring's raw bytes; one a thread, `index` is 0, 1, ….
    Ring = 3,
    /// `[Anchor]`; `index` is the index of their ring.
    Anchors = 4,
    /// [`Symbols`]; at most one.
    Symbols = 5,
    /// The journal of linked classes; reserved.
    Journal = 6,
    /// [`Losses`]; at most one.
    Losses = 7,
    /// [`Strings`]; at most one.
    Strings = 8,
    /// [`Stacks`]; at most one.
    Stacks = 9,
    /// [`OpenCalls`]; `index` is the index of their ring.
    OpenCalls = 10,
}

impl SectionKind {
    /// Every kind this version knows.
    pub const ALL: [SectionKind; 10] = [
        SectionKind::Process,
        SectionKind::Clocks,
        SectionKind::Ring,
        SectionKind::Anchors,
        SectionKind::Symbols,
        SectionKind::Journal,
        SectionKind::Losses,
        SectionKind::Strings,
        SectionKind::Stacks,
        SectionKind::OpenCalls,
    ];

    /// The kind with this number, or `None` if it is a newer writer's.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

impl From<SectionKind> for u32 {
    fn from(kind: SectionKind) -> u32 {
        kind as u32
    }
}

/// The key of the version of the process's app, a decimal number (`longVersionCode`). It needs as much consent as the app's name.
pub const APP_VERSION_FACT: &str = "app.version";

/// Facts about the traced process: the fields that every reader needs, and further `key = value` strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// Process or package name.
    pub name: String,
    /// Instruction set: `x86_64`, `arm64`, `arm`.
    pub isa: String,
    /// Why the snapshot was taken, in the trigger's words.
    pub reason: String,
    /// Thread id of the thread that triggered the snapshot, 0 if the trigger came from outside.
    pub raised_by: u32,
    /// Anything else (`art.release`, `build.fingerprint`, `device.hash`, …).
    pub extra: Vec<(String, String)>,
}

impl ProcessFacts {
    /// The version of the process's app (`longVersionCode`), from 1 to [`i64::MAX`]; `None`: not known, or not allowed in the file.
    pub fn app_version(&self) -> Option<u64> {
        let (_, value) = self.extra.iter().find(|(key, _)| key == APP_VERSION_FACT)?;
        let version: u64 = value.parse().ok()?;
        (1..=i64::MAX as u64).contains(&version).then_some(version)
    }
}

/// One point in time on all clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ClockSample {
    /// The whole 64-bit counter, in ticks.
    pub counter: u64,
    /// CLOCK_MONOTONIC, ns.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub boottime_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

/// The counter and how to turn it into time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// Ticks per second: CNTFRQ, or the calibrated TSC rate.
    pub ticks_per_second: u64,
    /// Which counter: `tsc`, `cntvct`, `cntvct-emulated` (by a signal handler), `clock_monotonic`.
    pub source: String,
    /// Whether reading the counter traps (slow, but right).
    pub read_traps: bool,
    /// Samples in the order taken; the last one is the reference, taken with the rings.
    pub samples: Vec<ClockSample>,
}

/// What a thread recorded into a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum RingMode {
    /// Every method's entry and exit, and events.
    #[default]
    Calls = 0,
    /// Events only.
    Events = 1,
}

impl RingMode {
    /// The mode with this number; a newer writer's mode is taken for calls, which every reader can show.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => RingMode::Events,
            _ => RingMode::Calls,
        }
    }

    /// Its name, in reports and in formats that are text.
    pub const fn name(self) -> &'static str {
        match self {
            RingMode::Calls => "calls",
            RingMode::Events => "events",
        }
    }

    /// The mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut modes = [RingMode::Calls, RingMode::Events].into_iter();
        modes.find(|mode| mode.name() == name)
    }
}

/// The header before a ring's raw bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingHeader {
    /// Thread id (the kernel's).
    pub tid: u32,
    /// Thread name.
    pub name: String,
    /// Size of the ring.
    pub geometry: Geometry,
    /// The ring's position when it was swapped out.
    pub position: Position,
    /// The whole counter when recording into this ring began, ticks.
    pub started_counter: u64,
    /// The whole counter when the thread passed the checkpoint that took the ring, ticks. No slot is
    /// newer.
    pub stopped_counter: u64,
    /// Number of the thread, unique in the process as long as it lives; 0 if the writer gave none. Rings with the same
    /// number are parts of one thread's recording.
    pub thread: u64,
    /// Number of the ring among the rings that the thread recorded into, oldest first. Parts may be missing.
    pub part: u32,
    /// What the thread recorded.
    pub mode: RingMode,
    /// How the thread itself made the times of its slots exact, and which calls it took back. `None`: by anchors that
    /// another thread took; all calls are in the ring.
    pub epochs: Option<Epochs>,
}

/// A thread that records `FullTime` before the first event after each change of the upper half of the counter, so that
/// between two such events the low half of a slot's counter is enough; and that takes short calls back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Calls in which nothing was recorded are taken back if they took fewer ticks than this; 0: none.
    pub rewind_below: u32,
    /// Calls that were taken back while the thread recorded into this ring.
    pub taken_back: u64,
    /// The upper half of the counter at the newest slot.
    pub epoch: u32,
}

impl Epochs {
    /// The last counter of the newest slot's epoch, ticks: no slot is newer.
    pub const fn end(self) -> u64 {
        (self.epoch as u64) << 32 | u32::MAX as u64
    }
}

/// A ring inside a file: its header and its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring<'a> {
    /// Thread, size, position.
    pub header: RingHeader,
    /// The ring's memory from its start: [`RingHeader::stored_bytes`] of it. Borrowed from the file unless it was compressed.
    pub raw: Cow<'a, [u8]>,
}

impl Ring<'_> {
    /// The slots, oldest first; `slots().events()` reads them from the newest backwards.
    pub fn slots(&self) -> Slots<'_> {
        Slots::new(&self.raw, self.header.position)
    }
}

/// Binds a counter value to a place in a ring: every slot before `slots_written` was written no later
/// than `counter`, every slot from it on no earlier.
///
/// Exception: an event that the thread was recording while the anchor was taken may be older than `counter`, by
/// the time for which the thread was preempted in it. Readers allow for half a wrap of the counter's low 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The whole counter, ticks.
    pub counter: u64,
    /// Slots written since the start of the ring.
    pub slots_written: u64,
}

/// The calls of a thread that were under way when its ring wrapped last. The entries of those that began before the ring's oldest
/// slot were overwritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenCalls {
    /// Slots written since the start of the ring until then: a multiple of the ring's slots.
    pub slots_written: u64,
    /// How many calls were open, of those that began since recording into the ring began.
    pub count: u64,
    /// Addresses of their methods, outermost first; of the outermost ones, if there were many.
    pub methods: Vec<u64>,
}

/// A method's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Address of the `ArtMethod`.
    pub address: u64,
    /// Counter value, in ticks, from which on the address has this name (0: always).
    pub valid_from: u64,
    /// Class, as people write it: `android.os.Looper`.
    pub class: String,
    /// Method name: `loop`.
    pub name: String,
    /// Signature as in the dex file: `(I)V`. Empty if unknown.
    pub signature: String,
    /// Source file, or empty.
    pub source_file: String,
    /// Adler-32 checksum in the header of the dex file, 0 if there is none.
    pub dex_checksum: u32,
    /// Index of the method in that dex file.
    pub dex_method_index: u32,
}

/// The methods that the rings name, ordered by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Ordered by `(address, valid_from)`.
    pub symbols: Vec<Symbol>,
}

/// Strings that events name: marks, rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    /// The string with number `n` is at index `n - 1`; 0 is no string.
    pub strings: Vec<String>,
}

impl Strings {
    /// The string with this number.
    pub fn get(&self, number: u64) -> Option<&str> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.strings.get(index).map(String::as_str)
    }
}

/// A frame of stacks, and the number of the frame that called it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// Address of the `ArtMethod`.
    pub method: u64,
    /// Number of the caller's node; 0: the outermost frame, or the outermost one that was kept.
    pub parent: u32,
    /// Index of the instruction in the method's dex code; `u32::MAX` in a native method.
    pub dex_pc: u32,
}

/// Nodes that were recorded into one table. A full table is followed by the next generation, which numbers its nodes
/// anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackGeneration {
    /// Number of the generation; events name it.
    pub number: u32,
    /// The node with number `n` is at index `n - 1`.
    pub nodes: Vec<StackNode>,
}

/// The stacks that events name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    /// The tables, oldest first. Events of a generation that is not here have lost their stacks.
    pub generations: Vec<StackGeneration>,
}

/// Data that the writer lost: `(reason, count)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// For instance `("symbols of unloaded classes", 3)`.
    pub counts: Vec<(String, u64)>,
}
