// SPDX-License-Identifier: Apache-2.0
//! The nodes and waits that have been made so far.

use std::ops::Range;

use crate::graph::{Nodes, Wait};
use crate::session::{EventId, ThreadId};

/// The nodes and waits of all threads so far.
pub(super) struct Made {
    pub(super) nodes: Nodes,
    pub(super) waits: Vec<Wait>,
    /// By thread, its first node, and its first wait; one more than threads.
    pub(super) thread_nodes: Vec<u32>,
    pub(super) thread_waits: Vec<u32>,
}

impl Made {
    /// Nothing yet, with room for what so many events make.
    pub(super) fn for_events(events: usize) -> Self {
        let mut made = Made {
            nodes: Nodes::default(),
            waits: Vec::with_capacity(events / 4),
            thread_nodes: vec![0],
            thread_waits: vec![0],
        };
        // Most pieces of work have two events or more. What is not used takes no memory.
        made.nodes.reserve(events / 2);
        made
    }

    /// All nodes and waits of the next thread are there.
    pub(super) fn end_thread(&mut self) {
        self.thread_nodes.push(self.nodes.len() as u32);
        self.thread_waits.push(self.waits.len() as u32);
    }

    /// The nodes of a thread.
    pub(super) fn nodes_of(&self, thread: ThreadId) -> Range<u32> {
        let thread = thread.0 as usize;
        self.thread_nodes[thread]..self.thread_nodes[thread + 1]
    }

    /// The wait that an event ends.
    pub(super) fn ended_by(&self, event: EventId) -> Option<&Wait> {
        /// Other waits may have begun inside it.
        const MOST_INSIDE: usize = 64;
        let thread = event.thread.0 as usize;
        let range = self.thread_waits[thread] as usize..self.thread_waits[thread + 1] as usize;
        let waits = &self.waits[range];
        let before = waits.partition_point(|w| w.begin_event < event.event);
        let mut near = waits[..before].iter().rev().take(MOST_INSIDE);
        near.find(|w| w.end_event == event.event)
    }
}
