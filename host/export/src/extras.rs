// SPDX-License-Identifier: Apache-2.0
//! Events other than calls, in the terms of a timeline: instants, slices, counters, and flows from a cause to its effect.
//!
//! Generic over the catalogue of events: an event without a special treatment is an instant with its fields.

use std::collections::{HashMap, HashSet};

use hindsight_analysis::{
    costs, pairs, spans, Cost, Costs, End, FieldValue, Fields, PairKind, Span, SpanKind, Spans,
};
use hindsight_decoder::{Extension, Flags, Thread, ThreadEvent, ThreadKey, Trace};

use crate::labels::thread_labels;

/// A detail of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Text(String),
    Number(u64),
    /// An identity: it only tells whether two are the same.
    Pointer(u64),
}

/// One end of a flow: two instants or slices with the same number belong together.
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
    pub(crate) name: String,
    pub(crate) facts: Vec<(&'static str, Fact)>,
    pub(crate) flows: Vec<Flow>,
}

/// A stretch of time between two events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) name: String,
    pub(crate) facts: Vec<(&'static str, Fact)>,
    /// Of its beginning.
    pub(crate) flows: Vec<Flow>,
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
    /// Nested: each ends before the one ends in which it begins.
    pub(crate) slices: Vec<Slice>,
    pub(crate) samples: Vec<Sample>,
}

/// For each thread, its events that are not calls.
pub(crate) fn extras(trace: &Trace) -> Vec<Extras> {
    let labels = thread_labels(&trace.threads);
    let mut flows = Flows::new(trace);
    let fields = Fields::new(trace);
    let mut all: Vec<Extras> = Vec::with_capacity(trace.threads.len());
    for (thread, costs) in trace.threads.iter().zip(costs(trace)) {
        let spans = spans(thread);
        let slices = nested(&spans);
        let has_samples = thread
            .calls
            .flags
            .iter()
            .any(|f| f.contains(Flags::SAMPLED));
        let source = Source {
            thread,
            costs: &costs,
            labels: &labels,
            fields: &fields,
        };
        let mut extras = Extras::default();
        for (i, event) in thread.events.iter().enumerate() {
            if is_part_of_calls(event.kind, has_samples) || sample(&mut extras, event) {
                continue;
            }
            let of_event = flows.of(thread.key, i);
            let slice = spans.begun_by(i).filter(|s| slices.contains(&s.begin));
            if let Some(span) = slice {
                extras.slices.push(source.slice(span, of_event));
                continue;
            }
            let ends_slice = spans.ended_by(i).is_some_and(|s| slices.contains(&s.begin));
            // The end of a slice has its facts in the slice.
            if ends_slice && of_event.is_empty() {
                continue;
            }
            extras.instants.push(Instant {
                at_ns: event.at_ns,
                name: source.name(event),
                facts: source.facts(event),
                flows: of_event,
            });
        }
        all.push(extras);
    }
    for (waker, woken, at_ns, id) in flows.by_wakers {
        all[waker].instants.push(Instant {
            // Readers want the cause to be before the effect.
            at_ns: at_ns.saturating_sub(1),
            name: "wakes".to_owned(),
            facts: vec![("thread", Fact::Text(labels[woken].clone()))],
            flows: vec![Flow::From(id)],
        });
    }
    for extras in &mut all {
        // A waker's instants were inserted a nanosecond early.
        extras.instants.sort_by_key(|i| i.at_ns);
    }
    all
}

/// The fields of an event as a JSON object, with the names that their numbers stand for.
pub(crate) fn event_fields(trace: &Trace) -> impl Fn(&ThreadEvent) -> String + '_ {
    let labels = thread_labels(&trace.threads);
    let fields = Fields::new(trace);
    move |event| {
        let facts = fields
            .of(event)
            .map(|(field, value)| (field.name, fact(value, &labels)));
        let json: serde_json::Map<String, serde_json::Value> = facts
            .map(|(name, fact)| {
                let value = match fact {
                    Fact::Text(text) => text.into(),
                    Fact::Number(number) => number.into(),
                    // A number of 64 bits is not exact in every reader of JSON.
                    Fact::Pointer(pointer) => format!("{pointer:#x}").into(),
                };
                (name.to_owned(), value)
            })
            .collect();
        serde_json::Value::Object(json).to_string()
    }
}

