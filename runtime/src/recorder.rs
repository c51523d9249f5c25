// SPDX-License-Identifier: Apache-2.0
//! The process's recorder: its threads, and the control thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hindsight_trace_format::container::{ClockSample, Symbol};

use crate::anchors;
use crate::balance::{self, Balance};
use crate::clock;
use crate::config::{Config, ThreadSelection};
use crate::control_socket::ControlSocket;
use crate::persist;
use crate::ring::RingPool;
use crate::thread_trace::{TakenRing, ThreadTrace};
use crate::thread_words::ThreadWords;

/// How grave a message in the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Of interest to whoever develops Hindsight.
    Debug,
    /// Something was done.
    Info,
    /// Something is missing from the trace.
    Warning,
    /// Tracing does not work.
    Error,
}

/// Facts about the process that only the managed runtime knows.
#[derive(Clone, Debug, Default)]
pub struct ProcessIdentity {
    /// Process or package name.
    pub name: String,
    /// Further facts for [`hindsight_trace_format::container::ProcessFacts::extra`].
    pub extra: Vec<(String, String)>,
}

/// What the managed runtime does for the recorder. All of it but [`log`](Self::log) is called on the
/// control thread only.
pub trait Host: Send + Sync + 'static {
    /// Makes the calling thread known to the managed runtime; false if that is shutting down.
    fn attach_control_thread(&self) -> bool;
    /// Undoes [`attach_control_thread`](Self::attach_control_thread).
    fn detach_control_thread(&self);
    /// Runs `action` while the thread `tid` is at a safepoint, suspended or in native code, on
    /// whichever thread suits. Returns false, without having run it, if there is no such thread.
    fn run_at_safepoint(&self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool;
    /// Names the methods at those of `addresses` that are alive.
    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol));
    /// Who the process is.
    fn identity(&self) -> ProcessIdentity;
    /// Writes to the log.
    fn log(&self, severity: Severity, message: &str);
}

/// What became of an anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnomalyOutcome {
    /// The rings are in this file.
    Persisted(PathBuf),
    /// Nothing was kept, because of this.
    Failed(String),
    /// The control thread has not answered in time; the file may still appear.
    TimedOut,
}

/// A command to the control thread, with where to send the answer.
pub(crate) enum Command {
    Anomaly {
        reason: String,
        raised_by: u32,
        reply: mpsc::Sender<AnomalyOutcome>,
    },
    Start {
        tid: u32,
        reply: mpsc::Sender<Result<(), String>>,
    },
    Stop {
        tid: u32,
        reply: mpsc::Sender<Result<(), String>>,
    },
    Status {
        reply: mpsc::Sender<String>,
    },
    Shutdown,
}

/// Rings of threads that have ended, kept for the next persist: the newest, this many.
const MAX_FINISHED_RINGS: usize = 4;

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) host: Box<dyn Host>,
    pub(crate) config: Config,
    pool: RingPool,
    /// When recording started.
    pub(crate) started: ClockSample,
    /// The threads registered with the managed runtime, by their kernel id.
    threads: Mutex<HashMap<u32, Arc<ThreadTrace>>>,
    finished: Mutex<VecDeque<TakenRing>>,
    balance: Mutex<BalanceReport>,
    /// Class loaders unloaded so far.
    loaders_unloaded: std::sync::atomic::AtomicU64,
}

