// SPDX-License-Identifier: Apache-2.0
//! Where shared memory is read from, how much of it, and fields in it.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use super::journal::MAX_JOURNAL_BYTES;
use super::layout::{Header, Region, SHARED_VERSION};

/// Why memory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// Reading failed.
    #[error("the shared memory cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is not a process's shared memory, is not ready, or belongs to another version.
    #[error("not a process's shared memory of version {SHARED_VERSION}: {0}")]
    Unknown(&'static str),
}

/// Something that can be read at any offset.
pub trait ReadAt {
    /// Its length, bytes.
    ///
    /// # Errors
    /// If it cannot be determined.
    fn length(&self) -> io::Result<u64>;
    /// Reads exactly as many bytes as `into` has.
    ///
    /// # Errors
    /// If there are not so many, or they cannot be read.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl ReadAt for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl ReadAt for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let bytes = from
            .and_then(|from| self.get(from..)?.get(..into.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}

/// Reads so many bytes. Their number may come from a hostile process: too little memory is an error, and ends nothing.
pub(super) fn read_vec(
    memory: &(impl ReadAt + ?Sized),
    offset: u64,
    bytes: u64,
) -> io::Result<Vec<u8>> {
    let no_memory = || io::Error::from(io::ErrorKind::OutOfMemory);
    let bytes = usize::try_from(bytes).map_err(|_| no_memory())?;
    let mut into = Vec::new();
    into.try_reserve_exact(bytes).map_err(|_| no_memory())?;
    into.resize(bytes, 0);
    memory.read_at(offset, &mut into)?;
    Ok(into)
}

/// Fields of a struct that was copied out of the memory.
pub(super) struct Copied<'a>(pub(super) &'a [u8]);

impl Copied<'_> {
    pub(super) fn u32(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    pub(super) fn text(&self, at: usize, bytes: usize) -> String {
        let bytes = self.0.get(at..at + bytes).unwrap_or_default();
        let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    pub(super) fn region(&self, at: usize) -> (u64, u64) {
        (
            self.u64(at + offset_of!(Region, offset)),
            self.u64(at + offset_of!(Region, bytes)),
        )
    }
}

/// How much is read of a memory at most. The process says how long everything in it is, and may be hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// All rings together, bytes. Those that come later are left out, and counted.
    pub all_rings: u64,
    /// One ring, bytes. Longer ones are left out, and counted.
    pub ring: u64,
    /// The journal and all generations of stacks together, bytes. What comes later is left out.
    pub other: u64,
    /// All that is in memory at one time: copies, and what is made of them until it is in a file; bytes. What finds no room is left
    /// out, and counted.
    pub memory: u64,
}

/// Memory that a reader needs beside as much as it may read, bytes: for lists of methods and their names.
pub const READING_BYTES: u64 = 8 << 20;

impl ReadLimits {
    /// Of a process that may have this number of rings of calls, each with `ring_bytes`, and `other_bytes` of all else, rings of
    /// events included.
    pub const fn granted(rings: u32, ring_bytes: u64, other_bytes: u64) -> Self {
        let ring = if rings == 0 { 0 } else { ring_bytes };
        ReadLimits {
            all_rings: ring_bytes
                .saturating_mul(rings as u64)
                .saturating_add(other_bytes),
            ring: if ring > other_bytes {
                ring
            } else {
                other_bytes
            },
            other: other_bytes,
            memory: ring_bytes
                .saturating_mul(rings as u64)
                .saturating_add(other_bytes)
                .saturating_add(READING_BYTES),
        }
    }

    /// Only the rings have a limit.
    pub const fn of_rings(bytes: u64) -> Self {
        ReadLimits {
            all_rings: bytes,
            ring: u64::MAX,
            other: u64::MAX,
            memory: u64::MAX,
        }
    }
}

/// Up to `most` bytes of the whole records of the journal of a memory with this header.
pub(super) fn journal_of(
    memory: &(impl ReadAt + ?Sized),
    header: &Copied<'_>,
    most: u64,
) -> io::Result<Vec<u8>> {
    let (offset, bytes) = header.region(offset_of!(Header, journal));
    let committed = header.u64(offset_of!(Header, committed));
    let bytes = committed.min(bytes).min(memory.length()?);
    read_vec(memory, offset, bytes.min(MAX_JOURNAL_BYTES).min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_memory_for_is_an_error() {
        let memory: &[u8] = &[1, 2, 3];
        assert_eq!(read_vec(memory, 1, 2).unwrap(), [2, 3]);
        for bytes in [u64::MAX, u64::MAX >> 1, 1 << 62] {
            let error = read_vec(memory, 0, bytes).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{bytes}");
        }
    }
}
