// SPDX-License-Identifier: Apache-2.0
//! Other threads that events name, and what they did.

use hindsight_decoder::{Extension, Thread, Trace};

use super::model::Party;
use super::spent::is_most;
use super::stacks::{place_at_event, place_longest};
use super::timeline::{is_work, totals, Timeline};
use crate::events::{spans, FieldValue, Fields, Resources, Span, SpanKind};
use crate::evidence::{is_overwritten, may_have_begun, named, ring_is_damaged, Missing};

/// The threads of a trace.
pub(super) struct Parties<'a> {
    trace: &'a Trace,
    fields: Fields<'a>,
}

/// The time in which it matters what a thread did.
#[derive(Clone, Copy)]
pub(super) struct Meanwhile {
    /// CLOCK_BOOTTIME, ns.
    pub(super) within: (u64, u64),
    /// The length of the wait of which it must be most, ns.
    pub(super) whole_ns: u64,
}

impl<'a> Parties<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        Parties {
            trace,
            fields: Fields::new(trace),
        }
    }

    /// The name of what an event begins: a class, or the name that the program gave it; may be empty.
    pub(super) fn name(&self, thread: &Thread, begin: usize) -> String {
        let event = &thread.events[begin];
        let named = |name: &str| matches!(name, "class" | "name" | "rule" | "type");
        let mut fields = self.fields.of(event).filter(|(field, _)| named(field.name));
        match fields.next() {
            Some((_, FieldValue::Text(text))) => text,
            _ => String::new(),
        }
    }

    /// The text of a field of choices.
    pub(super) fn text(&self, thread: &Thread, event: usize, field: &str) -> String {
        let mut fields = self.fields.of(&thread.events[event]);
        match fields.find(|(f, _)| f.name == field) {
            Some((_, FieldValue::Text(text))) => text,
            _ => String::new(),
        }
    }

    /// A piece of work, for people: `task com.example.SaveTask`.
    fn describe(&self, thread: &Thread, span: &Span) -> String {
        let (kind, name) = (span.kind.name(), self.name(thread, span.begin));
        let has_class = matches!(span.kind, SpanKind::Message | SpanKind::Task);
        match name.is_empty() {
            _ if span.kind == SpanKind::Service => {
                let code = thread.events[span.begin].get("code");
                format!("the service of transaction {code}")
            }
            false => format!("{kind} {name}"),
            true if has_class => format!("a {kind} of unknown class"),
            true => kind.to_owned(),
        }
    }

    /// The thread that sent work by this event, and what it was doing then.
    pub(super) fn sender(&self, thread: &Thread, event: usize) -> Party {
        let at_ns = thread.events[event].at_ns;
        let all = spans(thread).spans;
        let running = |s: &&Span| is_work(s.kind) && s.start_ns <= at_ns && at_ns <= s.end_ns;
        let running: Vec<&Span> = all.iter().filter(running).collect();
        let since_ns = running.last().map_or(0, |s| s.start_ns);
        Party {
            doing: running.iter().map(|s| self.describe(thread, s)).collect(),
            place: place_at_event(self.trace, thread, event, since_ns),
            ..self.known(thread, at_ns)
        }
    }

    fn known(&self, thread: &Thread, at_ns: u64) -> Party {
        Party {
            tid: thread.tid,
            ring: Some(thread.key.ring),
            key: Some(thread.key),
            thread: Some(thread.name.clone()),
            traced: true,
            missing: missing(self.trace, thread, at_ns),
            doing: Vec::new(),
            waits: Vec::new(),
            waited_ns: 0,
            used: None,
            place: None,
            place_meanwhile: None,
        }
    }

    /// A thread, and what it did for most of the wait. `event` is what it recorded when it released the lock or ended the wait.
    pub(super) fn party(
        &self,
        thread: &Thread,
        meanwhile: Meanwhile,
        event: Option<usize>,
    ) -> Party {
        let Meanwhile { within, whole_ns } = meanwhile;
        let timeline = Timeline::of(thread);
        let all = &timeline.spans.spans;
        let did = |s: &&Span| {
            is_work(s.kind)
                && s.kind != SpanKind::Transaction
                && is_most(timeline.ran(s, within), whole_ns)
        };
        let most: Vec<&Span> = all.iter().filter(did).collect();
        // Of several pieces of work, it is not known in which of them a stack's calls began.
        let since_ns = match most.last() {
            Some(span) => Some(span.start_ns),
            None if timeline.work_in(within).is_empty() => Some(0),
            None => None,
        };
        let place = event.and_then(|event| {
            let at_ns = thread.events[event].at_ns;
            let running = |s: &&Span| is_work(s.kind) && s.start_ns <= at_ns && at_ns <= s.end_ns;
            let innermost = all.iter().rfind(running);
            place_at_event(
                self.trace,
                thread,
                event,
                innermost.map_or(0, |s| s.start_ns),
            )
        });
        Party {
            doing: most.iter().map(|s| self.describe(thread, s)).collect(),
            waits: totals(&timeline.waits, within),
            waited_ns: timeline.waited(within),
            used: Resources::of(thread).used(within.0, within.1),
            place,
            place_meanwhile: since_ns
                .and_then(|since_ns| place_longest(self.trace, thread, within, since_ns)),
            ..self.known(thread, within.0)
        }
    }

    /// The thread with this id, at this time.
    pub(super) fn by_tid(&self, tid: u64, at_ns: u64, meanwhile: Meanwhile) -> Option<Party> {
        let tid = u32::try_from(tid).ok().filter(|&tid| tid != 0)?;
        let began = |t: &&Thread| may_have_begun(self.trace, t, at_ns);
        let has_stopped = |t: &&Thread| {
            let last = t.events.last();
            last.is_some_and(|e| e.kind == Extension::Stopped && e.at_ns < at_ns)
        };
        let with_id = || self.trace.threads.iter().filter(|t| t.tid == tid);
        let alive = |t: &&Thread| t.start_ns <= at_ns && t.end_ns >= at_ns;
        let mut threads = with_id().filter(alive);
        let found = match (threads.next(), threads.next()) {
            // Its recording may end before, or be damaged there: then it is not known what it did.
            (None, _) => {
                let mut all = with_id().filter(|t| began(t) && !has_stopped(t));
                (all.next(), all.next())
            }
            found => found,
        };
        if let (Some(thread), None) = found {
            return Some(self.party(thread, meanwhile, None));
        }
        let is_several = found.0.is_some();
        let named = named(self.trace, tid, at_ns);
        Some(Party {
            tid,
            ring: None,
            key: None,
            thread: named.thread.filter(|_| !is_several),
            traced: is_several,
            missing: named.missing,
            doing: Vec::new(),
            waits: Vec::new(),
            waited_ns: 0,
            used: None,
            place: None,
            place_meanwhile: None,
        })
    }
}

/// Why events of the thread at this time are missing, if they are.
fn missing(trace: &Trace, thread: &Thread, at_ns: u64) -> Option<Missing> {
    if ring_is_damaged(trace, thread) {
        return Some(Missing::RingDamaged);
    }
    // What it was in before its oldest event, an earlier one began.
    let event = thread.events.first().map(|e| e.at_ns);
    let call = thread.calls.start_ns.first().copied();
    let oldest_ns = event.into_iter().chain(call).min().unwrap_or(thread.end_ns);
    let is_overwritten = is_overwritten(thread) && at_ns < oldest_ns;
    is_overwritten.then_some(Missing::Overwritten)
}
