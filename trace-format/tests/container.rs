// SPDX-License-Identifier: Apache-2.0
//! Written values are read back, and damage is noticed.

mod common;

use std::borrow::Cow;
use std::io::Cursor;

use hindsight_trace_format::container::{
    write_file, Clocks, Losses, ProcessFacts, ReadError, Reader, Ring, SectionKind,
    StackGeneration, StackNode, Stacks, Symbol, SymbolTable, Symbols, Writer, HEADER_BYTES,
    MAX_STRING_BYTES, TABLE_ENTRY_BYTES,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(common::cases(100))]

    #[test]
    fn everything_written_is_read_back(contents in common::contents()) {
        let bytes = contents.write();
        let reader = Reader::new(&bytes).unwrap();
        reader.verify_all().unwrap();
        prop_assert_eq!(reader.process().unwrap(), contents.facts);
        prop_assert_eq!(reader.clocks().unwrap(), contents.clocks);
        prop_assert_eq!(reader.ring_indices().count(), contents.rings.len());
        for (index, (header, raw, anchors)) in (0..).zip(contents.rings) {
            let ring = reader.ring(index).unwrap().unwrap();
            prop_assert_eq!(&ring, &Ring { header, raw: Cow::Borrowed(&raw) });
            if let Cow::Borrowed(raw) = ring.raw {
                prop_assert_eq!(raw.as_ptr() as usize % 8, bytes.as_ptr() as usize % 8);
            }
            prop_assert_eq!(matches!(ring.raw, Cow::Borrowed(_)), !contents.compressed);
            prop_assert_eq!(reader.anchors(index).unwrap(), anchors);
        }
        prop_assert_eq!(reader.symbols().unwrap(), contents.symbols);
        prop_assert_eq!(reader.stacks().unwrap(), contents.stacks);
        prop_assert_eq!(reader.losses().unwrap(), contents.losses);
    }

    #[test]
    fn a_file_that_ends_early_is_refused(contents in common::contents(), part in 0.0..1.0_f64) {
        let bytes = contents.write();
        let cut = &bytes[..(bytes.len() as f64 * part) as usize];
        let error = Reader::new(cut).unwrap_err();
        if !cut.is_empty() {
            prop_assert!(matches!(error, ReadError::Truncated { .. }), "{}", error);
        }
    }
}

fn small_file() -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let facts = ProcessFacts {
        name: "a.b".into(),
        ..ProcessFacts::default()
    };
    writer
        .section(SectionKind::Process, 0, &[&facts.encode()])
        .unwrap();
    // A section of an unknown kind, in two parts, with a length that is no multiple of 8.
    writer
        .section(4711_u32, 3, &[b"from the ", b"future"])
        .unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn a_single_flipped_bit_anywhere_is_noticed() {
    let good = small_file();
    let padding: Vec<usize> = {
        let reader = Reader::new(&good).unwrap();
        let sections = reader.sections();
        sections
            .iter()
            .flat_map(|s| (s.offset + s.length)..(s.offset + s.length).next_multiple_of(8))
            .map(|at| at as usize)
            .collect()
    };
    assert!(!padding.is_empty());
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            let result = Reader::new(&bad).and_then(|reader| reader.verify_all());
            assert_eq!(
                result.is_ok(),
                padding.contains(&at),
                "byte {at}, bit {bit}"
            );
        }
    }
}

#[test]
fn sections_of_unknown_kinds_are_skipped_and_can_be_had() {
    let bytes = small_file();
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.process().unwrap().name, "a.b");
    assert_eq!(
        reader.section(4711_u32, 3).unwrap(),
        Some(&b"from the future"[..])
    );
    assert_eq!(reader.section(4711_u32, 0).unwrap(), None);
    assert_eq!(reader.losses().unwrap(), Losses::default());
    assert_eq!(
        reader.clocks().unwrap_err(),
        ReadError::Missing(SectionKind::Clocks)
    );
}

#[test]
fn damage_to_one_section_leaves_the_others_readable() {
    let mut bytes = small_file();
    let damaged = Reader::new(&bytes).unwrap().sections()[1];
    bytes[damaged.offset as usize] ^= 1;
    let reader = Reader::new(&bytes).unwrap();
    assert_eq!(reader.process().unwrap().name, "a.b");
    let error = reader.section(4711_u32, 3).unwrap_err();
    assert!(matches!(error, ReadError::Checksum { section, .. } if section == damaged));
    let text = error.to_string();
    assert!(text.contains("kind 4711 3 (bytes 72..87)"), "{text}");
}

