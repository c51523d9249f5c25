// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench placement`: what a trace point that is off costs the method of Listing 1, by where its code lies.
//!
//! The method's machine code, as ART's compiler writes it without trace points and with them, is placed at each multiple of 16
//! bytes in a cache line, where the compiler may place it, too. Nothing else differs, and the fastest of many short rounds counts,
//! so that differences of a tenth of a nanosecond are seen.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{ensure, Context as _, Result};
use dynasmrt::x64::Assembler;
use dynasmrt::{dynasm, AssemblyOffset, DynasmApi, DynasmLabelApi, ExecutableBuffer};

/// Iterations of the method's loop.
const WORKS: [u32; 8] = [0, 1, 2, 5, 9, 10, 11, 100];
/// Offsets in a cache line of 64 bytes, of which ART uses each: its code is aligned to 16 bytes.
const PLACES: [usize; 4] = [0, 16, 32, 48];
const ROUNDS: usize = 1000;
/// Calls of a recursion, as in `Listing1.java`.
const DEPTH: i32 = 10;
/// Nanoseconds of a round to aim at.
const ROUND_NS: f64 = 30_000.0;

/// What a method has of trace points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Points {
    None,
    Entry,
    Exit,
    Both,
}

const POINTS: [(Points, &str); 4] = [
    (Points::None, "stock"),
    (Points::Entry, "entry"),
    (Points::Exit, "exit"),
    (Points::Both, "off"),
];

pub(crate) fn bench() -> Result<BTreeMap<String, f64>> {
    let code = Code::new()?;
    let thread = Thread::new()?;
    let mut metrics = BTreeMap::new();
    println!(
        "ns a call of Listing 1, mean of {} places in a cache line (least to most)",
        PLACES.len()
    );
    for work in WORKS {
        let times = measure(&code, &thread, work);
        let mut line = format!("work {work:>3}:");
        let mut means = Vec::new();
        for (which, (_, name)) in POINTS.iter().enumerate() {
            let of: Vec<f64> = (times.iter().skip(which).step_by(POINTS.len()).copied()).collect();
            let mean = of.iter().sum::<f64>() / of.len() as f64;
            let least = of.iter().copied().fold(f64::INFINITY, f64::min);
            let most = of.iter().copied().fold(0.0, f64::max);
            line += &format!("  {name} {mean:.2} ({least:.2} to {most:.2})");
            for (what, value) in [("ns", mean), ("least_ns", least), ("most_ns", most)] {
                metrics.insert(format!("{name}_{what}_w{work}"), value);
            }
            means.push(mean);
        }
        let percent = (means[POINTS.len() - 1] / means[0] - 1.0) * 100.0;
        metrics.insert(format!("off_pct_w{work}"), percent);
        println!("{line}  off {percent:+.1} %");
    }
    Ok(metrics)
}

/// The methods, and a loop that calls them.
struct Code {
    buffer: ExecutableBuffer,
    /// For each of [`PLACES`], each of [`POINTS`].
    methods: Vec<AssemblyOffset>,
    /// Calls the method in rdi with the work in rsi, as often as rdx says.
    repeat: AssemblyOffset,
}

impl Code {
    fn new() -> Result<Code> {
        let mut ops = Assembler::new().context("no executable memory")?;
        let mut methods = Vec::new();
        for place in PLACES {
            for (points, _) in POINTS {
                methods.push(method(&mut ops, place, points));
            }
        }
        dynasm!(ops; .arch x64; .align 64);
        let repeat = ops.offset();
        dynasm!(ops
            ; .arch x64
            ; push rbx
            ; push rbp
            ; push r12
            ; mov rbx, rdi
            ; mov rbp, rdx
            ; mov r12, rsi
            ; next:
            ; xor edi, edi
            ; mov esi, DEPTH
            ; mov rdx, r12
            ; call rbx
            ; dec rbp
            ; jnz <next
            ; pop r12
            ; pop rbp
            ; pop rbx
            ; ret
        );
        let buffer = ops.finalize().map_err(|_| anyhow::anyhow!("code in use"))?;
        Ok(Code {
            buffer,
            methods,
            repeat,
        })
    }
}

/// The fastest round of each method, ns a call.
fn measure(code: &Code, thread: &Thread, work: u32) -> Vec<f64> {
    let recursions = (ROUND_NS / f64::from(DEPTH) / (2.0 + 1.7 * f64::from(work))) as usize;
    let mut fastest = vec![f64::INFINITY; code.methods.len()];
    for _ in 0..ROUNDS {
        for (method, fastest) in code.methods.iter().zip(&mut fastest) {
            let begin = Instant::now();
            thread.repeat(code, *method, work, recursions);
            let ns = begin.elapsed().as_nanos() as f64 / (recursions as f64 * f64::from(DEPTH));
            *fastest = fastest.min(ns);
        }
    }
    fastest
}

/// Words of a thread as in ART: the flags that suspend checks read, the wider word that entries with a trace point read in their
/// place, and the exit's stub. All are 0.
const FLAGS: i32 = 0;
const WIDE_FLAGS: i32 = 0xa28;
const EXIT: i32 = 0xa30;
const THREAD_BYTES: usize = 4096;

