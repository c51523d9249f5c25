// SPDX-License-Identifier: Apache-2.0
//! Perfetto's protobuf format.
//!
//! One packet sequence per thread, with its own interned names and an incremental clock, so that a call's
//! begin or end takes about 14 bytes. Calls deeper than [`MAX_DEPTH`] are on tracks below their thread's, because
//! Perfetto's trace processor drops deeper calls on one track.
//!
//! Perfetto merges the tracks of one thread id, so a second recording of a thread id gets a free one.
//!
//! Exports can be concatenated with each other and with system traces: times are CLOCK_BOOTTIME in both, and the numbers
//! of sequences, tracks and flows differ from trace to trace.

pub(crate) mod paths;
mod proto;

use std::io::{self, Write};

use hindsight_analysis::costs;
use hindsight_decoder::{Call, Flags, Method, MethodId, SampleTimes, Thread, Trace};
use proto::{fields, Message};

use crate::extras::{cost_facts, extras, Counter, Extras, Fact, Flow, Instant, Sample};
use crate::labels::{thread_labels, unique_threads};
use crate::walk::{walk, CallEvent};
use crate::written::Written;

/// Levels of calls that Perfetto's trace processor accepts on one track.
pub const MAX_DEPTH: u32 = 512;

/// Size of the chunks in which packets are written, bytes.
const CHUNK_BYTES: usize = 1 << 16;

/// Numbers of clocks in Perfetto.
mod clock {
    pub(super) const REALTIME: u64 = 1;
    pub(super) const MONOTONIC: u64 = 3;
    pub(super) const BOOTTIME: u64 = 6;
    /// The first number that a sequence may define for itself.
    pub(super) const INCREMENTAL: u64 = 64;
}

/// Category of events that are not calls.
const CATEGORY: &str = "hindsight";

/// Numbers of sequences, tracks and flows, which differ from trace to trace.
#[derive(Clone, Copy)]
struct Numbers {
    /// Number of the process's track; the others are derived from it.
    seed: u64,
    /// Number of the sequence of packets that belong to no thread. The threads' sequences follow.
    sequence: u64,
}

impl Numbers {
    /// Above the numbers in system traces, which count from 1 to some hundreds.
    const FIRST_SEQUENCE: u64 = 2048;
    /// Few enough that the numbers stay varints of two bytes.
    const SEQUENCES: u64 = 8192;

    fn of(trace: &Trace) -> Self {
        let taken = trace.clock.reference();
        let seed = mix(
            mix(u64::from(trace.process.pid), taken.realtime_ns),
            taken.boottime_ns,
        );
        Numbers {
            seed,
            sequence: Self::FIRST_SEQUENCE + seed % Self::SEQUENCES,
        }
    }

    fn process(self) -> u64 {
        self.seed
    }

    fn sequence(self, thread: u64) -> u64 {
        self.sequence + 1 + thread
    }

    /// The track for the calls of a thread from depth `part * MAX_DEPTH` on.
    fn track(self, thread: u64, part: u32) -> u64 {
        mix(self.seed, 1 << 63 | thread << 32 | u64::from(part))
    }

    fn counter(self, thread: u64, counter: Counter) -> u64 {
        mix(self.seed, 1 << 62 | thread << 32 | counter as u64)
    }

    /// The track for a thread's slices that are not calls.
    fn slices(self, thread: u64) -> u64 {
        mix(self.seed, 1 << 61 | thread << 32)
    }

    fn flow(self, flow: u64) -> u64 {
        mix(self.seed, flow)
    }
}

