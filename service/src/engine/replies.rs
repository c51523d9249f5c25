// SPDX-License-Identifier: Apache-2.0
//! Answers that wait for reports.

use super::action::Action;
use super::event::Report;

/// The most requests that wait.
pub(super) const MAX_REQUESTS: usize = 16;

/// A request of a user that waits for reports.
#[derive(Clone, Debug)]
struct Request {
    reply: u64,
    waiting: Vec<Report>,
    lines: Vec<String>,
    has_files: bool,
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
            has_files: false,
        });
    }

    /// This became of a report; `None`: the file is written. Returns the answers that waited for it.
    pub(super) fn tell(
        &mut self,
        report: Report,
        process: &str,
        problem: Option<&str>,
    ) -> Vec<Action> {
        for request in &mut self.0 {
            let before = request.waiting.len();
            request.waiting.retain(|waiting| *waiting != report);
            if request.waiting.len() < before {
                let outcome = problem.unwrap_or("written");
                let line = format!("report {report} of {process}: {outcome}");
                request.lines.push(line);
                request.has_files |= problem.is_none();
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
    fn answer(self) -> Action {
        let text = self.lines.join("\n");
        Action::Answer {
            reply: self.reply,
            result: if self.has_files { Ok(text) } else { Err(text) },
        }
    }
}
