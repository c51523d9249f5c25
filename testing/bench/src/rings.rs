// SPDX-License-Identifier: Apache-2.0
//! What a thread has written into its ring, by a snapshot.

use std::fs;

use anyhow::{Context as _, Result};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::{Event, SLOT_BYTES};

use crate::process::ControlSocket;

/// What a thread has written since its ring began: since the last snapshot, or its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Slots of 8 bytes, also those that were written over since.
    pub(crate) slots: u64,
    /// Calls that were taken back (`rewind=`), each of two points.
    pub(crate) taken_back: u64,
    /// Entries that are still in the ring.
    pub(crate) entries: u64,
}

impl Written {
    /// Trace points that the thread has passed.
    pub(crate) fn points(self) -> u64 {
        self.slots + 2 * self.taken_back
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
            let events = ring.slots().events();
            written.entries += events
                .filter(|e| matches!(e.event(), Event::Entry { .. } | Event::WideEntry))
                .count() as u64;
        }
    }
    Ok(written)
}
