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

/// The thread of a ring, from its header.
fn tid(section: &[u8]) -> Option<u32> {
    let tid = section.get(4..8).and_then(|b| b.first_chunk::<4>());
    tid.map(|b| u32::from_le_bytes(*b))
}

/// What the file has beside a ring.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The open calls that were noted.
    pub(crate) open: Option<OpenCalls>,
    /// No slot is newer, ticks: the thread may have gone on for long after its newest event.
    pub(crate) newest: Option<u64>,
}

impl Beside {
    fn of(reader: &Reader<'_>, index: u32, ring: &Ring<'_>) -> Self {
        let all = ring.header.position.slots_written(ring.header.geometry);
        let anchors = reader.anchors(index).unwrap_or_default();
        let at_end = anchors.iter().filter(|anchor| anchor.slots_written == all);
        Beside {
            open: reader.open_calls(index).ok().flatten(),
            newest: at_end.map(|anchor| anchor.counter).min(),
        }
    }
}

/// Passes the rings of these threads that can be read, one at a time, with what else the file has of them, and returns how many are
/// damaged or too large. Rings of other threads are not inflated.
pub(crate) fn each_ring(
    reader: &Reader<'_>,
    is_wanted: impl Fn(u32) -> bool,
    mut read: impl FnMut(&Ring<'_>, &Beside),
) -> u32 {
    let mut left_out = 0;
    for index in reader.ring_indices() {
        let section = reader.section(SectionKind::Ring, index);
        if let Ok(Some(section)) = section {
            if !tid(section).is_none_or(&is_wanted) {
                continue;
            }
        }
        let ring = match section {
            Ok(Some(section)) if is_small(section) => reader.ring(index),
            _ => Ok(None),
        };
        match ring {
            Ok(Some(ring)) => read(&ring, &Beside::of(reader, index, &ring)),
            _ => left_out += 1,
        }
    }
    left_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_testkit::Script;

    #[test]
    fn only_rings_of_the_threads_that_are_wanted_are_passed() {
        let mut script = Script::new("com.example");
        let run = script.method("com.example.Work.run", "()V");
        for tid in [7, 8, 9] {
            let thread = script.thread(tid, "work");
            script.at(thread, 0).call(run, 1000);
        }
        let bytes = script.encode();
        let reader = Reader::new(&bytes).unwrap();
        let passed = |is_wanted: fn(u32) -> bool| {
            let mut tids = Vec::new();
            let left_out = each_ring(&reader, is_wanted, |ring, _| tids.push(ring.header.tid));
            (tids, left_out)
        };
        assert_eq!(passed(|_| true), (vec![7, 8, 9], 0));
        assert_eq!(passed(|tid| tid == 8), (vec![8], 0));
    }
}
