// SPDX-License-Identifier: Apache-2.0
//! What a thread does outside its waits: it runs, has no processor, is suspended for a garbage collection, or is in a call
//! that waits for the network or for files.

use std::cell::OnceCell;

use hindsight_analysis::{spans, SpanKind, Spans};
use hindsight_decoder::catalogue::STACK_REASONS;
use hindsight_decoder::{Extension, Flags, MethodId, Thread, ThreadEvent, Trace};
use hindsight_system_trace::State;

use super::component::{Component, Shares};
use crate::graph::{Graph, Wait, WaitKind, WaitResult};
use crate::scheduled;
use crate::session::{Session, ThreadId};

/// Without readings of CPU time, a stretch shorter than this counts as running, ns: threads read their counters at most so
/// often.
const SHORT_NS: u64 = 1_000_000;

/// Stretches of time that do not overlap, in order.
type Stretches = Vec<(u64, u64)>;

/// What threads do in stretches of time.
pub(super) struct OwnTime<'a> {
    session: &'a Session,
    graph: &'a Graph,
    /// By trace: when all threads are suspended.
    pauses: Vec<OnceCell<Stretches>>,
    /// By thread.
    spans: Vec<OnceCell<Spans>>,
    /// By thread: stretches in which it is known to wait for the network or for files.
    outside: Vec<OnceCell<Vec<(u64, u64, Component)>>>,
    /// By thread: requests of the managed runtime.
    maintenance: Vec<OnceCell<Stretches>>,
    /// By thread: waits in no other wait.
    outermost: Vec<OnceCell<Vec<u32>>>,
}

impl<'a> OwnTime<'a> {
    pub(super) fn new(session: &'a Session, graph: &'a Graph) -> Self {
        let threads = session.threads().len();
        let cells = |n: usize| (0..n).map(|_| OnceCell::new()).collect();
        OwnTime {
            session,
            graph,
            pauses: cells(session.traces().len()),
            spans: (0..threads).map(|_| OnceCell::new()).collect(),
            outside: (0..threads).map(|_| OnceCell::new()).collect(),
            maintenance: cells(threads),
            outermost: (0..threads).map(|_| OnceCell::new()).collect(),
        }
    }

    pub(super) fn spans(&self, thread: ThreadId) -> &Spans {
        self.spans[thread.0 as usize].get_or_init(|| spans(self.session.thread(thread)))
    }

    /// What a thread does from `from` to `to`, ns, in which it is in no wait. The shares add up to that time. Where there is a
    /// system trace, that says it; outside of its time, the thread's own readings do.
    pub(super) fn of(&self, thread: ThreadId, from: u64, to: u64) -> Shares {
        let Some((known_from, known_to)) = scheduled::known(self.session, thread, from, to) else {
            return self.by_readings(thread, from, to);
        };
        let mut shares = self.by_readings(thread, from, known_from);
        shares.add_all(&self.by_scheduler(thread, known_from, known_to));
        shares.add_all(&self.by_readings(thread, known_to, to));
        shares
    }

    /// When a thread is suspended, or runs requests of the managed runtime.
    fn suspended(&self, thread: ThreadId, from: u64, to: u64) -> Stretches {
        let trace = self.session.about(thread).trace();
        let pauses = self.pauses[trace].get_or_init(|| pauses(self.session.trace(trace)));
        let maintenance = self.maintenance[thread.0 as usize].get_or_init(|| self.requests(thread));
        let mut suspended: Stretches = within(pauses, from, to)
            .chain(within(maintenance, from, to))
            .collect();
        merge(&mut suspended);
        suspended
    }

    /// As [`OwnTime::of`], by what the scheduler did. A thread that could run waits for a processor, whatever else it does.
    fn by_scheduler(&self, thread: ThreadId, from: u64, to: u64) -> Shares {
        let mut shares = Shares::default();
        let suspended = self.suspended(thread, from, to);
        let outside = self.outside[thread.0 as usize].get_or_init(|| self.outside(thread));
        // Time asleep of which it is not known what for, and how often.
        let (mut asleep_ns, mut sleeps) = (0, 0);
        for slice in scheduled::slices(self.session, thread, from, to) {
            let (begin, end) = (slice.from_ns, slice.to_ns);
            let gc_ns: u64 = within(&suspended, begin, end).map(|(a, b)| b - a).sum();
            shares.add(Component::Gc, gc_ns);
            let mut rest = end - begin - gc_ns;
            if slice.state == State::Runnable {
                shares.add(Component::Runnable, rest);
                continue;
            }
            let first = outside.partition_point(|o| o.1 <= begin);
            for &(a, b, component) in outside[first..].iter().take_while(|o| o.0 < end) {
                let (a, b) = (a.max(begin), b.min(end));
                let paused: u64 = within(&suspended, a, b).map(|(a, b)| b - a).sum();
                let ns = (b - a).saturating_sub(paused).min(rest);
                shares.add(component, ns);
                rest -= ns;
            }
            match slice.state {
                State::Running => shares.add(Component::Running, rest),
                State::Io => shares.add(Component::Io, rest),
                _ if slice.state.is_wait() => {
                    asleep_ns += rest;
                    sleeps += 1;
                }
                _ => shares.add(Component::Unknown, rest),
            }
        }
        // It waited once, and one native method returned: it waited in that.
        let native = match sleeps {
            1 => self.native(thread, from, to),
            _ => None,
        };
        shares.add(native.map_or(Component::Unknown, |n| n.0), asleep_ns);
        shares
    }

