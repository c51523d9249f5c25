// SPDX-License-Identifier: Apache-2.0
//! The nodes of a thread (P-1; Argus, algorithm 4, lines 1 to 22).

use hindsight_analysis::{Span, SpanFinder, SpanKind};
use hindsight_decoder::{Extension, Gap, Thread, ThreadEvent};

use crate::graph::{
    NodeKind, Nodes, Wait, WaitKind, WaitResult, NODE_BEGINS_ANEW, NODE_INSIDE, NODE_OPEN_END,
};
use crate::session::{Session, ThreadId};
use crate::strings::StringId;

use super::idle;
use super::made::Made;
use super::of_thread::OfThread;
use super::sorts::{is_addition, is_of_recording, TASK_KIND, THREAD_TASK, WAIT_KIND, WAIT_RESULT};

/// A stretch of a thread's own code without any event is a node if it is so long, ns. Shorter ones are in no node.
const LEAST_GAP_NS: u64 = 1_000_000;

/// Adds the nodes and waits of a thread.
pub(super) fn add(
    session: &Session,
    id: ThreadId,
    rules: &OfThread<'_>,
    finder: &mut SpanFinder,
    made: &mut Made,
) {
    let thread = session.thread(id);
    let spans = &finder.find(thread).spans;
    let first_node = made.nodes.len();
    waits(id, thread, spans, &mut made.waits);
    let mut sweep = Sweep {
        session,
        id,
        rules,
        thread,
        spans,
        nodes: &mut made.nodes,
        open: None,
        work_until: 0,
        wait_in_work_until: 0,
        wait_until: 0,
        own_class: StringId::NONE,
        closing_ns: 0,
        reached_ns: None,
    };
    sweep.run();
    idle::mark(thread, first_node, &mut made.nodes);
    made.end_thread();
}

/// The waits of a thread: also for the replies to transactions.
fn waits(id: ThreadId, thread: &Thread, spans: &[Span], waits: &mut Vec<Wait>) {
    for span in spans {
        let begin = &thread.events[span.begin];
        let end = span.end.map(|end| &thread.events[end]);
        let (kind, result) = match span.kind {
            SpanKind::Wait => {
                let result = end.map(|end| WaitResult::from_number(WAIT_RESULT.get(&end.payload)));
                (wait_kind(begin), result)
            }
            SpanKind::Transaction => (WaitKind::Transaction, end.map(|_| WaitResult::Signalled)),
            _ => continue,
        };
        waits.push(Wait {
            thread: id,
            begin_event: span.begin as u32,
            end_event: span.end.map_or(Wait::NOT_RECORDED, |end| end as u32),
            begin_ns: span.start_ns,
            end_ns: span.end_ns,
            kind,
            result: result.unwrap_or(WaitResult::NotRecorded),
        });
    }
}

/// What a wait is for that begins with this event.
fn wait_kind(begin: &ThreadEvent) -> WaitKind {
    WaitKind::from_number(WAIT_KIND.get(&begin.payload))
}

/// The kind of node that a span is if no other work is around it.
fn work(span: &Span, begin: &ThreadEvent) -> Option<NodeKind> {
    Some(match span.kind {
        SpanKind::Message => NodeKind::Message,
        SpanKind::Task if TASK_KIND.get(&begin.payload) != THREAD_TASK => NodeKind::Task,
        SpanKind::Frame => NodeKind::Frame,
        SpanKind::Traversal => NodeKind::Traversal,
        SpanKind::Input => NodeKind::Input,
        SpanKind::Service => NodeKind::Service,
        SpanKind::Lifecycle => NodeKind::Lifecycle,
        SpanKind::Marked => NodeKind::Marked,
        _ => return None,
    })
}

