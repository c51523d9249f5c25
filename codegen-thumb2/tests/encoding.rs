// SPDX-License-Identifier: Apache-2.0
//! The emitted bytes against independent assemblers and an independent disassembler.

mod common;

use std::fmt::Write;

use hindsight_codegen_check::{assert_assemblers_agree, Disassembler, Instruction, Isa};
use hindsight_codegen_thumb2::{
    emit, wraps_at, Counter, EncodeError, Form, Isa as _, Kind, Reg, RegSet, Thumb2, TracePoint,
    MAX_STORE_BYTES,
};
use proptest::prelude::*;

const CURSOR: i32 = 0x58;

fn point(kind: Kind, free: &[Reg]) -> TracePoint {
    TracePoint {
        free: RegSet::of(free),
        ..TracePoint::new(kind, CURSOR)
    }
}

/// The trace points of ART's code generator, after the push.
fn entry() -> TracePoint {
    point(
        Kind::Entry { method: Reg::R0 },
        &[Reg::R4, Reg::Ip, Reg::Lr],
    )
}

fn exit() -> TracePoint {
    point(Kind::Exit, &[Reg::R2, Reg::R3, Reg::Ip])
}

/// Specifications, the bytes as halfwords in the order of the manual, and the text.
#[test]
fn the_table() {
    type Row<'a> = (TracePoint, &'a [u16], &'a [&'a str]);
    let table: [Row; 6] = [
        (
            entry(),
            &[
                0xf8d9, 0x4058, 0xb12c, 0xec5e, 0xcf1e, 0xe8e4, 0x0c02, 0xf8c9, 0x4058,
            ],
            &[
                "ldr.w r4, [r9, #0x58]",
                "cbz r4, #0x12",
                "mrrc p15, #1, ip, lr, c14",
                "strd r0, ip, [r4], #8",
                "str.w r4, [r9, #0x58]",
            ],
        ),
        (
            exit(),
            &[
                0xf8d9, 0x2058, 0xb13a, 0xec5c, 0x3f1e, 0xf04f, 0x0c00, 0xe8e2, 0xc302, 0xf8c9,
                0x2058,
            ],
            &[
                "ldr.w r2, [r9, #0x58]",
                "cbz r2, #0x16",
                "mrrc p15, #1, r3, ip, c14",
                "mov.w ip, #0",
                "strd ip, r3, [r2], #8",
                "str.w r2, [r9, #0x58]",
            ],
        ),
        (
            TracePoint {
                barrier: true,
                ..entry()
            },
            &[
                0xf8d9, 0x4058, 0xb13c, 0xec5e, 0xcf1e, 0xf3bf, 0x8f6f, 0xe8e4, 0x0c02, 0xf8c9,
                0x4058,
            ],
            &[
                "ldr.w r4, [r9, #0x58]",
                "cbz r4, #0x16",
                "mrrc p15, #1, ip, lr, c14",
                "isb sy",
                "strd r0, ip, [r4], #8",
                "str.w r4, [r9, #0x58]",
            ],
        ),
        (
            TracePoint {
                barrier: true,
                ..exit()
            },
            &[
                0xf8d9, 0x2058, 0xb14a, 0xec5c, 0x3f1e, 0xf3bf, 0x8f6f, 0xf04f, 0x0c00, 0xe8e2,
                0xc302, 0xf8c9, 0x2058,
            ],
            &[
                "ldr.w r2, [r9, #0x58]",
                "cbz r2, #0x1a",
                "mrrc p15, #1, r3, ip, c14",
                "isb sy",
                "mov.w ip, #0",
                "strd ip, r3, [r2], #8",
                "str.w r2, [r9, #0x58]",
            ],
        ),
        // The farthest word, the other counter, and a method whose register is also free.
        (
            TracePoint {
                cursor_offset: 4092,
                counter: Counter::Physical,
                ..point(
                    Kind::Entry { method: Reg::R1 },
                    &[Reg::R1, Reg::R7, Reg::R8, Reg::R10, Reg::R11],
                )
            },
            &[
                0xf8d9, 0x7ffc, 0xb12f, 0xec5a, 0x8f0e, 0xe8e7, 0x1802, 0xf8c9, 0x7ffc,
            ],
            &[
                "ldr.w r7, [r9, #0xffc]",
                "cbz r7, #0x12",
                "mrrc p15, #0, r8, r10, c14",
                "strd r1, r8, [r7], #8",
                "str.w r7, [r9, #0xffc]",
            ],
        ),
        (
            TracePoint {
                cursor_offset: 0,
                ..point(Kind::Exit, &[Reg::R11, Reg::R0, Reg::Lr])
            },
            &[
                0xf8d9, 0x0000, 0xb138, 0xec5e, 0xbf1e, 0xf04f, 0x0e00, 0xe8e0, 0xeb02, 0xf8c9,
                0x0000,
            ],
            &[
                "ldr.w r0, [r9]",
                "cbz r0, #0x16",
                "mrrc p15, #1, r11, lr, c14",
                "mov.w lr, #0",
                "strd lr, r11, [r0], #8",
                "str.w r0, [r9]",
            ],
        ),
    ];
    let disassembler = Disassembler::new(Isa::Thumb2);
    for (point, halfwords, text) in table {
        let code = emit(&point).unwrap();
        let bytes: Vec<u8> = halfwords.iter().flat_map(|h| h.to_le_bytes()).collect();
        assert_eq!(code.bytes, bytes, "{point:?}");
        let instructions = disassembler.instructions(&code.bytes);
        let found: Vec<_> = instructions.iter().map(|i| i.text.as_str()).collect();
        assert_eq!(found, text, "{point:?}");
    }
}

