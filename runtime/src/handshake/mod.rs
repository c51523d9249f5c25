// SPDX-License-Identifier: Apache-2.0
//! How the control thread and a traced thread agree on a change of the thread's ring.
//!
//! Either the thread is at a safepoint meanwhile ([`checkpoint`]), or it reads a request word before it records
//! (`lock_free`, a feature of builds for the lab). Both are a [`Handshake`]; a [`TracedThread`] is the thread's side
//! of both.

pub(crate) mod checkpoint;
#[cfg(feature = "lock-free")]
pub(crate) mod lock_free;
#[cfg(feature = "lock-free")]
pub(crate) mod request;
pub(crate) mod sampling;

use std::sync::Arc;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::slot::Extension;

use crate::detectors::ThreadWatch;
use crate::fork;
use crate::histogram::Histogram;
use crate::thread::ring::Ring;
use crate::thread::spool::Spool;
use crate::thread::taken::TakenRing;
use crate::thread::trace::{Inner, StartReason, ThreadTrace};
use crate::thread::words::{HookMode, ThreadWords};

use crate::stacks::{Frame, Spacing};
#[cfg(feature = "lock-free")]
use request::Request;
use sampling::Sampling;

/// The control thread's side of a stop protocol.
pub(crate) trait Handshake {
    /// The protocol in use now, by its name in the configuration.
    fn name(&self) -> &'static str;
    /// Gives the thread a ring to record into. The ring is given back if the thread has one already, or has ended.
    fn begin(&mut self, thread: &TracedThread, ring: Ring) -> Result<(), Ring>;
    /// Takes the thread's ring. With a `replacement` the thread goes on in that; without one it stops recording.
    /// `None`, with the replacement left in place, if the thread does not record.
    fn take(&mut self, thread: &TracedThread, replacement: &mut Option<Ring>) -> Option<TakenRing>;
    /// The costs of all handshakes so far.
    fn costs(&self) -> &Costs;
}

/// The costs of handshakes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    /// How long a thread was held for a change of its ring, ns.
    pub(crate) held: Histogram,
    /// Time from a request to its completion, ns.
    pub(crate) waited: Histogram,
    /// Requests by the lock-free protocol that were completed at a safepoint, because the thread passed no trace
    /// point in time.
    pub(crate) fallbacks: u64,
}

/// A thread that is registered with the managed runtime.
///
/// The `record_` functions, [`trace_point`](Self::trace_point), [`wrap`](Self::wrap) and
/// [`is_at_guard`](Self::is_at_guard) are called by the thread itself.
pub struct TracedThread {
    trace: ThreadTrace,
    /// `None` if the thread's ring only changes at safepoints.
    #[cfg(feature = "lock-free")]
    request: Option<Request>,
    /// `None` if the thread takes no stacks.
    sampling: Option<Sampling>,
    /// `None`: no detector looks at its events.
    watch: Option<ThreadWatch>,
}

impl TracedThread {
    /// A registered thread, not traced yet, whose ring only changes at safepoints.
    ///
    /// # Safety
    /// `words` are the aligned words that the thread's trace points use, and stay valid until
    /// [`retire`](Self::retire).
    pub unsafe fn new(tid: u32, name: &str, words: *const ThreadWords) -> Self {
        // SAFETY: the caller guarantees that `words` are aligned and valid until the thread retires.
        unsafe { Self::new_in_process(tid, 0, name, words, None) }
    }

    /// As [`new`](Self::new): `number` is unique among the threads of the process (0: not known), and `spool` takes the
    /// full rings of the thread while it records events only.
    ///
    /// # Safety
    /// As [`new`](Self::new).
    pub(crate) unsafe fn new_in_process(
        tid: u32,
        number: u64,
        name: &str,
        words: *const ThreadWords,
        spool: Option<Arc<Spool>>,
    ) -> Self {
        TracedThread {
            // SAFETY: the caller guarantees that `words` are aligned and valid until the thread retires.
            trace: unsafe { ThreadTrace::new(tid, number, name, words, spool) },
            #[cfg(feature = "lock-free")]
            request: None,
            sampling: None,
            watch: None,
        }
    }

