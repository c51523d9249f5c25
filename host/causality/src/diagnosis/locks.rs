// SPDX-License-Identifier: Apache-2.0
//! Who held a lock while another thread waited for it.

use hindsight_analysis::is_whole;
use hindsight_decoder::Extension;

use super::doing::is_most;
use super::people::{named, Absent};
use super::windows::Windows;
use crate::graph::{Graph, Wait, WaitKind};
use crate::session::{EventId, Session, ThreadId};

/// Most waits of a thread, before its release of a lock, among which its own wait for that lock is looked for.
const MOST_BEFORE: usize = 64;

/// A thread held the lock.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    /// The thread, or why it is not known.
    pub(crate) thread: Result<ThreadId, Absent>,
    /// Its id, as it is recorded.
    pub(crate) tid: u32,
    /// When, inside the wait, CLOCK_BOOTTIME, ns.
    pub(crate) span: (u64, u64),
    /// The event by which it released the lock.
    pub(crate) released: Option<EventId>,
    /// Whether it got the lock after the wait had begun.
    pub(crate) is_later: bool,
}

/// Who held the lock.
#[derive(Clone, Debug)]
pub(crate) enum Holder {
    /// For most of the wait.
    One(Hold),
    /// The event that names the owner is missing.
    NotRecorded,
    /// It was released in the wait, and no thread is known to have held it for most of it.
    ChangedHands,
}

/// The lock that a wait is for, and the id of the thread that held it when the wait began, as the thread recorded right
/// before.
pub(crate) fn owner_event(session: &Session, wait: &Wait) -> Option<(u32, u64)> {
    let before = wait.begin_event.checked_sub(1)?;
    let event = session.event(EventId {
        thread: wait.thread,
        event: before,
    })?;
    let tid = u32::try_from(event.get("held by")).ok()?;
    (event.kind == Extension::LockWait && tid != 0).then(|| (tid, event.get("lock")))
}

/// Who held the lock for most of a wait, of which only the part in `within` counts.
///
/// The owner at the beginning is recorded. A thread that releases a lock for which others wait records that. So the first
/// owner held it until the first release, if that is its own; a later one from the end of its own wait for the lock until its
/// release. If no thread held it for most of the time so, nobody is named.
pub(crate) fn holder(session: &Session, graph: &Graph, wait: &Wait, within: &Windows) -> Holder {
    let Some((tid, lock)) = owner_event(session, wait) else {
        return Holder::NotRecorded;
    };
    let trace = session.about(wait.thread).trace();
    let first = named(session, trace, tid, wait.begin_ns);
    let releases = releases(session, wait, lock);
    let total = within.total_ns();
    let Some(&(first_ns, first_release)) = releases.first() else {
        let owner = first.ok().map(|t| session.thread(t));
        let whole = (wait.begin_ns, wait.end_ns);
        let has_all = owner.is_some_and(|t| is_whole(session.trace(trace), t, whole));
        // A thread that held the lock until the wait ended has recorded the release.
        let has_ended = wait.end_event != Wait::NOT_RECORDED;
        if has_ended && lock != 0 && has_all {
            return Holder::ChangedHands;
        }
        return Holder::One(Hold {
            thread: first,
            tid,
            span: whole,
            released: None,
            is_later: false,
        });
    };
    let is_first = session.about(first_release.thread).tid == tid;
    let first_span = (wait.begin_ns, first_ns);
    if is_first && is_most(within.overlap(first_span), total) {
        return Holder::One(Hold {
            thread: Ok(first_release.thread),
            tid,
            span: first_span,
            released: Some(first_release),
            is_later: false,
        });
    }
    for pair in releases.windows(2) {
        let [(before_ns, _), (at_ns, release)] = pair else {
            continue;
        };
        let Some(got_ns) = got(session, graph, *release, lock, *before_ns, *at_ns) else {
            continue;
        };
        let span = (got_ns, *at_ns);
        if is_most(within.overlap(span), total) {
            return Holder::One(Hold {
                thread: Ok(release.thread),
                tid: session.about(release.thread).tid,
                span,
                released: Some(*release),
                is_later: true,
            });
        }
    }
    Holder::ChangedHands
}

/// The releases of the lock by other threads in the wait, in the order of time.
fn releases(session: &Session, wait: &Wait, lock: u64) -> Vec<(u64, EventId)> {
    let mut found = Vec::new();
    if lock == 0 {
        return found;
    }
    let trace = session.about(wait.thread).trace();
    for thread in session.threads_of(trace).filter(|&t| t != wait.thread) {
        let events = &session.thread(thread).events;
        let first = events.partition_point(|e| e.at_ns < wait.begin_ns);
        let during = events[first..].iter().zip(first as u32..);
        for (event, index) in during.take_while(|(e, _)| e.at_ns <= wait.end_ns) {
            if event.kind == Extension::Released && event.get("lock") == lock {
                let release = EventId {
                    thread,
                    event: index,
                };
                found.push((event.at_ns, release));
            }
        }
    }
    found.sort_unstable();
    found
}

/// When the thread of a release got the lock, if it recorded its own wait for it since the release before.
fn got(
    session: &Session,
    graph: &Graph,
    release: EventId,
    lock: u64,
    before_ns: u64,
    at_ns: u64,
) -> Option<u64> {
    let waits = graph.waits_of(release.thread);
    let before = waits.partition_point(|w| w.begin_event < release.event);
    let mut near = waits[..before].iter().rev().take(MOST_BEFORE);
    let own = near.find(|w| {
        let is_ended = w.end_event < release.event && w.kind == WaitKind::Lock;
        is_ended && owner_event(session, w).is_some_and(|(_, l)| l == lock)
    })?;
    (before_ns <= own.end_ns && own.end_ns <= at_ns).then_some(own.end_ns)
}