/// `cmp word gs:[offset], 0`, which the assembler macro lacks.
fn compare_with_0(offset: i32) -> impl Iterator<Item = u8> {
    let code = [0x65, 0x66, 0x83, 0x3c, 0x25].into_iter();
    code.chain(offset.to_le_bytes()).chain([0])
}

/// `mov rdx, gs:[offset]`.
fn load_rdx(offset: i32) -> impl Iterator<Item = u8> {
    let code = [0x65, 0x48, 0x8b, 0x14, 0x25].into_iter();
    code.chain(offset.to_le_bytes())
}

/// The method from its first check of the flags to its return, with the loop's counter in `$i` (`$i64`).
macro_rules! body {
    ($ops:ident, $i:tt, $i64:tt, $flags:ident, $restore:expr, $exit:expr, $start:ident) => {
        dynasm!($ops
            ; .arch x64
            ; .bytes compare_with_0($flags)
            ; jne >never
            ; mov r8, rdx
            ; mov rax, rsi
            ; xor $i, $i
            ; next:
            ; cmp $i, r8d
            ; jge >done
            ; lea edx, [$i64 - 1]
            ; imul eax, edx
            ; lea r9d, [$i64 + 2]
            ; test r9d, r9d
            ; je >never
            ; cmp r9d, -1
            ; je >never
            ; cdq
            ; idiv r9d
            ; add $i, 1
            ; .bytes compare_with_0(FLAGS)
            ; je BYTE <next
            ; jmp >never
            ; done:
            ; cmp esi, 1
            ; jle >last
            ; mov rbx, rax
            ; add esi, -1
        );
        if $restore {
            dynasm!($ops; .arch x64; mov rdi, rcx);
        }
        dynasm!($ops
            ; .arch x64
            ; mov rdx, r8
            ; call =>$start
            ; add ebx, eax
            ; jmp >out
            ; last:
            ; mov rbx, rax
            ; out:
            ; mov rax, rbx
            ; add rsp, 16
            ; pop rbx
        );
        if $exit {
            dynasm!($ops
                ; .arch x64
                ; .bytes load_rdx(EXIT)
                ; test rdx, rdx
                ; jne BYTE >leave
                ; ret
                ; leave:
                ; jmp rdx
            );
        } else {
            dynasm!($ops; .arch x64; ret);
        }
        dynasm!($ops; .arch x64; never:; ud2);
    };
}

/// `Listing1.recurse` (method in rdi, depth in esi, work in edx), `place` bytes behind the start of a cache line.
fn method(ops: &mut Assembler, place: usize, points: Points) -> AssemblyOffset {
    let exit = matches!(points, Points::Exit | Points::Both);
    let nops = vec![0x90_u8; place];
    dynasm!(ops; .arch x64; .align 64; .bytes &nops);
    let at = ops.offset();
    let start = ops.new_dynamic_label();
    dynasm!(ops
        ; .arch x64
        ; =>start
        ; test [rsp - 0x2000], rax
        ; push rbx
        ; sub rsp, 16
        ; mov [rsp], rdi
    );
    if matches!(points, Points::Entry | Points::Both) {
        // The compiler keeps the method for the entry, and so needs a further register.
        dynasm!(ops; .arch x64; mov rcx, rdi);
        body!(ops, edi, rdi, WIDE_FLAGS, true, exit, start);
    } else {
        body!(ops, ecx, rcx, FLAGS, false, exit, start);
    }
    at
}

/// A made-up thread that gs points to.
struct Thread {
    _words: Box<[u8; THREAD_BYTES]>,
}

impl Thread {
    fn new() -> Result<Thread> {
        const ARCH_SET_GS: libc::c_int = 0x1001;
        let mut words = Box::new([0; THREAD_BYTES]);
        // SAFETY: nothing else uses gs on x86-64 Linux; only `call` reads through it, which needs this value alive.
        let failed =
            unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, words.as_mut_ptr()) };
        ensure!(failed == 0, "the kernel does not set gs");
        Ok(Thread { _words: words })
    }

    /// Recursions, as in `Listing1.repeat`. Returns the result of the last one.
    fn repeat(&self, code: &Code, method: AssemblyOffset, work: u32, times: usize) -> u32 {
        // SAFETY: `Code::new` makes code for this signature, which keeps the registers that the C convention preserves. The
        // methods' stack checks read 8 KiB below the stack pointer: less than what the caller's stack has left.
        let repeat: extern "sysv64" fn(*const u8, u64, usize) -> u32 =
            unsafe { std::mem::transmute(code.buffer.ptr(code.repeat)) };
        repeat(code.buffer.ptr(method), u64::from(work), times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Listing1.recurse`.
    fn expected(depth: i32, work: i32) -> i32 {
        let mut sum = depth;
        for i in 0..work {
            sum = sum.wrapping_mul(i - 1) / (i + 2);
        }
        if depth > 1 {
            sum = sum.wrapping_add(expected(depth - 1, work));
        }
        sum
    }

    #[test]
    fn every_variant_computes_the_same_as_java() {
        let code = Code::new().unwrap();
        let thread = Thread::new().unwrap();
        for (i, &method) in code.methods.iter().enumerate() {
            let place = PLACES[i / POINTS.len()];
            assert_eq!(code.buffer.ptr(method) as usize % 64, place);
            for work in WORKS {
                let result = thread.repeat(&code, method, work, 2) as i32;
                assert_eq!(result, expected(DEPTH, work as i32), "{work}");
            }
        }
    }
}
