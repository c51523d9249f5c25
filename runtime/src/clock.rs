// SPDX-License-Identifier: Apache-2.0
//! The counter that trace points read, and how it relates to the system's clocks.

use std::time::{Duration, Instant};

use hindsight_trace_format::container::{ClockSample, Clocks};

/// The name of this instruction set's counter, as in [`Clocks::source`].
#[cfg(target_arch = "x86_64")]
pub const SOURCE: &str = "tsc";
/// The name of this instruction set's counter, as in [`Clocks::source`].
#[cfg(target_arch = "aarch64")]
pub const SOURCE: &str = "cntvct";
/// The name of this instruction set's counter, as in [`Clocks::source`].
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const SOURCE: &str = "clock_monotonic";

/// Reads the counter that trace points read: 64 bits, in ticks.
#[inline]
pub fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no precondition; a kernel that forbids it is not supported on x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a system register that Linux lets user space read, or emulates.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        clock_ns(libc::CLOCK_MONOTONIC)
    }
}

/// As [`counter`], but read after everything before it in the program, and before everything after it.
pub fn counter_in_order() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: LFENCE has no precondition. RDTSC alone may be executed early or late.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let value = counter();
        core::arch::x86_64::_mm_lfence();
        value
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier. (No `nomem`: the compiler must not move memory accesses across it either.)
    unsafe {
        core::arch::asm!("isb", options(nostack));
        let value = counter();
        core::arch::asm!("isb", options(nostack));
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    counter()
}

/// Whether reading the counter takes so long that the kernel must be emulating it: no counter takes
/// 200 ns, no trap less.
fn read_traps() -> bool {
    const READS: u64 = 16;
    let fastest = (0..8)
        .map(|_| {
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            for _ in 0..READS {
                std::hint::black_box(counter());
            }
            clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(before)
        })
        .min();
    fastest.is_some_and(|ns| ns > READS * 200)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
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

/// One moment on all clocks: the counter is read before and after each clock, and of several tries the
/// tightest counts, so that being preempted in between does not skew it.
pub fn sample() -> ClockSample {
    let mut best = ClockSample::default();
    let mut best_width = u64::MAX;
    for _ in 0..5 {
        let before = counter();
        let monotonic_ns = clock_ns(libc::CLOCK_MONOTONIC);
        let after = counter();
        let boottime_ns = clock_ns(libc::CLOCK_BOOTTIME);
        let realtime_ns = clock_ns(libc::CLOCK_REALTIME);
        let width = counter().wrapping_sub(before);
        if width < best_width {
            best_width = width;
            best = ClockSample {
                counter: before + after.wrapping_sub(before) / 2,
                monotonic_ns,
                boottime_ns,
                realtime_ns,
            };
        }
    }
    best
}

/// The counter's rate in ticks per second, between two samples; `None` if no time passed.
pub fn rate(first: &ClockSample, last: &ClockSample) -> Option<u64> {
    let ns = last
        .monotonic_ns
        .checked_sub(first.monotonic_ns)
        .filter(|ns| *ns > 0)?;
    let ticks = last.counter.checked_sub(first.counter)?;
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(ns)).ok()
}

/// Shortest stretch over which the rate is trusted: at 20 ms, an error of 1 µs is 50 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The clocks section of a trace, from a sample taken when recording started; the last sample is taken
/// now. Where the counter's rate has to be measured, and the first sample is younger than 20 ms, waits
/// until it is not.
pub fn clocks_since(first: ClockSample) -> Clocks {
    let mut last = sample();
    let started = Instant::now();
    while last.monotonic_ns.saturating_sub(first.monotonic_ns) < CALIBRATION.as_nanos() as u64
        && started.elapsed() < 2 * CALIBRATION
    {
        std::thread::sleep(Duration::from_millis(1));
        last = sample();
    }
    Clocks {
        ticks_per_second: architected_rate()
            .or_else(|| rate(&first, &last))
            .unwrap_or(0),
        source: SOURCE.to_owned(),
        read_traps: read_traps(),
        samples: vec![first, last],
    }
}

/// The rate where the architecture states it.
fn architected_rate() -> Option<u64> {
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: CNTFRQ_EL0 can be read wherever CNTVCT_EL0 can.
        unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) value, options(nomem, nostack)) };
        Some(value).filter(|v| *v != 0)
    }
    #[cfg(target_arch = "x86_64")]
    {
        None
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        Some(1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_and_the_clocks_go_forward_together() {
        let first = sample();
        let clocks = clocks_since(first);
        let last = clocks.samples[1];
        assert!(last.counter > first.counter);
        assert!(last.monotonic_ns > first.monotonic_ns);
        // Any counter worth the name is faster than a millisecond and slower than 100 GHz.
        assert!(
            (1_000..100_000_000_000).contains(&clocks.ticks_per_second),
            "{clocks:?}"
        );
    }

    #[test]
    fn the_rate_of_samples_out_of_order_is_unknown() {
        let early = ClockSample {
            counter: 10,
            monotonic_ns: 5,
            ..Default::default()
        };
        let late = ClockSample {
            counter: 40,
            monotonic_ns: 15,
            ..Default::default()
        };
        assert_eq!(rate(&early, &late), Some(3_000_000_000));
        assert_eq!(rate(&late, &early), None);
        assert_eq!(rate(&early, &early), None);
    }
}
