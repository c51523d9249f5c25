// SPDX-License-Identifier: Apache-2.0
//! What a thread has written into its ring, by a snapshot.

use std::fs;

use anyhow::{Context as _, Result};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::SLOT_BYTES;

use crate::process::ControlSocket;

/// What a thread has written since its ring began: since the last snapshot, or its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Slots of 8 bytes, also those that were written over since.
    pub(crate) slots: u64,
    /// Calls that were taken back (`rewind=`), each of two points.
    pub(crate) taken_back: u64,
}

impl Written {
    /// Trace points that the thread has passed.
    pub(crate) fn points(self) -> u64 {
        self.slots + 2 * self.taken_back
    }

    /// Calls that the thread has made; a call is two points.
    pub(crate) fn calls(self) -> u64 {
        self.points() / 2
    }

    pub(crate) fn bytes(self) -> u64 {
        self.slots * SLOT_BYTES as u64
    }
}

/// Takes a snapshot, which empties the rings, and tells what a thread had written. The file is removed.
pub(crate) fn take(socket: &mut ControlSocket, tid: u32) -> Result<Written> {
    let file = socket.ask("snapshot bench")?;
    let bytes = fs::read(&file).with_context(|| file.clone())?;
    fs::remove_file(&file).with_context(|| file.clone())?;
    let reader = Reader::new(&bytes)?;
    let mut written = Written::default();
    for index in reader.ring_indices() {
        let Some(ring) = reader.ring(index)? else {
            continue;
        };
        let header = &ring.header;
        if header.tid == tid {
            let before = header.position.laps * header.geometry.bytes() as u64;
            written.slots += (before + header.position.offset) / SLOT_BYTES as u64;
            written.taken_back += header.epochs.map_or(0, |epochs| epochs.taken_back);
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_the_ring_no_longer_has_count_too() {
        // A ring of 2^19 slots that was written three times over.
        let written = Written {
            slots: 3 << 19,
            taken_back: 1000,
        };
        assert_eq!(written.points(), (3 << 19) + 2000);
        assert_eq!(written.calls(), (3 << 18) + 1000);
    }
}
