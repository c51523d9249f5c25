// SPDX-License-Identifier: Apache-2.0
//! Lets the control thread sleep while no thread of the process runs, and wakes it when one does.

use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// The control thread is awake.
const AWAKE: u64 = u64::MAX;

/// Whether the control thread sleeps until a thread runs, and how to wake it.
pub(crate) struct Quiet {
    /// Threads that run at this counter or later wake the control thread.
    from: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Quiet {
    pub(crate) fn new() -> Self {
        Quiet {
            from: AtomicU64::new(AWAKE),
            wake: OnceLock::new(),
        }
    }

    /// Sets how the control thread is woken; only the first call counts. `wake` may be called on any thread, and does not
    /// wait for anything.
    pub(crate) fn set_wake(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// The control thread goes to sleep: the first thread that runs at this counter or later is to wake it.
    pub(crate) fn begin(&self, from: u64) {
        self.from.store(from.min(AWAKE - 1), Ordering::Relaxed);
    }

    /// The control thread is awake.
    pub(crate) fn end(&self) {
        self.from.store(AWAKE, Ordering::Relaxed);
    }

    /// Whether the control thread sleeps, and no thread has woken it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.from.load(Ordering::Relaxed) != AWAKE
    }

    /// A thread runs at this counter.
    #[inline]
    pub(crate) fn disturb(&self, now: u64) {
        if now >= self.from.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
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
        quiet.disturb(99);
        assert_eq!((woken(), quiet.is_quiet()), (0, true));
        quiet.disturb(100);
        quiet.disturb(101);
        assert_eq!((woken(), quiet.is_quiet()), (1, false));
        quiet.begin(200);
        quiet.end();
        quiet.disturb(300);
        assert_eq!(woken(), 1);
    }
}
