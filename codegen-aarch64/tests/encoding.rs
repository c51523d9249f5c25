// SPDX-License-Identifier: Apache-2.0
//! The emitted bytes against independent assemblers and an independent disassembler.

mod common;

use std::fmt::Write;

use hindsight_codegen_aarch64::{
    emit, wraps_at, Aarch64, EncodeError, Form, Isa as _, Kind, Reg, RegSet, TracePoint,
    MAX_STORE_BYTES,
};
use hindsight_codegen_check::{assert_assemblers_agree, Disassembler, Isa};
use proptest::prelude::*;

const CURSOR: i32 = 0x58;
const MAX_CURSOR_OFFSET: i32 = Aarch64::MAX_WORD_OFFSET;

fn point(kind: Kind) -> TracePoint {
    TracePoint::new(kind, CURSOR)
}

fn entry(method: Reg) -> TracePoint {
    point(Kind::Entry { method })
}

fn disassembler() -> Disassembler {
    Disassembler::new(Isa::Aarch64)
}

/// One instruction per line, in capstone's spelling; targets are byte offsets.
fn disassemble(disassembler: &Disassembler, code: &[u8]) -> Vec<String> {
    let instructions = disassembler.instructions(code);
    instructions.into_iter().map(|i| i.text).collect()
}

/// Compares the bytes, then the text.
fn assert_code(point: &TracePoint, expected: &[(u32, &str)]) {
    let bytes = emit(point).unwrap().bytes;
    let words: Vec<String> = bytes
        .chunks(4)
        .map(|w| format!("{:08x}", u32::from_le_bytes(w.try_into().unwrap())))
        .collect();
    let expected_words: Vec<String> = expected.iter().map(|(w, _)| format!("{w:08x}")).collect();
    assert_eq!(words, expected_words, "{point:?}");
    let expected_text: Vec<&str> = expected.iter().map(|(_, text)| *text).collect();
    assert_eq!(
        disassemble(&disassembler(), &bytes),
        expected_text,
        "{point:?}"
    );
}

#[test]
fn entry_as_arts_code_generator_asks_for_it() {
    let expected = [
        (0xf940_2e70, "ldr x16, [x19, #0x58]"),
        (0xb400_0090, "cbz x16, #0x14"),
        (0xd53b_e051, "mrs x17, cntvct_el0"),
        (0x2881_4600, "stp w0, w17, [x16], #8"),
        (0xf900_2e70, "str x16, [x19, #0x58]"),
    ];
    assert_code(&entry(Reg::X0), &expected);
}

#[test]
fn exit_needs_no_register_but_the_two() {
    let expected = [
        (0xf940_2e70, "ldr x16, [x19, #0x58]"),
        (0xb400_0090, "cbz x16, #0x14"),
        (0xd53b_e051, "mrs x17, cntvct_el0"),
        (0x2881_461f, "stp wzr, w17, [x16], #8"),
        (0xf900_2e70, "str x16, [x19, #0x58]"),
    ];
    assert_code(&point(Kind::Exit), &expected);
    // An exit stores no pointer.
    let wide = TracePoint {
        wide_pointers: true,
        ..point(Kind::Exit)
    };
    assert_code(&wide, &expected);
}

#[test]
fn barrier_and_prefetch() {
    let point = TracePoint {
        barrier: true,
        prefetch: Some(128),
        ..point(Kind::Exit)
    };
    let expected = [
        (0xf940_2e70, "ldr x16, [x19, #0x58]"),
        (0xb400_00d0, "cbz x16, #0x1c"),
        (0xf888_0211, "prfum pstl1strm, [x16, #0x80]"),
        (0xd53b_e051, "mrs x17, cntvct_el0"),
        (0xd503_3fdf, "isb"),
        (0x2881_461f, "stp wzr, w17, [x16], #8"),
        (0xf900_2e70, "str x16, [x19, #0x58]"),
    ];
    assert_code(&point, &expected);
}

