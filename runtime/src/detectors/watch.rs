// SPDX-License-Identifier: Apache-2.0
//! Calls the detectors at the events of each thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use hindsight_trace_format::protocol::{AppDetector, DETECTORS};
use hindsight_trace_format::shared::Counter;
use hindsight_trace_format::slot::Extension;

use super::method::Calls;
use super::rules::{AppRules, Found, Measured};
use super::run_delay::RunDelay;
use super::serving::Serves;
use super::state::{slow_start, Collections, Event, MainThread};
use crate::clock;
use crate::shared::SharedMemory;
use crate::sync::lock;

/// Frames that end later count as late where no rule says when, ns.
const LATE_FRAME_NS: u64 = 34_000_000;
/// A start is reported at most so long after its end, ns: the rules may come after the first frame.
const START_IS_NEWS_NS: u64 = 10_000_000_000;

/// Takes what is found, on the thread that finds it, without waiting.
type Sink = Box<dyn Fn(Found) + Send + Sync>;

/// The event with this number, if a detector looks at it.
fn of_interest(number: u32) -> Option<Extension> {
    macro_rules! find {
        ($($name:ident)+) => {
            match number {
                $(n if n == Extension::$name as u32 => Some(Extension::$name),)+
                _ => None,
            }
        };
    }
    find!(WaitBegin WaitEnd MessageDispatched MessageDone FrameEnd InputBegin InputEnd TraversalScheduled CallbackPosted
        BinderSend BinderReply BinderServe BinderServed GcPauseBegin GcPauseEnd RuleBegin RuleEnd)
}

/// Whether a detector looks at such events of all threads.
fn is_of_all_threads(kind: Extension) -> bool {
    matches!(
        kind,
        Extension::GcPauseBegin | Extension::GcPauseEnd | Extension::RuleBegin | Extension::RuleEnd
    )
}

/// What the detectors of all threads share.
pub(crate) struct Detectors {
    /// Whether any rules of a service are in force.
    is_on: AtomicBool,
    rules: RwLock<AppRules>,
    /// When each detector has found something last, CLOCK_MONOTONIC, ns; 0: it has not.
    last: [AtomicU64; DETECTORS.len()],
    collections: Mutex<Collections>,
    /// When the main thread began the message or input event that it is in, CLOCK_MONOTONIC, ns; 0: it is in none.
    busy_since: AtomicU64,
    /// When the process started and its first frame ended, CLOCK_MONOTONIC, ns; 0: not known, or not yet.
    started: u64,
    first_frame: AtomicU64,
    is_start_checked: AtomicBool,
    run_delay: RunDelay,
    /// Where what is found goes.
    sink: OnceLock<Sink>,
    /// Has the counters that the service reads.
    memory: Option<Arc<SharedMemory>>,
}

impl Detectors {
    /// Detectors without rules.
    pub(crate) fn new(memory: Option<&Arc<SharedMemory>>) -> Self {
        Detectors {
            is_on: AtomicBool::new(false),
            rules: RwLock::default(),
            last: Default::default(),
            collections: Mutex::default(),
            busy_since: AtomicU64::new(0),
            started: process_start_ns().unwrap_or(0),
            first_frame: AtomicU64::new(0),
            is_start_checked: AtomicBool::new(false),
            run_delay: RunDelay::default(),
            sink: OnceLock::new(),
            memory: memory.cloned(),
        }
    }

    /// What is found goes there from now on.
    pub(crate) fn set_sink(&self, sink: impl Fn(Found) + Send + Sync + 'static) {
        let _ = self.sink.set(Box::new(sink));
    }

    /// Follows these rules from now on; `None`: nobody wants to know anything.
    pub(crate) fn set_rules(&self, rules: Option<AppRules>) {
        self.is_on.store(rules.is_some(), Ordering::Relaxed);
        let rules = rules.unwrap_or_default();
        *self.rules.write().unwrap_or_else(|e| e.into_inner()) = rules;
        let now = clock::monotonic_ns();
        let first_frame = self.first_frame.load(Ordering::Relaxed);
        if first_frame != 0 && now.saturating_sub(first_frame) < START_IS_NEWS_NS {
            self.check_start(&rules, first_frame);
        }
    }

