// SPDX-License-Identifier: Apache-2.0
//! Which process may use how many rings of calls.
//!
//! The processes that show an activity, and then those most recently in the foreground, get them. A ring is moved in two steps: the loser is told to use fewer, and
//! only when it has answered, or its memory is forgotten, the winner is told to use more. So neither the number of rings nor the
//! budget is ever exceeded.
//!
//! A process answers each configuration, in order, so counting tells which one an answer is to. An answer also shows that all
//! earlier messages were carried out: after a release an unchanged configuration is sent, for its answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{Configuration, FromService};

use super::event::{Connection, Pressure};
use super::pending::Stage;
use super::process::{Link, Process};
use super::state::{State, ANSWER_NS};

type Targets = BTreeMap<Connection, u32>;

impl State {
    /// Tells each process what it may use from now on, as far as that has changed.
    pub(super) fn plan_rings(&mut self) {
        let order = self.order();
        let targets = self.targets(&order);
        let connected: Vec<Connection> = self.connected().map(|(c, _)| c).collect();
        for connection in &connected {
            let target = targets.get(connection).copied().unwrap_or(0);
            self.take_back(*connection, target);
        }
        if !self.is_settling() {
            for connection in order {
                let target = targets.get(&connection).copied().unwrap_or(0);
                self.grant(connection, target);
            }
        }
        for connection in connected {
            self.configure(connection, false);
        }
    }

    fn connected(&self) -> impl Iterator<Item = (Connection, &Process)> {
        let all = self.processes.iter();
        all.filter(|(_, process)| process.link == Link::Connected)
            .map(|(connection, process)| (*connection, process))
    }

    /// All processes that may use rings, the most important one first. A second process of a user id comes after the first ones of
    /// all other user ids, so that no app can take all rings.
    fn order(&self) -> Vec<Connection> {
        let may_use = self.connected().filter(|(_, p)| self.may_use_rings(p));
        let mut ranked: Vec<_> = may_use
            .map(|(connection, process)| {
                let is_recorded = self.recordings.covers(&process.name);
                let rank = (is_recorded, process.rank(), connection);
                (Reverse(rank), process.peer.uid, connection)
            })
            .collect();
        ranked.sort_unstable();
        let mut of_uid: BTreeMap<u32, u32> = BTreeMap::new();
        let ranks = ranked.into_iter().enumerate();
        let mut fair: Vec<_> = ranks
            .map(|(rank, (_, uid, connection))| {
                let nth = of_uid.entry(uid).or_default();
                *nth += 1;
                (*nth, rank, connection)
            })
            .collect();
        fair.sort_unstable();
        fair.into_iter().map(|(_, _, c)| c).collect()
    }

    fn may_use_rings(&self, process: &Process) -> bool {
        let is_wanted = match self.pressure {
            // The system freezes processes in the background: then they cannot give rings back any more.
            Pressure::None => {
                let is_recent = process.is_foreground || self.now_ns() < process.rings_until_ns;
                process.recording.background || (process.recency_ns.is_some() && is_recent)
            }
            Pressure::Some => process.is_seen(),
            Pressure::Full => false,
        };
        is_wanted && process.recording.rings != 0
    }

    /// A user id with a process that did not give its rings back gets no more until that process has ended.
    fn is_trusted(&self, uid: u32) -> bool {
        let mut of_uid = self.processes.values().filter(|p| p.peer.uid == uid);
        !of_uid.any(|process| process.is_silent && process.rings() != 0)
    }

    /// How many rings each process should use, as far as number and budget allow.
    fn targets(&self, order: &[Connection]) -> Targets {
        let gone = self.processes.values();
        let gone = gone.filter(|p| p.link != Link::Connected && p.counts_in_number());
        let used = gone.fold(0_u32, |sum, process| sum.saturating_add(process.may_hold));
        let mut free = self.policy.memory.call_rings.saturating_sub(used);
        let mut targets = Targets::new();
        let ordered = order
            .iter()
            .filter_map(|c| Some((*c, self.processes.get(c)?)));
        // A package that is recorded may have many processes: each has one ring before any has more.
        let is_recorded = |process: &Process| self.recordings.covers(&process.name);
        let first = ordered.clone().filter(|(_, p)| is_recorded(p));
        let first = first.map(|(connection, process)| (connection, process, 1));
        let all = ordered.map(|(connection, process)| (connection, process, u32::MAX));
        for (connection, process, most) in first.chain(all) {
            let had = targets.get(&connection).copied().unwrap_or(0);
            let mut wanted = process.recording.rings.min(most).min(free + had);
            if self.is_settling() {
                wanted = wanted.min(process.may_hold);
            }
            free = free + had - self.largest_that_fits(&mut targets, connection, wanted);
        }
        targets
    }

