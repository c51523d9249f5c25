// SPDX-License-Identifier: Apache-2.0
//! The instructions that read the counter, and the system's clocks.

/// Reads the counter by the instruction that trace points have.
#[inline]
pub(crate) fn read() -> u64 {
    #[cfg(miri)]
    return clock_ns(libc::CLOCK_MONOTONIC);
    #[cfg(not(miri))]
    read_instruction()
}

#[inline]
#[cfg_attr(miri, allow(dead_code, reason = "Miri executes no machine code"))]
fn read_instruction() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no precondition; a kernel that forbids it is not supported on x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a system register. Where that is not allowed, `access` in the parent module finds out, and
        // nobody gets here.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
    #[cfg(target_arch = "arm")]
    {
        let (low, high): (u32, u32);
        // SAFETY: reads a system register. Where that is not allowed, `access` in the parent module finds out, and
        // nobody gets here. (`mrrc p15, 1, low, high, c14`)
        unsafe {
            core::arch::asm!(
                "mrrc p15, 1, {}, {}, c14",
                out(reg) low,
                out(reg) high,
                options(nomem, nostack)
            );
        }
        u64::from(high) << 32 | u64::from(low)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    {
        clock_ns(libc::CLOCK_MONOTONIC)
    }
}

/// Reads the counter's rate in ticks per second, as the firmware has set it.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub(crate) fn read_frequency() -> u64 {
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: CNTFRQ_EL0 can be read wherever CNTVCT_EL0 can.
        unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
    #[cfg(target_arch = "arm")]
    {
        let value: u32;
        // SAFETY: CNTFRQ can be read wherever CNTVCT can.
        unsafe {
            core::arch::asm!(
                "mrc p15, 0, {}, c14, c0, 0",
                out(reg) value,
                options(nomem, nostack)
            );
        }
        u64::from(value)
    }
}

/// Executes `read` after all that precedes the call in the program, and before all that follows it.
#[inline]
#[cfg_attr(
    feature = "loom",
    allow(dead_code, reason = "models have a clock of their own")
)]
pub(crate) fn in_order(read: impl FnOnce() -> u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: LFENCE has no precondition. RDTSC alone may be executed early or late.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let value = read();
        core::arch::x86_64::_mm_lfence();
        value
    }
    #[cfg(all(any(target_arch = "aarch64", target_arch = "arm"), not(miri)))]
    // SAFETY: ISB has no precondition. (No `nomem`: the compiler must not move memory accesses across it either.)
    unsafe {
        core::arch::asm!("isb", options(nostack));
        let value = read();
        core::arch::asm!("isb", options(nostack));
        value
    }
    #[cfg(any(
        miri,
        not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm"))
    ))]
    read()
}

/// One of the system's clocks, in ns; 0 if it does not exist.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return 0;
    }
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}
