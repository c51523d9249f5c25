// SPDX-License-Identifier: Apache-2.0
//! What is known of a stall of a thread that records events only.

use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, ThreadEvent, ThreadKey, Trace};

use super::around::{circle, long_waits, pauses};
use super::blame::verdict;
use super::model::{
    Activity, EventStall, EventWait, GcPauses, HeldBy, LongWait, Party, Reason, MOST_FOLLOWED,
};
use super::parties::{Meanwhile, Parties};
use super::releases::{longest_hold, Release, Releases};
use super::spent::is_most;
use super::stacks::{place_in_wait, place_longest};
use super::timeline::{cut, part, total, totals, Timeline};
use crate::events::{
    pairs, spans, waiting, End, Pair, PairKind, Resources, Span, SpanKind, Spans, Waiting,
};
use crate::evidence::{is_whole, may_have_begun, named};

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
    parties: Parties<'a>,
    /// The pairs by their effects.
    causes: HashMap<End, Vec<Pair>>,
    /// The transactions that were served, by the events that sent them.
    served: HashMap<End, Pair>,
    releases: Releases<'a>,
}

/// Who held a lock in a wait.
struct Owner {
    party: Option<Party>,
    /// CLOCK_BOOTTIME, ns.
    released_ns: Option<u64>,
    /// When the release before that was: another thread held the lock when the wait began. CLOCK_BOOTTIME, ns.
    since_ns: Option<u64>,
    /// The lock was released, and nobody is known to have held it for most of the wait.
    is_unclear: bool,
}

