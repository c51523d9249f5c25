// SPDX-License-Identifier: Apache-2.0
//! Whether there is a place and memory for one more process, and which process gives way to it.
//!
//! Android keeps apps in memory that nobody uses, often more than there are places. So when there is no place or no memory for a
//! process that joins, the process gives way that the user has not seen for the longest time. It is told so, records nothing from
//! then on, and tries again when it comes to the foreground.

use super::action::Action;
use super::event::{Connection, Peer};
use super::peers::is_system;
use super::process::{Label, Link, Process};
use super::state::State;
use hindsight_trace_format::protocol::FromService;

/// So long after it has joined a process does not give way, ns. It may come to the foreground soon, and processes do not take each
/// other's places in turns.
const STAY_NS: u64 = 10_000_000_000;
/// What a process is told that gives way.
const GIVES_WAY: &str =
    "a new process needs its place, and of all in the background the user has not \
     seen this one for the longest time; it may join when it comes to the foreground";

impl State {
    /// Makes a place for a process that joins: at most one other process gives way.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn make_place(&mut self, process: &Process) -> Result<(), String> {
        let Err(reason) = self.has_place(process, None) else {
            return Ok(());
        };
        let Some(victim) = self.who_gives_way(process) else {
            return Err(reason);
        };
        self.displace(victim, &process.label());
        Ok(())
    }

    /// Whether there is a place, and memory, if the process `without` were gone.
    fn has_place(&self, process: &Process, without: Option<Connection>) -> Result<(), String> {
        let memory = &self.policy.memory;
        let others = || {
            let all = self.processes.iter();
            let others = all.filter(|(connection, _)| Some(**connection) != without);
            others.map(|(_, other)| other)
        };
        if others().count() >= memory.processes as usize {
            let most = memory.processes;
            return Err(format!(
                "{most} processes are there already (processes in the policy)"
            ));
        }
        let Peer { uid, .. } = process.peer;
        let of_uid = others().filter(|other| other.peer.uid == uid);
        if of_uid.count() >= memory.processes_per_uid as usize {
            let most = memory.processes_per_uid;
            return Err(format!(
                "{most} processes of user {uid} are there already (processes-per-uid in the policy)"
            ));
        }
        // One that comes back may have more rings than there are now, by another policy or after a while: refused, it would go on
        // recording. They are taken back at once, and no other process gets any before.
        if !self.has_room(without, process, process.other_bytes) {
            return Err(
                "the memory budget has no room for one more process (budget-mib, ring-share or uid-share in the policy)"
                    .into(),
            );
        }
        Ok(())
    }

    /// The process that was seen longest ago, of those that may give way and whose place is enough.
    fn who_gives_way(&self, process: &Process) -> Option<Connection> {
        let all = self.processes.iter();
        let mut may: Vec<_> = all
            .filter(|(_, other)| self.may_give_way(other))
            .map(|(connection, other)| (other.recency_ns, *connection))
            .collect();
        may.sort_unstable();
        let mut may = may.into_iter().map(|(_, connection)| connection);
        may.find(|connection| self.has_place(process, Some(*connection)).is_ok())
    }

    /// Whether the process is an app that nobody misses: in the background for a while, without rings of calls and reports. What a
    /// process may use that cannot be told anything counts until it ends.
    fn may_give_way(&self, process: &Process) -> bool {
        let now_ns = self.now_ns();
        let has_report = process.report.is_some() || process.next.is_some();
        process.link == Link::Connected
            && !is_system(process.peer.uid)
            && !process.is_foreground
            && now_ns >= process.grace_until_ns
            && now_ns >= process.stays_until_ns
            && !process.recording.background
            && !self.recordings.covers(&process.name)
            && !has_report
            && process.owed.is_none()
            && process.rings() == 0
            && process.noted.is_none()
    }

    /// When a process that joins now may give way, ns. After a restart of the service all come back at once, and have been there
    /// before.
    pub(super) fn stays_until_ns(&self) -> u64 {
        match self.is_settling() {
            true => self.now_ns(),
            false => self.now_ns().saturating_add(STAY_NS),
        }
    }

    fn displace(&mut self, connection: Connection, newcomer: &Label) {
        let Some(process) = self.processes.remove(&connection) else {
            return;
        };
        let label = process.label();
        self.log(format!("{label} gives way to {newcomer}"));
        self.refuse(connection, &label, GIVES_WAY.into());
    }

    /// Tells a process that is not there, or not any more, that it is not wanted.
    pub(super) fn refuse(&mut self, connection: Connection, label: &Label, reason: String) {
        /// So many are shown.
        const LAST: usize = 8;
        self.refused_processes = self.refused_processes.saturating_add(1);
        self.refusals.truncate(LAST - 1);
        self.refusals.push_front(format!("{label}: {reason}"));
        let message = FromService::Refused { reason };
        self.actions.extend([
            Action::Send {
                connection,
                message,
            },
            Action::Disconnect { connection },
            Action::Forget { connection },
        ]);
    }
}
