// SPDX-License-Identifier: Apache-2.0
//! The rings of a file, one in memory at a time.

use hindsight_trace_format::container::{OpenCalls, Reader, Ring, SectionKind};

/// Larger rings are left out: 64 MiB.
pub const MAX_RING_LOG2_BYTES: u32 = 26;

/// Whether a ring is so small that it may be inflated; the section begins with its header.
fn is_small(section: &[u8]) -> bool {
    let log2 = section.get(8..12).and_then(|b| b.first_chunk::<4>());
    log2.is_some_and(|b| u32::from_le_bytes(*b) <= MAX_RING_LOG2_BYTES)
}

/// Passes the rings that can be read, one at a time, with the open calls that were noted, and returns how many are damaged or too large.
pub(crate) fn each_ring(
    reader: &Reader<'_>,
    mut read: impl FnMut(&Ring<'_>, Option<&OpenCalls>),
) -> u32 {
    let mut left_out = 0;
    for index in reader.ring_indices() {
        let section = reader.section(SectionKind::Ring, index);
        let ring = match section {
            Ok(Some(section)) if is_small(section) => reader.ring(index),
            _ => Ok(None),
        };
        match ring {
            Ok(Some(ring)) => {
                let open = reader.open_calls(index).ok().flatten();
                read(&ring, open.as_ref());
            }
            _ => left_out += 1,
        }
    }
    left_out
}
