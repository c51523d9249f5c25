// SPDX-License-Identifier: Apache-2.0
//! Any slots in a ring, with any anchors; also in several rings that claim to be of one thread.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use hindsight_decoder::Trace;
use hindsight_trace_format::container::{
    Anchor, ClockSample, Clocks, Epochs, ProcessFacts, RingHeader, RingMode, SectionKind, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position};
use libfuzzer_sys::fuzz_target;

const RING_BYTES: usize = 1 << 12;

// 16 bytes of header, 16 of each of up to 7 anchors, then slots.
fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_at_checked(16) else {
        return;
    };
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u64, |n, &b| n << 8 | u64::from(b))
    };
    let anchors = usize::from(head[0] % 8).min(rest.len() / 16);
    let (anchors, slots) = rest.split_at(anchors * 16);
    let mut raw = slots[..slots.len().min(RING_BYTES) / 8 * 8].to_vec();
    let laps = u64::from(head[1] % 3);
    let offset = if laps == 0 {
        raw.len()
    } else {
        let offset = raw.len() / 2 / 8 * 8;
        raw.resize(RING_BYTES, 0);
        offset
    };
    let header = RingHeader {
        tid: 1,
        name: "main".into(),
        geometry: Geometry::new(12).expect("2^12 bytes are within the bounds"),
        position: Position {
            laps,
            offset: offset as u64,
        },
        started_counter: number(&head[2..8]),
        stopped_counter: number(&head[8..15]),
        thread: u64::from(head[0] & 8),
        part: 0,
        mode: RingMode::from_number(u32::from(head[0] >> 4 & 1)),
        // The thread marks epochs, and has taken calls back.
        epochs: (head[0] & 0x20 != 0).then(|| Epochs {
            rewind_below: u32::from(head[2]) << 20,
            taken_back: number(&head[1..9]),
            epoch: number(&head[10..14]) as u32,
        }),
    };
    let clocks = Clocks {
        ticks_per_second: 1_000_000 << (head[15] % 16),
        samples: vec![ClockSample {
            counter: header.stopped_counter,
            boottime_ns: header.started_counter,
            ..ClockSample::default()
        }],
        ..Clocks::default()
    };
    let anchors: Vec<Anchor> = anchors
        .chunks_exact(16)
        .map(|anchor| Anchor {
            counter: number(&anchor[..8]),
            slots_written: number(&anchor[8..10]),
        })
        .collect();
    let mut file = Cursor::new(Vec::new());
    let written = (|| {
        let mut writer = Writer::new(&mut file)?;
        writer.section(
            SectionKind::Process,
            0,
            &[&ProcessFacts::default().encode()],
        )?;
        writer.section(SectionKind::Clocks, 0, &[&clocks.encode()])?;
        for i in 0..=u32::from(head[0] >> 5) {
            // One later than the other, or all at the same time.
            let by = u64::from(head[1] >> 7) * u64::from(i);
            let header = RingHeader {
                part: i * u32::from(head[1] >> 6 & 1),
                started_counter: header.started_counter.saturating_add(by),
                stopped_counter: header.stopped_counter.saturating_add(by),
                ..header.clone()
            };
            writer.section(SectionKind::Ring, i, &[&header.encode(), &raw])?;
            writer.section(SectionKind::Anchors, i, &[&Anchor::encode_all(&anchors)])?;
        }
        writer.finish().map(drop)
    })();
    assert!(written.is_ok());
    let trace = Trace::decode(Path::new("fuzz"), &file.into_inner()).expect("a sound file");
    hindsight_fuzz::check(&trace);
});
