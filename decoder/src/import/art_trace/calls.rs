// SPDX-License-Identifier: Apache-2.0
//! From the events of a method trace to calls.

use hindsight_trace_format::container::{Losses, ProcessFacts, Strings};

use super::model::{Action, ArtEvent, ArtThread, ArtTrace};
use crate::calls::{Call, Calls, Flags, NO_PARENT};
use crate::clock::Clock;
use crate::key::ThreadKey;
use crate::methods::MethodId;
use crate::model::{Stats, Thread, Trace};
use crate::stacks::Stacks;

impl ArtTrace {
    /// The same trace as calls. Its times are on CLOCK_MONOTONIC, from wall-clock times where the file has
    /// them, and from CPU times otherwise.
    pub fn to_trace(&self) -> Trace {
        let at_ns = |event: &ArtEvent| {
            self.start_ns.saturating_add(if self.has_wall_clock {
                event.wall_ns
            } else {
                event.thread_ns
            })
        };
        let newest = |thread: &ArtThread| thread.events.iter().map(&at_ns).max();
        let end_ns = self.threads.iter().filter_map(newest).max();
        let end_ns = end_ns.unwrap_or(self.start_ns);
        let mut losses = Losses::default();
        let mut lose = |what: &str, count: u64| {
            if count > 0 {
                losses.counts.push((what.to_owned(), count));
            }
        };
        let mut unmatched = 0;
        let threads = self
            .threads
            .iter()
            .zip(0..)
            .map(|(thread, ring)| {
                let (calls, mut stats, odd) = calls(thread, self.methods.len(), &at_ns, end_ns);
                unmatched += odd;
                stats.unnamed_entries = thread
                    .events
                    .iter()
                    .filter(|e| e.action == Action::Enter)
                    .filter(|e| self.methods.get(e.method).is_none_or(|m| !m.is_named()))
                    .count() as u64;
                Thread {
                    key: ThreadKey { process: 0, ring },
                    tid: thread.tid,
                    name: thread.name.clone(),
                    calls,
                    start_ns: thread.events.first().map_or(end_ns, &at_ns),
                    end_ns,
                    stats,
                    ..Thread::default()
                }
            })
            .collect();
        lose("exits of methods that were not running", unmatched);
        lose(
            "buffers that were full, so that all later events are missing",
            self.overflow.into(),
        );
        lose("files that are cut off", self.cut_off.into());
        lose(
            "threads with the same 16-bit id, shown as one",
            self.ambiguous_threads,
        );
        let clock = if self.has_wall_clock {
            "wall"
        } else {
            "thread-cpu"
        };
        Trace {
            strings: Strings::default(),
            stacks: Stacks::default(),
            process: ProcessFacts {
                pid: self.pid,
                reason: "a method trace of ART".to_owned(),
                ..ProcessFacts::default()
            },
            clock: Clock::nanoseconds(clock, end_ns),
            methods: self.methods.clone(),
            threads,
            losses,
            damaged: Vec::new(),
            file_bytes: self.file_bytes,
        }
    }
}

/// The running calls, and how often each method is among them.
struct Running {
    /// Index of the call among the calls, and its method.
    stack: Vec<(usize, MethodId)>,
    count: Vec<u32>,
    /// How many of the outermost ones began before the trace.
    before: usize,
}

enum Match {
    /// It ends a running call.
    Ends,
    /// It ends a call that began before the trace.
    Before,
    /// The method is not running.
    Nothing,
}

impl Running {
    fn new(methods: usize, before: usize) -> Self {
        Running {
            stack: Vec::new(),
            count: vec![0; methods],
            before,
        }
    }

    fn enter(&mut self, index: usize, method: MethodId) {
        self.stack.push((index, method));
        if let Some(count) = self.count.get_mut(method.0 as usize) {
            *count += 1;
        }
    }

    /// Ends a call of `method`; calls `left` for it and for each call above it, with whether it is the one.
    fn exit(&mut self, method: MethodId, mut left: impl FnMut(usize, bool)) -> Match {
        if self.count.get(method.0 as usize).is_some_and(|&n| n > 0) {
            while let Some((index, top)) = self.stack.pop() {
                self.count[top.0 as usize] -= 1;
                left(index, top == method);
                if top == method {
                    break;
                }
            }
            return Match::Ends;
        }
        if self.stack.len() > self.before {
            return Match::Nothing;
        }
        Match::Before
    }
}

/// The calls of a thread, and the number of exits of methods that were not running.
fn calls(
    thread: &ArtThread,
    methods: usize,
    at_ns: &dyn Fn(&ArtEvent) -> u64,
    end_ns: u64,
) -> (Calls, Stats, u64) {
    // The first pass finds the calls that began before the trace, innermost first.
    let mut before = Vec::new();
    let mut running = Running::new(methods, 0);
    for event in &thread.events {
        match event.action {
            Action::Enter => running.enter(0, event.method),
            Action::Exit | Action::Unwind => {
                if let Match::Before = running.exit(event.method, |_, _| {}) {
                    before.push(event.method);
                }
            }
        }
    }

    let mut stats = Stats {
        trace_points: thread.events.len() as u64,
        ..Stats::default()
    };
    let mut calls = Calls::default();
    let start_ns = thread.events.first().map_or(end_ns, at_ns);
    let mut running = Running::new(methods, before.len());
    for (depth, &method) in before.iter().rev().enumerate() {
        // Not counted in `running`: an exit that names the same method ends a younger call first.
        running.stack.push((depth, method));
        push(
            &mut calls,
            &running,
            start_ns,
            end_ns,
            method,
            Flags::OPEN_START,
        );
    }
    let (mut unmatched, mut latest) = (0, start_ns);
    for event in &thread.events {
        // A thread's clock doesn't run backwards; a file's may.
        latest = latest.max(at_ns(event));
        let by = match event.action {
            Action::Enter => {
                running.enter(calls.len(), event.method);
                push(
                    &mut calls,
                    &running,
                    latest,
                    end_ns,
                    event.method,
                    Flags::OPEN_END,
                );
                continue;
            }
            Action::Exit => Flags::default(),
            Action::Unwind => Flags::BY_EXCEPTION,
        };
        let mut end = |index: usize, seen: bool| {
            calls.end_ns[index] = latest;
            if seen {
                let open_start = Flags(calls.flags[index].0 & Flags::OPEN_START.0);
                calls.flags[index] = open_start.with(by);
                stats.left_by_exception += u64::from(by == Flags::BY_EXCEPTION);
            }
        };
        match running.exit(event.method, &mut end) {
            Match::Ends => {}
            Match::Nothing => unmatched += 1,
            Match::Before => {
                running.before = running.before.saturating_sub(1);
                if let Some((index, _)) = running.stack.pop() {
                    end(index, true);
                }
            }
        }
    }
    let count = |flags: Flags| calls.flags.iter().filter(|f| f.contains(flags)).count() as u64;
    stats.open_starts = count(Flags::OPEN_START);
    stats.open_ends = count(Flags::OPEN_END);
    (calls, stats, unmatched)
}

/// Adds the call at the top of the stack.
fn push(
    calls: &mut Calls,
    running: &Running,
    start_ns: u64,
    end_ns: u64,
    method: MethodId,
    flags: Flags,
) {
    let depth = running.stack.len() - 1;
    let parent = depth.checked_sub(1).map(|caller| running.stack[caller].0);
    calls.push(Call {
        start_ns,
        end_ns,
        method,
        depth: depth as u32,
        parent: parent.map_or(NO_PARENT, |p| p as u32),
        flags,
    });
}
