// SPDX-License-Identifier: Apache-2.0
//! Requests to the control thread, and their replies.

use std::path::PathBuf;
use std::sync::mpsc;

use hindsight_trace_format::protocol::{AppDetector, Configuration, DetectorRules};

use crate::config::{Categories, StackIntervals};
use crate::detectors::Found;
use crate::rewind::Rewind;

/// The outcome of a request for a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotOutcome {
    /// The rings are in this file.
    Written(PathBuf),
    /// The system service was told; it decides whether there is a report, and writes it.
    Reported,
    /// No file was written; the text says why.
    Failed(String),
    /// The control thread did not answer in time. The file may still appear.
    TimedOut,
}

/// Who triggers a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The program, its watchdog, or a library in it: as often as `snapshot-interval` allows, or, with a service, as that allows.
    Program,
    /// An exception that nothing caught; it comes once.
    Crash,
    /// A detector of this process, by the rules of the service: for the service only.
    Detector(AppDetector),
    /// A user by a command.
    User,
}

/// A command that comes by one of Nanoscope's interfaces, for one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NanoscopeCommand {
    /// Trace the thread.
    Start,
    /// Stop tracing the thread, and write its trace to this file.
    Stop(PathBuf),
}

/// Where the reply to a command goes. The error is a message for the user.
pub(crate) type Reply = mpsc::Sender<Result<(), String>>;

/// Something about the system service. A connection has a number, so that nothing of an earlier one is taken for the present one's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceCommand {
    /// There is no service now.
    Absent,
    /// There is a service that the process cannot ask: it may not connect, or each connection is closed before the service has
    /// said anything.
    Barred,
    /// How the process records from now on.
    Configure(u64, Configuration),
    /// Take all rings, and keep them for this report.
    Take(u64, u64),
    /// Use the rings of this report again.
    Release(u64, u64),
    /// There is more room than before for all but rings of calls.
    Room(u64),
    /// The process needs more room.
    Needs,
    /// The detectors follow these rules from now on.
    Detectors(u64, DetectorRules),
    /// The connection with this number is lost.
    Lost(u64),
    /// The service does not want this process.
    Refused,
}

/// A request to the control thread.
pub(crate) enum Command {
    /// Write the rings of all threads to a file.
    Snapshot {
        /// The trigger, in words for the reader of the trace.
        reason: String,
        /// Kernel id of the thread that triggered it; 0 if it came from outside.
        triggered_by: u32,
        trigger: Trigger,
        reply: mpsc::Sender<SnapshotOutcome>,
    },
    /// Start tracing a thread that is not traced.
    Start { tid: u32, reply: Reply },
    /// Stop tracing a thread. It stays untraced until somebody asks for it again.
    Stop { tid: u32, reply: Reply },
    /// Start tracing a thread, or mark it as the one wanted most recently if it is traced already.
    Prefer { tid: u32, reply: Reply },
    /// A thread came to the foreground: as `Prefer`, but only within what the configuration traces. No reply.
    CameToForeground { tid: u32 },
    /// The user does not see the process any more, or never did. No reply.
    LeftForeground,
    /// The process's name and facts about its app can be found now. No reply.
    AppIsKnown,
    /// The process has activities that are started, or none any more. No reply.
    Activities { are_started: bool },
    /// Give the memory of all rings of calls back; threads go on in empty rings.
    Trim { reply: Reply },
    /// Change the maximum number of rings; `None` is unlimited.
    MaxRings { limit: Option<usize>, reply: Reply },
    /// Change which calls are taken back.
    Rewind { limit: Rewind, reply: Reply },
    /// Change the categories of events that all threads record.
    Events {
        categories: Categories,
        reply: Reply,
    },
    /// Put the rules of a file into force; `None` ends all rules.
    Rules { file: Option<PathBuf>, reply: Reply },
    /// Change the least times between two stacks of a thread.
    StackIntervals {
        intervals: StackIntervals,
        reply: Reply,
    },
    /// A command that came by one of Nanoscope's interfaces.
    Nanoscope {
        tid: u32,
        command: NanoscopeCommand,
        reply: Reply,
    },
    /// Nanoscope's property has this value now.
    Property { value: String, reply: Reply },
    /// Describe the state of tracing as one line of JSON.
    Status { reply: mpsc::Sender<String> },
    /// The system service says something. No reply by this way.
    Service(ServiceCommand),
    /// A detector found something. No reply.
    Detected(Found),
    /// A thread took a stack while the control thread slept. No reply.
    ThreadRuns,
    /// End the control thread.
    Shutdown,
}
