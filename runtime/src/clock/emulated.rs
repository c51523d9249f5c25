// SPDX-License-Identifier: Apache-2.0
//! Emulates ARM's counter where user code may not read it, as with some kernels and with `qemu-arm`: a handler of SIGILL
//! executes the reads, from CLOCK_MONOTONIC. Any other SIGILL goes to the handler that was there before.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock::timer_reads::{self, TimerRead};
use crate::clock::{native, sigill};

/// Reads executed so far, modulo 2^32: a handler on 32-bit ARM may have no wider atomics.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// Starts the emulation.
///
/// # Errors
/// If no handler of SIGILL can be installed.
pub(crate) fn start() -> std::io::Result<()> {
    sigill::install(answer)
}

/// The emulated counter.
pub(crate) fn read() -> u64 {
    timer_reads::emulated_ticks(native::clock_ns(libc::CLOCK_MONOTONIC))
}

/// A [`sigill::Complete`] for all reads of the timer.
#[cfg(target_arch = "arm")]
unsafe fn answer(context: *mut libc::c_void) -> bool {
    /// Index of the first register in the `ucontext` of the kernel, in words.
    const REGISTERS_AT: usize = 8;
    const PC: usize = 15;
    const CPSR: usize = 16;
    const THUMB: u32 = 1 << 5;
    /// State of the IT block: bits 15 to 10, and 26 and 25.
    const IT: u32 = 0x0600_fc00;
    // SAFETY: the caller passes a handler's context, in which r0 to pc and the flags follow each other.
    let registers = unsafe {
        std::slice::from_raw_parts_mut(context.cast::<u32>().add(REGISTERS_AT), CPSR + 1)
    };
    let (pc, flags) = (registers[PC] as usize, registers[CPSR]);
    let read = if flags & THUMB != 0 {
        // SAFETY: the processor has fetched the instruction from here, with its second half if it has one.
        unsafe {
            let first = (pc as *const u16).read();
            if !timer_reads::is_wide_t32(first) {
                return false;
            }
            timer_reads::decode_t32(first, (pc as *const u16).add(1).read(), flags & IT != 0)
        }
    } else {
        // SAFETY: the processor has fetched the instruction from here.
        timer_reads::decode_a32(unsafe { (pc as *const u32).read() })
    };
    let Some(read) = read else { return false };
    write_back(read, |register, value| {
        registers[usize::from(register)] = value as u32;
    });
    registers[PC] += 4;
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    true
}

/// A [`sigill::Complete`] for all reads of the timer.
#[cfg(target_arch = "aarch64")]
unsafe fn answer(context: *mut libc::c_void) -> bool {
    /// Index of the first register in the `ucontext` of the kernel, in words.
    const REGISTERS_AT: usize = 23;
    const PC: usize = 32;
    // SAFETY: the caller passes a handler's context, in which x0 to x30, sp and pc follow each other.
    let registers =
        unsafe { std::slice::from_raw_parts_mut(context.cast::<u64>().add(REGISTERS_AT), PC + 1) };
    // SAFETY: the processor has fetched the instruction from here.
    let word = unsafe { (registers[PC] as *const u32).read() };
    let Some(read) = timer_reads::decode_a64(word) else {
        return false;
    };
    write_back(read, |register, value| {
        if register < 31 {
            registers[usize::from(register)] = value;
        }
    });
    registers[PC] += 4;
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    true
}

fn write_back(read: TimerRead, set: impl FnMut(u8, u64)) {
    let now = native::clock_ns(libc::CLOCK_MONOTONIC);
    read.write_back(timer_reads::emulated_ticks(now), set);
}

/// Held by tests that change or need the process's handler of SIGILL.
#[cfg(test)]
pub(crate) static ONE_TEST_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    static CHAINED: AtomicU32 = AtomicU32::new(0);

    unsafe extern "C" fn count_and_skip(
        _: libc::c_int,
        _: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        CHAINED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the kernel passes this context; the instruction has 4 bytes, in A32 and in A64.
        unsafe {
            #[cfg(target_arch = "arm")]
            {
                *context.cast::<u32>().add(8 + 15) += 4;
            }
            #[cfg(target_arch = "aarch64")]
            {
                *context.cast::<u64>().add(23 + 32) += 4;
            }
        }
    }

    #[test]
    fn reads_are_answered_if_they_trap_and_other_traps_go_to_the_previous_handler() {
        let _alone = ONE_TEST_AT_A_TIME.lock();
        sigill::uninstall();
        // SAFETY: all zeros is a valid sigaction, and the handler is of the type that the flags tell.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_and_skip as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut());
        }
        start().unwrap();
        let before = ANSWERED.load(Ordering::Relaxed);
        let first = native::read();
        let second = native::read();
        assert!(second >= first);
        println!(
            "reads of the counter that trapped: {}",
            ANSWERED.load(Ordering::Relaxed) - before
        );
        if ANSWERED.load(Ordering::Relaxed) != before {
            let now = timer_reads::emulated_ticks(native::clock_ns(libc::CLOCK_MONOTONIC));
            assert!(first <= now && now - first < 60 * timer_reads::EMULATED_HZ);
        }
        // SAFETY: an undefined instruction, which the handler steps over.
        #[cfg(target_arch = "arm")]
        unsafe {
            core::arch::asm!(".inst 0xe7f000f0")
        };
        // SAFETY: an undefined instruction, which the handler steps over.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(".inst 0x00000000")
        };
        assert_eq!(CHAINED.load(Ordering::Relaxed), 1);
    }
}
