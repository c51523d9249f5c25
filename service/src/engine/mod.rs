// SPDX-License-Identifier: Apache-2.0
//! All decisions of the service: which process may use rings, which trigger and which end of a process is worth a report.
//!
//! Pure: time and all facts come with each event. So every decision can be tested by a table, and the promises (no budget is ever
//! exceeded, no limit, no consent) by random sequences of events.
//!
//! | module | decides |
//! |---|---|
//! | `joining` | which process is accepted |
//! | `places` | whether there is a place for a process, and which one gives way to it |
//! | `foreground` | how often a process may claim the foreground |
//! | `rings` | how many rings of calls each process gets, and how one is moved to another process |
//! | `room` | how much memory each process gets for all else |
//! | `memory` | how much memory that takes at most |
//! | `reports` | what becomes of a report, from its trigger to its file |
//! | `pending` | whether a report has something that happens while it is under way, and what it is called |
//! | `peers` | whose rings are taken with those of a process, because it waited for them |
//! | `ending` | what is kept of a process that has ended or is lost |
//! | `shortage` | what is known of memory when a process ends |
//! | `recording` | what a recording for a time changes, and which reports it leaves |
//! | `requests` | what users ask for |
//! | `detecting` | which rules the detectors of processes follow |

mod action;
mod bringing;
mod brought;
mod detecting;
mod ending;
mod event;
mod foreground;
mod handle;
mod joining;
mod memory;
mod peers;
mod pending;
mod places;
mod process;
mod recording;
mod recordings;
mod replies;
mod reports;
mod requests;
mod rings;
mod room;
mod shortage;
mod state;
mod status;
mod text;

pub use action::{About, Action, ProcessReport};
pub use event::{
    Asked, Connection, Event, Finding, MemoryFacts, Now, Peer, Pressure, Report, Service,
};
pub use handle::Engine;
pub(crate) use recordings::SECONDS as RECORDING_SECONDS;
pub use state::{Facts, Outcome};
pub use status::{LimitStatus, MemoryStatus, ProcessStatus, RecordingStatus, Status};

#[cfg(test)]
mod tests;
