// SPDX-License-Identifier: Apache-2.0
//! The emitted bytes against independent assemblers and an independent disassembler.

mod common;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use capstone::arch::BuildsCapstone;
use capstone::{arch, Capstone};
use hindsight_codegen_aarch64::{
    emit, wraps_at, EncodeError, Form, Kind, Reg, RegSet, TracePoint, MAX_CURSOR_OFFSET,
    MAX_STORE_BYTES, PREFETCH_DISTANCES,
};
use proptest::prelude::*;

const CURSOR: i32 = 0x58;

fn point(kind: Kind) -> TracePoint {
    TracePoint {
        kind,
        cursor_offset: CURSOR,
        wide_pointers: false,
        form: Form::Inline,
        barrier: false,
        prefetch: None,
    }
}

fn entry(method: Reg) -> TracePoint {
    point(Kind::Entry { method })
}

fn disassembler() -> Capstone {
    Capstone::new()
        .arm64()
        .mode(arch::arm64::ArchMode::Arm)
        .detail(true)
        .build()
        .unwrap()
}

/// One instruction a line, as capstone spells it; targets are byte offsets.
fn disassemble(disassembler: &Capstone, code: &[u8]) -> Vec<String> {
    assert_eq!(code.len() % 4, 0);
    let instructions = disassembler.disasm_all(code, 0).unwrap();
    assert_eq!(instructions.len() * 4, code.len(), "{code:02x?}");
    let of = |i: &capstone::Insn<'_>| {
        let text = format!("{} {}", i.mnemonic().unwrap(), i.op_str().unwrap());
        text.trim_end().to_owned()
    };
    instructions.iter().map(of).collect()
}

/// Byte for byte, then as text.
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
    // There is no pointer in it.
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

/// What runs, in its order: follows the branches of the disassembled code.
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
    for point in common::all_points(&[CURSOR]) {
        let code = emit(&point).unwrap();
        assert_eq!(code.clobbers, clobbers);
        for i in disassembler.disasm_all(&code.bytes, 0).unwrap().iter() {
            let detail = disassembler.insn_detail(i).unwrap();
            let arch = detail.arch_detail();
            let arm64 = arch.arm64().unwrap();
            assert!(!arm64.update_flags(), "{point:?}: {i}");
            let text = i.op_str().unwrap();
            match i.mnemonic().unwrap() {
                "ldr" | "mrs" | "lsl" | "lsr" | "orr" => {
                    let written = text.split(',').next().unwrap();
                    assert!(matches!(written, "x16" | "x17"), "{point:?}: {i}");
                }
                "str" | "stp" if arm64.writeback() => {
                    assert!(text.ends_with("[x16], #8"), "{point:?}: {i}");
                }
                "str" | "stp" | "b" | "cbz" | "isb" | "prfum" => {}
                other => panic!("{other} in {point:?}"),
            }
        }
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
                // A page may end behind the instruction.
                assert!(wraps_at(&code[..4]), "{point:?}: {text}");
                assert!(!wraps_at(&code[..3]));
            }
        }
        let wide = point.wide_pointers && point.kind != Kind::Exit;
        assert_eq!(stores, if wide { 3 } else { 1 }, "{point:?}");
    }
}

/// Whether [`wraps_at`] takes these two instructions.
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
    // The right stores, but not where a trace point has them.
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
    // Every other bit but those of the stored register matters.
    for (store, next) in [
        (0x2881_4600_u32, PUBLISH),
        (0xf800_8600, MRS),
        (0xf800_8611, 0x1400_0003),
    ] {
        for bit in 5..32 {
            assert!(!takes(store ^ 1 << bit, next), "{store:08x}, bit {bit}");
        }
    }
    // Registers that no method is in.
    for register in [16, 17, 19] {
        assert!(!takes(0x2881_4600 | register, PUBLISH), "{register}");
        assert!(!takes(0xf800_8600 | register, MRS), "{register}");
    }
    assert!(!takes(0xf800_861f, MRS));
}

/// What a trace point should be, written a second time, as assembler text. `label` makes the labels'
/// names; a definition ends with a colon and stands on a line of its own.
fn reference(point: &TracePoint, label: impl Fn(&str) -> String) -> String {
    let [done, narrow, publish] = ["done", "narrow", "publish"].map(label);
    let cursor = point.cursor_offset;
    let barrier = if point.barrier { "isb\n" } else { "" };
    let mut out = format!("ldr x16, [x19, #{cursor}]\ncbz x16, {done}\n");
    if let Some(distance) = point.prefetch {
        writeln!(out, "prfum pstl1strm, [x16, #{distance}]").unwrap();
    }
    let low = match point.kind {
        Kind::Exit => "wzr".to_owned(),
        Kind::Entry { method } => {
            if point.wide_pointers {
                write!(
                    out,
                    "lsr x17, {method}, #32\ncbz x17, {narrow}\nstr {method}, [x16], #8\n\
                     mrs x17, cntvct_el0\n{barrier}lsl x17, x17, #32\norr x17, x17, #1\n\
                     str x17, [x16], #8\nb {publish}\n{narrow}:\n"
                )
                .unwrap();
            }
            method.to_string().replace('x', "w")
        }
    };
    write!(
        out,
        "mrs x17, cntvct_el0\n{barrier}stp {low}, w17, [x16], #8\n\
         {publish}:\nstr x16, [x19, #{cursor}]\n{done}:\n"
    )
    .unwrap();
    out
}

