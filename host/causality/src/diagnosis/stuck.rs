// SPDX-License-Identifier: Apache-2.0
//! Which node is stuck.

use std::cmp::Reverse;

use super::doing::{doing, is_most, is_work};
use super::kinds::LEAST_PAUSES;
use super::people::events_missing;
use super::stretch::{is_pause, Stretch, PAUSE_NS};
use crate::graph::{Graph, NodeId, NodeKind, WaitKind, WaitResult};
use crate::session::{EventId, Session, ThreadId};

/// A stretch that ended this long before the end of its thread's recording, ns, or goes on, comes before older ones: a file is
/// saved right after its anomaly.
const RECENT_NS: u64 = 2_000_000_000;

/// What is asked.
#[derive(Clone, Debug)]
pub struct StuckQuestion {
    /// The thread; default: the main threads, those of traces that were saved for a reason first.
    pub thread: Option<ThreadId>,
    /// The time, CLOCK_BOOTTIME, ns; default: any.
    pub at_ns: Option<u64>,
    /// From this length on a stretch counts, ns.
    pub least_ns: u64,
}

impl Default for StuckQuestion {
    fn default() -> Self {
        StuckQuestion {
            thread: None,
            at_ns: None,
            least_ns: hindsight_analysis::STALL_NS,
        }
    }
}

/// Why a stretch was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Chosen {
    /// The thread and the time were given.
    Asked,
    /// The trace was saved for a reason, and this is the longest recent stretch of its main thread.
    Saved,
    /// The longest recent stretch of a main thread.
    Longest,
    /// No main thread was stuck; this one waits for a lock, or waited longest for one.
    OtherThread,
    /// No thread was stuck: this main thread waits for work, as a server's does.
    Idle,
    /// No thread was stuck: this main thread was in its own code before its first message or task, as at the start of a program.
    Start,
}

/// The stuck stretch, or the longest one that is too short.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The stretch.
    pub stretch: Stretch,
    /// Why this one.
    pub chosen: Chosen,
    /// Whether it is as long as was asked for, and somebody may have waited for it.
    pub is_long: bool,
}

/// Finds the stuck stretch. `None` if no thread has any. Of a thread that is not asked for, a wait for work or the start of its
/// program is no reason to call it stuck, unless its trace was saved because it was.
pub fn stuck(session: &Session, graph: &Graph, question: &StuckQuestion) -> Option<Found> {
    if let Some(thread) = question.thread {
        return of_thread(session, graph, thread, question).map(|stretch| Found {
            stretch,
            chosen: Chosen::Asked,
            is_long: stretch.duration_ns() >= question.least_ns || question.at_ns.is_some(),
        });
    }
    let traces = 0..session.traces().len();
    let is_saved = |t: usize| is_about_stall(&session.trace(t).process.reason);
    let mut best: Option<(_, Found)> = None;
    for trace in traces.filter(|&t| !is_earlier(session, t)) {
        let Some(main) = session.main_thread(trace) else {
            continue;
        };
        let Some(stretch) = of_thread(session, graph, main, question) else {
            continue;
        };
        let saved = is_saved(trace);
        let recent = is_recent(session, &stretch);
        let (tier, calm) = match (saved, tier(session, graph, &stretch)) {
            (false, Tier::Calm(chosen)) => (0, Some(chosen)),
            (true, Tier::Calm(_)) => (0, None),
            (_, Tier::MayHold(tier)) => (tier, None),
        };
        let is_asked = stretch.duration_ns() >= question.least_ns;
        let is_long = is_asked && calm.is_none();
        let rank = (
            is_long,
            is_asked,
            saved,
            tier,
            recent,
            stretch.duration_ns(),
            Reverse(trace),
        );
        let chosen = match (calm.filter(|_| is_asked), saved) {
            (Some(calm), _) => calm,
            (None, true) => Chosen::Saved,
            (None, false) => Chosen::Longest,
        };
        if best.as_ref().is_none_or(|(r, _)| rank > *r) {
            let found = Found {
                stretch,
                chosen,
                is_long,
            };
            best = Some((rank, found));
        }
    }
    let best = best.map(|(_, found)| found);
    if best.is_some_and(|b| b.is_long) {
        return best;
    }
    lock_waits(session, graph, question).or(best)
}

