// SPDX-License-Identifier: Apache-2.0
//! What is still under way at the end of a ring that was taken: calls, and the events that began something.
//!
//! The ring is read backwards, by the control thread, while the ring's thread goes on in another one. An entry that no exit after
//! it belongs to is of a call that is open; so is a message, task, wait or transaction whose end does not follow.
//!
//! All that a thread recorded since its last exit is open: from there on, nothing is left out.

use hindsight_trace_format::container::{OpenCalls, RingMode};
use hindsight_trace_format::reverse::{EventRef, Slots};
use hindsight_trace_format::ring::Position;
use hindsight_trace_format::shared::{Open, OpenEvent};
use hindsight_trace_format::slot::{Event, Extension, FIRST_METHOD, SLOT_BYTES, TAG_WIDE_ENTRY};

use crate::thread::taken::TakenRing;

/// The most open calls that are looked up, innermost first: more than the page has room for.
const MAX_CALLS: usize = 512;
/// The most events that are read: of a larger ring, the newest.
const MAX_EVENTS: usize = 1 << 21;
/// The most ends whose beginnings have not been found yet.
const MAX_ENDS: usize = 64;

const FULL_TIME: u32 = Extension::FullTime.number();
const UNWOUND: u32 = Extension::Unwound.number();
const STARTED: u32 = Extension::Started.number();
const ENTERED_BEFORE: u32 = Extension::EnteredBefore.number();

/// What an event begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Message,
    Task,
    Wait,
    Transaction,
    Served,
}

impl Thing {
    /// How many may be open at a time. A looper that polls may run code that waits, too.
    fn most(self) -> usize {
        match self {
            Thing::Wait => 2,
            Thing::Message | Thing::Task | Thing::Transaction | Thing::Served => 1,
        }
    }
}

/// Whether an event begins or ends something, and which.
fn bound(kind: Extension, payload: &[u64]) -> Option<(bool, Thing, u64)> {
    let get = |name| kind.spec().field(name).map_or(0, |f| f.get(payload));
    Some(match kind {
        Extension::MessageDispatched => (true, Thing::Message, get("message")),
        Extension::MessageDone => (false, Thing::Message, get("message")),
        Extension::TaskBegin => (true, Thing::Task, get("task")),
        Extension::TaskEnd => (false, Thing::Task, get("task")),
        Extension::WaitBegin => (true, Thing::Wait, get("number")),
        Extension::WaitEnd => (false, Thing::Wait, get("number")),
        // Nobody waits for the end of a one-way transaction.
        Extension::BinderSend if get("one-way") == 0 => {
            (true, Thing::Transaction, get("transaction"))
        }
        Extension::BinderReply => (false, Thing::Transaction, get("transaction")),
        Extension::BinderServe => (true, Thing::Served, get("transaction")),
        Extension::BinderServed => (false, Thing::Served, get("transaction")),
        _ => return None,
    })
}

/// Whether an event is of no use once it is over, so that all is known without it.
fn is_passing(kind: Extension) -> bool {
    matches!(
        kind,
        Extension::StackAgain
            | Extension::ThreadCpuTime
            | Extension::Allocations
            | Extension::ResourceUse
            | Extension::CheckpointBegin
            | Extension::CheckpointEnd
    )
}

/// What is open at the end of a ring, from it and from what was under way at its beginning, if that is noted.
pub(crate) fn at_end_of(taken: &TakenRing) -> Open {
    at_end_within(taken, MAX_EVENTS)
}

/// The same, by so many of the newest events at most.
fn at_end_within(taken: &TakenRing, most: usize) -> Open {
    let mut reading = Reading::new(taken, most);
    let noted = taken.open_calls().filter(|_| !reading.is_whole);
    let goes_on = reading.read(taken.slots(), noted.as_ref());
    if let Some(before) = taken.under_way().filter(|_| goes_on) {
        let mut words = before.slots();
        // The time at which the ring begins: all is known on both sides of it.
        words.pop();
        let raw: Vec<u8> = words.iter().flat_map(|s| s.0.to_le_bytes()).collect();
        let position = Position {
            laps: 0,
            offset: (words.len() * SLOT_BYTES) as u64,
        };
        reading.read(Slots::new(&raw, position), None);
    }
    reading.into_found()
}