/// A hash of two numbers.
fn mix(a: u64, b: u64) -> u64 {
    // The finalizer of SplitMix64.
    let mut z = (a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Interned names of debug annotations.
#[derive(Clone, Copy)]
enum Annotation {
    Start = 1,
    End = 2,
    LeftBy = 3,
    Address = 4,
    Part = 5,
    Sampled = 6,
    EarlierBy = 7,
    LaterBy = 8,
}

impl Annotation {
    const ALL: [(Annotation, &'static str); 8] = [
        (Annotation::Start, "start"),
        (Annotation::End, "end"),
        (Annotation::LeftBy, "left by"),
        (Annotation::Address, "ArtMethod"),
        (Annotation::Part, "part"),
        (Annotation::Sampled, "sampled"),
        (Annotation::EarlierBy, "may have begun earlier by, ns"),
        (Annotation::LaterBy, "may have ended later by, ns"),
    ];

    fn text(self, value: &str) -> Message {
        let mut m = Message::default();
        m.varint(fields::annotation::NAME_IID, self as u64);
        m.string(fields::annotation::STRING, value);
        m
    }

    fn bool(self, value: bool) -> Message {
        let mut m = Message::default();
        m.varint(fields::annotation::NAME_IID, self as u64);
        m.varint(fields::annotation::BOOL, value.into());
        m
    }

    fn number(self, value: u64) -> Message {
        let mut m = Message::default();
        m.varint(fields::annotation::NAME_IID, self as u64);
        m.varint(fields::annotation::UINT, value);
        m
    }

    fn pointer(self, value: u64) -> Message {
        let mut m = Message::default();
        m.varint(fields::annotation::NAME_IID, self as u64);
        m.varint(fields::annotation::POINTER, value);
        m
    }
}

pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<Written> {
    let threads = &trace.threads;
    let mut writer = Writer {
        out,
        chunk: Vec::with_capacity(CHUNK_BYTES + 1024),
        numbers: Numbers::of(trace),
    };
    let mut written = Written::of(threads);
    writer.clocks(trace)?;
    writer.process(trace)?;
    let named = threads.iter().zip(unique_threads(threads));
    let (costs, labels) = (costs(trace), thread_labels(threads));
    for (i, ((thread, (tid, name)), extras)) in named.zip(extras(trace)).enumerate() {
        let mut sequence = Sequence::new(trace, thread, i as u64, writer.numbers);
        sequence.describe(trace, tid, &name, &mut writer)?;
        if thread.stats.overwritten_slots > 0 {
            sequence.ring_begins(&mut writer)?;
        }
        let mut instants = extras.instants.iter().peekable();
        let mut running = 0;
        let costs = costs[i].of_calls(&thread.calls);
        let mut index = 0;
        walk(&thread.calls, |call_event| {
            let at_ns = match &call_event {
                CallEvent::Begin(call) => call.start_ns,
                CallEvent::End(call) => call.end_ns,
            };
            while let Some(instant) = instants.next_if(|i| i.at_ns <= at_ns) {
                sequence.instant(instant, running, &mut writer)?;
            }
            match call_event {
                CallEvent::Begin(call) => {
                    running = call.depth + 1;
                    written.deep_calls += u64::from(call.depth >= MAX_DEPTH);
                    let cost = costs.get(&index).map(|cost| cost_facts(cost, &labels));
                    index += 1;
                    sequence.begin(call, &cost.unwrap_or_default(), &mut writer)
                }
                CallEvent::End(call) => {
                    running = call.depth;
                    sequence.end(call, &mut writer)
                }
            }
        })?;
        for instant in instants {
            sequence.instant(instant, running, &mut writer)?;
        }
        sequence.slices(&extras, &mut writer)?;
        sequence.counters(&extras, &mut writer)?;
    }
    writer.hand_on()?;
    Ok(written)
}

/// Collects packets and writes them in chunks.
struct Writer<'a> {
    out: &'a mut dyn Write,
    chunk: Vec<u8>,
    numbers: Numbers,
}

impl Writer<'_> {
    fn packet(&mut self, packet: &Message) -> io::Result<()> {
        proto::append_bytes(&mut self.chunk, fields::trace::PACKET, packet.as_bytes());
        if self.chunk.len() >= CHUNK_BYTES {
            self.hand_on()?;
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        self.out.write_all(&self.chunk)?;
        self.chunk.clear();
        Ok(())
    }

    /// The clocks when the trace was taken. Times are shown as BOOTTIME.
    fn clocks(&mut self, trace: &Trace) -> io::Result<()> {
        let reference = trace.clock.reference();
        let mut snapshot = Message::default();
        for (id, ns) in [
            (clock::BOOTTIME, reference.boottime_ns),
            (clock::MONOTONIC, reference.monotonic_ns),
            (clock::REALTIME, reference.realtime_ns),
        ] {
            let mut one = Message::default();
            one.varint(fields::clock::ID, id);
            one.varint(fields::clock::TIMESTAMP, ns);
            snapshot.message(fields::clock_snapshot::CLOCKS, &one);
        }
        snapshot.varint(fields::clock_snapshot::PRIMARY, clock::BOOTTIME);
        let mut packet = Message::default();
        packet.varint(fields::packet::SEQUENCE, self.numbers.sequence);
        packet.varint(fields::packet::FLAGS, fields::packet::STATE_CLEARED);
        packet.message(fields::packet::CLOCK_SNAPSHOT, &snapshot);
        self.packet(&packet)
    }

    /// The process, and on its track an instant for the taking of the trace.
    fn process(&mut self, trace: &Trace) -> io::Result<()> {
        let facts = &trace.process;
        let mut process = Message::default();
        process.varint(fields::process::PID, u64::from(facts.pid));
        process.string(fields::process::NAME, &facts.name);
        let uuid = self.numbers.process();
        let mut track = Message::default();
        track.varint(fields::track::UUID, uuid);
        track.message(fields::track::PROCESS, &process);
        let mut packet = Message::default();
        packet.varint(fields::packet::SEQUENCE, self.numbers.sequence);
        packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
        self.packet(&packet)?;

        let mut event = instant_event("Hindsight trace taken");
        event.varint(fields::event::TRACK_UUID, uuid);
        let mut annotate = |name: &str, field: u32, value: &dyn Fn(&mut Message, u32)| {
            let mut annotation = Message::default();
            annotation.string(fields::annotation::NAME, name);
            value(&mut annotation, field);
            event.message(fields::event::ANNOTATIONS, &annotation);
        };
        let extra = facts.extra.iter().map(|(k, v)| (k.as_str(), v));
        for (name, text) in [("reason", &facts.reason), ("isa", &facts.isa)]
            .into_iter()
            .chain(extra)
        {
            annotate(name, fields::annotation::STRING, &|m, f| m.string(f, text));
        }
        let overwritten: u64 = trace
            .threads
            .iter()
            .map(|t| t.stats.overwritten_slots)
            .sum();
        let overwritten = ("slots overwritten by newer ones".to_owned(), overwritten);
        let losses = trace.losses.counts.iter().chain([&overwritten]);
        for (what, count) in losses.filter(|(_, count)| *count > 0) {
            let name = format!("lost: {what}");
            annotate(&name, fields::annotation::UINT, &|m, f| m.varint(f, *count));
        }
        for damage in &trace.damaged {
            let name = format!("damaged: {}", damage.part);
            let reason = &damage.reason;
            annotate(&name, fields::annotation::STRING, &|m, f| {
                m.string(f, reason);
            });
        }
        let mut packet = Message::default();
        packet.varint(fields::packet::TIMESTAMP, trace.end_ns());
        packet.varint(fields::packet::TIMESTAMP_CLOCK, clock::BOOTTIME);
        packet.varint(fields::packet::SEQUENCE, self.numbers.sequence);
        packet.message(fields::packet::TRACK_EVENT, &event);
        self.packet(&packet)
    }
}

/// An event without a duration.
fn instant_event(name: &str) -> Message {
    let mut event = Message::default();
    event.varint(fields::event::TYPE, fields::event::INSTANT);
    event.string(fields::event::CATEGORIES, CATEGORY);
    event.string(fields::event::NAME, name);
    event
}

fn add_flows(event: &mut Message, flows: &[Flow], numbers: Numbers) {
    for flow in flows {
        let (field, flow) = match flow {
            Flow::From(flow) => (fields::event::FLOW_IDS, *flow),
            Flow::To(flow) => (fields::event::TERMINATING_FLOW_IDS, *flow),
        };
        event.fixed64(field, numbers.flow(flow));
    }
}

/// An event of a thread at an absolute time: the incremental clock is at the last call by now, and only goes forwards.
fn absolute(
    tail: &Message,
    at_ns: u64,
    event: &Message,
    writer: &mut Writer<'_>,
) -> io::Result<()> {
    let mut packet = Message::default();
    packet.varint(fields::packet::TIMESTAMP, at_ns);
    packet.varint(fields::packet::TIMESTAMP_CLOCK, clock::BOOTTIME);
    packet.append(tail);
    packet.message(fields::packet::TRACK_EVENT, event);
    writer.packet(&packet)
}

fn add_fact(event: &mut Message, name: &str, fact: &Fact) {
    let mut annotation = Message::default();
    annotation.string(fields::annotation::NAME, name);
    match fact {
        Fact::Text(text) => annotation.string(fields::annotation::STRING, text),
        Fact::Number(number) => annotation.varint(fields::annotation::UINT, *number),
        Fact::Pointer(pointer) => annotation.varint(fields::annotation::POINTER, *pointer),
    }
    event.message(fields::event::ANNOTATIONS, &annotation);
}

/// The packets of one thread.
struct Sequence<'a> {
    thread: &'a Thread,
    /// When its stacks were taken.
    samples: SampleTimes,
    index: u64,
    numbers: Numbers,
    names: Names<'a>,
    /// Sequence id and flags, which each packet repeats.
    tail: Message,
    /// Time of the last packet, ns.
    now_ns: u64,
    /// Number of tracks described so far.
    parts: u32,
    annotations_interned: bool,
    /// Reused for its memory, like `event`.
    packet: Message,
    event: Message,
}

struct Names<'a> {
    methods: Vec<&'a Method>,
    interned: Vec<bool>,
}

