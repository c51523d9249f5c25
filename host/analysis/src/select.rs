// SPDX-License-Identifier: Apache-2.0
//! A part of a trace: some threads, some time, the outermost calls.

use crate::events::{spans, Span, Spans};
use hindsight_decoder::{
    Call, Calls, Extension, Flags, MethodId, Stacks, Thread, ThreadEvent, ThreadKey, Trace,
    DEPTH_FACT, NO_PARENT,
};

/// Indices, in the catalogue, of reasons for stacks: a wait begins; the stack was taken at no particular point of the code.
const WAIT_BEGINS: u64 = 0;
const CHECKPOINT: u64 = 6;

/// A stretch of time, CLOCK_BOOTTIME, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its beginning.
    pub from_ns: u64,
    /// Its end, which does not belong to it.
    pub to_ns: u64,
}

impl Window {
    /// Whether a call from `start_ns` to `end_ns` ran in it. A call that took no time ran in it if it lies inside.
    #[inline]
    pub fn meets(&self, start_ns: u64, end_ns: u64) -> bool {
        start_ns < self.to_ns && (end_ns > self.from_ns || start_ns >= self.from_ns)
    }

    /// Whether an event of a thread, by its index, belongs to it: it happened then, or it began what was still going on when
    /// the window began. The owner of a lock is named before the wait for it.
    pub fn has_event(&self, thread: &Thread, spans: &Spans, event: usize) -> bool {
        let Some(found) = thread.events.get(event) else {
            return false;
        };
        let begin = event + usize::from(found.kind == Extension::LockWait);
        let goes_on = |s: &Span| s.start_ns < self.from_ns && s.end_ns > self.from_ns;
        self.meets(found.at_ns, found.at_ns) || spans.begun_by(begin).is_some_and(goes_on)
    }
}

/// Which part of a trace a question is about. The default is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these threads.
    pub threads: Option<Vec<ThreadKey>>,
    /// Only this time. Calls that reach out of it are cut, and flagged as open at that end; they keep their names.
    pub window: Option<Window>,
    /// The number of levels of calls to keep, the outermost first; deeper calls count as time of their callers.
    pub depth: Option<u32>,
}

impl Selection {
    /// The selected part of `trace`. [`Thread::stats`] still describes the whole rings. A limit of the depth becomes a
    /// fact about the process, [`DEPTH_FACT`].
    ///
    /// [`Thread::stats`]: hindsight_decoder::Thread::stats
    #[must_use]
    pub fn apply(&self, mut trace: Trace) -> Trace {
        if let Some(threads) = &self.threads {
            trace.threads.retain(|t| threads.contains(&t.key));
        }
        if let Some(depth) = self.depth {
            let facts = &mut trace.process.extra;
            let before = facts.iter().position(|(key, _)| key == DEPTH_FACT);
            let before = before.and_then(|at| facts.remove(at).1.parse().ok());
            let depth = before.map_or(depth, |before: u32| before.min(depth));
            facts.push((DEPTH_FACT.to_owned(), depth.to_string()));
        }
        if self.window.is_some() || self.depth.is_some() {
            for thread in &mut trace.threads {
                self.cut(thread, &trace.stacks);
            }
        }
        trace
    }

