// SPDX-License-Identifier: Apache-2.0
//! Perfetto exports, decoded by prost with types that declare the fields as Perfetto's schema does: name, type, number
//! (protos/perfetto/trace of Perfetto v51). The exporter writes field numbers by hand.

use std::collections::HashMap;

use hindsight_decoder::{Damage, DamagedPart, Extension, Trace};
use hindsight_export::{write, Format};
use hindsight_testkit::{Script, EPOCH, REALTIME_OFFSET};
use prost::Message;

/// trace.proto
#[derive(Clone, PartialEq, Message)]
struct TraceFile {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// trace_packet.proto
#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "59")]
    trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

const SEQ_INCREMENTAL_STATE_CLEARED: u32 = 1;
const SEQ_NEEDS_INCREMENTAL_STATE: u32 = 2;

/// trace_packet_defaults.proto
#[derive(Clone, PartialEq, Message)]
struct TracePacketDefaults {
    #[prost(message, optional, tag = "11")]
    track_event_defaults: Option<TrackEventDefaults>,
    #[prost(uint32, optional, tag = "58")]
    timestamp_clock_id: Option<u32>,
}

/// track_event/track_event.proto
#[derive(Clone, PartialEq, Message)]
struct TrackEventDefaults {
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
}

/// clock_snapshot.proto
#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
    #[prost(enumeration = "BuiltinClock", optional, tag = "2")]
    primary_trace_clock: Option<i32>,
}

/// clock_snapshot.proto
#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
    #[prost(bool, optional, tag = "3")]
    is_incremental: Option<bool>,
}

/// common/builtin_clock.proto
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum BuiltinClock {
    Realtime = 1,
    Monotonic = 3,
    Boottime = 6,
}

/// track_event/track_descriptor.proto
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

/// track_event/process_descriptor.proto
#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    process_name: Option<String>,
}

/// track_event/thread_descriptor.proto
#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    tid: Option<i32>,
    #[prost(string, optional, tag = "5")]
    thread_name: Option<String>,
}

/// track_event/counter_descriptor.proto
#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {
    #[prost(enumeration = "Unit", optional, tag = "3")]
    unit: Option<i32>,
}

/// track_event/counter_descriptor.proto
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Unit {
    Unspecified = 0,
    TimeNs = 1,
    Count = 2,
    SizeBytes = 3,
}

/// track_event/track_event.proto
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(enumeration = "Type", optional, tag = "9")]
    r#type: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

/// track_event/track_event.proto
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
enum Type {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

/// track_event/debug_annotation.proto
#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(uint64, optional, tag = "7")]
    pointer_value: Option<u64>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

/// interned_data/interned_data.proto
#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    debug_annotation_names: Vec<InternedName>,
}

/// `EventName` and `DebugAnnotationName`.
#[derive(Clone, PartialEq, Message)]
struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
}

/// A trace whose export has every field and value that the exporter knows.
fn everything() -> Trace {
    let mut s = Script::new("com.example");
    s.process.pid = 70;
    s.process.reason = "asked for".into();
    s.losses.counts.push(("threads without a ring".into(), 3));
    let f = s.method("a.C.f", "()V");
    let (main, worker) = (s.thread(70, "main"), s.thread(71, "worker"));
    let mut r = s.at(main, 100);
    r.exit().enter(f).enter(0x7f12_3456_7890).after(5).unwind(1);
    r.extension(Extension::LockWait, &[71, 0xabc]);
    r.extension(Extension::MessageEnqueued, &[9, 71]);
    r.extension(Extension::ThreadCpuTime, &[400]);
    r.extension(Extension::Allocations, &[10, 320]).after(5);
    r.extension(Extension::ResourceUse, &[5, 1, 2, 3]);
    s.at(worker, 150)
        .event(Extension::MessageDispatched, &[("message", 9)])
        .after(5)
        .event(Extension::MessageDone, &[("message", 9)]);
    let mut trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    trace.damaged.push(Damage {
        part: DamagedPart::Symbols,
        reason: "the checksum is wrong".into(),
    });
    trace
}

