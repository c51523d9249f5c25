// SPDX-License-Identifier: Apache-2.0
//! Stacks of threads, taken by the threads themselves where they wait, allocate or call native code.
//!
//! The managed runtime walks the stack; a stack becomes nodes (method, dex pc, caller) of a table that all threads share
//! ([`table`]), and one event with the number of its innermost node. Names are looked up when a snapshot is taken.
//!
//! ```text
//! thread ── is a stack due? ── walk ──► Sampler: what is new since the last stack? ──► StackTable ──► event Stack
//! ```

mod arena;
mod quiet;
mod sampler;
mod table;

use std::sync::Arc;
use std::time::Duration;

use hindsight_trace_format::container::{ClockSample, Stacks};

use crate::clock;
use crate::config::{self, StackIntervals};
use crate::shared::SharedMemory;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

pub(crate) use arena::Pin;
use quiet::Quiet;
use sampler::Record;
pub(crate) use sampler::{Again, Sample, Sampler};
pub use sampler::{Frame, MAX_FRAMES};
pub(crate) use table::StackTable;

/// The counter's rate until it is known, ticks per second.
const PRESUMED_RATE: u64 = 1_000_000_000;

/// How old a thread's last stack must be when it takes another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// As old as the configured interval.
    Interval,
    /// An eighth of it: stacks of threads that wake others. A storm of wake-ups is bounded in this way.
    Eighth,
    /// Of any age.
    None,
}

/// The data that the stacks of all threads share.
pub(crate) struct ProcessStacks {
    table: StackTable,
    /// Least time between two stacks of the main thread, µs, and of another one.
    intervals_us: [AtomicU32; 2],
    /// The same in ticks.
    intervals: [AtomicU64; 2],
    /// The counter's rate, ticks per second; 0 while it is not known.
    rate: AtomicU64,
    quiet: Quiet,
    started: ClockSample,
    taken: AtomicU64,
    lost: AtomicU64,
}

impl ProcessStacks {
    /// An empty table, in the memory that the process shares, if it does. `started`: when recording started.
    pub(crate) fn new(
        config: &config::Stacks,
        started: ClockSample,
        shared: Option<&Arc<SharedMemory>>,
    ) -> Self {
        let stacks = ProcessStacks {
            table: StackTable::in_memory(1 << config.table, shared),
            intervals_us: [AtomicU32::new(0), AtomicU32::new(0)],
            intervals: [AtomicU64::new(0), AtomicU64::new(0)],
            rate: AtomicU64::new(0),
            quiet: Quiet::new(),
            started,
            taken: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        };
        stacks.set_intervals(config.intervals);
        stacks
    }

    /// Sets the least time between two stacks of the main thread, and of another one. May be called at any time.
    pub(crate) fn set_intervals(&self, intervals: StackIntervals) {
        let rate = self.rate().unwrap_or(PRESUMED_RATE);
        let us = [intervals.main_us, intervals.others_us];
        for (i, us) in us.into_iter().enumerate() {
            self.intervals_us[i].store(us, Ordering::Relaxed);
            self.intervals[i].store(ticks(us, rate), Ordering::Relaxed);
        }
    }

    /// The least times in use.
    pub(crate) fn intervals(&self) -> StackIntervals {
        let [main_us, others_us] = [0, 1].map(|i| self.intervals_us[i].load(Ordering::Relaxed));
        StackIntervals { main_us, others_us }
    }

    /// Least time between two stacks of a thread, ticks.
    #[inline]
    pub(crate) fn interval(&self, is_main: bool) -> u64 {
        self.intervals[usize::from(!is_main)].load(Ordering::Relaxed)
    }

    fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate != 0)
    }

    /// Where the architecture does not state the counter's rate, it can be measured some time after the start.
    fn learn_rate(&self) -> Option<u64> {
        if let Some(rate) = self.rate() {
            return Some(rate);
        }
        let rate = clock::known_rate(&self.started)?;
        self.rate.store(rate, Ordering::Relaxed);
        self.set_intervals(self.intervals());
        Some(rate)
    }

    /// The frames that the managed runtime wrote for `sampler`, `count` of them, innermost first, as something to
    /// record. `undisturbed`: the thread has recorded nothing since its last stack.
    pub(crate) fn finish(
        &self,
        sampler: &mut Sampler,
        count: usize,
        cut: bool,
        reason: u8,
        undisturbed: bool,
    ) -> Record {
        // Without the rate, the time of equal stacks could not be said.
        let undisturbed = self.learn_rate().is_some() && undisturbed;
        self.taken.fetch_add(1, Ordering::Relaxed);
        let record = sampler.finish(&self.table, count, cut, reason, undisturbed);
        record.unwrap_or_else(|| {
            self.lost.fetch_add(1, Ordering::Relaxed);
            Record::default()
        })
    }

    /// The time since a reading of the counter, ns.
    pub(crate) fn ns_since(&self, counter: u64) -> u64 {
        let rate = self.rate().unwrap_or(PRESUMED_RATE);
        let ticks = clock::counter().saturating_sub(counter);
        u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(rate)).unwrap_or(u64::MAX)
    }

    /// A time in ticks of the counter.
    pub(crate) fn ticks(&self, time: Duration) -> u64 {
        let us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        ticks(us, self.rate().unwrap_or(PRESUMED_RATE))
    }

    /// Whether the control thread sleeps until a thread takes a stack.
    pub(crate) fn quiet(&self) -> &Quiet {
        &self.quiet
    }

    /// Keeps all nodes that the table has now, until the pins are dropped.
    pub(crate) fn keep_all(&self) -> Vec<Pin<'_>> {
        self.table.keep_all()
    }

    /// A copy of the table.
    pub(crate) fn snapshot(&self) -> Stacks {
        self.table.snapshot()
    }

    /// Stacks taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Stacks lost so far because the table had no memory for them.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The memory that the table has touched, bytes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.table.used_bytes()
    }
}

fn ticks(us: u32, rate: u64) -> u64 {
    u64::try_from(u128::from(us) * u128::from(rate) / 1_000_000).unwrap_or(u64::MAX)
}
