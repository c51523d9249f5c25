// SPDX-License-Identifier: Apache-2.0
//! Watches all events and actions of an engine, and knows the engine's promises. It knows of each process only the messages.

use std::collections::{BTreeMap, BTreeSet};

use hindsight_trace_format::protocol::{FromProcess, FromService, Hello};

use super::known::Known;
use super::times::Times;
use crate::engine::{Action, Asked, Connection, Event, Peer};
use crate::policy::{Level, Person, Policy, Recording};

/// Names of processes: all that a part of a policy here may be about, and one more.
pub(super) const NAMES: [&str; 4] = ["com.example.a", "com.example.b", "org.sample", "other"];
/// What the service needs to write a report, beside its copy; bytes.
pub(super) const REPORT_BYTES: u64 = 8 << 20;
/// So long after a restart no process gets more rings than it has, ns.
const SETTLE_NS: u64 = 5_000_000_000;
/// The longest time that a process has for an answer, ns.
const ANSWER_NS: u64 = 10_000_000_000;

/// What is known of all connections.
#[derive(Debug, Default)]
pub(super) struct Checker {
    known: BTreeMap<Connection, Known>,
    pub(super) policy: Policy,
    pub(super) person: Person,
    /// Packages that were recorded on request: they may have more rings than the policy gives a process.
    recorded: Vec<String>,
    /// The report that is written now, its connection, and the service's copy in bytes.
    pub(super) writing: Option<(u64, Connection, u64)>,
    /// All reports that were written, and their user ids.
    pub(super) written: BTreeMap<u64, u32>,
    /// Those of them whose file could not be written: they count no more, some of them.
    pub(super) not_kept: BTreeSet<u64>,
    /// First reports of groups, their user ids, and how many others were written.
    groups: BTreeMap<u64, (u32, u32)>,
    /// Processes that gave way to the one that joins now.
    displaced: u32,
    /// Reports of processes that another one waited for.
    pub(super) peers: BTreeSet<u64>,
    /// Numbers below are on disk.
    saved: u64,
    pub(super) list: String,
    pub(super) wake_ns: Option<u64>,
    pub(super) answers: Vec<u64>,
    /// The budget was lowered, and more is still in use.
    is_excused: bool,
    now_ns: u64,
    times: Times,
    /// Until then processes come back after a restart, also with more rings than there are now.
    settled_ns: Option<u64>,
    is_restart: bool,
}

impl Checker {
    /// Another instance of the service knows no connections.
    pub(super) fn restart(&mut self) {
        self.settled_ns = None;
        self.is_restart = true;
        self.known.clear();
        self.times.restart();
        self.writing = None;
        self.wake_ns = None;
        self.answers.clear();
        self.is_excused = false;
    }

    pub(super) fn is_connected(&self, connection: Connection) -> bool {
        let known = self.known.get(&connection);
        known.is_some_and(|k| k.is_connected && !k.is_forgotten)
    }

    /// Whether the service counts its memory.
    pub(super) fn is_known(&self, connection: Connection) -> bool {
        let known = self.known.get(&connection);
        known.is_some_and(|k| !k.is_forgotten)
    }

    pub(super) fn rings(&self) -> u32 {
        self.known
            .values()
            .filter(|k| !k.is_forgotten && !k.is_silent)
            // It only says that it has them.
            .filter(|k| k.brought == 0 || k.is_connected)
            .map(Known::rings)
            .sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        let known = self.known.values().filter(|k| !k.is_forgotten);
        known.map(Known::bytes).sum::<u64>() + self.writing.map_or(0, |(_, _, bytes)| bytes)
    }

    /// The most rings of calls that processes may have, with those that are taken.
    pub(super) fn rings_at_most(&self) -> u32 {
        let known = self.known.values().filter(|k| !k.is_forgotten);
        known.map(|k| k.rings() + k.taken + k.releasing).sum()
    }

    /// `is_lower`: the budget is lower than before, so more may be in use for a while.
    pub(super) fn set_policy(&mut self, policy: Policy, is_lower: bool) {
        self.policy = policy;
        self.is_excused |= is_lower;
        self.look_at_levels();
    }

