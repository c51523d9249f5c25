// SPDX-License-Identifier: Apache-2.0
//! The state that all threads of the process share while it is traced.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hindsight_trace_format::catalogue::Category;
use hindsight_trace_format::container::{ClockSample, Consent, RingMode};

#[cfg(feature = "check-balance")]
use crate::balance;
use crate::clock;
use crate::config::Config;
use crate::detectors::{Detectors, ThreadWatch};
use crate::handshake::sampling::Sampling;
use crate::handshake::TracedThread;
use crate::host::Host;
use crate::host::Severity;
use crate::journal::Journal;
use crate::names::Names;
use crate::registry::Registry;
use crate::rewind::RewindLimit;
use crate::rules::Rules;
use crate::service::Link;
use crate::shared::{SharedMemory, Sizes};
use crate::stacks::ProcessStacks;
use crate::sync::lock;
use crate::thread::ring::{Ring, RingPool};
use crate::thread::spool::Spool;
use crate::thread::taken::TakenRing;
use crate::thread::words::ThreadWords;

/// A traced process.
pub(crate) struct Session {
    pub(crate) host: Box<dyn Host>,
    pub(crate) config: Config,
    /// The memory that survives the process, if it is configured.
    shared: Option<Arc<SharedMemory>>,
    /// The connection to the system service, if it is configured and the memory can be shared with it.
    link: Option<Link>,
    /// Which strings the process writes itself.
    consent: Mutex<Consent>,
    /// Rings for calls.
    pool: RingPool,
    /// Rings for events only.
    pub(crate) spool: Arc<Spool>,
    /// The stacks of all threads.
    pub(crate) stacks: Arc<ProcessStacks>,
    /// Threads with rings for events only.
    event_rings: AtomicUsize,
    /// Threads that found no room for a ring for events.
    refused_event_rings: AtomicU64,
    /// The categories of events that are recorded now, as bits.
    categories: AtomicU32,
    /// Number in the name of the last snapshot; 0 before the first one.
    pub(crate) last_file: AtomicU32,
    /// Threads registered so far.
    threads: AtomicU64,
    /// When recording started.
    pub(crate) started: ClockSample,
    pub(crate) registry: Registry,
    /// Which calls are taken back.
    pub(crate) rewind: RewindLimit,
    /// Names of methods whose class loader was unloaded.
    journal: Mutex<Journal>,
    /// Names of the program's own events.
    names: Mutex<Names>,
    /// The rules in force.
    rules: Mutex<Rules>,
    /// Class loaders unloaded so far whose methods could not be named.
    unnamed_loaders: AtomicU64,
    /// Threads that were to be traced from their start, when there was no room for a ring.
    refused_rings: AtomicU64,
    #[cfg(feature = "check-balance")]
    balance: Mutex<balance::Report>,
    /// Look at the events of all threads.
    pub(crate) detectors: Arc<Detectors>,
    /// New threads get a request word.
    #[cfg(feature = "lock-free")]
    lock_free: bool,
}

impl Session {
    pub(crate) fn new(config: Config, host: Box<dyn Host>) -> Self {
        let started = clock::sample();
        let (shared, link) = match &config.service {
            Some(_) => with_service(&config, &*host).unzip(),
            None => (shared_memory(&config, &*host), None),
        };
        let shared_ref = shared.as_ref();
        // Until the service says how many.
        let max_rings = match link {
            Some(_) => Some(0),
            None => config.max_rings(),
        };
        Session {
            #[cfg(feature = "lock-free")]
            lock_free: config.protocol == crate::config::Protocol::LockFree
                && can_be_lock_free(&*host),
            pool: RingPool::new(config.geometry).in_memory(shared_ref),
            spool: Arc::new(Spool::new(
                config.events.spooled_rings(),
                RingPool::with_mode(config.events.geometry, RingMode::Events).in_memory(shared_ref),
            )),
            event_rings: AtomicUsize::new(0),
            refused_event_rings: AtomicU64::new(0),
            categories: AtomicU32::new(config.events.categories.0),
            last_file: AtomicU32::new(0),
            threads: AtomicU64::new(0),
            stacks: Arc::new(ProcessStacks::new(&config.stacks, started, shared_ref)),
            started,
            registry: Registry::new(max_rings),
            detectors: Arc::new(Detectors::new(shared_ref.filter(|_| link.is_some()))),
            rewind: RewindLimit::new(config.rewind, started),
            journal: Mutex::default(),
            names: Mutex::new(Names::new(shared_ref)),
            rules: Mutex::default(),
            unnamed_loaders: AtomicU64::new(0),
            refused_rings: AtomicU64::new(0),
            #[cfg(feature = "check-balance")]
            balance: Mutex::default(),
            shared,
            link,
            consent: Mutex::new(config.consent),
            host,
            config,
        }
    }

