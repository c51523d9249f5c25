// SPDX-License-Identifier: Apache-2.0
//! Finds out whether user code may read ARM's counter. If not, the read raises SIGILL.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::clock::{cpus, sigill};

/// The probe consists of two reads, of the counter and of its rate, each an instruction of 4 bytes.
const READS_BYTES: usize = 8;

#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".pushsection .text.hindsight_probe_counter, \"ax\", %progbits",
    ".balign 4",
    ".hidden hindsight_probe_counter",
    ".global hindsight_probe_counter",
    ".type hindsight_probe_counter, %function",
    "hindsight_probe_counter:",
    "mrs x0, cntvct_el0",
    "mrs x0, cntfrq_el0",
    "ret",
    ".popsection",
);

#[cfg(target_arch = "arm")]
core::arch::global_asm!(
    ".pushsection .text.hindsight_probe_counter, \"ax\", %progbits",
    ".syntax unified",
    ".arm",
    ".balign 4",
    ".hidden hindsight_probe_counter",
    ".global hindsight_probe_counter",
    ".type hindsight_probe_counter, %function",
    "hindsight_probe_counter:",
    "mrrc p15, 1, r0, r1, c14",
    "mrc p15, 0, r0, c14, c0, 0",
    "bx lr",
    ".popsection",
);

extern "C" {
    /// Reads the counter and its rate. Only called with a handler of SIGILL that steps over the reads.
    fn hindsight_probe_counter() -> u64;
}

/// The handler has stepped over a read.
static STEPPED_OVER: AtomicBool = AtomicBool::new(false);

/// Whether user code may read the counter on all CPUs that the process may use; false also if no handler of SIGILL can be
/// installed, because a read could then end the process.
pub(crate) fn counter_is_readable() -> bool {
    STEPPED_OVER.store(false, Ordering::Relaxed);
    if sigill::install(step_over).is_err() {
        return false;
    }
    let traps = cpus::worst(
        |traps| *traps,
        || {
            // SAFETY: the handler steps over reads that are not allowed.
            std::hint::black_box(unsafe { hindsight_probe_counter() });
            STEPPED_OVER.load(Ordering::Relaxed)
        },
    );
    sigill::uninstall();
    !traps
}

/// The program counter in a signal handler's context.
///
/// # Safety
/// `context` is the one that the kernel passes to a handler.
unsafe fn program_counter(context: *mut libc::c_void) -> *mut usize {
    /// Index of the program counter in the `ucontext` of the kernel, in words.
    const PC_AT: usize = if cfg!(target_arch = "arm") {
        8 + 15
    } else {
        23 + 32
    };
    // SAFETY: the kernel's `ucontext` has that many words.
    unsafe { context.cast::<usize>().add(PC_AT) }
}

/// A [`sigill::Complete`] for the probe's reads.
unsafe fn step_over(context: *mut libc::c_void) -> bool {
    // SAFETY: the caller passes a handler's context.
    let pc = unsafe { &mut *program_counter(context) };
    let probe = hindsight_probe_counter as *const () as usize;
    if !(probe..probe + READS_BYTES).contains(pc) {
        return false;
    }
    *pc += 4;
    STEPPED_OVER.store(true, Ordering::Relaxed);
    true
}
