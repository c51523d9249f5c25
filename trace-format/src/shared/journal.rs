// SPDX-License-Identifier: Apache-2.0
//! The journal: what a file needs beside the rings, in records that are only ever added.
//!
//! A record is its length (bytes, with this header, a multiple of 8), its kind, and its fields. Strings are records of their own,
//! and other records refer to them by their offset, so that each is there once. A record counts when the header's `committed`
//! covers it, which the writer stores after the record.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::container::Symbol;

/// Longest journal, bytes.
pub const MAX_JOURNAL_BYTES: u64 = 1 << 28;
/// Longest string, bytes; longer ones are cut.
const MAX_STRING: usize = 4096;
/// Bytes before a record's fields: its length and its kind.
const RECORD_HEADER: usize = 8;
/// Bytes of a method in a record of a class.
const METHOD_BYTES: usize = 24;
/// Offset of a string that found no room.
const NO_STRING: u32 = u32::MAX;

const KIND_STRING: u32 = 1;
const KIND_PROCESS: u32 = 2;
const KIND_EVENT_NAME: u32 = 3;
const KIND_CLASS: u32 = 4;

/// A method of a class that was linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedMethod {
    /// Address, as in slots.
    pub address: u64,
    /// Its name; empty if several methods may be recorded with this address.
    pub name: String,
    /// Parameter types and return type.
    pub signature: String,
    /// Its index in the dex file.
    pub dex_method_index: u32,
}

/// A class that was linked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedClass {
    /// The counter before any of its methods could run, ticks; 0 if it was linked before recording started.
    pub counter: u64,
    /// Its name, as Java writes it.
    pub class: String,
    /// Its source file; empty if unknown.
    pub source_file: String,
    /// Checksum of its dex file.
    pub dex_checksum: u32,
    /// Its methods.
    pub methods: Vec<NamedMethod>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The process's name, and facts about it. The last one counts.
    Process {
        /// Its name.
        name: String,
        /// Facts, as in `ProcessFacts::extra`.
        extra: Vec<(String, String)>,
    },
    /// The next name of the program's own events.
    EventName(String),
    /// A class was linked.
    Class(LinkedClass),
}

/// Makes the records of a journal. It does not write them: the owner of the memory does.
pub struct JournalWriter {
    /// Bytes that the journal has.
    at: u64,
    capacity: u64,
    /// Offsets of strings, by two hashes of 64 bits: 2^64 strings make one collision likely.
    strings: HashMap<u128, u32>,
    hashers: [RandomState; 2],
}

impl JournalWriter {
    /// Of an empty journal with room for so many bytes, at most [`MAX_JOURNAL_BYTES`].
    pub fn new(capacity: u64) -> Self {
        JournalWriter {
            at: 0,
            capacity: capacity.min(MAX_JOURNAL_BYTES),
            strings: HashMap::new(),
            hashers: [RandomState::new(), RandomState::new()],
        }
    }

    /// Bytes for which the journal has room.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The journal has room for so many bytes from now on, at most [`MAX_JOURNAL_BYTES`].
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity.min(MAX_JOURNAL_BYTES);
    }

    /// Bytes that the journal has.
    pub fn bytes(&self) -> u64 {
        self.at
    }

    /// The records that say this, with the strings that the journal does not have yet: bytes to be written at
    /// [`bytes`](Self::bytes) as it was before the call. `None`: there is no room for them.
    pub fn records(&mut self, entry: &Entry) -> Option<Vec<u8>> {
        let mut new = New {
            writer: self,
            bytes: Vec::new(),
            keys: Vec::new(),
        };
        new.add(entry);
        let New { bytes, keys, .. } = new;
        if self.at + bytes.len() as u64 > self.capacity {
            for key in keys {
                self.strings.remove(&key);
            }
            return None;
        }
        self.at += bytes.len() as u64;
        Some(bytes)
    }

    fn key(&self, string: &str) -> u128 {
        let [high, low] = &self.hashers;
        u128::from(high.hash_one(string)) << 64 | u128::from(low.hash_one(string))
    }
}

/// Records that are being made.
struct New<'a> {
    writer: &'a mut JournalWriter,
    bytes: Vec<u8>,
    /// Of the strings among them.
    keys: Vec<u128>,
}

