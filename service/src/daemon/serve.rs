// SPDX-License-Identifier: Apache-2.0
//! The loop.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hindsight_trace_format::protocol::MAX_MESSAGE_BYTES;

use crate::commands::{Commands, FIRST_UPLOADER};
use crate::engine::{Connection, Event};
use crate::os::{
    accept, check_memory, receive_packet, receive_plain_packet, Closer, Interest, Packet,
    PressureLevel, PressureTriggers, Ready, Signals, Stall, System, Timer,
};
use crate::report::Worker;

use super::decide::Decide;
use super::dispatch::{Dispatcher, Memory, Verdict};
use super::links::{Link, Rim};
use super::looking::Looking;
use super::outlet::Outlet;
use super::requests::Requests;
use super::tokens::{
    COMMANDS, DISK, FULL, KIND_CLIENT, KIND_PROCESS, KIND_SHIFT, KIND_SOCKET, LISTENER, SIGNALS,
    SOME, TIMER, UPLOADS,
};

/// Packets of one process, and new connections, before the others get their turn.
const PACKETS_A_TURN: usize = 8;
const CONNECTIONS_A_TURN: usize = 16;
/// The most packets that an ended process can have left: more than a socket's buffer holds.
const LAST_PACKETS: usize = 4096;
/// After this time the service tries again to take connections when it had no descriptor left, ns.
const ACCEPT_AGAIN_NS: u64 = 1_000_000_000;

/// The service.
pub struct Daemon<D> {
    pub(super) dispatcher: Dispatcher<D>,
    pub(super) rim: Rim,
    pub(super) requests: Requests,
    pub(super) system: Arc<dyn System>,
    pub(super) worker: Worker,
    pub(super) closer: Closer,
    pub(super) timer: Timer,
    pub(super) listener: Option<OwnedFd>,
    /// No descriptor was left for a connection; it is tried again then.
    pub(super) accept_again: Option<u64>,
    pub(super) signals: Option<Signals>,
    /// The kernel's triggers hold as long as they are open.
    pub(super) pressure: Option<PressureTriggers>,
    pub(super) level: PressureLevel,
    pub(super) looking: Looking,
    /// How long the machine had slept, as far as time limits know, ns.
    pub(super) slept_ns: u64,
}

impl<D: Decide> Daemon<D> {
    /// Serves until a signal asks the service to end. Reports that were decided on are written before it returns.
    ///
    /// # Errors
    /// If epoll or the timer is broken.
    pub fn run(mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        while self.listener.is_some() || self.worker.is_busy() || !self.rim.jobs.is_empty() {
            self.give_job();
            self.timer.set(self.deadline())?;
            self.rim.poll.wait(&mut ready)?;
            self.rim.now = self.system.now();
            self.look_for_sleep();
            for one in ready.drain(..) {
                self.ready(one);
            }
            self.pass_time();
        }
        Ok(())
    }

    fn look_for_sleep(&mut self) {
        /// The clocks are read one after the other: less than this is no sleep, ns.
        const LEAST_NS: u64 = 100_000_000;
        let slept_ns = self.system.slept_ns();
        let more_ns = slept_ns.saturating_sub(self.slept_ns);
        if more_ns >= LEAST_NS {
            self.slept_ns = slept_ns;
            self.dispatcher.slept(more_ns);
            self.looking.slept();
        }
    }

    /// The next time at which something is due; `None`: only others can make something happen.
    fn deadline(&self) -> Option<u64> {
        let commands = self.rim.commands.as_ref().and_then(Commands::deadline);
        let all = [
            self.dispatcher.deadline(),
            self.rim.wake_at,
            self.level.wake_at(),
            self.accept_again,
            self.looking.deadline(&self.rim.history),
            commands,
            self.rim.uploads.as_ref().and_then(Commands::deadline),
        ];
        all.into_iter().flatten().min()
    }

    fn pass_time(&mut self) {
        let now = self.rim.now;
        self.dispatcher.expire(now, &mut self.rim);
        let sockets = [&mut self.rim.commands, &mut self.rim.uploads];
        for commands in sockets.into_iter().flatten() {
            commands.expire(now, &self.rim.poll);
        }
        if let Some(level) = self.level.update(now.boottime_ns) {
            self.dispatcher.push(Event::Pressure(level));
        }
        if self.accept_again.is_some_and(|at| at <= now.boottime_ns) {
            self.accept_again = None;
            if let Some(listener) = &self.listener {
                let poll = &self.rim.poll;
                let _ = poll.add(listener.as_fd(), LISTENER, Interest::Read);
            }
        }
        if self.rim.wake_at.is_some_and(|at| at <= now.boottime_ns) {
            self.rim.wake_at = None;
            self.dispatcher.push(Event::Woke);
        }
        self.dispatcher.drain(now, &mut self.rim);
        let found = {
            let engine = self.dispatcher.engine();
            let observed = engine.observed();
            (self.looking).look(engine.detectors(), &observed, &mut self.rim, &*self.system)
        };
        self.requests.looks = self.looking.looks();
        for (connection, finding) in found {
            self.dispatcher.push(Event::Found {
                connection,
                finding,
            });
        }
        self.dispatcher.drain(now, &mut self.rim);
        self.requests.log_state(&self.dispatcher, &mut self.rim);
    }

