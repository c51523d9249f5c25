// SPDX-License-Identifier: Apache-2.0
//! Takes rings from threads, and carries out the decisions of [`registry`](crate::registry) about which rings, and
//! which names, are kept.

use hindsight_trace_format::container::RingMode;

use crate::clock;
use crate::handshake::{Handshake, TracedThread};
use crate::host::Severity;
use crate::registry::Eviction;
use crate::session::Session;
use crate::thread::ring::Ring;
use crate::thread::taken::TakenRing;

/// As [`exchange_calls`], and notes what is under way for readers of the ring in which the thread goes on: it may stand still until
/// that is taken, too. This is looked up when the thread goes on already.
pub(crate) fn take_ring(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
    replacement: &mut Option<Ring>,
) -> Option<TakenRing> {
    let taken = exchange_calls(session, handshake, thread, replacement)?;
    thread.trace().note_under_way(&taken);
    Some(taken)
}

/// As [`exchange_events`], and notes what is under way, as [`take_ring`].
pub(crate) fn take_events(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
    replacement: &mut Option<Ring>,
) -> Option<TakenRing> {
    let taken = exchange_events(session, handshake, thread, replacement)?;
    thread.trace().note_under_way(&taken);
    Some(taken)
}

/// Takes the thread's ring of calls and leaves it `replacement`; without one, the thread loses its right to a ring of calls,
/// and goes on recording events if these are on. `None`, with the replacement left in place, if the thread does not record
/// calls.
pub(crate) fn exchange_calls(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
    replacement: &mut Option<Ring>,
) -> Option<TakenRing> {
    if !thread.trace().is_traced() {
        return None;
    }
    if replacement.is_some() {
        return handshake.take(thread, replacement);
    }
    let mut events = session.events_ring();
    let taken = handshake.take(thread, &mut events);
    if let Some(unused) = events {
        session.events_ring_ended();
        session.put_back(unused);
    }
    // A thread that has ended meanwhile gave up its right itself, and a new thread may have its id.
    if taken.is_some() {
        session.registry.release_ring(thread.trace().tid());
    }
    taken
}

/// Takes the ring of a thread that records events only, and leaves it `replacement`. `None`, with the replacement left in
/// place, if the thread has no such ring.
pub(crate) fn exchange_events(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
    replacement: &mut Option<Ring>,
) -> Option<TakenRing> {
    if !thread.trace().records_events_only() {
        return None;
    }
    let goes_on = replacement
        .as_ref()
        .is_some_and(|ring| ring.mode() == RingMode::Events);
    let taken = handshake.take(thread, replacement)?;
    if !goes_on {
        session.events_ring_ended();
    }
    Some(taken)
}

/// A ring of calls for the thread to go on in. Without memory for one, the log says that tracing of the thread ends.
pub(crate) fn replacement(session: &Session, tid: u32) -> Option<Ring> {
    let ring = session.calls_ring();
    ring.inspect_err(|e| {
        let message = format!("tracing of thread {tid} ends: no memory for a ring: {e}");
        session.host.log(Severity::Warning, &message);
    })
    .ok()
}

/// Returns the memory of a ring whose contents are not wanted.
pub(crate) fn discard(session: &Session, taken: TakenRing) {
    if taken.header.mode == RingMode::Calls {
        session.check_balance(&taken, false);
    }
    session.put_back(taken.ring);
}

/// Changes the categories of events that are recorded. If that turns events on, each thread without a ring gets one; if it
/// turns them off, the rings for events only go to the spool.
pub(crate) fn set_categories(session: &Session, handshake: &mut dyn Handshake, categories: u32) {
    session.set_categories(categories);
    session.announce_categories();
    for thread in session.registry.threads() {
        thread.trace().set_events(categories);
        if categories == 0 {
            if let Some(taken) = take_events(session, handshake, &thread, &mut None) {
                session.spool.keep(taken);
            }
        }
    }
    start_events(session, handshake);
}

/// Gives each thread without a ring one for events, if events are on, as far as there is room.
pub(crate) fn start_events(session: &Session, handshake: &mut dyn Handshake) {
    for thread in session.registry.threads() {
        if thread.trace().records() || session.categories() == 0 {
            continue;
        }
        let Some(ring) = session.events_ring() else {
            return;
        };
        if let Err(unused) = handshake.begin(&thread, ring) {
            session.events_ring_ended();
            session.put_back(unused);
        }
    }
}

