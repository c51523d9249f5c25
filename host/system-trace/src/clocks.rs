// SPDX-License-Identifier: Apache-2.0
//! From the clock of the kernel's events to CLOCK_BOOTTIME.

use crate::error::Error;
use crate::schema::{Bundle, ClockSnapshot};

/// Numbers of clocks in Perfetto.
const REALTIME: u32 = 1;
const MONOTONIC_RAW: u32 = 5;
const BOOTTIME: u32 = 6;
/// Numbers of the kernel's clocks in Perfetto; 0 is CLOCK_BOOTTIME.
const FTRACE_MONOTONIC_RAW: i32 = 4;

/// What the trace says about its clocks.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// The time of day when CLOCK_BOOTTIME was 0, ns: by the first snapshot.
    pub(crate) boot_ns: Option<u64>,
    /// CLOCK_BOOTTIME less CLOCK_MONOTONIC_RAW, ns, by the last snapshot.
    raw: Option<i64>,
    /// Events whose clock could not be related to CLOCK_BOOTTIME: its name.
    pub(crate) unrelated: Option<&'static str>,
}

impl Clocks {
    pub(crate) fn snapshot(&mut self, snapshot: &ClockSnapshot) {
        let reading = |id: u32| {
            let mut clocks = snapshot.clocks.iter();
            clocks
                .find(|c| c.clock_id == Some(id))
                .and_then(|c| c.timestamp)
        };
        let Some(boottime) = reading(BOOTTIME) else {
            return;
        };
        if let Some(realtime) = reading(REALTIME).filter(|&t| t != 0) {
            self.boot_ns
                .get_or_insert(realtime.saturating_sub(boottime));
        }
        if let Some(raw) = reading(MONOTONIC_RAW).filter(|&t| t != 0) {
            self.raw = Some(boottime.wrapping_sub(raw) as i64);
        }
    }

    /// What is to be added to the times of a bundle to get CLOCK_BOOTTIME, ns; `None` if that is not known.
    pub(crate) fn offset(&mut self, bundle: &Bundle) -> Option<i64> {
        let clock = bundle.ftrace_clock.unwrap_or(0);
        if clock == 0 {
            return Some(0);
        }
        let pair = bundle.boot_timestamp.zip(bundle.ftrace_timestamp);
        let offset = pair
            .filter(|&(boot, own)| boot != 0 && own != 0)
            .map(|(boot, own)| boot.wrapping_sub(own))
            .or_else(|| self.raw.filter(|_| clock == FTRACE_MONOTONIC_RAW));
        if offset.is_none() {
            self.unrelated = Some(match clock {
                2 => "global",
                3 => "local",
                FTRACE_MONOTONIC_RAW => "mono_raw",
                _ => "of an unknown name",
            });
        }
        offset
    }

    /// The time of day when CLOCK_BOOTTIME was 0, ns.
    pub(crate) fn boot(&self) -> Result<u64, Error> {
        self.boot_ns.ok_or(Error::NoSnapshot)
    }
}
