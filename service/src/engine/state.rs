// SPDX-License-Identifier: Apache-2.0
//! All that the engine remembers, and the smallest steps that change it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hindsight_trace_format::protocol::FromService;
use serde::Serialize;

use super::action::Action;
use super::brought::Brought;
use super::event::{Connection, Now, Pressure};
use super::foreground::Claims;
use super::process::{Link, Process};
use super::recordings::Recordings;
use super::replies::Replies;
use super::shortage::Shortage;
use crate::limits::{Limiter, Refusal};
use crate::policy::{Person, Policy};

/// What users are told of a process that says nothing.
pub(super) const NO_ANSWER: &str =
    "the process did not answer; it may be frozen in the background: bring it to the front and ask again";
/// A process has to answer within this time, ns.
pub(super) const ANSWER_NS: u64 = 10_000_000_000;
/// After a restart of the service, so long no process gets more rings than it holds: the others have to come back first. ns.
pub(super) const SETTLE_NS: u64 = 5_000_000_000;
/// The list of the limiter is saved so often at least, if anything happens at all, ns.
pub(super) const SAVE_NS: u64 = 3600 * 1_000_000_000;

/// What the engine has to know at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What consent depends on.
    pub person: Person,
    /// The service has run in this boot before: processes may hold rings, and come back with them.
    pub is_restart: bool,
    /// The lowest number that no report has had; the limiter may know a higher one.
    pub first_report: u64,
    /// The reports of earlier services in this boot that are in the store: their rings only have to be given back.
    pub stored: BTreeSet<u64>,
    /// What the service needs to write a report, beside as much as it may read of the process's memory; bytes.
    pub report_bytes: u64,
}

/// What became of a report, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There is a file.
    Kept,
    /// The file could not be written.
    NotWritten,
    /// The process had recorded nothing.
    Nothing,
    /// The process could not take its rings.
    ProcessRefused,
    /// The process did not answer, or was lost.
    NoAnswer,
    /// The process ended by itself before its rings were taken.
    EndedFirst,
    /// There was no memory for a second set of rings in time.
    NoMemory,
    /// The policy or the user's consent changed.
    Withdrawn,
    /// Part of another report of the process.
    Merged,
    /// The policy or the user's consent does not allow it.
    NotAllowed,
    /// The policy has switched the detector off.
    DetectorOff,
    /// The policy wants no reports of this severity.
    Severity,
    /// Too many reports wait.
    QueueFull,
    /// The system is short of memory.
    Pressure,
    /// The limits could not be read after a restart.
    LimitsClosed,
    /// The device's limit is reached.
    DeviceLimit,
    /// The user id's limit is reached.
    UidLimit,
    /// The limit of the user id and detector, or of the detector on the device, is reached.
    DetectorLimit,
}

impl Outcome {
    /// The limit that refused.
    pub(super) const fn of_limit(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Closed => Outcome::LimitsClosed,
            Refusal::Device => Outcome::DeviceLimit,
            Refusal::Uid => Outcome::UidLimit,
            Refusal::Detector => Outcome::DetectorLimit,
        }
    }

    /// Its name in lines for people.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Outcome::Kept => "written",
            Outcome::NotWritten => "not written",
            Outcome::Nothing => "nothing recorded",
            Outcome::ProcessRefused => "refused by the process",
            Outcome::NoAnswer => "no answer",
            Outcome::EndedFirst => "ended first",
            Outcome::NoMemory => "no memory",
            Outcome::Withdrawn => "withdrawn",
            Outcome::Merged => "merged",
            Outcome::NotAllowed => "not allowed",
            Outcome::Severity => "not severe enough",
            Outcome::QueueFull => "queue full",
            Outcome::Pressure => "short of memory",
            Outcome::LimitsClosed => "limits closed",
            Outcome::DeviceLimit => "device limit",
            Outcome::UidLimit => "user limit",
            Outcome::DetectorLimit => "detector limit",
            Outcome::DetectorOff => "detector off",
        }
    }

    /// For people.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Outcome::Kept => "written",
            Outcome::NotWritten => "the file could not be written; the service's log says why",
            Outcome::Nothing => "the process has recorded nothing",
            Outcome::ProcessRefused => "the process could not take its rings; try again",
            Outcome::NoAnswer => NO_ANSWER,
            Outcome::EndedFirst => "the process ended first",
            Outcome::NoMemory => "the memory budget had no room; raise budget-mib in the policy",
            Outcome::Pressure => {
                "the system is short of memory, so that no rings were taken; ask again when it is not"
            }
            Outcome::Withdrawn => "the policy or the user's consent changed",
            _ => "it was refused",
        }
    }
}

