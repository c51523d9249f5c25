// SPDX-License-Identifier: Apache-2.0
//! Recordings that a user asks for: all processes of a package get rings for a while, also those that start meanwhile, and each
//! leaves a report at the end of that time, or when it ends before.
//!
//! The policy, consent and the budget hold as always: a recording takes rings from other processes, and no more memory.

use hindsight_trace_format::protocol::TriggerSeverity;

use super::action::Action;
use super::event::{Connection, Report};
use super::pending::{Stage, Symptom};
use super::process::{Label, Link};
use super::recordings::{is_of, UserRecording, MAX_RECORDINGS, SECONDS};
use super::requests::NOT_ENABLED;
use super::state::{State, NO_ANSWER};
use super::text;
use crate::policy::{Level, Recording};

/// The detector of reports of recordings.
const RECORDED: &str = "recorded";

impl State {
    /// Begins a recording.
    ///
    /// # Errors
    /// If it is not possible or not allowed: why, with the remedy.
    pub(super) fn record(&mut self, reply: u64, package: &str, seconds: u32) -> Result<(), String> {
        let shown = text::line(package);
        if !SECONDS.contains(&seconds) {
            let (least, most) = (SECONDS.start(), SECONDS.end());
            return Err(format!(
                "a recording takes {least} to {most} s, not {seconds} s"
            ));
        }
        if !self.policy.enabled {
            return Err(format!("nothing is recorded: {NOT_ENABLED}"));
        }
        if self.policy.memory.call_rings == 0 {
            return Err("the policy allows no rings of calls: raise call-rings".into());
        }
        if self.recordings.0.len() >= MAX_RECORDINGS {
            return Err(format!(
                "{MAX_RECORDINGS} recordings are under way: wait for one to end"
            ));
        }
        if self.recordings.covers(package) {
            return Err(format!(
                "\"{shown}\" is being recorded already: wait for its end"
            ));
        }
        let mut found = self.processes.values().filter(|p| is_of(package, &p.name));
        if found.clone().next().is_some() && found.all(|p| p.recording.level == Level::None) {
            let why = self.why_no_level();
            return Err(format!("\"{shown}\" is not recorded: {why}"));
        }
        let mut of_package = self.processes.values().filter(|p| is_of(package, &p.name));
        if of_package.clone().next().is_some() && of_package.all(|p| p.recording.rings == 0) {
            return Err(format!(
                "the policy allows \"{shown}\" no ring of calls: raise rings in its exception, or rings-per-process"
            ));
        }
        if !self.replies.has_room() {
            return Err("too many requests wait for their reports; try again".into());
        }
        self.replies.open(reply);
        let until_ns = self
            .now_ns()
            .saturating_add(u64::from(seconds) * 1_000_000_000);
        self.recordings.0.push(UserRecording {
            reply,
            package: package.to_owned(),
            until_ns,
            ending: None,
        });
        self.look_up_recordings();
        Ok(())
    }

    /// Recordings whose time is over leave a report of each of their processes. A process gives its rings back when they are taken.
    pub(super) fn end_recordings(&mut self) {
        let now_ns = self.now_ns();
        let mut all = std::mem::take(&mut self.recordings.0);
        let before = all.len();
        for recording in &mut all {
            if recording.ending.is_none() && recording.until_ns <= now_ns {
                recording.ending = Some(self.report_recording(recording));
            }
        }
        all.retain(|r| {
            !r.ending
                .as_ref()
                .is_some_and(|reports| self.are_taken(reports))
        });
        let has_changed = all.len() < before;
        self.recordings.0 = all;
        if has_changed {
            self.look_up_recordings();
        }
    }

    /// Whether none of these reports has still to take its rings.
    fn are_taken(&self, reports: &[Report]) -> bool {
        // Whoever cannot be told anything takes none.
        let all = self.processes.values();
        let all = all.filter(|p| p.link == Link::Connected);
        let pending = all.flat_map(|p| p.report.iter().chain(&p.next));
        let mut waiting =
            pending.filter(|p| matches!(p.stage, Stage::Waiting { .. } | Stage::Taking { .. }));
        !waiting.any(|p| reports.contains(&p.report))
    }

