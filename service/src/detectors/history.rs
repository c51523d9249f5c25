// SPDX-License-Identifier: Apache-2.0
//! Metrics of the last minutes, for reports: a sample every few seconds while the user sees a traced process that does something. It
//! needs as much memory for a process as [`SAMPLES`] samples take, and keeps those of [`PROCESSES`] processes.
//!
//! A process that does nothing is looked at less and less often, and soon not at all, until it says something: it costs no wake-up
//! while nothing runs.

use std::collections::{BTreeMap, VecDeque};

use super::facts::{rates, Facts};
use crate::context::{Metrics, Sample};
use crate::engine::Connection;
use crate::policy::Metric;

const SECOND_NS: u64 = 1_000_000_000;
/// The pause between samples while something happens, ns.
const PAUSE_NS: u64 = 5 * SECOND_NS;
/// The shortest pause, when a process says something, ns.
const LEAST_NS: u64 = SECOND_NS;
/// After a pause of this length in which nothing happened there is no further sample, ns.
const LAST_NS: u64 = 40 * SECOND_NS;
/// Older samples are forgotten, ns.
const AGE_NS: u64 = 300 * SECOND_NS;
/// The most samples of a process.
const SAMPLES: usize = 120;
/// The most processes with samples.
const PROCESSES: usize = 16;
/// All metrics, and the temperature.
const VALUES: usize = Metric::ALL.len() + 1;
/// Name of the temperature, which is no metric for rules.
const CELSIUS: &str = "temperature-celsius";

/// Metrics between two times.
#[derive(Clone, Copy, Debug)]
struct Kept {
    /// `CLOCK_BOOTTIME`, ns.
    from_ns: u64,
    to_ns: u64,
    /// Not a number: not known.
    values: [f32; VALUES],
}

/// When the next sample is taken.
#[derive(Clone, Copy, Debug, Default)]
enum Next {
    /// No traced process is seen.
    #[default]
    Nothing,
    /// Nothing happens: when a process says something.
    WhenWoken,
    /// At this time, after this pause; ns.
    At(u64, u64),
}

/// Metrics of the last minutes.
#[derive(Debug, Default)]
pub struct History {
    /// The facts at the last sample, and when that was, ns.
    last: Option<(u64, Facts)>,
    of: BTreeMap<Connection, VecDeque<Kept>>,
    next: Next,
}

impl History {
    /// The next sample, `CLOCK_BOOTTIME`, ns; `None`: there will be none unless something happens.
    pub fn deadline(&self) -> Option<u64> {
        match self.next {
            Next::At(at, _) => Some(at),
            Next::Nothing | Next::WhenWoken => None,
        }
    }