    fn cut(&self, thread: &mut Thread, stacks: &Stacks) {
        let depth = self.depth.unwrap_or(u32::MAX);
        let window = self.window.unwrap_or(Window {
            from_ns: 0,
            to_ns: u64::MAX,
        });
        let old = std::mem::take(&mut thread.calls);
        let mut new = Calls::default();
        // New index of each call.
        let mut places = vec![NO_PARENT; old.len()];
        if self.depth.is_some() {
            // Stacks, and what sampled calls waited for, are events of the thread whatever their depth.
            let exact = old.exact();
            thread.events.retain(|e| !is_of_removed(e, &exact, depth));
        }
        for (i, call) in old.iter().enumerate() {
            if call.depth >= depth || !window.meets(call.start_ns, call.end_ns) {
                continue;
            }
            let parent = old.parent_of(i).map_or(NO_PARENT, |p| places[p]);
            if parent == NO_PARENT && call.depth > 0 {
                // It took no time, at the window's beginning, and its caller ended at that time: both are before.
                continue;
            }
            places[i] = new.len() as u32;
            let mut flags = call.flags;
            if call.start_ns < window.from_ns {
                flags = flags.with(Flags::OPEN_START);
            }
            if call.end_ns > window.to_ns {
                // How it ended is seen later.
                flags = flags.without(Flags::BY_EXCEPTION).with(Flags::OPEN_END);
            }
            new.start_ns.push(call.start_ns.max(window.from_ns));
            new.end_ns.push(call.end_ns.min(window.to_ns));
            new.method.push(call.method);
            new.depth.push(call.depth);
            new.parent.push(parent);
            new.flags.push(flags);
        }
        if let Some(wait) = unfinished_wait(thread, &old, window.from_ns) {
            thread.events[wait].at_ns = window.from_ns;
        }
        let end = end_sampled(thread, &new, stacks, window.to_ns);
        if self.window.is_some() {
            begin_sampled(thread, &new, stacks, window.from_ns);
            begin_unfinished(thread, window.from_ns);
        }
        thread.events.retain(|e| window.meets(e.at_ns, e.at_ns));
        for stack in end {
            let place = thread.events.partition_point(|e| e.at_ns <= stack.at_ns);
            thread.events.insert(place, stack);
        }
        thread.calls = new;
        thread.start_ns = thread.start_ns.clamp(window.from_ns, window.to_ns);
        thread.end_ns = thread.end_ns.clamp(window.from_ns, window.to_ns);
    }
}

/// Lets messages, tasks and waits that began before `from_ns` and go on begin then: their first events move there, and so
/// does the event that names the owner of a lock before the wait for it.
fn begin_unfinished(thread: &mut Thread, from_ns: u64) {
    for span in spans(thread).spans {
        if span.start_ns >= from_ns || span.end_ns <= from_ns {
            continue;
        }
        thread.events[span.begin].at_ns = from_ns;
        let before = span.begin.checked_sub(1).map(|i| &mut thread.events[i]);
        if let Some(event) = before.filter(|e| e.kind == Extension::LockWait) {
            event.at_ns = from_ns;
        }
    }
}

/// The methods of those sampled calls, outermost first.
fn sampled(calls: &Calls, is: impl Fn(&Call) -> bool) -> Vec<MethodId> {
    let calls = calls
        .iter()
        .filter(|c| c.flags.contains(Flags::SAMPLED) && is(c));
    calls.map(|c| c.method).collect()
}

/// How many of these methods, outermost first, the event's stack begins with.
fn common(event: &ThreadEvent, stacks: &Stacks, methods: &[MethodId]) -> usize {
    let mut frames: Vec<MethodId> = match event.stack() {
        Some(stack) => stacks.frames(stack).map(|f| f.method).collect(),
        None => return 0,
    };
    frames.reverse();
    let pairs = frames.iter().zip(methods);
    pairs.take_while(|(a, b)| a == b).count()
}

/// Lets an event's stack consist of its outermost frames. Whether it has fewer now.
fn shorten(event: &mut ThreadEvent, stacks: &Stacks, frames: usize) -> bool {
    let Some(stack) = event.stack() else {
        return false;
    };
    let outermost = stacks.outermost(stack, frames);
    event.set("node", outermost.node.into());
    outermost != stack
}

