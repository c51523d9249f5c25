// SPDX-License-Identifier: Apache-2.0
//! Files written part by part are the same as files written in one piece, and only rings that were taken are read of a living
//! process.

mod common;

use std::io::Cursor;

use hindsight_testkit::Script;
use hindsight_trace_format::container::{ClockSample, Consent, Reader, Writer};
use hindsight_trace_format::shared::{
    read, Ending, EndingError, ReadLimits, RingFilter, SharedReader,
};

const LIMITS: ReadLimits = ReadLimits::of_rings(1 << 30);

fn script(threads: u32) -> Script {
    let mut script = Script::new("com.example.parts");
    script.process.uid = 10_123;
    script.ring_log2_bytes(14);
    for tid in 0..threads {
        let method = script.method(&format!("com.example.Thread{tid}.run"), "()V");
        let other = script.method(&format!("com.example.Thread{tid}.work"), "(I)V");
        script.stack(&[(method, 1), (other, 2)]);
        let thread = script.thread(100 + tid, &format!("Alice's thread {tid}"));
        for call in 0..u64::from(500 * (tid + 1)) {
            let mut at = script.at(thread, 1000 * call + 10);
            at.enter(method).after(5).call(other, 7).after(2).exit();
        }
    }
    script
}

/// The file, written part by part.
fn streamed(memory: &[u8], filter: RingFilter, ending: &Ending, consent: Consent) -> Vec<u8> {
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let reader = SharedReader::new(memory, filter, LIMITS).unwrap();
    reader.write(&mut writer, ending, consent).unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn parts_make_the_same_file() {
    let now = ClockSample {
        counter: 60_000_000_000,
        monotonic_ns: 60_000_000_000,
        boottime_ns: 60_000_000_000,
        realtime_ns: 1_795_000_060_000_000_000,
    };
    for threads in 1..5 {
        let memory = script(threads).shared_memory();
        for consent in Consent::ALL {
            for raised_by in [0, 101] {
                let mut ending = Ending {
                    reason: "a reason".into(),
                    raised_by,
                    now: Some(now),
                    ended_boottime_ns: 59_000_000_000,
                };
                let ended = read(&memory[..], 1 << 30).unwrap();
                let whole = ended.contents(&ending).unwrap().encode(consent).unwrap();
                let parts = streamed(&memory, RingFilter::All, &ending, consent);
                assert_eq!(parts, whole);
                // Then the clocks come after the rings.
                ending.now = None;
                let whole = ended.contents(&ending).unwrap().encode(consent).unwrap();
                let parts = streamed(&memory, RingFilter::All, &ending, consent);
                let (whole, parts) = (Reader::new(&whole).unwrap(), Reader::new(&parts).unwrap());
                assert_eq!(parts.clocks(), whole.clocks());
                assert_eq!(parts.sections().len(), whole.sections().len());
                parts.verify_all().unwrap();
            }
        }
    }
}

#[test]
fn only_rings_that_were_taken_are_read_of_a_living_process() {
    let script = script(3);
    let mut memory = script.shared_memory();
    let ending = Ending::default();
    let reader = SharedReader::new(&memory[..], RingFilter::Taken, LIMITS).unwrap();
    let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
    let nothing = reader.write(&mut writer, &ending, Consent::Content);
    assert!(matches!(nothing, Err(EndingError::NoRings)));
    common::take_ring(&mut memory, 1);
    for (filter, rings) in [(RingFilter::Taken, 1), (RingFilter::All, 3)] {
        let file = streamed(&memory, filter, &ending, Consent::Content);
        let reader = Reader::new(&file).unwrap();
        assert_eq!(reader.ring_indices().count(), rings);
        if rings == 1 {
            assert_eq!(reader.ring(0).unwrap().unwrap().header.tid, 101);
        }
    }
}

#[test]
fn what_is_over_a_limit_is_left_out_and_counted() {
    let memory = script(3).shared_memory();
    let ending = Ending::default();
    for (limits, rings) in [
        (
            ReadLimits {
                ring: 1 << 13,
                ..LIMITS
            },
            0,
        ),
        (
            ReadLimits {
                all_rings: 2 << 14,
                ..LIMITS
            },
            2,
        ),
        (
            ReadLimits {
                other: 64,
                ..LIMITS
            },
            3,
        ),
    ] {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        let mut reader = SharedReader::new(&memory[..], RingFilter::All, limits).unwrap();
        reader.set_process(7, 8);
        assert_eq!(reader.ring_count(), rings);
        let written = reader.write(&mut writer, &ending, Consent::Content);
        if rings == 0 {
            assert!(matches!(written, Err(EndingError::NoRings)));
            continue;
        }
        written.unwrap();
        let file = writer.finish().unwrap().into_inner();
        let reader = Reader::new(&file).unwrap();
        let process = reader.process().unwrap();
        assert_eq!((process.pid, process.uid), (7, 8));
        let losses = reader.losses().unwrap().counts;
        let lost = |part: &str| losses.iter().any(|(what, _)| what.contains(part));
        assert!(lost("names another process"));
        assert_eq!(lost("no memory to read them"), rings == 2);
        assert_eq!(reader.symbols().unwrap().symbols.is_empty(), rings == 3);
    }
}

/// A thread that waits records nothing: its last call goes on until the process ends.
#[test]
fn rings_end_when_their_process_ended() {
    let memory = script(2).shared_memory();
    let ended = read(&memory[..], 1 << 30).unwrap();
    let newest: Vec<u64> = ended
        .rings
        .iter()
        .map(|r| r.header.stopped_counter)
        .collect();
    let now = ClockSample {
        counter: ended.started.counter + 60 * ended.ticks_per_second,
        boottime_ns: 100_000_000_000,
        ..ended.started
    };
    let stops = |ended_boottime_ns| {
        let ending = Ending {
            now: Some(now),
            ended_boottime_ns,
            ..Ending::default()
        };
        let contents = ended.contents(&ending).unwrap();
        let rings = contents.rings.iter();
        rings
            .map(|r| r.header.stopped_counter)
            .collect::<Vec<u64>>()
    };
    assert_eq!(stops(0), newest);
    let end = ended.started.counter + 57 * ended.ticks_per_second;
    assert_eq!(stops(97_000_000_000), [end, end]);
    // Longer ago than the newest events.
    assert_eq!(stops(1), newest);
}
