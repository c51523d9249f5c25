// SPDX-License-Identifier: Apache-2.0
//! Starting and stopping threads without bringing them to a safepoint: the published lock-free protocol
//! (`protocol=lock-free`).
//!
//! As published, each trace point reads, besides the cursor, a word that says whether to stop. A thread that runs
//! managed code stops itself at its next trace point; one that is in native code may not come to one for long, so
//! whoever wants it to stop does it on its behalf, and the thread, on its return, waits for that to be over. Who
//! stops it is decided by compare-and-swap.
//!
//! Two things are as cheap here as with checkpoints, until somebody wants a thread to stop:
//!
//! - **The word that trace points read** is the address of the stub that they call while their thread is traced,
//!   which they read anyway. To stop a thread, the stubs that record are exchanged for stubs that ask:
//!   [`ThreadTrace::trace_point`] then looks at the thread's `StopWord`. Everything else that records looks at it each time.
//! - **The return from native code** takes no fence. As published it does, so that either the thread sees that it
//!   shall stop, or whoever wants it to sees that it is back. Instead the latter has the kernel make all threads of the
//!   process pass a fence (`membarrier`), between the request and the look at the thread.
//!
//! Trace points read more than one word (the cursor, `poll`, three stubs), and a thread may see the changes to them in
//! any order. So they are changed to "record" only by the thread itself: it finds out that it shall record where it
//! asks, by a single word, and whoever reads that sees all that was done before. They lead to the stubs that ask by
//! then. So there is one moment from which on all is recorded, and one from which on nothing is.
//!
//! To exchange the ring for another one (to persist) is the same as to stop, and whoever does it goes on in the
//! replacement: there is no gap.
//!
//! A thread that computes without passing a trace point does not stop. After some time it is asked to come to a
//! safepoint instead; see `ControlThread::take_ring`.
//!
//! `model` checks all this.

use std::time::{Duration, Instant};

use fences::fence_all_threads;
pub(crate) use fences::{prepare, returned_to_managed_code};

use crate::ring::Ring;
use crate::sync::{fence, spin, AtomicU32, Ordering};
use crate::thread_trace::{Inner, StartReason, TakenRing, ThreadTrace};
use crate::thread_words::{Points, ThreadWords};

/// The thread does not record, even if it has a cursor.
const OFF: u32 = 0;
/// The thread records, if it has a cursor. With checkpoints this is always so.
const GO: u32 = 1;
/// Somebody wants the thread's ring.
const STOP: u32 = 2;
/// The thread is giving up its ring itself.
const STOPPING: u32 = 3;
/// The thread is not running managed code, and its ring is being taken on its behalf: it has to wait on its return.
const BEING_STOPPED: u32 = 4;
/// The thread has ended.
const ENDED: u32 = 5;

/// Whether a thread shall record; what one that wants it to stop and the thread itself compete for.
#[derive(Debug)]
pub(crate) struct StopWord(AtomicU32);

impl StopWord {
    /// Of a thread that is stopped at safepoints only.
    pub(crate) fn unused() -> Self {
        StopWord(AtomicU32::new(GO))
    }

    /// Of a thread that does not record yet.
    pub(crate) fn off() -> Self {
        StopWord(AtomicU32::new(OFF))
    }

    fn replace(&self, old: u32, new: u32) -> bool {
        self.0
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// What somebody wants of a thread, and what came of it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The ring that the thread goes on in. Given back if it did not need it.
    pub(crate) replacement: Option<Ring>,
    /// What the thread had. `None` if it has ended meanwhile.
    pub(crate) taken: Option<TakenRing>,
    /// For how long the thread was held, or would have been if it had come back.
    pub(crate) held: Duration,
    /// There was no fence, so that it cannot be done on the thread's behalf.
    by_itself_only: bool,
}

impl ThreadTrace {
    /// The trace of a thread that is started and stopped by this protocol.
    ///
    /// # Safety
    /// As [`new`](Self::new); besides, the caller is the thread, or it has not begun to run, and its words are in the
    /// thread object that `StubTable::entry_slot` is about.
    pub(crate) unsafe fn new_lock_free(tid: u32, name: &str, words: *const ThreadWords) -> Self {
        // SAFETY: says the caller.
        let mut trace = unsafe { Self::new(tid, name, words) };
        trace.stop_word = StopWord::off();
        trace.lock_free = true;
        // For good, but while it records: an entry's suspend check leads there for ART's sake, too.
        // SAFETY: says the caller.
        unsafe { ThreadWords::set_entry(words, Points::Ask) };
        trace
    }

