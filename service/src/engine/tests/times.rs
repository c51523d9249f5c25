// SPDX-License-Identifier: Apache-2.0
//! When rings were taken, and that each report has what it is about and what somebody asked for.

use std::collections::BTreeMap;

use crate::engine::ProcessReport;

/// What is known of all reports.
#[derive(Debug, Default)]
pub(super) struct Times {
    now_ns: u64,
    /// The number of the event.
    event: u64,
    /// When rings were taken at the latest, by process id and the number that the process knows; ns.
    taken_ns: BTreeMap<(u32, u64), u64>,
    /// When, by number of the event, a process was told to take its rings for a report, or left all of them.
    taken_at: BTreeMap<u64, u64>,
    /// When somebody asked for reports, by number of the event.
    asked_at: BTreeMap<u64, u64>,
}

impl Times {
    /// Another instance of the service: reports that the one before had begun have other numbers from now on.
    pub(super) fn restart(&mut self) {
        self.taken_ns.clear();
    }

    pub(super) fn next_event(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.event += 1;
    }

    pub(super) fn event(&self) -> u64 {
        self.event
    }

    /// The process says that it has taken its rings for this report at some time before.
    pub(super) fn joined(&mut self, pid: u32, report: u64) {
        self.taken_ns.retain(|(other, _), _| *other != pid);
        self.taken(pid, report);
    }

    /// The process has taken its rings, by its own account.
    pub(super) fn taken(&mut self, pid: u32, report: u64) {
        self.taken_ns.insert((pid, report), self.now_ns);
    }

    /// A process is told to take its rings.
    pub(super) fn told(&mut self, report: u64) {
        self.taken_at.insert(report, self.event);
    }

    /// The report has all that a process left that ended at this event.
    pub(super) fn left(&mut self, report: u64, event: u64) {
        self.taken_at.insert(report, event);
    }

    pub(super) fn asked(&mut self, reply: u64) {
        self.asked_at.insert(reply, self.event);
    }

    /// The report of a process that lives is about something that its rings have.
    pub(super) fn check_write(&self, pid: u32, report: u64, at_ns: u64) {
        if let Some(taken_ns) = self.taken_ns.get(&(pid, report)) {
            assert!(
                at_ns <= *taken_ns,
                "the rings of report {report} were taken before"
            );
        }
    }

    /// A request for a report is answered with rings that were taken after it.
    pub(super) fn check_answer(&self, reply: u64, lines: &[ProcessReport]) {
        let asked_at = self.asked_at.get(&reply).copied().unwrap_or(0);
        let written = lines.iter().filter(|line| line.problem.is_none());
        for report in written.filter_map(|line| line.report) {
            assert!(
                self.taken_at[&report] >= asked_at,
                "the rings of report {report} are older"
            );
        }
    }
}
