// SPDX-License-Identifier: Apache-2.0
//! What threads recorded beside calls, in the words of a timeline: events, counters, and which moment
//! led to which.

use hashbrown::HashMap;
use hindsight_decoder::{Extension, Thread, ThreadEvent};

/// A fact about a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Text(String),
    Number(u64),
    /// An identity that has no meaning but being equal to others.
    Pointer(u64),
}

/// How a moment is tied to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It leads to the one with the same number.
    From(u64),
    /// It follows from it.
    To(u64),
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimelineEvent {
    pub(crate) at_ns: u64,
    pub(crate) name: &'static str,
    pub(crate) facts: Vec<(&'static str, Fact)>,
    pub(crate) flow: Option<Flow>,
}

/// What is counted. The discriminants number the counters of a thread.
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

/// What one thread recorded beside calls, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadEvents {
    pub(crate) events: Vec<TimelineEvent>,
    pub(crate) samples: Vec<Sample>,
}

/// For each of `threads`, what it recorded beside calls.
pub(crate) fn thread_events(threads: &[&Thread]) -> Vec<ThreadEvents> {
    let mut all: Vec<ThreadEvents> = threads.iter().map(|_| ThreadEvents::default()).collect();
    let by_tid: HashMap<u32, usize> = threads
        .iter()
        .enumerate()
        .map(|(i, t)| (t.tid, i))
        .collect();
    let thread_name = |tid: u64| {
        let known = u32::try_from(tid).ok().and_then(|tid| by_tid.get(&tid));
        match known {
            Some(&i) => Fact::Text(format!("{} ({tid})", threads[i].name)),
            None => Fact::Number(tid),
        }
    };

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
    // Where the moment is at which a message was enqueued that hasn't been dispatched yet.
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
            Extension::LoaderUnloaded => (
                "class loader unloaded",
                vec![("loader", Fact::Pointer(first))],
            ),
            Extension::MessageEnqueued => {
                enqueued.insert(first, (i, all[i].events.len()));
                let to = thread_name(second);
                let message = Fact::Pointer(first);
                ("message enqueued", vec![("message", message), ("for", to)])
            }
            Extension::MessageDispatched => {
                if let Some((from, at)) = enqueued.remove(&first) {
                    // Both of one moment would have no direction.
                    let cause = &mut all[from].events[at];
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
                    ("held by", thread_name(first)),
                    ("lock", Fact::Pointer(second)),
                ],
            ),
            Extension::WokenBy => {
                let waker = u32::try_from(first).ok().and_then(|tid| by_tid.get(&tid));
                if let Some(&waker) = waker.filter(|&&waker| waker != i) {
                    let id = new_flow();
                    flow = Some(Flow::To(id));
                    let wakes = TimelineEvent {
                        // Readers want the cause to be before the effect.
                        at_ns: at_ns.saturating_sub(1),
                        name: "wakes",
                        facts: vec![("thread", thread_name(u64::from(threads[i].tid)))],
                        flow: Some(Flow::From(id)),
                    };
                    all[waker].events.push(wakes);
                }
                ("woken", vec![("by", thread_name(first))])
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
            // They are calls, or ends of calls.
            Extension::NativeEntered | Extension::NativeLeft | Extension::Unwound => continue,
            _ => (
                "event",
                vec![("kind", Fact::Text(format!("{:?}", event.kind)))],
            ),
        };
        all[i].events.push(TimelineEvent {
            at_ns,
            name,
            facts,
            flow,
        });
    }
    for recorded in &mut all {
        // Those of wakers were put in a nanosecond early.
        recorded.events.sort_by_key(|m| m.at_ns);
    }
    all
}

fn sample(recorded: &mut ThreadEvents, at_ns: u64, counts: &[(Counter, u64)]) {
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
        let threads: Vec<&Thread> = trace.threads.iter().collect();
        let all = thread_events(&threads);
        let told = |i: usize| -> Vec<(&str, Option<Flow>)> {
            let events: &Vec<TimelineEvent> = &all[i].events;
            events.iter().map(|m| (m.name, m.flow)).collect()
        };
        assert_eq!(
            told(0),
            [
                ("message enqueued", Some(Flow::From(2))),
                ("wakes", Some(Flow::From(1)))
            ]
        );
        // The message was dispatched once; the thread 99 was not traced.
        assert_eq!(
            told(1),
            [
                ("woken", Some(Flow::To(1))),
                ("message dispatched", Some(Flow::To(2))),
                ("message dispatched", None),
                ("woken", None)
            ]
        );
        let by = ("by", Fact::Text("main (10)".into()));
        assert_eq!(all[1].events[0].facts, [by]);
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
        let all = thread_events(&[&trace.threads[0]]);
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
