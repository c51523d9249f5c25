// SPDX-License-Identifier: Apache-2.0
//! What was under way on a thread when recording into a ring began, because the thread had another ring before.
//!
//! When a report takes the ring of a thread, the thread goes on in an empty one, and may stand still there for long. The control
//! thread then looks up which calls, message, waits and transactions were still open in the ring that it took, and notes them in a
//! page before the new ring's slots. A file that does not have the earlier ring gets them as the first slots of the new one.

use core::sync::atomic::Ordering;
use std::io;
use std::mem::offset_of;

use crate::methods::MethodAddresses;
use crate::reverse::Slots;
use crate::ring::Position;
use crate::slot::{Extension, Slot, SLOT_BYTES};

use super::layout::{UnderWayPage, UNDER_WAY_BYTES, UNDER_WAY_WORDS};
use super::source::{Copied, ReadAt};

/// The most words of what is older than the time from which on all is known, and of what is younger, with their times.
const PART_WORDS: usize = 160;
/// Words of a [`Extension::FullTime`].
const FULL_TIME_WORDS: usize = 3;

/// An event that began something which had not ended: a call, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenEvent {
    /// The counter at the event, ticks.
    pub counter: u64,
    /// Its slots.
    pub slots: Vec<u64>,
}

/// What is under way, and what is known of it. Events are in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Of what was recorded from this counter on, all is known, ticks.
    pub complete_from: u64,
    /// Events before that; others are missing between them.
    pub before: Vec<OpenEvent>,
    /// The methods of the calls that began before that, outermost first.
    pub calls: Vec<u64>,
    /// All events since then, entries of calls among them.
    pub since: Vec<OpenEvent>,
}

impl Open {
    /// The most words that `since` may have: each event its [`words`](OpenEvent::words).
    pub const SINCE_WORDS: usize = PART_WORDS - 2 * FULL_TIME_WORDS;
}

impl OpenEvent {
    /// Its slots and, if the counter's upper half is another one than at the event after it, those for its time.
    pub fn words(&self, later: u64) -> usize {
        let has_time = self.counter >> 32 != later >> 32;
        self.slots.len() + if has_time { FULL_TIME_WORDS } else { 0 }
    }
}

/// What was under way on a thread when recording into a ring began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    started: u64,
    oldest: u64,
    complete_from: u64,
    /// The slots of events, oldest first, with their times. The time from which on all is known comes last.
    before: Vec<u64>,
    /// The methods of the calls, outermost first.
    calls: Vec<u64>,
    /// The slots of events, oldest first, with their times. The time at which the ring begins comes last.
    since: Vec<u64>,
}

/// Events with their times from `first` to `end`, and `end`; the oldest are left out if there is not enough room.
fn with_times(events: &[OpenEvent], first: u64, end: u64) -> Vec<u64> {
    let (mut left, mut later) = (Open::SINCE_WORDS, end);
    let fits = |event: &&OpenEvent| {
        let rest = left.checked_sub(event.words(later));
        (left, later) = (rest.unwrap_or(0), event.counter);
        rest.is_some()
    };
    let kept = events.iter().rev().take_while(fits).count();
    let (mut words, mut before) = (Vec::with_capacity(PART_WORDS), first);
    for (nth, event) in events[events.len() - kept..].iter().enumerate() {
        let now = event.counter.clamp(before, end);
        if nth == 0 || now >> 32 != before >> 32 {
            append_time(&mut words, &mut before, now);
        }
        before = now;
        if let Some((closing, payload)) = event.slots.split_last() {
            words.extend(payload);
            words.push(Slot::new(Slot(*closing).low(), now).0);
        }
    }
    append_time(&mut words, &mut before, end);
    words
}

fn append_time(words: &mut Vec<u64>, before: &mut u64, now: u64) {
    let closing = Slot::extension(Extension::FullTime, now).0;
    words.extend([std::mem::replace(before, now), now, closing]);
}

impl UnderWay {
    /// Of a ring that begins at this counter. Where there is not enough room, older events and outer calls are left out.
    pub fn new(started: u64, open: &Open) -> Self {
        let complete_from = open.complete_from.min(started);
        let oldest = open.before.first().map_or(complete_from, |e| e.counter);
        let oldest = oldest.min(complete_from);
        let before = with_times(&open.before, oldest, complete_from);
        let since = with_times(&open.since, complete_from, started);
        let room = UNDER_WAY_WORDS - before.len() - since.len();
        UnderWay {
            started,
            oldest,
            complete_from,
            before,
            calls: open.calls[open.calls.len().saturating_sub(room)..].to_vec(),
            since,
        }
    }

