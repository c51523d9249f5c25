// SPDX-License-Identifier: Apache-2.0
//! The part of a thread's time that a question is about.

use hindsight_decoder::{Extension, ThreadEvent};

use super::windows::Windows;
use crate::graph::{Graph, NodeId, Wait, WaitKind, WaitResult};
use crate::session::{Session, ThreadId};

/// A wait, sleep or poll shorter than this is a pause, ns, if its time was over: a loop of such pauses waits for something
/// that it looks at each time. It is the length from which a message is a stall.
pub const PAUSE_NS: u64 = 100_000_000;

/// Consecutive nodes of a thread: one piece of work, one wait, or a thread's own code with short waits in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The thread.
    pub thread: ThreadId,
    /// The first node.
    pub first: NodeId,
    /// The last node, which may be the first one.
    pub last: NodeId,
    /// CLOCK_BOOTTIME, ns.
    pub begin_ns: u64,
    /// CLOCK_BOOTTIME, ns.
    pub end_ns: u64,
    /// Whether its end is not recorded.
    pub is_open: bool,
}

impl Stretch {
    /// One node.
    pub fn of_node(graph: &Graph, id: NodeId) -> Self {
        let node = graph.node(id);
        Stretch {
            thread: node.thread,
            first: id,
            last: id,
            begin_ns: node.begin_ns,
            end_ns: node.end_ns,
            is_open: node.is_open,
        }
    }

    /// Its length, ns.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    /// Its time.
    pub fn window(&self) -> Windows {
        Windows::one(self.begin_ns, self.end_ns)
    }

    /// Its waits, in the order of time.
    pub(crate) fn waits<'g>(&self, graph: &'g Graph) -> &'g [Wait] {
        let waits = graph.waits_of(self.thread);
        let first = graph.node(self.first).first_event;
        let end = graph.node(self.last).end_event;
        let from = waits.partition_point(|w| w.begin_event < first);
        let to = waits.partition_point(|w| w.begin_event < end);
        waits.get(from..to).unwrap_or_default()
    }

    /// Its events, with their indices among the thread's.
    pub(crate) fn events<'s>(
        &self,
        session: &'s Session,
        graph: &Graph,
    ) -> impl Iterator<Item = (u32, &'s ThreadEvent)> + 's {
        let (first, last) = (graph.node(self.first), graph.node(self.last));
        let range = first.first_event as usize..last.end_event as usize;
        let events = session.thread(self.thread).events.get(range);
        events
            .unwrap_or_default()
            .iter()
            .zip(first.first_event..)
            .map(|(e, i)| (i, e))
    }
}

/// Whether a wait is a pause: it was short, and its time was over, or the thread slept.
pub(crate) fn is_pause(wait: &Wait) -> bool {
    let ends_by_itself = wait.kind == WaitKind::Sleep || wait.result == WaitResult::TimedOut;
    ends_by_itself && wait.duration_ns() < PAUSE_NS
}

/// Whether an event is a step of what the program does: no end of something, no reading of counters, and no event of the
/// runtime or of the recording.
pub(crate) fn is_step(kind: Extension) -> bool {
    use hindsight_decoder::catalogue::Category;
    use Extension as E;
    let category = kind.spec().category;
    let is_of_program = !matches!(
        category,
        Category::Recording | Category::Runtime | Category::Resources | Category::Stacks
    );
    is_of_program
        && !matches!(
            kind,
            // What a loop looks at between its pauses is no step further.
            E::FieldRead
                | E::WaitEnd
                | E::WokenBy
                | E::TaskEnd
                | E::MessageDone
                | E::FrameEnd
                | E::TraversalEnd
                | E::InputEnd
                | E::BinderReply
                | E::BinderServed
                | E::LifecycleEnd
                | E::UserEnd
                | E::RuleEnd
        )
}