impl Names<'_> {
    fn iid(&self, method: MethodId) -> u64 {
        u64::from(method.0).min(self.methods.len() as u64) + 1
    }

    /// Whether this is the first time the sequence needs the name.
    fn is_new(&mut self, method: MethodId) -> bool {
        let at = (method.0 as usize).min(self.methods.len());
        !std::mem::replace(&mut self.interned[at], true)
    }
}

impl<'a> Sequence<'a> {
    fn new(trace: &'a Trace, thread: &'a Thread, index: u64, numbers: Numbers) -> Self {
        let mut tail = Message::default();
        tail.varint(fields::packet::SEQUENCE, numbers.sequence(index));
        tail.varint(fields::packet::FLAGS, fields::packet::NEEDS_STATE);
        Sequence {
            thread,
            samples: SampleTimes::of(thread),
            index,
            numbers,
            names: Names {
                methods: trace.methods.iter().map(|(_, m)| m).collect(),
                // The last one is for calls whose entry was not recorded.
                interned: vec![false; trace.methods.len() + 1],
            },
            tail,
            now_ns: thread.start_ns,
            parts: 1,
            annotations_interned: false,
            packet: Message::default(),
            event: Message::default(),
        }
    }

    /// The thread's track, and the clock and defaults of the packets that follow.
    fn describe(
        &mut self,
        trace: &Trace,
        tid: u32,
        name: &str,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        let uuid = self.numbers.track(self.index, 0);
        let mut thread = Message::default();
        thread.varint(fields::thread::PID, u64::from(trace.process.pid));
        thread.varint(fields::thread::TID, u64::from(tid));
        thread.string(fields::thread::NAME, name);
        let mut track = Message::default();
        track.varint(fields::track::UUID, uuid);
        track.varint(fields::track::PARENT_UUID, self.numbers.process());
        track.message(fields::track::THREAD, &thread);
        let sequence = self.numbers.sequence(self.index);
        let mut packet = Message::default();
        packet.varint(fields::packet::SEQUENCE, sequence);
        packet.varint(fields::packet::FLAGS, fields::packet::STATE_CLEARED);
        packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
        writer.packet(&packet)?;

        let mut snapshot = Message::default();
        let mut boottime = Message::default();
        boottime.varint(fields::clock::ID, clock::BOOTTIME);
        boottime.varint(fields::clock::TIMESTAMP, self.now_ns);
        snapshot.message(fields::clock_snapshot::CLOCKS, &boottime);
        let mut incremental = Message::default();
        incremental.varint(fields::clock::ID, clock::INCREMENTAL);
        incremental.varint(fields::clock::TIMESTAMP, 0);
        incremental.varint(fields::clock::IS_INCREMENTAL, 1);
        snapshot.message(fields::clock_snapshot::CLOCKS, &incremental);
        let mut event_defaults = Message::default();
        event_defaults.varint(fields::event::TRACK_UUID, uuid);
        let mut defaults = Message::default();
        defaults.varint(fields::packet::TIMESTAMP_CLOCK, clock::INCREMENTAL);
        defaults.message(fields::packet::TRACK_EVENT, &event_defaults);
        let mut packet = Message::default();
        packet.varint(fields::packet::SEQUENCE, sequence);
        packet.message(fields::packet::CLOCK_SNAPSHOT, &snapshot);
        packet.message(fields::packet::DEFAULTS, &defaults);
        packet.varint(fields::packet::FLAGS, fields::packet::NEEDS_STATE);
        writer.packet(&packet)
    }

