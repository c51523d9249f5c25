// SPDX-License-Identifier: Apache-2.0
//! Which processes have rings of calls by their own account.

use std::collections::BTreeMap;

use super::event::Connection;
use super::process::Process;

/// So many processes of a user id may end, or lose their connections, before they have answered. Honest ones answer within
/// milliseconds, and are rarely killed in these; others get no rings meanwhile, for as long as a process has for its answer.
const FORGIVEN: u32 = 8;

/// Who has brought rings.
#[derive(Debug, Default)]
pub(super) struct Brought {
    /// Processes that have not answered yet, and their user ids.
    unanswered: BTreeMap<Connection, u32>,
    /// How many processes of a user id did not answer as long as they were connected.
    silent: BTreeMap<u32, u32>,
}

impl Brought {
    pub(super) fn add(&mut self, connection: Connection, uid: u32) {
        self.unanswered.insert(connection, uid);
    }

    /// Counts whoever has not answered and cannot any more.
    pub(super) fn doubt(&mut self, may_answer: impl Fn(Connection) -> bool) {
        let silent = &mut self.silent;
        self.unanswered.retain(|connection, uid| {
            let may_answer = may_answer(*connection);
            if !may_answer {
                let count = silent.entry(*uid).or_default();
                *count = count.saturating_add(1);
            }
            may_answer
        });
    }

    pub(super) fn is_doubted(&self, uid: u32) -> bool {
        self.silent
            .get(&uid)
            .is_some_and(|count| *count >= FORGIVEN)
    }

    /// The process has answered, so that its rings are known.
    pub(super) fn answered(&mut self, connection: Connection) {
        self.unanswered.remove(&connection);
    }
}

/// What was counted for an earlier connection of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) rings: u32,
    pub(super) ring_bytes: u64,
    pub(super) brought: u32,
}

impl Counted {
    pub(super) fn of(process: &Process) -> Self {
        Counted {
            rings: process.rings(),
            ring_bytes: process.ring_bytes,
            brought: process.brought,
        }
    }
}
