// SPDX-License-Identifier: Apache-2.0
//! What is kept of a process that has ended or is lost.

use hindsight_trace_format::protocol::TriggerSeverity;
use hindsight_trace_format::shared::{Crash, CrashKind};

use super::action::Action;
use super::event::{Connection, Report};
use super::pending::{Pending, Stage, Symptom};
use super::process::{Link, Process};
use super::state::{Outcome, State};
use crate::policy::Killed;

/// The detector of ends without a farewell.
pub(super) const KILLED: &str = "killed";
/// The detector of exceptions that nothing caught.
const UNCAUGHT_EXCEPTION: &str = "uncaught-exception";
/// The detector of signals that end a process because of a fault in it.
const NATIVE_CRASH: &str = "native-crash";
/// The connection of a process that is killed may be lost before its end is seen: within this time the end still counts as one
/// in the foreground. ns.
const LOST_GRACE_NS: u64 = 1_000_000_000;
/// A process that has crashed may live on so long, while the user looks at a dialog or the system writes its stacks: its end then
/// belongs to the crash. ns.
const CRASH_NS: u64 = 10 * 60 * 1_000_000_000;
/// The system stops all threads of a process that a signal ends, and writes their stacks: if it is gone within this time, it
/// ended when the signal came. ns.
const DUMP_NS: u64 = 30 * 1_000_000_000;

