// SPDX-License-Identifier: Apache-2.0
//! How old reports are, although the clock jumps. Pure.

use serde::Deserialize;

use crate::engine::Now;

const NS: u64 = 1_000_000_000;

/// Counts the seconds that the store has existed.
///
/// The time since 1970 cannot be trusted: it is wrong until the device has found the network, and users set it. While the device
/// runs, the time since boot counts. The time that it was switched off is only known by the clock; of each such time at most a
/// share counts ([`AgeClock::most_off_s`]), so that no jump of the clock removes a report that is younger than three quarters of
/// the age limit. The price: a device that was switched off for longer keeps its reports longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct AgeClock {
    /// Seconds counted so far.
    pub(super) elapsed_s: u64,
    /// When they were counted: the boot, and both clocks.
    boot_id: String,
    boottime_s: u64,
    realtime_s: u64,
    /// Written by a service that keeps the revision of signed policies. Older ones have taken none.
    #[serde(default)]
    pub(super) keeps_revision: bool,
}

impl AgeClock {
    /// The most seconds that count for a time during which the device was off.
    fn most_off_s(age_limit_s: u64) -> u64 {
        age_limit_s / 4
    }

    /// Whether it was advanced last in this boot.
    pub(super) fn is_of(&self, boot_id: &str) -> bool {
        self.boot_id == boot_id
    }

    /// Counts up to now. `known_s`: the store is at least so old.
    pub(super) fn advance(&mut self, boot_id: &str, now: Now, age_limit_s: u64, known_s: u64) {
        let boottime_s = now.boottime_ns / NS;
        let realtime_s = now.realtime_ns / NS;
        let passed = if self.boot_id == boot_id {
            boottime_s.saturating_sub(self.boottime_s)
        } else if self.boot_id.is_empty() {
            0
        } else {
            let by_clock = realtime_s.saturating_sub(self.realtime_s);
            boottime_s.max(by_clock.min(Self::most_off_s(age_limit_s)))
        };
        self.elapsed_s = self.elapsed_s.saturating_add(passed).max(known_s);
        boot_id.clone_into(&mut self.boot_id);
        self.keeps_revision = true;
        (self.boottime_s, self.realtime_s) = (boottime_s, realtime_s);
    }

    pub(super) fn to_toml(&self) -> String {
        format!(
            "elapsed_s = {}\nboot_id = {}\nboottime_s = {}\nrealtime_s = {}\nkeeps_revision = {}\n",
            self.elapsed_s,
            crate::text::quoted(&self.boot_id),
            self.boottime_s,
            self.realtime_s,
            self.keeps_revision
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const LIMIT: u64 = 8 * DAY;

    fn now(boottime_s: u64, realtime_s: u64) -> Now {
        Now {
            boottime_ns: boottime_s * NS,
            realtime_ns: realtime_s * NS,
        }
    }

    #[test]
    fn jumps_of_the_clock_change_nothing_while_the_device_runs() {
        let mut clock = AgeClock::default();
        clock.advance("a", now(100, 1000), LIMIT, 0);
        assert_eq!(clock.elapsed_s, 0);
        clock.advance("a", now(160, 2_000_000_000), LIMIT, 0);
        clock.advance("a", now(170, 0), LIMIT, 0);
        assert_eq!(clock.elapsed_s, 70);
    }

    #[test]
    fn while_it_was_off_the_clock_counts_within_limits() {
        for (realtime_s, expected) in [
            (1000 + DAY, DAY),
            (1000 + 3 * DAY, 2 * DAY),
            (u64::MAX / NS, 2 * DAY),
            // It went back: at least the time since boot.
            (0, 50),
        ] {
            let mut clock = AgeClock::default();
            clock.advance("a", now(100, 1000), LIMIT, 0);
            clock.advance("b", now(50, realtime_s), LIMIT, 0);
            assert_eq!(clock.elapsed_s, expected);
        }
    }

    #[test]
    fn it_never_falls_behind_what_reports_say_and_survives_as_text() {
        let mut clock = AgeClock::default();
        clock.advance("a\"", now(100, 1000), LIMIT, 500);
        assert_eq!(clock.elapsed_s, 500);
        let read: AgeClock = toml::from_str(&clock.to_toml()).unwrap();
        assert_eq!(read, clock);
    }
}
