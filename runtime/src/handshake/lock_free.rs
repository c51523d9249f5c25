// SPDX-License-Identifier: Apache-2.0
//! The control thread's side of the lock-free protocol; [`request`](crate::handshake::request) describes it.

use std::time::{Duration, Instant};

use crate::handshake::checkpoint::Checkpoint;
use crate::handshake::request::{self, Request};
use crate::handshake::{Costs, Handshake, TracedThread};
use crate::host::Host;
use crate::thread::ring::Ring;
use crate::thread::taken::TakenRing;

/// The reason why the lock-free protocol cannot be used in this process, if it cannot.
pub(crate) fn obstacle(host: &dyn Host) -> Option<String> {
    match (host.obstacle_to_lock_free(), request::prepare()) {
        (None, Ok(())) => None,
        (Some(obstacle), _) => Some(obstacle.to_owned()),
        (None, Err(e)) => Some(format!("membarrier: {e}")),
    }
}

/// Waits for a thread to pass a trace point. A running thread usually passes one at once; a preempted one has to be
/// scheduled first.
struct Backoff {
    tries: u32,
    since: Instant,
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff {
            tries: 0,
            since: Instant::now(),
            pause: Duration::from_micros(20),
        }
    }
}

impl Backoff {
    /// Upper bound on waiting for a cooperative stop: far longer than any code between two trace points, about one
    /// scheduler time slice.
    const LIMIT: Duration = Duration::from_millis(20);
    /// Tries before the first sleep.
    const QUICK: u32 = 50;

    /// Waits a little; false once the limit is reached.
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

/// The handshake by request words, with safepoints where a thread passes no trace point.
pub(crate) struct LockFree<'a> {
    host: &'a dyn Host,
    checkpoint: Checkpoint<'a>,
}

impl<'a> LockFree<'a> {
    pub(crate) fn new(host: &'a dyn Host) -> Self {
        LockFree {
            host,
            checkpoint: Checkpoint::new(host),
        }
    }

    /// The thread's request word, as long as the host has no objection to its use.
    fn request<'t>(&self, thread: &'t TracedThread) -> Option<&'t Request> {
        thread
            .request()
            .filter(|_| self.host.obstacle_to_lock_free().is_none())
    }

    /// Takes the thread's ring by a request. `None` if the thread passed no trace point in time.
    fn take_by_request(
        &mut self,
        thread: &TracedThread,
        request: &Request,
        replacement: &mut Option<Ring>,
    ) -> Option<Option<TakenRing>> {
        let start = Instant::now();
        let trace = thread.trace();
        // SAFETY: `request` is this thread's, and the handshake is used on the control thread only.
        if !unsafe { request.ask_for_ring(trace, replacement) } {
            return Some(None);
        }
        let mut backoff = Backoff::default();
        loop {
            let runs_managed_code = |words| self.host.runs_managed_code(words);
            if let Some(done) = request.poll(trace, &runs_managed_code) {
                *replacement = done.replacement;
                if done.taken.is_some() {
                    self.checkpoint.costs.held.add_time(done.held);
                    self.checkpoint.costs.waited.add_time(start.elapsed());
                }
                return Some(done.taken);
            }
            if !backoff.wait() {
                if let Some(unused) = request.withdraw(trace) {
                    *replacement = unused;
                    self.checkpoint.costs.fallbacks += 1;
                    return None;
                }
            }
        }
    }
}

impl Handshake for LockFree<'_> {
    fn name(&self) -> &'static str {
        match self.host.obstacle_to_lock_free() {
            None => "lock-free",
            Some(_) => self.checkpoint.name(),
        }
    }

    fn begin(&mut self, thread: &TracedThread, ring: Ring) -> Result<(), Ring> {
        let Some(request) = self.request(thread) else {
            return self.checkpoint.begin(thread, ring);
        };
        let start = Instant::now();
        // SAFETY: `request` is this thread's, and the handshake is used on the control thread only.
        let begun = unsafe { request.start(thread.trace(), ring) };
        if begun.is_ok() {
            self.checkpoint.costs.waited.add_time(start.elapsed());
        }
        begun
    }

    fn take(&mut self, thread: &TracedThread, replacement: &mut Option<Ring>) -> Option<TakenRing> {
        let by_request = self
            .request(thread)
            .and_then(|request| self.take_by_request(thread, request, replacement));
        match by_request {
            Some(taken) => taken,
            None => self.checkpoint.take(thread, replacement),
        }
    }

    fn costs(&self) -> &Costs {
        &self.checkpoint.costs
    }
}
