// SPDX-License-Identifier: Apache-2.0
//! The stacks that events name, with methods in place of addresses.

use hashbrown::HashMap;
use hindsight_trace_format::container::{self, SymbolTable};

use crate::methods::{Merger, MethodId, Resolver};

/// Most frames of a stack. Devices record no more; the outermost of a deeper stack are left out.
pub const MAX_STACK_FRAMES: usize = 256;
/// [`Frame::dex_pc`] in a native method.
pub const NO_DEX_PC: u32 = u32::MAX;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The method. If its address had several names, the last one.
    pub method: MethodId,
    /// Index of the instruction in the method's dex code, or [`NO_DEX_PC`].
    pub dex_pc: u32,
}

/// Names a stack, by its innermost node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StackId {
    /// Number of the generation.
    pub generation: u32,
    /// Number of the node in it.
    pub node: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    frame: Frame,
    parent: u32,
}

/// The stacks of a trace, as nodes that they share.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// By generation; the node with number `n` is at index `n - 1`.
    generations: HashMap<u32, Vec<Node>>,
}

impl Stacks {
    /// The stacks of a file, with the methods of those that are `used`.
    pub(crate) fn new(
        stacks: &container::Stacks,
        used: impl Iterator<Item = StackId>,
        symbols: Option<&SymbolTable<'_>>,
        merger: &mut Merger,
    ) -> Self {
        let mut generations: HashMap<u32, Vec<Node>> = HashMap::new();
        for generation in &stacks.generations {
            let nodes = generation.nodes.iter().map(|node| Node {
                frame: Frame {
                    method: MethodId::NOT_RECORDED,
                    dex_pc: node.dex_pc,
                },
                parent: node.parent,
            });
            generations.insert(generation.number, nodes.collect());
        }
        let mut resolver = Resolver::new(symbols);
        for stack in used {
            let StackId {
                generation,
                node: mut number,
            } = stack;
            let named = stacks.generation(generation);
            let (Some(named), Some(nodes)) = (named, generations.get_mut(&generation)) else {
                continue;
            };
            // Up to a node that an earlier event named.
            while let Some(node) = number
                .checked_sub(1)
                .and_then(|i| nodes.get_mut(i as usize))
            {
                if node.frame.method != MethodId::NOT_RECORDED {
                    break;
                }
                let address = named.node(number).map_or(0, |node| node.method);
                // The thread's ids, for now.
                node.frame.method = MethodId(resolver.resolve(address, u64::MAX).0);
                number = node.parent;
            }
        }
        let ids = merger.merge(&resolver.into_keys(), symbols);
        for node in generations.values_mut().flatten() {
            let id = ids.get(node.frame.method.0 as usize);
            node.frame.method = id.copied().unwrap_or(MethodId::NOT_RECORDED);
        }
        Stacks { generations }
    }

    /// Whether there is no stack.
    pub fn is_empty(&self) -> bool {
        self.generations.values().all(Vec::is_empty)
    }

    /// The stack of the outermost frames of a stack, this number of them; the stack itself if it has no more.
    #[must_use]
    pub fn outermost(&self, stack: StackId, frames: usize) -> StackId {
        let depth = self.frames(stack).count();
        let nodes = self.generations.get(&stack.generation);
        let parent = |node: u32| nodes?.get(node.checked_sub(1)? as usize).map(|n| n.parent);
        let mut node = stack.node;
        for _ in frames..depth {
            node = parent(node).unwrap_or(0);
        }
        StackId { node, ..stack }
    }

    /// The frames of a stack, innermost first. None if the stack is not in the file.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        let StackId { generation, node } = stack;
        let nodes = self
            .generations
            .get(&generation)
            .map_or(&[][..], |g| &g[..]);
        let mut next = node;
        let frames = std::iter::from_fn(move || {
            let node = nodes.get(next.checked_sub(1)? as usize)?;
            next = node.parent;
            Some(node.frame)
        });
        frames.take(MAX_STACK_FRAMES)
    }

    /// Generations and their nodes, each with its parent's number.
    pub fn generations(&self) -> impl Iterator<Item = (u32, Vec<(Frame, u32)>)> + '_ {
        let mut numbers: Vec<u32> = self.generations.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| {
            let nodes = self.generations[&number].iter();
            (number, nodes.map(|n| (n.frame, n.parent)).collect())
        })
    }
}
