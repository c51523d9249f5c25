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
        trigger.growth.is_short(total_us)
    }
}

/// One trigger of the kernel, which holds as long as its file is open.
#[derive(Debug)]
struct Trigger {
    file: File,
    /// The first word of its line in the file.
    kind: &'static str,
    growth: Growth,
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
            growth: Growth::default(),
        };
        trigger.growth = Growth::since(trigger.total_us(), limit_us);
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

/// Events that nothing has happened for.
///
/// A process without `CAP_SYS_RESOURCE` is told of what happened before the trigger was opened: the kernel compares the total with
/// another one, which is 0 if nobody with that capability has a trigger, and the difference counts in its first two windows
/// (`psi_trigger_create` and `window_update` in `kernel/sched/psi.c`; seen with Linux 6.18). So an event counts only if work has
/// waited since the trigger was opened, or since the event before. If it came before the total that programs can read has grown,
/// the next one comes 2 s later.
#[derive(Debug, Default)]
struct Growth {
    /// Half of the trigger's limit, us: the kernel also counts part of the time before a window begins.
    least_us: u64,
    /// The total at that time, us; `None`: not known, and all events count.
    total_us: Option<u64>,
}

impl Growth {
    fn since(total_us: Option<u64>, limit_us: u64) -> Self {
        Growth {
            least_us: limit_us / 2,
            total_us,
        }
    }

    fn is_short(&mut self, now_us: Option<u64>) -> bool {
        let (Some(then), Some(now)) = (self.total_us, now_us) else {
            return true;
        };
        let is_short = now.saturating_sub(then) >= self.least_us;
        if is_short {
            self.total_us = now_us;
        }
        is_short
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
    fn an_event_counts_only_if_work_has_waited_since_the_one_before() {
        let totals = |totals: &[Option<u64>]| -> Vec<bool> {
            let mut growth = Growth::since(totals[0], 100_000);
            totals[1..].iter().map(|t| growth.is_short(*t)).collect()
        };
        let known = |all: &[u64]| totals(&all.iter().map(|t| Some(*t)).collect::<Vec<_>>());
        // As the kernel's first two events are.
        assert_eq!(known(&[7_000_000, 7_000_000, 7_002_000]), [false, false]);
        assert_eq!(known(&[7_000_000, 7_049_999, 7_050_000]), [false, true]);
        assert_eq!(
            known(&[0, 50_000, 60_000, 99_999, 100_000, 300_000]),
            [true, false, false, true, true]
        );
        assert_eq!(known(&[7, 0]), [false]);
        assert_eq!(totals(&[None, Some(0), Some(0)]), [true, true]);
        assert_eq!(totals(&[Some(0), None, Some(0)]), [true, false]);
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
        assert!(triggers.full.growth.total_us.is_some());
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
