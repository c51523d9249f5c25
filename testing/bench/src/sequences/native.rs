// SPDX-License-Identifier: Apache-2.0
//! Every x86-64 form on this processor, around an empty method.

use std::mem;
use std::ptr;
use std::time::Instant;

use anyhow::{ensure, Context as _, Result};
use dynasmrt::x64::Assembler;
use dynasmrt::{dynasm, AssemblyOffset, DynasmApi, DynasmLabelApi, ExecutableBuffer};

use super::forms::{words, x86_64_stubs, Form, Test, RING_BYTES};

/// A stand-in for the method's address.
const METHOD: i32 = 0x7000_1000;
/// The longest event, in bytes.
const LONGEST: u64 = 16;

/// A method with a form of trace points, and a loop that calls it.
pub(super) struct Subject {
    code: ExecutableBuffer,
    run: AssemblyOffset,
    /// The stubs of entry and exit while tracing is on, and the empty one.
    stubs: [AssemblyOffset; 2],
    nothing: AssemblyOffset,
    test: Test,
}

impl Subject {
    /// The form around an empty method.
    pub(super) fn new(form: &Form) -> Result<Self> {
        let entry = form.entry.clone().unwrap_or_default();
        let exit = form.exit.clone().unwrap_or_default();
        Self::of([entry, exit].concat(), form.test)
    }

    /// The method without trace points.
    pub(super) fn empty() -> Result<Self> {
        Self::of(Vec::new(), Test::Cursor)
    }

    /// The method with two reads of the timer, and the same registers saved as in a trace point.
    pub(super) fn floor() -> Result<Self> {
        let mut ops = dynasmrt::VecAssembler::<dynasmrt::x64::X64Relocation>::new(0);
        dynasm!(ops
            ; .arch x64
            ; mov r10, rdx
            ; rdtsc
            ; mov rdx, r10
            ; mov r10, rax
            ; rdtsc
            ; mov rax, r10
        );
        let body = ops.finalize().context("the floor does not assemble")?;
        Self::of(body, Test::Cursor)
    }

    fn of(mut method: Vec<u8>, test: Test) -> Result<Self> {
        // An exit that replaces the return never gets here.
        method.push(0xc3);
        let mut ops = Assembler::new().context("no executable memory")?;
        let mut place = |code: &[u8]| {
            dynasm!(ops; .arch x64; .align 64);
            let at = ops.offset();
            dynasm!(ops; .arch x64; .bytes code);
            at
        };
        let start = place(&method);
        let stubs = x86_64_stubs()?;
        let stubs = [place(&stubs[0]), place(&stubs[1])];
        let nothing = place(&[0xc3]);
        dynasm!(ops; .arch x64; .align 64);
        let run = ops.offset();
        dynasm!(ops
            ; .arch x64
            ; push rbx
            ; mov rbx, rdi
            ; next:
            ; mov edi, METHOD
        );
        // A call ends 5 bytes behind its start.
        let distance = start.0 as i32 - (ops.offset().0 as i32 + 5);
        dynasm!(ops
            ; .arch x64
            ; .bytes [0xe8]
            ; .bytes distance.to_le_bytes()
            ; dec rbx
            ; jnz <next
            ; pop rbx
            ; ret
        );
        let code = ops.finalize().map_err(|_| anyhow::anyhow!("code in use"))?;
        Ok(Subject {
            code,
            run,
            stubs,
            nothing,
            test,
        })
    }
}

/// A made-up thread that gs points to, and its ring.
pub(super) struct Thread {
    words: Box<[u64; 32]>,
    start: u64,
    cursor: u64,
}

impl Thread {
    /// For the calling thread, the only one.
    pub(super) fn new() -> Result<Self> {
        let bytes = RING_BYTES as usize;
        // SAFETY: a fresh mapping at an address of the kernel's choice; twice as large as a ring, so that one that is
        // aligned to its size fits.
        let memory = unsafe {
            libc::mmap(
                ptr::null_mut(),
                2 * bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        ensure!(memory != libc::MAP_FAILED, "no memory for a ring");
        let start = (memory as usize).next_multiple_of(bytes) as u64;
        // SAFETY: the range is inside the mapping, which nothing else uses yet. The write takes the page faults out of
        // the measurements.
        unsafe { ptr::write_bytes(start as *mut u8, 1, bytes) };
        let mut words = Box::new([0; 32]);
        words[words::START as usize / 8] = start;
        words[words::END as usize / 8] = start + u64::from(RING_BYTES);
        const ARCH_SET_GS: libc::c_int = 0x1001;
        // SAFETY: nothing else uses gs on x86-64 Linux; the words are leaked, so they live as long as this process.
        let done = unsafe {
            let words = Box::leak(words);
            let done = libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, words.as_mut_ptr());
            (done, Box::from_raw(words))
        };
        ensure!(done.0 == 0, "the kernel does not set gs");
        Ok(Thread {
            words: done.1,
            start,
            cursor: start,
        })
    }

    fn set(&mut self, offset: i32, value: u64) {
        let word = &mut self.words[offset as usize / 8];
        // SAFETY: the offset is inside the words, which this struct owns; volatile, because generated code reads the
        // word, which the compiler cannot see.
        unsafe { ptr::write_volatile(word, value) };
    }

    /// Nanoseconds a call.
    pub(super) fn measure(&mut self, subject: &Subject, is_on: bool, calls: u64) -> f64 {
        let address = |offset| subject.code.ptr(offset) as u64;
        let stubs = match (subject.test, is_on) {
            (Test::Pointer, false) => [0; 2],
            (Test::None, false) => [address(subject.nothing); 2],
            _ => subject.stubs.map(address),
        };
        self.set(words::ENTRY_STUB, stubs[0]);
        self.set(words::EXIT_STUB, stubs[1]);
        self.set(words::POLL, u64::from(is_on));
        if self.cursor + 2 * LONGEST * calls > self.start + u64::from(RING_BYTES) {
            self.cursor = self.start;
        }
        self.set(words::CURSOR, if is_on { self.cursor } else { 0 });
        // SAFETY: `Loop::new` assembled the code with this signature. It keeps the callee-saved registers, and touches
        // only the thread's words and the ring, in which there is room for all events.
        let run: extern "C" fn(u64) = unsafe { mem::transmute(subject.code.ptr(subject.run)) };
        let start = Instant::now();
        run(calls);
        let nanoseconds = start.elapsed().as_nanos() as f64;
        // SAFETY: the offset is inside the words, which this struct owns.
        let cursor = unsafe { ptr::read_volatile(&self.words[words::CURSOR as usize / 8]) };
        if cursor != 0 {
            self.cursor = cursor;
        }
        nanoseconds / calls as f64
    }

    /// Bytes of events of a call of the method while tracing is on.
    pub(super) fn bytes_per_call(&mut self, subject: &Subject, calls: u64) -> u64 {
        self.cursor = self.start;
        self.measure(subject, true, calls);
        (self.cursor - self.start) / calls
    }
}
