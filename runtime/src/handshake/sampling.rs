// SPDX-License-Identifier: Apache-2.0
//! Stacks of a thread, taken by the thread itself.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

use hindsight_trace_format::catalogue::{STACK_NODE_BITS, STACK_REASONS};
use hindsight_trace_format::slot::Extension;

use crate::clock;
use crate::config;
use crate::stacks::{Again, Frame, ProcessStacks, Sample, Sampler, Spacing};
use crate::thread::trace::ThreadTrace;

/// The index in [`STACK_REASONS`] of the one after which the thread does not run.
const WAIT_BEGINS: u8 = 0;

/// The index of the one that a thread asks for where it allocates.
const ALLOCATION: u8 = 2;

/// The index of the one that the control thread asks for.
const CHECKPOINT: u8 = 6;

/// No stack was asked for.
const NOT_ASKED: u8 = u8::MAX;

/// A thread's part of the stacks.
pub(crate) struct Sampling {
    stacks: Arc<ProcessStacks>,
    is_main: bool,
    /// The control thread has asked the thread for a stack, and the thread has not answered yet.
    requested: AtomicBool,
    /// The thread has taken a stack of its own accord since the control thread last wanted to ask it.
    has_taken: AtomicBool,
    /// The thread has asked for a stack, for this reason; or `NOT_ASKED`. Its next stack is taken whenever the last one was.
    /// The thread itself asks, in any state.
    asked: AtomicU8,
    /// The thread will take the stack that it has asked for at its next safepoint, if it takes none until then.
    is_coming: AtomicBool,
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
            is_coming: AtomicBool::new(false),
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

/// The payload of [`Extension::PackedStack`].
fn pack(sample: Sample) -> u64 {
    u64::from(sample.node)
        | u64::from(sample.generation) << 24
        | u64::from(sample.reason) << 56
        | u64::from(sample.cut) << 63
}

// The largest table has fewer nodes in a generation, and the reasons fit.
const _: () = assert!(
    config::MAX_STACK_TABLE_BYTES / 16 <= 1 << STACK_NODE_BITS && STACK_REASONS.len() <= 1 << 7
);

impl Sampling {
    /// The control thread asks the thread for a stack. False if the thread has not answered an earlier request yet, or, unless
    /// `always`, has taken a stack of its own accord since the last call.
    pub(crate) fn request(&self, always: bool) -> bool {
        let has_taken = self.has_taken.swap(false, Ordering::Relaxed);
        (always || !has_taken) && !self.requested.swap(true, Ordering::Relaxed)
    }

    /// Whether the thread has not answered a request yet.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The thread has answered the request for a stack, or could not be asked.
    pub(crate) fn request_done(&self) {
        self.requested.store(false, Ordering::Relaxed);
    }

    /// The thread asks for a stack where it cannot be walked: its next one is taken whenever the last one was. False if it is
    /// coming already, or, without `force`, if the last one is not old enough.
    ///
    /// # Safety
    /// Called by the thread itself; without `force`, in a state in which it may record.
    #[inline]
    pub(crate) unsafe fn ask(&self, reason: u8, force: bool) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != NOT_ASKED {
            let is_coming = self.is_coming.load(Ordering::Relaxed);
            // A thread that waits for the collector allocates then: it is at the same place.
            if !is_coming && reason != ALLOCATION {
                self.asked.store(reason, Ordering::Relaxed);
            }
            return !is_coming;
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
        !self.is_coming.load(Ordering::Relaxed)
    }

    /// The thread will call [`take_asked`](Self::take_asked) at its next safepoint.
    pub(crate) fn set_coming(&self) {
        self.is_coming.store(true, Ordering::Relaxed);
    }

    /// The thread is at a safepoint: the reason of the stack that it has asked for. `None` if it has taken a stack since.
    pub(crate) fn take_asked(&self) -> Option<u8> {
        self.is_coming.store(false, Ordering::Relaxed);
        let asked = self.asked.swap(NOT_ASKED, Ordering::Relaxed);
        (asked != NOT_ASKED).then_some(asked)
    }

    /// Memory for the thread's frames, if its stack is wanted now; else null.
    ///
    /// # Safety
    /// Called by the thread itself. The memory is valid until its next stack, or its end.
    #[inline]
    pub(crate) unsafe fn begin(&self, spacing: Spacing) -> *mut Frame {
        // SAFETY: the caller is the thread.
        let own = unsafe { self.own() };
        let now = clock::counter();
        let interval = self.stacks.interval(self.is_main);
        let is_due = match spacing {
            _ if self.asked.load(Ordering::Relaxed) != NOT_ASKED => true,
            Spacing::Interval => own.sampler.is_due(now, interval),
            Spacing::Eighth => own.sampler.is_due(now, interval / 8),
            Spacing::None => true,
        };
        if !is_due {
            // The thread runs, also if it takes no stack.
            self.stacks.quiet().disturb(now);
            return std::ptr::null_mut();
        }
        own.sampler.begin(now).as_mut_ptr()
    }

    /// Records the stack whose frames were written to [`begin`](Self::begin)'s memory.
    ///
    /// # Safety
    /// Called by the thread itself, which may record; `trace` is its trace.
    pub(crate) unsafe fn end(&self, trace: &ThreadTrace, reason: u8, count: usize, cut: bool) {
        // This one takes the place of one that was asked for. Other things may have happened since: it has its own reason.
        self.asked.store(NOT_ASKED, Ordering::Relaxed);
        if usize::from(reason) >= STACK_REASONS.len() {
            debug_assert!(false, "no reason for a stack: {reason}");
            return;
        }
        // The stack that answers a request is no reason against the next request.
        if reason != CHECKPOINT {
            self.has_taken.store(true, Ordering::Relaxed);
        }
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
        // SAFETY: the caller is the thread, which may record.
        unsafe { trace.record_event(Extension::PackedStack.number(), &[pack(sample)]) };
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
