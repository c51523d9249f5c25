// SPDX-License-Identifier: Apache-2.0
//! A report under way: how far it is, and what it is about.

use hindsight_trace_format::protocol::{Trigger, TriggerSeverity};

use super::event::Report;
use super::text;
use crate::limits::Admitted;

/// The detector of reports of processes that another one waited for.
pub(super) const WAITED_FOR: &str = "waited-for";
/// A reason that is longer gets nothing added, bytes.
const MAX_REASON_BYTES: usize = 1000;

/// Why a report is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Symptom {
    pub(super) severity: TriggerSeverity,
    pub(super) detector: String,
    pub(super) reason: String,
    pub(super) tid: u32,
    pub(super) at_boottime_ns: u64,
}

impl Symptom {
    /// By the account of a process: it cannot have been noticed later than now.
    pub(super) fn of_process(trigger: Trigger, now_ns: u64) -> Self {
        Symptom {
            severity: trigger.severity,
            detector: text::detector_of_process(&trigger.detector),
            reason: text::line(&trigger.reason),
            tid: trigger.tid,
            at_boottime_ns: trigger.at_boottime_ns.min(now_ns),
        }
    }
}

/// How far a report is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The rings are not taken yet: there may be no room for a second set.
    Waiting {
        /// When it is given up, ns.
        until_ns: u64,
    },
    /// The process has been told to take its rings.
    Taking {
        /// When it was told, ns: the rings have all that came before.
        told_ns: u64,
        /// When it is given up, ns.
        until_ns: u64,
    },
    /// The process cannot be asked: the report is made when it ends.
    AtItsEnd,
    /// The memory can be read, when no other is.
    Ready,
    /// The memory is read, and the file written.
    Writing,
}

/// A report under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pending {
    /// Its number.
    pub(super) report: Report,
    /// The number that the process knows: another one if an earlier instance of the service had the rings taken.
    pub(super) taken_as: Report,
    /// How it counts in the limits; `None`: it does not.
    pub(super) admitted: Option<Admitted>,
    /// The first report of its group: its own number, unless it belongs to another one.
    pub(super) group: Report,
    /// Why.
    pub(super) symptom: Symptom,
    /// How far it is.
    pub(super) stage: Stage,
    /// The process has ended: all rings are read.
    pub(super) reads_all: bool,
}

/// What becomes of something that is noticed in a process that may have a report under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// A report whose rings are taken later has it.
    Kept,
    /// The rings of the report under way do not have it, and it is no worse than what they have.
    Dropped,
    /// It needs a report of its own.
    Apart,
}

impl Pending {
    /// It is only there because another process waited for this one.
    pub(super) fn is_of_peer(&self) -> bool {
        self.group != self.report && self.symptom.detector == WAITED_FOR
    }

    /// Whether its rings have what was noticed at this time, ns: they are taken later.
    pub(super) const fn has(&self, at_boottime_ns: u64) -> bool {
        match self.stage {
            Stage::Waiting { .. } | Stage::AtItsEnd => true,
            Stage::Taking { told_ns, .. } => at_boottime_ns <= told_ns,
            Stage::Ready | Stage::Writing => false,
        }
    }

    /// Whether its name tells less than this symptom's would.
    pub(super) fn says_less_than(&self, symptom: &Symptom) -> bool {
        self.is_of_peer() || self.symptom.severity < symptom.severity
    }

    /// The report has this, too: it is called by what tells most.
    pub(super) fn merge(&mut self, symptom: &Symptom) {
        if self.says_less_than(symptom) {
            self.raise(symptom.clone());
        }
    }

    /// It is about this, which came later, and tells of what it was about before.
    pub(super) fn raise(&mut self, symptom: Symptom) {
        let Symptom {
            detector, reason, ..
        } = &self.symptom;
        let reason = format!("{}; before that, {detector}: {reason}", symptom.reason);
        self.symptom = Symptom { reason, ..symptom };
    }

    /// It has this as well, and is about what is more severe.
    pub(super) fn raise_or_add(&mut self, symptom: &Symptom) {
        if self.says_less_than(symptom) {
            self.raise(symptom.clone());
        } else {
            self.add(symptom);
        }
    }

    /// It has this as well, and is called as before.
    pub(super) fn add(&mut self, symptom: &Symptom) {
        let Symptom {
            detector, reason, ..
        } = symptom;
        if self.symptom.reason.len() < MAX_REASON_BYTES {
            self.symptom.reason += &format!("; after that, {detector}: {reason}");
        }
    }

    /// Whether it needs a place in the queue.
    pub(super) const fn is_queued(&self) -> bool {
        !matches!(self.stage, Stage::AtItsEnd | Stage::Writing)
    }

    /// Whether the process has rings that it was told to take.
    pub(super) const fn has_rings_taken(&self) -> bool {
        matches!(
            self.stage,
            Stage::Taking { .. } | Stage::Ready | Stage::Writing
        )
    }
}
