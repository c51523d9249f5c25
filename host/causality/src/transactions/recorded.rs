// SPDX-License-Identifier: Apache-2.0
//! What the traces tell about transactions, and what is missing.

use hindsight_decoder::catalogue::Category;
use hindsight_decoder::Extension;

use super::find::{is_update_mark, Transactions};
use super::model::RootKind;
use crate::session::Session;

/// Which of the facts that transactions are made of are recorded at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Input events of the system.
    pub input: bool,
    /// Marks of the program that stand for input.
    pub input_marks: bool,
    /// Updates of the screen.
    pub updates: bool,
    /// Messages, or tasks.
    pub work: bool,
    /// Waits.
    pub waits: bool,
    /// CPU time of threads.
    pub cpu_time: bool,
    /// Events of the category `runtime`: a thread that records them records the exception that ends it.
    pub runtime: bool,
    /// Events of any kind, other than those of the recording itself.
    pub any: bool,
}

impl Recorded {
    /// In all traces together.
    pub fn of(session: &Session, transactions: &Transactions) -> Self {
        use Extension::{InputBegin, MessageDispatched, TaskBegin, ThreadCpuTime, WaitBegin};
        let mut found = Recorded::default();
        for thread in session.thread_ids() {
            for event in &session.thread(thread).events {
                match event.kind {
                    InputBegin => found.input = true,
                    MessageDispatched | TaskBegin => found.work = true,
                    WaitBegin => found.waits = true,
                    ThreadCpuTime => found.cpu_time = true,
                    Extension::TraversalEnd => found.updates = true,
                    _ => {}
                }
                found.updates |= is_update_mark(session, thread, event);
                let category = event.kind.spec().category;
                found.runtime |= category == Category::Runtime;
                found.any |= category != Category::Recording;
            }
        }
        for (_, transaction) in transactions.iter() {
            found.input_marks |= transaction.kind == RootKind::Mark;
            found.updates |= !transaction.updates.is_empty();
        }
        found
    }

    /// What is missing, and what follows from that, one sentence each.
    pub fn missing(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if !self.work {
            missing.push("No messages or tasks are recorded: transactions need the events messages and tasks.");
        }
        if !self.input && !self.input_marks {
            missing.push(
                "No input is recorded (events input, or marks whose names begin with \"input\"): transactions begin with \
                 messages and tasks whose cause belongs to no transaction.",
            );
        }
        if !self.updates {
            missing.push(
                "No updates of the screen are recorded (events frames, or marks whose names begin with \"update\"): critical \
                 paths lead to the end of a transaction's last work.",
            );
        }
        if !self.waits {
            missing.push("No waits are recorded (events waits): time in them is unknown.");
        }
        if !self.cpu_time {
            missing.push(
                "No CPU time is recorded (events resources): stretches of 1 ms or more without waits are unknown, not \
                 running.",
            );
        }
        missing
    }

    /// Why exceptions that nothing caught may be missing, one sentence. `None` if events of their category are recorded.
    pub fn missing_crashes(&self) -> Option<&'static str> {
        match (self.runtime, self.any) {
            (true, _) => None,
            (false, false) => Some(
                "No events are recorded: crashes need the events runtime (events=runtime or events=all; docs/events.md).",
            ),
            (false, true) => Some(
                "No events of the category runtime are recorded: if it was not switched on (events=runtime or events=all; \
                 docs/events.md), uncaught exceptions are not recorded.",
            ),
        }
    }
}
