// SPDX-License-Identifier: Apache-2.0
//! Takes the [anchors](crate::anchors) of all traced threads when they are due.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::anchors;
use crate::clock;
use crate::recorder::{lock, Severity, Shared};

/// When anchors are due, and the taking of them.
#[derive(Clone, Copy)]
pub(crate) struct Sampler<'a> {
    shared: &'a Shared,
    next: Instant,
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Sampler {
            shared,
            next: Instant::now(),
        }
    }

    /// Notes where the traced threads stand, if it is time to. Returns for how long nothing is due.
    ///
    /// That is less than half the time in which the low 32 bits of the counter wrap, so that the decoder
    /// can tell any number of wraps between two trace points.
    pub(crate) fn sample_if_due(&mut self) -> Duration {
        let now = Instant::now();
        if now >= self.next {
            let mut pause = anchors::interval(clock::known_rate(&self.shared.started).unwrap_or(0));
            let threads: Vec<_> = lock(&self.shared.threads).values().cloned().collect();
            // None may be missed: a thread that was too busy is asked again soon.
            let missed = threads.iter().filter(|t| !t.sample_anchor()).count();
            if missed != 0 {
                pause = anchors::retry_after(pause);
            }
            self.next = now + pause;
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Does `work`, which may wait for whatever it likes (a disk, a garbage collection), while another thread
    /// takes the anchors that are due.
    pub(crate) fn sample_during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let shared = self.shared;
        thread::scope(|scope| {
            let (working, over) = mpsc::channel::<()>();
            let sampling = thread::Builder::new()
                .name("hindsight-clock".into())
                .spawn_scoped(scope, move || {
                    // Nothing is ever sent: the sender goes away with the work, also by a panic.
                    while let Err(RecvTimeoutError::Timeout) =
                        over.recv_timeout(self.sample_if_due())
                    {}
                });
            if let Err(e) = sampling {
                let message = format!("times may get lost: cannot start a thread for anchors: {e}");
                shared.host.log(Severity::Warning, &message);
            }
            let _working = working;
            work()
        })
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::sync::Arc;

    use hindsight_trace_format::container::Symbol;

    use super::*;
    use crate::config::Config;
    use crate::recorder::{Host, ProcessIdentity};
    use crate::thread_trace::{StartReason, ThreadTrace};
    use crate::thread_words::ThreadWords;

    /// A managed runtime without threads.
    struct Empty;

    impl Host for Empty {
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
    }

    #[test]
    fn anchors_are_taken_during_work_that_waits() {
        let config = Config::parse("trace=all,ring=12,dir=/nonexistent").unwrap();
        let shared = Shared::new(config, Box::new(Empty));
        let words = ThreadWords::new();
        // SAFETY: the words outlive the trace.
        let trace = Arc::new(unsafe { ThreadTrace::new(1, "test", &words) });
        let ring = shared.pool.take().unwrap();
        // SAFETY: this test is the thread.
        unsafe { trace.begin(ring, StartReason::Request) }.unwrap();
        lock(&shared.threads).insert(1, Arc::clone(&trace));

        let mut sampler = Sampler::new(&shared);
        let due = sampler.next;
        let deadline = Instant::now() + Duration::from_secs(60);
        let waited = || {
            while trace.anchors() == 0 {
                assert!(Instant::now() < deadline, "nobody takes anchors");
                thread::yield_now();
            }
            7
        };
        assert_eq!(sampler.sample_during(waited), 7);
        assert!(sampler.next > due);
        // The other thread ends with the work, whatever becomes of that.
        let panics = AssertUnwindSafe(|| sampler.sample_during(|| panic!("on purpose")));
        assert!(catch_unwind(panics).is_err());
    }
}