/// The sum of what `check-balance` found.
#[derive(Default)]
struct BalanceReport {
    threads: u64,
    wrapped_threads: u64,
    events: u64,
    entries: u64,
    problems: Vec<(String, Balance)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The recorder of this process.
///
/// The thread hooks ([`thread_started`](Self::thread_started), …) may be called by any thread at any
/// time between [`start`](Self::start) and the end of the process, also after
/// [`shutdown`](Self::shutdown).
pub struct Recorder {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    control_thread: Mutex<Option<JoinHandle<()>>>,
    socket: Mutex<Option<ControlSocket>>,
    stopped: AtomicBool,
    /// The process that has the control thread; a forked child has none.
    pid: u32,
}

impl Recorder {
    /// Starts the control thread, and the control socket if one is configured. Returns when the
    /// control thread is attached; a socket that cannot be made is logged, and done without.
    ///
    /// # Errors
    /// If trace points cannot read the counter, or the control thread cannot be started or attached.
    pub fn start(config: Config, host: Box<dyn Host>) -> io::Result<Self> {
        let access = clock::prepare(config.counter).map_err(io::Error::other)?;
        if access == clock::Access::Emulated {
            let message = "the counter cannot be read here; each read is emulated, which is slow";
            host.log(Severity::Warning, message);
        }
        let shared = Arc::new(Shared {
            pool: RingPool::new(config.geometry),
            started: clock::sample(),
            threads: Mutex::default(),
            finished: Mutex::default(),
            balance: Mutex::default(),
            loaders_unloaded: Default::default(),
            host,
            config,
        });
        let (commands, receiver) = mpsc::channel();
        let (attached, is_attached) = mpsc::channel();
        let control = Arc::clone(&shared);
        let control_thread =
            std::thread::Builder::new()
                .name("hindsight".into())
                .spawn(move || {
                    let ok = control.host.attach_control_thread();
                    let _ = attached.send(ok);
                    if ok {
                        ControlThread::new(&control).run(&receiver);
                        control.host.detach_control_thread();
                    }
                })?;
        if !is_attached.recv().unwrap_or(false) {
            let _ = control_thread.join();
            return Err(io::Error::other("the control thread could not be attached"));
        }
        let socket = shared.config.socket.as_ref().and_then(|path| {
            ControlSocket::listen(path, commands.clone())
                .inspect_err(|e| {
                    let message = format!("no control socket at {}: {e}", path.display());
                    shared.host.log(Severity::Error, &message);
                })
                .ok()
        });
        Ok(Recorder {
            shared,
            commands,
            control_thread: Mutex::new(Some(control_thread)),
            socket: Mutex::new(socket),
            stopped: AtomicBool::new(false),
            pid: std::process::id(),
        })
    }

    /// A thread was registered with the managed runtime; starts tracing it if that is configured.
    ///
    /// `words` are what its trace points use; the address of its [`ThreadTrace`] is put there, too.
    ///
    /// # Safety
    /// Called by the thread itself; the words are aligned, and valid until
    /// [`thread_exiting`](Self::thread_exiting).
    pub unsafe fn thread_started(&self, tid: u32, name: &str, words: *const ThreadWords) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: passed on to the caller.
        let trace = Arc::new(unsafe { ThreadTrace::new(tid, name, words) });
        // SAFETY: valid, says the caller. The reference it holds is given up in `thread_exiting`.
        unsafe { (*words).replace_state(Arc::into_raw(Arc::clone(&trace))) };
        lock(&self.shared.threads).insert(tid, Arc::clone(&trace));
        let selected = match self.shared.config.threads {
            ThreadSelection::Off => false,
            ThreadSelection::Main => tid == std::process::id(),
            ThreadSelection::All => true,
        };
        if selected {
            match self.shared.pool.take() {
                Ok(ring) => {
                    // SAFETY: the caller is the thread.
                    let _ = unsafe { trace.begin(ring) };
                }
                Err(e) => self.shared.host.log(
                    Severity::Warning,
                    &format!("thread {tid} ({name}) is not traced: no memory for its ring: {e}"),
                ),
            }
        }
    }

    /// The calling thread is about to be unregistered from the managed runtime.
    ///
    /// # Safety
    /// The words given to [`thread_started`](Self::thread_started), by the same thread.
    pub unsafe fn thread_exiting(&self, words: *const ThreadWords) {
        // SAFETY: valid, says the caller; they hold the reference given away in `thread_started`.
        let trace = unsafe { (*words).replace_state(std::ptr::null()) };
        if trace.is_null() {
            return;
        }
        // SAFETY: as above.
        let trace = unsafe { Arc::from_raw(trace) };
        // SAFETY: the caller is the thread.
        let taken = unsafe { trace.retire() };
        {
            let mut threads = lock(&self.shared.threads);
            // The kernel may have given the id to a new thread already.
            if threads
                .get(&trace.tid())
                .is_some_and(|other| Arc::ptr_eq(other, &trace))
            {
                threads.remove(&trace.tid());
            }
        }
        if let Some(taken) = taken {
            self.shared.check_balance(&taken, true);
            self.shared.keep_finished(taken);
        }
    }

