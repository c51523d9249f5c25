// SPDX-License-Identifier: Apache-2.0
//! Calls of the stub: their bytes, and their effect under qemu.

use std::fmt::Write;

use hindsight_codegen_check::{assert_assemblers_agree, execute, Disassembler, Isa};
use hindsight_codegen_thumb2::{
    emit_stub_call, EncodeError, Isa as _, Reg, StubCall, StubSite, Thumb2,
};
use proptest::prelude::*;

const POLL: i32 = 0x99;
const STUB: i32 = 0xa0;

const SITES: [StubSite; 7] = [
    StubSite::PollFramedExit,
    StubSite::PollTailExit,
    StubSite::JumpExit,
    StubSite::PollLeafEntry,
    StubSite::FramedExit,
    StubSite::TailExit,
    StubSite::LeafEntry,
];

fn call(site: StubSite) -> StubCall {
    StubCall {
        site,
        poll_offset: POLL,
        stub_offset: STUB,
    }
}

fn text(code: &[u8]) -> Vec<String> {
    let instructions = Disassembler::new(Isa::Thumb2).instructions(code);
    instructions.into_iter().map(|i| i.text).collect()
}

/// Specifications, halfwords and text.
#[test]
fn the_table() {
    type Row<'a> = (StubSite, &'a [u16], &'a [&'a str]);
    let table: [Row; 7] = [
        (
            StubSite::PollFramedExit,
            &[0xf899, 0x2099, 0xb112, 0xf8d9, 0xe0a0, 0x47f0],
            &[
                "ldrb.w r2, [r9, #0x99]",
                "cbz r2, #0xc",
                "ldr.w lr, [r9, #0xa0]",
                "blx lr",
            ],
        ),
        (
            StubSite::PollTailExit,
            &[0xf899, 0x2099, 0xb902, 0x4770, 0xf8d9, 0xf0a0],
            &[
                "ldrb.w r2, [r9, #0x99]",
                "cbnz r2, #8",
                "bx lr",
                "ldr.w pc, [r9, #0xa0]",
            ],
        ),
        (
            StubSite::JumpExit,
            &[0xf8d9, 0xf0a0],
            &["ldr.w pc, [r9, #0xa0]"],
        ),
        (
            StubSite::PollLeafEntry,
            &[
                0xf899, 0x4099, 0xb124, 0x4674, 0xf8d9, 0xc0a0, 0x47e0, 0x46a6,
            ],
            &[
                "ldrb.w r4, [r9, #0x99]",
                "cbz r4, #0x10",
                "mov r4, lr",
                "ldr.w ip, [r9, #0xa0]",
                "blx ip",
                "mov lr, r4",
            ],
        ),
        (
            StubSite::FramedExit,
            &[0xf8d9, 0x20a0, 0xb102, 0x4790],
            &["ldr.w r2, [r9, #0xa0]", "cbz r2, #8", "blx r2"],
        ),
        (
            StubSite::TailExit,
            &[0xf8d9, 0x20a0, 0xb902, 0x4770, 0x4710],
            &["ldr.w r2, [r9, #0xa0]", "cbnz r2, #8", "bx lr", "bx r2"],
        ),
        (
            StubSite::LeafEntry,
            &[0xf8d9, 0x40a0, 0xb10c, 0x46f4, 0x47a0],
            &[
                "ldr.w r4, [r9, #0xa0]",
                "cbz r4, #0xa",
                "mov ip, lr",
                "blx r4",
            ],
        ),
    ];
    for (site, halfwords, expected) in table {
        let code = emit_stub_call(&call(site)).unwrap();
        let bytes: Vec<u8> = halfwords.iter().flat_map(|h| h.to_le_bytes()).collect();
        assert_eq!(code.bytes, bytes, "{site:?}");
        assert_eq!(text(&code.bytes), expected, "{site:?}");
    }
}