    /// As [`OwnTime::of`], by the thread's own readings of its CPU time.
    fn by_readings(&self, thread: ThreadId, from: u64, to: u64) -> Shares {
        let mut shares = Shares::default();
        let Some(length) = to.checked_sub(from).filter(|&l| l > 0) else {
            return shares;
        };
        let suspended = self.suspended(thread, from, to);
        let outside = self.outside[thread.0 as usize].get_or_init(|| self.outside(thread));
        let gc_ns: u64 = suspended.iter().map(|(a, b)| b - a).sum();
        shares.add(Component::Gc, gc_ns);
        let mut rest = length - gc_ns;
        let first = outside.partition_point(|o| o.1 <= from);
        for &(begin, end, component) in outside[first..].iter().take_while(|o| o.0 < to) {
            let (begin, end) = (begin.max(from), end.min(to));
            let paused: u64 = within(&suspended, begin, end).map(|(a, b)| b - a).sum();
            let ns = (end - begin).saturating_sub(paused).min(rest);
            shares.add(component, ns);
            rest -= ns;
        }
        shares.add_all(&self.computing(thread, from, to, rest));
        shares
    }

    /// Of a stretch of time, the part outside everything that is known to be something else.
    fn computing(&self, thread: ThreadId, from: u64, to: u64, rest: u64) -> Shares {
        let Some(used) = self.session.resources(thread).used(from, to) else {
            let running = match rest < SHORT_NS {
                true => rest,
                false => self.at_least(thread, from, to, rest),
            };
            let mut shares = Shares::of(Component::Running, running);
            shares.add(Component::Unknown, rest - running);
            return shares;
        };
        let mut shares = Shares::of(Component::Running, used.cpu_ns.min(rest));
        let missing = rest - used.cpu_ns.min(rest);
        // It had no processor, or it waited in the kernel, where nothing is recorded.
        let component = match (used.voluntary_switches, used.involuntary_switches) {
            (0, _) => Component::Runnable,
            (waited, _) if used.major_faults >= waited => Component::Io,
            _ if missing < SHORT_NS => Component::Runnable,
            // It waited once, and one native method returned: it waited in that.
            (1, _) => (self.native(thread, from, to)).map_or(Component::Unknown, |n| n.0),
            _ => Component::Unknown,
        };
        shares.add(component, missing);
        shares
    }

    /// The native method of the class library that waits for the network or for files, if its return is the only one that a
    /// stack was taken at in a stretch of time.
    pub(super) fn native(
        &self,
        thread: ThreadId,
        from: u64,
        to: u64,
    ) -> Option<(Component, MethodId)> {
        /// With more events there is more than one thing that the thread may have waited for.
        const MOST_EVENTS: usize = 64;
        let events = &self.session.thread(thread).events;
        let first = events.partition_point(|e| e.at_ns <= from);
        let inside = events[first..].iter().take(MOST_EVENTS);
        let inside = inside.take_while(|e| e.at_ns <= to);
        let is_native = |e: &&ThreadEvent| {
            let reason = usize::try_from(e.get("reason")).ok();
            let reason = reason.and_then(|r| STACK_REASONS.get(r));
            e.kind == Extension::Stack && reason == Some(&"native call")
        };
        let mut returned = inside.filter(is_native);
        let (stack, None) = (returned.next()?, returned.next()) else {
            return None;
        };
        let trace = self.session.trace_of(thread);
        let frame = trace.stacks.frames(stack.stack()?).next()?;
        let method = trace.methods.get(frame.method)?;
        let component = Component::of_native(&method.class, &method.name)?;
        Some((component, frame.method))
    }

