// SPDX-License-Identifier: Apache-2.0
//! Stalls of a thread that records events only.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Extension, Mode, Thread, Trace};

use super::model::{
    Activity, EventStall, EventWait, Party, Question, Reason, Stalls, WaitTotal, RECENT_NS,
};
use super::spent::is_most;
use crate::events::{
    pairs, spans, End, FieldValue, Fields, Pair, PairKind, Resources, Span, SpanKind, Spans,
};
use crate::evidence::{named, ring_is_damaged, Missing};

/// Index of the kind of waits for a lock, and of sleeps, in the catalogue.
const LOCK: u64 = 0;
const SLEEP: u64 = 2;
/// Index of the kind of tasks that are the life of a thread.
const THREAD: u64 = 1;
/// The pairs of work and what sent it.
const SENDS: [PairKind; 6] = [
    PairKind::Message,
    PairKind::Task,
    PairKind::Post,
    PairKind::Callback,
    PairKind::Traversal,
    PairKind::Transaction,
];

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
    let facts = Facts::new(trace, thread, &own);
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
    let waits: Vec<&Span> = waits(own, whole).collect();
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
            SpanKind::Wait | SpanKind::Checkpoint | SpanKind::Rule
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
        s.kind == SpanKind::Wait && kind == LOCK && s.duration_ns() >= question.stall_ns
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

/// A trace, with all that is known of its events.
struct Facts<'a> {
    trace: &'a Trace,
    thread: &'a Thread,
    own: &'a Spans,
    fields: Fields<'a>,
    /// The pairs by their effects.
    causes: HashMap<End, Vec<Pair>>,
}

impl<'a> Facts<'a> {
    fn new(trace: &'a Trace, thread: &'a Thread, own: &'a Spans) -> Self {
        let mut causes: HashMap<End, Vec<Pair>> = HashMap::new();
        for pair in pairs(trace).pairs {
            causes.entry(pair.to).or_default().push(pair);
        }
        Facts {
            trace,
            thread,
            own,
            fields: Fields::new(trace),
            causes,
        }
    }

    /// The event of the pair of this kind whose effect is this event of the thread: its thread, and its index.
    fn cause(&self, effect: usize, kinds: &[PairKind]) -> Option<(&'a Thread, usize)> {
        let end = End {
            thread: self.thread.key,
            event: effect,
        };
        let pair = self
            .causes
            .get(&end)?
            .iter()
            .find(|p| kinds.contains(&p.kind))?;
        let thread = self.trace.threads.iter();
        let thread = thread.clone().find(|t| t.key == pair.from.thread)?;
        Some((thread, pair.from.event))
    }

    /// The event that begins the work of a span: of a frame, the callback that took most of it, if one did.
    fn work(&self, head: &Span) -> usize {
        if !matches!(head.kind, SpanKind::Frame | SpanKind::FrameCallbacks) {
            return head.begin;
        }
        let events = &self.thread.events;
        let mut ends_ns = head.end_ns;
        for at in (head.begin + 1..head.end.unwrap_or(events.len())).rev() {
            let event = &events[at];
            if !matches!(
                event.kind,
                Extension::CallbackRun | Extension::FrameCallbacks
            ) {
                continue;
            }
            let ns = ends_ns.saturating_sub(event.at_ns);
            if event.kind == Extension::CallbackRun && is_most(ns, head.duration_ns()) {
                return at;
            }
            ends_ns = event.at_ns;
        }
        head.begin
    }

