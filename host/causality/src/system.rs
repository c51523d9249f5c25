// SPDX-License-Identifier: Apache-2.0
//! A system trace beside the recordings of processes: which of its threads are recorded, and which are in it only.

use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use hindsight_system_trace::{SystemThread, SystemTrace, Times};

use crate::clocks::SAME_BOOT_NS;

/// The most threads that are in the system trace only; more have no number in the session.
const MOST_THREADS: usize = 1 << 16;

/// Why a system trace cannot be joined with the recordings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// It is of another boot.
    #[error(
        "the system trace's clock is {:.3} s apart from that of the .hindsight files: it is of another boot, or the time of day \
         was set in between; record both at the same time",
        *apart_ns as f64 / 1e9
    )]
    OtherBoot {
        /// How far the clocks are apart, ns.
        apart_ns: u64,
    },
    /// No recording says when its device was booted.
    #[error("none of the files says the time of day, so that nothing tells whether the system trace is of the same boot")]
    NoClock,
    /// It was recorded at another time.
    #[error(
        "the system trace was recorded at another time than the .hindsight files, {:.3} s apart: record both at the same time, \
         with a ring buffer that is long enough (docs/causality.md)",
        *apart_ns as f64 / 1e9
    )]
    OtherTime {
        /// The time between them, ns.
        apart_ns: u64,
    },
}

/// A recording of a thread, for the join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded {
    /// Its number in the session.
    pub(crate) thread: u32,
    pub(crate) tid: u32,
    /// The id of its process; 0 if that is not known.
    pub(crate) pid: u32,
    /// CLOCK_BOOTTIME, ns.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// A process with threads that are in the system trace only.
#[derive(Debug)]
pub(crate) struct OutsideProcess {
    /// `None`: it is not recorded of which process they are.
    pub(crate) pid: Option<u32>,
    pub(crate) name: String,
    /// Numbers in the system trace.
    pub(crate) threads: Vec<u32>,
}

/// A system trace that is joined with the recordings of a session. Its threads have numbers of their own.
#[derive(Debug)]
pub struct System {
    file: PathBuf,
    trace: SystemTrace,
    /// By the session's number of a thread.
    number_of: Vec<Option<u32>>,
    /// By number in the system trace, the session's threads: more than one if the thread was recorded in several parts.
    threads_of: HashMap<u32, Vec<Recorded>>,
}

/// Why a system trace cannot be joined with recordings. `boot_ns` is the time of day when their device was booted, as far as it
/// is known.
pub(crate) fn refuse(
    trace: &SystemTrace,
    boot_ns: Option<u64>,
    recorded: &[Recorded],
) -> Option<SystemError> {
    let Some(boot_ns) = boot_ns else {
        return Some(SystemError::NoClock);
    };
    let apart_ns = boot_ns.abs_diff(trace.boot_ns());
    if apart_ns >= SAME_BOOT_NS {
        return Some(SystemError::OtherBoot { apart_ns });
    }
    let apart = recorded.iter().map(|r| {
        let after = r.start_ns.saturating_sub(trace.end_ns());
        after.max(trace.start_ns().saturating_sub(r.end_ns))
    });
    let apart_ns = apart.min().filter(|&ns| ns > 0)?;
    Some(SystemError::OtherTime { apart_ns })
}

impl System {
    /// Joins a system trace with recordings of threads.
    pub(crate) fn join(file: PathBuf, trace: SystemTrace, recorded: &[Recorded]) -> Self {
        let mut system = System {
            file,
            trace,
            number_of: Vec::new(),
            threads_of: HashMap::new(),
        };
        for own in recorded {
            if let Some(number) = system.find(own) {
                system.add(number, *own);
            }
        }
        system
    }

    /// The thread of the system trace that was recorded: it has the same id and process at the same time.
    fn find(&self, own: &Recorded) -> Option<u32> {
        let overlap = |t: &SystemThread| {
            let end_ns = t.last_ns.min(own.end_ns);
            end_ns.saturating_sub(t.first_ns.max(own.start_ns))
        };
        let threads = self.trace.with_tid(own.tid).iter();
        let with_process = threads.filter_map(|&n| {
            let thread = self.trace.thread(n)?;
            let is_same = own.pid == 0 || thread.pid.is_none_or(|pid| pid == own.pid);
            is_same.then(|| (overlap(thread), n))
        });
        with_process.max().map(|(_, number)| number)
    }

    /// Notes which number a thread of the session has in the system trace.
    pub(crate) fn add(&mut self, number: u32, own: Recorded) {
        let index = own.thread as usize;
        if self.number_of.len() <= index {
            self.number_of.resize(index + 1, None);
        }
        self.number_of[index] = Some(number);
        self.threads_of.entry(number).or_default().push(own);
    }

    /// The threads that no recording has, by process, in the order in which they were first seen.
    pub(crate) fn outside(&self) -> Vec<OutsideProcess> {
        let mut found: Vec<OutsideProcess> = Vec::new();
        let mut places: HashMap<Option<u32>, usize> = HashMap::new();
        let is_new = |(n, t): &(u32, &SystemThread)| t.tid != 0 && !self.threads_of.contains_key(n);
        for (number, thread) in self.trace.threads().filter(is_new).take(MOST_THREADS) {
            let place = *places.entry(thread.pid).or_insert_with(|| {
                found.push(OutsideProcess {
                    pid: thread.pid,
                    name: thread.process.clone(),
                    threads: Vec::new(),
                });
                found.len() - 1
            });
            found[place].threads.push(number);
        }
        found
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it says.
    pub fn trace(&self) -> &SystemTrace {
        &self.trace
    }

    /// The number in the system trace of a thread of the session.
    pub(crate) fn number_of(&self, thread: u32) -> Option<u32> {
        self.number_of.get(thread as usize).copied().flatten()
    }

    /// The session's thread for a number in the system trace, at a time: the recording whose time contains it, else the one
    /// nearest to it.
    pub(crate) fn thread_of(&self, number: u32, at_ns: u64) -> Option<u32> {
        let distance = |r: &&Recorded| {
            let before = r.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(r.end_ns))
        };
        let recorded = self.threads_of.get(&number)?;
        recorded.iter().min_by_key(distance).map(|r| r.thread)
    }

    /// How long a thread of the session did what; `None` if nothing is known of it from `from_ns` to `to_ns`.
    pub(crate) fn times(&self, thread: u32, from_ns: u64, to_ns: u64) -> Option<Times> {
        let times = self.trace.times(self.number_of(thread)?, from_ns, to_ns);
        (times.unknown_ns < times.total_ns()).then_some(times)
    }
}