    /// The least time that a thread ran in a stretch of time, from the readings of its CPU time around that.
    fn at_least(&self, thread: ThreadId, from: u64, to: u64, rest: u64) -> u64 {
        /// More waits around it would make the answer useless.
        const MOST_WAITS: usize = 64;
        let around = self.session.resources(thread).around(from, to);
        let Some(((start, end), cpu_ns)) = around else {
            return 0;
        };
        let waits = self.graph.waits_of(thread);
        let first = waits.partition_point(|w| w.begin_ns < start);
        let after = waits.partition_point(|w| w.begin_ns < end);
        if after - first > MOST_WAITS {
            return 0;
        }
        // Outside the stretch, it was off the processor at least while it waited.
        let waited: u64 = (self.waits(thread, start, end))
            .map(|w| {
                let (begin, end) = (w.begin_ns.max(start), w.end_ns.min(end));
                let inside = end.min(to).saturating_sub(begin.max(from));
                end.saturating_sub(begin) - inside
            })
            .sum();
        let off = (end - start).saturating_sub(cpu_ns).saturating_sub(waited);
        rest.saturating_sub(off)
    }

    /// When a thread ran requests of the managed runtime.
    fn requests(&self, thread: ThreadId) -> Stretches {
        let mut found: Stretches = (self.spans(thread).spans.iter())
            .filter(|s| {
                matches!(s.kind, SpanKind::Checkpoint | SpanKind::GcPause) && s.end.is_some()
            })
            .map(|s| (s.start_ns, s.end_ns))
            .collect();
        merge(&mut found);
        found
    }

    /// When a thread is known to wait for the network or for files: in work or rules with such a name, and in native methods
    /// of the class library.
    fn outside(&self, thread: ThreadId) -> Vec<(u64, u64, Component)> {
        let recorded = self.session.thread(thread);
        let trace = self.session.about(thread).trace();
        let mut found: Vec<(u64, u64, Component)> = Vec::new();
        for span in &self.spans(thread).spans {
            let begin = &recorded.events[span.begin];
            // Work that was handed over is what comes after the network: the time before it is the network's.
            let is_handed_over = span.kind == SpanKind::Marked && begin.get("id") != 0;
            if matches!(span.kind, SpanKind::Marked | SpanKind::Rule) && !is_handed_over {
                let name = begin.get("name");
                let name = self.session.string(self.session.mark(trace, name));
                let component = Component::of_name(name);
                found.extend(component.map(|c| (span.start_ns, span.end_ns, c)));
            }
        }
        self.natives(recorded, self.session.trace(trace), &mut found);
        disjoint(found)
    }

    fn natives(&self, thread: &Thread, trace: &Trace, found: &mut Vec<(u64, u64, Component)>) {
        let kinds: Vec<Option<Component>> = match thread.calls.is_empty() {
            true => return,
            false => (trace.methods.iter())
                .map(|(_, m)| Component::of_native(&m.class, &m.name))
                .collect(),
        };
        if kinds.iter().all(Option::is_none) {
            return;
        }
        for call in thread.calls.iter() {
            // Stacks say that it ran at two times, not that it did so in between.
            if call.flags.contains(Flags::SAMPLED) {
                continue;
            }
            let kind = kinds.get(call.method.0 as usize).copied().flatten();
            found.extend(kind.map(|c| (call.start_ns, call.end_ns, c)));
        }
    }

    /// What a wait is, as far as it is known without who ended it.
    pub(super) fn of_wait(wait: &Wait) -> Component {
        match (wait.kind, wait.result) {
            (WaitKind::Lock, _) => Component::Lock,
            (WaitKind::Gc, _) => Component::Gc,
            (WaitKind::Sleep, _) => Component::Timer,
            (WaitKind::Transaction, _) => Component::Binder,
            (WaitKind::Unknown, _) => Component::Unknown,
            (_, WaitResult::TimedOut) => Component::Timer,
            (WaitKind::Object | WaitKind::Park | WaitKind::Poll, _) => Component::Wait,
        }
    }

    /// What time in a wait, from `from` to `to`, ns, is spent on: what [`OwnTime::of_wait`] says, but once the thread has been
    /// woken, it waits for a processor. The shares add up to that time.
    pub(super) fn in_wait(&self, wait: &Wait, from: u64, to: u64) -> Shares {
        let component = OwnTime::of_wait(wait);
        let length = to.saturating_sub(from);
        let runnable = match component {
            Component::Gc => 0,
            _ => scheduled::times(self.session, wait.thread, from, to)
                .map_or(0, |times| times.runnable_ns.min(length)),
        };
        let mut shares = Shares::of(Component::Runnable, runnable);
        shares.add(component, length - runnable);
        shares
    }

