// SPDX-License-Identifier: Apache-2.0
//! The device is hot.

use crate::policy::Rule;

const SECOND_NS: u64 = 1_000_000_000;

/// What is known of the temperature.
#[derive(Debug, Default)]
pub(super) struct Thermal {
    /// Since when it is over the limit, ns.
    since: Option<u64>,
    /// No report until then, ns.
    quiet_until: u64,
}

impl Thermal {
    /// Nobody knows whether it is still hot.
    pub(super) fn interrupt(&mut self) {
        self.since = None;
    }

    /// The reason for a report, if there is one. Without a temperature there is none.
    pub(super) fn look(
        &mut self,
        rule: &Rule,
        now_ns: u64,
        millicelsius: Option<i64>,
    ) -> Option<String> {
        let [celsius, seconds, quiet] = rule.numbers[..] else {
            return None;
        };
        let limit = i64::try_from(celsius)
            .unwrap_or(i64::MAX)
            .saturating_mul(1000);
        let Some(hot) = millicelsius.filter(|measured| *measured > limit) else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert(now_ns);
        let is_long = now_ns.saturating_sub(since) >= seconds * SECOND_NS;
        if !is_long || now_ns < self.quiet_until {
            return None;
        }
        self.quiet_until = now_ns.saturating_add(quiet * SECOND_NS);
        Some(format!(
            "the device has {} °C, over {celsius} °C for {seconds} s",
            hot / 1000
        ))
    }
}
