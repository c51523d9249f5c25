// SPDX-License-Identifier: Apache-2.0
//! The stacks that events name, with methods in place of addresses.

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};
use hindsight_trace_format::container::{self, SymbolTable};

use crate::clock::Clock;
use crate::methods::{Merger, MethodId, Resolver};

/// Most frames of a stack. Devices record no more; the outermost of a deeper stack are left out.
pub const MAX_STACK_FRAMES: usize = 256;
/// [`Frame::dex_pc`] in a native method.
pub const NO_DEX_PC: u32 = u32::MAX;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The method.
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
    /// The stacks of a file, with the methods of those that are `used`, and when, CLOCK_BOOTTIME, ns. An address that several
    /// methods had stands for the one of that time: where a node is of several methods so, it has copies. Returns the
    /// number of the node of each of `used`, in their order.
    pub(crate) fn new(
        stacks: &container::Stacks,
        used: impl Iterator<Item = (StackId, u64)>,
        symbols: Option<&SymbolTable<'_>>,
        clock: &Clock,
        merger: &mut Merger,
    ) -> (Self, Vec<u32>) {
        let mut naming = Naming::new(stacks, symbols);
        let name = |(stack, at_ns)| {
            if naming.reused.is_empty() {
                naming.name(stack)
            } else {
                naming.name_at(stack, clock.ticks_at(at_ns))
            }
        };
        let nodes = used.map(name).collect();
        let Naming {
            mut generations,
            resolver,
            ..
        } = naming;
        let ids = merger.merge(&resolver.into_keys(), symbols);
        for node in generations.values_mut().flatten() {
            let id = ids.get(node.frame.method.0 as usize);
            node.frame.method = id.copied().unwrap_or(MethodId::NOT_RECORDED);
        }
        (Stacks { generations }, nodes)
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

/// The most copies of nodes: a damaged file's events may be of any time.
const MOST_COPIES: usize = 1 << 20;

/// Gives the nodes their methods.
struct Naming<'s, 'a, 'b> {
    stacks: &'s container::Stacks,
    /// The methods have the resolver's ids.
    generations: HashMap<u32, Vec<Node>>,
    resolver: Resolver<'a, 'b>,
    /// The addresses that several methods had: their class loaders were unloaded.
    reused: HashSet<u64>,
    /// The numbers of copies: by generation, number of the node, number of the parent, and method.
    copies: HashMap<(u32, u32, u32, MethodId), u32>,
}

impl<'s, 'a, 'b> Naming<'s, 'a, 'b> {
    fn new(stacks: &'s container::Stacks, symbols: Option<&'b SymbolTable<'a>>) -> Self {
        let generations = stacks.generations.iter().map(|generation| {
            let nodes = generation.nodes.iter().map(|node| Node {
                frame: Frame {
                    method: MethodId::NOT_RECORDED,
                    dex_pc: node.dex_pc,
                },
                parent: node.parent,
            });
            (generation.number, nodes.collect())
        });
        // Sorted by their addresses.
        let addresses = symbols.into_iter().flat_map(|table| table.iter());
        let mut last = None;
        let reused = addresses
            .map(|symbol| symbol.address)
            .filter(|address| last.replace(*address) == Some(*address));
        Naming {
            stacks,
            generations: generations.collect(),
            resolver: Resolver::new(symbols),
            reused: reused.collect(),
            copies: HashMap::new(),
        }
    }

    /// Names the frames of a stack, up to a node that an earlier event named. Returns the number of its node.
    fn name(&mut self, stack: StackId) -> u32 {
        let file = self.stacks.generation(stack.generation);
        let (Some(file), Some(nodes)) = (file, self.generations.get_mut(&stack.generation)) else {
            return stack.node;
        };
        let mut number = stack.node;
        while let Some(node) = number
            .checked_sub(1)
            .and_then(|i| nodes.get_mut(i as usize))
        {
            if node.frame.method != MethodId::NOT_RECORDED {
                break;
            }
            let address = file.node(number).map_or(0, |node| node.method);
            node.frame.method = MethodId(self.resolver.resolve(address, u64::MAX).0);
            number = node.parent;
        }
        stack.node
    }

    /// Names the frames of a stack that was taken at this counter. Returns the number of its node, which may be a copy's.
    fn name_at(&mut self, stack: StackId, counter: u64) -> u32 {
        let file = self.stacks.generation(stack.generation);
        let (Some(file), Some(nodes)) = (file, self.generations.get_mut(&stack.generation)) else {
            return stack.node;
        };
        let parent_of = |number: &u32| file.node(*number).map(|node| node.parent);
        let numbers = std::iter::successors(Some(stack.node), parent_of);
        let numbers = numbers.take_while(|number| file.node(*number).is_some());
        let mut numbers: Vec<u32> = numbers.take(MAX_STACK_FRAMES).collect();
        numbers.reverse();
        let Some(mut parent) = numbers.first().and_then(parent_of) else {
            return stack.node;
        };
        for number in numbers {
            let address = file.node(number).map_or(0, |node| node.method);
            let at = if self.reused.contains(&address) {
                counter
            } else {
                u64::MAX
            };
            let method = MethodId(self.resolver.resolve(address, at).0);
            let Some(node) = nodes.get_mut(number as usize - 1) else {
                return stack.node;
            };
            let is_named = node.frame.method != MethodId::NOT_RECORDED;
            if node.parent == parent && (!is_named || node.frame.method == method) {
                node.frame.method = method;
                parent = number;
                continue;
            }
            let dex_pc = node.frame.dex_pc;
            let key = (stack.generation, number, parent, method);
            let copies = self.copies.len();
            parent = match self.copies.entry(key) {
                Entry::Occupied(copy) => *copy.get(),
                Entry::Vacant(_) if copies == MOST_COPIES => return stack.node,
                Entry::Vacant(place) => {
                    let frame = Frame { method, dex_pc };
                    nodes.push(Node { frame, parent });
                    *place.insert(nodes.len() as u32)
                }
            };
        }
        parent
    }
}
