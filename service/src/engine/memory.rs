// SPDX-License-Identifier: Apache-2.0
//! How much memory traced processes and the service may use at most.
//!
//! The demand is the sum of
//! - all that is not a ring of calls, by each process's account;
//! - all rings of calls that processes may hold;
//! - snapshots: the rings that are taken, and never less than the largest one that may become necessary;
//! - the service's copy while it reads one process: the largest that may become necessary, and what else a report needs
//!   (`Facts::report_bytes`). Reading keeps within the sum: `ReadLimits::memory`.
//!
//! The last two are set aside before a ring is granted, so a report never waits for memory that only another report's end gives
//! back, and no ring has to be given up for one.

use super::event::Connection;
use super::process::{Link, Process};
use super::state::State;

/// The parts of the demand that grow with each process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// All that is not a ring of calls, bytes.
    others: u64,
    /// Rings of calls, without snapshots that will be given back; bytes.
    rings: u64,
    /// Snapshots that will be given back, bytes.
    taken: u64,
    /// The largest snapshot that may be taken, bytes.
    largest_take: u64,
    /// The service's largest copy, bytes.
    largest_read: u64,
}

impl Demand {
    /// Adds a process with this number of rings in use, and of rings taken.
    fn add(&mut self, process: &Process, rings: u32, taken: u32) {
        let bytes = |rings: u32| u64::from(rings).saturating_mul(process.ring_bytes);
        let add = |sum: &mut u64, bytes| *sum = sum.saturating_add(bytes);
        add(&mut self.others, process.other_bytes);
        add(&mut self.rings, bytes(rings));
        match process.link {
            Link::Connected => {
                add(&mut self.taken, bytes(taken));
                self.largest_take = self.largest_take.max(bytes(rings));
            }
            // Nobody can tell when it gives them back, and no more are taken.
            Link::Lost | Link::Ended => add(&mut self.rings, bytes(taken)),
        }
        let most_taken = match process.link {
            Link::Connected => taken.max(rings),
            Link::Lost | Link::Ended => taken,
        };
        let read = bytes(rings.saturating_add(most_taken)).saturating_add(process.other_bytes);
        self.largest_read = self.largest_read.max(read);
    }

    /// Rings of calls, their snapshots, and the service's copy; bytes.
    fn rings_in_all(&self) -> u64 {
        let snapshots = self.taken.max(self.largest_take);
        let rings = self.rings.saturating_add(snapshots);
        rings.saturating_add(self.largest_read)
    }

    /// The sum, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.others.saturating_add(self.rings_in_all())
    }
}

impl State {
    /// The demand if each process had these numbers of rings in use, and of rings taken.
    pub(super) fn demand(&self, rings: impl Fn(Connection, &Process) -> (u32, u32)) -> Demand {
        let all = self.processes.iter();
        self.demand_of(all.map(|(connection, process)| (process, rings(*connection, process))))
    }

    /// The demand of these processes, with their numbers of rings in use, and of rings taken.
    pub(super) fn demand_of<'a>(
        &self,
        processes: impl Iterator<Item = (&'a Process, (u32, u32))>,
    ) -> Demand {
        let mut demand = Demand::default();
        let mut is_anybody = false;
        for (process, (in_use, taken)) in processes {
            demand.add(process, in_use, taken);
            is_anybody = true;
        }
        if is_anybody {
            demand.largest_read = demand.largest_read.saturating_add(self.report_bytes);
        }
        demand
    }

    /// The demand as it is.
    pub(super) fn demand_now(&self) -> Demand {
        self.demand(|_, process| process.rings_now())
    }

    /// Whether this demand is within the budget, and leaves the part that is for other things than rings of calls.
    pub(super) fn fits(&self, demand: &Demand) -> bool {
        let memory = &self.policy.memory;
        let for_rings = memory.budget_bytes.saturating_sub(memory.other_bytes());
        demand.bytes() <= memory.budget_bytes && demand.rings_in_all() <= for_rings
    }

    /// Whether the budget has room for one ring of this process if it were the only one.
    pub(super) fn fits_alone(&self, process: &Process) -> bool {
        self.fits(&self.demand_of([(process, (1, 0))].into_iter()))
    }

    /// Rings of calls that all processes may hold.
    pub(super) fn rings_held(&self) -> u32 {
        let held = self.processes.values().map(|process| process.may_hold);
        held.fold(0, u32::saturating_add)
    }

    /// Rings of calls that count in `call-rings`.
    pub(super) fn rings_counted(&self) -> u32 {
        let counted = self.processes.values().filter(|p| p.counts_in_number());
        let held = counted.map(|process| process.may_hold);
        held.fold(0, u32::saturating_add)
    }
}
