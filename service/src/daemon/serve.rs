// SPDX-License-Identifier: Apache-2.0
//! The loop.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use hindsight_trace_format::protocol::MAX_MESSAGE_BYTES;

use crate::commands::{Commands, Patience, Request, Watchers, FIRST_UPLOADER};
use crate::consent::Allowed;
use crate::engine::{Asked, Connection, Event, Now, Report};
use crate::os::{
    accept, check_memory, own_uid, receive_packet, Interest, Packet, Poll, PressureLevel,
    PressureTriggers, Ready, Signals, Stall, System, Timer,
};
use crate::report::{Done, Job, Outcome, Worker};
use crate::store::{State, Store};

use super::consent::Consent;
use super::decide::Decide;
use super::dispatch::{Dispatcher, Memory, Outlet, Verdict};
use super::limits::Limits;
use super::links::{Link, Rim};
use super::log::Log;
use super::looking::Looking;

/// Name of the policy in the store that a client has loaded.
const POLICY: &str = "policy";
/// Name of the recording switch in the store: there only if it is off.
const SWITCH: &str = "switch";
/// Packets of one process, and new connections, before the others get their turn.
const PACKETS_A_TURN: usize = 8;
const CONNECTIONS_A_TURN: usize = 16;
/// The most packets that an ended process can have left: more than a socket's buffer holds.
const LAST_PACKETS: usize = 4096;
/// After this time the service tries again to take connections when it had no descriptor left, ns.
const ACCEPT_AGAIN_NS: u64 = 1_000_000_000;

/// Tokens have what it is in their upper byte, and its number in the rest.
const KIND_SHIFT: u32 = 56;
const KIND_SOCKET: u64 = 1;
const KIND_PROCESS: u64 = 2;
const KIND_CLIENT: u64 = 3;
const LISTENER: u64 = 1;
const COMMANDS: u64 = 2;
const TIMER: u64 = 3;
const DISK: u64 = 4;
const SIGNALS: u64 = 5;
const SOME: u64 = 6;
const FULL: u64 = 7;
const UPLOADS: u64 = 8;

fn client_token(client: u64) -> u64 {
    KIND_CLIENT << KIND_SHIFT | client
}

/// What the daemon is made of.
pub struct Parts<D> {
    /// Decides.
    pub engine: D,
    /// The system.
    pub system: Arc<dyn System>,
    /// The reports.
    pub store: Store,
    /// Where processes connect: a listening socket of packets.
    pub listener: OwnedFd,
    /// Where clients connect: a listening socket of a stream.
    pub commands: Option<OwnedFd>,
    /// Where the uploader connects, a listening socket of a stream, and its user id.
    pub uploads: Option<(OwnedFd, u32)>,
    /// Signals that end the service.
    pub signals: Option<Signals>,
    /// Limits of processes.
    pub limits: Limits,
    /// Limits of clients.
    pub patience: Patience,
    /// The log.
    pub log: Log,
}