/// Goes through the events of a thread in the order of time.
struct Sweep<'a> {
    session: &'a Session,
    id: ThreadId,
    rules: &'a OfThread<'a>,
    thread: &'a Thread,
    /// In the order of their beginnings.
    spans: &'a [Span],
    nodes: &'a mut Nodes,
    /// The node that goes on, if it is one.
    open: Option<usize>,
    /// Index after the last event of the outermost work.
    work_until: usize,
    /// Index after the last event of the wait in work that goes on.
    wait_in_work_until: usize,
    /// Index after the last event of the wait outside any work.
    wait_until: usize,
    /// CLOCK_BOOTTIME when the work or wait that began last ends, ns; the end of its last event may be later.
    closing_ns: u64,
    /// The class that the thread runs for all its life.
    own_class: StringId,
    /// The time until which nodes cover the thread's recording; `None` at its beginning and after gaps.
    reached_ns: Option<u64>,
}

impl Sweep<'_> {
    fn run(&mut self) {
        let events = &self.thread.events;
        let mut next_span = 0;
        let thread = self.thread;
        let mut gaps = thread.gaps().peekable();
        let mut i = 0;
        while i < events.len() {
            while let Some(gap) = gaps.next_if(|gap| gap.next_event <= i) {
                self.gap_in_recording(i, gap);
            }
            while self.spans.get(next_span).is_some_and(|s| s.begin < i) {
                next_span += 1;
            }
            let begun = self.spans.get(next_span).filter(|s| s.begin == i);
            match begun.and_then(|span| self.maintenance(span)) {
                Some(after) => i = after,
                None => {
                    self.event(i, begun);
                    i += 1;
                }
            }
            if self.open.is_some() && self.ends_at(i) {
                let last_ns = events[i - 1].at_ns;
                self.close(i, self.closing_ns.max(last_ns));
            }
        }
        // After a last gap there may be no event at all.
        let end_ns = gaps.next().map_or(self.thread.end_ns, |gap| gap.from_ns);
        if self.open.is_some() {
            self.close(events.len(), end_ns);
        }
    }

    /// The event is the first one after a gap: nothing is known of the gap, except that work or a wait that ends later goes on.
    fn gap_in_recording(&mut self, event: usize, gap: Gap<'_>) {
        if self.in_work(event) || event < self.wait_until {
            return;
        }
        if self.open.is_some() {
            self.close(event, gap.from_ns);
        }
        self.reached_ns = None;
    }

    /// Whether the last event of the outermost work, or of a wait outside any work, is the one before this.
    fn ends_at(&self, event: usize) -> bool {
        event == self.work_until || (event == self.wait_until && !self.in_work(event))
    }

    /// Index after the last event of a span.
    fn end_of(&self, span: &Span) -> usize {
        let events = &self.thread.events;
        match span.end {
            Some(end) => end + 1,
            None if span.end_ns >= self.thread.end_ns => events.len(),
            None => {
                let later = &events[span.begin + 1..];
                span.begin + 1 + later.partition_point(|e| e.at_ns < span.end_ns)
            }
        }
    }

    /// Makes a node of a request of the managed runtime. Returns the index after its last event.
    fn maintenance(&mut self, span: &Span) -> Option<usize> {
        let begin = &self.thread.events[span.begin];
        let is_gc_wait = span.kind == SpanKind::Wait && wait_kind(begin) == WaitKind::Gc;
        if !is_gc_wait && !matches!(span.kind, SpanKind::Checkpoint | SpanKind::GcPause) {
            return None;
        }
        // Without an end, only its beginning is known.
        let mut after = span.end.map_or(span.begin + 1, |end| end + 1);
        let inside = self.open.is_some();
        if inside {
            let until = match self.in_work(span.begin) {
                true => self.work_until,
                false if span.begin < self.wait_until => self.wait_until,
                false => usize::MAX,
            };
            // It may not take the end of the node around it.
            after = after.min(until.saturating_sub(1)).max(span.begin + 1);
        } else {
            self.gap(span.begin);
        }
        let end_ns = span.end.map_or(begin.at_ns, |_| span.end_ns);
        let around = self.open.take();
        self.push(NodeKind::Maintenance, span.begin, StringId::NONE);
        if inside {
            if let Some(node) = self.open {
                self.nodes.flags[node] |= NODE_INSIDE;
            }
        }
        let reached_ns = self.reached_ns;
        self.close(after, end_ns);
        if around.is_some() {
            self.open = around;
            self.reached_ns = reached_ns;
        }
        Some(after)
    }

    fn in_work(&self, event: usize) -> bool {
        event < self.work_until
    }

    fn event(&mut self, i: usize, begun: Option<&Span>) {
        let event = &self.thread.events[i];
        if matches!(event.kind, Extension::Started | Extension::Stopped) {
            self.close_before(i);
            self.reached_ns = None;
        }
        if self.in_work(i) {
            // Spans that the program named may go on after the work in which they began.
            if let Some(span) = begun.filter(|s| s.kind == SpanKind::Marked) {
                self.work_until = self.work_until.max(self.end_of(span));
            }
            // A wait is in one node: of a part of it, its node would not tell that the thread waited.
            if self.rules.splits(i) && i + 1 >= self.wait_in_work_until {
                self.split(i);
            }
            if let Some(span) = begun.filter(|s| s.kind == SpanKind::Wait) {
                self.wait_in_work_until = self.end_of(span);
            }
            return;
        }
        if let Some((span, kind)) = begun.and_then(|s| Some((s, work(s, event)?))) {
            if self.rules.merges(i) && self.reopen(i) {
                self.work_until = self.end_of(span);
                return;
            }
            let what = self.what(event);
            self.begin(kind, i, what);
            self.work_until = self.end_of(span);
            self.ends_with(span);
            return;
        }
        if i < self.wait_until {
            // After other work in a wait, the wait goes on.
            if self.open.is_none() {
                self.begin(NodeKind::Wait, i, self.own_class);
            }
            return;
        }
        self.own_code(i, event, begun);
    }

    /// An event outside work and waits.
    fn own_code(&mut self, i: usize, event: &ThreadEvent, begun: Option<&Span>) {
        let is_wait = |span: &&Span| {
            let ends_node = !self.rules.has_priority_waits;
            ends_node && matches!(span.kind, SpanKind::Wait | SpanKind::Transaction)
        };
        if let Some(span) = begun.filter(is_wait) {
            let kind = wait_kind(event);
            let is_poll = span.kind == SpanKind::Wait && kind == WaitKind::Poll;
            let is_lock = span.kind == SpanKind::Wait && kind == WaitKind::Lock;
            let kind = match is_poll {
                true => NodeKind::Idle,
                false => NodeKind::Wait,
            };
            // The event that names the lock's owner comes before the wait.
            let owner = i.checked_sub(1).filter(|&before| {
                let is_owner = self.thread.events[before].kind == Extension::LockWait;
                is_lock && is_owner && self.open_from(before)
            });
            if let Some(owner) = owner {
                self.forget_if_only(owner);
            }
            self.begin(kind, owner.unwrap_or(i), self.own_class);
            self.wait_until = self.end_of(span);
            self.ends_with(span);
            return;
        }
        let is_thread = |s: &&Span| s.kind == SpanKind::Task;
        if begun.is_some_and(|s| is_thread(&s)) {
            self.own_class = self.what(event);
            self.begin(NodeKind::Run, i, self.own_class);
            return;
        }
        if self.rules.splits(i) {
            self.close_before(i);
        }
        if self.open.is_some() || is_of_recording(event.kind) {
            return;
        }
        if is_addition(event.kind) && self.extend(i) {
            return;
        }
        self.begin(NodeKind::Run, i, self.own_class);
    }

    /// Whether the open node has this event, and no node after it does.
    fn open_from(&self, event: usize) -> bool {
        self.open
            .is_some_and(|node| self.nodes.first_event[node] as usize <= event)
    }

    /// Begins another node of the same kind of work.
    fn split(&mut self, event: usize) {
        let Some(node) = self.open else { return };
        let (kind, what) = (self.nodes.kind[node], self.nodes.what[node]);
        let is_first = self.nodes.first_event[node] as usize == event;
        if !is_first {
            self.close_before(event);
            self.push(kind, event, what);
        }
    }

    /// Goes on with the node before this event, if there is one. Returns whether there is.
    fn reopen(&mut self, event: usize) -> bool {
        if self.open.is_some() {
            return true;
        }
        let before = self.ended_before(event);
        self.open = before.filter(|&n| self.nodes.kind[n] != NodeKind::Idle);
        self.open.is_some()
    }

    /// The node that has just ended, if there is nothing between it and this event.
    fn ended_before(&self, event: usize) -> Option<usize> {
        let is_own = |n: &usize| self.nodes.thread[*n] == self.id;
        let last = self.nodes.len().checked_sub(1).filter(is_own);
        last.filter(|&n| !self.nodes.is_inside(n) && self.nodes.end_event[n] as usize == event)
    }

    /// Forgets the open node if it has only this event.
    fn forget_if_only(&mut self, event: usize) {
        let Some(node) = self.open else { return };
        if self.nodes.first_event[node] as usize == event && node + 1 == self.nodes.len() {
            self.open = None;
            self.nodes.truncate(node);
        }
    }

    /// Adds an event to the node that has just ended, if there is nothing in between.
    fn extend(&mut self, event: usize) -> bool {
        let last = self.ended_before(event);
        if let Some(node) = last {
            self.nodes.end_event[node] = event as u32 + 1;
        }
        last.is_some()
    }

    /// The class of the work that an event begins, or the name that the program gave it.
    fn what(&self, event: &ThreadEvent) -> StringId {
        let trace = self.session.about(self.id).trace();
        match event.kind {
            Extension::UserBegin => self.session.mark(trace, event.get("name")),
            _ => self.session.class(trace, event.method),
        }
    }

    /// The open node ends with this span.
    fn ends_with(&mut self, span: &Span) {
        self.closing_ns = match span.end {
            Some(_) => 0,
            None => span.end_ns,
        };
        if let Some(node) = self.open.filter(|_| span.end.is_none()) {
            self.nodes.flags[node] |= NODE_OPEN_END;
        }
    }

    /// Begins a node with an event; the one that goes on ends before it.
    fn begin(&mut self, kind: NodeKind, first: usize, what: StringId) {
        self.close_before(first);
        if kind != NodeKind::Run {
            self.gap(first);
        }
        self.push(kind, first, what);
    }

    fn close_before(&mut self, event: usize) {
        if self.open.is_some() {
            self.close(event, self.thread.events[event].at_ns);
        }
    }

    /// A long stretch without events before this one becomes a node without events.
    fn gap(&mut self, next: usize) {
        let Some(since_ns) = self.reached_ns else {
            return;
        };
        let at_ns = self.thread.events[next].at_ns;
        if at_ns.saturating_sub(since_ns) >= LEAST_GAP_NS {
            self.push(NodeKind::Run, next, self.own_class);
            self.close(next, at_ns);
        }
    }

    fn push(&mut self, kind: NodeKind, first: usize, what: StringId) {
        let at_ns = self.thread.events[first].at_ns;
        // A thread's own code goes on from where the last node ended.
        let begin_ns = match (kind, self.reached_ns) {
            (NodeKind::Run, Some(since_ns)) => since_ns.min(at_ns),
            _ => at_ns,
        };
        self.open = Some(self.nodes.len());
        self.nodes.thread.push(self.id);
        self.nodes.begin_ns.push(begin_ns);
        self.nodes.end_ns.push(begin_ns);
        self.nodes.first_event.push(first as u32);
        self.nodes.end_event.push(first as u32);
        self.nodes.kind.push(kind);
        let flags = match self.reached_ns {
            Some(_) => 0,
            None => NODE_BEGINS_ANEW,
        };
        self.nodes.flags.push(flags);
        self.nodes.what.push(what);
    }

    /// Ends the open node: `after` is the index after its last event.
    fn close(&mut self, after: usize, end_ns: u64) {
        let Some(node) = self.open.take() else { return };
        let end_ns = end_ns.max(self.nodes.begin_ns[node]);
        self.nodes.end_event[node] = after as u32;
        self.nodes.end_ns[node] = end_ns;
        self.reached_ns = Some(end_ns.max(self.reached_ns.unwrap_or(0)));
    }
}
