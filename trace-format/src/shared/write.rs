// SPDX-License-Identifier: Apache-2.0
//! A `.hindsight` file of a process that has ended.

use std::borrow::Cow;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::time::Duration;

use crate::container::{
    ClockSample, Clocks, Consent, Contents, Limit, Losses, ProcessFacts, RingContents, SectionKind,
    Writer,
};

use super::ended_ring::EndedRing;
use super::read::{Ended, SharedReader};
use super::source::{ReadAt, SharedError};

/// Why a file is written for a process that has ended, and what its reader knows beside the memory.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The reason, for people.
    pub reason: String,
    /// Kernel id of the thread that it is about; 0: none in particular.
    pub raised_by: u32,
    /// All clocks after the end, if they could be read in the same boot of the machine.
    pub now: Option<ClockSample>,
    /// When the process ended, `CLOCK_BOOTTIME`, ns: until then its threads were in the last thing that they recorded. 0: not
    /// known, so each ring ends with its newest event.
    pub ended_boottime_ns: u64,
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
    /// The memory cannot be read.
    #[error(transparent)]
    Read(#[from] SharedError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

impl Ending {
    /// The counter when the process ended; 0: not known.
    fn counter(&self, ticks_per_second: u64) -> u64 {
        let Some(now) = self.now.as_ref().filter(|_| self.ended_boottime_ns != 0) else {
            return 0;
        };
        let ago_ns = now.boottime_ns.saturating_sub(self.ended_boottime_ns);
        let ago = u128::from(ago_ns) * u128::from(ticks_per_second) / 1_000_000_000;
        now.counter
            .saturating_sub(u64::try_from(ago).unwrap_or(u64::MAX))
    }
}

/// Two samples of the clocks that are so far apart tell the counter's rate. As the runtime: an error of 1 µs is 50 ppm of it.
const LEAST_NS: u64 = 20_000_000;

impl Ended {
    /// How long after `now` the counter's rate can be told: zero, unless the process started less than 20 ms before, and did not
    /// know the rate.
    pub fn time_to_rate(&self, now: &ClockSample) -> Duration {
        if self.ticks_per_second != 0 {
            return Duration::ZERO;
        }
        let passed = now.monotonic_ns.saturating_sub(self.started.monotonic_ns);
        Duration::from_nanos(LEAST_NS.saturating_sub(passed))
    }

    /// The counter's rate, ticks per second: as the process knew it, or from two samples that are far enough apart.
    fn rate(&self, now: Option<&ClockSample>) -> Result<u64, EndingError> {
        if self.ticks_per_second != 0 {
            return Ok(self.ticks_per_second);
        }
        let measured = || {
            let now = now?;
            let ns = now.monotonic_ns.checked_sub(self.started.monotonic_ns)?;
            let ticks = now.counter.checked_sub(self.started.counter)?;
            let rate = u128::from(ticks) * 1_000_000_000 / u128::from(ns.max(1));
            (ns >= LEAST_NS).then_some(u64::try_from(rate).ok()?)
        };
        let rate = measured().filter(|rate| *rate != 0);
        rate.ok_or(EndingError::NoRate)
    }

    /// The sample of the clocks at the newest event, computed from the rate.
    fn end(&self, ticks_per_second: u64, newest: u64) -> ClockSample {
        let counter = newest.max(self.started.counter);
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

    /// The clocks; `newest` is the counter at the newest event.
    fn clocks(&self, now: Option<ClockSample>, newest: u64) -> Result<Clocks, EndingError> {
        let ticks_per_second = self.rate(now.as_ref())?;
        let last = now.unwrap_or_else(|| self.end(ticks_per_second, newest));
        Ok(Clocks {
            ticks_per_second,
            source: self.source.clone(),
            read_traps: self.read_traps,
            samples: vec![self.started, last],
        })
    }

    fn process(&self, ending: &Ending) -> ProcessFacts {
        ProcessFacts {
            pid: self.pid,
            uid: self.uid,
            name: self.name.clone(),
            isa: self.isa.clone(),
            reason: ending.reason.clone(),
            raised_by: ending.raised_by,
            extra: self.extra.clone(),
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
        let newest = self.rings.iter().map(|ring| ring.header.stopped_counter);
        let clocks = self.clocks(ending.now, newest.max().unwrap_or(0))?;
        let ended = ending.counter(clocks.ticks_per_second);
        let rings = self.rings.iter().map(|ring| ring.contents(ended));
        let mut rings: Vec<RingContents<'_>> = rings.collect();
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
            process: self.process(ending),
            clocks,
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

impl EndedRing {
    /// `ended` is the counter when the process ended, at which a thread that was recording then stopped; 0: not known.
    fn contents(&self, ended: u64) -> RingContents<'_> {
        let mut header = self.header.clone();
        if self.was_recording {
            header.stopped_counter = header.stopped_counter.max(ended);
        }
        let mut contents = RingContents {
            header,
            anchors: Cow::Owned(vec![self.anchor]),
            open_calls: self.open_calls.clone(),
            before: Vec::new(),
            slots: &self.raw,
        };
        if let Some(under_way) = &self.under_way {
            contents.begin_with(&under_way.slots(), under_way.oldest());
        }
        contents
    }
}

impl<M: ReadAt + ?Sized> SharedReader<'_, M> {
    /// Writes the sections of a file with all that is in the memory, one ring after the other: only one of them is in memory at
    /// a time. No string that needs more consent gets into the file. Returns the facts about the process that are in it.
    ///
    /// # Errors
    /// If there is nothing to write, the times of events cannot be known, or the memory cannot be read. The writer's file is
    /// not complete then.
    pub fn write<W: Write + Seek>(
        mut self,
        writer: &mut Writer<W>,
        ending: &Ending,
        consent: Consent,
    ) -> Result<ProcessFacts, EndingError> {
        if self.ring_count() == 0 {
            return Err(EndingError::NoRings);
        }
        let mut limit = match consent {
            // Names of all classes and methods get numbers.
            Consent::Structure => {
                let room = self.memory_limit() / 4;
                self.reserve(room);
                Limit::within(consent, usize::try_from(room).unwrap_or(usize::MAX))
            }
            _ => Limit::new(consent),
        };
        let rate = self.ended.rate(ending.now.as_ref())?;
        let ended = ending.counter(rate);
        self.read_process()?;
        let mut process = self.ended.process(ending);
        limit.process(&mut process);
        writer.section(SectionKind::Process, 0, &[&process.encode()])?;
        if ending.now.is_some() {
            let clocks = self.ended.clocks(ending.now, 0)?;
            writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
        }
        let (mut index, mut newest) = (0, 0);
        let mut addresses = self.addresses();
        for ring in self.order(ending.raised_by) {
            let Some(ring) = self.ring(ring) else {
                continue;
            };
            ring.add_methods(&mut addresses);
            newest = newest.max(ring.header.stopped_counter);
            let mut ring = ring.contents(ended);
            limit.thread(&mut ring.header.name);
            ring.write(writer, index)?;
            index += 1;
        }
        if index == 0 {
            return Err(EndingError::NoRings);
        }
        if ending.now.is_none() {
            let clocks = self.ended.clocks(None, newest)?;
            writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
        }
        let ended = self.finish(addresses)?;
        let mut rest = Contents {
            symbols: ended.symbols,
            strings: ended.strings,
            stacks: ended.stacks,
            losses: Losses {
                counts: ended.losses,
            },
            ..Contents::default()
        };
        rest.limit_by(&mut limit);
        drop(limit);
        rest.write_rest(writer)?;
        Ok(process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_young_process_can_be_told_later() {
        let at = |ms: u64| ClockSample {
            counter: 3_000_000 * ms,
            monotonic_ns: 1_000_000 * ms,
            ..ClockSample::default()
        };
        let mut ended = Ended {
            started: at(100),
            ..Ended::default()
        };
        assert_eq!(ended.time_to_rate(&at(105)), Duration::from_millis(15));
        assert!(matches!(
            ended.rate(Some(&at(105))),
            Err(EndingError::NoRate)
        ));
        assert_eq!(ended.time_to_rate(&at(120)), Duration::ZERO);
        assert_eq!(ended.rate(Some(&at(120))).unwrap(), 3_000_000_000);
        ended.ticks_per_second = 5;
        assert_eq!(ended.time_to_rate(&at(105)), Duration::ZERO);
    }
}
