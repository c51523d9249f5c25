// SPDX-License-Identifier: Apache-2.0
//! The thread that another thread waited for: recorded owners and wakers, and calls of other threads meanwhile.

use hindsight_decoder::{
    Calls, DamagedPart, Extension, Flags, Method, Thread, ThreadEvent, ThreadKey, Trace,
};
use serde::Serialize;

use crate::events::{Own, Waiting};
use crate::known;
use crate::path::{
    chain_calls, heaviest_path, longest_gap, names, overlap, telling_method, ChainCall, DOMINANT,
};

/// A call covers at least this part of a wait that it may have caused.
const COVERED: f64 = 0.9;
/// The fact by which a file says that it was converted from another one.
const CONVERTED: &str = "converted.by";
/// How far apart the end of a wait and the end of the call that caused it may be: a woken thread has to be
/// scheduled first, and on a busy machine the other one may be held up between unlocking and returning.
const WAKE_UP_NS: u64 = 20_000_000;

/// The thread that owned a lock when another one began to wait for it, as the latter recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockOwner {
    /// Thread id.
    pub tid: u32,
    /// Its ring; `None` if its calls are not in the trace, or if several threads of the trace had this id.
    pub ring: Option<u32>,
    /// Its name, where the file has it.
    pub thread: Option<String>,
    /// Whether its calls are in the trace.
    pub traced: bool,
    /// Why calls of it may be missing, if that is known.
    pub missing: Option<Missing>,
    /// Identity of the lock.
    pub lock: u64,
}

/// The thread that woke another one, as the latter recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Waker {
    /// Thread id.
    pub tid: u32,
    /// Its ring; `None` if its calls are not in the trace, or if several threads of the trace had this id.
    pub ring: Option<u32>,
    /// Its name, where the file has it.
    pub thread: Option<String>,
    /// Whether its calls are in the trace.
    pub traced: bool,
    /// Why calls of it may be missing, if that is known.
    pub missing: Option<Missing>,
}

/// Why calls of a recorded thread are missing from a trace, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// Its ring is damaged.
    RingDamaged,
    /// The file is damaged, and may have held its ring.
    FileDamaged,
    /// The file was converted from another one, which may hold its calls.
    Converted,
    /// Its ring does not reach back so far: newer events have overwritten them, or they are in an earlier file or fell out of
    /// the spool.
    Overwritten,
    /// Only a later thread with its id is in the trace: the kernel gives ids of ended threads to new ones.
    BeganLater,
}

/// Calls of another thread while the chain's last call waited.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Thread id.
    pub tid: u32,
    /// Its ring.
    pub ring: u32,
    /// Thread name.
    pub thread: String,
    /// Calls that contain the first call of the chain and went on after the wait, outermost first.
    pub callers: Vec<String>,
    /// Its chain of calls; times are inside the wait.
    #[serde(rename = "links")]
    pub calls: Vec<ChainCall>,
    /// The program's innermost method among its callers and its chain, or else of the platform.
    pub method: String,
    /// Whether a deeper call has no name, so that it may have been another method.
    #[serde(skip)]
    pub(crate) method_is_uncertain: bool,
    /// The part of the wait that the last one covers, 0 ..= 1.
    pub share: f64,
    /// Whether the last one sleeps or waits.
    pub sleeps: bool,
    /// Whether the thread waited for work most of the time.
    pub idle: bool,
    /// Index of a call that ended together with the wait: it may have released what was waited for.
    pub ended_together: Option<usize>,
    /// How long after that call the wait ended, ns; below 0 if the wait was seen to end first.
    pub end_gap_ns: i64,
    /// Whether that call is of the same class as the one that waited.
    pub same_class: bool,
    /// The owner of the lock that this thread itself waited for, for most of that time, if it is recorded.
    pub lock_owner: Option<LockOwner>,
    /// The thread that ended a wait of this thread itself, which took most of that time, if it is recorded.
    pub waker: Option<Waker>,
    /// How long this thread waited itself in that wait, ns, if the wait is recorded and most of that time. Sleeps and waits for
    /// work are none.
    pub waited_ns: u64,
    /// Whether the trace says that this thread owned the lock.
    pub owns_lock: bool,
    /// Whether the trace says that this thread ended the wait.
    pub woke: bool,
}

/// A thread that an event names by its id.
pub(crate) struct Named {
    pub(crate) thread: Option<String>,
    key: Option<ThreadKey>,
    pub(crate) traced: bool,
    pub(crate) missing: Option<Missing>,
}

/// Whether the file was converted from another one, which may hold more.
pub fn is_converted(trace: &Trace) -> bool {
    let mut facts = trace.process.extra.iter();
    facts.any(|(key, _)| key == CONVERTED)
}

