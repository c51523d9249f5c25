// SPDX-License-Identifier: Apache-2.0
//! Which process is accepted.

use hindsight_trace_format::protocol::{
    common_version, is_final_name, FromService, Hello, TriggerSeverity, VERSIONS,
};
use hindsight_trace_format::shared::{Crash, CrashKind, MAX_SHARED_BYTES, SHARED_VERSION};

use super::action::Action;
use super::brought::Counted;
use super::event::{Connection, Peer, Report};
use super::pending::{Pending, Stage, Symptom};
use super::process::{Label, Link, Process};
use super::state::{Outcome, State, ANSWER_NS};
use super::text;
use crate::policy::{Level, Recording};

/// Sizes of a ring of calls that a process can have, bytes.
const RING_BYTES: std::ops::RangeInclusive<u64> = 1 << 12..=1 << 30;
/// The detector of reports that an earlier instance of the service began.
const UNFINISHED: &str = "unfinished";
/// Rings that are taken when the service comes back were taken for a crash that was noted within this time, ns.
const RESTARTED_NS: u64 = 60_000_000_000;

/// An earlier connection of the same process.
#[derive(Debug, Default)]
struct Earlier {
    label: Label,
    recency_ns: Option<u64>,
    crashed: Option<(String, u64)>,
    anr_ns: Option<u64>,
    is_withdrawn: bool,
    /// What was counted for it.
    counted: Counted,
    /// Reports that are not being written yet.
    pending: Vec<Pending>,
    /// The report that is being written, as the process knows it.
    writing: Option<Report>,
    /// The only other report whose rings the process may have been told to take, as it knows it.
    under_way: Option<Report>,
}

impl State {
    /// A process introduces itself.
    pub(super) fn joined(
        &mut self,
        connection: Connection,
        peer: Peer,
        hello: Hello,
        crash: Option<&Crash>,
    ) {
        if self.processes.contains_key(&connection) {
            return;
        }
        let earlier = self.supersede(peer);
        match self.accepted(connection, peer, &hello, earlier.counted) {
            Ok((version, process)) => {
                self.processes.insert(connection, process);
                self.send(connection, FromService::Welcome { version });
                self.resume(connection, hello.taken, earlier, crash);
                self.foreground(connection, hello.is_foreground);
            }
            Err(reason) => {
                for pending in earlier.pending {
                    self.count(Outcome::NoAnswer);
                    self.give_back(&pending);
                    self.tell(&earlier.label, pending.report, Outcome::NoAnswer);
                }
                let label = Label {
                    name: text::line(&hello.name),
                    pid: peer.pid,
                };
                self.refuse(connection, &label, reason);
            }
        }
    }

    /// A process has one connection: an earlier one is over, and what it waited for goes on in the new one.
    fn supersede(&mut self, peer: Peer) -> Earlier {
        let mut all = self.processes.iter_mut();
        let found = all.find(|(_, p)| p.peer == peer && p.link != Link::Ended);
        let Some((connection, process)) = found else {
            return Earlier::default();
        };
        let connection = *connection;
        if process.link == Link::Connected {
            self.actions.push(Action::Disconnect { connection });
        }
        process.link = Link::Ended;
        process.answer_until_ns = None;
        process.is_deferred = false;
        let is_waiting = |pending: &mut Pending| pending.stage != Stage::Writing;
        let report = process.report.take_if(is_waiting);
        let writing = process.report.as_ref().map(|pending| pending.taken_as);
        let under_way = report.as_ref().map(|pending| pending.taken_as);
        let counted = Counted::of(process);
        let earlier = Earlier {
            label: process.label(),
            recency_ns: process.recency_ns,
            crashed: process.crashed.clone(),
            anr_ns: process.anr_ns,
            counted,
            is_withdrawn: process.is_withdrawn,
            pending: report.into_iter().chain(process.next.take()).collect(),
            writing,
            under_way,
        };
        self.forget_if_over(connection);
        earlier
    }

