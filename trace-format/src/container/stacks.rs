// SPDX-License-Identifier: Apache-2.0
//! The table of stacks: section 9.
//!
//! A stack is a chain of nodes from its innermost frame outwards. Stacks share nodes: two frames are one node if method,
//! dex pc and parent are equal. A node's parent has a lower number, so each chain ends.

use std::io;

use super::codec::{Append, Decoder, Encoder};
use super::error::DecodeError;
use super::sections::{StackGeneration, StackNode, Stacks};

/// The least size of a node: three numbers.
const LEAST_NODE_BYTES: usize = 3;
/// The largest: two numbers of 32 bits, and two of 64.
const MOST_NODE_BYTES: usize = 2 * 5 + 2 * 10;
/// Memory for each node of a generation while it is written: its method, and that one's number.
pub(crate) const WRITING_NODE_BYTES: u64 = 12;
/// Number of the generation, count of the nodes and their size.
const GENERATION_BYTES: usize = 12;
/// The size of a node in the earlier form of the table, which has nodes of one size.
const EARLIER_NODE_BYTES: usize = 16;
/// Follows that size. Nodes of today's form do not begin so: their first method would have the address 0.
const EARLIER_PADDING: [u8; 4] = [0; 4];

impl StackGeneration {
    /// The node with this number.
    pub fn node(&self, number: u32) -> Option<StackNode> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.nodes.get(index).copied()
    }

    /// The frames of the stack whose innermost node has this number, innermost first. None if there is no such node.
    pub fn frames(&self, innermost: u32) -> impl Iterator<Item = StackNode> + '_ {
        let mut next = innermost;
        std::iter::from_fn(move || {
            let node = self.node(next)?;
            // Never true in a decoded table.
            next = if node.parent < next { node.parent } else { 0 };
            Some(node)
        })
    }
}

impl Stacks {
    /// The generation with this number.
    pub fn generation(&self, number: u32) -> Option<&StackGeneration> {
        self.generations.iter().find(|g| g.number == number)
    }

    /// The section's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // It only fails if there is no memory for 12 bytes for each node: these bytes need more.
        let _ = self.write(&mut |part| {
            bytes.extend_from_slice(part);
            Ok(())
        });
        bytes
    }

    /// Hands the section's bytes over in parts. The memory for this is at most [`WRITING_NODE_BYTES`] for each node of the largest
    /// generation, and a buffer.
    ///
    /// # Errors
    /// What `append` says; or there is no memory.
    pub(super) fn write(&self, append: &mut Append<'_>) -> io::Result<()> {
        let mut e = Encoder::default();
        e.u32(self.generations.len() as u32);
        e.u32(0);
        append(&e.0)?;
        for generation in &self.generations {
            let nodes = &generation.nodes;
            let mut bytes = 0;
            encode_nodes(nodes, &mut |part| {
                bytes += part.len();
                Ok(())
            })?;
            let mut e = Encoder::default();
            e.u32(generation.number);
            e.u32(nodes.len() as u32);
            e.u32(bytes as u32);
            append(&e.0)?;
            encode_nodes(nodes, append)?;
        }
        Ok(())
    }

    /// From a section's bytes.
    ///
    /// # Errors
    /// If the section ends early, or a node's parent has no lower number than the node.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    /// From the bytes of a damaged section, or of its beginning: the nodes up to the first one that makes no sense.
    pub fn decode_damaged(bytes: &[u8]) -> Self {
        let mut stacks = Stacks::default();
        // The error only says where it ends.
        let _ = stacks.read_from(&mut Decoder::new(bytes));
        stacks
    }

    /// Whether these bytes may be the beginning of such a section that ends early, as writers encode it.
    pub(super) fn begins(bytes: &[u8]) -> bool {
        let stacks = Self::decode_damaged(bytes);
        bytes.get(4..8) == Some(&[0; 4])
            && !stacks.generations.is_empty()
            && stacks.generations.iter().all(|g| g.number != 0)
    }

    pub(super) fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut stacks = Stacks::default();
        stacks.read_from(d)?;
        Ok(stacks)
    }

    /// Adds what can be read before the error, if there is one.
    fn read_from(&mut self, d: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let count = d.u32("the number of generations")? as usize;
        d.u32("padding")?;
        if count > d.remaining() / GENERATION_BYTES {
            return Err(d.error(format!("{count} generations of stacks are not here")));
        }
        for _ in 0..count {
            let number = d.u32("the generation's number")?;
            let count_of_nodes = d.u32("the number of nodes")? as usize;
            let bytes = d.u32("the size of the nodes")? as usize;
            if bytes == EARLIER_NODE_BYTES && d.is_next(&EARLIER_PADDING) {
                d.take(EARLIER_PADDING.len(), "padding")?;
                let mut nodes = Vec::new();
                let decoded = decode_earlier_nodes(d, count_of_nodes, &mut nodes);
                self.generations.push(StackGeneration { number, nodes });
                decoded?;
                continue;
            }
            if bytes < count_of_nodes.saturating_mul(LEAST_NODE_BYTES)
                || bytes > count_of_nodes.saturating_mul(MOST_NODE_BYTES)
            {
                return Err(d.error(format!("{count_of_nodes} nodes do not take {bytes} bytes")));
            }
            let start = d.at();
            // Of a section that ends early the nodes that are here are read.
            let here = d.take(bytes.min(d.remaining()), "the nodes")?;
            let mut nodes = Vec::new();
            let decoded = decode_nodes(here, count_of_nodes, &mut nodes);
            self.generations.push(StackGeneration { number, nodes });
            decoded.map_err(|e| DecodeError {
                offset: start + e.offset,
                ..e
            })?;
            if here.len() < bytes {
                return Err(d.error(format!("the nodes claim {bytes} bytes")));
            }
        }
        Ok(())
    }
}

