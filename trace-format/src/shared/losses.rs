// SPDX-License-Identifier: Apache-2.0
//! What a process knows to be missing in its rings.

/// A loss that a process counts, in `Header::losses` at this index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The spool was full.
    OldEvents,
    /// There was no ring of events for a thread.
    ThreadsWithoutEvents,
    /// There was no memory for a thread's next ring of calls.
    ThreadsStopped,
    /// There was no ring of calls for a thread at its start.
    ThreadsNotStarted,
    /// A ring of calls went to another thread.
    RingsEvicted,
    /// The table of stacks was full.
    Stacks,
    /// There were too many names of the program's events.
    EventNames,
}

impl Loss {
    /// All, in the order of their numbers.
    pub const ALL: [Loss; 7] = [
        Loss::OldEvents,
        Loss::ThreadsWithoutEvents,
        Loss::ThreadsStopped,
        Loss::ThreadsNotStarted,
        Loss::RingsEvicted,
        Loss::Stacks,
        Loss::EventNames,
    ];

    /// As files say it; with the key of the configuration that helps.
    pub const fn text(self) -> &'static str {
        match self {
            Loss::OldEvents => "rings of older events (event-spool)",
            Loss::ThreadsWithoutEvents => "threads without events: no free ring (event-rings)",
            Loss::ThreadsStopped => "threads no longer traced: no memory for a ring",
            Loss::ThreadsNotStarted => {
                "threads not traced from their start: no free ring (max-rings)"
            }
            Loss::RingsEvicted => {
                "rings taken back for other threads or apps (max-rings, or the service)"
            }
            Loss::Stacks => "stacks: no room in the table (stack-table)",
            Loss::EventNames => "names of the program's events: too many",
        }
    }
}
