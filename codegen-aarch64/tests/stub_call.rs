// SPDX-License-Identifier: Apache-2.0
//! Calls of the stub: their bytes, and their effect under qemu.

use std::fmt::Write;

use hindsight_codegen_aarch64::{
    emit_stub_call, Aarch64, EncodeError, Isa as _, StubCall, StubSite,
};

const MAX_POLL_OFFSET: i32 = Aarch64::MAX_POLL_OFFSET;
const MAX_STUB_OFFSET: i32 = Aarch64::MAX_WORD_OFFSET;
const MIN_SHARED_EXIT: i32 = Aarch64::MIN_SHARED_EXIT;
use hindsight_codegen_check::{assert_assemblers_agree, execute, Disassembler, Isa};
use proptest::prelude::*;

const POLL: i32 = 0x99;
const STUB: i32 = 0xa0;

fn call(site: StubSite) -> StubCall {
    StubCall {
        site,
        poll_offset: POLL,
        stub_offset: STUB,
    }
}

fn text(code: &[u8]) -> Vec<String> {
    let instructions = Disassembler::new(Isa::Aarch64).instructions(code);
    instructions.into_iter().map(|i| i.text).collect()
}

fn words(code: &[u8]) -> Vec<u32> {
    code.chunks(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// Specifications, words and text.
#[test]
fn the_table() {
    type Row<'a> = (StubSite, &'a [u32], &'a [&'a str]);
    let table: [Row; 8] = [
        (
            StubSite::PollTailExit,
            &[
                0x3942_6670,
                0x3500_0050,
                0xd65f_03c0,
                0xf940_5270,
                0xd61f_0200,
            ],
            &[
                "ldrb w16, [x19, #0x99]",
                "cbnz w16, #0xc",
                "ret",
                "ldr x16, [x19, #0xa0]",
                "br x16",
            ],
        ),
        (
            StubSite::PollLaterExit { shared_exit: -8 },
            &[0x3942_6670, 0x35ff_ffb0, 0xd65f_03c0],
            &[
                "ldrb w16, [x19, #0x99]",
                "cbnz w16, #0xfffffffffffffff8",
                "ret",
            ],
        ),
        (
            StubSite::PollLaterExit {
                shared_exit: MIN_SHARED_EXIT,
            },
            &[0x3942_6670, 0x3580_0010, 0xd65f_03c0],
            &[
                "ldrb w16, [x19, #0x99]",
                "cbnz w16, #0xfffffffffff00004",
                "ret",
            ],
        ),
        (
            StubSite::JumpExit,
            &[0xf940_5270, 0xd61f_0200],
            &["ldr x16, [x19, #0xa0]", "br x16"],
        ),
        (
            StubSite::TailExit,
            &[0xf940_5270, 0xb500_0050, 0xd65f_03c0, 0xd61f_0200],
            &["ldr x16, [x19, #0xa0]", "cbnz x16, #0xc", "ret", "br x16"],
        ),
        (
            StubSite::LaterExit { shared_exit: -4 },
            &[0xf940_5270, 0xb5ff_ffd0, 0xd65f_03c0],
            &[
                "ldr x16, [x19, #0xa0]",
                "cbnz x16, #0xfffffffffffffffc",
                "ret",
            ],
        ),
        (
            StubSite::LeafEntry,
            &[0xf940_5270, 0xb400_0070, 0x1000_0051, 0xd61f_0200],
            &[
                "ldr x16, [x19, #0xa0]",
                "cbz x16, #0x10",
                "adr x17, #0x10",
                "br x16",
            ],
        ),
        (
            StubSite::FramedExit,
            &[0xf940_5270, 0xb400_0050, 0xd63f_0200],
            &["ldr x16, [x19, #0xa0]", "cbz x16, #0xc", "blr x16"],
        ),
    ];
    for (site, expected_words, expected) in table {
        let code = emit_stub_call(&call(site)).unwrap();
        assert_eq!(words(&code.bytes), expected_words, "{site:?}");
        assert_eq!(text(&code.bytes), expected, "{site:?}");
        let is_first = matches!(site, StubSite::PollTailExit | StubSite::TailExit);
        let shared = is_first.then_some(12);
        assert_eq!(code.shared_exit, shared, "{site:?}");
    }
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut source = String::new();
    let mut emitted = Vec::new();
    let offsets = [0, 1, POLL, MAX_POLL_OFFSET]
        .into_iter()
        .zip([0, 8, STUB, MAX_STUB_OFFSET]);
    for (n, (poll_offset, stub_offset)) in offsets.enumerate() {
        let test = format!("ldrb w16, [x19, #{poll_offset}]\ncbnz w16, shared{n}\nret\n");
        let stub = format!("ldr x16, [x19, #{stub_offset}]\nbr x16\n");
        let load = format!("ldr x16, [x19, #{stub_offset}]\n");
        let pointer = format!("{load}cbnz x16, pointer{n}\nret\n");
        let mut add = |text: String, site| {
            source += &text;
            let code = emit_stub_call(&StubCall {
                site,
                poll_offset,
                stub_offset,
            });
            let code = code.unwrap();
            let shared = code.shared_exit.map(|offset| emitted.len() + offset);
            emitted.extend(code.bytes);
            // Code to branch over.
            source += ".skip 64\n";
            emitted.extend([0; 64]);
            (shared.unwrap_or(0) as i32, emitted.len() as i32)
        };
        let (shared, mut end) = add(format!("{test}shared{n}:\n{stub}"), StubSite::PollTailExit);
        for _ in 0..9 {
            let shared_exit = shared - end;
            (_, end) = add(test.clone(), StubSite::PollLaterExit { shared_exit });
        }
        add(stub, StubSite::JumpExit);
        let (shared, mut end) = add(
            format!("{pointer}pointer{n}:\nbr x16\n"),
            StubSite::TailExit,
        );
        for _ in 0..9 {
            let shared_exit = shared - end;
            (_, end) = add(pointer.clone(), StubSite::LaterExit { shared_exit });
        }
        add(
            format!("{load}cbz x16, leaf{n}\nadr x17, leaf{n}\nbr x16\nleaf{n}:\n"),
            StubSite::LeafEntry,
        );
        add(
            format!("{load}cbz x16, framed{n}\nblr x16\nframed{n}:\n"),
            StubSite::FramedExit,
        );
    }
    let compared = assert_assemblers_agree(Isa::Aarch64, &source, &emitted);
    println!("{} bytes compared with {compared:?}", emitted.len());
}

