// SPDX-License-Identifier: Apache-2.0
//! The calls that were open at the oldest slot of a ring that has wrapped: their entries were overwritten.
//!
//! The thread noted the calls that were open when the ring wrapped last. Those that did not begin in the slots before that are
//! older than the ring's oldest slot. Of the calls that were open at the oldest slot, they are the outermost ones; the others
//! ended before the ring wrapped, and their methods are not known.

use hindsight_trace_format::container::{OpenCalls, RingHeader};

use crate::scan::Scan;

/// The methods of the calls that were open at the oldest slot, outermost first; 0 where that is not known. Empty if nothing is
/// known.
pub(crate) fn outermost(
    header: &RingHeader,
    noted: Option<&OpenCalls>,
    scan: &Scan,
    unnamed_shown: u64,
) -> Vec<u64> {
    let older = scan.older;
    let laps = header.position.laps;
    let at = laps.saturating_mul(header.geometry.slots() as u64);
    let fits = |noted: &&OpenCalls| laps != 0 && noted.slots_written == at && !older.begins;
    let Some(noted) = noted.filter(fits) else {
        return Vec::new();
    };
    // Else the numbers contradict the slots.
    let Some(still_open) = noted.count.checked_sub(older.entries) else {
        return Vec::new();
    };
    // A few bytes must not claim the memory of many calls.
    if still_open > noted.methods.len() as u64 + unnamed_shown {
        return Vec::new();
    }
    let known = still_open + older.exits;
    // Calls that began before recording did, outside of those.
    let outside = u64::from(scan.open_starts.last().copied().unwrap_or(0)).saturating_sub(known);
    let method = |nth: u64| match usize::try_from(nth) {
        Ok(nth) => noted.methods.get(nth).copied().unwrap_or(0),
        Err(_) => 0,
    };
    let unknown = |count| std::iter::repeat_n(0, count as usize);
    unknown(outside)
        .chain((0..still_open).map(method))
        .chain(unknown(older.exits))
        .collect()
}
