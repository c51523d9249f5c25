// SPDX-License-Identifier: Apache-2.0
//! The counter that trace points read, and its relation to the system's clocks.

mod cpus;
#[cfg(all(
    feature = "counter-emulation",
    any(target_arch = "arm", target_arch = "aarch64")
))]
mod emulated;
mod native;
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
mod probe;
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
mod sigill;
#[cfg(all(
    feature = "counter-emulation",
    any(target_arch = "arm", target_arch = "aarch64", test)
))]
mod timer_reads;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hindsight_trace_format::container::{ClockSample, Clocks};

use native::clock_ns;

/// Whether trace points can read the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The instruction that trace points have can be executed. The kernel may still emulate it.
    Native,
    /// The instruction raises SIGILL.
    Illegal,
}

impl Access {
    /// The name of the counter, as in [`Clocks::source`].
    pub const fn source(self) -> &'static str {
        match self {
            Access::Illegal => "cntvct-emulated",
            Access::Native if cfg!(target_arch = "x86_64") => "tsc",
            Access::Native if cfg!(any(target_arch = "aarch64", target_arch = "arm")) => "cntvct",
            Access::Native => "clock_monotonic",
        }
    }
}

/// The reaction to a counter that is slow to read, or that may not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// On Android do not trace: it would slow apps down without anybody knowing why. Elsewhere trace, by emulation if
    /// need be.
    #[default]
    Auto,
    /// Trace if the instruction can be executed, also if it is slow.
    Native,
    /// Trace in any case, by emulation if need be: microseconds instead of nanoseconds for each trace point.
    Emulate,
}

/// Finds out, once for the process, whether trace points can read the counter.
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub fn access() -> Access {
    static ACCESS: OnceLock<Access> = OnceLock::new();
    *ACCESS.get_or_init(|| {
        if probe::counter_is_readable() {
            Access::Native
        } else {
            Access::Illegal
        }
    })
}

/// Whether trace points can read the counter: on this instruction set always.
#[cfg(not(any(target_arch = "arm", target_arch = "aarch64")))]
pub fn access() -> Access {
    Access::Native
}

/// Threshold in ns: the kernel or a hypervisor emulates reads of the counter that take longer. A direct read is always
/// faster than this, a trapped read always slower.
const TRAP_NS: u64 = 200;

/// The price of a read of the counter on the slowest CPU that the process may use, or on the first one that traps, ns.
/// Measured once for the process.
fn worst_read_price_ns() -> u64 {
    static PRICE: OnceLock<u64> = OnceLock::new();
    *PRICE.get_or_init(|| cpus::worst(|price| *price > TRAP_NS, read_price_ns))
}

/// Measures the price of a read of the counter on the CPU where the caller runs, ns: the lowest average of several
/// series, so that a preemption in one of them does not count.
fn read_price_ns() -> u64 {
    const READS: u64 = 256;
    price_ns(READS, || clock_ns(libc::CLOCK_MONOTONIC), real_counter)
}

/// The price of one `read`, in the unit of `clock`: the shortest of several series of reads, minus the shortest series
/// without reads (which is the price of a slow clock), divided by the number of reads.
fn price_ns(reads: u64, mut clock: impl FnMut() -> u64, mut read: impl FnMut() -> u64) -> u64 {
    let mut fastest = |reads| {
        let series = (0..4).map(|_| {
            let before = clock();
            for _ in 0..reads {
                std::hint::black_box(read());
            }
            clock().saturating_sub(before)
        });
        series.min().unwrap_or(0)
    };
    let empty = fastest(0);
    fastest(reads).saturating_sub(empty) / reads
}

/// The remedy that a build with the emulation has for a counter that cannot be read.
const EMULATION_REMEDY: &str = if cfg!(feature = "counter-emulation") {
    "; counter=emulate traces anyway, at the price of a signal for each trace point"
} else {
    ""
};

/// Who makes reads of the counter slow.
const EMULATED_BY: &str = if cfg!(target_arch = "aarch64") {
    "the kernel emulates it (for instance because of an erratum of a core's timer)"
} else if cfg!(target_arch = "arm") {
    "the kernel emulates it"
} else {
    "a hypervisor emulates it"
};

/// How trace points read the counter in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readiness {
    access: Access,
    /// Price of a read on the slowest CPU, ns.
    price_ns: u64,
}

