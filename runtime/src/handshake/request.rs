// SPDX-License-Identifier: Apache-2.0
//! The thread's side of the lock-free protocol (`protocol=lock-free`): the request word, and the transitions that a
//! thread and the control thread compete for.
//!
//! As published, each trace point reads, besides the cursor, a word that says whether to stop. A thread that runs
//! managed code stops itself at its next trace point. A thread in native code may pass no trace point for long, so
//! the control thread stops it on its behalf, and the thread waits for the end of that on its return. A
//! compare-and-swap decides which of the two stops it.
//!
//! Two costs of the published form are avoided here, so that both protocols cost the same until a stop is requested:
//!
//! - **The word that trace points read** is the address of the stub that they call while their thread is traced,
//!   which they read anyway. To stop a thread, its recording stubs are replaced by slow-path stubs, which call
//!   [`TracedThread::trace_point`](crate::TracedThread::trace_point); that reads the thread's request word. All other
//!   code that records reads the request word at each event.
//! - **The return from native code** takes no fence. The published form needs one, so that either the thread sees the
//!   request, or the control thread sees that the thread is back. Here the control thread makes all threads of the
//!   process execute a fence (`membarrier`), between the request and its look at the thread.
//!
//! Trace points read more than one word (the cursor, `poll`, three stubs), and a thread may see the changes to them in
//! any order. Therefore only the thread itself installs the recording stubs: a slow-path stub finds by a single word,
//! the request word, that the thread may record, and the acquire load of that word makes all changes before it visible.
//! So there is one moment from which on all events are recorded, and one from which on none is.
//!
//! Swapping the ring for another one is the same as a stop, except that the thread goes on in the replacement: there
//! is no gap.
//!
//! A thread that passes no trace point does not stop. After a while it is asked to come to a safepoint instead; see
//! `LockFree::take` in [`lock_free`](crate::handshake::lock_free).
//!
//! `models/protocols.rs` checks all this.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use fences::fence_all_threads;
pub(crate) use fences::{prepare, returned_to_managed_code};

use crate::sync::{fence, AtomicU32, Ordering};
use crate::thread::ring::Ring;
use crate::thread::taken::TakenRing;
use crate::thread::trace::{Inner, StartReason, ThreadTrace};
use crate::thread::words::{HookMode, ThreadWords};

/// The thread does not record, even if it has a cursor.
const OFF: u32 = 0;
/// The thread records, if it has a cursor.
const GO: u32 = 1;
/// The control thread wants the thread's ring.
const STOP: u32 = 2;
/// The thread is giving up its ring.
const STOPPING: u32 = 3;
/// The thread does not run managed code, and the control thread takes its ring: the thread waits on its return.
const BEING_STOPPED: u32 = 4;
/// The thread has ended.
const ENDED: u32 = 5;

/// One thread's request word, and the request that it is about. The functions take the [`ThreadTrace`] of that
/// thread.
#[derive(Debug)]
pub(crate) struct Request {
    word: AtomicU32,
    /// Only accessed while the thread's trace is locked, so this lock is never contended.
    swap: Mutex<Option<Swap>>,
}

/// A requested change of a thread's ring, and its outcome.
#[derive(Debug)]
pub(crate) struct Swap {
    /// The ring in which the thread is to go on. Given back if it was not needed.
    pub(crate) replacement: Option<Ring>,
    /// The ring that the thread had. `None` if it has ended meanwhile.
    pub(crate) taken: Option<TakenRing>,
    /// How long the thread was held, or would have been if it had come back.
    pub(crate) held: Duration,
    /// There was no fence, so the ring cannot be taken on the thread's behalf.
    by_itself_only: bool,
}

impl Request {
    /// The request word of a thread that does not record yet.
    ///
    /// # Safety
    /// The caller is the thread, or the thread does not run yet. `words` are its words, and part of the thread object
    /// that `StubTable::entry_slot` describes.
    pub(crate) unsafe fn new(words: *const ThreadWords) -> Self {
        // Stays installed except while recording, because suspend requests also take this entrypoint.
        // SAFETY: the caller guarantees that the words are valid and part of such a thread object.
        unsafe { ThreadWords::set_entry(words, HookMode::SlowPath) };
        Request {
            word: AtomicU32::new(OFF),
            swap: Mutex::new(None),
        }
    }

