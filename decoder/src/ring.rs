// SPDX-License-Identifier: Apache-2.0
//! From a ring to a thread's calls: read backwards to find the events ([`Scan`]), then forwards to build the calls
//! ([`Builder`]).

use hindsight_trace_format::container::{Anchor, OpenCalls, RingHeader, RingMode, SymbolTable};
use hindsight_trace_format::reverse::Slots;

use crate::build::Builder;
use crate::clock::Clock;
use crate::full_time;
use crate::key::ThreadKey;
use crate::marks::Marks;
use crate::methods::{MethodId, Resolver};
use crate::model::{Mode, Stats, Thread, ThreadPart};
use crate::open_calls;
use crate::parts::{self, Part};
use crate::scan::Scan;
use crate::timeline::Timeline;

/// A decoded thread whose method ids are still local to it.
pub(crate) struct Decoded {
    pub(crate) thread: Thread,
    /// Number of the thread in its process; 0: not known.
    number: u64,
    newest_ns: u64,
    oldest_ns: u64,
    marks: Marks,
    /// The whole counter at the oldest event, ticks.
    pub(crate) oldest: Option<u64>,
    pub(crate) methods: Vec<(u64, Option<u32>)>,
}

impl Decoded {
    /// The newest part of the ring is missing: the recording ends with the newest event that is left.
    pub(crate) fn end_with_newest_event(&mut self) {
        parts::end_at(&mut self.thread, self.newest_ns);
        self.thread.end_is_missing = true;
    }

    /// Replaces the local method ids by the file's.
    pub(crate) fn finish(mut self, ids: &[MethodId]) -> Part {
        // The first thread's ids are the same in both.
        let same = ids.iter().enumerate().all(|(i, id)| id.0 as usize == i);
        if !same {
            let calls = self.thread.calls.method.iter_mut();
            for method in calls.chain(self.thread.events.iter_mut().map(|e| &mut e.method)) {
                *method = ids
                    .get(method.0 as usize)
                    .copied()
                    .unwrap_or(MethodId::NOT_RECORDED);
            }
        }
        Part {
            thread: self.thread,
            number: self.number,
            newest_ns: self.newest_ns,
            oldest_ns: self.oldest_ns,
            marks: self.marks,
        }
    }
}

/// The limit of the calls that were taken back, ns.
fn rewind_below_ns(header: &RingHeader, clock: &Clock) -> u64 {
    match header.epochs.map_or(0, |epochs| epochs.rewind_below) {
        u32::MAX => u64::MAX,
        ticks => {
            let start = header.started_counter;
            let end = start.saturating_add(ticks.into());
            clock.to_ns(end).saturating_sub(clock.to_ns(start))
        }
    }
}

/// The counter when recording into this ring began, ticks, if it goes on from an earlier ring of the thread, and nothing since
/// has been overwritten or is missing: `first` is the number of the oldest slot. The ring covers that time even if its thread
/// stood still, and recorded nothing. A thread's first ring begins with the event that says so.
fn covered_from(header: &RingHeader, first: u64) -> Option<u64> {
    let follows = header.part > 0 && first == 0;
    (follows && header.started_counter <= header.stopped_counter).then_some(header.started_counter)
}

/// What was noted about a ring, besides its slots.
#[derive(Clone, Copy, Default)]
pub(crate) struct Notes<'a> {
    pub(crate) anchors: &'a [Anchor],
    /// The calls that were open when it wrapped last.
    pub(crate) open_calls: Option<&'a OpenCalls>,
}

/// Decodes the slots of a ring, or the newest of them.
pub(crate) fn decode(
    key: ThreadKey,
    header: &RingHeader,
    slots: Slots<'_>,
    notes: &Notes<'_>,
    clock: &Clock,
    symbols: Option<&SymbolTable<'_>>,
    unseen_frames_shown: u64,
) -> Decoded {
    let written = header.position.slots_written(header.geometry);
    // Number, since the start of the ring, of the oldest slot.
    let first = written.saturating_sub(slots.len() as u64);
    let mut anchors = notes.anchors.to_vec();
    anchors.extend(full_time::anchors(slots, first));
    let mut timeline = Timeline::new(header, &anchors);
    let noted = notes.open_calls.map(|noted| noted.slots_written);
    let scan = Scan::new(slots, first, noted, &mut timeline, unseen_frames_shown);
    let stats = Stats {
        slots: slots.len() as u64,
        overwritten_slots: written.saturating_sub(header.geometry.slots() as u64),
        cut_slots: scan.cut_slots as u64,
        incredible_frames: scan.incredible_frames,
        unshown_frames: scan.unshown_frames,
        unbounded_slots: timeline.unbounded_slots,
        contradicting_times: timeline.contradictions,
        anchors_ignored: timeline.anchors_ignored,
        taken_back: header.epochs.map_or(0, |epochs| epochs.taken_back),
        rewind_below_ns: rewind_below_ns(header, clock),
        ..Stats::default()
    };
    let end_ns = clock.to_ns(header.stopped_counter);
    let start_ns = covered_from(header, first).map(|counter| clock.to_ns(counter));
    let resolver = Resolver::new(symbols);
    let numbers = first..=written;
    let outermost = open_calls::outermost(numbers, notes.open_calls, &scan, unseen_frames_shown);
    let time = clock.converter();
    let built = Builder::new(slots, scan, resolver, time, stats, outermost).build(end_ns);
    let start_ns = start_ns.map_or(built.oldest_ns, |ns| ns.min(built.oldest_ns));
    Decoded {
        thread: Thread {
            key,
            tid: header.tid,
            name: header.name.clone(),
            calls: built.calls,
            events: built.events,
            start_ns,
            end_ns,
            end_is_missing: false,
            ring_bytes: header.geometry.bytes() as u64,
            mode: match header.mode {
                RingMode::Calls => Mode::Calls,
                RingMode::Events => Mode::Events,
            },
            parts: vec![ThreadPart {
                ring: key.ring,
                number: header.part,
                mode: header.mode,
                start_ns,
                end_ns,
                follows_gap: false,
                carried: Vec::new(),
            }],
            stats: built.stats,
        },
        number: header.thread,
        newest_ns: built.newest_ns,
        oldest_ns: built.oldest_ns,
        marks: built.marks,
        oldest: built.oldest,
        methods: built.methods,
    }
}