/// Whether a trace was saved because a thread did not go on: the watchdog says how long a message took, an ANR that there was
/// one.
fn is_about_stall(reason: &str) -> bool {
    reason.contains(" took ") || reason.contains("ANR") || reason.contains("not responding")
}

/// How likely it is that somebody waited for what a stretch did.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// Nobody did, as far as its events tell.
    Calm(Chosen),
    /// Somebody may have: work that the thread was given comes first (3), waits for what others have next (2), and its own code
    /// last (1).
    MayHold(u8),
}

fn tier(session: &Session, graph: &Graph, stretch: &Stretch) -> Tier {
    let node = graph.node(stretch.first);
    if is_work(node.kind) {
        return Tier::MayHold(3);
    }
    let did = doing(session, graph, stretch.thread, &stretch.window());
    if is_most(did.idle_ns, stretch.duration_ns()) {
        return Tier::Calm(Chosen::Idle);
    }
    let Some(wait) = graph.waits_in(stretch.first).first() else {
        return match is_start(session, graph, stretch) {
            true => Tier::Calm(Chosen::Start),
            false => Tier::MayHold(1),
        };
    };
    let begin = session.event(EventId {
        thread: wait.thread,
        event: wait.begin_event,
    });
    let has_timeout = begin.is_some_and(|e| e.get("timeout") != 0);
    let goes_on = wait.result == WaitResult::NotRecorded;
    match wait.kind {
        WaitKind::Lock | WaitKind::Transaction => Tier::MayHold(2),
        _ if goes_on && !has_timeout => Tier::Calm(Chosen::Idle),
        _ => Tier::MayHold(1),
    }
}

/// Whether a stretch is a thread's own code without waits, at the start of its program: the thread went on, and had not been
/// given any work before.
fn is_start(session: &Session, graph: &Graph, stretch: &Stretch) -> bool {
    let node = graph.node(stretch.first);
    let is_own = node.kind == NodeKind::Run && stretch.first == stretch.last && !stretch.is_open;
    let mut before = graph
        .nodes_of(stretch.thread)
        .take_while(|&n| n < stretch.first);
    is_own
        && events_missing(session, stretch.thread).is_none()
        && !before.any(|n| is_given(graph.node(n).kind))
}

/// Whether a node shows that a thread is past its program's start: work that it was given, or a wait for such.
const fn is_given(kind: NodeKind) -> bool {
    is_work(kind) || matches!(kind, NodeKind::Idle)
}

/// Whether there is a later snapshot of the same process.
fn is_earlier(session: &Session, trace: usize) -> bool {
    matches!(
        session.apart(trace),
        Some(crate::clocks::Disagreement::Earlier { .. })
    )
}

fn is_recent(session: &Session, stretch: &Stretch) -> bool {
    let end_ns = session.thread(stretch.thread).end_ns;
    stretch.is_open || end_ns.saturating_sub(stretch.end_ns) <= RECENT_NS
}

/// The most telling stretch of a thread.
fn of_thread(
    session: &Session,
    graph: &Graph,
    thread: ThreadId,
    question: &StuckQuestion,
) -> Option<Stretch> {
    let all = stretches(graph, thread);
    if let Some(at_ns) = question.at_ns {
        let contains = |s: &&Stretch| s.begin_ns <= at_ns && at_ns <= s.end_ns;
        let around = all.iter().filter(contains).max_by_key(|s| s.duration_ns());
        let node = || {
            graph
                .node_at(thread, at_ns)
                .map(|n| Stretch::of_node(graph, n))
        };
        return around.copied().or_else(node);
    }
    let is_message = |s: &Stretch| graph.node(s.first).kind == NodeKind::Message;
    let is_long = |s: &Stretch| s.duration_ns() >= question.least_ns;
    // A thread that dispatches messages is stuck in one of them.
    let by_messages = all.iter().any(|s| is_message(s) && is_long(s));
    let possible = all.iter().filter(|s| !by_messages || is_message(s));
    let is_asked = question.thread.is_some();
    let rank = |s: &&Stretch| {
        let long = is_long(s);
        let may_hold = || matches!(tier(session, graph, s), Tier::MayHold(_));
        (
            long && (is_asked || may_hold()),
            long && is_recent(session, s),
            long,
            s.duration_ns(),
            Reverse(s.first),
        )
    };
    possible.max_by_key(rank).copied()
}