/// Any number, often one near a limit.
fn offsets(limit: i32) -> impl Strategy<Value = i32> {
    prop_oneof![
        0..=limit,
        (0..=limit / 8).prop_map(|words| words * 8),
        -20..20_i32,
        limit - 20..limit + 20,
        any::<i32>()
    ]
}

fn sites() -> impl Strategy<Value = StubSite> {
    let distances = prop_oneof![
        (MIN_SHARED_EXIT / 4..0).prop_map(|words| words * 4),
        -30..10,
        MIN_SHARED_EXIT - 10..MIN_SHARED_EXIT + 10,
        any::<i32>(),
    ];
    prop_oneof![
        Just(StubSite::PollTailExit),
        distances
            .clone()
            .prop_map(|shared_exit| StubSite::PollLaterExit { shared_exit }),
        Just(StubSite::JumpExit),
        Just(StubSite::TailExit),
        distances.prop_map(|shared_exit| StubSite::LaterExit { shared_exit }),
        Just(StubSite::LeafEntry),
        Just(StubSite::FramedExit),
    ]
}

/// A number in capstone's spelling.
fn spelled(number: i64) -> String {
    match number {
        0..=9 => number.to_string(),
        _ => format!("{number:#x}"),
    }
}

fn address(offset: i32) -> String {
    match offset {
        0 => "[x19]".to_owned(),
        _ => format!("[x19, #{}]", spelled(offset.into())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn right_code_or_the_right_error(
        site in sites(),
        poll_offset in offsets(MAX_POLL_OFFSET),
        stub_offset in offsets(MAX_STUB_OFFSET),
    ) {
        let poll_fits = (0..4096).contains(&poll_offset);
        let stub_fits = (0..32768).contains(&stub_offset) && stub_offset % 8 == 0;
        let code = match emit_stub_call(&StubCall { site, poll_offset, stub_offset }) {
            Ok(code) => code,
            Err(EncodeError::PollOffset(refused)) => {
                prop_assert!(refused == poll_offset && !poll_fits);
                return Ok(());
            }
            Err(EncodeError::StubOffset(refused)) => {
                prop_assert!(refused == stub_offset && !stub_fits);
                return Ok(());
            }
            Err(EncodeError::SharedExitDistance(refused)) => {
                let asked = match site {
                    StubSite::PollLaterExit { shared_exit } => shared_exit,
                    StubSite::LaterExit { shared_exit } => shared_exit,
                    _ => return Err(TestCaseError::fail("no later exit")),
                };
                prop_assert_eq!(asked, refused);
                // The branch is the second instruction, and goes 1 MiB back.
                let in_reach = (4 - (1 << 20)..0).contains(&refused);
                prop_assert!(!in_reach || refused % 4 != 0);
                return Ok(());
            }
            Err(e) => return Err(TestCaseError::fail(e.to_string())),
        };
        prop_assert!(poll_fits && stub_fits);
        let test = format!("ldrb w16, {}", address(poll_offset));
        let stub = [format!("ldr x16, {}", address(stub_offset)), "br x16".into()];
        let expected = match site {
            StubSite::PollTailExit => [&[test, "cbnz w16, #0xc".into(), "ret".into()][..], &stub].concat(),
            StubSite::PollLaterExit { shared_exit } => {
                prop_assert!(shared_exit < 0);
                vec![test, format!("cbnz w16, #{}", spelled(shared_exit.into())), "ret".into()]
            }
            StubSite::TailExit => {
                vec![stub[0].clone(), "cbnz x16, #0xc".into(), "ret".into(), "br x16".into()]
            }
            StubSite::LaterExit { shared_exit } => {
                prop_assert!(shared_exit < 0);
                let branch = format!("cbnz x16, #{}", spelled(shared_exit.into()));
                vec![stub[0].clone(), branch, "ret".into()]
            }
            StubSite::LeafEntry => vec![
                stub[0].clone(),
                "cbz x16, #0x10".into(),
                "adr x17, #0x10".into(),
                "br x16".into(),
            ],
            StubSite::FramedExit => {
                vec![stub[0].clone(), "cbz x16, #0xc".into(), "blr x16".into()]
            }
            _ => stub.to_vec(),
        };
        prop_assert_eq!(text(&code.bytes), expected);
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (call, part) in [
        (
            StubCall {
                poll_offset: 4096,
                ..call(StubSite::PollTailExit)
            },
            "from 0 to 4095",
        ),
        (
            StubCall {
                stub_offset: 4,
                ..call(StubSite::PollTailExit)
            },
            "multiple of 8 from 0 to 32760",
        ),
        (
            call(StubSite::PollLaterExit { shared_exit: -6 }),
            "use StubSite::TailExit again",
        ),
    ] {
        let error = emit_stub_call(&call).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Calls `method` with a value in every register, and writes out the number of times that the stub ran, the change of
/// the stack pointer, and the registers.
const PROGRAM: &str = r#"
        .macro each operation, base
        \operation x0, x1, [\base, #16]
        \operation x2, x3, [\base, #32]
        \operation x4, x5, [\base, #48]
        \operation x6, x7, [\base, #64]
        \operation x8, x9, [\base, #80]
        \operation x10, x11, [\base, #96]
        \operation x12, x13, [\base, #112]
        \operation x14, x15, [\base, #128]
        \operation x16, x17, [\base, #144]
        \operation x20, x21, [\base, #160]
        \operation x22, x23, [\base, #176]
        \operation x24, x25, [\base, #192]
        \operation x26, x27, [\base, #208]
        .endm
        .macro run method, poll, stub
        ldr x19, =thread
        str xzr, [x19]
        mov w0, #\poll
        strb w0, [x19, #0x99]
        ldr x0, =\stub
        str x0, [x19, #0xa0]
        ldr x29, =input
        each ldp, x29
        mov x28, sp
        bl \method
        ldr x29, =output
        each stp, x29
        mov x0, sp
        sub x0, x0, x28
        ldr x1, [x19]
        stp x1, x0, [x29]
        mov x0, #1
        mov x1, x29
        mov x2, #224
        mov x8, #64
        svc #0
        .endm
        .text
stub:   ldr x16, [x19]
        add x16, x16, #1
        str x16, [x19]
        mov x16, #-1
        mov x17, #-1
        ret
        // Returns to x17, and keeps the link register.
leaf:   ldr x16, [x19]
        add x16, x16, #1
        str x16, [x19]
        mov x16, #-1
        br x17
        .globl _start
"#;

const DATA: &str = "
        mov x0, #0
        mov x8, #93
        svc #0
        .ltorg
        .data
        .balign 8
thread: .fill 32, 8, 0
output: .fill 28, 8, 0
";

#[test]
fn the_stub_runs_exactly_while_tracing_is_on_and_nothing_else_changes() {
    let bytes = |site| emit_stub_call(&call(site)).unwrap().bytes;
    let first = bytes(StubSite::PollTailExit);
    let mut source = PROGRAM.to_owned();
    let mut methods = Vec::new();
    let mut define = |name: String, code: &[u8], skipped: usize| {
        let text: Vec<String> = code.iter().map(u8::to_string).collect();
        writeln!(source, ".byte {}", text[..skipped].join(", ")).unwrap();
        writeln!(source, "{name}: .byte {}", text[skipped..].join(", ")).unwrap();
        methods.push(name);
    };
    // The code before the label is the target of its branches.
    define(
        "jump".into(),
        &[bytes(StubSite::JumpExit), bytes(StubSite::JumpExit)].concat(),
        8,
    );
    define("first".into(), &[first.clone(), first.clone()].concat(), 20);
    let pointer = bytes(StubSite::TailExit);
    define(
        "pointer".into(),
        &[pointer.clone(), pointer.clone()].concat(),
        16,
    );
    // An entry, then a return.
    let leaf = bytes(StubSite::LeafEntry);
    let ret = 0xd65f_03c0_u32.to_le_bytes().to_vec();
    define("pointer_leaf".into(), &[ret.clone(), leaf, ret].concat(), 4);
    for gap in [0, 4, 4096] {
        let start = first.len() + gap;
        let site = StubSite::PollLaterExit {
            shared_exit: 12 - start as i32,
        };
        let code = [first.clone(), vec![0; gap], bytes(site)].concat();
        define(format!("later{gap}"), &code, start);
        let start = pointer.len() + gap;
        let site = StubSite::LaterExit {
            shared_exit: 12 - start as i32,
        };
        let code = [pointer.clone(), vec![0; gap], bytes(site)].concat();
        define(format!("pointer_later{gap}"), &code, start);
    }
    let mut runs = Vec::new();
    source += "_start:\n";
    for method in &methods {
        for poll in [0, 1, 0x80, 0xff] {
            let stub = match (method.as_str(), poll) {
                // These test the stub's address, not the poll byte.
                (method, 0) if method.starts_with("pointer") => "0",
                ("pointer_leaf", _) => "leaf",
                _ => "stub",
            };
            writeln!(source, "run {method}, {poll}, {stub}").unwrap();
            runs.push((method, poll));
        }
    }
    source += DATA;
    let input: Vec<u64> = (0..26).map(|i| 0x0101_0101_1010_1010 * (i + 1)).collect();
    writeln!(source, "input: .quad 0, 0").unwrap();
    for value in &input {
        writeln!(source, ".quad {value:#x}").unwrap();
    }
    let Some(written) = execute(Isa::Aarch64, &source) else {
        return;
    };
    assert_eq!(written.len(), runs.len() * 224);
    for ((method, poll), written) in runs.into_iter().zip(written.chunks(224)) {
        let words: Vec<u64> = written
            .chunks(8)
            .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
            .collect();
        let calls = poll != 0 || method == "jump";
        assert_eq!(words[..2], [u64::from(calls), 0], "{method}, {poll}");
        let mut expected = input.clone();
        expected[16] = if calls { u64::MAX } else { 0 };
        if calls {
            expected[17] = u64::MAX;
        }
        if calls && method == "pointer_leaf" {
            // The address to which the stub returned.
            expected[17] = words[2 + 17];
        }
        assert_eq!(words[2..], expected, "{method}, {poll}");
    }
}
