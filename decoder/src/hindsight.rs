// SPDX-License-Identifier: Apache-2.0
//! From the bytes of a `.hindsight` file to a trace.

use std::path::Path;

use hindsight_trace_format::catalogue::FieldKind;
use hindsight_trace_format::container::{
    self, Anchor, Clocks, DecodeError, Losses, OpenCalls, ProcessFacts, ReadError, Reader,
    Recovered, RingHeader, RingParts, SectionKind, Strings, SymbolTable,
};
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::slot::SLOT_BYTES;
#[cfg(feature = "host")]
use rayon::prelude::*;

use crate::clock::Clock;
use crate::damage::{Damage, DamagedPart};
use crate::error::Error;
use crate::inherited;
use crate::key::ThreadKey;
use crate::methods::Merger;
use crate::model::{levels, Mode, ThreadEvent, Trace};
use crate::parts;
use crate::ring::{self, Decoded, Notes};
use crate::salvage::{self, salvage};
use crate::samples::Sampler;
use crate::scan::unseen_frames_shown;
use crate::stacks::Stacks;

/// The counter's nominal rate and its rate between samples differ by less than this part of it, or one of the two is
/// damaged.
const RATE_TOLERANCE: f64 = 0.01;

/// Damaged parts, or the first of them as an error.
struct Findings {
    strict: bool,
    damaged: Vec<Damage>,
}

impl Findings {
    fn note(&mut self, part: DamagedPart, error: Option<ReadError>) -> Result<(), ReadError> {
        let Some(error) = error else { return Ok(()) };
        if self.strict {
            return Err(error);
        }
        self.damaged.push(Damage {
            part,
            reason: error.to_string(),
        });
        Ok(())
    }
}

