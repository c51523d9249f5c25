// SPDX-License-Identifier: Apache-2.0
//! The interface of this crate for the managed runtime: one recorder for the process.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hindsight_trace_format::shared::{Crash, CrashKind};

use crate::clock;
use crate::command::{Command, NanoscopeCommand, Reply, ServiceCommand, SnapshotOutcome, Trigger};
use crate::config::Config;
use crate::control::socket::ControlSocket;
use crate::control::{nanoscope, property, rules, sharing, ControlThread};
#[cfg(not(feature = "loom"))]
use crate::crash;
use crate::folder::starts::Start;
use crate::fork;
use crate::handshake::TracedThread;
use crate::host::{Host, Severity};
use crate::registry::Ended;
use crate::service::{self, ServiceThread};
use crate::session::Session;
use crate::sync::lock;
use crate::thread::trace::StartReason;
use crate::thread::words::ThreadWords;

/// Why a forked child of a traced process gets nothing from the recorder.
const IS_CHILD: &str = "a forked child is not traced";

/// The recorder of this process.
///
/// In a forked child, which has neither the control thread nor the owners of the locks, no function does anything.
///
/// Any thread may call the thread hooks ([`thread_started`](Self::thread_started), …) at any time from
/// [`start`](Self::start) to the end of the process, also after [`shutdown`](Self::shutdown).
pub struct Recorder {
    session: Arc<Session>,
    commands: mpsc::Sender<Command>,
    control_thread: Mutex<Option<JoinHandle<()>>>,
    socket: Mutex<Option<ControlSocket>>,
    service: Mutex<Option<ServiceThread>>,
    stopped: AtomicBool,
    crashed: AtomicBool,
    /// The process that has the control thread; a forked child has none.
    pid: u32,
}

impl Recorder {
    /// Starts the control thread, and the control socket if one is configured. Returns when the control thread is
    /// attached. A socket that cannot be created is logged; tracing works without it.
    ///
    /// # Errors
    /// If trace points cannot read the counter, or only slowly; if the control thread cannot be started or attached; or
    /// in a forked child of a traced process.
    pub fn start(mut config: Config, host: Box<dyn Host>) -> io::Result<Self> {
        if fork::is_child() {
            return Err(io::Error::other(IS_CHILD));
        }
        fork::watch();
        let readiness = clock::prepare(config.counter).map_err(io::Error::other)?;
        if let Some(warning) = readiness.warning() {
            host.log(Severity::Warning, &warning);
        }
        let start = begin_start(&mut config, &*host)?;
        let session = Arc::new(Session::new(config, host));
        let (commands, receiver) = mpsc::channel();
        // Before the control thread, which sleeps, and other threads, which wake it.
        let waking = commands.clone();
        (session.stacks.quiet()).set_wake(move || drop(waking.send(Command::ThreadRuns)));
        let (attached, is_attached) = mpsc::channel();
        let control = Arc::clone(&session);
        let control_thread =
            std::thread::Builder::new()
                .name("hindsight".into())
                .spawn(move || {
                    let ok = control.host.attach_control_thread();
                    if ok {
                        // Before the first thread is traced.
                        control.announce_categories();
                        sharing::publish(&control);
                        rules::load_configured(&control);
                    }
                    let _ = attached.send(ok);
                    let mut start = start;
                    if ok {
                        ControlThread::new(&control, start).run(&receiver);
                        control.host.detach_control_thread();
                    } else {
                        // The process is not traced: its end will say nothing about tracing.
                        start.succeed();
                    }
                })?;
        if !is_attached.recv().unwrap_or(false) {
            let _ = control_thread.join();
            return Err(io::Error::other("the control thread could not be attached"));
        }
        let detected = commands.clone();
        (session.detectors).set_sink(move |found| drop(detected.send(Command::Detected(found))));
        let socket = session.config.socket.as_ref().and_then(|path| {
            ControlSocket::listen(path, commands.clone())
                .inspect_err(|e| {
                    let message = format!("no control socket at {}: {e}", path.display());
                    session.host.log(Severity::Error, &message);
                })
                .ok()
        });
        let service = start_service(&session, &commands);
        if session.config.nanoscope {
            let watched = commands.clone();
            let watching = property::watch(nanoscope::PROPERTY, move |value| {
                let (reply, _) = mpsc::channel();
                let value = value.to_owned();
                watched.send(Command::Property { value, reply }).is_ok()
            });
            if let Err(e) = watching {
                let message = format!("cannot watch the property {}: {e}", nanoscope::PROPERTY);
                session.host.log(Severity::Error, &message);
            }
        }
        Ok(Recorder {
            session,
            commands,
            control_thread: Mutex::new(Some(control_thread)),
            socket: Mutex::new(socket),
            service: Mutex::new(service),
            stopped: AtomicBool::new(false),
            crashed: AtomicBool::new(false),
            pid: std::process::id(),
        })
    }

