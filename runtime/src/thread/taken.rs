// SPDX-License-Identifier: Apache-2.0
//! A ring that no thread records into any more.

use hindsight_trace_format::container::{Anchor, OpenCalls, RingHeader};
use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::ring::Position;

#[cfg(not(feature = "loom"))]
use hindsight_trace_format::shared::UnderWay;

use crate::thread::ring::Ring;

/// A ring that was taken from its thread, with the data that readers need.
#[derive(Debug)]
pub struct TakenRing {
    /// The memory; no thread writes to it any more.
    pub ring: Ring,
    /// The ring's thread, and the position of its cursor.
    pub header: RingHeader,
    /// Positions of the cursor, with the counter at that time.
    pub anchors: Vec<Anchor>,
    /// Calls were under way when recording into the ring began: its first exits may belong to entries that are not
    /// in it.
    #[cfg_attr(
        not(feature = "check-balance"),
        allow(dead_code, reason = "for the check")
    )]
    pub continues: bool,
    /// Segments of the ring that were filled since recording into it began; of a ring without segments, laps.
    #[cfg_attr(feature = "loom", allow(dead_code, reason = "for open calls"))]
    pub(crate) segments_done: u64,
}

impl TakenRing {
    /// The slots recorded, oldest first.
    pub fn slots(&self) -> Slots<'_> {
        // SAFETY: the ring was taken from its thread, which has not written to it since.
        Slots::new(unsafe { self.ring.bytes() }, self.header.position)
    }

    /// Nothing: rings of models do not have the page for it.
    #[cfg(feature = "loom")]
    pub(crate) fn under_way(&self) -> Option<hindsight_trace_format::shared::UnderWay> {
        None
    }

    /// None: rings of models do not have the page for them.
    #[cfg(feature = "loom")]
    pub fn open_calls(&self) -> Option<OpenCalls> {
        None
    }

    /// The calls that were open when the ring wrapped last.
    #[cfg(not(feature = "loom"))]
    pub fn open_calls(&self) -> Option<OpenCalls> {
        let done = self.segments_done;
        // SAFETY: the ring was taken from its thread, which has not written to it since.
        let (count, methods) = unsafe { self.ring.open_calls() }.at(done)?;
        let segment_slots = self.header.geometry.slots() as u64 / u64::from(self.ring.segments().0);
        Some(OpenCalls {
            slots_written: done.saturating_mul(segment_slots),
            count,
            methods: methods.to_vec(),
        })
    }

    /// What was under way when recording into the ring began, if the ring still has all that was recorded since.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        let has_all = self.header.position.laps == 0;
        let noted = has_all.then(|| self.ring.under_way(self.header.started_counter));
        noted.flatten()
    }

    /// Whether this is the ring that the thread had before `next`.
    pub(crate) fn is_before(&self, next: &TakenRing) -> bool {
        let (of_this, of_next) = (&self.header, &next.header);
        (of_this.thread, of_this.tid) == (of_next.thread, of_next.tid)
            && of_this.part.checked_add(1) == Some(of_next.part)
    }

    /// The written part of the ring's memory.
    pub fn written_bytes(&self) -> &[u8] {
        // SAFETY: the ring was taken from its thread, which has not written to it since.
        let bytes = unsafe { self.ring.bytes() };
        match self.header.position {
            Position { laps: 0, offset } => &bytes[..(offset as usize).min(bytes.len())],
            _ => bytes,
        }
    }
}
