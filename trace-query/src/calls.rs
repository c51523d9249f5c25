// SPDX-License-Identifier: Apache-2.0
//! The calls of a ring, in the order of time.
//!
//! A ring can only be divided into events from its newest slot backwards. So the first pass marks where events end, one bit a
//! slot, and finds the time of the oldest one; the second pass goes forwards.

use hindsight_trace_format::container::Ring;
use hindsight_trace_format::reverse::EventRef;
use hindsight_trace_format::slot::{Event, Extension};

/// Larger rings are left out: 64 MiB.
pub const MAX_RING_LOG2_BYTES: u32 = 26;
/// Calls inside more others than this are counted, but not told apart.
pub const MAX_DEPTH: usize = 1024;

const FULL_TIME: u32 = Extension::FullTime.number();
const UNWOUND: u32 = Extension::Unwound.number();

/// What happens in a ring. Times are whole counters, ticks, and never decrease.
pub(crate) enum Step {
    /// A method is entered.
    Enter { method: u64, at: u64 },
    /// The innermost methods end, so many of them; there may be fewer.
    Exit { frames: u64, at: u64 },
}

/// The counters of the event before and of this event, if it tells both and agrees with its own slot.
fn full_time(event: &EventRef<'_>) -> Option<(u64, u64)> {
    if event.event() != (Event::Extension { number: FULL_TIME }) {
        return None;
    }
    let (before, now) = (event.payload(0)?, event.payload(1)?);
    (before <= now && now as u32 == event.counter()).then_some((before, now))
}

/// The last time up to `limit` whose lower half is this one.
fn at_most(limit: u64, low: u32) -> u64 {
    let high = limit & !u64::from(u32::MAX);
    let at = high | u64::from(low);
    if at <= limit {
        at
    } else {
        at.saturating_sub(1 << 32)
    }
}

/// The first time from `limit` on whose lower half is this one.
fn at_least(limit: u64, low: u32) -> u64 {
    let high = limit & !u64::from(u32::MAX);
    let at = high | u64::from(low);
    if at >= limit {
        at
    } else {
        at.saturating_add(1 << 32)
    }
}

/// Tells all calls of a ring. Returns the times of its oldest event, and of its end.
pub(crate) fn walk(ring: &Ring<'_>, mut tell: impl FnMut(Step)) -> (u64, u64) {
    let slots = ring.slots();
    let mut ends = vec![0_u64; slots.len().div_ceil(64)];
    let header = &ring.header;
    let end = match header.epochs {
        Some(epochs) => header.stopped_counter.min(epochs.end()),
        None => header.stopped_counter,
    };
    let mut oldest = match header.epochs {
        Some(epochs) => epochs.end(),
        None => end,
    };
    for event in slots.events() {
        if let Some(word) = ends.get_mut(event.index / 64) {
            *word |= 1 << (event.index % 64);
        }
        oldest = match full_time(&event) {
            Some((before, _)) => before,
            None => at_most(oldest, event.counter()),
        };
    }
    let mut at = oldest;
    let mut payload = [0_u64; 2];
    let mut length = 0;
    for (index, slot) in slots.iter().enumerate() {
        let is_end = ends
            .get(index / 64)
            .is_some_and(|word| word >> (index % 64) & 1 != 0);
        if !is_end {
            if let Some(word) = payload.get_mut(length) {
                *word = slot.0;
            }
            length += 1;
            continue;
        }
        let words = std::mem::take(&mut length).min(payload.len());
        at = match slot.event() {
            // It tells its own time.
            Event::Extension { number: FULL_TIME } if words == 2 && payload[1] >= at => payload[1],
            _ => at_least(at, slot.counter()),
        };
        match slot.event() {
            Event::Entry { method } => tell(Step::Enter {
                method: u64::from(method),
                at,
            }),
            Event::WideEntry => tell(Step::Enter {
                method: payload[0],
                at,
            }),
            Event::Exit => tell(Step::Exit { frames: 1, at }),
            Event::Extension { number: UNWOUND } if words > 0 => tell(Step::Exit {
                frames: payload[0],
                at,
            }),
            Event::Extension { .. } => {}
        }
    }
    (oldest, end.max(at))
}