/// The same, for a ring of this mode.
pub(crate) fn for_mode(mut open: Open, mode: RingMode) -> Open {
    if mode == RingMode::Events {
        open.calls.clear();
        let is_call = |event: &OpenEvent| {
            let low = event.slots.last().map_or(0, |slot| *slot as u32);
            low == TAG_WIDE_ENTRY || low >= FIRST_METHOD
        };
        open.since.retain(|event| !is_call(event));
    }
    open
}

/// The state between two events, of which the later one has been read. Everything newest, or innermost, first.
struct Reading {
    found: Open,
    /// The ring has all that was recorded since it began.
    is_whole: bool,
    /// So many events are read at most.
    most: usize,
    /// Number, since the start of the ring, of its oldest slot.
    first: u64,
    /// The next event is no newer, ticks.
    limit: u64,
    /// All events so far are among those found, or of no use; their words.
    since_words: Option<usize>,
    /// Exits whose entries have not been found yet.
    exits: u64,
    /// All open calls that can be found have been.
    calls_are_known: bool,
    /// Ends whose beginnings have not been found yet.
    ends: Vec<(Thing, u64)>,
    /// The things that were found to be open.
    open: Vec<Thing>,
    /// A `LockWait` that comes next belongs to a wait that is open.
    may_be_of_open_wait: bool,
    /// As far as the events tell, the thread still has the stack that comes next.
    may_have_stack: bool,
}

impl Reading {
    fn new(taken: &TakenRing, most: usize) -> Self {
        let header = &taken.header;
        let newest = taken.anchors.first().map(|anchor| anchor.counter);
        let written = header.position.slots_written(header.geometry);
        Reading {
            found: Open {
                complete_from: header.started_counter,
                ..Open::default()
            },
            is_whole: header.position.laps == 0,
            most,
            first: written.saturating_sub(taken.slots().len() as u64),
            limit: newest.unwrap_or(header.stopped_counter),
            since_words: Some(0),
            exits: 0,
            calls_are_known: header.mode == RingMode::Events,
            ends: Vec::new(),
            open: Vec::new(),
            may_be_of_open_wait: true,
            may_have_stack: header.mode == RingMode::Events,
        }
    }

    /// Reads these slots, which are older than all before. `noted`: the calls that were open at a place among them. False if
    /// nothing that is older is known to go on.
    fn read(&mut self, slots: Slots<'_>, noted: Option<&OpenCalls>) -> bool {
        for (count, event) in slots.events().enumerate() {
            if count == self.most {
                // What stands between these and the ring's beginning is not known.
                self.is_whole = false;
                return false;
            }
            let number = self.first + event.index as u64;
            if let Some(noted) = noted.filter(|noted| number < noted.slots_written) {
                self.add_noted(noted);
            }
            if !self.event(&event) {
                return false;
            }
        }
        if let Some(noted) = noted {
            self.add_noted(noted);
        }
        true
    }

    fn into_found(mut self) -> Open {
        if self.since_words.is_some() && !self.is_whole {
            self.found.complete_from = self.limit;
        }
        let Open {
            before,
            calls,
            since,
            ..
        } = &mut self.found;
        before.reverse();
        calls.reverse();
        since.reverse();
        self.found
    }

    /// The calls that are not in the newer slots: of those that were open then, the outermost ones.
    fn add_noted(&mut self, noted: &OpenCalls) {
        if std::mem::replace(&mut self.calls_are_known, true) {
            return;
        }
        let left = noted.count.saturating_sub(self.exits);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        // The inner ones of very many have no names. Calls outside of unknown ones would seem to be their callers.
        if let Some(named) = noted.methods.get(..left) {
            self.end_since(self.limit);
            let room = MAX_CALLS.saturating_sub(self.found.calls.len());
            let innermost_first = named.iter().rev().take(room);
            self.found.calls.extend(innermost_first);
        }
    }

    /// Not all is known of what is older than this.
    fn end_since(&mut self, counter: u64) {
        if self.since_words.take().is_some() {
            self.found.complete_from = counter;
        }
    }