/// All that the engine remembers.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Now,
    pub(super) policy: Policy,
    pub(super) person: Person,
    pub(super) limiter: Limiter,
    pub(super) processes: BTreeMap<Connection, Process>,
    pub(super) claims: Claims,
    pub(super) replies: Replies,
    pub(super) recordings: Recordings,
    /// The last processes that were refused, and why; for people.
    pub(super) refusals: VecDeque<String>,
    pub(super) pressure: Pressure,
    pub(super) shortage: Shortage,
    /// Reports below are of earlier instances of the service; 0: there was none in this boot.
    pub(super) earlier_reports: u64,
    /// Earlier ones that are written.
    pub(super) stored: BTreeSet<u64>,
    /// No process gets more rings until then, ns; `None`: no event has come yet.
    pub(super) settled_ns: Option<u64>,
    pub(super) is_restart: bool,
    pub(super) brought: Brought,
    /// See [`Facts::report_bytes`].
    pub(super) report_bytes: u64,
    /// Revision of the last configuration that was sent.
    pub(super) revision: u64,
    pub(super) outcomes: BTreeMap<Outcome, u64>,
    pub(super) refused_processes: u64,
    /// The limiter's list has changed.
    pub(super) is_unsaved: bool,
    pub(super) saved_ns: u64,
    /// The last wish, ns.
    pub(super) wake_ns: Option<u64>,
    pub(super) actions: Vec<Action>,
    /// Actions that come after all others.
    pub(super) looks: Vec<Action>,
}

impl State {
    pub(super) fn new(policy: Policy, mut limiter: Limiter, facts: Facts) -> Self {
        limiter.skip_reports(facts.first_report);
        State {
            now: Now::default(),
            policy,
            person: facts.person,
            stored: facts.stored,
            earlier_reports: if facts.is_restart {
                limiter.next_report()
            } else {
                0
            },
            is_unsaved: !limiter.is_empty(),
            limiter,
            processes: BTreeMap::new(),
            claims: Claims::default(),
            replies: Replies::default(),
            recordings: Recordings::default(),
            refusals: VecDeque::new(),
            pressure: Pressure::None,
            shortage: Shortage::default(),
            settled_ns: None,
            is_restart: facts.is_restart,
            brought: Brought::default(),
            report_bytes: facts.report_bytes,
            revision: 0,
            outcomes: BTreeMap::new(),
            refused_processes: 0,
            saved_ns: 0,
            wake_ns: None,
            actions: Vec::new(),
            looks: Vec::new(),
        }
    }

    pub(super) const fn now_ns(&self) -> u64 {
        self.now.boottime_ns
    }

    /// Within the time after a restart in which processes come back.
    pub(super) fn is_settling(&self) -> bool {
        self.settled_ns.is_some_and(|until| self.now_ns() < until)
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    pub(super) fn log(&mut self, line: String) {
        self.actions.push(Action::Log(line));
    }

    /// Sends a message, if the process can be told anything.
    pub(super) fn send(&mut self, connection: Connection, message: FromService) {
        let link = self.processes.get(&connection).map(|process| process.link);
        if link == Some(Link::Connected) {
            self.actions.push(Action::Send {
                connection,
                message,
            });
        }
    }

    /// Grows with each call, also over restarts of the service.
    pub(super) fn next_revision(&mut self) -> u64 {
        self.revision = self.now_ns().max(self.revision.saturating_add(1));
        self.revision
    }
}
