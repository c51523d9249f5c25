// SPDX-License-Identifier: Apache-2.0
//! From packets to events, and from actions to whoever carries them out. No system calls: tests and the fuzzer use it as it is.

use std::collections::{BTreeMap, VecDeque};

use hindsight_trace_format::protocol::{FromProcess, FromService};

use crate::engine::{Action, Connection, Event, Now, Peer};
use crate::json;

use super::decide::Decide;
use super::limits::{Allowance, Limits};
use super::outlet::Outlet;

/// The memory that came with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// None.
    Missing,
    /// It can be read.
    Good,
    /// It cannot, for this reason.
    Bad(String),
}

/// Where a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not said hello; it must until this time.
    New { until: u64 },
    /// It has.
    Joined,
    /// Its connection is closed from its side; if it has not ended at this time, it lives on.
    Closed { until: u64 },
    /// The engine knows that the connection is closed.
    Silent,
    /// The engine knows that it has ended.
    Ended,
}

struct Entry {
    peer: Peer,
    stage: Stage,
    allowance: Allowance,
    /// The end of the process is noticed by itself.
    shows_end: bool,
    has_memory: bool,
}

/// What to do with a connection after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Keep,
    /// The packet is the process's hello: its memory must be kept.
    KeepMemory,
    /// There is no such connection any more.
    Gone,
}

/// All processes, and the engine.
pub struct Dispatcher<D> {
    pub(super) engine: D,
    limits: Limits,
    entries: BTreeMap<Connection, Entry>,
    events: VecDeque<Event>,
    next: Connection,
}

