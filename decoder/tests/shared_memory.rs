// SPDX-License-Identifier: Apache-2.0
//! The memory of a killed process has what a file of the same events has; damaged memory is no problem for its reader.

use std::path::Path;

use hindsight_decoder::{Error, Extension, Trace};
use hindsight_testkit::{stall, transaction, Script, Workload};
use hindsight_trace_format::shared::{read, Header, RingControl};

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
