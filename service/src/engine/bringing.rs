// SPDX-License-Identifier: Apache-2.0
//! Rings of calls that a process says it has when it joins.
//!
//! An honest process has rings that this service did not give it, if an earlier instance of the service did, or if it recorded by its
//! own configuration before there was a service. It has them until it answers its first configuration. Nobody can tell whether it
//! says the truth, so what is believed has limits: one app that claims rings must not keep all others from having any. A
//! process that says more is refused: an honest one gives all its rings back then. A user id whose
//! processes often do not answer is not believed any more.

use super::brought::Counted;
use super::process::{Link, Process};
use super::state::State;

/// The rings of calls that processes of one user id bring are at most this part of the memory for rings: with snapshots and
/// the service's copy they take four times as much, and others have room for a ring beside them.
const SHARE: u64 = 6;

impl State {
    /// Takes note of the rings that a process says it has, if they can be believed.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn bring(&mut self, process: &mut Process, earlier: Counted) -> Result<(), String> {
        let rings = process.rings();
        let is_known = earlier.brought == 0 && process.ring_bytes == earlier.ring_bytes;
        if rings == 0 || (is_known && rings <= earlier.rings) {
            return Ok(());
        }
        let uid = process.peer.uid;
        self.doubt();
        if self.brought.is_doubted(uid) {
            return Err(format!(
                "it says that it has rings of calls, and too many processes of user {uid} that said so did not answer"
            ));
        }
        process.brought = rings;
        self.check_number(process)?;
        self.check_bytes(process)
    }

    /// Whose processes have not answered, and cannot any more.
    fn doubt(&mut self) {
        let processes = &self.processes;
        self.brought.doubt(|connection| {
            let process = processes.get(&connection);
            process.is_some_and(|process| process.link == Link::Connected)
        });
    }

    fn brought(&self) -> impl Iterator<Item = &Process> {
        let all = self.processes.values();
        all.filter(|p| p.brought != 0 && p.link != Link::Ended)
    }

    fn check_number(&self, process: &Process) -> Result<(), String> {
        let (rings, most) = (process.rings(), self.policy.memory.call_rings);
        // With a set of rings that was taken for a report.
        let of_earlier_service = most.saturating_mul(2);
        let others = self.brought().map(|other| other.brought);
        match self.is_restart {
            true if rings <= of_earlier_service => Ok(()),
            false if others.fold(rings, u32::saturating_add) <= most => Ok(()),
            _ => Err(format!(
                "it says that it has {rings} rings of calls, which the service has not given it; there are {most} in all (call-rings in the policy)"
            )),
        }
    }

    /// The first process of a user id that comes back with one ring to another instance of the service is believed in any case: the
    /// budget may have room for no more.
    fn check_bytes(&self, process: &Process) -> Result<(), String> {
        let uid = process.peer.uid;
        let of_uid = self.brought().filter(|other| other.peer.uid == uid);
        let bytes = |p: &Process| u64::from(p.rings()).saturating_mul(p.ring_bytes);
        let sum = of_uid.map(bytes).fold(bytes(process), u64::saturating_add);
        let memory = &self.policy.memory;
        let most = memory.budget_bytes.saturating_sub(memory.other_bytes()) / SHARE;
        let is_first = !self.brought().any(|other| other.peer.uid == uid);
        let is_one = self.is_restart && process.may_hold <= 1 && process.taken <= 1;
        let is_one = is_one && is_first && self.fits_alone(process);
        match sum <= most || is_one {
            true => Ok(()),
            false => Err(format!(
                "processes of user {uid} say that they have rings of calls of {sum} bytes, which the service has not given them; {most} are believed (budget-mib and ring-share in the policy)"
            )),
        }
    }
}
