// SPDX-License-Identifier: Apache-2.0
//! The counter that trace points read, and how it relates to the system's clocks.

use std::time::{Duration, Instant};

use hindsight_trace_format::container::{ClockSample, Clocks};

/// How the counter that trace points read can be read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By the instruction that trace points have.
    Native,
    /// The instruction traps. It is answered from CLOCK_MONOTONIC by a handler of SIGILL, if that is
    /// wanted; see [`prepare`].
    Emulated,
}

impl Access {
    /// The name of the counter, as in [`Clocks::source`].
    pub const fn source(self) -> &'static str {
        match self {
            Access::Emulated => "cntvct-emulated",
            Access::Native if cfg!(target_arch = "x86_64") => "tsc",
            Access::Native if cfg!(any(target_arch = "aarch64", target_arch = "arm")) => "cntvct",
            Access::Native => "clock_monotonic",
        }
    }
}

/// What to do where the counter cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Not tracing on Android, where it would slow an app down unseen; elsewhere as
    /// [`Emulate`](Self::Emulate).
    #[default]
    Auto,
    /// Not tracing.
    Refuse,
    /// A signal at each trace point: microseconds instead of nanoseconds.
    Emulate,
}

/// Finds out, once for the process, how the counter can be read.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub fn access() -> Access {
    use crate::counter_emulation::{answered, install, uninstall};
    use std::sync::OnceLock;

    static ACCESS: OnceLock<Access> = OnceLock::new();
    *ACCESS.get_or_init(|| {
        // Without a handler the only way to find out is to die of it.
        if install().is_err() {
            return Access::Emulated;
        }
        let before = answered();
        std::hint::black_box((read_native(), read_frequency()));
        let access = if answered() == before {
            Access::Native
        } else {
            Access::Emulated
        };
        uninstall();
        access
    })
}

/// How the counter can be read: without asking, on this instruction set.
#[cfg(not(any(target_arch = "arm", target_arch = "aarch64")))]
pub fn access() -> Access {
    Access::Native
}

/// Makes sure that compiled trace points can read the counter, before any thread is traced.
///
/// # Errors
/// What to tell the user if they cannot, and `fallback` does not want the reads emulated.
pub fn prepare(fallback: Fallback) -> Result<Access, String> {
    match (access(), fallback) {
        (Access::Native, _) => Ok(Access::Native),
        (Access::Emulated, Fallback::Emulate) => emulate(),
        (Access::Emulated, Fallback::Auto) if !cfg!(target_os = "android") => emulate(),
        (Access::Emulated, _) => Err(
            "the counter (CNTVCT) cannot be read here: the kernel answers with SIGILL. It has to allow \
             user code to read it (CNTKCTL.PL0VCTEN, or EL0VCTEN); counter=emulate traces anyway, at the \
             price of a signal for each trace point"
                .into(),
        ),
    }
}

#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
fn emulate() -> Result<Access, String> {
    match crate::counter_emulation::install() {
        Ok(()) => Ok(Access::Emulated),
        Err(e) => Err(format!("no handler of SIGILL could be installed: {e}")),
    }
}

#[cfg(not(any(target_arch = "arm", target_arch = "aarch64")))]
fn emulate() -> Result<Access, String> {
    Err("on this instruction set, no counter is emulated".into())
}

/// Reads the counter that trace points read: 64 bits, in ticks.
#[inline]
pub fn counter() -> u64 {
    #[cfg(feature = "loom")]
    return crate::model_clock::tick();
    #[cfg(not(feature = "loom"))]
    real_counter()
}

/// [`counter`], but for models.
#[inline]
#[cfg_attr(
    feature = "loom",
    allow(dead_code, reason = "models have a clock of their own")
)]
fn real_counter() -> u64 {
    #[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
    if access() == Access::Emulated {
        return crate::counter_trap::emulated_ticks(clock_ns(libc::CLOCK_MONOTONIC));
    }
    read_native()
}

/// Executes the instruction that trace points have.
#[inline]
pub(crate) fn read_native() -> u64 {
    #[cfg(miri)]
    return clock_ns(libc::CLOCK_MONOTONIC);
    #[cfg(not(miri))]
    read_native_instruction()
}