    fn ready(&mut self, ready: Ready) {
        let number = ready.token & ((1 << KIND_SHIFT) - 1);
        match (ready.token >> KIND_SHIFT, number) {
            (KIND_SOCKET, connection) => self.receive(connection, PACKETS_A_TURN),
            (KIND_PROCESS, connection) => self.process_ended(connection),
            (KIND_CLIENT, client) => self.client_ready(client, ready.has_ended),
            (_, LISTENER) => self.accept(),
            (_, COMMANDS) => self.accept_clients(false),
            (_, UPLOADS) => self.accept_clients(true),
            (_, TIMER) => self.timer.acknowledge(),
            (_, DISK) => self.disk_ready(),
            (_, SIGNALS) => self.signalled(),
            (_, SOME) => self.stalled(Stall::Some),
            (_, FULL) => self.stalled(Stall::Full),
            _ => {}
        }
        let now = self.rim.now;
        self.dispatcher.drain(now, &mut self.rim);
    }

    /// What is known of memory is told as it is now.
    fn note_memory(&mut self) {
        let facts = self.system.memory();
        self.dispatcher.push(Event::Memory(facts));
    }

    fn stalled(&mut self, stall: Stall) {
        let triggers = self.pressure.as_mut();
        if !triggers.is_some_and(|triggers| triggers.is_short(stall)) {
            return;
        }
        self.note_memory();
        let level = self.level.stalled(stall, self.rim.now.boottime_ns);
        if let Some(level) = level {
            self.dispatcher.push(Event::Pressure(level));
        }
    }

