// SPDX-License-Identifier: Apache-2.0
//! The runtime's anchors and the decoder together: the time of every event is exact, whatever the gaps
//! between events, for counters of any rate.
//!
//! Thread, control thread and counter are simulated; the runtime's own code decides when anchors are taken and
//! which are kept.

use std::io::Cursor;
use std::path::Path;
use std::time::Duration;

use hindsight_decoder::{Extension, Trace};
use hindsight_runtime::anchors::{interval, retry_after, AnchorLog};
use hindsight_trace_format::container::{
    Anchor, ClockSample, Clocks, ProcessFacts, RingHeader, SectionKind, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use hindsight_trace_format::slot::{Slot, SLOT_BYTES};
use proptest::prelude::*;

const WRAP: u64 = 1 << 32;
/// Ticks a second of the counters of phones, old and new, of ARMv9, and of a PC's TSC.
const RATES: [u64; 4] = [19_200_000, 62_500_000, 1_000_000_000, 2_712_345_678];

/// One event of the thread.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Ticks since the event before it.
    gap: u64,
    /// Ticks from its reading the counter to its slots being visible to others.
    held_up: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![
        20 => 0..1000_u64,
        5 => 0..WRAP / 2,
        3 => (0..4_u64, 0..2000_u64).prop_map(|(wraps, d)| (wraps * WRAP + d).saturating_sub(1000)),
        2 => 0..40 * WRAP,
    ];
    let held_up = prop_oneof![9 => Just(0), 1 => 0..WRAP / 16];
    (gap, held_up).prop_map(|(gap, held_up)| Step { gap, held_up })
}

/// Delays of the control thread, one for each anchor, repeated.
#[derive(Clone, Copy, Debug)]
struct Hindrance {
    /// How many attempts at an anchor fail because the thread is busy.
    misses: u32,
    /// Delay of the anchor, ticks.
    late: u64,
}

fn hindrance() -> impl Strategy<Value = Hindrance> {
    let misses = prop_oneof![9 => Just(0), 1 => 1..4_u32];
    (misses, 0..WRAP / 32).prop_map(|(misses, late)| Hindrance { misses, late })
}

struct Recorded {
    times: Vec<u64>,
    anchors: Vec<Anchor>,
    stopped: u64,
}

/// Lets the thread record its events while the control thread takes anchors.
fn record(rate: u64, start: u64, steps: &[Step], hindrances: &[Hindrance], ring: u64) -> Recorded {
    let ticks = |d: Duration| (d.as_secs_f64() * rate as f64) as u64;
    let pause = interval(rate);
    let mut hindrances = hindrances.iter().cycle();
    let mut log = AnchorLog::default();
    let mut due = start;
    let mut written = 0;
    let mut times = Vec::new();
    let mut visible = start;
    let mut take_anchors = |until: u64, written: u64| {
        while due < until {
            let hindrance = hindrances.next().copied().unwrap();
            let anchor = Anchor {
                counter: due,
                slots_written: written,
            };
            log.note(anchor, ring);
            due += ticks(pause) + hindrance.late;
            due += u64::from(hindrance.misses) * ticks(retry_after(pause));
        }
    };
    for step in steps {
        let now = visible + step.gap;
        visible = now + step.held_up;
        take_anchors(visible, written);
        times.push(now);
        written += 2;
    }
    take_anchors(visible + 3, written);
    Recorded {
        times,
        anchors: log.take(),
        stopped: visible + 3,
    }
}

/// The bytes of a file with this thread in it.
fn file(rate: u64, start: u64, recorded: &Recorded, geometry: Geometry) -> Vec<u8> {
    let slots: Vec<Slot> = (0_u64..)
        .zip(&recorded.times)
        .flat_map(|(i, &at)| [Slot(i), Slot::extension(Extension::UserMark, at)])
        .collect();
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
        ..RingHeader::default()
    };
    let mut raw = vec![0; header.stored_bytes()];
    for (i, slot) in slots.iter().enumerate() {
        let at = i % capacity * SLOT_BYTES;
        raw[at..at + SLOT_BYTES].copy_from_slice(&slot.0.to_le_bytes());
    }
    let clocks = Clocks {
        ticks_per_second: rate,
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
        (
            SectionKind::Anchors,
            &[&Anchor::encode_all(&recorded.anchors)],
        ),
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
        rate in prop::sample::select(&RATES),
        start in 0..u64::MAX / 4,
        steps in prop::collection::vec(step(), 1..600),
        hindrances in prop::collection::vec(hindrance(), 1..50),
        log2_bytes in 12..15_u32,
    ) {
        let geometry = Geometry::new(log2_bytes).unwrap();
        let recorded = record(rate, start, &steps, &hindrances, geometry.slots() as u64);
        let bytes = file(rate, start, &recorded, geometry);
        let trace = Trace::decode(Path::new("simulated"), &bytes).unwrap();
        let thread = &trace.threads[0];
        prop_assert_eq!(thread.stats.unbounded_slots, 0);
        prop_assert_eq!(thread.stats.contradicting_times, 0);
        prop_assert_eq!(thread.stats.anchors_ignored, 0);
        let kept = recorded.times.len().min(geometry.slots() / 2);
        prop_assert_eq!(thread.events.len(), kept);
        for event in &thread.events {
            let at = recorded.times[event.payload[0] as usize];
            prop_assert_eq!(event.at_ns, trace.clock.to_ns(at), "event {}", event.payload[0]);
        }
    }
}
