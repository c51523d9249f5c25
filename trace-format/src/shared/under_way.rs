// SPDX-License-Identifier: Apache-2.0
//! What was under way on a thread when recording into a ring began, because the thread had another ring before.
//!
//! When a report takes the ring of a thread, the thread goes on in an empty one, and may stand still there for long. The control
//! thread then looks up which calls, message, waits and transactions were still open in the ring that it took, and notes them in a
//! page before the new ring's slots. A file that does not have the earlier ring gets them as the first slots of the new one.

use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::mem::offset_of;

use crate::methods::MethodAddresses;
use crate::reverse::Slots;
use crate::ring::Position;
use crate::slot::{Extension, Slot, PAYLOAD_MASK, SLOT_BYTES};

use super::source::{Copied, ReadAt};

/// Room for [`UnderWayPage`], bytes.
pub const UNDER_WAY_BYTES: usize = 4096;
/// Words for events and calls.
const WORDS: usize = UNDER_WAY_BYTES / size_of::<u64>() - 3;
/// The most words of events, the time at which the ring begins included.
const EVENT_WORDS: usize = 128;
/// Words of a [`Extension::FullTime`].
const FULL_TIME_WORDS: usize = 3;
/// The most words of an event with the time before it.
const MAX_EVENT_WORDS: usize = FULL_TIME_WORDS + PAYLOAD_MASK as usize + 1;

/// What was under way when recording into a ring began. Only the control thread writes it, never the ring's own thread.
#[derive(Debug)]
#[repr(C)]
pub struct UnderWayPage {
    /// The counter when recording into the ring began, ticks: written last. Another value than the ring's own: nothing is noted.
    started: AtomicU64,
    /// The counter at the oldest event, ticks.
    oldest: AtomicU64,
    /// Number of words of events in the lower half, and of calls in the upper one.
    lengths: AtomicU64,
    /// The events' slots, oldest first; then the methods of the calls, outermost first.
    words: [AtomicU64; WORDS],
}

const _: () = assert!(size_of::<UnderWayPage>() == UNDER_WAY_BYTES);

/// An event that began something which had not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenEvent<'a> {
    /// The counter at the event, ticks.
    pub counter: u64,
    /// Its number in the catalogue.
    pub number: u32,
    /// Its payload.
    pub payload: &'a [u64],
}

/// What was under way on a thread when recording into a ring began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderWay {
    started: u64,
    oldest: u64,
    /// The slots of events, oldest first, with their times and then that of the ring's beginning.
    events: Vec<u64>,
    /// The methods of the calls, outermost first.
    calls: Vec<u64>,
}

