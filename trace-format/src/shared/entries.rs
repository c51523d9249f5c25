// SPDX-License-Identifier: Apache-2.0
//! Reads a journal, in bounded memory.

use std::cell::Cell;

use crate::container::Symbol;

use super::journal::{
    Entry, LinkedClass, NamedMethod, KIND_CLASS, KIND_EVENT_NAME, KIND_PROCESS, KIND_STRING,
    MAX_STRING, METHOD_BYTES, RECORD_HEADER,
};

/// The fields of a record; a missing one is 0.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn u32(&mut self) -> u32 {
        let bytes = self.take(4).first_chunk();
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> u64 {
        let bytes = self.take(8).first_chunk();
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

/// Methods of a class that are read at once: a longer class is read in pieces.
const PIECE: usize = 256;
/// Memory for a method beside its strings: in the list of symbols, and while that is sorted or written; bytes.
const METHOD_COST: usize = 2 * size_of::<Symbol>() + 96;
/// Memory for a string that a file may not have yet, beside the string: its number in a hash table that grows; bytes.
const NUMBER_COST: usize = 96;
/// Memory for a text beside its bytes: in a list that grows, and while it is written; bytes.
const TEXT_COST: usize = 256;

/// Memory for a string of a symbol, of this length, bytes: also the allocator's.
fn string_cost(length: usize) -> usize {
    match length {
        0 => 0,
        length => length + 32,
    }
}

/// The same for a string that a file may not have yet.
fn new_string_cost(length: usize) -> usize {
    string_cost(length) + NUMBER_COST
}

/// Memory for a text, of this length, bytes: there are copies of it while it is written.
fn text_cost(length: usize) -> usize {
    4 * length + TEXT_COST
}

/// The records of a journal, oldest first. Ends at the first record that makes no sense.
///
/// Records refer to strings, and many may refer to the same one: what is read may be far longer than the journal. So it has a
/// limit, behind which everything is left out, and counted.
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The methods to be read, sorted; `None`: all.
    wanted: Option<&'a [u64]>,
    /// Only facts about the process are read.
    is_of_process: bool,
    /// The record of a class, and which of its methods comes next.
    unfinished: Option<(usize, usize)>,
    /// Bytes that may still be used; 0 once something found no room.
    room: Cell<usize>,
    left_out: Cell<u64>,
}

impl<'a> Entries<'a> {
    /// Of the committed bytes of a journal. Of classes only the methods at the addresses in `wanted`, which is sorted, are read;
    /// those without any are left out; a long class comes in pieces. `room` bounds the memory for what is read, bytes: also for
    /// a list of symbols with the strings of its class in each, and for sorting and writing it.
    pub fn new(bytes: &'a [u8], wanted: Option<&'a [u64]>, room: usize) -> Self {
        Entries {
            bytes,
            at: 0,
            wanted,
            is_of_process: false,
            unfinished: None,
            room: Cell::new(room),
            left_out: Cell::new(0),
        }
    }

    /// Of which only facts about the process are read.
    pub(super) fn of_process(bytes: &'a [u8], room: usize) -> Self {
        Entries {
            is_of_process: true,
            ..Entries::new(bytes, None, room)
        }
    }

    /// Bytes that may still be used.
    pub(super) fn room(&self) -> usize {
        self.room.get()
    }

    /// How many strings, methods and facts found no room so far.
    pub fn left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Whether there is room for so many bytes more. After the first time that there is not, there is none for anything.
    fn has_room(&self, bytes: usize) -> bool {
        let left = self.room.get().checked_sub(bytes);
        self.room.set(left.unwrap_or(0));
        if left.is_none() {
            self.left_out.set(self.left_out.get() + 1);
        }
        left.is_some()
    }

    /// The record at this offset: its kind, and its fields.
    fn record(&self, at: usize) -> Option<(u32, Fields<'a>, usize)> {
        let mut fields = Fields(self.bytes.get(at..)?);
        let (length, kind) = (fields.u32() as usize, fields.u32());
        let is_sound = length >= RECORD_HEADER && length % 8 == 0;
        let end = at.checked_add(length).filter(|_| is_sound)?;
        let fields = self.bytes.get(at + RECORD_HEADER..end)?;
        Some((kind, Fields(fields), end))
    }

