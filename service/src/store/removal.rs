// SPDX-License-Identifier: Apache-2.0
//! Removes reports that somebody wants to be gone.

use std::io;

use crate::engine::Report;

use super::{Entry, Store};

impl Store {
    /// Removes a report, and with the first of a group the others, too.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn remove_with_group(&mut self, report: Report) -> io::Result<()> {
        let of_group = self.kept.values().filter(|entry| entry.group() == report);
        let of_group: Vec<Report> = of_group.map(|entry| entry.report).collect();
        // The first one last: if the disk refuses, the rest can be removed again by its number.
        for other in of_group.into_iter().filter(|other| *other != report) {
            self.remove(other)?;
        }
        self.remove(report)
    }

    /// Removes all reports that do not fulfil a condition, `why` for people.
    ///
    /// # Errors
    /// If the disk refuses to remove some: which ones, for people. The others are gone.
    pub fn retain(&mut self, is_kept: impl Fn(&Entry) -> bool, why: &str) -> Result<(), String> {
        let not_kept = self.kept.values().filter(|entry| !is_kept(entry));
        let not_kept: Vec<Report> = not_kept.map(|entry| entry.report).collect();
        let mut problems = Vec::new();
        for report in not_kept {
            let line = match self.remove(report) {
                Ok(()) => format!("report {report} removed: {why}"),
                Err(e) => {
                    let line = format!("report {report} cannot be removed, but {why}: {e}");
                    problems.push(line.clone());
                    line
                }
            };
            self.log.push(line);
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("; ")),
        }
    }
}
