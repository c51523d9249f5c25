// SPDX-License-Identifier: Apache-2.0
//! What is known of a connection by what was said on it.

use std::collections::BTreeSet;

use hindsight_trace_format::protocol::{FromProcess, Hello, TakeOutcome};

use crate::engine::Peer;

/// A connection.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) peer: Peer,
    pub(super) hello: Hello,
    /// As it says now.
    pub(super) name: String,
    /// All but rings of calls, bytes.
    pub(super) room: u64,
    /// The most that it has asked for.
    pub(super) needed: u64,
    pub(super) is_connected: bool,
    pub(super) has_ended: bool,
    /// When; 0: it lives.
    pub(super) ended_ns: u64,
    /// The number of that event.
    pub(super) ended_at: u64,
    /// A report has all that it left.
    pub(super) is_read: bool,
    pub(super) is_forgotten: bool,
    pub(super) is_welcome: bool,
    pub(super) is_foreground: bool,
    /// The service has closed its connection: its rings need memory, and are not counted.
    pub(super) is_silent: bool,
    /// Rings by the last configuration that was answered.
    pub(super) answered: u32,
    /// Rings that it has by its own account only, until it has answered all.
    pub(super) brought: u32,
    /// Rings and time of all that were not.
    pub(super) unanswered: Vec<(u32, u64)>,
    pub(super) last: Option<(u32, u32)>,
    /// Nothing was allowed of it when this was looked at last.
    pub(super) is_none: bool,
    /// Since it was so it has not answered everything: it may still have what it recorded before.
    pub(super) is_withdrawn: bool,
    /// Rings that may be taken.
    pub(super) taken: u32,
    /// Rings that may not be used again yet.
    pub(super) releasing: u32,
    /// The report that it was told to take, when, and whether it has answered.
    pub(super) take: Option<(u64, u64, bool)>,
    /// Reports whose rings it has to get back.
    pub(super) unreleased: BTreeSet<u64>,
}

impl Known {
    pub(super) fn rings(&self) -> u32 {
        let unanswered = self.unanswered.iter().map(|(rings, _)| *rings);
        unanswered.fold(self.answered, u32::max)
    }

    /// Whether nothing of it can become a report or another connection.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended || self.is_forgotten
    }

    pub(super) fn bytes(&self) -> u64 {
        let rings = u64::from(self.rings() + self.taken + self.releasing);
        rings * self.hello.ring_bytes + self.room
    }

    /// Whether it may be told to give way to another process: the user does not see it, it has no rings, and is not asked for any.
    pub(super) fn may_give_way(&self) -> bool {
        let has_rings = self.rings() + self.taken + self.releasing != 0;
        let has_answered = self.take.is_none_or(|(_, _, is_answered)| is_answered);
        !self.is_foreground && !has_rings && has_answered
    }

    /// The process has said this.
    pub(super) fn said(&mut self, message: &FromProcess) {
        match message {
            FromProcess::Held { rings } if !self.unanswered.is_empty() => {
                // A lie ends the connection.
                let is_lie = *rings > self.rings() + self.taken + self.releasing;
                let (granted, _) = self.unanswered.remove(0);
                let is_over = self.unanswered.is_empty();
                // Rings that are read for a report are not given up yet.
                let has_all_back = self.unreleased.is_empty();
                let is_within = *rings <= granted + self.taken + self.releasing;
                self.is_withdrawn &= !is_over || is_lie || !has_all_back || !is_within;
                if is_over && *rings <= granted + self.taken + self.releasing {
                    self.answered = granted;
                    self.brought = 0;
                    self.releasing = 0;
                } else {
                    self.answered = self.answered.max(granted);
                }
            }
            FromProcess::Taken { report, outcome } => {
                if let Some((taken, _, is_answered)) = &mut self.take {
                    if taken == report && !*is_answered {
                        *is_answered = true;
                        if *outcome != TakeOutcome::Taken {
                            self.taken = 0;
                            self.unreleased.remove(report);
                        }
                    }
                }
            }
            FromProcess::Foreground { is_foreground, .. } => self.is_foreground = *is_foreground,
            FromProcess::Needs { bytes } => self.needed = self.needed.max(*bytes),
            FromProcess::Name { name } => self.name.clone_from(name),
            _ => {}
        }
    }
}
