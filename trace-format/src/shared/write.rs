// SPDX-License-Identifier: Apache-2.0
//! A `.hindsight` file of a process that has ended.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use crate::container::{
    ClockSample, Clocks, Consent, Contents, Losses, ProcessFacts, RingContents,
};

use super::read::Ended;

/// Why a file is written for a process that has ended, and what its reader knows beside the memory.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The reason, for people.
    pub reason: String,
    /// Kernel id of the thread that it is about; 0: none in particular.
    pub raised_by: u32,
    /// All clocks after the end, if they could be read in the same boot of the machine.
    pub now: Option<ClockSample>,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum EndingError {
    /// No thread was recording.
    #[error("no thread of the process was recording when it ended")]
    NoRings,
    /// Nothing tells how long a tick is.
    #[error("the process ended before the rate of its clock was known, in its first 20 ms")]
    NoRate,
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl Ended {
    /// The counter's rate, ticks per second: as the process knew it, or from two samples that are far enough apart.
    fn rate(&self, now: Option<&ClockSample>) -> Option<u64> {
        /// As the runtime: an error of 1 µs is 50 ppm of it.
        const LEAST_NS: u64 = 20_000_000;
        if self.ticks_per_second != 0 {
            return Some(self.ticks_per_second);
        }
        let now = now?;
        let ns = now.monotonic_ns.checked_sub(self.started.monotonic_ns)?;
        let ticks = now.counter.checked_sub(self.started.counter)?;
        let rate = u128::from(ticks) * 1_000_000_000 / u128::from(ns.max(1));
        (ns >= LEAST_NS)
            .then_some(u64::try_from(rate).ok()?)
            .filter(|rate| *rate != 0)
    }

    /// The sample of the clocks at the newest event, computed from the rate.
    fn end(&self, ticks_per_second: u64) -> ClockSample {
        let newest = self.rings.iter().map(|ring| ring.header.stopped_counter);
        let counter = newest.max().unwrap_or(0).max(self.started.counter);
        let ticks = u128::from(counter - self.started.counter);
        let passed = ticks * 1_000_000_000 / u128::from(ticks_per_second);
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        ClockSample {
            counter,
            monotonic_ns: self.started.monotonic_ns.saturating_add(passed),
            boottime_ns: self.started.boottime_ns.saturating_add(passed),
            realtime_ns: self.started.realtime_ns.saturating_add(passed),
        }
    }

    /// Writes a file with all that the process left behind. No string that needs more consent gets into it.
    ///
    /// # Errors
    /// If there is nothing to write, the times of events cannot be known, or the file cannot be written.
    pub fn write(&self, path: &Path, ending: &Ending, consent: Consent) -> Result<(), EndingError> {
        Ok(self.contents(ending)?.write(path, consent)?)
    }

    /// The contents of a file with all that the process left behind.
    ///
    /// # Errors
    /// If there is nothing to write, or the times of events cannot be known.
    pub fn contents(&self, ending: &Ending) -> Result<Contents<'_>, EndingError> {
        if self.rings.is_empty() {
            return Err(EndingError::NoRings);
        }
        let ticks_per_second = self.rate(ending.now.as_ref()).ok_or(EndingError::NoRate)?;
        let last = (ending.now).unwrap_or_else(|| self.end(ticks_per_second));
        let mut rings: Vec<RingContents<'_>> = (self.rings.iter())
            .map(|ring| RingContents {
                header: ring.header.clone(),
                anchors: Cow::Owned(vec![ring.anchor]),
                open_calls: ring.open_calls.clone(),
                slots: &ring.raw,
            })
            .collect();
        rings.sort_by_key(|ring| {
            let header = &ring.header;
            let part = (header.thread, header.part);
            (
                header.tid != ending.raised_by,
                header.tid != self.pid,
                header.tid,
                part,
            )
        });
        Ok(Contents {
            process: ProcessFacts {
                pid: self.pid,
                uid: self.uid,
                name: self.name.clone(),
                isa: self.isa.clone(),
                reason: ending.reason.clone(),
                raised_by: ending.raised_by,
                extra: self.extra.clone(),
            },
            clocks: Clocks {
                ticks_per_second,
                source: self.source.clone(),
                read_traps: self.read_traps,
                samples: vec![self.started, last],
            },
            rings,
            symbols: self.symbols.clone(),
            strings: self.strings.clone(),
            stacks: self.stacks.clone(),
            losses: Losses {
                counts: self.losses.clone(),
            },
        })
    }
}