#[test]
fn sizes_and_instruction_counts_are_as_agreed() {
    let disassembler = Disassembler::new(Isa::Thumb2);
    for point in common::all_points(CURSOR) {
        let code = emit(&point).unwrap().bytes;
        let instructions = disassembler.instructions(&code);
        let barrier = usize::from(point.barrier);
        let (count, size) = match point.kind {
            Kind::Entry { .. } => (5, 18),
            Kind::Exit => (6, 22),
        };
        assert_eq!(instructions.len(), count + barrier, "{point:?}");
        assert_eq!(code.len(), size + 4 * barrier, "{point:?}");
        // While tracing is off, the second instruction branches to the end.
        let off = &instructions[1].text;
        assert!(off.starts_with("cbz "), "{point:?}: {off}");
        assert!(off.ends_with(&format!(" #{:#x}", code.len())), "{off}");
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let free = [Reg::R4, Reg::Ip, Reg::Lr];
    for register in [Reg::R9, Reg::Sp, Reg::Pc] {
        assert_eq!(
            emit(&point(Kind::Entry { method: register }, &free)),
            Err(EncodeError::MethodRegister(register))
        );
        assert_eq!(
            emit(&point(Kind::Exit, &[Reg::R2, Reg::R3, Reg::Ip, register])),
            Err(EncodeError::ReservedFree(register))
        );
    }
    for cursor_offset in [-4, 2, 4091, 4096, 65536 + 8, i32::MIN, i32::MAX] {
        let error = emit(&TracePoint {
            cursor_offset,
            ..entry()
        })
        .unwrap_err();
        assert_eq!(error, EncodeError::CursorOffset(cursor_offset));
        assert!(error.to_string().contains("from 0 to 4092"));
    }
    for distance in [-256, 4096, i32::MIN, i32::MAX] {
        let error = emit(&TracePoint {
            prefetch: Some(distance),
            ..exit()
        });
        assert_eq!(error, Err(EncodeError::PrefetchDistance(distance)));
        assert!(!Thumb2::PREFETCH_DISTANCES.contains(&distance));
    }
    for (form, offset) in [
        (hubble(2, 0, 0), 2),
        (hubble(0, 4096, 0), 4096),
        (hubble(0, 0, -4), -4),
    ] {
        let error = emit(&TracePoint { form, ..exit() });
        assert_eq!(
            error,
            Err(EncodeError::FormOffset {
                form,
                offset,
                alignment: 4
            })
        );
    }
    for ring_bytes in [0, 2048, 4095, u32::MAX] {
        let form = Form::Masked { ring_bytes };
        let error = emit(&TracePoint { form, ..exit() });
        assert_eq!(error, Err(EncodeError::RingBytes(ring_bytes)));
    }
    let two = [Reg::R4, Reg::Ip];
    let error = emit(&point(Kind::Exit, &two)).unwrap_err();
    assert_eq!(error, EncodeError::TooFewFree(RegSet::of(&two)));
    assert!(error.to_string().contains("{r4, ip}"), "{error}");
    // The method's register does not count as free: the slot needs its value.
    assert_eq!(
        emit(&point(Kind::Entry { method: Reg::R4 }, &free)),
        Err(EncodeError::TooFewFree(RegSet::of(&[Reg::Ip, Reg::Lr])))
    );
    let high = [Reg::R8, Reg::Ip, Reg::Lr];
    assert_eq!(
        emit(&point(Kind::Exit, &high)),
        Err(EncodeError::NoCursorRegister(RegSet::of(&high)))
    );
}

#[test]
fn exactly_the_store_of_the_slot_may_wrap() {
    let disassembler = Disassembler::new(Isa::Thumb2);
    for point in common::all_points(CURSOR) {
        let bytes = emit(&point).unwrap().bytes;
        let mut stores = 0;
        for i in disassembler.instructions(&bytes) {
            let code = &bytes[i.at..];
            let expected = i.text.strip_prefix("strd ").map(|operands| {
                let (_, base) = operands.split_once('[').unwrap();
                let (base, _) = base.split_once(']').unwrap();
                Reg::ALL.into_iter().find(|r| r.to_string() == base)
            });
            assert_eq!(wraps_at(code), expected.flatten(), "{point:?}: {}", i.text);
            if expected.is_some() {
                stores += 1;
                // A page may end anywhere.
                for cut in 1..=MAX_STORE_BYTES {
                    assert!(wraps_at(&code[..cut]).is_some(), "{point:?}: {cut} bytes");
                }
                // The bytes after MAX_STORE_BYTES do not matter.
                assert!(wraps_at(&code[..MAX_STORE_BYTES]) == wraps_at(code));
            }
        }
        assert_eq!(stores, 1, "{point:?}");
    }
}

#[test]
fn other_stores_do_not_wrap() {
    assert_eq!(wraps_at(&[]), None);
    let as_emitted: [u16; 4] = [0xe8e4, 0x0c02, 0xf8c9, 0x4058];
    let bytes = |code: &[u16]| -> Vec<u8> { code.iter().flat_map(|h| h.to_le_bytes()).collect() };
    assert_eq!(wraps_at(&bytes(&as_emitted)), Some(Reg::R4));
    for (place, halfword, what) in [
        (0, 0xe8ec, "the cursor in ip"),
        (0, 0xe8ed, "the cursor in sp"),
        (0, 0xe8c4, "strd without write-back"),
        (0, 0xe8f4, "ldrd"),
        (0, 0xe9e4, "strd, pre-indexed"),
        (0, 0xe864, "strd, backwards"),
        (1, 0x0c03, "strd by 12"),
        (1, 0x0c00, "strd by 0"),
        (1, 0x4c02, "the cursor stored"),
        (1, 0x0402, "the cursor as the counter"),
        (1, 0x9c02, "the thread stored"),
        (1, 0x0d02, "sp stored"),
        (1, 0xfc02, "pc stored"),
        (1, 0xcc02, "the same in both halves"),
        (2, 0xf8ca, "another thread register"),
        (2, 0xf8d9, "a load behind it"),
        (3, 0x5058, "another register becomes the cursor"),
        (3, 0x4059, "an unaligned cursor"),
    ] {
        let mut code = as_emitted;
        code[place] = halfword;
        assert_eq!(wraps_at(&bytes(&code)), None, "{what}");
    }
    // The halfwords in the wrong order.
    assert_eq!(wraps_at(&bytes(&[0x0c02, 0xe8e4, 0x4058, 0xf8c9])), None);
}

#[test]
fn the_other_forms() {
    let hubble = hubble(common::GO, common::START, common::END);
    let disassembler = Disassembler::new(Isa::Thumb2);
    for (form, expected, exit_bytes) in [
        (
            Form::Masked {
                ring_bytes: 1 << 25,
            },
            &[
                "ldr.w r4, [r9, #0x58]",
                "cbz r4, #0x1a",
                "mrrc p15, #1, ip, lr, c14",
                "strd r0, ip, [r4]",
                "add.w lr, r4, #8",
                "bfi r4, lr, #0, #0x19",
                "str.w r4, [r9, #0x58]",
            ][..],
            30,
        ),
        (
            hubble,
            &[
                "ldr.w r4, [r9, #0x58]",
                "cbz r4, #0x32",
                "ldr.w ip, [r9, #0xa8]",
                "cmp.w ip, #0",
                "beq #0x1a",
                "mov.w ip, #0",
                "str.w ip, [r9, #0x58]",
                "b #0x32",
                "mrrc p15, #1, ip, lr, c14",
                "strd r0, ip, [r4], #8",
                "ldr.w ip, [r9, #0xa4]",
                "cmp r4, ip",
                "bne #0x2e",
                "ldr.w r4, [r9, #0xa0]",
                "str.w r4, [r9, #0x58]",
            ],
            54,
        ),
        (
            Form::Nanoscope,
            &[
                "ldr.w r4, [r9, #0x58]",
                "cbz r4, #0x18",
                "mrrc p15, #1, ip, lr, c14",
                "strd ip, lr, [r4, #8]",
                "str r0, [r4]",
                "add.w r4, r4, #0x10",
                "str.w r4, [r9, #0x58]",
            ],
            // The short store cannot name ip.
            30,
        ),
    ] {
        let code = emit(&TracePoint { form, ..entry() }).unwrap().bytes;
        let found: Vec<_> = disassembler
            .instructions(&code)
            .into_iter()
            .map(|i| i.text)
            .collect();
        assert_eq!(found, expected, "{form:?}");
        let code = emit(&TracePoint { form, ..exit() }).unwrap().bytes;
        assert_eq!(code.len(), exit_bytes, "{form:?}");
    }
}

fn hubble(stop_offset: i32, start_offset: i32, end_offset: i32) -> Form {
    Form::Hubble {
        stop_offset,
        start_offset,
        end_offset,
    }
}

/// The expected code of a trace point, written a second time, as assembler text, given its registers.
fn reference(n: usize, point: &TracePoint) -> String {
    let mut registers: Vec<Reg> = point.free.iter().collect();
    if let Kind::Entry { method } = point.kind {
        registers.retain(|r| *r != method);
    }
    registers.sort();
    let (cursor, low, high) = (registers[0], registers[1], registers[2]);
    let offset = point.cursor_offset;
    let opc1 = match point.counter {
        Counter::Physical => 0,
        _ => 1,
    };
    let isb = if point.barrier { "isb sy\n" } else { "" };
    let (zero, happened) = match point.kind {
        Kind::Entry { method } => (String::new(), method),
        Kind::Exit => (format!("mov.w {high}, #0\n"), high),
    };
    let mut out = format!("ldr.w {cursor}, [r9, #{offset}]\ncbz {cursor}, done{n}\n");
    if let Some(distance) = point.prefetch {
        writeln!(out, "pldw [{cursor}, #{distance}]").unwrap();
    }
    let mrrc = format!("mrrc p15, #{opc1}, {low}, {high}, c14\n{isb}");
    let pair = format!("{mrrc}{zero}strd {happened}, {low}, [{cursor}]");
    let body = match point.form {
        Form::Inline => format!("{pair}, #8\n"),
        Form::Masked { ring_bytes } => {
            let bits = ring_bytes.ilog2();
            format!("{pair}\nadd.w {high}, {cursor}, #8\nbfi {cursor}, {high}, #0, #{bits}\n")
        }
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => format!(
            "ldr.w {low}, [r9, #{stop_offset}]\ncmp.w {low}, #0\nbeq go{n}\nmov.w {low}, #0\n\
             str.w {low}, [r9, #{offset}]\nb done{n}\ngo{n}:\n{pair}, #8\n\
             ldr.w {low}, [r9, #{end_offset}]\ncmp {cursor}, {low}\nbne inside{n}\n\
             ldr.w {cursor}, [r9, #{start_offset}]\ninside{n}:\n"
        ),
        Form::Nanoscope => {
            let wide = if happened.is_low() { "" } else { ".w" };
            format!(
                "{mrrc}strd {low}, {high}, [{cursor}, #8]\n{zero}\
                 str{wide} {happened}, [{cursor}]\nadd.w {cursor}, {cursor}, #16\n"
            )
        }
    };
    out + &body + &format!("str.w {cursor}, [r9, #{offset}]\ndone{n}:\n")
}

/// The reference as the disassembler prints it, given the instructions' offsets.
fn reference_disassembled(point: &TracePoint, found: &[Instruction]) -> Vec<String> {
    let source = reference(0, point);
    let mut lines = Vec::new();
    let mut labels = Vec::new();
    for line in source.lines() {
        match line.strip_suffix(':') {
            // After the last instruction comes the end of the code.
            Some(label) => labels.push((label, lines.len())),
            None => lines.push(line.to_owned()),
        }
    }
    let end = found.last().map_or(0, |i| i.at + i.size);
    for line in &mut lines {
        for (label, index) in &labels {
            let target = found.get(*index).map_or(end, |i| i.at);
            *line = line.replace(label, &format!("#{target}"));
        }
        let mut parts = line.split('#');
        let mut spelled = parts.next().unwrap().to_owned();
        for part in parts {
            let is_end = |c: char| c != '-' && !c.is_ascii_digit();
            let (number, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
            let number: i32 = number.parse().unwrap();
            let sign = if number < 0 { "-" } else { "" };
            match number.unsigned_abs() {
                // Capstone does not print a displacement of 0.
                0 if rest == "]" => spelled.truncate(spelled.len() - 2),
                small @ 0..=9 if number >= 0 => write!(spelled, "#{small}").unwrap(),
                large => write!(spelled, "#{sign}{large:#x}").unwrap(),
            }
            spelled += rest;
        }
        *line = spelled;
    }
    lines
}

/// Checks that the code is the expected code of the point.
fn assert_as_asked(disassembler: &Disassembler, point: &TracePoint) {
    let code = emit(point).unwrap().bytes;
    let instructions = disassembler.instructions(&code);
    let found: Vec<_> = instructions.iter().map(|i| i.text.as_str()).collect();
    let expected = reference_disassembled(point, &instructions);
    assert_eq!(found, expected, "{point:?}");
}

fn any_register() -> impl Strategy<Value = Reg> {
    (0..16_u8).prop_map(|n| Reg::from_number(n).unwrap())
}

fn any_prefetch() -> impl Strategy<Value = Option<i32>> {
    proptest::option::of(prop_oneof![9 => -255..4096_i32, 1 => -260..-250_i32, 1 => any::<i32>()])
}

fn any_form() -> impl Strategy<Value = Form> {
    let ring_bytes = prop_oneof![9 => (11..32_u32).prop_map(|bits| 1 << bits), 1 => any::<u32>()];
    let word = || {
        prop_oneof![
            19 => (0..1024).prop_map(|word| 4 * word),
            1 => -10..4200,
            1 => any::<i32>(),
        ]
    };
    prop_oneof![
        Just(Form::Inline),
        ring_bytes.prop_map(|ring_bytes| Form::Masked { ring_bytes }),
        (word(), word(), word()).prop_map(|(a, b, c)| hubble(a, b, c)),
        Just(Form::Nanoscope),
    ]
}

/// Any specification; about half of them can be encoded.
fn any_point() -> impl Strategy<Value = TracePoint> {
    let free = prop_oneof![
        4 => proptest::sample::subsequence(common::usable().collect::<Vec<_>>(), 0..=13),
        1 => proptest::collection::vec(any_register(), 0..16),
    ];
    let kind = prop_oneof![
        1 => Just(Kind::Exit),
        3 => any_register().prop_map(|method| Kind::Entry { method }),
    ];
    let cursor_offset = prop_oneof![
        6 => (0..1024).prop_map(|word| 4 * word),
        1 => -10..4200,
        1 => any::<i32>(),
    ];
    let options = (any_prefetch(), any_form());
    (
        free,
        kind,
        cursor_offset,
        any::<bool>(),
        any::<bool>(),
        options,
    )
        .prop_map(
            |(free, kind, cursor_offset, physical, barrier, (prefetch, form))| TracePoint {
                counter: if physical {
                    Counter::Physical
                } else {
                    Counter::Virtual
                },
                barrier,
                prefetch,
                form,
                free: free.into_iter().collect(),
                ..TracePoint::new(kind, cursor_offset)
            },
        )
}

/// Whether the point has an encoding, from the limits of the instructions.
fn is_possible(point: &TracePoint) -> bool {
    let is_usable = |r: Reg| !matches!(r, Reg::R9 | Reg::Sp | Reg::Pc);
    let method = match point.kind {
        Kind::Entry { method } => Some(method),
        Kind::Exit => None,
    };
    let others: Vec<Reg> = point.free.iter().filter(|r| Some(*r) != method).collect();
    let is_word = |offset: i32| (0..1024).any(|word| word * 4 == offset);
    let form_is_possible = match point.form {
        Form::Masked { ring_bytes } => (12..32).any(|bits| 1 << bits == ring_bytes),
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => [stop_offset, start_offset, end_offset]
            .into_iter()
            .all(is_word),
        Form::Inline | Form::Nanoscope => true,
    };
    is_word(point.cursor_offset)
        && form_is_possible
        && point.prefetch.is_none_or(|d| (-255..4096).contains(&d))
        && method.is_none_or(is_usable)
        && point.free.iter().all(is_usable)
        && others.len() >= 3
        && others.iter().any(|r| r.number() < 8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_for_is_encoded_right_or_refused(point in any_point()) {
        match emit(&point) {
            Ok(code) => {
                prop_assert!(is_possible(&point));
                assert_as_asked(&Disassembler::new(Isa::Thumb2), &point);
                prop_assert!(code.clobbers.iter().all(|r| point.free.contains(r)));
            }
            Err(error) => prop_assert!(!is_possible(&point), "{}", error),
        }
    }

    #[test]
    fn any_bytes_can_be_asked_about(code in proptest::collection::vec(any::<u8>(), 0..12)) {
        // Whatever the bytes, never a register that cannot hold a cursor.
        prop_assert!(wraps_at(&code).is_none_or(Reg::is_low));
    }
}

#[test]
fn every_offset_is_encoded() {
    let disassembler = Disassembler::new(Isa::Thumb2);
    for cursor_offset in (0..4096).step_by(4) {
        for point in [entry(), exit()] {
            let point = TracePoint {
                cursor_offset,
                ..point
            };
            assert_as_asked(&disassembler, &point);
        }
    }
    for point in common::other_forms(CURSOR) {
        assert_as_asked(&disassembler, &point);
    }
}

#[test]
fn no_store_of_another_form_may_wrap() {
    let disassembler = Disassembler::new(Isa::Thumb2);
    for point in common::other_forms(CURSOR) {
        let bytes = emit(&point).unwrap().bytes;
        for i in disassembler.instructions(&bytes) {
            if bytes.len() - i.at >= MAX_STORE_BYTES {
                assert_eq!(wraps_at(&bytes[i.at..]), None, "{point:?}: {}", i.text);
            }
        }
    }
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut points = common::all_points(CURSOR);
    points.extend(common::other_forms(CURSOR));
    for cursor_offset in (0..4096).step_by(4) {
        points.extend([entry(), exit()].map(|point| TracePoint {
            cursor_offset,
            prefetch: Some(cursor_offset - 255),
            ..point
        }));
    }
    let mut source = String::new();
    let mut emitted = Vec::new();
    for (n, point) in points.iter().enumerate() {
        source += &reference(n, point);
        emitted.extend(emit(point).unwrap().bytes);
    }
    let compared = assert_assemblers_agree(Isa::Thumb2, &source, &emitted);
    println!("{} trace points compared with {compared:?}", points.len());
}