    /// Before anything else.
    pub(super) fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        let settle_ns = if self.is_restart { SETTLE_NS } else { 0 };
        self.settled_ns.get_or_insert(now_ns + settle_ns);
    }

    /// Before the engine is told.
    pub(super) fn before(&mut self, event: &Event) {
        self.displaced = 0;
        self.times.next_event(self.now_ns);
        match event {
            Event::Joined {
                connection,
                peer,
                hello,
                ..
            } => {
                // What it had on its earlier connection it has on this one.
                let mut all = self.known.values();
                let is_withdrawn = all.any(|k| k.peer == *peer && k.is_withdrawn && !k.is_over());
                self.times.joined(peer.pid, hello.taken);
                let in_use = if hello.taken == 0 {
                    hello.held
                } else {
                    hello.held / 2
                };
                let brought = self.brought_by(peer, hello);
                self.known.insert(
                    *connection,
                    Known {
                        peer: *peer,
                        hello: hello.clone(),
                        name: hello.name.clone(),
                        room: hello.other_bytes,
                        needed: hello.other_bytes,
                        is_connected: true,
                        has_ended: false,
                        ended_ns: 0,
                        ended_at: 0,
                        is_read: false,
                        is_forgotten: false,
                        is_welcome: false,
                        is_foreground: hello.is_foreground,
                        is_silent: false,
                        answered: in_use,
                        brought,
                        unanswered: Vec::new(),
                        last: None,
                        is_none: true,
                        is_withdrawn,
                        taken: hello.held.saturating_sub(in_use),
                        releasing: 0,
                        take: None,
                        unreleased: Some(hello.taken)
                            .filter(|taken| *taken != 0)
                            .into_iter()
                            .collect(),
                    },
                );
            }
            Event::Said {
                connection,
                message,
            } => {
                if let Some(known) = self.known.get_mut(connection) {
                    if let FromProcess::Taken { report, .. } = message {
                        let is_it = |(told, _, is_answered): (u64, u64, bool)| {
                            told == *report && !is_answered
                        };
                        if known.take.is_some_and(is_it) {
                            self.times.taken(known.peer.pid, *report);
                        }
                    }
                    known.said(message);
                }
            }
            Event::Lost { connection } => {
                if let Some(known) = self.known.get_mut(connection) {
                    known.is_connected = false;
                }
            }
            Event::Ended { connection } => {
                if let Some(known) = self.known.get_mut(connection) {
                    known.is_connected = false;
                    known.has_ended = true;
                    known.ended_ns = self.now_ns;
                    known.ended_at = self.times.event();
                }
            }
            Event::Written { report, is_kept } => {
                self.writing = None;
                self.not_kept.extend(Some(*report).filter(|_| !is_kept));
            }
            Event::Woke => self.wake_ns = None,
            Event::Slept(ns) => {
                for known in self.known.values_mut() {
                    let take = known.take.iter_mut().map(|(_, at_ns, _)| at_ns);
                    let unanswered = known.unanswered.iter_mut().map(|(_, at_ns)| at_ns);
                    take.chain(unanswered).for_each(|at_ns| *at_ns += ns);
                }
            }
            Event::Asked {
                what: Asked::Record { package, .. },
                ..
            } => self.recorded.push(package.clone()),
            Event::Asked {
                reply,
                what: Asked::Report { .. },
            } => {
                self.times.asked(*reply);
            }
            Event::Asked { .. }
            | Event::Found { .. }
            | Event::Pressure(_)
            | Event::Memory(_)
            | Event::Serving { .. }
            | Event::Crashed { .. }
            | Event::Left { .. } => {}
        }
        self.look_at_levels();
    }

    /// Which processes may not be recorded any more, from now on.
    fn look_at_levels(&mut self) {
        let level = |known: &Known| self.levels(known).iter().map(|r| r.level).min();
        let are_none: Vec<bool> = (self.known.values())
            .map(|known| level(known) == Some(Level::None))
            .collect();
        for (known, is_none) in self.known.values_mut().zip(are_none) {
            known.is_withdrawn |= is_none && !known.is_none;
            known.is_none = is_none;
        }
    }

    pub(super) fn set_person(&mut self, person: Person) {
        self.person = person;
        self.look_at_levels();
    }

    /// After the engine has answered.
    pub(super) fn after(&mut self, actions: &[Action]) {
        for action in actions {
            self.action(action);
        }
        self.check_configurations();
        self.check_waits();
        let most_copies = self.known.values().map(Known::bytes).max().unwrap_or(0) + REPORT_BYTES;
        if self.bytes() + most_copies <= self.policy.memory.budget_bytes {
            self.is_excused = false;
        }
    }

    fn action(&mut self, action: &Action) {
        match action {
            Action::Send {
                connection,
                message,
            } => self.sent(*connection, message),
            Action::Disconnect { connection } => {
                let known = self
                    .known
                    .get_mut(connection)
                    .expect("an unknown connection");
                assert!(known.is_connected, "disconnected twice, or after its loss");
                known.is_connected = false;
                known.is_silent = true;
            }
            Action::Forget { connection } => {
                let known = self
                    .known
                    .get_mut(connection)
                    .expect("an unknown connection");
                assert!(!known.is_forgotten, "forgotten twice");
                known.is_forgotten = true;
                let is_read = self.writing.is_some_and(|(_, read, _)| read == *connection);
                assert!(!is_read, "forgotten while it is read");
            }
            Action::LearnNames { connection, .. } => {
                let known = &self.known[connection];
                assert!(!known.is_forgotten, "read after it was forgotten");
            }
            Action::Write {
                report,
                connection,
                about,
                has_ended,
                limits,
            } => {
                let known = self.known.get_mut(connection).expect("unknown");
                assert_eq!(about.ended_boottime_ns, known.ended_ns, "report {report}");
                assert!(!known.is_read, "report {report} has what another one has");
                known.is_read = *has_ended;
                if *has_ended {
                    self.times.left(*report, known.ended_at);
                }
                let known = &self.known[connection];
                assert!(!known.is_forgotten, "written after it was forgotten");
                assert!(!known.is_withdrawn, "written although it was withdrawn");
                assert_eq!(known.has_ended, *has_ended, "report {report}");
                for level in self.levels(known) {
                    let consent = level.level.strings().expect("written without consent");
                    assert!(about.consent <= consent, "more than the consent");
                }
                assert_eq!((about.pid, about.uid), (known.peer.pid, known.peer.uid));
                assert!(
                    *report != 0 && *report < self.saved,
                    "the number is not on disk"
                );
                if !has_ended {
                    let at_ns = about.at_boottime_ns;
                    self.times.check_write(known.peer.pid, *report, at_ns);
                }
                let before = self.written.insert(*report, known.peer.uid);
                assert_eq!(before, None, "report {report} is written twice");
                self.joins(*report, about.group, self.known[connection].peer.uid);
                let known = &self.known[connection];
                assert_eq!(self.writing, None, "two are read at once");
                let taken = u64::from(known.taken) * known.hello.ring_bytes;
                let copy = match has_ended {
                    true => known.bytes(),
                    false => taken + known.room,
                } + REPORT_BYTES;
                assert!(limits.all_rings <= known.bytes(), "more than it was given");
                assert!(limits.ring <= known.hello.ring_bytes.max(known.room));
                assert_eq!(limits.other, known.room);
                self.writing = Some((*report, *connection, copy));
                if !self.is_excused {
                    self.check_budget("a write");
                }
            }
            Action::FindPeers { report, connection } => {
                let uid = self.known[connection].peer.uid;
                let before = self.groups.insert(*report, (uid, 0));
                assert_eq!(before, None, "its peers are wanted twice");
            }
            Action::SaveLimits(list) => {
                let next = list
                    .split("next ")
                    .nth(1)
                    .and_then(|l| l.split('\n').next());
                self.saved = next.and_then(|n| n.parse().ok()).expect("no next number");
                self.list.clone_from(list);
            }
            Action::WakeAt(wake_ns) => {
                assert!(
                    wake_ns.is_none_or(|wake_ns| wake_ns > self.now_ns),
                    "it is past"
                );
                self.wake_ns = *wake_ns;
            }
            Action::Answer { reply, result } => {
                assert!(!self.answers.contains(reply), "answered twice");
                match result {
                    // The end of a recording has no lines.
                    Ok(lines) if lines.is_empty() => {}
                    Ok(lines) => {
                        assert!(lines.iter().any(|line| line.problem.is_none()));
                        self.times.check_answer(*reply, lines);
                    }
                    Err(text) => assert!(!text.is_empty() && !text.contains('\n')),
                }
                self.answers.push(*reply);
            }
            Action::Log(line) => assert!(!line.contains('\n')),
        }
    }

    /// A report is written: in a group that another one began, only as many as the policy allows, and not of another Android user.
    fn joins(&mut self, report: u64, group: u64, uid: u32) {
        assert!(group != 0 && group <= report, "report {report} of {group}");
        if group == report {
            return;
        }
        let Some((first, others)) = self.groups.get_mut(&group) else {
            return;
        };
        let is_system = uid % 100_000 < 10_000;
        let is_same_user = uid / 100_000 == *first / 100_000;
        assert!(is_system || is_same_user, "user {uid} joins {first}");
        *others += 1;
        assert!(*others <= 3, "{others} more reports in the group {group}");
        self.peers.insert(report);
    }

    /// A report of each process can be made without giving a ring up: its copy fits in beside all that is there.
    fn check_a_report_of_each(&self, what: &str) {
        let known = self.known.values().filter(|k| !k.is_forgotten);
        let there: u64 = known.clone().map(Known::bytes).sum();
        let copy = known.map(Known::bytes).max().unwrap_or(0) + REPORT_BYTES;
        let (bytes, budget) = (there + copy, self.policy.memory.budget_bytes);
        assert!(
            bytes <= budget || self.is_excused,
            "{what}: a report needs {bytes} of {budget} bytes"
        );
    }

    /// How many of the rings that a process says it has are only known by its own account.
    fn brought_by(&self, peer: &Peer, hello: &Hello) -> u32 {
        let mut all = self.known.values().rev();
        let earlier = all.find(|k| k.peer == *peer && k.is_welcome && !k.is_over());
        let is_known = earlier.is_some_and(|k| {
            let rings = k.rings() + k.taken + k.releasing;
            k.brought == 0 && k.hello.ring_bytes == hello.ring_bytes && hello.held <= rings
        });
        if is_known {
            0
        } else {
            hello.held
        }
    }

    /// No process, and no user id, brings so many rings that others have none.
    fn check_brought(&self, connection: Connection) {
        let memory = &self.policy.memory;
        let newest = &self.known[&connection];
        if newest.brought == 0 {
            return;
        }
        // The last connection of each process.
        let welcome = self.known.values().filter(|k| k.is_welcome && !k.is_over());
        let brought: BTreeMap<(u32, u32), &Known> = welcome
            .map(|k| ((k.peer.pid, k.peer.uid), k))
            .filter(|(_, k)| k.brought != 0)
            .collect();
        let rings: u32 = brought.values().map(|k| k.brought).sum();
        match self.is_restart {
            true => assert!(newest.brought <= 2 * memory.call_rings, "{newest:?}"),
            false => assert!(rings <= memory.call_rings, "{rings} rings are believed"),
        }
        let of_uid = brought.values().filter(|k| k.peer.uid == newest.peer.uid);
        let bytes: u64 = of_uid.map(|k| k.bytes() - k.room).sum();
        let share = (memory.budget_bytes - memory.other_bytes()) / 6;
        let is_one = self.is_restart && newest.rings() <= 1 && newest.taken <= 1;
        let is_first = brought
            .values()
            .filter(|k| k.peer.uid == newest.peer.uid)
            .count()
            == 1;
        let is_one = is_one && is_first;
        assert!(bytes <= share || is_one, "{bytes} of {share} bytes");
    }

    fn check_budget(&self, what: &str) {
        let (bytes, budget) = (self.bytes(), self.policy.memory.budget_bytes);
        assert!(bytes <= budget, "{what}: {bytes} of {budget} bytes");
    }

    fn sent(&mut self, connection: Connection, message: &FromService) {
        let now_ns = self.now_ns;
        let known = self
            .known
            .get_mut(&connection)
            .expect("an unknown connection");
        assert!(
            known.is_connected && !known.is_forgotten,
            "{message:?} to a gone connection"
        );
        match message {
            FromService::Welcome { .. } => {
                known.is_welcome = true;
                self.check_budget("a process more");
                self.check_brought(connection);
            }
            FromService::Refused { .. } if known.is_welcome => {
                assert!(known.may_give_way(), "{known:?}");
                self.displaced += 1;
                assert_eq!(self.displaced, 1, "more than one gives way to a process");
            }
            FromService::Refused { .. } => assert_eq!(self.displaced, 0, "in vain"),
            FromService::Detectors(_) => assert!(known.is_welcome),
            FromService::Configure(configuration) => {
                let before = known.rings();
                let last = known.last.unwrap_or((known.answered, 0));
                known.unanswered.push((configuration.call_rings, now_ns));
                known.last = Some((configuration.call_rings, configuration.categories));
                let is_nothing = configuration.call_rings == 0 && configuration.categories == 0;
                assert!(is_nothing || !known.is_withdrawn, "it has not withdrawn");
                if configuration.call_rings > last.0 {
                    assert_eq!(before, last.0, "more before it has answered");
                    let (rings, most) = (self.rings(), self.policy.memory.call_rings);
                    assert!(rings <= most, "{rings} of {most} rings");
                    self.check_budget("a ring more");
                }
            }
            FromService::Room { bytes } => {
                assert!(*bytes > known.room, "it is not more");
                assert!(*bytes <= known.needed, "it did not ask for it");
                known.room = *bytes;
                let uid = known.peer.uid;
                self.check_budget("more room");
                self.check_a_report_of_each("more room");
                let known = self.known.values().filter(|k| !k.is_forgotten);
                let of_uid = known.filter(|k| k.peer.uid == uid).map(|k| k.room);
                let (room, most) = (
                    of_uid.sum::<u64>(),
                    self.policy.memory.other_bytes_per_uid(),
                );
                assert!(room <= most, "user {uid}: {room} of {most} bytes");
            }
            FromService::Take { report } => {
                assert!(
                    *report != 0 && *report < self.saved,
                    "the number is not on disk"
                );
                let is_free = known.take.is_none_or(|(_, _, is_answered)| is_answered);
                assert!(is_free && known.taken == 0, "{known:?}");
                known.take = Some((*report, now_ns, false));
                self.times.told(*report);
                known.unreleased.insert(*report);
                known.taken = known.rings();
                self.check_budget("a snapshot");
            }
            FromService::Release { report } => {
                assert!(
                    known.unreleased.remove(report),
                    "released twice, or never taken"
                );
                known.releasing += known.taken;
                known.taken = 0;
                known.take = None;
            }
        }
    }

    /// Each process is recorded as the policy says, at once.
    fn check_configurations(&self) {
        for known in self
            .known
            .values()
            .filter(|k| k.is_connected && !k.is_forgotten)
        {
            let (rings, categories) = known.last.expect("not configured");
            let all = self.levels(known);
            let least = all.iter().fold(u32::MAX, |bits, r| bits & r.categories);
            assert_eq!(categories, if known.is_withdrawn { 0 } else { least });
            let most = match self.recorded.contains(&known.name) {
                true => self.policy.memory.call_rings,
                false => 0,
            };
            let may_be_more = |r: &Recording| r.level != Level::None && rings <= most;
            assert!(all.iter().all(|r| rings <= r.rings || may_be_more(r)));
        }
    }

    /// What the policy says about the process: about all that it may become, as long as it has no name of its own.
    fn levels(&self, known: &Known) -> Vec<Recording> {
        let names: &[&str] = match known.name.as_str() {
            "zygote64" => &NAMES,
            name => &[name],
        };
        let of = |name: &&str| (self.policy).recording(&self.person, known.peer.uid, name);
        names.iter().map(of).collect()
    }

    /// Whoever has to answer is given a time, and disconnected after it.
    fn check_waits(&self) {
        for known in self
            .known
            .values()
            .filter(|k| k.is_connected && !k.is_forgotten)
        {
            let take = known.take.filter(|(_, _, is_answered)| !is_answered);
            let take_ns = take.map(|(_, at_ns, _)| at_ns);
            let last = known.last.map_or(0, |(rings, _)| rings);
            let shrinks = known.rings() > last || known.releasing != 0;
            let latest_ns = known.unanswered.last().map(|(_, at_ns)| *at_ns);
            let answer_ns = latest_ns.filter(|_| shrinks);
            for since_ns in take_ns.into_iter().chain(answer_ns) {
                let until_ns = since_ns + ANSWER_NS;
                let is_woken = self.wake_ns.is_some_and(|wake_ns| wake_ns <= until_ns);
                assert!(
                    is_woken && until_ns > self.now_ns,
                    "nobody waits for {known:?}"
                );
            }
        }
    }

    /// All processes have ended, and all files are written.
    pub(super) fn check_end(&self) {
        for (connection, known) in &self.known {
            assert!(
                known.is_forgotten,
                "{connection} is not forgotten: {known:?}"
            );
        }
        assert_eq!(self.wake_ns, None, "something waits for ever");
    }
}
