// SPDX-License-Identifier: Apache-2.0
//! Stretches of a thread's time between two of its events: waits, tasks, messages, frames.

use std::collections::HashMap;

use hindsight_decoder::{Extension, Thread, ThreadEvent};
use serde::Serialize;

/// What a thread does in a stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// It waits.
    Wait,
    /// It runs a task.
    Task,
    /// It dispatches a message.
    Message,
    /// It runs the callbacks of a frame.
    Frame,
    /// It runs the callbacks of one type of a frame.
    FrameCallbacks,
    /// It lays out and draws a window.
    Traversal,
    /// It handles an input event.
    Input,
    /// It sends a transaction, and waits for the reply.
    Transaction,
    /// It serves a transaction.
    Service,
    /// It runs a request of the managed runtime.
    Checkpoint,
    /// It has suspended all threads, for a garbage collection.
    GcPause,
    /// It takes an activity through a step of its lifecycle.
    Lifecycle,
    /// A piece of work that the program named.
    Marked,
    /// It runs a method that a rule names.
    Rule,
}

impl SpanKind {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            SpanKind::Wait => "wait",
            SpanKind::Task => "task",
            SpanKind::Message => "message",
            SpanKind::Frame => "frame",
            SpanKind::FrameCallbacks => "frame callbacks",
            SpanKind::Traversal => "traversal",
            SpanKind::Input => "input",
            SpanKind::Transaction => "transaction",
            SpanKind::Service => "service",
            SpanKind::Checkpoint => "checkpoint",
            SpanKind::GcPause => "collection pause",
            SpanKind::Lifecycle => "lifecycle",
            SpanKind::Marked => "marked",
            SpanKind::Rule => "rule",
        }
    }
}

/// A stretch of time between two events of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// What the thread does.
    pub kind: SpanKind,
    /// Index, among the thread's events, of the one that begins it.
    pub begin: usize,
    /// Index of the event that ends it; `None` if that is not recorded.
    pub end: Option<usize>,
    /// CLOCK_BOOTTIME, ns.
    pub start_ns: u64,
    /// CLOCK_BOOTTIME, ns. Without an end: the latest time at which it may still have gone on.
    pub end_ns: u64,
}

impl Span {
    /// Its length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// The spans of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// In the order of their beginnings. Nested; only spans that the program named may overlap.
    pub spans: Vec<Span>,
    /// For each event of the thread, the span that it begins or ends.
    pub of_event: HashMap<usize, usize>,
}

impl Spans {
    /// The span that the event begins.
    pub fn begun_by(&self, event: usize) -> Option<&Span> {
        let span = &self.spans[*self.of_event.get(&event)?];
        (span.begin == event).then_some(span)
    }

    /// The span that the event ends.
    pub fn ended_by(&self, event: usize) -> Option<&Span> {
        let span = &self.spans[*self.of_event.get(&event)?];
        (span.end == Some(event)).then_some(span)
    }
}

