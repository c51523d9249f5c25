// SPDX-License-Identifier: Apache-2.0
//! Identity of threads.

/// Identity of one recording of one thread within a trace.
///
/// Thread ids and names are no identity: the kernel reuses ids, a thread that detaches and attaches again gets a
/// second ring, and several threads may share a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadKey {
    /// Number of the process in the trace. A `.hindsight` file holds one process: 0.
    pub process: u32,
    /// Index of the ring in its file; for imported formats, the thread's place.
    pub ring: u32,
}

impl ThreadKey {
    /// A thread that is not in the file, but was in the one that the file was converted from.
    pub const NOT_IN_FILE: ThreadKey = ThreadKey {
        process: 0,
        ring: u32::MAX,
    };
}