/// The reference with its labels resolved and its numbers spelled as capstone does.
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
        let Some((before, after)) = line.split_once('#') else {
            continue;
        };
        let (number, end) = after.split_at(after.find(']').unwrap_or(after.len()));
        let number: i32 = number.parse().unwrap();
        let sign = if number < 0 { "-" } else { "" };
        let spelled = match number.unsigned_abs() {
            small @ 0..=9 => format!("{sign}{small}"),
            large => format!("{sign}{large:#x}"),
        };
        // No displacement is shown as such.
        *line = match (before.strip_suffix(", "), number, end) {
            (Some(before), 0, "]") => format!("{before}]"),
            _ => format!("{before}#{spelled}{end}"),
        };
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
    for point in common::all_points(&[0, 8, CURSOR, MAX_CURSOR_OFFSET]) {
        assert_eq!(
            disassemble(&disassembler, &emit(&point).unwrap().bytes),
            reference_lines(&point),
            "{point:?}"
        );
    }
}

/// Any number, but often one that can be encoded or just cannot.
fn offsets() -> impl Strategy<Value = i32> {
    prop_oneof![
        (0..=MAX_CURSOR_OFFSET / 8).prop_map(|words| words * 8),
        -64..64_i32,
        MAX_CURSOR_OFFSET - 64..MAX_CURSOR_OFFSET + 64,
        any::<i32>(),
    ]
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
    ) {
        let kind = Reg::from_number(register).map_or(Kind::Exit, |method| Kind::Entry { method });
        let point = TracePoint { kind, cursor_offset, wide_pointers, form: Form::Inline, barrier, prefetch };
        let offset_fits = (0..=4095).any(|words| words * 8 == cursor_offset);
        let register_fits = ![16, 17, 19, 31].contains(&register);
        match emit(&point) {
            Ok(code) => {
                prop_assert!(offset_fits && register_fits);
                prop_assert!(prefetch.is_none_or(|d| PREFETCH_DISTANCES.contains(&d)));
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
            Err(e) => prop_assert!(false, "{}", e),
        }
    }

    #[test]
    fn any_bytes_can_be_asked_about(code in proptest::collection::vec(any::<u8>(), 0..12)) {
        let whole = wraps_at(&code);
        // What lies behind it does not matter.
        prop_assert_eq!(whole, wraps_at(&code[..code.len().min(MAX_STORE_BYTES)]));
    }
}

fn run(program: &str, arguments: &[&Path], flags: &[&str]) -> bool {
    match Command::new(program).args(flags).args(arguments).status() {
        Ok(status) => {
            assert!(status.success(), "{program} failed");
            true
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => false,
        Err(e) => panic!("{program}: {e}"),
    }
}

/// The contents of the section `.text` of a 64-bit little-endian ELF file.
fn text_section(object: &[u8]) -> &[u8] {
    let number = |at: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&object[at..at + bytes]);
        u64::from_le_bytes(value) as usize
    };
    assert_eq!(&object[..6], b"\x7fELF\x02\x01");
    let (headers, size, count, names) = (
        number(0x28, 8),
        number(0x3a, 2),
        number(0x3c, 2),
        number(0x3e, 2),
    );
    let names = number(headers + names * size + 0x18, 8);
    (0..count)
        .map(|i| headers + i * size)
        .find(|header| object[names + number(*header, 4)..].starts_with(b".text\0"))
        .map(|header| &object[number(header + 0x18, 8)..][..number(header + 0x20, 8)])
        .expect("a section .text")
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let points = common::all_points(&[0, 8, CURSOR, MAX_CURSOR_OFFSET]);
    let mut source = String::new();
    let mut emitted = Vec::new();
    for (n, point) in points.iter().enumerate() {
        source += &reference(point, |name| format!("{name}{n}"));
        emitted.extend(emit(point).unwrap().bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let [text, object] = ["points.s", "points.o"].map(|f| folder.path().join(f));
    std::fs::write(&text, source).unwrap();

    let llvm = &["-triple=aarch64-linux-gnu", "-filetype=obj", "-o"][..];
    let mut compared = Vec::new();
    for (assembler, flags) in [
        ("aarch64-linux-gnu-as", &["-o"][..]),
        ("llvm-mc", llvm),
        ("llvm-mc-14", llvm),
    ] {
        if run(assembler, &[&object, &text], flags) {
            let file = std::fs::read(&object).unwrap();
            let assembled = text_section(&file);
            let same = assembled
                .iter()
                .zip(&emitted)
                .take_while(|(a, b)| a == b)
                .count();
            assert!(
                assembled == emitted,
                "{assembler} differs from byte {same} of {} / {} on",
                assembled.len(),
                emitted.len()
            );
            compared.push(assembler);
        }
    }
    println!("{} trace points compared with {compared:?}", points.len());
}
