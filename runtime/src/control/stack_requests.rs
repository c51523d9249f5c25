// SPDX-License-Identifier: Apache-2.0
//! Asks threads that pass no hook for long, as in a loop without calls, to take their stacks at their next safepoint.
//!
//! While the process hardly runs nobody is asked, and the control thread sleeps. A thread that takes a stack wakes it; a
//! thread that passes no hook at all is found when the control thread looks at the CPU time of the process, once a second.

use std::time::{Duration, Instant};

use hindsight_trace_format::catalogue::Category;

use crate::clock;
use crate::session::Session;

/// Pauses of a sleep that no thread ends.
const SLEEP: u32 = 100;
/// The process hardly runs if it uses less than this part of one processor's time.
const IDLE_PART: u32 = 50;
/// If the threads that woke the control thread hardly ran, they wake it again after some pauses at the earliest: at most
/// this power of two.
const MOST_DOUBLINGS: u32 = 5;

/// Knows when the threads are to be asked.
pub(crate) struct StackRequests<'a> {
    session: &'a Session,
    /// When the process was last looked at, and when it is the next time.
    last: Instant,
    next: Instant,
    is_asleep: bool,
    /// Sleeps in a row that a thread ended which then hardly ran.
    fruitless: u32,
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
            fruitless: 0,
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
        if self.is_asleep && !self.session.stacks.quiet().is_quiet() {
            // A thread that runs has woken this one.
            self.is_asleep = false;
            self.look(now, pause);
        } else if now >= self.next {
            self.ask_or_sleep(now, pause);
        }
        Some(self.next.saturating_duration_since(Instant::now()))
    }

    fn ask_or_sleep(&mut self, now: Instant, pause: Duration) {
        let elapsed = now.saturating_duration_since(self.last);
        let used = self.look(now, pause);
        if runs(used, elapsed) {
            self.is_asleep = false;
            self.fruitless = 0;
            self.session.stacks.quiet().end();
            self.make();
            return;
        }
        if !self.is_asleep {
            self.fruitless = (self.fruitless + 1).min(MOST_DOUBLINGS);
        }
        self.is_asleep = true;
        self.next = now + pause * SLEEP;
        let earliest = pause * hold(self.fruitless);
        let stacks = &self.session.stacks;
        let from = clock::counter().saturating_add(stacks.ticks(earliest));
        stacks.quiet().begin(from);
    }

    /// Sets when the process is looked at the next time. Returns the CPU time that it has used since the last time.
    fn look(&mut self, now: Instant, pause: Duration) -> Duration {
        self.last = now;
        self.next = now + pause;
        let cpu_time = process_cpu_time();
        cpu_time.saturating_sub(std::mem::replace(&mut self.cpu_time, cpu_time))
    }

    fn make(&self) {
        // Those that have not answered yet are not asked again.
        let mut asked: Vec<_> = (self.session.registry.threads().into_iter())
            .filter(|thread| thread.trace().records() && thread.request_stack())
            .collect();
        asked.sort_by_key(|thread| thread.trace().tid());
        let tids: Vec<u32> = asked.iter().map(|t| t.trace().tid()).collect();
        let mut are_running = vec![0; tids.len()];
        (self.session.host).request_stacks(&tids, &mut are_running);
        for (thread, is_running) in asked.iter().zip(are_running) {
            if is_running == 0 {
                thread.stack_request_done();
            }
        }
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;

    use hindsight_trace_format::container::Symbol;

    use super::*;
    use crate::config::Config;
    use crate::handshake::TracedThread;
    use crate::host::{Host, ProcessIdentity, Severity};
    use crate::stacks::Spacing;
    use crate::thread::trace::StartReason;
    use crate::thread::words::ThreadWords;

    /// A managed runtime whose threads run all the time; counts the threads that are asked.
    struct Running(Arc<AtomicUsize>);

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
            self.0.fetch_add(tids.len(), Ordering::Relaxed);
            are_running.fill(1);
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

    #[test]
    fn a_thread_is_asked_each_time_unless_it_takes_stacks_itself() {
        let asked = Arc::new(AtomicUsize::new(0));
        let config = Config::parse("events=stacks,dir=/nonexistent").unwrap();
        let session = Session::new(config, Box::new(Running(Arc::clone(&asked))));
        let words = ThreadWords::new();
        // SAFETY: this test is the thread, and the words outlive it.
        let thread = Arc::new(unsafe { session.new_thread(1, "test", &words) });
        let ring = session.events_ring().unwrap();
        // SAFETY: this test is the thread.
        unsafe { thread.begin(ring, StartReason::Configuration) }.unwrap();
        session.registry.add(Arc::clone(&thread));
        let requests = StackRequests::new(&session);
        let is_asked = || {
            let before = asked.load(Ordering::Relaxed);
            requests.make();
            asked.load(Ordering::Relaxed) != before
        };
        for _ in 0..3 {
            assert!(is_asked());
            assert!(!is_asked(), "no answer yet");
            thread.stack_request_done();
            take_stack(&thread, CHECKPOINT);
        }
        take_stack(&thread, ALLOCATION);
        assert!(!is_asked(), "it takes stacks");
        assert!(is_asked());
    }

    #[test]
    fn a_process_that_hardly_runs_is_not_asked() {
        const PAUSE: Duration = Duration::from_millis(10);
        let after = |pauses: u32, us| runs(Duration::from_micros(us), PAUSE * pauses);
        assert_eq!([after(1, 200), after(1, 201)], [false, true]);
        assert_eq!([after(100, 20_000), after(100, 20_001)], [false, true]);
    }

    #[test]
    fn threads_that_hardly_run_wake_it_less_and_less_often() {
        assert_eq!([0, 1, 2, 3, 5, 99].map(hold), [0, 0, 4, 8, 32, 32]);
    }
}