/// The thread that had the id `tid` at `at_ns`. The kernel gives ids of ended threads to new ones, so the trace
/// may hold several threads of that id: without a `key` it is not certain which one is meant.
pub(crate) fn named(trace: &Trace, tid: u32, at_ns: u64) -> Named {
    let alive = |t: &&Thread| t.tid == tid && t.end_ns >= at_ns;
    let mut found: Vec<&Thread> = trace.threads.iter().filter(alive).collect();
    if found.len() > 1 {
        found.retain(|t| t.start_ns <= at_ns);
    }
    if let [thread] = found[..] {
        if !may_have_begun(trace, thread, at_ns) {
            return Named {
                thread: None,
                key: None,
                traced: false,
                missing: Some(Missing::BeganLater),
            };
        }
        return Named {
            thread: Some(thread.name.clone()),
            key: Some(thread.key),
            traced: true,
            missing: ring_is_damaged(trace, thread).then_some(Missing::RingDamaged),
        };
    }
    let damaged = trace.damaged.iter().find_map(|d| match &d.part {
        DamagedPart::Ring { tid: t, name, .. } if *t == Some(tid) => Some(name.clone()),
        _ => None,
    });
    let missing = match &damaged {
        _ if !found.is_empty() => None,
        Some(_) => Some(Missing::RingDamaged),
        None if may_have_lost_rings(trace) => Some(Missing::FileDamaged),
        None => is_converted(trace).then_some(Missing::Converted),
    };
    Named {
        thread: damaged.flatten(),
        key: None,
        traced: !found.is_empty(),
        missing,
    }
}

/// Whether a part of this thread's ring, or of one of its rings, is damaged.
pub fn ring_is_damaged(trace: &Trace, thread: &Thread) -> bool {
    let is_its = |key: &ThreadKey| {
        *key == thread.key
            || key.process == thread.key.process
                && thread.parts.iter().any(|part| part.ring == key.ring)
    };
    let mut damaged = trace.damaged.iter();
    damaged.any(|d| matches!(&d.part, DamagedPart::Ring { thread, .. } if is_its(thread)))
}

/// Whether a damaged file may have held rings of threads that the trace does not have.
pub fn may_have_lost_rings(trace: &Trace) -> bool {
    // A ring without an id may be of any thread.
    let may_hold_ring = |part: &DamagedPart| {
        matches!(
            part,
            DamagedPart::Ring { tid: None, .. }
                | DamagedPart::Table { .. }
                | DamagedPart::Bytes { .. }
        )
    };
    trace.damaged.iter().any(|d| may_hold_ring(&d.part))
}

/// Whether older events of this thread may be missing: they were overwritten, or are in an earlier ring that the file does
/// not have, or in a damaged one.
pub fn is_cut(trace: &Trace, thread: &Thread) -> bool {
    is_overwritten(thread) || ring_is_damaged(trace, thread)
}

/// Whether this thread recorded events before the oldest one of the trace.
pub(crate) fn is_overwritten(thread: &Thread) -> bool {
    thread.stats.overwritten_slots > 0 || thread.parts.first().is_some_and(|part| part.number > 0)
}

/// Whether a thread had its id already at `at_ns`: it recorded something by then, or what it recorded may be missing. The
/// kernel gives ids of ended threads to new ones.
pub fn may_have_begun(trace: &Trace, thread: &Thread, at_ns: u64) -> bool {
    let is_empty = thread.events.is_empty() && thread.calls.is_empty();
    thread.start_ns <= at_ns || is_empty || is_cut(trace, thread)
}

/// Whether all that this thread recorded in this stretch of time is in the trace.
pub fn is_whole(trace: &Trace, thread: &Thread, within: (u64, u64)) -> bool {
    thread.start_ns <= within.0
        && within.1 <= thread.end_ns
        && thread.stats.gaps == 0
        && !ring_is_damaged(trace, thread)
}

/// The wait that a thread recorded in a gap between its calls.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) owner: Option<LockOwner>,
    owner_key: Option<ThreadKey>,
    pub(crate) waker: Option<Waker>,
    waker_key: Option<ThreadKey>,
    /// How often a wait for a lock began in this wait. Each time, the lock may have had another owner.
    pub(crate) lock_waits: u64,
    /// The kind of the wait, as [`Waiting`](crate::events::Waiting) has it, if both of its ends are recorded.
    pub(crate) kind: Option<u64>,
    /// The recorded part of the wait, which is most of the gap.
    pub(crate) span: Option<(u64, u64)>,
}

