// SPDX-License-Identifier: Apache-2.0
//! The emitted bytes against independent assemblers and an independent disassembler.

mod common;

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use hindsight_codegen_x86_64::{
    emit, wraps_at, EncodeError, Form, Kind, Reg, RegSet, TracePoint, MAX_STORE_BYTES,
};
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, Mnemonic, OpKind};

const CURSOR: i32 = 0x58;

fn point(kind: Kind, free: &[Reg]) -> TracePoint {
    TracePoint {
        kind,
        cursor_offset: CURSOR,
        wide_pointers: false,
        form: Form::Inline,
        free: RegSet::of(free),
    }
}

fn disassemble(code: &[u8]) -> Vec<Instruction> {
    let instructions: Vec<_> = Decoder::with_ip(64, code, 0, DecoderOptions::NONE)
        .into_iter()
        .collect();
    assert!(instructions.iter().all(|i| !i.is_invalid()), "{code:02x?}");
    instructions
}

/// AT&T syntax, one instruction a line; targets are byte offsets.
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
        Err(EncodeError::StackPointerFree)
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
                // Wherever a page may end, also in the middle of the instruction.
                for cut in 1..=MAX_STORE_BYTES {
                    assert!(wraps_at(&code[..cut]), "{point:?}: {i}, {cut} bytes");
                }
            }
        }
        let wide = point.wide_pointers && point.kind != Kind::Exit;
        assert_eq!(stores, if wide { 3 } else { 1 }, "{point:?}");
    }
    assert!(!wraps_at(&[]));
    // The same stores, but not where a trace point has them.
    assert!(!wraps_at(&[0x41, 0x89, 0x3b, 0x90, 0x90]));
    assert!(!wraps_at(&[0x49, 0x89, 0x3b, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x41, 0xc7, 0x03, 2, 0, 0, 0, 0x0f, 0x31]));
    // mov [r11], r11d; mov [r11], esp; mov [rbx], edi
    assert!(!wraps_at(&[0x45, 0x89, 0x1b, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x41, 0x89, 0x23, 0x0f, 0x31]));
    assert!(!wraps_at(&[0x40, 0x89, 0x3b, 0x0f, 0x31]));
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

/// What a trace point should be, written a second time, as assembler text.
fn reference(n: usize, point: &TracePoint) -> String {
    let TracePoint {
        kind,
        cursor_offset: cursor,
        free,
        ..
    } = *point;
    let mut spare: Vec<Reg> = free.iter().collect();
    spare.retain(|r| !matches!(r, Reg::Rax | Reg::Rdx));
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
    let store = match kind {
        Kind::Exit => "movl $0,(%r11)\n".to_owned(),
        Kind::Entry { method } => {
            let narrow = format!("mov {},(%r11)\n", low(method));
            if point.wide_pointers {
                let upper = if method == Reg::Rax { "rdx" } else { "rax" };
                format!(
                    "mov %{method},%{upper}\nshr $32,%{upper}\nje narrow{n}\nmov %{method},(%r11)\n\
                     add $8,%r11\nmovl $1,(%r11)\njmp read{n}\nnarrow{n}:\n{narrow}read{n}:\n"
                )
            } else {
                narrow
            }
        }
    };
    format!(
        "mov %gs:{cursor},%r11\ntest %r11,%r11\nje done{n}\n{before}{store}rdtsc\n\
         mov %eax,4(%r11)\nadd $8,%r11\nmov %r11,%gs:{cursor}\n{after}done{n}:\n"
    )
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

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let points = common::all_points(&[0, CURSOR, i32::MAX - 7]);
    let mut source = String::new();
    let mut emitted = Vec::new();
    for (n, point) in points.iter().enumerate() {
        source += &reference(n, point);
        emitted.extend(emit(point).unwrap().bytes);
    }
    let folder = tempfile::tempdir().unwrap();
    let [text, object, binary] =
        ["points.s", "points.o", "points.bin"].map(|f| folder.path().join(f));
    std::fs::write(&text, source).unwrap();

    let mut compared = Vec::new();
    for (assembler, flags) in [
        ("as", &["--64", "-o"][..]),
        (
            "llvm-mc",
            &["-triple=x86_64-linux-gnu", "-filetype=obj", "-o"],
        ),
        (
            "llvm-mc-14",
            &["-triple=x86_64-linux-gnu", "-filetype=obj", "-o"],
        ),
    ] {
        if run(assembler, &[&object, &text], flags) {
            assert!(run(
                "objcopy",
                &[&object, &binary],
                &["-O", "binary", "-j", ".text"]
            ));
            let assembled = std::fs::read(&binary).unwrap();
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
    assert!(
        compared.contains(&"as"),
        "GNU as is missing: install binutils"
    );
}
