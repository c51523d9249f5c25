// SPDX-License-Identifier: Apache-2.0
//! Which reports may leave, and which parts of them have left. Kept over restarts.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::engine::Report;

use super::item::Kind;

/// Its name in the store.
pub const SENT: &str = "uploads";
/// Name in the store of the device's secret number.
pub const DEVICE: &str = "device";

/// Reports that count as uploads, and their parts that the collector has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    admitted: BTreeSet<Report>,
    texts: BTreeSet<Report>,
    traces: BTreeSet<Report>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SentFile {
    version: u64,
    admitted: BTreeSet<Report>,
    texts: BTreeSet<Report>,
    traces: BTreeSet<Report>,
}

impl Sent {
    /// All of these reports have left: for a list that was lost.
    pub fn all(reports: impl Iterator<Item = Report>) -> Self {
        let admitted: BTreeSet<Report> = reports.collect();
        Sent {
            texts: admitted.clone(),
            traces: admitted.clone(),
            admitted,
        }
    }

    /// From a text of [`to_toml`](Self::to_toml); `None`: it is none.
    pub fn from_toml(text: &str) -> Option<Self> {
        let file: SentFile = toml::from_str(text).ok()?;
        (file.version == 1).then_some(Sent {
            admitted: file.admitted,
            texts: file.texts,
            traces: file.traces,
        })
    }

    /// As a text.
    pub fn to_toml(&self) -> String {
        let list = |reports: &BTreeSet<Report>| {
            let reports: Vec<String> = reports.iter().map(Report::to_string).collect();
            reports.join(", ")
        };
        format!(
            "version = 1\nadmitted = [{}]\ntexts = [{}]\ntraces = [{}]\n",
            list(&self.admitted),
            list(&self.texts),
            list(&self.traces)
        )
    }

    /// The report counts as an upload from now on.
    pub fn admit(&mut self, report: Report) {
        self.admitted.insert(report);
    }

    /// Whether the report counts as an upload.
    pub fn is_admitted(&self, report: Report) -> bool {
        self.admitted.contains(&report)
    }

    /// The part has left.
    pub fn done(&mut self, report: Report, kind: Kind) {
        if self.is_admitted(report) {
            match kind {
                Kind::Text => self.texts.insert(report),
                Kind::Trace => self.traces.insert(report),
            };
        }
    }

    /// The next part of an admitted report; the text comes first.
    pub fn next_part(&self, report: Report, with_trace: bool) -> Option<Kind> {
        match (self.texts.contains(&report), self.traces.contains(&report)) {
            _ if !self.is_admitted(report) => None,
            (false, _) => Some(Kind::Text),
            (true, false) if with_trace => Some(Kind::Trace),
            (true, _) => None,
        }
    }

    /// Forgets reports that are not there any more.
    pub fn retain(&mut self, is_there: impl Fn(Report) -> bool) {
        for reports in [&mut self.admitted, &mut self.texts, &mut self.traces] {
            reports.retain(|report| is_there(*report));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_leave_in_order_and_are_remembered() {
        let mut sent = Sent::default();
        assert_eq!(sent.next_part(3, true), None);
        sent.done(3, Kind::Text);
        sent.admit(3);
        assert_eq!(sent.next_part(3, true), Some(Kind::Text));
        sent.done(3, Kind::Text);
        let saved = Sent::from_toml(&sent.to_toml()).unwrap();
        assert_eq!(saved, sent);
        assert_eq!(saved.next_part(3, true), Some(Kind::Trace));
        assert_eq!(saved.next_part(3, false), None);
        sent.done(3, Kind::Trace);
        assert_eq!(sent.next_part(3, true), None);
        assert_eq!(Sent::all([3].into_iter()), sent);
        sent.retain(|_| false);
        assert_eq!(sent, Sent::default());
        for wrong in ["", "version = 2", &sent.to_toml().replace('1', "2")] {
            assert_eq!(Sent::from_toml(wrong), None);
        }
    }
}
