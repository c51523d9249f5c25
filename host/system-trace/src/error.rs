// SPDX-License-Identifier: Apache-2.0
//! Why a system trace cannot be used.

use std::io;

/// Why a system trace cannot be used, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It has no events of the scheduler.
    #[error(
        "the Perfetto trace has no events of the scheduler: record the data source linux.ftrace with sched/sched_switch and \
         sched/sched_waking (docs/causality.md); exports of Hindsight are no input"
    )]
    NoEvents,
    /// Its events have a clock that cannot be related to CLOCK_BOOTTIME.
    #[error(
        "the events of the Perfetto trace have the kernel's clock {clock}, and nothing relates it to CLOCK_BOOTTIME: record \
         without use_monotonic_raw_clock and preserve_ftrace_buffer, and with Perfetto 19 or later"
    )]
    OtherClock {
        /// Its name.
        clock: &'static str,
    },
    /// It is not known of which boot it is.
    #[error(
        "the Perfetto trace has no snapshot of the clocks with CLOCK_BOOTTIME and CLOCK_REALTIME, so that nothing says \
         whether it is of the same boot: record without disable_clock_snapshotting, and read the whole file, not a part of it"
    )]
    NoSnapshot,
    /// It has more events than are read.
    #[error("the Perfetto trace has more than {most} events of the scheduler or of binder: record for less long")]
    TooMany {
        /// The greatest number.
        most: usize,
    },
}
