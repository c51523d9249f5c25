// SPDX-License-Identifier: Apache-2.0
//! The memory of a killed process has what a file of the same events has; damaged memory is no problem for its reader.

use std::path::Path;

use hindsight_decoder::{Error, Extension, Flags, Trace};
use hindsight_testkit::{stall, transaction, Script, Workload};
use hindsight_trace_format::shared::{read, Header, Open, OpenEvent, RingControl};
use hindsight_trace_format::slot::Slot;

fn decode(bytes: &[u8]) -> Result<Trace, Error> {
    Trace::decode(Path::new("1.memory"), bytes)
}

/// Methods and depths of the calls of each thread.
fn calls(trace: &Trace) -> Vec<(String, Vec<(String, u64)>)> {
    let of = |thread: &hindsight_decoder::Thread| {
        let call = |call: hindsight_decoder::Call| {
            let name = trace.methods.name(call.method).into_owned();
            (name, call.depth.into())
        };
        (thread.name.clone(), thread.calls.iter().map(call).collect())
    };
    trace.threads.iter().map(of).collect()
}

#[test]
fn memory_and_file_of_the_same_events_say_the_same() {
    for script in [stall(), transaction()] {
        let (file, memory) = (
            decode(&script.encode()).unwrap(),
            decode(&script.shared_memory()).unwrap(),
        );
        assert_eq!(calls(&memory), calls(&file));
        assert_eq!(memory.strings, file.strings);
        assert_eq!(memory.process.name, file.process.name);
        let events = |trace: &Trace| trace.threads.iter().map(|t| t.events.len()).sum::<usize>();
        assert_eq!(events(&memory), events(&file));
    }
}

/// A ring that has wrapped, with calls that began before its oldest slot.
fn wrapped(laps: f64) -> Script {
    Workload {
        seed: 3,
        laps,
        ring_log2_bytes: 15,
        methods: 40,
        ..Workload::default()
    }
    .script()
}

#[test]
fn a_ring_that_has_wrapped_has_all_but_the_rest_of_its_newest_segment() {
    for laps in [0.9, 1.01, 1.4, 2.99] {
        let script = wrapped(laps);
        let file = decode(&script.encode()).unwrap();
        let memory = decode(&script.shared_memory()).unwrap();
        assert!(memory.damaged.is_empty());
        let (of_file, of_memory) = (&file.threads[0], &memory.threads[0]);
        let lost = of_file.stats.slots - of_memory.stats.slots;
        assert!(lost <= 512, "{laps} laps: {lost} slots lost");
        let ends = |thread: &hindsight_decoder::Thread| {
            let mut ends: Vec<u64> = thread.calls.iter().map(|call| call.end_ns).collect();
            ends.sort_unstable();
            ends.split_off(ends.len() - 100)
        };
        assert_eq!(ends(of_memory), ends(of_file), "{laps} laps");
    }
}

#[test]
fn any_damage_is_read_or_refused() {
    let mut script = Script::new("small");
    let work = script.method("a.B.work", "()V");
    script.string("a mark");
    let stack = script.stack(&[(work, 3)]);
    let main = script.ring_log2_bytes(12).thread(100, "main");
    script
        .at(main, 10)
        .enter(work)
        .extension(Extension::Stack, &stack);
    script.at(main, 30).exit();
    let memory = script.shared_memory();
    decode(&memory).unwrap();
    let ends = [size_of::<Header>(), memory.len().min(4096 + 1024)];
    let header = 0..ends[0];
    let controls = ended_controls(&memory);
    for at in header.chain(4096..ends[1]).chain(controls) {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = memory.clone();
            damaged[at] = value;
            // Sizes are bounded, whatever the memory says.
            let _ = read(&damaged[..], 1 << 16)
                .map(|ended| ended.contents(&Default::default()).map(drop));
        }
    }
    for length in [0, 1, 8, 4095, 4096, 5000, memory.len() - 1] {
        let _ = read(&memory[..length], 1 << 24);
        let _ = decode(&memory[..length]);
    }
}

/// The bytes of the first two controls.
fn ended_controls(memory: &[u8]) -> std::ops::Range<usize> {
    let at = std::mem::offset_of!(Header, controls);
    let offset = u64::from_le_bytes(memory[at..at + 8].try_into().unwrap()) as usize;
    offset..offset + 2 * size_of::<RingControl>()
}

#[test]
fn an_address_that_several_methods_may_have_has_no_name() {
    let mut script = Script::new("ambiguous");
    let (first, other) = (
        script.method("a.B.first", "()V"),
        script.method("a.B.other", "()V"),
    );
    // The process writes an empty name for a later class with the same address.
    script.reused_by(first, 5, "");
    let main = script.ring_log2_bytes(12).thread(100, "main");
    script.at(main, 10).enter(first).at(20).enter(other);
    let trace = decode(&script.shared_memory()).unwrap();
    let named: Vec<bool> = (trace.methods.iter())
        .map(|(_, method)| method.is_named())
        .collect();
    assert_eq!(
        named.iter().filter(|is_named| **is_named).count(),
        1,
        "{named:?}"
    );
    assert_eq!(
        trace.losses.counts,
        [("methods without a name".to_owned(), 1)]
    );
}

