// SPDX-License-Identifier: Apache-2.0
//! Stretches of a thread's time between two of its events: waits, tasks, messages, frames.

use hashbrown::HashMap;
use hindsight_decoder::catalogue::Field;
use hindsight_decoder::{field, Extension, Gap, Thread, ThreadEvent};
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
    /// CLOCK_BOOTTIME, ns. Without an end: the latest time at which it may still have gone on; if a gap in the recording
    /// follows, the beginning of the gap: until then it did go on.
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
    /// For each event of the thread, the index of the span that it begins, else of the one that it ends, or [`NONE`].
    of_event: Vec<u32>,
}

/// No span.
const NONE: u32 = u32::MAX;

impl Spans {
    /// The span that the event begins.
    pub fn begun_by(&self, event: usize) -> Option<&Span> {
        let span = self.spans.get(*self.of_event.get(event)? as usize)?;
        (span.begin == event).then_some(span)
    }

    /// The span that the event ends.
    pub fn ended_by(&self, event: usize) -> Option<&Span> {
        let span = self.spans.get(*self.of_event.get(event)? as usize)?;
        (span.end == Some(event)).then_some(span)
    }
}

/// Whether an event begins or ends a span, of which kind, and the number that both of its ends have.
fn bound(event: &ThreadEvent) -> Option<(bool, SpanKind, u64)> {
    use Extension as E;
    macro_rules! id {
        ($event:ident, $name:literal) => {{
            const FIELD: Field = field(E::$event, $name);
            FIELD.get(&event.payload)
        }};
    }
    Some(match event.kind {
        E::WaitBegin => (true, SpanKind::Wait, id!(WaitBegin, "number")),
        E::WaitEnd => (false, SpanKind::Wait, id!(WaitEnd, "number")),
        E::TaskBegin => (true, SpanKind::Task, id!(TaskBegin, "task")),
        E::TaskEnd => (false, SpanKind::Task, id!(TaskEnd, "task")),
        E::MessageDispatched => (true, SpanKind::Message, id!(MessageDispatched, "message")),
        E::MessageDone => (false, SpanKind::Message, id!(MessageDone, "message")),
        E::FrameBegin => (true, SpanKind::Frame, id!(FrameBegin, "vsync")),
        E::FrameEnd => (false, SpanKind::Frame, id!(FrameEnd, "vsync")),
        E::FrameCallbacks => (true, SpanKind::FrameCallbacks, 0),
        E::TraversalBegin => (true, SpanKind::Traversal, id!(TraversalBegin, "window")),
        E::TraversalEnd => (false, SpanKind::Traversal, id!(TraversalEnd, "window")),
        E::InputBegin => (true, SpanKind::Input, id!(InputBegin, "sequence")),
        E::InputEnd => (false, SpanKind::Input, id!(InputEnd, "sequence")),
        // A one-way transaction does not return.
        E::BinderSend if id!(BinderSend, "one-way") == 0 => {
            (true, SpanKind::Transaction, id!(BinderSend, "transaction"))
        }
        E::BinderReply => (
            false,
            SpanKind::Transaction,
            id!(BinderReply, "transaction"),
        ),
        E::BinderServe => (true, SpanKind::Service, id!(BinderServe, "transaction")),
        E::BinderServed => (false, SpanKind::Service, id!(BinderServed, "transaction")),
        E::CheckpointBegin => (true, SpanKind::Checkpoint, 0),
        E::CheckpointEnd => (false, SpanKind::Checkpoint, 0),
        E::GcPauseBegin => (true, SpanKind::GcPause, 0),
        E::GcPauseEnd => (false, SpanKind::GcPause, 0),
        // The step of an activity: a start may be a part of resuming it.
        E::LifecycleBegin => {
            let number = id!(LifecycleBegin, "activity") << 8 | id!(LifecycleBegin, "step");
            (true, SpanKind::Lifecycle, number)
        }
        E::LifecycleEnd => {
            let number = id!(LifecycleEnd, "activity") << 8 | id!(LifecycleEnd, "step");
            (false, SpanKind::Lifecycle, number)
        }
        E::UserBegin => {
            let number = id!(UserBegin, "name") << 32 ^ id!(UserBegin, "id");
            (true, SpanKind::Marked, number)
        }
        E::UserEnd => {
            let number = id!(UserEnd, "name") << 32 ^ id!(UserEnd, "id");
            (false, SpanKind::Marked, number)
        }
        E::RuleBegin => (true, SpanKind::Rule, id!(RuleBegin, "name")),
        E::RuleEnd => {
            // The object may be what the method returns, which its beginning does not know.
            (false, SpanKind::Rule, id!(RuleEnd, "name"))
        }
        _ => return None,
    })
}