    /// A thread was registered with the managed runtime; starts tracing it if the configuration selects it.
    ///
    /// `words` are the words that its trace points use; the address of its [`TracedThread`] is stored there.
    ///
    /// # Safety
    /// Called by the thread itself. The words are aligned, part of the thread object that
    /// [`StubTable::entry_slot`](crate::StubTable::entry_slot) describes, and valid until
    /// [`thread_exiting`](Self::thread_exiting).
    pub unsafe fn thread_started(&self, tid: u32, name: &str, words: *const ThreadWords) {
        if self.stopped.load(Ordering::Acquire) || self.is_child() {
            return;
        }
        fork::set_words(NonNull::new(words.cast_mut()));
        let session = &*self.session;
        // SAFETY: the caller is the thread, and guarantees that `words` are aligned and valid until `thread_exiting`.
        let thread = Arc::new(unsafe { session.new_thread(tid, name, words) });
        let state = Arc::into_raw(Arc::clone(&thread));
        // SAFETY: the caller guarantees that the words are valid. They own this reference until `thread_exiting`.
        unsafe { (*words).replace_state(state.cast()) };
        session.registry.add(Arc::clone(&thread));
        // They may have changed before the thread could be found.
        thread.trace().set_events(session.categories());
        thread.trace().set_rewind_below(|| session.rewind.ticks().0);
        if session.config.threads.selects(tid) && self.begins_calls(&thread, name) {
            return;
        }
        if let Some(ring) = session.events_ring() {
            // SAFETY: the caller is the thread.
            if let Err(unused) = unsafe { thread.begin(ring, StartReason::Configuration) } {
                session.events_ring_ended();
                session.put_back(unused);
            }
        }
    }

    /// Makes the thread, which is the caller, record its calls, if there is room for a ring.
    fn begins_calls(&self, thread: &TracedThread, name: &str) -> bool {
        let session = &*self.session;
        let tid = thread.trace().tid();
        // Starting a thread never evicts another thread's ring.
        if !session.registry.reserve_ring(tid, clock::boottime_ns()) {
            // Without any, the service has not said yet how many there may be, or there may be none.
            if !session.registry.is_without_rings() {
                session.count_refused_ring();
            }
            return false;
        }
        match session.calls_ring() {
            Ok(ring) => {
                // SAFETY: the caller is the thread.
                unsafe { thread.begin(ring, StartReason::Configuration) }.is_ok()
            }
            Err(e) => {
                session.registry.release_ring(tid);
                let message =
                    format!("thread {tid} ({name}) is not traced: no memory for its ring: {e}");
                session.host.log(Severity::Warning, &message);
                false
            }
        }
    }

    /// The calling thread is about to be unregistered from the managed runtime.
    ///
    /// # Safety
    /// The words given to [`thread_started`](Self::thread_started), by the same thread.
    pub unsafe fn thread_exiting(&self, words: *const ThreadWords) {
        if self.is_child() {
            return;
        }
        fork::set_words(None);
        // SAFETY: the caller guarantees that the words are valid.
        let state = unsafe { (*words).replace_state(std::ptr::null()) };
        if state.is_null() {
            return;
        }
        // SAFETY: the words own this reference since `thread_started`, which made it from an Arc of this type.
        let thread = unsafe { Arc::from_raw(state.cast::<TracedThread>()) };
        let check = |taken: &_| self.session.check_balance(taken, true);
        // SAFETY: the caller is the thread.
        let unwanted = unsafe {
            self.session
                .registry
                .end(&thread, &self.session.spool, check)
        };
        match unwanted {
            Some(Ended::Unwanted(unwanted)) => self.session.put_back(unwanted.ring),
            Some(Ended::EventsKept) => self.session.events_ring_ended(),
            None => {}
        }
    }

    /// A class was linked, and none of its methods has run yet. `class` is the host's number for it. Does nothing unless names
    /// must survive the process.
    pub fn class_linked(&self, class: usize) {
        let Some(shared) = self.session.shared().filter(|_| !self.is_child()) else {
            return;
        };
        let mut symbols = Vec::new();
        let counter = clock::counter();
        (self.session.host).name_methods_of_class(class, &mut |symbol| symbols.push(symbol));
        sharing::mark_ambiguous(&self.session, &mut symbols);
        shared.add_methods(counter, &symbols);
    }

    /// The number of a name for the program's own events; 0 if there is no room for another name.
    pub fn register_name(&self, name: &str) -> u32 {
        if self.is_child() {
            return 0;
        }
        self.session.names().register(name)
    }

    /// A thread has a new name.
    pub fn thread_renamed(&self, tid: u32, name: &str) {
        if self.is_child() {
            return;
        }
        if let Some(thread) = self.session.registry.find(tid) {
            thread.trace().rename(name);
        }
    }

