// SPDX-License-Identifier: Apache-2.0
//! Stacks of a thread, taken by the thread itself.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use hindsight_trace_format::catalogue::STACK_REASONS;
use hindsight_trace_format::slot::Extension;

use crate::clock;
use crate::handshake::TracedThread;
use crate::stacks::{Again, Frame, ProcessStacks, Sampler};

/// A thread's part of the stacks.
pub(crate) struct Sampling {
    stacks: Arc<ProcessStacks>,
    is_main: bool,
    /// The control thread has asked the thread for a stack, and the thread has not answered yet.
    requested: AtomicBool,
    own: UnsafeCell<Own>,
}

/// What only the thread itself uses; or another one while it does not record, as it uses the thread's ring.
#[derive(Default)]
struct Own {
    sampler: Sampler,
    /// Where the ring's cursor was after the last stack.
    place: Option<[u64; 3]>,
}

// SAFETY: the functions of `TracedThread` below state who may use `own`: one thread at a time.
unsafe impl Sync for Sampling {}

// The data is valid between any two statements.
impl std::panic::RefUnwindSafe for Sampling {}

impl Sampling {
    pub(crate) fn new(stacks: Arc<ProcessStacks>, is_main: bool) -> Self {
        Sampling {
            stacks,
            is_main,
            requested: AtomicBool::new(false),
            own: UnsafeCell::default(),
        }
    }

    /// # Safety
    /// The caller is the thread, or the thread does not record meanwhile; nobody else has such a reference.
    #[expect(clippy::mut_from_ref, reason = "the cell's owner is one thread")]
    unsafe fn own(&self) -> &mut Own {
        // SAFETY: the caller is the only user.
        unsafe { &mut *self.own.get() }
    }
}

impl TracedThread {
    /// Makes the thread able to take stacks.
    pub(crate) fn set_sampling(&mut self, sampling: Sampling) {
        self.sampling = Some(sampling);
    }

    /// The control thread asks the thread for a stack. False if it has done so before, and the thread has not answered yet,
    /// or if the thread takes no stacks.
    pub(crate) fn request_stack(&self) -> bool {
        (self.sampling.as_ref()).is_some_and(|s| !s.requested.swap(true, Ordering::Relaxed))
    }

    /// The thread has answered the request for a stack, or could not be asked.
    pub fn stack_request_done(&self) {
        if let Some(sampling) = &self.sampling {
            sampling.requested.store(false, Ordering::Relaxed);
        }
    }

    /// Memory for the [`MAX_FRAMES`](crate::stacks::MAX_FRAMES) innermost frames of the thread, if its stack is wanted now;
    /// else null. The last stack must be older than the configured interval, unless `force` is set.
    ///
    /// # Safety
    /// Called by the thread itself. The memory is valid until its next stack, or its end.
    #[inline]
    pub unsafe fn begin_stack(&self, force: bool) -> *mut Frame {
        let Some(sampling) = &self.sampling else {
            return std::ptr::null_mut();
        };
        // SAFETY: the caller is the thread.
        let own = unsafe { sampling.own() };
        let now = clock::counter();
        let interval = sampling.stacks.interval(sampling.is_main);
        if !force && !own.sampler.is_due(now, interval) {
            return std::ptr::null_mut();
        }
        own.sampler.begin(now).as_mut_ptr()
    }

    /// Records the stack whose frames were written to [`begin_stack`](Self::begin_stack)'s memory: `count` of them,
    /// innermost first. `cut`: there were more. `reason` is an index in [`STACK_REASONS`].
    ///
    /// # Safety
    /// Called by the thread itself, which runs managed code: it is not at a safepoint.
    pub unsafe fn end_stack(&self, reason: u8, count: usize, cut: bool) {
        let Some(sampling) = &self.sampling else {
            return;
        };
        if usize::from(reason) >= STACK_REASONS.len() {
            debug_assert!(false, "no reason for a stack: {reason}");
            return;
        }
        // SAFETY: the caller is the thread.
        let own = unsafe { sampling.own() };
        // SAFETY: the caller is the thread, which has not retired.
        let undisturbed = own.place == Some(unsafe { self.trace.place() });
        let sampler = &mut own.sampler;
        let record = (sampling.stacks).finish(sampler, count, cut, reason, undisturbed);
        if let Some(again) = record.again {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.record_again(&sampling.stacks, again) };
        }
        let Some(sample) = record.sample else {
            return;
        };
        let payload = [
            u64::from(sample.node) | u64::from(sample.generation) << 32,
            u64::from(sample.reason) | u64::from(sample.cut) << 8,
        ];
        // SAFETY: the caller is the thread, which may record.
        unsafe { self.record_event(Extension::Stack.number(), &payload) };
        // SAFETY: the caller is the thread, which has not retired.
        own.place = Some(unsafe { self.trace.place() });
    }

    /// Records the equal stacks that were found since the last one was recorded. The ring is about to be taken.
    ///
    /// # Safety
    /// The caller holds the lock of the thread's trace. It is the thread, or the thread does not record meanwhile.
    pub(crate) unsafe fn flush_stacks(&self) {
        let Some(sampling) = &self.sampling else {
            return;
        };
        // SAFETY: the caller is the thread, or the thread does not record meanwhile.
        let own = unsafe { sampling.own() };
        own.place = None;
        if let Some(again) = own.sampler.flush() {
            // SAFETY: the caller fulfils the same conditions.
            unsafe { self.record_again(&sampling.stacks, again) };
        }
    }

    /// # Safety
    /// As [`ThreadTrace::record_event`](crate::thread::trace::ThreadTrace::record_event).
    unsafe fn record_again(&self, stacks: &ProcessStacks, again: Again) {
        let payload = [again.times, stacks.ns_since(again.last)];
        // SAFETY: the caller fulfils the same conditions.
        unsafe {
            self.trace
                .record_event(Extension::StackAgain.number(), &payload)
        };
    }
}
