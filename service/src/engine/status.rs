// SPDX-License-Identifier: Apache-2.0
//! How the engine is, for people and programs.

use std::collections::BTreeMap;

use hindsight_trace_format::catalogue::Category;
use serde::Serialize;

use super::process::{Link, Process};
use super::state::{Outcome, State};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessStatus {
    /// By its own account.
    pub name: String,
    /// Kernel id.
    pub pid: u32,
    /// User id.
    pub uid: u32,
    /// `connected`; `lost`: it can be told nothing; `ended`: a report of it is under way.
    pub connection: &'static str,
    /// Whether the user sees it, by its own account.
    pub is_foreground: bool,
    /// Whether it has shown an activity since it came to the foreground, by its own account.
    pub shows_activity: bool,
    /// Rings of calls that it may use.
    pub rings_granted: u32,
    /// Rings of calls that it may have in use: more than granted until it has answered.
    pub rings_held: u32,
    /// Rings of calls that are taken for a report, at most.
    pub rings_taken: u32,
    /// Size of a ring of calls, bytes.
    pub ring_bytes: u64,
    /// Whether the budget has room for one ring of this process if no other one had any. If not, it never gets one.
    pub ring_fits: bool,
    /// Whether that is the name of its program: until then it is recorded as the app with the least would be.
    pub is_named: bool,
    /// The memory that it may use for all else, bytes.
    pub other_bytes: u64,
    /// The memory that it needs for all else, bytes: more than it may use if the budget has no room.
    pub needed_bytes: u64,
    /// Categories of events that it records.
    pub events: Vec<&'static str>,
    /// The level of consent.
    pub consent: &'static str,
    /// The report under way; 0: none.
    pub report: u64,
}

/// Memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// The most, bytes.
    pub budget_bytes: u64,
    /// All that processes and reports may need now, bytes.
    pub demand_bytes: u64,
    /// The most rings of calls.
    pub rings: u32,
    /// Rings of calls that processes may have in use.
    pub rings_held: u32,
}

/// Limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LimitStatus {
    /// Reports that count now.
    pub reports: usize,
    /// The most.
    pub reports_limit: u32,
    /// Uploads that count now.
    pub uploads: usize,
    /// The most.
    pub uploads_limit: u32,
    /// So long nothing is admitted, because the list of reports could not be read; ns.
    pub closed_for_ns: u64,
}

/// A recording under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordingStatus {
    /// The package.
    pub package: String,
    /// How much longer, ns.
    pub left_ns: u64,
}

impl RecordingStatus {
    fn all(state: &State, now_ns: u64) -> Vec<Self> {
        let left = state.recordings.left(now_ns).into_iter();
        left.map(|(package, left_ns)| RecordingStatus { package, left_ns })
            .collect()
    }
}

/// How the engine is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Revision of the policy.
    pub policy_revision: u64,
    /// Whether anything is recorded.
    pub enabled: bool,
    /// All processes, in the order in which they came.
    pub processes: Vec<ProcessStatus>,
    /// Processes that were refused or gave way to others, since the service was started.
    pub refused_processes: u64,
    /// The last of them, and why.
    pub refusals: Vec<String>,
    /// Recordings under way.
    pub recordings: Vec<RecordingStatus>,
    /// Memory.
    pub memory: MemoryStatus,
    /// Reports and triggers by what became of them, since the service was started.
    pub reports: BTreeMap<Outcome, u64>,
    /// Limits.
    pub limits: LimitStatus,
}

impl Status {
    pub(super) fn of(state: &State, now_ns: u64) -> Self {
        let policy = &state.policy;
        Status {
            policy_revision: policy.revision,
            enabled: policy.enabled,
            processes: (state.processes.values())
                .map(|process| ProcessStatus::of(state, process))
                .collect(),
            refused_processes: state.refused_processes,
            refusals: state.refusals.iter().cloned().collect(),
            recordings: RecordingStatus::all(state, now_ns),
            memory: MemoryStatus {
                budget_bytes: policy.memory.budget_bytes,
                demand_bytes: state.demand_now().bytes(),
                rings: policy.memory.call_rings,
                rings_held: state.rings_held(),
            },
            reports: state.outcomes.clone(),
            limits: LimitStatus {
                reports: state.limiter.reports(now_ns, &policy.limits),
                reports_limit: policy.limits.device,
                uploads: state.limiter.uploads(now_ns, &policy.uploads),
                uploads_limit: policy.uploads.device,
                closed_for_ns: state.limiter.closed_for_ns(now_ns, &policy.limits),
            },
        }
    }
}

impl ProcessStatus {
    fn of(state: &State, process: &Process) -> Self {
        let bits = process.configured.map_or(0, |last| last.categories);
        let categories = Category::ALL.iter().filter(|c| bits & c.bit() != 0);
        ProcessStatus {
            name: process.name.clone(),
            pid: process.peer.pid,
            uid: process.peer.uid,
            connection: match process.link {
                Link::Connected => "connected",
                Link::Lost => "lost",
                Link::Ended => "ended",
            },
            is_foreground: process.is_foreground,
            shows_activity: process.shows_activity,
            rings_granted: process.granted,
            rings_held: process.may_hold,
            rings_taken: process.taken,
            ring_bytes: process.ring_bytes,
            ring_fits: state.fits_alone(process),
            is_named: process.is_named,
            other_bytes: process.other_bytes,
            needed_bytes: process.needed_bytes,
            events: categories.map(|c| c.name()).collect(),
            consent: process.recording.level.name(),
            report: process.report.as_ref().map_or(0, |pending| pending.report),
        }
    }
}
