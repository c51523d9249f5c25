// SPDX-License-Identifier: Apache-2.0
//! What a thread did by a trace of the whole device, in reports.

use hindsight_analysis::duration;
use hindsight_system_trace::Times;
use serde::Serialize;

/// How long a thread did what, ns, by a trace of the whole device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduledReport {
    /// On a processor.
    pub running_ns: u64,
    /// Ready to run, without a processor.
    pub runnable_ns: u64,
    /// Asleep.
    pub sleeping_ns: u64,
    /// Waiting for a disk.
    pub io_ns: u64,
    /// Waiting in the kernel, so that no signal ends it; not for a disk, or it is not recorded for what.
    pub blocked_ns: u64,
    /// Not recorded.
    pub unknown_ns: u64,
}

impl ScheduledReport {
    pub(super) fn of(times: &Times) -> Self {
        ScheduledReport {
            running_ns: times.running_ns,
            runnable_ns: times.runnable_ns,
            sleeping_ns: times.sleeping_ns,
            io_ns: times.io_ns,
            blocked_ns: times.blocked_ns,
            unknown_ns: times.unknown_ns + times.stopped_ns,
        }
    }

    /// As a sentence.
    pub(super) fn words(&self) -> String {
        let parts = [
            (self.running_ns, "on a processor"),
            (self.runnable_ns, "ready to run without one"),
            (self.sleeping_ns, "asleep"),
            (self.io_ns, "waiting for a disk"),
            (self.blocked_ns, "blocked in the kernel"),
        ];
        let parts = parts.iter().filter(|(ns, _)| *ns > 0);
        let parts: Vec<String> = parts
            .map(|(ns, what)| format!("{} {what}", duration(*ns)))
            .collect();
        format!(
            "By the system trace, it was {}. [recorded]",
            parts.join(", ")
        )
    }
}