    /// The first signal ends the service when nothing waits for the disk any more; a second one does not wait.
    fn signalled(&mut self) {
        while self.signals.as_ref().is_some_and(Signals::take) {
            match self.listener.take() {
                Some(_) => {
                    self.rim.log("asked to end".to_owned());
                    let state = self.dispatcher.engine().state_at_end(self.rim.now);
                    state.into_iter().for_each(|state| self.rim.save(state));
                }
                None => {
                    let left = self.rim.jobs.len();
                    self.rim
                        .log(format!("asked to end again; {left} jobs are left undone"));
                    self.rim.jobs.clear();
                }
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..CONNECTIONS_A_TURN {
            let Some(listener) = &self.listener else {
                return;
            };
            match accept(listener.as_fd()) {
                Ok(Some(connection)) => self.connected(connection),
                Ok(None) => return,
                Err(e) => {
                    self.rim.poll.remove(listener.as_fd());
                    let at = self.rim.now.boottime_ns.saturating_add(ACCEPT_AGAIN_NS);
                    self.accept_again = Some(at);
                    self.rim.log(format!("no process can connect for now: {e}"));
                    return;
                }
            }
        }
    }

    fn connected(&mut self, socket: OwnedFd) {
        let process = match self.system.identify(socket.as_fd()) {
            Ok(process) => process,
            Err(e) => {
                self.rim.log(format!("a process is not accepted: {e}"));
                return;
            }
        };
        self.note_memory();
        let peer = process.peer;
        let shows_end = process.pidfd.is_some();
        let connection = match self.dispatcher.connect(self.rim.now, peer, shows_end) {
            Ok(connection) => connection,
            Err(why) => {
                let (pid, uid) = (peer.pid, peer.uid);
                let line = format!("process {pid}, user {uid}, is not accepted: {why}");
                self.rim.log(line);
                return;
            }
        };
        let token = |kind| kind << KIND_SHIFT | connection;
        let poll = &self.rim.poll;
        let watched = poll
            .add(socket.as_fd(), token(KIND_SOCKET), Interest::Read)
            .and_then(|()| match &process.pidfd {
                Some(pidfd) => poll.add(pidfd.as_fd(), token(KIND_PROCESS), Interest::Read),
                None => Ok(()),
            });
        let link = Link {
            socket: Some(socket),
            process,
            memory: None,
            has_named: false,
        };
        self.rim.links.insert(connection, link);
        if let Err(e) = watched {
            let why = format!("it cannot be waited for: {e}");
            self.dispatcher
                .reject(self.rim.now, connection, &why, &mut self.rim);
        }
    }

    /// Receives packets of a process, up to this number.
    fn receive(&mut self, connection: Connection, most: usize) {
        let mut failures = 0;
        for _ in 0..most {
            let mut buffer = [0; MAX_MESSAGE_BYTES];
            match self.packet(connection, &mut buffer) {
                None | Some(Ok(Packet::Nothing)) => return,
                Some(Ok(Packet::Bytes {
                    length,
                    descriptor,
                    is_cut: false,
                })) => self.received(connection, &buffer[..length], descriptor),
                Some(Ok(Packet::Bytes { descriptor, .. })) => {
                    let why = "a packet is too long, or has too many descriptors";
                    self.close(connection, descriptor);
                    let now = self.rim.now;
                    self.dispatcher.reject(now, connection, why, &mut self.rim);
                }
                // The first time it only says that the other side did not read all: its own packets come next.
                Some(Err(_)) if failures == 0 => failures += 1,
                Some(Ok(Packet::End) | Err(_)) => {
                    // Where the system does not tell the end of a process, this is it.
                    self.note_memory();
                    let now = self.rim.now;
                    self.dispatcher.closed(now, connection, &mut self.rim);
                }
            }
        }
    }

    /// The next packet. Only the memory of a process comes as a descriptor, with its first packet. `None`: its connection is closed.
    fn packet(&mut self, connection: Connection, buffer: &mut [u8]) -> Option<io::Result<Packet>> {
        let link = self.rim.links.get(&connection)?;
        let socket = link.socket.as_ref()?.as_fd();
        if link.memory.is_some() {
            return Some(receive_plain_packet(socket, buffer));
        }
        if self.closer.may_receive(link.process.peer.uid) {
            return Some(receive_packet(socket, buffer));
        }
        let why = "descriptors that processes of its user have sent cannot be closed";
        let now = self.rim.now;
        self.dispatcher.reject(now, connection, why, &mut self.rim);
        None
    }

    /// Closes a descriptor that a process has sent, and that is not its memory.
    fn close(&mut self, connection: Connection, descriptor: Option<OwnedFd>) {
        let link = self.rim.links.get(&connection);
        let uid = link.map_or(0, |link| link.process.peer.uid);
        if let Some(descriptor) = descriptor {
            if let Err(e) = self.closer.close(uid, descriptor) {
                self.rim
                    .log(format!("a descriptor of user {uid} stays open: {e}"));
            }
        }
    }

    fn received(&mut self, connection: Connection, packet: &[u8], descriptor: Option<OwnedFd>) {
        self.looking.woken(self.rim.now.boottime_ns);
        self.rim.history.woken(self.rim.now.boottime_ns);
        let mut file = descriptor.map(File::from);
        let memory = match file.as_ref().map(check_memory) {
            None => Memory::Missing,
            Some(Ok(())) => Memory::Good,
            Some(Err(e)) => Memory::Bad(e.to_string()),
        };
        let is_memory = memory == Memory::Good;
        if let Some(file) = file.take_if(|_| !is_memory) {
            self.close(connection, Some(file.into()));
        }
        let now = self.rim.now;
        let verdict = self
            .dispatcher
            .receive(now, connection, packet, memory, &mut self.rim);
        if verdict == Verdict::KeepMemory {
            if let Some(link) = self.rim.links.get_mut(&connection) {
                link.memory = file.map(Arc::new);
            }
        }
    }

    /// All that the process has sent comes first.
    fn process_ended(&mut self, connection: Connection) {
        if let Some(link) = self.rim.links.get(&connection) {
            if let Some(pidfd) = &link.process.pidfd {
                self.rim.poll.remove(pidfd.as_fd());
            }
        }
        self.receive(connection, LAST_PACKETS);
        self.note_memory();
        self.dispatcher.ended(connection, &mut self.rim);
    }

    fn accept_clients(&mut self, are_uploaders: bool) {
        let commands = match are_uploaders {
            true => &mut self.rim.uploads,
            false => &mut self.rim.commands,
        };
        if let Some(commands) = commands {
            let accepted = commands.accept(self.rim.now, &self.rim.poll, &*self.system);
            if let Err(e) = accepted {
                self.rim.log(format!("a client is not served: {e}"));
            }
        }
    }

    fn client_ready(&mut self, client: u64, has_ended: bool) {
        let commands = match client >= FIRST_UPLOADER {
            true => &mut self.rim.uploads,
            false => &mut self.rim.commands,
        };
        let Some(commands) = commands else {
            return;
        };
        let request = commands.ready(self.rim.now, client, has_ended, &self.rim.poll);
        if let Some(request) = request {
            self.requests
                .request(client, request, &mut self.dispatcher, &mut self.rim);
        }
    }

    fn give_job(&mut self) {
        if !self.worker.is_busy() {
            if let Some(job) = self.rim.jobs.pop_front() {
                self.worker.give(job);
            }
        }
    }

    fn disk_ready(&mut self) {
        self.worker.waker().acknowledge();
        while let Some(done) = self.worker.take_done() {
            self.requests
                .job_done(done, &mut self.dispatcher, &mut self.rim);
        }
    }
}
