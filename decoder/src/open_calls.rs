// SPDX-License-Identifier: Apache-2.0
//! The calls that were open at the oldest slot of a ring that has wrapped: their entries were overwritten.
//!
//! The thread noted the calls that were open when the ring wrapped last, or when it entered the ring's newest segment. Those that
//! did not begin in the slots before that are older than the ring's oldest slot. Of the calls that were open at the oldest slot,
//! they are the outermost ones; the others ended before the place of the note, and their methods are not known.

use std::ops::RangeInclusive;

use hindsight_trace_format::container::OpenCalls;

use crate::scan::Scan;

/// The methods of the calls that were open at the oldest slot, outermost first; 0 where that is not known. Empty if nothing is
/// known. `numbers`: those of the oldest slot, and after the newest one, since the start of the ring.
pub(crate) fn outermost(
    numbers: RangeInclusive<u64>,
    noted: Option<&OpenCalls>,
    scan: &Scan,
    unnamed_shown: u64,
) -> Vec<u64> {
    let older = scan.older;
    let is_cut = *numbers.start() != 0;
    let fits =
        |noted: &&OpenCalls| is_cut && numbers.contains(&noted.slots_written) && !older.begins;
    if scan.is_noted_in_cut() || scan.starts_with_recording {
        return Vec::new();
    }
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
