// SPDX-License-Identifier: Apache-2.0
//! The file beside a report of the system service, with the same name and the ending `.context`: the device, metrics of the last
//! minutes, and lines of the process's log. `docs/file-formats.md` has the format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::page::{column, Cell, Kind, Page};

/// Longest file, bytes; the service's are shorter.
const MAX_BYTES: u64 = 4 << 20;
/// The values of a sample that stand before its metrics: its begin and its end, ms from the report on.
const TIMES: usize = 2;

/// What is known around a report.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Context {
    version: u32,
    #[serde(default)]
    device: BTreeMap<String, String>,
    #[serde(default)]
    metrics: Metrics,
    #[serde(default)]
    log: Log,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Metrics {
    names: Vec<String>,
    samples: Vec<Vec<f64>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Log {
    left_out: u64,
    lines: Vec<String>,
}

/// The name of the file that is beside this trace, if it has one.
pub(crate) fn path_of(trace: &Path) -> PathBuf {
    trace.with_extension("context")
}

impl Context {
    /// The context beside a trace; `None`: there is none.
    pub(crate) fn beside(trace: &Path) -> Result<Option<Self>> {
        let path = path_of(trace);
        let file = match File::open(&path) {
            Ok(file) if trace != path => file,
            _ => return Ok(None),
        };
        let mut text = String::new();
        let read = file.take(MAX_BYTES).read_to_string(&mut text);
        let name = path.display();
        read.with_context(|| format!("cannot read {name}"))?;
        let context = Self::parse(&text);
        Ok(Some(context.with_context(|| {
            format!("{name} is no context of a report; move it elsewhere to see the trace alone")
        })?))
    }

    fn parse(text: &str) -> Result<Self> {
        let context: Context = toml::from_str(text)?;
        ensure!(
            context.version == 1,
            "it has version {}, and this program reads version 1",
            context.version
        );
        Ok(context)
    }

    /// The device in a line for people; `None`: nothing is known about it.
    pub(crate) fn device(&self) -> Option<String> {
        let facts = self.device.iter();
        let facts: Vec<String> = facts
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        (!facts.is_empty()).then(|| plain(&facts.join(", ")))
    }

    /// The samples that begin before the report: a service may have added later ones, too.
    fn before(&self) -> impl Iterator<Item = &Vec<f64>> {
        let samples = self.metrics.samples.iter();
        samples.filter(|row| row.first().is_some_and(|begin| *begin < 0.0))
    }

    /// Least, highest and last value of each metric, by name.
    fn ranges(&self) -> Vec<(&str, f64, f64, f64)> {
        let mut ranges = Vec::new();
        for (at, name) in self.metrics.names.iter().enumerate() {
            let rows = self.before();
            let values = rows.filter_map(|row| row.get(TIMES + at).copied());
            let values: Vec<f64> = values.filter(|value: &f64| value.is_finite()).collect();
            let least = values.iter().copied().reduce(f64::min);
            let highest = values.iter().copied().reduce(f64::max);
            if let (Some(least), Some(highest), Some(last)) = (least, highest, values.last()) {
                ranges.push((name.as_str(), least, highest, *last));
            }
        }
        ranges
    }

    /// Metrics and log, for people.
    pub(crate) fn write(&self, page: &mut Page) -> io::Result<()> {
        let ranges = self.ranges();
        if !ranges.is_empty() {
            let first = self.before().filter_map(|row| row.first());
            let since = first.copied().fold(0.0, f64::min) / -1000.0;
            page.plain("")?;
            page.strong(&format!("Metrics of the {since:.0} s before it:"))?;
            let value = |value: f64| Cell::from(format!("{value:.2}"));
            let rows: Vec<Vec<Cell>> = ranges
                .into_iter()
                .map(|(name, least, highest, last)| {
                    vec![
                        plain(name).into(),
                        value(least),
                        value(highest),
                        value(last),
                    ]
                })
                .collect();
            let columns = [
                column("metric", Kind::Text),
                column("least", Kind::Number),
                column("highest", Kind::Number),
                column("last", Kind::Number),
            ];
            page.table(&columns, &rows)?;
        }
        if !self.log.lines.is_empty() {
            page.plain("")?;
            page.strong("Log of the process (s from the report on):")?;
            for line in &self.log.lines {
                page.indented(&plain(line), 2)?;
            }
        }
        Ok(())
    }
}

/// Nothing in it reaches the terminal as a control character.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_from_after_the_report_are_not_shown_as_before_it() {
        let text = "version = 1\n[metrics]\nnames = [\"a\"]\nsamples = [[-900.0, 100.0, 3.0], [8247.0, 9247.0, 7.0]]\n";
        assert_eq!(
            Context::parse(text).unwrap().ranges(),
            [("a", 3.0, 3.0, 3.0)]
        );
        let late = text.replace("[-900.0, 100.0, 3.0], ", "");
        assert_eq!(Context::parse(&late).unwrap().ranges(), []);
    }

    #[test]
    fn ranges_leave_out_what_is_not_known() {
        let text = "version = 1\n[device]\nmodel = \"Phone\\u001b 3\"\n[metrics]\nnames = [\"a\", \"b\"]\n\
                    samples = [[-10.0, -5.0, 3.0, nan], [-5.0, 0, 1, nan], [-1]]\n";
        let context = Context::parse(text).unwrap();
        assert_eq!(context.ranges(), [("a", 1.0, 3.0, 1.0)]);
        assert_eq!(context.device().as_deref(), Some("model Phone? 3"));
        for wrong in ["", "version = 2", "version = 1\nlog = 1"] {
            assert!(Context::parse(wrong).is_err(), "{wrong}");
        }
    }
}
