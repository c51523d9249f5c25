// SPDX-License-Identifier: Apache-2.0
//! When the service's state is written to the log, so that a bug report has it: dumpstate collects the log, and cannot ask the service.

const HOUR_NS: u64 = 3_600_000_000_000;
/// Between two times because of reports, ns.
const AFTER_REPORT_NS: u64 = 10_000_000_000;
/// The most lines at once.
const MAX_LINES: usize = 40;

/// What was written, and when.
#[derive(Debug, Default)]
pub(super) struct StateLog {
    looked_ns: Option<u64>,
    has_report: bool,
    last: Vec<String>,
}

impl StateLog {
    /// A report was written.
    pub(super) fn report_written(&mut self) {
        self.has_report = true;
    }

    /// The lines for the log at this time, `CLOCK_BOOTTIME`, ns: after the start, after a report, and once an hour if the state has
    /// changed. Is asked when the service is awake for something else; nothing wakes it for this.
    pub(super) fn lines(
        &mut self,
        now_ns: u64,
        state: impl FnOnce() -> Vec<String>,
    ) -> Vec<String> {
        let wait_ns = match self.has_report {
            true => AFTER_REPORT_NS,
            false => HOUR_NS,
        };
        let passed_ns = self.looked_ns.map(|ns| now_ns.saturating_sub(ns));
        if passed_ns.is_some_and(|ns| ns < wait_ns) {
            return Vec::new();
        }
        self.looked_ns = Some(now_ns);
        self.has_report = false;
        let mut lines = state();
        lines.truncate(MAX_LINES);
        if lines == self.last {
            return Vec::new();
        }
        self.last.clone_from(&lines);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_written_after_reports_and_once_an_hour_if_it_changed() {
        let mut log = StateLog::default();
        let mut ask = |seconds: u64, is_report: bool, state: &str| {
            if is_report {
                log.report_written();
            }
            log.lines(seconds * 1_000_000_000, || vec![state.to_owned()])
                .len()
        };
        for (seconds, is_report, state, written) in [
            (5, false, "a", 1),
            (6, false, "b", 0),
            (8, true, "b", 0),
            // The report of 7 seconds ago.
            (15, false, "b", 1),
            (30, true, "c", 1),
            (3629, false, "d", 0),
            (3630, false, "c", 0),
            // Not looked at again before the next hour.
            (3631, false, "d", 0),
            (7230, false, "d", 1),
            (7240, true, "d", 0),
        ] {
            assert_eq!(ask(seconds, is_report, state), written, "{seconds}");
        }
        let many = log.lines(u64::MAX, || vec![String::from("x"); 1000]);
        assert_eq!(many.len(), MAX_LINES);
    }

    #[test]
    fn the_state_is_asked_for_only_when_it_may_be_written() {
        let mut log = StateLog::default();
        let _ = log.lines(0, Vec::new);
        assert!(log.lines(HOUR_NS - 1, || panic!("not now")).is_empty());
    }
}