/// Whether an event begins or ends a span, of which kind, and the number that both of its ends have.
fn bound(event: &ThreadEvent) -> Option<(bool, SpanKind, u64)> {
    let id = |field: &str| event.get(field);
    Some(match event.kind {
        Extension::WaitBegin => (true, SpanKind::Wait, id("number")),
        Extension::WaitEnd => (false, SpanKind::Wait, id("number")),
        Extension::TaskBegin => (true, SpanKind::Task, id("task")),
        Extension::TaskEnd => (false, SpanKind::Task, id("task")),
        Extension::MessageDispatched => (true, SpanKind::Message, id("message")),
        Extension::MessageDone => (false, SpanKind::Message, id("message")),
        Extension::FrameBegin => (true, SpanKind::Frame, id("vsync")),
        Extension::FrameEnd => (false, SpanKind::Frame, id("vsync")),
        Extension::FrameCallbacks => (true, SpanKind::FrameCallbacks, 0),
        Extension::TraversalBegin => (true, SpanKind::Traversal, id("window")),
        Extension::TraversalEnd => (false, SpanKind::Traversal, id("window")),
        Extension::InputBegin => (true, SpanKind::Input, id("sequence")),
        Extension::InputEnd => (false, SpanKind::Input, id("sequence")),
        // A one-way transaction does not return.
        Extension::BinderSend if id("one-way") == 0 => {
            (true, SpanKind::Transaction, id("transaction"))
        }
        Extension::BinderReply => (false, SpanKind::Transaction, id("transaction")),
        Extension::BinderServe => (true, SpanKind::Service, id("transaction")),
        Extension::BinderServed => (false, SpanKind::Service, id("transaction")),
        Extension::CheckpointBegin => (true, SpanKind::Checkpoint, 0),
        Extension::CheckpointEnd => (false, SpanKind::Checkpoint, 0),
        Extension::GcPauseBegin => (true, SpanKind::GcPause, 0),
        Extension::GcPauseEnd => (false, SpanKind::GcPause, 0),
        Extension::LifecycleBegin => (true, SpanKind::Lifecycle, lifecycle(event)),
        Extension::LifecycleEnd => (false, SpanKind::Lifecycle, lifecycle(event)),
        Extension::UserBegin => (true, SpanKind::Marked, id("name") << 32 ^ id("id")),
        Extension::UserEnd => (false, SpanKind::Marked, id("name") << 32 ^ id("id")),
        Extension::RuleBegin => (true, SpanKind::Rule, id("name") << 32 ^ id("object")),
        Extension::RuleEnd => (false, SpanKind::Rule, id("name") << 32 ^ id("object")),
        _ => return None,
    })
}

/// The step of an activity: a start may be a part of resuming it.
fn lifecycle(event: &ThreadEvent) -> u64 {
    event.get("activity") << 8 | event.get("step")
}

#[derive(Default)]
struct Builder {
    found: Spans,
    /// Running spans, outermost first, without the spans that the program named.
    running: Vec<usize>,
    /// The running spans by kind and number, outermost first.
    by_number: HashMap<(SpanKind, u64), Vec<usize>>,
    /// The number of each span.
    numbers: Vec<u64>,
}

impl Builder {
    fn begin(&mut self, event: usize, at_ns: u64, kind: SpanKind, number: u64) {
        let index = self.found.spans.len();
        self.found.spans.push(Span {
            kind,
            begin: event,
            end: None,
            start_ns: at_ns,
            end_ns: u64::MAX,
        });
        self.numbers.push(number);
        self.found.of_event.insert(event, index);
        // Spans of the program end where it says, whatever else ends.
        if kind != SpanKind::Marked {
            self.running.push(index);
        }
        self.by_number
            .entry((kind, number))
            .or_default()
            .push(index);
    }

    /// Ends a running span. It is not among the running ones any more.
    fn end(&mut self, index: usize, at_ns: u64, event: Option<usize>) {
        let span = &mut self.found.spans[index];
        span.end_ns = at_ns;
        span.end = event;
        if let Some(event) = event {
            self.found.of_event.insert(event, index);
        }
        let key = (span.kind, self.numbers[index]);
        if let Some(same) = self.by_number.get_mut(&key) {
            // Nearly always the last one.
            if let Some(at) = same.iter().rposition(|&i| i == index) {
                same.remove(at);
            }
        }
    }

    /// Ends the innermost span of this kind and number, and the ones inside it, whose ends are missing. Those that the
    /// program named go on.
    fn close(&mut self, event: Option<usize>, at_ns: u64, kind: SpanKind, number: u64) {
        let found = self.by_number.get(&(kind, number));
        let Some(index) = found.and_then(|same| same.last().copied()) else {
            return;
        };
        self.end(index, at_ns, event);
        if kind == SpanKind::Marked {
            return;
        }
        while let Some(inner) = self.running.pop_if(|i| *i != index) {
            self.end(inner, at_ns, None);
        }
        self.running.pop();
    }

    fn close_all(&mut self, at_ns: u64) {
        while let Some(index) = self.running.pop() {
            self.end(index, at_ns, None);
        }
        let marked: Vec<usize> = self.by_number.drain().flat_map(|(_, same)| same).collect();
        for index in marked {
            self.end(index, at_ns, None);
        }
    }
}