/// The numbers of methods, in the order of their first nodes.
struct Numbers {
    /// Sorted.
    methods: Vec<u64>,
    /// Of each; `u32::MAX`: it has none yet.
    numbers: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn of(nodes: &[StackNode]) -> io::Result<Self> {
        let no_memory = |_| io::Error::from(io::ErrorKind::OutOfMemory);
        let mut methods = Vec::new();
        let count = nodes.len();
        methods.try_reserve_exact(count).map_err(no_memory)?;
        methods.extend(nodes.iter().map(|node| node.method));
        methods.sort_unstable();
        methods.dedup();
        let mut numbers = Vec::new();
        let count = methods.len();
        numbers.try_reserve_exact(count).map_err(no_memory)?;
        numbers.resize(count, u32::MAX);
        Ok(Numbers {
            methods,
            numbers,
            next: 0,
        })
    }

    /// The number of one of the methods, and whether it has just got it.
    fn number(&mut self, method: u64) -> (u32, bool) {
        let index = self.methods.binary_search(&method);
        let Some(number) = index.ok().and_then(|index| self.numbers.get_mut(index)) else {
            return (0, false);
        };
        let is_new = *number == u32::MAX;
        if is_new {
            *number = self.next;
            self.next += 1;
        }
        (*number, is_new)
    }
}

/// Three numbers a node: how much lower the parent's number is, 0 without a parent; which of the methods so far it is, in the
/// order of their first nodes; the dex pc plus one. A new method's number is followed by the difference of its address to
/// the method before it.
fn encode_nodes(nodes: &[StackNode], append: &mut Append<'_>) -> io::Result<()> {
    let mut e = Encoder::default();
    let mut numbers = Numbers::of(nodes)?;
    let mut last = 0;
    for (index, node) in nodes.iter().enumerate() {
        e.flush(append)?;
        let number = index as u64 + 1;
        // A parent that is no older is refused by the reader.
        let parent = u64::from(node.parent);
        e.varint(match parent {
            0 => 0,
            older if older < number => number - older,
            _ => number,
        });
        let (method, is_new) = numbers.number(node.method);
        e.varint(u64::from(method));
        if is_new {
            let difference = node.method.wrapping_sub(last) as i64;
            e.varint((difference << 1 ^ difference >> 63) as u64);
            last = node.method;
        }
        e.varint(u64::from(node.dex_pc.wrapping_add(1)));
    }
    append(&e.0)
}