    /// A registered thread, not traced yet, whose ring changes by the lock-free protocol.
    ///
    /// # Safety
    /// As [`new`](Self::new). Besides, the caller is the thread, or the thread does not run yet; and its words are part
    /// of the thread object that [`StubTable::entry_slot`](crate::StubTable::entry_slot) describes.
    #[cfg(feature = "lock-free")]
    pub(crate) unsafe fn new_lock_free(
        tid: u32,
        number: u64,
        name: &str,
        words: *const ThreadWords,
    ) -> Self {
        TracedThread {
            // SAFETY: the caller guarantees that `words` are aligned and valid until the thread retires.
            trace: unsafe { ThreadTrace::new(tid, number, name, words, None) },
            // SAFETY: the caller is the thread or starts it, and guarantees that `words` are part of its thread object.
            request: Some(unsafe { Request::new(words) }),
            sampling: None,
            watch: None,
        }
    }

    /// Makes the thread able to take stacks.
    pub(crate) fn set_sampling(&mut self, sampling: Sampling) {
        self.sampling = Some(sampling);
    }

    /// Lets the detectors look at the thread's events.
    pub(crate) fn set_watch(&mut self, watch: ThreadWatch) {
        self.watch = Some(watch);
    }

    /// The control thread asks the thread for a stack. False if it has done so before, and the thread has not answered yet, if
    /// the thread takes no stacks, or, unless `always`, if it has taken one of its own accord since the last call.
    pub(crate) fn request_stack(&self, always: bool) -> bool {
        self.sampling.as_ref().is_some_and(|s| s.request(always))
    }

    /// Whether the thread has not answered the control thread yet.
    pub(crate) fn is_stack_requested(&self) -> bool {
        self.sampling.as_ref().is_some_and(Sampling::is_requested)
    }

    /// The thread has answered the request for a stack, or could not be asked.
    pub fn stack_request_done(&self) {
        if let Some(sampling) = &self.sampling {
            sampling.request_done();
        }
    }

    /// The thread asks for a stack where it cannot be walked: its next one is taken whenever the last one was. False if none is
    /// wanted, because one is coming or, without `force`, the last one is not older than the configured interval.
    ///
    /// # Safety
    /// Called by the thread itself; without `force`, in a state in which it may record.
    #[inline]
    pub unsafe fn ask_for_stack(&self, reason: u8, force: bool) -> bool {
        match &self.sampling {
            _ if fork::is_child() => false,
            // SAFETY: the caller fulfils the same conditions.
            Some(sampling) => unsafe { sampling.ask(reason, force) },
            None => false,
        }
    }

    /// The thread, which has asked for a stack, will call [`stack_asked_for`](Self::stack_asked_for) at its next safepoint.
    pub fn stack_is_coming(&self) {
        if let Some(sampling) = &self.sampling {
            sampling.set_coming();
        }
    }

    /// The reason of the stack that the thread has asked for; `None` if it has taken a stack since. It is not asked for any
    /// more.
    pub fn stack_asked_for(&self) -> Option<u8> {
        self.sampling.as_ref().and_then(Sampling::take_asked)
    }

    /// Memory for the [`MAX_FRAMES`](crate::stacks::MAX_FRAMES) innermost frames of the thread, if its stack is wanted now;
    /// else null. The last stack must be as old as `spacing` says.
    ///
    /// # Safety
    /// Called by the thread itself. The memory is valid until its next stack, or its end.
    #[inline]
    pub unsafe fn begin_stack(&self, spacing: Spacing) -> *mut Frame {
        match &self.sampling {
            _ if fork::is_child() => std::ptr::null_mut(),
            // SAFETY: the caller is the thread.
            Some(sampling) => unsafe { sampling.begin(spacing) },
            None => std::ptr::null_mut(),
        }
    }

    /// Records the stack whose frames were written to [`begin_stack`](Self::begin_stack)'s memory: `count` of them, innermost
    /// first. `cut`: there were more. `reason` is an index in
    /// [`STACK_REASONS`](hindsight_trace_format::catalogue::STACK_REASONS).
    ///
    /// # Safety
    /// Called by the thread itself, which runs managed code: it is not at a safepoint.
    pub unsafe fn end_stack(&self, reason: u8, count: usize, cut: bool) {
        if let Some(sampling) = self.sampling.as_ref().filter(|_| self.may_record()) {
            // SAFETY: the caller is the thread, which may record.
            unsafe { sampling.end(&self.trace, reason, count, cut) }
        }
    }

