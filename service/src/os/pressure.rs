// SPDX-License-Identifier: Apache-2.0
//! Shortage of memory, by the kernel's own measure (`/proc/pressure/memory`).

use std::fs::File;
use std::io::{self, Read, Seek, Write};
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
    some: Trigger,
    full: Trigger,
}

impl PressureTriggers {
    /// 10 % and 5 % of 2 s. Programs without privileges may only use multiples of 2 s.
    pub(super) fn open() -> io::Result<Self> {
        Ok(PressureTriggers {
            some: Trigger::open("some", 200_000)?,
            full: Trigger::open("full", 100_000)?,
        })
    }

    /// The descriptor for a kind of stall.
    pub fn descriptor(&self, stall: Stall) -> BorrowedFd<'_> {
        match stall {
            Stall::Some => self.some.file.as_fd(),
            Stall::Full => self.full.file.as_fd(),
        }
    }

    /// Whether memory is short, now that the kernel says so by this descriptor.
    pub fn is_short(&mut self, stall: Stall) -> bool {
        let trigger = match stall {
            Stall::Some => &mut self.some,
            Stall::Full => &mut self.full,
        };
        let total_us = trigger.total_us();
        trigger.first.is_short(total_us)
    }
}

/// One trigger of the kernel, which holds as long as its file is open.
#[derive(Debug)]
struct Trigger {
    file: File,
    /// The first word of its line in the file.
    kind: &'static str,
    first: FirstEvent,
}

impl Trigger {
    fn open(kind: &'static str, limit_us: u64) -> io::Result<Self> {
        let mut options = File::options();
        let options = options.read(true).write(true);
        let mut file = options.open("/proc/pressure/memory")?;
        // The kernel wants the whole trigger by one write, with the 0 at its end.
        let trigger = format!("{kind} {limit_us} 2000000\0");
        file.write_all(trigger.as_bytes())?;
        let mut trigger = Trigger {
            file,
            kind,
            first: FirstEvent::default(),
        };
        trigger.first = FirstEvent::expected(trigger.total_us(), limit_us);
        Ok(trigger)
    }

    /// How long work of this kind has waited for memory since the system's start, µs.
    fn total_us(&mut self) -> Option<u64> {
        self.file.rewind().ok()?;
        let mut text = String::new();
        let mut file = (&self.file).take(super::facts::MAX_BYTES);
        file.read_to_string(&mut text).ok()?;
        super::facts::total_us(&text, self.kind)
    }
}

/// The first event of a trigger may be wrong.
///
/// A process without `CAP_SYS_RESOURCE` is told of what happened before the trigger was opened: the kernel compares the total with
/// another one, which is 0 if nobody with that capability has a trigger (`psi_trigger_create` in `kernel/sched/psi.c`; seen with
/// Linux 6.18). So the first event counts only if work has waited since. If it came before the total that programs can read has
/// grown, the next one comes 2 s later.
#[derive(Debug, Default)]
enum FirstEvent {
    /// It has not come. It counts if the total is this or more, µs.
    Expected { total_us: u64 },
    /// It has come, or nothing is known of the total: all events count.
    #[default]
    Passed,
}

impl FirstEvent {
    fn expected(total_us: Option<u64>, limit_us: u64) -> Self {
        // The kernel also counts part of the time before a window begins.
        let grown = |total: u64| total.saturating_add(limit_us / 2);
        total_us.map_or(FirstEvent::Passed, |total| FirstEvent::Expected {
            total_us: grown(total),
        })
    }

    fn is_short(&mut self, now_us: Option<u64>) -> bool {
        match (std::mem::take(self), now_us) {
            (FirstEvent::Expected { total_us }, Some(now_us)) => now_us >= total_us,
            _ => true,
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
    fn the_first_event_counts_only_if_work_has_waited_since_the_trigger_was_opened() {
        for (opened, now, expected) in [
            (Some(7_000_000), Some(7_000_000), false),
            (Some(7_000_000), Some(7_049_999), false),
            (Some(7_000_000), Some(7_050_000), true),
            (Some(7_000_000), None, true),
            (None, Some(7_000_000), true),
            (Some(u64::MAX), Some(0), false),
        ] {
            let mut first = FirstEvent::expected(opened, 100_000);
            assert_eq!(first.is_short(now), expected, "{opened:?}, {now:?}");
            assert!(first.is_short(opened), "a later event always counts");
        }
    }

    #[test]
    fn a_trigger_reads_the_total_of_its_kind() {
        let Ok(mut triggers) = PressureTriggers::open() else {
            println!("skipped: the kernel has no pressure triggers");
            return;
        };
        // Twice, as a file is read from its beginning each time.
        for _ in 0..2 {
            let text = std::fs::read_to_string("/proc/pressure/memory").unwrap();
            for trigger in [&mut triggers.some, &mut triggers.full] {
                let least = crate::os::facts::total_us(&text, trigger.kind).unwrap();
                let total = trigger.total_us().unwrap();
                assert!(total >= least, "{} {total} {least}", trigger.kind);
            }
        }
        assert!(matches!(triggers.full.first, FirstEvent::Expected { .. }));
    }

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