/// Why the service does not start.
#[derive(Debug, thiserror::Error)]
#[error("the system has no {0} for the service: {1}")]
pub struct StartError(&'static str, io::Error);

/// The service.
pub struct Daemon<D> {
    dispatcher: Dispatcher<D>,
    rim: Rim,
    consent: Consent,
    /// The policy that was loaded last cannot be read: nothing is recorded or uploaded until another one is loaded.
    is_policy_lost: bool,
    system: Arc<dyn System>,
    worker: Worker,
    timer: Timer,
    listener: Option<OwnedFd>,
    /// No descriptor was left for a connection; it is tried again then.
    accept_again: Option<u64>,
    signals: Option<Signals>,
    pressure: Option<PressureTriggers>,
    level: PressureLevel,
    looking: Looking,
    started: Now,
    reports: usize,
    bytes: u64,
    watchers: Watchers,
}

impl<D: Decide> Daemon<D> {
    /// Puts everything together. A policy that a client has loaded before is in force again.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn new(parts: Parts<D>) -> Result<Self, StartError> {
        let no = |what| move |e| StartError(what, e);
        let Parts {
            engine,
            system,
            mut store,
            listener,
            limits,
            ..
        } = parts;
        let now = system.now();
        let poll = Poll::new().map_err(no("epoll descriptor"))?;
        let timer = Timer::new().map_err(no("timer"))?;
        let pressure = system.pressure();
        let commands = parts
            .commands
            .map(|commands| Commands::new(commands, own_uid(), parts.patience, client_token));
        let uploads = parts
            .uploads
            .map(|(socket, uid)| Commands::for_uploads(socket, uid, parts.patience, client_token));
        let watch = |fd, token, interest| poll.add(fd, token, interest).map_err(no("descriptor"));
        watch(timer.as_fd(), TIMER, Interest::Read)?;
        watch(listener.as_fd(), LISTENER, Interest::Read)?;
        if let Some(commands) = &commands {
            watch(commands.listener(), COMMANDS, Interest::Read)?;
        }
        if let Some(uploads) = &uploads {
            watch(uploads.listener(), UPLOADS, Interest::Read)?;
        }
        if let Some(signals) = &parts.signals {
            watch(signals.as_fd(), SIGNALS, Interest::Read)?;
        }
        if let Some(triggers) = &pressure {
            watch(triggers.descriptor(Stall::Some), SOME, Interest::Exception)?;
            watch(triggers.descriptor(Stall::Full), FULL, Interest::Exception)?;
        }
        let saved = store.load_state(POLICY);
        // A damaged file says that there was a switch.
        let is_switched_off = !matches!(store.load_state(SWITCH), State::Missing);
        let mut rim = Rim {
            poll,
            links: BTreeMap::new(),
            jobs: VecDeque::new(),
            waiting_reports: 0,
            max_waiting_reports: limits.waiting_reports,
            wake_at: None,
            commands,
            uploads,
            log: parts.log,
            now,
            reserved: store.reserved(),
        };
        for line in store.take_log() {
            rim.log(line);
        }
        let mut dispatcher = Dispatcher::new(engine, limits);
        let consent = Consent::begin(&mut store, &mut rim.log, now);
        dispatcher.choose(now, consent.choices(), &mut rim);
        let is_policy_lost = load_saved(&mut dispatcher, saved, now, &mut rim);
        if is_switched_off {
            rim.log("recording is switched off: 'switch on' ends that".to_owned());
            dispatcher.switch(now, false, &mut rim);
        }
        // An interrupted service may have left reports that a choice before its end does not allow.
        consent.enforce(&dispatcher, &mut rim);
        let (reports, bytes) = (store.reports().count(), store.total_bytes());
        let newest = store.reports().map(|entry| entry.report).max();
        let worker = Worker::start(store, Arc::clone(&system)).map_err(no("thread"))?;
        let waker = worker.waker().as_fd();
        rim.poll
            .add(waker, DISK, Interest::Read)
            .map_err(no("descriptor"))?;
        Ok(Daemon {
            dispatcher,
            rim,
            consent,
            is_policy_lost,
            system,
            worker,
            timer,
            listener: Some(listener),
            accept_again: None,
            signals: parts.signals,
            pressure,
            level: PressureLevel::default(),
            looking: Looking::default(),
            started: now,
            reports,
            bytes,
            watchers: Watchers::new(newest.unwrap_or(0)),
        })
    }

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
            for one in ready.drain(..) {
                self.ready(one);
            }
            self.pass_time();
        }
        Ok(())
    }

    /// The next time at which something is due; `None`: only others can make something happen.
    fn deadline(&self) -> Option<u64> {
        let commands = self.rim.commands.as_ref().and_then(Commands::deadline);
        let all = [
            self.dispatcher.deadline(),
            self.rim.wake_at,
            self.level.wake_at(),
            self.accept_again,
            self.looking.deadline(),
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
                let _ = self
                    .rim
                    .poll
                    .add(listener.as_fd(), LISTENER, Interest::Read);
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
            (self.looking).look(engine.detectors(), &observed, &self.rim, &*self.system)
        };
        for (connection, finding) in found {
            self.dispatcher.push(Event::Found {
                connection,
                finding,
            });
        }
        self.dispatcher.drain(now, &mut self.rim);
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

    fn stalled(&mut self, stall: Stall) {
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
            let link = self.rim.links.get(&connection);
            let Some(socket) = link.and_then(|link| link.socket.as_ref()) else {
                return;
            };
            let mut buffer = [0; MAX_MESSAGE_BYTES];
            match receive_packet(socket.as_fd(), &mut buffer) {
                Ok(Packet::Nothing) => return,
                Ok(Packet::Bytes {
                    length,
                    descriptor,
                    is_cut: false,
                }) => self.received(connection, &buffer[..length], descriptor),
                Ok(Packet::Bytes { .. }) => {
                    let why = "a packet is too long, or has too many descriptors";
                    let now = self.rim.now;
                    self.dispatcher.reject(now, connection, why, &mut self.rim);
                }
                // The first time it only says that the other side did not read all: its own packets come next.
                Err(_) if failures == 0 => failures += 1,
                Ok(Packet::End) | Err(_) => {
                    let now = self.rim.now;
                    self.dispatcher.closed(now, connection, &mut self.rim);
                }
            }
        }
    }

    fn received(&mut self, connection: Connection, packet: &[u8], descriptor: Option<OwnedFd>) {
        self.looking.woken(self.rim.now.boottime_ns);
        let file = descriptor.map(File::from);
        let memory = match file.as_ref().map(check_memory) {
            None => Memory::Missing,
            Some(Ok(())) => Memory::Good,
            Some(Err(e)) => Memory::Bad(e.to_string()),
        };
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
            self.request(client, request);
        }
    }

    fn request(&mut self, client: u64, request: Request) {
        match request {
            Request::Status => {
                let status = self.status();
                self.rim.answer_client(client, Ok(vec![status]), None);
            }
            Request::Reports => self.rim.ask_store(client, Job::List { client }),
            Request::Get(report) => {
                let allowed = Box::new(self.dispatcher.engine().allowed());
                let job = Job::Open {
                    client,
                    allowed,
                    report,
                };
                self.rim.ask_store(client, job);
            }
            Request::Remove(report) => self.rim.ask_store(client, Job::Remove { client, report }),
            Request::PolicyFile(path) => {
                self.rim.ask_store(client, Job::ReadPolicy { client, path });
            }
            Request::Watch(after) => {
                if let Some(answer) = self.watchers.wait(client, after) {
                    self.rim.answer_client(client, answer, None);
                }
            }
            Request::PolicyText(text) => self.load_policy(client, Some(text)),
            Request::PolicyDefault => self.load_policy(client, None),
            Request::Preview(report) => {
                let allowed = Box::new(self.dispatcher.engine().allowed());
                let job = Job::Preview {
                    client,
                    allowed,
                    report,
                };
                self.rim.ask_store(client, job);
            }
            Request::NextUpload => self.next_upload(client, None),
            Request::StillUpload { report, kind } => {
                if let Some(allowed) = self.allowed_upload(client) {
                    let job = Job::StillUpload {
                        client,
                        allowed,
                        report,
                        kind,
                    };
                    self.rim.ask_store(client, job);
                }
            }
            Request::Uploaded { report, kind } => {
                let job = Job::Uploaded {
                    client,
                    report,
                    kind,
                };
                self.rim.ask_store(client, job);
            }
            Request::Consent => {
                let line = self.consent.show(&self.dispatcher);
                self.rim.answer_client(client, Ok(vec![line]), None);
            }
            Request::Choose {
                whose,
                level,
                ends_others,
            } => {
                let choice = (whose, level, ends_others);
                self.consent
                    .choose(client, choice, &mut self.dispatcher, &mut self.rim);
            }
            Request::PolicyShow => {
                let text = self.dispatcher.engine().policy_text();
                let lines = text.lines().map(str::to_owned).collect();
                self.rim.answer_client(client, Ok(lines), None);
            }
            Request::PolicyCheck(text) => {
                let checked = crate::policy::Policy::parse(&text);
                let result = checked.map(|_| Vec::new()).map_err(|e| e.to_string());
                self.rim.answer_client(client, result, None);
            }
            Request::Switch { is_on } => self.switch(client, is_on),
            Request::Dump => {
                let mut lines = self.dump();
                lines.extend(self.dispatcher.engine().dump());
                self.rim.answer_client(client, Ok(lines), None);
            }
            Request::Record { package, seconds } => self.dispatcher.push(Event::Asked {
                reply: client,
                what: Asked::Record { package, seconds },
            }),
            Request::Report { process, reason } => self.dispatcher.push(Event::Asked {
                reply: client,
                what: Asked::Report { process, reason },
            }),
        }
    }

    /// What is allowed. `None`: nothing is uploaded while nothing is recorded, and the client is told so.
    fn allowed_upload(&mut self, client: u64) -> Option<Box<Allowed>> {
        if self.is_policy_lost {
            let line = "nothing the policy is lost: load it again, or say 'policy default'";
            self.rim
                .answer_client(client, Ok(vec![line.to_owned()]), None);
            return None;
        }
        let allowed = Box::new(self.dispatcher.engine().allowed());
        if !allowed.policy.enabled {
            let line = "nothing the switch is off, or the policy has 'enabled = false'".to_owned();
            self.rim.answer_client(client, Ok(vec![line]), None);
            return None;
        }
        Some(allowed)
    }

    fn next_upload(&mut self, client: u64, admitted: Option<Report>) {
        let Some(allowed) = self.allowed_upload(client) else {
            return;
        };
        let job = Job::NextUpload {
            client,
            allowed,
            admitted,
        };
        self.rim.ask_store(client, job);
    }

    /// A report may leave, if the limit of uploads allows one more.
    fn admit_upload(&mut self, client: u64, report: Report) {
        // It would count, and not be handed out.
        if self.allowed_upload(client).is_none() {
            return;
        }
        let now = self.rim.now;
        match self.dispatcher.admit_upload(now, &mut self.rim) {
            Ok(()) => self.next_upload(client, Some(report)),
            Err(why) => {
                let line = format!("nothing {why}");
                self.rim.answer_client(client, Ok(vec![line]), None);
            }
        }
    }

    /// Puts a policy in force, and keeps it for the next service.
    fn load_policy(&mut self, client: u64, text: Option<String>) {
        let now = self.rim.now;
        let loaded = self
            .dispatcher
            .load_policy(now, text.as_deref(), &mut self.rim);
        if let Err(message) = loaded {
            return self.rim.answer_client(client, Err(message), None);
        }
        self.is_policy_lost = false;
        let job = Job::Save {
            name: POLICY,
            text,
            client,
        };
        // Before the answer, so that no report is left then which the policy does not allow.
        self.consent.enforce(&self.dispatcher, &mut self.rim);
        self.rim.jobs.push_back(job);
    }

    /// The recording switch: holds at once, and is kept for the next service.
    fn switch(&mut self, client: u64, is_on: bool) {
        let now = self.rim.now;
        self.dispatcher.switch(now, is_on, &mut self.rim);
        let job = Job::Save {
            name: SWITCH,
            text: (!is_on).then(|| "off".to_owned()),
            client,
        };
        self.rim.jobs.push_back(job);
    }

    /// What the engine does not know.
    fn dump(&self) -> Vec<String> {
        let up_ns = self.rim.now.boottime_ns - self.started.boottime_ns;
        vec![
            format!(
                "hindsightd {}, running for {} s",
                env!("CARGO_PKG_VERSION"),
                up_ns / 1_000_000_000
            ),
            format!(
                "store: {} reports, {} KiB; {} wait for the disk",
                self.reports,
                self.bytes >> 10,
                self.rim.waiting_reports
            ),
        ]
    }

    fn status(&self) -> String {
        let (processes, joined) = self.dispatcher.counts();
        let up_ns = self.rim.now.boottime_ns - self.started.boottime_ns;
        format!(
            "{{\"service\":\"{}\",\"up_s\":{},\"processes\":{processes},\"connected\":{joined},\"pressure_known\":{},\"store\":{{\"reports\":{},\"bytes\":{},\"waiting\":{}}},\"engine\":{}}}",
            env!("CARGO_PKG_VERSION"),
            up_ns / 1_000_000_000,
            self.pressure.is_some(),
            self.reports,
            self.bytes,
            self.rim.waiting_reports,
            self.dispatcher.engine().status(),
        )
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
            self.job_done(done);
        }
    }

    fn job_done(&mut self, done: Done) {
        (self.reports, self.bytes) = (done.reports, done.bytes);
        for line in done.log {
            self.rim.log(line);
        }
        match done.outcome {
            Outcome::Nothing => {}
            Outcome::Written { report, is_kept } => {
                self.rim.waiting_reports -= 1;
                self.dispatcher.push(Event::Written { report, is_kept });
                if is_kept {
                    let (clients, line) = self.watchers.kept(report);
                    for client in clients {
                        self.rim.answer_client(client, Ok(vec![line.clone()]), None);
                    }
                }
            }
            Outcome::Chosen { result, .. } => {
                self.consent
                    .saved(result, &mut self.dispatcher, &mut self.rim);
            }
            Outcome::Answer { client, result } => self.rim.answer_client(client, result, None),
            Outcome::Opened { client, file, json } => {
                self.rim.answer_client(client, Ok(vec![json]), Some(file));
            }
            Outcome::Candidate { client, report } => self.admit_upload(client, report),
            Outcome::Policy { client, result } => match result {
                Ok(text) => self.load_policy(client, Some(text)),
                Err(message) => self.rim.answer_client(client, Err(message), None),
            },
        }
    }
}

/// Holds while the policy that a client has loaded is lost.
const NO_POLICY: &str =
    "# The policy that was loaded last cannot be read: load it again, or say 'policy default'.
version = 1
enabled = false
";

/// Puts the policy in force that a client has loaded into a service before this one. True: it is lost. It may have forbidden what
/// the policy of the start allows, so that nothing is recorded.
fn load_saved<D: Decide>(
    dispatcher: &mut Dispatcher<D>,
    saved: State,
    now: Now,
    rim: &mut Rim,
) -> bool {
    let problem = match saved {
        State::Missing => None,
        State::Damaged(why) => Some(why),
        State::Found(text) => dispatcher.load_policy(now, Some(&text), rim).err(),
    };
    let Some(why) = problem else {
        return false;
    };
    let what = "the policy that was loaded last is lost, so that nothing is recorded or uploaded";
    let remedy = "load it again, or say 'policy default'";
    rim.log(format!("{what}: {why}; {remedy}"));
    if let Err(e) = dispatcher.load_policy(now, Some(NO_POLICY), rim) {
        rim.log(format!("the policy that records nothing: {e}"));
        dispatcher.switch(now, false, rim);
    }
    true
}