/// Entries and exits are in the calls; so are stacks, if there is a table of them.
fn is_part_of_calls(kind: Extension, has_samples: bool) -> bool {
    match kind {
        Extension::NativeEntered | Extension::NativeLeft | Extension::Unwound => true,
        Extension::Stack | Extension::StackAgain => has_samples,
        _ => false,
    }
}

/// Adds an event's values, if it is a reading of counters.
fn sample(extras: &mut Extras, event: &ThreadEvent) -> bool {
    let counters: &[Counter] = match event.kind {
        Extension::ThreadCpuTime => &[Counter::CpuTime],
        Extension::Allocations => &[Counter::AllocatedObjects, Counter::AllocatedBytes],
        Extension::ResourceUse => &[
            Counter::MinorFaults,
            Counter::MajorFaults,
            Counter::VoluntarySwitches,
            Counter::InvoluntarySwitches,
        ],
        _ => return false,
    };
    let values = counters.iter().zip(event.payload);
    extras
        .samples
        .extend(values.map(|(&counter, value)| Sample {
            at_ns: event.at_ns,
            counter,
            value,
        }));
    true
}

/// The spans that can be shown as slices of one track, by their first events: those of the program may overlap others.
fn nested(spans: &Spans) -> HashSet<usize> {
    let mut around: Vec<u64> = Vec::new();
    let mut nested = HashSet::new();
    for span in &spans.spans {
        while around.last().is_some_and(|&end| end <= span.start_ns) {
            around.pop();
        }
        if around.last().is_none_or(|&end| span.end_ns <= end) {
            around.push(span.end_ns);
            nested.insert(span.begin);
        }
    }
    nested
}

/// The flows of all events.
struct Flows {
    ends: HashMap<End, Vec<Flow>>,
    /// Wake-ups that only the woken thread recorded: the waker, the woken thread, the time, and the flow.
    by_wakers: Vec<(usize, usize, u64, u64)>,
}

impl Flows {
    fn new(trace: &Trace) -> Self {
        let mut flows = Flows {
            ends: HashMap::new(),
            by_wakers: Vec::new(),
        };
        let at_ns: HashMap<ThreadKey, &Thread> = trace.threads.iter().map(|t| (t.key, t)).collect();
        let mut ids = 0;
        let mut woken: HashSet<End> = HashSet::new();
        for pair in pairs(trace).pairs {
            let time = |end: End| at_ns.get(&end.thread).map(|t| t.events[end.event].at_ns);
            if pair.kind == PairKind::Wake {
                woken.insert(pair.to);
            }
            // At equal times a flow would have no direction.
            if time(pair.from) < time(pair.to) {
                ids += 1;
                flows
                    .ends
                    .entry(pair.from)
                    .or_default()
                    .push(Flow::From(ids));
                flows.ends.entry(pair.to).or_default().push(Flow::To(ids));
            }
        }
        let fields = Fields::new(trace);
        for (t, thread) in trace.threads.iter().enumerate() {
            for (i, event) in thread.events.iter().enumerate() {
                if event.kind != Extension::WokenBy {
                    continue;
                }
                // The waker's own event is right before the end of the wait.
                let next = End {
                    thread: thread.key,
                    event: i + 1,
                };
                if woken.contains(&next) {
                    continue;
                }
                let tid = u32::try_from(event.payload[0]).ok();
                let waker = tid.and_then(|tid| fields.thread_at(tid, event.at_ns));
                if let Some(waker) = waker.filter(|&waker| waker != t) {
                    ids += 1;
                    let end = End {
                        thread: thread.key,
                        event: i,
                    };
                    flows.ends.entry(end).or_default().push(Flow::To(ids));
                    flows.by_wakers.push((waker, t, event.at_ns, ids));
                }
            }
        }
        flows
    }

    fn of(&mut self, thread: ThreadKey, event: usize) -> Vec<Flow> {
        self.ends.remove(&End { thread, event }).unwrap_or_default()
    }
}

fn fact(value: FieldValue, labels: &[String]) -> Fact {
    match value {
        FieldValue::Text(text) => Fact::Text(text),
        FieldValue::Number(n)
        | FieldValue::Bytes(n)
        | FieldValue::Duration(n)
        | FieldValue::Time(n) => Fact::Number(n),
        FieldValue::Identity(id) => Fact::Pointer(id),
        FieldValue::Flag(flag) => Fact::Text(if flag { "yes" } else { "no" }.to_owned()),
        FieldValue::Thread { tid, thread } => match thread {
            Some(i) => Fact::Text(labels[i].clone()),
            None => Fact::Number(tid.into()),
        },
    }
}