impl State {
    /// The process does what it must not do: it is told nothing any more.
    pub(super) fn disconnect(&mut self, connection: Connection, why: &str) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if process.link != Link::Connected {
            return;
        }
        process.is_silent = true;
        let line = format!("{} is disconnected: {why}", process.label());
        self.actions.push(Action::Disconnect { connection });
        self.log(line);
        self.lost(connection);
    }

    /// The process lives, and can be told nothing any more. A report that needs its help is made when it ends.
    pub(super) fn lost(&mut self, connection: Connection) {
        let now_ns = self.now_ns();
        let grace_ns = self.policy.reports.killed_ns.max(LOST_GRACE_NS);
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if process.link != Link::Connected {
            return;
        }
        process.link = Link::Lost;
        process.answer_until_ns = None;
        if process.is_foreground {
            process.is_foreground = false;
            process.is_deferred = false;
            process.grace_until_ns = now_ns.saturating_add(grace_ns);
        }
        let mut late: Vec<Report> = Vec::new();
        if let Some(pending) = &mut process.report {
            if matches!(pending.stage, Stage::Waiting { .. } | Stage::Taking { .. }) {
                pending.stage = Stage::AtItsEnd;
                late.push(pending.report);
            }
        }
        late.extend(process.next.as_ref().map(|next| next.report));
        let label = process.label();
        for report in late {
            self.tell(&label, report, Outcome::NoAnswer);
        }
    }

    /// The process has ended. False: that was known, or it has another connection.
    pub(super) fn ended(&mut self, connection: Connection) -> bool {
        let now_ns = self.now_ns();
        let Some(process) = self.processes.get_mut(&connection) else {
            return false;
        };
        if process.link == Link::Ended {
            return false;
        }
        let is_killed = !process.has_farewell;
        let crash = process.noted.take();
        let is_new = |crash: &Symptom| {
            let since = |ns: u64| now_ns.saturating_sub(ns) < CRASH_NS;
            let told = process.crashed.as_ref();
            // A process may survive an exception, and end by a signal.
            let is_told = told.is_some_and(|(kind, ns)| *kind == crash.detector && since(*ns));
            since(crash.at_boottime_ns) && !is_told
        };
        let is_on = |crash: &Symptom| self.policy.detectors.is_on(&crash.detector);
        let crash = crash.filter(|crash| is_new(crash) && is_on(crash));
        let is_recorded = self.recordings.covers(&process.name);
        self.close(connection, is_killed || crash.is_some() || is_recorded);
        match crash {
            Some(crash) => self.crashed(connection, crash),
            None if is_killed => self.killed(connection),
            None => {}
        }
        true
    }

    /// The process ends by itself, by its own account.
    pub(super) fn left(&mut self, connection: Connection) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.has_farewell = true;
        }
    }

    /// The process has noted a crash in its memory, by its own account.
    pub(super) fn noted(&mut self, connection: Connection, crash: &Crash) {
        let symptom = self.symptom_of(crash);
        if let Some(process) = self.processes.get_mut(&connection) {
            process.noted = Some(symptom);
        }
    }

    /// What a report of this crash would be about.
    pub(super) fn symptom_of(&self, crash: &Crash) -> Symptom {
        let now_ns = self.now_ns();
        let (detector, reason) = match crash.kind {
            CrashKind::UncaughtException => {
                (UNCAUGHT_EXCEPTION, "crash: an uncaught exception".into())
            }
            CrashKind::Signal(number) => (NATIVE_CRASH, format!("crash: signal {number}")),
        };
        let at_boottime_ns = match crash.at_boottime_ns {
            0 => now_ns,
            at => at.min(now_ns),
        };
        Symptom {
            severity: TriggerSeverity::Fatal,
            detector: detector.into(),
            reason,
            tid: crash.tid,
            at_boottime_ns,
        }
    }

    /// The process has ended by a crash that has no report yet: one that the service was not told of, or whose report failed.
    fn crashed(&mut self, connection: Connection, crash: Symptom) {
        let now_ns = self.now_ns();
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if crash.detector == NATIVE_CRASH && now_ns.saturating_sub(crash.at_boottime_ns) < DUMP_NS {
            process.ended_ns = crash.at_boottime_ns;
        }
        if let Some(pending) = process.unread() {
            if pending.symptom.detector != crash.detector {
                pending.raise(crash);
            }
            return;
        }
        let process = self.processes.get(&connection);
        if process.is_some_and(|process| self.is_of_interest(process)) {
            self.admit(connection, crash, Stage::Ready);
        }
    }

    /// Nothing more comes from the process. Keeps its reports that can still be made: a process that ends by itself has given
    /// its taken rings back.
    fn close(&mut self, connection: Connection, is_worth: bool) {
        let now_ns = self.now_ns();
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        process.link = Link::Ended;
        process.ended_ns = now_ns;
        process.answer_until_ns = None;
        process.is_deferred = false;
        let is_wanted =
            |pending: &Pending| is_worth || pending.symptom.severity == TriggerSeverity::Fatal;
        let label = process.label();
        if let Some(next) = process.next.take_if(|next| !is_wanted(next)) {
            self.drop_next(&label, &next, Outcome::EndedFirst);
        }
        let process = self.processes.get_mut(&connection);
        let Some(pending) = process.and_then(|process| process.report.as_mut()) else {
            return;
        };
        match pending.stage {
            Stage::Writing => {}
            _ if is_wanted(pending) => {
                pending.stage = Stage::Ready;
                pending.reads_all = true;
                self.join_next(connection);
            }
            _ => self.finish(connection, Outcome::EndedFirst),
        }
    }

    /// The report under way has all that the one after it would have: there is only one.
    fn join_next(&mut self, connection: Connection) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let (Some(pending), Some(next)) = (&mut process.report, process.next.take()) else {
            return;
        };
        let report = pending.report;
        pending.raise_or_add(&next.symptom);
        self.count(Outcome::Merged);
        self.give_back(&next);
        self.replies.instead(report, next.report);
    }

    /// An end without a farewell is worth a report: the one that has all that the process leaves, if there is such a one.
    fn killed(&mut self, connection: Connection) {
        let now_ns = self.now_ns();
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        let since = |ns: u64| now_ns.saturating_sub(ns) < CRASH_NS;
        // The user may have closed it in the dialog that says that it does not respond.
        let crashed_ns = process.crashed.as_ref().map(|(_, ns)| *ns);
        let has_crashed = [crashed_ns, process.anr_ns]
            .into_iter()
            .flatten()
            .any(since);
        if has_crashed || !self.is_worth_a_report(process) {
            return;
        }
        let symptom = Symptom {
            severity: TriggerSeverity::Fatal,
            detector: KILLED.into(),
            reason: self.killed_reason(),
            tid: 0,
            at_boottime_ns: now_ns,
        };
        let process = self.processes.get_mut(&connection);
        match process.and_then(Process::unread) {
            Some(pending) if pending.symptom.severity < symptom.severity => pending.raise(symptom),
            Some(_) => {}
            None => {
                self.admit(connection, symptom, Stage::Ready);
            }
        }
    }

    /// What is known: who killed it is not.
    fn killed_reason(&self) -> String {
        let most = self.policy.reports.memory_percent;
        match self.shortage.text(self.now_ns(), self.pressure, most) {
            Some(facts) => format!("the process was killed while memory was short ({facts})"),
            None => "the process was killed".into(),
        }
    }

    fn is_worth_a_report(&self, process: &Process) -> bool {
        let reports = &self.policy.reports;
        let is_worth = match reports.killed {
            Killed::None => false,
            Killed::All => true,
            Killed::Foreground => process.is_foreground || self.now_ns() < process.grace_until_ns,
        };
        is_worth && self.is_of_interest(process)
    }

    fn is_of_interest(&self, process: &Process) -> bool {
        let severities = &self.policy.reports.severities;
        process.has_recorded()
            && process.recording.level.strings().is_some()
            && severities.contains(&TriggerSeverity::Fatal)
    }
}
