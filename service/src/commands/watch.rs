// SPDX-License-Identifier: Apache-2.0
//! Clients that wait for the next report.

use crate::engine::Report;

/// The most of them at a time.
const MAX_WATCHERS: usize = 64;

/// All that wait, and the newest report.
#[derive(Debug, Default)]
pub struct Watchers {
    newest: Report,
    waiting: Vec<u64>,
}

impl Watchers {
    /// `newest` is the highest number in the store; 0: there is none.
    pub fn new(newest: Report) -> Self {
        Watchers {
            newest,
            waiting: Vec::new(),
        }
    }

    /// A client waits for a report after this one. Returns its answer if there is one already, or too many wait. `is_there`: whether a
    /// client has not gone.
    pub fn wait(
        &mut self,
        client: u64,
        after: Report,
        is_there: impl Fn(u64) -> bool,
    ) -> Option<Result<Vec<String>, String>> {
        if self.newest > after {
            return Some(Ok(vec![self.line()]));
        }
        if self.waiting.len() >= MAX_WATCHERS {
            self.waiting.retain(|client| is_there(*client));
        }
        if self.waiting.len() >= MAX_WATCHERS {
            let message = "too many clients wait for reports; try again after the next one";
            return Some(Err(message.to_owned()));
        }
        self.waiting.push(client);
        None
    }

    /// A report was kept. Returns the clients that waited, and their answer.
    pub fn kept(&mut self, report: Report) -> (Vec<u64>, String) {
        self.newest = self.newest.max(report);
        (std::mem::take(&mut self.waiting), self.line())
    }

    fn line(&self) -> String {
        format!("report {}", self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_of_the_next_report_once() {
        let mut watchers = Watchers::new(4);
        let known = vec!["report 4".to_owned()];
        let all = |_| true;
        assert_eq!(watchers.wait(1, 3, all), Some(Ok(known)));
        assert_eq!(watchers.wait(2, 4, all), None);
        assert_eq!(watchers.kept(6), (vec![2], "report 6".to_owned()));
        // An older report is written last.
        assert_eq!(watchers.kept(5), (vec![], "report 6".to_owned()));
        assert_eq!(watchers.wait(2, 6, all), None);
    }

    #[test]
    fn there_is_no_end_of_clients_that_come_and_go() {
        let mut watchers = Watchers::default();
        let refused = (0..1000).filter(|client| watchers.wait(*client, 0, |_| true).is_some());
        assert_eq!(refused.count(), 1000 - MAX_WATCHERS);
        // All but two of them have gone.
        let is_there = |client| !(2..1000).contains(&client);
        assert_eq!(watchers.wait(1000, 0, is_there), None);
        assert_eq!(watchers.kept(7).0, [0, 1, 1000]);
    }
}
