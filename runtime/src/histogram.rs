// SPDX-License-Identifier: Apache-2.0
//! A histogram of times in fixed memory.

use std::time::Duration;

/// Buckets for each power of two; a percentile is too large by at most 1/8.
const STEPS: usize = 8;

/// Counts values: below 8 exactly, larger ones in buckets of 1/8 of a power of two.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: [u64; 62 * STEPS],
    count: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: [0; 62 * STEPS],
            count: 0,
            max: 0,
        }
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = value.ilog2() as usize;
    let step = (value >> (power - 3)) as usize - STEPS;
    (power - 2) * STEPS + step
}

/// The largest value in a bucket.
fn top(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (power, step) = (bucket / STEPS + 2, bucket % STEPS);
    let width = 1_u64 << (power - 3);
    ((STEPS + step) as u64 * width).saturating_add(width - 1)
}

impl Histogram {
    /// Counts a value.
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Counts a time, in ns.
    pub(crate) fn add_time(&mut self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The largest value; 0 if there is none.
    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The p-th percentile, rounded up to its bucket's limit (error ≤ 12.5 %); 0 if there is no value.
    pub(crate) fn percentile(&self, percent: u32) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(percent)).div_ceil(100) as u64;
        let mut seen = 0;
        for (i, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return top(i).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_whose_top_is_near() {
        let values = (0..64).flat_map(|power| {
            let p = 1_u64 << power;
            [p - 1, p, p | p >> 1, p | p >> 3, p | (p - 1)]
        });
        for value in values {
            let top = top(bucket(value));
            assert!(top >= value && top - value <= value / 8, "{value}: {top}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut h = Histogram::default();
        assert_eq!((h.count(), h.percentile(50), h.max()), (0, 0, 0));
        for value in 1..=1000 {
            h.add(value);
        }
        assert_eq!((h.count(), h.max()), (1000, 1000));
        assert!(
            (500..563).contains(&h.percentile(50)),
            "{}",
            h.percentile(50)
        );
        assert!((990..=1000).contains(&h.percentile(99)));
        assert_eq!(h.percentile(100), 1000);
        h.add(u64::MAX);
        assert_eq!(h.percentile(100), u64::MAX);
    }
}