    /// The waits of a thread that are in no other wait, in the order of time: indices of its waits.
    fn outermost(&self, thread: ThreadId) -> &[u32] {
        self.outermost[thread.0 as usize].get_or_init(|| {
            let mut until_ns = 0;
            let waits = self.graph.waits_of(thread).iter().zip(0..);
            let mut is_outermost = |wait: &Wait| {
                let is = wait.begin_ns >= until_ns && wait.end_ns > wait.begin_ns;
                if is {
                    until_ns = wait.end_ns;
                }
                is
            };
            waits
                .filter(|(w, _)| is_outermost(w))
                .map(|(_, i)| i)
                .collect()
        })
    }

    /// The waits of a thread that begin before a time, ns, the last one first; without those inside others.
    pub(super) fn waits_before(
        &self,
        thread: ThreadId,
        at_ns: u64,
    ) -> impl Iterator<Item = Wait> + '_ {
        let waits = self.graph.waits_of(thread);
        let outermost = self.outermost(thread);
        let end = outermost.partition_point(|&w| waits[w as usize].begin_ns < at_ns);
        outermost[..end].iter().rev().map(|&w| waits[w as usize])
    }

    /// The waits of a thread that end after `from` and begin before `to`, ns, without those inside others, in the order of
    /// time.
    fn waits(&self, thread: ThreadId, from: u64, to: u64) -> impl Iterator<Item = Wait> + '_ {
        let waits = self.graph.waits_of(thread);
        let outermost = self.outermost(thread);
        let first = outermost.partition_point(|&w| waits[w as usize].end_ns <= from);
        let within = outermost[first..].iter().map(|&w| waits[w as usize]);
        within.take_while(move |w| w.begin_ns < to)
    }

    /// What a thread does that is in the system trace only. The shares add up to the time.
    fn without_recording(&self, thread: ThreadId, from: u64, to: u64) -> Shares {
        let mut shares = Shares::default();
        let Some(times) = scheduled::times(self.session, thread, from, to) else {
            return Shares::of(Component::Unknown, to.saturating_sub(from));
        };
        shares.add(Component::Running, times.running_ns);
        shares.add(Component::Runnable, times.runnable_ns);
        shares.add(Component::Io, times.io_ns);
        shares.add(Component::Unknown, to.saturating_sub(from) - shares.total());
        shares
    }

    /// What a thread does from `from` to `to`, ns, in waits and outside. The shares add up to that time.
    pub(super) fn all(&self, thread: ThreadId, from: u64, to: u64) -> Shares {
        /// More waits are not added up: the time of many paths together would be unbounded.
        const MOST_WAITS: usize = 4_000;
        if self.session.is_outside(thread) {
            return self.without_recording(thread, from, to);
        }
        if self.waits(thread, from, to).nth(MOST_WAITS).is_some() {
            return Shares::of(Component::Unknown, to.saturating_sub(from));
        }
        let mut shares = Shares::default();
        let mut at_ns = from;
        for wait in self.waits(thread, from, to) {
            let (begin, end) = (wait.begin_ns.clamp(at_ns, to), wait.end_ns.clamp(at_ns, to));
            shares.add_all(&self.of(thread, at_ns, begin));
            shares.add_all(&self.in_wait(&wait, begin, end));
            at_ns = end;
        }
        shares.add_all(&self.of(thread, at_ns, to.max(at_ns)));
        shares
    }
}

/// When garbage collections suspend all threads.
fn pauses(trace: &Trace) -> Stretches {
    let mut found: Stretches = Vec::new();
    for thread in &trace.threads {
        let pauses = spans(thread).spans.into_iter();
        let pauses = pauses.filter(|s| s.kind == SpanKind::GcPause && s.end.is_some());
        found.extend(pauses.map(|s| (s.start_ns, s.end_ns)));
    }
    merge(&mut found);
    found
}

/// Puts stretches in order, and joins those that overlap.
fn merge(stretches: &mut Stretches) {
    stretches.sort_unstable();
    stretches.dedup_by(|next, last| {
        let overlaps = next.0 <= last.1;
        if overlaps {
            last.1 = last.1.max(next.1);
        }
        overlaps
    });
}

/// The parts of stretches that are within `from` and `to`.
fn within(stretches: &[(u64, u64)], from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
    let first = stretches.partition_point(|s| s.1 <= from);
    let inside = stretches[first..].iter().take_while(move |s| s.0 < to);
    inside.map(move |s| (s.0.max(from), s.1.min(to)))
}

/// Stretches that do not overlap: of two that do, the later one is cut, or left out.
fn disjoint(mut found: Vec<(u64, u64, Component)>) -> Vec<(u64, u64, Component)> {
    found.sort_unstable();
    let mut until = 0;
    found.retain_mut(|stretch| {
        stretch.0 = stretch.0.max(until);
        until = until.max(stretch.1);
        stretch.0 < stretch.1
    });
    found
}
