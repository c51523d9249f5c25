// SPDX-License-Identifier: Apache-2.0
//! The process-wide table of stacks: two generations of nodes.

use std::sync::Arc;

use hindsight_trace_format::container::{StackGeneration, Stacks};

use super::arena::{Arena, Pin, CLOSED};
use crate::shared::SharedMemory;
use crate::sync::{AtomicU32, Ordering};

/// The nodes of all threads' stacks. Nothing in it waits: where a thread would have to, its stack is lost and counted.
///
/// A full generation is followed by the next one, which takes the place of the generation before the full one.
pub(crate) struct StackTable {
    /// Generation `n` is in arena `n % 2`.
    arenas: [Arena; 2],
    current: AtomicU32,
}

impl StackTable {
    /// An empty table of at most this many bytes, which are touched when they are first used.
    #[cfg(test)]
    pub(crate) fn new(bytes: usize) -> Self {
        Self::in_memory(bytes, None)
    }

    /// The same; the nodes are in the memory that the process shares, if it does.
    pub(crate) fn in_memory(bytes: usize, shared: Option<&Arc<SharedMemory>>) -> Self {
        let arena = |number| {
            let shared = shared.map(|memory| (Arc::clone(memory), number));
            Arena::in_memory(bytes / 2, shared)
        };
        let arenas = [arena(0), arena(1)];
        arenas[1].begin(1);
        StackTable {
            arenas,
            current: AtomicU32::new(1),
        }
    }