    /// Starts recording into `ring` at one of the thread's next trace points, wherever it is. Gives the ring back if
    /// it records already, or has retired.
    ///
    /// # Safety
    /// The trace was made by [`new_lock_free`](Self::new_lock_free). Called by the control thread.
    pub(crate) unsafe fn begin_anywhere(&self, ring: Ring) -> Result<(), Ring> {
        let mut inner = self.lock();
        if inner.ring.is_some() || inner.retired {
            return Err(ring);
        }
        // SAFETY: the thread does not record as long as the word says OFF, nor does it use the cursor, which only stubs
        // that record do without asking.
        unsafe { self.install_first(&mut inner, ring, StartReason::Request) };
        // Whoever reads this sees all of the above: the first trace point that does, and those after it.
        self.stop_word.0.store(GO, Ordering::Release);
        Ok(())
    }

    /// Asks for the thread's ring; it then records into `replacement`, if there is one. False, with nothing done,
    /// if it is not recording.
    ///
    /// Has to be followed by [`poll_exchange`](Self::poll_exchange) until that returns something, or by
    /// [`withdraw`](Self::withdraw) that does.
    ///
    /// # Safety
    /// As [`begin_anywhere`](Self::begin_anywhere).
    pub(crate) unsafe fn ask_for_ring(&self, replacement: &mut Option<Ring>) -> bool {
        {
            let mut inner = self.lock();
            if inner.ring.is_none() || inner.retired {
                return false;
            }
            inner.exchange = Some(Exchange {
                replacement: replacement.take(),
                taken: None,
                held: Duration::ZERO,
                by_itself_only: false,
            });
            // Nobody else changes GO, and with a ring it is that.
            self.stop_word.0.store(STOP, Ordering::Release);
            // Either what follows undoes what the thread does in `record_from_here`, or it sees STOP there.
            fence(Ordering::SeqCst);
            // SAFETY: the thread has not retired, and the lock is held.
            unsafe { self.set_points(Points::Ask) };
        }
        // Either the thread is seen to be back in `poll_exchange`, or it sees that its trace points ask.
        if !fence_all_threads() {
            if let Some(exchange) = &mut self.lock().exchange {
                exchange.by_itself_only = true;
            }
        }
        true
    }

    /// What came of the request, as soon as it is known. Takes the ring on the thread's behalf if it does not run
    /// managed code, as `runs_managed_code` says, and so is at no trace point.
    pub(crate) fn poll_exchange(
        &self,
        runs_managed_code: &dyn Fn(*const ThreadWords) -> bool,
    ) -> Option<Exchange> {
        let mut inner = self.lock();
        match self.stop_word.0.load(Ordering::Acquire) {
            STOP => {
                if inner.exchange.as_ref().is_none_or(|e| e.by_itself_only) {
                    return None;
                }
                // The words, and what they are part of, stay valid as long as the lock is held: STOP is not ENDED.
                if runs_managed_code(self.words_address()) {
                    return None;
                }
                // What the thread recorded before it left managed code.
                fence(Ordering::Acquire);
                if !self.stop_word.replace(STOP, BEING_STOPPED) {
                    return None;
                }
                self.exchange(&mut inner, Instant::now());
                inner.exchange.take()
            }
            STOPPING | BEING_STOPPED => None,
            _ => inner.exchange.take(),
        }
    }

    /// Takes the request back, and returns what was offered as a replacement; `None` if it is too late for that.
    pub(crate) fn withdraw(&self) -> Option<Option<Ring>> {
        let mut inner = self.lock();
        if !self.stop_word.replace(STOP, GO) {
            return None;
        }
        inner.exchange.take().map(|exchange| exchange.replacement)
    }