/// The expected code, written a second time. `n` makes the label's name.
fn reference(call: &StubCall, n: usize) -> String {
    let StubCall {
        poll_offset: poll,
        stub_offset: stub,
        ..
    } = call;
    match call.site {
        StubSite::PollFramedExit => format!(
            "ldrb.w r2, [r9, #{poll}]\ncbz r2, l{n}\nldr.w lr, [r9, #{stub}]\nblx lr\nl{n}:\n"
        ),
        StubSite::PollTailExit => format!(
            "ldrb.w r2, [r9, #{poll}]\ncbnz r2, l{n}\nbx lr\nl{n}:\nldr.w pc, [r9, #{stub}]\n"
        ),
        StubSite::FramedExit => {
            format!("ldr.w r2, [r9, #{stub}]\ncbz r2, l{n}\nblx r2\nl{n}:\n")
        }
        StubSite::TailExit => {
            format!("ldr.w r2, [r9, #{stub}]\ncbnz r2, l{n}\nbx lr\nl{n}:\nbx r2\n")
        }
        StubSite::LeafEntry => {
            format!("ldr.w r4, [r9, #{stub}]\ncbz r4, l{n}\nmov ip, lr\nblx r4\nl{n}:\n")
        }
        StubSite::JumpExit => format!("ldr.w pc, [r9, #{stub}]\n"),
        _ => format!(
            "ldrb.w r4, [r9, #{poll}]\ncbz r4, l{n}\nmov r4, lr\nldr.w ip, [r9, #{stub}]\nblx ip\n\
             mov lr, r4\nl{n}:\n"
        ),
    }
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut source = String::new();
    let mut emitted = Vec::new();
    for poll_offset in 0..=Thumb2::MAX_POLL_OFFSET {
        let call = StubCall {
            site: SITES[poll_offset as usize % SITES.len()],
            poll_offset,
            stub_offset: Thumb2::MAX_WORD_OFFSET - poll_offset / 4 * 4,
        };
        source += &reference(&call, poll_offset as usize);
        emitted.extend(emit_stub_call(&call).unwrap().bytes);
    }
    let compared = assert_assemblers_agree(Isa::Thumb2, &source, &emitted);
    println!("{} bytes compared with {compared:?}", emitted.len());
}

/// The reference as the disassembler prints it.
fn disassembled(call: &StubCall) -> Vec<String> {
    let spell = |offset: i32| match offset {
        0 => "[r9]".to_owned(),
        1..10 => format!("[r9, #{offset}]"),
        _ => format!("[r9, #{offset:#x}]"),
    };
    let label = match call.site {
        StubSite::PollFramedExit => "#0xc",
        StubSite::PollTailExit | StubSite::TailExit | StubSite::FramedExit => "#8",
        StubSite::LeafEntry => "#0xa",
        _ => "#0x10",
    };
    let is_code = |line: &&str| !line.ends_with(':');
    let source = reference(call, 0);
    let lines = source.lines().filter(is_code).map(|line| {
        let offset = if line.contains("ldrb") {
            call.poll_offset
        } else {
            call.stub_offset
        };
        line.replace(&format!("[r9, #{offset}]"), &spell(offset))
            .replace("l0", label)
    });
    lines.collect()
}