    /// A thread has a new name.
    pub fn thread_renamed(&self, tid: u32, name: &str) {
        if let Some(trace) = lock(&self.shared.threads).get(&tid) {
            trace.rename(name);
        }
    }

    /// A class loader, and with it its methods, is about to be freed.
    pub fn class_loader_unloading(&self) {
        self.shared.loaders_unloaded.fetch_add(1, Ordering::Relaxed);
    }

    /// Persists what led here. Waits for the file at most `patience`.
    ///
    /// Tracing goes on meanwhile, in other rings. `raised_by` is the id of the thread that noticed, or
    /// 0.
    pub fn raise_anomaly(
        &self,
        reason: String,
        raised_by: u32,
        patience: Duration,
    ) -> AnomalyOutcome {
        if std::process::id() != self.pid {
            return AnomalyOutcome::Failed("a forked child is not traced".into());
        }
        let (reply, outcome) = mpsc::channel();
        if self
            .commands
            .send(Command::Anomaly {
                reason,
                raised_by,
                reply,
            })
            .is_err()
        {
            return AnomalyOutcome::Failed("tracing was shut down".into());
        }
        match outcome.recv_timeout(patience) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => AnomalyOutcome::TimedOut,
            Err(RecvTimeoutError::Disconnected) => {
                AnomalyOutcome::Failed("tracing was shut down".into())
            }
        }
    }

    /// Persists the rings if that is configured, stops tracing every thread, and ends the control
    /// thread. The second call does nothing, nor does one in a forked child: neither the control
    /// thread nor the rings' threads are there.
    pub fn shutdown(&self) {
        if std::process::id() != self.pid || self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(socket) = lock(&self.socket).take() {
            socket.close();
        }
        let _ = self.commands.send(Command::Shutdown);
        if let Some(thread) = lock(&self.control_thread).take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn keep_finished(&self, taken: TakenRing) {
        let mut finished = lock(&self.finished);
        finished.push_back(taken);
        if finished.len() > MAX_FINISHED_RINGS {
            if let Some(oldest) = finished.pop_front() {
                drop(finished);
                self.pool.put(oldest.ring);
            }
        }
    }

    fn check_balance(&self, taken: &TakenRing, thread_ended: bool) {
        if self.config.check_balance.is_none() {
            return;
        }
        let mut report = lock(&self.balance);
        report.threads += 1;
        if taken.header.position.laps != 0 {
            report.wrapped_threads += 1;
            return;
        }
        let found = balance::check(taken.slots());
        report.events += found.events;
        report.entries += found.entries;
        // Where a ring continues another, its first exits belong to entries in that.
        let unmatched = !taken.continues && found.unmatched_exits != 0;
        if unmatched || (thread_ended && found.open != 0) {
            let thread = format!("{} (tid {})", taken.header.name, taken.header.tid);
            report.problems.push((thread, found));
        }
    }
}

/// Notes where the traced threads stand, if it is time to. Returns for how long nothing is due.
///
/// That is less than half the time in which the low 32 bits of the counter wrap, so that the decoder
/// can tell any number of wraps between two trace points.
fn sample_due_anchors(shared: &Shared, next: &mut Instant) -> Duration {
    let now = Instant::now();
    if now >= *next {
        let mut pause = anchors::interval(clock::known_rate(&shared.started).unwrap_or(0));
        let threads: Vec<_> = lock(&shared.threads).values().cloned().collect();
        // None may be missed: a thread that was too busy is asked again soon.
        let missed = threads.iter().filter(|t| !t.sample_anchor()).count();
        if missed != 0 {
            pause = anchors::retry_after(pause);
        }
        *next = now + pause;
    }
    next.saturating_duration_since(Instant::now())
}

/// The control thread's own state.
struct ControlThread<'a> {
    shared: &'a Shared,
    /// Files written so far.
    persisted: u32,
    /// When anchors are due.
    next_anchors: Instant,
}

impl<'a> ControlThread<'a> {
    fn new(shared: &'a Shared) -> Self {
        ControlThread {
            shared,
            persisted: 0,
            next_anchors: Instant::now(),
        }
    }

