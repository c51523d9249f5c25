// SPDX-License-Identifier: Apache-2.0
//! Compressed rings: damage to one frame leaves a gap, and the trace says so.

use std::path::Path;

use hindsight_decoder::{DamagedPart, Flags, Trace};
use hindsight_testkit::{Script, Workload};
use hindsight_trace_format::container::{Reader, SectionKind, FRAME_SLOTS};

const RING_LOG2_BYTES: u32 = 19;
const FRAMES: usize = (1 << RING_LOG2_BYTES) / 8 / FRAME_SLOTS;

fn workload(laps: f64, compressed: bool) -> Script {
    let workload = Workload {
        ring_log2_bytes: RING_LOG2_BYTES,
        methods: 300,
        wide_per_mille: 100,
        laps,
        ..Workload::default()
    };
    let mut script = workload.script();
    script.compressed = compressed;
    script
}

fn open(bytes: &[u8]) -> Trace {
    Trace::decode(Path::new("test"), bytes).unwrap()
}

/// Where the ring's frames begin in the file.
fn frames(bytes: &[u8]) -> Vec<usize> {
    let starts = bytes.windows(4).enumerate();
    starts
        .filter(|(_, w)| w == b"\x8aHSF")
        .map(|(at, _)| at)
        .collect()
}

/// Start, end and method of a call.
type Whole = (u64, u64, String);

/// The calls whose start and end are known, in the order of their starts.
fn whole_calls(trace: &Trace) -> Vec<Whole> {
    let calls = trace.threads[0].calls.iter();
    let whole = calls
        .filter(|c| !c.flags.contains(Flags::OPEN_START) && !c.flags.contains(Flags::OPEN_END));
    let name = |method| {
        trace
            .methods
            .get(method)
            .map(|m| m.name.clone())
            .unwrap_or_default()
    };
    whole
        .map(|c| (c.start_ns, c.end_ns, name(c.method)))
        .collect()
}

#[test]
fn a_compressed_file_is_read_as_one_that_is_not() {
    for laps in [0.3, 1.0, 1.7] {
        let (raw, compressed) = (
            workload(laps, false).encode(),
            workload(laps, true).encode(),
        );
        assert!(
            compressed.len() < raw.len() / 3,
            "{} bytes of {}",
            compressed.len(),
            raw.len()
        );
        let (raw, compressed) = (open(&raw), open(&compressed));
        assert!(compressed.damaged.is_empty());
        assert_eq!(raw.threads[0].stats, compressed.threads[0].stats);
        assert!(whole_calls(&raw) == whole_calls(&compressed), "{laps} laps");
    }
}

#[test]
fn a_damaged_frame_leaves_a_gap_and_all_else_is_as_it_was() {
    for laps in [0.9, 1.7] {
        let sound = workload(laps, true).encode();
        let before = open(&sound);
        let calls = whole_calls(&before);
        let starts = frames(&sound);
        assert_eq!(
            starts.len(),
            if laps < 1.0 {
                FRAMES * 9 / 10 + 1
            } else {
                FRAMES
            }
        );
        for (number, &start) in starts.iter().enumerate() {
            let mut bytes = sound.clone();
            bytes[start + 40] ^= 1;
            let trace = open(&bytes);
            let [damage] = &trace.damaged[..] else {
                panic!("{:?}", trace.damaged)
            };
            let text = damage.to_string();
            let part = format!("1 of its {} frames have changed", starts.len());
            assert!(text.contains(&part), "{text}");
            let DamagedPart::Ring {
                kept_slots,
                slots: Some(slots),
                ..
            } = damage.part
            else {
                panic!("{text}")
            };
            // The last events before the gap may be unfinished.
            let lost = slots - kept_slots;
            let most = FRAME_SLOTS as u64 + 16;
            assert!(lost <= most, "frame {number}: {lost} slots are lost");

            let [thread] = &trace.threads[..] else {
                panic!("{} threads", trace.threads.len())
            };
            let kept = whole_calls(&trace);
            // Between them is the gap, or before or after the only one.
            let parts = || thread.parts.iter();
            let is_in_a_part = |c: &&Whole| parts().any(|p| c.0 > p.start_ns && c.1 < p.end_ns);
            let expected = calls.iter().filter(is_in_a_part);
            let found = kept.iter().filter(is_in_a_part);
            assert!(expected.eq(found), "{laps} laps, frame {number}");
            let ends = |c: &Whole| parts().any(|p| c.0 >= p.start_ns && c.1 <= p.end_ns);
            assert!(kept.iter().all(ends), "{laps} laps, frame {number}");
            assert!(kept.len() > calls.len() / 2);
            let both = number > 0 && number + 1 < starts.len();
            assert!(!both || laps > 1.0 || thread.parts.len() == 2);
            assert_eq!(thread.stats.gaps, thread.parts.len() as u64 - 1);
        }
    }
}

#[test]
fn of_a_file_that_is_cut_off_all_whole_frames_are_read() {
    for laps in [0.9, 1.7] {
        let sound = workload(laps, true).encode();
        let starts = frames(&sound);
        let calls = whole_calls(&open(&sound)).len();
        for (number, &start) in starts.iter().enumerate().skip(1) {
            for cut in [start + 7, start + 300] {
                let trace = open(&sound[..cut]);
                let ring = trace.damaged.iter().find_map(|d| match d.part {
                    DamagedPart::Ring { kept_slots, .. } => Some((kept_slots, d.to_string())),
                    _ => None,
                });
                let (kept, text) = ring.expect("the ring is damaged");
                assert!(text.contains("cut off"), "{text}");
                let whole = (number * FRAME_SLOTS) as u64;
                assert!(
                    kept <= whole && kept + 16 > whole,
                    "{laps} laps, {kept} of {whole}"
                );
                let found = whole_calls(&trace).len();
                assert!(found > 0 && found < calls);
            }
        }
    }
}

#[test]
fn a_damaged_header_of_a_compressed_ring_costs_no_more_than_that_of_another() {
    let sound = workload(0.9, true).encode();
    let reader = Reader::new(&sound).unwrap();
    let kind = SectionKind::Ring as u32;
    let ring = *reader.sections().iter().find(|s| s.kind == kind).unwrap();
    let before = whole_calls(&open(&sound));
    // The position in the first lap.
    let mut bytes = sound.clone();
    bytes[ring.offset as usize + 25] ^= 0x10;
    let trace = open(&bytes);
    assert_eq!(trace.damaged.len(), 1);
    assert!(whole_calls(&trace) == before);
    // The name's length: nothing of the ring can be found.
    let mut bytes = sound.clone();
    bytes[ring.offset as usize + 13] ^= 0xff;
    assert!(open(&bytes).threads.is_empty());
}

#[test]
fn sections_are_found_without_the_table_behind_a_damaged_frame() {
    let sound = workload(1.7, true).encode();
    let before = open(&sound);
    let starts = frames(&sound);
    let table = Reader::new(&sound).unwrap().sections().len() * 32;
    for &start in &starts {
        // The length of the frame's data.
        for (byte, bit) in [(12, 1), (14, 0xff), (0, 1)] {
            let mut bytes = sound[..sound.len() - table].to_vec();
            bytes[start + byte] ^= bit;
            let trace = open(&bytes);
            if start != starts[FRAMES - 1] {
                assert_eq!(trace.losses.counts, before.losses.counts);
                let named = |t: &Trace| t.methods.iter().filter(|(_, m)| m.is_named()).count();
                assert!(named(&trace) > named(&before) / 2);
            }
            assert_eq!(trace.threads.len(), 1);
        }
    }
}