    /// The demand grows with the number, so the largest one is found by halving.
    fn largest_that_fits(&self, targets: &mut Targets, connection: Connection, wanted: u32) -> u32 {
        let (mut low, mut high) = (0, wanted);
        while low < high {
            let middle = high - (high - low) / 2;
            targets.insert(connection, middle);
            let demand = self.demand(|connection, process| {
                let target = targets.get(&connection).copied().unwrap_or(0);
                let rings = match process.link {
                    Link::Connected => target,
                    Link::Lost | Link::Ended => process.may_hold,
                };
                (rings, process.taken_in_all())
            });
            if self.fits(&demand) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        targets.insert(connection, low);
        low
    }

    /// First step: fewer rings. Also asks for an answer after a release.
    fn take_back(&mut self, connection: Connection, target: u32) {
        let until_ns = self.now_ns().saturating_add(ANSWER_NS);
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if target < process.granted || process.is_unasked {
            process.granted = process.granted.min(target);
            process.answer_until_ns = Some(until_ns);
            self.configure(connection, true);
        }
    }

    /// Second step: more rings, as far as others have given theirs back.
    fn grant(&mut self, connection: Connection, target: u32) {
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        if process.answer_until_ns.is_some() || !self.is_trusted(process.peer.uid) {
            return;
        }
        let granted = process.granted;
        let limit = self.policy.memory.call_rings;
        let free = limit.saturating_sub(self.rings_counted());
        let mut rings = target.min(granted.saturating_add(free));
        while rings > granted && !self.fits_with(connection, rings) {
            rings -= 1;
        }
        if rings > granted {
            if let Some(process) = self.processes.get_mut(&connection) {
                process.granted = rings;
                process.may_hold = rings;
            }
            self.configure(connection, false);
        }
    }

    /// Whether the budget allows so many rings of the process, beside all that others may hold now.
    fn fits_with(&self, connection: Connection, rings: u32) -> bool {
        let demand = self.demand(|other, process| {
            let is_it = other == connection;
            let in_use = if is_it { rings } else { process.may_hold };
            (in_use, process.taken_in_all())
        });
        self.fits(&demand)
    }

    /// Tells the process how to record, if that has changed, or for its answer.
    fn configure(&mut self, connection: Connection, for_answer: bool) {
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        let recording = process.recording;
        let mut wanted = Configuration {
            revision: process.configured.map_or(0, |last| last.revision),
            call_rings: process.granted,
            categories: recording.categories,
            // Without consent nothing is recorded, so there is nothing that the level could be about.
            consent: recording.level.strings().unwrap_or(Consent::Structure),
        };
        if process.configured == Some(wanted) && !for_answer {
            return;
        }
        wanted.revision = self.next_revision();
        if let Some(process) = self.processes.get_mut(&connection) {
            process.configured = Some(wanted);
            process.is_unasked = false;
            process.unanswered = process.unanswered.saturating_add(1);
        }
        self.send(connection, FromService::Configure(wanted));
    }

    /// The process has answered: it has so many rings in memory, taken ones included.
    pub(super) fn held(&mut self, connection: Connection, rings: u32) {
        let Some(process) = self.processes.get_mut(&connection) else {
            return;
        };
        if rings > process.rings() {
            self.disconnect(connection, "it claims to use more rings than it may");
            return;
        }
        if process.unanswered == 0 {
            // It has answered all: what it says once more is the answer to none, and gives nothing back.
            return;
        }
        process.unanswered -= 1;
        let most = process.granted.saturating_add(process.taken_in_all());
        if process.unanswered == 0 && rings <= most {
            process.answer_until_ns = None;
            process.may_hold = process.granted;
            process.brought = 0;
            process.releasing = 0;
            // Rings that are still read are asked for again when it gets them back.
            let is_read =
                process.report.as_ref().map(|pending| pending.stage) == Some(Stage::Writing);
            let has_withdrawn = process.is_withdrawn && !is_read && process.owed.is_none();
            self.brought.answered(connection);
            if has_withdrawn {
                self.has_withdrawn(connection);
            }
        }
    }
}
