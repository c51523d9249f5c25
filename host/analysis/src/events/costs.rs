// SPDX-License-Identifier: Apache-2.0
//! What a call, a wait, a message or a task cost: where its time went, what its thread used meanwhile, and who ended its
//! longest wait.

use std::collections::HashMap;

use hindsight_decoder::{Calls, Extension, Thread, ThreadKey, Trace};

use super::pairs::{pairs, End, PairKind};
use super::resources::{Resources, Used};
use super::spans::spans;
use super::waiting::waiting;

/// Calls that took less have no costs: the readings of a thread's counters are farther apart, ns.
pub const LEAST_CALL_NS: u64 = 1_000_000;
/// The CPU time of a call's own code is known if that of the calls it made is, but for this part of its time.
const UNKNOWN: f64 = 0.1;

/// What is known of a stretch of a thread's time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How much of it the thread waited, ns; `None` if the thread recorded no waits.
    pub blocked_ns: Option<u64>,
    /// Index, among the trace's threads, of the thread that ended the wait that took most of it.
    pub woken_by: Option<usize>,
    /// What the thread used in it.
    pub used: Option<Used>,
    /// Of a call: what belongs to it alone.
    pub own: Option<Own>,
}

/// The part of a call's cost that is not of the calls it made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Number of calls that it made itself.
    pub calls: u64,
    /// Its time without them, ns.
    pub self_ns: u64,
    /// Its CPU time without theirs, ns.
    pub self_cpu_ns: Option<u64>,
}

/// A wait that is in no other one.
struct Wait {
    span: (u64, u64),
    woken_by: Option<usize>,
    /// Length of all waits before it, ns.
    before_ns: u64,
}

/// What is known of the costs of a thread.
pub struct Costs {
    /// In the order of time.
    waits: Vec<Wait>,
    resources: Resources,
}

/// The costs of all threads of a trace, in their order.
pub fn costs(trace: &Trace) -> Vec<Costs> {
    let places: HashMap<ThreadKey, usize> = trace.threads.iter().map(|t| t.key).zip(0..).collect();
    let mut wakers: HashMap<End, usize> = HashMap::new();
    for pair in pairs(trace).pairs {
        // A reply ends the wait for it.
        let ends_wait = matches!(pair.kind, PairKind::Wake | PairKind::Reply);
        if let Some(&waker) = places.get(&pair.from.thread).filter(|_| ends_wait) {
            wakers.insert(pair.to, waker);
        }
    }
    let waker = |thread: &Thread, begin: usize, end: usize| {
        let event = end;
        let known = wakers
            .get(&End {
                thread: thread.key,
                event,
            })
            .copied();
        // Some threads are only told who woke them.
        // The waits in a transaction have wakers of their own.
        let is_wait = thread.events[end].kind == Extension::WaitEnd;
        known.or_else(|| {
            let mut inside = thread
                .events
                .get(begin..end)
                .filter(|_| is_wait)?
                .iter()
                .rev();
            let told = inside.find(|e| e.kind == Extension::WokenBy)?;
            let waker = trace.thread_at(told.get("by") as u32, told.at_ns)?;
            places.get(&waker.key).copied()
        })
    };
    let of = |thread: &Thread| {
        let mut waits: Vec<Wait> = Vec::new();
        let spans = spans(thread);
        for wait in waiting(thread, &spans) {
            let last = waits
                .last()
                .map_or((0, 0), |w| (w.span.1, w.before_ns + (w.span.1 - w.span.0)));
            if wait.span.0 >= last.0 {
                let of = &spans.spans[wait.of];
                waits.push(Wait {
                    span: wait.span,
                    woken_by: of.end.and_then(|end| waker(thread, of.begin, end)),
                    before_ns: last.1,
                });
            }
        }
        Costs {
            waits,
            resources: Resources::of(thread),
        }
    };
    trace.threads.iter().map(of).collect()
}

