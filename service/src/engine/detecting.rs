// SPDX-License-Identifier: Apache-2.0
//! Which rules the detectors of processes follow, and what the service's own detectors found.

use hindsight_trace_format::protocol::{
    DetectorRule, DetectorRules, FromService, TriggerSeverity, COUNTERS_RULE, MAX_DETECTOR_RULES,
};

use super::event::{Connection, Finding};
use super::pending::{Merge, Stage, Symptom};
use super::process::Link;
use super::state::{Outcome, State};
use super::text;

impl State {
    /// Tells each process the rules of its detectors, if they have changed. What is not recorded is not looked at either.
    pub(super) fn send_rules(&mut self) {
        let detectors = &self.policy.detectors;
        // Processes note whom they serve while they follow any rule. Whatever a report begins by, a request or a kill among it, it
        // asks for these notes.
        let needs_any = detectors.needs_facts(true) || self.policy.reports.peers > 0;
        let mut changed = Vec::new();
        for (connection, process) in &self.processes {
            if process.link != Link::Connected {
                continue;
            }
            let mut rules = match process.recording.level.strings() {
                Some(_) => detectors.of_process(process.peer.uid, &process.name),
                None => Vec::new(),
            };
            let is_recorded = process.recording.level.strings().is_some();
            if rules.is_empty() && is_recorded && needs_any {
                rules.push(DetectorRule {
                    name: COUNTERS_RULE.into(),
                    numbers: Vec::new(),
                    method: String::new(),
                });
            }
            rules.truncate(MAX_DETECTOR_RULES);
            if process.rules.as_ref() != Some(&rules) {
                changed.push((*connection, rules));
            }
        }
        for (connection, rules) in changed {
            let revision = self.next_revision();
            if let Some(process) = self.processes.get_mut(&connection) {
                process.rules = Some(rules.clone());
            }
            let rules = DetectorRules { revision, rules };
            self.send(connection, FromService::Detectors(rules));
        }
    }

    /// Processes that detectors of the service look at: those that the user sees, and that are recorded.
    pub(super) fn observed(&self) -> Vec<Connection> {
        let all = self.processes.iter();
        let observed = all.filter(|(_, process)| {
            process.link == Link::Connected
                && process.is_foreground
                && process.recording.level.strings().is_some()
        });
        observed.map(|(connection, _)| *connection).collect()
    }

    /// A detector of the service found something about this process.
    pub(super) fn found(&mut self, connection: Connection, finding: Finding) {
        let now_ns = self.now_ns();
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if process.link != Link::Connected || process.recording.level.strings().is_none() {
            self.count(Outcome::NotAllowed);
            return;
        }
        if !self.policy.reports.severities.contains(&finding.severity) {
            self.count(Outcome::Severity);
            return;
        }
        let symptom = Symptom {
            severity: finding.severity.min(TriggerSeverity::Stuck),
            detector: text::detector(&finding.detector),
            reason: text::line(&finding.reason),
            tid: 0,
            at_boottime_ns: now_ns,
        };
        if process.merge(&symptom) == Merge::Apart {
            self.admit(connection, symptom, Stage::Waiting { until_ns: 0 });
        } else {
            self.count(Outcome::Merged);
        }
    }
}
