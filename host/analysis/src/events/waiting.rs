// SPDX-License-Identifier: Apache-2.0
//! When a thread waits: for a lock, another thread, work …, or for the reply to a transaction.

use hindsight_decoder::catalogue::WAIT_KINDS;
use hindsight_decoder::Thread;

use super::spans::{SpanKind, Spans};

/// A stretch of time in which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The wait or transaction: its index among the thread's spans.
    pub(crate) of: usize,
    /// What for: an index in the catalogue, or [`Waiting::TRANSACTION`].
    pub(crate) kind: u64,
    /// CLOCK_BOOTTIME, ns.
    pub(crate) span: (u64, u64),
    /// Whether the wait or transaction begins with it: it goes on after the thread has served another transaction meanwhile.
    pub(crate) is_first: bool,
}

impl Waiting {
    /// Index of the kind of waits for a lock.
    pub(crate) const LOCK: u64 = 0;
    /// Of sleeps.
    pub(crate) const SLEEP: u64 = 2;
    /// Of waits for work in a poll.
    pub(crate) const POLL: u64 = 5;
    /// A transaction waits for its reply. It is no kind of the catalogue.
    pub(crate) const TRANSACTION: u64 = u64::MAX;

    /// The name of a kind.
    pub(crate) fn name(kind: u64) -> Option<&'static str> {
        if kind == Waiting::TRANSACTION {
            return Some("transaction");
        }
        WAIT_KINDS.get(usize::try_from(kind).ok()?).copied()
    }

    /// How much of `within` it takes, ns.
    pub(crate) fn overlap(&self, within: (u64, u64)) -> u64 {
        let end = self.span.1.min(within.1);
        end.saturating_sub(self.span.0.max(within.0))
    }
}

/// A transaction or a service under way.
enum Running {
    /// With the place of its last stretch among the waits.
    Transaction(usize),
    Service,
}

/// When a thread waits, in the order of time. A wait inside a transaction is part of it; what the thread serves meanwhile is
/// not. While a looper polls, other code may wait.
pub(crate) fn waiting(thread: &Thread, spans: &Spans) -> Vec<Waiting> {
    let mut waits: Vec<Waiting> = Vec::new();
    let mut running: Vec<(u64, Running)> = Vec::new();
    for (of, span) in spans.spans.iter().enumerate() {
        while running.pop_if(|(end, _)| *end <= span.start_ns).is_some() {}
        let transaction = match running.last() {
            Some((_, Running::Transaction(at))) => Some(*at),
            _ => None,
        };
        match (span.kind, transaction) {
            (SpanKind::Wait | SpanKind::Transaction, None) => {
                let kind = match span.kind {
                    SpanKind::Wait => thread.events[span.begin].get("kind"),
                    _ => Waiting::TRANSACTION,
                };
                if span.kind == SpanKind::Transaction {
                    running.push((span.end_ns, Running::Transaction(waits.len())));
                }
                waits.push(Waiting {
                    of,
                    kind,
                    span: (span.start_ns, span.end_ns),
                    is_first: true,
                });
            }
            (SpanKind::Service, Some(at)) => {
                let rest = Waiting {
                    span: (span.end_ns, waits[at].span.1.max(span.end_ns)),
                    is_first: false,
                    ..waits[at]
                };
                waits[at].span.1 = span.start_ns;
                if let Some((_, Running::Transaction(last))) = running.last_mut() {
                    *last = waits.len();
                }
                waits.push(rest);
                running.push((span.end_ns, Running::Service));
            }
            (SpanKind::Service, None) => running.push((span.end_ns, Running::Service)),
            _ => {}
        }
    }
    waits.sort_by_key(|w| w.span.0);
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::spans;
    use hindsight_decoder::{Extension, Trace};
    use hindsight_testkit::{Script, EPOCH};

    type Event<'a> = (u64, Extension, &'a [(&'a str, u64)]);

    /// What for, from when to when, and whether it is the first stretch.
    fn of(events: &[Event<'_>]) -> Vec<(u64, u64, u64, bool)> {
        let mut s = Script::new("p");
        let t = s.events_thread(1, "t", 1);
        for (at, kind, fields) in events {
            s.at(t, *at).event(*kind, fields);
        }
        s.stop_at(1_000);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let thread = &trace.threads[0];
        let found = waiting(thread, &spans(thread));
        let of = |w: &Waiting| (w.kind, w.span.0 - EPOCH, w.span.1 - EPOCH, w.is_first);
        found.iter().map(of).collect()
    }

    #[test]
    fn a_transaction_is_a_wait_until_it_returns() {
        let (send, reply) = (Extension::BinderSend, Extension::BinderReply);
        let lock: &[_] = &[("number", 4), ("kind", Waiting::LOCK)];
        let own: &[_] = &[("transaction", 7)];
        assert_eq!(
            of(&[
                (10, send, own),
                (20, Extension::WaitBegin, lock),
                (30, Extension::WaitEnd, lock),
                (50, reply, own),
                (60, Extension::WaitBegin, lock),
                (80, Extension::WaitEnd, lock),
                (90, send, &[("transaction", 8), ("one-way", 1)]),
            ]),
            [
                (Waiting::TRANSACTION, 10, 50, true),
                (Waiting::LOCK, 60, 80, true)
            ]
        );
    }

    #[test]
    fn a_thread_that_serves_does_not_wait() {
        let (send, reply) = (Extension::BinderSend, Extension::BinderReply);
        let (serve, served) = (Extension::BinderServe, Extension::BinderServed);
        let lock: &[_] = &[("number", 4), ("kind", Waiting::LOCK)];
        let (own, other): (&[_], &[_]) = (&[("transaction", 7)], &[("transaction", 8)]);
        assert_eq!(
            of(&[
                (10, send, own),
                (20, serve, other),
                (25, Extension::WaitBegin, lock),
                (30, Extension::WaitEnd, lock),
                (40, served, other),
                (50, serve, other),
                (60, served, other),
                (90, reply, own),
            ]),
            [
                (Waiting::TRANSACTION, 10, 20, true),
                (Waiting::LOCK, 25, 30, true),
                (Waiting::TRANSACTION, 40, 50, false),
                (Waiting::TRANSACTION, 60, 90, false)
            ]
        );
    }

    #[test]
    fn a_transaction_without_an_end_lasts_until_the_thread_does_something_else() {
        let (begin, end) = (Extension::MessageDispatched, Extension::MessageDone);
        let message: &[_] = &[("message", 5)];
        let next: &[_] = &[("message", 6)];
        let own: &[_] = &[("transaction", 7)];
        assert_eq!(
            of(&[
                (10, begin, message),
                (20, Extension::BinderSend, own),
                (60, Extension::TaskBegin, &[("task", 1)]),
                (90, end, message),
                (100, begin, next),
                (110, Extension::BinderSend, own),
            ]),
            [
                (Waiting::TRANSACTION, 20, 60, true),
                (Waiting::TRANSACTION, 110, 1_000, true)
            ]
        );
    }
}
