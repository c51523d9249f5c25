// SPDX-License-Identifier: Apache-2.0
//! How long to wait after failures.

use std::time::Duration;

/// The longest wait.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

/// Waits that double with each failure in a row. A part of each is left to chance, so that the devices of a fleet do not come back
/// to their collector at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    failures: u32,
}

impl Backoff {
    /// Begins with this wait.
    pub const fn new(first: Duration) -> Self {
        Backoff { first, failures: 0 }
    }

    /// The next failure is a first one.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// How long to wait after one more failure: from half of the doubled wait to all of it.
    pub fn failed(&mut self, random: u32) -> Duration {
        let factor = 1_u32 << self.failures.min(20);
        self.failures = self.failures.saturating_add(1);
        let whole = self.first.saturating_mul(factor).min(LONGEST);
        let half = whole / 2;
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let first = Duration::from_secs(60);
        let mut backoff = Backoff::new(first);
        let waits: Vec<u64> = (0..12)
            .map(|_| backoff.failed(u32::MAX).as_secs())
            .collect();
        assert_eq!(waits[..4], [60, 120, 240, 480]);
        assert_eq!(waits[11], LONGEST.as_secs());
        for _ in 0..100 {
            assert!(backoff.failed(0) >= LONGEST / 2);
        }
        backoff.succeeded();
        assert_eq!(backoff.failed(0), first / 2);
    }
}
