// SPDX-License-Identifier: Apache-2.0
//! How much of the shared memory the process may use for all but rings of calls: rings of events, stacks and names.
//!
//! A system service gives each process a part of its budget. The process begins with [`FIRST`], and asks for more before it needs
//! it. What does not fit is dropped and counted; nobody waits. A process without a service has no limit but its configuration.
//!
//! Until the service answers, what is left is for threads that begin, and for the second set of rings that a report needs: rings
//! that only keep older events take none of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use crate::sync::lock;

/// A process declares so much when it introduces itself, bytes.
pub(crate) const FIRST: u64 = 2 << 20;
/// Room is asked for in multiples of this, bytes.
const STEP: u64 = 1 << 20;
/// More is asked for when less than this is left, bytes: rings of events for seven threads.
const MARGIN: u64 = 512 << 10;
/// There is no limit.
const UNLIMITED: u64 = u64::MAX;

/// The room of a process. All functions may be called on any thread, and wait for nothing.
pub(crate) struct Room {
    limit: AtomicU64,
    used: AtomicU64,
    /// Of what is used, rings of events: a snapshot needs as much again.
    events: AtomicU64,
    /// The most that was asked for since the process introduced itself.
    asked: AtomicU64,
    /// More than this is never needed.
    most: u64,
    /// Tells the service how much is needed in all, bytes.
    ask: OnceLock<Box<dyn Fn(u64) + Send + Sync>>,
    /// Wakes who waits for a higher limit.
    changes: (Mutex<()>, Condvar),
}

// A panic leaves nothing half done: each field is changed by one step. The function only sends a message.
impl std::panic::RefUnwindSafe for Room {}

impl Room {
    /// Without a limit; `used` bytes are in use, and `most` can be.
    pub(crate) fn new(used: u64, most: u64) -> Self {
        Room {
            limit: AtomicU64::new(UNLIMITED),
            used: AtomicU64::new(used),
            events: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            most,
            ask: OnceLock::new(),
            changes: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Sets who is called when more is needed; only the first call counts. `ask` must not wait for anything.
    pub(crate) fn on_need(&self, ask: impl Fn(u64) + Send + Sync + 'static) {
        let _ = self.ask.set(Box::new(ask));
    }

    /// Takes this much, if there is room for it. It is given back by [`give_back`](Self::give_back).
    #[must_use]
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::SeqCst);
        // A limit that is set at this moment is seen here, or sees these bytes.
        let is_taken = used.saturating_add(bytes) <= self.limit.load(Ordering::SeqCst);
        if !is_taken {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
        }
        self.ask_for(used.saturating_add(bytes));
        is_taken
    }

