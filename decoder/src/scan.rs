// SPDX-License-Identifier: Apache-2.0
//! The first pass over a ring: backwards, the only unambiguous direction.
//!
//! It prepares the second pass, which goes forwards: it finds the payload slots, the whole counter at the start of each
//! block, and the number of exits without an entry. Blocks without extension events, nearly all in most rings, are
//! scanned without unpredictable branches.

use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::slot::{
    payload_slots, Extension, Slot, FIRST_METHOD, SLOT_BYTES, TAG_EXIT, TAG_WIDE_ENTRY,
};

use crate::pages::prefetch;
use crate::timeline::Timeline;

/// Maximum of events in a block. The scratch data of a block fits into the L1 cache.
pub(crate) const BLOCK_EVENTS: usize = 1 << 10;
/// Upper bound for the frames of a thread: 16 bytes each, on a stack of 1 GiB.
const MAX_FRAMES: u64 = 1 << 26;

/// Limit, for each of `rings` rings, on calls that are shown only because an exception left them, without an entry in
/// the ring. A stack of 8 MiB can hold 524288 frames (16 bytes each for a small recursive method on x86-64). The limit
/// bounds the memory that a hostile file can claim with a few bytes.
pub(crate) fn unseen_frames_shown(rings: usize) -> u64 {
    const OF_A_FILE: u64 = 1 << 22;
    (OF_A_FILE / rings.max(1) as u64).clamp(1 << 16, 1 << 20)
}

/// The counter at the events of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    /// The whole counter at the block's first event; differences of the low halves give the others.
    From(u64),
    /// In [`Scan::times`], from this index on, because some times contradict the anchors.
    Listed(usize),
}

/// Consecutive events whose times have the same bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Index of the first slot of the block, payload included.
    pub(crate) start: u32,
    /// Index of the slot after the last event.
    pub(crate) end: u32,
    /// Number of events that are neither exits nor narrow entries.
    pub(crate) specials: u32,
    pub(crate) times: Times,
    /// Its first event is [`Extension::Started`].
    pub(crate) starts_stretch: bool,
}

/// Result of the first pass. All lists are newest first.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) blocks: Vec<Block>,
    /// Indices of the slots of events that are neither exits nor narrow entries.
    pub(crate) specials: Vec<u32>,
    /// For each [`Extension::Unwound`], the number of frames it left, limited to a credible one.
    pub(crate) unwound: Vec<u32>,
    /// For each stretch between starts of tracing, the number of its exits without an entry in it.
    pub(crate) open_starts: Vec<u32>,
    pub(crate) times: Vec<u64>,
    /// Entries, native ones too.
    pub(crate) entries: usize,
    /// Slots of the oldest event, which was cut by the wrap-around.
    pub(crate) cut_slots: usize,
    /// Calls may have begun or ended by that event.
    cut_changes_calls: bool,
    /// The oldest whole event starts recording: what was open before that has no part in the ring.
    pub(crate) starts_with_recording: bool,
    /// Claimed frames beyond a credible number.
    pub(crate) incredible_frames: u64,
    /// Claimed frames beyond the number that is shown.
    pub(crate) unshown_frames: u64,
    /// See [`unseen_frames_shown`].
    unseen_frames_shown: u64,
    /// Sum of `unwound`.
    unwound_frames: u64,
    /// Number of exits seen so far whose entries haven't been seen.
    height: u32,
    /// The effect of the slots that are older than the place at which open calls were noted.
    pub(crate) older: Older,
    /// Index of the first slot after that place: usually of the newest lap.
    split: usize,
}

/// The calls that begin or end in the slots before the place at which open calls were noted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Older {
    /// Exits without an entry among these slots.
    pub(crate) exits: u64,
    /// Entries without an exit among these slots: the calls are open at that place.
    pub(crate) entries: u64,
    /// Recording began in these slots.
    pub(crate) begins: bool,
}

/// Whether a slot closes an event that is neither an exit nor a narrow entry.
pub(crate) const fn is_special(low: u32) -> bool {
    low.wrapping_sub(1) < FIRST_METHOD - 1
}

/// Whether calls begin or end by such an event, which has several slots.
const fn changes_calls(low: u32) -> bool {
    const ENTERED: u32 = Extension::NativeEntered.number();
    const LEFT: u32 = Extension::NativeLeft.number();
    const ENTERED_BEFORE: u32 = Extension::EnteredBefore.number();
    const LEFT_AFTER: u32 = Extension::LeftAfter.number();
    const UNWOUND: u32 = Extension::Unwound.number();
    const STARTED: u32 = Extension::Started.number();
    matches!(
        low,
        TAG_WIDE_ENTRY | ENTERED | LEFT | ENTERED_BEFORE | LEFT_AFTER | UNWOUND | STARTED
    )
}

