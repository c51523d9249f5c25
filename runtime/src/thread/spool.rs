// SPDX-License-Identifier: Apache-2.0
//! Full rings of threads that record events only: a bounded memory of the whole process, oldest out first.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use crate::sync::lock;
use crate::thread::ring::{Ring, RingPool};
use crate::thread::taken::TakenRing;

#[derive(Default)]
struct Full {
    /// Oldest first.
    rings: VecDeque<TakenRing>,
    /// Rings whose events were dropped because the spool was full.
    dropped: u64,
    /// Rings that threads record into in exchange, and that are not back yet.
    owed: usize,
}

/// The full rings of a process.
///
/// A thread whose ring is full exchanges it here for an empty one: nothing is copied. If the lock is taken for more than a
/// few microseconds, the thread's ring wraps instead, and its oldest events are overwritten. Once it has an empty ring, it
/// waits for the lock to give the full one away: whoever holds it does so for less than a microsecond, unless preempted.
pub(crate) struct Spool {
    capacity: usize,
    pool: RingPool,
    full: Mutex<Full>,
}

impl Spool {
    /// A spool of at most this many full rings, which come from `pool`.
    pub(crate) fn new(capacity: usize, pool: RingPool) -> Self {
        Spool {
            capacity,
            pool,
            full: Mutex::default(),
        }
    }

    fn full(&self) -> MutexGuard<'_, Full> {
        lock(&self.full)
    }

    /// A ring for a thread that begins to record events.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub(crate) fn ring(&self) -> std::io::Result<Ring> {
        self.pool.take()
    }

    /// Takes a ring back that is not in use, and returns its memory to the system.
    pub(crate) fn put_back(&self, ring: Ring) {
        self.pool.put(ring);
    }

    /// An empty ring for a thread whose ring is full; the thread gives that one to [`put_soon`](Self::put_soon). `None` if
    /// another thread holds the lock for long, or there is no memory.
    pub(crate) fn take_free(&self) -> Option<Ring> {
        if self.capacity == 0 {
            return None;
        }
        {
            let mut full = self.try_full()?;
            full.owed += 1;
            if full.rings.len() + full.owed > self.capacity {
                if let Some(oldest) = full.rings.pop_front() {
                    full.dropped += 1;
                    // Stays mapped, with its memory: its slots are overwritten.
                    return Some(oldest.ring);
                }
            }
        }
        // Not under the lock: it may map memory.
        let ring = (self.pool.has_spare_room()).then(|| self.pool.take().ok());
        if let Some(ring @ Some(_)) = ring {
            return ring;
        }
        let mut full = self.full();
        // The oldest full ring is used again; without one the thread's own ring wraps. Either way older events are lost.
        full.dropped += 1;
        let oldest = full.rings.pop_front();
        if oldest.is_none() {
            full.owed = full.owed.saturating_sub(1);
        }
        oldest.map(|oldest| oldest.ring)
    }

    /// The lock, unless another thread holds it for long, for instance because it is preempted.
    fn try_full(&self) -> Option<MutexGuard<'_, Full>> {
        /// About 10 microseconds; the lock is usually held for less than one.
        const TRIES: u32 = 200;
        (0..TRIES).find_map(|_| {
            std::hint::spin_loop();
            self.full.try_lock().ok()
        })
    }

    /// Takes the full ring of a thread that has just called [`take_free`](Self::take_free).
    pub(crate) fn put_soon(&self, taken: TakenRing) {
        let mut full = self.full();
        full.owed = full.owed.saturating_sub(1);
        full.rings.push_back(taken);
    }

    /// Keeps the ring of a thread that records no events any more, if need be in place of the oldest one.
    pub(crate) fn keep(&self, taken: TakenRing) {
        let unwanted = {
            let mut full = self.full();
            full.rings.push_back(taken);
            if full.rings.len() > self.capacity.max(1) {
                full.dropped += 1;
                full.rings.pop_front()
            } else {
                None
            }
        };
        if let Some(unwanted) = unwanted {
            self.pool.put(unwanted.ring);
        }
    }

    /// Takes all rings, oldest first, and the number of rings dropped since the last call.
    pub(crate) fn take_all(&self) -> (Vec<TakenRing>, u64) {
        let mut full = self.full();
        let dropped = std::mem::take(&mut full.dropped);
        (full.rings.drain(..).collect(), dropped)
    }

    /// Bytes of slots in all rings.
    pub(crate) fn bytes(&self) -> u64 {
        let full = self.full();
        let bytes = full.rings.iter().map(|r| r.written_bytes().len());
        bytes.sum::<usize>() as u64
    }

    /// The number of full rings, and the counter when recording into the oldest began.
    pub(crate) fn summary(&self) -> (usize, Option<u64>) {
        let full = self.full();
        let oldest = full.rings.iter().map(|r| r.header.started_counter).min();
        (full.rings.len(), oldest)
    }
}