    fn stall(&self, head: &Span) -> EventStall {
        let (thread, length) = (self.thread, head.duration_ns());
        let span = (head.start_ns, head.end_ns);
        let begin = thread.events.get(head.begin);
        let work = self.work(head);
        let sent = begin.and_then(|_| self.cause(work, &SENDS));
        let began_ns = thread.events.get(work).map_or(span.0, |e| e.at_ns);
        let waits: Vec<&Span> = waits(self.own, span).collect();
        let waited_ns = total(&waits, span);
        let used = Resources::of(thread).used(span.0, span.1);
        let longest = waits.iter().max_by_key(|w| overlap(w, span)).copied();
        let wait = longest
            .filter(|w| is_most(overlap(w, span), length))
            .map(|w| self.wait(w, span));
        let slept: Vec<&Span> = waits
            .iter()
            .copied()
            .filter(|w| thread.events[w.begin].get("kind") == SLEEP)
            .collect();
        let activity = if is_most(waited_ns, length) {
            Activity::Waited
        } else if used.is_some_and(|u| is_most(u.cpu_ns, length)) {
            Activity::Busy
        } else {
            Activity::Unknown
        };
        let (culprit, culprit_reason) = match (&wait, activity) {
            _ if is_most(total(&slept, span), length) => (None, Reason::Slept),
            (Some(wait), _) => culprit(wait),
            (None, Activity::Busy) => (None, Reason::Busy),
            _ => (None, Reason::NotRecorded),
        };
        EventStall {
            what: begin.map(|_| head.kind),
            name: match sent {
                Some((sender, e)) if work != head.begin => self.name(sender, e),
                _ => begin.map_or_else(String::new, |_| self.name(thread, work)),
            },
            code: begin
                .filter(|e| e.kind == Extension::MessageDispatched)
                .map(|e| e.get("what")),
            start_ns: span.0,
            held_ns: length,
            may_have_begun_before: head.start_ns <= thread.start_ns,
            // Else its end is missing.
            still_running: head.end.is_none() && head.end_ns >= thread.end_ns,
            ended_before_ns: thread.end_ns.saturating_sub(span.1),
            sent_before_ns: sent.map(|(t, e)| began_ns.saturating_sub(t.events[e].at_ns)),
            delay_ns: sent.map_or(0, |(t, e)| t.events[e].get("delay") * 1_000_000),
            sender: sent.map(|(t, e)| self.party(t, t.events[e].at_ns, None)),
            used,
            waited_ns,
            waits: self.totals(thread, &waits, span),
            wait,
            activity,
            culprit,
            culprit_reason,
        }
    }

    /// The name of what an event begins: a class, or the name that the program gave it; may be empty.
    fn name(&self, thread: &Thread, begin: usize) -> String {
        let event = &thread.events[begin];
        let named = |name: &str| matches!(name, "class" | "name" | "rule" | "type");
        let mut fields = self.fields.of(event).filter(|(field, _)| named(field.name));
        match fields.next() {
            Some((_, FieldValue::Text(text))) => text,
            _ => String::new(),
        }
    }

    fn totals(&self, thread: &Thread, waits: &[&Span], within: (u64, u64)) -> Vec<WaitTotal> {
        let mut totals: Vec<WaitTotal> = Vec::new();
        for wait in waits {
            let kind = self.text(thread, wait.begin, "kind");
            let at = totals.iter().position(|t| t.kind == kind);
            let at = at.unwrap_or_else(|| {
                totals.push(WaitTotal {
                    kind,
                    count: 0,
                    ns: 0,
                });
                totals.len() - 1
            });
            totals[at].count += 1;
            totals[at].ns += overlap(wait, within);
        }
        totals.sort_by_key(|t| Reverse(t.ns));
        totals
    }

    /// The text of a field of choices.
    fn text(&self, thread: &Thread, event: usize, field: &str) -> String {
        let mut fields = self.fields.of(&thread.events[event]);
        match fields.find(|(f, _)| f.name == field) {
            Some((_, FieldValue::Text(text))) => text,
            _ => String::new(),
        }
    }

    /// A thread, at this time, and what it did meanwhile.
    fn party(&self, thread: &Thread, at_ns: u64, meanwhile: Option<(u64, u64)>) -> Party {
        let spans = spans(thread);
        let mut doing: Vec<String> = Vec::new();
        for span in &spans.spans {
            let is_work = !matches!(span.kind, SpanKind::Wait | SpanKind::Checkpoint);
            if is_work && span.start_ns <= at_ns && at_ns <= span.end_ns {
                let (kind, name) = (span.kind.name(), self.name(thread, span.begin));
                let has_class = matches!(span.kind, SpanKind::Message | SpanKind::Task);
                doing.push(match name.is_empty() {
                    false => format!("{kind} {name}"),
                    true if has_class => format!("a {kind} of unknown class"),
                    true => kind.to_owned(),
                });
            }
        }
        let waits = meanwhile.map_or_else(Vec::new, |within| {
            let waits: Vec<&Span> = waits(&spans, within).collect();
            self.totals(thread, &waits, within)
        });
        Party {
            tid: thread.tid,
            ring: Some(thread.key.ring),
            thread: Some(thread.name.clone()),
            traced: true,
            missing: ring_is_damaged(self.trace, thread).then_some(Missing::RingDamaged),
            doing,
            waits,
            used: meanwhile.and_then(|(from, to)| Resources::of(thread).used(from, to)),
        }
    }

