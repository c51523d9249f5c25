// SPDX-License-Identifier: Apache-2.0
//! Counters that a traced process keeps in its shared memory: the service reads them without waking it.

/// A counter: what it counts grows from the process's start on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum Counter {
    /// Frames of the main thread.
    Frames = 0,
    /// Frames that ended later than the rule of `late-frames` allows.
    LateFrames = 1,
    /// Messages of the main thread.
    Messages = 2,
    /// Time in messages of the main thread, ns.
    MessageNs = 3,
    /// Time in which the main thread waited for locks, ns.
    LockNs = 4,
    /// Time in which the main thread waited for other processes, ns.
    BinderNs = 5,
    /// Time in which collections stopped the main thread, ns.
    GcNs = 6,
    /// Garbage collections.
    Collections = 7,
    /// What the main thread has allocated, bytes.
    AllocatedBytes = 8,
    /// How long the main thread was ready to run and had no processor, by the kernel's account, ns. Unlike the others it is written
    /// at most twice a second. 0: not known, as in older builds.
    RunDelayNs = 9,
}

/// Room for counters, with some for additions.
pub const COUNTERS: usize = 16;