/// Whether a wait lasts until its time is over, or for a thread of another process: garbage collections here do not prolong it.
fn ends_anyway(wait: &EventWait) -> bool {
    wait.result.as_deref() == Some("timed out") || wait.code.is_some() && wait.waker.is_none()
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
            parties: Parties::new(trace),
            causes,
            served,
            releases: Releases::of(trace),
        }
    }

    fn thread(&self, key: ThreadKey) -> Option<&'a Thread> {
        self.trace.threads.iter().find(|t| t.key == key)
    }

    /// The event of the pair of this kind whose effect is this event of the thread: its thread, and its index.
    fn cause(
        &self,
        thread: &Thread,
        effect: usize,
        kinds: &[PairKind],
    ) -> Option<(&'a Thread, usize)> {
        let end = End {
            thread: thread.key,
            event: effect,
        };
        let pair = self
            .causes
            .get(&end)?
            .iter()
            .find(|p| kinds.contains(&p.kind))?;
        Some((self.thread(pair.from.thread)?, pair.from.event))
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
        let begin = &thread.events[head.begin];
        let work = self.work(head);
        let sent = self.cause(thread, work, &SENDS);
        let began_ns = thread.events[work].at_ns;
        let waited_ns = total(&self.waits, span);
        let used = Resources::of(thread).used(span.0, span.1);
        let longest_wait = self.waits.iter().max_by_key(|w| w.overlap(span));
        let most = longest_wait.filter(|w| is_most(w.overlap(span), length));
        let wait = most.map(|w| self.wait(w, span));
        let followed = wait.as_ref().zip(most);
        let (followed, is_circle) = followed.map_or_else(Default::default, |(wait, w)| {
            self.follow(wait, cut(w.span, span))
        });
        let place = match most {
            Some(wait) => place_in_wait(self.trace, thread, cut(wait.span, span), span.0),
            None => place_longest(self.trace, thread, span, span.0),
        };
        let gc_pauses = pauses(self.trace, &self.waits, span);
        // Pauses inside such a wait did not prolong it.
        let is_own = wait.as_ref().is_some_and(ends_anyway);
        let paused_ns = |p: &GcPauses| if is_own { p.outside_waits_ns } else { p.ns };
        let collector = gc_pauses.iter().find(|p| is_most(paused_ns(p), length));
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
            (Some(wait), _) => verdict(wait, &followed),
            (None, Activity::Busy) => (None, Reason::Busy),
            _ => (None, Reason::NotRecorded),
        };
        EventStall {
            what: head.kind,
            name: match sent {
                Some((sender, e)) if work != head.begin => self.parties.name(sender, e),
                _ => self.parties.name(thread, work),
            },
            code: (begin.kind == Extension::MessageDispatched).then(|| begin.get("what")),
            start_ns: span.0,
            held_ns: length,
            may_have_begun_before: head.start_ns <= thread.start_ns,
            // Else its end is missing.
            still_running: head.end.is_none() && head.end_ns >= thread.end_ns,
            ended_before_ns: thread.end_ns.saturating_sub(span.1),
            sent_before_ns: sent.map(|(t, e)| began_ns.saturating_sub(t.events[e].at_ns)),
            delay_ns: sent.map_or(0, |(t, e)| t.events[e].get("delay") * 1_000_000),
            sender: sent.map(|(t, e)| self.parties.sender(t, e)),
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
            followed,
            is_circle,
            activity,
            culprit,
            culprit_reason,
        }
    }

    /// The waits that took long, other than this one.
    fn long_waits(&self, most: Option<&Waiting>, within: (u64, u64)) -> Vec<LongWait> {
        let others = self.waits.iter().filter(|w| Some(*w) != most);
        let groups = long_waits(self.thread, self.own, others, within);
        let long = groups.into_iter().map(|group| LongWait {
            count: group.count,
            ns: group.ns,
            held_by: group.held_by.and_then(|tid| {
                let tid = u32::try_from(tid).ok()?;
                let named = named(self.trace, tid, group.longest.span.0);
                Some(HeldBy {
                    tid,
                    thread: named.thread,
                })
            }),
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

    /// A wait of the thread, as far as it is in `within`.
    fn wait(&self, wait: &Waiting, within: (u64, u64)) -> EventWait {
        self.wait_of(self.thread, self.own, wait, within, wait.overlap(within))
    }

    /// The waits that this wait lasted for: of its owner, waker or server, of that one's, and so on. Each of them took most
    /// of the first one's time. The last one's party did not wait itself, is not known, or is among the earlier ones;
    /// whether it is among them.
    fn follow(&self, wait: &EventWait, within: (u64, u64)) -> (Vec<EventWait>, bool) {
        let mut followed: Vec<EventWait> = Vec::new();
        let mut seen = vec![self.thread.key];
        let mut within = within;
        while followed.len() < MOST_FOLLOWED {
            let last = followed.last().unwrap_or(wait);
            let party = last.party().filter(|_| !last.owner_is_unclear);
            let party = party.filter(|p| is_most(p.waited_ns, wait.ns));
            let thread = party.and_then(|p| p.key).and_then(|key| self.thread(key));
            let Some(thread) = thread else {
                break;
            };
            if seen.contains(&thread.key) {
                return (followed, true);
            }
            seen.push(thread.key);
            let of = Timeline::of(thread);
            let waited = |w: &Waiting| of.waited_in(w, within);
            let others = of.waits.iter().filter(|w| w.kind != Waiting::SLEEP);
            let longest = others.max_by_key(|w| waited(w));
            let Some(longest) = longest.filter(|w| is_most(waited(w), wait.ns)) else {
                break;
            };
            within = cut(longest.span, within);
            let next = self.wait_of(thread, &of.spans, longest, within, wait.ns);
            followed.push(next);
        }
        (followed, false)
    }

    /// Who held the lock in the wait `of`, which this event announces.
    fn owner(
        &self,
        waiter: &Thread,
        event: &ThreadEvent,
        of: &Span,
        meanwhile: Meanwhile,
    ) -> Owner {
        let span = meanwhile.within;
        let tid = event.get("held by");
        let of_lock = self.releases.of_lock(event.get("lock"));
        let others = of_lock.iter().filter(|r| r.thread.key != waiter.key);
        let in_wait = |r: &&Release<'a>| event.at_ns <= r.at_ns && r.at_ns <= of.end_ns;
        let releases: Vec<Release<'a>> = others.filter(in_wait).copied().collect();
        let is_recorded = |r: &Release<'_>| {
            u64::from(r.thread.tid) == tid && may_have_begun(self.trace, r.thread, event.at_ns)
        };
        let first = releases.first().filter(|r| is_recorded(r));
        let of_first = |is_unclear| Owner {
            party: match first {
                Some(r) => Some(self.parties.party(r.thread, meanwhile, Some(r.event))),
                None => self.parties.by_tid(tid, span.0, meanwhile),
            },
            released_ns: first.map(|r| r.at_ns),
            since_ns: None,
            is_unclear,
        };
        match (&releases[..], longest_hold(&releases, span)) {
            // A thread that held the lock all the time has recorded the release.
            ([], _) => {
                let owner = of_first(false);
                let key = owner.party.as_ref().and_then(|p| p.key);
                let thread = key.and_then(|key| self.thread(key));
                let is_whole =
                    thread.is_some_and(|t| is_whole(self.trace, t, (event.at_ns, of.end_ns)));
                Owner {
                    is_unclear: of.end.is_some() && event.get("lock") != 0 && is_whole,
                    ..owner
                }
            }
            (_, Some((0, _))) => of_first(first.is_none()),
            (_, Some((i, since_ns))) => {
                let (before, release) = (&releases[i - 1], &releases[i]);
                let meanwhile = Meanwhile {
                    within: (since_ns, release.at_ns.min(span.1)),
                    ..meanwhile
                };
                Owner {
                    party: Some(
                        self.parties
                            .party(release.thread, meanwhile, Some(release.event)),
                    ),
                    released_ns: Some(release.at_ns),
                    since_ns: Some(before.at_ns),
                    is_unclear: false,
                }
            }
            (_, None) => of_first(true),
        }
    }

    /// A wait of a thread, as far as it is in `within`. What the others did counts if it is most of `whole_ns`.
    fn wait_of(
        &self,
        thread: &Thread,
        spans: &Spans,
        wait: &Waiting,
        within: (u64, u64),
        whole_ns: u64,
    ) -> EventWait {
        let events = &thread.events;
        let of = &spans.spans[wait.of];
        let begin = &events[of.begin];
        let span = cut(wait.span, within);
        let meanwhile = Meanwhile {
            within: span,
            whole_ns,
        };
        let is_transaction = wait.kind == Waiting::TRANSACTION;
        // The owner is recorded right before a wait for a lock, the waker right before the end of a wait.
        let before = of.begin.checked_sub(1).map(|i| &events[i]);
        let announces =
            |e: &&ThreadEvent| e.kind == Extension::LockWait && wait.kind == Waiting::LOCK;
        let owner = before.filter(announces);
        let owner = owner.map(|event| self.owner(thread, event, of, meanwhile));
        let wake = of
            .end
            .and_then(|e| self.cause(thread, e, &[PairKind::Wake]));
        let service = Some(of.begin).filter(|_| is_transaction);
        let service = service.and_then(|begin| self.service(thread, begin));
        let waker = match (wake, &service) {
            (_, Some((server, _))) => Some(self.parties.party(server, meanwhile, None)),
            _ if is_transaction => None,
            (Some((t, e)), _) => Some(self.parties.party(t, meanwhile, Some(e))),
            (None, _) => (of.end)
                .and_then(|e| e.checked_sub(1))
                .map(|i| &events[i])
                .filter(|e| e.kind == Extension::WokenBy)
                .and_then(|e| self.parties.by_tid(e.get("by"), e.at_ns, meanwhile)),
        };
        let released_ns = owner.as_ref().and_then(|o| o.released_ns);
        let since_ns = owner.as_ref().and_then(|o| o.since_ns);
        EventWait {
            kind: Waiting::name(wait.kind).unwrap_or_default().to_owned(),
            ns: span.1.saturating_sub(span.0),
            result: of.end.map(|e| match is_transaction {
                true => "returned".to_owned(),
                false => self.parties.text(thread, e, "result"),
            }),
            object: begin.get("object"),
            code: is_transaction.then(|| begin.get("code")),
            owner_is_unclear: owner.as_ref().is_some_and(|o| o.is_unclear),
            owner: owner.and_then(|o| o.party),
            owner_since_ns: since_ns.map(|at_ns| at_ns.saturating_sub(of.start_ns)),
            released_before_ns: released_ns.map(|at_ns| of.end_ns.saturating_sub(at_ns)),
            waker,
            served_ns: service.map(|(_, service)| part(&service, span)),
        }
    }

    /// The thread that served the transaction that the thread sent by this event, and the service.
    fn service(&self, thread: &Thread, send: usize) -> Option<(&'a Thread, Span)> {
        let pair = self.served.get(&End {
            thread: thread.key,
            event: send,
        })?;
        let server = self.thread(pair.to.thread)?;
        let service = spans(server).begun_by(pair.to.event)?.clone();
        Some((server, service))
    }
}
