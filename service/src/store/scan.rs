// SPDX-License-Identifier: Apache-2.0
//! What is in the folder when the service starts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::engine::Report;

use super::entry::{Entry, MAX_ENTRY_BYTES};
use super::{state, Store};

/// The number of a report in a file's name with this end.
fn number(name: &str, suffix: &str) -> Option<Report> {
    let digits = name.strip_suffix(suffix)?;
    let report: Report = digits.parse().ok()?;
    // No zeros or signs before it: one report, one name.
    (report != 0 && report.to_string() == digits).then_some(report)
}

fn read_entry(path: &Path) -> Result<Entry, String> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_ENTRY_BYTES).read_to_string(&mut text));
    read.map_err(|e| e.to_string())?;
    Entry::from_toml(&text)
}

impl Store {
    /// Reads the folder, and removes leftovers. Files that are not the store's are left alone.
    pub(super) fn scan(&mut self) -> io::Result<()> {
        let mut traces = Vec::new();
        let mut entries = BTreeSet::new();
        let mut contexts = BTreeSet::new();
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let bytes = file.metadata().map_or(0, |facts| facts.len());
            if name.starts_with('.') && name.ends_with(".tmp") {
                self.remove_leftover(&file.path());
            } else if let Some(report) = number(name, ".hindsight") {
                traces.push((report, bytes));
            } else if let Some(report) = number(name, ".toml") {
                entries.insert(report);
            } else if let Some(report) = number(name, ".context") {
                contexts.insert(report);
            } else if state::is_state(name) {
                let name = name.trim_end_matches(".state").to_owned();
                self.states.insert(name, bytes);
            }
        }
        for (report, bytes) in traces {
            entries.remove(&report);
            contexts.remove(&report);
            self.add_found(report, bytes);
        }
        // Their traces were not published, or are removed already.
        for report in entries {
            let path = self.entry_path(report);
            self.remove_leftover(&path);
        }
        for report in contexts {
            let path = self.context_path(report);
            self.remove_leftover(&path);
        }
        Ok(())
    }

    /// A report whose small file cannot be read counts as the least severe one. No consent allows it, as nobody knows whose it is:
    /// it is handed out to nobody, and is removed with those that are not allowed.
    fn add_found(&mut self, report: Report, trace_bytes: u64) {
        let path = self.entry_path(report);
        let mut entry = read_entry(&path).unwrap_or_else(|why| {
            let path = path.display();
            self.log.push(format!(
                "{path}: {why}; nobody knows whose report it is, so that no consent allows it"
            ));
            Entry {
                is_unreadable: true,
                ..Entry::default()
            }
        });
        entry.report = report;
        entry.bytes = trace_bytes;
        let bytes_of = |path: &Path| fs::metadata(path).map_or(0, |facts| facts.len());
        let entry_bytes = bytes_of(&path) + bytes_of(&self.context_path(report));
        self.kept.insert(report, entry);
        self.bytes.insert(report, trace_bytes + entry_bytes);
    }

    fn remove_leftover(&mut self, path: &Path) {
        let result = fs::remove_file(path);
        let path = path.display();
        self.log.push(match result {
            Ok(()) => format!("{path} removed: left behind by an interrupted service"),
            Err(e) => format!("{path} was left behind, and cannot be removed: {e}"),
        });
    }
}
