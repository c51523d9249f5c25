// SPDX-License-Identifier: Apache-2.0

use super::super::journal::{LinkedClass, NamedMethod};
use super::*;

const BEGIN: u64 = 0x7000_0000;
const MOST: u64 = 1 << 26;

fn image(begin: u64) -> BootImage {
    BootImage::of([[begin + 0x1000, 0x800, 8], [begin, 0x1000, 7]])
}

fn class(name: &str, methods: &[(u64, &str)]) -> Entry {
    let method = |(address, name): &(u64, &str)| NamedMethod {
        address: *address,
        name: (*name).to_owned(),
        signature: "()V".to_owned(),
        dex_method_index: 3,
    };
    Entry::Class(LinkedClass {
        counter: 99,
        class: name.to_owned(),
        source_file: format!("{name}.java"),
        dex_checksum: 5,
        methods: methods.iter().map(method).collect(),
    })
}

/// The memory of a process with this boot image and these classes.
fn memory(image: BootImage, entries: &[Entry]) -> Vec<u8> {
    let mut writer = JournalWriter::new(1 << 26);
    let records = entries
        .iter()
        .flat_map(|entry| writer.records(entry).unwrap());
    let journal: Vec<u8> = records.collect();
    let mut bytes = vec![0; HEADER_BYTES];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, u64::from_le_bytes(SHARED_MAGIC));
    put(offset_of!(Header, version), u64::from(SHARED_VERSION));
    put(offset_of!(Header, journal), HEADER_BYTES as u64);
    put(offset_of!(Header, journal) + 8, journal.len() as u64);
    put(offset_of!(Header, committed), journal.len() as u64);
    put(offset_of!(Header, are_named), 1);
    for (number, value) in [image.checksum, image.begin, image.bytes]
        .into_iter()
        .enumerate()
    {
        put(offset_of!(Header, boot_image) + 8 * number, value);
    }
    bytes.extend(journal);
    bytes
}

fn learn(memory: &[u8]) -> Option<BootNames> {
    BootNames::learn(memory, MOST).unwrap()
}

fn known() -> BootNames {
    let entries = [
        class("A", &[(BEGIN, "first"), (BEGIN + 0x17ff, "last")]),
        class("App", &[(BEGIN + 0x1800, "after"), (BEGIN - 1, "before")]),
        class("B", &[(BEGIN + 8, ""), (BEGIN + 16, "b")]),
    ];
    learn(&memory(image(BEGIN), &entries)).unwrap()
}

/// The names of these methods.
fn symbols(names: &BootNames, image: &BootImage, addresses: &[u64]) -> Vec<Symbol> {
    let addresses = addresses.iter().copied();
    let (symbols, left_out) = names.symbols(image, addresses, usize::MAX);
    assert_eq!(left_out, 0);
    symbols
}

#[test]
fn images_are_told_apart_wherever_they_are() {
    assert_eq!(image(BEGIN).bytes, 0x1800);
    assert_eq!(image(BEGIN).checksum, image(0x1234_5000).checksum);
    let first = [BEGIN, 0x1000, 7];
    let others = [
        vec![first],
        vec![first, [BEGIN + 0x1000, 0x800, 9]],
        vec![first, [BEGIN + 0x1000, 0x801, 8]],
        vec![first, [BEGIN + 0x2000, 0x800, 8]],
    ];
    for other in others {
        assert_ne!(BootImage::of(other).checksum, image(BEGIN).checksum);
    }
    assert_eq!(BootImage::of([]), BootImage::default());
    assert_eq!(BootImage::of([[u64::MAX, u64::MAX, 1]]).bytes, 0);
}

