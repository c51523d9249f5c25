// SPDX-License-Identifier: Apache-2.0
//! From ticks of the counter to nanoseconds.

use hindsight_trace_format::container::{ClockSample, Clocks};

/// Samples closer than this are skipped: the time of taking a sample would distort the rate.
const MIN_SAMPLE_DISTANCE_NS: u64 = 100_000_000;
/// Binary places of [`Piece::rate`]: enough for counters from 1 MHz on, exact to 1 ns over a year.
const RATE_BITS: u32 = 53;
/// Slowest plausible counter, ticks per second.
const MIN_TICKS_PER_SECOND: u64 = 1_000_000;
/// Fastest plausible counter, ticks per second.
const MAX_TICKS_PER_SECOND: u64 = 100_000_000_000;

/// A stretch of time with one rate.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// First tick of the piece; the first piece also covers all earlier ticks.
    from: u64,
    /// A tick whose time is known; `from` in all pieces but the first.
    base: u64,
    /// CLOCK_BOOTTIME at `base`, ns.
    base_ns: u64,
    /// ns per tick, with [`RATE_BITS`] binary places.
    rate: u64,
}

impl Piece {
    #[inline]
    fn to_ns(self, ticks: u64) -> u64 {
        let scale = |d: u64| {
            let ns = (u128::from(d) * u128::from(self.rate)) >> RATE_BITS;
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        if ticks >= self.base {
            self.base_ns.saturating_add(scale(ticks - self.base))
        } else {
            self.base_ns.saturating_sub(scale(self.base - ticks))
        }
    }
}

/// Turns the counter into CLOCK_BOOTTIME.
///
/// Between two samples time is interpolated, so that a counter with an inaccurate nominal rate still agrees with other
/// traces. Before the first and after the last sample the nominal rate is used.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Newest first.
    pieces: Vec<Piece>,
    reference: ClockSample,
    ticks_per_second: u64,
    source: String,
    read_traps: bool,
}

impl Clock {
    pub(crate) fn new(clocks: &Clocks) -> Result<Self, String> {
        let rate = clocks.ticks_per_second;
        if !(MIN_TICKS_PER_SECOND..=MAX_TICKS_PER_SECOND).contains(&rate) {
            return Err(format!(
                "a counter of {rate} ticks a second is not between 1 MHz and 100 GHz"
            ));
        }
        let Some(reference) = clocks.samples.last().copied() else {
            return Err("there is no sample of the clocks".to_owned());
        };
        let nominal = ((1_000_000_000_u128 << RATE_BITS) / u128::from(rate)) as u64;
        let after = Piece {
            from: reference.counter,
            base: reference.counter,
            base_ns: reference.boottime_ns,
            rate: nominal,
        };
        let mut pieces = vec![after];
        let mut later = reference;
        for &sample in clocks.samples.iter().rev().skip(1) {
            let Some(ns) = later.boottime_ns.checked_sub(sample.boottime_ns) else {
                continue;
            };
            let Some(ticks) = later.counter.checked_sub(sample.counter) else {
                continue;
            };
            if ns < MIN_SAMPLE_DISTANCE_NS || ticks == 0 {
                continue;
            }
            let Ok(rate) = u64::try_from((u128::from(ns) << RATE_BITS) / u128::from(ticks)) else {
                continue;
            };
            pieces.push(Piece {
                from: sample.counter,
                base: sample.counter,
                base_ns: sample.boottime_ns,
                rate,
            });
            later = sample;
        }
        pieces.push(Piece {
            from: 0,
            base: later.counter,
            base_ns: later.boottime_ns,
            rate: nominal,
        });
        Ok(Clock {
            pieces,
            reference,
            ticks_per_second: rate,
            source: clocks.source.clone(),
            read_traps: clocks.read_traps,
        })
    }

    /// For traces whose times are ns already.
    pub(crate) fn nanoseconds(source: &str, end_ns: u64) -> Self {
        let reference = ClockSample {
            counter: end_ns,
            monotonic_ns: end_ns,
            boottime_ns: end_ns,
            realtime_ns: 0,
        };
        let piece = Piece {
            from: 0,
            base: 0,
            base_ns: 0,
            rate: 1 << RATE_BITS,
        };
        Clock {
            pieces: vec![piece],
            reference,
            ticks_per_second: 1_000_000_000,
            source: source.to_owned(),
            read_traps: false,
        }
    }

    /// CLOCK_BOOTTIME, in ns, when the counter stood at `ticks`.
    pub fn to_ns(&self, ticks: u64) -> u64 {
        self.converter().ns_at(ticks)
    }

    /// The last reading of the counter at this time, CLOCK_BOOTTIME, ns; or an earlier time's, if there is none.
    pub(crate) fn ticks_at(&self, ns: u64) -> u64 {
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = high - (high - low) / 2;
            if self.to_ns(middle) <= ns {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Converts many ticks; fastest when they decrease.
    pub(crate) fn converter(&self) -> Converter<'_> {
        Converter {
            clock: self,
            piece: self.pieces[0],
            at: 0,
            until: u64::MAX,
        }
    }

    /// The time of the snapshot on all clocks.
    pub fn reference(&self) -> ClockSample {
        self.reference
    }

    /// Nominal rate of the counter.
    pub fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }

    /// Which counter: `tsc`, `cntvct`, `clock_monotonic`.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether reading the counter trapped to the kernel, which makes each trace point slow.
    pub fn read_traps(&self) -> bool {
        self.read_traps
    }
}

