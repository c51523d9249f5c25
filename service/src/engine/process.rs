// SPDX-License-Identifier: Apache-2.0
//! A traced process, as the service knows it.

use std::fmt;

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::protocol::{AppDetector, Configuration, DetectorRule, TriggerSeverity};
use hindsight_trace_format::shared::ReadLimits;

use super::event::{Peer, Report};
use super::pending::{Merge, Pending, Stage, Symptom};
use crate::policy::Recording;

/// Which process, in lines for people and tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) name: String,
    pub(super) pid: u32,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// Whether the process can be told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It can.
    Connected,
    /// It lives, and cannot: its memory counts until it ends.
    Lost,
    /// It has ended, or has another connection.
    Ended,
}

/// Whether the user sees an activity of the process, whether it is in the foreground, and when it was last; larger ones come first.
pub(super) type Rank = (bool, bool, Option<u64>);

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) peer: Peer,
    /// By its own account.
    pub(super) name: String,
    /// The name is the one of its program: parts of the policy that name apps can be looked up.
    pub(super) is_named: bool,
    /// Size of a ring of calls, bytes.
    pub(super) ring_bytes: u64,
    /// All else that it may use, bytes.
    pub(super) other_bytes: u64,
    /// All else that it says it needs, bytes: more than it may use if there was no room.
    pub(super) needed_bytes: u64,
    pub(super) link: Link,
    /// What the policy says about it.
    pub(super) recording: Recording,

    /// By its own account.
    pub(super) is_foreground: bool,
    /// An activity is started now, by its own account.
    pub(super) has_activity: bool,
    /// An activity was started since it came to the foreground.
    pub(super) shows_activity: bool,
    /// It claimed the foreground, too often: the claim counts later.
    pub(super) is_deferred: bool,
    /// When it came to the foreground or left it, as far as it counts; `None`: it never was there. ns.
    pub(super) recency_ns: Option<u64>,
    /// Until then it does not give way to another process; ns.
    pub(super) stays_until_ns: u64,
    /// In the background it has to give its rings back then, unless the policy records it there as well; ns.
    pub(super) rings_until_ns: u64,
    /// Until then its end counts as one in the foreground, ns.
    pub(super) grace_until_ns: u64,
    /// It said that it ends by itself.
    pub(super) has_farewell: bool,
    /// When it ended, as far as is known, ns; 0: it lives, or has another connection.
    pub(super) ended_ns: u64,
    /// A crash that it has noted in its memory.
    pub(super) noted: Option<Symptom>,
    /// The last crash that was told and has a report: its detector, and when; ns.
    pub(super) crashed: Option<(String, u64)>,
    /// When the system was told to say that the process does not respond, and that has a report; ns.
    pub(super) anr_ns: Option<u64>,

    /// The rules of its detectors that were sent last.
    pub(super) rules: Option<Vec<DetectorRule>>,
    /// The last configuration that was sent.
    pub(super) configured: Option<Configuration>,
    /// Rings of calls that it may use, by the last configuration.
    pub(super) granted: u32,
    /// The most rings of calls that it may have in use: more than granted until it has answered.
    pub(super) may_hold: u32,
    /// Rings of calls that it has by its own account only, until it has answered.
    pub(super) brought: u32,
    /// Configurations that it has not answered.
    pub(super) unanswered: u32,
    /// It has to answer all of them until then, because it gives rings back; ns.
    pub(super) answer_until_ns: Option<u64>,
    /// It did not answer in time.
    pub(super) is_silent: bool,

    /// Rings of calls that are taken at most.
    pub(super) taken: u32,
    /// Rings of calls that were taken, and that it may not have begun to use again.
    pub(super) releasing: u32,
    /// No configuration was sent since, whose answer would show that it has.
    pub(super) is_unasked: bool,
    /// Its level became none, and it has not answered that yet: until then it has what it recorded before, and the level stays none.
    pub(super) is_withdrawn: bool,
    /// An earlier connection's report, still being written, whose rings this process has taken.
    pub(super) owed: Option<Report>,
    /// The report under way.
    pub(super) report: Option<Pending>,
    /// A report after that one.
    pub(super) next: Option<Pending>,
}