/// A thread whose ring was taken while it stood still, and which has recorded nothing since.
#[test]
fn a_thread_that_stands_still_has_its_calls_in_each_memory() {
    const DISPATCHED_NS: u64 = 7_000_000_000;
    let mut script = Script::new("app");
    let (run, read) = (
        script.method("a.B.run", "()V"),
        script.method("a.B.read", "()V"),
    );
    let main = script.thread(100, "main");
    script.header(main).part = 3;
    let began = script.header(main).started_counter;
    script.header(main).started_counter = began + 9_000_000_000;
    let event = |ns: u64, number: u32, payload: &[u64]| {
        let counter = began + ns;
        let closing = Slot::new(number, counter).0;
        let slots = payload.iter().copied().chain([closing]).collect();
        OpenEvent { counter, slots }
    };
    let message = Extension::MessageDispatched.number();
    let open = Open {
        complete_from: began + 8_000_000_000,
        before: vec![event(DISPATCHED_NS, message, &[8, read, 1])],
        calls: vec![run],
        since: vec![event(8_500_000_000, read as u32, &[])],
    };
    script.under_way(main, &open);
    // It goes on for long, also compared to what the lower half of the counter can tell.
    script.stop_at(30_000_000_000);
    let trace = decode(&script.shared_memory()).unwrap();
    assert!(trace.damaged.is_empty(), "{:?}", trace.damaged);
    let [(_, found)] = &calls(&trace)[..] else {
        panic!("{:?}", calls(&trace));
    };
    let open = |name: &str, depth| (name.to_owned(), depth);
    assert_eq!(found[..], [open("a.B.run", 0), open("a.B.read", 1)]);
    let thread = &trace.threads[0];
    let [event] = &thread.events[..] else {
        panic!("{:?}", thread.events);
    };
    assert_eq!(event.kind, Extension::MessageDispatched);
    assert_eq!(trace.methods.name(event.method), "a.B.read");
    let call = thread.calls.get(1);
    assert_eq!(call.start_ns - event.at_ns, 1_500_000_000);
    assert_eq!(call.flags, Flags::OPEN_END);
    let caller = thread.calls.get(0);
    assert_eq!(caller.start_ns - event.at_ns, 1_000_000_000);
    assert_eq!(caller.flags, Flags::OPEN_START.with(Flags::OPEN_END));
    assert_eq!(thread.start_ns, event.at_ns);
    assert_eq!(
        (thread.stats.contradicting_times, thread.stats.gaps),
        (0, 0)
    );
}

/// The ring that the thread had before is still there: it has the events of what was under way.
#[test]
fn beside_the_ring_before_only_the_calls_go_on() {
    let mut script = Script::new("app");
    let run = script.method("a.B.run", "()V");
    let message = Extension::MessageDispatched.number();
    let first = script.thread(100, "main");
    script
        .at(first, 10)
        .raw_extension(message, &[8, run, 1])
        .enter(run);
    script.header(first).thread = 5;
    let second = script.thread(100, "main");
    let began = script.header(second).started_counter;
    let header = script.header(second);
    (header.thread, header.part, header.started_counter) = (5, 1, began + 1000);
    let slots = vec![8, run, 1, Slot::new(message, began + 10).0];
    let open = Open {
        complete_from: began + 10,
        calls: vec![run],
        since: vec![OpenEvent {
            counter: began + 10,
            slots,
        }],
        ..Open::default()
    };
    script.under_way(second, &open);
    script.at(second, 2000).exit();
    let decoded = |script: &Script| decode(&script.shared_memory()).unwrap();
    let both = decoded(&script);
    let parts = ["a.B.run", "a.B.run"].map(|name| (name.to_owned(), 0));
    assert_eq!(calls(&both), [("main".to_owned(), parts.to_vec())]);
    let thread = &both.threads[0];
    assert_eq!((thread.parts.len(), thread.events.len()), (2, 1));
    let after = thread.calls.get(1);
    assert_eq!(after.start_ns, thread.parts[1].start_ns);
    assert_eq!(after.end_ns - after.start_ns, 1000);
    // A ring of another thread is none before, and neither is one with another between them.
    for (thread, part, messages) in [(6, 1, [1, 1].as_slice()), (5, 2, &[1])] {
        script.header(first).thread = thread;
        script.header(second).part = part;
        let trace = decoded(&script);
        let events = trace.threads.iter().map(|t| t.events.len());
        assert!(events.eq(messages.iter().copied()), "{thread} {part}");
    }
}