/// The wait that `thread` recorded in `gap`, between two calls. ART records an event after it has tried to get a lock for
/// a while, and when another thread has ended a wait. So the recorded part of the first kind of wait lasts at most until
/// the next event or the gap's end, and of the second kind since the event before or the gap's beginning. A wait whose
/// recorded part is not most of the gap does not explain it.
pub(crate) fn recorded(trace: &Trace, thread: &Thread, own: &Own, gap: (u64, u64)) -> Recorded {
    let mut found = Recorded::default();
    let is_wait = |e: &&ThreadEvent| matches!(e.kind, Extension::LockWait | Extension::WokenBy);
    let in_gap = |e: &&ThreadEvent| gap.0 <= e.at_ns && e.at_ns <= gap.1;
    let events = thread.events.iter().filter(is_wait).filter(in_gap);
    let events: Vec<&ThreadEvent> = events.collect();
    let is_most = |span: (u64, u64)| (span.1 - span.0) as f64 > (gap.1 - gap.0) as f64 * DOMINANT;
    let named_by = |event: &ThreadEvent| {
        let tid = u32::try_from(event.payload[0])
            .ok()
            .filter(|&tid| tid != 0)?;
        Some((tid, named(trace, tid, event.at_ns)))
    };
    // Waits for locks, one right after the other, are one wait.
    let mut locks: Option<(u64, u64)> = None;
    for (i, event) in events.iter().enumerate() {
        let before = i.checked_sub(1).map_or(gap.0, |b| events[b].at_ns);
        let after = events.get(i + 1).map_or(gap.1, |e| e.at_ns);
        if event.kind == Extension::LockWait {
            let since = locks.map_or(event.at_ns, |l| l.0);
            locks = Some((since, after));
            if found.owner.is_none() && is_most((since, after)) {
                found.span = Some((since, after));
            }
            let of_one = (event.at_ns, after);
            if let Some((tid, named)) = named_by(event).filter(|_| is_most(of_one)) {
                found.owner_key = named.key;
                found.owner = Some(LockOwner {
                    tid,
                    ring: named.key.map(|k| k.ring),
                    thread: named.thread,
                    traced: named.traced,
                    missing: named.missing,
                    lock: event.payload[1],
                });
                found.span = Some(of_one);
            }
        } else {
            locks = None;
            let of_one = (before, event.at_ns);
            if let Some((tid, named)) = named_by(event).filter(|_| is_most(of_one)) {
                found.waker_key = named.key;
                found.waker = Some(Waker {
                    tid,
                    ring: named.key.map(|k| k.ring),
                    thread: named.thread,
                    traced: named.traced,
                    missing: named.missing,
                });
                found.span.get_or_insert(of_one);
            }
        }
    }
    // A wait with both of its ends, of which neither the owner of a lock nor a waker is recorded.
    let longest = own.waits.iter().max_by_key(|w| w.overlap(gap));
    if let Some(wait) = longest.filter(|w| w.overlap(gap) > 0) {
        let span = (wait.span.0.max(gap.0), wait.span.1.min(gap.1));
        if is_most(span) {
            found.span.get_or_insert(span);
            found.kind = Some(wait.kind);
        }
    }
    if let Some(span) = found.span {
        let begins = |e: &&&ThreadEvent| {
            e.kind == Extension::LockWait && span.0 <= e.at_ns && e.at_ns < span.1.max(span.0 + 1)
        };
        found.lock_waits = events.iter().filter(begins).count() as u64;
    }
    found
}

/// Calls of the other threads during `gap`, in which `waiting` waited in the method `waited_in`; the most telling
/// thread first.
pub(crate) fn evidence(
    trace: &Trace,
    waiting: &Thread,
    gap: (u64, u64),
    waited_in: Option<&Method>,
    recorded: &Recorded,
) -> Vec<Evidence> {
    if gap.1 == gap.0 {
        return Vec::new();
    }
    let mut found: Vec<Evidence> = trace
        .threads
        .iter()
        .filter(|t| t.key != waiting.key && t.tid != trace.process.raised_by)
        .filter_map(|t| evidence_of(trace, t, gap, waited_in, recorded))
        .collect();
    found.sort_by(|a, b| {
        let rank = |e: &Evidence| {
            let together = e.ended_together.is_some();
            (e.owns_lock, e.woke, e.same_class, together)
        };
        rank(b).cmp(&rank(a)).then(b.share.total_cmp(&a.share))
    });
    found
}

/// The outermost call that covers most of `span`.
pub(crate) fn outermost(calls: &Calls, span: (u64, u64)) -> Option<usize> {
    // Starts are sorted: from the last outermost call that began inside, go back to one that ended before.
    let mut after = calls.start_ns.partition_point(|&start| start < span.1);
    let mut found: Option<usize> = None;
    while after > 0 {
        let outermost = calls.path_to(after - 1)[0];
        if calls.end_ns[outermost] <= span.0 {
            break;
        }
        if found.is_none_or(|f| overlap(calls, outermost, span) >= overlap(calls, f, span)) {
            found = Some(outermost);
        }
        after = outermost;
    }
    found
}

