// SPDX-License-Identifier: Apache-2.0
//! The descriptors of each process, and the actions that need them.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hindsight_trace_format::protocol::FromService;
use hindsight_trace_format::shared::{has_left, read_crash, read_served, Crash, ReadLimits};

use crate::commands::{Commands, FIRST_UPLOADER};
use crate::detectors::History;
use crate::engine::{About, Connection, Now, Report, Service};
use crate::os::{own_uid, send_packet, Poll, Process, Sent};
use crate::report::{GivenNames, Job, WriteJob};
use crate::store::RESERVED_AT_ONCE;

use super::log::Log;
use super::outlet::Outlet;

/// A process's descriptors.
pub(super) struct Link {
    pub(super) socket: Option<OwnedFd>,
    pub(super) process: Process,
    pub(super) memory: Option<Arc<File>>,
    /// It has said that its names are written.
    pub(super) has_named: bool,
}

/// Whether names that a process of this user gives may get into reports of others: root, the system (system server, Settings), and
/// whoever runs the service itself, but not `nobody`, which on a device others may be, too.
fn is_trusted(uid: u32, own: u32) -> bool {
    const ROOT: u32 = 0;
    const SYSTEM: u32 = 1000;
    const NOBODY: u32 = 9999;
    [ROOT, SYSTEM].contains(&uid) || (uid == own && own != NOBODY)
}

/// The store is asked for more numbers when so few are left.
const RESERVE_AHEAD: u64 = 256;
/// The most jobs that may wait before clients are sent away.
const MAX_JOBS: usize = 64;

/// What actions need.
pub(super) struct Rim {
    pub(super) poll: Poll,
    pub(super) links: BTreeMap<Connection, Link>,
    /// What waits for the disk.
    pub(super) jobs: VecDeque<Job>,
    pub(super) waiting_reports: usize,
    pub(super) max_waiting_reports: usize,
    pub(super) wake_at: Option<u64>,
    pub(super) commands: Option<Commands>,
    pub(super) uploads: Option<Commands>,
    pub(super) log: Log,
    /// Metrics of the last minutes.
    pub(super) history: History,
    pub(super) now: Now,
    /// Numbers below this one are reserved, or will be before the next report is written.
    pub(super) reserved: Report,
}

impl Rim {
    /// Does something for a client that waits for the disk.
    pub(super) fn ask_store(&mut self, client: u64, job: Job) {
        if self.jobs.len() >= MAX_JOBS {
            let busy = "the service is busy; try again later".to_owned();
            self.answer_client(client, Err(busy), None);
        } else {
            self.jobs.push_back(job);
        }
    }

    pub(super) fn answer_client(
        &mut self,
        client: u64,
        result: Result<Vec<String>, String>,
        file: Option<File>,
    ) {
        let commands = match client >= FIRST_UPLOADER {
            true => &mut self.uploads,
            false => &mut self.commands,
        };
        if let Some(commands) = commands {
            commands.answer(self.now, client, result, file, &self.poll);
        }
    }
}

impl Outlet for Rim {
    fn send(&mut self, connection: Connection, message: &FromService) -> bool {
        let link = self.links.get(&connection);
        let Some(socket) = link.and_then(|link| link.socket.as_ref()) else {
            return false;
        };
        let packet = message.encode();
        match send_packet(socket.as_fd(), &packet, None) {
            Sent::Bytes(length) => length == packet.len(),
            // What it has said before, a farewell perhaps, is not read yet; its hang-up comes after that.
            Sent::Gone => true,
            Sent::Full => {
                let pid = link.map_or(0, |link| link.process.peer.pid);
                self.log(format!("process {pid} is disconnected: it does not read"));
                false
            }
        }
    }

    fn crash(&self, connection: Connection) -> Option<Crash> {
        let memory = self.links.get(&connection)?.memory.as_deref()?;
        read_crash(memory)
    }

    fn has_left(&self, connection: Connection) -> bool {
        let link = self.links.get(&connection);
        let memory = link.and_then(|link| link.memory.as_deref());
        memory.is_some_and(has_left)
    }

    fn services(&self) -> Vec<Service> {
        let memories = self.links.iter().filter_map(|(connection, link)| {
            let memory = link.memory.as_deref().filter(|_| link.socket.is_some())?;
            Some((*connection, memory))
        });
        let of = |(connection, memory)| {
            let services = read_served(memory).into_iter();
            services.map(move |served| Service { connection, served })
        };
        memories.flat_map(of).collect()
    }

    fn close(&mut self, connection: Connection) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.socket = None;
        }
    }

    fn write(
        &mut self,
        report: Report,
        connection: Connection,
        about: About,
        ended: bool,
        limits: ReadLimits,
    ) -> bool {
        let link = self.links.get(&connection);
        let memory = link.and_then(|link| Some((link, link.memory.clone()?)));
        let Some((link, memory)) = memory else {
            self.log(format!(
                "report {report}: the memory of its process is gone"
            ));
            return false;
        };
        if self.waiting_reports >= self.max_waiting_reports {
            let waiting = self.waiting_reports;
            self.log(format!(
                "report {report} is not written: {waiting} reports wait for the disk already"
            ));
            return false;
        }
        self.waiting_reports += 1;
        let metrics = self.history.before(connection, about.at_boottime_ns);
        self.jobs.push_back(Job::Write(Box::new(WriteJob {
            report,
            memory,
            peer: link.process.peer,
            about,
            has_ended: ended,
            limits,
            metrics,
        })));
        true
    }

    fn learn_names(&mut self, connection: Connection, most: u64) {
        let Some(link) = self.links.get_mut(&connection) else {
            return;
        };
        // Once for each connection: it costs a read of the memory.
        let is_first = !std::mem::replace(&mut link.has_named, true);
        let peer = link.process.peer;
        let Some(memory) = link.memory.clone() else {
            return;
        };
        if is_first && is_trusted(peer.uid, own_uid()) && self.jobs.len() < MAX_JOBS {
            let given = GivenNames { memory, most, peer };
            self.jobs.push_back(Job::LearnNames(given));
        }
    }

    fn forget(&mut self, connection: Connection) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.memory = None;
        }
    }

    fn remove(&mut self, connection: Connection) {
        self.links.remove(&connection);
    }

    fn wake_at(&mut self, at: Option<u64>) {
        self.wake_at = at;
    }

    fn answer(&mut self, reply: u64, result: Result<Vec<String>, String>) {
        self.answer_client(reply, result, None);
    }

    fn save(&mut self, state: String) {
        // One that waits becomes the newer one: what it allows was decided after it.
        let waiting = self.jobs.iter_mut().find_map(|job| match job {
            Job::SaveLimits(text) => Some(text),
            _ => None,
        });
        match waiting {
            Some(text) => *text = state,
            None => self.jobs.push_back(Job::SaveLimits(state)),
        }
    }

    fn uses(&mut self, report: Report) {
        let ahead = report.saturating_add(RESERVE_AHEAD);
        if ahead >= self.reserved {
            self.reserved = ahead.saturating_add(RESERVED_AT_ONCE);
            self.jobs.push_back(Job::Reserve(ahead));
        }
    }

    fn log(&mut self, line: String) {
        self.log.line(self.now.boottime_ns, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_system_gives_names_to_others() {
        for uid in [0, 1000] {
            assert!(is_trusted(uid, 9999));
        }
        // Apps, the system's apps of another user of the device, and `nobody`.
        for uid in [10_001, 1_001_000, 9999, 99_001, u32::MAX] {
            assert!(!is_trusted(uid, 9999));
        }
        assert!(is_trusted(1234, 1234) && !is_trusted(1235, 1234));
    }
}