/// The slots in these bytes.
pub(crate) fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
    bytes.chunks_exact(SLOT_BYTES).map(|chunk| {
        let mut word = [0; SLOT_BYTES];
        word.copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// Effect of entries and exits, scanned newest first, on the number of open exits: an exit adds one, an entry removes
/// one if there is one. The effect is `n -> max(n + grows, rises)`, returned as `(grows, rises)`.
///
/// Such effects compose, so the four quarters of the block are scanned at the same time: within a quarter, each step
/// depends on the step before.
fn heights(bytes: &[u8]) -> (i64, i64) {
    const PARTS: usize = 4;
    let step = |(grows, rises): &mut (i64, i64), word: u64| {
        let by = if word as u32 == TAG_EXIT { 1 } else { -1 };
        *grows += by;
        // Not `max(0)`: the compiler makes a branch of it, which is often mispredicted.
        let sum = *rises + by;
        *rises = sum & !(sum >> 63);
    };
    let part = bytes.len() / SLOT_BYTES / PARTS * SLOT_BYTES;
    let (first, rest) = bytes.split_at(part);
    let (second, rest) = rest.split_at(part);
    let (third, rest) = rest.split_at(part);
    let (fourth, rest) = rest.split_at(part);
    let mut parts = [(0, 0); PARTS];
    let mut after = (0, 0);
    words(rest).rev().for_each(|word| step(&mut after, word));
    let pairs = words(first).rev().zip(words(second).rev());
    let others = words(third).rev().zip(words(fourth).rev());
    for ((a, b), (c, d)) in pairs.zip(others) {
        step(&mut parts[0], a);
        step(&mut parts[1], b);
        step(&mut parts[2], c);
        step(&mut parts[3], d);
    }
    let then = |newer: (i64, i64), older: (i64, i64)| {
        (newer.0 + older.0, (newer.1 + older.0).max(older.1))
    };
    parts.into_iter().rev().fold(after, then)
}

impl Scan {
    /// Scans all of `slots`; the oldest has the number `first` since the start of the ring. `noted` is the number of the slot
    /// before which open calls were noted; without it, the effect of older laps is counted.
    pub(crate) fn new(
        slots: Slots<'_>,
        first: u64,
        noted: Option<u64>,
        timeline: &mut Timeline,
        unseen_frames_shown: u64,
    ) -> Self {
        let noted = noted.and_then(|noted| usize::try_from(noted.checked_sub(first)?).ok());
        let mut scan = Scan {
            unseen_frames_shown,
            split: noted.unwrap_or_else(|| slots.split()),
            blocks: Vec::with_capacity(slots.len() / BLOCK_EVENTS + 2),
            ..Scan::default()
        };
        let mut counters = Vec::with_capacity(BLOCK_EVENTS);
        let mut end = slots.len();
        while end > 0 {
            let stretch = timeline.stretch(first + end as u64 - 1);
            let mut start = end.saturating_sub(BLOCK_EVENTS);
            start = start.max(usize::try_from(stretch.saturating_sub(first)).unwrap_or(0));
            for place in [slots.split(), scan.split] {
                if end > place {
                    start = start.max(place);
                }
            }
            let next = start.saturating_sub(BLOCK_EVENTS);
            prefetch(slots.bytes(next, start));
            end = scan
                .simple(slots.bytes(start, end), start, timeline)
                .unwrap_or_else(|| {
                    scan.with_specials(slots, start, end, first, timeline, &mut counters)
                });
        }
        scan.open_starts.push(scan.height);
        scan
    }

    /// Whether open calls were noted in the middle of the oldest event, which is cut: what it did to them is not known.
    pub(crate) fn is_noted_in_cut(&self) -> bool {
        self.cut_changes_calls && self.split < self.cut_slots
    }

    /// A block without special events. `None` if it has some.
    fn simple(&mut self, bytes: &[u8], start: usize, timeline: &mut Timeline) -> Option<usize> {
        let mut special = false;
        for word in words(bytes) {
            special |= is_special(word as u32);
        }
        if special {
            return None;
        }
        let counters = || words(bytes).map(|word| (word >> 32) as u32);
        let (oldest, newest) = (counters().next()?, counters().next_back()?);
        let mut wraps = 0_u64;
        for (a, b) in counters().zip(counters().skip(1)) {
            wraps += u64::from(a > b);
        }
        let span = ((wraps << 32) + u64::from(newest)).wrapping_sub(u64::from(oldest));
        let len = bytes.len() / SLOT_BYTES;
        let (grows, rises) = heights(bytes);
        // exits + entries = len, exits - entries = grows.
        let entries = (len as i64 - grows) / 2;
        let Some(time) = timeline.extend_block(newest, span, len as u64) else {
            // `with_specials` handles contradicting times.
            return None;
        };
        self.height = (i64::from(self.height) + grows).max(rises) as u32;
        if start < self.split {
            let before = self.older.exits as i64 + grows;
            let exits = before.max(rises);
            self.older.exits = exits as u64;
            self.older.entries += (exits - before) as u64;
        }
        self.entries += entries as usize;
        self.starts_with_recording = false;
        self.blocks.push(Block {
            start: start as u32,
            end: (start + len) as u32,
            specials: 0,
            times: Times::From(time),
            starts_stretch: false,
        });
        Some(start)
    }

    /// A block with special events, or with times that contradict the anchors. Returns where the next one ends.
    #[cold]
    fn with_specials(
        &mut self,
        slots: Slots<'_>,
        start: usize,
        end: usize,
        first: u64,
        timeline: &mut Timeline,
        counters: &mut Vec<u32>,
    ) -> usize {
        counters.clear();
        let specials = self.specials.len();
        let (mut at, mut starts_stretch, mut span) = (end, false, 0_u64);
        let mut newer = None;
        while at > start && !starts_stretch {
            let slot = slots.get(at - 1).unwrap_or_default();
            let low = slot.low();
            let payload = payload_slots(low);
            if payload > at - 1 {
                self.cut_slots = at;
                self.cut_changes_calls = changes_calls(low);
                break;
            }
            self.starts_with_recording = low == Extension::Started.number();
            if is_special(low) {
                self.specials.push((at - 1) as u32);
                starts_stretch = low == Extension::Started.number();
                self.special(slots, slot, at - 1);
            } else if low == TAG_EXIT {
                self.leave(1, at - 1);
            } else {
                self.enter(at - 1);
            }
            if let Some(newer) = newer.replace(slot.counter()) {
                span += u64::from(newer.wrapping_sub(slot.counter()));
            }
            counters.push(slot.counter());
            at -= 1 + payload;
        }
        let (start, next) = if self.cut_slots > 0 {
            (at, 0)
        } else {
            (at, at)
        };
        let Some((&newest, events)) = counters.first().zip(Some(counters.len())) else {
            return next;
        };
        let times = match timeline.extend_block(newest, span, events as u64) {
            Some(time) => Times::From(time),
            None => {
                let from = self.times.len();
                // Only the order of slots matters within a stretch: any number in it will do.
                let number = first + end as u64 - 1;
                self.times
                    .extend(counters.iter().map(|&low| timeline.extend(number, low)));
                self.times[from..].reverse();
                Times::Listed(from)
            }
        };
        self.blocks.push(Block {
            start: start as u32,
            end: end as u32,
            specials: (self.specials.len() - specials) as u32,
            times,
            starts_stretch,
        });
        next
    }

    /// An entry, whose last slot is the one at `index`.
    fn enter(&mut self, index: usize) {
        self.entries += 1;
        self.height = self.height.saturating_sub(1);
        if index < self.split {
            self.older.entries += u64::from(self.older.exits == 0);
            self.older.exits = self.older.exits.saturating_sub(1);
        }
    }

    /// The exits of so many calls, by an event whose last slot is the one at `index`.
    fn leave(&mut self, calls: u32, index: usize) {
        self.height += calls;
        if index < self.split {
            self.older.exits += u64::from(calls);
        }
    }

    fn special(&mut self, slots: Slots<'_>, slot: Slot, index: usize) {
        const NATIVE_ENTERED: u32 = Extension::NativeEntered.number();
        const NATIVE_LEFT: u32 = Extension::NativeLeft.number();
        const UNWOUND: u32 = Extension::Unwound.number();
        const STARTED: u32 = Extension::Started.number();
        const ENTERED_BEFORE: u32 = Extension::EnteredBefore.number();
        const LEFT_AFTER: u32 = Extension::LeftAfter.number();
        match slot.low() {
            TAG_WIDE_ENTRY | NATIVE_ENTERED | ENTERED_BEFORE => self.enter(index),
            NATIVE_LEFT | LEFT_AFTER => self.leave(1, index),
            UNWOUND => {
                let claimed = index
                    .checked_sub(1)
                    .and_then(|i| slots.get(i))
                    .map_or(0, |payload| payload.0);
                // An incredible claim is no evidence of frames that are not in the ring.
                let is_credible = claimed <= MAX_FRAMES;
                let unseen = if is_credible {
                    self.unseen_frames_shown
                } else {
                    0
                };
                let shown = index as u64 + unseen;
                // Each frame was entered, in this ring or before it. That bounds the sum of all claims.
                let left = (slots.len() as u64 + unseen).saturating_sub(self.unwound_frames);
                let frames = claimed
                    .min(shown.saturating_sub(u64::from(self.height)))
                    .min(left);
                self.unwound_frames += frames;
                let ignored = if is_credible {
                    &mut self.unshown_frames
                } else {
                    &mut self.incredible_frames
                };
                *ignored = ignored.saturating_add(claimed - frames);
                self.leave(frames as u32, index);
                self.unwound.push(frames as u32);
            }
            STARTED => {
                self.open_starts.push(self.height);
                self.height = 0;
                self.older.begins |= index < self.split;
            }
            _ => {}
        }
    }
}