    /// A thread came to the foreground. If the configuration traces it, and nobody has asked to stop it, it is traced
    /// from now on, if need be with the ring of the thread that was wanted least recently. Does not wait for that.
    pub fn thread_in_foreground(&self, tid: u32) {
        if !self.is_child() {
            let _ = self.commands.send(Command::CameToForeground { tid });
        }
    }

    /// The user does not see the process any more; or it never was seen, and has its name now. Does not wait for anything.
    pub fn process_in_background(&self) {
        if !self.is_child() {
            let _ = self.commands.send(Command::LeftForeground);
        }
    }

    /// The managed runtime may know the process's name, or facts about its app, only from now on. Does not wait for anything.
    pub fn app_is_known(&self) {
        if !self.is_child() {
            let _ = self.commands.send(Command::AppIsKnown);
        }
    }

    /// The process has activities that are started, which the user sees, or none any more. Does not wait for anything.
    pub fn activities(&self, are_started: bool) {
        if !self.is_child() {
            let _ = self.commands.send(Command::Activities { are_started });
        }
    }

    /// The system asks for the stacks of all threads, as it does when the process does not respond (SIGQUIT). Does not wait for
    /// anything.
    pub fn stacks_wanted(&self) {
        if !self.is_child() {
            self.session.detectors.stacks_wanted(std::process::id());
        }
    }

    /// The system needs memory, so urgently that it would end the process for it: gives the memory of the rings of calls back.
    /// Recording goes on in empty rings. Does not wait for that.
    pub fn trim_memory(&self) {
        if self.is_child() {
            return;
        }
        let (reply, _) = mpsc::channel();
        let _ = self.commands.send(Command::Trim { reply });
    }

    /// Executes a command of Nanoscope's [`thread_name_command`](crate::thread_name_command) or property. Waits at most
    /// `patience` for that: the caller must be at a safepoint.
    ///
    /// # Errors
    /// A message for the user.
    pub fn nanoscope(
        &self,
        tid: u32,
        command: NanoscopeCommand,
        patience: Duration,
    ) -> Result<(), String> {
        self.ask(patience, |reply| Command::Nanoscope {
            tid,
            command,
            reply,
        })
    }

    /// Starts tracing the thread, or marks it as the one wanted most recently if it is traced already; or stops tracing
    /// it, and discards its ring. Waits at most `patience` for that: if the thread is the caller, it must be at a
    /// safepoint.
    ///
    /// # Errors
    /// A message for the user, for instance that a thread to be stopped is not traced.
    pub fn trace_thread(&self, tid: u32, trace: bool, patience: Duration) -> Result<(), String> {
        self.ask(patience, |reply| {
            if trace {
                Command::Prefer { tid, reply }
            } else {
                Command::Stop { tid, reply }
            }
        })
    }

    /// Whether this is a forked child of the process that has the control thread. Takes no lock. The process's id also
    /// tells of a raw `clone` system call.
    fn is_child(&self) -> bool {
        fork::is_child() || std::process::id() != self.pid
    }

