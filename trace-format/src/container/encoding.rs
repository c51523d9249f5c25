// SPDX-License-Identifier: Apache-2.0
//! Typed sections to bytes and back. The layouts are written down in `docs/trace-format.md`.
//!
//! A reader takes the fields it knows and ignores what follows them, so a newer minor version can
//! append fields; entries of tables carry their size for the same reason.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use super::codec::{align8, clip, Append, Decoder, Encoder};
use super::error::DecodeError;
use super::sections::{
    Anchor, ClockSample, Clocks, Losses, OpenCalls, ProcessFacts, Ring, SectionKind,
    StackGeneration, Stacks, Strings, Symbol, Symbols,
};
use super::shapes;

const CLOCK_SAMPLE_BYTES: usize = 32;
const ANCHOR_BYTES: usize = 16;
const OPEN_CALL_BYTES: usize = 8;
const SYMBOL_BYTES: usize = 40;
/// [`Symbols::decode`] refuses tables whose strings, copied for each symbol, take more bytes.
/// [`SymbolTable`] has no such limit.
pub const MAX_EXPANDED_SYMBOL_BYTES: usize = 512 << 20;

/// Reads count and entry size of a table, and returns its entries, at least `min_bytes` each.
fn table<'a>(
    d: &mut Decoder<'a>,
    min_bytes: usize,
    field: &str,
) -> Result<impl ExactSizeIterator<Item = &'a [u8]>, DecodeError> {
    let start = d.at();
    let count = d.u32(field)? as usize;
    let entry_bytes = d.u32(field)? as usize;
    if entry_bytes < min_bytes {
        return Err(DecodeError {
            offset: start + 4,
            what: format!(
                "entries of {field} are {entry_bytes} bytes, at least {min_bytes} are needed"
            ),
        });
    }
    let total = count.saturating_mul(entry_bytes);
    let bytes = d.take(total, field)?;
    Ok(bytes.chunks_exact(entry_bytes))
}

/// Whether these bytes, up to the end of a file that was cut off, may be the beginning of a section of this kind.
pub(super) fn begins(kind: SectionKind, bytes: &[u8]) -> bool {
    match kind {
        SectionKind::Strings => Strings::begins(bytes),
        SectionKind::Stacks => Stacks::begins(bytes),
        _ => false,
    }
}

/// Length of a section of this kind that begins with these bytes, computed from its contents; it may exceed them.
/// `None` if they make no sense as such a section.
pub(super) fn measure(kind: SectionKind, bytes: &[u8]) -> Option<u64> {
    let mut d = Decoder::new(bytes);
    match kind {
        SectionKind::Process => ProcessFacts::read(&mut d).map(drop).ok()?,
        SectionKind::Clocks => Clocks::read(&mut d).map(drop).ok()?,
        SectionKind::Losses => {
            let losses = Losses::read(&mut d).ok()?;
            // The end of another section must not pass for a loss.
            let is_text = |s: &String| !s.is_empty() && !s.contains('\0');
            if !losses.counts.iter().all(|(reason, _)| is_text(reason)) {
                return None;
            }
        }
        SectionKind::Ring => return Ring::measure(bytes),
        SectionKind::Anchors => {
            let count = u64::from(d.u32("count").ok()?);
            let entry_bytes = d.u32("size").ok()?;
            return (entry_bytes as usize == ANCHOR_BYTES)
                .then_some(8 + count * ANCHOR_BYTES as u64);
        }
        SectionKind::Symbols => {
            let count = u64::from(d.u32("count").ok()?);
            if d.u32("size").ok()? as usize != SYMBOL_BYTES {
                return None;
            }
            let entries = count * SYMBOL_BYTES as u64;
            let entries_bytes = usize::try_from(entries).ok()?;
            if d.take(entries_bytes, "entries").is_err() {
                return Some(8 + entries);
            }
            let (Ok(strings), Ok(pool)) = (d.u32("strings"), d.u32("size")) else {
                return Some(16 + entries);
            };
            return Some(16 + entries + 4 * u64::from(strings) + u64::from(pool));
        }
        SectionKind::OpenCalls => {
            let calls = OpenCalls::read(&mut d).ok()?;
            // As a runtime writes it, so that anchors or symbols do not pass for it.
            let is_credible = calls.slots_written != 0 && calls.methods.len() < 1 << 12;
            return is_credible.then_some(d.at() as u64);
        }
        SectionKind::Strings => Strings::read(&mut d).map(drop).ok()?,
        SectionKind::Stacks => {
            let stacks = Stacks::read(&mut d).ok()?;
            // Exactly as writers encode it, so that losses do not pass for stacks.
            let as_written = |g: &StackGeneration| g.number != 0;
            let is_as_written = stacks.generations.iter().all(as_written)
                && !stacks.generations.is_empty()
                && bytes[4..8] == [0; 4];
            return is_as_written.then_some(d.at() as u64);
        }
        SectionKind::Journal => return None,
    }
    Some(d.at() as u64)
}

