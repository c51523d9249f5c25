// SPDX-License-Identifier: Apache-2.0
//! The control thread: starts, stops, persists.

use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::histogram::Histogram;
use crate::nanoscope;
use crate::persist;
use crate::quota::Victim;
use crate::recorder::{lock, now_ns, AnomalyOutcome, Command, Severity, Shared};
use crate::ring::Ring;
use crate::sampler::Sampler;
use crate::thread_trace::{StartReason, TakenRing, ThreadTrace};

/// Tells threads apart. Unlike [`std::thread::current`], it makes nothing of the managed runtime's threads.
fn this_thread() -> libc::pthread_t {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A histogram of ns as JSON.
fn summary(times: &Histogram) -> String {
    format!(
        r#"{{"count":{},"p50":{},"p99":{},"max":{}}}"#,
        times.count(),
        times.percentile(50),
        times.percentile(99),
        times.max(),
    )
}

/// How long the control thread waits for a thread to pass a trace point, and in which steps: a thread that runs
/// usually does at once, one that does not has to get its turn first.
struct Patience {
    tries: u32,
    since: Instant,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            tries: 0,
            since: Instant::now(),
            pause: Duration::from_micros(20),
        }
    }
}

impl Patience {
    /// Many times what a method without trace points usually takes, and few turns of other programs.
    const LIMIT: Duration = Duration::from_millis(20);
    /// Looks before it sleeps in between.
    const QUICK: u32 = 50;

    /// Waits a little; false if it has been long enough.
    fn wait(&mut self) -> bool {
        self.tries += 1;
        if self.tries <= Self::QUICK {
            std::thread::yield_now();
            return true;
        }
        if self.since.elapsed() >= Self::LIMIT {
            return false;
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        true
    }
}

/// The control thread's own state.
pub(crate) struct ControlThread<'a> {
    shared: &'a Shared,
    /// Files written so far.
    persisted: u32,
    sampler: Sampler<'a>,
    /// For how long threads were held to be given a ring, another one or none, ns.
    held: Histogram,
    /// How long it took until they had been, ns.
    waited: Histogram,
    /// Requests by the lock-free protocol that no trace point answered in time.
    fallbacks: u64,
    /// Rings that were taken from threads for the sake of others.
    reclaimed: u64,
    /// Rings whose contents were thrown away because a class loader was unloaded.
    invalidated: u64,
    property: nanoscope::Property,
    /// Threads that Nanoscope's commands started.
    started_for_nanoscope: HashSet<u32>,
}

