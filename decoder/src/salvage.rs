// SPDX-License-Identifier: Apache-2.0
//! The sound part of a damaged ring.
//!
//! A ring with a wrong checksum is read from its newest slot backwards up to the first event that makes no sense. Of
//! a ring that the end of the file cuts off, the newest part is read if it is there; else, in the first lap, the oldest,
//! up to the newest slot that is certainly the end of an event.
//!
//! Of a compressed ring it is known which slots are lost, and that the others are sound: the stretches between them are read.

use std::ops::Range;

use hashbrown::HashMap;
use hindsight_trace_format::container::{Anchor, RingHeader, RingMode, RingParts, SymbolTable};
use hindsight_trace_format::reverse::{EventRef, Slots};
use hindsight_trace_format::ring::Position;
use hindsight_trace_format::slot::{Event, Extension, SLOT_BYTES};

use crate::full_time;
use crate::timeline::Timeline;

/// A single wrong time is corrected by the anchors; from this many in a row on, the slots around are not believed.
const WRONG_TIMES: usize = 3;
/// How far the counters of two cores may be apart, ticks. A step back in time by more than this is a wrong time.
const SKEW: u32 = 1 << 10;
/// Most slots of an event.
const EVENT_SLOTS: usize = 8;
/// How many of the newest events decide where a ring that was cut off ends.
const EVENTS_AT_END: usize = 64;

/// The sound part of a ring: its header, made to fit, and the slots.
pub(crate) fn salvage<'a>(
    parts: &'a RingParts<'_>,
    anchors: &[Anchor],
    symbols: Option<&SymbolTable<'_>>,
    taken: u64,
) -> Option<(RingHeader, Slots<'a>)> {
    let header = &parts.header;
    // The rings were taken before the counter stood at `taken`.
    if header.started_counter > header.stopped_counter || header.stopped_counter > taken {
        return None;
    }
    // The places of lost frames follow from the header, which may be wrong, too: only slots before the first one are read.
    let sound = parts
        .lost
        .first()
        .map_or(parts.raw.len(), |lost| lost.start);
    let raw = &parts.raw[..sound.min(parts.raw.len())];
    let raw = &raw[..raw.len() - raw.len() % SLOT_BYTES];
    let stored = header.stored_bytes();
    let found = if raw.len() >= stored {
        let slots = Slots::new(&raw[..stored], header.position);
        let sound = slots.newest(sound_slots(slots, header, anchors, symbols));
        (header.clone(), sound)
    } else if header.position.laps == 0 {
        oldest_part(header, raw)
    } else {
        let newest = raw.get(..usize::try_from(header.position.offset).ok()?)?;
        let position = Position {
            laps: 0,
            offset: header.position.offset,
        };
        (header.clone(), Slots::new(newest, position))
    };
    (!found.1.is_empty()).then_some(found)
}

/// Slots of a ring whose lost parts are known, without gaps between them.
pub(crate) struct Stretch<'a> {
    pub(crate) slots: Slots<'a>,
    /// The ring's header, with the position after the last of the slots.
    pub(crate) header: RingHeader,
}

/// Whether single parts of a ring are lost, and the others are as they were written. A ring in its first lap whose newest part
/// alone is missing is one that was cut off.
pub(crate) fn has_stretches(parts: &RingParts<'_>) -> bool {
    let stored = parts.header.stored_bytes();
    let is_cut =
        parts.header.position.laps == 0 && matches!(&parts.lost[..], [lost] if lost.end == stored);
    parts.verified && !parts.lost.is_empty() && !is_cut
}

