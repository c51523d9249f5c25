// SPDX-License-Identifier: Apache-2.0
//! Stacks and strings that a damaged file lacks are listed, and what is left of them is read.

use hindsight_decoder::{DamagedPart, Extension, Trace};
use hindsight_testkit::Script;
use hindsight_trace_format::container::{Reader, SectionKind};

/// Eight stacks of growing depth, and eight marks.
fn script() -> Script {
    let mut s = Script::new("p");
    let methods = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| s.method(&format!("a.C.m{i}"), "()V"));
    let t = s.events_thread(7, "main", 1);
    for i in 0..8 {
        let frames: Vec<_> = methods[..=i].iter().map(|&m| (m, 1)).collect();
        let stack = s.stack(&frames);
        let mark = s.string(&format!("mark {i}"));
        s.at(t, 1_000 * (1 + i as u64))
            .event(Extension::UserMark, &[("name", mark)])
            .extension(Extension::Stack, &stack)
            .anchor();
    }
    s
}

fn open(bytes: &[u8]) -> Trace {
    Trace::decode("t".as_ref(), bytes).unwrap()
}

fn section(bytes: &[u8], kind: SectionKind) -> std::ops::Range<usize> {
    let reader = Reader::new(bytes).unwrap();
    let mut sections = reader.sections().iter();
    let found = sections.find(|s| s.kind == kind as u32).unwrap();
    found.offset as usize..(found.offset + found.length) as usize
}

/// Where a node of the table ends. The counts before the nodes have 20 bytes; the first node has 8, because of its method's
/// address, the others 4.
fn end_of_node(stacks: &std::ops::Range<usize>, number: usize) -> usize {
    stacks.start + 20 + 8 + 4 * (number - 1)
}

/// Which of stacks and strings are listed, and how many of each are lost.
fn listed(trace: &Trace) -> (bool, usize, bool, u64) {
    let has = |part| trace.damaged.iter().any(|d| d.part == part);
    let strings = 8 - trace.strings.strings.len();
    let lost = trace.threads[0].stats.lost_stacks;
    (
        has(DamagedPart::Strings),
        strings,
        has(DamagedPart::Stacks),
        lost,
    )
}

#[test]
fn a_file_that_ends_early_lists_the_strings_and_stacks_that_it_lacks() {
    let bytes = script().encode();
    let strings = section(&bytes, SectionKind::Strings);
    let stacks = section(&bytes, SectionKind::Stacks);
    let cut = |at: usize| open(&bytes[..at]);
    assert_eq!(listed(&open(&bytes)), (false, 0, false, 0));
    assert_eq!(listed(&cut(strings.start)), (true, 8, true, 8));
    // A string is its length and 6 bytes.
    assert_eq!(
        listed(&cut(strings.start + 4 + 3 * 10 + 5)),
        (true, 5, true, 8)
    );
    assert_eq!(listed(&cut(stacks.start)), (false, 0, true, 8));
    let nodes = |count| end_of_node(&stacks, count);
    for (at, lost) in [(nodes(5), 3), (nodes(5) + 2, 3), (stacks.end - 1, 1)] {
        let trace = cut(at);
        assert_eq!(listed(&trace), (false, 0, true, lost), "{at}");
        // Nothing of it is taken for something else.
        assert!(trace.losses.counts.is_empty(), "{:?}", trace.losses);
        let said: Vec<String> = trace.damaged.iter().map(|d| d.to_string()).collect();
        let said = said.join("\n");
        assert!(
            said.contains("the file is cut off in section Stacks"),
            "{said}"
        );
        assert!(said.contains("; some sections are missing"), "{said}");
    }
    // Wherever it ends, what is lost is listed.
    for at in strings.start..stacks.end {
        let (strings, lost_strings, stacks, lost_stacks) = listed(&cut(at));
        assert!(strings || lost_strings == 0, "{at}");
        assert!(stacks || lost_stacks == 0, "{at}");
    }
}

#[test]
fn a_changed_byte_is_listed_and_the_stacks_before_it_are_read() {
    let bytes = script().encode();
    let stacks = section(&bytes, SectionKind::Stacks);
    let mut changed = bytes.clone();
    // The parent of the sixth node.
    changed[end_of_node(&stacks, 5)] = 0x77;
    assert_eq!(listed(&open(&changed)), (false, 0, true, 3));
    let strings = section(&bytes, SectionKind::Strings);
    let mut changed = bytes;
    // The length of the fourth string.
    changed[strings.start + 4 + 3 * 10 + 3] = 0x77;
    assert_eq!(listed(&open(&changed)), (true, 5, false, 0));
}

#[test]
fn checksums_that_are_lost_are_not_taken_for_right_ones() {
    let mut bytes = script().encode();
    // In the table, after the losses; and in the ring, whose checksum is lost with it.
    let table = section(&bytes, SectionKind::Losses).end.next_multiple_of(8);
    let kind_of_ring = table + 2 * 32;
    bytes[kind_of_ring] ^= 1;
    bytes[kind_of_ring + 24] ^= 1;
    let said = open(&bytes).damaged[0].to_string();
    assert!(
        said.contains("damage to 1 of them is not noticed"),
        "{said}"
    );
    assert!(!said.contains("nothing is lost"), "{said}");
}
