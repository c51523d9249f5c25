// SPDX-License-Identifier: Apache-2.0
//! What the engine is told.

use hindsight_trace_format::protocol::{FromProcess, Hello, TriggerSeverity};
use hindsight_trace_format::shared::{Crash, Served};

/// A connection of a process; never used twice.
pub type Connection = u64;
/// Number of a report; never 0, and never used twice, also after the service was started again.
pub type Report = u64;

/// The time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Since boot, also while the device sleeps (`CLOCK_BOOTTIME`), ns.
    pub boottime_ns: u64,
    /// Since 1970, ns. It jumps when somebody sets the clock.
    pub realtime_ns: u64,
}

/// A process, by the kernel's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Kernel id of the process.
    pub pid: u32,
    /// Its user id when it connected.
    pub uid: u32,
}

/// How short the system is of memory (`/proc/pressure/memory`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// There is enough.
    #[default]
    None,
    /// Some work waits for memory: processes in the background give their rings back.
    Some,
    /// All work waits for memory: all rings of calls are given back.
    Full,
}

/// How short of memory the system is at one time, by its own account. What it does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Share of the last 10 s in which some work waited for memory (`/proc/pressure/memory`), percent.
    pub some_percent: Option<u32>,
    /// Share of the last 10 s in which all work waited for memory, percent.
    pub full_percent: Option<u32>,
    /// Processes that the kernel has killed for want of memory since boot (`oom_kill` in `/proc/vmstat`).
    pub oom_kills: Option<u64>,
}

/// A request of a user, by command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A report of all processes with this name, or of the process with this id.
    Report {
        /// Name or id.
        process: String,
        /// Why, for people.
        reason: String,
    },
    /// A recording of all processes of a package, and then a report of each.
    Record {
        /// The package.
        package: String,
        /// For so long, s.
        seconds: u32,
    },
    /// The end of the recordings of a package, before their time is over.
    EndRecording {
        /// The package, as it was said at the beginning.
        package: String,
    },
}

/// What a detector of the service found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: TriggerSeverity,
    /// The detector, such as `thermal`.
    pub detector: String,
    /// What it found, for people.
    pub reason: String,
}

/// A transaction that a process says it serves, or has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The process that serves it.
    pub connection: Connection,
    /// What it says.
    pub served: Served,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process has introduced itself, and its memory can be read.
    Joined {
        /// Its connection.
        connection: Connection,
        /// Who it is.
        peer: Peer,
        /// What it says.
        hello: Hello,
        /// The crash that it has noted in its memory, by its own account; looked at if it has rings that were taken before.
        crash: Option<Crash>,
    },
    /// A process that has joined says something; never a second hello.
    Said {
        /// Its connection.
        connection: Connection,
        /// What it says.
        message: FromProcess,
    },
    /// The connection is lost, and the process lives: it can be told nothing any more.
    Lost {
        /// Its connection.
        connection: Connection,
    },
    /// The process has noted a crash in its memory; before [`Event::Ended`], and also if it was told before.
    Crashed {
        /// Its connection.
        connection: Connection,
        /// The crash, by the process's own account.
        crash: Crash,
    },
    /// The process has noted in its memory that it ends by itself; before [`Event::Ended`], and also if it has said farewell.
    Left {
        /// Its connection.
        connection: Connection,
    },
    /// The process has ended. Its memory can still be read.
    Ended {
        /// Its connection.
        connection: Connection,
    },
    /// The report was written, or could not be.
    Written {
        /// The report.
        report: Report,
        /// Whether there is a file.
        is_kept: bool,
    },
    /// The answer to [`Action::FindPeers`](super::Action::FindPeers).
    Serving {
        /// The report.
        report: Report,
        /// Whose.
        connection: Connection,
        /// What all processes say.
        services: Vec<Service>,
    },
    /// A user wants something.
    Asked {
        /// Where the answer goes.
        reply: u64,
        /// What is wanted.
        what: Asked,
    },
    /// A detector of the service found something about a process.
    Found {
        /// The process's connection.
        connection: Connection,
        /// What it is.
        finding: Finding,
    },
    /// Memory became short, or is not short any more.
    Pressure(Pressure),
    /// How short memory is now; also just before [`Event::Ended`].
    Memory(MemoryFacts),
    /// The device has slept for so long, ns, since the event before: nobody could answer meanwhile.
    Slept(u64),
    /// The time of [`Action::WakeAt`](super::Action::WakeAt) has come.
    Woke,
}
