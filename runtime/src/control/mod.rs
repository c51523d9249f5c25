// SPDX-License-Identifier: Apache-2.0
//! The control thread: receives commands, and executes one after the other. It is the only thread that writes
//! snapshots, and that starts or stops other threads.

pub(crate) mod nanoscope;
pub(crate) mod property;
mod rate;
pub(crate) mod retention;
mod rewinding;
pub(crate) mod rules;
mod service;
pub(crate) mod sharing;
pub(crate) mod snapshot;
pub(crate) mod socket;
mod stack_requests;
pub(crate) mod status;

use std::collections::HashSet;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::time::Duration;

use hindsight_trace_format::shared::Loss;

use rate::Rate;
use rewinding::Rewinding;
use service::ServiceRequests;
use stack_requests::StackRequests;

use crate::clock;
use crate::command::{Command, NanoscopeCommand, SnapshotOutcome, Trigger};
use crate::folder::starts::Start;
use crate::handshake::checkpoint::Checkpoint;
#[cfg(feature = "lock-free")]
use crate::handshake::lock_free::LockFree;
use crate::handshake::{Handshake, TracedThread};
use crate::host::Severity;
use crate::session::Session;
use crate::thread::taken::TakenRing;

/// The control thread's own state.
pub(crate) struct ControlThread<'a> {
    session: &'a Session,
    handshake: Box<dyn Handshake + 'a>,
    rewinding: Rewinding<'a>,
    service: ServiceRequests<'a>,
    /// The start of this process, until it has succeeded.
    start: Start,
    /// How often the program may trigger snapshots; known when it has done so.
    rate: Option<Rate>,
    /// Snapshots written so far.
    snapshots: u32,
    /// Rings evicted for other threads, retired rings included.
    evicted: u64,
    property: nanoscope::Property,
    /// Threads that Nanoscope's commands started.
    started_for_nanoscope: HashSet<u32>,
}

/// The handshake that the threads of this session take part in.
fn handshake(session: &Session) -> Box<dyn Handshake + '_> {
    #[cfg(feature = "lock-free")]
    if session.is_lock_free() {
        return Box::new(LockFree::new(&*session.host));
    }
    Box::new(Checkpoint::new(&*session.host))
}

/// The next command, or `Timeout` after `pause` if there is one: without, the control thread sleeps until somebody wants
/// something.
fn next(
    commands: &mpsc::Receiver<Command>,
    pause: Option<Duration>,
) -> Result<Command, RecvTimeoutError> {
    match pause {
        Some(pause) => commands.recv_timeout(pause),
        None => (commands.recv()).map_err(|_| RecvTimeoutError::Disconnected),
    }
}

impl<'a> ControlThread<'a> {
    pub(crate) fn new(session: &'a Session, start: Start) -> Self {
        ControlThread {
            session,
            start,
            rate: None,
            handshake: handshake(session),
            rewinding: Rewinding::new(session),
            service: ServiceRequests::new(session),
            snapshots: 0,
            evicted: 0,
            property: nanoscope::Property::default(),
            started_for_nanoscope: HashSet::new(),
        }
    }

    /// Executes commands until one ends the control thread, or no sender is left.
    pub(crate) fn run(&mut self, commands: &mpsc::Receiver<Command>) {
        let mut stack_requests = StackRequests::new(self.session);
        let mut late = None;
        self.guarded("the first names", |control| {
            late = Some(sharing::name_first_classes(control.session));
        });
        loop {
            // Naming the boot image takes long, and rings of calls must not wait for it.
            let until_settled = self.service.time_to_settle();
            let is_time = until_settled.is_none() && !self.service.is_stopped();
            if let Some(late) = late.take_if(|_| is_time) {
                self.guarded("the start", |control| {
                    sharing::complete(control.session, late)
                });
            }
            let pauses = [
                stack_requests.make_if_due(),
                self.rewinding.make_exact(),
                self.watch_start(),
                until_settled,
            ];
            let command = match next(commands, pauses.into_iter().flatten().min()) {
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(Command::Shutdown) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => command,
            };
            self.with_rings("a command", |control| control.execute(command));
        }
        if self.session.config.snapshot_at_exit {
            self.with_rings("the last snapshot", |control| {
                // What becomes of it is logged.
                let _ = control.take_snapshot("the process ends", 0, true);
            });
        }
        self.with_rings("the end of tracing", |control| {
            if control.service.end() {
                retention::leave_rings(control.session, &mut *control.handshake);
            }
            retention::stop_all(control.session, &mut *control.handshake);
            #[cfg(feature = "check-balance")]
            write_balance_report(control.session);
        });
        self.start.succeed();
    }

