// SPDX-License-Identifier: Apache-2.0
//! Memory of hostile processes: small parts of it ask its reader for much more memory.

use std::mem::offset_of;

use hindsight_trace_format::shared::{Header, Region, StackArena};

/// What there is much of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bomb {
    /// Methods of one class, without strings, and a node of stacks for each.
    Methods,
    /// Nodes of stacks, each of another method.
    Nodes,
    /// Methods that all have the longest name, and nodes.
    LongNames,
    /// Methods with names and signatures of their own, and nodes.
    OwnNames,
    /// Signatures with many classes, and nodes.
    Signatures,
    /// Names of events.
    Events,
    /// Facts about the process.
    Facts,
}

pub(crate) const STRANGE: [Bomb; 7] = [
    Bomb::Methods,
    Bomb::Nodes,
    Bomb::LongNames,
    Bomb::OwnNames,
    Bomb::Signatures,
    Bomb::Events,
    Bomb::Facts,
];

const STRING: u32 = 1;
const PROCESS: u32 = 2;
const EVENT_NAME: u32 = 3;
const CLASS: u32 = 4;
const NODE_BYTES: usize = 16;

#[derive(Default)]
struct Journal(Vec<u8>);

impl Journal {
    fn record(&mut self, kind: u32, fields: &[u8]) -> u32 {
        let at = self.0.len();
        let length = (8 + fields.len()).next_multiple_of(8);
        self.0.extend((length as u32).to_le_bytes());
        self.0.extend(kind.to_le_bytes());
        self.0.extend(fields);
        self.0.resize(at + length, 0);
        at as u32
    }

    fn string(&mut self, text: &str) -> u32 {
        let mut fields = (text.len() as u32).to_le_bytes().to_vec();
        fields.extend(text.as_bytes());
        self.record(STRING, &fields)
    }

    fn class(&mut self, name: u32, methods: impl Iterator<Item = (u64, u32, u32)>) {
        let mut fields = vec![0; 8];
        fields.extend(words(&[name, name, 0]));
        let count_at = fields.len();
        fields.extend([0; 4]);
        let mut count = 0_u32;
        for (address, name, signature) in methods {
            fields.extend(address.to_le_bytes());
            fields.extend(words(&[name, signature, count, 0]));
            count += 1;
        }
        fields[count_at..][..4].copy_from_slice(&count.to_le_bytes());
        self.record(CLASS, &fields);
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn address(n: usize) -> u64 {
    0x10_0000 + 16 * n as u64
}

/// About so many bytes of journal, and how many nodes belong to it.
fn journal(kind: Bomb, bytes: usize) -> (Journal, usize) {
    let mut journal = Journal::default();
    let all = |count: usize| 0..count;
    let count = match kind {
        Bomb::Nodes => bytes / NODE_BYTES,
        Bomb::Methods => {
            let name = journal.string("a");
            let count = bytes / (24 + NODE_BYTES);
            journal.class(0, all(count).map(|n| (address(n), name, name)));
            count
        }
        Bomb::LongNames => {
            let long = journal.string(&"com.example.".repeat(300));
            let count = bytes / (24 + NODE_BYTES);
            journal.class(long, all(count).map(|n| (address(n), long, long)));
            count
        }
        Bomb::OwnNames => {
            let count = bytes / (24 + NODE_BYTES + 2 * 24);
            for first in all(count).step_by(100) {
                let name = journal.string(&format!("c{first}"));
                let names: Vec<(u32, u32)> = (0..100)
                    .map(|n| {
                        let name = journal.string(&format!("n{}", first + n));
                        (name, journal.string(&format!("s{}", first + n)))
                    })
                    .collect();
                let methods = (first..).zip(names);
                journal.class(name, methods.map(|(n, (a, b))| (address(n), a, b)));
            }
            count
        }
        Bomb::Signatures => {
            let count = bytes / (4096 + 24 + NODE_BYTES);
            for n in all(count) {
                let classes = (0..500).map(|c| format!("L{:05x};", n * 500 + c));
                let signature: String = classes.collect();
                let signature = journal.string(&signature);
                let name = journal.string(&format!("n{n}"));
                journal.class(name, [(address(n), name, signature)].into_iter());
            }
            count
        }
        Bomb::Events => {
            let name = journal.string("e");
            all(bytes / 16).for_each(|_| {
                journal.record(EVENT_NAME, &name.to_le_bytes());
            });
            0
        }
        Bomb::Facts => {
            let name = journal.string(&"f".repeat(40));
            let mut fields = words(&[name, (bytes / 8) as u32]);
            all(bytes / 8).for_each(|_| fields.extend(words(&[name, name])));
            journal.record(PROCESS, &fields);
            0
        }
    };
    (journal, count)
}

/// The memory of a process with a ring, and about so many bytes of what there is much of.
pub(crate) fn bomb(kind: Bomb, bytes: usize) -> Vec<u8> {
    let mut memory = super::image("com.example.bomb", 100);
    let (Journal(journal), nodes) = journal(kind, bytes);
    let mut put = |part: &[u8]| {
        let at = memory.len().next_multiple_of(4096);
        memory.resize(at, 0);
        memory.extend_from_slice(part);
        at as u64
    };
    let journal_at = put(&journal);
    let nodes: Vec<u8> = (0..nodes)
        .flat_map(|n| (u128::from(address(n))).to_le_bytes())
        .collect();
    let nodes_at = put(&[&nodes[..], &nodes].concat());
    let mut word = |at: usize, value: u64| {
        memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    let mut region = |field: usize, at: u64, bytes: usize| {
        word(field + offset_of!(Region, offset), at);
        word(field + offset_of!(Region, bytes), bytes as u64);
    };
    region(offset_of!(Header, journal), journal_at, journal.len());
    region(offset_of!(Header, stacks), nodes_at, 2 * nodes.len());
    word(offset_of!(Header, committed), journal.len() as u64);
    let arena = offset_of!(Header, arenas);
    word(arena + offset_of!(StackArena, state), 1 << 32);
    let used = (nodes.len() / NODE_BYTES) as u32;
    let at = arena + offset_of!(StackArena, used);
    memory[at..at + 4].copy_from_slice(&used.to_le_bytes());
    memory
}