/// Remembers the piece that the last conversion fell into.
pub(crate) struct Converter<'a> {
    clock: &'a Clock,
    piece: Piece,
    at: usize,
    /// The piece holds up to this tick.
    until: u64,
}

impl Converter<'_> {
    /// Converts ticks that never decrease into `ns`, which is cleared.
    pub(crate) fn convert(&mut self, ticks: &[u64], ns: &mut Vec<u64>) {
        ns.clear();
        let (Some(&first), Some(&last)) = (ticks.first(), ticks.last()) else {
            return;
        };
        self.ns_at(last);
        let Piece {
            base,
            base_ns,
            rate,
            ..
        } = self.piece;
        // As Piece::to_ns, but the shift comes first, so that the upper half of a product is all that is needed.
        const SHIFT: u32 = 64 - RATE_BITS;
        let scale = |d: u64| ((u128::from(d << SHIFT) * u128::from(rate)) >> 64) as u64;
        // Where neither end of the range is too large, nothing between them is.
        let fits = |d: u64, most_ns: u64| d >> (64 - SHIFT) == 0 && scale(d) <= most_ns;
        let in_piece = first >= self.piece.from && last <= self.until;
        if in_piece && first >= base && fits(last - base, u64::MAX - base_ns) {
            ns.extend(ticks.iter().map(|&t| base_ns + scale(t - base)));
        } else if in_piece && last <= base && fits(base - first, base_ns) {
            ns.extend(ticks.iter().map(|&t| base_ns - scale(base - t)));
        } else {
            ns.extend(ticks.iter().map(|&t| self.ns_at(t)));
        }
    }

    #[inline]
    pub(crate) fn ns_at(&mut self, ticks: u64) -> u64 {
        if ticks < self.piece.from || ticks > self.until {
            self.seek(ticks);
        }
        self.piece.to_ns(ticks)
    }

    #[cold]
    fn seek(&mut self, ticks: u64) {
        let pieces = &self.clock.pieces;
        // The last piece starts at 0, so there always is one.
        self.at = pieces
            .partition_point(|p| p.from > ticks)
            .min(pieces.len() - 1);
        self.piece = pieces[self.at];
        self.until = match self.at.checked_sub(1) {
            Some(newer) => pieces[newer].from - 1,
            None => u64::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(counter: u64, boottime_ns: u64) -> ClockSample {
        ClockSample {
            counter,
            boottime_ns,
            ..ClockSample::default()
        }
    }

    fn clocks(ticks_per_second: u64, samples: &[ClockSample]) -> Clocks {
        Clocks {
            ticks_per_second,
            samples: samples.to_vec(),
            ..Clocks::default()
        }
    }

    #[test]
    fn one_sample_and_the_nominal_rate_are_enough() {
        let clock = Clock::new(&clocks(62_500_000, &[sample(1_000, 5_000_000)])).unwrap();
        assert_eq!(clock.to_ns(1_000), 5_000_000);
        assert_eq!(clock.to_ns(999), 4_999_984);
        assert_eq!(clock.to_ns(1_001), 5_000_016);
    }

    #[test]
    fn a_day_of_a_fast_counter_is_exact_to_the_nanosecond() {
        let day = 86_400;
        let rate = 2_712_345_678;
        let clock = Clock::new(&clocks(rate, &[sample(0, 0)])).unwrap();
        assert!(clock.to_ns(rate * day).abs_diff(day * 1_000_000_000) <= 1);
    }

    #[test]
    fn samples_correct_the_nominal_rate_between_them() {
        // 1 GHz nominal, really 1 % slower.
        let s = [
            sample(0, 0),
            sample(990_000_000, 1_000_000_000),
            sample(1_980_000_000, 2_000_000_000),
        ];
        let clock = Clock::new(&clocks(1_000_000_000, &s)).unwrap();
        assert!(clock.to_ns(495_000_000).abs_diff(500_000_000) <= 1);
        assert!(clock.to_ns(1_485_000_000).abs_diff(1_500_000_000) <= 1);
        assert_eq!(clock.to_ns(1_980_000_100), 2_000_000_100);
    }

    #[test]
    fn time_never_runs_backwards_where_the_rate_changes() {
        let s = [
            sample(500, 1_000_000),
            sample(200_000_500, 301_000_000),
            sample(400_000_500, 401_000_000),
        ];
        let clock = Clock::new(&clocks(1_000_000_000, &s)).unwrap();
        let mut converter = clock.converter();
        for edge in [500_u64, 200_000_500, 400_000_500] {
            let times: Vec<u64> = (edge - 5..edge + 5)
                .rev()
                .map(|t| converter.ns_at(t))
                .collect();
            assert!(
                times.is_sorted_by(|later, earlier| later >= earlier),
                "{edge}: {times:?}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Clock::new(&clocks(0, &[sample(1, 1)])).is_err());
        assert!(Clock::new(&clocks(u64::MAX, &[sample(1, 1)])).is_err());
        assert!(Clock::new(&clocks(1_000_000_000, &[])).is_err());
    }

    #[test]
    fn samples_that_go_backwards_are_passed_over() {
        let s = [sample(9_000_000_000, 9_000_000_000), sample(500, 1_000)];
        let clock = Clock::new(&clocks(1_000_000_000, &s)).unwrap();
        assert_eq!(clock.to_ns(600), 1_100);
    }
}
