// SPDX-License-Identifier: Apache-2.0
//! A counter of a process left the range that it had before: a robust z-score, by median and median deviation, which single large
//! values hardly move.

use std::collections::{BTreeMap, VecDeque};

use super::facts::Rates;
use crate::policy::{Metric, Rule};

const SECOND_NS: u64 = 1_000_000_000;
/// So many values of a metric are remembered.
const VALUES: usize = 600;
/// The median deviation of normally distributed values is their standard deviation divided by this.
const NORMAL: f64 = 1.4826;
/// Metrics of which more is worse, and deviations that are noise in any process: one in a second, a hundredth of the time, some
/// memory. Not the run delay: that is what other processes do.
const METRICS: [(Metric, f64); 7] = [
    (Metric::LateFrames, 1.0),
    (Metric::Messages, 10.0),
    (Metric::LockWait, 10.0),
    (Metric::BinderWait, 10.0),
    (Metric::GcStopped, 10.0),
    (Metric::Collections, 1.0),
    (Metric::Allocated, 64.0),
];

#[derive(Debug, Default)]
struct History {
    values: VecDeque<f64>,
    /// Values in a row that were outliers.
    row: u64,
}

/// The metrics of a process so far.
#[derive(Debug, Default)]
pub(super) struct Outliers {
    histories: BTreeMap<Metric, History>,
    /// No report until then, ns.
    quiet_until: u64,
}

impl Outliers {
    /// The values that come next do not follow those before.
    pub(super) fn interrupt(&mut self) {
        for history in self.histories.values_mut() {
            history.row = 0;
        }
    }

    /// Looks at the metrics of the last second. Returns the reason for a report, if there is one. Seconds in which the process did
    /// nothing do not count.
    pub(super) fn look(&mut self, rule: &Rule, now_ns: u64, rates: &Rates) -> Option<String> {
        let [score, row, warm_up, quiet] = rule.numbers[..] else {
            return None;
        };
        if !rates.is_active {
            return None;
        }
        let mut reason = None;
        for (metric, noise) in METRICS {
            let Some(value) = rates.get(metric) else {
                continue;
            };
            let history = self.histories.entry(metric).or_default();
            let is_warm = history.values.len() as u64 >= warm_up;
            let (middle, spread) = range(&history.values, noise);
            let z = (value - middle) / spread;
            history.row = match is_warm && z > score as f64 {
                true => history.row + 1,
                false => 0,
            };
            if history.row >= row && now_ns >= self.quiet_until && reason.is_none() {
                let name = metric.name();
                reason = Some(format!(
                    "{name} was {value:.0} for {} s, {z:.0} deviations over its median {middle:.0}",
                    history.row
                ));
            }
            history.values.push_back(value);
            if history.values.len() > VALUES {
                history.values.pop_front();
            }
        }
        if reason.is_some() {
            self.quiet_until = now_ns.saturating_add(quiet * SECOND_NS);
        }
        reason
    }
}

/// The median, and a deviation that is never so small that noise would be an outlier: at least this much, and a tenth of the median.
fn range(values: &VecDeque<f64>, noise: f64) -> (f64, f64) {
    let middle = median(values.iter().copied().collect());
    let deviations = values.iter().map(|value| (value - middle).abs()).collect();
    let spread = NORMAL * median(deviations);
    (middle, spread.max(noise).max(middle / 10.0))
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = values.len() / 2;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}
