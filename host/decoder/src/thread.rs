// SPDX-License-Identifier: Apache-2.0
//! One thread: its ring, read backwards to see what is there ([`Scan`]), and forwards to make calls of it
//! ([`Builder`]).

use hindsight_trace_format::container::{Anchor, Ring, SymbolTable};
use hindsight_trace_format::slot::Extension;

use crate::build::Builder;
use crate::clock::Clock;
use crate::methods::{MethodId, Resolver};
use crate::scan::Scan;
use crate::slices::Slices;
use crate::timeline::Timeline;

/// A traced thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its calls.
    pub slices: Slices,
    /// What else it recorded, oldest first.
    pub events: Vec<ThreadEvent>,
    /// CLOCK_BOOTTIME of the oldest event in the ring, ns; `end_ns` if there is none.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME when the ring was taken, ns. No event is newer.
    pub end_ns: u64,
    /// Size of the ring, bytes.
    pub ring_bytes: u64,
    /// What was read, and what could not be.
    pub stats: Stats,
}

/// An event that is neither entry nor exit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEvent {
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// What happened.
    pub kind: Extension,
    /// The payload slots, as [`Extension`] describes them; those it doesn't have are 0.
    pub payload: [u64; 4],
}

/// What was read from a ring, and what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Slots in the ring.
    pub slots: u64,
    /// Slots that were recorded, but overwritten since.
    pub overwritten_slots: u64,
    /// Trace points: entries and exits.
    pub points: u64,
    /// Exits whose entries are not in the ring.
    pub open_starts: u64,
    /// Entries whose exits are not in the ring.
    pub open_ends: u64,
    /// Calls that exceptions left.
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
    /// Slots whose time contradicted the anchors; they were given that of the event after them.
    pub contradicting_times: u64,
    /// Anchors that contradicted the others, ignored.
    pub anchors_ignored: u64,
    /// Frames that an exception is said to have left, beyond any credible number; ignored.
    pub incredible_frames: u64,
    /// Frames that exceptions left and whose entries are not in the ring, beyond those that there is room for: the
    /// stack was so much deeper than is shown.
    pub unshown_frames: u64,
}

/// A thread whose methods are still numbered on their own.
pub(crate) struct Decoded {
    pub(crate) thread: Thread,
    pub(crate) methods: Vec<(u64, Option<u32>)>,
}

impl Decoded {
    /// Numbers the methods as the file does.
    pub(crate) fn finish(mut self, ids: &[MethodId]) -> Thread {
        // Those of the first thread are so already.
        let same = ids.iter().enumerate().all(|(i, id)| id.0 as usize == i);
        if !same {
            for method in &mut self.thread.slices.method {
                *method = ids
                    .get(method.0 as usize)
                    .copied()
                    .unwrap_or(MethodId::NOT_RECORDED);
            }
        }
        self.thread
    }
}

pub(crate) fn decode(
    ring: &Ring<'_>,
    anchors: &[Anchor],
    clock: &Clock,
    symbols: Option<&SymbolTable<'_>>,
    unseen_frames_shown: u64,
) -> Decoded {
    let header = &ring.header;
    let slots = ring.slots();
    let written = header.position.slots_written(header.geometry);
    // Number, since the start of the ring, of the oldest slot.
    let first = written.saturating_sub(slots.len() as u64);
    let mut timeline = Timeline::new(header, anchors);
    let scan = Scan::new(slots, first, &mut timeline, unseen_frames_shown);
    let stats = Stats {
        slots: slots.len() as u64,
        overwritten_slots: first,
        cut_slots: scan.cut_slots as u64,
        incredible_frames: scan.incredible_frames,
        unshown_frames: scan.unshown_frames,
        unbounded_slots: timeline.unbounded_slots,
        contradicting_times: timeline.contradictions,
        anchors_ignored: timeline.anchors_ignored,
        ..Stats::default()
    };
    let end_ns = clock.to_ns(header.stopped_counter);
    let resolver = Resolver::new(symbols);
    let built = Builder::new(slots, scan, resolver, clock.converter(), stats).build(end_ns);
    Decoded {
        thread: Thread {
            tid: header.tid,
            name: header.name.clone(),
            slices: built.slices,
            events: built.events,
            start_ns: built.oldest_ns,
            end_ns,
            ring_bytes: header.geometry.bytes() as u64,
            stats: built.stats,
        },
        methods: built.methods,
    }
}
