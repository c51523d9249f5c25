// SPDX-License-Identifier: Apache-2.0
//! The ring changes while the thread is at a safepoint.

use std::time::{Duration, Instant};

use crate::handshake::{Costs, Handshake, TracedThread};
use crate::host::Host;
use crate::thread::ring::Ring;
use crate::thread::taken::TakenRing;
use crate::thread::trace::StartReason;

/// Identity of the calling thread. Not `std::thread::current()`, which would allocate a Rust handle for the managed
/// runtime's threads.
fn this_thread() -> libc::pthread_t {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() }
}

/// The handshake by safepoints.
pub(crate) struct Checkpoint<'a> {
    host: &'a dyn Host,
    pub(super) costs: Costs,
}

impl<'a> Checkpoint<'a> {
    pub(crate) fn new(host: &'a dyn Host) -> Self {
        Checkpoint {
            host,
            costs: Costs::default(),
        }
    }

    /// Runs `action` at a safepoint of the thread, and measures for how long that held it.
    ///
    /// A thread that runs managed code runs the action itself, and is held that long. Any other thread is kept from
    /// entering managed code, at most from here on until the host is done.
    fn hold(&mut self, tid: u32, action: &mut (dyn FnMut() + Send)) {
        let this = this_thread();
        let (mut by_itself, mut held) = (false, Duration::ZERO);
        let start = Instant::now();
        let ran = self.host.run_at_safepoint(tid, &mut || {
            let start = Instant::now();
            action();
            held = start.elapsed();
            by_itself = this_thread() != this;
        });
        if !by_itself {
            held = start.elapsed();
        }
        if ran {
            self.costs.held.add_time(held);
            self.costs.waited.add_time(start.elapsed());
        }
    }
}

impl Handshake for Checkpoint<'_> {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn begin(&mut self, thread: &TracedThread, ring: Ring) -> Result<(), Ring> {
        let mut ring = Some(ring);
        let mut begun = Ok(());
        self.hold(thread.trace().tid(), &mut || {
            if let Some(ring) = ring.take() {
                // SAFETY: the host runs this at a safepoint of the thread.
                begun = unsafe { thread.begin(ring, StartReason::Request) };
            }
        });
        match ring {
            // The host did not find the thread.
            Some(unused) => Err(unused),
            None => begun,
        }
    }

    fn take(&mut self, thread: &TracedThread, replacement: &mut Option<Ring>) -> Option<TakenRing> {
        let mut taken = None;
        self.hold(thread.trace().tid(), &mut || {
            // SAFETY: the host runs this at a safepoint of the thread.
            taken = unsafe { thread.take(replacement) };
        });
        taken
    }

    fn costs(&self) -> &Costs {
        &self.costs
    }
}