    /// As [`take`](Self::take), for a ring of events.
    #[must_use]
    pub(crate) fn take_events(&self, bytes: u64) -> bool {
        self.events.fetch_add(bytes, Ordering::Relaxed);
        let is_taken = self.take(bytes);
        if !is_taken {
            self.events.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    /// Gives back what was taken.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Gives back what was taken for a ring of events.
    pub(crate) fn give_back_events(&self, bytes: u64) {
        self.events.fetch_sub(bytes, Ordering::Relaxed);
        self.give_back(bytes);
    }

    /// Asks for more if so many bytes are, or were to be, in use and little is left.
    fn ask_for(&self, used: u64) {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == UNLIMITED {
            return;
        }
        let needed = self.with_reserve(used);
        if needed <= limit || limit >= self.most {
            return;
        }
        // Half as much again: a process that names all its classes asks a few times.
        let wanted = steps(needed.saturating_add(used / 2)).min(self.most);
        if self.asked.fetch_max(wanted, Ordering::Relaxed) < wanted {
            self.tell(wanted);
        }
    }

    /// What is used, the second set of rings of events that a snapshot needs, and the margin; bytes.
    fn with_reserve(&self, used: u64) -> u64 {
        let events = self.events.load(Ordering::Relaxed);
        used.saturating_add(events).saturating_add(MARGIN)
    }

    fn tell(&self, wanted: u64) {
        if let Some(ask) = self.ask.get() {
            ask(wanted);
        }
    }

    /// Whether there is room for one more ring of so many bytes that only keeps older events. If there is not, more is asked for.
    pub(crate) fn has_spare(&self, bytes: u64) -> bool {
        // With the second ring that a snapshot needs for it.
        let more = bytes.saturating_mul(2);
        let used = self.used.load(Ordering::Relaxed).saturating_add(more);
        // Of a process that may use all that it can ever need, nothing more can be asked for.
        let limit = self.limit.load(Ordering::Relaxed);
        let has_spare = limit >= self.most || self.with_reserve(used) <= limit;
        if !has_spare {
            self.ask_for(used);
        }
        has_spare
    }

    /// The process introduces itself. Returns how much it declares; from here on it is the limit.
    pub(crate) fn declare(&self) -> u64 {
        let before = self.limit.load(Ordering::SeqCst);
        let given = if before == UNLIMITED { FIRST } else { before };
        loop {
            let used = self.used.load(Ordering::SeqCst);
            let declared = steps(used).max(given);
            self.limit.store(declared, Ordering::SeqCst);
            if self.used.load(Ordering::SeqCst) <= declared {
                self.asked.store(declared, Ordering::Relaxed);
                return declared;
            }
        }
    }

    /// The service has accepted the process, and can be asked.
    pub(crate) fn accepted(&self) {
        self.ask_for(self.used.load(Ordering::SeqCst));
        // What was asked for since the process introduced itself was told to nobody.
        let asked = self.asked.load(Ordering::Relaxed);
        if asked > self.limit.load(Ordering::SeqCst) {
            self.tell(asked);
        }
    }

    /// The service gives so much in all. It never takes anything back.
    pub(crate) fn set(&self, bytes: u64) {
        // Without a limit there is nothing to give.
        let more =
            |limit| (limit != UNLIMITED && bytes > limit).then_some(bytes.min(UNLIMITED - 1));
        let _ = (self.limit).fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        self.changed();
    }

    /// There is no service that the process takes room from.
    pub(crate) fn lift(&self) {
        self.limit.store(UNLIMITED, Ordering::SeqCst);
        self.changed();
    }

    fn changed(&self) {
        drop(lock(&self.changes.0));
        self.changes.1.notify_all();
    }

    /// Whether so much can be taken now.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::SeqCst);
        used.saturating_add(bytes) <= self.limit.load(Ordering::SeqCst)
    }

    /// So much more will be taken.
    pub(crate) fn need(&self, bytes: u64) {
        self.ask_for(self.used.load(Ordering::SeqCst).saturating_add(bytes));
    }

    /// Waits until so much can be taken, at most so long. Not for threads that record.
    pub(crate) fn wait_for(&self, bytes: u64, patience: Duration) -> bool {
        let waits = lock(&self.changes.0);
        let result = (self.changes.1).wait_timeout_while(waits, patience, |()| !self.has(bytes));
        drop(result);
        self.has(bytes)
    }

    /// Whether a service limits the room.
    pub(crate) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != UNLIMITED
    }

    /// The most that was asked for, bytes.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The limit, if there is one, and what is used; bytes.
    pub(crate) fn state(&self) -> (Option<u64>, u64) {
        let limit = self.limit.load(Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed);
        (Some(limit).filter(|limit| *limit != UNLIMITED), used)
    }
}