#[test]
fn wide_entry_takes_two_slots_above_4_gib() {
    let entry = TracePoint {
        wide_pointers: true,
        cursor_offset: MAX_CURSOR_OFFSET,
        ..entry(Reg::X30)
    };
    let expected = [
        (0xf97f_fe70, "ldr x16, [x19, #0x7ff8]"),
        (0xb400_0190, "cbz x16, #0x34"),
        (0xd360_ffd1, "lsr x17, x30, #0x20"),
        (0xb400_00f1, "cbz x17, #0x28"),
        (0xf800_861e, "str x30, [x16], #8"),
        (0xd53b_e051, "mrs x17, cntvct_el0"),
        (0xd360_7e31, "lsl x17, x17, #0x20"),
        (0xb240_0231, "orr x17, x17, #1"),
        (0xf800_8611, "str x17, [x16], #8"),
        (0x1400_0003, "b #0x30"),
        (0xd53b_e051, "mrs x17, cntvct_el0"),
        (0x2881_461e, "stp w30, w17, [x16], #8"),
        (0xf93f_fe70, "str x16, [x19, #0x7ff8]"),
    ];
    assert_code(&entry, &expected);
}

/// The instructions that run, in their order: follows the branches of the disassembled code.
fn path(code: &[String], is_on: bool, is_wide: bool) -> Vec<&str> {
    let mut ran = Vec::new();
    let mut at = 0;
    while let Some(text) = code.get(at) {
        ran.push(text.as_str());
        at += 1;
        let (condition, target) = text.rsplit_once('#').unwrap_or((text, ""));
        let taken = match condition {
            "cbz x16, " => !is_on,
            "cbz x17, " => !is_wide,
            "b " => true,
            _ => false,
        };
        if taken {
            let hexadecimal = target.trim_start_matches("0x");
            at = usize::from_str_radix(hexadecimal, 16).unwrap() / 4;
        }
    }
    assert_eq!(at, code.len(), "control falls out of the end");
    ran
}

fn count(path: &[&str], mnemonic: &str) -> usize {
    path.iter()
        .filter(|text| text.split(' ').next() == Some(mnemonic))
        .count()
}

#[test]
fn instructions_that_run() {
    let disassembler = disassembler();
    for point in common::all_points(&[CURSOR]) {
        let code = emit(&point).unwrap();
        let text = disassemble(&disassembler, &code.bytes);
        assert_eq!(path(&text, false, false).len(), 2, "{point:?}");

        let checks = point.wide_pointers && point.kind != Kind::Exit;
        let options = usize::from(point.barrier) + usize::from(point.prefetch.is_some());
        let on = path(&text, true, false);
        assert_eq!(
            on.len(),
            5 + options + 2 * usize::from(checks),
            "{point:?}: {on:?}"
        );
        assert_eq!(count(&on, "ldr"), 1, "{point:?}");
        assert_eq!(count(&on, "stp"), 1, "{point:?}");
        assert_eq!(count(&on, "str"), 1, "{point:?}");
        if !checks {
            assert_eq!(code.bytes.len(), 4 * on.len(), "{point:?}");
            continue;
        }
        let wide = path(&text, true, true);
        assert_eq!(wide.len(), 11 + options, "{point:?}: {wide:?}");
        assert_eq!(count(&wide, "str"), 3, "{point:?}");
        assert_eq!(count(&wide, "stp"), 0, "{point:?}");
    }
}

#[test]
fn only_the_two_scratch_registers_are_written() {
    let disassembler = disassembler();
    let clobbers = RegSet::of(&[Reg::X16, Reg::X17]);
    let mut points = common::all_points(&[CURSOR]);
    points.extend(common::other_forms(CURSOR));
    for point in points {
        let code = emit(&point).unwrap();
        assert_eq!(code.clobbers, clobbers);
        for text in disassemble(&disassembler, &code.bytes) {
            // None of these touches the flags.
            let (mnemonic, operands) = text.split_once(' ').unwrap_or((&text, ""));
            match mnemonic {
                "ldr" | "mrs" | "lsl" | "lsr" | "orr" | "add" | "sub" | "bfxil" => {
                    let written = operands.split(',').next().unwrap();
                    assert!(
                        matches!(written, "x16" | "x17" | "w17"),
                        "{point:?}: {text}"
                    );
                }
                "str" | "stp" if operands.contains("],") => {
                    assert!(operands.ends_with("[x16], #8"), "{point:?}: {text}");
                }
                "str" | "stp" | "b" | "cbz" | "cbnz" | "isb" | "prfum" => {}
                other => panic!("{other} in {point:?}"),
            }
        }
    }
}