/// Gives the thread, which has the right to one, a ring for its calls.
///
/// # Errors
/// A message for the user.
pub(crate) fn begin_calls(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
) -> Result<(), String> {
    let ring = session.calls_ring();
    let mut ring = Some(ring.map_err(|e| format!("no memory for a ring: {e}"))?);
    if let Some(events) = take_events(session, handshake, thread, &mut ring) {
        session.spool.keep(events);
        return Ok(());
    }
    let Some(ring) = ring else {
        return Ok(());
    };
    handshake.begin(thread, ring).map_err(|unused| {
        session.put_back(unused);
        let tid = thread.trace().tid();
        if thread.trace().is_traced() {
            format!("thread {tid} is traced already")
        } else {
            format!("thread {tid} has ended")
        }
    })
}

/// Gives the thread a ring for its calls if there is room.
///
/// # Errors
/// A message for the user.
pub(crate) fn start_calls(
    session: &Session,
    handshake: &mut dyn Handshake,
    thread: &TracedThread,
) -> Result<(), String> {
    let registry = &session.registry;
    let tid = thread.trace().tid();
    if !registry.reserve_ring(tid, clock::boottime_ns()) {
        return Err(if registry.is_closed() {
            "tracing has ended because of an internal error; the log has it".into()
        } else if registry.is_without_rings() {
            "the service gives this process no ring".into()
        } else {
            "there is no room for a ring: other threads took it just now".into()
        });
    }
    begin_calls(session, handshake, thread).inspect_err(|_| {
        // A thread that has just registered may have begun by itself, and then keeps the right.
        if !thread.trace().is_traced() {
            registry.release_ring(tid);
        }
    })
}

/// Gives each thread that the configuration selects a ring for its calls, as long as there is room: the main thread first.
pub(crate) fn start_selected(session: &Session, handshake: &mut dyn Handshake) {
    let mut threads = session.registry.threads();
    threads.retain(|thread| {
        let tid = thread.trace().tid();
        let is_selected = session.config.threads.selects(tid);
        is_selected && !thread.trace().is_traced() && !session.registry.is_stopped_by_request(tid)
    });
    threads.sort_by_key(|thread| {
        let tid = thread.trace().tid();
        (tid != std::process::id(), tid)
    });
    for thread in threads {
        if session.registry.is_full() {
            break;
        }
        // A thread that has ended meanwhile needs none.
        let _ = start_calls(session, handshake, &thread);
    }
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

/// Gives the memory of all rings of calls back to the system. Their threads go on in empty rings; without address space for
/// another ring, a thread keeps its own.
pub(crate) fn trim(session: &Session, handshake: &mut dyn Handshake) {
    for retired in session.registry.take_retired(|_| true) {
        discard(session, retired);
    }
    for thread in session.registry.threads() {
        if !thread.trace().is_traced() {
            continue;
        }
        let Some(empty) = session.calls_ring().ok() else {
            continue;
        };
        let mut empty = Some(empty);
        if let Some(taken) = take_ring(session, handshake, &thread, &mut empty) {
            discard(session, taken);
        }
        if let Some(unused) = empty {
            session.put_back(unused);
        }
    }
}

/// The process ends: threads stop recording, and their rings stay as they are in the memory that a service has. It may be
/// recording the process for a user, or a crash may have been noted.
pub(crate) fn leave_rings(session: &Session, handshake: &mut dyn Handshake) {
    session.set_categories(0);
    session.announce_categories();
    for thread in session.registry.threads() {
        thread.trace().set_events(0);
        let taken = take_ring(session, handshake, &thread, &mut None)
            .or_else(|| take_events(session, handshake, &thread, &mut None));
        if let Some(taken) = taken {
            // Its memory goes with the process.
            std::mem::forget(taken);
        }
    }
    std::mem::forget(session.spool.take_all().0);
}

/// Takes and discards the rings of all threads. No thread gets a ring for events any more.
pub(crate) fn stop_all(session: &Session, handshake: &mut dyn Handshake) {
    set_categories(session, handshake, 0);
    for taken in session.spool.take_all().0 {
        discard(session, taken);
    }
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
        || {
            let retired = session.registry.oldest_retired_counter();
            retired.into_iter().chain(session.spool.summary().1).min()
        },
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
