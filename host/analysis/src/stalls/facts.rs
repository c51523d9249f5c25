// SPDX-License-Identifier: Apache-2.0
//! What is known of a stall of a thread that records events only.

use std::cmp::Reverse;
use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, Trace};

use super::around::{circle, long_waits, pauses};
use super::model::{Activity, EventStall, EventWait, LongWait, Party, Reason, WaitTotal};
use super::spent::is_most;
use super::stacks::{at_event, in_wait, longest};
use crate::events::{
    pairs, spans, waiting, End, FieldValue, Fields, Pair, PairKind, Resources, Span, SpanKind,
    Spans, Waiting,
};
use crate::evidence::{named, ring_is_damaged, Missing};

/// The pairs of work and what sent it.
const SENDS: [PairKind; 6] = [
    PairKind::Message,
    PairKind::Task,
    PairKind::Post,
    PairKind::Callback,
    PairKind::Traversal,
    PairKind::Transaction,
];

/// A trace, with all that is known of its events.
pub(super) struct Facts<'a> {
    trace: &'a Trace,
    thread: &'a Thread,
    own: &'a Spans,
    waits: Vec<Waiting>,
    fields: Fields<'a>,
    /// The pairs by their effects.
    causes: HashMap<End, Vec<Pair>>,
    /// The transactions that were served, by the events that sent them.
    served: HashMap<End, Pair>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(trace: &'a Trace, thread: &'a Thread, own: &'a Spans) -> Self {
        let mut causes: HashMap<End, Vec<Pair>> = HashMap::new();
        let mut served: HashMap<End, Pair> = HashMap::new();
        for pair in pairs(trace).pairs {
            causes.entry(pair.to).or_default().push(pair);
            if pair.kind == PairKind::Transaction {
                served.insert(pair.from, pair);
            }
        }
        Facts {
            trace,
            thread,
            own,
            waits: waiting(thread, own),
            fields: Fields::new(trace),
            causes,
            served,
        }
    }

    fn thread(&self, end: End) -> Option<&'a Thread> {
        self.trace.threads.iter().find(|t| t.key == end.thread)
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
        Some((self.thread(pair.from)?, pair.from.event))
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

    pub(super) fn stall(&self, head: &Span) -> EventStall {
        let (thread, length) = (self.thread, head.duration_ns());
        let span = (head.start_ns, head.end_ns);
        let begin = thread.events.get(head.begin);
        let work = self.work(head);
        let sent = begin.and_then(|_| self.cause(work, &SENDS));
        let began_ns = thread.events.get(work).map_or(span.0, |e| e.at_ns);
        let waited_ns = total(&self.waits, span);
        let used = Resources::of(thread).used(span.0, span.1);
        let longest_wait = self.waits.iter().max_by_key(|w| w.overlap(span));
        let most = longest_wait.filter(|w| is_most(w.overlap(span), length));
        let wait = most.map(|w| self.wait(w, span));
        let place = match most {
            Some(wait) => in_wait(self.trace, thread, cut(wait.span, span), span.0),
            None => longest(self.trace, thread, span, span.0),
        };
        let gc_pauses = pauses(self.trace, &self.waits, span);
        let collector = gc_pauses.first().filter(|p| is_most(p.ns, length));
        let slept = self.waits.iter().filter(|w| w.kind == Waiting::SLEEP);
        let slept_ns = slept.map(|w| w.overlap(span)).sum();
        let activity = if is_most(waited_ns, length) {
            Activity::Waited
        } else if used.is_some_and(|u| is_most(u.cpu_ns, length)) {
            Activity::Busy
        } else {
            Activity::Unknown
        };
        let (culprit, culprit_reason) = match (&wait, activity) {
            _ if is_most(slept_ns, length) => (None, Reason::Slept),
            (_, Activity::Waited | Activity::Unknown) if collector.is_some() => {
                let what = SpanKind::GcPause.name().to_owned();
                let culprit = collector.map(|p| (what, p.thread.clone()));
                (culprit, Reason::Paused)
            }
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
            sender: sent.map(|(t, e)| self.party(t, t.events[e].at_ns, None, Some(e))),
            used,
            waited_ns,
            waits: totals(&self.waits, span),
            long_waits: self.long_waits(most, span),
            gc_pauses,
            circle: match most {
                Some(wait) if self.own.spans[wait.of].end.is_none() => circle(self.trace, thread),
                _ => Vec::new(),
            },
            place,
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

    /// The text of a field of choices.
    fn text(&self, thread: &Thread, event: usize, field: &str) -> String {
        let mut fields = self.fields.of(&thread.events[event]);
        match fields.find(|(f, _)| f.name == field) {
            Some((_, FieldValue::Text(text))) => text,
            _ => String::new(),
        }
    }

    /// A thread, at this time, and what it did meanwhile. `event` is what it recorded when it released
    /// the lock, ended the wait, or sent the work.
    fn party(
        &self,
        thread: &Thread,
        at_ns: u64,
        meanwhile: Option<(u64, u64)>,
        event: Option<usize>,
    ) -> Party {
        let spans = spans(thread);
        let mut doing: Vec<String> = Vec::new();
        let mut since_ns = 0;
        for span in &spans.spans {
            let is_work = !matches!(
                span.kind,
                SpanKind::Wait | SpanKind::Checkpoint | SpanKind::GcPause
            );
            if is_work && span.start_ns <= at_ns && at_ns <= span.end_ns {
                since_ns = span.start_ns;
                let (kind, name) = (span.kind.name(), self.name(thread, span.begin));
                let has_class = matches!(span.kind, SpanKind::Message | SpanKind::Task);
                doing.push(match name.is_empty() {
                    _ if span.kind == SpanKind::Service => {
                        let code = thread.events[span.begin].get("code");
                        format!("the service of transaction {code}")
                    }
                    false => format!("{kind} {name}"),
                    true if has_class => format!("a {kind} of unknown class"),
                    true => kind.to_owned(),
                });
            }
        }
        let waits =
            meanwhile.map_or_else(Vec::new, |within| totals(&waiting(thread, &spans), within));
        Party {
            tid: thread.tid,
            ring: Some(thread.key.ring),
            thread: Some(thread.name.clone()),
            traced: true,
            missing: missing(self.trace, thread, at_ns),
            doing,
            waits,
            used: meanwhile.and_then(|(from, to)| Resources::of(thread).used(from, to)),
            place: event.and_then(|event| at_event(self.trace, thread, event, since_ns)),
            place_meanwhile: meanwhile
                .and_then(|within| longest(self.trace, thread, within, since_ns)),
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
            (Some(thread), None) => self.party(thread, at_ns, Some(meanwhile), None),
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
                    place: None,
                    place_meanwhile: None,
                }
            }
        })
    }

    /// The waits that took long, other than this one.
    fn long_waits(&self, most: Option<&Waiting>, within: (u64, u64)) -> Vec<LongWait> {
        let others = self.waits.iter().filter(|w| Some(*w) != most);
        let groups = long_waits(self.thread, self.own, others, within);
        let long = groups.into_iter().map(|group| LongWait {
            count: group.count,
            ns: group.ns,
            longest: self.wait(group.longest, within),
        });
        long.collect()
    }

    /// The longest wait for a lock that is in none of these stretches of time, if it is this long, ns.
    pub(super) fn lock_wait_outside(&self, of: &[Span], least_ns: u64) -> Option<EventWait> {
        let ns = |w: &Waiting| w.span.1 - w.span.0;
        let is_in = |w: &Waiting, s: &Span| s.start_ns <= w.span.0 && w.span.0 < s.end_ns;
        let locks = self.waits.iter().filter(|w| w.kind == Waiting::LOCK);
        let outside = locks.filter(|w| ns(w) >= least_ns && !of.iter().any(|s| is_in(w, s)));
        let wait = outside.max_by_key(|w| ns(w))?;
        Some(self.wait(wait, wait.span))
    }

    fn wait(&self, wait: &Waiting, within: (u64, u64)) -> EventWait {
        let events = &self.thread.events;
        let of = &self.own.spans[wait.of];
        let begin = &events[of.begin];
        let span = cut(wait.span, within);
        let is_transaction = wait.kind == Waiting::TRANSACTION;
        // The owner is recorded right before a wait for a lock, the waker right before the end of a wait.
        let before = of.begin.checked_sub(1).map(|i| &events[i]);
        let release = of.end.and_then(|e| self.cause(e, &[PairKind::Lock]));
        let owner = before
            .filter(|e| e.kind == Extension::LockWait && wait.kind == Waiting::LOCK)
            .and_then(|e| match release {
                Some((thread, release)) if u64::from(thread.tid) == e.get("held by") => {
                    Some(self.party(thread, span.0, Some(span), Some(release)))
                }
                _ => self.by_tid(e.get("held by"), span.0, span),
            });
        let released_ns = release.map(|(t, e)| t.events[e].at_ns);
        let wake = of.end.and_then(|e| self.cause(e, &[PairKind::Wake]));
        let service = Some(of.begin).filter(|_| is_transaction);
        let service = service.and_then(|begin| self.service(begin));
        let waker = match (wake, &service) {
            (_, Some((server, service))) => {
                let at_ns = service.start_ns.max(span.0).min(service.end_ns);
                Some(self.party(server, at_ns, Some(span), None))
            }
            _ if is_transaction => None,
            (Some((t, e)), _) => Some(self.party(t, t.events[e].at_ns, Some(span), Some(e))),
            (None, _) => (of.end)
                .and_then(|e| e.checked_sub(1))
                .map(|i| &events[i])
                .filter(|e| e.kind == Extension::WokenBy)
                .and_then(|e| self.by_tid(e.get("by"), e.at_ns, span)),
        };
        let overlap = |s: &Span| s.end_ns.min(span.1).saturating_sub(s.start_ns.max(span.0));
        EventWait {
            kind: Waiting::name(wait.kind).unwrap_or_default().to_owned(),
            ns: span.1 - span.0,
            result: of.end.map(|e| match is_transaction {
                true => "returned".to_owned(),
                false => self.text(self.thread, e, "result"),
            }),
            object: begin.get("object"),
            code: is_transaction.then(|| begin.get("code")),
            owner,
            released_before_ns: released_ns.map(|at_ns| of.end_ns.saturating_sub(at_ns)),
            waker,
            served_ns: service.map(|(_, service)| overlap(&service)),
        }
    }

    /// The thread that served the transaction that the thread sent by this event, and the service.
    fn service(&self, send: usize) -> Option<(&'a Thread, Span)> {
        let pair = self.served.get(&End {
            thread: self.thread.key,
            event: send,
        })?;
        let server = self.thread(pair.to)?;
        let service = spans(server).begun_by(pair.to.event)?.clone();
        Some((server, service))
    }
}