impl Readiness {
    /// Checks whether tracing is wanted with this access and price.
    ///
    /// # Errors
    /// If not: a message for the user, with the remedy.
    fn check(
        access: Access,
        price_ns: u64,
        fallback: Fallback,
        on_android: bool,
    ) -> Result<Self, String> {
        let cautious = fallback == Fallback::Auto && on_android;
        match access {
            Access::Illegal if cautious || fallback == Fallback::Native => Err(format!(
                "the counter (CNTVCT) cannot be read on each CPU: the kernel answers with SIGILL. It has to allow \
                 user code to read it (CNTKCTL.PL0VCTEN, or EL0VCTEN){EMULATION_REMEDY}"
            )),
            Access::Native if cautious && price_ns > TRAP_NS => Err(format!(
                "reading the counter takes {price_ns} ns on one CPU or more, so {EMULATED_BY}, and each trace point \
                 would take as long there; counter=native traces anyway"
            )),
            _ => Ok(Readiness { access, price_ns }),
        }
    }

    /// A warning for the log if trace points are slow here.
    pub(crate) fn warning(&self) -> Option<String> {
        match self.access {
            Access::Illegal => {
                Some("the counter cannot be read here; each read is emulated, which is slow".into())
            }
            Access::Native if self.price_ns > TRAP_NS => Some(format!(
                "reading the counter takes {} ns on one CPU or more, because it is emulated; each trace point takes as \
                 long there",
                self.price_ns
            )),
            Access::Native => None,
        }
    }
}

/// Makes sure that compiled trace points can read the counter, before any thread is traced.
///
/// # Errors
/// If they cannot, or only slowly, and `fallback` does not want that: a message for the user.
pub(crate) fn prepare(fallback: Fallback) -> Result<Readiness, String> {
    let access = access();
    let price_ns = match access {
        Access::Native => worst_read_price_ns(),
        Access::Illegal => 0,
    };
    let readiness = Readiness::check(access, price_ns, fallback, cfg!(target_os = "android"))?;
    if access == Access::Illegal {
        emulate()?;
    }
    Ok(readiness)
}

#[cfg(all(
    feature = "counter-emulation",
    any(target_arch = "arm", target_arch = "aarch64")
))]
fn emulate() -> Result<(), String> {
    emulated::start().map_err(|e| format!("no handler of SIGILL could be installed: {e}"))
}

#[cfg(not(all(
    feature = "counter-emulation",
    any(target_arch = "arm", target_arch = "aarch64")
)))]
fn emulate() -> Result<(), String> {
    Err(
        "the counter cannot be read here, and this build cannot emulate it: it lacks hindsight-runtime's cargo \
         feature counter-emulation"
            .into(),
    )
}

/// Reads the counter that trace points read: 64 bits, in ticks.
#[inline]
pub fn counter() -> u64 {
    #[cfg(feature = "loom")]
    return crate::models::clock::tick();
    #[cfg(not(feature = "loom"))]
    real_counter()
}

/// As [`counter`], but read after all that precedes the call in the program, and before all that follows it.
pub fn counter_in_order() -> u64 {
    #[cfg(feature = "loom")]
    return crate::models::clock::tick();
    #[cfg(not(feature = "loom"))]
    native::in_order(real_counter)
}

/// [`counter`], except in models.
#[inline]
fn real_counter() -> u64 {
    #[cfg(all(
        feature = "counter-emulation",
        any(target_arch = "arm", target_arch = "aarch64")
    ))]
    if access() == Access::Illegal {
        return emulated::read();
    }
    native::read()
}

/// CLOCK_MONOTONIC, ns: the clock of frames and input events.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CLOCK_BOOTTIME, ns.
pub(crate) fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// Reads all clocks at one moment: the counter is read before and after, and the narrowest of several tries is
/// returned, so that a preemption does not skew it.
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

/// The counter's rate between two samples, in ticks per second; `None` if no time passed.
pub(crate) fn rate(first: &ClockSample, last: &ClockSample) -> Option<u64> {
    let ns = last
        .monotonic_ns
        .checked_sub(first.monotonic_ns)
        .filter(|ns| *ns > 0)?;
    let ticks = last.counter.checked_sub(first.counter)?;
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(ns)).ok()
}

/// Minimum time over which the rate is measured: at 20 ms, an error of 1 µs is 50 ppm.
const CALIBRATION: Duration = Duration::from_millis(20);

/// The clocks section of a file; `first` is the sample taken when recording started, the last one is taken now. If the
/// first sample is younger than 20 ms, waits until it is not: the rate may have to be measured.
pub(crate) fn clocks_since(first: ClockSample) -> Clocks {
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
        // Measured here, too: the CPUs that the process may use can change.
        read_traps: access() == Access::Illegal
            || worst_read_price_ns().max(read_price_ns()) > TRAP_NS,
        samples: vec![first, last],
    }
}