    /// Does what was asked for. Called by whoever has won.
    fn exchange(&self, inner: &mut Inner, since: Instant) {
        if let Some(mut exchange) = inner.exchange.take() {
            exchange.taken = self.take_locked(inner, &mut exchange.replacement);
            exchange.held = since.elapsed();
            inner.exchange = Some(exchange);
        }
        self.publish(inner);
    }

    /// Lets the thread record if it has a ring. Called where it is known not to be recording.
    pub(crate) fn publish(&self, inner: &Inner) {
        if self.lock_free {
            let state = match (&inner.ring, inner.retired) {
                (_, true) => ENDED,
                (Some(_), _) => GO,
                (None, _) => OFF,
            };
            self.stop_word.0.store(state, Ordering::Release);
        }
    }

    /// Whether the thread, which is the caller and at a trace point, shall record. Stops it first, if somebody
    /// wants that.
    #[inline]
    pub(crate) fn may_record(&self) -> bool {
        returned_to_managed_code();
        self.stop_word.0.load(Ordering::Acquire) == GO || self.stop_or_wait()
    }

    #[cold]
    fn stop_or_wait(&self) -> bool {
        loop {
            match self.stop_word.0.load(Ordering::Acquire) {
                GO => return true,
                STOP => {
                    if self.stop_word.replace(STOP, STOPPING) {
                        let since = Instant::now();
                        self.exchange(&mut self.lock(), since);
                    }
                }
                BEING_STOPPED => spin(),
                _ => return false,
            }
        }
    }

    /// A compiled trace point whose stub asks: the entry of the method at this address, or an exit if that is 0.
    ///
    /// # Safety
    /// Called by the thread itself, in managed code.
    pub unsafe fn trace_point(&self, method: u64) {
        if !self.may_record() || !self.record_from_here() {
            return;
        }
        // SAFETY: the caller is the thread, and shall record.
        unsafe { self.append_point(method) };
    }

    /// Lets the thread's compiled trace points record without asking. False if it shall not record.
    fn record_from_here(&self) -> bool {
        // SAFETY: the caller is the thread, which has not retired: it runs managed code.
        unsafe { self.set_points(Points::Record) };
        // See `ask_for_ring`.
        fence(Ordering::SeqCst);
        self.stop_word.0.load(Ordering::Acquire) == GO || self.stop_or_wait()
    }

    /// # Safety
    /// The caller is the thread, or holds the lock; it has not retired.
    pub(crate) unsafe fn set_points(&self, points: Points) {
        // SAFETY: the words are valid, says the caller.
        unsafe { self.words() }.set_points(points);
        // Never none: what it does with a cursor while the word says OFF, it has to ask.
        let entry = match points {
            Points::Record => Points::Record,
            Points::Off | Points::Ask => Points::Ask,
        };
        // SAFETY: as above.
        unsafe { ThreadWords::set_entry(self.words_address(), entry) };
    }
}

#[cfg(not(feature = "loom"))]
mod fences {
    use std::io;

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> io::Result<()> {
        // SAFETY: a system call without pointers.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Gets the process ready for [`fence_all_threads`].
    ///
    /// # Errors
    /// If the kernel has no `membarrier`, or does not let this process use it. (ART's JIT uses the same on Android.)
    pub(crate) fn prepare() -> io::Result<()> {
        membarrier(REGISTER_PRIVATE_EXPEDITED)?;
        membarrier(PRIVATE_EXPEDITED)
    }

    /// Makes every thread of the process pass a full fence, wherever it is: what it did before is then seen here, and
    /// what was done here is seen by what it does after. False if that cannot be done.
    pub(crate) fn fence_all_threads() -> bool {
        membarrier(PRIVATE_EXPEDITED).is_ok()
    }

    /// Where a thread passes its half of [`fence_all_threads`], in models; elsewhere that is the kernel's doing.
    #[inline]
    pub(crate) fn returned_to_managed_code() {}
}

/// As models have it.
#[cfg(feature = "loom")]
mod fences {
    use crate::sync::{fence, Ordering};

    pub(crate) fn prepare() -> std::io::Result<()> {
        Ok(())
    }

    pub(crate) fn fence_all_threads() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn returned_to_managed_code() {
        fence(Ordering::SeqCst);
    }
}
