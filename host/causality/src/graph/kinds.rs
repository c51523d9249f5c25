// SPDX-License-Identifier: Apache-2.0
//! Numbers and kinds of nodes, edges and waits.

/// Number of a node: nodes are in the order of their threads, and within a thread in the order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct NodeId(pub u32);

impl NodeId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct EdgeId(pub u32);

impl EdgeId {
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a thread does in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NodeKind {
    /// It runs, outside any task: the code of the thread itself, between its waits.
    Run,
    /// It dispatches a message.
    Message,
    /// It runs a task.
    Task,
    /// It runs the callbacks of a frame, outside a message.
    Frame,
    /// It lays out and draws a window, outside a frame and a message.
    Traversal,
    /// It handles an input event.
    Input,
    /// It serves a transaction.
    Service,
    /// It takes an activity through a step of its lifecycle, outside a message.
    Lifecycle,
    /// It does a piece of work that the program named.
    Marked,
    /// It runs a method that a rule of the device names, and that the user's rules make a piece of work.
    Rule,
    /// It waits, outside any task.
    Wait,
    /// It waits for work: a looper for messages, a thread of a pool for tasks.
    Idle,
    /// It runs a request of the managed runtime, or its garbage collection, or waits for that. It interrupts the node
    /// around it, which goes on afterwards.
    Maintenance,
}

impl NodeKind {
    /// All kinds.
    pub const ALL: [NodeKind; 13] = [
        NodeKind::Run,
        NodeKind::Message,
        NodeKind::Task,
        NodeKind::Frame,
        NodeKind::Traversal,
        NodeKind::Input,
        NodeKind::Service,
        NodeKind::Lifecycle,
        NodeKind::Marked,
        NodeKind::Rule,
        NodeKind::Wait,
        NodeKind::Idle,
        NodeKind::Maintenance,
    ];

    /// Whether the thread waits in it, outside any task.
    pub const fn is_wait(self) -> bool {
        matches!(self, NodeKind::Wait | NodeKind::Idle)
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            NodeKind::Run => "run",
            NodeKind::Message => "message",
            NodeKind::Task => "task",
            NodeKind::Frame => "frame",
            NodeKind::Traversal => "traversal",
            NodeKind::Input => "input",
            NodeKind::Service => "service",
            NodeKind::Lifecycle => "lifecycle",
            NodeKind::Marked => "marked",
            NodeKind::Rule => "rule",
            NodeKind::Wait => "wait",
            NodeKind::Idle => "idle",
            NodeKind::Maintenance => "maintenance",
        }
    }
}

/// How certain it is that an edge's source caused its target (Argus).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EdgeClass {
    /// A cause and its effect.
    Strong,
    /// The one came after the other, or would have been its effect: not a causal fact.
    Weak,
    /// A weak edge between nodes that have uncommon methods in common.
    Boosted,
}

impl EdgeClass {
    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            EdgeClass::Strong => "strong",
            EdgeClass::Weak => "weak",
            EdgeClass::Boosted => "boosted",
        }
    }

    /// What it adds to the penalty of a path: −1, +1 and 0 (Argus's implementation).
    pub const fn penalty(self) -> i32 {
        match self {
            EdgeClass::Strong => -1,
            EdgeClass::Weak => 1,
            EdgeClass::Boosted => 0,
        }
    }
}