    /// Goes on with the reports of an earlier connection, or of an earlier instance of the service.
    fn resume(
        &mut self,
        connection: Connection,
        taken_as: Report,
        earlier: Earlier,
        crash: Option<&Crash>,
    ) {
        let until_ns = self.now_ns().saturating_add(ANSWER_NS);
        let rings_until_ns = self.now_ns().saturating_add(self.policy.reports.grace_ns);
        let rings_until_ns = rings_until_ns.max(self.settled_ns.unwrap_or(0));
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        // Whoever has rings was in the foreground, longer ago than all whose time is known.
        let unknown = (process.may_hold != 0).then_some(0);
        process.recency_ns = earlier.recency_ns.or(unknown);
        process.crashed = earlier.crashed;
        process.anr_ns = earlier.anr_ns;
        process.is_withdrawn = earlier.is_withdrawn;
        process.rings_until_ns = rings_until_ns;
        let is_being_written = taken_as != 0 && earlier.writing == Some(taken_as);
        process.owed = Some(taken_as).filter(|_| is_being_written);
        let mut is_known = is_being_written;
        // Nobody has told it to take rings for a report that comes after that one, whatever it says.
        let is_under_way = taken_as != 0 && earlier.under_way == Some(taken_as);
        let mut pending = earlier.pending.into_iter().map(|mut pending| {
            let is_taken = is_under_way && pending.taken_as == taken_as;
            is_known |= is_taken;
            pending.stage = match is_taken {
                true => Stage::Ready,
                false => Stage::Waiting { until_ns },
            };
            pending
        });
        process.report = pending.next();
        process.next = pending.next();
        self.look_up_recording(connection);
        if taken_as != 0 && !is_known {
            self.was_taken(connection, taken_as, crash);
        }
    }

    /// The version to speak, and the process.
    fn accepted(
        &mut self,
        connection: Connection,
        peer: Peer,
        hello: &Hello,
        earlier: Counted,
    ) -> Result<(u32, Process), String> {
        let version = common_version(VERSIONS, hello.versions).ok_or_else(|| {
            let (oldest, newest) = VERSIONS;
            format!("the service speaks versions {oldest} to {newest} of the protocol; both must be of one build")
        })?;
        if hello.memory_version != SHARED_VERSION {
            return Err(format!(
                "the memory is of version {}, the service reads {SHARED_VERSION}; both must be of one build",
                hello.memory_version
            ));
        }
        if !RING_BYTES.contains(&hello.ring_bytes) || hello.other_bytes > MAX_SHARED_BYTES {
            return Err(format!(
                "rings of {} bytes and {} other bytes are not possible; rings have {} to {} bytes",
                hello.ring_bytes,
                hello.other_bytes,
                RING_BYTES.start(),
                RING_BYTES.end()
            ));
        }
        let mut process = self.process(peer, hello);
        self.bring(&mut process, earlier)?;
        self.make_place(&process)?;
        if process.brought != 0 {
            self.brought.add(connection, peer.uid);
        }
        Ok((version, process))
    }

    fn process(&self, peer: Peer, hello: &Hello) -> Process {
        let (recording, is_named) = self.recording_of(peer.uid, &hello.name);
        // All threads exchanged their rings: at least half of all are the taken ones.
        let in_use = match hello.taken {
            0 => hello.held,
            _ => hello.held / 2,
        };
        Process {
            peer,
            name: text::line(&hello.name),
            is_named,
            ring_bytes: hello.ring_bytes,
            other_bytes: hello.other_bytes,
            needed_bytes: hello.other_bytes,
            link: Link::Connected,
            recording,
            is_foreground: false,
            has_activity: false,
            shows_activity: false,
            is_deferred: false,
            recency_ns: None,
            stays_until_ns: self.stays_until_ns(),
            rings_until_ns: 0,
            grace_until_ns: 0,
            has_farewell: false,
            ended_ns: 0,
            noted: None,
            crashed: None,
            anr_ns: None,
            rules: None,
            configured: None,
            granted: in_use,
            may_hold: in_use,
            brought: 0,
            unanswered: 0,
            answer_until_ns: None,
            is_silent: false,
            taken: hello.held - in_use,
            releasing: 0,
            is_unasked: false,
            is_withdrawn: false,
            owed: None,
            report: None,
            next: None,
        }
    }

    /// How a process with this user id and name is recorded, and whether that is its final name.
    fn recording_of(&self, uid: u32, name: &str) -> (Recording, bool) {
        let (policy, person) = (&self.policy, &self.person);
        match is_final_name(name) {
            true => {
                let recording = policy.recording(person, uid, name);
                let rings = policy.memory.call_rings;
                (self.recordings.apply(recording, name, rings), true)
            }
            false => (policy.recording_unnamed(person, uid), false),
        }
    }

    /// What the policy says about each process.
    pub(super) fn look_up_recordings(&mut self) {
        let connections: Vec<Connection> = self.processes.keys().copied().collect();
        for connection in connections {
            self.look_up_recording(connection);
        }
    }