impl Costs {
    /// Whether nothing is known of any stretch of time.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty() && self.resources.is_empty()
    }

    /// How long the thread had waited by `at_ns`, ns.
    fn waited_until(&self, at_ns: u64) -> u64 {
        let next = self.waits.partition_point(|w| w.span.0 < at_ns);
        let last = next.checked_sub(1).map(|i| &self.waits[i]);
        last.map_or(0, |w| w.before_ns + (w.span.1.min(at_ns) - w.span.0))
    }

    /// The cost from `start_ns` to `end_ns`, CLOCK_BOOTTIME.
    pub fn of_span(&self, start_ns: u64, end_ns: u64) -> Cost {
        let blocked = || self.waited_until(end_ns) - self.waited_until(start_ns);
        // The wait that took most of it went on in the middle of it.
        let length = end_ns - start_ns;
        let middle = start_ns + length / 2;
        let next = self.waits.partition_point(|w| w.span.0 <= middle);
        let longest = next.checked_sub(1).map(|i| &self.waits[i]).filter(|w| {
            let end = w.span.1.min(end_ns);
            end.saturating_sub(w.span.0.max(start_ns)) > length / 2
        });
        Cost {
            blocked_ns: (!self.waits.is_empty()).then(blocked),
            woken_by: longest.and_then(|w| w.woken_by),
            used: self.resources.used(start_ns, end_ns),
            own: None,
        }
    }

    /// The costs of the thread's calls of [`LEAST_CALL_NS`] and more, by their indices.
    pub fn of_calls(&self, calls: &Calls) -> HashMap<usize, Cost> {
        let length = |i: usize| calls.end_ns[i] - calls.start_ns[i];
        let mut costs: HashMap<usize, Cost> = HashMap::new();
        if self.is_empty() {
            return costs;
        }
        for i in (0..calls.len()).filter(|&i| length(i) >= LEAST_CALL_NS) {
            let cost = Cost {
                own: Some(Own {
                    self_ns: length(i),
                    ..Own::default()
                }),
                ..self.of_span(calls.start_ns[i], calls.end_ns[i])
            };
            costs.insert(i, cost);
        }
        // Of the calls that each call made: the CPU time that is known, and the time in which it is not.
        let mut callees: HashMap<usize, (u64, u64)> = HashMap::new();
        for i in 0..calls.len() {
            let Some(caller) = calls.parent_of(i).filter(|c| costs.contains_key(c)) else {
                continue;
            };
            let cpu = costs.get(&i).and_then(|c| c.used).map(|u| u.cpu_ns);
            let (known, unknown) = callees.entry(caller).or_default();
            match cpu {
                Some(cpu) => *known += cpu,
                None => *unknown += length(i),
            }
            if let Some(own) = costs.get_mut(&caller).and_then(|c| c.own.as_mut()) {
                own.calls += 1;
                own.self_ns = own.self_ns.saturating_sub(length(i));
            }
        }
        for (i, cost) in &mut costs {
            let (known, unknown) = callees.get(i).copied().unwrap_or_default();
            let is_known = unknown as f64 <= length(*i) as f64 * UNKNOWN;
            if let (Some(own), Some(used), true) = (&mut cost.own, cost.used, is_known) {
                own.self_cpu_ns = Some(used.cpu_ns.saturating_sub(known));
            }
        }
        costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::{Script, EPOCH};

    const MS: u64 = 1_000_000;

    /// f(0..100 ms) { g(10..60 ms) waits 20..50 ms, woken by another thread; g(70..70.1 ms) }
    fn trace() -> Trace {
        let mut s = Script::new("p");
        let (f, g) = (s.method("a.C.f", "()V"), s.method("a.C.g", "()V"));
        let main = s.thread(1, "main");
        let other = s.events_thread(2, "other", 2);
        let cpu = |ms: u64| [ms * MS];
        s.at(main, 0)
            .extension(Extension::ThreadCpuTime, &cpu(0))
            .extension(Extension::Allocations, &[10, 1_000])
            .enter(f)
            .at(10 * MS)
            .enter(g)
            .extension(Extension::ThreadCpuTime, &cpu(10))
            .at(20 * MS)
            .event(Extension::WaitBegin, &[("number", 1)])
            .at(50 * MS)
            .extension(Extension::WokenBy, &[2])
            .event(Extension::WaitEnd, &[("number", 1)])
            .at(60 * MS)
            .extension(Extension::ThreadCpuTime, &cpu(25))
            .exit()
            .at(70 * MS)
            .call(g, MS / 10)
            .at(100 * MS)
            .extension(Extension::ThreadCpuTime, &cpu(60))
            .extension(Extension::Allocations, &[15, 1_500])
            .exit();
        s.at(other, 49 * MS).extension(Extension::UserMark, &[0]);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    #[test]
    fn a_call_has_its_own_part_of_time_and_cpu_time() {
        let trace = trace();
        let costs = costs(&trace);
        let calls = costs[0].of_calls(&trace.threads[0].calls);
        // The second g is too short.
        assert_eq!(calls.len(), 2);
        let (f, g) = (&calls[&0], &calls[&1]);
        assert_eq!((f.blocked_ns, f.woken_by), (Some(30 * MS), None));
        assert_eq!((g.blocked_ns, g.woken_by), (Some(30 * MS), Some(1)));
        let used = f.used.unwrap();
        assert_eq!((used.cpu_ns, used.objects, used.bytes), (60 * MS, 5, 500));
        assert_eq!(g.used.unwrap().cpu_ns, 15 * MS);
        let own = |calls, self_ns, cpu: u64| {
            let self_cpu_ns = Some(cpu * MS);
            Some(Own {
                calls,
                self_ns,
                self_cpu_ns,
            })
        };
        assert_eq!(f.own, own(2, 50 * MS - MS / 10, 45));
        assert_eq!(g.own, own(0, 50 * MS, 15));
    }

    #[test]
    fn what_is_not_recorded_is_not_made_up() {
        let trace = trace();
        let costs = costs(&trace);
        assert!(costs[1].is_empty());
        let nothing = Cost::default();
        assert_eq!(costs[1].of_span(EPOCH, EPOCH + 50 * MS), nothing);
        // Between two readings.
        assert_eq!(
            costs[0].of_span(EPOCH + 30 * MS, EPOCH + 45 * MS).used,
            None
        );
        let inside = costs[0].of_span(EPOCH + 30 * MS, EPOCH + 45 * MS);
        assert_eq!(
            (inside.blocked_ns, inside.woken_by),
            (Some(15 * MS), Some(1))
        );
    }
}