    fn ask(
        &self,
        patience: Duration,
        command: impl FnOnce(Reply) -> Command,
    ) -> Result<(), String> {
        if self.is_child() {
            return Err(IS_CHILD.into());
        }
        let (reply, answer) = mpsc::channel();
        let sent = self.commands.send(command(reply)).is_ok();
        match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) if sent => Err("the control thread is busy".into()),
            Err(_) => Err("tracing was shut down".into()),
        }
    }

    /// A class loader, and with it its methods, is about to be freed. `loader` is the host's number for it.
    ///
    /// Keeps the names of its methods if events of them may have been recorded.
    pub fn loader_unloading(&self, loader: usize) {
        if self.is_child() {
            return;
        }
        let session = &self.session;
        // Also during the shutdown, which may take a snapshot.
        if !session.registry.has_rings() && session.categories() == 0 {
            return;
        }
        let mut symbols = Vec::new();
        session
            .host
            .name_methods_of_loader(loader, &mut |symbol| symbols.push(symbol));
        if symbols.is_empty() {
            session.count_unnamed_loader();
            return;
        }
        session.journal().add(clock::counter_in_order(), symbols);
    }

    /// Writes the rings of all threads to a file, unless the program has asked for too many (`snapshot-interval`). Waits at
    /// most `patience` for it. Tracing goes on meanwhile, in other rings.
    ///
    /// With a connection to the system service, that is told instead, and decides whether there is a report.
    ///
    /// `reason` describes the trigger for the reader of the file; `triggered_by` is the kernel id of the thread that
    /// triggered the snapshot, or 0.
    pub fn snapshot(
        &self,
        reason: String,
        triggered_by: u32,
        patience: Duration,
    ) -> SnapshotOutcome {
        self.take_snapshot(reason, triggered_by, Trigger::Program, patience)
    }

    fn take_snapshot(
        &self,
        reason: String,
        triggered_by: u32,
        trigger: Trigger,
        patience: Duration,
    ) -> SnapshotOutcome {
        if self.is_child() {
            return SnapshotOutcome::Failed(IS_CHILD.into());
        }
        let shut_down = || SnapshotOutcome::Failed("tracing was shut down".into());
        let (reply, outcome) = mpsc::channel();
        let command = Command::Snapshot {
            reason,
            triggered_by,
            trigger,
            reply,
        };
        if self.commands.send(command).is_err() {
            return shut_down();
        }
        match outcome.recv_timeout(patience) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => SnapshotOutcome::TimedOut,
            Err(RecvTimeoutError::Disconnected) => shut_down(),
        }
    }

    /// An exception of this class, which nothing caught, ends the thread with this kernel id. Tells the system service, or takes a
    /// snapshot with the reason `crash: CLASS` if that is configured, and waits at most `patience` for it. Only one crash of a process is saved:
    /// it may live on without the thread, and lose many of them.
    pub fn crashed(&self, exception: &str, tid: u32, patience: Duration) {
        if let Some(shared) = self.session.shared() {
            shared.crash().note(&Crash {
                kind: CrashKind::UncaughtException,
                tid,
                at_boottime_ns: clock::boottime_ns(),
            });
        }
        if self.session.wants_crashes() && !self.crashed.swap(true, Ordering::AcqRel) {
            // What becomes of it is logged; nobody is there to react. If it failed, the next crash is saved instead.
            let reason = format!("crash: {exception}");
            let outcome = self.take_snapshot(reason, tid, Trigger::Crash, patience);
            if matches!(outcome, SnapshotOutcome::Failed(_)) {
                self.crashed.store(false, Ordering::Release);
            }
        }
    }

    /// Takes a last snapshot if that is configured, stops tracing every thread, and ends the control thread. A second
    /// call does nothing. Nor does a call in a forked child, which has neither the control thread nor the rings'
    /// threads.
    pub fn shutdown(&self) {
        if self.is_child() || self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(socket) = lock(&self.socket).take() {
            socket.close();
        }
        let _ = self.commands.send(Command::Shutdown);
        if let Some(thread) = lock(&self.control_thread).take() {
            let _ = thread.join();
        }
        if let Some(service) = lock(&self.service).take() {
            service.close();
        }
    }
}

/// Starts the thread that connects to the system service, if one is configured.
fn start_service(
    session: &Arc<Session>,
    commands: &mpsc::Sender<Command>,
) -> Option<ServiceThread> {
    let (link, path) = (session.link()?, session.config.service.as_ref()?);
    #[cfg(not(feature = "loom"))]
    crash::note_signals_in(session.shared()?);
    let (counted, logged) = (Arc::clone(session), Arc::clone(session));
    let facts = service::Facts {
        memory: Arc::clone(session.shared()?),
        ring_bytes: session.config.geometry.bytes() as u64,
        rings: Box::new(move || u32::try_from(counted.registry.rings()).unwrap_or(u32::MAX)),
        log: Box::new(move |severity, message| logged.host.log(severity, message)),
    };
    let (asks, tells) = (commands.clone(), link.clone());
    facts.memory.room().on_need(move |bytes| {
        // The control thread may be busy for long; it is asked only if another thread uses the connection just now.
        if !tells.needs_if_free(bytes) {
            let _ = asks.send(Command::Service(ServiceCommand::Needs));
        }
    });
    let started = ServiceThread::start(path, link, facts, commands.clone());
    let problem = |e: io::Error| {
        let message = format!("no service: its thread cannot be started: {e}");
        session.host.log(Severity::Warning, &message);
        let _ = commands.send(Command::Service(ServiceCommand::Barred));
    };
    started.map_err(problem).ok()
}

/// Notes that the process starts. After too many starts that failed, the configuration is switched off.
///
/// # Errors
/// If the configuration then asks for nothing else.
fn begin_start(config: &mut Config, host: &dyn Host) -> io::Result<Start> {
    let (start, noted) = Start::begin(
        &config.directory,
        &thread_name(),
        &format!("{config:?}"),
        config.limits.failed_starts,
        clock::boottime_ns(),
        clock::sample().realtime_ns / 1_000_000_000,
    );
    if let Err(e) = noted {
        let message = format!("starts that fail are not counted: {e}");
        host.log(Severity::Warning, &message);
    }
    if let Some(message) = start.refusal() {
        config.switch_off();
        if config.is_off() {
            return Err(io::Error::other(message));
        }
        host.log(Severity::Error, &message);
    }
    Ok(start)
}

/// The name of the calling thread: the main one, which a zygote's child names after the app, long before the process has that
/// name.
fn thread_name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: there is room for the 16 bytes of a thread's name.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