/// Forms, with the instructions that run at an entry and at an exit, and the length of both.
#[test]
fn the_other_forms() {
    let hubble = Form::Hubble {
        stop_offset: common::GO,
        start_offset: common::START,
        end_offset: common::END,
    };
    let disassembler = disassembler();
    for (form, entry_text, exit_instructions) in [
        (
            Form::Masked {
                ring_bytes: 1 << 25,
            },
            &[
                "ldr x16, [x19, #0x58]",
                "cbz x16, #0x1c",
                "mrs x17, cntvct_el0",
                "stp w0, w17, [x16]",
                "add x17, x16, #8",
                "bfxil x16, x17, #0, #0x19",
                "str x16, [x19, #0x58]",
            ][..],
            7,
        ),
        (
            hubble,
            &[
                "ldr x16, [x19, #0x58]",
                "cbz x16, #0x34",
                "ldr w17, [x19, #0xb0]",
                "cbz w17, #0x18",
                "str xzr, [x19, #0x58]",
                "b #0x34",
                "mrs x17, cntvct_el0",
                "stp w0, w17, [x16], #8",
                "ldr x17, [x19, #0xa8]",
                "sub x17, x17, x16",
                "cbnz x17, #0x30",
                "ldr x16, [x19, #0xa0]",
                "str x16, [x19, #0x58]",
            ],
            13,
        ),
        (
            Form::Nanoscope,
            &[
                "ldr x16, [x19, #0x58]",
                "cbz x16, #0x1c",
                "mrs x17, cntvct_el0",
                "str x0, [x16]",
                "str x17, [x16, #8]",
                "add x16, x16, #0x10",
                "str x16, [x19, #0x58]",
            ],
            7,
        ),
    ] {
        let code = emit(&TracePoint {
            form,
            ..entry(Reg::X0)
        })
        .unwrap()
        .bytes;
        assert_eq!(disassemble(&disassembler, &code), entry_text, "{form:?}");
        let exit = point(Kind::Exit);
        let code = emit(&TracePoint { form, ..exit }).unwrap().bytes;
        assert_eq!(code.len(), 4 * exit_instructions, "{form:?}");
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    for register in [Reg::X16, Reg::X17, Reg::X19, Reg::Sp] {
        let error = emit(&entry(register)).unwrap_err();
        assert_eq!(error, EncodeError::MethodRegister(register));
        assert!(error
            .to_string()
            .contains(&format!("cannot be in {register}:")));
    }
    for cursor_offset in [-8, 4, 12, MAX_CURSOR_OFFSET + 8, i32::MIN, i32::MAX - 7] {
        let error = emit(&TracePoint {
            cursor_offset,
            ..point(Kind::Exit)
        })
        .unwrap_err();
        assert_eq!(error, EncodeError::CursorOffset(cursor_offset));
        assert!(error
            .to_string()
            .contains("a multiple of 8 from 0 to 32760"));
    }
    for (form, offset, alignment) in [
        (hubble(2, 0, 0), 2, 4),
        (hubble(4096 * 4, 0, 0), 4096 * 4, 4),
        (hubble(0, 4, 0), 4, 8),
        (hubble(0, 0, -8), -8, 8),
    ] {
        let error = emit(&TracePoint {
            form,
            ..point(Kind::Exit)
        });
        let expected = EncodeError::FormOffset {
            form,
            offset,
            alignment,
        };
        assert_eq!(error, Err(expected));
    }
    for ring_bytes in [0, 2048, 4095, u32::MAX] {
        let error = emit(&TracePoint {
            form: Form::Masked { ring_bytes },
            ..point(Kind::Exit)
        });
        assert_eq!(error, Err(EncodeError::RingBytes(ring_bytes)));
    }
    for distance in [-257, 256, i32::MIN, i32::MAX] {
        let error = emit(&TracePoint {
            prefetch: Some(distance),
            ..point(Kind::Exit)
        })
        .unwrap_err();
        assert_eq!(error, EncodeError::PrefetchDistance(distance));
        assert!(error.to_string().contains("from -256 to 255"));
    }
}

#[test]
fn exactly_the_stores_through_the_bare_cursor_may_wrap() {
    let disassembler = disassembler();
    for point in common::all_points(&[0, CURSOR, MAX_CURSOR_OFFSET]) {
        let bytes = emit(&point).unwrap().bytes;
        let mut stores = 0;
        for (i, text) in disassemble(&disassembler, &bytes).iter().enumerate() {
            let may_fault = text.starts_with("st") && text.contains("[x16]");
            let code = &bytes[4 * i..];
            assert_eq!(wraps_at(code), may_fault, "{point:?}: {text}");
            if may_fault {
                stores += 1;
                assert!(wraps_at(&code[..MAX_STORE_BYTES]), "{point:?}: {text}");
                // A page may end after the instruction.
                assert!(wraps_at(&code[..4]), "{point:?}: {text}");
                assert!(!wraps_at(&code[..3]));
            }
        }
        let wide = point.wide_pointers && point.kind != Kind::Exit;
        assert_eq!(stores, if wide { 3 } else { 1 }, "{point:?}");
    }
}

fn hubble(stop_offset: i32, start_offset: i32, end_offset: i32) -> Form {
    Form::Hubble {
        stop_offset,
        start_offset,
        end_offset,
    }
}

#[test]
fn no_store_of_another_form_may_wrap() {
    for point in common::other_forms(CURSOR) {
        if point.wide_pointers {
            // Hubble's form stores its second slot like the default form, but never meets a guard page.
            continue;
        }
        let bytes = emit(&point).unwrap().bytes;
        for at in (0..bytes.len() - 4).step_by(4) {
            assert!(!wraps_at(&bytes[at..]), "{point:?} at {at}");
        }
    }
}

/// Whether [`wraps_at`] accepts these two instructions.
fn takes(store: u32, next: u32) -> bool {
    wraps_at(&[store.to_le_bytes(), next.to_le_bytes()].concat())
}

#[test]
fn other_stores_do_not_wrap() {
    const PUBLISH: u32 = 0xf900_2e70;
    const MRS: u32 = 0xd53b_e051;
    const NOP: u32 = 0xd503_201f;
    assert!(!wraps_at(&[]));
    assert!(takes(0x2881_4600, PUBLISH));
    assert!(takes(0xf800_8600, MRS));
    assert!(takes(0xf800_8611, 0x1400_0003));
    // The right stores, followed by other instructions than in a trace point.
    for (store, next) in [
        (0x2881_4600, NOP),
        (0x2881_4600, MRS),
        (0xf800_8600, NOP),
        (0xf800_8600, PUBLISH),
        (0xf800_8611, MRS),
        (0xf800_8611, 0x1400_0005),
        (0xf800_8611, 0x1400_0000),
        // str x16, [x20, #0x58]; str x17, [x19, #0x58]; ldr x16, [x19, #0x58]
        (0x2881_4600, 0xf900_2e90),
        (0x2881_4600, 0xf900_2e71),
        (0x2881_4600, 0xf940_2e70),
        // mrs x0, cntvct_el0; mrs x17, cntpct_el0
        (0xf800_8600, 0xd53b_e040),
        (0xf800_8600, 0xd53b_e031),
    ] {
        assert!(!takes(store, next), "{store:08x} {next:08x}");
    }
    // Every bit matters, except the number of the stored register.
    for (store, next) in [
        (0x2881_4600_u32, PUBLISH),
        (0xf800_8600, MRS),
        (0xf800_8611, 0x1400_0003),
    ] {
        for bit in 5..32 {
            assert!(!takes(store ^ 1 << bit, next), "{store:08x}, bit {bit}");
        }
    }
    // Registers that never hold a method.
    for register in [16, 17, 19] {
        assert!(!takes(0x2881_4600 | register, PUBLISH), "{register}");
        assert!(!takes(0xf800_8600 | register, MRS), "{register}");
    }
    assert!(!takes(0xf800_861f, MRS));
}

/// The expected code of a trace point, written a second time, as assembler text. `label` makes the names of labels. A
/// label's definition ends with a colon and has a line of its own.
fn reference(point: &TracePoint, label: impl Fn(&str) -> String) -> String {
    let [done, narrow, publish, go, first, second] =
        ["done", "narrow", "publish", "go", "first", "second"].map(label);
    let cursor = point.cursor_offset;
    let mrs = match point.barrier {
        true => "mrs x17, cntvct_el0\nisb\n",
        false => "mrs x17, cntvct_el0\n",
    };
    let mut out = format!("ldr x16, [x19, #{cursor}]\ncbz x16, {done}\n");
    if let Some(distance) = point.prefetch {
        writeln!(out, "prfum pstl1strm, [x16, #{distance}]").unwrap();
    }
    // The address operand of a store, and the code that moves the cursor to the next slot, with a label.
    let (slot, advance) = match point.form {
        Form::Inline => ("[x16], #8", String::new()),
        Form::Masked { ring_bytes } => {
            let bits = ring_bytes.ilog2();
            (
                "[x16]",
                format!("add x17, x16, #8\nbfxil x16, x17, #0, #{bits}\n"),
            )
        }
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => {
            write!(
                out,
                "ldr w17, [x19, #{stop_offset}]\ncbz w17, {go}\nstr xzr, [x19, #{cursor}]\n\
                 b {done}\n{go}:\n"
            )
            .unwrap();
            let wrap = format!(
                "ldr x17, [x19, #{end_offset}]\nsub x17, x17, x16\ncbnz x17, INSIDE\n\
                 ldr x16, [x19, #{start_offset}]\nINSIDE:\n"
            );
            ("[x16], #8", wrap)
        }
        Form::Nanoscope => {
            let first = match point.kind {
                Kind::Exit => "xzr".to_owned(),
                Kind::Entry { method } => method.to_string(),
            };
            return out
                + mrs
                + &format!(
                    "str {first}, [x16]\nstr x17, [x16, #8]\nadd x16, x16, #16\n\
                     str x16, [x19, #{cursor}]\n{done}:\n"
                );
        }
    };
    let low = match point.kind {
        Kind::Exit => "wzr".to_owned(),
        Kind::Entry { method } => {
            if point.wide_pointers {
                let advance = advance.replace("INSIDE", &first);
                write!(
                    out,
                    "lsr x17, {method}, #32\ncbz x17, {narrow}\nstr {method}, {slot}\n{advance}\
                     {mrs}lsl x17, x17, #32\norr x17, x17, #1\n\
                     str x17, {slot}\nb {publish}\n{narrow}:\n"
                )
                .unwrap();
            }
            method.to_string().replace('x', "w")
        }
    };
    let advance = advance.replace("INSIDE", &second);
    write!(
        out,
        "{mrs}stp {low}, w17, {slot}\n{publish}:\n{advance}str x16, [x19, #{cursor}]\n{done}:\n"
    )
    .unwrap();
    out
}

/// The reference with resolved labels, and numbers in capstone's spelling.
fn reference_lines(point: &TracePoint) -> Vec<String> {
    let source = reference(point, |name| format!("<{name}>"));
    let mut lines = Vec::new();
    let mut labels = Vec::new();
    for line in source.lines() {
        match line.strip_suffix(':') {
            Some(label) => labels.push((label.to_owned(), 4 * lines.len() as i32)),
            None => lines.push(line.to_owned()),
        }
    }
    for line in &mut lines {
        for (label, target) in &labels {
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
                small @ 0..=9 => write!(spelled, "#{sign}{small}").unwrap(),
                large => write!(spelled, "#{sign}{large:#x}").unwrap(),
            }
            spelled += rest;
        }
        *line = spelled;
    }
    lines
}

