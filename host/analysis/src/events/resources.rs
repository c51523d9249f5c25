// SPDX-License-Identifier: Apache-2.0
//! What a thread used in a stretch of its time: differences between the readings of its counters.

use hindsight_decoder::{Extension, Thread};
use serde::Serialize;

/// A reading follows the event that it belongs to within this time, ns.
const SLACK_NS: u64 = 100_000;
/// Readings describe a stretch of time if they cover this part of it.
const COVERED: f64 = 0.9;
/// The least time between two readings of a thread, ns: what happens in less is not known.
const INTERVAL_NS: u64 = 1_000_000;

/// What a thread used, between two readings of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Used {
    /// The time between the readings, ns.
    pub covered_ns: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Objects that it allocated.
    pub objects: u64,
    /// Their size, bytes.
    pub bytes: u64,
    /// Page faults without a disk access.
    pub minor_faults: u64,
    /// Page faults with a disk access.
    pub major_faults: u64,
    /// How often it gave up the processor, for instance to wait.
    pub voluntary_switches: u64,
    /// How often the processor was taken from it.
    pub involuntary_switches: u64,
}

impl Used {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Used) -> Used {
        Used {
            covered_ns: self.covered_ns.saturating_add(other.covered_ns),
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            objects: self.objects.saturating_add(other.objects),
            bytes: self.bytes.saturating_add(other.bytes),
            minor_faults: self.minor_faults.saturating_add(other.minor_faults),
            major_faults: self.major_faults.saturating_add(other.major_faults),
            voluntary_switches: self
                .voluntary_switches
                .saturating_add(other.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_add(other.involuntary_switches),
        }
    }
}

/// The values of a thread's counters at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at_ns: u64,
    cpu_ns: u64,
    allocated: [u64; 2],
    /// Faults and switches.
    used: [u64; 4],
}

/// The readings of a thread's counters.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    /// In the order of time.
    readings: Vec<Reading>,
}

impl Resources {
    /// The readings that the thread recorded.
    pub fn of(thread: &Thread) -> Self {
        let mut readings: Vec<Reading> = Vec::new();
        for event in &thread.events {
            let [first, second, ..] = event.payload;
            match event.kind {
                // Each reading begins with it. Counters that have not changed since are left out.
                Extension::ThreadCpuTime => readings.push(Reading {
                    at_ns: event.at_ns,
                    cpu_ns: first,
                    ..readings.last().copied().unwrap_or_default()
                }),
                Extension::Allocations => {
                    if let Some(reading) = readings.last_mut() {
                        reading.allocated = [first, second];
                    }
                }
                Extension::ResourceUse => {
                    if let Some(reading) = readings.last_mut() {
                        reading.used = event.payload;
                    }
                }
                _ => {}
            }
        }
        Resources { readings }
    }

    /// Whether there is no reading.
    pub fn is_empty(&self) -> bool {
        self.readings.is_empty()
    }

    /// The index of the reading that tells what had been used at this time. A reading is skipped if another one was made less
    /// than a millisecond before: then that one counts, if it changes little in a stretch of time of this length.
    fn first(&self, start_ns: u64, length: u64) -> usize {
        let next = self.readings.partition_point(|r| r.at_ns < start_ns);
        let follows = (self.readings.get(next)).is_some_and(|r| r.at_ns - start_ns <= SLACK_NS);
        let before = next.checked_sub(1).filter(|_| !follows);
        let nearest = before.filter(|&i| {
            let distance = start_ns - self.readings[i].at_ns;
            distance < INTERVAL_NS && distance as f64 <= length as f64 * (1.0 - COVERED)
        });
        nearest.unwrap_or(next)
    }

