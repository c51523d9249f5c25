// SPDX-License-Identifier: Apache-2.0
//! Where shared memory is read from, and fields in it.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use super::layout::{Region, SHARED_VERSION};

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
