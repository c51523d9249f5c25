// SPDX-License-Identifier: Apache-2.0
//! Answers that wait for reports.

use super::action::{Action, ProcessReport};
use super::event::Report;
use super::process::Label;

/// The most requests that wait.
pub(super) const MAX_REQUESTS: usize = 16;

/// Stands for the reports that are still to come.
const OPEN: Report = 0;

/// A request of a user that waits for reports.
#[derive(Clone, Debug)]
struct Request {
    reply: u64,
    waiting: Vec<Report>,
    lines: Vec<ProcessReport>,
}

/// All requests that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies(Vec<Request>);

impl Replies {
    /// Whether one more may wait.
    pub(super) fn has_room(&self) -> bool {
        self.0.len() < MAX_REQUESTS
    }

    /// The request is answered when all these reports are over.
    pub(super) fn wait(&mut self, reply: u64, reports: Vec<Report>) {
        self.0.push(Request {
            reply,
            waiting: reports,
            lines: Vec::new(),
        });
    }

    /// The request is answered when it is [closed](Self::close) and its reports are over.
    pub(super) fn open(&mut self, reply: u64) {
        self.wait(reply, vec![OPEN]);
    }

    /// An open request waits for this report, too.
    pub(super) fn also(&mut self, reply: u64, report: Report) {
        if let Some(request) = self.find(reply) {
            if !request.waiting.contains(&report) {
                request.waiting.push(report);
            }
        }
    }

    /// A process leaves no report for an open request.
    pub(super) fn note(&mut self, reply: u64, process: Label, problem: &str) {
        if let Some(request) = self.find(reply) {
            request.lines.push(ProcessReport {
                report: None,
                process: process.name,
                pid: process.pid,
                problem: Some(problem.to_owned()),
            });
        }
    }

    /// No more reports are added. Returns the answer, if it does not wait for any; `nothing` is the answer if there was none.
    pub(super) fn close(&mut self, reply: u64, nothing: String) -> Option<Action> {
        let request = self.find(reply)?;
        request.waiting.retain(|waiting| *waiting != OPEN);
        if !request.waiting.is_empty() {
            return None;
        }
        let at = self.0.iter().position(|request| request.reply == reply)?;
        let request = self.0.remove(at);
        Some(match request.lines.is_empty() {
            true => Action::Answer {
                reply,
                result: Err(nothing),
            },
            false => request.answer(),
        })
    }

    /// Whoever waits for the one report waits for the other one instead, which has all that it would have had.
    pub(super) fn instead(&mut self, report: Report, of: Report) {
        for request in self.0.iter_mut().filter(|r| r.waiting.contains(&of)) {
            request.waiting.retain(|waiting| *waiting != of);
            if !request.waiting.contains(&report) {
                request.waiting.push(report);
            }
        }
    }

    fn find(&mut self, reply: u64) -> Option<&mut Request> {
        self.0.iter_mut().find(|request| request.reply == reply)
    }

    /// This became of a report; `None`: the file is written. Returns the answers that waited for it.
    pub(super) fn tell(
        &mut self,
        report: Report,
        process: &Label,
        problem: Option<&str>,
    ) -> Vec<Action> {
        for request in &mut self.0 {
            let before = request.waiting.len();
            request.waiting.retain(|waiting| *waiting != report);
            if request.waiting.len() < before {
                request.lines.push(ProcessReport {
                    report: Some(report),
                    process: process.name.clone(),
                    pid: process.pid,
                    problem: problem.map(str::to_owned),
                });
            }
        }
        let (over, waiting) = std::mem::take(&mut self.0)
            .into_iter()
            .partition(|request| request.waiting.is_empty());
        self.0 = waiting;
        let over: Vec<Request> = over;
        over.into_iter().map(Request::answer).collect()
    }
}

impl Request {
    fn answer(mut self) -> Action {
        self.lines
            .sort_by_key(|line| line.report.unwrap_or(Report::MAX));
        let has_files = self.lines.iter().any(|line| line.problem.is_none());
        let texts = || -> Vec<String> { self.lines.iter().map(ProcessReport::text).collect() };
        let problems = (!has_files).then(|| texts().join("; "));
        Action::Answer {
            reply: self.reply,
            result: problems.map_or(Ok(self.lines), Err),
        }
    }
}