/// The stretches of a thread in which it may be stuck: pieces of work, waits that are not for work, and its own code, with its
/// pauses.
pub fn stretches(graph: &Graph, thread: ThreadId) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    // The thread's own code with pauses in between.
    let mut own: Option<(Stretch, u64)> = None;
    let close = |own: &mut Option<(Stretch, u64)>, found: &mut Vec<Stretch>| {
        if let Some((stretch, pauses)) = own.take() {
            if pauses >= LEAST_PAUSES || stretch.first == stretch.last {
                found.push(stretch);
            }
        }
    };
    for id in graph.nodes_of(thread).filter(|&n| !graph.is_inside(n)) {
        let node = graph.node(id);
        let one = Stretch::of_node(graph, id);
        let pauses = match node.kind {
            NodeKind::Wait => pauses(graph, id),
            NodeKind::Run => Some(0),
            _ => None,
        };
        let Some(pauses) = pauses else {
            close(&mut own, &mut found);
            if is_work(node.kind) || node.kind == NodeKind::Wait {
                found.push(one);
            }
            continue;
        };
        if node.kind == NodeKind::Run && one.duration_ns() >= PAUSE_NS {
            found.push(one);
        }
        match &mut own {
            Some((stretch, sum)) if stretch.end_ns <= node.begin_ns => {
                stretch.last = id;
                stretch.end_ns = node.end_ns;
                stretch.is_open |= node.is_open;
                *sum += pauses;
            }
            _ => {
                close(&mut own, &mut found);
                own = Some((one, pauses));
            }
        }
    }
    close(&mut own, &mut found);
    found.sort_by_key(|s| (s.begin_ns, s.first, s.last));
    found.dedup();
    found
}

/// The stretch that is this time of a thread, CLOCK_BOOTTIME, ns: one of [`stretches`] if it is nine tenths of both, else the time
/// itself. `None` if the thread recorded nothing then.
pub fn stretch_at(graph: &Graph, thread: ThreadId, (from, to): (u64, u64)) -> Option<Stretch> {
    let common = |s: &Stretch| s.end_ns.min(to).saturating_sub(s.begin_ns.max(from));
    let all = stretches(graph, thread).into_iter();
    let nearest = all.max_by_key(|s| (common(s), Reverse(s.duration_ns()), Reverse(s.first)));
    let longer = |s: &Stretch| s.duration_ns().max(to.saturating_sub(from));
    let is_nearly = |s: &Stretch| u128::from(common(s)) * 10 >= u128::from(longer(s)) * 9;
    nearest.filter(is_nearly).or_else(|| {
        let first = graph.node_at(thread, from)?;
        let last = graph.node_at(thread, to).filter(|&n| n >= first);
        Some(Stretch {
            thread,
            first,
            last: last.unwrap_or(first),
            begin_ns: from,
            end_ns: to.max(from),
            is_open: last.is_some_and(|n| graph.node(n).is_open),
        })
    })
}

/// The number of pauses, if a node outside work is one.
fn pauses(graph: &Graph, node: NodeId) -> Option<u64> {
    let waits = graph.waits_in(node);
    let all = !waits.is_empty() && waits.iter().all(is_pause);
    all.then_some(waits.len() as u64)
}

/// The longest wait for a lock of any thread, at the time that is asked for, waits that go on first.
fn lock_waits(session: &Session, graph: &Graph, question: &StuckQuestion) -> Option<Found> {
    let mut best: Option<(_, Stretch)> = None;
    for thread in session.thread_ids() {
        if is_earlier(session, session.about(thread).trace()) {
            continue;
        }
        for wait in graph.waits_of(thread) {
            let is_then = |at_ns| wait.begin_ns <= at_ns && at_ns <= wait.end_ns;
            let is_lock = wait.kind == WaitKind::Lock
                && wait.duration_ns() >= question.least_ns
                && question.at_ns.is_none_or(is_then);
            let node = graph.node_of(EventId {
                thread,
                event: wait.begin_event,
            });
            let Some(node) = node.filter(|_| is_lock) else {
                continue;
            };
            let goes_on = wait.end_event == crate::graph::Wait::NOT_RECORDED;
            let rank = (goes_on, wait.duration_ns(), Reverse(thread));
            if best.as_ref().is_none_or(|(r, _)| rank > *r) {
                best = Some((rank, Stretch::of_node(graph, node)));
            }
        }
    }
    best.map(|(_, stretch)| Found {
        stretch,
        chosen: Chosen::OtherThread,
        is_long: true,
    })
}
