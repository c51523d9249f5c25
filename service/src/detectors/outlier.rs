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
/// Metrics of which more is worse.
const METRICS: [Metric; 8] = [
    Metric::LateFrames,
    Metric::Messages,
    Metric::LockWait,
    Metric::BinderWait,
    Metric::GcStopped,
    Metric::Collections,
    Metric::Allocated,
    Metric::RunDelay,
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
        for metric in METRICS {
            let Some(value) = rates.get(metric) else {
                continue;
            };
            let history = self.histories.entry(metric).or_default();
            let is_warm = history.values.len() as u64 >= warm_up;
            let (middle, spread) = range(&history.values);
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

/// The median, and a deviation that is never so small that noise would be an outlier: at least 1, and a tenth of the median.
fn range(values: &VecDeque<f64>) -> (f64, f64) {
    let middle = median(values.iter().copied().collect());
    let deviations = values.iter().map(|value| (value - middle).abs()).collect();
    let spread = NORMAL * median(deviations);
    (middle, spread.max(1.0).max(middle / 10.0))
}

fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = values.len() / 2;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}