impl ProcessFacts {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u32(self.pid);
        e.u32(self.uid);
        e.u32(self.raised_by);
        e.string(&self.name);
        e.string(&self.isa);
        e.string(&self.reason);
        e.u32(self.extra.len() as u32);
        for (key, value) in &self.extra {
            e.string(key);
            e.string(value);
        }
        e.0
    }

    /// From a section's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut facts = ProcessFacts {
            pid: d.u32("pid")?,
            uid: d.u32("uid")?,
            raised_by: d.u32("raised_by")?,
            name: d.string("name")?,
            isa: d.string("isa")?,
            reason: d.string("reason")?,
            extra: Vec::new(),
        };
        for _ in 0..d.count(8, "the number of extra facts")? {
            let key = d.string("the key of an extra fact")?;
            facts
                .extra
                .push((key, d.string("the value of an extra fact")?));
        }
        Ok(facts)
    }
}

impl Clocks {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u64(self.ticks_per_second);
        e.u32(self.read_traps.into());
        e.string(&self.source);
        e.pad8();
        e.u32(self.samples.len() as u32);
        e.u32(CLOCK_SAMPLE_BYTES as u32);
        for s in &self.samples {
            e.u64(s.counter);
            e.u64(s.monotonic_ns);
            e.u64(s.boottime_ns);
            e.u64(s.realtime_ns);
        }
        e.0
    }

    /// From a section's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let ticks_per_second = d.u64("ticks_per_second")?;
        let read_traps = d.u32("read_traps")? != 0;
        let source = d.string("source")?;
        d.take(align8(d.at()) - d.at(), "padding")?;
        let samples = table(d, CLOCK_SAMPLE_BYTES, "the clock samples")?
            .map(|entry| {
                let mut d = Decoder::new(entry);
                Ok(ClockSample {
                    counter: d.u64("counter")?,
                    monotonic_ns: d.u64("monotonic_ns")?,
                    boottime_ns: d.u64("boottime_ns")?,
                    realtime_ns: d.u64("realtime_ns")?,
                })
            })
            .collect::<Result<_, DecodeError>>()?;
        Ok(Clocks {
            ticks_per_second,
            source,
            read_traps,
            samples,
        })
    }
}

impl Anchor {
    /// The bytes of a section of anchors.
    pub fn encode_all(anchors: &[Anchor]) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u32(anchors.len() as u32);
        e.u32(ANCHOR_BYTES as u32);
        for a in anchors {
            e.u64(a.counter);
            e.u64(a.slots_written);
        }
        e.0
    }

    /// From the bytes of a section of anchors.
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Anchor>, DecodeError> {
        table(&mut Decoder::new(bytes), ANCHOR_BYTES, "the anchors")?
            .map(|entry| {
                let mut d = Decoder::new(entry);
                Ok(Anchor {
                    counter: d.u64("counter")?,
                    slots_written: d.u64("slots_written")?,
                })
            })
            .collect()
    }
}

impl OpenCalls {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u64(self.slots_written);
        e.u64(self.count);
        e.u32(self.methods.len() as u32);
        e.u32(OPEN_CALL_BYTES as u32);
        for method in &self.methods {
            e.u64(*method);
        }
        e.0
    }

    /// From a section's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let slots_written = d.u64("slots_written")?;
        let count = d.u64("the number of open calls")?;
        let methods = table(d, OPEN_CALL_BYTES, "the open calls")?;
        if methods.len() as u64 > count {
            let named = methods.len();
            return Err(d.error(format!("{named} methods of {count} open calls")));
        }
        let methods = methods
            .map(|entry| Decoder::new(entry).u64("a method"))
            .collect::<Result<_, _>>()?;
        Ok(OpenCalls {
            slots_written,
            count,
            methods,
        })
    }
}