#[test]
fn a_newer_major_version_is_refused_even_if_all_else_changed() {
    let mut bytes = small_file();
    bytes[8] = 3;
    bytes.truncate(HEADER_BYTES);
    let error = Reader::new(&bytes).unwrap_err();
    assert_eq!(error, ReadError::NewerVersion { major: 3, minor: 0 });
    assert!(error
        .to_string()
        .contains("use a newer version of Hindsight"));
}

#[test]
fn other_files_are_told_apart_from_damaged_ones() {
    for bytes in [&b""[..], b"{}", b"\x1f\x8b\x08\x00", b"\x89HSGT\n\x1a"] {
        let error = Reader::new(bytes).unwrap_err();
        assert!(matches!(error, ReadError::NotHindsight), "{error}");
    }
    // The file of a writer that did not finish.
    let unfinished = vec![0; HEADER_BYTES + 100];
    assert!(Reader::new(&unfinished).is_err());
}

#[test]
fn newer_minor_versions_may_add_fields() {
    let mut facts = ProcessFacts::default().encode();
    facts.extend_from_slice(b"more");
    assert_eq!(
        ProcessFacts::decode(&facts).unwrap(),
        ProcessFacts::default()
    );

    // A symbol of 48 bytes instead of 40.
    let symbols = Symbols {
        symbols: vec![Symbol {
            address: 7,
            name: "m".into(),
            ..Symbol::default()
        }],
    };
    let mut bytes = symbols.encode();
    assert_eq!(bytes[4..8], 40_u32.to_le_bytes());
    bytes[4..8].copy_from_slice(&48_u32.to_le_bytes());
    bytes.splice(48..48, [9; 8]);
    assert_eq!(Symbols::decode(&bytes).unwrap(), symbols);
    // And one of fewer is an error.
    bytes[4..8].copy_from_slice(&39_u32.to_le_bytes());
    assert!(Symbols::decode(&bytes).is_err());
}

#[test]
fn a_section_is_written_once() {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    writer.section(SectionKind::Ring, 1, &[]).unwrap();
    let again = writer.section(SectionKind::Ring, 1, &[]).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn strings_that_are_too_long_are_cut_at_a_character() {
    // The limit falls into the middle of a two-byte character.
    let facts = ProcessFacts {
        reason: format!("x{}", "é".repeat(MAX_STRING_BYTES)),
        ..ProcessFacts::default()
    };
    let read = ProcessFacts::decode(&facts.encode()).unwrap();
    assert_eq!(read.reason.len(), MAX_STRING_BYTES - 1);
    assert!(facts.reason.starts_with(&read.reason));
}

#[test]
fn symbols_share_their_strings_and_are_found_by_address_and_time() {
    const METHODS: u64 = 50_000;
    let symbols = Symbols {
        symbols: (0..METHODS)
            .map(|i| Symbol {
                address: 0x7000_0000 + i * 40,
                class: format!("com.example.package.Class{}", i / 20),
                name: format!("method{}", i % 100),
                signature: "(Ljava/lang/String;I)V".into(),
                source_file: format!("Class{}.java", i / 20),
                ..Symbol::default()
            })
            .collect(),
    };
    let bytes = symbols.encode();
    assert!(bytes.len() < 45 * METHODS as usize, "{} bytes", bytes.len());
    let table = SymbolTable::decode(&bytes).unwrap();
    assert_eq!(table.len() as u64, METHODS);
    let found = table.lookup(0x7000_0000 + 40 * 777, 1).unwrap();
    assert_eq!(
        (found.class, found.name),
        ("com.example.package.Class38", "method77")
    );
    assert_eq!(table.lookup(0x7000_0001, 1), None);
    assert_eq!(table.lookup(0, 1), None);
    assert_eq!(table.lookup(u64::MAX, 1), None);

    // An address that was used again.
    let named = |valid_from, name: &str| Symbol {
        address: 8,
        valid_from,
        name: name.into(),
        ..Symbol::default()
    };
    let symbols = Symbols {
        symbols: vec![named(200, "new"), named(100, "old")],
    };
    let bytes = symbols.encode();
    let table = SymbolTable::decode(&bytes).unwrap();
    let at = |counter| table.lookup(8, counter).unwrap().name;
    assert_eq!(
        [at(0), at(100), at(199), at(200), at(u64::MAX)],
        ["old", "old", "old", "new", "new"]
    );
}

#[test]
fn symbols_out_of_order_are_refused() {
    let symbol = |address| Symbol {
        address,
        ..Symbol::default()
    };
    let mut bytes = Symbols {
        symbols: vec![symbol(1), symbol(2)],
    }
    .encode();
    bytes[8] = 3;
    let error = SymbolTable::decode(&bytes).unwrap_err();
    assert_eq!(
        (error.offset, error.what.as_str()),
        (8 + 40, "symbol 1 is out of order")
    );
}

#[test]
fn a_failed_write_leaves_nothing_and_an_older_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.hindsight");
    std::fs::write(&path, "older").unwrap();
    let error = write_file(&path, |writer| {
        writer.section(SectionKind::Losses, 0, &[b"some"])?;
        Err(std::io::Error::other("the disk is full"))
    })
    .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("x.hindsight") && text.contains("the disk is full"),
        "{text}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"older");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    let missing = folder.path().join("missing/x.hindsight");
    let text = write_file(&missing, |_| Ok(())).unwrap_err().to_string();
    assert!(
        text.starts_with("could not create") && text.contains("missing"),
        "{text}"
    );
    let text = write_file("/".as_ref(), |_| Ok(()))
        .unwrap_err()
        .to_string();
    assert_eq!(text, "/ does not name a file");
}