/// The spans of a thread. An end without a beginning makes none.
pub fn spans(thread: &Thread) -> Spans {
    let mut builder = Builder::default();
    for (i, event) in thread.events.iter().enumerate() {
        let at_ns = event.at_ns;
        if matches!(event.kind, Extension::Started | Extension::Stopped) {
            builder.close_all(at_ns);
        }
        let Some((begins, kind, number)) = bound(event) else {
            continue;
        };
        // Callbacks of one type end when callbacks of the next type begin, or with the frame.
        if kind == SpanKind::FrameCallbacks {
            builder.close(Some(i), at_ns, kind, number);
        }
        match begins {
            true => builder.begin(i, at_ns, kind, number),
            false => builder.close(Some(i), at_ns, kind, number),
        }
    }
    let end_ns = thread.end_ns;
    builder.close_all(end_ns);
    let limits = Limits::of(thread);
    for span in &mut builder.found.spans {
        if span.end.is_none() {
            span.end_ns = span.end_ns.min(limits.of_span(thread, span));
        }
        span.end_ns = span.end_ns.max(span.start_ns);
    }
    builder.found
}

/// Index, in the catalogue, of the kind of waits in which a looper waits for messages.
const POLL: u64 = 5;

/// The latest times at which spans may have ended whose ends are missing, for instance because the file is damaged.
///
/// A thread is in one wait or transaction at a time, except that other code may run, and wait, while a looper polls. (It
/// may serve another transaction in a transaction; one whose end is missing is taken to end there.) A looper dispatches
/// one message after the other: a loop inside a message's dispatch is so rare that a missing end is more likely.
struct Limits {
    /// For each event, the time of the next one, itself excluded, that ends all waits but polls, and transactions.
    wait: Vec<u64>,
    /// The same, for polls and for messages.
    loops: Vec<u64>,
}

impl Limits {
    fn of(thread: &Thread) -> Self {
        let events = &thread.events;
        let mut limits = Limits {
            wait: vec![u64::MAX; events.len()],
            loops: vec![u64::MAX; events.len()],
        };
        let (mut wait, mut loops) = (u64::MAX, u64::MAX);
        for (i, event) in events.iter().enumerate().rev() {
            limits.wait[i] = wait;
            limits.loops[i] = loops;
            let polls = event.kind == Extension::WaitBegin && event.get("kind") == POLL;
            if polls || event.kind == Extension::MessageDispatched {
                loops = event.at_ns;
            }
            // A checkpoint may run at the end of a wait, before the wait's own end.
            let is_of_runtime = |kind| matches!(kind, SpanKind::Checkpoint | SpanKind::GcPause);
            if bound(event).is_some_and(|(_, kind, _)| !is_of_runtime(kind)) {
                wait = event.at_ns;
            }
        }
        limits
    }

