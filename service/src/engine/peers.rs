// SPDX-License-Identifier: Apache-2.0
//! Joint reports: when a report of a process begins, the processes that it waited for leave one, too, in the same group.
//!
//! Whom a process waited for, the other side says: a process notes in its memory for which process it serves a transaction, by the
//! kernel's account of the sender. So a process cannot name another one that it did not call.

use std::cmp::Reverse;
use std::collections::VecDeque;

use hindsight_trace_format::protocol::TriggerSeverity;
use hindsight_trace_format::shared::{Served, LONG_SERVING_NS};

use super::event::{Connection, Peer, Pressure, Report, Service};
use super::pending::{Stage, Symptom, WAITED_FOR};
use super::process::Link;
use super::state::{Outcome, State};
use crate::policy::{FIRST_APP, UIDS_OF_A_USER};

/// A transaction that ended earlier has nothing to do with what is found now, ns.
const RECENT_NS: u64 = 10_000_000_000;
/// Nobody has waited for longer: it is made up, or its end was not noted, as when recording was switched off meanwhile; ns.
const LONGEST_NS: u64 = 600_000_000_000;
/// Whether the user id is one of the system's, of any Android user.
pub(super) const fn is_system(uid: u32) -> bool {
    uid % UIDS_OF_A_USER < FIRST_APP
}

/// Whether a report of a process of user id `uid` may have one of `other` in its group: of the same Android user, or of the system.
pub(super) const fn may_join(uid: u32, other: u32) -> bool {
    uid / UIDS_OF_A_USER == other / UIDS_OF_A_USER || is_system(other)
}

/// How long the process has waited for it at least, if that was long, and not long ago; ns.
fn waited_ns(served: &Served, now_ns: u64) -> Option<u64> {
    let ended_ns = served.ended_ns.unwrap_or(now_ns).min(now_ns);
    let took = ended_ns.saturating_sub(served.began_ns);
    let is_recent = now_ns.saturating_sub(ended_ns) <= RECENT_NS;
    let is_plausible = (LONG_SERVING_NS..=LONGEST_NS).contains(&took);
    (is_plausible && is_recent).then_some(took)
}

impl State {
    /// What all processes say about whom they serve: reports begin of those that the process of this report waited for, and of
    /// those that they waited for.
    pub(super) fn serving(&mut self, report: Report, connection: Connection, all: &[Service]) {
        let Some(first) = self.processes.get(&connection) else {
            return;
        };
        let mut pending = first.report.iter().chain(&first.next);
        let Some(severity) = pending
            .find(|pending| pending.report == report)
            .map(|pending| pending.symptom.severity)
        else {
            return;
        };
        let uid = first.peer.uid;
        let (mut seen, mut apps, mut peers) = (vec![connection], Vec::new(), 0);
        let mut waiting = VecDeque::from([first.peer]);
        while let Some(waiter) = waiting.pop_front() {
            for service in self.served_for(waiter, uid, all) {
                if peers >= self.policy.reports.peers {
                    return;
                }
                let server = service.connection;
                let of_server = self.processes.get(&server).map(|p| p.peer.uid);
                let is_in = of_server.is_some_and(|other| apps.contains(&other));
                if seen.contains(&server) || is_in {
                    continue;
                }
                seen.push(server);
                let peer = self.begin_peer(report, severity, waiter, &service);
                if let Some(peer) = peer {
                    peers += 1;
                    waiting.push_back(peer);
                    // What it notes may be anything: no other app takes more than one place.
                    apps.extend(Some(peer.uid).filter(|other| !is_system(*other) && *other != uid));
                }
            }
        }
    }

    /// The services for this process that are of interest: those of the system first, then those of the app itself, then the
    /// longest. `uid` is the one of the group's first process.
    fn served_for(&self, waiter: Peer, uid: u32, all: &[Service]) -> Vec<Service> {
        let mut found: Vec<_> = all
            .iter()
            .filter_map(|service| {
                let served = &service.served;
                let is_for = (served.pid, served.uid) == (waiter.pid, waiter.uid);
                let took = waited_ns(served, self.now_ns()).filter(|_| is_for)?;
                let server = self.processes.get(&service.connection)?.peer;
                let rank = match server.uid {
                    other if is_system(other) => 0,
                    other if other == uid => 1,
                    _ => 2,
                };
                let key = (rank, Reverse(took), service.connection);
                may_join(uid, server.uid).then_some((key, *service))
            })
            .collect();
        found.sort_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, service)| service).collect()
    }

    /// Begins the report of a process that another one waited for, if it is allowed and half of the queue is free; it is in
    /// the group of that report, and no limit counts it. Returns the process.
    fn begin_peer(
        &mut self,
        group: Report,
        severity: TriggerSeverity,
        waiter: Peer,
        service: &Service,
    ) -> Option<Peer> {
        let connection = service.connection;
        let process = self.processes.get(&connection)?;
        let peer = process.peer;
        if process.link != Link::Connected || process.report.is_some() {
            return None;
        }
        let refusal = if process.recording.level.strings().is_none() {
            Some(Outcome::NotAllowed)
        } else if self.pressure == Pressure::Full {
            Some(Outcome::Pressure)
        } else if self.queued() >= self.policy.reports.queue.div_ceil(2) as usize {
            // The other half is for what happens to processes themselves: when all is slow, there are most peers.
            Some(Outcome::QueueFull)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.count(refusal);
            return None;
        }
        let now_ns = self.now_ns();
        let ms = waited_ns(&service.served, now_ns).unwrap_or(0) / 1_000_000;
        let symptom = Symptom {
            // Nothing happened to this process.
            severity: severity.min(TriggerSeverity::Stuck),
            detector: WAITED_FOR.into(),
            reason: format!(
                "process {} (report {group}) waited {ms} ms for a transaction of this process",
                waiter.pid
            ),
            tid: service.served.tid,
            at_boottime_ns: now_ns,
        };
        let report = self.begin(connection, symptom, Stage::Waiting { until_ns: 0 });
        self.set_group(&[report], group);
        Some(peer)
    }

    /// These reports belong together.
    pub(super) fn set_group(&mut self, reports: &[Report], group: Report) {
        let all = self.processes.values_mut();
        let pending = all.flat_map(|process| process.report.iter_mut().chain(&mut process.next));
        for pending in pending {
            if reports.contains(&pending.report) {
                pending.group = group;
            } else if pending.report == group {
                // The others count with this one, so it counts whatever comes of it.
                pending.admitted = None;
            }
        }
    }
}
