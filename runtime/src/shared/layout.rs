// SPDX-License-Identifier: Apache-2.0
//! Where each part stands in the memory file, and in the range of addresses that is reserved for it.

use std::io;

use hindsight_trace_format::container::RingMode;
use hindsight_trace_format::ring::Geometry;
use hindsight_trace_format::shared::{segments_of, Regions, MAX_RINGS, MAX_SHARED_BYTES};

use crate::config::Config;

/// What the memory is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes for names.
    pub(crate) journal_bytes: u64,
    /// Bytes for the nodes of stacks.
    pub(crate) stacks_bytes: u64,
    /// The most rings of calls, and their size.
    pub(crate) calls: (u32, Geometry),
    /// The most rings of events, and their size.
    pub(crate) events: (u32, Geometry),
}

/// Bytes for the names of a process's classes: some ten thousand classes. Only what is written takes memory.
const JOURNAL_BYTES: u64 = 1 << 26;

/// Rings of calls, where their number has no limit.
const MANY_RINGS: usize = 64;

impl Sizes {
    /// What this configuration asks for. A snapshot holds a second ring of each thread for a while; a service holds one more.
    pub(crate) fn of(config: &Config) -> Self {
        let times = if config.service.is_some() { 3 } else { 2 };
        let rings = |threads: usize, more: usize| times * threads as u32 + more as u32;
        let calls = config.max_rings().unwrap_or(MANY_RINGS);
        let spooled = config.events.spooled_rings();
        Sizes {
            journal_bytes: JOURNAL_BYTES,
            stacks_bytes: 1 << config.stacks.table,
            calls: (rings(calls, 2), config.geometry),
            events: (
                rings(config.events.max_rings, times as usize * spooled),
                config.events.geometry,
            ),
        }
    }
}

pub(super) fn page_bytes() -> u64 {
    // SAFETY: no precondition.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Where the parts stand, and their length together, bytes.
///
/// # Errors
/// If that is too much.
pub(super) fn regions(sizes: Sizes) -> io::Result<(Regions, u64)> {
    let regions = Regions {
        page: page_bytes(),
        journal_bytes: sizes.journal_bytes,
        stacks_bytes: sizes.stacks_bytes,
        calls: sizes.calls,
        events: sizes.events,
    };
    let bytes = regions.bytes();
    if bytes > MAX_SHARED_BYTES || regions.rings() > MAX_RINGS {
        return Err(io::Error::other("the rings are too many, or too large"));
    }
    Ok((regions, bytes))
}

/// Bytes of a ring in the file, with the notes before its slots.
pub(super) fn ring_bytes(regions: &Regions, mode: RingMode) -> u64 {
    regions.ring_bytes(mode)
}

/// Bytes of the file before the rings: they are mapped as they are.
pub(super) fn before_rings(regions: &Regions) -> u64 {
    regions.ring(0)
}

/// Where the rings of events begin in the file.
pub(super) fn events_start(regions: &Regions) -> u64 {
    regions.ring(regions.calls.0)
}

/// Where the windows begin in the reserved range.
pub(super) fn before_windows(regions: &Regions) -> u64 {
    before_rings(regions) + regions.bytes() - events_start(regions)
}

/// Addresses of a ring of calls: its notes, a page of zeros, and each segment with a page of zeros after it.
pub(super) fn window_bytes(regions: &Regions) -> u64 {
    let geometry = regions.calls.1;
    let segments = u64::from(segments_of(geometry, regions.page));
    regions.before_slots(RingMode::Calls)
        + regions.page
        + geometry.bytes() as u64
        + segments * regions.page
}