impl Losses {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u32(self.counts.len() as u32);
        for (reason, count) in &self.counts {
            e.u64(*count);
            e.string(reason);
        }
        e.0
    }

    /// From a section's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut counts = Vec::new();
        for _ in 0..d.count(12, "the number of losses")? {
            let count = d.u64("a count")?;
            counts.push((d.string("a reason")?, count));
        }
        Ok(Losses { counts })
    }
}

impl Strings {
    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut e = Encoder::default();
        e.u32(self.strings.len() as u32);
        for string in &self.strings {
            e.string(string);
        }
        e.0
    }

    /// From a section's bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    /// From the bytes of a damaged section, or of its beginning: the strings up to the first one that makes no sense.
    pub fn decode_damaged(bytes: &[u8]) -> Self {
        let mut d = Decoder::new(bytes);
        // The count may be the damaged part, or too great for what is left.
        let count = d.u32("the number of strings").unwrap_or(0);
        let strings = (0..count).map_while(|_| d.string("a string").ok());
        Strings {
            strings: strings.collect(),
        }
    }

    /// Whether these bytes may be the beginning of such a section that ends early.
    pub(super) fn begins(bytes: &[u8]) -> bool {
        let strings = Self::decode_damaged(bytes).strings;
        // A count of losses would begin with zeros.
        let is_text = |s: &String| !s.is_empty() && !s.contains('\0');
        !strings.is_empty() && strings.iter().all(is_text)
    }

    fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut strings = Vec::new();
        for _ in 0..d.count(4, "the number of strings")? {
            strings.push(d.string("a string")?);
        }
        Ok(Strings { strings })
    }
}

/// The numbers of strings, from 0 on, each stored once.
#[derive(Default)]
struct Pool<'a> {
    ids: HashMap<&'a str, u32>,
    bytes: usize,
}

impl<'a> Pool<'a> {
    fn id(&mut self, s: &'a str) -> u32 {
        let mut s = clip(s);
        if self.bytes + s.len() > u32::MAX as usize {
            s = "";
        }
        let next = self.ids.len() as u32;
        *self.ids.entry(s).or_insert_with(|| {
            self.bytes += s.len();
            next
        })
    }

    /// The strings in the order of their numbers.
    fn strings(self) -> Vec<&'a str> {
        let mut strings = vec![""; self.ids.len()];
        for (string, id) in self.ids {
            strings[id as usize] = string;
        }
        strings
    }
}

impl Symbols {
    /// The section's bytes: entries in the order of `(address, valid_from)`, every string once.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Only taking a part can fail.
        let _ = self.write(&mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        bytes
    }

    /// Hands the section's bytes over in parts, so that they are not in memory at once.
    ///
    /// # Errors
    /// What `append` says.
    pub(super) fn write(&self, append: &mut Append<'_>) -> io::Result<()> {
        let mut sorted: Vec<&Symbol> = self.symbols.iter().collect();
        sorted.sort_by_key(|s| (s.address, s.valid_from));
        let mut pool = Pool::default();
        let mut e = Encoder::default();
        e.u32(sorted.len() as u32);
        e.u32(SYMBOL_BYTES as u32);
        for s in &sorted {
            e.flush(append)?;
            e.u64(s.address);
            e.u64(s.valid_from);
            for string in [&s.class, &s.name, &s.signature, &s.source_file] {
                e.u32(pool.id(string));
            }
            e.u32(s.dex_checksum);
            e.u32(s.dex_method_index);
        }
        let bytes = pool.bytes;
        let strings = pool.strings();
        e.u32(strings.len() as u32);
        e.u32(bytes as u32);
        let mut end = 0;
        for string in &strings {
            e.flush(append)?;
            end += string.len();
            e.u32(end as u32);
        }
        for string in &strings {
            e.flush(append)?;
            e.0.extend_from_slice(string.as_bytes());
        }
        append(&e.0)
    }

