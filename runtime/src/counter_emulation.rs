// SPDX-License-Identifier: Apache-2.0
//! A handler of SIGILL that answers reads of ARM's counter where user code may not read it.
//!
//! Some kernels do not let it, nor does `qemu-arm`. The instruction then traps, and the handler does
//! what it would have done, from CLOCK_MONOTONIC. Any other SIGILL goes to whoever handled it before.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::counter_trap::{self, TimerRead};

/// What handled SIGILL before; never freed, since a handler may be using it.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// Reads answered, modulo 2^32: on 32-bit ARM there may be no wider atomics in a handler.
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// How many reads were answered so far (modulo 2^32).
pub(crate) fn answered() -> u32 {
    ANSWERED.load(Ordering::Relaxed)
}

/// Installs the handler, once.
pub(crate) fn install() -> std::io::Result<()> {
    if INSTALLED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    let handler: unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        on_sigill;
    // SAFETY: all zeros is a valid sigaction. It is told of before it can be called: the handler finds
    // the previous one.
    let failed = unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        // Not SA_ONSTACK alone: managed threads may run without an alternate stack, then it is ignored.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGILL, std::ptr::null(), &mut previous) != 0 || {
            PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut()) != 0
        }
    };
    if failed {
        INSTALLED.store(false, Ordering::Release);
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Puts back what handled SIGILL before [`install`].
pub(crate) fn uninstall() {
    if INSTALLED.swap(false, Ordering::AcqRel) {
        let previous = PREVIOUS.load(Ordering::Acquire);
        // SAFETY: an action that sigaction returned, if there is one.
        unsafe { libc::sigaction(libc::SIGILL, previous, std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn on_sigill(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: what the kernel passes to a handler.
    if unsafe { answer(context) } {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: as above; never freed.
    unsafe {
        chain(
            PREVIOUS.load(Ordering::Acquire).as_ref(),
            signal,
            info,
            context,
        )
    }
}

/// Does what the kernel would have done with a previous action.
///
/// # Safety
/// Called by a signal handler, with its arguments.
unsafe fn chain(
    previous: Option<&libc::sigaction>,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match previous {
        Some(previous)
            if previous.sa_sigaction != libc::SIG_DFL && previous.sa_sigaction != libc::SIG_IGN =>
        {
            // SAFETY: a handler that was installed, of the kind that its flags say.
            unsafe {
                if previous.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: unsafe extern "C" fn(
                        libc::c_int,
                        *mut libc::siginfo_t,
                        *mut libc::c_void,
                    ) = std::mem::transmute(previous.sa_sigaction);
                    handler(signal, info, context);
                } else {
                    let handler: unsafe extern "C" fn(libc::c_int) =
                        std::mem::transmute(previous.sa_sigaction);
                    handler(signal);
                }
            }
        }
        // The instruction is executed again, and ends the process as it would have without us. The
        // kernel does not let a process ignore it either.
        _ => {
            // SAFETY: sets the default action.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
            }
        }
    }
}

/// Executes the instruction at the context's program counter, if it is a read of the timer.
///
/// # Safety
/// `context` is what the kernel passes to a handler.
#[cfg(target_arch = "arm")]
unsafe fn answer(context: *mut libc::c_void) -> bool {
    /// `ucontext` as the kernel lays it out: what stands before the registers, in words.
    const REGISTERS_AT: usize = 8;
    const PC: usize = 15;
    const CPSR: usize = 16;
    const THUMB: u32 = 1 << 5;
    /// The IT block's state: bits 15 to 10, and 26 and 25.
    const IT: u32 = 0x0600_fc00;
    // SAFETY: r0 to pc and the flags follow each other there.
    let registers = unsafe {
        std::slice::from_raw_parts_mut(context.cast::<u32>().add(REGISTERS_AT), CPSR + 1)
    };
    let (pc, flags) = (registers[PC] as usize, registers[CPSR]);
    let read = if flags & THUMB != 0 {
        // SAFETY: the processor has fetched the instruction from here: the second half only if it has
        // one.
        unsafe {
            let first = (pc as *const u16).read();
            if !counter_trap::is_wide_t32(first) {
                return false;
            }
            counter_trap::decode_t32(first, (pc as *const u16).add(1).read(), flags & IT != 0)
        }
    } else {
        // SAFETY: as above.
        counter_trap::decode_a32(unsafe { (pc as *const u32).read() })
    };
    let Some(read) = read else { return false };
    write_back(read, |register, value| {
        registers[usize::from(register)] = value as u32;
    });
    registers[PC] += 4;
    true
}

/// Executes the instruction at the context's program counter, if it is a read of the timer.
///
/// # Safety
/// `context` is what the kernel passes to a handler.
#[cfg(target_arch = "aarch64")]
unsafe fn answer(context: *mut libc::c_void) -> bool {
    /// `ucontext` as the kernel lays it out: what stands before the registers, in words.
    const REGISTERS_AT: usize = 23;
    const PC: usize = 32;
    // SAFETY: x0 to x30, sp and pc follow each other there.
    let registers =
        unsafe { std::slice::from_raw_parts_mut(context.cast::<u64>().add(REGISTERS_AT), PC + 1) };
    // SAFETY: the processor has fetched the instruction from here.
    let word = unsafe { (registers[PC] as *const u32).read() };
    let Some(read) = counter_trap::decode_a64(word) else {
        return false;
    };
    write_back(read, |register, value| {
        if register < 31 {
            registers[usize::from(register)] = value;
        }
    });
    registers[PC] += 4;
    true
}

fn write_back(read: TimerRead, set: impl FnMut(u8, u64)) {
    let now = crate::clock::clock_ns(libc::CLOCK_MONOTONIC);
    read.write_back(counter_trap::emulated_ticks(now), set);
}

/// Held by tests that change or need the process's one handler.
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
        // SAFETY: as in `answer`; steps over the 4 bytes of an A32 or A64 instruction.
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
        // Whether or not that installs the handler, it has happened.
        crate::clock::access();
        uninstall();
        // SAFETY: as in `install`.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_and_skip as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut());
        }
        install().unwrap();
        let before = answered();
        let first = crate::clock::read_native();
        let second = crate::clock::read_native();
        assert!(second >= first);
        println!("reads of the counter that trapped: {}", answered() - before);
        if answered() != before {
            let now = counter_trap::emulated_ticks(crate::clock::clock_ns(libc::CLOCK_MONOTONIC));
            assert!(first <= now && now - first < 60 * counter_trap::EMULATED_HZ);
        }
        // SAFETY: an undefined instruction, which the handler steps over.
        #[cfg(target_arch = "arm")]
        unsafe {
            core::arch::asm!(".inst 0xe7f000f0")
        };
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            core::arch::asm!(".inst 0x00000000")
        };
        assert_eq!(CHAINED.load(Ordering::Relaxed), 1);
    }
}
