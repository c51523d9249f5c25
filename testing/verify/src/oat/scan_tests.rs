// SPDX-License-Identifier: Apache-2.0
//! The rules on methods of a few hand-made bytes: a correct one for each form, and the problems of variants with one
//! change.

use super::*;

/// At offsets that are easy to recognize: cursor 0x100, poll 0x110, exit 0x118, leaf 0x120, entry 0x200; with
/// words of 4 bytes cursor 0x100, poll 0x108, exit 0x10c, leaf 0x110, entry 0x200.
fn scanner(isa: Isa) -> Scanner {
    let offsets = match isa {
        Isa::Arm => "cursor@256,poll@264,exit@268,leaf@272,entry@512",
        _ => "cursor@256,poll@272,exit@280,leaf@288,entry@512",
    };
    let value = format!("shared-1/{offsets}");
    let (_, words) = Words::parse(&value, isa).unwrap();
    Scanner::new(Decoder::new(isa).unwrap(), words)
}

fn bytes(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn kinds(findings: &Findings) -> Vec<Kind> {
    findings.sites.keys().copied().collect()
}

#[track_caller]
fn assert_right(isa: Isa, code: &[u8], expected: &[Kind]) {
    let findings = scanner(isa).method(code, Expected::All);
    assert_eq!(findings.problems, Vec::<String>::new());
    assert_eq!(kinds(&findings), expected);
    assert_eq!(findings.returns, 1);
}

#[track_caller]
fn assert_wrong(isa: Isa, code: &[u8], problem: &str) {
    let findings = scanner(isa).method(code, Expected::All);
    assert!(
        findings
            .problems
            .iter()
            .any(|found| found.contains(problem)),
        "{problem:?} is not among {:?}",
        findings.problems
    );
}

mod x86_64 {
    use super::*;

    const ISA: Isa = Isa::X86_64;
    // sub rsp, 24; mov [rsp], rdi
    const FRAME: &[u8] = &[0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x3c, 0x24];
    // cmp word gs:[0x110], 0; jne +25: the slow path in `shared`
    const POLL: &[u8] = &[0x65, 0x66, 0x83, 0x3c, 0x25, 0x10, 1, 0, 0, 0, 0x75, 24];
    // add rsp, 24
    const LEAVE: &[u8] = &[0x48, 0x83, 0xc4, 0x18];
    // mov rdx, gs:[0x118]; test rdx, rdx; jne +1; ret; jmp rdx
    const EXIT: &[u8] = &[
        0x65, 0x48, 0x8b, 0x14, 0x25, 0x18, 1, 0, 0, 0x48, 0x85, 0xd2, 0x75, 1, 0xc3, 0xff, 0xe2,
    ];
    // nop; nop; nop
    const NOPS: &[u8] = &[0x90, 0x90, 0x90];
    // call gs:[0x200]; jmp -34: back behind the test
    const SLOW: &[u8] = &[0x65, 0xff, 0x14, 0x25, 0, 2, 0, 0, 0xeb, 0xde];

    fn shared() -> Vec<u8> {
        bytes(&[FRAME, POLL, LEAVE, EXIT, NOPS, SLOW])
    }

    /// mov r11, gs:[0x120]; test r11, r11; je +3; call r11
    const LEAF: &[u8] = &[
        0x65, 0x4c, 0x8b, 0x1c, 0x25, 0x20, 1, 0, 0, 0x4d, 0x85, 0xdb, 0x74, 3, 0x41, 0xff, 0xd3,
    ];

    #[test]
    fn right_methods_have_no_problem() {
        assert_right(ISA, &shared(), &[Kind::PollEntry, Kind::TailExit]);
        assert_right(
            ISA,
            &bytes(&[LEAF, EXIT]),
            &[Kind::LeafEntry, Kind::TailExit],
        );
    }

    #[test]
    fn the_inline_form_is_known() {
        // mov r11, gs:[0x100]; test r11, r11; je +23; mov r10, rdx; mov [r11], edi; rdtsc; mov [r11+4], eax;
        // add r11, 8; mov gs:[0x100], r11; mov rdx, r10
        let entry = [
            0x65, 0x4c, 0x8b, 0x1c, 0x25, 0, 1, 0, 0, 0x4d, 0x85, 0xdb, 0x74, 28, 0x49, 0x89, 0xd2,
            0x41, 0x89, 0x3b, 0x0f, 0x31, 0x41, 0x89, 0x43, 4, 0x49, 0x83, 0xc3, 8, 0x65, 0x4c,
            0x89, 0x1c, 0x25, 0, 1, 0, 0, 0x4c, 0x89, 0xd2,
        ];
        // The same with mov dword [r11], 0, and nothing to save; ret
        let exit = [
            0x65, 0x4c, 0x8b, 0x1c, 0x25, 0, 1, 0, 0, 0x4d, 0x85, 0xdb, 0x74, 26, 0x41, 0xc7, 3, 0,
            0, 0, 0, 0x0f, 0x31, 0x41, 0x89, 0x43, 4, 0x49, 0x83, 0xc3, 8, 0x65, 0x4c, 0x89, 0x1c,
            0x25, 0, 1, 0, 0,
        ];
        let code = bytes(&[&entry, &exit, LEAVE, &[0xc3]]);
        assert_right(ISA, &code, &[Kind::InlineEntry, Kind::InlineExit]);
        assert_wrong(ISA, &bytes(&[&entry, LEAVE, &[0xc3]]), "a return without");
        // call rax, between the exit and the return
        let code = bytes(&[&entry, &exit, &[0xff, 0xd0, 0xc3]]);
        assert_wrong(ISA, &code, "an exit without a return behind it");
    }

    #[test]
    fn what_is_missing_is_noticed() {
        assert_wrong(ISA, &bytes(&[FRAME, LEAVE, EXIT]), "0 entries instead of 1");
        assert_wrong(ISA, &bytes(&[LEAF, LEAF, EXIT]), "2 entries instead of 1");
        assert_wrong(ISA, &bytes(&[LEAF, LEAVE, &[0xc3]]), "a return without");
        // Without the slow path: the jump leads behind the method.
        let code = bytes(&[LEAF, &EXIT[..EXIT.len() - 2], NOPS]);
        assert_wrong(ISA, &code, "no way to the stub");
        let code = bytes(&[POLL, LEAVE, EXIT, NOPS, SLOW]);
        assert_wrong(ISA, &code, "cannot find the method");
        // mov edi, eax
        let code = bytes(&[&[0x89, 0xc7], LEAF, EXIT]);
        assert_wrong(ISA, &code, "cannot find the method");
    }

    #[test]
    fn slow_paths_must_call_and_come_back() {
        let mut other_stub = shared();
        let call = other_stub.len() - SLOW.len();
        other_stub[call + 4] = 8;
        assert_wrong(ISA, &other_stub, "slow path");
        let mut elsewhere = shared();
        *elsewhere.last_mut().unwrap() -= 1;
        assert_wrong(ISA, &elsewhere, "slow path");
    }

    #[test]
    fn bypasses_are_noticed() {
        // je, to the ret of the exit
        let code = bytes(&[LEAF, &[0x74, 14], EXIT]);
        assert_wrong(ISA, &code, "a branch goes into this trace point");
        // je over the entry
        let code = bytes(&[&[0x74, 17], LEAF, EXIT]);
        assert_wrong(ISA, &code, "not on the straight way");
    }

    #[test]
    fn nothing_else_touches_the_words() {
        // mov rax, gs:[0x108]; mov gs:[rax], 0
        let stray = [0x65, 0x48, 0x8b, 4, 0x25, 8, 1, 0, 0];
        assert_wrong(
            ISA,
            &bytes(&[LEAF, &stray, EXIT]),
            "touches a word of trace points",
        );
        let computed = [0x65, 0xc6, 0, 0];
        assert_wrong(
            ISA,
            &bytes(&[LEAF, &computed, EXIT]),
            "touches a word of trace points",
        );
        // mov rax, gs:[0xf8]: its neighbour
        let other = [0x65, 0x48, 0x8b, 4, 0x25, 0xf8, 0, 0, 0];
        assert_right(
            ISA,
            &bytes(&[LEAF, &other, EXIT]),
            &[Kind::LeafEntry, Kind::TailExit],
        );
        assert_eq!(scanner(ISA).gap(&bytes(&[&[0; 8], &stray])).len(), 1);
        assert!(scanner(ISA).gap(&bytes(&[&[0; 8], &other])).is_empty());
    }

    #[test]
    fn methods_without_trace_points_must_have_none() {
        let findings = scanner(ISA).method(&[0xc3], Expected::None);
        assert_eq!((findings.returns, findings.problems.len()), (1, 0));
        let findings = scanner(ISA).method(&shared(), Expected::None);
        assert!(!findings.problems.is_empty());
    }

    #[test]
    fn constants_are_not_code() {
        // movsd xmm0, [rip + 17]: behind the exit; its bytes would be another ret.
        let constant = [0xf2, 0x0f, 0x10, 5, 17, 0, 0, 0];
        let code = bytes(&[LEAF, &constant, EXIT, &[0xc3; 8]]);
        assert_right(ISA, &code, &[Kind::LeafEntry, Kind::TailExit]);
        let code = bytes(&[LEAF, EXIT, &[0xc3; 8]]);
        assert_wrong(ISA, &code, "a return without");
    }
}

mod arm64 {
    use super::*;

    const ISA: Isa = Isa::Arm64;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    // str x0, [sp, #-32]!; ldrh w16, [x19, #0x110]; cbnz w16, +28 (of itself); add sp, sp, #32;
    // ldr x16, [x19, #0x118]; cbnz x16, +8; ret; br x16;
    // ldr x30, [x19, #0x200]; blr x30; b -32
    const SHARED: [u32; 11] = [
        0xf81e_0fe0,
        0x7942_2270,
        0x3500_00d0,
        0x9100_83ff,
        0xf940_8e70,
        0xb500_0050,
        0xd65f_03c0,
        0xd61f_0200,
        0xf941_027e,
        0xd63f_03c0,
        0x17ff_fff9,
    ];
    // ldr x16, [x19, #0x120]; cbz x16, +12; adr x17, +8; br x16
    const LEAF: [u32; 4] = [0xf940_9270, 0xb400_0070, 0x1000_0051, 0xd61f_0200];
    // ldr x16, [x19, #0x100]; cbz x16, +16; mrs x17, cntvct_el0; stp w0 | wzr, w17, [x16], #8;
    // str x16, [x19, #0x100]
    const INLINE_ENTRY: [u32; 5] = [
        0xf940_8270,
        0xb400_0090,
        0xd53b_e051,
        0x2881_4600,
        0xf900_8270,
    ];
    const INLINE_EXIT: [u32; 5] = [
        0xf940_8270,
        0xb400_0090,
        0xd53b_e051,
        0x2881_461f,
        0xf900_8270,
    ];
    const RET: u32 = 0xd65f_03c0;

    #[test]
    fn right_methods_have_no_problem() {
        assert_right(ISA, &code(&SHARED), &[Kind::PollEntry, Kind::TailExit]);
        let leaf = code(&[&LEAF[..], &SHARED[4..8]].concat());
        assert_right(ISA, &leaf, &[Kind::LeafEntry, Kind::TailExit]);
        let inline = code(&[&INLINE_ENTRY[..], &INLINE_EXIT, &[RET]].concat());
        assert_right(ISA, &inline, &[Kind::InlineEntry, Kind::InlineExit]);
    }

    #[test]
    fn wrong_methods_are_noticed() {
        let changed = |index: usize, word: u32| {
            let mut words = SHARED;
            words[index] = word;
            code(&words)
        };
        // Polls another word; calls another stub; returns to the wrong instruction.
        assert_wrong(
            ISA,
            &changed(1, 0x7942_2a70),
            "touches a word of trace points",
        );
        assert_wrong(ISA, &changed(8, 0xf941_067e), "slow path");
        assert_wrong(ISA, &changed(10, 0x17ff_fffa), "slow path");
        // The method is not stored; the exit is not tested; its stub is not jumped to.
        assert_wrong(ISA, &changed(0, 0xd100_83ff), "cannot find the method");
        assert_wrong(ISA, &changed(5, 0xd503_201f), "a return without");
        assert_wrong(ISA, &changed(7, 0xd503_201f), "no way to the stub");
        let bare = code(&[&LEAF[..], &[RET]].concat());
        assert_wrong(ISA, &bare, "a return without");
        // stp x0, x1, [x19, #0xf8]: the second word of the pair is the cursor.
        let pair = code(&[&LEAF[..], &[0xa90f_8660], &SHARED[4..8]].concat());
        assert_wrong(ISA, &pair, "touches a word of trace points");
    }
}

mod arm {
    use super::*;

    const ISA: Isa = Isa::Arm;

    fn code(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_le_bytes()).collect()
    }

    // push {r0, lr}; ldrh.w ip, [r9, #0x108]; cmp.w ip, #0; bne.w +8
    const ENTRY: [u16; 7] = [0xb501, 0xf8b9, 0xc108, 0xf1bc, 0x0f00, 0xf040, 0x8005];
    // ldr.w r2, [r9, #0x10c]; cbz r2, +2; blx r2; pop {r3, pc}
    const FRAMED: [u16; 5] = [0xf8d9, 0x210c, 0xb102, 0x4790, 0xbd08];
    // ldr.w lr, [r9, #0x200]; blx lr; b -22
    const SLOW: [u16; 4] = [0xf8d9, 0xe200, 0x47f0, 0xe7f6];
    // ldr.w r4, [r9, #0x110]; cbz r4, +4; mov ip, lr; blx r4
    const LEAF: [u16; 5] = [0xf8d9, 0x4110, 0xb10c, 0x46f4, 0x47a0];
    // ldr.w r2, [r9, #0x10c]; cbnz r2, +2; bx lr; bx r2
    const TAIL: [u16; 5] = [0xf8d9, 0x210c, 0xb902, 0x4770, 0x4710];

    #[test]
    fn right_methods_have_no_problem() {
        let shared = code(&[&ENTRY[..], &FRAMED, &SLOW].concat());
        assert_right(ISA, &shared, &[Kind::PollEntry, Kind::FramedExit]);
        let leaf = code(&[&LEAF[..], &TAIL].concat());
        assert_right(ISA, &leaf, &[Kind::LeafEntry, Kind::TailExit]);
        // ldr.w r4, [r9, #0x100]; cbz r4, +14; mrrc p15, 1, ip, lr, c14; strd r0, ip, [r4], #8;
        // str.w r4, [r9, #0x100]; and ldr.w r2, …; cbz r2; mrrc p15, 1, r3, ip, c14; mov.w ip, #0;
        // strd ip, r3, [r2], #8; str.w r2, …; pop {r3, pc}
        let inline = code(&[
            0xf8d9, 0x4100, 0xb12c, 0xec5e, 0xcf1e, 0xe8e4, 0x0c02, 0xf8c9, 0x4100, 0xf8d9, 0x2100,
            0xb13a, 0xec5c, 0x3f1e, 0xf04f, 0x0c00, 0xe8e2, 0xc302, 0xf8c9, 0x2100, 0xbd08,
        ]);
        assert_right(ISA, &inline, &[Kind::InlineEntry, Kind::InlineExit]);
    }

    #[test]
    fn wrong_methods_are_noticed() {
        let mut bare = [&ENTRY[..], &FRAMED, &SLOW].concat();
        // nops instead of the call of the exit's stub
        bare[ENTRY.len() + 2] = 0xbf00;
        bare[ENTRY.len() + 3] = 0xbf00;
        assert_wrong(ISA, &code(&bare), "a return without");
        let no_slow_path = code(&[&ENTRY[..], &FRAMED, &[0xbf00, 0xbf00, 0xbf00, 0xe7f6]].concat());
        assert_wrong(ISA, &no_slow_path, "slow path");
        // mov r0, r1 before the leaf's entry
        let lost = code(&[&[0x4608], &LEAF[..], &TAIL].concat());
        assert_wrong(ISA, &lost, "cannot find the method");
        // strd r0, r1, [r9, #0xfc]
        let pair = code(&[&LEAF[..], &[0xe9c9, 0x013f], &TAIL].concat());
        assert_wrong(ISA, &pair, "touches a word of trace points");
    }

    #[test]
    fn literals_are_not_code() {
        // ldr r3, [pc, #12]: the word behind the exit, which would be two returns; bx lr once more is one.
        let with = code(&[&LEAF[..], &[0x4b03], &TAIL, &[0xbf00, 0x4770, 0x4770]].concat());
        assert_right(ISA, &with, &[Kind::LeafEntry, Kind::TailExit]);
        let without = code(&[&LEAF[..], &[0xbf00], &TAIL, &[0xbf00, 0x4770, 0x4770]].concat());
        assert_wrong(ISA, &without, "a return without");
    }

    #[test]
    fn jump_tables_are_not_code() {
        // adr.w r2, #4 behind the bx; ldr.w r3, [r2, r1, lsl #2]; add r2, r3; bx r2; the table: offsets to
        // what stands behind it and to the adr, in Thumb state.
        let switch = [
            0xf20f, 0x0208, 0xf852, 0x3021, 0x441a, 0x4710, 9, 0, 0xfff5, 0xffff,
        ];
        let code = code(&[&LEAF[..], &switch, &TAIL].concat());
        assert_right(ISA, &code, &[Kind::LeafEntry, Kind::TailExit]);
    }
}
