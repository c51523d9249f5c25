// SPDX-License-Identifier: Apache-2.0
//! Events other than calls, in the terms of a timeline: instants, counters, and flows from a cause to its effect.
//!
//! Recorded today: tracing started and stopped, waits for a lock, and wake-ups. The others are reserved in the trace
//! format: no device writes them.

use hashbrown::HashMap;
use hindsight_decoder::{Extension, Thread, ThreadEvent};

use crate::labels::thread_labels;

/// A detail of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Text(String),
    Number(u64),
    /// An identity: it only tells whether two are the same.
    Pointer(u64),
}

/// One end of a flow: two instants with the same number belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The cause.
    From(u64),
    /// The effect.
    To(u64),
}

/// An event without a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) at_ns: u64,
    pub(crate) name: &'static str,
    pub(crate) facts: Vec<(&'static str, Fact)>,
    pub(crate) flow: Option<Flow>,
}

/// A counter of a thread. Its discriminant is part of the counter's track number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Counter {
    CpuTime,
    AllocatedObjects,
    AllocatedBytes,
    MinorFaults,
    MajorFaults,
    VoluntarySwitches,
    InvoluntarySwitches,
}

impl Counter {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Counter::CpuTime => "CPU time",
            Counter::AllocatedObjects => "allocated objects",
            Counter::AllocatedBytes => "allocated bytes",
            Counter::MinorFaults => "minor page faults",
            Counter::MajorFaults => "major page faults",
            Counter::VoluntarySwitches => "voluntary context switches",
            Counter::InvoluntarySwitches => "involuntary context switches",
        }
    }
}

/// A value of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at_ns: u64,
    pub(crate) counter: Counter,
    pub(crate) value: u64,
}

/// The events of one thread that are not calls, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) instants: Vec<Instant>,
    pub(crate) samples: Vec<Sample>,
}

/// Finds threads by the ids in events.
struct ByTid<'a> {
    threads: &'a [Thread],
    labels: Vec<String>,
    by_tid: HashMap<u32, Vec<usize>>,
}

impl<'a> ByTid<'a> {
    fn new(threads: &'a [Thread]) -> Self {
        let mut by_tid: HashMap<u32, Vec<usize>> = HashMap::new();
        for (i, thread) in threads.iter().enumerate() {
            by_tid.entry(thread.tid).or_default().push(i);
        }
        ByTid {
            threads,
            labels: thread_labels(threads),
            by_tid,
        }
    }

    /// The recording of thread `tid` that contains `at_ns`, else the nearest one.
    fn at(&self, tid: u64, at_ns: u64) -> Option<usize> {
        let recordings = self.by_tid.get(&u32::try_from(tid).ok()?)?;
        let distance = |&&i: &&usize| {
            let thread = &self.threads[i];
            let before = thread.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(thread.end_ns))
        };
        recordings.iter().min_by_key(distance).copied()
    }

    /// Its label, or its id if it is not in the trace.
    fn fact(&self, tid: u64, at_ns: u64) -> Fact {
        match self.at(tid, at_ns) {
            Some(i) => Fact::Text(self.labels[i].clone()),
            None => Fact::Number(tid),
        }
    }
}

/// For each thread, its events that are not calls.
pub(crate) fn extras(threads: &[Thread]) -> Vec<Extras> {
    let mut all: Vec<Extras> = threads.iter().map(|_| Extras::default()).collect();
    let by_tid = ByTid::new(threads);

    // In the order of time over all threads, so that a message is enqueued before it is dispatched.
    let mut events: Vec<(usize, &ThreadEvent)> = threads
        .iter()
        .enumerate()
        .flat_map(|(i, t)| t.events.iter().map(move |e| (i, e)))
        .collect();
    events.sort_by_key(|(_, e)| (e.at_ns, e.kind == Extension::MessageDispatched));

    let mut flows = 0;
    let mut new_flow = || {
        flows += 1;
        flows
    };
    // Thread and index of the instant that enqueued a message which has not been dispatched yet.
    let mut enqueued: HashMap<u64, (usize, usize)> = HashMap::new();
    for (i, event) in events {
        let at_ns = event.at_ns;
        let [first, second, third, fourth] = event.payload;
        let mut flow = None;
        let (name, facts) = match event.kind {
            Extension::Started => {
                let reason = match first {
                    0 => Fact::Text("configuration".into()),
                    1 => Fact::Text("request".into()),
                    other => Fact::Number(other),
                };
                ("tracing started", vec![("reason", reason)])
            }
            Extension::Stopped => ("tracing stopped", vec![]),
            Extension::MessageEnqueued => {
                enqueued.insert(first, (i, all[i].instants.len()));
                let to = by_tid.fact(second, at_ns);
                let message = Fact::Pointer(first);
                ("message enqueued", vec![("message", message), ("for", to)])
            }
            Extension::MessageDispatched => {
                if let Some((from, at)) = enqueued.remove(&first) {
                    // At equal times a flow would have no direction.
                    let cause = &mut all[from].instants[at];
                    if cause.at_ns < at_ns {
                        let id = new_flow();
                        cause.flow = Some(Flow::From(id));
                        flow = Some(Flow::To(id));
                    }
                }
                (
                    "message dispatched",
                    vec![("message", Fact::Pointer(first))],
                )
            }
            Extension::LockWait => (
                "waits for a lock",
                vec![
                    ("held by", by_tid.fact(first, at_ns)),
                    ("lock", Fact::Pointer(second)),
                ],
            ),
            Extension::WokenBy => {
                let waker = by_tid.at(first, at_ns);
                if let Some(waker) = waker.filter(|&waker| waker != i) {
                    let id = new_flow();
                    flow = Some(Flow::To(id));
                    let wakes = Instant {
                        // Readers want the cause to be before the effect.
                        at_ns: at_ns.saturating_sub(1),
                        name: "wakes",
                        facts: vec![("thread", Fact::Text(by_tid.labels[i].clone()))],
                        flow: Some(Flow::From(id)),
                    };
                    all[waker].instants.push(wakes);
                }
                ("woken", vec![("by", by_tid.fact(first, at_ns))])
            }
            Extension::UserMark => ("mark", vec![("string", Fact::Number(first))]),
            Extension::ThreadCpuTime => {
                sample(&mut all[i], at_ns, &[(Counter::CpuTime, first)]);
                continue;
            }
            Extension::Allocations => {
                let counts = [
                    (Counter::AllocatedObjects, first),
                    (Counter::AllocatedBytes, second),
                ];
                sample(&mut all[i], at_ns, &counts);
                continue;
            }
            Extension::ResourceUse => {
                let counts = [
                    (Counter::MinorFaults, first),
                    (Counter::MajorFaults, second),
                    (Counter::VoluntarySwitches, third),
                    (Counter::InvoluntarySwitches, fourth),
                ];
                sample(&mut all[i], at_ns, &counts);
                continue;
            }
            // These are parts of calls.
            Extension::NativeEntered | Extension::NativeLeft | Extension::Unwound => continue,
            _ => (
                "event",
                vec![("kind", Fact::Text(format!("{:?}", event.kind)))],
            ),
        };
        all[i].instants.push(Instant {
            at_ns,
            name,
            facts,
            flow,
        });
    }
    for extras in &mut all {
        // A waker's instants were inserted a nanosecond early.
        extras.instants.sort_by_key(|i| i.at_ns);
    }
    all
}

