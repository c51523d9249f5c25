// SPDX-License-Identifier: Apache-2.0
//! The memory of one generation of stacks: nodes, and an index that finds them.

#[cfg(not(feature = "loom"))]
use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};
use std::sync::Arc;

use hindsight_trace_format::container::StackNode;

use crate::shared::SharedMemory;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The longest search in the index. A new node that finds no place within it counts as "no memory left".
const MAX_PROBES: usize = 64;
/// The number of an arena that is being cleared; no generation has it.
pub(crate) const CLOSED: u32 = u32::MAX;

/// A node: written once, before the index names it.
#[repr(C)]
struct Node {
    method: AtomicU64,
    /// The parent's number in the upper half, the dex pc in the lower one.
    rest: AtomicU64,
}

/// Nodes that are only ever added, and an open-addressed hash table of their numbers.
///
/// A thread that adds a node takes the next number, writes the node, and then stores the number in the index with a
/// compare-and-swap. Whoever finds the number there sees the whole node. If two threads add equal nodes at the same time,
/// one of the two finds the other's number in the index, and its own number stays unused.
///
/// The arena is cleared and used again for a later generation, when no thread uses it any more.
pub(crate) struct Arena {
    /// The generation's number in the upper half (0: never used), the number of users in the lower one.
    state: AtomicU64,
    /// Number of nodes.
    used: AtomicU32,
    /// Numbers of nodes, at the place of their hash or after it; 0: free. Its length is a power of two.
    index: Box<[AtomicU32]>,
    /// The node with number `n` is at index `n - 1`.
    nodes: Box<[Node]>,
    /// So many nodes may be used: all, or those that the process has room for in the memory that it shares.
    granted: AtomicU32,
    /// The memory that the process shares, and which of its arenas this is. Then `state`, `used` and `nodes` are there.
    #[cfg_attr(feature = "loom", allow(dead_code, reason = "models share none"))]
    shared: Option<(Arc<SharedMemory>, usize)>,
}

/// The right to use the arena's current generation. The arena is not cleared meanwhile.
pub(crate) struct Pin<'a> {
    arena: &'a Arena,
    generation: u32,
}

impl Arena {
    /// An arena of about this many bytes, of which a quarter is the index. Its memory is touched when it is first used.
    #[cfg(all(test, not(feature = "loom")))]
    pub(crate) fn new(bytes: usize) -> Self {
        Self::in_memory(bytes, None)
    }

    /// The same; its nodes are in this memory that the process shares, in this arena of it.
    pub(crate) fn in_memory(bytes: usize, shared: Option<(Arc<SharedMemory>, usize)>) -> Self {
        let slots = (bytes / 16).max(4).next_power_of_two();
        let slots = if slots * 16 > bytes.max(64) {
            slots / 2
        } else {
            slots
        };
        let nodes = bytes.saturating_sub(slots * 4) / 16;
        // Searches end: a part of the index is always free.
        let nodes = nodes.clamp(1, slots - slots / 4);
        let own = if shared.is_some() { 0 } else { nodes };
        Arena {
            state: AtomicU64::new(0),
            used: AtomicU32::new(0),
            index: new_index(slots),
            nodes: new_nodes(own),
            granted: AtomicU32::new(own as u32),
            shared,
        }
    }

    #[cfg(feature = "loom")]
    fn state(&self) -> &AtomicU64 {
        &self.state
    }

    #[cfg(feature = "loom")]
    fn used(&self) -> &AtomicU32 {
        &self.used
    }

    #[cfg(feature = "loom")]
    fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    #[cfg(not(feature = "loom"))]
    fn state(&self) -> &AtomicU64 {
        match &self.shared {
            Some((memory, arena)) => &memory.arena(*arena).state,
            None => &self.state,
        }
    }

    #[cfg(not(feature = "loom"))]
    fn used(&self) -> &AtomicU32 {
        match &self.shared {
            Some((memory, arena)) => &memory.arena(*arena).used,
            None => &self.used,
        }
    }

