// SPDX-License-Identifier: Apache-2.0
//! What is written into a journal is read, as far as there is room for it.

use super::super::journal::JournalWriter;
use super::*;

fn class(name: &str, first: u64) -> Entry {
    let method = |n: u64| NamedMethod {
        address: first + n * 40,
        name: format!("m{n}"),
        signature: "void ()".into(),
        dex_method_index: n as u32,
    };
    Entry::Class(LinkedClass {
        counter: 7,
        class: name.into(),
        source_file: "Source.java".into(),
        dex_checksum: 9,
        methods: (0..3).map(method).collect(),
    })
}

fn written(entries: &[Entry], capacity: u64) -> (Vec<u8>, usize) {
    let mut writer = JournalWriter::new(capacity);
    let mut bytes = Vec::new();
    let mut dropped = 0;
    for entry in entries {
        match writer.records(entry) {
            Some(new) => bytes.extend(new),
            None => dropped += 1,
        }
        assert_eq!(writer.bytes(), bytes.len() as u64);
    }
    (bytes, dropped)
}

#[test]
fn what_is_written_is_read_and_each_string_is_there_once() {
    let entries = [
        Entry::Process {
            name: "com.example".into(),
            extra: vec![("key".into(), "value ä".into())],
        },
        class("A", 0x1000),
        Entry::EventName("A".into()),
        class("B", 0x2000),
    ];
    let (bytes, _) = written(&entries, 1 << 20);
    let read: Vec<Entry> = Entries::new(&bytes, None, usize::MAX).collect();
    assert_eq!(read, entries);
    let count = |text: &[u8]| bytes.windows(text.len()).filter(|w| *w == text).count();
    assert_eq!((count(b"Source.java"), count(b"void ()")), (1, 1));
    let wanted = [0x1028, 0x5000];
    let read: Vec<Entry> = Entries::new(&bytes, Some(&wanted), usize::MAX).collect();
    let [Entry::Process { .. }, Entry::Class(only), Entry::EventName(_)] = &read[..] else {
        panic!("{read:?}");
    };
    assert_eq!((only.class.as_str(), only.methods.len()), ("A", 1));
    assert_eq!(only.methods[0].name, "m1");
}

#[test]
fn a_long_class_comes_in_pieces_with_all_wanted_methods() {
    let mut entry = class("A", 0x1000);
    if let Entry::Class(class) = &mut entry {
        let method = |n: u64| NamedMethod {
            address: 0x1000 + n,
            ..class.methods[0].clone()
        };
        class.methods = (0..3 * PIECE as u64 + 1).map(method).collect();
    }
    let (bytes, _) = written(&[entry, class("B", 0x100)], 1 << 20);
    let even: Vec<u64> = (0..0x2000).step_by(2).collect();
    for (wanted, pieces, count) in [
        (None, 4, 3 * PIECE + 1),
        (Some(&even[..]), 2, 3 * PIECE / 2 + 1),
    ] {
        let read: Vec<Entry> = Entries::new(&bytes, wanted, usize::MAX).collect();
        let classes = read.iter().filter_map(|entry| match entry {
            Entry::Class(class) if class.class == "A" => Some(class),
            _ => None,
        });
        let classes: Vec<&LinkedClass> = classes.collect();
        assert_eq!(classes.len(), pieces);
        let methods = classes.iter().flat_map(|class| &class.methods);
        let mut addresses: Vec<u64> = methods.map(|method| method.address).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), count);
        assert_eq!(read.len(), pieces + 1, "the class behind it");
    }
}

#[test]
fn a_full_journal_refuses_records_and_loses_no_string_of_later_ones() {
    let small = Entry::EventName("small".into());
    let entries = [
        class("A", 0x1000),
        class("Bbbbbbbbbbbbbbbbb", 0x2000),
        small.clone(),
    ];
    let room = written(&entries[..1], 1 << 20).0.len() as u64 + 48;
    let (bytes, dropped) = written(&entries, room);
    assert_eq!(dropped, 1);
    let read: Vec<Entry> = Entries::new(&bytes, None, usize::MAX).collect();
    assert_eq!(read, [entries[0].clone(), small]);
}

#[test]
fn damaged_records_end_the_journal_or_have_empty_strings() {
    let (bytes, _) = written(&[class("A", 0x1000), class("B", 0x2000)], 1 << 20);
    for at in 0..bytes.len() {
        for value in [0, 1, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            assert!(Entries::new(&damaged, None, usize::MAX).count() <= 2);
            assert!(Entries::new(&damaged[..at], None, usize::MAX).count() <= 2);
        }
    }
}

#[test]
fn a_string_that_is_named_often_does_not_fill_the_memory() {
    let long = "x".repeat(MAX_STRING);
    let facts = |count| Entry::Process {
        name: "p".into(),
        extra: vec![(long.clone(), long.clone()); count],
    };
    let mut methods = class("A", 0x1000);
    if let Entry::Class(class) = &mut methods {
        class.methods = vec![
            NamedMethod {
                address: 0x1000,
                name: long.clone(),
                ..NamedMethod::default()
            };
            1000
        ];
    }
    let names = vec![Entry::EventName(long.clone()); 1000];
    for entries in [&[facts(1000)][..], &[methods], &names] {
        const ROOM: usize = 100_000;
        let (bytes, _) = written(entries, 1 << 20);
        let mut read = Entries::new(&bytes, Some(&[0x1000]), ROOM);
        let text: usize = (read.by_ref())
            .map(|entry| format!("{entry:?}").matches('x').count())
            .sum();
        assert!(text > ROOM / 8 && text <= ROOM, "{text} bytes");
        assert!(read.left_out() > 900);
    }
}