/// Why there is an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reason {
    /// A message was enqueued, and dispatched.
    Message,
    /// A task was submitted, and run.
    Task,
    /// A thread was started, and runs.
    ThreadStart,
    /// An element was put into a queue, and taken out of it.
    Item,
    /// A message, task or frame callback was given a delay, and ran after it.
    Timer,
    /// A callback was posted, and run in a frame.
    FrameCallback,
    /// A traversal was scheduled, and done.
    Traversal,
    /// The program handed work over.
    Post,
    /// A transaction was sent, and served.
    Transaction,
    /// A transaction was served, and has returned.
    Reply,
    /// A thread ended the wait of another one.
    Wake,
    /// A thread released a lock, and another one got it. That is mutual exclusion, not a cause, unless the user's rules say
    /// so.
    Lock,
    /// A field was written, and read afterwards.
    Field,
    /// The thread goes on after a wait that another thread ended.
    Resume,
    /// The next node of the thread.
    Next,
    /// From a wait to the event that ended it: what the wait was for.
    AwaitedBy,
    /// A rule of the user.
    Rule,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 17] = [
        Reason::Message,
        Reason::Task,
        Reason::ThreadStart,
        Reason::Item,
        Reason::Timer,
        Reason::FrameCallback,
        Reason::Traversal,
        Reason::Post,
        Reason::Transaction,
        Reason::Reply,
        Reason::Wake,
        Reason::Lock,
        Reason::Field,
        Reason::Resume,
        Reason::Next,
        Reason::AwaitedBy,
        Reason::Rule,
    ];

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Message => "message",
            Reason::Task => "task",
            Reason::ThreadStart => "thread start",
            Reason::Item => "item",
            Reason::Timer => "timer",
            Reason::FrameCallback => "frame callback",
            Reason::Traversal => "traversal",
            Reason::Post => "post",
            Reason::Transaction => "transaction",
            Reason::Reply => "reply",
            Reason::Wake => "wake-up",
            Reason::Lock => "lock",
            Reason::Field => "field",
            Reason::Resume => "resume",
            Reason::Next => "next",
            Reason::AwaitedBy => "awaited by",
            Reason::Rule => "rule",
        }
    }

    /// Whether it leads from a thread to itself because time passes there, not because of an event.
    pub const fn is_of_thread(self) -> bool {
        matches!(self, Reason::Next | Reason::Resume)
    }
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WaitKind {
    /// A lock that another thread holds.
    Lock,
    /// A notification of an object.
    Object,
    /// The time: it sleeps.
    Sleep,
    /// To be unparked.
    Park,
    /// A garbage collection.
    Gc,
    /// A looper, messages.
    Poll,
    /// The reply to a transaction.
    Transaction,
    /// It is not known.
    Unknown,
}

impl WaitKind {
    /// Of the number that events have.
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => WaitKind::Lock,
            1 => WaitKind::Object,
            2 => WaitKind::Sleep,
            3 => WaitKind::Park,
            4 => WaitKind::Gc,
            5 => WaitKind::Poll,
            _ => WaitKind::Unknown,
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            WaitKind::Lock => "lock",
            WaitKind::Object => "object",
            WaitKind::Sleep => "sleep",
            WaitKind::Park => "park",
            WaitKind::Gc => "gc",
            WaitKind::Poll => "poll",
            WaitKind::Transaction => "transaction",
            WaitKind::Unknown => "unknown",
        }
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum WaitResult {
    /// What it waited for came.
    Signalled,
    /// Its time was over.
    TimedOut,
    /// The thread was interrupted.
    Interrupted,
    /// Its end is not recorded: it goes on, or the event is missing.
    NotRecorded,
}

impl WaitResult {
    /// Of the number that events have.
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => WaitResult::Signalled,
            1 => WaitResult::TimedOut,
            2 => WaitResult::Interrupted,
            _ => WaitResult::NotRecorded,
        }
    }

    /// Its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            WaitResult::Signalled => "signalled",
            WaitResult::TimedOut => "timed out",
            WaitResult::Interrupted => "interrupted",
            WaitResult::NotRecorded => "not recorded",
        }
    }
}

/// Why two events that belong together made no edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropReason {
    /// The effect would have been before its cause.
    Backwards,
    /// Several events at the same time would have been causes of each other.
    Circular,
    /// The cause is work of the managed runtime, such as a garbage collection.
    Maintenance,
    /// A rule of the user.
    Ignored,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 4] = [
        DropReason::Backwards,
        DropReason::Circular,
        DropReason::Maintenance,
        DropReason::Ignored,
    ];

    /// The reason in words.
    pub const fn words(self) -> &'static str {
        match self {
            DropReason::Backwards => "the effect would have been before its cause",
            DropReason::Circular => {
                "several events at the same time would have been causes of each other"
            }
            DropReason::Maintenance => {
                "the cause is work of the managed runtime, such as a garbage collection"
            }
            DropReason::Ignored => "a rule says so",
        }
    }
}

#[cfg(test)]
mod tests {
    use hindsight_decoder::catalogue::{WAIT_KINDS, WAIT_RESULTS};

    use super::*;

    #[test]
    fn numbers_of_events_mean_what_the_catalogue_says() {
        let kinds = (0..WAIT_KINDS.len() as u64).map(|n| WaitKind::from_number(n).name());
        assert_eq!(Vec::from_iter(kinds), WAIT_KINDS);
        let results = (0..WAIT_RESULTS.len() as u64).map(|n| WaitResult::from_number(n).name());
        assert_eq!(Vec::from_iter(results), WAIT_RESULTS);
    }
}
