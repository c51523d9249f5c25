// SPDX-License-Identifier: Apache-2.0
//! The system's clocks, and the counter that trace points read.

use hindsight_trace_format::container::ClockSample;

use crate::engine::Now;

/// The time, ns; 0 if there is no such clock.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the result.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return 0;
    }
    // A clock that was set to a time before 1970 is negative.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

pub(super) fn now() -> Now {
    Now {
        boottime_ns: clock_ns(libc::CLOCK_BOOTTIME),
        realtime_ns: clock_ns(libc::CLOCK_REALTIME),
    }
}

pub(super) fn slept_ns() -> u64 {
    // This order: time that passes between both calls must not look like sleep that ends again.
    let awake_ns = clock_ns(libc::CLOCK_MONOTONIC);
    clock_ns(libc::CLOCK_BOOTTIME).saturating_sub(awake_ns)
}

/// A counter's name, and how to read it.
type Counter = (&'static str, fn() -> u64);

/// The counter of this instruction set, as `Clocks::source` names it, and how to read it. 32-bit ARM has none here: whether its
/// counter may be read must be tried with a handler of SIGILL.
fn counter() -> Option<Counter> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC has no precondition.
    return Some(("tsc", || unsafe { core::arch::x86_64::_rdtsc() }));
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    return Some(("cntvct", || {
        let value: u64;
        // SAFETY: reads a system register, which Linux lets programs read on all arm64 machines.
        unsafe { core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) value, options(nostack)) };
        value
    }));
    #[allow(
        unreachable_code,
        reason = "reached where the machine has no such counter"
    )]
    None
}

pub(super) fn sample(source: &str) -> Option<ClockSample> {
    let (_, read) = counter().filter(|(name, _)| *name == source)?;
    let together = || {
        let before = read();
        let monotonic_ns = clock_ns(libc::CLOCK_MONOTONIC);
        let boottime_ns = clock_ns(libc::CLOCK_BOOTTIME);
        let realtime_ns = clock_ns(libc::CLOCK_REALTIME);
        let after = read();
        let sample = ClockSample {
            counter: before + after.saturating_sub(before) / 2,
            monotonic_ns,
            boottime_ns,
            realtime_ns,
        };
        (after.saturating_sub(before), sample)
    };
    // The least disturbed of some attempts.
    let attempts = (0..5).map(|_| together());
    attempts
        .min_by_key(|(duration, _)| *duration)
        .map(|(_, sample)| sample)
}