    /// From a section's bytes. [`SymbolTable`] reads the same without copying.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let table = SymbolTable::decode(bytes)?;
        let expanded: usize = table.iter().map(|s| s.string_bytes()).sum();
        if expanded > MAX_EXPANDED_SYMBOL_BYTES {
            return Err(DecodeError {
                offset: 0,
                what: format!("the symbols' strings would take {expanded} bytes"),
            });
        }
        Ok(Symbols {
            symbols: table.iter().map(|s| s.to_symbol()).collect(),
        })
    }
}

/// A [`Symbol`] inside a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "same fields as Symbol")]
pub struct SymbolRef<'a> {
    pub address: u64,
    pub valid_from: u64,
    pub class: &'a str,
    pub name: &'a str,
    pub signature: &'a str,
    pub source_file: &'a str,
    pub dex_checksum: u32,
    pub dex_method_index: u32,
}

impl SymbolRef<'_> {
    fn string_bytes(&self) -> usize {
        self.class.len() + self.name.len() + self.signature.len() + self.source_file.len()
    }

    /// Whether each of its strings may be what it stands for, in a damaged section.
    fn is_likely(&self) -> bool {
        let is_name = |s: &str| !s.is_empty() && !s.starts_with('(');
        let has_signature = self.signature.is_empty() || shapes::is_signature(self.signature);
        let file = self.source_file;
        let has_file = !file.contains('.') || file.ends_with(".java") || file.ends_with(".kt");
        is_name(self.class) && is_name(self.name) && has_signature && has_file
    }

    /// A copy that owns its strings.
    pub fn to_symbol(&self) -> Symbol {
        Symbol {
            address: self.address,
            valid_from: self.valid_from,
            class: self.class.to_owned(),
            name: self.name.to_owned(),
            signature: self.signature.to_owned(),
            source_file: self.source_file.to_owned(),
            dex_checksum: self.dex_checksum,
            dex_method_index: self.dex_method_index,
        }
    }
}

/// The symbols of a file, read in place. Its strings are checked once, when it is made.
#[derive(Clone, Debug)]
pub struct SymbolTable<'a> {
    entries: Cow<'a, [u8]>,
    entry_bytes: usize,
    strings: Vec<&'a str>,
}

impl<'a> SymbolTable<'a> {
    /// From a section's bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let count = d.u32("the number of symbols")? as usize;
        let entry_bytes = d.u32("the size of a symbol")? as usize;
        if entry_bytes < SYMBOL_BYTES {
            return Err(d.error(format!(
                "symbols are {entry_bytes} bytes, at least {SYMBOL_BYTES} are needed"
            )));
        }
        let entries_at = d.at();
        let total = count.saturating_mul(entry_bytes);
        let entries = d.take(total, "the symbols")?;

        let string_count = d.u32("the number of strings")? as usize;
        let pool_bytes = d.u32("the size of the strings")? as usize;
        let ends_at = d.at();
        let ends = d.take(string_count.saturating_mul(4), "the ends of the strings")?;
        let pool_at = d.at();
        let pool = d.take(pool_bytes, "the strings")?;
        let mut strings = Vec::with_capacity(string_count);
        let mut start = 0;
        for (i, end) in ends.chunks_exact(4).enumerate() {
            let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
            let string = pool.get(start..end).ok_or_else(|| DecodeError {
                offset: ends_at + 4 * i,
                what: format!("string {i} ends at {end}, it starts at {start} of {pool_bytes}"),
            })?;
            strings.push(std::str::from_utf8(string).map_err(|e| DecodeError {
                offset: pool_at + start + e.valid_up_to(),
                what: format!("string {i} is not UTF-8"),
            })?);
            start = end;
        }

