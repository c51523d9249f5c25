// SPDX-License-Identifier: Apache-2.0
//! The time of every event is exact, whatever the gaps between events: the thread records `FullTime` before the first event
//! after each change of the counter's upper half. Thread and counter are simulated, by the rule that the trace stubs follow.

use std::io::Cursor;
use std::path::Path;

use hindsight_decoder::{Extension, Trace};
use hindsight_trace_format::container::{
    Anchor, ClockSample, Clocks, Epochs, ProcessFacts, RingHeader, SectionKind, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};
use proptest::prelude::*;

const WRAP: u64 = 1 << 32;

/// Ticks since the event before it.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![
        20 => 0..1000_u64,
        5 => 0..WRAP / 2,
        3 => (0..4_u64, 0..2000_u64).prop_map(|(wraps, d)| (wraps * WRAP + d).saturating_sub(1000)),
        2 => 0..40 * WRAP,
    ]
}

struct Recorded {
    /// The counter at each event.
    times: Vec<u64>,
    slots: Vec<Slot>,
    /// The counter when the ring is taken.
    stopped: u64,
    /// The epoch of the newest slot.
    epoch: u32,
}

/// What a thread records that has an event after each of these gaps.
fn record(start: u64, gaps: &[u64], last_gap: u64) -> Recorded {
    let (mut now, mut epoch) = (start, start >> 32);
    let (mut times, mut slots) = (Vec::new(), Vec::new());
    for (i, gap) in (0..).zip(gaps) {
        now += gap;
        if now >> 32 != epoch {
            let last_before = epoch << 32 | u64::from(u32::MAX);
            epoch = now >> 32;
            slots.extend([
                Slot(last_before),
                Slot(now),
                Slot::extension(Extension::FullTime, now),
            ]);
        }
        slots.extend([Slot(i), Slot::extension(Extension::UserMark, now)]);
        times.push(now);
    }
    Recorded {
        times,
        slots,
        stopped: now + last_gap,
        epoch: epoch as u32,
    }
}

/// The bytes of a file with this thread in it.
fn file(start: u64, recorded: &Recorded, geometry: Geometry) -> Vec<u8> {
    let slots = &recorded.slots;
    let epochs = Epochs {
        epoch: recorded.epoch,
        ..Epochs::default()
    };
    let capacity = geometry.slots();
    let header = RingHeader {
        tid: 1,
        name: "main".into(),
        geometry,
        position: Position {
            laps: (slots.len() / capacity) as u64,
            offset: (slots.len() % capacity * SLOT_BYTES) as u64,
        },
        started_counter: start,
        stopped_counter: recorded.stopped,
        epochs: Some(epochs),
        ..RingHeader::default()
    };
    let mut raw = vec![0; header.stored_bytes()];
    for (i, slot) in slots.iter().enumerate() {
        let at = i % capacity * SLOT_BYTES;
        raw[at..at + SLOT_BYTES].copy_from_slice(&slot.0.to_le_bytes());
    }
    let newest = Anchor {
        counter: recorded.stopped.min(epochs.end()),
        slots_written: slots.len() as u64,
    };
    let clocks = Clocks {
        ticks_per_second: 2_712_345_678,
        source: "simulated".into(),
        samples: vec![ClockSample {
            counter: recorded.stopped,
            boottime_ns: u64::MAX / 2,
            ..ClockSample::default()
        }],
        ..Clocks::default()
    };
    let mut out = Cursor::new(Vec::new());
    let mut writer = Writer::new(&mut out).unwrap();
    let sections: [(SectionKind, &[&[u8]]); 4] = [
        (SectionKind::Process, &[&ProcessFacts::default().encode()]),
        (SectionKind::Clocks, &[&clocks.encode()]),
        (SectionKind::Ring, &[&header.encode(), &raw]),
        (SectionKind::Anchors, &[&Anchor::encode_all(&[newest])]),
    ];
    for (kind, parts) in sections {
        writer.section(kind, 0, parts).unwrap();
    }
    writer.finish().unwrap();
    out.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn across_gaps_of_many_wraps(
        start in 0..u64::MAX / 4,
        gaps in prop::collection::vec(gap(), 1..600),
        last_gap in gap(),
        log2_bytes in 12..15_u32,
    ) {
        let geometry = Geometry::new(log2_bytes).unwrap();
        let recorded = record(start, &gaps, last_gap);
        let bytes = file(start, &recorded, geometry);
        let trace = Trace::decode(Path::new("simulated"), &bytes).unwrap();
        let thread = &trace.threads[0];
        prop_assert_eq!(thread.stats.unbounded_slots, 0);
        prop_assert_eq!(thread.stats.contradicting_times, 0);
        prop_assert_eq!(thread.stats.anchors_ignored, 0);
        let marks = thread.events.iter().filter(|e| e.kind == Extension::UserMark);
        let mut newest = 0;
        for event in marks {
            newest = event.payload[0] as usize;
            prop_assert_eq!(event.at_ns, trace.clock.to_ns(recorded.times[newest]), "event {}", newest);
        }
        prop_assert_eq!(newest + 1, recorded.times.len());
    }
}