/// Why events of the thread at this time are missing, if they are.
fn missing(trace: &Trace, thread: &Thread, at_ns: u64) -> Option<Missing> {
    if ring_is_damaged(trace, thread) {
        return Some(Missing::RingDamaged);
    }
    let is_overwritten = thread.stats.overwritten_slots > 0 && at_ns < thread.start_ns;
    is_overwritten.then_some(Missing::Overwritten)
}

/// The part of a stretch of time that is in `within`.
fn cut(span: (u64, u64), within: (u64, u64)) -> (u64, u64) {
    (span.0.max(within.0), span.1.min(within.1))
}

/// How long these waits took in a stretch of time, ns.
pub(super) fn total(waits: &[Waiting], within: (u64, u64)) -> u64 {
    waits.iter().map(|w| w.overlap(within)).sum()
}

/// The waits in a stretch of time, by kind; the longest time first.
fn totals(waits: &[Waiting], within: (u64, u64)) -> Vec<WaitTotal> {
    let mut totals: Vec<WaitTotal> = Vec::new();
    for wait in waits.iter().filter(|w| w.overlap(within) > 0) {
        let kind = Waiting::name(wait.kind).unwrap_or_default();
        let at = totals.iter().position(|t| t.kind == kind);
        let at = at.unwrap_or_else(|| {
            totals.push(WaitTotal {
                kind: kind.to_owned(),
                count: 0,
                ns: 0,
            });
            totals.len() - 1
        });
        totals[at].count += u64::from(wait.is_first);
        totals[at].ns += wait.overlap(within);
    }
    totals.sort_by_key(|t| Reverse(t.ns));
    totals
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
    // A transaction may wait for a free thread, longer than it is served.
    if wait.served_ns.is_some_and(|ns| !is_most(ns, wait.ns)) {
        return (None, Reason::NotRecorded);
    }
    // What an owner or a server did meanwhile took the time; what ends a wait is where the thread did so.
    let is_waker = wait.owner.is_none() && wait.served_ns.is_none();
    let place = match is_waker {
        true => party.place.as_ref(),
        false => party.place_meanwhile.as_ref().or(party.place.as_ref()),
    };
    if let Some(place) = place {
        return (Some((place.method.clone(), thread)), known);
    }
    match party.doing.last() {
        Some(doing) => (Some((doing.clone(), thread)), known),
        None => (None, unclear),
    }
}