/// Decodes a file, its rings in parallel; `path` is its name in errors.
pub(crate) fn decode(path: &Path, bytes: &[u8], strict: bool) -> Result<Trace, Error> {
    let format = |source| Error::Format {
        path: path.to_owned(),
        source,
    };
    let Recovered {
        reader,
        damage,
        gaps,
        missing,
        unchecked,
    } = if strict {
        Reader::new(bytes).map(|reader| Recovered {
            reader,
            damage: None,
            gaps: Vec::new(),
            missing: Some(0),
            unchecked: 0,
        })
    } else {
        Reader::recover(bytes)
    }
    .map_err(format)?;
    let mut findings = Findings {
        strict,
        damaged: Vec::new(),
    };
    let has = |kind: SectionKind| reader.sections().iter().any(|s| s.kind == kind as u32);
    let table_damage = damage.clone();
    // Of a section that is not in the file although it is needed.
    let damage_if_missing = |kind| damage.clone().filter(|_| !has(kind));
    findings
        .note(
            DamagedPart::Symbols,
            damage_if_missing(SectionKind::Symbols),
        )
        .map_err(format)?;
    let table = DamagedPart::Table { missing, unchecked };
    findings.note(table, damage.clone()).map_err(format)?;
    for gap in gaps {
        findings.damaged.push(Damage {
            part: DamagedPart::Bytes {
                from: gap.start,
                to: gap.end,
            },
            reason: "they belong to no section that this program knows".to_owned(),
        });
    }

    let clocks = clocks(&reader, table_damage, &mut findings).map_err(format)?;
    let clock = Clock::new(&clocks).map_err(|what| Error::Clocks {
        path: path.to_owned(),
        what,
    })?;
    let process = process(&reader, &mut findings).map_err(format)?;
    let symbols = symbols(&reader, &mut findings).map_err(format)?;
    let (losses, damage) = reader.salvage(SectionKind::Losses, 0, Losses::decode);
    findings.note(DamagedPart::Losses, damage).map_err(format)?;
    let strings = strings(&reader, &mut findings).map_err(format)?;
    let stacks = stacks(&reader, &mut findings).map_err(format)?;

    // Checksums are verified on the way, so they are computed in parallel too.
    let indices: Vec<u32> = reader.ring_indices().collect();
    let rings = Rings {
        reader: &reader,
        clock: &clock,
        symbols: symbols.as_ref(),
        unseen_frames_shown: unseen_frames_shown(indices.len()),
        strict,
    };
    #[cfg(feature = "host")]
    let indices = indices.into_par_iter();
    #[cfg(not(feature = "host"))]
    let indices = indices.into_iter();
    let rings = indices
        .map(|index| rings.decode(index))
        .collect::<Result<Vec<_>, _>>()
        .map_err(format)?;
    let mut threads = Vec::with_capacity(rings.len());
    for (stretches, damaged) in rings {
        threads.extend(stretches);
        findings.damaged.extend(damaged);
    }
    let names = |names: fn(&ThreadEvent) -> bool| {
        let mut events = threads.iter().flat_map(|t| &t.thread.events);
        events.any(names)
    };
    if names(names_string) {
        let damage = damage_if_missing(SectionKind::Strings);
        findings
            .note(DamagedPart::Strings, damage)
            .map_err(format)?;
    }
    let has_stacks = names(|event| event.stack().is_some());
    if has_stacks {
        let damage = damage_if_missing(SectionKind::Stacks);
        findings.note(DamagedPart::Stacks, damage).map_err(format)?;
    }

    let mut merger = Merger::default();
    let ids: Vec<_> = threads
        .iter()
        .map(|t| merger.merge(&t.methods, symbols.as_ref()))
        .collect();
    let events = threads.iter().flat_map(|t| &t.thread.events);
    let used = events.filter_map(|event| Some((event.stack()?, event.at_ns)));
    let (stacks, nodes) = Stacks::new(&stacks, used, symbols.as_ref(), &clock, &mut merger);
    let events = threads.iter_mut().flat_map(|t| &mut t.thread.events);
    let of_stacks = events.filter(|event| event.stack().is_some());
    for (event, node) in of_stacks.zip(nodes) {
        event.set("node", u64::from(node));
    }
    let methods = merger.finish();
    #[cfg(feature = "host")]
    let threads = threads.into_par_iter();
    #[cfg(not(feature = "host"))]
    let threads = threads.into_iter();
    let rings = threads
        .zip(ids)
        .map(|(thread, ids)| thread.finish(&ids))
        .collect();
    let mut threads = parts::join(rings);
    if has_stacks {
        let mut sampler = Sampler::new(&stacks, &methods);
        sampler.keep_levels(levels(&process));
        #[cfg(feature = "host")]
        let threads = threads.par_iter_mut();
        #[cfg(not(feature = "host"))]
        let threads = threads.iter_mut();
        let sampled = threads.filter(|t| t.mode != Mode::Calls);
        sampled.for_each(|thread| sampler.add_to(thread));
    }
    let mut losses = losses.unwrap_or_default();
    let mut damaged = findings.damaged;
    damaged.extend(inherited::take(&mut losses, &threads));
    Ok(Trace {
        process,
        clock,
        methods,
        strings,
        stacks,
        threads,
        losses,
        damaged,
        file_bytes: bytes.len() as u64,
    })
}

/// The clocks, without which no time is known. Damaged ones are used if the counter's rate and the samples agree.
fn clocks(
    reader: &Reader<'_>,
    table_damage: Option<ReadError>,
    findings: &mut Findings,
) -> Result<Clocks, ReadError> {
    let (clocks, damage) = reader.salvage(SectionKind::Clocks, 0, Clocks::decode);
    let missing = || ReadError::Missing(SectionKind::Clocks);
    let Some(clocks) = clocks else {
        return Err(damage.or(table_damage).unwrap_or_else(missing));
    };
    match damage {
        Some(damage) if !agree(&clocks) => return Err(damage),
        damage => findings.note(DamagedPart::Clocks, damage)?,
    }
    Ok(clocks)
}