impl<'a> ControlThread<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        ControlThread {
            shared,
            persisted: 0,
            sampler: Sampler::new(shared),
            held: Histogram::default(),
            waited: Histogram::default(),
            fallbacks: 0,
            reclaimed: 0,
            invalidated: 0,
            property: nanoscope::Property::default(),
            started_for_nanoscope: HashSet::new(),
        }
    }

    pub(crate) fn run(&mut self, commands: &mpsc::Receiver<Command>) {
        loop {
            let pause = self.sampler.sample_if_due();
            let command = match commands.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(Command::Shutdown) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => command,
            };
            self.guarded("a command", |control| {
                control.sampling(|control| control.handle(command));
            });
        }
        if self.shared.config.persist_at_exit {
            self.guarded("the last persist", |control| {
                control.sampling(|control| control.persist("the process ends", 0, true));
            });
        }
        self.guarded("the end of tracing", |control| {
            control.stop_all();
            control.write_balance_report();
        });
    }

    /// Does what may have to wait, for a thread, a collection or a disk. Threads record on meanwhile, and need anchors.
    fn sampling<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let mut sampler = self.sampler;
        let result = sampler.sample_during(|| work(self));
        self.sampler = sampler;
        result
    }

    /// A bug of ours must not end the app: it ends tracing.
    fn guarded(&mut self, what: &str, f: impl FnOnce(&mut Self)) {
        self.shared.in_control.store(true, Ordering::Relaxed);
        if catch_unwind(AssertUnwindSafe(|| f(self))).is_err() {
            let message = format!("internal error in {what}, tracing ends; please report it");
            self.shared.host.log(Severity::Error, &message);
            let _ = catch_unwind(AssertUnwindSafe(|| self.stop_all()));
        }
        self.shared.in_control.store(false, Ordering::Relaxed);
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
            Command::Foreground { tid, reply } => {
                let _ = reply.send(self.foreground(tid));
            }
            Command::Invalidate { reply } => {
                self.invalidate();
                let _ = reply.send(());
            }
            Command::Nanoscope {
                tid,
                command,
                reply,
            } => {
                let _ = reply.send(self.nanoscope(tid, command));
            }
            Command::Property { value, reply } => {
                let done = self.property(&value).inspect_err(|message| {
                    self.shared.host.log(Severity::Error, message);
                });
                let _ = reply.send(done);
            }
            Command::MaxRings { limit, reply } => {
                lock(&self.shared.holdings).quota.set_limit(limit);
                self.make_room(0);
                let _ = reply.send(Ok(()));
            }
            Command::Status { reply } => {
                let _ = reply.send(self.status());
            }
            Command::Shutdown => {}
        }
    }

    fn stop_all(&mut self) {
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

    /// Takes the thread's ring, leaving it `replacement`; without one, it loses its right to a ring.
    fn take_ring(
        &mut self,
        trace: &ThreadTrace,
        replacement: &mut Option<Ring>,
    ) -> Option<TakenRing> {
        if !trace.is_traced() {
            return None;
        }
        let stops = replacement.is_none();
        let taken = self
            .exchange_anywhere(trace, replacement)
            .unwrap_or_else(|| {
                let mut taken = None;
                self.hold(trace.tid(), &mut || {
                    // SAFETY: the host runs this at a safepoint of the thread.
                    taken = unsafe { trace.take(replacement) };
                });
                taken
            });
        // A thread that has ended meanwhile gave up its right itself, and another one may have its id.
        if stops && taken.is_some() {
            lock(&self.shared.holdings).quota.remove(trace.tid());
        }
        taken
    }

    fn is_lock_free(&self) -> bool {
        self.shared.lock_free && self.shared.host.obstacle_to_lock_free().is_none()
    }

    /// Takes the thread's ring by the lock-free protocol, leaving it `replacement`. `None` if that is not used, or the
    /// thread comes to no trace point: then it has to be done at a safepoint.
    fn exchange_anywhere(
        &mut self,
        trace: &ThreadTrace,
        replacement: &mut Option<Ring>,
    ) -> Option<Option<TakenRing>> {
        if !self.is_lock_free() {
            return None;
        }
        let start = Instant::now();
        // SAFETY: this is the control thread; all traces of this recorder are lock-free then.
        if !unsafe { trace.ask_for_ring(replacement) } {
            return Some(None);
        }
        let host = &self.shared.host;
        let mut patience = Patience::default();
        loop {
            if let Some(done) = trace.poll_exchange(&|words| host.runs_managed_code(words)) {
                *replacement = done.replacement;
                if done.taken.is_some() {
                    self.held.add(nanoseconds(done.held));
                    self.waited.add(nanoseconds(start.elapsed()));
                }
                return Some(done.taken);
            }
            if !patience.wait() {
                if let Some(unused) = trace.withdraw() {
                    *replacement = unused;
                    self.fallbacks += 1;
                    return None;
                }
            }
        }
    }

    /// Runs `action` at a safepoint of the thread, and notes for how long that held it. False if there is no
    /// such thread.
    ///
    /// A thread that runs managed code does it itself, and is held that long. One that does not is kept from
    /// managed code meanwhile, at most from here on until the host is done.
    fn hold(&mut self, tid: u32, action: &mut (dyn FnMut() + Send)) -> bool {
        let this = this_thread();
        let (mut by_itself, mut held) = (false, Duration::ZERO);
        let start = Instant::now();
        let ran = self.shared.host.run_at_safepoint(tid, &mut || {
            let start = Instant::now();
            action();
            held = start.elapsed();
            by_itself = this_thread() != this;
        });
        if !by_itself {
            held = start.elapsed();
        }
        if ran {
            self.held.add(nanoseconds(held));
            self.waited.add(nanoseconds(start.elapsed()));
        }
        ran
    }

    /// Persists all rings. With `last` set, the threads are not traced any more afterwards.
    fn persist(&mut self, reason: &str, raised_by: u32, last: bool) -> AnomalyOutcome {
        let mut rings: Vec<TakenRing> = lock(&self.shared.holdings).finished.drain(..).collect();
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
        }
        self.add_just_finished(&mut rings, last);
        if without_memory != 0 {
            losses.push((
                "threads no longer traced, for want of memory".into(),
                without_memory,
            ));
        }
        let request = persist::Request {
            reason,
            raised_by,
            losses,
            path: None,
        };
        let outcome = self.write(rings, request);
        self.forget_names();
        outcome
    }

    /// Adds the rings of threads that ended while those of the others were taken. There may be no later file that
    /// they could go to; if there is, a thread has one ring in each.
    fn add_just_finished(&self, rings: &mut Vec<TakenRing>, last: bool) {
        let mut holdings = lock(&self.shared.holdings);
        let finished = std::mem::take(&mut holdings.finished);
        for ended in finished {
            if last || rings.iter().all(|r| r.header.tid != ended.header.tid) {
                rings.push(ended);
            } else {
                holdings.finished.push_back(ended);
            }
        }
    }

    /// Forgets the names that no ring needs any more.
    fn forget_names(&self) {
        let now = clock::counter_in_order();
        let live = self.threads();
        let live = live.iter().filter_map(|trace| trace.started_counter());
        let oldest = {
            let holdings = lock(&self.shared.holdings);
            let finished = holdings.finished.iter().map(|r| r.header.started_counter);
            live.chain(finished).fold(now, u64::min)
        };
        lock(&self.shared.journal).forget_before(oldest);
    }

    /// Writes the rings to a file, and gives their memory back.
    fn write(
        &mut self,
        mut rings: Vec<TakenRing>,
        mut request: persist::Request<'_>,
    ) -> AnomalyOutcome {
        let losses = &mut request.losses;
        let refused = self.shared.refused_rings.load(Ordering::Relaxed);
        for (what, count) in [
            (
                "threads not traced from their start, for want of a ring (max-rings)",
                refused,
            ),
            (
                "rings taken from threads for the sake of others (max-rings)",
                self.reclaimed,
            ),
            (
                "rings invalidated because a class loader was unloaded",
                self.invalidated,
            ),
        ] {
            if count != 0 {
                losses.push((what.into(), count));
            }
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
            (tid != request.raised_by, tid != main, tid)
        });
        let reason = request.reason.to_owned();
        let outcome = persist::write(self.shared, &rings, request);
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

    fn start_thread(&mut self, tid: u32) -> Result<(), String> {
        let trace = self.find(tid)?;
        if trace.is_traced() {
            return Err(format!("thread {tid} is traced already"));
        }
        self.make_room(1);
        {
            let mut holdings = lock(&self.shared.holdings);
            let finished = holdings.finished.len();
            if !holdings.quota.try_add(tid, finished, now_ns()) {
                return Err("there is no room for a ring: others took it just now".into());
            }
        }
        self.begin(&trace).inspect_err(|_| {
            lock(&self.shared.holdings).quota.remove(tid);
        })
    }

    /// Gives the thread a ring.
    fn begin(&mut self, trace: &ThreadTrace) -> Result<(), String> {
        let tid = trace.tid();
        let ring = self.shared.pool.take();
        let mut ring = Some(ring.map_err(|e| format!("no memory for a ring: {e}"))?);
        if self.is_lock_free() {
            let start = Instant::now();
            // SAFETY: this is the control thread; all traces of this recorder are lock-free then.
            ring = ring.and_then(|ring| unsafe { trace.begin_anywhere(ring) }.err());
            if ring.is_none() {
                self.waited.add(nanoseconds(start.elapsed()));
                return Ok(());
            }
        }
        let mut begun = Ok(());
        let ran = self.hold(tid, &mut || {
            if let Some(ring) = ring.take() {
                // SAFETY: the host runs this at a safepoint of the thread.
                begun = unsafe { trace.begin(ring, StartReason::Request) };
            }
        });
        let unused = ring.or(begun.err());
        match unused {
            None => Ok(()),
            Some(unused) => {
                self.shared.pool.put(unused);
                Err(if ran && trace.is_traced() {
                    format!("thread {tid} is traced already")
                } else {
                    format!("thread {tid} has ended")
                })
            }
        }
    }

    /// Takes rings away until so many more are within the limit.
    fn make_room(&mut self, more: usize) {
        loop {
            let victim = {
                let mut holdings = lock(&self.shared.holdings);
                let victim = holdings.quota.next_to_go(holdings.finished.len(), more);
                match victim {
                    None => return,
                    Some(Victim::Finished) => holdings.finished.pop_front().ok_or(0),
                    Some(Victim::Thread(tid)) => {
                        holdings.quota.remove(tid);
                        Err(tid)
                    }
                }
            };
            let taken = match victim {
                Ok(finished) => Some(finished),
                Err(tid) => self
                    .find(tid)
                    .ok()
                    .and_then(|trace| self.take_ring(&trace, &mut None)),
            };
            if let Some(taken) = taken {
                self.reclaimed += 1;
                self.throw_away(taken);
            }
        }
    }

    fn throw_away(&self, taken: TakenRing) {
        self.shared.check_balance(&taken, false);
        self.shared.pool.put(taken.ring);
    }

    fn foreground(&mut self, tid: u32) -> Result<(), String> {
        let is_traced = lock(&self.shared.holdings).quota.touch(tid, now_ns());
        if is_traced {
            return Ok(());
        }
        self.start_thread(tid)
    }

    /// Throws away all that was recorded; the threads record on.
    fn invalidate(&mut self) {
        let finished: Vec<TakenRing> = lock(&self.shared.holdings).finished.drain(..).collect();
        let mut taken = finished;
        for trace in self.threads() {
            let mut replacement = self.shared.pool.take().ok();
            taken.extend(self.take_ring(&trace, &mut replacement));
            if let Some(unused) = replacement {
                self.shared.pool.put(unused);
            }
        }
        self.invalidated += taken.len() as u64;
        for ring in taken {
            self.throw_away(ring);
        }
    }

    fn nanoscope(&mut self, tid: u32, command: nanoscope::Command) -> Result<(), String> {
        match command {
            nanoscope::Command::Start => {
                let is_traced = lock(&self.shared.holdings).quota.touch(tid, now_ns());
                if is_traced {
                    // An earlier thread may have had the id.
                    self.started_for_nanoscope.remove(&tid);
                } else {
                    self.start_thread(tid)?;
                    self.started_for_nanoscope.insert(tid);
                }
                Ok(())
            }
            nanoscope::Command::Stop(path) => {
                let trace = self.find(tid)?;
                // A thread that was traced before it was asked for goes on being traced.
                let ours = self.started_for_nanoscope.remove(&tid);
                let mut replacement = None;
                if !ours {
                    replacement = self.shared.pool.take().ok();
                }
                let taken = self.take_ring(&trace, &mut replacement);
                if let Some(unused) = replacement {
                    self.shared.pool.put(unused);
                }
                let taken = taken.ok_or_else(|| format!("thread {tid} is not traced"))?;
                self.shared.check_balance(&taken, false);
                let request = persist::Request {
                    reason: "asked for in Nanoscope's way",
                    raised_by: tid,
                    losses: Vec::new(),
                    path: Some(path),
                };
                match self.write(vec![taken], request) {
                    AnomalyOutcome::Persisted(_) => Ok(()),
                    AnomalyOutcome::Failed(message) => Err(message),
                    AnomalyOutcome::TimedOut => Err("the control thread does not answer".into()),
                }
            }
        }
    }

    fn property(&mut self, value: &str) -> Result<(), String> {
        let package = self.shared.host.identity().name;
        let directory = &self.shared.config.directory;
        match self.property.changed(value, &package, directory)? {
            Some(command) => {
                let done = self.nanoscope(std::process::id(), command);
                if done.is_err() {
                    self.property = nanoscope::Property::default();
                }
                done
            }
            None => Ok(()),
        }
    }

    fn stop_thread(&mut self, tid: u32) -> Result<(), String> {
        let trace = self.find(tid)?;
        let taken = self
            .take_ring(&trace, &mut None)
            .ok_or_else(|| format!("thread {tid} is not traced"))?;
        self.throw_away(taken);
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
        let (limit, finished, wanted) = {
            let holdings = lock(&self.shared.holdings);
            let wanted: Vec<_> = (holdings.quota.holders().iter())
                .map(|h| format!(r#"{{"tid":{},"wanted_at_ns":{}}}"#, h.tid, h.wanted_at_ns))
                .collect();
            (holdings.quota.limit(), holdings.finished.len(), wanted)
        };
        format!(
            concat!(
                r#"{{"pid":{},"threads":{},"traced":[{}],"ring_bytes":{},"max_rings":{},"#,
                r#""finished_rings":{},"holders":[{}],"persisted":{},"#,
                r#""held_ns":{},"waited_ns":{},"protocol":"{}","fallbacks":{}}}"#
            ),
            std::process::id(),
            threads.len(),
            traced.join(","),
            self.shared.config.geometry.bytes(),
            limit.map_or("null".into(), |n| n.to_string()),
            finished,
            wanted.join(","),
            self.persisted,
            summary(&self.held),
            summary(&self.waited),
            if self.is_lock_free() {
                "lock-free"
            } else {
                "checkpoint"
            },
            self.fallbacks,
        )
    }

    fn write_balance_report(&self) {
        let Some(directory) = &self.shared.config.check_balance else {
            return;
        };
        // Taken out, and not locked while the host is asked, who may wait for threads that want to add to it.
        let report = std::mem::take(&mut *lock(&self.shared.balance));
        let addresses = report.addresses();
        let mut symbols = Vec::new();
        self.shared
            .host
            .symbolize(&addresses, &mut |symbol| symbols.push(symbol));
        lock(&self.shared.journal).add_names(&addresses, &mut symbols);
        let names: HashMap<u64, String> = (symbols.into_iter())
            .map(|s| (s.address, format!("{}.{}", s.class, s.name)))
            .collect();
        let text = report.text(|address| names.get(&address).map(String::as_str));
        let path = directory.join(format!("{}.balance", std::process::id()));
        if let Err(e) = std::fs::write(&path, text) {
            let message = format!("cannot write {}: {e}", path.display());
            self.shared.host.log(Severity::Error, &message);
        }
    }
}
