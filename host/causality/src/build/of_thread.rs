// SPDX-License-Identifier: Apache-2.0
//! The rules that are for a thread.

use crate::rules::{Pattern, Rules};
use crate::session::{EventId, Session, ThreadId};

/// The rules that are for a thread.
pub(super) struct OfThread<'a> {
    session: &'a Session,
    thread: ThreadId,
    split: Vec<&'a Pattern>,
    merge: Vec<&'a Pattern>,
    /// Further events that begin nodes, sorted.
    beginnings: &'a [u32],
    /// Its waits do not end nodes.
    pub(super) has_priority_waits: bool,
}

impl<'a> OfThread<'a> {
    pub(super) fn new(
        session: &'a Session,
        thread: ThreadId,
        rules: &'a Rules,
        beginnings: &'a [u32],
    ) -> Self {
        let is_own = |p: &&Pattern| p.is_for_thread(session, thread);
        OfThread {
            session,
            thread,
            split: rules.split.iter().filter(is_own).collect(),
            merge: rules.merge.iter().filter(is_own).collect(),
            beginnings,
            has_priority_waits: rules.priority.iter().any(|p| is_own(&p)),
        }
    }

    /// Whether an event begins a node, also inside work.
    pub(super) fn splits(&self, event: usize) -> bool {
        self.beginnings.binary_search(&(event as u32)).is_ok()
            || self.is_one_for(&self.split, event)
    }

    /// Whether what an event begins is a part of the node before it.
    pub(super) fn merges(&self, event: usize) -> bool {
        self.is_one_for(&self.merge, event)
    }

    fn is_one_for(&self, patterns: &[&Pattern], event: usize) -> bool {
        let id = EventId {
            thread: self.thread,
            event: event as u32,
        };
        patterns.iter().any(|p| p.is_for_event(self.session, id))
    }
}