    /// The right to add nodes to the current generation. `None` if generations are just changing.
    pub(crate) fn pin(&self) -> Option<Pin<'_>> {
        const TRIES: usize = 2;
        (0..TRIES).find_map(|_| {
            let current = self.current.load(Ordering::Acquire);
            self.arenas[current as usize % 2].pin(Some(current))
        })
    }

    /// Begins the generation after this one, which is full. False if a thread uses the memory that it is to have: the
    /// stacks that it would have had are lost until then.
    pub(crate) fn next_generation(&self, full: u32) -> bool {
        if self.current.load(Ordering::Acquire) != full {
            return true;
        }
        // One a millisecond for 49 days: then the table stays as it is.
        let Some(next) = full.checked_add(1).filter(|next| *next < CLOSED) else {
            return false;
        };
        if !self.arenas[next as usize % 2].begin(next) {
            return false;
        }
        // Fails if another thread began the same generation.
        let _ = (self.current).compare_exchange(full, next, Ordering::Release, Ordering::Relaxed);
        true
    }

    /// Keeps both generations as they are, until the pins are dropped. Stacks are lost if the newer one becomes full meanwhile.
    pub(crate) fn keep_all(&self) -> Vec<Pin<'_>> {
        let pins = self.arenas.iter().map(|arena| arena.pin(None));
        pins.flatten().collect()
    }

    /// A copy of all generations, oldest first.
    pub(crate) fn snapshot(&self) -> Stacks {
        let copies = self.arenas.iter().filter_map(|arena| {
            let pin = arena.pin(None)?;
            Some(StackGeneration {
                number: pin.generation(),
                nodes: pin.nodes(),
            })
        });
        let mut generations: Vec<_> = copies.filter(|g| !g.nodes.is_empty()).collect();
        generations.sort_by_key(|g| g.number);
        Stacks { generations }
    }

    /// The memory that was touched, in bytes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.arenas.iter().map(Arena::used_bytes).sum()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    const A: u64 = 0x7000_0000;
    const B: u64 = 0x7000_0020;
    const C: u64 = 0x7000_0040;
    const E: u64 = 0x7000_0060;

    /// The number of the innermost node of a stack, given outermost first.
    fn intern(table: &StackTable, frames: &[u64]) -> u32 {
        let pin = table.pin().unwrap();
        let add = |parent, &method: &u64| pin.intern(parent, method, 0).unwrap();
        frames.iter().fold(0, add)
    }

    #[test]
    fn nothing_that_is_kept_is_overwritten() {
        let table = StackTable::new(1 << 16);
        let node = intern(&table, &[A, B]);
        assert!(table.next_generation(1));
        intern(&table, &[C]);
        let pins = table.keep_all();
        assert_eq!(pins.len(), 2);
        assert!(!table.next_generation(2));
        let stacks = table.snapshot();
        let frames = stacks.generation(1).unwrap().frames(node);
        assert_eq!(frames.map(|f| f.method).collect::<Vec<_>>(), [B, A]);
        drop(pins);
        assert!(table.next_generation(2));
    }

    #[test]
    fn stacks_share_the_nodes_that_they_have_in_common() {
        let table = StackTable::new(1 << 16);
        let first = intern(&table, &[A, B, C]);
        let second = intern(&table, &[A, B, C]);
        let third = intern(&table, &[A, E, C]);
        assert_eq!(first, second);
        assert_ne!(first, third);
        let stacks = table.snapshot();
        let generation = stacks.generation(1).unwrap();
        // A, B, C, E, and the other C, whose caller is E.
        let methods: Vec<u64> = generation.nodes.iter().map(|n| n.method).collect();
        assert_eq!(methods, [A, B, C, E, C]);
        let frames = |node| {
            let frames = generation.frames(node);
            frames.map(|f| f.method).collect::<Vec<_>>()
        };
        assert_eq!(frames(first), [C, B, A]);
        assert_eq!(frames(third), [C, E, A]);
    }

    #[test]
    fn nodes_differ_by_their_dex_pc_too() {
        let table = StackTable::new(1 << 16);
        let pin = table.pin().unwrap();
        assert_ne!(pin.intern(0, A, 1), pin.intern(0, A, 2));
    }

    #[test]
    fn a_full_table_begins_a_generation_and_keeps_the_one_before() {
        let table = StackTable::new(4096);
        let mut number = 0;
        let mut generations = Vec::new();
        while generations.len() < 3 {
            let pin = table.pin().unwrap();
            let generation = pin.generation();
            if pin.intern(0, A + 8 * number, 0).is_some() {
                number += 1;
                continue;
            }
            drop(pin);
            generations.push(generation);
            assert!(table.next_generation(generation));
        }
        assert_eq!(generations, [1, 2, 3]);
        intern(&table, &[A]);
        let kept = table.snapshot().generations;
        let kept: Vec<u32> = kept.iter().map(|g| g.number).collect();
        assert_eq!(kept, [3, 4]);
        assert!(table.used_bytes() <= 4096);
    }

    #[test]
    fn a_generation_in_use_is_not_overwritten() {
        let table = StackTable::new(4096);
        let old = table.pin().unwrap();
        assert!(table.next_generation(1));
        assert!(!table.next_generation(2));
        drop(old);
        assert!(table.next_generation(2));
        // A thread that found the first generation full comes late.
        assert!(table.next_generation(1));
        assert_eq!(table.pin().unwrap().generation(), 3);
    }

    #[test]
    fn the_last_generation_stays() {
        let table = StackTable::new(4096);
        assert!(table.arenas[0].begin(CLOSED - 1));
        table.current.store(CLOSED - 1, Ordering::Relaxed);
        assert!(!table.next_generation(CLOSED - 1));
        intern(&table, &[A]);
    }

    #[test]
    fn threads_agree_on_the_nodes() {
        let table = StackTable::new(1 << 16);
        let stack = |seed: u64| (0..20_u64).map(move |i| A + 8 * ((seed * i) % 7));
        let rounds = if cfg!(miri) { 4 } else { 200 };
        let numbers = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let round = |seed| intern(&table, &stack(seed).collect::<Vec<_>>());
                        (0..rounds).map(round).collect::<Vec<_>>()
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|t| t.join().unwrap());
            joined.collect::<Vec<_>>()
        });
        assert!(numbers.windows(2).all(|w| w[0] == w[1]));
        let stacks = table.snapshot();
        for (seed, number) in (0..).zip(&numbers[0]) {
            let frames = stacks.generations[0].frames(*number);
            let mut methods: Vec<u64> = frames.map(|f| f.method).collect();
            methods.reverse();
            assert_eq!(methods, stack(seed).collect::<Vec<_>>());
        }
    }
}
