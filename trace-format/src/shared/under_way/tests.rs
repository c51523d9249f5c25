// SPDX-License-Identifier: Apache-2.0
//! Tests of the notes about what was under way.

use core::sync::atomic::AtomicU64;

use super::*;
use crate::slot::{Event, TAG_WIDE_ENTRY};

const MESSAGE: u32 = Extension::MessageDispatched.number();

fn empty_page() -> UnderWayPage {
    UnderWayPage {
        started: AtomicU64::new(0),
        oldest: AtomicU64::new(0),
        complete_from: AtomicU64::new(0),
        lengths: AtomicU64::new(0),
        words: [const { AtomicU64::new(0) }; UNDER_WAY_WORDS],
    }
}

fn bytes_of(page: &UnderWayPage) -> Vec<u8> {
    let head = [
        &page.started,
        &page.oldest,
        &page.complete_from,
        &page.lengths,
    ];
    let words = head.into_iter().chain(&page.words);
    words
        .flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes())
        .collect()
}

fn event(counter: u64, number: u32, payload: &[u64]) -> OpenEvent {
    let closing = Slot::new(number, counter).0;
    OpenEvent {
        counter,
        slots: payload.iter().copied().chain([closing]).collect(),
    }
}

fn only_calls(calls: &[u64]) -> Open {
    Open {
        complete_from: u64::MAX,
        calls: calls.to_vec(),
        ..Open::default()
    }
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

#[test]
fn events_keep_their_times_and_older_calls_begin_when_all_is_known() {
    let (then, from) = (0x5_0000_0001, 0x6_0000_0002);
    let (since, started) = (0x8_0000_0003, 0x9_0000_0004);
    let open = Open {
        complete_from: from,
        before: vec![event(then, MESSAGE, &[1, 0x7000_2000, 3])],
        calls: vec![0x7000_1000, 0x12_3456_7890],
        since: vec![event(since, 0x7000_3000, &[])],
    };
    let under_way = UnderWay::new(started, &open);
    assert_eq!(under_way.oldest(), then);
    let is = |kind: Extension| Event::Extension {
        number: kind.number(),
    };
    let entered = is(Extension::EnteredBefore);
    let method = 0x7000_3000;
    assert_eq!(
        events(&under_way.slots()),
        [
            (is(Extension::FullTime), 1, vec![then, then]),
            (is(Extension::MessageDispatched), 1, vec![1, 0x7000_2000, 3]),
            (is(Extension::FullTime), 2, vec![then, from]),
            (is(Extension::PartBegins), 2, vec![]),
            (entered, 2, vec![0x7000_1000, 0]),
            (entered, 2, vec![0x12_3456_7890, 0]),
            (is(Extension::FullTime), 3, vec![from, since]),
            (Event::Entry { method }, 3, vec![]),
            (is(Extension::FullTime), 4, vec![since, started]),
            (is(Extension::PartBegins), 4, vec![]),
        ]
    );
    let mut addresses = MethodAddresses::default();
    under_way.add_methods(&mut addresses);
    assert_eq!(
        addresses.sorted(),
        [0x7000_1000, 0x7000_2000, 0x7000_3000, 0x12_3456_7890]
    );
}

#[test]
fn beside_the_ring_before_only_the_calls_go_on() {
    let open = Open {
        complete_from: 60,
        before: vec![event(50, MESSAGE, &[1, 0x7000_2000, 3])],
        calls: vec![0x7000_1000],
        since: vec![
            event(70, MESSAGE, &[2, 0x7000_2000, 3]),
            event(80, TAG_WIDE_ENTRY, &[0x12_3456_7890]),
            event(90, 0x7000_3000, &[]),
        ],
    };
    let beside = UnderWay::new(100, &open).beside_ring_before();
    assert_eq!(beside.oldest(), 100);
    let events = events(&beside.slots());
    let calls = events.iter().map(|(_, at, payload)| (*at, payload.first()));
    let expected = [0x7000_1000, 0x12_3456_7890, 0x7000_3000];
    let expected = expected.iter().map(|method| (100, Some(method)));
    let begins = || std::iter::once((100, None));
    assert!(calls.eq(begins().chain(expected).chain(begins())));
}

#[test]
fn a_page_counts_for_its_own_ring_only() {
    let under_way = UnderWay::new(77, &only_calls(&[0x7000_1000]));
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
fn what_a_page_cannot_have_is_refused() {
    let page = empty_page();
    UnderWay::new(77, &only_calls(&[1])).write(&page);
    for lengths in [u64::MAX, 161, 161 << 32, 3 | 506 << 16, 0xffff << 16] {
        page.lengths.store(lengths, Ordering::Relaxed);
        assert_eq!(UnderWay::read(&page, 77), None, "{lengths:#x}");
    }
    page.lengths.store(3 | 505 << 16, Ordering::Relaxed);
    assert!(UnderWay::read(&page, 77).is_some());
    page.oldest.store(78, Ordering::Relaxed);
    assert_eq!(UnderWay::read(&page, 77), None, "younger than the ring");
    page.complete_from.store(78, Ordering::Relaxed);
    assert_eq!(UnderWay::read(&page, 77), None, "younger than the ring");
}

#[test]
fn of_too_much_the_newest_events_and_the_innermost_calls_are_kept() {
    let payload = [7; 7];
    let many = |from: u64| (from..from + 100).map(|n| event(n, 8 * 100 + 7, &payload));
    let open = Open {
        complete_from: 500,
        before: many(100).collect(),
        calls: (0x7000_0000..0x7000_1000).collect(),
        since: many(600).collect(),
    };
    let under_way = UnderWay::new(1000, &open);
    let page = empty_page();
    under_way.write(&page);
    assert_eq!(UnderWay::read(&page, 1000), Some(under_way.clone()));
    let events = events(&under_way.slots());
    let entered = events
        .iter()
        .filter(|e| e.2.len() == 2 && e.2[1] == 0)
        .map(|e| e.2[0]);
    assert_eq!(entered.clone().next_back(), Some(0x7000_0fff));
    assert!(entered.count() > 150);
    let newest = |before| {
        let mut found = events.iter().filter(|e| e.2 == payload && e.1 < before);
        (found.clone().count() > 10).then(|| found.next_back().unwrap().1)
    };
    assert_eq!((newest(500), newest(1000)), (Some(199), Some(699)));
}