    /// The memory that survives the process, if there is one.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedMemory>> {
        self.shared.as_ref()
    }

    /// The connection to the system service, if there may be one.
    pub(crate) fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Which strings the process writes itself now.
    pub(crate) fn consent(&self) -> Consent {
        *lock(&self.consent)
    }

    /// Strings that need more consent are not written from now on; nor those that need more than is configured.
    pub(crate) fn set_consent(&self, consent: Consent) {
        *lock(&self.consent) = consent.min(self.config.consent);
    }

    /// Whether an uncaught exception is of interest.
    pub(crate) fn wants_crashes(&self) -> bool {
        self.config.snapshot_at_crash || self.link.is_some()
    }

    /// A registered thread, not traced yet.
    ///
    /// # Safety
    /// Called by the thread itself. `words` are its aligned words, part of its thread object, and valid until the thread
    /// retires.
    pub(crate) unsafe fn new_thread(
        &self,
        tid: u32,
        name: &str,
        words: *const ThreadWords,
    ) -> TracedThread {
        let number = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        #[cfg(feature = "lock-free")]
        if self.lock_free {
            // SAFETY: the caller is the thread, whose thread object `words` are part of until it retires.
            let thread = unsafe { TracedThread::new_lock_free(tid, number, name, words) };
            self.set_up_rewinding(&thread);
            return thread;
        }
        let spool = Some(Arc::clone(&self.spool));
        // SAFETY: the caller guarantees that `words` are aligned and valid until the thread retires.
        let mut thread = unsafe { TracedThread::new_in_process(tid, number, name, words, spool) };
        let is_main = tid == std::process::id();
        thread.set_sampling(Sampling::new(Arc::clone(&self.stacks), is_main));
        if self.link.is_some() {
            thread.set_watch(ThreadWatch::new(&self.detectors, tid, is_main));
        }
        thread.trace().set_events(self.categories());
        self.set_up_rewinding(&thread);
        thread
    }

    /// Tells a new thread which calls it takes back.
    fn set_up_rewinding(&self, thread: &TracedThread) {
        thread.trace().set_rewind_below(|| self.rewind.ticks().0);
        #[cfg(feature = "check-rewind")]
        if self.config.rewind_log {
            thread.trace().log_rewinding();
        }
    }

    /// The categories of events that threads record now, as bits; 0: only threads that record calls have rings.
    pub(crate) fn categories(&self) -> u32 {
        self.categories.load(Ordering::Relaxed)
    }

    /// Changes the categories of events for threads that register from now on.
    pub(crate) fn set_categories(&self, categories: u32) {
        self.categories.store(categories, Ordering::Relaxed);
    }

    /// Tells the host which hooks are needed: of the categories that threads record, and the one that tells of a crash.
    pub(crate) fn announce_categories(&self) {
        let crash = match self.wants_crashes() {
            true => Category::Runtime.bit(),
            false => 0,
        };
        self.host.set_event_categories(self.categories() | crash);
    }

    /// A ring for calls.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn calls_ring(&self) -> std::io::Result<Ring> {
        self.pool.take()
    }

    /// A ring for events only, for a thread that has none; `None` if events are off, or there is no room or memory for one.
    pub(crate) fn events_ring(&self) -> Option<Ring> {
        if self.categories() == 0 {
            return None;
        }
        let max = self.config.events.max_rings;
        let add = |n| Some(n + 1).filter(|n| *n <= max);
        let ring = (self.event_rings)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .ok()
            .and_then(|_| {
                let ring = self.spool.ring().ok();
                if ring.is_none() {
                    self.event_rings.fetch_sub(1, Ordering::Relaxed);
                }
                ring
            });
        if ring.is_none() {
            self.refused_event_rings.fetch_add(1, Ordering::Relaxed);
        }
        ring
    }

    /// Threads that record events only, and threads so far that found no room for that.
    pub(crate) fn event_rings(&self) -> (usize, u64) {
        let refused = self.refused_event_rings.load(Ordering::Relaxed);
        (self.event_rings.load(Ordering::Relaxed), refused)
    }

    /// A thread has given up its ring for events, and has no new one of that kind.
    pub(crate) fn events_ring_ended(&self) {
        self.event_rings.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the memory of a ring that no thread records into.
    pub(crate) fn put_back(&self, ring: Ring) {
        match ring.mode() {
            RingMode::Calls => self.pool.put(ring),
            RingMode::Events => self.spool.put_back(ring),
        }
    }

    /// Whether threads have request words.
    #[cfg(feature = "lock-free")]
    pub(crate) fn is_lock_free(&self) -> bool {
        self.lock_free
    }

    /// The names of unloaded methods.
    pub(crate) fn journal(&self) -> std::sync::MutexGuard<'_, Journal> {
        lock(&self.journal)
    }

    /// The names of the program's own events.
    pub(crate) fn names(&self) -> std::sync::MutexGuard<'_, Names> {
        lock(&self.names)
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> std::sync::MutexGuard<'_, Rules> {
        lock(&self.rules)
    }

    /// A class loader was unloaded whose methods could not be named.
    pub(crate) fn count_unnamed_loader(&self) {
        self.unnamed_loaders.fetch_add(1, Ordering::Relaxed);
    }

    /// Class loaders unloaded so far whose methods could not be named.
    pub(crate) fn unnamed_loaders(&self) -> u64 {
        self.unnamed_loaders.load(Ordering::Relaxed)
    }

    /// A thread was to be traced from its start, and there was no room for a ring.
    pub(crate) fn count_refused_ring(&self) {
        self.refused_rings.fetch_add(1, Ordering::Relaxed);
    }

    /// Threads so far that were to be traced from their start, when there was no room for a ring.
    pub(crate) fn refused_rings(&self) -> u64 {
        self.refused_rings.load(Ordering::Relaxed)
    }

    /// Checks the calls in a ring, if that is configured. `thread_ended`: all of them must have ended.
    #[cfg(feature = "check-balance")]
    pub(crate) fn check_balance(&self, taken: &TakenRing, thread_ended: bool) {
        if self.config.check_balance.is_some() {
            lock(&self.balance).add(taken, thread_ended);
        }
    }

    /// Nothing: this build has no check.
    #[cfg(not(feature = "check-balance"))]
    pub(crate) fn check_balance(&self, _taken: &TakenRing, _thread_ended: bool) {}

    /// Takes the results of the checks so far.
    #[cfg(feature = "check-balance")]
    pub(crate) fn take_balance_report(&self) -> balance::Report {
        std::mem::take(&mut *lock(&self.balance))
    }
}

