// SPDX-License-Identifier: Apache-2.0
//! The stacks of a process that has ended, or of one whose rings were taken.

use std::io;
use std::mem::offset_of;

use crate::container::{StackGeneration, StackNode, Stacks, WRITING_NODE_BYTES};

use super::layout::{Header, StackArena};
use super::source::{Copied, ReadAt};

/// Bytes of one generation of stacks that are read at most: half of the largest table that `stack-table=` makes.
const MAX_GENERATION_BYTES: u64 = 1 << 27;
/// Bytes of a node of stacks, in the memory and as it is here.
const NODE_BYTES: usize = size_of::<StackNode>();
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// The stacks, up to `most` bytes of them and so that reading and writing them takes at most `room` bytes; how many bytes they
/// are, and of how many generations there was no memory for all.
pub(super) fn read_stacks(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
    most: u64,
    room: u64,
) -> io::Result<(Stacks, u64, u64)> {
    let (offset, bytes) = header.region(offset_of!(Header, stacks));
    let half = bytes / 2;
    let (mut stacks, mut read, mut unread) = (Stacks::default(), 0_u64, 0_u64);
    for index in 0..2_u64 {
        let arena = offset_of!(Header, arenas) + index as usize * size_of::<StackArena>();
        let number = (header.u64(arena + offset_of!(StackArena, state)) >> 32) as u32;
        let used = u64::from(header.u32(arena + offset_of!(StackArena, used)));
        // Not used yet, or being cleared.
        if number == 0 || number == u32::MAX || used == 0 {
            continue;
        }
        let bytes = used.saturating_mul(NODE_BYTES as u64).min(half);
        let bytes = bytes
            .min(MAX_GENERATION_BYTES.min(most - read))
            .min(memory.length()?);
        let (all, node_bytes) = (bytes / NODE_BYTES as u64, NODE_BYTES as u64);
        // They take more while they are written, when all are in memory.
        let most = room.saturating_sub(read) / (node_bytes + WRITING_NODE_BYTES);
        let count = all.min(most);
        unread += u64::from(count < all);
        match read_nodes(memory, offset.saturating_add(index * half), count) {
            Err(e) if e.kind() == io::ErrorKind::OutOfMemory => unread += u64::from(count == all),
            nodes => {
                let nodes = nodes?;
                read += count * node_bytes;
                stacks.generations.push(StackGeneration { number, nodes });
            }
        }
    }
    stacks
        .generations
        .sort_by_key(|generation| generation.number);
    Ok((stacks, read, unread))
}

/// So many nodes.
fn read_nodes(
    memory: &(impl ReadAt + ?Sized),
    offset: u64,
    count: u64,
) -> io::Result<Vec<StackNode>> {
    let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    let count = usize::try_from(count).map_err(|_| no_memory())?;
    let mut nodes = Vec::new();
    nodes.try_reserve_exact(count).map_err(|_| no_memory())?;
    let mut buffer = vec![0; BUFFER_BYTES.min(count * NODE_BYTES)];
    while nodes.len() < count {
        let bytes = (count - nodes.len()) * NODE_BYTES;
        let part = &mut buffer[..BUFFER_BYTES.min(bytes)];
        let at = offset.saturating_add((nodes.len() * NODE_BYTES) as u64);
        memory.read_at(at, part)?;
        let first = nodes.len() as u32 + 1;
        let numbered = (first..).zip(part.chunks_exact(NODE_BYTES));
        nodes.extend(numbered.map(|(number, node)| {
            let (method, rest) = (Copied(node).u64(0), Copied(node).u64(8));
            let parent = (rest >> 32) as u32;
            StackNode {
                method,
                parent: if parent < number { parent } else { 0 },
                dex_pc: rest as u32,
            }
        }));
    }
    Ok(nodes)
}