    #[cfg(not(feature = "loom"))]
    fn nodes(&self) -> &[Node] {
        let Some((memory, arena)) = &self.shared else {
            return &self.nodes;
        };
        let (start, bytes) = memory.nodes_of(*arena);
        // SAFETY: mapped as long as the memory lives, aligned to 16 bytes; any values are valid for a Node, whose fields are
        // atomic.
        unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), bytes / size_of::<Node>()) }
    }

    /// Whether more nodes may be used from now on. In memory of the arena's own all may be used from the start.
    #[cfg(feature = "loom")]
    fn grow(&self) -> bool {
        false
    }

    /// Whether more nodes may be used from now on. In memory of the arena's own all may be used from the start.
    #[cfg(not(feature = "loom"))]
    fn grow(&self) -> bool {
        /// Room is taken for so many nodes at once: 64 KiB.
        const STEP: u32 = 1 << 12;
        let Some((memory, _)) = &self.shared else {
            return false;
        };
        let before = self.granted.load(Ordering::Relaxed);
        let left = (self.nodes().len() as u32).saturating_sub(before);
        let more = left.min(STEP);
        let bytes = u64::from(more) * size_of::<Node>() as u64;
        if more == 0 || !memory.room().take(bytes) {
            return false;
        }
        // Fails if another thread was faster: then there is more, too.
        let after = before + more;
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        if (self.granted)
            .compare_exchange(before, after, success, failure)
            .is_err()
        {
            memory.room().give_back(bytes);
        }
        true
    }

    /// Whether this is the generation in use; with `None`, whichever it is. It stays in use until the pin is dropped.
    pub(crate) fn pin(&self, generation: Option<u32>) -> Option<Pin<'_>> {
        let state = self.state().fetch_add(1, Ordering::Acquire);
        let pin = Pin {
            arena: self,
            generation: (state >> 32) as u32,
        };
        let is_used = !matches!(pin.generation, 0 | CLOSED);
        (is_used && generation.is_none_or(|wanted| wanted == pin.generation)).then_some(pin)
    }

    /// Clears the arena for a generation. False if a thread uses it, or clears it already. True, too, if this or a later
    /// generation has begun here already.
    pub(crate) fn begin(&self, generation: u32) -> bool {
        let state = self.state().load(Ordering::Relaxed);
        match (state >> 32) as u32 {
            CLOSED => return false,
            number if number >= generation => return true,
            _ => (),
        }
        if self.granted.load(Ordering::Relaxed) == 0 && !self.grow() {
            return false;
        }
        let unused = state & !u64::from(u32::MAX);
        let closed = u64::from(CLOSED) << 32;
        // Acquire: what earlier users did is done.
        if self
            .state()
            .compare_exchange(unused, closed, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        if state >> 32 != 0 {
            for slot in &self.index {
                slot.store(0, Ordering::Relaxed);
            }
            self.used().store(0, Ordering::Relaxed);
        }
        // Others may just be trying to pin the arena, so their number is kept.
        let change = u64::from(generation.wrapping_sub(CLOSED)) << 32;
        self.state().fetch_add(change, Ordering::Release);
        true
    }

    /// The bytes of memory that were touched.
    pub(crate) fn used_bytes(&self) -> usize {
        match self.used().load(Ordering::Relaxed) {
            0 => 0,
            used => self.index.len() * 4 + self.nodes().len().min(used as usize) * 16,
        }
    }
}

impl Pin<'_> {
    /// The generation's number.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The number of the node with these values, which is added if it is new. `None` if there is no memory for it.
    /// `parent` is 0 or a node of this generation.
    pub(crate) fn intern(&self, parent: u32, method: u64, dex_pc: u32) -> Option<u32> {
        let rest = u64::from(parent) << 32 | u64::from(dex_pc);
        let mask = self.arena.index.len() - 1;
        let mut place = hash(method, rest) as usize & mask;
        let mut own = None;
        for _ in 0..MAX_PROBES.min(self.arena.index.len()) {
            let slot = &self.arena.index[place];
            let mut number = slot.load(Ordering::Acquire);
            if number == 0 {
                let new = match own {
                    Some(new) => new,
                    None => self.add(method, rest)?,
                };
                own = Some(new);
                // Release: whoever finds the number sees the node.
                match slot.compare_exchange(0, new, Ordering::Release, Ordering::Acquire) {
                    Ok(_) => return Some(new),
                    Err(others) => number = others,
                }
            }
            let node = &self.arena.nodes()[number as usize - 1];
            if node.method.load(Ordering::Relaxed) == method
                && node.rest.load(Ordering::Relaxed) == rest
            {
                self.forget(own);
                return Some(number);
            }
            place = (place + 1) & mask;
        }
        self.forget(own);
        None
    }

    /// Writes a new node, which the index does not name yet.
    fn add(&self, method: u64, rest: u64) -> Option<u32> {
        let capacity = self.arena.nodes().len() as u32;
        // So that the number never overflows, however often this fails.
        if self.arena.used().load(Ordering::Relaxed) >= capacity {
            return None;
        }
        if !self.has_room(self.arena.used().load(Ordering::Relaxed)) {
            return None;
        }
        let index = self.arena.used().fetch_add(1, Ordering::Relaxed);
        // Others may have used the rest meanwhile.
        if !self.has_room(index) {
            return None;
        }
        let node = self.arena.nodes().get(index as usize)?;
        node.method.store(method, Ordering::Relaxed);
        node.rest.store(rest, Ordering::Relaxed);
        Some(index + 1)
    }

    /// Whether the node at this index may be used.
    fn has_room(&self, index: u32) -> bool {
        let arena = self.arena;
        index < arena.granted.load(Ordering::Relaxed)
            || (arena.grow() && index < arena.granted.load(Ordering::Relaxed))
    }

    /// A node that was written, but that the index does not name: no two nodes of a file are equal.
    fn forget(&self, number: Option<u32>) {
        if let Some(number) = number {
            let node = &self.arena.nodes()[number as usize - 1];
            node.method.store(0, Ordering::Relaxed);
            node.rest.store(0, Ordering::Relaxed);
        }
    }

    /// Copies of all nodes. A node that another thread is adding meanwhile may be incomplete: it can be in no stack that
    /// was recorded before this call.
    pub(crate) fn nodes(&self) -> Vec<StackNode> {
        let used = self.arena.used().load(Ordering::Acquire) as usize;
        let used = used.min(self.arena.nodes().len());
        let copies = (1..)
            .zip(&self.arena.nodes()[..used])
            .map(|(number, node)| {
                let rest = node.rest.load(Ordering::Relaxed);
                let parent = (rest >> 32) as u32;
                StackNode {
                    method: node.method.load(Ordering::Relaxed),
                    // An old generation's, if the node is being written.
                    parent: if parent < number { parent } else { 0 },
                    dex_pc: rest as u32,
                }
            });
        copies.collect()
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // Release: all that was done with the arena is done before it is cleared.
        self.arena.state().fetch_sub(1, Ordering::Release);
    }
}

