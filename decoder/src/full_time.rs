// SPDX-License-Identifier: Apache-2.0
//! Whole counters that a thread recorded itself.

use hindsight_trace_format::container::Anchor;
use hindsight_trace_format::reverse::{EventRef, Slots};
use hindsight_trace_format::slot::{Event, Extension};

use crate::scan::words;

const FULL_TIME: u32 = Extension::FullTime.number();

/// The counters of the event before and of this event, ticks, if it is a `FullTime` that agrees with its own slot.
pub(crate) fn of(event: &EventRef<'_>) -> Option<(u64, u64)> {
    if event.event() != (Event::Extension { number: FULL_TIME }) {
        return None;
    }
    let (before, now) = (event.payload(0)?, event.payload(1)?);
    (before <= now && now as u32 == event.counter()).then_some((before, now))
}

/// Two anchors for each `FullTime` event: slots before it are no newer than the event before it, and it is no older than
/// its own time. `first` is the number of the oldest slot since the start of the ring.
pub(crate) fn anchors(slots: Slots<'_>, first: u64) -> Vec<Anchor> {
    // Most rings have none.
    let memory = [
        slots.bytes(0, slots.split()),
        slots.bytes(slots.split(), slots.len()),
    ];
    let may_have = memory
        .into_iter()
        .flat_map(words)
        .fold(false, |any, word| any | (word as u32 == FULL_TIME));
    if !may_have {
        return Vec::new();
    }
    let events = slots.events().filter_map(|event| {
        let times = of(&event)?;
        Some((first + (event.index - event.payload_len()) as u64, times))
    });
    let anchor = |counter, slots_written| Anchor {
        counter,
        slots_written,
    };
    events
        .flat_map(|(slot, (before, now))| [anchor(before, slot), anchor(now, slot)])
        .collect()
}
