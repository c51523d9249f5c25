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
            let nodes = d.u32("the number of nodes")? as usize;
            let node_bytes = d.u32("the size of a node")? as usize;
            d.u32("padding")?;
            if node_bytes < NODE_BYTES {
                return Err(d.error(format!(
                    "nodes are {node_bytes} bytes, at least {NODE_BYTES} are needed"
                )));
            }
            self.generations.push(StackGeneration {
                number,
                nodes: Vec::with_capacity(nodes.min(d.remaining() / node_bytes)),
            });
            for index in 0..nodes {
                let start = d.at();
                let mut entry = Decoder::new(d.take(node_bytes, "a node")?);
                let node = StackNode {
                    method: entry.u64("method")?,
                    parent: entry.u32("parent")?,
                    dex_pc: entry.u32("dex_pc")?,
                };
                if node.parent as usize > index {
                    return Err(DecodeError {
                        offset: start,
                        what: format!(
                            "node {} has the parent {}, which is no older",
                            index + 1,
                            node.parent
                        ),
                    });
                }
                if let Some(generation) = self.generations.last_mut() {
                    generation.nodes.push(node);
                }
            }
        }
        Ok(())
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
        assert_eq!(nodes(&bytes[..8 + 16 + 17]), [1]);
        assert!(nodes(&bytes[..8]).is_empty());
        let mut wrong = bytes;
        // The second node's parent.
        wrong[8 + 16 + 16 + 8] = 9;
        assert_eq!(nodes(&wrong), [1]);
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
