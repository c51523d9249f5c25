// SPDX-License-Identifier: Apache-2.0
//! Damaged parts of a trace.

use std::fmt;

use crate::key::ThreadKey;

/// A thread of which neither the name nor the ring is known.
pub(crate) const UNKNOWN: &str = "an unknown thread";

/// The anchors of a thread whose ring is not known.
pub(crate) const UNKNOWN_ANCHORS: &str = "the anchors of an unknown ring";

/// The open calls of a thread whose ring is not known.
pub(crate) const UNKNOWN_OPEN_CALLS: &str = "the open calls of an unknown ring";

/// A damaged part of a file: what of it is missing from the trace, and why.
///
/// `Display` gives one line: the part, the reason, and what was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The damaged part.
    pub part: DamagedPart,
    /// The reason, in words: what is wrong with it, and where in the file.
    pub reason: String,
}

/// The part of a file that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagedPart {
    /// A thread's ring.
    Ring {
        /// Identity of the thread. It is in [`Trace::threads`] if `kept_slots` is not 0.
        ///
        /// [`Trace::threads`]: crate::Trace::threads
        thread: ThreadKey,
        /// The thread's id, if it can still be read.
        tid: Option<u32>,
        /// Its name, if it can still be read.
        name: Option<String>,
        /// How many slots of the ring the trace still has. Single events of them may be wrong.
        kept_slots: u64,
        /// How many slots the file should hold for this ring, if that can still be read.
        slots: Option<u64>,
    },
    /// The anchors of a thread's ring: its times may be off by whole wraps of the counter's low half.
    Anchors {
        /// Identity of the thread.
        thread: ThreadKey,
    },
    /// The calls that were open when a thread's ring wrapped: they have no names.
    OpenCalls {
        /// Identity of the thread.
        thread: ThreadKey,
    },
    /// The names of methods. Methods whose names are lost are shown by their addresses.
    Symbols,
    /// The counter and the clocks: all times may be wrong.
    Clocks,
    /// The facts about the process.
    Process,
    /// The list of what the writer lost.
    Losses,
    /// The strings that events name.
    Strings,
    /// The stacks that events name.
    Stacks,
    /// The header or the section table, without which sections are found by their contents.
    Table {
        /// Number of the file's sections that were not found; `None` if it is not known how many there were.
        missing: Option<usize>,
        /// Number of sections whose checksums are lost: damage to them is not noticed.
        unchecked: usize,
    },
    /// Bytes that belong to no known section.
    Bytes {
        /// Offset of the first one in the file.
        from: u64,
        /// Offset after the last one.
        to: u64,
    },
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamagedPart::Ring {
                thread, tid, name, ..
            } => match (name, tid) {
                (Some(name), Some(tid)) => write!(f, "thread \"{name}\" (tid {tid})"),
                _ if *thread == ThreadKey::NOT_IN_FILE => f.write_str(UNKNOWN),
                _ => write!(f, "the thread of ring {}", thread.ring),
            },
            DamagedPart::Anchors { thread } if *thread == ThreadKey::NOT_IN_FILE => {
                f.write_str(UNKNOWN_ANCHORS)
            }
            DamagedPart::Anchors { thread } => write!(f, "the anchors of ring {}", thread.ring),
            DamagedPart::OpenCalls { thread } if *thread == ThreadKey::NOT_IN_FILE => {
                f.write_str(UNKNOWN_OPEN_CALLS)
            }
            DamagedPart::OpenCalls { thread } => {
                write!(f, "the open calls of ring {}", thread.ring)
            }
            DamagedPart::Symbols => f.write_str("the methods' names"),
            DamagedPart::Clocks => f.write_str("the clocks, by which all times are shown"),
            DamagedPart::Process => f.write_str("the facts about the process"),
            DamagedPart::Losses => f.write_str("the writer's list of losses"),
            DamagedPart::Strings => f.write_str("the strings of events"),
            DamagedPart::Stacks => f.write_str("the stacks"),
            DamagedPart::Table { .. } => f.write_str("the section table"),
            DamagedPart::Bytes { from, to } => write!(f, "bytes {from}..{to} of the file"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.reason)?;
        match self.part {
            DamagedPart::Ring { kept_slots: 0, .. } => {
                f.write_str("; nothing of it is in the trace")
            }
            DamagedPart::Ring {
                kept_slots,
                slots: Some(slots),
                ..
            } if kept_slots == slots => write!(
                f,
                "; all of its {slots} slots are in the trace, but single ones may be wrong"
            ),
            DamagedPart::Ring {
                kept_slots,
                slots: Some(slots),
                ..
            } => write!(f, "; {kept_slots} of its {slots} slots are in the trace"),
            DamagedPart::Ring { kept_slots, .. } => {
                write!(f, "; {kept_slots} of its slots are in the trace")
            }
            DamagedPart::Table { missing, unchecked } => {
                f.write_str(match (missing, unchecked) {
                    (Some(0), 0) => "; nothing is lost by this alone, because the sections were found by their contents",
                    (Some(0), _) => "; the sections were found by their contents",
                    (Some(_), _) => "; some sections are missing, the others were found by their contents",
                    (None, _) => "; whether sections are missing is not known; the others were found by their contents",
                })?;
                match unchecked {
                    0 => Ok(()),
                    n => write!(
                        f,
                        "; damage to {n} of them is not noticed, because their checksums are lost"
                    ),
                }
            }
            _ => Ok(()),
        }
    }
}
