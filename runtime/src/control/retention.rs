// SPDX-License-Identifier: Apache-2.0
//! Takes rings from threads, and carries out the decisions of [`registry`](crate::registry) about which rings, and
//! which names, are kept.

use crate::clock;
use crate::handshake::{Handshake, TracedThread};
use crate::host::Severity;
use crate::registry::Eviction;
use crate::session::Session;
use crate::thread::ring::Ring;
use crate::thread::trace::TakenRing;

/// Takes the thread's ring and leaves it `replacement`; without one, the thread loses its right to a ring. `None`,
/// with the replacement left in place, if the thread does not record.
pub(crate) fn take_ring(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
    replacement: &mut Option<Ring>,
) -> Option<TakenRing> {
    if !thread.trace().is_traced() {
        return None;
    }
    let stops = replacement.is_none();
    let taken = handshake.take(thread, replacement);
    // A thread that has ended meanwhile gave up its right itself, and a new thread may have its id.
    if stops && taken.is_some() {
        session.registry.release_ring(thread.trace().tid());
    }
    taken
}

/// A ring for the thread to go on in. Without memory for one, the log says that tracing of the thread ends.
pub(crate) fn replacement(session: &Session, tid: u32) -> Option<Ring> {
    let ring = session.pool.take();
    ring.inspect_err(|e| {
        let message = format!("tracing of thread {tid} ends: no memory for a ring: {e}");
        session.host.log(Severity::Warning, &message);
    })
    .ok()
}

/// Returns the memory of a ring whose contents are not wanted.
pub(crate) fn discard(session: &Session, taken: TakenRing) {
    session.check_balance(&taken, false);
    session.pool.put(taken.ring);
}

/// Evicts rings until there is room for `more`; returns how many were evicted.
pub(crate) fn make_room(session: &Session, handshake: &mut dyn Handshake, more: usize) -> u64 {
    let mut evicted = 0;
    while let Some(eviction) = session.registry.evict(more) {
        let taken = match eviction {
            Eviction::Retired(ring) => Some(ring),
            Eviction::Thread(tid) => session
                .registry
                .find(tid)
                .and_then(|thread| take_ring(session, handshake, &thread, &mut None)),
        };
        if let Some(taken) = taken {
            evicted += 1;
            discard(session, taken);
        }
    }
    evicted
}

/// Takes and discards the rings of all threads.
pub(crate) fn stop_all(session: &Session, handshake: &mut dyn Handshake) {
    for thread in session.registry.threads() {
        if let Some(taken) = take_ring(session, handshake, &thread, &mut None) {
            discard(session, taken);
        }
    }
}

/// Drops the names of unloaded methods that no ring needs any more.
pub(crate) fn forget_names(session: &Session) {
    let now = clock::counter_in_order();
    let threads = session.registry.threads();
    let oldest = oldest_counter(
        threads
            .iter()
            .map(|thread| thread.trace().started_counter()),
        || session.registry.oldest_retired_counter(),
    );
    session
        .journal()
        .forget_before(oldest.map_or(now, |oldest| oldest.min(now)));
}

/// The counter when recording into the oldest ring began, of the rings that `live` threads have and of retired ones.
///
/// All threads are looked at before `retired` is called: the ring of a thread that ends in between is then found in one
/// place or in both. In the other order it would be found in neither.
fn oldest_counter(
    live: impl Iterator<Item = Option<u64>>,
    retired: impl FnOnce() -> Option<u64>,
) -> Option<u64> {
    let live = live.flatten().min();
    live.into_iter().chain(retired()).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_ring_of_a_thread_that_ends_meanwhile_is_found() {
        // The second thread ends right after the first one, or the retired rings, were looked at.
        let has_ended = Cell::new(false);
        let live = [Some(30), Some(5)].into_iter().map(|counter| {
            let ring = if has_ended.get() { None } else { counter };
            has_ended.set(has_ended.get() || counter == Some(5));
            ring
        });
        let retired = || has_ended.replace(true).then_some(5);
        assert_eq!(oldest_counter(live, retired), Some(5));
        assert_eq!(
            oldest_counter([None, Some(7)].into_iter(), || Some(9)),
            Some(7)
        );
        assert_eq!(oldest_counter([None].into_iter(), || Some(9)), Some(9));
        assert_eq!(oldest_counter([None].into_iter(), || None), None);
    }
}