    fn begin(
        &mut self,
        call: Call,
        cost: &[(&'static str, Fact)],
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        let Call { method, flags, .. } = call;
        self.place(call.depth, writer)?;
        self.event.clear();
        self.event
            .varint(fields::event::TYPE, fields::event::SLICE_BEGIN);
        self.event
            .varint(fields::event::NAME_IID, self.names.iid(method));
        self.track(call.depth);
        let mut interned = Message::default();
        if self.names.is_new(method) {
            let mut name = Message::default();
            name.varint(fields::interned::IID, self.names.iid(method));
            name.string(fields::interned::NAME, &method_name(&self.names, method));
            interned.message(fields::interned::EVENT_NAMES, &name);
        }
        if flags != Flags::default() || call.depth >= MAX_DEPTH {
            if flags.contains(Flags::OPEN_START) {
                self.annotate(Annotation::Start.text("before the trace"), &mut interned);
            }
            if flags.contains(Flags::OPEN_END) {
                self.annotate(Annotation::End.text("not seen"), &mut interned);
            }
            if flags.contains(Flags::NATIVE) {
                self.annotate(Annotation::Part.text("native"), &mut interned);
            }
            if flags.contains(Flags::SAMPLED) {
                let (earliest, latest) = self.samples.bounds(&call);
                let (earlier, later) = (call.start_ns - earliest, latest - call.end_ns);
                self.annotate(Annotation::Sampled.bool(true), &mut interned);
                self.annotate(Annotation::EarlierBy.number(earlier), &mut interned);
                self.annotate(Annotation::LaterBy.number(later), &mut interned);
            }
        }
        if let Some(m) = self.names.methods.get(method.0 as usize) {
            if !m.is_named() {
                self.annotate(Annotation::Address.pointer(m.address), &mut interned);
            }
        }
        for (name, fact) in cost {
            add_fact(&mut self.event, name, fact);
        }
        self.event_packet(call.start_ns, &interned, writer)
    }

    fn end(&mut self, call: Call, writer: &mut Writer<'_>) -> io::Result<()> {
        self.event.clear();
        self.event
            .varint(fields::event::TYPE, fields::event::SLICE_END);
        self.track(call.depth);
        let mut interned = Message::default();
        if call.flags.contains(Flags::BY_EXCEPTION) {
            self.annotate(Annotation::LeftBy.text("exception"), &mut interned);
        }
        self.event_packet(call.end_ns, &interned, writer)
    }

    /// Marks the place from which on the ring was overwritten.
    fn ring_begins(&mut self, writer: &mut Writer<'_>) -> io::Result<()> {
        let overwritten = Fact::Number(self.thread.stats.overwritten_slots);
        let instant = Instant {
            at_ns: self.thread.start_ns,
            name: "older calls were overwritten".to_owned(),
            facts: vec![("slots", overwritten)],
            flows: Vec::new(),
        };
        self.instant(&instant, 0, writer)
    }

    /// An instant with `running` calls around it.
    fn instant(
        &mut self,
        instant: &Instant,
        running: u32,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        self.place(running, writer)?;
        self.event = instant_event(&instant.name);
        self.track(running);
        for (name, fact) in &instant.facts {
            add_fact(&mut self.event, name, fact);
        }
        add_flows(&mut self.event, &instant.flows, self.numbers);
        self.event_packet(instant.at_ns, &Message::default(), writer)
    }

    /// Waits, messages, tasks: on the thread's track if it has no calls, otherwise on a track of their own, as they may overlap
    /// calls.
    fn slices(&mut self, extras: &Extras, writer: &mut Writer<'_>) -> io::Result<()> {
        if extras.slices.is_empty() {
            return Ok(());
        }
        let thread = self.numbers.track(self.index, 0);
        let uuid = match self.thread.calls.is_empty() {
            true => thread,
            false => {
                let uuid = self.numbers.slices(self.index);
                let mut track = Message::default();
                track.varint(fields::track::UUID, uuid);
                track.varint(fields::track::PARENT_UUID, thread);
                track.string(
                    fields::track::NAME,
                    &format!("{}, events", self.thread.name),
                );
                let mut packet = Message::default();
                packet.append(&self.tail);
                packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
                writer.packet(&packet)?;
                uuid
            }
        };
        // The ends of the slices around the next one, the innermost last.
        let mut around: Vec<u64> = Vec::new();
        let end = |tail: &Message, at_ns: u64, writer: &mut Writer<'_>| {
            let mut event = Message::default();
            event.varint(fields::event::TYPE, fields::event::SLICE_END);
            event.varint(fields::event::TRACK_UUID, uuid);
            absolute(tail, at_ns, &event, writer)
        };
        for slice in &extras.slices {
            while let Some(at_ns) = around.pop_if(|end| *end <= slice.start_ns) {
                end(&self.tail, at_ns, writer)?;
            }
            let mut event = Message::default();
            event.varint(fields::event::TYPE, fields::event::SLICE_BEGIN);
            event.string(fields::event::CATEGORIES, CATEGORY);
            event.string(fields::event::NAME, &slice.name);
            event.varint(fields::event::TRACK_UUID, uuid);
            for (name, fact) in &slice.facts {
                add_fact(&mut event, name, fact);
            }
            add_flows(&mut event, &slice.flows, self.numbers);
            absolute(&self.tail, slice.start_ns, &event, writer)?;
            around.push(slice.end_ns);
        }
        while let Some(at_ns) = around.pop() {
            end(&self.tail, at_ns, writer)?;
        }
        Ok(())
    }

    /// The thread's counters, each on a track of its own.
    fn counters(&mut self, extras: &Extras, writer: &mut Writer<'_>) -> io::Result<()> {
        let mut described: Vec<Counter> = Vec::new();
        for &Sample {
            at_ns,
            counter,
            value,
        } in &extras.samples
        {
            let uuid = self.numbers.counter(self.index, counter);
            if !described.contains(&counter) {
                described.push(counter);
                let mut unit = Message::default();
                unit.varint(fields::counter::UNIT, unit_of(counter));
                let mut track = Message::default();
                track.varint(fields::track::UUID, uuid);
                track.varint(
                    fields::track::PARENT_UUID,
                    self.numbers.track(self.index, 0),
                );
                track.string(fields::track::NAME, counter.name());
                track.message(fields::track::COUNTER, &unit);
                let mut packet = Message::default();
                packet.append(&self.tail);
                packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
                writer.packet(&packet)?;
            }
            let mut event = Message::default();
            event.varint(fields::event::TYPE, fields::event::COUNTER);
            event.varint(fields::event::TRACK_UUID, uuid);
            event.varint(fields::event::COUNTER_VALUE, value);
            absolute(&self.tail, at_ns, &event, writer)?;
        }
        Ok(())
    }

    /// Describes the tracks down to the one for calls at `depth`.
    fn place(&mut self, depth: u32, writer: &mut Writer<'_>) -> io::Result<()> {
        let part = depth / MAX_DEPTH;
        while self.parts <= part {
            let mut track = Message::default();
            track.varint(
                fields::track::UUID,
                self.numbers.track(self.index, self.parts),
            );
            track.varint(
                fields::track::PARENT_UUID,
                self.numbers.track(self.index, 0),
            );
            let name = format!(
                "{}, from call depth {} on",
                self.thread.name,
                self.parts * MAX_DEPTH
            );
            track.string(fields::track::NAME, &name);
            let mut packet = Message::default();
            packet.varint(fields::packet::SEQUENCE, self.numbers.sequence(self.index));
            packet.varint(fields::packet::FLAGS, fields::packet::NEEDS_STATE);
            packet.message(fields::packet::TRACK_DESCRIPTOR, &track);
            writer.packet(&packet)?;
            self.parts += 1;
        }
        Ok(())
    }

    /// Sets the track for calls at `depth`; the sequence's default track holds the outermost ones.
    fn track(&mut self, depth: u32) {
        let part = depth / MAX_DEPTH;
        if part > 0 {
            let uuid = self.numbers.track(self.index, part);
            self.event.varint(fields::event::TRACK_UUID, uuid);
        }
    }

    fn annotate(&mut self, annotation: Message, interned: &mut Message) {
        self.event.message(fields::event::ANNOTATIONS, &annotation);
        if !std::mem::replace(&mut self.annotations_interned, true) {
            for (annotation, text) in Annotation::ALL {
                let mut name = Message::default();
                name.varint(fields::interned::IID, annotation as u64);
                name.string(fields::interned::NAME, text);
                interned.message(fields::interned::ANNOTATION_NAMES, &name);
            }
        }
    }

    fn event_packet(
        &mut self,
        at_ns: u64,
        interned: &Message,
        writer: &mut Writer<'_>,
    ) -> io::Result<()> {
        let packet = &mut self.packet;
        packet.clear();
        packet.varint(fields::packet::TIMESTAMP, at_ns.saturating_sub(self.now_ns));
        self.now_ns = self.now_ns.max(at_ns);
        packet.append(&self.tail);
        if !interned.is_empty() {
            packet.message(fields::packet::INTERNED, interned);
        }
        packet.message(fields::packet::TRACK_EVENT, &self.event);
        writer.packet(packet)
    }
}

fn method_name(names: &Names<'_>, method: MethodId) -> String {
    match names.methods.get(method.0 as usize) {
        Some(method) => method.full_name(),
        None => hindsight_decoder::Methods::NOT_RECORDED_NAME.to_owned(),
    }
}

fn unit_of(counter: Counter) -> u64 {
    match counter {
        Counter::CpuTime => fields::counter::UNIT_TIME_NS,
        Counter::AllocatedBytes => fields::counter::UNIT_SIZE_BYTES,
        _ => fields::counter::UNIT_COUNT,
    }
}