/// Whether all samples of the clocks fit the counter's rate.
fn agree(clocks: &Clocks) -> bool {
    let rate = clocks.ticks_per_second as f64;
    clocks.samples.windows(2).all(|pair| {
        let ticks = pair[1].counter.checked_sub(pair[0].counter);
        let ns = |of: [u64; 2]| of[1].checked_sub(of[0]);
        let boottime = ns([pair[0].boottime_ns, pair[1].boottime_ns]);
        match (ticks, boottime) {
            (Some(ticks), Some(ns)) => {
                let expected = ns as f64 * rate / 1e9;
                (ticks as f64 - expected).abs() <= expected * RATE_TOLERANCE + rate / 1e3
            }
            _ => false,
        }
    })
}

fn process(reader: &Reader<'_>, findings: &mut Findings) -> Result<ProcessFacts, ReadError> {
    let (process, damage) = reader.salvage(SectionKind::Process, 0, ProcessFacts::decode);
    let is_missing = process.is_none() && damage.is_none();
    let missing = is_missing.then_some(ReadError::Missing(SectionKind::Process));
    findings.note(DamagedPart::Process, damage.or(missing))?;
    Ok(process.unwrap_or_default())
}

fn symbols<'a>(
    reader: &Reader<'a>,
    findings: &mut Findings,
) -> Result<Option<SymbolTable<'a>>, ReadError> {
    let (symbols, damage) = reader.salvage(SectionKind::Symbols, 0, SymbolTable::decode);
    let is_damaged = damage.is_some();
    findings.note(DamagedPart::Symbols, damage)?;
    if symbols.is_some() || !is_damaged {
        return Ok(symbols);
    }
    let readable = |bytes| {
        SymbolTable::decode_damaged(bytes).ok_or(DecodeError {
            offset: 0,
            what: String::new(),
        })
    };
    Ok(reader.salvage(SectionKind::Symbols, 0, readable).0)
}

/// The strings; those of a damaged section up to the damage.
fn strings(reader: &Reader<'_>, findings: &mut Findings) -> Result<Strings, ReadError> {
    let (strings, damage) = reader.salvage(SectionKind::Strings, 0, Strings::decode);
    findings.note(DamagedPart::Strings, damage)?;
    let damaged = |bytes| Ok(Strings::decode_damaged(bytes));
    let strings = strings.or_else(|| reader.salvage(SectionKind::Strings, 0, damaged).0);
    Ok(strings.unwrap_or_default())
}

/// The stacks; those of a damaged section up to the damage.
fn stacks(reader: &Reader<'_>, findings: &mut Findings) -> Result<container::Stacks, ReadError> {
    let (stacks, damage) = reader.salvage(SectionKind::Stacks, 0, container::Stacks::decode);
    findings.note(DamagedPart::Stacks, damage)?;
    let damaged = |bytes| Ok(container::Stacks::decode_damaged(bytes));
    let stacks = stacks.or_else(|| reader.salvage(SectionKind::Stacks, 0, damaged).0);
    Ok(stacks.unwrap_or_default())
}

/// Whether an event names one of the file's strings.
fn names_string(event: &ThreadEvent) -> bool {
    let mut fields = event.spec().fields.iter();
    fields.any(|f| matches!(f.kind, FieldKind::String) && f.get(&event.payload) != 0)
}

/// The data that the rings of a file share.
struct Rings<'a, 'b> {
    reader: &'b Reader<'a>,
    clock: &'b Clock,
    symbols: Option<&'b SymbolTable<'a>>,
    unseen_frames_shown: u64,
    strict: bool,
}