/// Lets the last stack before `from_ns` be taken then, with the frames of the sampled calls that go on.
fn begin_sampled(thread: &mut Thread, calls: &Calls, stacks: &Stacks, from_ns: u64) {
    let methods = sampled(calls, |c| c.flags.contains(Flags::OPEN_START));
    let before = thread.events.partition_point(|e| e.at_ns < from_ns);
    let mut last = thread.events[..before].iter_mut().rev();
    if let Some(event) = last.find(|e| e.kind == Extension::Stack) {
        let frames = common(event, stacks, &methods);
        if frames == 0 {
            return;
        }
        if shorten(event, stacks, frames) {
            // The innermost frame was not called just then.
            event.set("reason", CHECKPOINT);
        }
        event.at_ns = from_ns;
    }
}

/// A stack at `to_ns`, with the frames of the sampled calls that go on, from the last stack before or the next one. If it is
/// from the next one, as of a wait that goes on, it is also taken when the innermost of these calls began.
fn end_sampled(
    thread: &Thread,
    calls: &Calls,
    stacks: &Stacks,
    to_ns: u64,
) -> impl Iterator<Item = ThreadEvent> {
    // Others may go on after the thread's last stack.
    let is_cut = |call: &Call| call.flags.contains(Flags::OPEN_END) && call.end_ns == to_ns;
    let methods = sampled(calls, is_cut);
    let innermost = calls.iter().rfind(is_cut);
    let began_ns = innermost.map_or(to_ns, |c| c.start_ns);
    let is_older = innermost.is_some_and(|c| c.flags.contains(Flags::OPEN_START));
    let after = thread.events.partition_point(|e| e.at_ns < to_ns);
    let (before, after) = thread.events.split_at(after);
    let is_stack = |e: &&ThreadEvent| e.kind == Extension::Stack;
    // It is in the last stack, unless it began later.
    let last = before.iter().rev().find(is_stack);
    let has_all = |e: &&ThreadEvent| {
        e.at_ns >= began_ns || is_older && common(e, stacks, &methods) == methods.len()
    };
    let last = last.filter(has_all).map(|e| (e, None));
    let next = after.iter().find(is_stack).map(|e| (e, Some(began_ns)));
    let frames = |e: &ThreadEvent| common(e, stacks, &methods);
    let stack = last.or(next).filter(|(e, _)| frames(e) > 0);
    let taken = |event: &ThreadEvent, at_ns, reason| {
        let frames = frames(event);
        let mut event = event.clone();
        shorten(&mut event, stacks, frames);
        event.set("reason", reason);
        ThreadEvent { at_ns, ..event }
    };
    let reason = if is_older { CHECKPOINT } else { WAIT_BEGINS };
    let taken = stack.map(|(event, began_ns)| {
        let began = began_ns.map(|at_ns| taken(event, at_ns, reason));
        [began, Some(taken(event, to_ns, CHECKPOINT))]
    });
    taken.into_iter().flatten().flatten()
}

/// Whether a call from level `depth` on waited, or was woken, at this event. A wait begins when its call has started; a
/// thread is woken before the call that waited ends.
fn is_of_removed(event: &ThreadEvent, calls: &Calls, depth: u32) -> bool {
    let at = event.at_ns;
    let ran = |i: usize| match event.kind {
        Extension::LockWait => calls.start_ns[i] <= at && at < calls.end_ns[i],
        Extension::WokenBy => calls.start_ns[i] < at && at <= calls.end_ns[i],
        _ => false,
    };
    // Starts are sorted: the calls that ran are among the last one to start by then and its callers.
    let last = match event.kind {
        Extension::LockWait => calls.start_ns.partition_point(|&start| start <= at),
        Extension::WokenBy => calls.start_ns.partition_point(|&start| start < at),
        _ => 0,
    };
    let Some(last) = last.checked_sub(1) else {
        return false;
    };
    let callers = std::iter::successors(Some(last), |&i| calls.parent_of(i));
    callers.take_while(|&i| calls.depth[i] >= depth).any(ran)
}

