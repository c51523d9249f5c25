// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread that records events only.

use std::cmp::Reverse;

use hindsight_decoder::{Mode, Thread, Trace};

use super::facts::{total, Facts};
use super::model::{EventStall, Question, Stalls, RECENT_NS};
use super::spent::is_most;
use crate::events::{spans, waiting, Resources, Span, SpanKind, Spans, Waiting};
use crate::evidence::ring_is_damaged;

/// Index of the kind of tasks that are the life of a thread.
const THREAD: u64 = 1;

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
        heads.extend(whole(thread, &own, question));
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
    let found = !event_stalls.is_empty();
    let recorded = own.spans.iter().any(|span| !is_life(thread, span));
    let waited_for_work = longest_ns.is_none() && is_idle(thread, &own, &used);
    let nothing_recorded = !recorded && !found && !waited_for_work && thread.calls.is_empty();
    Some(Stalls {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        stall: (found || !damaged && !nothing_recorded).then_some(found),
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
        outside,
        chains: Vec::new(),
        event_stalls,
    })
}

/// Whether the span is the task of a thread, which is its whole life.
fn is_life(thread: &Thread, span: &Span) -> bool {
    span.kind == SpanKind::Task && thread.events[span.begin].get("kind") == THREAD
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
    let of = |is: &dyn Fn(&Span) -> bool| {
        // Spans are in the order of their beginnings: one inside another one ends before it.
        let mut until = 0;
        let mut heads: Vec<Span> = Vec::new();
        for span in own.spans.iter().filter(|s| is(s)) {
            if heads.is_empty() || span.start_ns >= until {
                until = span.end_ns;
                heads.push(span.clone());
            }
        }
        heads
    };
    let messages = of(&|span| span.kind == SpanKind::Message);
    if !messages.is_empty() {
        return messages;
    }
    // A call that a rule names may be any method's, for instance of a queue.
    let is_work = |span: &Span| {
        !matches!(
            span.kind,
            SpanKind::Wait | SpanKind::Checkpoint | SpanKind::GcPause | SpanKind::Rule
        )
    };
    let work = of(&|span| is_work(span) && !is_life(span));
    if !work.is_empty() {
        return work;
    }
    of(&|span| {
        let computed = used.used(span.start_ns, span.end_ns);
        is_life(span) && computed.is_some_and(|u| is_most(u.cpu_ns, span.duration_ns()))
    })
}

/// All of the thread's time, if it waited for long for something other than work.
fn whole(thread: &Thread, own: &Spans, question: &Question) -> Option<Span> {
    let is_long = |s: &&Span| {
        let kind = thread.events[s.begin].get("kind");
        s.kind == SpanKind::Wait && kind == Waiting::LOCK && s.duration_ns() >= question.stall_ns
    };
    own.spans.iter().find(is_long)?;
    Some(Span {
        kind: SpanKind::Wait,
        // No event: it is no span.
        begin: usize::MAX,
        end: None,
        start_ns: thread.start_ns,
        end_ns: thread.end_ns,
    })
}

#[cfg(test)]
mod tests;