/// The next multiple of [`STEP`].
fn steps(bytes: u64) -> u64 {
    bytes.div_ceil(STEP).saturating_mul(STEP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    fn room() -> (Arc<Room>, Arc<AtomicU64>) {
        let room = Arc::new(Room::new(4096, 64 * MIB));
        let asks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asks);
        room.on_need(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        (room, asks)
    }

    #[test]
    fn more_is_asked_for_in_time_and_once() {
        let (room, asks) = room();
        let asks = || asks.load(Ordering::Relaxed);
        assert!(room.take(1000 * MIB));
        room.give_back(1000 * MIB);
        assert_eq!((room.declare(), asks()), (FIRST, 0));
        assert!(room.take(MIB));
        assert_eq!(asks(), 0);
        assert!(room.take(MIB - 8192));
        assert_eq!((asks(), room.asked()), (1, 4 * MIB));
        assert!(!room.take(MIB), "it is more than the limit");
        assert_eq!(asks(), 2, "that is more than was asked for");
        assert!(!room.take(MIB));
        assert_eq!(asks(), 2);
        room.set(room.asked());
        room.set(MIB);
        assert!(room.take(MIB), "nothing is taken back");
        assert_eq!(room.state().1, 3 * MIB - 4096);
        room.lift();
        room.set(5 * MIB);
        assert!(room.take(1000 * MIB) && !room.is_limited());
        assert_eq!(room.declare(), 1003 * MIB, "what is used is declared");
    }

    #[test]
    fn what_was_asked_for_before_the_service_listens_is_asked_for_again() {
        let room = Room::new(4096, 64 * MIB);
        let heard = Arc::new(Mutex::new(None));
        let ear = Arc::clone(&heard);
        room.on_need(move |bytes| *lock(&ear) = Some(bytes));
        room.declare();
        assert!(room.take(2 * MIB - 8192));
        let asked = lock(&heard).take();
        assert!(asked > Some(FIRST));
        room.accepted();
        assert_eq!(*lock(&heard), asked);
        room.set(room.asked());
        lock(&heard).take();
        room.accepted();
        assert_eq!(*lock(&heard), None);
    }

    #[test]
    fn older_events_leave_room_to_threads_that_begin() {
        const RING: u64 = 64 << 10;
        let (room, asks) = room();
        assert!(room.has_spare(1000 * MIB), "there is no limit");
        room.declare();
        while room.has_spare(RING) {
            assert!(room.take_events(RING));
        }
        assert_eq!(asks.load(Ordering::Relaxed), 1);
        let before = room.state().1;
        // A snapshot exchanges all rings, and some threads begin.
        assert!(room.take_events(before - 4096) && room.take_events(MARGIN - RING));
        room.set(64 * MIB);
        assert!(room.has_spare(RING));
    }

    #[test]
    fn who_may_wait_is_woken_when_there_is_more() {
        let (room, asks) = room();
        room.declare();
        room.need(3 * MIB);
        assert!(!room.wait_for(3 * MIB, Duration::from_millis(1)));
        assert_eq!((asks.load(Ordering::Relaxed), room.asked()), (1, 6 * MIB));
        let waiter = Arc::clone(&room);
        let waits = move || waiter.wait_for(3 * MIB, Duration::from_secs(300));
        let waits = std::thread::spawn(waits);
        room.set(6 * MIB);
        assert!(waits.join().unwrap());
    }

    #[test]
    fn rings_of_events_need_room_for_a_second_set() {
        let (room, asks) = room();
        room.declare();
        assert!(room.take_events(MIB));
        assert_eq!(asks.load(Ordering::Relaxed), 1);
        room.give_back_events(MIB);
        room.declare();
        assert!(room.take(MIB));
        assert_eq!(asks.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_limit_that_comes_meanwhile_is_never_exceeded() {
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            let (room, _) = room();
            let taker = Arc::clone(&room);
            let thread =
                std::thread::spawn(move || (0..100).filter(|_| taker.take(MIB / 4)).count());
            let declared = room.declare();
            assert!(
                room.state().1 <= declared + MIB / 4,
                "one that is being refused may count"
            );
            let taken = thread.join().unwrap() as u64;
            assert_eq!(room.state().1, 4096 + taken * MIB / 4);
            assert!(room.state().1 <= declared);
        }
    }
}
