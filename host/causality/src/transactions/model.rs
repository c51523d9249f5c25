// SPDX-License-Identifier: Apache-2.0
//! User transactions, and the work that belongs to them.

use crate::graph::{EdgeId, NodeId};
use crate::session::{EventId, ThreadId};
use crate::strings::StringId;

/// Number of a transaction: in the order of their beginnings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TransactionId(pub u32);

impl TransactionId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What began a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RootKind {
    /// The user touched the screen or pressed a key: all input events from down to up.
    Input,
    /// The program marked an input (`input …`), where the system records none.
    Mark,
    /// An activity was created, started or resumed.
    Activity,
    /// A periodic timer, or a callback that posts itself for each frame.
    Timer,
    /// Another process sent a transaction.
    Binder,
    /// A message, task or other work whose cause belongs to no transaction, or is not recorded.
    Other,
}

impl RootKind {
    /// All kinds.
    pub const ALL: [RootKind; 6] = [
        RootKind::Input,
        RootKind::Mark,
        RootKind::Activity,
        RootKind::Timer,
        RootKind::Binder,
        RootKind::Other,
    ];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            RootKind::Input => "input",
            RootKind::Mark => "input mark",
            RootKind::Activity => "activity start",
            RootKind::Timer => "timer",
            RootKind::Binder => "binder",
            RootKind::Other => "other",
        }
    }

    /// Whether the user began it, or is shown a new screen by it.
    pub const fn is_of_user(self) -> bool {
        matches!(self, RootKind::Input | RootKind::Mark | RootKind::Activity)
    }
}

/// Where a transaction begins; a touch has one at each of its input events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The first event.
    pub event: EventId,
    /// CLOCK_BOOTTIME of the touch, of the sending of the message …, ns; not after the first event.
    pub origin_ns: u64,
    /// The edge from what sent it, if that is recorded and in no transaction.
    pub sent_by: Option<EdgeId>,
}

/// How work came to belong to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The transaction begins with it.
    Root(Root),
    /// Earlier work of the transaction caused it.
    Edge(EdgeId),
    /// It is what the thread does next, after earlier work of the transaction.
    Next,
}

/// A piece of work that belongs to a transaction: a node of the graph, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// The transaction.
    pub transaction: TransactionId,
    /// The first event that belongs to it: index among the thread's events.
    pub first_event: u32,
    /// Index after the last event.
    pub end_event: u32,
    /// CLOCK_BOOTTIME, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub end_ns: u64,
    /// How it came to belong to the transaction.
    pub via: Via,
    /// The member that caused it: index among all members. Its own index if it is a root.
    pub parent: u32,
    /// Whether it also belongs to an earlier transaction, which waited for this one.
    pub is_shared: bool,
    /// Whether it is the code of a thread that a mark made a part of the transaction.
    pub(super) is_of_mark: bool,
    /// Whether it is the code of a thread that the transaction did not start: it is of it until the thread waits for
    /// something else.
    pub(super) is_borrowed: bool,
    /// Whether the thread was given other work before the end of the node: `end_event` is exact, and may be `first_event`.
    pub(super) is_cut: bool,
}

/// The screen was updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The event at its end.
    pub event: EventId,
    /// CLOCK_BOOTTIME, ns.
    pub at_ns: u64,
    /// The member that it is in: index among all members.
    pub member: u32,
}

/// From something that the user did, or a timer, or another first cause, to the end of all that it caused (AppInsight,
/// OSDI 2012, § 3).
#[derive(Clone, Debug)]
pub struct Transaction {
    /// What began it.
    pub kind: RootKind,
    /// The thread that it began on.
    pub thread: ThreadId,
    /// The class that received the input, handled the message …, or the name of the mark.
    pub what: StringId,
    /// CLOCK_BOOTTIME when it began, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME of the end of all work that only it caused, as far as recorded, ns.
    pub end_ns: u64,
    /// Its members: indices among all members, causes before effects.
    pub members: Vec<u32>,
    /// The updates of the screen, in the order of time.
    pub updates: Vec<Update>,
    /// The later transaction of the user that began in the same process before this one's last update, or before its end if
    /// it has no update.
    pub interrupted_by: Option<TransactionId>,
    /// Whether some of its work had not ended when the recording did.
    pub is_unfinished: bool,
}

impl Transaction {
    /// The last update of the screen.
    pub fn last_update(&self) -> Option<&Update> {
        self.updates.last()
    }
}

/// What was left out of transactions, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Effects that were not followed, because their work belongs to an earlier transaction.
    pub of_others: u64,
    /// Effects that were not followed, because their work belongs to too many transactions.
    pub too_shared: u64,
}