    /// The system asks for the stacks of all threads (SIGQUIT).
    pub(crate) fn stacks_wanted(&self, main: u32) {
        let rules = *self.rules.read().unwrap_or_else(|e| e.into_inner());
        let now = clock::monotonic_ns();
        let took = match self.busy_since.load(Ordering::Relaxed) {
            0 => 0,
            since => now.saturating_sub(since),
        };
        if rules.is_anr_on && took >= rules.anr.ns {
            let limit = rules.anr.ns;
            let measured = Measured::Time { took, limit };
            self.report(&rules, now, main, (AppDetector::Anr, measured));
        }
    }

    fn check_start(&self, rules: &AppRules, first_frame: u64) {
        if !self.is_start_checked.swap(true, Ordering::Relaxed) {
            if let Some(found) = slow_start(rules, self.started, first_frame) {
                self.report(rules, clock::monotonic_ns(), std::process::id(), found);
            }
        }
    }

    /// Keeps the counter of the main thread's delays, if it is time.
    fn count_run_delay(&self, now: u64) {
        let Some(memory) = &self.memory else {
            return;
        };
        if let Some(delay) = self.run_delay.look(now) {
            memory.set_counter(Counter::RunDelayNs, delay);
        }
    }

    fn count(&self, counter: Counter, more: u64) {
        if let Some(memory) = &self.memory {
            memory.count(counter, more);
        }
    }

    /// Tells the control thread, unless it has been told of the same detector a short time before.
    #[cold]
    fn report(
        &self,
        rules: &AppRules,
        now: u64,
        tid: u32,
        (detector, measured): (AppDetector, Measured),
    ) {
        let quiet = rules.quiet_ns(detector);
        let last = &self.last[detector as usize];
        let before = last.load(Ordering::Relaxed);
        let is_quiet = before != 0 && now.saturating_sub(before) < quiet;
        let found = Found {
            detector,
            tid,
            measured,
        };
        let is_first = || {
            let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
            last.compare_exchange(before, now.max(1), set, get).is_ok()
        };
        if let Some(sink) = self.sink.get().filter(|_| !is_quiet && is_first()) {
            sink(found);
        }
    }
}

/// What the detectors know of one thread. Only the thread itself calls it.
pub(crate) struct ThreadWatch {
    shared: Arc<Detectors>,
    tid: u32,
    /// `None`: it is not the main thread.
    main: Option<Mutex<MainThread>>,
    calls: Mutex<Calls>,
    serves: Serves,
}

impl ThreadWatch {
    /// A thread that has recorded nothing.
    pub(crate) fn new(shared: &Arc<Detectors>, tid: u32, is_main: bool) -> Self {
        ThreadWatch {
            shared: Arc::clone(shared),
            tid,
            main: is_main.then(Mutex::default),
            calls: Mutex::default(),
            serves: Serves::default(),
        }
    }

    /// The thread records an event.
    #[inline]
    pub(crate) fn event(&self, number: u32, payload: &[u64]) {
        let is_on = self.shared.is_on.load(Ordering::Relaxed);
        let is_needed = || {
            let is_frame = self.main.is_some() && number == Extension::FrameEnd as u32;
            is_frame || self.serves.is_serving()
        };
        if is_on || is_needed() {
            self.look(number, payload, is_on);
        }
    }

    /// The main thread has allocated so many bytes so far.
    pub(crate) fn allocated(&self, bytes: u64) {
        if let Some(memory) = self.shared.memory.as_ref().filter(|_| self.main.is_some()) {
            memory.set_counter(Counter::AllocatedBytes, bytes);
        }
    }