    fn run(&mut self, commands: &mpsc::Receiver<Command>) {
        loop {
            let pause = sample_due_anchors(self.shared, &mut self.next_anchors);
            let command = match commands.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(Command::Shutdown) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => command,
            };
            self.guarded("a command", |control| control.handle(command));
        }
        if self.shared.config.persist_at_exit {
            self.guarded("the last persist", |control| {
                control.persist("the process ends", 0, true);
            });
        }
        self.guarded("the end of tracing", |control| {
            control.stop_all();
            control.write_balance_report();
        });
    }

    /// A bug of ours must not end the app: it ends tracing.
    fn guarded(&mut self, what: &str, f: impl FnOnce(&mut Self)) {
        if catch_unwind(AssertUnwindSafe(|| f(self))).is_err() {
            let message = format!("internal error in {what}, tracing ends; please report it");
            self.shared.host.log(Severity::Error, &message);
            let _ = catch_unwind(AssertUnwindSafe(|| self.stop_all()));
        }
    }

    fn handle(&mut self, command: Command) {
        // A caller that has stopped waiting is its own business.
        match command {
            Command::Anomaly {
                reason,
                raised_by,
                reply,
            } => {
                let _ = reply.send(self.persist(&reason, raised_by, false));
            }
            Command::Start { tid, reply } => {
                let _ = reply.send(self.start_thread(tid));
            }
            Command::Stop { tid, reply } => {
                let _ = reply.send(self.stop_thread(tid));
            }
            Command::Status { reply } => {
                let _ = reply.send(self.status());
            }
            Command::Shutdown => {}
        }
    }

    fn stop_all(&self) {
        for trace in self.threads() {
            if let Some(taken) = self.take_ring(&trace, &mut None) {
                self.shared.check_balance(&taken, false);
                self.shared.pool.put(taken.ring);
            }
        }
    }

    fn threads(&self) -> Vec<Arc<ThreadTrace>> {
        lock(&self.shared.threads).values().cloned().collect()
    }

    /// Takes the thread's ring at a safepoint, leaving it `replacement`.
    fn take_ring(
        &self,
        trace: &ThreadTrace,
        replacement: &mut Option<crate::ring::Ring>,
    ) -> Option<TakenRing> {
        if !trace.is_traced() {
            return None;
        }
        let mut taken = None;
        self.shared.host.run_at_safepoint(trace.tid(), &mut || {
            // SAFETY: the host runs this at a safepoint of the thread.
            taken = unsafe { trace.take(replacement) };
        });
        taken
    }

    /// Persists all rings. With `last` set, the threads are not traced any more afterwards.
    fn persist(&mut self, reason: &str, raised_by: u32, last: bool) -> AnomalyOutcome {
        let mut rings: Vec<TakenRing> = lock(&self.shared.finished).drain(..).collect();
        let mut losses = Vec::new();
        let mut without_memory = 0;
        for trace in self.threads() {
            if !trace.is_traced() {
                continue;
            }
            let mut replacement = if last {
                None
            } else {
                self.shared
                    .pool
                    .take()
                    .inspect_err(|e| {
                        let tid = trace.tid();
                        let message = format!("tracing of thread {tid} ends: no memory: {e}");
                        self.shared.host.log(Severity::Warning, &message);
                        without_memory += 1;
                    })
                    .ok()
            };
            let taken = self.take_ring(&trace, &mut replacement);
            if let Some(taken) = &taken {
                self.shared.check_balance(taken, false);
            }
            rings.extend(taken);
            if let Some(unused) = replacement {
                self.shared.pool.put(unused);
            }
            sample_due_anchors(self.shared, &mut self.next_anchors);
        }
        if without_memory != 0 {
            losses.push((
                "threads no longer traced, for want of memory".into(),
                without_memory,
            ));
        }
        let unloaded = self.shared.loaders_unloaded.load(Ordering::Relaxed);
        if unloaded != 0 {
            losses.push((
                "class loaders unloaded, with the names of their methods".into(),
                unloaded,
            ));
        }
        // The anomaly's own thread first, then the main thread, then by id: readers show them in this
        // order.
        let main = std::process::id();
        rings.sort_by_key(|r| {
            let tid = r.header.tid;
            (tid != raised_by, tid != main, tid)
        });
        let outcome = persist::write(self.shared, &rings, reason, raised_by, losses, &mut || {
            sample_due_anchors(self.shared, &mut self.next_anchors)
        });
        for taken in rings {
            self.shared.pool.put(taken.ring);
        }
        match outcome {
            Ok(path) => {
                self.persisted += 1;
                let message = format!("persisted {}: {reason}", path.display());
                self.shared.host.log(Severity::Info, &message);
                AnomalyOutcome::Persisted(path)
            }
            Err(message) => {
                self.shared.host.log(Severity::Error, &message);
                AnomalyOutcome::Failed(message)
            }
        }
    }

    fn find(&self, tid: u32) -> Result<Arc<ThreadTrace>, String> {
        lock(&self.shared.threads)
            .get(&tid)
            .cloned()
            .ok_or_else(|| format!("no thread {tid} is registered with the runtime"))
    }

    fn start_thread(&self, tid: u32) -> Result<(), String> {
        let trace = self.find(tid)?;
        let ring = self
            .shared
            .pool
            .take()
            .map_err(|e| format!("no memory for a ring: {e}"))?;
        let mut ring = Some(ring);
        let mut begun = Ok(());
        let ran = self.shared.host.run_at_safepoint(tid, &mut || {
            if let Some(ring) = ring.take() {
                // SAFETY: the host runs this at a safepoint of the thread.
                begun = unsafe { trace.begin(ring) };
            }
        });
        for unused in ring.into_iter().chain(begun.err()) {
            self.shared.pool.put(unused);
            if ran {
                return Err(format!("thread {tid} is traced already"));
            }
        }
        if ran {
            Ok(())
        } else {
            Err(format!("thread {tid} has ended"))
        }
    }

    fn stop_thread(&self, tid: u32) -> Result<(), String> {
        let trace = self.find(tid)?;
        let taken = self
            .take_ring(&trace, &mut None)
            .ok_or_else(|| format!("thread {tid} is not traced"))?;
        self.shared.check_balance(&taken, false);
        self.shared.pool.put(taken.ring);
        Ok(())
    }

    /// One line of JSON.
    fn status(&self) -> String {
        let threads = self.threads();
        let traced: Vec<_> = threads
            .iter()
            .filter(|t| t.is_traced())
            .map(|t| t.tid().to_string())
            .collect();
        format!(
            r#"{{"pid":{},"threads":{},"traced":[{}],"ring_bytes":{},"persisted":{}}}"#,
            std::process::id(),
            threads.len(),
            traced.join(","),
            self.shared.config.geometry.bytes(),
            self.persisted,
        )
    }

    fn write_balance_report(&self) {
        let Some(directory) = &self.shared.config.check_balance else {
            return;
        };
        let report = lock(&self.shared.balance);
        let mut addresses: Vec<u64> = report
            .problems
            .iter()
            .flat_map(|(_, b)| [b.first_unmatched_after, b.innermost_open])
            .filter(|address| *address != 0)
            .collect();
        addresses.sort_unstable();
        addresses.dedup();
        let mut names = HashMap::new();
        self.shared.host.symbolize(&addresses, &mut |symbol| {
            names.insert(symbol.address, format!("{}.{}", symbol.class, symbol.name));
        });
        let name = |address| names.get(&address).map_or("?", String::as_str);
        let mut text = format!(
            "threads {} wrapped {} events {} entries {} unbalanced {}\n",
            report.threads,
            report.wrapped_threads,
            report.events,
            report.entries,
            report.problems.len()
        );
        for (thread, balance) in &report.problems {
            text += &format!(
                "unbalanced: thread {thread}: {} unmatched exits (first after {}), {} open (innermost {})\n",
                balance.unmatched_exits,
                name(balance.first_unmatched_after),
                balance.open,
                name(balance.innermost_open),
            );
        }
        let path = directory.join(format!("{}.balance", std::process::id()));
        if let Err(e) = std::fs::write(&path, text) {
            let message = format!("cannot write {}: {e}", path.display());
            self.shared.host.log(Severity::Error, &message);
        }
    }
}