/// Any number, often one near a limit.
fn offsets() -> impl Strategy<Value = i32> {
    prop_oneof![
        0..4096_i32,
        (0..1024_i32).prop_map(|words| words * 4),
        -20..20_i32,
        4080..4110_i32,
        any::<i32>()
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn right_code_or_the_right_error(
        site in proptest::sample::select(&SITES[..]),
        poll_offset in offsets(),
        stub_offset in offsets(),
    ) {
        let call = StubCall { site, poll_offset, stub_offset };
        let poll_fits = (0..4096).contains(&poll_offset);
        let stub_fits = (0..4096).contains(&stub_offset) && stub_offset % 4 == 0;
        match emit_stub_call(&call) {
            Ok(code) => {
                prop_assert!(poll_fits && stub_fits);
                prop_assert_eq!(text(&code.bytes), disassembled(&call));
            }
            Err(EncodeError::PollOffset(refused)) => prop_assert!(refused == poll_offset && !poll_fits),
            Err(EncodeError::StubOffset(refused)) => prop_assert!(refused == stub_offset && !stub_fits),
            Err(e) => prop_assert!(false, "{}", e),
        }
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (poll_offset, stub_offset, part) in [(4096, 0, "from 0 to 4095"), (0, 4094, "0 to 4092")] {
        let error = emit_stub_call(&StubCall {
            site: StubSite::PollTailExit,
            poll_offset,
            stub_offset,
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Calls `method` with a value in every register, and writes out the number of times that the stub ran, the change of
/// the stack pointer, and the registers r0 to r8, r10 to ip, lr. The stub changes every register that it may change:
/// `exit_stub` at an exit, `entry_stub` at an entry.
const PROGRAM: &str = r#"
        .syntax unified
        .arch armv7-a
        .thumb
        .macro run method, poll, stub
        ldr r9, =thread
        mov r0, #0
        str r0, [r9]
        mov r0, #\poll
        strb r0, [r9, #0x99]
        ldr r0, =\stub
        str r0, [r9, #0xa0]
        ldr r0, =input
        ldm r0, {r0-r8, r10-r12}
        bl call_\method
        push {r0, r1}
        ldr r0, =output
        add r0, #16
        stm r0, {r2-r8, r10-r12, lr}
        pop {r1, r2}
        strd r1, r2, [r0, #-8]
        sub r1, sp, r11
        ldr r2, [r9]
        strd r2, r1, [r0, #-16]
        mov r1, r0
        sub r1, #16
        mov r0, #1
        mov r2, #60
        mov r7, #4
        svc #0
        .pool
        .endm
        .text
        .thumb_func
exit_stub:
        ldr r2, [r9]
        add r2, #1
        str r2, [r9]
        mov r2, #-1
        mov r3, #-1
        mov ip, #-1
        bx lr
        .thumb_func
entry_stub:
        ldr ip, [r9]
        add ip, #1
        str ip, [r9]
        mov ip, #-1
        bx lr
        // Restores lr.
        .thumb_func
pointer_entry_stub:
        ldr r4, [r9]
        add r4, #1
        str r4, [r9]
        mov r4, lr
        mov lr, ip
        mov ip, #-1
        bx r4
"#;

const DATA: &str = "
        mov r0, #0
        mov r7, #1
        svc #0
        .ltorg
        .data
        .balign 8
thread: .fill 64, 4, 0
output: .fill 16, 4, 0
";

#[test]
fn the_stub_runs_exactly_while_tracing_is_on_and_nothing_else_changes() {
    let mut source = PROGRAM.to_owned();
    for site in SITES {
        let code = emit_stub_call(&call(site)).unwrap().bytes;
        let text: Vec<String> = code.iter().map(u8::to_string).collect();
        let code = text.join(", ");
        let body = match site {
            // In a frame, as in a method.
            StubSite::PollFramedExit | StubSite::FramedExit => {
                format!("push {{r4, lr}}\n.byte {code}\npop {{r4, pc}}")
            }
            StubSite::PollLeafEntry | StubSite::LeafEntry => format!(".byte {code}\nbx lr"),
            _ => format!(".byte {code}"),
        };
        writeln!(
            source,
            ".thumb_func\n.balign 4\ncall_{site:?}:\nmov r11, sp\n{body}"
        )
        .unwrap();
    }
    let mut runs = Vec::new();
    source += ".globl _start\n.thumb_func\n_start:\n";
    for site in SITES {
        for poll in [0, 1, 0x80, 0xff] {
            let is_pointer = matches!(
                site,
                StubSite::FramedExit | StubSite::TailExit | StubSite::LeafEntry
            );
            let stub = match site {
                // These test the stub's address, not the poll byte.
                _ if is_pointer && poll == 0 => "0",
                StubSite::PollLeafEntry => "entry_stub",
                StubSite::LeafEntry => "pointer_entry_stub",
                _ => "exit_stub",
            };
            writeln!(source, "run {site:?}, {poll}, {stub}").unwrap();
            runs.push((site, poll));
        }
    }
    source += DATA;
    // The caller keeps its stack pointer in r11.
    let numbers: Vec<u8> = (0..9).chain(10..13).collect();
    let value = |number: u8| 0x0101_1010 * (u32::from(number) + 1);
    source += "input:\n";
    for number in &numbers {
        writeln!(source, ".word {:#x}", value(*number)).unwrap();
    }
    let Some(written) = execute(Isa::Thumb2, &source) else {
        return;
    };
    assert_eq!(written.len(), runs.len() * 60);
    for ((site, poll), written) in runs.into_iter().zip(written.chunks(60)) {
        let words: Vec<u32> = written
            .chunks(4)
            .map(|w| u32::from_le_bytes(w.try_into().unwrap()))
            .collect();
        let calls = poll != 0 || site == StubSite::JumpExit;
        assert_eq!(words[..2], [u32::from(calls), 0], "{site:?}, {poll}");
        let clobbers = emit_stub_call(&call(site)).unwrap().clobbers;
        for (number, found) in numbers.iter().zip(&words[2..]) {
            let register = Reg::from_number(*number).unwrap();
            if register != Reg::R11 && !clobbers.contains(register) {
                assert_eq!(*found, value(*number), "{register} after {site:?}, {poll}");
            }
        }
    }
}