    /// Whether it is time.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.deadline().is_some_and(|at| at <= now_ns)
    }

    /// The user sees a traced process, or none any more.
    pub fn set(&mut self, now_ns: u64, has_any: bool) {
        match (has_any, self.next) {
            (false, _) => {
                self.next = Next::Nothing;
                self.last = None;
            }
            // What comes after it is told from here on.
            (true, Next::Nothing) => self.next = Next::At(now_ns, PAUSE_NS),
            (true, _) => {}
        }
    }

    /// A process said something: there may be a report soon.
    pub fn woken(&mut self, now_ns: u64) {
        let last_ns = self.last.as_ref().map_or(0, |(at, _)| *at);
        let soon = now_ns.max(last_ns.saturating_add(LEAST_NS));
        match self.next {
            Next::Nothing => {}
            Next::At(at, _) if at <= soon => {}
            Next::At(..) | Next::WhenWoken => self.next = Next::At(soon, PAUSE_NS),
        }
    }

    /// Takes a sample at this time (`CLOCK_BOOTTIME`, ns).
    pub fn take(&mut self, now_ns: u64, facts: Facts) {
        let mut is_active = self.last.is_none();
        if let Some((then_ns, before)) = &self.last {
            let then_ns = *then_ns;
            for (connection, rates) in rates(before, &facts, now_ns.saturating_sub(then_ns)) {
                is_active |= rates.is_active;
                let mut values = [f32::NAN; VALUES];
                for (value, metric) in values.iter_mut().zip(Metric::ALL) {
                    *value = rates.get(metric).map_or(f32::NAN, |rate| rate as f32);
                }
                let celsius = facts.system.millicelsius.map(|milli| milli as f32 / 1000.0);
                values[VALUES - 1] = celsius.unwrap_or(f32::NAN);
                let kept = Kept {
                    from_ns: then_ns,
                    to_ns: now_ns,
                    values,
                };
                let samples = self.of.entry(connection).or_default();
                if samples.len() == SAMPLES {
                    samples.pop_front();
                }
                samples.push_back(kept);
            }
        }
        self.last = Some((now_ns, facts));
        self.forget(now_ns);
        self.next = match (is_active, self.next) {
            (true, _) => Next::At(now_ns.saturating_add(PAUSE_NS), PAUSE_NS),
            (false, Next::At(_, pause)) if pause < LAST_NS => {
                Next::At(now_ns.saturating_add(2 * pause), 2 * pause)
            }
            (false, _) => Next::WhenWoken,
        };
    }

    /// Forgets what is too old, and processes that were not seen for long.
    fn forget(&mut self, now_ns: u64) {
        let oldest_ns = now_ns.saturating_sub(AGE_NS);
        self.of.retain(|_, samples| {
            while samples.front().is_some_and(|kept| kept.to_ns < oldest_ns) {
                samples.pop_front();
            }
            !samples.is_empty()
        });
        while self.of.len() > PROCESSES {
            let newest = |samples: &VecDeque<Kept>| samples.back().map_or(0, |kept| kept.to_ns);
            let all = self.of.iter();
            let Some((connection, _)) = all.min_by_key(|(_, samples)| newest(samples)) else {
                break;
            };
            let connection = *connection;
            self.of.remove(&connection);
        }
    }

    /// The metrics of a process in the minutes before a report of this time (`CLOCK_BOOTTIME`, ns), as far as they are known. A
    /// report may be written long after that.
    pub fn before(&self, connection: Connection, report_ns: u64) -> Metrics {
        let ms = |at: u64| {
            let ms = i64::try_from(at.abs_diff(report_ns) / 1_000_000).unwrap_or(i64::MAX);
            if at < report_ns {
                -ms
            } else {
                ms
            }
        };
        let oldest_ns = report_ns.saturating_sub(AGE_NS);
        let samples = self.of.get(&connection).into_iter().flatten();
        // What a process says makes a sample at once, or after the shortest pause.
        let newest_ns = report_ns.saturating_add(LEAST_NS);
        let samples = samples.filter(|kept| (oldest_ns..=newest_ns).contains(&kept.to_ns));
        let samples = samples.map(|kept| Sample {
            ms: [ms(kept.from_ns), ms(kept.to_ns)],
            values: kept.values.map(|v| v.is_finite().then_some(v)).to_vec(),
        });
        let names = Metric::ALL.iter().map(|metric| metric.name());
        let metrics = Metrics {
            names: names.chain([CELSIUS]).map(str::to_owned).collect(),
            samples: samples.collect(),
        };
        metrics.without_unknown()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProcessFacts;
    use super::*;
    use hindsight_trace_format::shared::Counter;
    use proptest::prelude::*;

    fn facts(connections: impl IntoIterator<Item = Connection>, frames: u64) -> Facts {
        let mut facts = Facts::default();
        facts.system.stalled_us = [None, None, Some(frames * 1000)];
        facts.system.millicelsius = Some(41_500);
        for connection in connections {
            let mut process = ProcessFacts::default();
            process.counters[Counter::Frames as usize] = frames;
            facts.processes.insert(connection, process);
        }
        facts
    }

    /// Takes all samples that are due until this time. Returns how many.
    fn run(history: &mut History, until_ns: u64, facts: impl Fn(u64) -> Facts) -> usize {
        let mut count = 0;
        while let Some(at) = history.deadline().filter(|at| *at <= until_ns) {
            history.take(at, facts(at));
            count += 1;
        }
        count
    }

    #[test]
    fn a_process_that_runs_is_sampled_every_few_seconds() {
        let mut history = History::default();
        let start = 1000 * SECOND_NS;
        history.set(start, true);
        let frames = |at: u64| facts([7], 60 * (at / SECOND_NS));
        assert_eq!(run(&mut history, start + 20 * SECOND_NS, frames), 5);
        // Its end does not forget them.
        history.set(start + 21 * SECOND_NS, false);
        let metrics = history.before(7, start + 22 * SECOND_NS);
        let names = &metrics.names;
        assert!(names.iter().any(|name| name == "psi-memory-percent"));
        assert!(!names.iter().any(|name| name == "psi-io-percent"));
        let at = |name: &str| names.iter().position(|n| n == name).unwrap();
        let times: Vec<_> = metrics.samples.iter().map(|sample| sample.ms).collect();
        assert_eq!(
            times,
            [
                [-22_000, -17_000],
                [-17_000, -12_000],
                [-12_000, -7000],
                [-7000, -2000]
            ]
        );
        for sample in &metrics.samples {
            assert_eq!(sample.values[at("frames")], Some(60.0));
            assert_eq!(sample.values[at(CELSIUS)], Some(41.5));
        }
        assert!(history.before(8, start).samples.is_empty());
        // A report of an earlier time, written now, has what was before it: the sample that its trigger makes among it.
        for (report_s, newest_ms) in [(8, Some(-3000)), (10, Some(0)), (14, Some(1000)), (3, None)]
        {
            let metrics = history.before(7, start + report_s * SECOND_NS);
            let newest = metrics.samples.last().map(|sample| sample.ms[1]);
            assert_eq!(newest, newest_ms, "{report_s} s");
        }
        // Five minutes later nothing of it is the last minutes.
        let late = start + 330 * SECOND_NS;
        assert!(history.before(7, late).samples.is_empty());
    }

    #[test]
    fn while_nothing_runs_there_is_no_wake_up() {
        let mut history = History::default();
        assert_eq!(history.deadline(), None);
        history.set(0, true);
        let day = 86_400 * SECOND_NS;
        let taken = run(&mut history, day, |_| facts([7], 5));
        assert!(taken <= 6, "{taken}");
        assert_eq!(history.deadline(), None);
        // A word of a process is a reason to look.
        history.woken(day);
        assert_eq!(history.deadline(), Some(day));
        history.take(day, facts([7], 6));
        assert_eq!(history.deadline(), Some(day + PAUSE_NS));
        // Words without end are none for more than one sample a second.
        for ms in 0..100 {
            history.woken(day + ms * 1_000_000);
        }
        assert_eq!(history.deadline(), Some(day + LEAST_NS));
        history.set(day, false);
        history.woken(day);
        assert_eq!(history.deadline(), None);
    }

    #[test]
    fn the_newest_samples_are_kept_of_a_process_that_never_stops_talking() {
        let mut history = History::default();
        history.set(0, true);
        for second in 0..1000 {
            history.take(second * SECOND_NS, facts([7], second));
        }
        assert_eq!(history.of[&7].len(), SAMPLES);
        let metrics = history.before(7, 999 * SECOND_NS);
        assert_eq!(metrics.samples.last().map(|sample| sample.ms[1]), Some(0));
    }

    proptest! {
        #[test]
        fn memory_has_bounds_whatever_happens(
            steps in proptest::collection::vec((0..40_u64, 0..3_u64, 0..4), 0..600),
        ) {
            let mut history = History::default();
            let mut now = 0;
            for (connection, seconds, what) in steps {
                now += seconds * SECOND_NS;
                match what {
                    0 => history.set(now, seconds != 1),
                    1 => history.woken(now),
                    _ => history.take(now, facts(connection..connection + 20, now)),
                }
                prop_assert!(history.of.len() <= PROCESSES);
                for samples in history.of.values() {
                    prop_assert!(samples.len() <= SAMPLES);
                }
                prop_assert!(history.deadline().is_none_or(|at| at <= now + 2 * LAST_NS));
            }
        }
    }
}
