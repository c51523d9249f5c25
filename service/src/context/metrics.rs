// SPDX-License-Identifier: Apache-2.0
//! Metrics of the last minutes before a report.

use std::fmt::Write as _;

use crate::text::quoted;

/// The most samples of a file that are read.
const MAX_SAMPLES: usize = 1024;
/// The most metrics of a file that are read.
const MAX_NAMES: usize = 64;
/// Times are in a sample before its values.
const TIMES: usize = 2;

/// Metrics of a stretch of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its begin and end, ms after the report; negative: before it.
    pub ms: [i64; TIMES],
    /// A value for each metric; `None`: the system did not tell it.
    pub values: Vec<Option<f32>>,
}

/// Metrics of the last minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Names of the metrics; each ends in its unit.
    pub names: Vec<String>,
    /// Oldest first.
    pub samples: Vec<Sample>,
}

/// The least and the highest value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least value.
    pub least: f32,
    /// The highest value.
    pub highest: f32,
}

impl Metrics {
    /// Leaves out metrics that no sample has.
    #[must_use]
    pub fn without_unknown(mut self) -> Self {
        let is_known: Vec<bool> = (0..self.names.len())
            .map(|at| self.range(at).is_some())
            .collect();
        let known = |at: usize| is_known.get(at).copied().unwrap_or(false);
        let mut at = 0;
        self.names.retain(|_| {
            at += 1;
            known(at - 1)
        });
        for sample in &mut self.samples {
            let values = std::mem::take(&mut sample.values).into_iter().enumerate();
            let values = values.filter(|(at, _)| known(*at));
            sample.values = values.map(|(_, value)| value).collect();
        }
        self
    }

    /// The range of the metric at this place; `None`: no sample has it.
    pub fn range(&self, at: usize) -> Option<Range> {
        let values = self.samples.iter();
        let values = values.filter_map(|sample| sample.values.get(at).copied().flatten());
        values.fold(None, |range, value| {
            let Range { least, highest } = range.unwrap_or(Range {
                least: value,
                highest: value,
            });
            Some(Range {
                least: least.min(value),
                highest: highest.max(value),
            })
        })
    }

    pub(super) fn to_toml(&self) -> String {
        let names: Vec<String> = self.names.iter().map(|name| quoted(name)).collect();
        let mut text = format!("[metrics]\nnames = [{}]\nsamples = [\n", names.join(", "));
        for sample in &self.samples {
            let [from, to] = sample.ms;
            let _ = write!(text, "  [{from}.0, {to}.0");
            for value in &sample.values {
                let _ = match value {
                    Some(value) => write!(text, ", {value:.2}"),
                    None => write!(text, ", nan"),
                };
            }
            text.push_str("],\n");
        }
        text.push_str("]\n");
        text
    }

    pub(super) fn from_rows(mut names: Vec<String>, rows: Vec<Vec<f64>>) -> Self {
        names.truncate(MAX_NAMES);
        let rows = rows.into_iter().filter(|row| row.len() >= TIMES);
        let samples = rows.take(MAX_SAMPLES).map(|row| {
            let values = row.iter().skip(TIMES).take(names.len());
            Sample {
                ms: [row[0] as i64, row[1] as i64],
                values: values
                    .map(|v| (*v as f32).is_finite().then_some(*v as f32))
                    .collect(),
            }
        });
        let samples = samples.collect();
        Metrics { names, samples }
    }
}