    /// What the thread used from `start_ns` to `end_ns` (CLOCK_BOOTTIME). `None` if no two readings cover nearly all of
    /// that time.
    pub fn used(&self, start_ns: u64, end_ns: u64) -> Option<Used> {
        let length = end_ns.checked_sub(start_ns)?;
        if length < INTERVAL_NS {
            return None;
        }
        let first = self.first(start_ns, length);
        let after = self
            .readings
            .partition_point(|r| r.at_ns <= end_ns.saturating_add(SLACK_NS));
        let [a, .., b] = self.readings.get(first..after)? else {
            return None;
        };
        let covered_ns = b.at_ns - a.at_ns;
        if (covered_ns as f64) < length as f64 * COVERED {
            return None;
        }
        let allocated = |i: usize| b.allocated[i].saturating_sub(a.allocated[i]);
        let used = |i: usize| b.used[i].saturating_sub(a.used[i]);
        Some(Used {
            covered_ns,
            cpu_ns: b.cpu_ns.saturating_sub(a.cpu_ns),
            objects: allocated(0),
            bytes: allocated(1),
            minor_faults: used(0),
            major_faults: used(1),
            voluntary_switches: used(2),
            involuntary_switches: used(3),
        })
    }

    /// The last reading before `start_ns` and the first one after `end_ns` (CLOCK_BOOTTIME), and the CPU time in between, ns.
    pub fn around(&self, start_ns: u64, end_ns: u64) -> Option<((u64, u64), u64)> {
        let before = self.readings.partition_point(|r| r.at_ns <= start_ns);
        let after = self.readings.partition_point(|r| r.at_ns < end_ns);
        let a = self.readings.get(before.checked_sub(1)?)?;
        let b = self.readings.get(after)?;
        Some(((a.at_ns, b.at_ns), b.cpu_ns.saturating_sub(a.cpu_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::{Script, EPOCH};

    #[test]
    fn two_readings_tell_what_was_used_between_them() {
        const MS: u64 = 1_000_000;
        let mut s = Script::new("p");
        let t = s.events_thread(1, "t", 1);
        s.at(t, 10 * MS)
            .extension(Extension::ThreadCpuTime, &[100])
            .extension(Extension::Allocations, &[5, 50])
            .extension(Extension::ResourceUse, &[1, 2, 3, 4])
            .at(20 * MS)
            .extension(Extension::ThreadCpuTime, &[150])
            .extension(Extension::ResourceUse, &[2, 2, 9, 4])
            .at(30 * MS)
            .extension(Extension::ThreadCpuTime, &[190])
            .extension(Extension::Allocations, &[8, 90]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let resources = Resources::of(&trace.threads[0]);
        let used = |from, to| resources.used(EPOCH + from, EPOCH + to);
        let first = used(10 * MS, 20 * MS).unwrap();
        assert_eq!((first.cpu_ns, first.objects, first.bytes), (50, 0, 0));
        assert_eq!((first.minor_faults, first.voluntary_switches), (1, 6));
        let both = used(10 * MS - 10, 30 * MS - 20).unwrap();
        assert_eq!((both.cpu_ns, both.objects, both.bytes), (90, 3, 40));
        // The reading at the start was skipped: the one before it is near enough for a long stretch of time.
        let late = used(10 * MS + 900_000, 20 * MS).unwrap();
        assert_eq!((late.cpu_ns, late.covered_ns), (50, 10 * MS));
        assert_eq!(used(18 * MS + 900_000, 20 * MS), None);
        // One reading, or two that leave out much of the time, do not tell.
        assert_eq!(used(10 * MS, 19 * MS), None);
        assert_eq!(used(5 * MS, 20 * MS), None);
        assert_eq!(used(40 * MS, 50 * MS), None);
        assert_eq!(used(20 * MS, 10 * MS), None);
        // The readings around a stretch of time, however far away.
        let around = |from, to| resources.around(EPOCH + from, EPOCH + to);
        let at = |from, to| (EPOCH + from, EPOCH + to);
        assert_eq!(around(12 * MS, 13 * MS), Some((at(10 * MS, 20 * MS), 50)));
        assert_eq!(around(12 * MS, 21 * MS), Some((at(10 * MS, 30 * MS), 90)));
        assert_eq!(around(9 * MS, 13 * MS), None);
        assert_eq!(around(12 * MS, 31 * MS), None);
    }
}