impl Rings<'_, '_> {
    /// Decodes a ring, or its sound parts, oldest first, and lists the damage.
    fn decode(&self, index: u32) -> Result<(Vec<Decoded>, Vec<Damage>), ReadError> {
        let key = ThreadKey {
            process: 0,
            ring: index,
        };
        let mut findings = Findings {
            strict: self.strict,
            damaged: Vec::new(),
        };
        let parts = match self.reader.ring_parts(index) {
            Ok(Some(parts)) => parts,
            Ok(None) => return Ok((Vec::new(), Vec::new())),
            Err(error) => {
                let part = DamagedPart::Ring {
                    thread: key,
                    tid: None,
                    name: None,
                    kept_slots: 0,
                    slots: None,
                };
                findings.note(part, Some(error))?;
                return Ok((Vec::new(), findings.damaged));
            }
        };
        let (anchors, damage) =
            self.reader
                .salvage(SectionKind::Anchors, index, Anchor::decode_all);
        findings.note(DamagedPart::Anchors { thread: key }, damage)?;
        let anchors = anchors.unwrap_or_default();

        if salvage::has_stretches(&parts) {
            let stretches = self.stretches(key, &parts, &anchors);
            let kept_slots = stretches.iter().map(|s| s.thread.stats.slots).sum();
            findings.note(ring_part(key, &parts, kept_slots), parts.damage.clone())?;
            return Ok((stretches, findings.damaged));
        }
        let sound = if parts.damage.is_none() {
            let slots = parts.slots();
            Some((parts.header.clone(), slots))
        } else {
            let taken = self.clock.reference().counter;
            let sound = salvage(&parts, &anchors, self.symbols, taken);
            let kept_slots = sound.as_ref().map_or(0, |(_, slots)| slots.len() as u64);
            findings.note(ring_part(key, &parts, kept_slots), parts.damage.clone())?;
            sound
        };
        let (open_calls, damage) =
            (self.reader).salvage(SectionKind::OpenCalls, index, OpenCalls::decode);
        findings.note(DamagedPart::OpenCalls { thread: key }, damage.clone())?;
        let whole = parts.damage.is_none() && damage.is_none();
        let open_calls = open_calls.filter(|_| whole);
        let stopped = parts.header.stopped_counter;
        let decoded = sound.map(|(header, slots)| {
            let notes = Notes {
                anchors: &anchors,
                open_calls: open_calls.as_ref(),
            };
            let mut decoded = self.decode_slots(key, &header, slots, &notes);
            decoded.thread.end_is_missing = header.stopped_counter < stopped;
            decoded
        });
        Ok((decoded.into_iter().collect(), findings.damaged))
    }

    /// Decodes what is left of a ring of which some frames are lost. Between the stretches there are gaps.
    fn stretches(&self, key: ThreadKey, parts: &RingParts<'_>, anchors: &[Anchor]) -> Vec<Decoded> {
        let written = parts.header.position.slots_written(parts.header.geometry);
        let notes = Notes {
            anchors,
            ..Notes::default()
        };
        let (mut newest, mut stopped) = (written, parts.header.stopped_counter);
        let mut found = Vec::new();
        for stretch in salvage::stretches(parts).into_iter().rev() {
            let mut header = stretch.header;
            let end = header.position.slots_written(header.geometry);
            // No slot is newer than the first one after the gap.
            header.stopped_counter = stopped;
            let mut decoded = self.decode_slots(key, &header, stretch.slots, &notes);
            if end < newest {
                decoded.end_with_newest_event();
            }
            decoded.thread.stats.overwritten_slots = 0;
            (newest, stopped) = (end, decoded.oldest.unwrap_or(stopped));
            found.push(decoded);
        }
        found.reverse();
        if let Some(oldest) = found.first_mut() {
            let per_ring = parts.header.geometry.slots() as u64;
            oldest.thread.stats.overwritten_slots = written.saturating_sub(per_ring);
        }
        found
    }

    fn decode_slots(
        &self,
        key: ThreadKey,
        header: &RingHeader,
        slots: Slots<'_>,
        notes: &Notes<'_>,
    ) -> Decoded {
        let Rings {
            clock,
            symbols,
            unseen_frames_shown,
            ..
        } = *self;
        ring::decode(
            key,
            header,
            slots,
            notes,
            clock,
            symbols,
            unseen_frames_shown,
        )
    }
}

/// A damaged ring of which so many slots were kept.
fn ring_part(key: ThreadKey, parts: &RingParts<'_>, kept_slots: u64) -> DamagedPart {
    DamagedPart::Ring {
        thread: key,
        tid: Some(parts.header.tid),
        name: Some(parts.header.name.clone()),
        kept_slots,
        slots: Some((parts.header.stored_bytes() / SLOT_BYTES) as u64),
    }
}