/// The counter's rate in ticks per second: from the architecture, or measured since `first`. `None` if `first` is too
/// recent for a measurement.
pub(crate) fn known_rate(first: &ClockSample) -> Option<u64> {
    let last = sample();
    let long_enough =
        last.monotonic_ns.saturating_sub(first.monotonic_ns) >= CALIBRATION.as_nanos() as u64;
    let measured = rate(first, &last).filter(|_| long_enough);
    Some(best_rate(architected_rate(), measured)).filter(|rate| *rate != 0)
}

/// The rate in ticks per second, where the architecture states it.
fn architected_rate() -> Option<u64> {
    #[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
    {
        match access() {
            Access::Native => Some(native::read_frequency()),
            #[cfg(feature = "counter-emulation")]
            Access::Illegal => Some(timer_reads::EMULATED_HZ),
            #[cfg(not(feature = "counter-emulation"))]
            Access::Illegal => None,
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

/// The stated rate, unless the measured one contradicts it: the firmware sets CNTFRQ, and some does not. 0 if neither is
/// known.
fn best_rate(stated: Option<u64>, measured: Option<u64>) -> u64 {
    /// More than the error of a measurement over 20 ms.
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
        // Every usable counter is faster than 1 kHz and slower than 100 GHz.
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
    fn a_counter_that_the_kernel_emulates_is_refused_where_nobody_would_notice() {
        let check = |price, fallback, on_android| {
            Readiness::check(Access::Native, price, fallback, on_android)
        };
        let message = check(1500, Fallback::Auto, true).unwrap_err();
        for part in ["1500 ns", "emulates it", "counter=native"] {
            assert!(message.contains(part), "{message}");
        }
        let is_arm = cfg!(any(target_arch = "arm", target_arch = "aarch64"));
        assert_eq!(message.contains("the kernel"), is_arm, "{message}");
        assert_eq!(check(40, Fallback::Auto, true).unwrap().warning(), None);
        // On other systems, and with `counter=native` or `emulate`, a slow counter causes only a warning.
        for slow in [
            check(1500, Fallback::Auto, false),
            check(1500, Fallback::Native, true),
            check(1500, Fallback::Emulate, true),
        ] {
            let warning = slow.unwrap().warning().unwrap();
            assert!(warning.contains("1500 ns"), "{warning}");
        }
    }

    #[test]
    fn a_counter_that_cannot_be_read_is_refused_or_emulated() {
        let check =
            |fallback, on_android| Readiness::check(Access::Illegal, 0, fallback, on_android);
        for refused in [
            check(Fallback::Auto, true),
            check(Fallback::Native, true),
            check(Fallback::Native, false),
        ] {
            let message = refused.unwrap_err();
            assert!(message.contains("SIGILL"), "{message}");
            let can_emulate = cfg!(feature = "counter-emulation");
            assert_eq!(
                message.contains("counter=emulate"),
                can_emulate,
                "{message}"
            );
        }
        for emulated in [check(Fallback::Auto, false), check(Fallback::Emulate, true)] {
            assert!(emulated.unwrap().warning().unwrap().contains("emulated"));
        }
    }

    #[test]
    fn the_price_of_a_read_is_measured() {
        // A read takes some cycles, and no emulation takes a millisecond.
        assert!((0..1_000_000).contains(&read_price_ns()));
        assert!((0..1_000_000).contains(&worst_read_price_ns()));
        let ready = prepare(Fallback::Native);
        assert_eq!(ready.is_ok(), access() == Access::Native);
    }

    #[test]
    fn a_slow_clock_does_not_make_the_counter_slow() {
        // A clock that takes 3000 ns, and reads of 20 ns.
        let now = std::cell::Cell::new(0);
        let takes = |ns| {
            now.set(now.get() + ns);
            now.get()
        };
        assert_eq!(price_ns(16, || takes(3000), || takes(20)), 20);
    }

    #[test]
    fn trace_points_and_the_recorder_read_the_same_counter() {
        #[cfg(all(
            feature = "counter-emulation",
            any(target_arch = "arm", target_arch = "aarch64")
        ))]
        let _alone = emulated::ONE_TEST_AT_A_TIME.lock();
        match prepare(Fallback::Emulate) {
            Ok(readiness) => assert_eq!(readiness.access, access()),
            Err(message) => {
                // Only a build without the emulation has this message.
                assert!(message.contains("feature counter-emulation"), "{message}");
                return;
            }
        }
        let before = counter();
        let between = native::read();
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
