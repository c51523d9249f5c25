// SPDX-License-Identifier: Apache-2.0
//! Counts of an export's contents.

use hindsight_decoder::{Flags, Thread, Trace};

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
    /// Threads that are left out, by formats of one thread.
    pub left_out_threads: u64,
    /// Calls of the threads that are left out.
    pub calls_of_left_out_threads: u64,
    /// Events other than calls that are left out, by formats without events: those of the threads that are written.
    pub left_out_events: u64,
    /// Calls made of stacks that the format does not tell from exact ones.
    pub unmarked_sampled_calls: u64,
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

    /// All calls of one thread of `trace`, for formats that hold one.
    pub fn of_one(trace: &Trace, thread: &Thread) -> Self {
        let others = || trace.threads.iter().filter(|t| t.key != thread.key);
        Written {
            left_out_threads: others().count() as u64,
            calls_of_left_out_threads: others().map(|t| t.calls.len() as u64).sum(),
            ..Written::of(std::slice::from_ref(thread))
        }
    }

    /// For a format that has neither events nor marks of calls made of stacks.
    pub(crate) fn without_events(self, thread: &Thread) -> Self {
        let flags = thread.calls.flags.iter();
        let sampled = flags.filter(|f| f.contains(Flags::SAMPLED));
        Written {
            left_out_events: thread.events.len() as u64,
            unmarked_sampled_calls: sampled.count() as u64,
            ..self
        }
    }
}
