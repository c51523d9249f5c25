// SPDX-License-Identifier: Apache-2.0
//! What a thread ran, and for what it waited, in a stretch of time.

use std::cmp::Reverse;

use hindsight_decoder::Thread;

use super::model::WaitTotal;
use crate::events::{spans, waiting, Span, SpanKind, Spans, Waiting};

/// Index of the kind of tasks that are the life of a thread.
pub(super) const THREAD: u64 = 1;

/// Whether the span is the task of a thread, which is its whole life.
pub(super) fn is_life(thread: &Thread, span: &Span) -> bool {
    span.kind == SpanKind::Task && thread.events[span.begin].get("kind") == THREAD
}

/// Whether spans of this kind are work. A call that a rule names may be any method's, for instance of a queue.
pub(super) fn is_work(kind: SpanKind) -> bool {
    !matches!(
        kind,
        SpanKind::Wait | SpanKind::Checkpoint | SpanKind::GcPause | SpanKind::Rule
    )
}

/// The part of a stretch of time that is in `within`.
pub(super) fn cut(span: (u64, u64), within: (u64, u64)) -> (u64, u64) {
    (span.0.max(within.0), span.1.min(within.1))
}

/// How much of a span is in `within`, ns.
pub(super) fn part(span: &Span, within: (u64, u64)) -> u64 {
    let part = cut((span.start_ns, span.end_ns), within);
    part.1.saturating_sub(part.0)
}

/// The spans that are in no other one of them.
pub(super) fn outermost<'s>(spans: impl Iterator<Item = &'s Span>) -> Vec<&'s Span> {
    // Spans are in the order of their beginnings: one inside another one ends before it.
    let mut until = 0;
    let mut found: Vec<&Span> = Vec::new();
    for span in spans {
        if found.is_empty() || span.start_ns >= until {
            until = span.end_ns;
            found.push(span);
        }
    }
    found
}

/// The spans and waits of a thread.
pub(super) struct Timeline<'a> {
    pub(super) thread: &'a Thread,
    pub(super) spans: Spans,
    pub(super) waits: Vec<Waiting>,
}

impl<'a> Timeline<'a> {
    pub(super) fn of(thread: &'a Thread) -> Self {
        let spans = spans(thread);
        let waits = waiting(thread, &spans);
        Timeline {
            thread,
            spans,
            waits,
        }
    }

    /// Its work in `within`, other than its life, that is in no other work.
    pub(super) fn work_in(&self, within: (u64, u64)) -> Vec<&Span> {
        let is = |s: &&Span| is_work(s.kind) && !is_life(self.thread, s) && part(s, within) > 0;
        outermost(self.spans.spans.iter().filter(is))
    }

    /// How much of `within` a span ran, ns. The life of a thread consists of its other work, and of what is left.
    pub(super) fn ran(&self, span: &Span, within: (u64, u64)) -> u64 {
        let all = part(span, within);
        if !is_life(self.thread, span) {
            return all;
        }
        let others = self.work_in(within);
        all.saturating_sub(others.iter().map(|s| part(s, within)).sum())
    }

    /// How much of `within` it waited for others or for work, ns. A sleep is its own choice.
    pub(super) fn waited(&self, within: (u64, u64)) -> u64 {
        let waits = self.waits.iter().filter(|w| w.kind != Waiting::SLEEP);
        waits.map(|w| self.waited_in(w, within)).sum()
    }

    /// How much of `within` such a wait takes, ns. A poll may run callbacks, as for input.
    pub(super) fn waited_in(&self, wait: &Waiting, within: (u64, u64)) -> u64 {
        let within = cut(wait.span, within);
        let ns = within.1.saturating_sub(within.0);
        if wait.kind != Waiting::POLL || ns == 0 {
            return ns;
        }
        let inside = |s: &&&Span| s.start_ns >= wait.span.0 && s.end_ns <= wait.span.1;
        let work = self.work_in(within);
        let run = work.iter().filter(inside).map(|s| part(s, within)).sum();
        ns.saturating_sub(run)
    }
}

/// How long these waits took in a stretch of time, ns.
pub(super) fn total(waits: &[Waiting], within: (u64, u64)) -> u64 {
    waits.iter().map(|w| w.overlap(within)).sum()
}

/// The waits in a stretch of time, by kind; the longest time first.
pub(super) fn totals(waits: &[Waiting], within: (u64, u64)) -> Vec<WaitTotal> {
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