        let table = SymbolTable {
            entries: Cow::Borrowed(entries),
            entry_bytes,
            strings,
        };
        let mut previous = None;
        for (i, entry) in entries.chunks_exact(entry_bytes).enumerate() {
            let malformed = |what| DecodeError {
                offset: entries_at + i * entry_bytes,
                what,
            };
            let symbol = table
                .read(entry)
                .ok_or_else(|| malformed(format!("symbol {i} names a string that is not there")))?;
            let key = Some((symbol.address, symbol.valid_from));
            if previous > key {
                return Err(malformed(format!("symbol {i} is out of order")));
            }
            previous = key;
        }
        Ok(table)
    }

    /// From the bytes of a damaged section, or of its beginning: the symbols whose names can still be read, without those that
    /// are fragments by their shape. `None` if there is none.
    pub fn decode_damaged(bytes: &'a [u8]) -> Option<Self> {
        let mut d = Decoder::new(bytes);
        let count = d.u32("the number of symbols").ok()? as usize;
        let entry_bytes = d.u32("the size of a symbol").ok()? as usize;
        if entry_bytes < SYMBOL_BYTES {
            return None;
        }
        let entries = d
            .take(count.saturating_mul(entry_bytes), "the symbols")
            .ok()?;
        let string_count = d.u32("the number of strings").ok()? as usize;
        let pool_bytes = d.u32("the size of the strings").ok()? as usize;
        let ends = d
            .take(string_count.saturating_mul(4), "the ends of the strings")
            .ok()?;
        let pool = &bytes[d.at()..];
        let has_all_bytes = pool.len() == pool_bytes;
        let mut start = 0;
        let strings = ends.chunks_exact(4).map(|end| {
            let end = u32::from_le_bytes([end[0], end[1], end[2], end[3]]) as usize;
            let string = pool.get(start..end);
            // A wrong end damages two strings only.
            start = if end <= pool.len() { end } else { start };
            string.and_then(|string| std::str::from_utf8(string).ok())
        });
        let mut table = SymbolTable {
            entries: Cow::Borrowed(entries),
            entry_bytes,
            strings: shapes::whole(strings.collect(), has_all_bytes),
        };
        let key = |entry: &[u8]| table.read(entry).map(|s| (s.address, s.valid_from));
        let mut sound = Vec::with_capacity(entries.len());
        let mut previous = None;
        let mut all = entries.chunks_exact(entry_bytes).peekable();
        while let Some(entry) = all.next() {
            if !table.read(entry).is_some_and(|s| s.is_likely()) {
                continue;
            }
            // If two symbols are out of order, the wrong one is the one that contradicts the symbol before.
            let this = key(entry);
            let next = all.peek().and_then(|next| key(next));
            let is_above = next.is_some_and(|next| Some(next) >= previous && Some(next) < this);
            if this < previous || is_above {
                continue;
            }
            previous = this;
            sound.extend_from_slice(entry);
        }
        table.entries = Cow::Owned(sound);
        (!table.is_empty()).then_some(table)
    }

    fn read(&self, entry: &[u8]) -> Option<SymbolRef<'a>> {
        let u64_at = |at: usize| {
            let bytes = entry.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let u32_at = |at: usize| {
            let bytes = entry.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let string_at = |at| self.strings.get(u32_at(at)? as usize).copied();
        Some(SymbolRef {
            address: u64_at(0)?,
            valid_from: u64_at(8)?,
            class: string_at(16)?,
            name: string_at(20)?,
            signature: string_at(24)?,
            source_file: string_at(28)?,
            dex_checksum: u32_at(32)?,
            dex_method_index: u32_at(36)?,
        })
    }

    /// Number of symbols.
    pub fn len(&self) -> usize {
        self.entries.len() / self.entry_bytes
    }

    /// Whether there is no symbol.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The symbol at `index`, in the order of `(address, valid_from)`.
    pub fn get(&self, index: usize) -> Option<SymbolRef<'a>> {
        let start = index.checked_mul(self.entry_bytes)?;
        let end = start.checked_add(self.entry_bytes)?;
        self.read(self.entries.get(start..end)?)
    }

    /// All symbols, in the order of `(address, valid_from)`.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SymbolRef<'a>> + '_ {
        // Every entry was read once by `decode`; none fails now.
        self.entries.chunks_exact(self.entry_bytes).map(|entry| {
            self.read(entry).unwrap_or(SymbolRef {
                address: 0,
                valid_from: 0,
                class: "",
                name: "",
                signature: "",
                source_file: "",
                dex_checksum: 0,
                dex_method_index: 0,
            })
        })
    }

    /// The symbol of `address` at the time `counter`: the newest one that was valid then, else the oldest.
    pub fn lookup(&self, address: u64, counter: u64) -> Option<SymbolRef<'a>> {
        let key = (address, counter);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let mid = low + (high - low) / 2;
            let s = self.get(mid)?;
            if (s.address, s.valid_from) <= key {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        let at = |i: usize| self.get(i).filter(|s| s.address == address);
        low.checked_sub(1).and_then(at).or_else(|| at(low))
    }
}