/// The [`Extension::LockWait`] that has begun before `from_ns` and goes on: nothing else happened since. Its index among
/// the events.
fn unfinished_wait(thread: &Thread, calls: &Calls, from_ns: u64) -> Option<usize> {
    let last = thread.events.partition_point(|e| e.at_ns < from_ns);
    let last = last.checked_sub(1)?;
    let wait = &thread.events[last];
    if wait.kind != Extension::LockWait {
        return None;
    }
    let since = wait.at_ns + 1..=from_ns;
    let happened = |times: &[u64]| times.iter().any(|at| since.contains(at));
    let goes_on = !happened(&calls.start_ns) && !happened(&calls.end_ns);
    goes_on.then_some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::{Script, EPOCH};

    /// f(0..100) { g(10..40) { h(20..30) } g(60..60) }
    fn trace() -> Trace {
        let mut s = Script::new("p");
        let (f, g, h) = (
            s.method("C.f", "()V"),
            s.method("C.g", "()V"),
            s.method("C.h", "()V"),
        );
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        r.enter(f).at(10).enter(g).at(20).call(h, 10).at(40).exit();
        r.at(60).call(g, 0).at(100).exit();
        let other = s.thread(2, "other");
        s.at(other, 50).call(h, 10);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    fn calls(selection: &Selection) -> Vec<(String, u64, u64, u32, u32, u8)> {
        let trace = selection.apply(trace());
        let name = |id| trace.methods.name(id)[2..].to_owned();
        let calls = &trace.threads[0].calls;
        let call = |s: hindsight_decoder::Call| {
            let (start, end) = (s.start_ns - EPOCH, s.end_ns - EPOCH);
            (name(s.method), start, end, s.depth, s.parent, s.flags.0)
        };
        calls.iter().map(call).collect()
    }

    fn window(from: u64, to: u64) -> Selection {
        let window = Window {
            from_ns: EPOCH + from,
            to_ns: EPOCH + to,
        };
        Selection {
            window: Some(window),
            ..Selection::default()
        }
    }

    #[test]
    fn nothing_asked_for_is_everything() {
        let whole = Selection::default().apply(trace());
        assert_eq!(whole.threads.len(), 2);
        assert_eq!(whole.threads[0].calls, trace().threads[0].calls);
    }

    #[test]
    fn calls_are_cut_at_the_edges_of_the_window() {
        let f = |from, to, flags| ("f".to_owned(), from, to, 0, NO_PARENT, flags);
        let g = |from, to, flags| ("g".to_owned(), from, to, 1, 0, flags);
        assert_eq!(
            calls(&window(25, 60)),
            [
                f(25, 60, 3),
                g(25, 40, 1),
                ("h".to_owned(), 25, 30, 2, 1, 1),
            ]
        );
        assert_eq!(calls(&window(60, 200)), [f(60, 100, 1), g(60, 60, 0)]);
        assert_eq!(calls(&window(40, 50)), [f(40, 50, 3)]);
        assert_eq!(calls(&window(200, 300)), []);
    }

    #[test]
    fn a_call_whose_caller_is_before_the_window_is_so_too() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("C.f", "()V"), s.method("C.g", "()V"));
        let t = s.thread(1, "main");
        s.at(t, 0).enter(f).after(10).call(g, 0).exit().call(g, 0);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let part = window(10, 20).apply(trace);
        // The second g has no caller.
        let depths: Vec<u32> = part.threads[0].calls.depth.clone();
        assert_eq!(depths, [0]);
    }

    #[test]
    fn an_exception_after_the_window_is_not_seen() {
        let mut s = Script::new("p");
        let f = s.method("C.f", "()V");
        let t = s.thread(1, "main");
        s.at(t, 0).enter(f).after(10).unwind(1);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let part = window(0, 5).apply(trace.clone());
        assert_eq!(part.threads[0].calls.flags, [Flags::OPEN_END]);
        let part = window(5, 15).apply(trace);
        let both = Flags::OPEN_START.with(Flags::BY_EXCEPTION);
        assert_eq!(part.threads[0].calls.flags, [both]);
    }

    #[test]
    fn a_wait_for_a_lock_that_goes_on_is_kept() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("C.f", "()V"), s.method("C.g", "()V"));
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        r.enter(f).after(10).extension(Extension::LockWait, &[2, 7]);
        r.after(50).call(g, 10).after(10).exit();
        let waits = |from| {
            let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
            let part = window(from, 100).apply(trace);
            let events = part.threads[0].events.iter();
            events.map(|e| e.at_ns - EPOCH).collect::<Vec<_>>()
        };
        assert_eq!(waits(5), [10]);
        assert_eq!(waits(30), [30]);
        // The thread had the lock by then.
        assert!(waits(60).is_empty());
    }

    #[test]
    fn a_message_and_its_wait_that_go_on_begin_with_the_window() {
        let mut s = Script::new("p");
        let t = s.events_thread(1, "main", 1);
        s.at(t, 0)
            .event(Extension::MessageDispatched, &[("message", 1)])
            .after(5)
            .extension(Extension::UserMark, &[0])
            .after(5)
            .event(Extension::LockWait, &[("held by", 2), ("lock", 7)])
            .event(Extension::WaitBegin, &[("number", 1)])
            .after(80)
            .event(Extension::WaitEnd, &[("number", 1)])
            .after(5)
            .event(Extension::MessageDone, &[("message", 1)]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let events = |from, to| -> Vec<(Extension, u64)> {
            let part = window(from, to).apply(trace.clone());
            let events = part.threads[0].events.iter();
            events.map(|e| (e.kind, e.at_ns - EPOCH)).collect()
        };
        assert_eq!(
            events(50, 60),
            [
                (Extension::MessageDispatched, 50),
                (Extension::LockWait, 50),
                (Extension::WaitBegin, 50),
            ]
        );
        assert_eq!(
            events(92, 99),
            [
                (Extension::MessageDispatched, 92),
                (Extension::MessageDone, 95)
            ]
        );
    }

    /// Stacks A, A B C, A B D on a thread that waits for a lock, 100 ns apart.
    fn sampled() -> Trace {
        let mut s = Script::new("p");
        let [a, b, c, d] = ["A.a", "B.b", "C.c", "D.d"].map(|name| s.method(name, "()V"));
        let t = s.events_thread(1, "main", 1);
        let frames = [
            &[(a, 1)][..],
            &[(a, 1), (b, 1), (c, 1)],
            &[(a, 1), (b, 1), (d, 1)],
        ];
        let stacks = frames.map(|frames| s.stack(frames));
        s.at(t, 0)
            .extension(Extension::Stack, &stacks[0])
            .at(100)
            .extension(Extension::Stack, &stacks[1])
            .event(Extension::LockWait, &[("held by", 2), ("lock", 7)])
            .event(Extension::WaitBegin, &[("number", 1)])
            .after(40)
            .extension(Extension::WokenBy, &[2])
            .event(Extension::WaitEnd, &[("number", 1)])
            .at(200)
            .extension(Extension::Stack, &stacks[2]);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    #[test]
    fn waits_of_a_thread_without_calls_are_kept_whatever_the_depth() {
        let whole = sampled();
        let part = Selection {
            depth: Some(1),
            ..Selection::default()
        }
        .apply(whole.clone());
        assert_eq!(part.threads[0].events, whole.threads[0].events);
        assert_eq!(part.threads[0].calls.depth, [0]);
    }

    #[test]
    fn sampled_calls_that_go_on_are_in_stacks_at_the_windows_edges() {
        let part = window(150, 180).apply(sampled());
        let thread = &part.threads[0];
        let stacks = thread
            .events
            .iter()
            .filter_map(|e| Some((e.at_ns, e.stack()?)));
        let names = |stack| -> Vec<String> {
            let frames = part.stacks.frames(stack);
            frames
                .map(|f| part.methods.name(f.method).into_owned())
                .collect()
        };
        let stacks: Vec<_> = stacks
            .map(|(at, stack)| (at - EPOCH, names(stack)))
            .collect();
        let of = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        // C was left before the window.
        assert_eq!(stacks[0], (150, of(["B.b", "A.a"])));
        // They go on after it, too.
        assert_eq!(stacks[1], (180, of(["B.b", "A.a"])));
        assert_eq!(stacks.len(), 2);
        let calls = thread.calls.iter();
        let times: Vec<_> = calls
            .map(|c| (c.start_ns - EPOCH, c.end_ns - EPOCH))
            .collect();
        assert_eq!(times, [(150, 180); 2]);
    }

    #[test]
    fn only_the_outermost_levels_remain() {
        let depth = |depth| {
            let selection = Selection {
                depth: Some(depth),
                ..Selection::default()
            };
            calls(&selection).len()
        };
        assert_eq!((depth(0), depth(1), depth(2), depth(3)), (0, 1, 3, 4));
    }

    #[test]
    fn waits_of_removed_calls_are_removed_and_the_depth_is_a_fact() {
        let mut s = Script::new("p");
        let (f, g) = (s.method("C.f", "()V"), s.method("C.g", "()V"));
        let t = s.thread(1, "main");
        let mut r = s.at(t, 0);
        r.extension(Extension::Started, &[1]).enter(f).enter(g);
        r.extension(Extension::LockWait, &[2, 7]).after(50);
        r.extension(Extension::WokenBy, &[2]).exit().after(5);
        // Of f itself, around calls of g.
        r.call(g, 0).extension(Extension::LockWait, &[2, 8]);
        r.after(10).extension(Extension::WokenBy, &[3]).call(g, 5);
        r.after(10).exit();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let part = |trace: &Trace, depth| {
            let selection = Selection {
                depth: Some(depth),
                ..Selection::default()
            };
            selection.apply(trace.clone())
        };
        let kinds = |trace: &Trace| -> Vec<_> {
            let events = trace.threads[0].events.iter();
            events.map(|e| (e.kind, e.payload[0])).collect()
        };
        let (started, wait, woken) = ((Extension::Started, 1), (Extension::LockWait, 2), |by| {
            (Extension::WokenBy, by)
        });
        let all = [started, wait, woken(2), wait, woken(3)];
        assert_eq!(kinds(&part(&trace, 2)), all);
        let shallow = part(&trace, 1);
        assert_eq!(kinds(&shallow), [started, wait, woken(3)]);
        assert_eq!(kinds(&part(&trace, 0)), [started]);
        let depths = |trace: &Trace| -> Vec<String> {
            let facts = trace.process.extra.iter();
            let depths = facts.filter(|(key, _)| key == DEPTH_FACT);
            depths.map(|(_, depth)| depth.clone()).collect()
        };
        assert_eq!(depths(&shallow), ["1"]);
        assert_eq!(depths(&part(&shallow, 3)), ["1"]);
        assert_eq!(depths(&part(&shallow, 0)), ["0"]);
    }

    /// The kernel reuses ids: two rings of one id are two threads.
    #[test]
    fn a_thread_is_selected_by_its_ring_not_by_its_id() {
        let mut s = Script::new("p");
        let f = s.method("C.f", "()V");
        for name in ["main", "Shutdown thread"] {
            let t = s.thread(7, name);
            s.at(t, 0).call(f, 10);
        }
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let selection = Selection {
            threads: Some(vec![trace.threads[1].key]),
            ..Selection::default()
        };
        let threads = selection.apply(trace).threads;
        let names: Vec<&str> = threads.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["Shutdown thread"]);
    }

    #[test]
    fn only_the_threads_asked_for_remain() {
        let selection = Selection {
            threads: Some(vec![trace().threads[1].key]),
            ..Selection::default()
        };
        assert_eq!(selection.apply(trace()).threads[0].name, "other");
    }
}