/// What a call, a message or a wait cost, as far as it is recorded.
pub(crate) fn cost_facts(cost: &Cost, labels: &[String]) -> Vec<(&'static str, Fact)> {
    let mut facts: Vec<(&'static str, Fact)> = Vec::new();
    if let Some(waker) = cost.woken_by.and_then(|i| labels.get(i)) {
        facts.push(("woken by", Fact::Text(waker.clone())));
    }
    let used = cost.used.as_ref();
    let own = cost.own.as_ref();
    let numbers = [
        ("block time, ns", cost.blocked_ns),
        ("CPU time, ns", used.map(|u| u.cpu_ns)),
        ("calls made", own.map(|o| o.calls)),
        ("self time, ns", own.map(|o| o.self_ns)),
        ("self CPU time, ns", own.and_then(|o| o.self_cpu_ns)),
        ("allocated objects", used.map(|u| u.objects)),
        ("allocated bytes", used.map(|u| u.bytes)),
        ("minor faults", used.map(|u| u.minor_faults)),
        ("major faults", used.map(|u| u.major_faults)),
        ("voluntary switches", used.map(|u| u.voluntary_switches)),
        ("involuntary switches", used.map(|u| u.involuntary_switches)),
    ];
    let known = numbers.into_iter().filter_map(|(name, n)| Some((name, n?)));
    facts.extend(known.map(|(name, n)| (name, Fact::Number(n))));
    facts
}

/// The events of a thread, with what their fields stand for.
struct Source<'a> {
    thread: &'a Thread,
    costs: &'a Costs,
    labels: &'a [String],
    fields: &'a Fields<'a>,
}