/// How much of `gap` a recorded wait took, ns, if it is most of it, and neither a sleep nor a wait for work.
fn waited_ns(recorded: &Recorded, gap: (u64, u64)) -> u64 {
    let own_choice = matches!(recorded.kind, Some(Waiting::SLEEP | Waiting::POLL));
    let Some(span) = recorded.span.filter(|_| !own_choice) else {
        return 0;
    };
    let ns = span.1.min(gap.1).saturating_sub(span.0.max(gap.0));
    match ns as f64 > (gap.1 - gap.0) as f64 * DOMINANT {
        true => ns,
        false => 0,
    }
}

fn evidence_of(
    trace: &Trace,
    thread: &Thread,
    gap: (u64, u64),
    waited_in: Option<&Method>,
    recorded: &Recorded,
) -> Option<Evidence> {
    let calls = &thread.calls;
    let owns_lock = recorded.owner_key == Some(thread.key);
    let woke = recorded.waker_key == Some(thread.key);
    let length = gap.1 - gap.0;
    let outermost = outermost(calls, gap)?;
    if (overlap(calls, outermost, gap) as f64) < length as f64 * DOMINANT {
        return None;
    }
    let path = heaviest_path(calls, outermost, gap);
    let method = |i: usize| trace.methods.get(calls.method[i]);
    let any = |is: fn(&Method) -> bool| path.iter().any(|&i| method(i).is_some_and(is));
    let is_fact = owns_lock || woke;
    if !is_fact && any(known::waits_for_work) {
        return None;
    }
    let idle = any(known::is_idle);
    let last = path[path.len() - 1];
    let (telling, method_is_uncertain) = telling_method(trace, calls, &path);
    let waits = longest_gap(calls, last);
    let waits = (waits.0.max(gap.0), waits.1.min(gap.1));
    let is_most = waits.1.saturating_sub(waits.0) as f64 > length as f64 * DOMINANT;
    let itself = match is_most {
        true => self::recorded(trace, thread, &Own::of(thread), longest_gap(calls, last)),
        false => Recorded::default(),
    };
    let waited_ns = waited_ns(&itself, gap);
    // Calls that went on after the wait are context.
    let ended = |i: usize| {
        !calls.flags[i].contains(Flags::OPEN_END) && calls.end_ns[i] <= gap.1 + WAKE_UP_NS
    };
    let context = path
        .iter()
        .position(|&i| ended(i))
        .unwrap_or(path.len() - 1);
    let (callers, path) = path.split_at(context);

    let distance = |p: usize| calls.end_ns[path[p]].abs_diff(gap.1);
    let may_have_caused_it = |p: &usize| {
        let i = path[*p];
        let covered = overlap(calls, i, gap) as f64 >= COVERED * length as f64;
        ended(i) && covered && distance(*p) <= WAKE_UP_NS
    };
    let is_same_class = |p: &usize| match (waited_in, method(path[*p])) {
        (Some(a), Some(b)) => {
            a.is_named() && known::outer_class(&a.class) == known::outer_class(&b.class)
        }
        _ => false,
    };
    // A method that synchronizes on an object of the same class is the best guess, the outermost one if
    // there are several: it released the lock last. Otherwise it is the call whose end is nearest, which
    // must not have ended later: it may just as well have been woken by the one who waited.
    let same_class = (0..path.len())
        .filter(may_have_caused_it)
        .find(is_same_class);
    let ended_together = same_class.or_else(|| {
        let ended_first = |p: &usize| calls.end_ns[path[*p]] <= gap.1;
        (0..path.len())
            .filter(may_have_caused_it)
            .filter(ended_first)
            .min_by_key(|&p| distance(p))
    });
    Some(Evidence {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        callers: names(trace, calls, callers),
        calls: chain_calls(trace, calls, path, gap),
        method: telling,
        method_is_uncertain,
        share: overlap(calls, last, gap) as f64 / length as f64,
        sleeps: method(last).is_some_and(known::sleeps_or_waits),
        idle,
        ended_together,
        end_gap_ns: ended_together.map_or(0, |p| gap.1 as i64 - calls.end_ns[path[p]] as i64),
        same_class: same_class.is_some(),
        lock_owner: itself.owner,
        waker: itself.waker.filter(|_| waited_ns > 0),
        waited_ns,
        owns_lock,
        woke,
    })
}

#[cfg(test)]
mod tests;
