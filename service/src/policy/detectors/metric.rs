// SPDX-License-Identifier: Apache-2.0
//! The metrics that rules of the service are about.

/// A metric, as it was in the last second or so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Share of the time in which some work waited for a processor (`/proc/pressure/cpu`), percent.
    PsiCpu,
    /// Share of the time in which some work waited for input or output, percent.
    PsiIo,
    /// Share of the time in which some work waited for memory, percent.
    PsiMemory,
    /// How long the main thread was ready to run and had no processor, ms a second.
    RunDelay,
    /// Frames that ended later than late-frames allows, a second.
    LateFrames,
    /// Frames, a second.
    Frames,
    /// Time in messages of the main thread, ms a second.
    Messages,
    /// Time in which the main thread waited for locks, ms a second.
    LockWait,
    /// Time in which the main thread waited for other processes, ms a second.
    BinderWait,
    /// Time in which collections stopped the main thread, ms a second.
    GcStopped,
    /// Garbage collections, a second.
    Collections,
    /// What the main thread allocated, KiB a second.
    Allocated,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 12] = [
        Metric::PsiCpu,
        Metric::PsiIo,
        Metric::PsiMemory,
        Metric::RunDelay,
        Metric::LateFrames,
        Metric::Frames,
        Metric::Messages,
        Metric::LockWait,
        Metric::BinderWait,
        Metric::GcStopped,
        Metric::Collections,
        Metric::Allocated,
    ];

    /// Its name in policy files; ends in its unit.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::PsiCpu => "psi-cpu-percent",
            Metric::PsiIo => "psi-io-percent",
            Metric::PsiMemory => "psi-memory-percent",
            Metric::RunDelay => "run-delay-ms",
            Metric::LateFrames => "late-frames",
            Metric::Frames => "frames",
            Metric::Messages => "messages-ms",
            Metric::LockWait => "lock-wait-ms",
            Metric::BinderWait => "binder-wait-ms",
            Metric::GcStopped => "gc-stopped-ms",
            Metric::Collections => "collections",
            Metric::Allocated => "allocated-kib",
        }
    }

    /// The metric with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.name() == name)
    }
}
