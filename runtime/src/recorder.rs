// SPDX-License-Identifier: Apache-2.0
//! The process's recorder: its threads, and the control thread.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use hindsight_trace_format::container::{ClockSample, Symbol};

use crate::balance;
use crate::clock;
use crate::config::{Config, Protocol, ThreadSelection, Unloading};
use crate::control_socket::ControlSocket;
use crate::control_thread::ControlThread;
use crate::journal::Journal;
use crate::lock_free;
use crate::nanoscope;
use crate::property_watch;
use crate::quota::Quota;
use crate::ring::RingPool;
use crate::thread_trace::{StartReason, TakenRing, ThreadTrace};
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
    /// Whether the thread with these words runs managed code at this moment, and so may be at a trace point. It is
    /// registered, and stays so during the call.
    fn runs_managed_code(&self, words: *const ThreadWords) -> bool {
        let _ = words;
        true
    }
    /// What keeps [`Protocol::LockFree`] from being used, if anything; then threads are stopped at safepoints. Trace
    /// points have to call what [`set_stubs`](crate::set_stubs) says, and `runs_managed_code` has to tell.
    fn obstacle_to_lock_free(&self) -> Option<&'static str> {
        Some("it does not tell which threads run managed code")
    }
    /// Names the methods at those of `addresses` that are alive.
    fn symbolize(&self, addresses: &[u64], named: &mut dyn FnMut(Symbol));
    /// Names the methods of a class loader that is about to be freed: the one given to
    /// [`Recorder::loader_unloading`], on the thread that called that.
    fn name_methods_of_loader(&self, loader: usize, named: &mut dyn FnMut(Symbol)) {
        let _ = (loader, named);
    }
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
    /// The thread came to the foreground.
    Foreground {
        tid: u32,
        reply: mpsc::Sender<Result<(), String>>,
    },
    /// So many rings from now on.
    MaxRings {
        limit: Option<usize>,
        reply: mpsc::Sender<Result<(), String>>,
    },
    /// All that was recorded is thrown away.
    Invalidate {
        reply: mpsc::Sender<()>,
    },
    /// Nanoscope's commands.
    Nanoscope {
        tid: u32,
        command: nanoscope::Command,
        reply: mpsc::Sender<Result<(), String>>,
    },
    /// The property [`nanoscope::PROPERTY`] has this value.
    Property {
        value: String,
        reply: mpsc::Sender<Result<(), String>>,
    },
    Status {
        reply: mpsc::Sender<String>,
    },
    Shutdown,
}

/// Rings of threads that have ended, kept for the next persist: the newest, this many.
const MAX_FINISHED_RINGS: usize = 4;

/// The rings that the process has, but for the spare ones.
#[derive(Debug)]
pub(crate) struct Holdings {
    pub(crate) quota: Quota,
    pub(crate) finished: VecDeque<TakenRing>,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) host: Box<dyn Host>,
    pub(crate) config: Config,
    pub(crate) pool: RingPool,
    /// When recording started.
    pub(crate) started: ClockSample,
    /// The threads registered with the managed runtime, by their kernel id.
    pub(crate) threads: Mutex<HashMap<u32, Arc<ThreadTrace>>>,
    /// Who has rings, and the rings of threads that have ended, oldest first.
    pub(crate) holdings: Mutex<Holdings>,
    /// Whether the control thread does something, and may have taken rings out of `holdings` for it. Set
    /// before it locks those, so whoever locks them later and misses the rings sees it.
    pub(crate) in_control: AtomicBool,
    pub(crate) balance: Mutex<balance::Report>,
    /// Threads that were to be traced from their start, but there was no room for a ring.
    pub(crate) refused_rings: std::sync::atomic::AtomicU64,
    /// Names of methods whose class loader is gone.
    pub(crate) journal: Mutex<Journal>,
    /// Class loaders unloaded so far whose methods could not be named.
    pub(crate) loaders_unloaded: std::sync::atomic::AtomicU64,
    /// Threads are started and stopped without safepoints, as long as the host has nothing against it.
    pub(crate) lock_free: bool,
}

