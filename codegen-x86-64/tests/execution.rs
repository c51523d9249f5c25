// SPDX-License-Identifier: Apache-2.0
//! Runs emitted trace points on the processor: gs points to a made-up thread, the ring ends with a
//! real guard page, and a real handler of SIGSEGV wraps the cursor.

#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod common;

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use dynasmrt::x64::Assembler;
use dynasmrt::{dynasm, DynasmApi, ExecutableBuffer};
use hindsight_codegen_x86_64::{emit, wraps_at, Form, Kind, Reg, TracePoint, MAX_STORE_BYTES};
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};

const PAGE: usize = 4096;
const CURSOR: i32 = 0x58;
const NARROW: u64 = 0x7123_4560;
const WIDE: u64 = 0x12_7123_4560;

/// The ring of the thread that runs a trace point; the handler wraps to it.
static RING_START: AtomicUsize = AtomicUsize::new(0);
static WRAPS: AtomicUsize = AtomicUsize::new(0);
/// Held by the test that runs: the process has one handler, which knows one ring.
static ALONE: Mutex<()> = Mutex::new(());

extern "C" fn on_fault(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes valid pointers to a handler installed with SA_SIGINFO. The processor has just executed
    // the bytes at the program counter, and they are in the middle of the test's mapping.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let code = std::slice::from_raw_parts(
            registers[libc::REG_RIP as usize] as *const u8,
            MAX_STORE_BYTES,
        );
        let cursor = &mut registers[libc::REG_R11 as usize];
        let start = RING_START.load(Ordering::Relaxed);
        let end = start + PAGE;
        if (*info).si_addr() as usize == end && *cursor as usize == end && wraps_at(code) {
            *cursor = start as i64;
            WRAPS.fetch_add(1, Ordering::Relaxed);
        } else {
            // Returning runs the same instruction again, now without a handler.
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        }
    }
}

/// A ring of one page, and a guard page.
struct Ring(*mut u64);

impl Ring {
    fn new() -> Ring {
        // SAFETY: maps fresh memory, then protects its second page; no reference into it exists yet.
        unsafe {
            let memory = libc::mmap(
                ptr::null_mut(),
                2 * PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(memory, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(memory.byte_add(PAGE), PAGE, libc::PROT_NONE),
                0
            );
            Ring(memory.cast())
        }
    }

    fn address(&self, slot: usize) -> u64 {
        self.0 as u64 + (slot * SLOT_BYTES) as u64
    }

    fn get(&self, slot: usize) -> u64 {
        assert!(slot < PAGE / SLOT_BYTES);
        // SAFETY: the index was just checked to be in the page; only this thread writes to it.
        unsafe { self.0.add(slot).read() }
    }

    fn fill(&self, value: u64) {
        for slot in 0..PAGE / SLOT_BYTES {
            // SAFETY: the index is below the number of slots of the page.
            unsafe { self.0.add(slot).write(value) };
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: unmaps the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

/// Core registers by number; rsp's place is not used.
type Registers = [u64; 16];

/// A function that loads all registers, runs the code, and stores all registers.
#[expect(
    clippy::useless_conversion,
    reason = "the assembler macro converts every register number"
)]
fn harness(code: &[u8]) -> ExecutableBuffer {
    let mut ops = Assembler::new().expect("executable memory");
    let others = || {
        Reg::ALL
            .into_iter()
            .filter(|r| !matches!(r, Reg::Rsp | Reg::Rax))
    };
    dynasm!(ops
        ; .arch x64
        ; push rbx; push rbp; push r12; push r13; push r14; push r15
        ; push rsi
        ; mov rax, rdi
    );
    for r in others() {
        dynasm!(ops; .arch x64; mov Rq(r.number()), [rax + 8 * i32::from(r.number())]);
    }
    dynasm!(ops; .arch x64; mov rax, [rax]; .bytes code);
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
    ops.finalize().expect("the harness assembles")
}

/// The thread that gs points to.
struct Thread {
    words: Box<[u64; 32]>,
}

impl Thread {
    fn new() -> Thread {
        let mut words = Box::new([0xdddd_dddd_dddd_dddd; 32]);
        let start = RING_START.load(Ordering::Relaxed) as u64;
        words[common::START as usize / 8] = start;
        words[common::END as usize / 8] = start + PAGE as u64;
        const _: () = assert!(common::GO % 8 == 0 && common::STOP == common::GO + 4);
        words[common::GO as usize / 8] = 1 << 32;
        const ARCH_SET_GS: libc::c_int = 0x1001;
        // SAFETY: nothing else in this process uses gs on x86-64 Linux.
        let done = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, words.as_ptr()) };
        assert_eq!(done, 0);
        Thread { words }
    }

