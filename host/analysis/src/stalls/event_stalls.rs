// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread that records events only.

use std::cmp::Reverse;

use hindsight_decoder::{Mode, Thread, Trace};

use super::facts::Facts;
use super::model::{EventStall, Question, Stalls, RECENT_NS};
use super::spent::is_most;
use super::timeline::{is_life, is_work, outermost, total};
use super::unrecorded::Unrecorded;
use crate::events::{spans, waiting, Resources, Span, SpanKind, Spans, Waiting};
use crate::evidence::ring_is_damaged;

/// The stalls of a thread that records events only. `None` if it records calls, or if its stacks tell more than its events,
/// which are no message, task or wait.
pub(super) fn event_stalls(trace: &Trace, thread: &Thread, question: &Question) -> Option<Stalls> {
    if thread.mode != Mode::Events {
        return None;
    }
    let own = spans(thread);
    if own.spans.is_empty() && !thread.calls.is_empty() {
        return None;
    }
    let used = Resources::of(thread);
    let mut heads = heads(thread, &own, &used);
    let facts = Facts::new(trace, thread, &own);
    let outside = match heads.is_empty() {
        true => None,
        false => facts.lock_wait_outside(&heads, question.stall_ns),
    };
    let messages = own.spans.iter().any(|s| s.kind == SpanKind::Message);
    if heads.is_empty() {
        heads.extend(lock_waits(thread, &own, question));
    }
    heads.sort_by_key(|head| {
        let recent = thread.end_ns.saturating_sub(head.end_ns) <= RECENT_NS;
        let length = head.duration_ns();
        Reverse((recent && length >= question.stall_ns, length))
    });
    let longest = heads.iter().max_by_key(|head| head.duration_ns());
    let (longest_ns, longest_is_cut) = match longest {
        Some(head) => (Some(head.duration_ns()), head.end.is_none()),
        None => (None, false),
    };
    let stalls = heads
        .into_iter()
        .filter(|head| head.duration_ns() >= question.stall_ns)
        .take(question.limit);
    let event_stalls: Vec<EventStall> = stalls.map(|head| facts.stall(&head)).collect();
    let damaged = ring_is_damaged(trace, thread);
    let unrecorded = Unrecorded::of(thread);
    let hides = unrecorded.hides(question.stall_ns);
    let found = !event_stalls.is_empty();
    let recorded = own.spans.iter().any(|span| !is_life(thread, span));
    let waited_for_work = longest_ns.is_none() && is_idle(thread, &own, &used);
    let nothing_recorded = !recorded && !found && !waited_for_work && thread.calls.is_empty();
    Some(Stalls {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        stall: (found || !damaged && !nothing_recorded && !hides).then_some(found),
        named: true,
        damaged,
        span_ns: thread.end_ns - thread.start_ns,
        stall_ns: question.stall_ns,
        messages,
        events_only: true,
        longest_ns,
        longest_is_cut,
        waited_for_work,
        nothing_recorded,
        unrecorded_ns: unrecorded.ns,
        silent: unrecorded.is_silent,
        outside,
        chains: Vec::new(),
        event_stalls,
    })
}

/// Whether a thread is known to have done nothing most of the time: it waited, or hardly computed while it lived.
fn is_idle(thread: &Thread, own: &Spans, used: &Resources) -> bool {
    let whole = (thread.start_ns, thread.end_ns);
    let waits = waiting(thread, own);
    let mut lives = own.spans.iter().filter(|span| is_life(thread, span));
    is_most(total(&waits, whole), whole.1 - whole.0)
        || lives.any(|life| used.used(life.start_ns, life.end_ns).is_some())
}

/// The messages, or else the tasks and other work that is in no other work.
///
/// The task of a thread is its whole life, mostly spent waiting for something to do. It counts only if it computed, and ran no
/// other task.
fn heads(thread: &Thread, own: &Spans, used: &Resources) -> Vec<Span> {
    let is_life = |span: &Span| is_life(thread, span);
    let of = |is: &dyn Fn(&Span) -> bool| -> Vec<Span> {
        let found = outermost(own.spans.iter().filter(|s| is(s)));
        found.into_iter().cloned().collect()
    };
    let messages = of(&|span| span.kind == SpanKind::Message);
    if !messages.is_empty() {
        return messages;
    }
    let work = of(&|span| is_work(span.kind) && !is_life(span));
    if !work.is_empty() {
        return work;
    }
    of(&|span| {
        let computed = used.used(span.start_ns, span.end_ns);
        is_life(span) && computed.is_some_and(|u| is_most(u.cpu_ns, span.duration_ns()))
    })
}

/// The long waits for a lock. Of a thread without work, other waits may be for work.
fn lock_waits(thread: &Thread, own: &Spans, question: &Question) -> Vec<Span> {
    let is_long = |s: &&Span| {
        let is_wait = s.kind == SpanKind::Wait && s.duration_ns() >= question.stall_ns;
        is_wait && thread.events[s.begin].get("kind") == Waiting::LOCK
    };
    own.spans.iter().filter(is_long).cloned().collect()
}

#[cfg(test)]
mod tests;