    /// # Safety
    /// The caller holds the lock of the thread's trace. It is the thread, or the thread does not record meanwhile.
    unsafe fn flush_stacks(&self) {
        if let Some(sampling) = &self.sampling {
            // SAFETY: the caller holds the lock of `trace`, and the thread does not record meanwhile or is the caller.
            unsafe { sampling.flush(&self.trace) }
        }
    }

    /// The thread's trace.
    pub(crate) fn trace(&self) -> &ThreadTrace {
        &self.trace
    }

    /// The thread's request word, if its ring changes by the lock-free protocol.
    #[cfg(feature = "lock-free")]
    pub(crate) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// Starts recording into `ring`, with an event that says so. Gives the ring back if the thread already records,
    /// or has retired.
    ///
    /// # Safety
    /// The thread is at a safepoint, or is the caller.
    pub unsafe fn begin(&self, ring: Ring, reason: StartReason) -> Result<(), Ring> {
        let mut inner = self.trace.lock();
        // SAFETY: the caller guarantees that the thread does not record.
        unsafe { self.trace.begin(&mut inner, ring, reason) }?;
        // SAFETY: the thread has not retired, or `begin` would have failed.
        unsafe { self.ring_changed(&inner) };
        Ok(())
    }

    /// Takes the ring. With a `replacement`, recording continues in it without a gap. Without one, recording stops,
    /// and the ring's last event says so. `None`, with the replacement left in place, if the thread does not record.
    ///
    /// # Safety
    /// The thread is at a safepoint, or is the caller.
    pub unsafe fn take(&self, replacement: &mut Option<Ring>) -> Option<TakenRing> {
        let mut inner = self.trace.lock();
        // SAFETY: the caller guarantees that the thread does not record.
        unsafe { self.trace.make_room_for_last(&mut inner) };
        // SAFETY: the lock is held, and the caller guarantees that the thread does not record.
        unsafe { self.flush_stacks() };
        // SAFETY: the caller guarantees that the thread does not record.
        let taken = unsafe { self.trace.take(&mut inner, replacement) }?;
        // SAFETY: the thread has not retired, or it would have had no ring.
        unsafe { self.ring_changed(&inner) };
        Some(taken)
    }

    /// Takes the ring of the thread, which records no more, and whose words are about to become invalid.
    ///
    /// # Safety
    /// Called by the thread itself.
    pub unsafe fn retire(&self) -> Option<TakenRing> {
        let mut inner = self.trace.lock();
        // SAFETY: the caller is the thread.
        unsafe { self.trace.make_room_for_last(&mut inner) };
        // SAFETY: the caller is the thread.
        unsafe { self.flush_stacks() };
        // SAFETY: the caller is the thread.
        let taken = unsafe { self.trace.take(&mut inner, &mut None) };
        if taken.is_some() {
            // SAFETY: the thread has not retired, or it would have had no ring.
            unsafe { self.ring_changed(&inner) };
        }
        self.trace.retire(&mut inner);
        #[cfg(feature = "lock-free")]
        if let Some(request) = &self.request {
            request.publish(&inner);
        }
        taken
    }

    /// Sets the stubs and, with the lock-free protocol, the request word, as fits a thread with or without a ring.
    ///
    /// # Safety
    /// `inner` belongs to this thread, which has not retired and does not record meanwhile.
    unsafe fn ring_changed(&self, inner: &Inner) {
        #[cfg(feature = "lock-free")]
        if let Some(request) = &self.request {
            // SAFETY: the caller guarantees that the thread has not retired and does not record meanwhile.
            return unsafe { request.ring_changed(&self.trace, inner) };
        }
        let mode = match inner.mode() {
            Some(RingMode::Calls) => HookMode::Record,
            Some(RingMode::Events) | None => HookMode::Off,
        };
        // SAFETY: the lock is held, and the caller guarantees that the thread has not retired.
        unsafe { self.trace.words() }.set_hook_mode(mode);
    }

