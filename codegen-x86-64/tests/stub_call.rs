// SPDX-License-Identifier: Apache-2.0
//! Calls of the stub: their bytes, and their effect on the processor.

use hindsight_codegen_check::{assert_assemblers_agree, Disassembler, Isa};
use hindsight_codegen_x86_64::{emit_stub_call, EncodeError, Reg, RegSet, StubCall, StubSite};
use proptest::prelude::*;

const POLL: i32 = 0x98;
const STUB: i32 = 0xa0;

fn call(site: StubSite) -> StubCall {
    StubCall {
        site,
        poll_offset: POLL,
        stub_offset: STUB,
    }
}

fn text(code: &[u8]) -> Vec<String> {
    let instructions = Disassembler::new(Isa::X86_64).instructions(code);
    instructions.into_iter().map(|i| i.text).collect()
}

/// Specifications, bytes and text.
#[test]
fn the_table() {
    const TEST: [u8; 9] = [0x65, 0x80, 0x3c, 0x25, 0x98, 0, 0, 0, 0];
    const JUMP: [u8; 8] = [0x65, 0xff, 0x24, 0x25, 0xa0, 0, 0, 0];
    const LOAD_RDX: [u8; 9] = [0x65, 0x48, 0x8b, 0x14, 0x25, 0xa0, 0, 0, 0];
    const CALL: [u8; 8] = [0x65, 0xff, 0x14, 0x25, 0xa0, 0, 0, 0];
    type Row<'a> = (StubSite, &'a [&'a [u8]], &'a [&'a str]);
    let table: [Row; 13] = [
        (
            StubSite::PollTailExit,
            &[&TEST, &[0x75, 1, 0xc3], &JUMP],
            &["cmpb $0, %gs:0x98", "jne 0xc", "retq", "jmpq *%gs:0xa0"],
        ),
        (
            StubSite::PollLaterExit { shared_exit: -117 },
            &[&TEST, &[0x75, 0x80, 0xc3]],
            &["cmpb $0, %gs:0x98", "jne 0xffffffffffffff8b", "retq"],
        ),
        (
            StubSite::PollLaterExit { shared_exit: -118 },
            &[&TEST, &[0x0f, 0x85, 0x7b, 0xff, 0xff, 0xff, 0xc3]],
            &["cmpb $0, %gs:0x98", "jne 0xffffffffffffff8a", "retq"],
        ),
        (
            StubSite::PollLaterExit { shared_exit: -1 },
            &[&TEST, &[0x75, 0xf4, 0xc3]],
            &["cmpb $0, %gs:0x98", "jne 0xffffffffffffffff", "retq"],
        ),
        (StubSite::JumpExit, &[&JUMP], &["jmpq *%gs:0xa0"]),
        (
            StubSite::PollLeafEntry,
            &[&TEST, &[0x74, 8], &CALL],
            &["cmpb $0, %gs:0x98", "je 0x13", "callq *%gs:0xa0"],
        ),
        (StubSite::CallEntry, &[&CALL], &["callq *%gs:0xa0"]),
        (
            StubSite::TailExit,
            &[&LOAD_RDX, &[0x48, 0x85, 0xd2, 0x75, 1, 0xc3, 0xff, 0xe2]],
            &[
                "movq %gs:0xa0, %rdx",
                "testq %rdx, %rdx",
                "jne 0xf",
                "retq",
                "jmpq *%rdx",
            ],
        ),
        (
            StubSite::LaterExit { shared_exit: -114 },
            &[&LOAD_RDX, &[0x48, 0x85, 0xd2, 0x75, 0x80, 0xc3]],
            &[
                "movq %gs:0xa0, %rdx",
                "testq %rdx, %rdx",
                "jne 0xffffffffffffff8e",
                "retq",
            ],
        ),
        (
            StubSite::LaterExit { shared_exit: -115 },
            &[
                &LOAD_RDX,
                &[0x48, 0x85, 0xd2, 0x0f, 0x85, 0x7b, 0xff, 0xff, 0xff, 0xc3],
            ],
            &[
                "movq %gs:0xa0, %rdx",
                "testq %rdx, %rdx",
                "jne 0xffffffffffffff8d",
                "retq",
            ],
        ),
        (
            StubSite::ShortExit,
            &[
                &[0x65, 0x48, 0x8b, 0x0c, 0x25, 0xa0, 0, 0, 0],
                &[0xe3, 2, 0xff, 0xe1, 0xc3],
            ],
            &["movq %gs:0xa0, %rcx", "jrcxz 0xd", "jmpq *%rcx", "retq"],
        ),
        (
            StubSite::LeafEntry,
            &[
                &[0x65, 0x4c, 0x8b, 0x1c, 0x25, 0xa0, 0, 0, 0],
                &[0x4d, 0x85, 0xdb, 0x74, 3, 0x41, 0xff, 0xd3],
            ],
            &[
                "movq %gs:0xa0, %r11",
                "testq %r11, %r11",
                "je 0x11",
                "callq *%r11",
            ],
        ),
        (
            StubSite::FramedExit,
            &[
                &[0x65, 0x48, 0x8b, 0x14, 0x25, 0xa0, 0, 0, 0],
                &[0x48, 0x85, 0xd2, 0x74, 2, 0xff, 0xd2],
            ],
            &[
                "movq %gs:0xa0, %rdx",
                "testq %rdx, %rdx",
                "je 0x10",
                "callq *%rdx",
            ],
        ),
    ];
    for (site, bytes, expected) in table {
        let code = emit_stub_call(&call(site)).unwrap();
        assert_eq!(code.bytes, bytes.concat(), "{site:?}");
        assert_eq!(text(&code.bytes), expected, "{site:?}");
        let shared = match site {
            StubSite::PollTailExit => Some(12),
            StubSite::TailExit => Some(15),
            _ => None,
        };
        assert_eq!(code.shared_exit, shared, "{site:?}");
    }
}

#[test]
fn the_bytes_are_those_of_independent_assemblers() {
    let mut source = String::new();
    let mut emitted = Vec::new();
    let mut add = |text: String, call: StubCall| {
        source += &text;
        let code = emit_stub_call(&call).unwrap();
        let shared = code.shared_exit.map(|offset| emitted.len() + offset);
        emitted.extend(code.bytes);
        (shared, emitted.len() as i32)
    };
    for (n, (poll, stub)) in [(0, 0), (POLL, STUB), (127, 128), (i32::MAX, i32::MAX - 7)]
        .into_iter()
        .enumerate()
    {
        let call = |site| StubCall {
            site,
            poll_offset: poll,
            stub_offset: stub,
        };
        let test = format!("cmpb $0,%gs:{poll}\n");
        let (shared, mut end) = add(
            format!("{test}jne shared{n}\nret\nshared{n}:\njmp *%gs:{stub}\n"),
            call(StubSite::PollTailExit),
        );
        let shared = shared.unwrap() as i32;
        // A short jump, then long ones.
        for _ in 0..15 {
            let site = StubSite::PollLaterExit {
                shared_exit: shared - end,
            };
            (_, end) = add(format!("{test}jne shared{n}\nret\n"), call(site));
        }
        add(format!("jmp *%gs:{stub}\n"), call(StubSite::JumpExit));
        add(
            format!("{test}je done{n}\ncall *%gs:{stub}\ndone{n}:\n"),
            call(StubSite::PollLeafEntry),
        );
        add(format!("call *%gs:{stub}\n"), call(StubSite::CallEntry));
        let test = format!("mov %gs:{stub},%rdx\ntest %rdx,%rdx\n");
        let (shared, mut end) = add(
            format!("{test}jne pointer{n}\nret\npointer{n}:\njmp *%rdx\n"),
            call(StubSite::TailExit),
        );
        for _ in 0..15 {
            let site = StubSite::LaterExit {
                shared_exit: shared.unwrap() as i32 - end,
            };
            (_, end) = add(format!("{test}jne pointer{n}\nret\n"), call(site));
        }
        add(
            format!("mov %gs:{stub},%rcx\njrcxz off{n}\njmp *%rcx\noff{n}:\nret\n"),
            call(StubSite::ShortExit),
        );
        add(
            format!("mov %gs:{stub},%r11\ntest %r11,%r11\nje leaf{n}\ncall *%r11\nleaf{n}:\n"),
            call(StubSite::LeafEntry),
        );
        add(
            format!("mov %gs:{stub},%rdx\ntest %rdx,%rdx\nje framed{n}\ncall *%rdx\nframed{n}:\n"),
            call(StubSite::FramedExit),
        );
    }
    let compared = assert_assemblers_agree(Isa::X86_64, &source, &emitted);
    println!("{} bytes compared with {compared:?}", emitted.len());
    assert!(compared.contains(&"as"), "install binutils");
}

/// Any number, often one near a limit.
fn offsets() -> impl Strategy<Value = i32> {
    prop_oneof![0..4096, -20..20_i32, i32::MAX - 20..=i32::MAX, any::<i32>()]
}

fn distances() -> impl Strategy<Value = i32> {
    prop_oneof![-300..20, i32::MIN..i32::MIN + 30, any::<i32>()]
}

fn sites() -> impl Strategy<Value = StubSite> {
    prop_oneof![
        Just(StubSite::PollTailExit),
        distances().prop_map(|shared_exit| StubSite::PollLaterExit { shared_exit }),
        Just(StubSite::JumpExit),
        Just(StubSite::PollLeafEntry),
        Just(StubSite::CallEntry),
        Just(StubSite::TailExit),
        distances().prop_map(|shared_exit| StubSite::LaterExit { shared_exit }),
        Just(StubSite::ShortExit),
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn right_code_or_the_right_error(site in sites(), poll_offset in offsets(), stub_offset in offsets()) {
        let stub_fits = stub_offset >= 0 && stub_offset % 8 == 0;
        let code = match emit_stub_call(&StubCall { site, poll_offset, stub_offset }) {
            Ok(code) => code,
            Err(EncodeError::PollOffset(refused)) => {
                prop_assert!(refused == poll_offset && poll_offset < 0);
                return Ok(());
            }
            Err(EncodeError::StubOffset(refused)) => {
                prop_assert!(refused == stub_offset && !stub_fits);
                return Ok(());
            }
            Err(EncodeError::SharedExitDistance(refused)) => {
                // The farthest jump goes 2 GiB back from its end, 15 or 18 bytes behind the start.
                let end = match site {
                    StubSite::PollLaterExit { shared_exit } if shared_exit == refused => 15,
                    StubSite::LaterExit { shared_exit } if shared_exit == refused => 18,
                    _ => return Err(TestCaseError::fail("no later exit")),
                };
                prop_assert!(!(i32::MIN + end..0).contains(&refused));
                return Ok(());
            }
            Err(e) => return Err(TestCaseError::fail(e.to_string())),
        };
        prop_assert!(poll_offset >= 0 && stub_fits);
        let test = format!("cmpb $0, %gs:{}", spelled(poll_offset.into()));
        let stub = spelled(stub_offset.into());
        let pointer = |register: &str, rest: &[&str]| {
            let mut lines = vec![
                format!("movq %gs:{stub}, %{register}"),
                format!("testq %{register}, %{register}"),
            ];
            lines.extend(rest.iter().map(|line| (*line).to_owned()));
            lines
        };
        let expected = match site {
            StubSite::PollTailExit => vec![test, "jne 0xc".into(), "retq".into(), format!("jmpq *%gs:{stub}")],
            StubSite::PollLaterExit { shared_exit } => {
                prop_assert!(shared_exit < 0);
                vec![test, format!("jne {}", spelled(shared_exit.into())), "retq".into()]
            }
            StubSite::JumpExit => vec![format!("jmpq *%gs:{stub}")],
            StubSite::TailExit => pointer("rdx", &["jne 0xf", "retq", "jmpq *%rdx"]),
            StubSite::LaterExit { shared_exit } => {
                prop_assert!(shared_exit < 0);
                pointer("rdx", &[&format!("jne {}", spelled(shared_exit.into())), "retq"])
            }
            StubSite::ShortExit => vec![
                format!("movq %gs:{stub}, %rcx"),
                "jrcxz 0xd".into(),
                "jmpq *%rcx".into(),
                "retq".into(),
            ],
            StubSite::LeafEntry => pointer("r11", &["je 0x11", "callq *%r11"]),
            StubSite::FramedExit => pointer("rdx", &["je 0x10", "callq *%rdx"]),
            StubSite::PollLeafEntry => vec![test, "je 0x13".into(), format!("callq *%gs:{stub}")],
            _ => vec![format!("callq *%gs:{stub}")],
        };
        prop_assert_eq!(text(&code.bytes), expected);
    }
}

#[test]
fn refusals_say_what_to_do() {
    for (call, part) in [
        (
            StubCall {
                poll_offset: -1,
                ..call(StubSite::PollLeafEntry)
            },
            "poll byte cannot be at gs:-1",
        ),
        (
            StubCall {
                stub_offset: 4,
                ..call(StubSite::PollLeafEntry)
            },
            "multiple of 8",
        ),
        (
            call(StubSite::PollLaterExit { shared_exit: 0 }),
            "use StubSite::TailExit again",
        ),
    ] {
        let error = emit_stub_call(&call).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod on_the_processor {
    use super::*;
    use dynasmrt::x64::Assembler;
    use dynasmrt::{dynasm, AssemblyOffset, DynasmApi, ExecutableBuffer};

    /// Core registers by number; the element of rsp holds the change of rsp by the call.
    type Registers = [u64; 16];

    const HITS: i32 = 0xb0;

    fn others() -> impl Iterator<Item = Reg> {
        let is_other = |r: &Reg| !matches!(r, Reg::Rsp | Reg::Rax);
        Reg::ALL.into_iter().filter(is_other)
    }

    struct Program {
        code: ExecutableBuffer,
        run: AssemblyOffset,
        stub: AssemblyOffset,
    }

    /// A caller that loads all registers, calls a method made of `method`, and stores all registers; and
    /// a stub that counts its calls and changes every register that it may change.
    #[expect(
        clippy::useless_conversion,
        reason = "the assembler macro converts every register number"
    )]
    fn program(method: &[u8], entry: usize) -> Program {
        let mut ops = Assembler::new().expect("executable memory");
        let start = ops.offset();
        dynasm!(ops; .arch x64; .bytes method);
        let method = start.0 + entry;
        let stub = ops.offset();
        dynasm!(ops; .arch x64; gs inc QWORD [HITS]; mov r11, -1; ret);
        let run = ops.offset();
        dynasm!(ops
            ; .arch x64
            ; push rbx; push rbp; push r12; push r13; push r14; push r15
            ; push rsi
            ; mov rax, rdi
        );
        for r in others() {
            dynasm!(ops; .arch x64; mov Rq(r.number()), [rax + 8 * i32::from(r.number())]);
        }
        dynasm!(ops; .arch x64; mov rax, [rax]);
        let distance = method as i32 - (ops.offset().0 as i32 + 5);
        dynasm!(ops; .arch x64; .bytes [0xe8]; .bytes distance.to_le_bytes());
        dynasm!(ops; .arch x64; push rax; mov rax, [rsp + 8]);
        for r in others() {
            dynasm!(ops; .arch x64; mov [rax + 8 * i32::from(r.number())], Rq(r.number()));
        }
        dynasm!(ops
            ; .arch x64
            ; pop rcx
            ; mov [rax], rcx
            ; pop rsi
            ; pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx
            ; ret
        );
        let code = ops.finalize().expect("the program assembles");
        Program { code, run, stub }
    }

    /// A method, and its offset in `code`.
    struct Method {
        code: Vec<u8>,
        start: usize,
        site: StubSite,
    }

    /// The number of times that the stub ran, and the final registers. The stub's address is always set for sites
    /// without a test; for sites that test it, only while `poll` is not 0.
    fn run(method: &Method, poll: u8, before: &Registers) -> (u64, Registers) {
        let program = program(&method.code, method.start);
        let mut thread = Box::new([0_u64; 32]);
        if poll != 0 || !is_pointer(method.site) {
            thread[STUB as usize / 8] = program.code.ptr(program.stub) as u64;
        }
        thread[POLL as usize / 8] = 0xffff_ff00 | u64::from(poll);
        let mut after = *before;
        const ARCH_SET_GS: libc::c_int = 0x1001;
        // SAFETY: nothing else on this thread uses gs on x86-64 Linux. The program has this signature, keeps the
        // callee-saved registers, and touches the thread's words only.
        unsafe {
            let done = libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, thread.as_mut_ptr());
            assert_eq!(done, 0);
            let run: extern "C" fn(*const u64, *mut u64) =
                std::mem::transmute(program.code.ptr(program.run));
            run(before.as_ptr(), after.as_mut_ptr());
            let hits = thread.as_ptr().add(HITS as usize / 8).read_volatile();
            (hits, after)
        }
    }

    fn is_pointer(site: StubSite) -> bool {
        matches!(
            site,
            StubSite::TailExit
                | StubSite::LaterExit { .. }
                | StubSite::ShortExit
                | StubSite::LeafEntry
                | StubSite::FramedExit
        )
    }

    /// A method that consists of this site: an entry continues in a `ret`, a later exit follows the first one after
    /// `filler` bytes.
    fn method(site: StubSite, filler: usize) -> Method {
        let bytes = |site| emit_stub_call(&call(site)).unwrap();
        let first = match site {
            StubSite::PollLaterExit { .. } => bytes(StubSite::PollTailExit),
            StubSite::LaterExit { .. } => bytes(StubSite::TailExit),
            _ => {
                let code = [bytes(site).bytes, vec![0xc3]].concat();
                let start = 0;
                return Method { code, start, site };
            }
        };
        let mut code = first.bytes.clone();
        code.extend(std::iter::repeat_n(0xcc, filler));
        let start = code.len();
        let shared_exit = first.shared_exit.unwrap() as i32 - start as i32;
        let site = match site {
            StubSite::PollLaterExit { .. } => StubSite::PollLaterExit { shared_exit },
            _ => StubSite::LaterExit { shared_exit },
        };
        code.extend(bytes(site).bytes);
        Method { code, start, site }
    }

    #[test]
    fn the_stub_runs_exactly_while_tracing_is_on_and_nothing_else_changes() {
        let before: Registers = std::array::from_fn(|i| 0x0101_0101_1010_1010 * (i as u64 + 1));
        let mut methods: Vec<Method> = [
            StubSite::PollTailExit,
            StubSite::JumpExit,
            StubSite::PollLeafEntry,
            StubSite::CallEntry,
            StubSite::TailExit,
            StubSite::ShortExit,
            StubSite::LeafEntry,
            StubSite::FramedExit,
        ]
        .map(|site| method(site, 0))
        .into();
        for filler in [0, 1, 80, 97, 98, 200, 70000] {
            methods.push(method(StubSite::PollLaterExit { shared_exit: -1 }, filler));
            methods.push(method(StubSite::LaterExit { shared_exit: -1 }, filler));
        }
        for method in methods {
            let site = method.site;
            let has_test = !matches!(site, StubSite::JumpExit | StubSite::CallEntry);
            let clobbers = emit_stub_call(&call(site)).unwrap().clobbers;
            for poll in [0, 1, 0x80, 0xff] {
                let (hits, after) = run(&method, poll, &before);
                let calls = poll != 0 || !has_test;
                assert_eq!(hits, u64::from(calls), "{site:?}, {poll}");
                for r in Reg::ALL {
                    let i = usize::from(r.number());
                    if calls && r == Reg::R11 {
                        // The registers of the stub.
                        assert_eq!(after[i], u64::MAX, "{site:?}, {poll}");
                    } else if r != Reg::Rsp && !clobbers.contains(r) {
                        assert_eq!(after[i], before[i], "{r}: {site:?}, {poll}");
                    }
                }
            }
        }
    }

    #[test]
    fn entries_say_what_the_stub_may_change() {
        for site in [
            StubSite::PollLeafEntry,
            StubSite::LeafEntry,
            StubSite::CallEntry,
        ] {
            let clobbers = emit_stub_call(&call(site)).unwrap().clobbers;
            assert_eq!(clobbers, RegSet::of(&[Reg::R11]));
        }
    }
}