#[test]
fn the_tables_place_and_size_follow_from_the_header() {
    let bytes = small_file();
    let table_offset = u64::from_le_bytes(bytes[16..24].try_into().unwrap()) as usize;
    assert_eq!(table_offset % 8, 0);
    assert_eq!(bytes.len(), table_offset + 2 * TABLE_ENTRY_BYTES);
}

#[test]
fn stacks_are_found_without_the_section_table() {
    let stacks = Stacks {
        generations: vec![StackGeneration {
            number: 1,
            nodes: vec![StackNode {
                method: 0x7000_1000,
                parent: 0,
                dex_pc: 4,
            }],
        }],
    };
    let losses = Losses {
        counts: vec![("symbols".into(), 3)],
    };
    for has_stacks in [false, true] {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        let mut section = |kind: SectionKind, bytes: &[u8]| {
            writer.section(kind, 0, &[bytes]).unwrap();
        };
        section(SectionKind::Process, &ProcessFacts::default().encode());
        section(SectionKind::Clocks, &Clocks::default().encode());
        section(SectionKind::Symbols, &Symbols::default().encode());
        if has_stacks {
            section(SectionKind::Stacks, &stacks.encode());
        }
        section(SectionKind::Losses, &losses.encode());
        let mut bytes = writer.finish().unwrap().into_inner();
        bytes.truncate(bytes.len() - TABLE_ENTRY_BYTES * (4 + usize::from(has_stacks)));
        let recovered = Reader::recover(&bytes).unwrap();
        assert_eq!(recovered.reader.losses().unwrap(), losses);
        let expected = if has_stacks {
            stacks.clone()
        } else {
            Stacks::default()
        };
        assert_eq!(recovered.reader.stacks().unwrap(), expected);
    }
}

/// Bytes that are missing shift all strings after them: none of the fragments is a name.
#[test]
fn fragments_of_damaged_symbols_are_no_names() {
    let symbol = |i: u64| Symbol {
        address: 0x7000_0000 + 16 * i,
        class: format!("com.example.notes{}.Screen{}", i % 5, i / 3),
        name: format!("handle{}", i * i),
        signature: format!("(I{}Landroid/os/Message;)V", "J".repeat(i as usize % 7)),
        source_file: format!("Screen{}.java", i / 3),
        ..Symbol::default()
    };
    let symbols: Vec<_> = (0..60).map(symbol).collect();
    let names = |s: &Symbol| [s.class.clone(), s.name.clone()];
    let known: std::collections::HashSet<_> = symbols.iter().flat_map(names).collect();
    let bytes = Symbols {
        symbols: symbols.clone(),
    }
    .encode();
    let mut read = 0;
    for at in (bytes.len() / 2..bytes.len()).step_by(7) {
        for length in [1, 5, 16, 40] {
            let mut damaged = bytes.clone();
            damaged.drain(at..(at + length).min(bytes.len()));
            let Some(table) = SymbolTable::decode_damaged(&damaged) else {
                continue;
            };
            for symbol in table.iter() {
                let of = format!("{length} bytes missing at {at}: {symbol:?}");
                assert!(known.contains(symbol.class), "{of}");
                assert!(known.contains(symbol.name), "{of}");
            }
            read += table.len();
        }
    }
    assert!(read > 4_000, "{read}");
}