/// The memory that survives the process, if it is configured. Without it, rings are in memory of the process's own; that is logged.
fn shared_memory(config: &Config, host: &dyn Host) -> Option<Arc<SharedMemory>> {
    let folder = config.shared_memory.as_ref()?;
    let path = folder.join(format!("{}.memory", std::process::id()));
    let made = SharedMemory::create(Sizes::of(config), &path);
    let problem = |e: std::io::Error| {
        let remedy = match e.kind() {
            std::io::ErrorKind::AlreadyExists => {
                "; it is of an earlier process with this id: remove it"
            }
            _ => "",
        };
        format!(
            "rings will not survive this process: {}: {e}{remedy}",
            path.display()
        )
    };
    made.map_err(|e| host.log(Severity::Warning, &problem(e)))
        .ok()
}

/// The memory that the service gets, and the connection to it. Without either, the process goes on as if no service were
/// configured; that is logged.
fn with_service(config: &Config, host: &dyn Host) -> Option<(Arc<SharedMemory>, Link)> {
    let memory = SharedMemory::unnamed(Sizes::of(config));
    let made = memory.and_then(|memory| Ok((memory, Link::new()?)));
    let problem = |e: std::io::Error| {
        format!("no service: this process has no memory that it can share: {e}. It records as if service= were not configured")
    };
    made.map_err(|e| host.log(Severity::Warning, &problem(e)))
        .ok()
}

/// Whether the lock-free protocol can be used; logs the obstacle if not.
#[cfg(feature = "lock-free")]
fn can_be_lock_free(host: &dyn Host) -> bool {
    let obstacle = crate::handshake::lock_free::obstacle(host);
    if let Some(obstacle) = &obstacle {
        let message =
            format!("protocol=lock-free cannot be used, threads stop at checkpoints: {obstacle}");
        host.log(Severity::Warning, &message);
    }
    obstacle.is_none()
}