impl<D: Decide> Dispatcher<D> {
    /// Without processes.
    pub fn new(engine: D, limits: Limits) -> Self {
        Dispatcher {
            engine,
            limits,
            entries: BTreeMap::new(),
            events: VecDeque::new(),
            next: 1,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &D {
        &self.engine
    }

    /// Number of processes, and how many of them have introduced themselves and are connected.
    pub fn counts(&self) -> (usize, usize) {
        let is_joined = |entry: &&Entry| entry.stage == Stage::Joined;
        let joined = self.entries.values().filter(is_joined).count();
        (self.entries.len(), joined)
    }

    /// A process has connected. `shows_end`: [`ended`](Self::ended) will be called when it ends; otherwise its end is the one of
    /// the connection.
    ///
    /// # Errors
    /// If there are too many: which ones, for the log.
    pub fn connect(
        &mut self,
        now: Now,
        peer: Peer,
        shows_end: bool,
    ) -> Result<Connection, &'static str> {
        if self.entries.len() >= self.limits.connections {
            return Err(
                "too many processes are connected (512, or as many as there are descriptors for)",
            );
        }
        let same = self.entries.values().filter(|e| e.peer.uid == peer.uid);
        if same.count() >= self.limits.connections_per_uid {
            return Err("too many processes of this user are connected (64)");
        }
        let connection = self.next;
        self.next += 1;
        let until = now.boottime_ns.saturating_add(self.limits.hello_ns);
        self.entries.insert(
            connection,
            Entry {
                peer,
                stage: Stage::New { until },
                allowance: Allowance::new(&self.limits, now.boottime_ns),
                shows_end,
                has_memory: false,
            },
        );
        Ok(connection)
    }

    /// A packet has come; `memory` is looked at only in the first one. [`drain`](Self::drain) must follow.
    pub fn receive(
        &mut self,
        now: Now,
        connection: Connection,
        packet: &[u8],
        memory: Memory,
        outlet: &mut impl Outlet,
    ) -> Verdict {
        let Some(entry) = self.entries.get_mut(&connection) else {
            return Verdict::Gone;
        };
        let is_new = matches!(entry.stage, Stage::New { .. });
        if !is_new && entry.stage != Stage::Joined {
            return Verdict::Gone;
        }
        let mut wrong = None;
        if !entry.allowance.take(&self.limits, now.boottime_ns) {
            wrong = Some("it sends too many packets".to_owned());
        }
        let message = match FromProcess::decode(packet) {
            _ if wrong.is_some() => None,
            Ok(message) => message,
            Err(e) => {
                wrong = Some(format!("a packet is damaged: {e}"));
                None
            }
        };
        match (message, memory) {
            _ if wrong.is_some() => {}
            (Some(FromProcess::Hello(hello)), Memory::Good) if is_new => {
                entry.stage = Stage::Joined;
                entry.has_memory = true;
                let peer = entry.peer;
                self.replace(connection, peer, outlet);
                self.events.push_back(Event::Joined {
                    connection,
                    peer,
                    hello,
                    crash: None,
                });
                return Verdict::KeepMemory;
            }
            (Some(FromProcess::Hello(_)), memory) if is_new => {
                let reason = match memory {
                    Memory::Bad(why) => why,
                    _ => "no shared memory came with the first packet".to_owned(),
                };
                let refused = FromService::Refused {
                    reason: reason.clone(),
                };
                outlet.send(connection, &refused);
                wrong = Some(reason);
            }
            (Some(FromProcess::Hello(_)), _) => wrong = Some("it says hello twice".to_owned()),
            // A message of a newer build.
            (None, _) => {}
            (Some(_), _) if is_new => wrong = Some("it does not say hello first".to_owned()),
            (Some(message), _) => self.events.push_back(Event::Said {
                connection,
                message,
            }),
        }
        match wrong {
            None => Verdict::Keep,
            Some(why) => {
                self.reject(now, connection, &why, outlet);
                Verdict::Gone
            }
        }
    }

    /// Closes the connection of a process that breaks a rule.
    pub fn reject(
        &mut self,
        now: Now,
        connection: Connection,
        why: &str,
        outlet: &mut impl Outlet,
    ) {
        if let Some(entry) = self.entries.get(&connection) {
            let Peer { pid, uid } = entry.peer;
            outlet.log(format!("process {pid}, user {uid}, is disconnected: {why}"));
        }
        self.closed(now, connection, outlet);
    }

    /// The connection is closed, or must be: nothing comes from it any more.
    pub fn closed(&mut self, now: Now, connection: Connection, outlet: &mut impl Outlet) {
        outlet.close(connection);
        let Some(entry) = self.entries.get_mut(&connection) else {
            return;
        };
        match entry.stage {
            Stage::New { .. } => self.remove(connection, outlet),
            Stage::Joined if entry.shows_end => {
                let until = now.boottime_ns.saturating_add(self.limits.end_ns);
                entry.stage = Stage::Closed { until };
            }
            Stage::Joined => self.ended(connection, outlet),
            Stage::Closed { .. } | Stage::Silent | Stage::Ended => {}
        }
    }

    /// The process has ended, and all of its packets were received.
    pub fn ended(&mut self, connection: Connection, outlet: &mut impl Outlet) {
        outlet.close(connection);
        let Some(entry) = self.entries.get_mut(&connection) else {
            return;
        };
        match entry.stage {
            Stage::New { .. } => self.remove(connection, outlet),
            Stage::Ended => {}
            Stage::Silent if !entry.has_memory => self.remove(connection, outlet),
            Stage::Joined | Stage::Closed { .. } | Stage::Silent => {
                entry.stage = Stage::Ended;
                if let Some(crash) = outlet.crash(connection) {
                    self.events.push_back(Event::Crashed { connection, crash });
                }
                if outlet.has_left(connection) {
                    self.events.push_back(Event::Left { connection });
                }
                self.events.push_back(Event::Ended { connection });
                if !entry.has_memory {
                    self.remove(connection, outlet);
                }
            }
        }
    }

    /// Something happened that concerns no connection.
    pub fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The device has slept for so long, ns, since the last call: processes get as much more time.
    pub fn slept(&mut self, slept_ns: u64) {
        for entry in self.entries.values_mut() {
            if let Stage::New { until } | Stage::Closed { until } = &mut entry.stage {
                *until = until.saturating_add(slept_ns);
            }
        }
        self.push(Event::Slept(slept_ns));
    }

    /// When [`expire`](Self::expire) must be called, `CLOCK_BOOTTIME`, ns.
    pub fn deadline(&self) -> Option<u64> {
        let of = |entry: &Entry| match entry.stage {
            Stage::New { until } | Stage::Closed { until } => Some(until),
            Stage::Joined | Stage::Silent | Stage::Ended => None,
        };
        self.entries.values().filter_map(of).min()
    }

    /// Does what is due at this time.
    pub fn expire(&mut self, now: Now, outlet: &mut impl Outlet) {
        let is_due = |stage: Stage| match stage {
            Stage::New { until } | Stage::Closed { until } => until <= now.boottime_ns,
            Stage::Joined | Stage::Silent | Stage::Ended => false,
        };
        let due = self.entries.iter().filter(|(_, e)| is_due(e.stage));
        let due: Vec<(Connection, Stage)> = due.map(|(c, e)| (*c, e.stage)).collect();
        for (connection, stage) in due {
            match stage {
                Stage::New { .. } => {
                    self.reject(now, connection, "it does not say hello", outlet);
                }
                _ => self.lose(connection, outlet),
            }
        }
    }

    /// Tells the engine all that has happened, and carries its actions out.
    pub fn drain(&mut self, now: Now, outlet: &mut impl Outlet) {
        while let Some(mut event) = self.events.pop_front() {
            if let Event::Joined {
                connection,
                hello,
                crash,
                ..
            } = &mut event
            {
                // By now its memory can be read.
                *crash = Some(*connection)
                    .filter(|_| hello.taken != 0)
                    .and_then(|connection| outlet.crash(connection));
            }
            let actions = self.engine.handle(now, event);
            self.perform(now, actions, outlet);
        }
    }

    /// Carries the engine's actions out.
    pub(super) fn perform(&mut self, now: Now, actions: Vec<Action>, outlet: &mut impl Outlet) {
        for action in actions {
            match action {
                Action::Send {
                    connection,
                    message,
                } => self.send(now, connection, &message, outlet),
                Action::Disconnect { connection } => self.disconnect(connection, outlet),
                Action::Write {
                    report,
                    connection,
                    about,
                    has_ended,
                    limits,
                } => {
                    outlet.uses(report);
                    if !outlet.write(report, connection, about, has_ended, limits) {
                        let is_kept = false;
                        self.events.push_back(Event::Written { report, is_kept });
                    }
                }
                Action::FindPeers { report, connection } => {
                    self.events.push_back(Event::Serving {
                        report,
                        connection,
                        services: outlet.services(),
                    });
                }
                Action::LearnNames { connection, most } => outlet.learn_names(connection, most),
                Action::Forget { connection } => self.forget(connection, outlet),
                Action::SaveLimits(text) => outlet.save(text),
                Action::WakeAt(at) => outlet.wake_at(at),
                Action::Answer { reply, result } => {
                    let lines = result.map(|all| all.iter().map(json::to_string).collect());
                    outlet.answer(reply, lines);
                }
                Action::Log(line) => outlet.log(line),
            }
        }
    }

    fn send(
        &mut self,
        now: Now,
        connection: Connection,
        message: &FromService,
        outlet: &mut impl Outlet,
    ) {
        if let FromService::Take { report } = message {
            outlet.uses(*report);
        }
        let entry = self.entries.get_mut(&connection);
        let Some(entry) = entry.filter(|entry| entry.stage == Stage::Joined) else {
            return;
        };
        // However many reports are made of it: its answers are no flood.
        if let FromService::Take { .. } | FromService::Release { .. } = message {
            entry.allowance.ask(&self.limits);
        }
        if !outlet.send(connection, message) {
            self.closed(now, connection, outlet);
        }
    }

    fn disconnect(&mut self, connection: Connection, outlet: &mut impl Outlet) {
        let Some(entry) = self.entries.get_mut(&connection) else {
            return;
        };
        if matches!(entry.stage, Stage::Joined | Stage::Closed { .. }) {
            outlet.close(connection);
            entry.stage = Stage::Silent;
            // Nobody would tell when it ends.
            if !entry.has_memory || !entry.shows_end {
                self.remove(connection, outlet);
            }
        }
    }

    fn forget(&mut self, connection: Connection, outlet: &mut impl Outlet) {
        let Some(entry) = self.entries.get_mut(&connection) else {
            return;
        };
        entry.has_memory = false;
        outlet.forget(connection);
        if matches!(entry.stage, Stage::Silent | Stage::Ended) {
            self.remove(connection, outlet);
        }
    }

    fn remove(&mut self, connection: Connection, outlet: &mut impl Outlet) {
        outlet.remove(connection);
        self.entries.remove(&connection);
    }

    /// The process lives on without its connection.
    fn lose(&mut self, connection: Connection, outlet: &mut impl Outlet) {
        let Some(entry) = self.entries.get_mut(&connection) else {
            return;
        };
        if matches!(entry.stage, Stage::Closed { .. }) {
            entry.stage = Stage::Silent;
            self.events.push_back(Event::Lost { connection });
            if !entry.has_memory {
                self.remove(connection, outlet);
            }
        }
    }

    /// The process has connected anew: it does not need to be waited for.
    fn replace(&mut self, connection: Connection, peer: Peer, outlet: &mut impl Outlet) {
        let others = self.entries.iter();
        let others = others.filter(|(c, e)| **c != connection && e.peer.pid == peer.pid);
        let others: Vec<Connection> = others.map(|(c, _)| *c).collect();
        for other in others {
            self.lose(other, outlet);
        }
    }
}
