// SPDX-License-Identifier: Apache-2.0
//! Whole files in memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use memmap2::Mmap;

use crate::error::Error;

/// Files that other programs write in place are read, not mapped: a file that is cut off while it is mapped kills the
/// reader. Larger ones are refused.
const MAX_BYTES: u64 = 4 << 30;
/// This many first bytes tell formats apart.
pub(crate) const START_BYTES: usize = 64;

fn cannot_open(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    |source| Error::Open {
        path: path.to_owned(),
        source,
    }
}

/// Opens a file, which must not be a folder. Returns its length, too.
pub(crate) fn open(path: &Path) -> Result<(File, u64), Error> {
    let file = File::open(path).map_err(cannot_open(path))?;
    let metadata = file.metadata().map_err(cannot_open(path))?;
    if metadata.is_dir() {
        return Err(cannot_open(path)(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok((file, metadata.len()))
}

/// The first [`START_BYTES`] bytes of a file, or all of a shorter one.
pub(crate) fn start(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, _) = open(path)?;
    let mut start = Vec::with_capacity(START_BYTES);
    file.take(START_BYTES as u64)
        .read_to_end(&mut start)
        .map_err(cannot_open(path))?;
    Ok(start)
}

/// Maps a `.hindsight` file, which must not be empty.
pub(crate) fn map(path: &Path) -> Result<Mmap, Error> {
    let (file, _) = open(path)?;
    // SAFETY: the bytes must not change while they are mapped. `.hindsight` files are never written under their final
    // names, only renamed to them, so no writer of ours does it. If another program truncates or changes one all the
    // same, reads give SIGBUS or wrong bytes; all bytes are checked as input.
    unsafe { Mmap::map(&file) }.map_err(cannot_open(path))
}

/// Reads the whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, size) = open(path)?;
    let mut bytes = Vec::with_capacity(size.min(MAX_BYTES) as usize);
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(cannot_open(path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::Malformed {
            path: path.to_owned(),
            offset: MAX_BYTES,
            what: "the file goes on beyond 4 GiB, the limit of this format's reader; record for less long".to_owned(),
        });
    }
    Ok(bytes)
}