    fn look_up_recording(&mut self, connection: Connection) {
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        let (recording, is_named) = self.recording_of(process.peer.uid, &process.name);
        if let Some(process) = self.processes.get_mut(&connection) {
            if recording.level == Level::None && process.recording.level != Level::None {
                process.is_withdrawn = true;
                process.is_unasked = true;
            }
            process.is_named = is_named;
            process.recording = match process.is_withdrawn {
                true => Recording::default(),
                false => recording,
            };
        }
    }

    /// The process has answered all that it was told, so it has nothing any more of before a withdrawal.
    pub(super) fn has_withdrawn(&mut self, connection: Connection) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.is_withdrawn = false;
        }
        self.look_up_recording(connection);
    }

    /// The process has this name from now on.
    pub(super) fn named(&mut self, connection: Connection, name: &str) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.name = text::line(name);
            self.look_up_recording(connection);
        }
    }

    /// An earlier instance of the service had the rings taken, and did not release them.
    fn was_taken(&mut self, connection: Connection, taken_as: Report, crash: Option<&Crash>) {
        let now_ns = self.now_ns();
        let crash = crash.and_then(|crash| self.taken_for(crash));
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        let is_allowed = process.recording.level.strings().is_some() && process.report.is_none();
        let symptom = crash.clone().unwrap_or(Symptom {
            severity: TriggerSeverity::Slow,
            detector: UNFINISHED.into(),
            reason: "the service ended while it made a report".into(),
            tid: 0,
            at_boottime_ns: now_ns,
        });
        // The service may have ended after the report was written, and before it gave the rings back.
        let is_missing = taken_as < self.earlier_reports && !self.stored.contains(&taken_as);
        let is_plausible = is_allowed && is_missing;
        if !is_plausible || !self.admit(connection, symptom, Stage::Ready) {
            self.release(connection, taken_as);
            return;
        }
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if let Some(crash) = &crash {
            process.is_told(crash, now_ns);
        }
        if let Some(pending) = &mut process.report {
            pending.taken_as = taken_as;
        }
    }

    /// What the report is about whose rings an earlier instance of the service had taken, if that was an exception: the process has
    /// noted it. Signals are noted, too, but no rings are taken for them.
    fn taken_for(&self, crash: &Crash) -> Option<Symptom> {
        let mut symptom = self.symptom_of(crash);
        let ago_ns = self.now_ns().saturating_sub(symptom.at_boottime_ns);
        let is_it = crash.kind == CrashKind::UncaughtException && ago_ns < RESTARTED_NS;
        let severities = &self.policy.reports.severities;
        let is_on = self.policy.detectors.is_on(&symptom.detector);
        symptom.reason += "; the service ended while it made the report";
        (is_it && is_on && severities.contains(&symptom.severity)).then_some(symptom)
    }

    /// The user sees the process from now on, or no more.
    pub(super) fn foreground(&mut self, connection: Connection, is_foreground: bool) {
        let now_ns = self.now_ns();
        let (grace_ns, killed_ns) = (self.policy.reports.grace_ns, self.policy.reports.killed_ns);
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if process.link != Link::Connected || process.is_foreground == is_foreground {
            return;
        }
        process.is_foreground = is_foreground;
        process.shows_activity = is_foreground && process.has_activity;
        if is_foreground {
            process.is_deferred = true;
            self.claim(connection);
        } else {
            if !process.is_deferred {
                process.recency_ns = Some(now_ns);
            }
            process.is_deferred = false;
            process.grace_until_ns = now_ns.saturating_add(killed_ns);
            process.rings_until_ns = now_ns.saturating_add(grace_ns);
        }
    }

    /// The process has activities that are started from now on, or none any more. One that stops changes nothing before the process
    /// leaves the foreground: only claims move rings, and these are counted.
    pub(super) fn activities(&mut self, connection: Connection, are_started: bool) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.has_activity = are_started;
            process.shows_activity |= are_started && process.is_foreground;
        }
    }

    /// Counts a claim of the foreground, if it is time.
    pub(super) fn claim(&mut self, connection: Connection) {
        let now_ns = self.now_ns();
        if let Some(process) = self.processes.get_mut(&connection) {
            if process.is_deferred && self.claims.claim(process.peer.uid, now_ns).is_ok() {
                process.is_deferred = false;
                process.recency_ns = Some(now_ns);
            }
        }
    }
}
