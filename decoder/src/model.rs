// SPDX-License-Identifier: Apache-2.0
//! A decoded trace: process, methods, threads, calls, events.

use hindsight_trace_format::catalogue::Spec;
use hindsight_trace_format::container::{Losses, ProcessFacts, RingMode, Strings};
use hindsight_trace_format::slot::Extension;

use crate::calls::Calls;
use crate::clock::Clock;
use crate::damage::Damage;
use crate::key::ThreadKey;
use crate::methods::{MethodId, Methods};
use crate::stacks::{StackId, Stacks};

/// The fact about the process that tells how many levels of calls a part of a trace has, if deeper ones were removed.
pub const DEPTH_FACT: &str = "converted.depth";

/// A decoded trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The traced process, and why the trace was written.
    pub process: ProcessFacts,
    /// The counter and the clocks.
    pub clock: Clock,
    /// The methods that were called.
    pub methods: Methods,
    /// Strings that events name by their numbers.
    pub strings: Strings,
    /// The stacks that events name by their nodes.
    pub stacks: Stacks,
    /// The threads, in the order of the file.
    pub threads: Vec<Thread>,
    /// Data that the writer of the file lost, by its own account.
    pub losses: Losses,
    /// Damaged parts of the file, in its order, and of the file that it was converted from; empty for a sound file.
    /// Threads whose rings could not be read at all are only here.
    pub damaged: Vec<Damage>,
    /// Size of the file, bytes.
    pub file_bytes: u64,
}

impl Trace {
    /// How many levels of calls it has, if deeper ones were removed ([`DEPTH_FACT`]).
    pub fn levels(&self) -> Option<u32> {
        levels(&self.process)
    }

    /// The thread with this identity, or with a part that has it.
    pub fn thread(&self, key: ThreadKey) -> Option<&Thread> {
        let is_part = |t: &&Thread| {
            t.key.process == key.process && t.parts.iter().any(|p| p.ring == key.ring)
        };
        let mut threads = self.threads.iter();
        threads
            .clone()
            .find(|t| t.key == key)
            .or_else(|| threads.find(is_part))
    }

    /// The recording that thread id `tid` made at `at_ns` (CLOCK_BOOTTIME): the one whose time contains it, else the
    /// one nearest to it. Events name other threads by id, and one id may have several recordings.
    pub fn thread_at(&self, tid: u32, at_ns: u64) -> Option<&Thread> {
        let distance = |t: &&Thread| {
            let before = t.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(t.end_ns))
        };
        let same_tid = self.threads.iter().filter(|t| t.tid == tid);
        same_tid.min_by_key(distance)
    }

    /// The process's main thread, if its ring is in the file: its thread id is the process id. Of several recordings
    /// with that id the first one named `main` is taken, else the first.
    pub fn main_thread(&self) -> Option<&Thread> {
        let with_pid = |t: &&Thread| t.tid == self.process.pid;
        let is_main = |t: &&Thread| t.name == "main";
        let mut threads = self.threads.iter();
        threads
            .clone()
            .find(|t| with_pid(t) && is_main(t))
            .or_else(|| threads.clone().find(with_pid))
            .or_else(|| threads.find(is_main))
    }

    /// CLOCK_BOOTTIME of the oldest event of any thread, ns.
    pub fn start_ns(&self) -> u64 {
        self.threads
            .iter()
            .map(|t| t.start_ns)
            .min()
            .unwrap_or(self.end_ns())
    }

    /// CLOCK_BOOTTIME when the last ring was taken, ns.
    pub fn end_ns(&self) -> u64 {
        let last = self.threads.iter().map(|t| t.end_ns).max();
        last.unwrap_or(self.clock.reference().boottime_ns)
    }
}

/// How many levels of calls a trace of this process has, if deeper ones were removed.
pub(crate) fn levels(process: &ProcessFacts) -> Option<u32> {
    let (_, levels) = process.extra.iter().find(|(key, _)| key == DEPTH_FACT)?;
    levels.parse().ok()
}

/// A recording of one thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its identity.
    pub key: ThreadKey,
    /// The kernel's thread id, for display: it is not unique.
    pub tid: u32,
    /// Its name, for display: it is not unique.
    pub name: String,
    /// Its calls.
    pub calls: Calls,
    /// Its other events, oldest first.
    pub events: Vec<ThreadEvent>,
    /// CLOCK_BOOTTIME of the oldest event in the ring, ns; `end_ns` if there is none. If the ring follows an earlier one, and
    /// nothing in it is overwritten: when recording into it began.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME when the ring was taken, ns. No event is newer.
    pub end_ns: u64,
    /// Whether the newest part of the ring is missing from a damaged file: then `end_ns` is the time of the newest event
    /// that can be read.
    pub end_is_missing: bool,
    /// Size of the ring, or of all its rings, bytes.
    pub ring_bytes: u64,
    /// What it recorded.
    pub mode: Mode,
    /// The rings that it recorded into, oldest first; empty in imported formats.
    pub parts: Vec<ThreadPart>,
    /// Counts of the data that was read, and of the data that could not be.
    pub stats: Stats,
}