impl UnderWay {
    /// Of a ring that begins at this counter, with the events that began what is open, oldest first, and the methods of the open
    /// calls, outermost first. Where there is not enough room, older events and outer calls are left out.
    pub fn new(started: u64, events: &[OpenEvent<'_>], calls: &[u64]) -> Self {
        let kept = (EVENT_WORDS - FULL_TIME_WORDS) / MAX_EVENT_WORDS;
        let events = &events[events.len().saturating_sub(kept)..];
        let oldest = events.first().map_or(started, |e| e.counter.min(started));
        let (mut words, mut before) = (Vec::with_capacity(EVENT_WORDS), oldest);
        let mut append_time = |words: &mut Vec<u64>, counter: u64| {
            let now = counter.clamp(before, started);
            let closing = Slot::extension(Extension::FullTime, now).0;
            words.extend([std::mem::replace(&mut before, now), now, closing]);
            now
        };
        for event in events {
            let now = append_time(&mut words, event.counter);
            words.extend(event.payload);
            words.push(Slot::new(event.number, now).0);
        }
        append_time(&mut words, started);
        let room = WORDS - words.len();
        UnderWay {
            started,
            oldest,
            events: words,
            calls: calls[calls.len().saturating_sub(room)..].to_vec(),
        }
    }

    /// The counter at the oldest event, or when recording into the ring began, ticks.
    pub fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The methods of the calls, outermost first.
    pub fn calls(&self) -> &[u64] {
        &self.calls
    }

    /// The slots with which the ring begins in a file: the events at their own times, the time from which on the ring has all
    /// events, and the calls, whose beginnings are known to be no later.
    pub fn slots(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.events.iter().copied().map(Slot).collect();
        slots.push(Slot::extension(Extension::PartBegins, self.started));
        let entered = Slot::extension(Extension::EnteredBefore, self.started);
        let calls = self.calls.iter();
        slots.extend(calls.flat_map(|method| [Slot(*method), Slot(0), entered]));
        slots
    }

    /// Adds the addresses of all methods.
    pub fn add_methods(&self, addresses: &mut MethodAddresses) {
        self.calls.iter().for_each(|method| addresses.add(*method));
        let raw: Vec<u8> = self.events.iter().flat_map(|w| w.to_le_bytes()).collect();
        let position = Position {
            laps: 0,
            offset: (self.events.len() * SLOT_BYTES) as u64,
        };
        addresses.add_slots(Slots::new(&raw, position));
    }

    /// The bytes of the page that has it.
    pub fn encode(&self) -> Vec<u8> {
        let head = [self.started, self.oldest, self.lengths()];
        let words = head.iter().chain(&self.events).chain(&self.calls);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    fn lengths(&self) -> u64 {
        self.events.len() as u64 | (self.calls.len() as u64) << 32
    }

    /// Notes it before the ring's slots. The process may be killed at any instruction.
    pub fn write(&self, page: &UnderWayPage) {
        page.started.store(0, Ordering::Release);
        page.oldest.store(self.oldest, Ordering::Relaxed);
        page.lengths.store(self.lengths(), Ordering::Relaxed);
        for (to, word) in page.words.iter().zip(self.events.iter().chain(&self.calls)) {
            to.store(word.to_le(), Ordering::Relaxed);
        }
        page.started.store(self.started, Ordering::Release);
    }

    /// What is noted before the slots of a ring that begins at this counter. `None`: nothing is.
    pub fn read(page: &UnderWayPage, started: u64) -> Option<Self> {
        let noted = page.started.load(Ordering::Acquire);
        let lengths = page.lengths.load(Ordering::Relaxed);
        let oldest = page.oldest.load(Ordering::Relaxed);
        let word = |i: usize| u64::from_le(page.words[i].load(Ordering::Relaxed));
        Self::of_words((noted, oldest, lengths), started, word)
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
        let head = (
            page.u64(offset_of!(UnderWayPage, started)),
            page.u64(offset_of!(UnderWayPage, oldest)),
            page.u64(offset_of!(UnderWayPage, lengths)),
        );
        let word = |i: usize| page.u64(offset_of!(UnderWayPage, words) + size_of::<u64>() * i);
        Ok(Self::of_words(head, started, word))
    }

    fn of_words(
        (noted, oldest, lengths): (u64, u64, u64),
        started: u64,
        word: impl Fn(usize) -> u64,
    ) -> Option<Self> {
        let (events, calls) = (lengths as u32 as usize, (lengths >> 32) as usize);
        let fits = events <= EVENT_WORDS && events + calls <= WORDS;
        let is_noted = noted == started && started != 0 && fits && oldest <= started;
        is_noted.then(|| UnderWay {
            started,
            oldest,
            events: (0..events).map(&word).collect(),
            calls: (events..events + calls).map(&word).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::Event;

    const MESSAGE: u32 = Extension::MessageDispatched.number();

    fn empty_page() -> UnderWayPage {
        UnderWayPage {
            started: AtomicU64::new(0),
            oldest: AtomicU64::new(0),
            lengths: AtomicU64::new(0),
            words: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    fn bytes_of(page: &UnderWayPage) -> Vec<u8> {
        let head = [&page.started, &page.oldest, &page.lengths];
        let words = head.into_iter().chain(&page.words);
        words
            .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }

    /// The events in these slots, oldest first, with the low half of the counter and the payload.
    fn events(slots: &[Slot]) -> Vec<(Event, u32, Vec<u64>)> {
        let raw: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
        let position = Position {
            laps: 0,
            offset: raw.len() as u64,
        };
        let events = Slots::new(&raw, position).events();
        let mut events: Vec<_> = events
            .map(|e| (e.event(), e.counter(), e.payloads().collect()))
            .collect();
        events.reverse();
        events
    }

    fn extension(kind: Extension) -> Event {
        Event::Extension {
            number: kind.number(),
        }
    }

    #[test]
    fn events_keep_their_times_and_calls_begin_with_the_ring() {
        let (then, started) = (0x5_0000_0001, 0x9_0000_0003);
        let message = OpenEvent {
            counter: then,
            number: MESSAGE,
            payload: &[1, 0x7000_2000, 3],
        };
        let under_way = UnderWay::new(started, &[message], &[0x7000_1000, 0x12_3456_7890]);
        assert_eq!(under_way.oldest(), then);
        assert_eq!(
            events(&under_way.slots()),
            [
                (extension(Extension::FullTime), 1, vec![then, then]),
                (
                    extension(Extension::MessageDispatched),
                    1,
                    vec![1, 0x7000_2000, 3]
                ),
                (extension(Extension::FullTime), 3, vec![then, started]),
                (extension(Extension::PartBegins), 3, vec![]),
                (extension(Extension::EnteredBefore), 3, vec![0x7000_1000, 0]),
                (
                    extension(Extension::EnteredBefore),
                    3,
                    vec![0x12_3456_7890, 0]
                ),
            ]
        );
        let mut addresses = MethodAddresses::default();
        under_way.add_methods(&mut addresses);
        assert_eq!(
            addresses.sorted(),
            [0x7000_1000, 0x7000_2000, 0x12_3456_7890]
        );
    }

    #[test]
    fn a_page_counts_for_its_own_ring_only() {
        let under_way = UnderWay::new(77, &[], &[0x7000_1000]);
        let page = empty_page();
        assert_eq!(UnderWay::read(&page, 0), None, "a new ring has none");
        under_way.write(&page);
        assert_eq!(UnderWay::read(&page, 77), Some(under_way.clone()));
        assert_eq!(UnderWay::read(&page, 78), None);
        let bytes = bytes_of(&page);
        assert!(bytes.starts_with(&under_way.encode()));
        let read = |started| UnderWay::read_at(&bytes[..], 0, started).unwrap();
        assert_eq!((read(77), read(78)), (Some(under_way), None));
    }

    #[test]
    fn lengths_that_a_page_cannot_have_are_refused() {
        let page = empty_page();
        UnderWay::new(77, &[], &[1]).write(&page);
        for lengths in [u64::MAX, 129, 3 | 507 << 32, 1 << 63] {
            page.lengths.store(lengths, Ordering::Relaxed);
            assert_eq!(UnderWay::read(&page, 77), None, "{lengths:#x}");
        }
        page.lengths.store(3 | 500 << 32, Ordering::Relaxed);
        assert!(UnderWay::read(&page, 77).is_some());
        page.oldest.store(78, Ordering::Relaxed);
        assert_eq!(UnderWay::read(&page, 77), None, "younger than the ring");
    }

    #[test]
    fn of_too_much_the_newest_events_and_the_innermost_calls_are_kept() {
        let payload = [7; 7];
        let event = |n: u64| OpenEvent {
            counter: n,
            number: 8 * 100 + 7,
            payload: &payload,
        };
        let many: Vec<OpenEvent<'_>> = (1..100).map(event).collect();
        let calls: Vec<u64> = (0x7000_0000..0x7000_1000).collect();
        let under_way = UnderWay::new(1000, &many, &calls);
        let page = empty_page();
        under_way.write(&page);
        assert_eq!(UnderWay::read(&page, 1000), Some(under_way.clone()));
        let events = events(&under_way.slots());
        let last = events.last().unwrap();
        assert_eq!(last.2, [0x7000_0fff, 0]);
        let newest = events.iter().rfind(|e| e.2 == payload).unwrap();
        assert_eq!(newest.1, 99);
    }
}
