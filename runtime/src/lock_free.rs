// SPDX-License-Identifier: Apache-2.0
//! Starting and stopping a thread without bringing it to a safepoint: the published protocol, which ours
//! is compared with.
//!
//! Each trace point reads two words, the cursor and whether it should stop. A thread that runs managed
//! code stops itself at its next trace point; one that is in native code may not come to one for long, so
//! whoever wants it to stop does it on its behalf, and the thread, on its return, waits for that to be
//! over. That takes a full fence at each return from native code.
//!
//! With checkpoints (see [`crate::ThreadTrace`]) a trace point reads one word and native code costs
//! nothing. This protocol needs no help from the managed runtime for threads that run, but one that
//! computes without calling a method does not stop.
//!
//! It is checked by `model`, and measured by `examples/stop_protocols.rs`. Nothing in ART uses it.

use hindsight_trace_format::ring::{Position, CURSOR_OFF};

use crate::ring::{write_slot, Ring, SLOT_STRIDE};
use crate::sync::{fence, spin, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Nobody wants the thread to stop: it records if it has a cursor.
const GO: u32 = 0;
/// The thread shall stop.
const STOP: u32 = 1;
/// The thread is stopping itself.
const STOPPING: u32 = 5;
/// The thread has stopped by itself.
const STOPPED: u32 = 2;
/// The thread is in native code, and is being stopped on its behalf: it has to wait on its return.
const BEING_STOPPED: u32 = 3;
/// The thread has ended.
const ENDED: u32 = 4;

const MANAGED: u32 = 0;
const NATIVE: u32 = 1;

/// Bits of [`LockFreeTrace::stood_at`] that are the offset in slots; the others are laps.
const OFFSET_BITS: u32 = 32;
/// It did not record.
const NEVER: u64 = u64::MAX;

/// What one thread and whoever starts and stops it share. There is one of the latter at a time.
#[derive(Debug, Default)]
pub struct LockFreeTrace {
    /// Address of the next slot; 0 while the thread does not record. Written by the thread while it is not
    /// 0, unless it is in native code.
    cursor: AtomicUsize,
    state: AtomicU32,
    place: AtomicU32,
    base: AtomicUsize,
    end: AtomicUsize,
    laps: AtomicU64,
    /// Where the ring stood when the thread stopped itself.
    stood_at: AtomicU64,
}

impl LockFreeTrace {
    /// A thread that runs managed code and does not record.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the thread record into `ring`. It sees that at one of its next trace points. False if it has
    /// ended.
    ///
    /// # Safety
    /// The thread does not record, and nobody else starts or stops it. The ring lives until
    /// [`stop`](Self::stop) has returned, or the thread has ended.
    pub unsafe fn start(&self, ring: &Ring) -> bool {
        if self.state.load(Ordering::Acquire) != GO {
            return false;
        }
        self.base.store(ring.base(), Ordering::Relaxed);
        self.end.store(ring.end(), Ordering::Relaxed);
        self.laps.store(0, Ordering::Relaxed);
        self.stood_at.store(NEVER, Ordering::Relaxed);
        // The thread does not write its cursor while that is 0.
        self.cursor.store(ring.base(), Ordering::Release);
        true
    }

    /// Stops the thread, and waits for it. Returns where its ring stands, and that nobody writes to any
    /// more; `None` if it had not begun to record.
    ///
    /// # Safety
    /// Nobody else starts or stops the thread.
    pub unsafe fn stop(&self) -> Option<Position> {
        // Fails if the thread has ended.
        let _ = self
            .state
            .compare_exchange(GO, STOP, Ordering::Release, Ordering::Relaxed);
        // Either this thread sees that the other one is back from native code, or that one sees STOP.
        fence(Ordering::SeqCst);
        loop {
            match self.state.load(Ordering::Acquire) {
                STOPPED => {
                    let position = self.stood_at();
                    // Fails if the thread has ended meanwhile.
                    let _ = self.state.compare_exchange(
                        STOPPED,
                        GO,
                        Ordering::Release,
                        Ordering::Relaxed,
                    );
                    return position;
                }
                ENDED => return self.stood_at(),
                _ if self.place.load(Ordering::Acquire) == NATIVE => {
                    let ours = self.state.compare_exchange(
                        STOP,
                        BEING_STOPPED,
                        Ordering::Acquire,
                        Ordering::Relaxed,
                    );
                    if ours.is_ok() {
                        self.end_recording();
                        let position = self.stood_at();
                        self.state.store(GO, Ordering::Release);
                        return position;
                    }
                    spin();
                }
                _ => spin(),
            }
        }
    }

    /// Notes where the ring stands, and sets the cursor to 0. Called by the thread, or on its behalf.
    fn end_recording(&self) {
        // Pairs with the store in `start`, whose ring may be new to the thread.
        let cursor = self.cursor.load(Ordering::Acquire);
        if cursor as u64 == CURSOR_OFF {
            return;
        }
        let offset = (cursor - self.base.load(Ordering::Relaxed)) / SLOT_STRIDE;
        let position = self.laps.load(Ordering::Relaxed) << OFFSET_BITS | offset as u64;
        self.stood_at.store(position, Ordering::Relaxed);
        self.cursor.store(CURSOR_OFF as usize, Ordering::Relaxed);
    }

    fn stood_at(&self) -> Option<Position> {
        let position = self.stood_at.load(Ordering::Relaxed);
        (position != NEVER).then_some(Position {
            laps: position >> OFFSET_BITS,
            offset: (position & ((1 << OFFSET_BITS) - 1)) * 8,
        })
    }

    /// A trace point.
    ///
    /// # Safety
    /// Called by the thread itself, in managed code.
    #[inline]
    pub unsafe fn record(&self, slot: impl FnOnce() -> u64) {
        // Compiled code has a plain load, and a guard page instead of the test for the end.
        let mut at = self.cursor.load(Ordering::Acquire);
        if at as u64 == CURSOR_OFF {
            return;
        }
        if self.state.load(Ordering::Relaxed) != GO && self.stop_here() {
            return;
        }
        let slot = slot();
        if at == self.end.load(Ordering::Relaxed) {
            self.laps
                .store(self.laps.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            at = self.base.load(Ordering::Relaxed);
        }
        // SAFETY: a slot of the ring, which is the thread's as long as it has a cursor.
        unsafe { write_slot(at, slot) };
        self.cursor.store(at + SLOT_STRIDE, Ordering::Relaxed);
    }

    /// The thread stops itself, if that is still wanted.
    #[cold]
    fn stop_here(&self) -> bool {
        let ours = self
            .state
            .compare_exchange(STOP, STOPPING, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if ours {
            self.end_recording();
            self.state.store(STOPPED, Ordering::Release);
        }
        ours
    }

    /// The thread is about to run native code, and will pass no trace point until
    /// [`leave_native`](Self::leave_native).
    #[inline]
    pub fn enter_native(&self) {
        self.place.store(NATIVE, Ordering::Release);
    }

    /// The thread is back.
    #[inline]
    pub fn leave_native(&self) {
        self.place.store(MANAGED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.state.load(Ordering::Acquire) != GO {
            self.wait_or_stop();
        }
    }

    #[cold]
    fn wait_or_stop(&self) {
        loop {
            match self.state.load(Ordering::Acquire) {
                BEING_STOPPED => spin(),
                STOP => {
                    self.stop_here();
                }
                _ => return,
            }
        }
    }

    /// The thread will record no more. Called by itself, in managed code.
    pub fn retire(&self) {
        self.end_recording();
        let before = self.state.swap(ENDED, Ordering::AcqRel);
        debug_assert_ne!(before, BEING_STOPPED, "only in native code");
    }
}