    /// Keeps an event as one of those since which all is known, if there is room for it.
    fn keep_since(&mut self, event: &EventRef<'_>, counter: u64) -> bool {
        let kept = open_event(event, counter);
        let later = self.found.since.last().map_or(u64::MAX, |e| e.counter);
        let words = self.since_words.map(|words| words + kept.words(later));
        match words.filter(|words| *words <= Open::SINCE_WORDS) {
            None => self.end_since(counter),
            words => {
                self.since_words = words;
                self.found.since.push(kept);
            }
        }
        self.since_words.is_some()
    }

    fn event(&mut self, event: &EventRef<'_>) -> bool {
        let counter = at_most(self.limit, event.counter());
        self.limit = counter;
        match event.event() {
            Event::Exit => self.left(1, counter),
            Event::Entry { .. } | Event::WideEntry => self.entered(event, counter),
            Event::Extension { number } => return self.extension(event, number, counter),
        }
        true
    }

    fn extension(&mut self, event: &EventRef<'_>, number: u32, counter: u64) -> bool {
        let first = event.payload(0).unwrap_or_default();
        match number {
            STARTED => {
                self.end_since(counter);
                return false;
            }
            FULL_TIME => self.limit = counter.min(first),
            UNWOUND => self.left(first, counter),
            ENTERED_BEFORE => {
                self.end_since(counter);
                self.entered(event, counter);
            }
            _ => match Extension::from_number(number) {
                Some(kind) => self.other(event, kind, counter),
                None => self.end_since(counter),
            },
        }
        true
    }

    fn left(&mut self, calls: u64, counter: u64) {
        self.end_since(counter);
        self.exits = self.exits.saturating_add(calls);
    }

    fn entered(&mut self, event: &EventRef<'_>, counter: u64) {
        if self.calls_are_known {
            return;
        }
        if let Some(left) = self.exits.checked_sub(1) {
            self.exits = left;
        } else if !self.keep_since(event, counter) {
            let method = event.entered_method().or_else(|| event.payload(0));
            self.found.calls.extend(method);
        }
        self.calls_are_known = self.found.calls.len() >= MAX_CALLS;
    }

    fn other(&mut self, event: &EventRef<'_>, kind: Extension, counter: u64) {
        let payload: Vec<u64> = event.payloads().collect();
        let may_be_of_open_wait = std::mem::take(&mut self.may_be_of_open_wait);
        let is_kept = match kind {
            Extension::LockWait => may_be_of_open_wait,
            Extension::Stack | Extension::PackedStack => std::mem::take(&mut self.may_have_stack),
            _ => self.is_open(kind, &payload),
        };
        // What else a thread records while it waits does not end the wait.
        let is_end = bound(kind, &payload).is_some_and(|(begins, ..)| !begins);
        self.may_be_of_open_wait = match kind {
            Extension::WaitBegin => is_kept,
            _ => may_be_of_open_wait && !is_end && kind != Extension::LockWait,
        };
        if !is_kept {
            if !is_passing(kind) {
                self.end_since(counter);
            }
        } else if !self.keep_since(event, counter) {
            self.found.before.push(open_event(event, counter));
        }
    }

    /// Whether this is an event that began something that is still open.
    fn is_open(&mut self, kind: Extension, payload: &[u64]) -> bool {
        let Some((begins, thing, id)) = bound(kind, payload) else {
            return false;
        };
        // Stacks of another message or task do not tell where the thread is.
        self.may_have_stack &= !matches!(thing, Thing::Message | Thing::Task);
        if !begins {
            if self.ends.len() < MAX_ENDS {
                self.ends.push((thing, id));
            }
            return false;
        }
        if let Some(end) = self.ends.iter().rposition(|end| *end == (thing, id)) {
            self.ends.remove(end);
            return false;
        }
        let is_open = self.open.iter().filter(|open| **open == thing).count() < thing.most();
        if is_open {
            self.open.push(thing);
        }
        is_open
    }
}

/// An event with its slots.
fn open_event(event: &EventRef<'_>, counter: u64) -> OpenEvent {
    let closing = event.slot.0;
    OpenEvent {
        counter,
        slots: event.payloads().chain([closing]).collect(),
    }
}

/// The last time up to `limit` whose lower half is this one.
fn at_most(limit: u64, low: u32) -> u64 {
    let at = limit & !u64::from(u32::MAX) | u64::from(low);
    match at <= limit {
        true => at,
        false => at.saturating_sub(1 << 32),
    }
}

#[cfg(test)]
mod tests;
