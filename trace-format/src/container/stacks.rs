// SPDX-License-Identifier: Apache-2.0
//! The table of stacks: section 9.
//!
//! A stack is a chain of nodes from its innermost frame outwards. Stacks share nodes: two frames are one node if method,
//! dex pc and parent are equal. A node's parent has a lower number, so each chain ends.

use super::codec::{Decoder, Encoder};
use super::error::DecodeError;
use super::sections::{StackGeneration, StackNode, Stacks};

const NODE_BYTES: usize = 16;
/// Number, count and size of the nodes, and four bytes of padding.
const GENERATION_BYTES: usize = 16;

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
        let mut e = Encoder::default();
        e.u32(self.generations.len() as u32);
        e.u32(0);
        for generation in &self.generations {
            e.u32(generation.number);
            e.u32(generation.nodes.len() as u32);
            e.u32(NODE_BYTES as u32);
            e.u32(0);
            for node in &generation.nodes {
                e.u64(node.method);
                e.u32(node.parent);
                e.u32(node.dex_pc);
            }
        }
        e.0
    }

    /// From a section's bytes.
    ///
    /// # Errors
    /// If the section ends early, or a node's parent has no lower number than the node.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::read(&mut Decoder::new(bytes))
    }

    pub(super) fn read(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut generations = Vec::new();
        let count = d.u32("the number of generations")? as usize;
        d.u32("padding")?;
        if count > d.remaining() / GENERATION_BYTES {
            return Err(d.error(format!("{count} generations of stacks are not here")));
        }
        for _ in 0..count {
            let number = d.u32("the generation's number")?;
            let nodes = d.u32("the number of nodes")? as usize;
            let node_bytes = d.u32("the size of a node")? as usize;
            d.u32("padding")?;
            if node_bytes < NODE_BYTES {
                return Err(d.error(format!(
                    "nodes are {node_bytes} bytes, at least {NODE_BYTES} are needed"
                )));
            }
            let start = d.at();
            let bytes = d.take(nodes.saturating_mul(node_bytes), "the nodes")?;
            let mut generation = StackGeneration {
                number,
                nodes: Vec::with_capacity(nodes),
            };
            for (index, entry) in bytes.chunks_exact(node_bytes).enumerate() {
                let mut d = Decoder::new(entry);
                let node = StackNode {
                    method: d.u64("method")?,
                    parent: d.u32("parent")?,
                    dex_pc: d.u32("dex_pc")?,
                };
                if node.parent as usize > index {
                    return Err(DecodeError {
                        offset: start + index * node_bytes,
                        what: format!(
                            "node {} has the parent {}, which is no older",
                            index + 1,
                            node.parent
                        ),
                    });
                }
                generation.nodes.push(node);
            }
            generations.push(generation);
        }
        Ok(Stacks { generations })
    }
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