impl New<'_> {
    fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Process { name, extra } => {
                let mut fields = vec![self.string(name), extra.len() as u32];
                for (key, value) in extra {
                    fields.push(self.string(key));
                    fields.push(self.string(value));
                }
                let bytes: Vec<u8> = fields.iter().flat_map(|f| f.to_le_bytes()).collect();
                self.record(KIND_PROCESS, &bytes);
            }
            Entry::EventName(name) => {
                let fields = self.string(name).to_le_bytes();
                self.record(KIND_EVENT_NAME, &fields);
            }
            Entry::Class(class) => self.add_class(class),
        }
    }

    fn add_class(&mut self, class: &LinkedClass) {
        let mut bytes = class.counter.to_le_bytes().to_vec();
        let fields = [
            self.string(&class.class),
            self.string(&class.source_file),
            class.dex_checksum,
            class.methods.len() as u32,
        ];
        bytes.extend(fields.iter().flat_map(|f| f.to_le_bytes()));
        for method in &class.methods {
            bytes.extend_from_slice(&method.address.to_le_bytes());
            let fields = [
                self.string(&method.name),
                self.string(&method.signature),
                method.dex_method_index,
                0,
            ];
            bytes.extend(fields.iter().flat_map(|f| f.to_le_bytes()));
        }
        self.record(KIND_CLASS, &bytes);
    }

    /// The offset of a string, which is added if it is new.
    fn string(&mut self, string: &str) -> u32 {
        let mut end = string.len().min(MAX_STRING);
        while !string.is_char_boundary(end) {
            end -= 1;
        }
        let string = &string[..end];
        let key = self.writer.key(string);
        if let Some(offset) = self.writer.strings.get(&key) {
            return *offset;
        }
        let offset = self.writer.at + self.bytes.len() as u64;
        let Some(offset) = u32::try_from(offset).ok().filter(|at| *at != NO_STRING) else {
            return NO_STRING;
        };
        let mut bytes = (string.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(string.as_bytes());
        self.record(KIND_STRING, &bytes);
        self.writer.strings.insert(key, offset);
        self.keys.push(key);
        offset
    }

    fn record(&mut self, kind: u32, fields: &[u8]) {
        let length = (RECORD_HEADER + fields.len()).next_multiple_of(8);
        let end = self.bytes.len() + length;
        self.bytes.extend_from_slice(&(length as u32).to_le_bytes());
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(fields);
        self.bytes.resize(end, 0);
    }
}

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

/// The records of a journal, oldest first. Ends at the first record that makes no sense.
///
/// Records refer to strings, and many may refer to the same one: what is read may be far longer than the journal. So it has a
/// limit, behind which everything is left out, and counted.
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The methods to be read, sorted; `None`: all.
    wanted: Option<&'a [u64]>,
    /// Bytes that may still be read; 0 once something found no room.
    room: Cell<usize>,
    left_out: Cell<u64>,
}