/// Spreads nodes over the index: the finalizer of MurmurHash3.
fn hash(method: u64, rest: u64) -> u64 {
    let mut h = method.rotate_left(17) ^ rest.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// Free places of an index, in memory that the system provides when it is first touched.
#[cfg(not(feature = "loom"))]
fn new_index(slots: usize) -> Box<[AtomicU32]> {
    let zeroed: Box<[u32]> = vec![0; slots].into();
    // SAFETY: an AtomicU32 has the size, alignment and valid values of a u32, so the allocation's layout stays.
    unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [AtomicU32]) }
}

/// Empty nodes, in memory that the system provides when it is first touched.
#[cfg(not(feature = "loom"))]
fn new_nodes(count: usize) -> Box<[Node]> {
    let layout = Layout::array::<Node>(count).expect("an arena is smaller than the address space");
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout's size is not 0, as tested above.
    let zeroed = unsafe { alloc_zeroed(layout) }.cast::<Node>();
    if zeroed.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the memory was allocated with the layout of this slice, and any bytes are valid for its elements, which are two
    // integers each.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(zeroed, count)) }
}

#[cfg(feature = "loom")]
fn new_index(slots: usize) -> Box<[AtomicU32]> {
    (0..slots).map(|_| AtomicU32::new(0)).collect()
}

#[cfg(feature = "loom")]
fn new_nodes(count: usize) -> Box<[Node]> {
    let node = |_| Node {
        method: AtomicU64::new(0),
        rest: AtomicU64::new(0),
    };
    (0..count).map(node).collect()
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn an_arena_takes_no_more_memory_than_it_may() {
        for bytes in [64, 100, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let arena = Arena::new(bytes);
            let taken = arena.index.len() * 4 + arena.nodes().len() * 16;
            assert!(taken <= bytes, "{taken} of {bytes}");
            assert!(arena.nodes().len() < arena.index.len());
            assert!(taken * 2 >= bytes, "{taken} of {bytes}");
        }
    }

    #[test]
    fn a_full_arena_says_so_and_knows_its_nodes() {
        let arena = Arena::new(4096);
        assert!(arena.begin(1));
        let pin = arena.pin(Some(1)).unwrap();
        let intern = |i: usize| pin.intern(0, 0x7000_0000 + 8 * i as u64, 3);
        let full = (0..).find(|&i| intern(i).is_none()).unwrap();
        assert_eq!(full, arena.nodes().len());
        for i in 0..full {
            assert_eq!(intern(i), Some(i as u32 + 1));
        }
        assert_eq!(intern(full), None);
        assert_eq!(pin.nodes().len(), full);
    }

    #[test]
    fn nothing_is_cleared_while_it_is_used() {
        let arena = Arena::new(4096);
        assert!(arena.pin(None).is_none());
        assert!(arena.begin(1));
        let pin = arena.pin(Some(1)).unwrap();
        assert_eq!(pin.intern(0, 0x7000_0000, 3), Some(1));
        assert!(!arena.begin(3));
        drop(pin);
        assert!(arena.begin(3));
        assert!(arena.begin(3));
        assert!(arena.pin(Some(1)).is_none());
        let pin = arena.pin(Some(3)).unwrap();
        assert!(pin.nodes().is_empty());
        assert_eq!(pin.intern(0, 0x7000_0008, 3), Some(1));
        drop(pin);
        // No pin is left over.
        assert!(arena.begin(5));
    }
}