    /// Runs the code with this cursor; returns the cursor and the registers afterwards.
    fn run(&mut self, code: &[u8], cursor: u64, registers: &Registers) -> (u64, Registers) {
        const INDEX: usize = CURSOR as usize / 8;
        let before = self.words.clone();
        let buffer = harness(code);
        let mut after = *registers;
        // SAFETY: the harness has this signature, keeps the callee-saved registers, and the code it
        // wraps only touches the ring and the thread's words.
        unsafe {
            let function: extern "C" fn(*const u64, *mut u64) =
                std::mem::transmute(buffer.ptr(dynasmrt::AssemblyOffset(0)));
            self.words.as_mut_ptr().add(INDEX).write_volatile(cursor);
            function(registers.as_ptr(), after.as_mut_ptr());
        }
        // SAFETY: the offset is of a word in the thread, which this object owns.
        let cursor = unsafe { self.words.as_ptr().add(INDEX).read_volatile() };
        for (i, word) in self.words.iter().enumerate() {
            assert!(
                i == INDEX || *word == before[i],
                "word {i} of the thread changed"
            );
        }
        (cursor, after)
    }
}

/// A value that differs for every register and every half of it.
fn registers(point: &TracePoint, method: u64) -> Registers {
    let mut values: Registers = std::array::from_fn(|i| 0x0101_0101_1010_1010 * (i as u64 + 1));
    if let Kind::Entry { method: register } = point.kind {
        values[usize::from(register.number())] = method;
    }
    values
}

fn assert_kept(
    point: &TracePoint,
    clobbers: impl Fn(Reg) -> bool,
    before: &Registers,
    after: &Registers,
) {
    for r in Reg::ALL
        .into_iter()
        .filter(|r| *r != Reg::Rsp && !clobbers(*r))
    {
        let i = usize::from(r.number());
        assert_eq!(after[i], before[i], "{r} was not kept by {point:?}");
    }
}

fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has rdtsc, and it reads no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Runs a trace point that writes its slots from `first` on, and checks the final state.
fn check(thread: &mut Thread, ring: &Ring, point: &TracePoint, method: u64, first: usize) {
    const UNTOUCHED: u64 = 0xeeee_eeee_eeee_eeee;
    let slots_in_ring = PAGE / SLOT_BYTES;
    let code = emit(point).unwrap();
    let before = registers(point, method);
    let is_exit = point.kind == Kind::Exit;
    let is_wide = point.wide_pointers && !is_exit && method >> 32 != 0;
    ring.fill(UNTOUCHED);

    WRAPS.store(0, Ordering::Relaxed);
    let earliest = rdtsc();
    let (cursor, after) = thread.run(&code.bytes, ring.address(first), &before);
    let latest = rdtsc();

    assert_kept(point, |r| code.clobbers.contains(r), &before, &after);
    for r in code.clobbers.iter() {
        assert!(
            r == Reg::R11 || point.free.contains(r),
            "{r} is not free in {point:?}"
        );
    }
    // The slots, and the final cursor. The counter is checked below.
    let count = match point.form {
        Form::Hubble { stop_offset, .. } if stop_offset == common::STOP => 0,
        Form::Nanoscope => 2,
        _ => 1 + usize::from(is_wide),
    };
    let faults = point.form == Form::Inline && first + count > slots_in_ring;
    assert_eq!(
        WRAPS.load(Ordering::Relaxed),
        usize::from(faults),
        "{point:?}"
    );
    let end = match point.form {
        // The default form wraps only when it stores there, Nanoscope's never.
        Form::Inline | Form::Nanoscope if !faults => first + count,
        _ => (first + count) % slots_in_ring,
    };
    let expected = if count == 0 { 0 } else { ring.address(end) };
    assert_eq!(cursor, expected, "{point:?} at slot {first}");
    let touched = (0..slots_in_ring)
        .filter(|i| ring.get(*i) != UNTOUCHED)
        .count();
    assert_eq!(touched, count, "{point:?}");
    if count == 0 {
        return;
    }

    let last = ring.get((first + count - 1) % slots_in_ring);
    if point.form == Form::Nanoscope {
        let method = if is_exit { 0 } else { method };
        assert_eq!(ring.get(first), method, "{point:?}");
        assert!((earliest..=latest).contains(&last), "{point:?}");
        return;
    }
    let closing = Slot(last);
    let expected_low = match point.kind {
        Kind::Exit => 0,
        Kind::Entry { .. } if is_wide => 1,
        Kind::Entry { .. } => method as u32,
    };
    assert_eq!(closing.low(), expected_low, "{point:?}");
    let since = closing.counter().wrapping_sub(earliest as u32);
    assert!(
        since <= latest.wrapping_sub(earliest) as u32,
        "{point:?}: the counter is off"
    );
    if is_wide {
        assert_eq!(ring.get(first % slots_in_ring), method, "{point:?}");
    }
}

