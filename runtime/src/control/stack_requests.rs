// SPDX-License-Identifier: Apache-2.0
//! Asks threads that pass no hook for long, as in a loop without calls, to take their stacks at their next safepoint.
//!
//! While no thread runs nobody is asked, and the control thread sleeps. A thread that passes a hook wakes it; a thread that
//! passes no hook at all is found when the control thread looks at the threads and the CPU time of the process, once a second. An
//! idle process costs no wake-ups: after some looks in a row at which nothing runs, only a thread that passes a hook wakes it.
//!
//! CPU time alone does not tell whether a thread runs: on a machine with much to do a thread may get none for long. So the control
//! thread asks for stacks before it sleeps, and stays awake if a thread is in managed code then.

use std::time::{Duration, Instant};

use hindsight_trace_format::catalogue::Category;

use crate::clock;
use crate::session::Session;

/// Pauses of a sleep that no thread ends.
const SLEEP: u32 = 100;
/// Looks in a row during a sleep at which nothing runs, until it is not looked any more.
const MOST_LOOKS: u32 = 3;
/// The process hardly runs if it uses less than this part of one processor's time.
const IDLE_PART: u32 = 50;
/// If the threads that woke the control thread hardly ran, they wake it again after some pauses at the earliest: at most
/// this power of two.
const MOST_DOUBLINGS: u32 = 5;
/// Pauses in a row in which the process gets no CPU time, although a thread is in managed code, until the control thread sleeps. The
/// thread may wait there for a page of memory.
const MOST_STARVED: u32 = SLEEP;

/// Knows when the threads are to be asked.
pub(crate) struct StackRequests<'a> {
    session: &'a Session,
    /// When the process was last looked at, and when it is the next time.
    last: Instant,
    next: Instant,
    is_asleep: bool,
    /// When the sleep ends that no thread ends, if `next` is the time from which threads wake the control thread.
    sleeps_until: Option<Instant>,
    /// Sleeps in a row that a thread ended which then hardly ran.
    fruitless: u32,
    /// Looks in a row during this sleep at which nothing ran.
    looks: u32,
    /// Pauses in a row in which a thread was in managed code, and the process hardly ran.
    starved: u32,
    /// CPU time of the process at `last`.
    cpu_time: Duration,
}

impl<'a> StackRequests<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        let now = Instant::now();
        StackRequests {
            session,
            last: now,
            next: now,
            is_asleep: false,
            sleeps_until: None,
            fruitless: 0,
            looks: 0,
            starved: 0,
            cpu_time: process_cpu_time(),
        }
    }

    /// Asks the threads if it is time to. Returns the time until the next requests are due; `None` if there are none.
    pub(crate) fn make_if_due(&mut self) -> Option<Duration> {
        let pause = self.session.config.stacks.requests?;
        if self.session.categories() & Category::Stacks.bit() == 0 {
            return None;
        }
        let now = Instant::now();
        self.go_on(now, process_cpu_time(), pause);
        if self.rests() {
            return None;
        }
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    /// Does what is due. `cpu_time` is that of the process so far.
    fn go_on(&mut self, now: Instant, cpu_time: Duration, pause: Duration) {
        let quiet = self.session.stacks.quiet();
        if self.is_asleep && !quiet.is_quiet() {
            // A thread that runs has woken this one.
            self.wake(now, cpu_time, pause);
        } else if now >= self.next {
            match self.sleeps_until.take() {
                Some(_) if quiet.has_run_before() => self.wake(now, cpu_time, pause),
                Some(end) => self.next = end,
                None => self.ask_or_sleep(now, cpu_time, pause),
            }
        }
    }

    /// Nothing has run for long: only a thread that passes a hook ends the sleep.
    fn rests(&self) -> bool {
        self.is_asleep && self.sleeps_until.is_none() && self.looks >= MOST_LOOKS
    }

    fn wake(&mut self, now: Instant, cpu_time: Duration, pause: Duration) {
        self.session.stacks.quiet().end();
        self.is_asleep = false;
        self.sleeps_until = None;
        self.look(now, cpu_time, pause);
    }

    fn ask_or_sleep(&mut self, now: Instant, cpu_time: Duration, pause: Duration) {
        let elapsed = now.saturating_duration_since(self.last);
        let used = self.look(now, cpu_time, pause);
        let quiet = self.session.stacks.quiet();
        if runs(used, elapsed) {
            quiet.end();
            self.is_asleep = false;
            self.fruitless = 0;
            self.starved = 0;
            self.make(false);
            return;
        }
        if !self.is_asleep {
            self.fruitless = (self.fruitless + 1).min(MOST_DOUBLINGS);
            self.looks = 0;
        } else {
            self.fruitless = 0;
            self.looks = (self.looks + 1).min(MOST_LOOKS);
        }
        let hold = pause * hold(self.fruitless);
        // First this: a thread that begins to run after it was asked wakes this one.
        quiet.begin(clock::counter().saturating_add(self.session.stacks.ticks(hold)));
        if self.make(true) && self.starved < MOST_STARVED {
            quiet.end();
            self.is_asleep = false;
            self.starved += 1;
            return;
        }
        self.starved = 0;
        self.is_asleep = true;
        let end = now + pause * SLEEP;
        self.sleeps_until = Some(end).filter(|_| !hold.is_zero());
        self.next = self.sleeps_until.map_or(end, |_| now + hold);
    }

    /// Sets when the process is looked at the next time. Returns the CPU time that it has used since the last time.
    fn look(&mut self, now: Instant, cpu_time: Duration, pause: Duration) -> Duration {
        self.last = now;
        self.next = now + pause;
        cpu_time.saturating_sub(std::mem::replace(&mut self.cpu_time, cpu_time))
    }

    /// Asks the threads; those that take stacks of their own accord too if `all`. Returns whether any thread is in managed code.
    fn make(&self, all: bool) -> bool {
        let threads = self.session.registry.threads();
        let mut threads: Vec<_> = (threads.into_iter())
            .filter(|thread| thread.trace().records())
            .collect();
        // Those that have not answered yet are not asked again.
        let has_asked = threads.iter().any(|t| t.is_stack_requested());
        threads.retain(|thread| thread.request_stack(all));
        threads.sort_by_key(|thread| thread.trace().tid());
        let tids: Vec<u32> = threads.iter().map(|t| t.trace().tid()).collect();
        let mut are_running = vec![0; tids.len()];
        (self.session.host).request_stacks(&tids, &mut are_running);
        for (thread, is_running) in threads.iter().zip(&are_running) {
            if *is_running == 0 {
                thread.stack_request_done();
            }
        }
        has_asked || are_running.contains(&1)
    }
}

