// SPDX-License-Identifier: Apache-2.0
//! The emitted bytes against independent assemblers and an independent disassembler.

mod common;

use std::fmt::Write;

use hindsight_codegen_check::{assert_assemblers_agree, Disassembler, Isa};
use hindsight_codegen_x86_64::{
    emit, wraps_at, EncodeError, Form, Kind, Reg, RegSet, TracePoint, MAX_STORE_BYTES,
};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const CURSOR: i32 = 0x58;

fn point(kind: Kind, free: &[Reg]) -> TracePoint {
    TracePoint {
        free: RegSet::of(free),
        ..TracePoint::new(kind, CURSOR)
    }
}

fn disassemble(code: &[u8]) -> Vec<Instruction> {
    let instructions: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
        .into_iter()
        .collect();
    assert!(instructions.iter().all(|i| !i.is_invalid()), "{code:02x?}");
    instructions
}

/// AT&T syntax, one instruction per line; targets are byte offsets.
fn text(point: &TracePoint) -> String {
    let mut formatter = GasFormatter::new();
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_uppercase_hex(false);
    let mut out = String::new();
    for instruction in disassemble(&emit(point).unwrap().bytes) {
        formatter.format(&instruction, &mut out);
        out.push('\n');
    }
    out
}

fn lines(expected: &[&str]) -> String {
    expected.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn entry_as_arts_code_generator_asks_for_it() {
    let entry = point(Kind::Entry { method: Reg::Rdi }, &[Reg::Rax, Reg::R10]);
    let expected = [
        "mov %gs:0x58,%r11",
        "test %r11,%r11",
        "je 0x2a",
        "mov %rdx,%r10",
        "mov %edi,(%r11)",
        "rdtsc",
        "mov %eax,4(%r11)",
        "add $8,%r11",
        "mov %r11,%gs:0x58",
        "mov %r10,%rdx",
    ];
    assert_eq!(text(&entry), lines(&expected));
}

#[test]
fn exit_that_keeps_the_returned_value() {
    let exit = point(Kind::Exit, &[Reg::Rdx, Reg::R10]);
    let expected = [
        "mov %gs:0x58,%r11",
        "test %r11,%r11",
        "je 0x2e",
        "mov %rax,%r10",
        "movl $0,(%r11)",
        "rdtsc",
        "mov %eax,4(%r11)",
        "add $8,%r11",
        "mov %r11,%gs:0x58",
        "mov %r10,%rax",
    ];
    assert_eq!(text(&exit), lines(&expected));
}

#[test]
fn exit_of_a_method_that_returns_nothing_saves_nothing() {
    let exit = point(Kind::Exit, &[Reg::Rax, Reg::Rdx]);
    let expected = [
        "mov %gs:0x58,%r11",
        "test %r11,%r11",
        "je 0x28",
        "movl $0,(%r11)",
        "rdtsc",
        "mov %eax,4(%r11)",
        "add $8,%r11",
        "mov %r11,%gs:0x58",
    ];
    assert_eq!(text(&exit), lines(&expected));
}

#[test]
fn without_free_registers_the_stack_is_used() {
    let entry = point(Kind::Entry { method: Reg::Rdx }, &[]);
    let expected = [
        "mov %gs:0x58,%r11",
        "test %r11,%r11",
        "je 0x28",
        "push %rdx",
        "push %rax",
        "mov %edx,(%r11)",
        "rdtsc",
        "mov %eax,4(%r11)",
        "add $8,%r11",
        "mov %r11,%gs:0x58",
        "pop %rax",
        "pop %rdx",
    ];
    assert_eq!(text(&entry), lines(&expected));
}

#[test]
fn wide_entry_takes_two_slots_above_4_gib() {
    let entry = TracePoint {
        wide_pointers: true,
        ..point(Kind::Entry { method: Reg::Rax }, &[Reg::R10])
    };
    let expected = [
        "mov %gs:0x58,%r11",
        "test %r11,%r11",
        "je 0x45",
        "mov %rdx,%r10",
        "push %rax",
        "mov %rax,%rdx",
        "shr $0x20,%rdx",
        "je 0x2b",
        "mov %rax,(%r11)",
        "add $8,%r11",
        "movl $1,(%r11)",
        "jmp 0x2e",
        "mov %eax,(%r11)",
        "rdtsc",
        "mov %eax,4(%r11)",
        "add $8,%r11",
        "mov %r11,%gs:0x58",
        "pop %rax",
        "mov %r10,%rdx",
    ];
    assert_eq!(text(&entry), lines(&expected));
}

#[test]
fn a_trace_point_that_is_off_is_three_instructions() {
    for point in common::all_points(&[CURSOR]) {
        let bytes = emit(&point).unwrap().bytes;
        let instructions = disassemble(&bytes);
        assert_eq!(instructions[2].mnemonic(), Mnemonic::Je, "{point:?}");
        let target = instructions[2].near_branch_target();
        assert_eq!(target, bytes.len() as u64, "{point:?}");
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    for register in [Reg::R11, Reg::Rsp] {
        assert_eq!(
            emit(&point(Kind::Entry { method: register }, &[])),
            Err(EncodeError::MethodRegister(register))
        );
    }
    assert_eq!(
        emit(&point(Kind::Exit, &[Reg::Rsp])),
        Err(EncodeError::ReservedFree(Reg::Rsp))
    );
    for cursor_offset in [-8, 4, i32::MIN] {
        let point = TracePoint {
            cursor_offset,
            ..point(Kind::Exit, &[])
        };
        let error = emit(&point).unwrap_err();
        assert_eq!(error, EncodeError::CursorOffset(cursor_offset));
        assert!(error.to_string().contains("multiple of 8"));
    }
}

#[test]
fn exactly_the_stores_through_the_bare_cursor_may_wrap() {
    for point in common::all_points(&[CURSOR]) {
        let bytes = emit(&point).unwrap().bytes;
        let mut stores = 0;
        for i in disassemble(&bytes) {
            let may_fault = i.op0_kind() == OpKind::Memory
                && i.mnemonic() == Mnemonic::Mov
                && i.memory_base() == iced_x86::Register::R11
                && i.memory_displacement64() == 0;
            let code = &bytes[i.ip() as usize..];
            assert_eq!(wraps_at(code), may_fault, "{point:?}: {i}");
            if may_fault {
                stores += 1;
                // A page may end anywhere, also in the middle of the instruction.
                for cut in 1..=MAX_STORE_BYTES {
                    assert!(wraps_at(&code[..cut]), "{point:?}: {i}, {cut} bytes");
                }
            }
        }
        let wide = point.wide_pointers && point.kind != Kind::Exit;
        assert_eq!(stores, if wide { 3 } else { 1 }, "{point:?}");
    }
    assert!(!wraps_at(&[]));
    // The same stores, followed by other instructions than in a trace point.
    assert!(!wraps_at(&[0x41, 0x89, 0x3b, 0x90, 0x90]));
    assert!(!wraps_at(&[0x49, 0x89, 0x3b, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x41, 0xc7, 0x03, 2, 0, 0, 0, 0x0f, 0x31]));
    // mov [r11], r11d; mov [r11], esp; mov [rbx], edi
    assert!(!wraps_at(&[0x45, 0x89, 0x1b, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x41, 0x89, 0x23, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x40, 0x89, 0x3b, 0x0f, 0x31]));
}

fn hubble(stop_offset: i32, start_offset: i32, end_offset: i32) -> Form {
    Form::Hubble {
        stop_offset,
        start_offset,
        end_offset,
    }
}

#[test]
fn the_other_forms() {
    let disassembler = Disassembler::new(Isa::X86_64);
    let head = |end: &'static str| ["movq %gs:0x58, %r11", "testq %r11, %r11", end];
    for (form, end, expected, exit_bytes) in [
        (
            Form::Masked {
                ring_bytes: 1 << 25,
            },
            "je 0x35",
            &[
                "movq %rdx, %r10",
                "movl %edi, (%r11)",
                "rdtsc",
                "movl %eax, 4(%r11)",
                "leal 8(%r11), %eax",
                "xorl %r11d, %eax",
                "andl $0x1ffffff, %eax",
                "xorq %rax, %r11",
                "movq %r11, %gs:0x58",
                "movq %r10, %rdx",
            ][..],
            57,
        ),
        (
            hubble(0xb0, 0xa0, 0xa8),
            "je 0x58",
            &[
                "cmpl $0, %gs:0xb0",
                "je 0x28",
                "movq $0, %gs:0x58",
                "jmp 0x58",
                "movq %rdx, %r10",
                "movl %edi, (%r11)",
                "rdtsc",
                "movl %eax, 4(%r11)",
                "addq $8, %r11",
                "cmpq %gs:0xa8, %r11",
                "jne 0x4c",
                "movq %gs:0xa0, %r11",
                "movq %r11, %gs:0x58",
                "movq %r10, %rdx",
            ],
            92,
        ),
        (
            Form::Nanoscope,
            "je 0x31",
            &[
                "movq %rdx, %r10",
                "movq %rdi, (%r11)",
                "rdtsc",
                "shlq $0x20, %rdx",
                "orq %rdx, %rax",
                "movq %rax, 8(%r11)",
                "addq $0x10, %r11",
                "movq %r11, %gs:0x58",
                "movq %r10, %rdx",
            ],
            53,
        ),
    ] {
        let entry = point(Kind::Entry { method: Reg::Rdi }, &[Reg::Rax, Reg::R10]);
        let code = emit(&TracePoint { form, ..entry }).unwrap().bytes;
        let instructions = disassembler.instructions(&code);
        let found: Vec<_> = instructions.into_iter().map(|i| i.text).collect();
        assert_eq!(found, [&head(end), expected].concat(), "{form:?}");
        let exit = point(Kind::Exit, &[Reg::Rdx, Reg::R10]);
        let code = emit(&TracePoint { form, ..exit }).unwrap().bytes;
        assert_eq!(code.len(), exit_bytes, "{form:?}");
    }
}

#[test]
fn forms_that_cannot_be_encoded_are_refused() {
    let exit = point(Kind::Exit, &[]);
    for (form, offset, alignment) in [
        (hubble(2, 0, 0), 2, 4),
        (hubble(-4, 0, 0), -4, 4),
        (hubble(0, 4, 0), 4, 8),
        (hubble(0, 0, -8), -8, 8),
    ] {
        let expected = EncodeError::FormOffset {
            form,
            offset,
            alignment,
        };
        assert_eq!(emit(&TracePoint { form, ..exit }), Err(expected));
    }
    for ring_bytes in [0, 2048, 4095, u32::MAX] {
        let form = Form::Masked { ring_bytes };
        let expected = EncodeError::RingBytes(ring_bytes);
        assert_eq!(emit(&TracePoint { form, ..exit }), Err(expected));
    }
}

/// `%edi` of `%rdi`.
fn low(register: Reg) -> String {
    let name = register.to_string();
    match name.strip_prefix('r') {
        Some(number) if number.starts_with(|c: char| c.is_ascii_digit()) => format!("%{name}d"),
        Some(rest) => format!("%e{rest}"),
        None => unreachable!(),
    }
}

/// The expected code of a trace point, written a second time, as assembler text.
fn reference(n: usize, point: &TracePoint) -> String {
    let TracePoint {
        kind,
        cursor_offset: cursor,
        free,
        ..
    } = *point;
    let mut spare: Vec<Reg> = free.iter().collect();
    spare.retain(|r| !matches!(r, Reg::Rax | Reg::Rdx | Reg::R11));
    if let Kind::Entry { method } = kind {
        spare.retain(|r| *r != method);
    }
    let (mut before, mut after) = (String::new(), String::new());
    for register in [Reg::Rdx, Reg::Rax] {
        if free.contains(register) {
            continue;
        }
        let restore = match spare.pop() {
            Some(place) => {
                writeln!(before, "mov %{register},%{place}").unwrap();
                format!("mov %{place},%{register}\n")
            }
            None => {
                writeln!(before, "push %{register}").unwrap();
                format!("pop %{register}\n")
            }
        };
        after.insert_str(0, &restore);
    }
    let read = match point.barrier {
        true => "rdtsc\nlfence\n",
        false => "rdtsc\n",
    };
    let mut start = format!("mov %gs:{cursor},%r11\ntest %r11,%r11\nje done{n}\n");
    if let Some(distance) = point.prefetch {
        writeln!(start, "prefetchw {distance}(%r11)").unwrap();
    }
    let advance = |scratch: char, n: String| match point.form {
        Form::Masked { ring_bytes } => {
            let mask = ring_bytes - 1;
            format!(
                "lea 8(%r11),%e{scratch}x\nxor %r11d,%e{scratch}x\nand ${mask},%e{scratch}x\n\
                 xor %r{scratch}x,%r11\n"
            )
        }
        Form::Hubble {
            start_offset,
            end_offset,
            ..
        } => format!(
            "add $8,%r11\ncmp %gs:{end_offset},%r11\njne inside{n}\n\
             mov %gs:{start_offset},%r11\ninside{n}:\n"
        ),
        _ => "add $8,%r11\n".to_owned(),
    };
    if let Form::Hubble { stop_offset, .. } = point.form {
        write!(
            start,
            "cmpl $0,%gs:{stop_offset}\nje go{n}\nmovq $0,%gs:{cursor}\njmp done{n}\ngo{n}:\n"
        )
        .unwrap();
    }
    if point.form == Form::Nanoscope {
        let store = match kind {
            Kind::Exit => "movq $0,(%r11)\n".to_owned(),
            Kind::Entry { method } => format!("mov %{method},(%r11)\n"),
        };
        return format!(
            "{start}{before}{store}{read}shl $32,%rdx\nor %rdx,%rax\nmov %rax,8(%r11)\n\
             add $16,%r11\nmov %r11,%gs:{cursor}\n{after}done{n}:\n"
        );
    }
    let store = match kind {
        Kind::Exit => "movl $0,(%r11)\n".to_owned(),
        Kind::Entry { method } => {
            let narrow = format!("mov {},(%r11)\n", low(method));
            if point.wide_pointers {
                let upper = if method == Reg::Rax { 'd' } else { 'a' };
                let advance = advance(upper, format!("{n}_wide"));
                format!(
                    "mov %{method},%r{upper}x\nshr $32,%r{upper}x\nje narrow{n}\nmov %{method},(%r11)\n\
                     {advance}movl $1,(%r11)\njmp read{n}\nnarrow{n}:\n{narrow}read{n}:\n"
                )
            } else {
                narrow
            }
        }
    };
    let advance = advance('a', n.to_string());
    format!(
        "{start}{before}{store}{read}mov %eax,4(%r11)\n{advance}mov %r11,%gs:{cursor}\n{after}done{n}:\n"
    )
}

/// Compares the code of the points with the assemblers' output for their references.
fn assert_as_assembled(points: &[TracePoint]) {
    let mut source = String::new();
    let mut emitted = Vec::new();
    for (n, point) in points.iter().enumerate() {
        source += &reference(n, point);
        emitted.extend(emit(point).unwrap().bytes);
    }
    let compared = assert_assemblers_agree(Isa::X86_64, &source, &emitted);
    println!("{} trace points compared with {compared:?}", points.len());
    assert!(
        compared.contains(&"as"),
        "GNU as is missing: install binutils"
    );
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut points = common::all_points(&[0, CURSOR, i32::MAX - 7]);
    points.extend(common::other_forms(CURSOR));
    assert_as_assembled(&points);
}

/// Any number, mostly the offset of a word that a thread may have.
fn any_word(size: i32) -> impl Strategy<Value = i32> {
    prop_oneof![
        9 => (0..i32::MAX / size).prop_map(move |word| word * size),
        9 => (0..128).prop_map(move |word| word * size),
        1 => -10..100,
        1 => any::<i32>(),
    ]
}

fn any_register() -> impl Strategy<Value = Reg> {
    (0..16_u8).prop_map(|n| Reg::from_number(n).unwrap())
}

/// Any specification.
fn any_point() -> impl Strategy<Value = TracePoint> {
    let kind = prop_oneof![
        1 => Just(Kind::Exit),
        3 => any_register().prop_map(|method| Kind::Entry { method }),
    ];
    let ring_bytes = prop_oneof![9 => (11..32_u32).prop_map(|bits| 1 << bits), 1 => any::<u32>()];
    let form = prop_oneof![
        Just(Form::Inline),
        ring_bytes.prop_map(|ring_bytes| Form::Masked { ring_bytes }),
        (any_word(4), any_word(8), any_word(8)).prop_map(|(a, b, c)| hubble(a, b, c)),
        Just(Form::Nanoscope),
    ];
    let free = proptest::collection::vec(any_register(), 0..6);
    let prefetch = proptest::option::of(prop_oneof![-200..200_i32, any::<i32>()]);
    (
        kind,
        any_word(8),
        form,
        free,
        prefetch,
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(kind, cursor_offset, form, free, prefetch, (wide_pointers, barrier))| TracePoint {
                wide_pointers,
                form,
                barrier,
                prefetch,
                free: free.into_iter().collect(),
                ..TracePoint::new(kind, cursor_offset)
            },
        )
}

/// Whether the instructions can encode the trace point: computed from their limits, independently of the emitter.
fn is_possible(point: &TracePoint) -> bool {
    let is_word = |offset: i32, size: i32| offset >= 0 && offset % size == 0;
    let form_is_possible = match point.form {
        Form::Masked { ring_bytes } => (12..32).any(|bits| 1 << bits == ring_bytes),
        Form::Hubble {
            stop_offset,
            start_offset,
            end_offset,
        } => is_word(stop_offset, 4) && is_word(start_offset, 8) && is_word(end_offset, 8),
        Form::Inline | Form::Nanoscope => true,
    };
    let forbidden = [Reg::Rsp, Reg::R11].map(|method| Kind::Entry { method });
    form_is_possible
        && is_word(point.cursor_offset, 8)
        && !forbidden.contains(&point.kind)
        && !point.free.contains(Reg::Rsp)
}

#[test]
fn whatever_is_asked_for_is_encoded_right_or_refused() {
    let (mut runner, points) = (TestRunner::deterministic(), any_point());
    let (mut possible, mut refused) = (Vec::new(), 0);
    for _ in 0..4096 {
        let point = points.new_tree(&mut runner).unwrap().current();
        match emit(&point) {
            Ok(_) if is_possible(&point) => possible.push(point),
            Err(e) if !is_possible(&point) => {
                assert!(!matches!(e, EncodeError::Assembler { .. }), "{e}");
                refused += 1;
            }
            other => panic!("{point:?}: {other:?}"),
        }
    }
    assert!(possible.len() > 1000 && refused > 1000);
    assert_as_assembled(&possible);
}