impl Source<'_> {
    fn facts(&self, event: &ThreadEvent) -> Vec<(&'static str, Fact)> {
        let facts = self.fields.of(event);
        facts
            .map(|(field, value)| (field.name, fact(value, self.labels)))
            .collect()
    }

    /// A field that says best what an event is about.
    fn telling(&self, event: &ThreadEvent) -> Option<String> {
        let is_telling = |name: &str| matches!(name, "class" | "name" | "rule" | "type");
        let mut fields = self.fields.of(event).filter(|(f, _)| is_telling(f.name));
        match fields.next() {
            Some((_, FieldValue::Text(text))) => Some(text),
            _ => None,
        }
    }

    fn name(&self, event: &ThreadEvent) -> String {
        let name = event.spec().name;
        match (event.kind, self.telling(event)) {
            (Extension::UserMark, Some(mark)) => mark,
            _ => name.to_owned(),
        }
    }

    fn slice(&self, span: &Span, flows: Vec<Flow>) -> Slice {
        let begin = &self.thread.events[span.begin];
        let mut facts = self.facts(begin);
        if let Some(end) = span.end {
            let of_end = self.facts(&self.thread.events[end]);
            let is_new = |name: &str| begin.spec().field(name).is_none();
            // Callbacks of a frame end where others begin.
            if self.thread.events[end].kind != begin.kind {
                facts.extend(of_end.into_iter().filter(|(name, _)| is_new(name)));
            }
        } else if span.kind != SpanKind::FrameCallbacks {
            facts.push(("end", Fact::Text("not seen".to_owned())));
        }
        let mut cost = self.costs.of_span(span.start_ns, span.end_ns);
        if span.kind == SpanKind::Wait {
            // All of it.
            cost.blocked_ns = None;
        }
        facts.extend(cost_facts(&cost, self.labels));
        let kind = span.kind.name();
        let name = match (span.kind, self.telling(begin)) {
            (SpanKind::Wait, _) => {
                let mut fields = self.fields.of(begin);
                match fields.find(|(f, _)| f.name == "kind") {
                    Some((_, FieldValue::Text(of))) => format!("{kind}: {of}"),
                    _ => kind.to_owned(),
                }
            }
            (SpanKind::Marked, Some(name)) => name,
            (_, Some(what)) => format!("{kind}: {what}"),
            (_, None) => kind.to_owned(),
        };
        Slice {
            start_ns: span.start_ns,
            end_ns: span.end_ns,
            name,
            facts,
            flows,
        }
    }
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
        s.at(main, 100).event(
            Extension::MessageEnqueued,
            &[("message", 0xabc), ("for thread", 11)],
        );
        s.at(worker, 120).extension(Extension::WokenBy, &[10]);
        s.at(worker, 130)
            .event(Extension::MessageDispatched, &[("message", 0xabc)])
            .after(5)
            .event(Extension::MessageDone, &[("message", 0xabc)])
            .after(5)
            .event(Extension::MessageDone, &[("message", 0xabc)])
            .after(5)
            .extension(Extension::WokenBy, &[99]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let all = extras(&trace);
        let flows = |i: usize| -> Vec<(&str, Vec<Flow>)> {
            let instants = all[i].instants.iter();
            instants
                .map(|i| (i.name.as_str(), i.flows.clone()))
                .collect()
        };
        assert_eq!(
            flows(0),
            [
                ("message enqueued", vec![Flow::From(1)]),
                ("wakes", vec![Flow::From(2)])
            ]
        );
        // A message that was not dispatched is done; the thread 99 was not traced.
        assert_eq!(
            flows(1),
            [
                ("woken", vec![Flow::To(2)]),
                ("message done", vec![]),
                ("woken", vec![])
            ]
        );
        let slice = &all[1].slices[0];
        assert_eq!(
            (slice.name.as_str(), &slice.flows[..]),
            ("message", &[Flow::To(1)][..])
        );
        assert_eq!(slice.end_ns - slice.start_ns, 5);
        let by = ("by", Fact::Text("main (10)".into()));
        assert_eq!(all[1].instants[0].facts, [by]);
    }

    #[test]
    fn a_wake_up_that_both_threads_recorded_is_one_flow() {
        let mut s = Script::new("p");
        let (main, worker) = (s.thread(10, "main"), s.thread(11, "worker"));
        s.at(worker, 10).event(
            Extension::WaitBegin,
            &[("kind", 3), ("number", 7), ("object", 5)],
        );
        s.at(main, 100)
            .event(Extension::Wakes, &[("thread", 11), ("wait", 7)]);
        s.at(worker, 120)
            .extension(Extension::WokenBy, &[10])
            .event(Extension::WaitEnd, &[("kind", 3), ("number", 7)]);
        s.stop_at(200);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let all = extras(&trace);
        let names = |i: usize| -> Vec<(&str, usize)> {
            let instants = all[i].instants.iter();
            instants.map(|i| (i.name.as_str(), i.flows.len())).collect()
        };
        assert_eq!(names(0), [("wakes", 1)]);
        assert_eq!(names(1), [("woken", 0), ("wait ends", 1)]);
        let slice = &all[1].slices[0];
        assert_eq!(slice.name, "wait: park");
        let facts: Vec<&str> = slice.facts.iter().map(|(name, _)| *name).collect();
        assert_eq!(facts, ["kind", "number", "object", "result", "woken by"]);
    }

    /// An event of the catalogue is an instant, a slice, the end of one, a counter, or a part of the calls.
    #[test]
    fn no_event_of_the_catalogue_is_dropped() {
        let mut s = Script::new("p");
        s.method("a.Task.run", "()V");
        s.string("a mark");
        let t = s.events_thread(100, "main", 1);
        s.at(t, 10).every_event(10).anchor();
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let extras = &extras(&trace)[0];
        let times: HashSet<u64> = extras
            .instants
            .iter()
            .map(|i| i.at_ns)
            .chain(extras.slices.iter().flat_map(|s| [s.start_ns, s.end_ns]))
            .chain(extras.samples.iter().map(|s| s.at_ns))
            .collect();
        for event in &trace.threads[0].events {
            assert!(times.contains(&event.at_ns), "{event:?}");
        }
        let mark = extras.instants.iter().find(|i| i.name == "a mark");
        assert!(mark.is_some());
    }

    #[test]
    fn work_of_the_program_that_overlaps_is_shown_by_its_ends() {
        let mut s = Script::new("p");
        let t = s.events_thread(100, "main", 1);
        s.at(t, 10)
            .event(Extension::UserBegin, &[("id", 1)])
            .after(10)
            .event(Extension::UserBegin, &[("id", 2)])
            .after(10)
            .event(Extension::UserEnd, &[("id", 1)])
            .after(10)
            .event(Extension::UserEnd, &[("id", 2)]);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let extras = &extras(&trace)[0];
        assert_eq!(extras.slices.len(), 1);
        let names: Vec<&str> = extras.instants.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["work begins", "work ends"]);
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
        let all = extras(&trace);
        let names =
            |i: usize| -> Vec<&str> { all[i].instants.iter().map(|i| i.name.as_str()).collect() };
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
        let all = extras(&trace);
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