#[inline]
#[cfg_attr(miri, allow(dead_code, reason = "Miri executes no machine code"))]
fn read_native_instruction() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no precondition; a kernel that forbids it is not supported on x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let value: u64;
        // SAFETY: reads a system register; where that traps, there is a handler (see `access`).
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) value, options(nomem, nostack)) };
        value
    }
    #[cfg(target_arch = "arm")]
    {
        let (low, high): (u32, u32);
        // SAFETY: as above. (`mrrc p15, 1, low, high, c14`)
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

/// Executes the instruction that reads the counter's rate.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
fn read_frequency() -> u64 {
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
        // SAFETY: as above.
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

/// As [`counter`], but read after everything before it in the program, and before everything after it.
pub fn counter_in_order() -> u64 {
    #[cfg(feature = "loom")]
    return crate::model_clock::tick();
    #[cfg(not(feature = "loom"))]
    real_counter_in_order()
}

/// [`counter_in_order`], but for models.
#[inline]
#[cfg_attr(
    feature = "loom",
    allow(dead_code, reason = "models have a clock of their own")
)]
fn real_counter_in_order() -> u64 {
    #[cfg(miri)]
    return real_counter();
    #[cfg(not(miri))]
    ordered_read()
}

#[inline]
#[cfg_attr(
    any(miri, feature = "loom"),
    allow(dead_code, reason = "these have a clock of their own")
)]
fn ordered_read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: LFENCE has no precondition. RDTSC alone may be executed early or late.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let value = real_counter();
        core::arch::x86_64::_mm_lfence();
        value
    }
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    // SAFETY: a barrier. (No `nomem`: the compiler must not move memory accesses across it either.)
    unsafe {
        core::arch::asm!("isb", options(nostack));
        let value = real_counter();
        core::arch::asm!("isb", options(nostack));
        value
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    real_counter()
}

/// Whether reading the counter takes so long that the kernel must be emulating it: no counter takes
/// 200 ns, no trap less.
fn read_traps() -> bool {
    if access() == Access::Emulated {
        return true;
    }
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

/// A clock of the system, in ns; 0 if there is no such clock.
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
        ticks_per_second: best_rate(architected_rate(), rate(&first, &last)),
        source: access().source().to_owned(),
        read_traps: read_traps(),
        samples: vec![first, last],
    }
}

/// The counter's rate, as far as it is known by now: from the architecture, or measured since `first`.
/// `None` if that is too short a time ago to measure.
pub fn known_rate(first: &ClockSample) -> Option<u64> {
    let last = sample();
    let long_enough =
        last.monotonic_ns.saturating_sub(first.monotonic_ns) >= CALIBRATION.as_nanos() as u64;
    let measured = rate(first, &last).filter(|_| long_enough);
    Some(best_rate(architected_rate(), measured)).filter(|rate| *rate != 0)
}

/// The rate where the architecture states it.
fn architected_rate() -> Option<u64> {
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    {
        match access() {
            Access::Native => Some(read_frequency()),
            Access::Emulated => Some(crate::counter_trap::EMULATED_HZ),
        }
    }
    #[cfg(target_arch = "x86_64")]
    {
        None
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "arm")))]
    {
        Some(1_000_000_000)
    }
}

/// The stated rate, unless the measured one says that it is wrong: firmware is what sets CNTFRQ, and some
/// forgets to. 0 if neither is known.
fn best_rate(stated: Option<u64>, measured: Option<u64>) -> u64 {
    /// More than what taking two samples 20 ms apart can be wrong by.
    const TOLERANCE_PERCENT: u64 = 2;
    match (stated, measured) {
        (Some(stated), Some(measured))
            if stated.abs_diff(measured) > measured / 100 * TOLERANCE_PERCENT =>
        {
            measured
        }
        (Some(stated), _) => stated,
        (None, measured) => measured.unwrap_or(0),
    }
}

#[cfg(all(test, not(feature = "loom")))]
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
    fn a_stated_rate_that_is_far_off_is_not_believed() {
        assert_eq!(best_rate(Some(19_200_000), Some(19_199_000)), 19_200_000);
        assert_eq!(best_rate(Some(0), Some(19_199_000)), 19_199_000);
        assert_eq!(best_rate(Some(24_000_000), Some(19_199_000)), 19_199_000);
        assert_eq!(best_rate(Some(24_000_000), None), 24_000_000);
        assert_eq!(best_rate(None, Some(2_700_000_000)), 2_700_000_000);
        assert_eq!(best_rate(None, None), 0);
    }

    #[test]
    fn trace_points_can_read_the_counter_here_or_somebody_is_told() {
        #[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
        let _alone = crate::counter_emulation::ONE_TEST_AT_A_TIME.lock();
        match prepare(Fallback::Refuse) {
            Ok(how) => assert_eq!(how, Access::Native),
            Err(message) => assert!(message.contains("counter=emulate"), "{message}"),
        }
        let how = prepare(Fallback::Emulate).unwrap();
        assert_eq!(how, access());
        let before = counter();
        let between = read_native();
        assert!((before..=counter()).contains(&between));
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
