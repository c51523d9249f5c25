// SPDX-License-Identifier: Apache-2.0
//! All that a writer of a whole file has, and the file.

use std::borrow::Cow;
use std::io::{self, Cursor, Seek, Write};
use std::path::Path;

use super::consent::{Consent, Limit};
use super::sections::{
    Anchor, Clocks, Losses, OpenCalls, ProcessFacts, RingHeader, SectionKind, Stacks, Strings,
    Symbol, Symbols,
};
use super::writer::{write_file, Writer};
use crate::ring::Geometry;
use crate::slot::{Slot, TAG_TAKEN_BACK};

/// A ring that was taken.
#[derive(Debug)]
pub struct RingContents<'a> {
    /// Its thread, and the position of its cursor.
    pub header: RingHeader,
    /// Positions of the cursor, with the counter at that time.
    pub anchors: Cow<'a, [Anchor]>,
    /// The calls that were open when its newest lap, or segment, began.
    pub open_calls: Option<OpenCalls>,
    /// Slots that stand before those in its memory: see [`begin_with`](Self::begin_with).
    pub before: Vec<u8>,
    /// The written part of its memory: together with `before`, [`RingHeader::stored_bytes`].
    pub slots: &'a [u8],
}

impl RingContents<'_> {
    /// Lets the ring begin with these slots, the first of which is at this counter: they tell what was under way when recording
    /// into it began. Does nothing if its oldest slots are not the first that its thread wrote.
    pub fn begin_with(&mut self, slots: &[Slot], oldest: u64) {
        let header = &mut self.header;
        let first = self
            .slots
            .first_chunk()
            .map(|s| Slot(u64::from_le_bytes(*s)));
        let is_cleared = first.is_some_and(|slot| slot.low() == TAG_TAKEN_BACK);
        if header.position.laps != 0 || is_cleared || !self.before.is_empty() {
            return;
        }
        let offset = header.position.offset + size_of_val(slots) as u64;
        let log2 = header
            .geometry
            .log2_bytes()
            .max(offset.next_power_of_two().ilog2());
        let Some(geometry) = Geometry::new(log2) else {
            return;
        };
        (header.geometry, header.position.offset) = (geometry, offset);
        header.started_counter = header.started_counter.min(oldest);
        for anchor in self.anchors.to_mut() {
            anchor.slots_written += slots.len() as u64;
        }
        // Nothing was overwritten, so that the slots tell all of them.
        self.open_calls = None;
        self.before = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
    }

    /// Writes the sections of the ring with this index.
    pub(crate) fn write<W: Write + Seek>(
        &self,
        writer: &mut Writer<W>,
        index: u32,
    ) -> io::Result<()> {
        writer.ring_in_parts(index, &self.header, [&self.before, self.slots])?;
        let anchors = Anchor::encode_all(&self.anchors);
        writer.section(SectionKind::Anchors, index, &[&anchors])?;
        if let Some(open) = &self.open_calls {
            writer.section(SectionKind::OpenCalls, index, &[&open.encode()])?;
        }
        Ok(())
    }
}

/// The contents of a file.
#[derive(Debug, Default)]
pub struct Contents<'a> {
    /// The process, and why the file is written.
    pub process: ProcessFacts,
    /// The counter.
    pub clocks: Clocks,
    /// The rings, in the order in which readers shall show them.
    pub rings: Vec<RingContents<'a>>,
    /// Names of methods, ordered by `(address, valid_from)`.
    pub symbols: Vec<Symbol>,
    /// Strings that events name.
    pub strings: Strings,
    /// Stacks that events name.
    pub stacks: Stacks,
    /// What was lost.
    pub losses: Losses,
}

impl Contents<'_> {
    /// Writes the file: under a hidden name until it is complete and synced. No string that needs more consent gets into it.
    ///
    /// # Errors
    /// As [`write_file`]; there is no file then.
    pub fn write(mut self, path: &Path, consent: Consent) -> io::Result<()> {
        self.limit(consent);
        write_file(path, |writer| self.write_sections(writer))
    }

    /// The bytes of the file. No string that needs more consent gets into it.
    ///
    /// # Errors
    /// If it would be larger than a file can be.
    pub fn encode(mut self, consent: Consent) -> io::Result<Vec<u8>> {
        self.limit(consent);
        let mut writer = Writer::new(Cursor::new(Vec::new()))?;
        self.write_sections(&mut writer)?;
        Ok(writer.finish()?.into_inner())
    }

    fn write_sections<W: Write + Seek>(&mut self, writer: &mut Writer<W>) -> io::Result<()> {
        let section = SectionKind::Process;
        writer.section(section, 0, &[&self.process.encode()])?;
        writer.section(SectionKind::Clocks, 0, &[&self.clocks.encode()])?;
        for (index, ring) in (0..).zip(&self.rings) {
            ring.write(writer, index)?;
        }
        self.write_rest(writer)
    }

    /// Writes what comes after the rings.
    pub(crate) fn write_rest<W: Write + Seek>(&mut self, writer: &mut Writer<W>) -> io::Result<()> {
        let symbols = Symbols {
            symbols: std::mem::take(&mut self.symbols),
        };
        writer.section_in_parts(SectionKind::Symbols, 0, |append| symbols.write(append))?;
        drop(symbols);
        if !self.strings.strings.is_empty() {
            writer.section(SectionKind::Strings, 0, &[&self.strings.encode()])?;
        }
        if !self.stacks.generations.is_empty() {
            let stacks = &self.stacks;
            writer.section_in_parts(SectionKind::Stacks, 0, |append| stacks.write(append))?;
        }
        writer.section(SectionKind::Losses, 0, &[&self.losses.encode()])
    }

    /// Replaces the strings that need more consent.
    fn limit(&mut self, consent: Consent) {
        self.limit_by(&mut Limit::new(consent));
    }

    /// The same, as a part of a file.
    pub(crate) fn limit_by(&mut self, limit: &mut Limit) {
        limit.process(&mut self.process);
        limit.strings(&mut self.strings);
        limit.losses(&mut self.losses);
        for ring in &mut self.rings {
            limit.thread(&mut ring.header.name);
        }
        for symbol in &mut self.symbols {
            let Symbol {
                class,
                name,
                signature,
                source_file,
                ..
            } = symbol;
            limit.method(class, name, signature, source_file);
        }
    }
}
