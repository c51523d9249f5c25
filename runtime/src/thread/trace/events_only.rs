// SPDX-License-Identifier: Apache-2.0
//! The ring of a thread that records events only: whole counters in it, and its exchange for an empty one when it is full.

use super::*;

impl ThreadTrace {
    /// Appends an event of this time, in ticks, to a ring for events only.
    ///
    /// # Safety
    /// As [`record_event`](Self::record_event).
    pub(super) unsafe fn append_event(&self, counter: u64, words: &[u64]) {
        let before = self.newest.load(Ordering::Relaxed);
        // The counters of two processors may differ by some ticks.
        let counter = counter.max(before);
        let whole = self.newest_whole.load(Ordering::Relaxed);
        if counter - whole >= WHOLE_COUNTER_AFTER {
            let closing = Slot::extension(Extension::FullTime, counter).0;
            self.make_room(FULL_TIME_SLOTS, counter);
            self.newest_whole.store(counter, Ordering::Relaxed);
            // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
            unsafe { self.append_at(&self.events_cursor, &[before, counter, closing]) };
        }
        self.make_room(words.len(), counter);
        self.newest.store(counter, Ordering::Relaxed);
        // SAFETY: the caller is the thread and may record, or holds the lock while the thread does not record.
        unsafe { self.append_at(&self.events_cursor, words) };
    }

    /// If this many slots of an event of this time do not fit into the rest of the ring for events only, gives the ring to
    /// the spool and goes on in another one. If the spool is busy, or has none, the ring wraps: its oldest events are
    /// overwritten.
    #[inline]
    fn make_room(&self, slots: usize, counter: u64) {
        if !self.has_room(slots) {
            self.exchange_full_ring(counter);
        }
    }

    #[inline]
    fn has_room(&self, slots: usize) -> bool {
        let at = self.events_cursor.load(Ordering::Relaxed);
        at + slots * SLOT_STRIDE <= self.end.load(Ordering::Relaxed)
    }

    #[cold]
    fn exchange_full_ring(&self, counter: u64) {
        // Never waits: the control thread may hold the lock, to take the ring.
        if let Ok(mut inner) = self.inner.try_lock() {
            self.exchange(&mut inner, counter);
        }
    }

    /// Exchanges the ring for an empty one, in which the event of this time will be the first.
    fn exchange(&self, inner: &mut Inner, counter: u64) {
        let Some(spool) = &self.spool else {
            return;
        };
        if inner.retired || inner.mode() != Some(RingMode::Events) {
            return;
        }
        let Some(next) = spool.take_free() else {
            return;
        };
        if let Some(ring) = inner.ring.take() {
            let cursor = self.events_cursor.load(Ordering::Relaxed);
            // The time of the event was read before: a later one would not be that of the ring's start.
            let full = self.taken(inner, ring, cursor, counter);
            self.install(inner, Some(next), true, counter);
            spool.put_soon(full);
        }
    }

    /// As [`record_event`](Self::record_event), for a thread that is in native code, or suspended: there the control thread
    /// may change its ring, which the lock rules out.
    ///
    /// # Safety
    /// Called by the thread itself, which does not hold the lock.
    pub(crate) unsafe fn record_event_suspended(&self, number: u32, payload: &[u64]) {
        let mut inner = self.lock();
        if inner.ring.is_some() && !inner.retired {
            // `record_event` cannot exchange the ring, since the lock is taken: it may need a slot besides the payload, and
            // a `FullTime` before them.
            if self.records_events_only() && !self.has_room(payload.len() + 1 + FULL_TIME_SLOTS) {
                let newest = self.newest.load(Ordering::Relaxed);
                self.exchange(&mut inner, clock::counter().max(newest));
            }
            // SAFETY: the caller is the thread, and the lock is held.
            unsafe { self.record_event(number, payload) };
        }
    }
}