/// A span without an end goes on over so many gaps at most: a damaged file may claim any number.
const MOST_CARRIED: usize = 64;

/// Whether no two spans of this kind on a thread have the same number, unless it is 0.
fn has_own_number(kind: SpanKind) -> bool {
    matches!(
        kind,
        SpanKind::Wait
            | SpanKind::Message
            | SpanKind::Frame
            | SpanKind::Input
            | SpanKind::Transaction
            | SpanKind::Service
    )
}

/// What is noted of a span while it runs.
#[derive(Clone, Copy)]
struct Note {
    number: u64,
    /// The span of the same kind and number around it, or [`NONE`]; only known where many spans run.
    same: u32,
}

/// So many running spans are looked at one by one. More are found by their kinds and numbers.
const FEW: usize = 8;

/// Finds the spans of one thread after the other, in the same memory.
#[derive(Default)]
pub struct SpanFinder {
    found: Spans,
    /// Running spans, outermost first, without the spans that the program named.
    running: Vec<u32>,
    /// Running spans that the program named, in the order of their beginnings; only as long as few spans run.
    marked: Vec<u32>,
    /// Where many spans run: the innermost running one of each kind and number.
    innermost: HashMap<(SpanKind, u64), u32>,
    are_many: bool,
    /// By span.
    notes: Vec<Note>,
    /// Spans without an end.
    open: usize,
    /// Index of the first event after the last gap so far.
    after_gap: usize,
}

impl SpanFinder {
    fn begin(&mut self, event: usize, at_ns: u64, kind: SpanKind, number: u64) {
        if !self.are_many && self.running.len() + self.marked.len() == FEW {
            self.index();
        }
        let index = self.found.spans.len() as u32;
        self.found.spans.push(Span {
            kind,
            begin: event,
            end: None,
            start_ns: at_ns,
            end_ns: u64::MAX,
        });
        self.found.of_event[event] = index;
        self.notes.push(Note { number, same: NONE });
        if self.are_many {
            self.insert(index);
        }
        // Spans of the program end where it says, whatever else ends.
        if kind != SpanKind::Marked {
            self.running.push(index);
        } else if !self.are_many {
            self.marked.push(index);
        }
    }

    /// From now on, running spans are found by their kinds and numbers, until none runs.
    fn index(&mut self) {
        let mut all: Vec<u32> = self.marked.drain(..).collect();
        all.extend(&self.running);
        all.sort_unstable();
        for index in all {
            self.insert(index);
        }
        self.are_many = true;
    }

    fn insert(&mut self, index: u32) {
        let note = &mut self.notes[index as usize];
        let key = (self.found.spans[index as usize].kind, note.number);
        note.same = self.innermost.insert(key, index).unwrap_or(NONE);
    }

    /// Takes out the innermost running span of this kind and number, except from the list of running ones.
    fn take(&mut self, kind: SpanKind, number: u64) -> Option<u32> {
        if self.are_many {
            let index = self.innermost.get(&(kind, number)).copied()?;
            if !self.is_same_over_gaps(index) {
                return None;
            }
            self.remove(index);
            return Some(index);
        }
        let is_it = |&&i: &&u32| {
            let (span, note) = (&self.found.spans[i as usize], self.notes[i as usize]);
            span.kind == kind && note.number == number && self.is_same_over_gaps(i)
        };
        if kind != SpanKind::Marked {
            return self.running.iter().rev().find(is_it).copied();
        }
        let place = self.marked.iter().rposition(|i| is_it(&i))?;
        Some(self.marked.remove(place))
    }

    /// Whether an end of its kind and number is surely its own. In a gap of the recording it may have ended, and another one
    /// that has the same number may have begun.
    fn is_same_over_gaps(&self, index: u32) -> bool {
        let (span, note) = (
            &self.found.spans[index as usize],
            self.notes[index as usize],
        );
        span.begin >= self.after_gap || has_own_number(span.kind) && note.number != 0
    }

    /// Where many spans run: an innermost one of its kind and number does not run any more.
    fn remove(&mut self, index: u32) {
        let Note { number, same } = self.notes[index as usize];
        let kind = self.found.spans[index as usize].kind;
        match same {
            NONE => self.innermost.remove(&(kind, number)),
            same => self.innermost.insert((kind, number), same),
        };
    }

