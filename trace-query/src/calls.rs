// SPDX-License-Identifier: Apache-2.0
//! The calls of a ring, in the order of time.
//!
//! A ring can only be divided into events from its newest slot backwards. So the first pass marks where events end, one bit a
//! slot, and finds the time of the oldest one; the second pass goes forwards.

use hindsight_trace_format::container::{OpenCalls, Ring};
use hindsight_trace_format::reverse::EventRef;
use hindsight_trace_format::slot::{Event, Extension};

use crate::rings::Beside;

/// Calls inside more others than this are counted, but not told apart.
pub const MAX_DEPTH: usize = 1024;

const FULL_TIME: u32 = Extension::FullTime.number();
const UNWOUND: u32 = Extension::Unwound.number();
const STARTED: u32 = Extension::Started.number();

/// What happens in a ring. Times are whole counters, ticks, and never decrease.
pub(crate) enum Step<'a> {
    /// A method is entered.
    Enter { method: u64, at: u64 },
    /// The innermost methods end, so many of them; there may be fewer.
    Exit { frames: u64, at: u64 },
    /// These calls, outermost first, have been open since the ring's oldest slot, outside of all that were entered since then.
    Outside { methods: &'a [u64], at: u64 },
    /// Recording begins anew. What was open is not known any more; it was recorded up to this time.
    Started { at: u64 },
    /// Another event, with its payload, and zeros.
    Other {
        extension: u32,
        payload: [u64; MAX_PAYLOAD],
        at: u64,
    },
}

/// Slots of a payload that are told; events whose payload is longer have nothing that is looked for.
pub(crate) const MAX_PAYLOAD: usize = 4;

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

/// The calls that were open at a place of the ring, and how many of those that were entered before it still are.
struct Noted<'a> {
    open: &'a OpenCalls,
    /// Index of the first slot after the place.
    index: usize,
    depth: u64,
}

impl<'a> Noted<'a> {
    fn of(ring: &Ring<'_>, open: Option<&'a OpenCalls>, slots: usize) -> Option<Self> {
        let open = open?;
        let written = ring.header.position.slots_written(ring.header.geometry);
        let first = written.checked_sub(slots as u64)?;
        let index = usize::try_from(open.slots_written.checked_sub(first)?).ok()?;
        // Nothing was overwritten in a ring that has not wrapped.
        let has_wrapped = first != 0 && index <= slots;
        let depth = 0;
        has_wrapped.then_some(Noted { open, index, depth })
    }

    fn step(&mut self, step: &Step<'_>) {
        match step {
            Step::Enter { .. } => self.depth += 1,
            Step::Exit { frames, .. } => self.depth = self.depth.saturating_sub(*frames),
            Step::Outside { .. } | Step::Started { .. } | Step::Other { .. } => {}
        }
    }

    /// Those that began before the ring's oldest slot.
    fn outside(&self) -> &'a [u64] {
        let count = self.open.count.saturating_sub(self.depth);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let methods = &self.open.methods;
        &methods[..count.min(methods.len())]
    }
}

fn tell_outside(noted: &Noted<'_>, oldest: u64, tell: &mut impl FnMut(Step<'_>)) {
    tell(Step::Outside {
        methods: noted.outside(),
        at: oldest,
    });
}

/// `words`: how many slots the payload has.
fn step(event: Event, payload: [u64; MAX_PAYLOAD], words: usize, at: u64) -> Option<Step<'static>> {
    const ENTERED_BEFORE: u32 = Extension::EnteredBefore.number();
    const LEFT_AFTER: u32 = Extension::LeftAfter.number();
    Some(match event {
        Event::Entry { method } => Step::Enter {
            method: u64::from(method),
            at,
        },
        Event::WideEntry => Step::Enter {
            method: payload[0],
            at,
        },
        Event::Extension {
            number: ENTERED_BEFORE,
        } => Step::Enter {
            method: payload[0],
            at,
        },
        Event::Exit | Event::Extension { number: LEFT_AFTER } => Step::Exit { frames: 1, at },
        Event::Extension { number: UNWOUND } if words > 0 => Step::Exit {
            frames: payload[0],
            at,
        },
        Event::Extension { number: UNWOUND } => return None,
        Event::Extension { number } => Step::Other {
            extension: number,
            payload,
            at,
        },
    })
}

/// Tells all calls of a ring. Returns the times of its oldest event, and of its end.
pub(crate) fn walk(ring: &Ring<'_>, beside: &Beside, mut tell: impl FnMut(Step<'_>)) -> (u64, u64) {
    let slots = ring.slots();
    let mut ends = vec![0_u64; slots.len().div_ceil(64)];
    let header = &ring.header;
    // The thread was in its open calls until the ring was taken, which may be long after its newest event.
    let end = header.stopped_counter;
    let mut oldest = match header.epochs {
        Some(epochs) => epochs.end(),
        None => end.min(beside.newest.unwrap_or(end)),
    };
    let mut events = slots.events();
    for event in events.by_ref() {
        if let Some(word) = ends.get_mut(event.index / 64) {
            *word |= 1 << (event.index % 64);
        }
        oldest = match full_time(&event) {
            Some((before, _)) => before,
            None => at_most(oldest, event.counter()),
        };
    }
    // What an event did that was being written when the calls were noted, and is cut, is not known.
    let cut = events.cut_slots();
    let mut noted =
        Noted::of(ring, beside.open.as_ref(), slots.len()).filter(|noted| noted.index >= cut);
    let mut at = oldest;
    let mut payload = [0_u64; MAX_PAYLOAD];
    let mut length = 0;
    // The time of the event before; a `FullTime` belongs to the event after it.
    let mut before = None;
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
        if slot.event() == (Event::Extension { number: STARTED }) {
            // Unless calls were noted before it, nothing is known of those that are older than the ring.
            noted = noted.filter(|noted| before.is_some() && noted.index <= index);
            if let Some(noted) = noted.take() {
                tell_outside(&noted, oldest, &mut tell);
            }
            tell(Step::Started {
                at: before.unwrap_or(oldest),
            });
        }
        at = match slot.event() {
            // It tells its own time.
            Event::Extension { number: FULL_TIME } if words == 2 && payload[1] >= at => payload[1],
            _ => at_least(at, slot.counter()),
        };
        if slot.event() != (Event::Extension { number: FULL_TIME }) {
            before = Some(at);
        }
        if let Some(noted) = noted.take_if(|noted| noted.index <= index) {
            tell_outside(&noted, oldest, &mut tell);
        }
        payload[words..].fill(0);
        if let Some(step) = step(slot.event(), payload, words, at) {
            if let Some(noted) = &mut noted {
                noted.step(&step);
            }
            tell(step);
        }
    }
    if let Some(noted) = noted {
        tell_outside(&noted, oldest, &mut tell);
    }
    (oldest, end.max(at))
}