impl<'a> Entries<'a> {
    /// Of the committed bytes of a journal. Of classes only the methods at the addresses in `wanted`, which is sorted, are read;
    /// those without any are left out. `room` bounds the memory for what is read, bytes.
    pub fn new(bytes: &'a [u8], wanted: Option<&'a [u64]>, room: usize) -> Self {
        Entries {
            bytes,
            at: 0,
            wanted,
            room: Cell::new(room),
            left_out: Cell::new(0),
        }
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

    fn string(&self, offset: u32) -> String {
        let record = self.record(offset as usize).filter(|_| offset % 8 == 0);
        let Some((KIND_STRING, mut fields, _)) = record else {
            return String::new();
        };
        let length = fields.u32() as usize;
        let text = String::from_utf8_lossy(fields.take(length.min(MAX_STRING)));
        match self.has_room(text.len()) {
            true => text.into_owned(),
            false => String::new(),
        }
    }

    fn is_wanted(&self, address: u64) -> bool {
        self.wanted
            .is_none_or(|wanted| wanted.binary_search(&address).is_ok())
    }

    fn class(&self, mut fields: Fields<'a>) -> Option<LinkedClass> {
        let counter = fields.u64();
        let [class, source_file, dex_checksum] = [fields.u32(), fields.u32(), fields.u32()];
        let count = fields.u32() as usize;
        let methods = fields.take(count.saturating_mul(METHOD_BYTES));
        let mut methods = methods
            .chunks_exact(METHOD_BYTES)
            .filter(|method| self.is_wanted(Fields(method).u64()))
            .peekable();
        if methods.peek().is_none() && self.wanted.is_some() {
            return None;
        }
        let mut linked = LinkedClass {
            counter,
            class: self.string(class),
            source_file: self.string(source_file),
            dex_checksum,
            methods: Vec::new(),
        };
        // Readers store both names with each method.
        let names = linked.class.len() + linked.source_file.len();
        for method in methods {
            if self.has_room(size_of::<Symbol>() + names) {
                linked.methods.push(self.method(Fields(method)));
            }
        }
        Some(linked)
    }

    fn method(&self, mut fields: Fields<'a>) -> NamedMethod {
        NamedMethod {
            address: fields.u64(),
            name: self.string(fields.u32()),
            signature: self.string(fields.u32()),
            dex_method_index: fields.u32(),
        }
    }

    fn process(&self, mut fields: Fields<'a>) -> Entry {
        let name = self.string(fields.u32());
        let count = fields.u32() as usize;
        let pairs = fields.take(count.saturating_mul(8)).chunks_exact(8);
        let pairs = pairs.filter(|_| self.has_room(2 * size_of::<String>()));
        let extra = pairs.map(|pair| {
            let mut fields = Fields(pair);
            (self.string(fields.u32()), self.string(fields.u32()))
        });
        let extra = extra.collect();
        Entry::Process { name, extra }
    }

    fn event_name(&self, mut fields: Fields<'a>) -> Option<Entry> {
        self.has_room(size_of::<String>())
            .then(|| Entry::EventName(self.string(fields.u32())))
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            let (kind, fields, end) = self.record(self.at)?;
            self.at = end;
            let entry = match kind {
                KIND_PROCESS => Some(self.process(fields)),
                KIND_EVENT_NAME => self.event_name(fields),
                KIND_CLASS => self.class(fields).map(Entry::Class),
                _ => None,
            };
            if entry.is_some() {
                return entry;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, first: u64) -> Entry {
        let method = |n: u64| NamedMethod {
            address: first + n * 40,
            name: format!("m{n}"),
            signature: "void ()".into(),
            dex_method_index: n as u32,
        };
        Entry::Class(LinkedClass {
            counter: 7,
            class: name.into(),
            source_file: "Source.java".into(),
            dex_checksum: 9,
            methods: (0..3).map(method).collect(),
        })
    }

    fn written(entries: &[Entry], capacity: u64) -> (Vec<u8>, usize) {
        let mut writer = JournalWriter::new(capacity);
        let mut bytes = Vec::new();
        let mut dropped = 0;
        for entry in entries {
            match writer.records(entry) {
                Some(new) => bytes.extend(new),
                None => dropped += 1,
            }
            assert_eq!(writer.bytes(), bytes.len() as u64);
        }
        (bytes, dropped)
    }

    #[test]
    fn what_is_written_is_read_and_each_string_is_there_once() {
        let entries = [
            Entry::Process {
                name: "com.example".into(),
                extra: vec![("key".into(), "value ä".into())],
            },
            class("A", 0x1000),
            Entry::EventName("A".into()),
            class("B", 0x2000),
        ];
        let (bytes, _) = written(&entries, 1 << 20);
        let read: Vec<Entry> = Entries::new(&bytes, None, usize::MAX).collect();
        assert_eq!(read, entries);
        let count = |text: &[u8]| bytes.windows(text.len()).filter(|w| *w == text).count();
        assert_eq!((count(b"Source.java"), count(b"void ()")), (1, 1));
        let wanted = [0x1028, 0x5000];
        let read: Vec<Entry> = Entries::new(&bytes, Some(&wanted), usize::MAX).collect();
        let [Entry::Process { .. }, Entry::Class(only), Entry::EventName(_)] = &read[..] else {
            panic!("{read:?}");
        };
        assert_eq!((only.class.as_str(), only.methods.len()), ("A", 1));
        assert_eq!(only.methods[0].name, "m1");
    }

    #[test]
    fn a_full_journal_refuses_records_and_loses_no_string_of_later_ones() {
        let small = Entry::EventName("small".into());
        let entries = [
            class("A", 0x1000),
            class("Bbbbbbbbbbbbbbbbb", 0x2000),
            small.clone(),
        ];
        let room = written(&entries[..1], 1 << 20).0.len() as u64 + 48;
        let (bytes, dropped) = written(&entries, room);
        assert_eq!(dropped, 1);
        let read: Vec<Entry> = Entries::new(&bytes, None, usize::MAX).collect();
        assert_eq!(read, [entries[0].clone(), small]);
    }

    #[test]
    fn damaged_records_end_the_journal_or_have_empty_strings() {
        let (bytes, _) = written(&[class("A", 0x1000), class("B", 0x2000)], 1 << 20);
        for at in 0..bytes.len() {
            for value in [0, 1, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                assert!(Entries::new(&damaged, None, usize::MAX).count() <= 2);
                assert!(Entries::new(&damaged[..at], None, usize::MAX).count() <= 2);
            }
        }
    }

    #[test]
    fn a_string_that_is_named_often_does_not_fill_the_memory() {
        let long = "x".repeat(MAX_STRING);
        let facts = |count| Entry::Process {
            name: "p".into(),
            extra: vec![(long.clone(), long.clone()); count],
        };
        let mut methods = class("A", 0x1000);
        if let Entry::Class(class) = &mut methods {
            class.methods = vec![
                NamedMethod {
                    address: 0x1000,
                    name: long.clone(),
                    ..NamedMethod::default()
                };
                1000
            ];
        }
        let names = vec![Entry::EventName(long.clone()); 1000];
        for entries in [&[facts(1000)][..], &[methods], &names] {
            const ROOM: usize = 100_000;
            let (bytes, _) = written(entries, 1 << 20);
            let mut read = Entries::new(&bytes, Some(&[0x1000]), ROOM);
            let text: usize = (read.by_ref())
                .map(|entry| format!("{entry:?}").matches('x').count())
                .sum();
            assert!(text > ROOM / 2 && text <= ROOM, "{text} bytes");
            assert!(read.left_out() > 900);
        }
    }
}