    fn report_recording(&mut self, recording: &UserRecording) -> Vec<Report> {
        let all = self.processes.iter();
        let found =
            all.filter(|(_, p)| p.link == Link::Connected && is_of(&recording.package, &p.name));
        let found: Vec<(Connection, Label, Recording, bool)> = found
            .map(|(connection, p)| (*connection, p.label(), p.recording, p.may_hold != 0))
            .collect();
        let all = self.processes.values();
        let lost = all.filter(|p| p.link == Link::Lost && is_of(&recording.package, &p.name));
        for process in lost {
            self.replies
                .note(recording.reply, process.label(), NO_ANSWER);
        }
        let mut reports = Vec::new();
        let first = self.limiter.next_report();
        for (connection, label, said, has_rings) in found {
            if said.level == Level::None {
                let why = format!("nothing is recorded of it: {}", self.why_no_level());
                self.replies.note(recording.reply, label, &why);
            } else if said.rings == 0 {
                let why = "the policy allows it no ring of calls: raise rings in its exception, or rings-per-process";
                self.replies.note(recording.reply, label, why);
            } else if has_rings {
                let report = self.asked_of(connection, RECORDED, "recorded on request");
                self.replies.also(recording.reply, report);
                reports.push(report);
            } else {
                let why = "it got no ring of calls: raise budget-mib or call-rings in the policy, or close other traced apps";
                self.replies.note(recording.reply, label, why);
            }
        }
        let nothing = format!(
            "no process of \"{}\" was recorded: is it installed, started with tracing, and connected? The status lists all that are",
            text::line(&recording.package)
        );
        self.group_requested(&reports, first);
        let answer = self.replies.close(recording.reply, nothing);
        self.actions.extend(answer);
        reports
    }

    /// A process that is being recorded has ended: its rings are kept, also if it ended by itself.
    pub(super) fn recorded_ended(&mut self, connection: Connection) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        let recordings = self.recordings.0.iter();
        let replies: Vec<u64> = recordings
            .filter(|r| is_of(&r.package, &process.name))
            .map(|r| r.reply)
            .collect();
        let is_worth = process.has_recorded() && process.recording.level.strings().is_some();
        if replies.is_empty() || !is_worth {
            return;
        }
        let report = match process.unread() {
            Some(pending) => pending.report,
            None => {
                let how = match process.has_farewell {
                    true => "it ended by itself",
                    false => "it was killed",
                };
                let symptom = Symptom {
                    severity: TriggerSeverity::Requested,
                    detector: RECORDED.into(),
                    reason: format!("recorded on request; {how}"),
                    tid: 0,
                    at_boottime_ns: self.now_ns(),
                };
                self.begin(connection, symptom, Stage::Ready)
            }
        };
        for reply in replies {
            self.replies.also(reply, report);
        }
    }

    /// Ends a recording of a package now, as if its time were over: whoever began it gets the answer.
    pub(super) fn asked_end(&mut self, reply: u64, package: &str) {
        let now_ns = self.now_ns();
        let going_on = self.recordings.0.iter_mut();
        let found = going_on
            .filter(|r| r.ending.is_none() && r.package == package)
            .map(|r| r.until_ns = now_ns)
            .count();
        let result = match found {
            0 => Err(format!(
                "no recording of \"{}\" is under way; 'status' lists all that are",
                text::line(package)
            )),
            _ => Ok(Vec::new()),
        };
        self.actions.push(Action::Answer { reply, result });
    }

    /// A recording cannot begin.
    pub(super) fn asked_record(&mut self, reply: u64, package: &str, seconds: u32) {
        if let Err(problem) = self.record(reply, package, seconds) {
            let result = Err(problem);
            self.actions.push(Action::Answer { reply, result });
        }
    }
}
