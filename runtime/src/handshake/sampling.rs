// SPDX-License-Identifier: Apache-2.0
//! Stacks of a thread, taken by the thread itself.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

use hindsight_trace_format::catalogue::STACK_REASONS;
use hindsight_trace_format::slot::Extension;

use crate::clock;
use crate::stacks::{Again, Frame, ProcessStacks, Sampler};
use crate::thread::trace::ThreadTrace;

/// The index in [`STACK_REASONS`] of the one after which the thread does not run.
const WAIT_BEGINS: u8 = 0;

/// No stack was asked for.
const NOT_ASKED: u8 = u8::MAX;

/// A thread's part of the stacks.
pub(crate) struct Sampling {
    stacks: Arc<ProcessStacks>,
    is_main: bool,
    /// The control thread has asked the thread for a stack, and the thread has not answered yet.
    requested: AtomicBool,
    /// The thread has taken a stack since the control thread last wanted to ask it.
    has_taken: AtomicBool,
    /// The reason of the thread's next stack, which is taken whenever the last one was; or `NOT_ASKED`. The thread itself
    /// asks, in any state.
    asked: AtomicU8,
    own: UnsafeCell<Own>,
}

/// What only the thread itself uses; or another one while it does not record, as it uses the thread's ring.
#[derive(Default)]
struct Own {
    sampler: Sampler,
    /// Where the ring's cursor was after the last stack.
    place: Option<[u64; 3]>,
}

// SAFETY: the functions below state who may use `own`: one thread at a time.
unsafe impl Sync for Sampling {}

// The data is valid between any two statements.
impl std::panic::RefUnwindSafe for Sampling {}

impl Sampling {
    pub(crate) fn new(stacks: Arc<ProcessStacks>, is_main: bool) -> Self {
        Sampling {
            stacks,
            is_main,
            requested: AtomicBool::new(false),
            has_taken: AtomicBool::new(false),
            asked: AtomicU8::new(NOT_ASKED),
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

impl Sampling {
    /// The control thread asks the thread for a stack. False if the thread has taken one since the last call, or has not
    /// answered an earlier request yet.
    pub(crate) fn request(&self) -> bool {
        !self.has_taken.swap(false, Ordering::Relaxed)
            && !self.requested.swap(true, Ordering::Relaxed)
    }

    /// The thread has answered the request for a stack, or could not be asked.
    pub(crate) fn request_done(&self) {
        self.requested.store(false, Ordering::Relaxed);
    }

    /// The thread asks for its next stack, where it cannot be walked: it is taken whenever the last one was, for this
    /// reason, or an earlier one for which none was taken yet. False without `force`, if the last one is not old enough.
    ///
    /// # Safety
    /// Called by the thread itself; without `force`, in a state in which it may record.
    #[inline]
    pub(crate) unsafe fn ask(&self, reason: u8, force: bool) -> bool {
        if self.asked.load(Ordering::Relaxed) != NOT_ASKED {
            return true;
        }
        if !force {
            let interval = self.stacks.interval(self.is_main);
            // SAFETY: the caller is the thread, which may record.
            let own = unsafe { self.own() };
            if !own.sampler.is_due(clock::counter(), interval) {
                return false;
            }
        }
        self.asked.store(reason, Ordering::Relaxed);
        true
    }

    /// Memory for the thread's frames, if its stack is wanted now; else null.
    ///
    /// # Safety
    /// Called by the thread itself. The memory is valid until its next stack, or its end.
    #[inline]
    pub(crate) unsafe fn begin(&self, force: bool) -> *mut Frame {
        // SAFETY: the caller is the thread.
        let own = unsafe { self.own() };
        let now = clock::counter();
        let force = force || self.asked.load(Ordering::Relaxed) != NOT_ASKED;
        if !force && !own.sampler.is_due(now, self.stacks.interval(self.is_main)) {
            return std::ptr::null_mut();
        }
        own.sampler.begin(now).as_mut_ptr()
    }

    /// Records the stack whose frames were written to [`begin`](Self::begin)'s memory.
    ///
    /// # Safety
    /// Called by the thread itself, which may record; `trace` is its trace.
    pub(crate) unsafe fn end(&self, trace: &ThreadTrace, reason: u8, count: usize, cut: bool) {
        let reason = match self.asked.swap(NOT_ASKED, Ordering::Relaxed) {
            NOT_ASKED => reason,
            asked => asked,
        };
        if usize::from(reason) >= STACK_REASONS.len() {
            debug_assert!(false, "no reason for a stack: {reason}");
            return;
        }
        self.has_taken.store(true, Ordering::Relaxed);
        // SAFETY: the caller is the thread.
        let own = unsafe { self.own() };
        if reason != WAIT_BEGINS {
            self.stacks.quiet().disturb(own.sampler.taken());
        }
        // SAFETY: the caller is the thread, which has not retired.
        let undisturbed = own.place == Some(unsafe { trace.place() });
        let sampler = &mut own.sampler;
        let record = (self.stacks).finish(sampler, count, cut, reason, undisturbed);
        if let Some(again) = record.again {
            // SAFETY: the caller is the thread, which may record.
            unsafe { self.record_again(trace, again) };
        }
        let Some(sample) = record.sample else {
            return;
        };
        let payload = [
            u64::from(sample.node) | u64::from(sample.generation) << 32,
            u64::from(sample.reason) | u64::from(sample.cut) << 8,
        ];
        // SAFETY: the caller is the thread, which may record.
        unsafe { trace.record_event(Extension::Stack.number(), &payload) };
        // SAFETY: the caller is the thread, which has not retired.
        own.place = Some(unsafe { trace.place() });
    }

    /// Records the equal stacks that were found since the last one was recorded. The ring is about to be taken.
    ///
    /// # Safety
    /// The caller holds the lock of `trace`, which is the thread's. It is the thread, or the thread does not record
    /// meanwhile.
    pub(crate) unsafe fn flush(&self, trace: &ThreadTrace) {
        // SAFETY: the caller is the thread, or the thread does not record meanwhile.
        let own = unsafe { self.own() };
        own.place = None;
        if let Some(again) = own.sampler.flush() {
            // SAFETY: the caller holds the lock of `trace`, and the thread does not record meanwhile or is the caller.
            unsafe { self.record_again(trace, again) };
        }
    }

    /// # Safety
    /// As [`ThreadTrace::record_event`].
    unsafe fn record_again(&self, trace: &ThreadTrace, again: Again) {
        let payload = [again.times, self.stacks.ns_since(again.last)];
        // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
        unsafe { trace.record_event(Extension::StackAgain.number(), &payload) };
    }
}
