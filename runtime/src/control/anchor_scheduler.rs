// SPDX-License-Identifier: Apache-2.0
//! Takes the [anchors](crate::thread::anchors) of all traced threads when they are due.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock;
use crate::host::Severity;
use crate::session::Session;
use crate::thread::anchors;

/// Knows when anchors are due, and takes them.
#[derive(Clone, Copy)]
pub(crate) struct AnchorScheduler<'a> {
    session: &'a Session,
    next: Instant,
}

impl<'a> AnchorScheduler<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        AnchorScheduler {
            session,
            next: Instant::now(),
        }
    }

    /// Takes an anchor of each traced thread if they are due. Returns the time until the next are due.
    ///
    /// That is less than half the time in which the low 32 bits of the counter wrap, so the decoder can reconstruct any
    /// number of wraps between two trace points.
    pub(crate) fn take_if_due(&mut self) -> Duration {
        let now = Instant::now();
        if now >= self.next {
            let rate = clock::known_rate(&self.session.started).unwrap_or(0);
            let mut pause = anchors::interval(rate);
            let threads = self.session.registry.threads();
            // Every thread needs its anchor: one that was too busy gets another attempt soon.
            let missed = threads.iter().filter(|t| !t.take_anchor()).count();
            if missed != 0 {
                pause = anchors::retry_after(pause);
            }
            self.next = now + pause;
        }
        self.next.saturating_duration_since(Instant::now())
    }

    /// Runs `work`, which may wait for any time, while another thread takes the anchors that are due.
    pub(crate) fn take_during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let session = self.session;
        thread::scope(|scope| {
            let (working, over) = mpsc::channel::<()>();
            let scheduler = thread::Builder::new()
                .name("hindsight-clock".into())
                .spawn_scoped(scope, move || {
                    // Nothing is ever sent: the end of the work, also by a panic, drops the sender.
                    while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(self.take_if_due())
                    {
                    }
                });
            if let Err(e) = scheduler {
                let message =
                    format!("times may be lost: cannot start the thread that takes anchors: {e}");
                session.host.log(Severity::Warning, &message);
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
    use crate::handshake::TracedThread;
    use crate::host::{Host, ProcessIdentity};
    use crate::thread::trace::StartReason;
    use crate::thread::words::ThreadWords;

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
        let session = Session::new(config, Box::new(Empty));
        let words = ThreadWords::new();
        // SAFETY: the words outlive the trace.
        let trace = Arc::new(unsafe { TracedThread::new(1, "test", &words) });
        let ring = session.calls_ring().unwrap();
        // SAFETY: this test is the thread.
        unsafe { trace.begin(ring, StartReason::Request) }.unwrap();
        session.registry.add(Arc::clone(&trace));

        let mut scheduler = AnchorScheduler::new(&session);
        let due = scheduler.next;
        let deadline = Instant::now() + Duration::from_secs(60);
        let waited = || {
            while trace.trace().anchors() == 0 {
                assert!(Instant::now() < deadline, "nobody takes anchors");
                thread::yield_now();
            }
            7
        };
        assert_eq!(scheduler.take_during(waited), 7);
        assert!(scheduler.next > due);
        // The other thread ends with the work, also if that panics.
        let panics = AssertUnwindSafe(|| scheduler.take_during(|| panic!("on purpose")));
        assert!(catch_unwind(panics).is_err());
    }
}