    /// The time until the start of the process has succeeded; `None` afterwards.
    fn watch_start(&mut self) -> Option<Duration> {
        let left = self.start.look(clock::boottime_ns())?;
        if left.is_zero() {
            // The process has its final name by now.
            self.service.name_process();
            snapshot::tidy(self.session);
        }
        Some(left).filter(|left| !left.is_zero())
    }

    /// Runs `f`; a panic in it ends tracing, but not the app: all rings are taken, and no thread gets one any more
    /// (except one that is just about to begin by itself).
    fn guarded(&mut self, what: &str, f: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| f(self))).is_err() {
            let message = format!("internal error in {what}, tracing ends; please report it");
            self.session.host.log(Severity::Error, &message);
            self.session.registry.close();
            let _ = catch_unwind(AssertUnwindSafe(|| {
                retention::stop_all(self.session, &mut *self.handshake);
            }));
        }
    }

    /// As [`guarded`](Self::guarded), and `f` may have rings that are in no table meanwhile.
    fn with_rings(&mut self, what: &str, f: impl FnOnce(&mut Self)) {
        self.session.registry.set_in_control(true);
        self.guarded(what, f);
        self.session.registry.set_in_control(false);
    }

    /// Executes a command and replies. A reply that nobody waits for any more is dropped.
    fn execute(&mut self, command: Command) {
        match command {
            Command::Snapshot {
                reason,
                triggered_by,
                trigger,
                reply,
            } => {
                let _ = reply.send(self.snapshot(&reason, triggered_by, trigger));
            }
            Command::Start { tid, reply } => {
                self.session.registry.set_stopped_by_request(tid, false);
                let _ = reply.send(self.start_thread(tid));
            }
            Command::Stop { tid, reply } => {
                let _ = reply.send(self.stop_thread(tid));
            }
            Command::Prefer { tid, reply } => {
                let _ = reply.send(self.prefer(tid));
            }
            Command::CameToForeground { tid } => {
                self.service.came_to_foreground(tid);
                self.came_to_foreground(tid);
                self.property_again();
            }
            Command::LeftForeground => self.service.left_foreground(),
            Command::AppIsKnown => self.service.name_process(),
            Command::Activities { are_started } => self.service.set_activities(are_started),
            Command::Service(command) => {
                let handshake = &mut *self.handshake;
                self.service.execute(handshake, &mut self.evicted, command);
            }
            Command::Nanoscope {
                tid,
                command,
                reply,
            } => {
                let _ = reply.send(self.nanoscope(tid, command, Trigger::Program));
            }
            Command::Property { value, reply } => {
                let _ = reply.send(self.property(&value));
            }
            Command::Trim { reply } => {
                self.service.discard_taken();
                retention::trim(self.session, &mut *self.handshake);
                let _ = reply.send(Ok(()));
            }
            Command::MaxRings { limit, reply } => {
                self.session.registry.set_limit(limit);
                self.make_room(0);
                let _ = reply.send(Ok(()));
            }
            Command::Rewind { limit, reply } => {
                self.rewinding.set(limit);
                let _ = reply.send(Ok(()));
            }
            Command::Events { categories, reply } => {
                let handshake = &mut *self.handshake;
                retention::set_categories(self.session, handshake, categories.0);
                let _ = reply.send(Ok(()));
            }
            Command::Rules { file, reply } => {
                let _ = reply.send(rules::load(self.session, file.as_deref()));
            }
            Command::StackIntervals { intervals, reply } => {
                self.session.stacks.set_intervals(intervals);
                let _ = reply.send(Ok(()));
            }
            Command::Status { reply } => {
                let failed_starts = self.start.failed();
                let handshake = &*self.handshake;
                let is_off = self.start.is_refused();
                let counts = (self.snapshots, failed_starts, is_off);
                let status = status::status(self.session, handshake, counts);
                let _ = reply.send(status);
            }
            Command::Detected(found) => {
                let names = self.session.names();
                let reason = found.reason(|name| names.text(name));
                drop(names);
                // What becomes of it is the service's own.
                let _ = self.snapshot(&reason, found.tid, Trigger::Detector(found.detector));
            }
            Command::ThreadRuns | Command::Shutdown => {}
        }
    }

    /// Whether the program may trigger a snapshot now.
    ///
    /// # Errors
    /// A message for the user, which is logged, too.
    fn admit(&mut self, trigger: Trigger) -> Result<(), String> {
        if trigger != Trigger::Program {
            return Ok(());
        }
        let now = clock::boottime_ns();
        let session = self.session;
        let rate = (self.rate).get_or_insert_with(|| snapshot::rate(session, now));
        rate.admit(now).map_err(|left| {
            let message = format!(
                "no snapshot: the program has triggered too many; the next one in {} s (snapshot-interval)",
                left.as_secs() + 1
            );
            session.host.log(Severity::Warning, &message);
            message
        })
    }

    /// An admitted snapshot was refused for another reason: it does not count.
    fn give_back(&mut self, trigger: Trigger) {
        if trigger == Trigger::Program {
            if let Some(rate) = &mut self.rate {
                rate.give_back();
            }
        }
    }

    /// Tells the service of the trigger, or writes the rings of all threads to a file if the one who triggers it may do so now.
    fn snapshot(&mut self, reason: &str, triggered_by: u32, trigger: Trigger) -> SnapshotOutcome {
        if self.service.tell_trigger(reason, triggered_by, trigger) {
            return SnapshotOutcome::Reported;
        }
        if matches!(trigger, Trigger::Detector(_)) {
            return SnapshotOutcome::Failed("there is no service".into());
        }
        if trigger == Trigger::Crash && !self.session.config.snapshot_at_crash {
            return SnapshotOutcome::Failed("snapshot-at-crash is not configured".into());
        }
        if let Err(message) = self.admit(trigger) {
            return SnapshotOutcome::Failed(message);
        }
        self.take_snapshot(reason, triggered_by, false)
            .unwrap_or_else(|message| {
                self.give_back(trigger);
                SnapshotOutcome::Failed(message)
            })
    }

    /// Writes the rings of all threads to a file. With `last` set, the threads are not traced any more afterwards.
    ///
    /// # Errors
    /// A message for the user, which is logged, too, if there is no room for a file. Then all threads keep their rings.
    fn take_snapshot(
        &mut self,
        reason: &str,
        triggered_by: u32,
        last: bool,
    ) -> Result<SnapshotOutcome, String> {
        let path = snapshot::make_room(self.session)
            .inspect_err(|message| self.session.host.log(Severity::Error, message))?;
        let (mut rings, losses) = snapshot::take_rings(self.session, &mut *self.handshake, last);
        let mut losses = snapshot::in_words(losses);
        self.service.give_up_taken(&mut rings, &mut losses);
        let outcome = self.write(
            rings,
            snapshot::Request {
                reason,
                triggered_by,
                losses,
                path,
            },
        );
        retention::forget_names(self.session);
        Ok(outcome)
    }

    /// Writes the rings to a file, and returns their memory.
    fn write(
        &mut self,
        rings: Vec<TakenRing>,
        mut request: snapshot::Request<'_>,
    ) -> SnapshotOutcome {
        let evicted = [(Loss::RingsEvicted, self.evicted)];
        request.losses.extend(snapshot::in_words(evicted));
        let written = snapshot::write(self.session, rings, request);
        match written {
            Ok(path) => {
                self.snapshots += 1;
                SnapshotOutcome::Written(path)
            }
            Err(message) => {
                self.session.host.log(Severity::Error, &message);
                SnapshotOutcome::Failed(message)
            }
        }
    }

    fn find(&self, tid: u32) -> Result<Arc<TracedThread>, String> {
        (self.session.registry.find(tid))
            .ok_or_else(|| format!("no thread {tid} is registered with the runtime"))
    }

    fn make_room(&mut self, more: usize) {
        self.evicted += retention::make_room(self.session, &mut *self.handshake, more);
    }

    fn start_thread(&mut self, tid: u32) -> Result<(), String> {
        let thread = self.find(tid)?;
        if thread.trace().is_traced() {
            return Err(format!("thread {tid} is traced already"));
        }
        self.make_room(1);
        retention::start_calls(self.session, &mut *self.handshake, &thread)
    }

    fn stop_thread(&mut self, tid: u32) -> Result<(), String> {
        let thread = self.find(tid)?;
        self.session.registry.set_stopped_by_request(tid, true);
        let taken = retention::take_ring(self.session, &mut *self.handshake, &thread, &mut None)
            .ok_or_else(|| format!("thread {tid} is not traced"))?;
        retention::discard(self.session, taken);
        Ok(())
    }

    /// Starts tracing a thread, or marks it as the one wanted most recently.
    fn prefer(&mut self, tid: u32) -> Result<(), String> {
        let registry = &self.session.registry;
        registry.set_stopped_by_request(tid, false);
        if registry.touch(tid, clock::boottime_ns()) {
            return Ok(());
        }
        self.start_thread(tid)
    }

    /// Nobody has asked for the thread: it is started only if the configuration selects it, and nobody has asked to
    /// stop it.
    fn came_to_foreground(&mut self, tid: u32) {
        let registry = &self.session.registry;
        if registry.touch(tid, clock::boottime_ns())
            || !self.session.config.threads.selects(tid)
            || registry.is_stopped_by_request(tid)
            || registry.is_without_rings()
        {
            return;
        }
        if let Err(message) = self.start_thread(tid) {
            let message = format!("not traced in the foreground: {message}");
            self.session.host.log(Severity::Warning, &message);
        }
    }

    fn nanoscope(
        &mut self,
        tid: u32,
        command: NanoscopeCommand,
        trigger: Trigger,
    ) -> Result<(), String> {
        match command {
            NanoscopeCommand::Start => {
                if self.session.registry.touch(tid, clock::boottime_ns()) {
                    // An earlier thread may have had the id.
                    self.started_for_nanoscope.remove(&tid);
                } else {
                    self.start_thread(tid)?;
                    self.started_for_nanoscope.insert(tid);
                }
                Ok(())
            }
            NanoscopeCommand::Stop(path) => self.nanoscope_stop(tid, path, trigger),
        }
    }

    fn nanoscope_stop(&mut self, tid: u32, path: PathBuf, trigger: Trigger) -> Result<(), String> {
        let thread = self.find(tid)?;
        if !thread.trace().is_traced() {
            return Err(format!("thread {tid} is not traced"));
        }
        self.admit(trigger)?;
        // If there is no room, the thread keeps its ring, and can ask again.
        if let Err(message) = snapshot::check_free(self.session, &path, &thread) {
            self.give_back(trigger);
            self.session.host.log(Severity::Error, &message);
            return Err(message);
        }
        // A thread that was traced before Nanoscope's start stays traced.
        let mut replacement = None;
        if !self.started_for_nanoscope.remove(&tid) {
            replacement = retention::replacement(self.session, tid);
        }
        let handshake = &mut *self.handshake;
        let taken = retention::take_ring(self.session, handshake, &thread, &mut replacement);
        if let Some(unused) = replacement {
            self.session.put_back(unused);
        }
        let taken = taken.ok_or_else(|| format!("thread {tid} is not traced"))?;
        self.session.check_balance(&taken, false);
        let request = snapshot::Request {
            reason: "requested by Nanoscope's interface",
            triggered_by: tid,
            losses: Vec::new(),
            path,
        };
        match self.write(vec![taken], request) {
            SnapshotOutcome::Written(_) | SnapshotOutcome::Reported => Ok(()),
            SnapshotOutcome::Failed(message) => Err(message),
            SnapshotOutcome::TimedOut => Err("the control thread does not answer".into()),
        }
    }

    /// Acts on the value of Nanoscope's property; an error is logged, too.
    fn property(&mut self, value: &str) -> Result<(), String> {
        let done = self.follow_property(value);
        done.inspect_err(|message| self.session.host.log(Severity::Error, message))
    }

    /// Looks again at a value that was set before this process had its package's name. Called when the process comes to
    /// the foreground: it has the name then.
    fn property_again(&mut self) {
        if let Some(value) = self.property.for_another() {
            let _ = self.property(&value);
        }
    }

    fn follow_property(&mut self, value: &str) -> Result<(), String> {
        let package = self.session.host.identity().name;
        let directory = &self.session.config.directory;
        let before = self.property.clone();
        match self.property.changed(value, &package, directory)? {
            Some(command) => {
                let main = std::process::id();
                let done = self.nanoscope(main, command, Trigger::User);
                if done.is_err() {
                    // If the thread is traced, there was no room for its file: another empty value tries again.
                    let is_traced = self.find(main).is_ok_and(|t| t.trace().is_traced());
                    self.property = match is_traced {
                        true => before,
                        false => nanoscope::Property::default(),
                    };
                }
                done
            }
            None => Ok(()),
        }
    }
}

/// Writes the results of the checks to the configured folder.
#[cfg(feature = "check-balance")]
fn write_balance_report(session: &Session) {
    let Some(directory) = &session.config.check_balance else {
        return;
    };
    // Not locked while the host is asked for names: it may wait for threads that want to add to the report.
    let report = session.take_balance_report();
    let addresses = report.addresses();
    let mut symbols = Vec::new();
    session
        .host
        .symbolize(&addresses, &mut |symbol| symbols.push(symbol));
    session.journal().add_names(&addresses, &mut symbols);
    let names: std::collections::HashMap<u64, String> = (symbols.into_iter())
        .map(|s| (s.address, format!("{}.{}", s.class, s.name)))
        .collect();
    let text = report.text(|address| names.get(&address).map(String::as_str));
    let path = directory.join(format!("{}.balance", std::process::id()));
    if let Err(e) = std::fs::write(&path, text) {
        let message = format!("cannot write {}: {e}", path.display());
        session.host.log(Severity::Error, &message);
    }
}