impl Thread {
    /// The gaps between its parts, oldest first.
    pub fn gaps(&self) -> impl Iterator<Item = Gap<'_>> {
        let pairs = self.parts.windows(2).filter(|pair| pair[1].follows_gap);
        pairs.map(|pair| Gap {
            from_ns: pair[0].end_ns,
            to_ns: pair[1].start_ns,
            next_event: self.events.partition_point(|e| e.at_ns < pair[1].start_ns),
            carried: &pair[1].carried,
        })
    }

    /// Whether short calls of it are not in the trace: then a time without calls may be one of short calls.
    pub fn takes_calls_back(&self) -> bool {
        self.stats.rewind_below_ns != 0 || self.stats.taken_back != 0
    }
}

/// What a thread recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every method's entry and exit, and events.
    #[default]
    Calls,
    /// Events only: it has no calls.
    Events,
    /// At times calls, at times only events; [`Thread::parts`] tells when.
    Both,
}

impl Mode {
    /// The mode's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Calls => "calls",
            Mode::Events => "events",
            Mode::Both => "both",
        }
    }
}

/// One of the rings that a thread recorded into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPart {
    /// Index of the ring in its file.
    pub ring: u32,
    /// Number of the ring among the thread's rings.
    pub number: u32,
    /// What the thread recorded.
    pub mode: RingMode,
    /// CLOCK_BOOTTIME of its oldest event, ns; or when recording into it began, as [`Thread::start_ns`].
    pub start_ns: u64,
    /// CLOCK_BOOTTIME when it was taken, ns.
    pub end_ns: u64,
    /// Events between the part before and this one are missing: a ring in between is not in the file, or this one's oldest
    /// events were overwritten. False for the first part, and for one that says itself that no others were recorded since the newest
    /// event of the part before.
    pub follows_gap: bool,
    /// The events before the gap whose ends are not before this part either: what they began still went on. Kinds and payloads.
    pub carried: Vec<(Extension, [u64; 4])>,
}

/// A time in which a thread recorded, and of which nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap<'a> {
    /// CLOCK_BOOTTIME, ns: the end of the part before.
    pub from_ns: u64,
    /// CLOCK_BOOTTIME, ns: the start of the part after it.
    pub to_ns: u64,
    /// Index, among the thread's events, of the first one after it.
    pub next_event: usize,
    /// What went on over it, as [`ThreadPart::carried`].
    pub carried: &'a [(Extension, [u64; 4])],
}

impl Gap<'_> {
    /// Whether what this event from before the gap began still went on after it.
    pub fn is_carried(&self, begin: &ThreadEvent) -> bool {
        self.carried.contains(&(begin.kind, begin.payload))
    }
}

/// An event that is neither entry nor exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// The event.
    pub kind: Extension,
    /// Its payload slots, as [`Extension`] describes them; missing ones are 0.
    pub payload: [u64; 4],
    /// The method that its field of a method or class names; [`MethodId::NOT_RECORDED`] if it has no such field, or none is
    /// known.
    pub method: MethodId,
}

impl ThreadEvent {
    /// Its entry in the catalogue.
    pub fn spec(&self) -> &'static Spec {
        self.kind.spec()
    }

    /// Sets the number in the field of this name, if it has one.
    pub fn set(&mut self, field: &str, number: u64) {
        if let Some(field) = self.spec().field(field) {
            field.set(&mut self.payload, number);
        }
    }

    /// The stack that an event [`Extension::Stack`] names.
    pub fn stack(&self) -> Option<StackId> {
        (self.kind == Extension::Stack).then(|| StackId {
            generation: self.get("generation") as u32,
            node: self.get("node") as u32,
        })
    }

    /// The number in the field of this name; 0 if it has no such field.
    pub fn get(&self, field: &str) -> u64 {
        self.spec()
            .field(field)
            .map_or(0, |field| field.get(&self.payload))
    }
}

/// Counts of the data that was read from a ring, and of the data that could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Slots in the ring.
    pub slots: u64,
    /// Slots that were recorded, but overwritten since.
    pub overwritten_slots: u64,
    /// Trace points: entries and exits.
    pub trace_points: u64,
    /// Exits whose entries are not in the ring.
    pub open_starts: u64,
    /// Entries whose exits are not in the ring.
    pub open_ends: u64,
    /// Calls that ended by an exception.
    pub left_by_exception: u64,
    /// Slots of the oldest event, which was cut by the wrap-around.
    pub cut_slots: u64,
    /// Extension events of a newer writer, skipped.
    pub unknown_extensions: u64,
    /// Entries of methods without a symbol.
    pub unnamed_entries: u64,
    /// Slots in stretches without anchors, longer than the time in which the counter's low half wraps:
    /// earlier times may be too late by whole wraps.
    pub unbounded_slots: u64,
    /// Slots whose time contradicted the anchors; they were given the time of the event after them.
    pub contradicting_times: u64,
    /// Anchors that contradicted the others, ignored.
    pub anchors_ignored: u64,
    /// Frames left by exceptions according to the ring, beyond any credible number; ignored.
    pub incredible_frames: u64,
    /// Frames left by exceptions whose entries are not in the ring, beyond the number that is shown: the stack was
    /// this much deeper.
    pub unshown_frames: u64,
    /// Calls that the thread took back, as they were short and nothing was recorded in them.
    pub taken_back: u64,
    /// Calls shorter than this were taken back, ns; `u64::MAX`: of any length; 0: none were.
    pub rewind_below_ns: u64,
    /// Gaps between the thread's rings ([`Thread::gaps`]).
    pub gaps: u64,
    /// Stacks that the thread took of itself while it recorded no calls.
    pub stacks: u64,
    /// Such stacks whose frames are not in the file.
    pub lost_stacks: u64,
}
