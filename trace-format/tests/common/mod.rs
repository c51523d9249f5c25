// SPDX-License-Identifier: Apache-2.0
//! Values of every section.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::io::Cursor;

use hindsight_trace_format::container::{
    Anchor, ClockSample, Clocks, Losses, ProcessFacts, RingHeader, SectionKind, StackGeneration,
    StackNode, Stacks, Symbol, Symbols, Writer,
};
use hindsight_trace_format::ring::{Geometry, Position, MIN_LOG2_BYTES};
use proptest::collection::vec;
use proptest::prelude::*;

/// The number of cases. Failing inputs are printed, not stored in files.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub(crate) fn facts() -> impl Strategy<Value = ProcessFacts> {
    let text = || any::<String>();
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    (numbers, text(), text(), text(), vec((text(), text()), 0..4)).prop_map(
        |((pid, uid, raised_by), name, isa, reason, extra)| ProcessFacts {
            pid,
            uid,
            name,
            isa,
            reason,
            raised_by,
            extra,
        },
    )
}

pub(crate) fn clocks() -> impl Strategy<Value = Clocks> {
    let sample = any::<[u64; 4]>().prop_map(|[counter, monotonic_ns, boottime_ns, realtime_ns]| {
        ClockSample {
            counter,
            monotonic_ns,
            boottime_ns,
            realtime_ns,
        }
    });
    (
        any::<u64>(),
        any::<String>(),
        any::<bool>(),
        vec(sample, 0..5),
    )
        .prop_map(|(ticks_per_second, source, read_traps, samples)| Clocks {
            ticks_per_second,
            source,
            read_traps,
            samples,
        })
}

/// A small ring in any state, and its memory as it is stored.
pub(crate) fn ring() -> impl Strategy<Value = (RingHeader, Vec<u8>)> {
    (
        any::<(u32, u64, u64)>(),
        any::<String>(),
        0..4_u64,
        0..=512_u64,
    )
        .prop_map(
            |((tid, started_counter, stopped_counter), name, laps, slots)| {
                let header = RingHeader {
                    tid,
                    name,
                    geometry: Geometry::new(MIN_LOG2_BYTES).unwrap(),
                    position: Position {
                        laps,
                        offset: slots * 8,
                    },
                    started_counter,
                    stopped_counter,
                    ..RingHeader::default()
                };
                let raw = (0..header.stored_bytes())
                    .map(|i| (i * 7 + 3) as u8)
                    .collect();
                (header, raw)
            },
        )
}

pub(crate) fn anchors() -> impl Strategy<Value = Vec<Anchor>> {
    vec(
        any::<(u64, u64)>().prop_map(|(counter, slots_written)| Anchor {
            counter,
            slots_written,
        }),
        0..9,
    )
}

/// In the order in which they are read back.
pub(crate) fn symbols() -> impl Strategy<Value = Symbols> {
    // Few different strings, so that some are shared, and some that are not ASCII or empty.
    let text = || prop_oneof!["[ab]{0,2}", any::<String>()];
    let symbol = (
        any::<[u64; 2]>(),
        text(),
        text(),
        text(),
        text(),
        any::<[u32; 2]>(),
    )
        .prop_map(
            |([address, valid_from], class, name, signature, source_file, [checksum, index])| {
                Symbol {
                    address,
                    valid_from,
                    class,
                    name,
                    signature,
                    source_file,
                    dex_checksum: checksum,
                    dex_method_index: index,
                }
            },
        );
    vec(symbol, 0..20).prop_map(|mut symbols| {
        symbols.sort_by_key(|s| (s.address, s.valid_from));
        Symbols { symbols }
    })
}

pub(crate) fn losses() -> impl Strategy<Value = Losses> {
    vec((any::<String>(), any::<u64>()), 0..5).prop_map(|counts| Losses { counts })
}

/// As writers encode it: no generation has the number 0, and parents are older than their children.
pub(crate) fn stacks() -> impl Strategy<Value = Stacks> {
    let nodes = vec(any::<(u64, u32, u32)>(), 0..9).prop_map(|nodes| {
        let node = |(index, (method, parent, dex_pc)): (u32, (u64, u32, u32))| StackNode {
            method,
            parent: parent % (index + 1),
            dex_pc,
        };
        (0..).zip(nodes).map(node).collect()
    });
    let generation =
        (1..9_u32, nodes).prop_map(|(number, nodes)| StackGeneration { number, nodes });
    vec(generation, 0..3).prop_map(|generations| Stacks { generations })
}

/// The contents of a file.
#[derive(Clone, Debug)]
pub(crate) struct Contents {
    pub(crate) facts: ProcessFacts,
    pub(crate) clocks: Clocks,
    pub(crate) rings: Vec<(RingHeader, Vec<u8>, Vec<Anchor>)>,
    pub(crate) symbols: Symbols,
    pub(crate) stacks: Stacks,
    pub(crate) losses: Losses,
    /// The rings are written in compressed frames.
    pub(crate) compressed: bool,
}

pub(crate) fn contents() -> impl Strategy<Value = Contents> {
    let ring = (ring(), anchors()).prop_map(|((header, raw), anchors)| (header, raw, anchors));
    (
        facts(),
        clocks(),
        vec(ring, 0..4),
        symbols(),
        stacks(),
        losses(),
        any::<bool>(),
    )
        .prop_map(
            |(facts, clocks, rings, symbols, stacks, losses, compressed)| Contents {
                facts,
                clocks,
                rings,
                symbols,
                stacks,
                losses,
                compressed,
            },
        )
}

impl Contents {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut writer = Writer::new(Cursor::new(Vec::new())).unwrap();
        let facts = self.facts.encode();
        writer.section(SectionKind::Process, 0, &[&facts]).unwrap();
        let clocks = self.clocks.encode();
        writer.section(SectionKind::Clocks, 0, &[&clocks]).unwrap();
        for (index, (header, raw, anchors)) in (0..).zip(&self.rings) {
            let done = match self.compressed {
                true => writer.ring(index, header, raw),
                false => writer.section(SectionKind::Ring, index, &[&header.encode(), raw]),
            };
            done.unwrap();
            let anchors = Anchor::encode_all(anchors);
            writer
                .section(SectionKind::Anchors, index, &[&anchors])
                .unwrap();
        }
        let mut section = |kind: SectionKind, index, parts: &[&[u8]]| {
            writer.section(kind, index, parts).unwrap();
        };
        section(SectionKind::Symbols, 0, &[&self.symbols.encode()]);
        if !self.stacks.generations.is_empty() {
            section(SectionKind::Stacks, 0, &[&self.stacks.encode()]);
        }
        section(SectionKind::Losses, 0, &[&self.losses.encode()]);
        writer.finish().unwrap().into_inner()
    }
}
