// SPDX-License-Identifier: Apache-2.0
//! The journal: what a file needs beside the rings, in records that are only ever added.
//!
//! A record is its length (bytes, with this header, a multiple of 8), its kind, and its fields. Strings are records of their own,
//! and other records refer to them by their offset, so that each is there once. A record counts when the header's `committed`
//! covers it, which the writer stores after the record.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use crate::container::Symbol;

/// Longest journal, bytes.
pub const MAX_JOURNAL_BYTES: u64 = 1 << 28;
/// Longest string, bytes; longer ones are cut.
pub(super) const MAX_STRING: usize = 4096;
/// Bytes before a record's fields: its length and its kind.
pub(super) const RECORD_HEADER: usize = 8;
/// Bytes of a method in a record of a class.
pub(super) const METHOD_BYTES: usize = 24;
/// Offset of a string that found no room.
const NO_STRING: u32 = u32::MAX;

pub(super) const KIND_STRING: u32 = 1;
pub(super) const KIND_PROCESS: u32 = 2;
pub(super) const KIND_EVENT_NAME: u32 = 3;
pub(super) const KIND_CLASS: u32 = 4;

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

impl LinkedClass {
    /// The names of its methods.
    pub(super) fn into_symbols(self) -> impl Iterator<Item = Symbol> {
        let (class, source_file) = (self.class, self.source_file);
        let (valid_from, dex_checksum) = (self.counter, self.dex_checksum);
        self.methods.into_iter().map(move |method| Symbol {
            address: method.address,
            valid_from,
            class: class.clone(),
            name: method.name,
            signature: method.signature,
            source_file: source_file.clone(),
            dex_checksum,
            dex_method_index: method.dex_method_index,
        })
    }
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
