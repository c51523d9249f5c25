// SPDX-License-Identifier: Apache-2.0
//! Runs emitted trace points under qemu: a freestanding program loads all registers, runs the code on a
//! ring that ends with a real guard page, wraps the cursor in a real handler of SIGSEGV, and writes out
//! the final state. Skipped where qemu or the binutils for AArch64 are missing.

mod common;

use std::fmt::Write;

use hindsight_codegen_aarch64::{emit, wraps_at, Form, Kind, Reg, RegSet, TracePoint};
use hindsight_codegen_check::{execute, Isa};
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};

const PAGE: usize = 4096;
const SLOTS: usize = PAGE / SLOT_BYTES;
const CURSOR: i32 = 0x58;
const THREAD_WORDS: usize = 32;
const NARROW: u64 = 0x7123_4560;
const WIDE: u64 = 0x12_7123_4560;
/// N, Z, C and V, two of them set.
const FLAGS: u64 = 0x9000_0000;
const UNTOUCHED: u64 = 0xeeee_eeee_eeee_eeee;
const THREAD_WORD: u64 = 0xdddd_dddd_dddd_dddd;

/// The program. A record holds the address of its code, the cursor as a distance from the ring or -1 for off, and the
/// registers x0 to x30. For each record the program runs the code, then writes the buffer `out`, the thread and the
/// ring.
const PROGRAM: &str = r#"
        .macro each operation, base, start
        \operation x0, x1, [\base, #\start]
        \operation x2, x3, [\base, #\start + 16]
        \operation x4, x5, [\base, #\start + 32]
        \operation x6, x7, [\base, #\start + 48]
        \operation x8, x9, [\base, #\start + 64]
        \operation x10, x11, [\base, #\start + 80]
        \operation x12, x13, [\base, #\start + 96]
        \operation x14, x15, [\base, #\start + 112]
        \operation x16, x17, [\base, #\start + 128]
        \operation x18, x19, [\base, #\start + 144]
        \operation x20, x21, [\base, #\start + 160]
        \operation x22, x23, [\base, #\start + 176]
        \operation x24, x25, [\base, #\start + 192]
        \operation x26, x27, [\base, #\start + 208]
        .endm
        .macro begin
        mov x30, x0
        each ldp, x30, 16
        ldp x28, x29, [x30, #240]
        ldr x30, [x30, #256]
        .endm
        .macro end
        str x30, [sp, #-16]!
        ldr x30, =out
        each stp, x30, 48
        stp x28, x29, [x30, #272]
        ldr x0, [sp], #16
        str x0, [x30, #288]
        b after
        .endm
        .macro address register, symbol
        ldr \register, =\symbol
        .endm

        .text
        .globl _start
_start: address x0, ring
        mov x1, #4096
        add x0, x0, x1
        mov x2, #0
        mov x8, #226                    // mprotect
        svc #0
        cbnz x0, fail
        mov x0, #11                     // SIGSEGV
        address x1, action
        mov x2, #0
        mov x3, #8
        mov x8, #134                    // rt_sigaction
        svc #0
        cbnz x0, fail

next:   address x9, position
        ldr x0, [x9]
        address x1, records_end
        cmp x0, x1
        b.eq finish
        address x2, ring
        ldr x3, untouched
        mov x4, #512
1:      str x3, [x2], #8
        subs x4, x4, #1
        b.ne 1b
        address x2, ring
        ldr x3, [x0, #8]
        add x4, x2, x3
        cmn x3, #1
        csel x4, xzr, x4, eq
        address x5, thread
        str x4, [x5, #0x58]
        address x5, out
        stp xzr, xzr, [x5, #0]
        ldr x6, flags
        msr nzcv, x6
        mov x7, sp
        str x7, [x5, #296]
        ldr x1, [x0]
        isb
        mrs x6, cntvct_el0
        str x6, [x5, #16]
        br x1

after:  isb
        mrs x0, cntvct_el0
        str x0, [x30, #24]
        mrs x0, nzcv
        str x0, [x30, #32]
        mov x0, sp
        ldr x1, [x30, #296]
        sub x0, x0, x1
        str x0, [x30, #40]
        address x1, out
        mov x2, #296
        bl write
        address x1, thread
        mov x2, #256
        bl write
        address x1, ring
        mov x2, #4096
        bl write
        address x9, position
        ldr x0, [x9]
        add x0, x0, #264
        str x0, [x9]
        b next

write:  mov x0, #1
        mov x8, #64
        svc #0
        cmp x0, #0
        b.le fail
        add x1, x1, x0
        subs x2, x2, x0
        b.ne write
        ret

finish: mov x0, #0
        mov x8, #93                     // exit
        svc #0
fail:   mov x0, #98
        mov x8, #93
        svc #0
refuse: mov x0, #99
        mov x8, #93
        svc #0

        // The address must be the ring's end, and x16 too.
handler:
        ldr x3, [x1, #16]               // si_addr
        address x4, ring
        add x5, x4, #4096
        cmp x3, x5
        b.ne refuse
        ldr x6, [x2, #312]              // x16
        cmp x6, x5
        b.ne refuse
        str x4, [x2, #312]
        ldr x6, [x2, #440]              // pc
        ldr x7, [x6]
        address x5, out
        ldr x6, [x5]
        add x6, x6, #1
        stp x6, x7, [x5]
        ret

        .balign 8
untouched: .quad 0xeeeeeeeeeeeeeeee
flags:  .quad 0x90000000
        .ltorg

        .data
        .balign 8
action: .quad handler, 4, 0, 0          // SA_SIGINFO
position: .quad records
out:    .fill 38, 8, 0                  // wraps, code, counters, flags, sp, registers; sp before
thread: .rept 20
        .quad 0xdddddddddddddddd
        .endr
        .quad ring, ring + 4096         // START, END
        .word 0, 1                      // GO, STOP
        .rept 9
        .quad 0xdddddddddddddddd
        .endr

        .bss
        .balign 4096
ring:   .skip 8192
"#;

/// Bytes that the program writes for a record.
const WRITTEN: usize = 296 + THREAD_WORDS * 8 + PAGE;

struct Run {
    point: TracePoint,
    method: u64,
    /// The cursor's slot; `None`: tracing is off.
    first: Option<usize>,
}

/// A value that differs for every register and every half of it. x19 holds the thread's address instead.
fn registers(run: &Run) -> [u64; 31] {
    let mut values = std::array::from_fn(|i| 0x0101_0101_1010_1010_u64.wrapping_mul(i as u64 + 1));
    if let Kind::Entry { method } = run.point.kind {
        values[usize::from(method.number())] = run.method;
    }
    values
}

fn source(points: &[TracePoint], runs: &[(usize, Run)]) -> String {
    let mut text = PROGRAM.to_owned();
    text += "\n.text\n";
    for (n, point) in points.iter().enumerate() {
        write!(text, "code{n}: begin\n.word 0x").unwrap();
        let words: Vec<String> = emit(point)
            .unwrap()
            .bytes
            .chunks(4)
            .map(|w| format!("{:x}", u32::from_le_bytes(w.try_into().unwrap())))
            .collect();
        writeln!(text, "{}\nend\n.ltorg", words.join(", 0x")).unwrap();
    }
    text += ".data\n.balign 8\nrecords:\n";
    for (n, run) in runs {
        let cursor = run.first.map_or(-1, |slot| (slot * SLOT_BYTES) as i64);
        write!(text, ".quad code{n}, {cursor}").unwrap();
        for (i, value) in registers(run).iter().enumerate() {
            if i == 19 {
                text += ", thread";
            } else {
                write!(text, ", {value:#x}").unwrap();
            }
        }
        text.push('\n');
    }
    text + "records_end:\n"
}

fn check(run: &Run, written: &[u8]) {
    let point = &run.point;
    let words: Vec<u64> = written
        .chunks(8)
        .map(|w| u64::from_le_bytes(w.try_into().unwrap()))
        .collect();
    let (wraps, code, earliest, latest) = (words[0], words[1], words[2], words[3]);
    let (flags, stack) = (words[4], words[5]);
    let after = &words[6..37];
    let (thread, ring) = words[37..].split_at(THREAD_WORDS);
    assert_eq!(ring.len(), SLOTS);

    assert_eq!(flags, FLAGS, "{point:?} changed the flags");
    assert_eq!(stack, 0, "{point:?} changed sp");
    let clobbers = if run.first.is_some() {
        emit(point).unwrap().clobbers
    } else {
        RegSet::of(&[Reg::X16])
    };
    // x19 holds the thread: otherwise the cursor would not be at its place.
    for r in Reg::ALL {
        let i = usize::from(r.number());
        if !clobbers.contains(r) && !matches!(r, Reg::X19 | Reg::Sp) {
            let before = registers(run)[i];
            assert_eq!(after[i], before, "{r} was not kept by {point:?}");
        }
    }
    for (i, word) in thread.iter().enumerate() {
        // The words that Hubble's form reads.
        let given = i * 8 >= common::START as usize && i * 8 <= common::STOP as usize;
        assert!(
            given || i == CURSOR as usize / 8 || *word == THREAD_WORD,
            "{point:?} changed word {i} of the thread"
        );
    }
    let cursor = thread[CURSOR as usize / 8];
    let touched: Vec<usize> = (0..SLOTS).filter(|i| ring[*i] != UNTOUCHED).collect();

    let Some(first) = run.first else {
        assert_eq!((cursor, wraps, after[16]), (0, 0, 0), "{point:?}");
        assert!(touched.is_empty(), "{point:?}");
        return;
    };
    if matches!(point.form, Form::Hubble { stop_offset, .. } if stop_offset == common::STOP) {
        assert_eq!((cursor, wraps), (0, 0), "{point:?}");
        assert!(touched.is_empty(), "{point:?}");
        return;
    }
    let is_wide = point.wide_pointers && point.kind != Kind::Exit && run.method >> 32 != 0;
    let count = match point.form {
        Form::Nanoscope => 2,
        _ => 1 + usize::from(is_wide),
    };
    let faults = point.form == Form::Inline && first + count > SLOTS;
    assert_eq!(wraps, u64::from(faults), "{point:?} at slot {first}");
    if faults {
        assert!(wraps_at(&code.to_le_bytes()), "{point:?}: {code:016x}");
    }
    // The ring fills a page, so a cursor at its end equals one at the start of the next page.
    let end = first + count;
    assert_eq!(cursor % PAGE as u64, ((end % SLOTS) * SLOT_BYTES) as u64);
    assert_eq!(cursor, after[16], "{point:?}");
    if let Form::Masked { .. } | Form::Hubble { .. } = point.form {
        // These forms never leave the cursor at the end; the thread holds the ring's start.
        let start = thread[common::START as usize / 8];
        assert_eq!(
            cursor,
            start + ((end % SLOTS) * SLOT_BYTES) as u64,
            "{point:?}"
        );
    }

    let mut expected: Vec<usize> = (first..first + count).map(|slot| slot % SLOTS).collect();
    if point.form == Form::Nanoscope {
        let method = match point.kind {
            Kind::Exit => 0,
            Kind::Entry { .. } => run.method,
        };
        assert_eq!(ring[first], method, "{point:?}");
        assert_eq!(touched, expected, "{point:?}");
        assert!((earliest..=latest).contains(&ring[first + 1]), "{point:?}");
        return;
    }
    let closing = Slot(ring[*expected.last().unwrap()]);
    if is_wide {
        assert_eq!(ring[expected[0]], run.method, "{point:?}");
    }
    expected.sort_unstable();
    assert_eq!(touched, expected, "{point:?} at slot {first}");
    let low = match point.kind {
        Kind::Exit => 0,
        Kind::Entry { .. } if is_wide => 1,
        Kind::Entry { .. } => run.method as u32,
    };
    assert_eq!(closing.low(), low, "{point:?}");
    let since = closing.counter().wrapping_sub(earliest as u32);
    assert!(
        since <= latest.wrapping_sub(earliest) as u32,
        "{point:?}: the counter is off"
    );
}

#[test]
fn trace_points_do_what_they_should_wherever_the_ring_ends() {
    let mut points = common::all_points(&[CURSOR]);
    points.extend(common::other_forms(CURSOR));
    let mut runs = Vec::new();
    for (n, &point) in points.iter().enumerate() {
        let firsts = [
            None,
            Some(17),
            Some(SLOTS - 2),
            Some(SLOTS - 1),
            Some(SLOTS),
        ];
        for method in [NARROW, WIDE] {
            if method == WIDE && !point.wide_pointers {
                continue;
            }
            for first in firsts {
                // Only the default form can start at the end. Nanoscope's form never wraps.
                let last = match point.form {
                    Form::Inline => SLOTS,
                    Form::Nanoscope => SLOTS - 2,
                    _ => SLOTS - 1,
                };
                if first.is_none_or(|first| first <= last) {
                    let run = Run {
                        point,
                        method,
                        first,
                    };
                    runs.push((n, run));
                }
            }
        }
    }
    let Some(written) = execute(Isa::Aarch64, &source(&points, &runs)) else {
        return;
    };
    assert_eq!(written.len(), runs.len() * WRITTEN);
    for ((_, run), written) in runs.iter().zip(written.chunks(WRITTEN)) {
        check(run, written);
    }
    println!("{} runs of {} trace points", runs.len(), points.len());
}
