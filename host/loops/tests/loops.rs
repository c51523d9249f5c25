// SPDX-License-Identifier: Apache-2.0
//! Loops of hand-written dex code: which branch can leave them, and which field it reads.

use hindsight_decoder::{Extension, Trace};
use hindsight_loops::{loops, traced_calls, Archive, Dex, FieldName, Loop, MethodName, Source};
use hindsight_testkit::Script;
use proptest::prelude::*;

/// Names in the tables of the dex file, by their indices.
const STRINGS: [&str; 12] = [
    "La/Flag;", "V", "Z", "J", "done", "limit", "await", "isDone", "I", "a.Flag", "VI", "started",
];
/// Indices of strings.
const TYPES: [u32; 5] = [0, 1, 2, 3, 8];
/// Indices of strings, types and parameters.
const PROTOS: [(u32, u32, bool); 3] = [(1, 1, false), (2, 2, false), (10, 1, true)];
/// Indices of types, and of the name.
const FIELDS: [(u16, u16, u32); 3] = [(0, 2, 4), (0, 3, 5), (0, 4, 11)];
/// Indices of the class, the proto and the name.
const METHODS: [(u16, u16, u32); 3] = [(0, 0, 6), (0, 1, 7), (0, 2, 6)];

const DONE: u16 = 0;
const LIMIT: u16 = 1;
const STARTED: u16 = 2;
const IS_DONE: u16 = 1;