#[test]
fn methods_of_the_image_keep_their_names_where_another_process_has_it() {
    let names = known();
    assert_eq!(names.methods(), 3);
    let here = image(0x5555_0000);
    let wanted = [0, 8, 16, 0x17ff, 0x1800].map(|at| here.begin + at);
    let symbols = symbols(&names, &here, &wanted);
    let found: Vec<_> = symbols
        .iter()
        .map(|s| (s.address - here.begin, s.class.as_str(), s.name.as_str()))
        .collect();
    assert_eq!(
        found,
        [(0, "A", "first"), (0x17ff, "A", "last"), (16, "B", "b")]
    );
    assert!(symbols
        .iter()
        .all(|s| s.valid_from == 0 && s.dex_checksum == 5 && s.dex_method_index == 3));
    assert_eq!(
        (
            symbols[0].source_file.as_str(),
            symbols[0].signature.as_str()
        ),
        ("A.java", "()V")
    );
}

#[test]
fn another_image_gets_no_names() {
    let names = known();
    let same = image(BEGIN);
    for other in [
        BootImage {
            checksum: 1,
            ..same
        },
        BootImage {
            bytes: 0x1000,
            ..same
        },
        BootImage::default(),
    ] {
        assert_eq!(symbols(&names, &other, &[BEGIN, BEGIN + 16]), []);
    }
    assert_eq!(
        learn(&memory(BootImage::default(), &[class("A", &[(0, "a")])])),
        None
    );
    assert_eq!(learn(&memory(same, &[class("App", &[(5, "a")])])), None);
}

#[test]
fn images_that_cannot_be_are_survived() {
    let names = known();
    for begin in [u64::MAX, u64::MAX - 5, 1 << 63] {
        let here = BootImage {
            begin,
            ..image(BEGIN)
        };
        assert!(symbols(&names, &here, &[0, BEGIN, begin, u64::MAX]).len() <= 2);
        let given = memory(here, &[class("A", &[(u64::MAX, "a"), (0, "b")])]);
        assert!(learn(&given).is_none_or(|names| names.methods() == 1));
    }
    let bytes = memory(image(BEGIN), &[]);
    assert!(BootNames::learn(&bytes[..100], MOST).is_err());
    assert!(BootNames::learn(&vec![0; 1 << 13][..], MOST).is_err());
    let mut far = memory(image(BEGIN), &[class("A", &[(BEGIN, "a")])]);
    far[offset_of!(Header, journal)..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(BootNames::learn(&far[..], MOST).is_err());
}

#[test]
fn damaged_tables_are_refused_and_those_that_pass_are_read_without_harm() {
    let names = known();
    let bytes = names.encode();
    assert_eq!(BootNames::decode(bytes.clone()), Some(names.clone()));
    let wanted = [BEGIN, BEGIN + 16];
    for at in 0..bytes.len() {
        assert_eq!(BootNames::decode(bytes[..at].to_vec()), None, "{at}");
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x41;
        assert_eq!(BootNames::decode(damaged), None, "{at}");
        // As if somebody had made the checksum right again.
        let mut hostile = names.clone();
        if let Some(byte) = hostile.journal.get_mut(at) {
            *byte ^= 0x41;
            assert!(symbols(&hostile, &image(BEGIN), &wanted).len() <= 3);
        }
    }
    let long = vec![0x89; MAX_BOOT_NAMES_BYTES as usize + 1];
    assert_eq!(BootNames::decode(long), None);
}

#[test]
fn a_table_has_a_greatest_length_and_keeps_what_fits() {
    let large = BootImage {
        checksum: 1,
        begin: BEGIN,
        bytes: 1 << 40,
    };
    let entries: Vec<Entry> = (0..4000_u64)
        .map(|n| {
            class(
                &format!("C{n}{}", "x".repeat(4000)),
                &[(BEGIN + 8 * n, "m")],
            )
        })
        .collect();
    let names = learn(&memory(large, &entries)).unwrap();
    let bytes = names.encode();
    assert!(bytes.len() as u64 <= MAX_BOOT_NAMES_BYTES);
    assert!(bytes.len() as u64 > MAX_BOOT_NAMES_BYTES - (1 << 14));
    let addresses: Vec<u64> = (0..4000).map(|n| BEGIN + 8 * n).collect();
    let names = BootNames::decode(bytes).unwrap();
    assert!(
        names.methods() > 900 && names.methods() < 1100,
        "{}",
        names.methods()
    );
    assert_eq!(
        symbols(&names, &large, &addresses).len() as u64,
        names.methods()
    );
}
