// SPDX-License-Identifier: Apache-2.0
//! What a thread has used: CPU time, allocations, page faults, context switches.

use hindsight_trace_format::slot::Extension;

use crate::sync::{AtomicU64, Ordering};

/// The least time between two readings of a thread, ns: each reading is two system calls.
const INTERVAL_NS: u64 = 1_000_000;

/// `RUSAGE_THREAD` of Linux's <sys/resource.h>: the crate `libc` has no such constant for Android.
const RUSAGE_THREAD: libc::c_int = 1;

/// The last reading of a thread. Only the thread itself uses it.
#[derive(Default)]
pub(crate) struct Resources {
    /// CLOCK_MONOTONIC, ns.
    read_at: AtomicU64,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Resources {
    /// Reads what the calling thread has used, and passes it to `record` as events, unless the last reading was less than a
    /// millisecond ago. `objects` and `bytes` are what it has allocated so far.
    pub(crate) fn read(&self, objects: u64, bytes: u64, mut record: impl FnMut(Extension, &[u64])) {
        let now = clock_ns(libc::CLOCK_MONOTONIC);
        let last = self.read_at.load(Ordering::Relaxed);
        if last != 0 && now.saturating_sub(last) < INTERVAL_NS {
            return;
        }
        self.read_at.store(now, Ordering::Relaxed);
        record(
            Extension::ThreadCpuTime,
            &[clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)],
        );
        let before = [&self.objects, &self.bytes].map(|n| n.load(Ordering::Relaxed));
        if before != [objects, bytes] {
            self.objects.store(objects, Ordering::Relaxed);
            self.bytes.store(bytes, Ordering::Relaxed);
            record(Extension::Allocations, &[objects, bytes]);
        }
        if let Some(used) = usage() {
            record(Extension::ResourceUse, &used);
        }
    }
}

/// The time of a clock, ns; 0 if it cannot be read.
fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Minor faults, major faults, voluntary and involuntary context switches of the calling thread.
fn usage() -> Option<[u64; 4]> {
    // SAFETY: all-zero bytes are a valid value of this plain C structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is valid for writing.
    let done = unsafe { libc::getrusage(RUSAGE_THREAD, &mut usage) } == 0;
    let count = |n: libc::c_long| u64::try_from(n).unwrap_or(0);
    done.then(|| {
        [
            count(usage.ru_minflt),
            count(usage.ru_majflt),
            count(usage.ru_nvcsw),
            count(usage.ru_nivcsw),
        ]
    })
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;

    fn read(resources: &Resources, objects: u64) -> Vec<(Extension, Vec<u64>)> {
        let mut events = Vec::new();
        resources.read(objects, 8 * objects, |kind, payload| {
            events.push((kind, payload.to_vec()));
        });
        events
    }

    #[test]
    fn readings_are_at_least_a_millisecond_apart() {
        let resources = Resources::default();
        let first = read(&resources, 1);
        assert_eq!(
            first.iter().map(|e| e.0).collect::<Vec<_>>(),
            [
                Extension::ThreadCpuTime,
                Extension::Allocations,
                Extension::ResourceUse
            ]
        );
        assert_eq!(first[1].1, [1, 8]);
        // As if the first reading were now, whatever the time is.
        let in_a_day = clock_ns(libc::CLOCK_MONOTONIC) + 86_400_000_000_000;
        resources.read_at.store(in_a_day, Ordering::Relaxed);
        assert_eq!(read(&resources, 2), []);
        resources.read_at.store(1, Ordering::Relaxed);
        let later = read(&resources, 1);
        assert_eq!(later.len(), 2, "nothing was allocated: {later:?}");
        assert!(later[0].1 >= first[0].1 && later[1].1 >= first[2].1);
    }
}