#[test]
fn every_field_has_the_number_and_the_type_of_the_schema() {
    let trace = everything();
    let mut bytes = Vec::new();
    write(&trace, Format::Perfetto, &mut bytes).unwrap();
    let file = TraceFile::decode(&bytes[..]).unwrap();
    // Fields that the types do not have, or of another type, would be lost here.
    assert_eq!(file.encoded_len(), bytes.len());

    // Clocks.
    let first = &file.packet[0];
    let snapshot = first.clock_snapshot.as_ref().unwrap();
    assert_eq!(snapshot.primary_trace_clock(), BuiltinClock::Boottime);
    let taken = trace.clock.reference();
    let clocks: Vec<_> = snapshot
        .clocks
        .iter()
        .map(|c| (c.clock_id(), c.timestamp()))
        .collect();
    let expected = [
        (BuiltinClock::Boottime, taken.boottime_ns),
        (BuiltinClock::Monotonic, taken.monotonic_ns),
        (BuiltinClock::Realtime, taken.boottime_ns + REALTIME_OFFSET),
    ];
    assert_eq!(clocks, expected.map(|(clock, ns)| (clock as u32, ns)));
    assert_eq!(first.sequence_flags(), SEQ_INCREMENTAL_STATE_CLEARED);

    // Tracks.
    let descriptors = || {
        file.packet
            .iter()
            .filter_map(|p| p.track_descriptor.as_ref())
    };
    let process = descriptors().find(|d| d.process.is_some()).unwrap();
    let facts = process.process.as_ref().unwrap();
    assert_eq!((facts.pid(), facts.process_name()), (70, "com.example"));
    let threads: Vec<_> = descriptors()
        .filter_map(|d| Some((d.thread.as_ref()?, d.parent_uuid())))
        .map(|(t, parent)| (t.pid(), t.tid(), t.thread_name(), parent))
        .collect();
    let parent = process.uuid();
    assert_eq!(
        threads,
        [(70, 70, "main", parent), (70, 71, "worker", parent)]
    );
    let counters: HashMap<u64, (&str, Unit)> = descriptors()
        .filter_map(|d| Some((d.uuid(), (d.name(), d.counter.as_ref()?.unit()))))
        .collect();
    let main_track = descriptors().find(|d| d.thread.is_some()).unwrap().uuid();
    assert!(descriptors()
        .filter(|d| d.counter.is_some())
        .all(|d| d.parent_uuid() == main_track));

    // The thread's own clock and track.
    let defaults = file
        .packet
        .iter()
        .find(|p| p.trace_packet_defaults.is_some());
    let defaults = defaults.unwrap();
    let incremental = &defaults.clock_snapshot.as_ref().unwrap().clocks[1];
    assert!(incremental.is_incremental());
    let own = defaults.trace_packet_defaults.as_ref().unwrap();
    assert_eq!(own.timestamp_clock_id(), incremental.clock_id());
    let own_track = own.track_event_defaults.as_ref().unwrap().track_uuid();
    assert_eq!(own_track, main_track);
    let sequence = defaults.trusted_packet_sequence_id();
    assert_eq!(defaults.sequence_flags(), SEQ_NEEDS_INCREMENTAL_STATE);

    // The events of the main thread.
    let mut names = HashMap::new();
    let mut annotation_names = HashMap::new();
    let (mut now, mut seen, mut values) = (EPOCH + 100, Vec::new(), Vec::new());
    for packet in file
        .packet
        .iter()
        .filter(|p| p.trusted_packet_sequence_id() == sequence)
    {
        if let Some(interned) = &packet.interned_data {
            let pairs = |names: &[InternedName]| -> Vec<(u64, String)> {
                names
                    .iter()
                    .map(|n| (n.iid(), n.name().to_owned()))
                    .collect()
            };
            names.extend(pairs(&interned.event_names));
            annotation_names.extend(pairs(&interned.debug_annotation_names));
        }
        let Some(event) = &packet.track_event else {
            continue;
        };
        if event.r#type() == Type::Counter {
            assert_eq!(packet.timestamp_clock_id(), BuiltinClock::Boottime as u32);
            let (name, unit) = counters[&event.track_uuid()];
            values.push((name, unit, event.counter_value()));
            continue;
        }
        now += packet.timestamp();
        let details: Vec<String> = event
            .debug_annotations
            .iter()
            .map(|a| {
                let name = match a.name_iid {
                    Some(iid) => annotation_names[&iid].as_str(),
                    None => a.name(),
                };
                match (&a.string_value, a.uint_value, a.pointer_value) {
                    (Some(text), None, None) => format!("{name}={text}"),
                    (None, Some(number), None) => format!("{name}={number}"),
                    (None, None, Some(pointer)) => format!("{name}={pointer:#x}"),
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        let name = match event.name_iid {
            Some(iid) => names[&iid].as_str(),
            None => event.name(),
        };
        let flow = match (&event.flow_ids[..], &event.terminating_flow_ids[..]) {
            ([], []) => "",
            ([_], []) => " >",
            other => panic!("{other:?}"),
        };
        let categories = event.categories.join("+");
        seen.push(format!(
            "{} {:?} {name} {details:?} {categories}{flow}",
            now - EPOCH,
            event.r#type()
        ));
    }
    assert_eq!(
        seen,
        [
            r#"100 SliceBegin <entered before the trace> ["start=before the trace"] "#,
            r#"100 SliceEnd  [] "#,
            r#"100 SliceBegin a.C.f ["end=not seen"] "#,
            r#"100 SliceBegin <method 0x7f1234567890> ["ArtMethod=0x7f1234567890"] "#,
            r#"105 Instant waits for a lock ["held by=worker (71)", "lock=0xabc"] hindsight"#,
            r#"105 Instant message enqueued ["message=0x9", "for thread=worker (71)"] hindsight >"#,
            r#"105 SliceEnd  ["left by=exception"] "#,
        ]
    );
    assert_eq!(
        values,
        [
            ("CPU time", Unit::TimeNs, 400),
            ("allocated objects", Unit::Count, 10),
            ("allocated bytes", Unit::SizeBytes, 320),
            ("minor page faults", Unit::Count, 5),
            ("major page faults", Unit::Count, 1),
            ("voluntary context switches", Unit::Count, 2),
            ("involuntary context switches", Unit::Count, 3),
        ]
    );
    // The other end of the flow.
    let events = || file.packet.iter().filter_map(|p| p.track_event.as_ref());
    let cause = events().find_map(|e| e.flow_ids.first());
    assert_eq!(events().find_map(|e| e.terminating_flow_ids.first()), cause);
    let taken = events()
        .find(|e| e.name() == "Hindsight trace taken")
        .unwrap();
    let lost = taken
        .debug_annotations
        .iter()
        .find(|a| a.name().starts_with("lost: threads"));
    assert_eq!(lost.unwrap().uint_value(), 3);
}
