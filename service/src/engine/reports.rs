// SPDX-License-Identifier: Apache-2.0
//! A report, from its trigger to its file: the process takes its rings, the service reads them, the process gets them back.
//!
//! One report of a process is under way at a time, and one process is read at a time.

use std::cmp::Reverse;

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{FromService, TakeOutcome, Trigger, TriggerSeverity};

use super::action::{About, Action};
use super::event::{Connection, Pressure, Report};
use super::pending::{Merge, Pending, Stage, Symptom};
use super::process::{Label, Link, Process};
use super::state::{Outcome, State, ANSWER_NS};

/// Reports of these processes that wait for something that will come.
fn queued_of<'a>(processes: impl Iterator<Item = &'a Process>) -> usize {
    let pending = processes.flat_map(|process| process.report.iter().chain(&process.next));
    pending.filter(|pending| pending.is_queued()).count()
}

impl State {
    /// A process found something.
    pub(super) fn trigger(&mut self, connection: Connection, trigger: Trigger) {
        let symptom = Symptom::of_process(trigger, self.now_ns());
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if process.recording.level.strings().is_none() {
            self.count(Outcome::NotAllowed);
            return;
        }
        if !self.policy.detectors.is_on(&symptom.detector) {
            self.count(Outcome::DetectorOff);
            return;
        }
        if !self.policy.reports.severities.contains(&symptom.severity) {
            self.count(Outcome::Severity);
            return;
        }
        let now_ns = self.now.boottime_ns;
        let merge = process.merge(&symptom);
        if merge == Merge::Kept {
            process.is_told(&symptom, now_ns);
        }
        if merge != Merge::Apart {
            self.count(Outcome::Merged);
            return;
        }
        if self.pressure == Pressure::Full {
            self.count(Outcome::Pressure);
            return;
        }
        if self.admit(connection, symptom.clone(), Stage::Waiting { until_ns: 0 }) {
            if let Some(process) = self.processes.get_mut(&connection) {
                process.is_told(&symptom, now_ns);
            }
        }
    }

    /// Begins a report if queue and limits allow it; after the one under way, if there is one.
    pub(super) fn admit(&mut self, connection: Connection, symptom: Symptom, stage: Stage) -> bool {
        let Some(process) = self.processes.get(&connection) else {
            return false;
        };
        let uid = process.peer.uid;
        let queue = self.policy.reports.queue;
        // No user id keeps the reports of all others out.
        let of_uid = self.processes.values().filter(|p| p.peer.uid == uid);
        let is_full =
            self.queued() >= queue as usize || queued_of(of_uid) >= queue.div_ceil(2) as usize;
        if is_full {
            self.count(Outcome::QueueFull);
            return false;
        }
        let limits = &self.policy.limits;
        let admitted =
            self.limiter
                .admit_report(self.now.boottime_ns, limits, uid, &symptom.detector);
        if let Err(refusal) = admitted {
            self.count(Outcome::of_limit(refusal));
            return false;
        }
        let counted = self.limiter.newest_report();
        let report = self.begin(connection, symptom, stage);
        let process = self.processes.get_mut(&connection);
        let pending = process.map(|p| p.report.iter_mut().chain(&mut p.next));
        if let Some(pending) = pending.and_then(|mut all| all.find(|p| p.report == report)) {
            pending.admitted = counted;
        }
        if self.policy.reports.peers != 0 {
            self.looks.push(Action::FindPeers { report, connection });
        }
        true
    }

    /// Begins a report. Returns its number.
    pub(super) fn begin(
        &mut self,
        connection: Connection,
        symptom: Symptom,
        stage: Stage,
    ) -> Report {
        let report = self.limiter.number_report();
        self.is_unsaved = true;
        let until_ns = self.now_ns().saturating_add(ANSWER_NS);
        if let Some(process) = self.processes.get_mut(&connection) {
            // Whoever records the process does not find in its rings what this report takes. Those of an earlier instance of the service
            // were taken before.
            let were_taken = stage == Stage::Ready && process.link == Link::Connected;
            let recordings = self.recordings.replies_of(&process.name);
            for reply in recordings.into_iter().filter(|_| !were_taken) {
                self.replies.also(reply, report);
            }
            let pending = Pending {
                report,
                taken_as: report,
                admitted: None,
                group: report,
                symptom,
                stage: match stage {
                    Stage::Waiting { .. } => Stage::Waiting { until_ns },
                    stage => stage,
                },
                reads_all: process.link == Link::Ended,
            };
            match &process.report {
                None => process.report = Some(pending),
                Some(_) => process.next = Some(pending),
            }
        }
        report
    }

