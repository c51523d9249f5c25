// SPDX-License-Identifier: Apache-2.0
//! Lets the control thread sleep while no thread of the process runs, and wakes it when one does.

use std::sync::OnceLock;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The control thread is awake.
const AWAKE: u64 = u64::MAX;

/// Whether the control thread sleeps until a thread runs, and how to wake it.
pub(crate) struct Quiet {
    /// Threads that run at this counter or later wake the control thread.
    from: AtomicU64,
    /// 1: a thread ran before that.
    ran_before: AtomicU32,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Quiet {
    pub(crate) fn new() -> Self {
        Quiet {
            from: AtomicU64::new(AWAKE),
            ran_before: AtomicU32::new(0),
            wake: OnceLock::new(),
        }
    }

    /// Sets how the control thread is woken; only the first call counts. `wake` may be called on any thread, and does not
    /// wait for anything.
    pub(crate) fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The control thread goes to sleep: the first thread that runs at this counter or later is to wake it. One that begins to run at
    /// this moment may not see it.
    pub(crate) fn begin(&self, from: u64) {
        self.ran_before.store(0, Ordering::Relaxed);
        self.from.store(from.min(AWAKE - 1), Ordering::SeqCst);
    }

    /// The control thread is awake.
    pub(crate) fn end(&self) {
        self.from.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether the control thread sleeps, and no thread has woken it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.from.load(Ordering::Relaxed) != AWAKE
    }

    /// Whether a thread has run since the control thread went to sleep, too early to wake it.
    pub(crate) fn has_run_before(&self) -> bool {
        self.ran_before.load(Ordering::Relaxed) != 0
    }

    /// A thread runs at this counter.
    #[inline]
    pub(crate) fn disturb(&self, now: u64) {
        let from = self.from.load(Ordering::Relaxed);
        if from != AWAKE {
            self.runs(now, from);
        }
    }

    #[cold]
    fn runs(&self, now: u64, from: u64) {
        if now >= from {
            self.wake();
        } else if !self.has_run_before() {
            self.ran_before.store(1, Ordering::Relaxed);
        }
    }

    fn wake(&self) {
        // Only one of several threads.
        if self.from.swap(AWAKE, Ordering::Relaxed) == AWAKE {
            return;
        }
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_first_thread_that_runs_after_the_time_wakes_once() {
        let woken = Arc::new(AtomicU32::new(0));
        let quiet = Quiet::new();
        let counted = Arc::clone(&woken);
        quiet.set_wake(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let woken = || woken.load(Ordering::Relaxed);
        quiet.disturb(u64::MAX - 1);
        assert_eq!(woken(), 0, "awake");
        quiet.begin(100);
        assert!(!quiet.has_run_before());
        quiet.disturb(99);
        assert_eq!((woken(), quiet.is_quiet()), (0, true));
        assert!(quiet.has_run_before());
        quiet.disturb(100);
        quiet.disturb(101);
        assert_eq!((woken(), quiet.is_quiet()), (1, false));
        quiet.begin(200);
        assert!(!quiet.has_run_before());
        quiet.end();
        quiet.disturb(300);
        assert_eq!(woken(), 1);
    }
}
