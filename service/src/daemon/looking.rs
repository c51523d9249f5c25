// SPDX-License-Identifier: Apache-2.0
//! Reads the facts for the detectors of the service, when it is time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use hindsight_trace_format::shared::{COUNTERS, COUNTERS_OFFSET};

use super::links::Rim;
use crate::detectors::{Facts, History, Pace, ProcessFacts, ServiceDetectors};
use crate::engine::{Connection, Finding};
use crate::os::System;
use crate::policy::Detectors;

/// The detectors, and when they look next.
#[derive(Debug, Default)]
pub(super) struct Looking {
    detectors: ServiceDetectors,
    pace: Pace,
    /// How often they have looked.
    looks: u64,
}

impl Looking {
    /// When [`look`](Self::look) must be called, `CLOCK_BOOTTIME`, ns.
    pub(super) fn deadline(&self, history: &History) -> Option<u64> {
        let both = [self.pace.deadline(), history.deadline()];
        both.into_iter().flatten().min()
    }

    /// How often the detectors have looked at facts.
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// The device has slept.
    pub(super) fn slept(&mut self) {
        self.detectors.nothing_seen();
    }

    /// A process said something.
    pub(super) fn woken(&mut self, now_ns: u64) {
        self.pace.woken(now_ns);
    }

    /// Looks at these processes if it is time. Returns what was found.
    pub(super) fn look(
        &mut self,
        rules: &Detectors,
        observed: &[Connection],
        rim: &mut Rim,
        system: &dyn System,
    ) -> Vec<(Connection, Finding)> {
        let now_ns = rim.now.boottime_ns;
        if observed.is_empty() {
            self.detectors.nothing_seen();
        }
        let has_any = !observed.is_empty() && self.detectors.need_facts(rules);
        self.pace.set(now_ns, has_any);
        rim.history.set(now_ns, !observed.is_empty());
        let (is_due, is_sampled) = (self.pace.is_due(now_ns), rim.history.is_due(now_ns));
        if !is_due && !is_sampled {
            return Vec::new();
        }
        let links = observed.iter().filter_map(|connection| {
            let link = rim.links.get(connection)?;
            let process = ProcessFacts {
                pid: link.process.peer.pid,
                counters: counters(link.memory.as_deref()?)?,
            };
            Some((*connection, process))
        });
        let processes: std::collections::BTreeMap<_, _> = links.collect();
        let pids: Vec<u32> = processes.values().map(|process| process.pid).collect();
        let facts = Facts {
            system: system.facts(&pids),
            processes,
        };
        if is_sampled {
            rim.history.take(now_ns, facts.clone());
        }
        if !is_due {
            return Vec::new();
        }
        let (found, is_active) = self.detectors.look(rules, now_ns, facts);
        self.pace.looked(now_ns, is_active);
        self.looks += 1;
        if !self.detectors.need_facts(rules) {
            self.pace.set(now_ns, false);
        }
        found
    }
}

/// The counters in a process's memory, which may be anything.
fn counters(memory: &File) -> Option<[u64; COUNTERS]> {
    let mut bytes = [0; COUNTERS * 8];
    memory
        .read_exact_at(&mut bytes, COUNTERS_OFFSET as u64)
        .ok()?;
    let mut counters = [0; COUNTERS];
    for (counter, bytes) in counters.iter_mut().zip(bytes.chunks_exact(8)) {
        *counter = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(counters)
}