    /// The same beside the ring that the thread had before, which has all events: only the calls, from the beginning of this ring
    /// on.
    #[must_use]
    pub fn beside_ring_before(&self) -> Self {
        let position = Position {
            laps: 0,
            offset: (self.since.len() * SLOT_BYTES) as u64,
        };
        let raw: Vec<u8> = self.since.iter().flat_map(|w| w.to_le_bytes()).collect();
        let entered = Slots::new(&raw, position).events();
        let mut since: Vec<u64> = entered.filter_map(|e| e.entered_method()).collect();
        since.reverse();
        UnderWay {
            started: self.started,
            oldest: self.started,
            complete_from: self.started,
            before: Vec::new(),
            calls: [&self.calls[..], &since].concat(),
            since: Vec::new(),
        }
    }

    /// The counter at the oldest event, or from which on all is known, ticks.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The slots with which the ring begins in a file: older events at their own times; the time from which on all is known; the
    /// calls that began before, and are known to be no younger; the events since then; and the time at which the ring itself begins.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.before.iter().copied().map(Slot).collect();
        slots.push(Slot::extension(Extension::PartBegins, self.complete_from));
        let entered = Slot::extension(Extension::EnteredBefore, self.complete_from);
        let calls = self.calls.iter();
        slots.extend(calls.flat_map(|method| [Slot(*method), Slot(0), entered]));
        slots.extend(self.since.iter().copied().map(Slot));
        slots.push(Slot::extension(Extension::PartBegins, self.started));
        slots
    }

    /// Adds the addresses of all methods.
    pub fn add_methods(&self, addresses: &mut MethodAddresses) {
        let slots = self.slots();
        let raw: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
        let position = Position {
            laps: 0,
            offset: raw.len() as u64,
        };
        addresses.add_slots(Slots::new(&raw, position));
    }

    /// The bytes of the page that has it.
    pub fn encode(&self) -> Vec<u8> {
        let words = self.head().into_iter().chain(self.words());
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn head(&self) -> [u64; 4] {
        let length = |words: &Vec<u64>| words.len() as u64;
        let lengths = length(&self.before) | length(&self.calls) << 16 | length(&self.since) << 32;
        [self.started, self.oldest, self.complete_from, lengths]
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.before.iter().chain(&self.calls).chain(&self.since);
        words.copied()
    }

    /// Notes it before the ring's slots. The process may be killed at any instruction.
    pub fn write(&self, page: &UnderWayPage) {
        let [started, oldest, complete_from, lengths] = self.head();
        page.started.store(0, Ordering::Release);
        page.oldest.store(oldest, Ordering::Relaxed);
        page.complete_from.store(complete_from, Ordering::Relaxed);
        page.lengths.store(lengths, Ordering::Relaxed);
        for (to, word) in page.words.iter().zip(self.words()) {
            to.store(word.to_le(), Ordering::Relaxed);
        }
        page.started.store(started, Ordering::Release);
    }

    /// What is noted before the slots of a ring that begins at this counter. `None`: nothing is.
    pub fn read(page: &UnderWayPage, started: u64) -> Option<Self> {
        let head = [
            page.started.load(Ordering::Acquire),
            page.oldest.load(Ordering::Relaxed),
            page.complete_from.load(Ordering::Relaxed),
            page.lengths.load(Ordering::Relaxed),
        ];
        let word = |i: usize| u64::from_le(page.words[i].load(Ordering::Relaxed));
        Self::of_words(head, started, word)
    }

    /// The same, from the memory of a process that may be hostile. `at`: where the page stands, bytes.
    pub(super) fn read_at(
        memory: &(impl ReadAt + ?Sized),
        at: u64,
        started: u64,
    ) -> io::Result<Option<Self>> {
        let mut bytes = [0; UNDER_WAY_BYTES];
        memory.read_at(at, &mut bytes)?;
        let page = Copied(&bytes);
        let head = [
            page.u64(offset_of!(UnderWayPage, started)),
            page.u64(offset_of!(UnderWayPage, oldest)),
            page.u64(offset_of!(UnderWayPage, complete_from)),
            page.u64(offset_of!(UnderWayPage, lengths)),
        ];
        let word = |i: usize| page.u64(offset_of!(UnderWayPage, words) + size_of::<u64>() * i);
        Ok(Self::of_words(head, started, word))
    }

    fn of_words(
        [noted, oldest, complete_from, lengths]: [u64; 4],
        started: u64,
        word: impl Fn(usize) -> u64,
    ) -> Option<Self> {
        let length = |shift: u32| usize::from((lengths >> shift) as u16);
        let (before, calls, since) = (length(0), length(16), length(32));
        let fits = before <= PART_WORDS
            && since <= PART_WORDS
            && before + calls + since <= UNDER_WAY_WORDS;
        let is_in_order = oldest <= complete_from && complete_from <= started;
        let is_noted = noted == started && started != 0 && fits && is_in_order;
        let words = |from: usize, count: usize| (from..from + count).map(&word).collect();
        is_noted.then(|| UnderWay {
            started,
            oldest,
            complete_from,
            before: words(0, before),
            calls: words(before, calls),
            since: words(before + calls, since),
        })
    }
}

#[cfg(test)]
mod tests;
