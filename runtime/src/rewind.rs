// SPDX-License-Identifier: Apache-2.0
//! Which calls are taken back: short ones in which nothing was recorded.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use hindsight_trace_format::container::ClockSample;

use crate::clock;

/// A limit on the length of calls: calls in which nothing was recorded are taken back if they are shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rewind {
    /// ns; 0: no call is taken back; `u64::MAX`: all are.
    ns: u64,
}

/// Names of units, and their ns.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000)];
/// The longest limit except `all`, ns: longer than any call that one would not want to see.
const MAX_NS: u64 = 1_000_000_000;

impl Rewind {
    /// No call is taken back.
    pub const OFF: Rewind = Rewind { ns: 0 };
    /// The limit of a process whose configuration names none: the smallest with which a ring of 8 MiB held ten seconds of
    /// every program that was measured (docs/costs.md, `cargo xtask bench history`).
    pub const DEFAULT: Rewind = Rewind { ns: 50_000 };
    /// Every call in which nothing was recorded is taken back.
    pub const ALL: Rewind = Rewind { ns: u64::MAX };

    /// The values that [`parse`](Self::parse) takes, for error messages.
    pub(crate) const TAKES: &'static str =
        "off, all, or a time up to 1000ms with its unit: 200ns, 1us, 2ms";

    /// Parses `off`, `all`, `200ns`, `1us`, `2ms`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "off" | "0" => return Some(Self::OFF),
            "all" => return Some(Self::ALL),
            _ => {}
        }
        let digits = text.find(|c: char| !c.is_ascii_digit())?;
        let (number, unit) = text.split_at(digits);
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
        let ns = number.parse::<u64>().ok()?.checked_mul(*factor)?;
        (ns <= MAX_NS).then_some(Rewind { ns })
    }

    /// The limit in ticks of a counter with this rate, in ticks per second.
    fn ticks(self, rate: u64) -> u32 {
        if self == Self::ALL {
            return u32::MAX;
        }
        // Between two changes of the counter's upper half, no call takes 2^32 ticks.
        let ticks = u128::from(self.ns) * u128::from(rate) / 1_000_000_000;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Rewind {
    /// As [`Rewind::parse`] takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OFF => f.write_str("off"),
            Self::ALL => f.write_str("all"),
            Rewind { ns } => write!(f, "{ns}ns"),
        }
    }
}

/// The limit of a process, which may change while it runs.
#[derive(Debug)]
pub(crate) struct RewindLimit {
    ns: AtomicU64,
    started: ClockSample,
}

/// Slower than any counter whose rate must be measured, ticks per second: before it is known, limits are too short rather
/// than too long.
const ASSUMED_RATE: u64 = 1_000_000_000;

impl RewindLimit {
    /// `started` is the first sample of the clocks.
    pub(crate) fn new(limit: Rewind, started: ClockSample) -> Self {
        RewindLimit {
            ns: AtomicU64::new(limit.ns),
            started,
        }
    }

    pub(crate) fn get(&self) -> Rewind {
        Rewind {
            ns: self.ns.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn set(&self, limit: Rewind) {
        self.ns.store(limit.ns, Ordering::Relaxed);
    }

    /// The limit in ticks, and whether it is exact: the rate of some counters is only known after some milliseconds.
    pub(crate) fn ticks(&self) -> (u32, bool) {
        let limit = self.get();
        if limit == Rewind::OFF || limit == Rewind::ALL {
            return (limit.ticks(1), true);
        }
        let rate = clock::known_rate(&self.started);
        (limit.ticks(rate.unwrap_or(ASSUMED_RATE)), rate.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_has_a_unit() {
        let ns = |text| Rewind::parse(text).map(|limit| limit.ns);
        assert_eq!(ns("200ns"), Some(200));
        assert_eq!(ns("1us"), Some(1_000));
        assert_eq!(ns("10µs"), Some(10_000));
        assert_eq!(ns("1000ms"), Some(1_000_000_000));
        assert_eq!([ns("off"), ns("0")], [Some(0); 2]);
        assert_eq!(Rewind::parse("all"), Some(Rewind::ALL));
        for bad in [
            "",
            "1",
            "us",
            "-1us",
            "1 us",
            "1001ms",
            "1s",
            "99999999999999999999ns",
            "1.5us",
        ] {
            assert_eq!(Rewind::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn ticks_follow_the_rate() {
        let limit = Rewind { ns: 1_000 };
        assert_eq!(limit.ticks(2_700_000_000), 2_700);
        assert_eq!(limit.ticks(19_200_000), 19);
        assert_eq!(Rewind::OFF.ticks(2_700_000_000), 0);
        assert_eq!(Rewind::ALL.ticks(19_200_000), u32::MAX);
        assert_eq!(Rewind { ns: MAX_NS }.ticks(5_000_000_000), u32::MAX);
    }
}
