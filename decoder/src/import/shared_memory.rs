// SPDX-License-Identifier: Apache-2.0
//! The memory that a process shared until it ended (`shared-memory=`), as a `.hindsight` file.

use std::path::Path;

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::shared::{read, Ending, ReadAt};

use crate::error::Error;

/// Bytes of rings that are read at most.
const MAX_RING_BYTES: u64 = 1 << 31;

/// The bytes of a `.hindsight` file with everything in this memory; `path` is its name in errors.
///
/// # Errors
/// If it makes no sense, or the process recorded nothing.
pub(crate) fn to_file<M: ReadAt + ?Sized>(path: &Path, memory: &M) -> Result<Vec<u8>, Error> {
    let failed = |reason: String| Error::SharedMemory {
        path: path.to_owned(),
        reason,
    };
    let ended = read(memory, MAX_RING_BYTES).map_err(|e| failed(e.to_string()))?;
    let ending = Ending {
        reason: "the process ended without a snapshot".into(),
        ..Ending::default()
    };
    let contents = ended.contents(&ending).map_err(|e| failed(e.to_string()))?;
    let file = contents.encode(Consent::Content);
    file.map_err(|e| failed(e.to_string()))
}