/// The stretches between the lost parts of a ring whose other parts are as they were written, oldest first.
pub(crate) fn stretches<'a>(parts: &'a RingParts<'_>) -> Vec<Stretch<'a>> {
    let header = &parts.header;
    let bytes = header.geometry.bytes();
    let written = header.position.slots_written(header.geometry);
    let offset = usize::try_from(header.position.offset).unwrap_or(bytes);
    // In the order of time: what is older than the cursor's lap, then what was written in it.
    let older = if header.position.laps == 0 {
        0..0
    } else {
        offset..bytes
    };
    let (older, newer) = (sound(parts, older), sound(parts, 0..offset));
    let part = |range: Range<usize>| parts.raw.get(range).unwrap_or_default();
    let mut found: Vec<(Slots<'a>, usize)> = Vec::new();
    for range in older {
        found.push((
            Slots::of_parts(part(range.clone()), &[]),
            bytes - range.end + offset,
        ));
    }
    for range in newer {
        let after = offset - range.end;
        match found.last_mut() {
            // Across the end of the ring's memory.
            Some((slots, to_cursor)) if range.start == 0 && *to_cursor == offset => {
                *slots = Slots::of_parts(slots.bytes(0, slots.len()), part(range));
                *to_cursor = after;
            }
            _ => found.push((Slots::of_parts(&[], part(range)), after)),
        }
    }
    let stretch = |(slots, to_cursor): (Slots<'a>, usize)| {
        // The slots after a stretch may have closed its last event.
        let certain = match to_cursor {
            0 => slots.len(),
            _ => certain_end(header, slots.len(), |count| slots.oldest(count)),
        };
        let cut = (to_cursor / SLOT_BYTES + slots.len() - certain) as u64;
        let end = written.saturating_sub(cut);
        let per_lap = header.geometry.slots() as u64;
        Stretch {
            slots: slots.oldest(certain),
            header: RingHeader {
                position: Position {
                    laps: end / per_lap,
                    offset: end % per_lap * SLOT_BYTES as u64,
                },
                ..header.clone()
            },
        }
    };
    let stretches = found.into_iter().map(stretch);
    stretches
        .filter(|stretch| !stretch.slots.is_empty())
        .collect()
}

/// The parts of this range of a ring's memory that are not lost.
fn sound(parts: &RingParts<'_>, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = range.start;
    for lost in &parts.lost {
        if lost.start > at && at < range.end {
            found.push(at..lost.start.min(range.end));
        }
        at = at.max(lost.end);
    }
    if at < range.end {
        found.push(at..range.end);
    }
    found
}

/// How many of the newest slots are of events that make sense.
fn sound_slots(
    slots: Slots<'_>,
    header: &RingHeader,
    anchors: &[Anchor],
    symbols: Option<&SymbolTable<'_>>,
) -> usize {
    let written = header.position.slots_written(header.geometry);
    let first = written.saturating_sub(slots.len() as u64);
    let mut anchors = anchors.to_vec();
    anchors.extend(full_time::anchors(slots, first));
    let mut timeline = Timeline::new(header, &anchors);
    let names = Names::of(slots, symbols);
    let events_only = is_events_only(header, slots);
    let (mut sound, mut wrong_times, mut newer) = (0, 0, None);
    // The last event with a right time, and the one after it.
    let (mut last, mut after_last) = (None, header.stopped_counter as u32);
    for event in slots.events() {
        if !makes_sense(&event, newer, &names) || events_only && is_of_call(&event) {
            break;
        }
        let counter = event.counter();
        if timeline.extend_strictly(first + event.index as u64, counter) {
            wrong_times = 0;
            if let Some((counter, _)) = last {
                after_last = counter;
            }
            last = Some((counter, sound));
            sound = slots.len() - (event.index - event.payload_len());
        } else {
            wrong_times += 1;
            if let Some((last, before_last)) = last {
                // If this time lies between the last event and the one after it, one of the two is wrong, and if it is
                // the last one, this event and older ones would take its time.
                let back = |counter: u32| after_last.wrapping_sub(counter);
                let is_between = back(counter) < back(last);
                if wrong_times == 1 && is_between && counter.wrapping_sub(last) > SKEW {
                    return before_last;
                }
            }
            if wrong_times == WRONG_TIMES {
                break;
            }
        }
        newer = Some(event.event());
    }
    sound
}

/// The symbols of methods, and for each method without a symbol the number of its entries in the ring.
struct Names<'a, 'b> {
    symbols: Option<&'b SymbolTable<'a>>,
    nameless: HashMap<u64, u32>,
}

impl<'a, 'b> Names<'a, 'b> {
    fn of(slots: Slots<'_>, symbols: Option<&'b SymbolTable<'a>>) -> Self {
        let mut names = Names {
            symbols,
            nameless: HashMap::new(),
        };
        let mut named: HashMap<u64, bool> = HashMap::new();
        for method in slots.events().filter_map(|e| entered(&e)) {
            let has_name = *named.entry(method).or_insert_with(|| {
                symbols.is_some_and(|symbols| symbols.lookup(method, u64::MAX).is_some())
            });
            if !has_name {
                *names.nameless.entry(method).or_default() += 1;
            }
        }
        names
    }

    /// A changed bit makes an address that no other entry has. A nameless method is usually entered more than once.
    fn has(&self, method: u64) -> bool {
        self.symbols.is_none()
            || self
                .nameless
                .get(&method)
                .is_none_or(|&entries| entries > 1)
    }
}

/// The method that an event enters, traced code or native.
fn entered(event: &EventRef<'_>) -> Option<u64> {
    const NATIVE_ENTERED: u32 = Extension::NativeEntered.number();
    match event.event() {
        Event::Extension {
            number: NATIVE_ENTERED,
        } => event.payload(0),
        _ => event.entered_method(),
    }
}

/// Whether a runtime records such an event before one like `newer`.
fn makes_sense(event: &EventRef<'_>, newer: Option<Event>, names: &Names<'_, '_>) -> bool {
    const STARTED: u32 = Extension::Started.number();
    if entered(event).is_some_and(|method| !names.has(method)) {
        return false;
    }
    let Event::Extension { number } = event.event() else {
        return true;
    };
    match Extension::from_number(number) {
        None => false,
        // Nothing is recorded until tracing starts again.
        Some(Extension::Stopped) => {
            matches!(newer, None | Some(Event::Extension { number: STARTED }))
        }
        Some(_) => true,
    }
}

/// Whether only events are recorded in this ring: its header says so, and so do its newest events, or else the header is
/// wrong.
fn is_events_only(header: &RingHeader, slots: Slots<'_>) -> bool {
    let newest = || slots.events().take(EVENTS_AT_END);
    let of_calls = newest().filter(is_of_call).count();
    header.mode == RingMode::Events && of_calls * 2 <= newest().count()
}

/// Whether an event is the entry or exit of a call.
fn is_of_call(event: &EventRef<'_>) -> bool {
    !matches!(event.event(), Event::Extension { .. })
}

/// The oldest part of a ring in its first lap, whose newest part is not in the file.
fn oldest_part<'a>(header: &RingHeader, raw: &'a [u8]) -> (RingHeader, Slots<'a>) {
    let part = |slots: usize| {
        let position = Position {
            laps: 0,
            offset: (slots * SLOT_BYTES) as u64,
        };
        Slots::new(&raw[..slots * SLOT_BYTES], position)
    };
    let slots = part(certain_end(header, raw.len() / SLOT_BYTES, part));

    // From the start, times follow each other; the time of the last one takes the place of the ring's end.
    let (mut oldest, mut span) = (None, 0_u64);
    let mut last_whole = None;
    for event in slots.events() {
        let counter = event.counter();
        if let Some(newer) = oldest {
            // The counter of another core may be ahead by a few ticks.
            if counter.wrapping_sub(newer) <= SKEW {
                continue;
            }
            span += u64::from(newer.wrapping_sub(counter));
        }
        oldest = Some(counter);
        if let Some((_, now)) = full_time::of(&event) {
            last_whole = Some(now.saturating_add(span));
            break;
        }
    }
    let oldest = oldest.unwrap_or(header.started_counter as u32);
    let first = u64::from(oldest.wrapping_sub(header.started_counter as u32));
    let last = last_whole.unwrap_or_else(|| {
        header
            .started_counter
            .saturating_add(first)
            .saturating_add(span)
    });
    let header = RingHeader {
        position: Position {
            laps: 0,
            offset: (slots.len() * SLOT_BYTES) as u64,
        },
        stopped_counter: last.min(header.stopped_counter),
        ..header.clone()
    };
    (header, slots)
}

