// SPDX-License-Identifier: Apache-2.0
//! A chain of calls, and the thread that it waited for.

use hindsight_decoder::{Flags, Thread, Trace};

use super::model::{Activity, Chain, LastCall, Reason};
use super::spent::{is_most, Place, Spent};
use crate::callees::callees;
use crate::events::{Own, Waiting};
use crate::evidence::{evidence, Evidence, Recorded};
use crate::known;
use crate::path::{chain_calls, names};

/// The chain that begins with the call `head`.
pub(super) fn chain(trace: &Trace, thread: &Thread, own: &Own, head: usize, spent: Spent) -> Chain {
    let activity = spent.activity;
    let calls = &thread.calls;
    let whole = (calls.start_ns[head], calls.end_ns[head]);
    let Place {
        path,
        gap,
        is_gap,
        recorded,
    } = Place::of(trace, thread, own, head);
    let last = path[path.len() - 1];
    let last_method = trace.methods.get(calls.method[last]);
    // A thread whose short calls are not in the trace need not have waited.
    let may_be_busy =
        activity == Activity::Busy || activity == Activity::Unknown && thread.takes_calls_back();
    // Calls of other threads during a small part of the time explain nothing.
    let evidence = match is_gap && !may_be_busy {
        true => {
            let wait = recorded.span.unwrap_or(gap);
            evidence(trace, thread, wait, last_method, &recorded)
        }
        false => Vec::new(),
    };
    let chain = chain_calls(trace, calls, &path, whole);
    let self_ns = chain.last().map_or(0, |c| c.self_ns);
    let (callees, others) = match is_most(self_ns, calls.end_ns[last] - calls.start_ns[last]) {
        true => Default::default(),
        false => callees(trace, calls, last, whole.1 - whole.0),
    };
    let slept = is_most(spent.slept_ns, whole.1 - whole.0);
    let (culprit, culprit_reason) = match activity {
        Activity::Busy => (None, Reason::Busy),
        _ if slept && recorded.owner.is_none() && recorded.waker.is_none() => (None, Reason::Slept),
        _ if !is_gap => (None, Reason::NotRecorded),
        _ => culprit(&recorded, &evidence),
    };
    let suspect = evidence
        .first()
        .filter(|e| culprit_reason == Reason::NotRecorded && e.ended_together.is_some())
        .filter(|e| is_certain(e))
        .map(|e| (e.method.clone(), e.thread.clone()));
    let mut path_to_head = calls.path_to(head);
    path_to_head.pop();
    Chain {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        start_ns: whole.0,
        held_ns: whole.1 - whole.0,
        activity,
        waited_ns: spent.waited_ns,
        slept_ns: spent.slept_ns,
        used: spent.used,
        cost_recorded: !own.waits.is_empty() || !own.resources.is_empty(),
        began_before: calls.flags[head].contains(Flags::OPEN_START),
        still_running: calls.flags[head].contains(Flags::OPEN_END),
        ended_before_ns: thread.end_ns - whole.1,
        callers: names(trace, calls, &path_to_head),
        last: LastCall {
            longest_gap_ns: gap.1 - gap.0,
            taken_back_below_ns: thread
                .takes_calls_back()
                .then_some(thread.stats.rewind_below_ns),
            recorded_wait_ns: recorded.span.map(|s| s.1 - s.0),
            lock_waits: recorded.lock_waits,
            wait_kind: kind(&recorded),
            sleeps: last_method.is_some_and(known::sleeps_or_waits),
            callees,
            others,
        },
        lock_owner: recorded.owner.filter(|_| is_gap),
        waker: recorded.waker.filter(|_| is_gap),
        calls: chain,
        evidence,
        culprit,
        culprit_reason,
        suspect,
    }
}

/// The culprit (names of its method and its thread) and the reason; without a culprit, why there is none.
fn culprit(recorded: &Recorded, evidence: &[Evidence]) -> (Option<(String, String)>, Reason) {
    let of = |is: fn(&Evidence) -> bool| evidence.iter().find(|e| is(e));
    let (thread, traced, reasons) = match (&recorded.owner, &recorded.waker) {
        (Some(owner), _) => (
            of(|e| e.owns_lock),
            owner.traced,
            [
                Reason::LockOwner,
                Reason::OwnerWaited,
                Reason::OwnerUnnamed,
                Reason::OwnerUnclear,
                Reason::OwnerNotTraced,
            ],
        ),
        (None, Some(waker)) => (
            of(|e| e.woke),
            waker.traced,
            [
                Reason::Waker,
                Reason::WakerWaited,
                Reason::WakerUnnamed,
                Reason::WakerUnclear,
                Reason::WakerNotTraced,
            ],
        ),
        (None, None) => return (None, Reason::NotRecorded),
    };
    let [known, waited, unnamed, unclear, not_traced] = reasons;
    match thread {
        Some(e) if e.lock_owner.is_some() || !e.idle && e.waited_ns > 0 => (None, waited),
        // A thread that waited for work had nothing to do with the wait for most of the time.
        Some(e) if !e.idle && !is_certain(e) => (None, unnamed),
        Some(e) if !e.idle => (Some((e.method.clone(), e.thread.clone())), known),
        _ if traced => (None, unclear),
        _ => (None, not_traced),
    }
}

/// Whether the method is known by its name, rather than by its address or a remark that it is not recorded, and no
/// deeper call without a name may be the one.
fn is_certain(evidence: &Evidence) -> bool {
    !evidence.method.starts_with('<') && !evidence.method_is_uncertain
}

/// The kind of a wait of which neither the owner of a lock nor a waker is recorded.
fn kind(recorded: &Recorded) -> Option<String> {
    let kind = recorded.kind.filter(|&kind| kind != Waiting::LOCK)?;
    Waiting::name(kind).map(str::to_owned)
}