fn sample(recorded: &mut Extras, at_ns: u64, counts: &[(Counter, u64)]) {
    let new = counts.iter().map(|&(counter, value)| Sample {
        at_ns,
        counter,
        value,
    });
    recorded.samples.extend(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Trace;
    use hindsight_testkit::Script;

    #[test]
    fn messages_and_wake_ups_lead_from_one_thread_to_the_other() {
        let mut s = Script::new("p");
        let (main, worker) = (s.thread(10, "main"), s.thread(11, "worker"));
        s.at(main, 100)
            .extension(Extension::MessageEnqueued, &[0xabc, 11]);
        s.at(worker, 120).extension(Extension::WokenBy, &[10]);
        s.at(worker, 130)
            .extension(Extension::MessageDispatched, &[0xabc])
            .after(5)
            .extension(Extension::MessageDispatched, &[0xabc])
            .after(5)
            .extension(Extension::WokenBy, &[99]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let all = extras(&trace.threads);
        let flows = |i: usize| -> Vec<(&str, Option<Flow>)> {
            let instants = all[i].instants.iter();
            instants.map(|i| (i.name, i.flow)).collect()
        };
        assert_eq!(
            flows(0),
            [
                ("message enqueued", Some(Flow::From(2))),
                ("wakes", Some(Flow::From(1)))
            ]
        );
        // The message was dispatched once; the thread 99 was not traced.
        assert_eq!(
            flows(1),
            [
                ("woken", Some(Flow::To(1))),
                ("message dispatched", Some(Flow::To(2))),
                ("message dispatched", None),
                ("woken", None)
            ]
        );
        let by = ("by", Fact::Text("main (10)".into()));
        assert_eq!(all[1].instants[0].facts, [by]);
    }

    #[test]
    fn a_thread_id_means_the_recording_of_that_time() {
        let mut s = Script::new("p");
        let f = s.method("a.C.f", "()V");
        let (first, second) = (s.thread(10, "first"), s.thread(10, "second"));
        let woken = s.thread(11, "woken");
        s.at(first, 0).call(f, 50);
        s.stop_at(60);
        s.at(second, 100).call(f, 50);
        s.at(woken, 20).extension(Extension::WokenBy, &[10]);
        let mut trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        // The script takes all rings at one time.
        trace.threads[0].end_ns = trace.threads[0].start_ns + 60;
        let all = extras(&trace.threads);
        let names = |i: usize| -> Vec<&str> { all[i].instants.iter().map(|i| i.name).collect() };
        assert_eq!((names(0), names(1)), (vec!["wakes"], vec![]));
        let by = ("by", Fact::Text("first (10)".into()));
        assert_eq!(all[2].instants[0].facts, [by]);
    }

    #[test]
    fn counters_are_samples_in_the_order_of_time() {
        let mut s = Script::new("p");
        let main = s.thread(10, "main");
        s.at(main, 5)
            .extension(Extension::ThreadCpuTime, &[7])
            .after(5)
            .extension(Extension::ResourceUse, &[1, 2, 3, 4]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let all = extras(&trace.threads);
        let values: Vec<(Counter, u64)> = all[0]
            .samples
            .iter()
            .map(|s| (s.counter, s.value))
            .collect();
        assert_eq!(
            values,
            [
                (Counter::CpuTime, 7),
                (Counter::MinorFaults, 1),
                (Counter::MajorFaults, 2),
                (Counter::VoluntarySwitches, 3),
                (Counter::InvoluntarySwitches, 4)
            ]
        );
    }
}