#[test]
fn every_register_with_every_offset_is_what_was_asked_for() {
    let disassembler = disassembler();
    let registers: Vec<Reg> = common::method_registers().collect();
    for (i, cursor_offset) in (0..=MAX_CURSOR_OFFSET).step_by(8).enumerate() {
        // Each offset with some register, each register with many offsets.
        let method = registers[i % registers.len()];
        let points = [entry(method), point(Kind::Exit)];
        for point in points {
            let point = TracePoint {
                cursor_offset,
                ..point
            };
            assert_eq!(
                disassemble(&disassembler, &emit(&point).unwrap().bytes),
                reference_lines(&point),
                "{point:?}"
            );
        }
    }
    let mut points = common::all_points(&[0, 8, CURSOR, MAX_CURSOR_OFFSET]);
    points.extend(common::other_forms(CURSOR));
    for point in points {
        assert_eq!(
            disassemble(&disassembler, &emit(&point).unwrap().bytes),
            reference_lines(&point),
            "{point:?}"
        );
    }
}

/// Any number, often one at or just beyond the limit of an encoding.
fn offsets() -> impl Strategy<Value = i32> {
    prop_oneof![
        (0..=MAX_CURSOR_OFFSET / 8).prop_map(|words| words * 8),
        -64..64_i32,
        MAX_CURSOR_OFFSET - 64..MAX_CURSOR_OFFSET + 64,
        any::<i32>(),
    ]
}

