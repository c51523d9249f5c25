// SPDX-License-Identifier: Apache-2.0
//! How often the program may trigger a snapshot.

use std::time::Duration;

/// Snapshots that may follow each other at once, after a quiet time.
pub(crate) const BURST: u32 = 8;

/// Admits snapshots at an average distance of an interval, and up to [`BURST`] of them at once. The clock is the
/// caller's, in ns.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// ns; `None`: no limit.
    interval: Option<u64>,
    /// When all admitted so far would have ended if they had been an interval apart.
    used_until: u64,
}

impl Rate {
    /// `recent` snapshots were written within the last [`BURST`] intervals, by this process or earlier ones.
    pub(crate) fn new(interval: Option<Duration>, recent: usize, now_ns: u64) -> Self {
        let interval = interval.map(|i| u64::try_from(i.as_nanos()).unwrap_or(u64::MAX));
        let recent = u64::try_from(recent).unwrap_or(u64::MAX).min(BURST.into());
        let used = interval.unwrap_or(0).saturating_mul(recent);
        Rate {
            interval,
            used_until: now_ns.saturating_add(used),
        }
    }

    /// Admits a snapshot now.
    ///
    /// # Errors
    /// The time until the next one is admitted.
    pub(crate) fn admit(&mut self, now_ns: u64) -> Result<(), Duration> {
        let Some(interval) = self.interval else {
            return Ok(());
        };
        let used_until = self.used_until.max(now_ns).saturating_add(interval);
        let limit = now_ns.saturating_add(interval.saturating_mul(BURST.into()));
        if used_until > limit {
            return Err(Duration::from_nanos(used_until - limit));
        }
        self.used_until = used_until;
        Ok(())
    }

    /// The snapshot admitted last was not written: another one may take its place.
    pub(crate) fn give_back(&mut self) {
        self.used_until = (self.used_until).saturating_sub(self.interval.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const MINUTE_NS: u64 = 60_000_000_000;

    #[test]
    fn a_burst_is_admitted_and_then_one_an_interval() {
        let mut rate = Rate::new(Some(MINUTE), 0, 0);
        for _ in 0..BURST {
            assert_eq!(rate.admit(0), Ok(()));
        }
        assert_eq!(rate.admit(0), Err(MINUTE));
        assert_eq!(rate.admit(MINUTE_NS - 1), Err(Duration::from_nanos(1)));
        assert_eq!(rate.admit(MINUTE_NS), Ok(()));
        assert_eq!(rate.admit(MINUTE_NS), Err(MINUTE));
        let later = 100 * MINUTE_NS;
        let admitted = (0..100).filter(|_| rate.admit(later).is_ok()).count();
        assert_eq!(admitted, BURST as usize);
    }

    #[test]
    fn one_that_was_not_written_does_not_count() {
        let mut rate = Rate::new(Some(MINUTE), 0, 0);
        for now in 0..100 {
            assert_eq!(rate.admit(now), Ok(()));
            rate.give_back();
        }
        let admitted = (0..100).filter(|_| rate.admit(100).is_ok()).count();
        assert_eq!(admitted, BURST as usize);
    }

    #[test]
    fn snapshots_of_earlier_processes_count() {
        let mut rate = Rate::new(Some(MINUTE), 6, 0);
        assert_eq!((0..100).filter(|_| rate.admit(0).is_ok()).count(), 2);
        let mut rate = Rate::new(Some(MINUTE), 1000, 0);
        assert_eq!(rate.admit(0), Err(MINUTE));
    }

    #[test]
    fn without_an_interval_all_are_admitted() {
        let mut rate = Rate::new(None, 1000, 0);
        assert!((0..1000).all(|_| rate.admit(0).is_ok()));
    }
}
