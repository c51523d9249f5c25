// SPDX-License-Identifier: Apache-2.0
//! Threads that events name by their ids.

use hindsight_analysis::{is_cut, may_have_begun, may_have_lost_rings, ring_is_damaged};
use hindsight_decoder::{DamagedPart, Extension, Trace};
use serde::Serialize;

use crate::graph::{Graph, WaitKind};
use crate::scheduled::thread_with_id;
use crate::session::{Session, ThreadId};

/// Why a thread that an event names is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Absent {
    /// The file has no recording of it.
    NotRecorded,
    /// The file is damaged, and may have had one.
    FileDamaged,
    /// Several threads of the file had its id: it is not certain which one is meant.
    Several,
    /// The recording of its id began later: the kernel gives ids of ended threads to new ones.
    BeganLater,
}

/// The thread that had an id at a time. Ids are used again: if it is not certain which one is meant, it is not known.
pub(crate) fn named(
    session: &Session,
    trace: usize,
    tid: u32,
    at_ns: u64,
) -> Result<ThreadId, Absent> {
    let of_trace = session.trace(trace);
    let with_id = || {
        let threads = session.threads_of(trace);
        threads.filter(|&t| session.about(t).tid == tid)
    };
    let alive = |t: &ThreadId| {
        let thread = session.thread(*t);
        thread.start_ns <= at_ns && at_ns <= thread.end_ns
    };
    let mut living = with_id().filter(alive);
    match (living.next(), living.next()) {
        (Some(one), None) => return Ok(one),
        (Some(_), Some(_)) => return Err(Absent::Several),
        _ => {}
    }
    // Its recording may end before, or begin later because older events were overwritten.
    let has_stopped = |t: &ThreadId| {
        let last = session.thread(*t).events.last();
        last.is_some_and(|e| e.kind == Extension::Stopped && e.at_ns < at_ns)
    };
    let began = |t: &ThreadId| may_have_begun(of_trace, session.thread(*t), at_ns);
    let mut possible = with_id().filter(|t| began(t) && !has_stopped(t));
    match (possible.next(), possible.next()) {
        (Some(one), None) => Ok(one),
        (Some(_), Some(_)) => Err(Absent::Several),
        _ if with_id().next().is_some() => Err(Absent::BeganLater),
        // Threads of native code have no recording.
        _ => thread_with_id(session, of_trace.process.pid, tid, at_ns)
            .ok_or_else(|| without_recording(of_trace, tid)),
    }
}

fn without_recording(trace: &Trace, tid: u32) -> Absent {
    let is_its =
        |part: &DamagedPart| matches!(part, DamagedPart::Ring { tid: Some(t), .. } if *t == tid);
    let is_lost = trace.damaged.iter().any(|d| is_its(&d.part));
    match is_lost || may_have_lost_rings(trace) {
        true => Absent::FileDamaged,
        false => Absent::NotRecorded,
    }
}

/// Why events of a thread may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsMissing {
    /// Its ring is damaged.
    Damaged,
    /// Its older events were overwritten, or are in an earlier file.
    Overwritten,
}

/// Why events of a thread may be missing, if any are.
pub(crate) fn events_missing(session: &Session, thread: ThreadId) -> Option<EventsMissing> {
    let (trace, of_thread) = (session.trace_of(thread), session.thread(thread));
    if ring_is_damaged(trace, of_thread) {
        return Some(EventsMissing::Damaged);
    }
    is_cut(trace, of_thread).then_some(EventsMissing::Overwritten)
}

/// Why waits of a thread may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsMissing {
    /// Its ring is damaged.
    Damaged,
    /// No thread of its process has a wait: they were not recorded.
    NotRecorded,
}

/// Whether waits of a thread may be missing. Transactions are another category of events than waits.
pub(crate) fn waits_missing(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
) -> Option<WaitsMissing> {
    if session.is_outside(thread) {
        return None;
    }
    if ring_is_damaged(session.trace_of(thread), session.thread(thread)) {
        return Some(WaitsMissing::Damaged);
    }
    let waits = |t| graph.waits_of(t).iter();
    let mut threads = session.threads_of(session.about(thread).trace());
    let any = threads.any(|t| waits(t).any(|w| w.kind != WaitKind::Transaction));
    (!any).then_some(WaitsMissing::NotRecorded)
}