    fn look(&self, number: u32, payload: &[u64], is_on: bool) {
        let Some(kind) = of_interest(number) else {
            return;
        };
        if matches!(kind, Extension::BinderServe | Extension::BinderServed) {
            if let Some(memory) = &self.shared.memory {
                let now_ns = clock::boottime_ns();
                self.serves
                    .event(memory.serving(), self.tid, payload, now_ns, is_on);
            }
            return;
        }
        if self.main.is_none() && !is_of_all_threads(kind) {
            return;
        }
        let event = Event {
            kind,
            payload,
            now_ns: clock::monotonic_ns(),
        };
        let shared = &*self.shared;
        let is_first =
            kind == Extension::FrameEnd && shared.first_frame.load(Ordering::Relaxed) == 0;
        if is_first {
            shared.first_frame.store(event.now_ns, Ordering::Relaxed);
        }
        // The control thread writes the rules, seldom and at once: an event at that moment is not looked at.
        let Some(rules) = shared.rules.try_read().ok().filter(|_| is_on) else {
            return;
        };
        if is_first {
            shared.check_start(&rules, event.now_ns);
        }
        if Collections::is_about(kind, payload, self.main.is_some()) {
            let mut collections = lock(&shared.collections);
            let (stopped, found) = collections.event(&rules, &event);
            drop(collections);
            shared.count(Counter::GcNs, stopped);
            shared.count(Counter::Collections, (kind == Extension::GcPauseEnd).into());
            self.report(&rules, &event, found);
        } else if let (Extension::RuleBegin | Extension::RuleEnd, Some(name)) =
            (kind, payload.first())
        {
            let found = self.method(&rules, &event, *name as u32);
            self.report(&rules, &event, found);
        } else if let Some(Ok(mut main)) = self.main.as_ref().map(Mutex::try_lock) {
            self.count(&rules, &event, &main);
            let found = main.event(&rules, &event);
            drop(main);
            self.report(&rules, &event, found);
        }
    }

    fn method(
        &self,
        rules: &AppRules,
        event: &Event<'_>,
        name: u32,
    ) -> Option<(AppDetector, Measured)> {
        let mut calls = self.calls.try_lock().ok()?;
        match event.kind {
            Extension::RuleBegin => {
                calls.begin(rules, name, event.now_ns);
                None
            }
            _ => calls.end(rules, name, event.now_ns),
        }
    }

    /// Keeps the counters, and whether the main thread is busy.
    fn count(&self, rules: &AppRules, event: &Event<'_>, before: &MainThread) {
        let (shared, now) = (&*self.shared, event.now_ns);
        let busy = |since| shared.busy_since.swap(since, Ordering::Relaxed);
        match event.kind {
            Extension::MessageDispatched | Extension::InputBegin => {
                busy(now);
            }
            Extension::InputEnd => {
                busy(0);
            }
            Extension::MessageDone => {
                let began = busy(0);
                let took = if began == 0 {
                    0
                } else {
                    now.saturating_sub(began)
                };
                shared.count(Counter::Messages, 1);
                shared.count(Counter::MessageNs, took);
                shared.count_run_delay(now);
            }
            Extension::FrameEnd => {
                let limit = match rules.late_frame.ns {
                    0 => LATE_FRAME_NS,
                    limit => limit,
                };
                let vsync = event.payload.first().copied().unwrap_or(now);
                let is_late = now.saturating_sub(vsync) > limit;
                shared.count(Counter::Frames, 1);
                shared.count(Counter::LateFrames, is_late.into());
                shared.count_run_delay(now);
            }
            Extension::WaitEnd => shared.count(Counter::LockNs, before.in_lock_ns(event)),
            Extension::BinderReply => shared.count(Counter::BinderNs, before.in_binder_ns(event)),
            _ => {}
        }
    }

    fn report(&self, rules: &AppRules, event: &Event<'_>, found: Option<(AppDetector, Measured)>) {
        if let Some(found) = found {
            self.shared.report(rules, event.now_ns, self.tid, found);
        }
    }
}

impl Drop for ThreadWatch {
    fn drop(&mut self) {
        if let Some(memory) = self
            .shared
            .memory
            .as_ref()
            .filter(|_| self.serves.is_serving())
        {
            self.serves.stop(memory.serving(), clock::boottime_ns());
        }
    }
}

/// When this process started, CLOCK_MONOTONIC, ns; to a hundredth of a second. A zygote's child starts when it is forked.
fn process_start_ns() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name before may have spaces and brackets. After it, the start is the 20th field: ticks since boot.
    let ticks: u64 = stat
        .rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()?;
    // SAFETY: no precondition.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?;
    let since_boot = ticks.checked_mul(1_000_000_000 / per_second.max(1))?;
    let age = clock::boottime_ns().checked_sub(since_boot)?;
    clock::monotonic_ns().checked_sub(age)
}