    /// The thread with this id, at this time.
    fn by_tid(&self, tid: u64, at_ns: u64, meanwhile: (u64, u64)) -> Option<Party> {
        let tid = u32::try_from(tid).ok().filter(|&tid| tid != 0)?;
        let with_id = || self.trace.threads.iter().filter(|t| t.tid == tid);
        let alive = |t: &&Thread| t.start_ns <= at_ns && t.end_ns >= at_ns;
        let mut threads = with_id().filter(alive);
        let found = match (threads.next(), threads.next()) {
            // Its recording may end before, or be damaged there: then it is not known what it did.
            (None, _) => {
                let mut all = with_id();
                (all.next(), all.next())
            }
            found => found,
        };
        Some(match found {
            (Some(thread), None) => self.party(thread, at_ns, Some(meanwhile)),
            // Several threads had the id: it is not certain which one is meant.
            (several, _) => {
                let named = named(self.trace, tid, at_ns);
                Party {
                    tid,
                    ring: None,
                    thread: named.thread.filter(|_| several.is_none()),
                    traced: several.is_some(),
                    missing: named.missing,
                    doing: Vec::new(),
                    waits: Vec::new(),
                    used: None,
                }
            }
        })
    }

    fn wait(&self, wait: &Span, within: (u64, u64)) -> EventWait {
        let events = &self.thread.events;
        let begin = &events[wait.begin];
        let span = (wait.start_ns.max(within.0), wait.end_ns.min(within.1));
        // The owner is recorded right before a wait for a lock, the waker right before the end of a wait.
        let before = wait.begin.checked_sub(1).map(|i| &events[i]);
        let owner = before
            .filter(|e| e.kind == Extension::LockWait && begin.get("kind") == LOCK)
            .and_then(|e| self.by_tid(e.get("held by"), span.0, span));
        let release = wait.end.and_then(|e| self.cause(e, &[PairKind::Lock]));
        let released_ns = release.map(|(t, e)| t.events[e].at_ns);
        let wake = wait.end.and_then(|e| self.cause(e, &[PairKind::Wake]));
        let waker = match wake {
            Some((t, e)) => Some(self.party(t, t.events[e].at_ns, Some(span))),
            None => wait
                .end
                .and_then(|e| e.checked_sub(1))
                .map(|i| &events[i])
                .filter(|e| e.kind == Extension::WokenBy)
                .and_then(|e| self.by_tid(e.get("by"), e.at_ns, span)),
        };
        EventWait {
            kind: self.text(self.thread, wait.begin, "kind"),
            ns: span.1 - span.0,
            result: wait.end.map(|e| self.text(self.thread, e, "result")),
            object: begin.get("object"),
            owner,
            released_before_ns: released_ns.map(|at_ns| wait.end_ns.saturating_sub(at_ns)),
            waker,
        }
    }
}

/// The waits of a thread in a stretch of time.
fn waits(spans: &Spans, within: (u64, u64)) -> impl Iterator<Item = &Span> {
    let waits = spans.spans.iter().filter(|s| s.kind == SpanKind::Wait);
    waits.filter(move |s| overlap(s, within) > 0)
}

fn overlap(span: &Span, within: (u64, u64)) -> u64 {
    let end = span.end_ns.min(within.1);
    end.saturating_sub(span.start_ns.max(within.0))
}

fn total(waits: &[&Span], within: (u64, u64)) -> u64 {
    waits.iter().map(|w| overlap(w, within)).sum()
}

/// What held the thread up, and why that is known; or why nothing is.
fn culprit(wait: &EventWait) -> (Option<(String, String)>, Reason) {
    let (party, reasons) = match (&wait.owner, &wait.waker) {
        (Some(owner), _) => (
            owner,
            [
                Reason::LockOwner,
                Reason::OwnerWaited,
                Reason::OwnerUnclear,
                Reason::OwnerNotTraced,
            ],
        ),
        (None, Some(waker)) => (
            waker,
            [
                Reason::Waker,
                Reason::WakerWaited,
                Reason::WakerUnclear,
                Reason::WakerNotTraced,
            ],
        ),
        (None, None) => return (None, Reason::NotRecorded),
    };
    let [known, waited, unclear, not_traced] = reasons;
    let thread = match (party.ring, &party.thread) {
        (Some(_), Some(thread)) => thread.clone(),
        _ if party.traced => return (None, unclear),
        _ => return (None, not_traced),
    };
    let waits_for_lock = |w: &&WaitTotal| w.kind == "lock" && is_most(w.ns, wait.ns);
    if party.waits.iter().any(|w| waits_for_lock(&w)) {
        return (None, waited);
    }
    match party.doing.last() {
        Some(doing) => (Some((doing.clone(), thread)), known),
        None => (None, unclear),
    }
}

#[cfg(test)]
mod tests;