    fn of_span(&self, thread: &Thread, span: &Span) -> u64 {
        let limits = match span.kind {
            SpanKind::Wait if thread.events[span.begin].get("kind") != POLL => &self.wait,
            SpanKind::Transaction => &self.wait,
            SpanKind::Wait | SpanKind::Message => &self.loops,
            _ => return u64::MAX,
        };
        limits.get(span.begin).copied().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::{Recorder, Script, EPOCH};

    fn of(record: impl FnOnce(&mut Recorder<'_>)) -> Vec<(SpanKind, u64, u64, bool)> {
        let mut s = Script::new("p");
        let t = s.events_thread(1, "t", 1);
        record(&mut s.at(t, 0));
        s.stop_at(1_000);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let found = spans(&trace.threads[0]);
        let span = |s: &Span| {
            (
                s.kind,
                s.start_ns - EPOCH,
                s.end_ns - EPOCH,
                s.end.is_some(),
            )
        };
        found.spans.iter().map(span).collect()
    }

    #[test]
    fn begins_and_ends_are_joined_by_their_numbers() {
        let found = of(|r| {
            r.event(Extension::MessageDone, &[("message", 3)])
                .after(5)
                .event(Extension::MessageDispatched, &[("message", 7)])
                .after(10)
                .event(Extension::WaitBegin, &[("number", 1)])
                .after(10)
                .event(Extension::WaitEnd, &[("number", 1)])
                .after(10)
                .event(Extension::WaitBegin, &[("number", 2)])
                .after(10)
                .event(Extension::MessageDone, &[("message", 7)])
                .after(10)
                .event(Extension::TaskBegin, &[("task", 9)]);
        });
        assert_eq!(
            found,
            [
                (SpanKind::Message, 5, 45, true),
                (SpanKind::Wait, 15, 25, true),
                // Its end is missing.
                (SpanKind::Wait, 35, 45, false),
                (SpanKind::Task, 55, 1_000, false),
            ]
        );
    }

    #[test]
    fn a_missing_end_swallows_neither_waits_nor_messages() {
        let wait = |kind, number| [("kind", kind), ("number", number)];
        let found = of(|r| {
            r.event(Extension::MessageDispatched, &[("message", 1)])
                .after(10)
                // Its end is missing, and so is that of the message.
                .event(Extension::WaitBegin, &wait(0, 1))
                .after(10)
                .event(Extension::WaitBegin, &wait(POLL, 2))
                .after(10)
                // While it polls, other code waits.
                .event(Extension::WaitBegin, &wait(1, 3))
                .after(10)
                .event(Extension::WaitEnd, &wait(1, 3))
                .after(10)
                .event(Extension::WaitEnd, &wait(POLL, 2))
                .event(Extension::MessageDispatched, &[("message", 2)])
                .after(10)
                .event(Extension::MessageDone, &[("message", 2)])
                .after(10)
                // It goes on.
                .event(Extension::WaitBegin, &wait(0, 4));
        });
        assert_eq!(
            found,
            [
                (SpanKind::Message, 0, 20, false),
                (SpanKind::Wait, 10, 20, false),
                (SpanKind::Wait, 20, 50, true),
                (SpanKind::Wait, 30, 40, true),
                (SpanKind::Message, 50, 60, true),
                (SpanKind::Wait, 70, 1_000, false),
            ]
        );
    }

    #[test]
    fn pieces_of_work_of_the_program_may_overlap() {
        let found = of(|r| {
            let piece = |id| [("name", 1), ("id", id)];
            r.event(Extension::TaskBegin, &[("task", 9)])
                .event(Extension::UserBegin, &piece(1))
                .after(10)
                .event(Extension::UserBegin, &piece(2))
                .after(10)
                .event(Extension::UserEnd, &piece(1))
                .after(10)
                .event(Extension::TaskEnd, &[("task", 9)])
                .after(10)
                .event(Extension::UserEnd, &piece(2));
        });
        assert_eq!(
            found,
            [
                (SpanKind::Task, 0, 30, true),
                (SpanKind::Marked, 0, 20, true),
                (SpanKind::Marked, 10, 40, true),
            ]
        );
    }

    #[test]
    fn calls_of_a_rules_method_are_nested() {
        let found = of(|r| {
            let call = [("name", 1), ("object", 7)];
            r.event(Extension::RuleBegin, &call)
                .after(10)
                .event(Extension::RuleBegin, &call)
                .after(10)
                .event(Extension::RuleEnd, &call)
                .after(10)
                .event(Extension::RuleEnd, &call);
        });
        assert_eq!(
            found,
            [
                (SpanKind::Rule, 0, 30, true),
                (SpanKind::Rule, 10, 20, true),
            ]
        );
    }

    #[test]
    fn callbacks_of_a_frame_end_where_the_next_ones_begin() {
        let found = of(|r| {
            r.event(Extension::FrameBegin, &[("vsync", 5)])
                .event(Extension::FrameCallbacks, &[("type", 0)])
                .after(10)
                .event(Extension::FrameCallbacks, &[("type", 3)])
                .after(10)
                .event(Extension::FrameEnd, &[("vsync", 5)]);
        });
        assert_eq!(
            found,
            [
                (SpanKind::Frame, 0, 20, true),
                (SpanKind::FrameCallbacks, 0, 10, true),
                (SpanKind::FrameCallbacks, 10, 20, false),
            ]
        );
    }

    #[test]
    fn many_begins_without_ends_are_read_quickly() {
        let found = of(|r| {
            for i in 0..100 {
                r.event(Extension::TaskBegin, &[("task", 1)])
                    .event(Extension::UserBegin, &[("id", i)])
                    .event(Extension::TaskEnd, &[("task", 2)]);
            }
        });
        assert_eq!(found.len(), 200);
    }
}
