// SPDX-License-Identifier: Apache-2.0
//! What the engine wants to be done.

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{FromService, TriggerSeverity};
use hindsight_trace_format::shared::ReadLimits;
use serde::Serialize;

use super::event::{Connection, Report};

/// What came of a process that was to leave a report: a line of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessReport {
    /// Number of the report; `None`: none was begun.
    pub report: Option<Report>,
    /// The process's name.
    pub process: String,
    /// Its id.
    pub pid: u32,
    /// Why there is no report, for people; `None`: it is written.
    pub problem: Option<String>,
}

impl ProcessReport {
    /// For people.
    pub(super) fn text(&self) -> String {
        let ProcessReport { process, pid, .. } = self;
        let problem = self.problem.as_deref().unwrap_or("written");
        match self.report {
            Some(report) => format!("report {report} of {process} (pid {pid}): {problem}"),
            None => format!("{process} (pid {pid}): {problem}"),
        }
    }
}

/// What a report is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// How bad it is; reports of less severe things are removed first.
    pub severity: TriggerSeverity,
    /// The detector, such as `slow-message` or `killed`.
    pub detector: String,
    /// The reason, for people.
    pub reason: String,
    /// Kernel id of the thread that it is about; 0: none in particular.
    pub tid: u32,
    /// Process or package name, by the process's own account.
    pub process: String,
    /// Kernel id of the process.
    pub pid: u32,
    /// The process's user.
    pub uid: u32,
    /// The first report of its group; its own number if it stands for itself.
    pub group: Report,
    /// When it was noticed, `CLOCK_BOOTTIME`, ns.
    pub at_boottime_ns: u64,
    /// When the process ended, `CLOCK_BOOTTIME`, ns; 0: it lives.
    pub ended_boottime_ns: u64,
    /// Which strings may be in the file.
    pub consent: Consent,
    /// The most bytes of the process's log that may be kept with it; 0: none.
    pub log_bytes: usize,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a message.
    Send {
        /// To whom.
        connection: Connection,
        /// The message.
        message: FromService,
    },
    /// Close the connection.
    Disconnect {
        /// Which.
        connection: Connection,
    },
    /// Read the process's memory and write the report; then comes [`Event::Written`](super::Event::Written).
    Write {
        /// The report.
        report: Report,
        /// Whose memory.
        connection: Connection,
        /// What it is about.
        about: About,
        /// The process has ended: all its rings are read, not only those that were taken.
        has_ended: bool,
        /// What is read at most: as much as the process was given, whatever its memory says.
        limits: ReadLimits,
    },
    /// Find out which processes serve others, or have served them; then comes [`Event::Serving`](super::Event::Serving).
    FindPeers {
        /// The report that begins.
        report: Report,
        /// Whose.
        connection: Connection,
    },
    /// The process has written the names of its classes: those of the boot image may be kept for others, if the process is trusted.
    LearnNames {
        /// Whose memory.
        connection: Connection,
        /// So many bytes of names are read at most.
        most: u64,
    },
    /// The process's memory is not needed any more.
    Forget {
        /// Whose.
        connection: Connection,
    },
    /// Keep this text over restarts, for [`Limiter::load`](crate::limits::Limiter::load). Each text replaces the one before. It must be
    /// on disk before the actions after it are carried out. If it cannot be written, the old text must be removed or damaged,
    /// not left as it is: it would admit reports again.
    SaveLimits(String),
    /// Tell the engine when this time has come; replaces an earlier wish. `None`: there is nothing to wait for.
    WakeAt(Option<u64>),
    /// Answer a request.
    Answer {
        /// Whose.
        reply: u64,
        /// What came of it, if there is a report at least; else why not, with the remedy.
        result: Result<Vec<ProcessReport>, String>,
    },
    /// Write a line into the service's log.
    Log(String),
}