/// A ring that the handler knows, and a thread.
fn with_ring(test: impl FnOnce(&mut Thread, &Ring)) {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let ring = Ring::new();
    RING_START.store(ring.0 as usize, Ordering::Relaxed);
    // SAFETY: the handler is async-signal-safe, and the old one is restored.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        let mut old: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, &mut old), 0);
        test(&mut Thread::new(), &ring);
        libc::sigaction(libc::SIGSEGV, &old, ptr::null_mut());
    }
}

#[test]
fn while_tracing_is_off_only_r11_changes() {
    with_ring(|thread, ring| {
        ring.fill(0);
        let mut points = common::all_points(&[CURSOR]);
        points.extend(common::other_forms(CURSOR));
        for point in points {
            let before = registers(&point, WIDE);
            let (cursor, after) = thread.run(&emit(&point).unwrap().bytes, 0, &before);
            assert_eq!(cursor, 0);
            assert_kept(&point, |r| r == Reg::R11, &before, &after);
        }
        assert!((0..PAGE / SLOT_BYTES).all(|i| ring.get(i) == 0));
    });
}

#[test]
fn every_trace_point_writes_its_slots_and_keeps_what_is_not_free() {
    with_ring(|thread, ring| {
        for point in common::all_points(&[CURSOR]) {
            check(thread, ring, &point, NARROW, 17);
            if point.wide_pointers {
                check(thread, ring, &point, WIDE, 17);
            }
        }
    });
}

#[test]
fn the_guard_page_wraps_every_store_that_meets_it() {
    with_ring(|thread, ring| {
        let slots = PAGE / SLOT_BYTES;
        for point in common::all_points(&[CURSOR]) {
            for first in [slots - 2, slots - 1, slots] {
                check(thread, ring, &point, NARROW, first);
                if point.wide_pointers {
                    check(thread, ring, &point, WIDE, first);
                }
            }
        }
    });
}

#[test]
fn the_other_forms_write_their_events_and_wrap_without_a_fault() {
    with_ring(|thread, ring| {
        let slots = PAGE / SLOT_BYTES;
        for point in common::other_forms(CURSOR) {
            for first in [17, slots - 2, slots - 1] {
                if point.form == Form::Nanoscope && first == slots - 1 {
                    // Its events are two slots long, and nothing wraps it.
                    continue;
                }
                check(thread, ring, &point, NARROW, first);
                if point.wide_pointers {
                    check(thread, ring, &point, WIDE, first);
                }
            }
        }
    });
}

#[test]
fn a_ring_whose_address_has_a_zero_low_half_is_on() {
    with_ring(|thread, _| {
        // At a multiple of 4 GiB: only a comparison of the whole cursor shows that it is not 0.
        const ADDRESS: usize = 0x5_0000_0000;
        // SAFETY: maps fresh memory; the kernel refuses an address that is in use.
        let memory = unsafe {
            libc::mmap(
                ADDRESS as *mut _,
                PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        assert_eq!(memory as usize, ADDRESS);
        let point = common::all_points(&[CURSOR])[0];
        let (cursor, _) = thread.run(
            &emit(&point).unwrap().bytes,
            ADDRESS as u64,
            &registers(&point, NARROW),
        );
        assert_eq!(cursor, ADDRESS as u64 + 8);
        // SAFETY: reads the first slot of the mapping, then unmaps it; nothing else uses it.
        unsafe {
            assert_eq!(Slot(memory.cast::<u64>().read()).low(), NARROW as u32);
            libc::munmap(memory, PAGE);
        }
    });
}