fn forms() -> impl Strategy<Value = Form> {
    let ring_bytes = prop_oneof![3 => (11..32_u32).prop_map(|bits| 1 << bits), 1 => any::<u32>()];
    let word = |limit: i32, size: i32| {
        prop_oneof![
            9 => (0..limit).prop_map(move |words| words * size),
            1 => -64..64_i32,
            1 => any::<i32>(),
        ]
    };
    prop_oneof![
        Just(Form::Inline),
        ring_bytes.prop_map(|ring_bytes| Form::Masked { ring_bytes }),
        (word(4100, 4), word(4096, 8), word(4100, 8)).prop_map(|(a, b, c)| hubble(a, b, c)),
        Just(Form::Nanoscope),
    ]
}

/// Whether a number of the form has no encoding.
fn unfit(form: Form) -> bool {
    let unfit = |offset: i32, size: i32| !(0..4096).any(|words| words * size == offset);
    match form {
        Form::Masked { ring_bytes } => !(12..32).any(|bits| 1 << bits == ring_bytes),
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => unfit(stop_offset, 4) || unfit(start_offset, 8) || unfit(end_offset, 8),
        Form::Inline | Form::Nanoscope => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn right_code_or_the_right_error(
        register in 0..33_u8,
        cursor_offset in offsets(),
        wide_pointers: bool,
        barrier: bool,
        prefetch in proptest::option::of(prop_oneof![-256..=255_i32, -270..270_i32, any::<i32>()]),
        form in forms(),
    ) {
        let kind = Reg::from_number(register).map_or(Kind::Exit, |method| Kind::Entry { method });
        let point =
            TracePoint { wide_pointers, form, barrier, prefetch, ..TracePoint::new(kind, cursor_offset) };
        let offset_fits = (0..=4095).any(|words| words * 8 == cursor_offset);
        let register_fits = ![16, 17, 19, 31].contains(&register);
        match emit(&point) {
            Ok(code) => {
                prop_assert!(offset_fits && register_fits && !unfit(form));
                prop_assert!(prefetch.is_none_or(|d| Aarch64::PREFETCH_DISTANCES.contains(&d)));
                prop_assert_eq!(disassemble(&disassembler(), &code.bytes), reference_lines(&point));
            }
            Err(EncodeError::CursorOffset(refused)) => {
                prop_assert!(!offset_fits);
                prop_assert_eq!(refused, cursor_offset);
            }
            Err(EncodeError::PrefetchDistance(refused)) => {
                prop_assert_eq!(Some(refused), prefetch);
                prop_assert!(!(-256..256).contains(&refused));
            }
            Err(EncodeError::MethodRegister(refused)) => {
                prop_assert!(!register_fits);
                prop_assert_eq!(refused.number(), register);
            }
            Err(EncodeError::RingBytes(_) | EncodeError::FormOffset { .. }) => {
                prop_assert!(unfit(form));
            }
            Err(e) => prop_assert!(false, "{}", e),
        }
    }

    #[test]
    fn any_bytes_can_be_asked_about(code in proptest::collection::vec(any::<u8>(), 0..12)) {
        let whole = wraps_at(&code);
        // The bytes after MAX_STORE_BYTES do not matter.
        prop_assert_eq!(whole, wraps_at(&code[..code.len().min(MAX_STORE_BYTES)]));
    }
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut points = common::all_points(&[0, 8, CURSOR, MAX_CURSOR_OFFSET]);
    points.extend(common::other_forms(CURSOR));
    let mut source = String::new();
    let mut emitted = Vec::new();
    for (n, point) in points.iter().enumerate() {
        source += &reference(point, |name| format!("{name}{n}"));
        emitted.extend(emit(point).unwrap().bytes);
    }
    let compared = assert_assemblers_agree(Isa::Aarch64, &source, &emitted);
    println!("{} trace points compared with {compared:?}", points.len());
}
