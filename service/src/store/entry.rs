// SPDX-License-Identifier: Apache-2.0
//! The small file beside each report.

use std::fmt::Write as _;

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::TriggerSeverity;
use serde::Deserialize;

use crate::engine::Report;
use crate::text::quoted;

/// Longest file beside a report, bytes.
pub(super) const MAX_ENTRY_BYTES: u64 = 16 << 10;

/// What is known about a report without opening it. Texts are limited by the report's consent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its number.
    pub report: Report,
    /// Number of the first report of its group: its own, unless its process was waited for by another one, or recorded with it. 0:
    /// a file of an older service.
    pub group: Report,
    /// When it was noticed: s since 1970, by the clock of the device then.
    pub realtime_s: u64,
    /// The same since boot (`CLOCK_BOOTTIME`), ns.
    pub boottime_ns: u64,
    /// Name of its severity.
    pub severity: String,
    /// The detector.
    pub detector: String,
    /// The reason, for people.
    pub reason: String,
    /// Process or package name, by the process's own account.
    pub process: String,
    /// Version of the process's app (`longVersionCode`), by its own account; 0: not known, or not allowed.
    pub version: u64,
    /// Kernel id of the process.
    pub pid: u32,
    /// The process's user, by the kernel's account.
    pub uid: u32,
    /// Kernel id of the thread that it is about; 0: none in particular.
    pub tid: u32,
    /// Whether the process had ended.
    pub has_ended: bool,
    /// Name of the level of strings in the file.
    pub consent: String,
    /// Length of the trace, bytes.
    pub bytes: u64,
    /// Age of the store when it was written, s.
    pub kept_since_s: u64,
    /// Version of the service that wrote it.
    pub service: String,
    /// The file with its context, only until it is written.
    #[serde(skip)]
    pub context: String,
    /// The file is lost or damaged: nobody knows whose report it is, or what was agreed to.
    #[serde(skip)]
    pub is_unreadable: bool,
}

/// What decides who may have the report: without these, a file is damaged.
#[derive(Deserialize)]
#[allow(dead_code, reason = "only whether they are there")]
struct Required {
    report: Report,
    uid: u32,
    process: String,
    consent: String,
}

/// A field's value, in the notation that TOML and JSON share.
fn fields(entry: &Entry) -> [(&'static str, String); 17] {
    [
        ("report", entry.report.to_string()),
        ("group", entry.group().to_string()),
        ("severity", quoted(&entry.severity)),
        ("detector", quoted(&entry.detector)),
        ("reason", quoted(&entry.reason)),
        ("process", quoted(&entry.process)),
        ("version", entry.version.to_string()),
        ("pid", entry.pid.to_string()),
        ("uid", entry.uid.to_string()),
        ("tid", entry.tid.to_string()),
        ("has_ended", entry.has_ended.to_string()),
        ("realtime_s", entry.realtime_s.to_string()),
        ("boottime_ns", entry.boottime_ns.to_string()),
        ("kept_since_s", entry.kept_since_s.to_string()),
        ("bytes", entry.bytes.to_string()),
        ("consent", quoted(&entry.consent)),
        ("service", quoted(&entry.service)),
    ]
}

impl Entry {
    /// Number of the first report of its group.
    pub fn group(&self) -> Report {
        match self.group {
            0 => self.report,
            group => group,
        }
    }

    /// The severity; that of a damaged entry is the least one.
    pub fn severity(&self) -> TriggerSeverity {
        TriggerSeverity::from_name(&self.severity).unwrap_or_default()
    }

    /// The level of strings; of a damaged entry the one that tells the most, so that nobody relies on less.
    pub fn consent(&self) -> Consent {
        Consent::from_name(&self.consent).unwrap_or_default()
    }

    /// The text of the file.
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        for (key, value) in fields(self) {
            let _ = writeln!(text, "{key} = {value}");
        }
        text
    }

    /// One line of JSON.
    pub fn to_json(&self) -> String {
        let fields = fields(self).map(|(key, value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", fields.join(","))
    }

    /// From the text of the file.
    pub(super) fn from_toml(text: &str) -> Result<Self, String> {
        let wrong = |e: toml::de::Error| e.message().to_owned();
        let required: Required = toml::from_str(text).map_err(wrong)?;
        if Consent::from_name(&required.consent).is_none() {
            return Err(format!("'{}' is no level of strings", required.consent));
        }
        toml::from_str(text).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry {
            report: 7,
            group: 6,
            severity: "stuck".into(),
            reason: "a \"line\"\n[table]\nuid = 0".into(),
            process: "com.example\\".into(),
            version: i64::MAX as u64,
            consent: "names".into(),
            uid: 10_123,
            has_ended: true,
            kept_since_s: 5,
            bytes: 1 << 33,
            ..Entry::default()
        };
        assert_eq!(Entry::from_toml(&entry.to_toml()), Ok(entry.clone()));
        assert!(!entry.to_json().contains('\n'));
        assert_eq!(entry.severity(), TriggerSeverity::Stuck);
        assert!(Entry::from_toml("uid = \"x\"").is_err());
        let newer = entry.to_toml() + "new = 1\n";
        assert_eq!(Entry::from_toml(&newer), Ok(entry.clone()));
        // Not the whole file: it is not known whose report it is.
        for required in ["report", "uid", "process", "consent"] {
            let lines = entry.to_toml();
            let lines = lines
                .lines()
                .filter(|l| !l.starts_with(&format!("{required} ")));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            assert!(Entry::from_toml(&text).is_err(), "{required}");
        }
        assert!(Entry::from_toml(&entry.to_toml().replace("\"names\"", "\"\"")).is_err());
    }
}