    /// A string; `cost` is the memory for one of a length, bytes.
    fn string(&self, offset: u32, cost: fn(usize) -> usize) -> String {
        let record = self.record(offset as usize).filter(|_| offset % 8 == 0);
        let Some((KIND_STRING, mut fields, _)) = record else {
            return String::new();
        };
        let length = fields.u32() as usize;
        let text = String::from_utf8_lossy(fields.take(length.min(MAX_STRING)));
        match self.has_room(cost(text.len())) {
            true => text.into_owned(),
            false => String::new(),
        }
    }

    fn is_wanted(&self, address: u64) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted.binary_search(&address).is_ok())
    }

    /// The class in this record, with some of its methods, from this one on.
    fn class(
        &mut self,
        record: usize,
        mut fields: Fields<'a>,
        first: usize,
    ) -> Option<LinkedClass> {
        let counter = fields.u64();
        let [class, source_file, dex_checksum] = [fields.u32(), fields.u32(), fields.u32()];
        let count = fields.u32() as usize;
        let methods = fields.take(count.saturating_mul(METHOD_BYTES));
        let mut methods = (0..)
            .zip(methods.chunks_exact(METHOD_BYTES))
            .skip(first)
            .filter(|(_, method)| self.is_wanted(Fields(method).u64()))
            .peekable();
        if methods.peek().is_none() && self.wanted.is_some() {
            return None;
        }
        let mut linked = LinkedClass {
            counter,
            class: self.string(class, new_string_cost),
            source_file: self.string(source_file, new_string_cost),
            dex_checksum,
            methods: Vec::new(),
        };
        // Readers store both names with each method.
        let names = string_cost(linked.class.len()) + string_cost(linked.source_file.len());
        while linked.methods.len() < PIECE {
            let Some((_, method)) = methods.next() else {
                break;
            };
            if self.has_room(METHOD_COST + names) {
                linked.methods.push(self.method(Fields(method)));
            }
        }
        let next = methods.peek().map(|(index, _)| (record, *index));
        self.unfinished = next;
        Some(linked)
    }

    fn method(&self, mut fields: Fields<'a>) -> NamedMethod {
        NamedMethod {
            address: fields.u64(),
            name: self.string(fields.u32(), string_cost),
            signature: self.string(fields.u32(), new_string_cost),
            dex_method_index: fields.u32(),
        }
    }

    fn process(&self, mut fields: Fields<'a>) -> Entry {
        let name = self.string(fields.u32(), text_cost);
        let count = fields.u32() as usize;
        let pairs = fields.take(count.saturating_mul(8)).chunks_exact(8);
        let pairs = pairs.filter(|_| self.has_room(TEXT_COST));
        let extra = pairs.map(|pair| {
            let mut fields = Fields(pair);
            let [key, value] = [fields.u32(), fields.u32()];
            (self.string(key, text_cost), self.string(value, text_cost))
        });
        let extra = extra.collect();
        Entry::Process { name, extra }
    }

    fn event_name(&self, mut fields: Fields<'a>) -> Option<Entry> {
        self.has_room(TEXT_COST)
            .then(|| Entry::EventName(self.string(fields.u32(), text_cost)))
    }

    /// The next part of a class that is not read whole.
    fn rest(&mut self) -> Option<LinkedClass> {
        let (record, first) = self.unfinished.take()?;
        let (_, fields, _) = self.record(record)?;
        self.class(record, fields, first)
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if let Some(class) = self.rest() {
            return Some(Entry::Class(class));
        }
        loop {
            let record = self.at;
            let (kind, fields, end) = self.record(record)?;
            self.at = end;
            let entry = match kind {
                KIND_PROCESS => Some(self.process(fields)),
                _ if self.is_of_process => None,
                KIND_EVENT_NAME => self.event_name(fields),
                KIND_CLASS => self.class(record, fields, 0).map(Entry::Class),
                _ => None,
            };
            if entry.is_some() {
                return entry;
            }
        }
    }
}

#[cfg(test)]
mod tests;