/// A dex file with the class `a.Flag`: `await()` has this code, `isDone()` returns `done`.
fn dex_bytes(code: &[u16]) -> Vec<u8> {
    let mut tables: Vec<Vec<u8>> = vec![Vec::new(); 6];
    let mut data = Vec::new();
    let counts = [
        STRINGS.len(),
        TYPES.len(),
        PROTOS.len(),
        FIELDS.len(),
        METHODS.len(),
        1,
    ];
    let sizes = [4, 4, 12, 8, 8, 32];
    let data_offset: usize = 112
        + counts
            .iter()
            .zip(sizes)
            .map(|(n, size)| n * size)
            .sum::<usize>();
    let here = |data: &Vec<u8>| (data_offset + data.len()) as u32;
    for text in STRINGS {
        tables[0].extend(here(&data).to_le_bytes());
        data.push(text.len() as u8);
        data.extend(text.bytes());
        data.push(0);
    }
    let parameters = here(&data);
    // One int.
    data.extend([1, 0, 0, 0, 4, 0]);
    for name in TYPES {
        tables[1].extend(name.to_le_bytes());
    }
    for (shorty, returns, has_parameter) in PROTOS {
        let list = if has_parameter { parameters } else { 0 };
        tables[2].extend([shorty, returns, list].iter().flat_map(|n| n.to_le_bytes()));
    }
    for (table, rows) in [(3, &FIELDS), (4, &METHODS)] {
        for &(class, of_type, name) in rows {
            tables[table].extend([class, of_type].iter().flat_map(|n| n.to_le_bytes()));
            tables[table].extend(name.to_le_bytes());
        }
    }
    // iget-boolean v0, v1, done; return v0
    let is_done = [0x1055, DONE, 0x000f];
    let mut offsets = Vec::new();
    for units in [code, &is_done] {
        offsets.push(here(&data));
        data.extend([0; 12]);
        data.extend((units.len() as u32).to_le_bytes());
        data.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
    let class_data = here(&data);
    // No fields, no direct methods, two virtual ones.
    data.extend([0, 0, 0, 2]);
    for (distance, offset) in [(0, offsets[0]), (1, offsets[1])] {
        data.extend([distance, 1]);
        for shift in (0..35).step_by(7) {
            let more = if shift < 28 { 0x80 } else { 0 };
            data.push((offset >> shift & 0x7f) as u8 | more);
        }
    }
    let mut definition = [0; 32];
    definition[24..28].copy_from_slice(&class_data.to_le_bytes());
    tables[5].extend(definition);
    let mut bytes = b"dex\n035\0".to_vec();
    bytes.resize(56, 0);
    let mut offset = 112;
    for (count, size) in counts.into_iter().zip(sizes) {
        bytes.extend((count as u32).to_le_bytes());
        bytes.extend((offset as u32).to_le_bytes());
        offset += count * size;
    }
    bytes.resize(112, 0);
    bytes.extend(tables.concat());
    bytes.extend(data);
    bytes
}

/// A thread that takes these branches in a call of `a.Flag.await()`, and whether the call ends.
fn trace(edges: &[(u64, u64, u64)], ends: bool) -> Trace {
    let mut s = Script::new("p");
    let name = s.string("await");
    let method = s.method("a.Flag.await", "()V");
    let t = s.events_thread(7, "waiter", 1);
    let mut r = s.at(t, 100);
    r.event(Extension::RuleBegin, &[("name", name)]);
    for &(from, to, times) in edges {
        let fields = [
            ("name", name),
            ("times", times),
            ("from", from),
            ("to", to),
            ("method", method),
        ];
        r.after(10).event(Extension::BranchTaken, &fields);
    }
    if ends {
        r.after(10).event(Extension::RuleEnd, &[("name", name)]);
    }
    Trace::decode("t".as_ref(), &s.encode()).unwrap()
}

fn found(code: &[u16], edges: &[(u64, u64, u64)]) -> Vec<Loop> {
    let mut archive = Archive::default();
    archive.add_dex(Dex::new(dex_bytes(code)).unwrap());
    let calls = traced_calls(&trace(edges, false), 0);
    assert_eq!(calls.len(), 1);
    loops(&archive, &calls[0])
}

fn field(name: &str, descriptor: &str) -> FieldName {
    FieldName {
        class: "a.Flag".into(),
        name: name.into(),
        descriptor: descriptor.into(),
    }
}

fn done(at: u32, in_loop: bool) -> Source {
    Source::Field {
        field: field("done", "Z"),
        at,
        in_loop,
    }
}

#[test]
fn a_loop_over_a_field_ends_by_the_branch_that_reads_it() {
    // 0: iget-boolean v0, v1, done; 2: if-nez v0, 7; 4: nop; 5: nop; 6: goto 0; 7: return-void
    let code = [0x1055, DONE, 0x0039, 5, 0, 0, 0xfa28, 0x000e];
    let found = found(&code, &[(2, 4, 1), (6, 0, 1), (2, 4, 40), (6, 0, 40)]);
    assert_eq!(found.len(), 1);
    let exits = found[0].exits.as_ref().unwrap();
    assert_eq!((found[0].begin, found[0].times), (0, 41));
    assert_eq!(exits.len(), 1);
    assert_eq!((exits[0].at, exits[0].times), (2, 0));
    assert_eq!(exits[0].sense.unwrap().symbol(), "!=");
    assert_eq!(exits[0].left, [done(0, true)]);
    assert!(exits[0].right.is_empty() && !exits[0].left_is_computed);
}

#[test]
fn a_getter_is_seen_through_and_a_branch_back_is_negated() {
    // 0: invoke-virtual {v1}, isDone; 3: move-result v0; 4: if-eqz v0, 0; 6: return-void
    let code = [0x106e, IS_DONE, 1, 0x000a, 0x0038, 0xfffc, 0x000e];
    let found = found(&code, &[(4, 0, 9)]);
    let exit = &found[0].exits.as_ref().unwrap()[0];
    assert_eq!(exit.sense.unwrap().symbol(), "!=");
    let method = MethodName {
        class: "a.Flag".into(),
        name: "isDone".into(),
        signature: "()Z".into(),
    };
    let call = Source::Call {
        method,
        at: 0,
        in_loop: true,
        returns: Some(field("done", "Z")),
    };
    assert_eq!(exit.left, [call]);
}

#[test]
fn a_comparison_of_two_values_has_the_sources_of_both() {
    // 0: iget-wide v0, v5, limit; 2: const-wide/16 v2, 7; 4: cmp-long v4, v0, v2; 6: iget v0, v5, started;
    // 8: if-lt v4, v0, 0; 10: return-void
    let code = [
        0x5053, LIMIT, 0x0216, 7, 0x0431, 0x0200, 0x5052, STARTED, 0x0434, 0xfff8, 0x000e,
    ];
    let found = found(&code, &[(8, 0, 3)]);
    let exit = &found[0].exits.as_ref().unwrap()[0];
    assert_eq!(exit.sense.unwrap().symbol(), ">=");
    let read = |name, descriptor, at| Source::Field {
        field: field(name, descriptor),
        at,
        in_loop: true,
    };
    assert_eq!(
        exit.left,
        [read("limit", "J", 0), Source::Constant { value: 7 }]
    );
    assert!(exit.left_is_computed && !exit.right_is_computed);
    assert_eq!(exit.right, [read("started", "I", 6)]);
}

#[test]
fn a_field_that_is_read_before_the_loop_is_told() {
    // 0: iget-boolean v0, v1, done; 2: move v2, v0; 3: if-eqz v2, 3 (itself); 5: return-void
    let code = [0x1055, DONE, 0x0201, 0x0238, 0, 0x000e];
    let found = found(&code, &[(3, 3, 1000)]);
    let exit = &found[0].exits.as_ref().unwrap()[0];
    assert_eq!(exit.left, [done(0, false)]);
    assert!(!exit.left_is_computed);
}

#[test]
fn an_inner_loop_is_told_from_the_outer_one() {
    // 0: iget-boolean v0, v1, done; 2: if-nez v0, 9; 4: add-int/lit8 v2, v2, 1; 6: if-nez v2, 4; 8: goto 0; 9: return-void
    let code = [
        0x1055, DONE, 0x0039, 7, 0x02d8, 0x0102, 0x0239, 0xfffe, 0xf828, 0x000e,
    ];
    let edges = [(2, 4, 3), (6, 4, 50), (6, 8, 3), (8, 0, 3)];
    let found = found(&code, &edges);
    let places: Vec<_> = found.iter().map(|l| (l.begin, l.times)).collect();
    assert_eq!(places, [(4, 50), (0, 3)]);
    let exits = |i: usize| -> Vec<_> {
        let exits = found[i].exits.as_ref().unwrap().iter();
        exits.map(|e| (e.at, e.times)).collect()
    };
    assert_eq!(exits(0), [(6, 3)]);
    assert_eq!(exits(1), [(2, 0)]);
    // A counter is the method's own.
    let counter = &found[0].exits.as_ref().unwrap()[0];
    assert_eq!(counter.left, [Source::Other]);
}

#[test]
fn a_switch_can_leave_a_loop() {
    // 0: iget v0, v1, started; 2: packed-switch v0, 6 {7: goto 5}; 5: return-void; 6: goto 0; 8: the table, with 1 → 6
    let code = [
        0x1052, STARTED, 0x002b, 6, 0, 0x000e, 0xfa28, 0, 0x0100, 1, 1, 0, 4, 0,
    ];
    let found = found(&code, &[(2, 6, 5), (6, 0, 5)]);
    let exits = found[0].exits.as_ref().unwrap();
    assert_eq!((exits.len(), exits[0].at, exits[0].sense), (1, 2, None));
}

#[test]
fn a_loop_whose_way_is_not_known_has_no_exits_rather_than_wrong_ones() {
    // 0: nop; 1: throw v0; 2: goto 0: a handler goes back.
    let found = found(&[0, 0x0027, 0xfe28], &[(2, 0, 5)]);
    assert_eq!((found[0].times, &found[0].exits), (5, &None));
}

#[test]
fn calls_are_told_apart_and_the_last_one_is_shown() {
    let mut s = Script::new("p");
    let name = s.string("await");
    let method = s.method("a.Flag.await", "()V");
    let t = s.events_thread(7, "waiter", 1);
    let taken = |from, times| {
        [
            ("name", name),
            ("times", times),
            ("from", from),
            ("to", 0),
            ("method", method),
        ]
    };
    let unknown = [
        ("name", name),
        ("times", 4),
        ("from", 0xffff_ffff),
        ("to", 0xffff_ffff),
        ("method", method),
    ];
    s.at(t, 1)
        .event(Extension::BranchTaken, &taken(9, 1))
        .event(Extension::RuleEnd, &[("name", name)])
        .event(Extension::RuleBegin, &[("name", name)])
        .event(Extension::BranchTaken, &taken(6, 2))
        .event(Extension::BranchTaken, &unknown)
        .event(Extension::RuleEnd, &[("name", name)]);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    let calls = traced_calls(&trace, 0);
    assert_eq!(calls.len(), 1);
    let call = &calls[0];
    assert!(call.has_ended);
    assert_eq!(
        (call.edges.len(), call.edges[0].from, call.others),
        (1, 6, 4)
    );
    assert!(traced_calls(&trace, trace.end_ns() + 1).is_empty());
    // Without the code, there is the loop, and no more.
    let found = loops(&Archive::default(), call);
    assert_eq!((found[0].times, &found[0].exits), (2, &None));
}

#[test]
fn methods_of_one_name_are_told_apart_by_their_signatures() {
    let dex = Dex::new(dex_bytes(&[0x000e])).unwrap();
    let method = |signature: &str| MethodName {
        class: "a.Flag".into(),
        name: "await".into(),
        signature: signature.into(),
    };
    assert_eq!(dex.method(2), Some(method("(I)V")));
    assert_eq!(dex.code(&method("()V")).unwrap().units, [0x000e]);
    // It is declared, but has no code here.
    assert_eq!(dex.code(&method("(I)V")), None);
}

#[test]
fn an_app_is_read_from_a_jar_or_a_dex_file_and_others_are_refused() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let bytes = dex_bytes(&[0x000e]);
    std::fs::write(path("a.dex"), &bytes).unwrap();
    std::fs::write(path("text"), "no archive").unwrap();
    let jar = |name: &str, entry: &str| {
        let mut jar = zip::ZipWriter::new(std::fs::File::create(path(name)).unwrap());
        jar.start_file(entry, zip::write::SimpleFileOptions::default())
            .unwrap();
        jar.write_all(&bytes).unwrap();
        jar.finish().unwrap();
    };
    jar("a.jar", "classes2.dex");
    jar("empty.jar", "resources.arsc");
    let method = MethodName {
        class: "a.Flag".into(),
        name: "await".into(),
        signature: "()V".into(),
    };
    for name in ["a.dex", "a.jar"] {
        let mut archive = Archive::default();
        archive.add(&path(name)).unwrap();
        assert!(archive.code(&method).is_some(), "{name}");
    }
    for (name, why) in [
        ("text", "neither a dex file nor an APK or jar"),
        ("empty.jar", "it has no classes.dex"),
        ("nothing", "No such file"),
    ] {
        let error = Archive::default().add(&path(name)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}

proptest! {
    /// Any bytes, code and branches give an answer, or none.
    #[test]
    fn hostile_dex_files_and_branches_are_answered(
        code in prop::collection::vec(any::<u16>(), 0..40),
        edges in prop::collection::vec((0_u64..44, 0_u64..44, 1_u64..5), 0..20),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = dex_bytes(&code);
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        let mut archive = Archive::default();
        if let Some(dex) = Dex::new(bytes) {
            archive.add_dex(dex);
        }
        for call in traced_calls(&trace(&edges, true), 0) {
            for one in loops(&archive, &call) {
                prop_assert!(one.times > 0);
            }
        }
    }
}