    fn replace(&self, old: u32, new: u32) -> bool {
        self.word
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Runs `f` on the pending swap. The caller shows by `inner` that it has locked the thread's trace.
    fn with_swap<T>(&self, _inner: &Inner, f: impl FnOnce(&mut Option<Swap>) -> T) -> T {
        f(&mut self.swap.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Makes the thread record into `ring` from one of its next trace points on, wherever it is. Gives the ring back
    /// if the thread records already, or has retired.
    ///
    /// # Safety
    /// `trace` is this thread's. Called by the control thread.
    pub(crate) unsafe fn start(&self, trace: &ThreadTrace, ring: Ring) -> Result<(), Ring> {
        let mut inner = trace.lock();
        // SAFETY: while the word is OFF, the thread does not record, and does not use the cursor: only recording stubs
        // use it without reading the word, and they are not installed.
        unsafe { trace.begin(&mut inner, ring, StartReason::Request) }?;
        // Publishes GO last: a trace point that reads it sees all changes above, and so do later trace points.
        // SAFETY: the thread has not retired, or `begin` would have failed.
        unsafe { self.ring_changed(trace, &inner) };
        Ok(())
    }

    /// Requests the thread's ring; the thread goes on in `replacement`, if there is one. False, with nothing done, if
    /// the thread does not record.
    ///
    /// Has to be followed by calls of [`poll`](Self::poll) until one returns the outcome, or by a successful
    /// [`withdraw`](Self::withdraw).
    ///
    /// # Safety
    /// As [`start`](Self::start).
    pub(crate) unsafe fn ask_for_ring(
        &self,
        trace: &ThreadTrace,
        replacement: &mut Option<Ring>,
    ) -> bool {
        {
            let inner = trace.lock();
            if !inner.has_ring() || inner.is_retired() {
                return false;
            }
            self.with_swap(&inner, |swap| {
                *swap = Some(Swap {
                    replacement: replacement.take(),
                    taken: None,
                    held: Duration::ZERO,
                    by_itself_only: false,
                });
            });
            // The word is GO: the thread has a ring, and only the control thread changes GO.
            self.word.store(STOP, Ordering::Release);
            // Dekker pair with the fence in `record_from_here`: at least one side sees the other's store. Either the
            // stubs set below replace the stubs that the thread sets there, or the thread sees STOP.
            fence(Ordering::SeqCst);
            // SAFETY: the thread has not retired, and the lock is held.
            unsafe { set_hook_mode(trace, HookMode::SlowPath) };
        }
        // Either `poll` sees that the thread is back in managed code, or the thread sees the slow-path stubs.
        if !fence_all_threads() {
            let inner = trace.lock();
            self.with_swap(&inner, |swap| {
                if let Some(swap) = swap {
                    swap.by_itself_only = true;
                }
            });
        }
        true
    }

    /// The outcome of the request, once it is known. Takes the ring on the thread's behalf if `runs_managed_code` says
    /// that the thread does not run managed code, and so is at no trace point.
    pub(crate) fn poll(
        &self,
        trace: &ThreadTrace,
        runs_managed_code: &dyn Fn(*const ThreadWords) -> bool,
    ) -> Option<Swap> {
        let mut inner = trace.lock();
        match self.word.load(Ordering::Acquire) {
            STOP => {
                let by_itself_only = self.with_swap(&inner, |swap| {
                    swap.as_ref().is_none_or(|swap| swap.by_itself_only)
                });
                if by_itself_only {
                    return None;
                }
                // The words and their thread object stay valid while the lock is held: the word is not ENDED.
                if runs_managed_code(trace.words_address()) {
                    return None;
                }
                // Makes visible what the thread recorded before it left managed code.
                fence(Ordering::Acquire);
                if !self.replace(STOP, BEING_STOPPED) {
                    return None;
                }
                self.exchange(trace, &mut inner, Instant::now());
                self.with_swap(&inner, Option::take)
            }
            STOPPING | BEING_STOPPED => None,
            _ => self.with_swap(&inner, Option::take),
        }
    }

    /// Withdraws the request, and returns the replacement that was offered; `None` if it is too late for that.
    pub(crate) fn withdraw(&self, trace: &ThreadTrace) -> Option<Option<Ring>> {
        let inner = trace.lock();
        if !self.replace(STOP, GO) {
            return None;
        }
        self.with_swap(&inner, Option::take)
            .map(|swap| swap.replacement)
    }

    /// Exchanges the ring as requested. Called by the side that won the compare-and-swap, so the thread does not
    /// record meanwhile.
    fn exchange(&self, trace: &ThreadTrace, inner: &mut Inner, since: Instant) {
        if let Some(mut swap) = self.with_swap(inner, Option::take) {
            // SAFETY: the word is STOPPING, and the caller is the thread, or it is BEING_STOPPED, and the thread waits
            // before it records.
            swap.taken = unsafe { trace.take(inner, &mut swap.replacement) };
            swap.held = since.elapsed();
            if swap.taken.is_some() {
                // SAFETY: the thread has not retired, or it would have had no ring.
                unsafe { set_hook_mode(trace, mode_of(inner)) };
            }
            self.with_swap(inner, |place| *place = Some(swap));
        }
        self.publish(inner);
    }

    /// Sets the stubs of a thread whose ring has changed, and lets it record if it has a ring.
    ///
    /// # Safety
    /// `inner` is locked from `trace`, the trace of this thread, which has not retired and does not record meanwhile.
    pub(crate) unsafe fn ring_changed(&self, trace: &ThreadTrace, inner: &Inner) {
        // SAFETY: the caller holds the lock, and guarantees that the thread has not retired.
        unsafe { set_hook_mode(trace, mode_of(inner)) };
        self.publish(inner);
    }

    /// Lets the thread record if it has a ring. Called while the thread does not record.
    pub(crate) fn publish(&self, inner: &Inner) {
        let state = match (inner.has_ring(), inner.is_retired()) {
            (_, true) => ENDED,
            (true, _) => GO,
            (false, _) => OFF,
        };
        self.word.store(state, Ordering::Release);
    }

    /// Whether the thread, which is the caller and at a trace point, may record. First gives up its ring if that is
    /// requested.
    #[inline]
    pub(crate) fn may_record(&self, trace: &ThreadTrace) -> bool {
        returned_to_managed_code();
        self.word.load(Ordering::Acquire) == GO || self.stop_or_wait(trace)
    }

    #[cold]
    fn stop_or_wait(&self, trace: &ThreadTrace) -> bool {
        loop {
            match self.word.load(Ordering::Acquire) {
                GO => return true,
                STOP => {
                    if self.replace(STOP, STOPPING) {
                        let since = Instant::now();
                        self.exchange(trace, &mut trace.lock(), since);
                    }
                }
                // The control thread holds the lock until it has published the outcome. Sleeping lets it run, however
                // low its priority is.
                BEING_STOPPED => drop(trace.lock()),
                _ => return false,
            }
        }
    }

    /// Installs the recording stubs. Called by the thread itself, which may record. False if it may no longer.
    pub(crate) fn record_from_here(&self, trace: &ThreadTrace) -> bool {
        // SAFETY: the caller is the thread, which runs managed code and so has not retired.
        unsafe { set_hook_mode(trace, HookMode::Record) };
        // Dekker pair with the fence in `ask_for_ring`.
        fence(Ordering::SeqCst);
        self.word.load(Ordering::Acquire) == GO || self.stop_or_wait(trace)
    }
}

/// The stubs of a thread whose ring has just changed.
fn mode_of(inner: &Inner) -> HookMode {
    if inner.has_ring() {
        HookMode::SlowPath
    } else {
        HookMode::Off
    }
}

/// # Safety
/// The caller is the thread, or holds the lock of its trace; the thread has not retired.
unsafe fn set_hook_mode(trace: &ThreadTrace, mode: HookMode) {
    // SAFETY: the caller guarantees that the thread has not retired, so its words are valid.
    unsafe { trace.words() }.set_hook_mode(mode);
    // Never null: with a cursor installed but the request word OFF, the entry must still check before it records.
    let entry = match mode {
        HookMode::Record => HookMode::Record,
        HookMode::Off | HookMode::SlowPath => HookMode::SlowPath,
    };
    // SAFETY: the words are valid, and `Request::new` requires them to be part of such a thread object.
    unsafe { ThreadWords::set_entry(trace.words_address(), entry) };
}

#[cfg(not(feature = "loom"))]
mod fences {
    use std::io;

    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> io::Result<()> {
        // SAFETY: membarrier takes no pointers.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Prepares the process for [`fence_all_threads`].
    ///
    /// # Errors
    /// If the kernel has no `membarrier`, or does not let this process use it. (ART's JIT uses it on Android, too.)
    pub(crate) fn prepare() -> io::Result<()> {
        membarrier(REGISTER_PRIVATE_EXPEDITED)?;
        membarrier(PRIVATE_EXPEDITED)
    }

    /// Makes every thread of the process execute a full fence, wherever it is: the caller sees all that the thread did
    /// before it, and the thread sees afterwards all that the caller did. False if the system call fails.
    pub(crate) fn fence_all_threads() -> bool {
        membarrier(PRIVATE_EXPEDITED).is_ok()
    }

    /// The thread's half of [`fence_all_threads`] in models; elsewhere the kernel executes it.
    #[inline]
    pub(crate) fn returned_to_managed_code() {}
}

/// The fences of models.
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

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    /// The state of a thread of this process, as in `/proc/PID/stat`: `R` while it runs or could run, `S` while it sleeps.
    fn state_of(tid: libc::pid_t) -> Option<char> {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.chars().next()
    }

    /// A thread with a high priority that did not sleep would keep the control thread from running.
    #[test]
    fn a_thread_that_is_being_stopped_sleeps_until_that_is_done() {
        let words = ThreadWords::new();
        // SAFETY: the words live longer than the trace.
        let trace = unsafe { ThreadTrace::new(1, 1, "waits", &words, None) };
        // SAFETY: nobody records; there are no stubs.
        let request = unsafe { Request::new(&words) };
        let inner = trace.lock();
        request.word.store(BEING_STOPPED, Ordering::Release);
        let (started, is_started) = mpsc::channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                // SAFETY: no precondition.
                started.send(unsafe { libc::gettid() }).unwrap();
                request.may_record(&trace)
            });
            let tid = is_started.recv().unwrap();
            let end = Instant::now() + Duration::from_secs(20);
            // Reading its state often takes longer than it needs to get there.
            let sleeps = std::iter::repeat_with(|| state_of(tid))
                .take_while(|_| Instant::now() < end)
                .scan(0, |in_a_row, state| {
                    *in_a_row = if state == Some('S') { *in_a_row + 1 } else { 0 };
                    Some(*in_a_row)
                })
                .any(|in_a_row| in_a_row == 1000);
            request.word.store(GO, Ordering::Release);
            drop(inner);
            assert!(waiting.join().unwrap());
            assert!(sleeps, "it does not sleep");
        });
    }
}