/// Whether the process ran, if it used this CPU time in the time that has elapsed.
fn runs(used: Duration, elapsed: Duration) -> bool {
    used > elapsed / IDLE_PART
}

/// Pauses in which no thread wakes the control thread, after this number of fruitless sleeps.
fn hold(fruitless: u32) -> u32 {
    match fruitless {
        0 | 1 => 0,
        more => 1 << more.min(MOST_DOUBLINGS),
    }
}

fn process_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
    use std::sync::Arc;

    use hindsight_trace_format::container::Symbol;

    use super::*;
    use crate::config::Config;
    use crate::handshake::TracedThread;
    use crate::host::{Host, ProcessIdentity, Severity};
    use crate::stacks::Spacing;
    use crate::thread::trace::StartReason;
    use crate::thread::words::ThreadWords;

    /// A managed runtime whose threads run all the time, or not at all; counts the threads that are asked.
    struct Running {
        asked: Arc<AtomicUsize>,
        are_running: Arc<AtomicU8>,
    }

    impl Host for Running {
        fn attach_control_thread(&self) -> bool {
            true
        }
        fn detach_control_thread(&self) {}
        fn run_at_safepoint(&self, _tid: u32, _action: &mut (dyn FnMut() + Send)) -> bool {
            false
        }
        fn symbolize(&self, _addresses: &[u64], _named: &mut dyn FnMut(Symbol)) {}
        fn identity(&self) -> ProcessIdentity {
            ProcessIdentity::default()
        }
        fn log(&self, _severity: Severity, _message: &str) {}
        fn request_stacks(&self, tids: &[u32], are_running: &mut [u8]) {
            self.asked.fetch_add(tids.len(), Ordering::Relaxed);
            are_running.fill(self.are_running.load(Ordering::Relaxed));
        }
    }

    /// Index in `STACK_REASONS`.
    const ALLOCATION: u8 = 2;
    const CHECKPOINT: u8 = 6;

    fn take_stack(thread: &TracedThread, reason: u8) {
        // SAFETY: this test is the thread.
        let frames = unsafe { thread.begin_stack(Spacing::None) };
        // SAFETY: there is memory for at least one frame.
        unsafe { (*frames).method = 0x7000_0000 };
        // SAFETY: this test is the thread, and has written one frame.
        unsafe { thread.end_stack(reason, 1, false) };
    }

    /// Gives `test` the requests of a session with one thread, that thread, and the managed runtime's state.
    fn with_thread(test: impl FnOnce(StackRequests<'_>, &TracedThread, Running)) {
        let new = || Running {
            asked: Arc::default(),
            are_running: Arc::new(AtomicU8::new(1)),
        };
        let host = new();
        let state = Running {
            asked: Arc::clone(&host.asked),
            are_running: Arc::clone(&host.are_running),
        };
        let config = Config::parse("events=stacks,dir=/nonexistent").unwrap();
        let session = Session::new(config, Box::new(host));
        let words = ThreadWords::new();
        // SAFETY: this test is the thread, and the words outlive it.
        let thread = Arc::new(unsafe { session.new_thread(1, "test", &words) });
        let ring = session.events_ring().unwrap();
        // SAFETY: this test is the thread.
        unsafe { thread.begin(ring, StartReason::Configuration) }.unwrap();
        session.registry.add(Arc::clone(&thread));
        test(StackRequests::new(&session), &thread, state);
    }

    #[test]
    fn a_thread_is_asked_each_time_unless_it_takes_stacks_itself() {
        with_thread(|requests, thread, host| {
            let is_asked = || {
                let before = host.asked.load(Ordering::Relaxed);
                requests.make(false);
                host.asked.load(Ordering::Relaxed) != before
            };
            for _ in 0..3 {
                assert!(is_asked());
                assert!(!is_asked(), "no answer yet");
                thread.stack_request_done();
                take_stack(thread, CHECKPOINT);
            }
            take_stack(thread, ALLOCATION);
            assert!(!is_asked(), "it takes stacks");
            assert!(is_asked());
        });
    }

    const PAUSE: Duration = Duration::from_millis(10);

    #[test]
    fn a_thread_that_gets_no_cpu_time_is_asked() {
        with_thread(|mut requests, thread, host| {
            let begin = requests.last;
            let cpu_time = requests.cpu_time;
            let mut go_on = |pauses: u32| {
                requests.go_on(begin + PAUSE * pauses, cpu_time, PAUSE);
                requests.is_asleep
            };
            // It has waited, and has taken a stack then.
            take_stack(thread, ALLOCATION);
            for pause in 1..=MOST_STARVED {
                assert!(!go_on(pause));
                let asked = host.asked.load(Ordering::Relaxed) as u32;
                assert_eq!(asked, pause);
                thread.stack_request_done();
            }
            assert!(go_on(MOST_STARVED + 1));
        });
        with_thread(|mut requests, _, host| {
            host.are_running.store(0, Ordering::Relaxed);
            let (now, cpu_time) = (requests.last + PAUSE, requests.cpu_time);
            requests.go_on(now, cpu_time, PAUSE);
            assert!(requests.is_asleep);
        });
    }

    #[test]
    fn an_idle_process_is_not_looked_at_until_a_thread_passes_a_hook() {
        with_thread(|mut requests, _, host| {
            host.are_running.store(0, Ordering::Relaxed);
            let (mut now, cpu_time) = (requests.last, requests.cpu_time);
            for looks in 0..=MOST_LOOKS {
                assert!(!requests.rests(), "after {looks} looks");
                now = requests.next.max(now + PAUSE);
                requests.go_on(now, cpu_time, PAUSE);
                assert!(requests.is_asleep);
            }
            assert!(requests.rests());
            let quiet = requests.session.stacks.quiet();
            quiet.disturb(clock::counter());
            assert!(!quiet.is_quiet());
            requests.go_on(now + PAUSE, cpu_time, PAUSE);
            assert!(!requests.rests() && !requests.is_asleep);
        });
    }

    #[test]
    fn a_thread_that_runs_too_early_to_wake_it_is_looked_at_afterwards() {
        with_thread(|mut requests, _, host| {
            host.are_running.store(0, Ordering::Relaxed);
            let (mut now, cpu_time) = (requests.last + PAUSE, requests.cpu_time);
            requests.fruitless = 1;
            requests.go_on(now, cpu_time, PAUSE);
            assert!(requests.is_asleep);
            let hold = PAUSE * hold(2);
            assert_eq!(requests.next, now + hold);
            let quiet = requests.session.stacks.quiet();
            quiet.disturb(0);
            assert!(quiet.is_quiet(), "too early");
            now += hold;
            requests.go_on(now, cpu_time, PAUSE);
            assert!(!requests.is_asleep);
            assert_eq!(requests.next, now + PAUSE);
            // If none has run, it sleeps on.
            now += PAUSE;
            requests.go_on(now, cpu_time, PAUSE);
            let held_until = requests.next;
            requests.go_on(held_until, cpu_time, PAUSE);
            assert!(requests.is_asleep);
            assert_eq!(requests.next, now + PAUSE * SLEEP);
        });
    }

    #[test]
    fn a_process_that_hardly_runs_is_not_asked() {
        let after = |pauses: u32, us| runs(Duration::from_micros(us), PAUSE * pauses);
        assert_eq!([after(1, 200), after(1, 201)], [false, true]);
        assert_eq!([after(100, 20_000), after(100, 20_001)], [false, true]);
    }

    #[test]
    fn threads_that_hardly_run_wake_it_less_and_less_often() {
        assert_eq!([0, 1, 2, 3, 5, 99].map(hold), [0, 0, 4, 8, 32, 32]);
    }
}
