// SPDX-License-Identifier: Apache-2.0
//! How much memory each process may use for all but rings of calls: rings of events, stacks and names.
//!
//! A process joins with little, and says later how much it needs. It gets more as far as the budget, its ring share and the user
//! id's share allow: at once, or when other processes have ended. Nothing is ever taken back: names and stacks cannot be given
//! back, and a process that needs little costs little.

use hindsight_trace_format::protocol::FromService;

use super::event::Connection;
use super::process::{Link, Process};
use super::state::State;

/// Room is given in multiples of this, bytes.
const STEP: u64 = 64 << 10;

impl State {
    /// Whether the budget has room for this process, if it uses so much for all but rings of calls. A process that is there already
    /// is replaced.
    pub(super) fn has_room(
        &self,
        connection: Option<Connection>,
        process: &Process,
        bytes: u64,
    ) -> bool {
        let memory = &self.policy.memory;
        let others = || {
            let all = self.processes.iter();
            all.filter(|(other, _)| Some(**other) != connection)
        };
        let sum = |uid: Option<u32>| {
            let counted = others().filter(|(_, p)| uid.is_none_or(|uid| p.peer.uid == uid));
            counted.fold(bytes, |sum, (_, p)| sum.saturating_add(p.other_bytes))
        };
        if sum(None) > memory.other_bytes()
            || sum(Some(process.peer.uid)) > memory.other_bytes_per_uid()
        {
            return false;
        }
        let larger = Process {
            other_bytes: bytes,
            ..process.clone()
        };
        let all = others().map(|(_, other)| other).chain([&larger]);
        let demand = self.demand_of(all.map(|process| (process, process.rings_now())));
        self.fits(&demand)
    }

    /// The process needs so much in all.
    pub(super) fn needs(&mut self, connection: Connection, bytes: u64) {
        if let Some(process) = self.processes.get_mut(&connection) {
            process.needed_bytes = process.needed_bytes.max(bytes);
        }
    }

    /// Gives more to all processes that need it, as far as there is room: first to those that the user sees or saw last.
    pub(super) fn give_room(&mut self) {
        let all = self.processes.iter();
        let mut waiting: Vec<_> = all
            .filter(|(_, p)| p.link == Link::Connected && p.needed_bytes > p.other_bytes)
            .map(|(connection, p)| (p.rank(), *connection))
            .collect();
        waiting.sort_unstable_by(|a, b| b.cmp(a));
        for (_, connection) in waiting {
            self.give_room_to(connection);
        }
    }

    fn give_room_to(&mut self, connection: Connection) {
        let Some(process) = self.processes.get(&connection) else {
            return;
        };
        let given = process.other_bytes;
        let bytes = |steps: u64| {
            let more = steps.saturating_mul(STEP);
            given.saturating_add(more).min(process.needed_bytes)
        };
        // The demand grows with the bytes, so the most that fits is found by halving.
        let most = self.policy.memory.budget_bytes / STEP;
        let (mut low, mut high) = (0, (process.needed_bytes - given).div_ceil(STEP).min(most));
        while low < high {
            let middle = high - (high - low) / 2;
            if self.has_room(Some(connection), process, bytes(middle)) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let bytes = bytes(low);
        if low == 0 {
            return;
        }
        if let Some(process) = self.processes.get_mut(&connection) {
            process.other_bytes = bytes;
        }
        self.send(connection, FromService::Room { bytes });
    }
}