/// How many of the first `slots` slots of a ring end with an event for certain.
///
/// The file may end in the middle of an event: then the slots at the end are payload, which may look like events. So each of
/// the last slots is tried as the newest event. Those that lead to the fewest oddities disagree about the newest events only,
/// and what they agree about is certain.
fn certain_end<'a>(header: &RingHeader, slots: usize, part: impl Fn(usize) -> Slots<'a>) -> usize {
    let events_only = header.mode == RingMode::Events;
    let ends = slots.saturating_sub(EVENT_SLOTS - 1)..=slots;
    let tried: Vec<_> = ends
        .map(|end| (oddities(part(end), events_only), end))
        .collect();
    let fewest = tried.iter().map(|&(odd, _)| odd).min();
    let mut certain: Option<Vec<usize>> = None;
    for &(_, end) in tried.iter().filter(|&&(odd, _)| Some(odd) == fewest) {
        let events = part(end).events().take(2 * EVENTS_AT_END);
        let ends: Vec<usize> = events.map(|event| event.index + 1).collect();
        certain = Some(match certain {
            Some(agreed) => agreed
                .into_iter()
                .filter(|end| ends.contains(end))
                .collect(),
            None => ends,
        });
    }
    let newest = certain.and_then(|ends| ends.into_iter().max());
    newest.unwrap_or(0)
}

/// How many of the newest events are unknown or of another mode, or seem to be far apart.
fn oddities(slots: Slots<'_>, events_only: bool) -> usize {
    let mut newer: Option<u32> = None;
    let mut odd = 0;
    for event in slots.events().take(EVENTS_AT_END) {
        odd += usize::from(match event.event() {
            Event::Extension { number } => Extension::from_number(number).is_none(),
            _ => events_only,
        });
        let gap = newer.map_or(0, |newer| newer.wrapping_sub(event.counter()));
        odd += usize::from((u32::MAX / 2..u32::MAX - SKEW).contains(&gap));
        newer = Some(event.counter());
    }
    odd
}
