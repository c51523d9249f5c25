// SPDX-License-Identifier: Apache-2.0
//! What users ask for.

use hindsight_trace_format::protocol::TriggerSeverity;

use super::action::Action;
use super::event::{Connection, Report};
use super::pending::{Stage, Symptom};
use super::process::{Link, Process};
use super::state::{State, NO_ANSWER};
use super::text;

/// Why nothing is recorded of a process, although it is of others.
const NO_LEVEL: &str =
    "the policy is off for it (enabled), or there is no consent: 'consent show' tells";
/// Why nothing is recorded of any process.
pub(super) const NOT_ENABLED: &str =
    "the policy says enabled = false, or recording is switched off: 'switch on' ends that";
/// The detector of reports that users ask for.
const REQUESTED: &str = "requested";

impl State {
    /// A user wants reports of these processes.
    pub(super) fn asked(&mut self, reply: u64, process: &str, reason: &str) {
        let found = if self.replies.has_room() {
            self.asked_report(process, reason)
        } else {
            Err("too many requests wait for their reports; try again".into())
        };
        match found {
            Ok(reports) => self.replies.wait(reply, reports),
            Err(problem) => self.actions.push(Action::Answer {
                reply,
                result: Err(problem),
            }),
        }
    }

    /// Why nothing is recorded of a process that is connected.
    pub(super) fn why_no_level(&self) -> &'static str {
        match self.policy.enabled {
            true => NO_LEVEL,
            false => NOT_ENABLED,
        }
    }

    /// Begins reports of all these processes; limits do not count.
    fn asked_report(&mut self, process: &str, reason: &str) -> Result<Vec<Report>, String> {
        // A process that calls itself like the id of another one is not meant.
        let is_meant = |p: &Process| match process.parse() {
            Ok(pid) => p.peer.pid == pid,
            Err::<u32, _>(_) => p.name == process,
        };
        let all = self.processes.iter().filter(|(_, p)| is_meant(p));
        let (named, others): (Vec<_>, Vec<_>) = all.partition(|(_, p)| p.link == Link::Connected);
        if named.is_empty() && others.iter().any(|(_, p)| p.link == Link::Lost) {
            return Err(format!("\"{}\": {NO_ANSWER}", text::line(process)));
        }
        if named.is_empty() {
            return Err(format!(
                "no process \"{}\" is recorded; the status lists all that are",
                text::line(process)
            ));
        }
        let allowed = named
            .iter()
            .filter(|(_, p)| p.recording.level.strings().is_some());
        let allowed: Vec<Connection> = allowed.map(|(connection, _)| **connection).collect();
        if allowed.is_empty() {
            let (process, why) = (text::line(process), self.why_no_level());
            return Err(format!("\"{process}\" is not recorded: {why}"));
        }
        let first = self.limiter.next_report();
        let reports = allowed
            .into_iter()
            .map(|connection| self.asked_of(connection, REQUESTED, reason));
        let reports: Vec<Report> = reports.collect();
        self.group_requested(&reports, first);
        Ok(reports)
    }

    /// Reports of one request are a group, but not those that were under way for another reason: they have numbers below `next`,
    /// the next number before the request.
    pub(super) fn group_requested(&mut self, reports: &[Report], next: Report) {
        let begun = reports.iter().copied().filter(|report| *report >= next);
        let begun: Vec<Report> = begun.collect();
        if let Some(first) = begun.iter().min() {
            self.set_group(&begun, *first);
        }
    }

    /// A report of this process whose rings are taken after this: one that is to begin, if there is one.
    pub(super) fn asked_of(
        &mut self,
        connection: Connection,
        detector: &str,
        reason: &str,
    ) -> Report {
        let symptom = Symptom {
            severity: TriggerSeverity::Requested,
            detector: detector.into(),
            reason: text::line(reason),
            tid: 0,
            at_boottime_ns: self.now_ns(),
        };
        let process = self.processes.get_mut(&connection);
        if let Some(pending) = process.and_then(Process::before_it_takes) {
            pending.add(&symptom);
            return pending.report;
        }
        self.begin(connection, symptom, Stage::Waiting { until_ns: 0 })
    }
}