/// Adds the nodes to `nodes`, also those before the place of an error.
fn decode_nodes(bytes: &[u8], count: usize, nodes: &mut Vec<StackNode>) -> Result<(), DecodeError> {
    let mut d = Decoder::new(bytes);
    nodes.reserve(count.min(d.remaining() / LEAST_NODE_BYTES));
    let mut methods: Vec<u64> = Vec::new();
    for number in 1..=count as u64 {
        let before = d.varint("parent")?;
        if before >= number && before != 0 {
            return Err(d.error(format!("node {number} has no parent {before} nodes before")));
        }
        let parent = if before == 0 { 0 } else { number - before };
        let method = d.varint("method")?;
        let known = usize::try_from(method).unwrap_or(usize::MAX);
        if known > methods.len() {
            return Err(d.error(format!(
                "node {number} has the method {known}, which is new"
            )));
        }
        if known == methods.len() {
            let difference = d.varint("address")?;
            let difference = difference >> 1 ^ (difference & 1).wrapping_neg();
            methods.push(methods.last().map_or(0, |m| *m).wrapping_add(difference));
        }
        let dex_pc = u32::try_from(d.varint("dex_pc")?)
            .map_err(|_| d.error("dex_pc has more than 32 bits"))?;
        nodes.push(StackNode {
            method: methods[known],
            parent: parent as u32,
            dex_pc: dex_pc.wrapping_sub(1),
        });
    }
    Ok(())
}

