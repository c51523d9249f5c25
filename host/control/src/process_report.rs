// SPDX-License-Identifier: Apache-2.0
//! What came of the processes that hindsightd was asked to record or to report: the answers to `record` and `report`.

use std::fmt;

use serde::{Deserialize, Deserializer};

use crate::device::Device;
use crate::error::DeviceError;

/// A process that was to leave a report.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProcessReport {
    /// Number of the report; `None`: none was begun.
    #[serde(deserialize_with = "present")]
    pub report: Option<u64>,
    /// The process's name, as it says itself.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// Why there is no report, for people; `None`: it is written.
    #[serde(deserialize_with = "present")]
    pub problem: Option<String>,
}

/// The field may be null, but not missing.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    value: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(value)
}

impl ProcessReport {
    /// Number of the report, if it is written.
    pub fn written(&self) -> Option<u64> {
        self.report.filter(|_| self.problem.is_none())
    }

    /// From a line of the service; `None`: the line is none.
    fn parse(line: &str) -> Option<Self> {
        let read: ProcessReport = serde_json::from_str(line).ok()?;
        (read.report.is_some() || read.problem.is_some()).then_some(read)
    }
}

impl fmt::Display for ProcessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(report) = self.report {
            write!(f, "report {report} of ")?;
        }
        let problem = self.problem.as_deref().unwrap_or("written");
        // Names are the processes' own account.
        let name: String = self
            .process
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect();
        write!(f, "{name} (pid {}): {problem}", self.pid)
    }
}

impl Device {
    /// Sends one of the commands `record` and `report`, and returns what came of each process. `seconds`: how long it takes at least.
    ///
    /// # Errors
    /// If nothing answers, the service answers by an error, or in another form: an older one.
    pub fn ask_for_reports(
        &self,
        command: &str,
        seconds: u64,
    ) -> Result<Vec<ProcessReport>, DeviceError> {
        let lines = self.ask(command, "", seconds)?;
        let read = |line: &String| {
            ProcessReport::parse(line).ok_or_else(|| DeviceError::OtherVersion {
                place: self.place(),
                answer: line.chars().take(200).collect(),
            })
        };
        lines.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_service_are_read() {
        let line = r#"{"report":3,"process":"a\"b","pid":7,"problem":null}"#;
        let read = ProcessReport::parse(line).unwrap();
        assert_eq!((read.written(), read.process.as_str()), (Some(3), "a\"b"));
        assert_eq!(read.to_string(), "report 3 of a\"b (pid 7): written");
        let line = r#"{"report":3,"process":"a","pid":7,"problem":"it ended first"}"#;
        assert_eq!(ProcessReport::parse(line).unwrap().written(), None);
        let line = r#"{"report":null,"process":"a\u001b","pid":7,"problem":"no ring"}"#;
        let read = ProcessReport::parse(line).unwrap();
        assert_eq!(read.written(), None);
        assert_eq!(read.to_string(), "a? (pid 7): no ring");
    }

    /// A line that says less than this program has to know does not count as a report.
    #[test]
    fn other_lines_are_refused() {
        for line in [
            "report 3 of a (pid 7): written",
            r#"{"report":3,"process":"a","pid":7}"#,
            r#"{"process":"a","pid":7,"problem":null}"#,
            r#"{"report":null,"process":"a","pid":7,"problem":null}"#,
            "",
        ] {
            assert_eq!(ProcessReport::parse(line), None, "{line}");
        }
    }
}