    /// Reports that wait for something that will come.
    pub(super) fn queued(&self) -> usize {
        queued_of(self.processes.values())
    }

    /// The process has taken its rings, or not.
    pub(super) fn taken(&mut self, connection: Connection, report: Report, outcome: TakeOutcome) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let Some(pending) = &mut process.report else {
            return;
        };
        if pending.taken_as != report || !matches!(pending.stage, Stage::Taking { .. }) {
            return;
        }
        match outcome {
            TakeOutcome::Taken => pending.stage = Stage::Ready,
            TakeOutcome::Nothing => self.give_up(connection, Outcome::Nothing),
            TakeOutcome::Refused => self.give_up(connection, Outcome::ProcessRefused),
        }
    }

    /// The file is written, or not.
    pub(super) fn written(&mut self, report: Report, is_kept: bool) {
        let is_it = |pending: &Pending| pending.report == report && pending.stage == Stage::Writing;
        let mut all = self.processes.iter();
        let found = all.find(|(_, process)| process.report.as_ref().is_some_and(is_it));
        let Some((connection, _)) = found else {
            return;
        };
        let outcome = if is_kept {
            Outcome::Kept
        } else {
            Outcome::NotWritten
        };
        self.finish(*connection, outcome);
    }

    /// The report is over, and nothing was taken for it: there is nothing to give back.
    fn give_up(&mut self, connection: Connection, outcome: Outcome) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.taken = 0;
            if let Some(pending) = &mut process.report {
                pending.stage = Stage::AtItsEnd;
            }
        }
        self.finish(connection, outcome);
    }

    /// The report is over: the process gets its rings back, and the next report begins.
    pub(super) fn finish(&mut self, connection: Connection, outcome: Outcome) {
        let until_ns = self.now_ns().saturating_add(ANSWER_NS);
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let Some(pending) = process.report.take() else {
            return;
        };
        process.report = process.next.take();
        let severity = pending.symptom.severity;
        let has_other = |next: &Pending| next.symptom.severity >= severity;
        if outcome != Outcome::Kept && !process.report.as_ref().is_some_and(has_other) {
            // Its end is the last chance.
            if severity >= TriggerSeverity::Fatal {
                process.crashed = None;
            }
            if severity >= TriggerSeverity::Stuck {
                process.anr_ns = None;
            }
        }
        if let Some(next) = &mut process.report {
            next.stage = match process.link {
                Link::Connected => Stage::Waiting { until_ns },
                Link::Lost => Stage::AtItsEnd,
                Link::Ended => Stage::Ready,
            };
            next.reads_all = process.link == Link::Ended;
        }
        let label = process.label();
        let is_connected = process.link == Link::Connected;
        if is_connected && pending.has_rings_taken() {
            self.release(connection, pending.taken_as);
        }
        self.count(outcome);
        if outcome != Outcome::Kept {
            self.give_back(&pending);
        }
        self.tell(&label, pending.report, outcome);
        self.repay(pending.taken_as);
        self.forget_if_over(connection);
    }

    /// A report that waited for another one of its process does not begin.
    pub(super) fn drop_next(&mut self, label: &Label, next: &Pending, outcome: Outcome) {
        self.count(outcome);
        self.give_back(next);
        self.tell(label, next.report, outcome);
    }

    /// Nothing came of this report: it does not count in the limits, unless that was so too often lately.
    pub(super) fn give_back(&mut self, pending: &Pending) {
        let now_ns = self.now_ns();
        if let Some(admitted) = pending.admitted {
            let limits = &self.policy.limits;
            self.is_unsaved |= self.limiter.give_back(now_ns, limits, admitted);
        }
    }

    /// The process uses the rings of this report again.
    pub(super) fn release(&mut self, connection: Connection, taken_as: Report) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.releasing = process.taken_in_all();
            process.is_unasked |= process.releasing != 0 || process.is_withdrawn;
            process.taken = 0;
            process.owed = None;
            let report = taken_as;
            self.send(connection, FromService::Release { report });
        }
    }

    /// A process that has another connection since its rings were taken gets them back there.
    fn repay(&mut self, taken_as: Report) {
        let mut all = self.processes.iter();
        let owed = all.find(|(_, process)| process.owed == Some(taken_as));
        if let Some((connection, _)) = owed {
            self.release(*connection, taken_as);
        }
    }

    /// Answers the requests that wait for this report.
    pub(super) fn tell(&mut self, process: &Label, report: Report, outcome: Outcome) {
        let problem = Some(outcome.text()).filter(|_| outcome != Outcome::Kept);
        let answers = self.replies.tell(report, process, problem);
        self.actions.extend(answers);
    }

    /// The memory of a process that has ended is not needed once its last report is over.
    pub(super) fn forget_if_over(&mut self, connection: Connection) {
        let process = self.processes.get(&connection);
        if process.is_some_and(|p| p.link == Link::Ended && p.report.is_none()) {
            self.processes.remove(&connection);
            self.actions.push(Action::Forget { connection });
        }
    }

    /// Begins all that can begin: rings are taken as far as there is memory, and one process is read.
    pub(super) fn proceed(&mut self) {
        for connection in self.with_stage(|stage| matches!(stage, Stage::Waiting { .. })) {
            self.take(connection);
        }
        if self.with_stage(|stage| stage == Stage::Writing).is_empty() {
            let ready = self.with_stage(|stage| stage == Stage::Ready);
            if let Some(connection) = ready.first() {
                self.write(*connection);
            }
        }
    }

    /// Without consent nothing is written, also if it was there when the report began.
    pub(super) fn withdraw(&mut self) {
        let all = self.processes.iter();
        let not_allowed: Vec<Connection> = all
            .filter(|(_, process)| process.recording.level.strings().is_none())
            .map(|(connection, _)| *connection)
            .collect();
        for connection in not_allowed {
            while let Some(process) = self.processes.get_mut(&connection) {
                let pending = process.report.as_ref();
                if pending.is_none_or(|pending| pending.stage == Stage::Writing) {
                    let (label, next) = (process.label(), process.next.take());
                    if let Some(next) = next {
                        self.drop_next(&label, &next, Outcome::Withdrawn);
                    }
                    break;
                }
                self.finish(connection, Outcome::Withdrawn);
            }
        }
    }

    /// Processes whose report is at this stage, the most severe and then the oldest report first.
    fn with_stage(&self, is_it: impl Fn(Stage) -> bool) -> Vec<Connection> {
        let mut found: Vec<_> = self
            .processes
            .iter()
            .filter_map(|(connection, process)| {
                let pending = process.report.as_ref().filter(|p| is_it(p.stage))?;
                Some((
                    Reverse(pending.symptom.severity),
                    pending.report,
                    *connection,
                ))
            })
            .collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(_, _, connection)| connection)
            .collect()
    }

    fn take(&mut self, connection: Connection) {
        let demand = self.demand(|other, process| {
            let is_it = other == connection;
            let taken = if is_it { process.may_hold } else { 0 };
            let taken = taken.saturating_add(process.taken_in_all());
            (process.may_hold, taken)
        });
        if self.pressure == Pressure::Full || !self.fits(&demand) {
            return;
        }
        let until_ns = self.now_ns().saturating_add(ANSWER_NS);
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let Some(pending) = &mut process.report else {
            return;
        };
        if process.owed.is_some() {
            return;
        }
        pending.stage = Stage::Taking {
            told_ns: self.now.boottime_ns,
            until_ns,
        };
        process.taken = process.may_hold;
        let report = pending.taken_as;
        self.send(connection, FromService::Take { report });
    }

    fn write(&mut self, connection: Connection) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let (Some(pending), Some(consent)) =
            (&mut process.report, process.recording.level.strings())
        else {
            return;
        };
        pending.stage = Stage::Writing;
        let symptom = pending.symptom.clone();
        let (report, group, has_ended) = (pending.report, pending.group, pending.reads_all);
        let limits = process.read_limits();
        self.actions.push(Action::Write {
            report,
            connection,
            about: About {
                severity: symptom.severity,
                detector: symptom.detector,
                reason: symptom.reason,
                tid: symptom.tid,
                process: process.name.clone(),
                pid: process.peer.pid,
                uid: process.peer.uid,
                group,
                at_boottime_ns: symptom.at_boottime_ns,
                ended_boottime_ns: if has_ended { process.ended_ns } else { 0 },
                consent,
                log_bytes: match consent {
                    Consent::Content => self.policy.reports.log_bytes,
                    Consent::Structure | Consent::Names => 0,
                },
            },
            has_ended,
            limits,
        });
    }
}