    /// Whether the thread, which is the caller and at a trace point, may record. First gives up its ring if the
    /// control thread has requested that. False in a forked child.
    #[inline]
    fn may_record(&self) -> bool {
        if fork::is_child() {
            return false;
        }
        #[cfg(feature = "lock-free")]
        if let Some(request) = &self.request {
            return request.may_record(&self.trace);
        }
        true
    }

    /// A compiled trace point that calls its slow-path stub: the entry of `method`, or an exit if that is 0.
    ///
    /// # Safety
    /// Called by the thread itself, in managed code.
    pub unsafe fn trace_point(&self, method: u64) {
        if !self.may_record() {
            return;
        }
        #[cfg(feature = "lock-free")]
        if let Some(request) = &self.request {
            if !request.record_from_here(&self.trace) {
                return;
            }
        }
        // SAFETY: the caller is the thread, which may record.
        unsafe {
            match method {
                0 => self.trace.record_exit(),
                _ => self.trace.record_entry(method),
            }
        }
    }

    /// Records the entry of the method at this address: one slot, or two above 4 GiB.
    ///
    /// # Safety
    /// Called by the thread itself, in managed code.
    pub unsafe fn record_entry(&self, method: u64) {
        if self.may_record() {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.trace.record_entry(method) }
        }
    }

    /// Records a method exit, or takes the call back: see [`Config::rewind`](crate::Config::rewind).
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_exit(&self) {
        if self.may_record() {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.trace.record_exit() }
        }
    }

    /// Records that an exception left this number of traced frames, without those that it takes back.
    ///
    /// # Safety
    /// As [`record_entry`](Self::record_entry).
    pub unsafe fn record_unwound(&self, frames: u64) {
        if self.may_record() {
            // SAFETY: the caller is the thread, which may record.
            unsafe {
                self.trace
                    .record_event(Extension::Unwound.number(), &[frames])
            }
        }
    }

    /// Records an event of the catalogue (`hindsight_trace_format::catalogue`), into whichever ring the thread has. Does
    /// nothing if the payload is not as long as the number says, or if the thread has no ring.
    ///
    /// # Safety
    /// Called by the thread itself, which runs managed code: it is not at a safepoint.
    pub unsafe fn record_event(&self, number: u32, payload: &[u64]) {
        if self.may_record() {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.trace.record_event(number, payload) }
            if let Some(watch) = &self.watch {
                watch.event(number, payload);
            }
        }
    }

    /// Records the CPU time, allocations, page faults and context switches of the thread, unless it did so less than a
    /// millisecond ago. `objects` and `bytes` are what it has allocated so far.
    ///
    /// # Safety
    /// As [`record_event`](Self::record_event).
    pub unsafe fn record_resources(&self, objects: u64, bytes: u64) {
        if self.may_record() {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.trace.record_resources(objects, bytes) }
            if let Some(watch) = &self.watch {
                watch.allocated(bytes);
            }
        }
    }

    /// As [`record_event`](Self::record_event), for a thread in native code or in a wait: its ring may be changed at the same
    /// time, so this takes a lock.
    ///
    /// # Safety
    /// Called by the thread itself.
    pub unsafe fn record_event_suspended(&self, number: u32, payload: &[u64]) {
        #[cfg(feature = "lock-free")]
        if self.request.is_some() {
            // Only the request word says whether the thread may record.
            return;
        }
        if fork::is_child() {
            return;
        }
        // SAFETY: the caller is the thread, which does not hold the lock.
        unsafe { self.trace.record_event_suspended(number, payload) }
        if let Some(watch) = &self.watch {
            watch.event(number, payload);
        }
    }

    /// Whether a fault at this address, with `cursor` in the cursor register, is a store onto this thread's guard
    /// page. Async-signal-safe.
    pub fn is_at_guard(&self, fault_address: usize, cursor: usize) -> bool {
        self.trace.is_at_guard(fault_address, cursor)
    }

    /// For the fault handler: if a trace point with `cursor` in its cursor register ran onto this thread's guard
    /// page, counts the lap and returns the address at which to go on. Async-signal-safe.
    pub fn wrap(&self, fault_address: usize, cursor: usize) -> Option<usize> {
        self.trace.wrap(fault_address, cursor)
    }
}
