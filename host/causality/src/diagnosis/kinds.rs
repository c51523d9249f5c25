// SPDX-License-Identifier: Apache-2.0
//! Whether a stuck thread is busy, blocked, or in a yield loop (P-6).

use hindsight_analysis::Place;
use hindsight_decoder::{Extension, Thread, Trace};
use hindsight_system_trace::Times;
use serde::Serialize;

use super::doing::{doing, is_most};
use super::people::{waits_missing, WaitsMissing};
use super::stretch::{is_pause, is_step, Stretch};
use crate::graph::{Graph, Wait};
use crate::session::Session;

/// Least number of pauses of a yield loop.
pub const LEAST_PAUSES: u64 = 8;
/// The pauses of a yield loop are more than this part of its steps: one third (Argus's implementation).
pub const PAUSES_PART: u64 = 3;

/// Methods by which a thread gives up the processor, and goes on at once.
const YIELDS: [&str; 2] = ["java.lang.Thread.yield", "java.lang.Thread.onSpinWait"];

/// Why a thread does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It computes: CPU time is more than half of the time, or the processor was taken from it, and it did not give it up itself.
    Busy,
    /// It waits for another thread, for a reply, or for a time that it chose, for most of the time.
    Blocked,
    /// It pauses again and again, and looks at something in between.
    Yield,
    /// It neither computes nor waits for another thread, as far as that is recorded: it waits for the network or a file, or is not
    /// scheduled.
    Outside,
    /// Its CPU time is not recorded, or its waits may be missing, and no wait is most of the time.
    Unknown,
}

impl Kind {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Busy => "busy",
            Kind::Blocked => "blocked",
            Kind::Yield => "yield loop",
            Kind::Outside => "waits outside the runtime",
            Kind::Unknown => "unknown",
        }
    }
}

/// What a stretch's kind is concluded from.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The kind.
    pub kind: Kind,
    /// The stretch's length, ns.
    pub span_ns: u64,
    /// CPU time, ns, if readings cover the stretch.
    pub cpu_ns: Option<u64>,
    /// Time in waits for other threads and for replies, ns.
    pub waited_ns: u64,
    /// Why more waits may be missing from its events, if no trace of the whole device has them.
    pub waits_missing: Option<WaitsMissing>,
    /// Time asleep, ns.
    pub slept_ns: u64,
    /// How often it gave up the processor, and how often the processor was taken from it.
    pub switches: Option<(u64, u64)>,
    /// What it did by a trace of the whole device, if that covers most of the stretch.
    pub scheduled: Option<Times>,
    /// Pauses: sleeps and timed waits shorter than [`PAUSE_NS`](super::stretch::PAUSE_NS), and calls of `Thread.yield`, as far
    /// as calls or stacks show them.
    pub pauses: u64,
    /// What the program did: its events without ends, readings and stacks.
    pub steps: u64,
    /// The longest wait for another thread.
    pub longest: Option<Wait>,
}

/// Reads the kind of a stretch. `place` is where the thread was for most of it.
pub fn kind(session: &Session, graph: &Graph, stretch: &Stretch, place: Option<&Place>) -> Reading {
    let did = doing(session, graph, stretch.thread, &stretch.window());
    let recorded = stretch.waits(graph);
    let spun = spins(
        session.trace_of(stretch.thread),
        session.thread(stretch.thread),
        stretch,
    );
    let pauses = recorded.iter().filter(|w| is_pause(w)).count() as u64 + spun;
    let steps = stretch
        .events(session, graph)
        .filter(|(_, e)| is_step(e.kind))
        .count() as u64
        + spun;
    let longest = did
        .waits
        .iter()
        .max_by_key(|w| w.when.total_ns())
        .map(|w| w.wait);
    let span_ns = stretch.duration_ns();
    // Waits that are no pauses.
    let is_long = |w: &&super::doing::Waited| !is_pause(&w.wait);
    let blocked_ns: u64 = did
        .waits
        .iter()
        .filter(is_long)
        .map(|w| w.when.total_ns())
        .sum();
    let innermost = place.and_then(|p| p.calls.last());
    let yields = innermost.is_some_and(|call| YIELDS.contains(&call.as_str()));
    let is_loop = yields || pauses >= LEAST_PAUSES && pauses * PAUSES_PART > steps;
    // The scheduler's trace tells that it waited, and who woke it.
    let waits_missing =
        waits_missing(session, graph, stretch.thread).filter(|_| did.scheduled.is_none());
    let kind = if is_most(blocked_ns, span_ns) {
        Kind::Blocked
    } else if is_loop {
        Kind::Yield
    } else if did.computed(innermost.is_some()) {
        Kind::Busy
    } else if is_most(did.waited_ns + did.slept_ns, span_ns) {
        Kind::Blocked
    } else if did.was_kept_waiting() {
        // It computed, or called `Thread.yield`: no stack tells which.
        Kind::Unknown
    } else if waits_missing.is_some() {
        // It may have waited for another thread.
        Kind::Unknown
    } else if did.cpu_ns.is_some() && is_most(did.ran_ns(), span_ns) {
        Kind::Outside
    } else {
        Kind::Unknown
    };
    Reading {
        kind,
        span_ns,
        cpu_ns: did.cpu_ns,
        waited_ns: did.waited_ns,
        waits_missing,
        slept_ns: did.slept_ns,
        switches: did.switches,
        scheduled: did.scheduled,
        pauses,
        steps,
        longest,
    }
}

/// How often the thread gave up the processor in the stretch, as far as its calls show, or its stacks.
fn spins(trace: &Trace, thread: &Thread, stretch: &Stretch) -> u64 {
    let of_method = |id| {
        let method = trace.methods.get(id);
        method.is_some_and(|m| YIELDS.contains(&m.full_name().as_str()))
    };
    let calls = &thread.calls;
    let first = calls.start_ns.partition_point(|&at| at < stretch.begin_ns);
    let end = calls.start_ns.partition_point(|&at| at < stretch.end_ns);
    let called = calls.method[first..end.max(first)].iter();
    let called = called.filter(|&&m| of_method(m)).count() as u64;
    let from = thread
        .events
        .partition_point(|e| e.at_ns < stretch.begin_ns);
    let events = thread.events[from..]
        .iter()
        .take_while(|e| e.at_ns <= stretch.end_ns);
    let stacks = events.filter_map(|e| match e.kind {
        Extension::Stack => e.stack().map(|s| (s, 1)),
        _ => None,
    });
    let innermost = |stack| trace.stacks.frames(stack).next();
    let seen = stacks.filter(|(s, _)| innermost(*s).is_some_and(|f| of_method(f.method)));
    called.max(seen.count() as u64)
}
