// SPDX-License-Identifier: Apache-2.0
//! Takes rings from threads, and carries out the decisions of [`registry`](crate::registry) about which rings, and
//! which names, are kept.

use crate::clock;
use crate::handshake::{Handshake, TracedThread};
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
    let live = threads
        .iter()
        .filter_map(|thread| thread.trace().started_counter());
    let retired = session.registry.oldest_retired_counter();
    let oldest = live.chain(retired).fold(now, u64::min);
    session.journal().forget_before(oldest);
}