/// Adds the nodes of the earlier form to `nodes`, also those before the place of an error.
fn decode_earlier_nodes(
    d: &mut Decoder<'_>,
    count: usize,
    nodes: &mut Vec<StackNode>,
) -> Result<(), DecodeError> {
    nodes.reserve(count.min(d.remaining() / EARLIER_NODE_BYTES));
    for number in 1..=count {
        let method = d.u64("method")?;
        let parent = d.u32("parent")?;
        if parent as usize >= number {
            return Err(d.error(format!(
                "node {number} has the parent {parent}, which is no older"
            )));
        }
        nodes.push(StackNode {
            method,
            parent,
            dex_pc: d.u32("dex_pc")?,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(method: u64, parent: u32, dex_pc: u32) -> StackNode {
        StackNode {
            method,
            parent,
            dex_pc,
        }
    }

    #[test]
    fn a_stack_is_a_chain_of_nodes() {
        let generation = StackGeneration {
            number: 7,
            nodes: vec![node(0xa000, 0, 3), node(0xb000, 1, 5), node(0xc000, 1, 9)],
        };
        let stacks = Stacks {
            generations: vec![generation.clone()],
        };
        assert_eq!(Stacks::decode(&stacks.encode()).unwrap(), stacks);
        assert_eq!(stacks.generation(7), Some(&generation));
        assert_eq!(stacks.generation(1), None);
        let methods = |node| {
            let frames = generation.frames(node);
            frames.map(|f| f.method).collect::<Vec<_>>()
        };
        assert_eq!(methods(3), [0xc000, 0xa000]);
        assert_eq!(methods(1), [0xa000]);
        assert!(methods(0).is_empty());
        assert!(methods(4).is_empty());
    }

    #[test]
    fn of_a_damaged_table_the_nodes_before_the_damage_are_read() {
        let generation = |number| StackGeneration {
            number,
            nodes: vec![node(0xa000, 0, 3), node(0xb000, 1, 5), node(0xc000, 1, 9)],
        };
        let stacks = Stacks {
            generations: vec![generation(7), generation(8)],
        };
        let bytes = stacks.encode();
        let nodes = |bytes: &[u8]| {
            let generations = Stacks::decode_damaged(bytes).generations;
            generations
                .iter()
                .map(|g| g.nodes.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(nodes(&bytes), [3, 3]);
        assert_eq!(nodes(&bytes[..bytes.len() - 1]), [3, 2]);
        // Its nodes take six, five and five bytes.
        let first = 8 + GENERATION_BYTES;
        assert_eq!(nodes(&bytes[..first + 12]), [2]);
        assert!(nodes(&bytes[..8]).is_empty());
        let mut wrong = bytes;
        // The second node's parent.
        wrong[first + 6] = 9;
        assert_eq!(nodes(&wrong), [1]);
    }

    #[test]
    fn all_values_of_nodes_come_back() {
        let mut nodes = Vec::new();
        for (number, method) in [
            0,
            1,
            u64::MAX,
            0x7000_0000,
            0x7000_0020,
            1,
            0x7000_0000,
            1 << 63,
        ]
        .into_iter()
        .enumerate()
        {
            for dex_pc in [0, 1, 0x7f, 0x80, u32::MAX - 1, u32::MAX] {
                nodes.push(node(method, nodes.len() as u32, dex_pc));
                nodes.push(node(method, number as u32 / 2, dex_pc));
            }
        }
        let stacks = Stacks {
            generations: vec![
                StackGeneration {
                    number: 1,
                    nodes: nodes.clone(),
                },
                StackGeneration {
                    number: u32::MAX,
                    nodes,
                },
            ],
        };
        let bytes = stacks.encode();
        assert_eq!(Stacks::decode(&bytes).unwrap(), stacks);
        for length in 0..bytes.len() {
            assert!(Stacks::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn nodes_of_one_size_are_read() {
        let mut e = Encoder::default();
        for word in [1, 0, 7, 2, 16, 0] {
            e.u32(word);
        }
        for (method, parent, dex_pc) in [(0xa000, 0, 3), (0xb000, 1, u32::MAX)] {
            e.u64(method);
            e.u32(parent);
            e.u32(dex_pc);
        }
        let nodes = vec![node(0xa000, 0, 3), node(0xb000, 1, u32::MAX)];
        let generation = StackGeneration { number: 7, nodes };
        assert_eq!(Stacks::decode(&e.0).unwrap().generations, [generation]);
        let cut = Stacks::decode_damaged(&e.0[..e.0.len() - 1]);
        assert_eq!(cut.generations[0].nodes.len(), 1);
        // A parent that is no older.
        e.0[24 + 16 + 8] = 2;
        assert!(Stacks::decode(&e.0).is_err());
    }

    #[test]
    fn nodes_of_a_few_methods_take_few_bytes() {
        let nodes: Vec<_> = (0..1000)
            .map(|i| node(0x7000_0000 + 32 * u64::from(i % 50), i, i % 90))
            .collect();
        let count = nodes.len();
        let stacks = Stacks {
            generations: vec![StackGeneration { number: 1, nodes }],
        };
        assert!(stacks.encode().len() <= 3 * count + 200);
    }

    #[test]
    fn a_table_claims_no_more_nodes_than_it_has() {
        let mut e = Encoder::default();
        for word in [1, 0, 7, u32::MAX, 3, 0] {
            e.u32(word);
        }
        assert!(Stacks::decode(&e.0).is_err());
    }

    #[test]
    fn a_parent_is_older_than_its_child() {
        for parent in [2, 3, u32::MAX] {
            let stacks = Stacks {
                generations: vec![StackGeneration {
                    number: 1,
                    nodes: vec![node(0xa000, 0, 3), node(0xb000, parent, 5)],
                }],
            };
            assert!(Stacks::decode(&stacks.encode()).is_err(), "{parent}");
            // A table that was never encoded.
            assert!(stacks.generations[0].frames(2).count() <= 2);
        }
    }
}
