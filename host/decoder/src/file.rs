// SPDX-License-Identifier: Apache-2.0
//! Whole files in memory.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::Error;

/// Files that other programs write in place are read, not mapped: a file that is cut off while it is mapped kills the
/// reader. Larger ones are refused.
const MAX_BYTES: u64 = 4 << 30;

/// Opens what is not a folder.
pub(crate) fn open(path: &Path) -> Result<(File, u64), Error> {
    let cannot_open = |source| Error::Open {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(cannot_open)?;
    let metadata = file.metadata().map_err(cannot_open)?;
    if metadata.is_dir() {
        return Err(cannot_open(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok((file, metadata.len()))
}

/// Reads the whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let (file, size) = open(path)?;
    let mut bytes = Vec::with_capacity(size.min(MAX_BYTES) as usize);
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Error::Open {
            path: path.to_owned(),
            source,
        })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Error::Malformed {
            path: path.to_owned(),
            offset: MAX_BYTES,
            what: "the file goes on beyond 4 GiB, which is more than this format's reader takes; record for less long"
                .to_owned(),
        });
    }
    Ok(bytes)
}
