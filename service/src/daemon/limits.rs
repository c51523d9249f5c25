// SPDX-License-Identifier: Apache-2.0
//! What processes may do before they are cut off.

use crate::policy::{MAX_PROCESSES, MAX_PROCESSES_PER_UID, MAX_QUEUE};

const S: u64 = 1_000_000_000;

/// Limits against processes that are broken or hostile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most processes, also ended ones whose memory is still needed.
    pub connections: usize,
    /// The most processes of one user.
    pub connections_per_uid: usize,
    /// A process must introduce itself within this time, ns.
    pub hello_ns: u64,
    /// A process whose connection is closed is on its way to its end, or has lost interest: so long it is waited for its end, ns.
    pub end_ns: u64,
    /// The most packets that a process sends at once.
    pub burst: u32,
    /// In the long run a process sends at most one packet in this time, ns.
    pub packet_ns: u64,
    /// The most reports that wait to be written.
    pub waiting_reports: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: MAX_PROCESSES as usize,
            connections_per_uid: MAX_PROCESSES_PER_UID as usize,
            hello_ns: 5 * S,
            end_ns: S,
            burst: 256,
            packet_ns: S / 20,
            waiting_reports: MAX_QUEUE as usize,
        }
    }
}

impl Limits {
    /// With as many processes as there are descriptors for: each takes three.
    pub fn within(self, descriptors: u64) -> Self {
        const OTHERS: u64 = 64;
        let processes = descriptors.saturating_sub(OTHERS) / 3;
        let processes = usize::try_from(processes).unwrap_or(usize::MAX).max(1);
        Limits {
            connections: self.connections.min(processes),
            ..self
        }
    }
}

/// How many packets a process may send now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    packets: u32,
    /// Counted up to this time, `CLOCK_BOOTTIME`, ns.
    at: u64,
}

impl Allowance {
    pub(super) fn new(limits: &Limits, now: u64) -> Self {
        Allowance {
            packets: limits.burst,
            at: now,
        }
    }

    /// The process is asked for one packet more.
    pub(super) fn ask(&mut self, limits: &Limits) {
        self.packets = self.packets.saturating_add(1).min(limits.burst);
    }

    /// Counts one packet. False: it is one too many.
    pub(super) fn take(&mut self, limits: &Limits, now: u64) -> bool {
        let each = limits.packet_ns.max(1);
        let earned = now.saturating_sub(self.at) / each;
        self.at += earned * each;
        let packets = u64::from(self.packets).saturating_add(earned);
        let packets = packets.min(u64::from(limits.burst));
        self.packets = packets.saturating_sub(1) as u32;
        packets != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_the_service_asks_for_do_not_count() {
        let limits = Limits {
            burst: 2,
            packet_ns: 10,
            ..Limits::default()
        };
        let mut allowance = Allowance::new(&limits, 100);
        assert!(allowance.take(&limits, 100));
        for _ in 0..10 {
            allowance.ask(&limits);
            assert!(allowance.take(&limits, 100));
        }
        allowance.ask(&limits);
        allowance.ask(&limits);
        let taken = [100; 3].map(|now| allowance.take(&limits, now));
        assert_eq!(taken, [true, true, false], "more than a burst");
    }

    #[test]
    fn packets_are_earned_again_up_to_a_burst() {
        let limits = Limits {
            burst: 2,
            packet_ns: 10,
            ..Limits::default()
        };
        let mut allowance = Allowance::new(&limits, 100);
        let taken = [100, 100, 100, 109, 110, 111, 1000, 1000, 1000];
        let taken = taken.map(|now| allowance.take(&limits, now));
        assert_eq!(
            taken,
            [true, true, false, false, true, false, true, true, false]
        );
    }
}