    fn end(&mut self, index: u32, at_ns: u64, event: Option<usize>) {
        let span = &mut self.found.spans[index as usize];
        span.end_ns = at_ns;
        span.end = event;
        match event {
            Some(event) => self.found.of_event[event] = index,
            None => self.open += 1,
        }
    }

    /// Ends the innermost span of this kind and number, and the ones inside it, whose ends are missing. Those that the
    /// program named go on.
    fn close(&mut self, event: Option<usize>, at_ns: u64, kind: SpanKind, number: u64) {
        let Some(index) = self.take(kind, number) else {
            return;
        };
        self.end(index, at_ns, event);
        if kind != SpanKind::Marked {
            while let Some(inner) = self.running.pop_if(|i| *i != index) {
                self.end_inner(inner, at_ns);
            }
            self.running.pop();
        }
        // Few run again.
        self.are_many = self.are_many && !self.innermost.is_empty();
    }

    /// Ends a span whose end is missing.
    fn end_inner(&mut self, index: u32, at_ns: u64) {
        if self.are_many {
            self.remove(index);
        }
        self.end(index, at_ns, None);
    }

    fn close_all(&mut self, at_ns: u64) {
        while let Some(index) = self.running.pop() {
            self.end_inner(index, at_ns);
        }
        // Those that the program named.
        while let Some(index) = self.marked.pop() {
            self.end(index, at_ns, None);
        }
        for mut index in self.innermost.drain().map(|(_, index)| index) {
            while index != NONE {
                self.found.spans[index as usize].end_ns = at_ns;
                self.open += 1;
                index = self.notes[index as usize].same;
            }
        }
        self.are_many = false;
    }

    /// The spans of a thread. An end without a beginning makes none.
    pub fn find(&mut self, thread: &Thread) -> &Spans {
        self.found.spans.clear();
        self.found.of_event.clear();
        self.found.of_event.resize(thread.events.len(), NONE);
        self.notes.clear();
        self.open = 0;
        self.after_gap = 0;
        let gaps: Vec<Gap<'_>> = thread.gaps().collect();
        let mut next_gap = gaps.iter().peekable();
        for (i, event) in thread.events.iter().enumerate() {
            let at_ns = event.at_ns;
            while next_gap.next_if(|gap| gap.next_event <= i).is_some() {
                self.after_gap = i;
            }
            if matches!(event.kind, Extension::Started | Extension::Stopped) {
                self.close_all(at_ns);
            }
            let Some((begins, kind, number)) = bound(event) else {
                continue;
            };
            // Callbacks of one type end when callbacks of the next type begin, or with the frame.
            if kind == SpanKind::FrameCallbacks {
                self.close(Some(i), at_ns, kind, number);
            }
            match begins {
                true => self.begin(i, at_ns, kind, number),
                false => self.close(Some(i), at_ns, kind, number),
            }
        }
        self.close_all(thread.end_ns);
        let limits = (self.open > 0).then(|| Limits::of(thread));
        for span in &mut self.found.spans {
            if let Some(limits) = limits.as_ref().filter(|_| span.end.is_none()) {
                span.end_ns = span.end_ns.min(limits.of_span(thread, span));
                // What the thread did after the gap, it may have begun in the gap.
                let begin = &thread.events[span.begin];
                let gap = gaps.partition_point(|gap| gap.next_event <= span.begin);
                let later = gaps[gap..].iter().take(MOST_CARRIED);
                let carried = later.take_while(|gap| gap.is_carried(begin)).count();
                let gap = gaps.get(gap + carried);
                span.end_ns = span.end_ns.min(gap.map_or(u64::MAX, |gap| gap.from_ns));
            }
            span.end_ns = span.end_ns.max(span.start_ns);
        }
        &self.found
    }
}

/// The spans of a thread. An end without a beginning makes none.
pub fn spans(thread: &Thread) -> Spans {
    let mut finder = SpanFinder::default();
    finder.find(thread);
    finder.found
}

/// Index, in the catalogue, of the kind of waits in which a looper waits for messages.
const POLL: u64 = 5;
/// What a wait is for.
const WAIT_KIND: Field = field(Extension::WaitBegin, "kind");

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
            let polls = event.kind == Extension::WaitBegin && WAIT_KIND.get(&event.payload) == POLL;
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
            SpanKind::Wait if WAIT_KIND.get(&thread.events[span.begin].payload) != POLL => {
                &self.wait
            }
            SpanKind::Transaction => &self.wait,
            SpanKind::Wait | SpanKind::Message => &self.loops,
            _ => return u64::MAX,
        };
        limits.get(span.begin).copied().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
