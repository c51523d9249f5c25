// SPDX-License-Identifier: Apache-2.0
//! Shortage of memory, by the kernel's own measure (`/proc/pressure/memory`).

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};

use crate::engine::Pressure;

/// Which part of the work waits for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Some of it.
    Some,
    /// All of it.
    Full,
}

/// Two descriptors of the kernel: each becomes exceptional when work has waited for memory for longer than its limit, at most
/// once in 2 s.
#[derive(Debug)]
pub struct PressureTriggers {
    some: File,
    full: File,
}

impl PressureTriggers {
    /// 10 % and 5 % of 2 s. Programs without privileges may only use multiples of 2 s.
    pub(super) fn open() -> Option<Self> {
        let open = |trigger: &str| {
            let mut options = File::options();
            let options = options.read(true).write(true);
            let mut file = options.open("/proc/pressure/memory").ok()?;
            // The kernel wants the whole trigger by one write, with the 0 at its end.
            file.write_all(trigger.as_bytes()).ok()?;
            Some(file)
        };
        Some(PressureTriggers {
            some: open("some 200000 2000000\0")?,
            full: open("full 100000 2000000\0")?,
        })
    }

    /// The descriptor for a kind of stall.
    pub fn descriptor(&self, stall: Stall) -> BorrowedFd<'_> {
        match stall {
            Stall::Some => self.some.as_fd(),
            Stall::Full => self.full.as_fd(),
        }
    }
}

/// How short memory is, from triggers that only say that it was short just now.
#[derive(Debug, Default)]
pub struct PressureLevel {
    level: Pressure,
    /// When each level ends if its trigger does not come again, `CLOCK_BOOTTIME`, ns.
    some_until: u64,
    full_until: u64,
}

impl PressureLevel {
    /// The level lasts so long after its last trigger: several times the time between two triggers.
    const LASTS_NS: u64 = 10_000_000_000;

    /// A trigger has come. Returns the level, if it changed.
    pub fn stalled(&mut self, stall: Stall, boottime_ns: u64) -> Option<Pressure> {
        let until = boottime_ns.saturating_add(Self::LASTS_NS);
        match stall {
            Stall::Some => self.some_until = until,
            Stall::Full => self.full_until = until,
        }
        self.update(boottime_ns)
    }

    /// The level now, if it changed.
    pub fn update(&mut self, boottime_ns: u64) -> Option<Pressure> {
        let level = if boottime_ns < self.full_until {
            Pressure::Full
        } else if boottime_ns < self.some_until {
            Pressure::Some
        } else {
            Pressure::None
        };
        (std::mem::replace(&mut self.level, level) != level).then_some(level)
    }

    /// When [`update`](Self::update) must be called, `CLOCK_BOOTTIME`, ns. `None`: memory is not short.
    pub fn wake_at(&self) -> Option<u64> {
        match self.level {
            Pressure::None => None,
            Pressure::Some => Some(self.some_until),
            Pressure::Full => Some(self.full_until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_level_ends_when_its_trigger_has_not_come_for_some_time() {
        let mut level = PressureLevel::default();
        assert_eq!((level.update(5 * S), level.wake_at()), (None, None));
        assert_eq!(level.stalled(Stall::Some, 10 * S), Some(Pressure::Some));
        assert_eq!(level.stalled(Stall::Some, 12 * S), None);
        assert_eq!(level.stalled(Stall::Full, 13 * S), Some(Pressure::Full));
        assert_eq!(level.stalled(Stall::Some, 14 * S), None);
        assert_eq!(level.wake_at(), Some(23 * S));
        assert_eq!(level.update(23 * S - 1), None);
        assert_eq!(level.update(23 * S), Some(Pressure::Some));
        assert_eq!(level.wake_at(), Some(24 * S));
        assert_eq!(level.update(24 * S), Some(Pressure::None));
        assert_eq!(level.wake_at(), None);
    }
}