impl Process {
    /// Whether a report under way has this, which is called by it then if that tells more.
    pub(super) fn merge(&mut self, symptom: &Symptom) -> Merge {
        let Some(report) = &mut self.report else {
            return Merge::Apart;
        };
        if report.has(symptom.at_boottime_ns) {
            report.merge(symptom);
            return Merge::Kept;
        }
        match &mut self.next {
            Some(next) => {
                next.merge(symptom);
                Merge::Kept
            }
            None if report.says_less_than(symptom) => Merge::Apart,
            None => Merge::Dropped,
        }
    }

    /// A report has this: an end that comes of it has no other one.
    pub(super) fn is_told(&mut self, symptom: &Symptom, now_ns: u64) {
        if symptom.severity == TriggerSeverity::Fatal {
            self.crashed = Some((symptom.detector.clone(), now_ns));
        }
        if symptom.detector == AppDetector::Anr.spec().name {
            self.anr_ns = Some(now_ns);
        }
    }

    /// Rings of calls in memory at most.
    pub(super) fn rings(&self) -> u32 {
        self.may_hold.saturating_add(self.taken_in_all())
    }

    /// What is read of its memory at most: no more than it was given.
    pub(super) fn read_limits(&self) -> ReadLimits {
        ReadLimits::granted(self.rings(), self.ring_bytes, self.other_bytes)
    }

    /// Rings of calls that it may have in use, and those that are taken at most.
    pub(super) fn rings_now(&self) -> (u32, u32) {
        (self.may_hold, self.taken_in_all())
    }

    /// Rings of calls at most that are not in use.
    pub(super) fn taken_in_all(&self) -> u32 {
        self.taken.saturating_add(self.releasing)
    }

    /// Whether its rings count in `call-rings`. Those of a process that does not answer, such as one that the system has frozen,
    /// only need memory: the others go on without them. The same holds for rings that a process only says it has, once the process is gone.
    pub(super) fn counts_in_number(&self) -> bool {
        let is_claim = self.brought != 0 && self.link != Link::Connected;
        !self.is_silent && !is_claim
    }

    /// When its rings have to be taken back because it has been in the background for a while, ns.
    pub(super) fn taken_back_ns(&self) -> Option<u64> {
        let is_held = self.link == Link::Connected && self.granted != 0;
        let stays = self.is_foreground || self.recording.background;
        (is_held && !stays).then_some(self.rings_until_ns)
    }

    /// Whether it counts as being in the foreground.
    pub(super) const fn is_seen(&self) -> bool {
        self.is_foreground && !self.is_deferred
    }

    /// How much the user cares about it: more than about a process with a smaller value. What the user sees is an activity; a
    /// service that plays music, or that the app in front uses, is in the foreground, too.
    pub(super) fn rank(&self) -> Rank {
        // A process that does not record them does not know of its activities.
        let known = Category::Lifecycle.bit() | Category::Resources.bit();
        let may_show = self.shows_activity || self.recording.categories & known == 0;
        let is_seen = self.is_seen();
        (is_seen && may_show, is_seen, self.recency_ns)
    }

    /// The report whose rings the process has not been told to take yet.
    pub(super) fn before_it_takes(&mut self) -> Option<&mut Pending> {
        let is_waiting = |pending: &&mut Pending| matches!(pending.stage, Stage::Waiting { .. });
        let report = self.report.as_mut().filter(is_waiting);
        report.or(self.next.as_mut())
    }

    /// The report, not read yet, that has all that a process that has ended leaves.
    pub(super) fn unread(&mut self) -> Option<&mut Pending> {
        let is_unread = |pending: &&mut Pending| pending.stage != Stage::Writing;
        let report = self.report.as_mut().filter(is_unread);
        report.or(self.next.as_mut())
    }

    /// Whether there may be anything in its rings.
    pub(super) const fn has_recorded(&self) -> bool {
        match &self.configured {
            Some(last) => last.categories != 0 || self.may_hold != 0 || self.taken != 0,
            None => self.may_hold != 0 || self.taken != 0,
        }
    }

    pub(super) fn label(&self) -> Label {
        Label {
            name: self.name.clone(),
            pid: self.peer.pid,
        }
    }
}
