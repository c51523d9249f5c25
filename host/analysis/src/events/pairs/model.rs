// SPDX-License-Identifier: Apache-2.0
//! Pairs of events, and events without the other end.

use hindsight_decoder::ThreadKey;
use serde::Serialize;

/// How the two ends of a pair belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairKind {
    /// A task was submitted, and run.
    Task,
    /// A message was put into a queue, and dispatched.
    Message,
    /// An element was put into a queue, and taken out of it by another thread.
    Item,
    /// A task, message or element was submitted, and taken out of its queue again.
    Cancelled,
    /// A thread ended the wait of another one.
    Wake,
    /// A thread released a lock, and another one got it.
    Lock,
    /// The program handed work to another thread.
    Post,
    /// A callback was posted, and run in a frame.
    Callback,
    /// A traversal was scheduled, and done.
    Traversal,
    /// A transaction was sent, and served.
    Transaction,
    /// A transaction was served, and returned.
    Reply,
}

impl PairKind {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            PairKind::Task => "task",
            PairKind::Message => "message",
            PairKind::Item => "item",
            PairKind::Cancelled => "cancelled",
            PairKind::Wake => "wake-up",
            PairKind::Lock => "lock",
            PairKind::Post => "post",
            PairKind::Callback => "frame callback",
            PairKind::Traversal => "traversal",
            PairKind::Transaction => "transaction",
            PairKind::Reply => "reply",
        }
    }

    /// Whether both ends may be in different processes.
    pub(super) const fn is_between_processes(self) -> bool {
        matches!(self, PairKind::Transaction | PairKind::Reply)
    }
}

/// One end of a pair: an event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct End {
    /// The thread.
    #[serde(skip)]
    pub thread: ThreadKey,
    /// Index among its events.
    pub event: usize,
}

/// A cause and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// How they belong together.
    pub kind: PairKind,
    /// The cause.
    pub from: End,
    /// The effect.
    pub to: End,
}

/// The end of a pair that an event without the other end would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The cause.
    From,
    /// The effect.
    To,
}

/// Why an event has no other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The other end is not in the recorded time of any thread: it happened before, or had not happened yet.
    NotRecorded,
    /// Several events could be the other end.
    Ambiguous,
    /// The thread of the other end is not in the file.
    ThreadNotInFile,
    /// The event does not say which wait it ended: for instance a poll, whose number the waker cannot know.
    WaitNotKnown,
    /// The wait that it names ended for another reason: its time was over, or another thread ended it before.
    NotTheCause,
}

impl Why {
    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            Why::NotRecorded => "the other end is not recorded",
            Why::Ambiguous => "several events could be the other end",
            Why::ThreadNotInFile => "the other thread is not in the file",
            Why::WaitNotKnown => "which wait was ended is not known",
            Why::NotTheCause => "the wait ended for another reason",
        }
    }
}

/// Events without the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    /// The kind of pair.
    pub kind: PairKind,
    /// The end that is there.
    pub side: Side,
    /// Why the other one is not.
    pub why: Why,
    /// How many events.
    pub count: u64,
}

/// The pairs of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// In the order of their effects.
    pub pairs: Vec<Pair>,
    /// The number of events without the other end.
    pub unmatched: Vec<Unmatched>,
}

/// One end of a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEnd {
    /// The caller's number of the thread.
    pub thread: u32,
    /// Index among its events.
    pub event: u32,
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// The caller's number for the event.
    pub note: u32,
}

/// A cause and its effect, with what the caller knows of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How they belong together.
    pub kind: PairKind,
    /// The cause.
    pub from: LinkEnd,
    /// The effect.
    pub to: LinkEnd,
}
