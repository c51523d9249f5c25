// SPDX-License-Identifier: Apache-2.0
//! Counts of an export's contents.

use hindsight_decoder::Thread;

/// Counts of an export's contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Threads.
    pub threads: u64,
    /// Calls.
    pub calls: u64,
    /// Calls deeper than the format's readers show on one track; they are on tracks of their own.
    pub deep_calls: u64,
    /// Calls deeper than [`MAX_LEVELS`](crate::MAX_LEVELS), which folded stacks and pprof leave out. Their time counts
    /// as time of their callers.
    pub left_out_calls: u64,
    /// Call chains, in the formats that have a record for each.
    pub chains: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Written {
    /// All calls of these threads.
    pub(crate) fn of(threads: &[Thread]) -> Self {
        Written {
            threads: threads.len() as u64,
            calls: threads.iter().map(|t| t.calls.len() as u64).sum(),
            ..Written::default()
        }
    }
}