/// CLOCK_BOOTTIME, ns.
pub(crate) fn now_ns() -> u64 {
    clock::clock_ns(libc::CLOCK_BOOTTIME)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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
        let shared = Arc::new(Shared::new(config, host));
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
        if shared.config.nanoscope {
            let watched = commands.clone();
            let watching = property_watch::watch(nanoscope::PROPERTY, move |value| {
                let (reply, _) = mpsc::channel();
                let value = value.to_owned();
                watched.send(Command::Property { value, reply }).is_ok()
            });
            if let Err(e) = watching {
                let message = format!("cannot watch the property {}: {e}", nanoscope::PROPERTY);
                shared.host.log(Severity::Error, &message);
            }
        }
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
        let trace = Arc::new(unsafe {
            if self.shared.lock_free {
                ThreadTrace::new_lock_free(tid, name, words)
            } else {
                ThreadTrace::new(tid, name, words)
            }
        });
        // SAFETY: valid, says the caller. The reference it holds is given up in `thread_exiting`.
        unsafe { (*words).replace_state(Arc::into_raw(Arc::clone(&trace))) };
        lock(&self.shared.threads).insert(tid, Arc::clone(&trace));
        let selected = match self.shared.config.threads {
            ThreadSelection::Off => false,
            ThreadSelection::Main => tid == std::process::id(),
            ThreadSelection::All => true,
        };
        // A thread takes no ring from others by being born.
        if selected && !self.shared.reserve_ring(tid) {
            self.shared.refused_rings.fetch_add(1, Ordering::Relaxed);
        } else if selected {
            match self.shared.pool.take() {
                Ok(ring) => {
                    // SAFETY: the caller is the thread.
                    let _ = unsafe { trace.begin(ring, StartReason::Configuration) };
                }
                Err(e) => {
                    lock(&self.shared.holdings).quota.remove(tid);
                    let message =
                        format!("thread {tid} ({name}) is not traced: no memory for its ring: {e}");
                    self.shared.host.log(Severity::Warning, &message);
                }
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
        let unwanted = self.shared.keep_last_ring(|| unsafe { trace.retire() });
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
        if let Some(unwanted) = unwanted {
            self.shared.pool.put(unwanted.ring);
        }
    }

    /// The thread `tid`, which waits, is woken by the thread `waker`.
    pub fn thread_woken(&self, tid: u32, waker: u32) {
        if let Some(trace) = lock(&self.shared.threads).get(&tid) {
            trace.woken_by(waker);
        }
    }

    /// The thread came to the foreground: it is traced from now on, if need be with the ring of the
    /// thread that was wanted least recently. Does not wait for that.
    pub fn thread_in_foreground(&self, tid: u32) {
        let (reply, _) = mpsc::channel();
        let _ = self.commands.send(Command::Foreground { tid, reply });
    }

    /// What Nanoscope's [`thread_name_command`](nanoscope::thread_name_command) or property asks of a
    /// thread. Waits for it to be done, for at most `patience`: the caller must be at a safepoint.
    ///
    /// # Errors
    /// What to tell the user.
    pub fn nanoscope(
        &self,
        tid: u32,
        command: nanoscope::Command,
        patience: Duration,
    ) -> Result<(), String> {
        self.ask(patience, |reply| Command::Nanoscope {
            tid,
            command,
            reply,
        })
    }

    /// Starts tracing the thread, if it is not traced yet, as if it had come to the foreground; or stops it, and
    /// throws away what was recorded. Waits for that, for at most `patience`: if the thread is the caller, it must
    /// be at a safepoint.
    ///
    /// # Errors
    /// What to tell the user; a thread that is not traced cannot be stopped.
    pub fn trace_thread(&self, tid: u32, trace: bool, patience: Duration) -> Result<(), String> {
        self.ask(patience, |reply| {
            if trace {
                Command::Foreground { tid, reply }
            } else {
                Command::Stop { tid, reply }
            }
        })
    }

    fn ask<T>(
        &self,
        patience: Duration,
        command: impl FnOnce(mpsc::Sender<Result<T, String>>) -> Command,
    ) -> Result<T, String> {
        if std::process::id() != self.pid {
            return Err("a forked child is not traced".into());
        }
        let (reply, answer) = mpsc::channel();
        let sent = self.commands.send(command(reply)).is_ok();
        match answer.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) if sent => Err("the control thread is busy".into()),
            Err(_) => Err("tracing was shut down".into()),
        }
    }

    /// A thread has a new name.
    pub fn thread_renamed(&self, tid: u32, name: &str) {
        if let Some(trace) = lock(&self.shared.threads).get(&tid) {
            trace.rename(name);
        }
    }

    /// A class loader, and with it its methods, is about to be freed. `loader` is what the host knows it
    /// by.
    ///
    /// Names its methods, if events of them may have been recorded. With `unload=persist` and
    /// `unload=invalidate` it then waits for the control thread, for at most `patience`: the caller must be
    /// at a safepoint, and hold no lock that others wait for on their way to one.
    pub fn loader_unloading(&self, loader: usize, patience: Duration) {
        let shared = &self.shared;
        // Also while it is being shut down, which may persist the rings.
        if !shared.has_rings() {
            return;
        }
        if shared.config.unloading == Unloading::Invalidate {
            let (reply, done) = mpsc::channel();
            let sent = self.commands.send(Command::Invalidate { reply });
            if sent.is_ok() && done.recv_timeout(patience).is_err() {
                let message =
                    "the rings were not invalidated in time: a method of an unloaded class \
                               loader may have the name of another one";
                shared.host.log(Severity::Warning, message);
            }
            return;
        }
        let mut symbols = Vec::new();
        shared
            .host
            .name_methods_of_loader(loader, &mut |symbol| symbols.push(symbol));
        if symbols.is_empty() {
            shared.loaders_unloaded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        lock(&shared.journal).add(clock::counter_in_order(), symbols);
        if shared.config.unloading == Unloading::Persist {
            let _ = self.raise_anomaly("a class loader is unloaded".into(), 0, patience);
        }
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

/// Whether the lock-free protocol can be used; logs why not.
fn can_be_lock_free(host: &dyn Host) -> bool {
    let obstacle = match (host.obstacle_to_lock_free(), lock_free::prepare()) {
        (None, Ok(())) => return true,
        (Some(obstacle), _) => obstacle.to_owned(),
        (None, Err(e)) => format!("membarrier: {e}"),
    };
    let message =
        format!("protocol=lock-free cannot be used, threads stop at checkpoints: {obstacle}");
    host.log(Severity::Warning, &message);
    false
}

impl Shared {
    pub(crate) fn new(config: Config, host: Box<dyn Host>) -> Self {
        Shared {
            lock_free: config.protocol == Protocol::LockFree && can_be_lock_free(&*host),
            pool: RingPool::new(config.geometry),
            started: clock::sample(),
            threads: Mutex::default(),
            holdings: Mutex::new(Holdings {
                quota: Quota::new(config.max_rings()),
                finished: VecDeque::new(),
            }),
            in_control: AtomicBool::new(false),
            balance: Mutex::default(),
            journal: Mutex::default(),
            loaders_unloaded: Default::default(),
            refused_rings: Default::default(),
            host,
            config,
        }
    }

    /// Whether anything is recorded, or was and is kept.
    fn has_rings(&self) -> bool {
        let holdings = lock(&self.holdings);
        !holdings.finished.is_empty()
            || !holdings.quota.holders().is_empty()
            || self.in_control.load(Ordering::Relaxed)
    }

    /// Whether the thread may have a ring; if so, it counts from now on.
    fn reserve_ring(&self, tid: u32) -> bool {
        let mut holdings = lock(&self.holdings);
        let finished = holdings.finished.len();
        holdings.quota.try_add(tid, finished, now_ns())
    }

    /// Keeps the ring of a thread that ends, which `retire` takes from it, if the thread did not lose its right to
    /// it meanwhile. Returns one that is not kept.
    ///
    /// Nobody who looks at the holdings sees a moment in which the thread has no ring, and the ring is not kept.
    fn keep_last_ring(&self, retire: impl FnOnce() -> Option<TakenRing>) -> Option<TakenRing> {
        let mut holdings = lock(&self.holdings);
        let taken = retire()?;
        self.check_balance(&taken, true);
        if !holdings.quota.remove(taken.header.tid) {
            return Some(taken);
        }
        holdings.finished.push_back(taken);
        if holdings.finished.len() > MAX_FINISHED_RINGS {
            holdings.finished.pop_front()
        } else {
            None
        }
    }

    pub(crate) fn check_balance(&self, taken: &TakenRing, thread_ended: bool) {
        if self.config.check_balance.is_some() {
            lock(&self.balance).add(taken, thread_ended);
        }
    }
}
