// SPDX-License-Identifier: Apache-2.0
//! The service's own detectors: pure functions of rules, facts and time.
//!
//! | module | finds |
//! |---|---|
//! | `thermal` | the device is hot |
//! | `correlated` | several metrics are over their limits at once |
//! | `outlier` | a counter of a process left the range that it had before |
//!
//! `history` keeps metrics of the last minutes for reports.
//!
//! Facts are read once a second while the user sees a traced process that does something ([`Pace`]); a process that does nothing is
//! looked at less and less often, and processes in the background never. No process is woken for it.

mod correlated;
mod facts;
mod history;
mod outlier;
mod pace;
mod thermal;

use std::collections::BTreeMap;

use crate::engine::{Connection, Finding};
use crate::policy::{Detectors, ServiceDetector, SERVICE_SEVERITY};

pub use facts::{Facts, ProcessFacts, SystemFacts};
pub use history::History;
pub use pace::Pace;

use correlated::Correlating;
use facts::rates;
use outlier::Outliers;
use thermal::Thermal;

/// What the detectors remember.
#[derive(Debug, Default)]
pub struct ServiceDetectors {
    /// The rules at the last look: others begin anew.
    rules: Option<Detectors>,
    /// The facts at the last look, and when that was, ns.
    last: Option<(u64, Facts)>,
    thermal: Thermal,
    correlating: Correlating,
    outliers: BTreeMap<Connection, Outliers>,
}

impl ServiceDetectors {
    /// Whether these rules need facts. If there was no temperature at the last look, `thermal` alone is no reason for another one.
    pub fn need_facts(&self, rules: &Detectors) -> bool {
        let last = self.last.as_ref();
        let has_temperature = last.is_none_or(|(_, facts)| facts.system.millicelsius.is_some());
        rules.needs_facts(has_temperature)
    }

    /// The user sees no traced process any more, or the device has slept: nobody knows what was meanwhile, so that nothing has lasted
    /// since a look before it.
    pub fn nothing_seen(&mut self) {
        self.last = None;
        self.thermal.interrupt();
        self.correlating.interrupt();
        self.outliers.values_mut().for_each(Outliers::interrupt);
    }

    /// Looks at the facts at this time (`CLOCK_BOOTTIME`, ns). Returns what was found, by process, and whether any process has done
    /// anything since the last look.
    pub fn look(
        &mut self,
        rules: &Detectors,
        now_ns: u64,
        facts: Facts,
    ) -> (Vec<(Connection, Finding)>, bool) {
        if self.rules.as_ref() != Some(rules) {
            *self = ServiceDetectors {
                rules: Some(rules.clone()),
                ..ServiceDetectors::default()
            };
        }
        let mut found = Vec::new();
        let seen: Vec<Connection> = facts.processes.keys().copied().collect();
        if let Some(rule) = rules.service(ServiceDetector::Thermal) {
            let hot = self.thermal.look(rule, now_ns, facts.system.millicelsius);
            // The one that the user sees.
            if let (Some(reason), Some(connection)) = (hot, seen.last()) {
                found.push((*connection, finding("thermal", reason)));
            }
        }
        let mut is_active = false;
        if let Some((then_ns, before)) = &self.last {
            for (connection, rates) in rates(before, &facts, now_ns.saturating_sub(*then_ns)) {
                is_active |= rates.is_active;
                let correlated = (self.correlating).look(
                    &rules.correlated,
                    connection,
                    &rates,
                    (*then_ns, now_ns),
                );
                found.extend(correlated.map(|(name, reason)| {
                    (connection, finding(&format!("correlated-{name}"), reason))
                }));
                if let Some(rule) = rules.service(ServiceDetector::Outlier) {
                    let outliers = self.outliers.entry(connection).or_default();
                    let outlier = outliers.look(rule, now_ns, &rates);
                    found.extend(outlier.map(|reason| (connection, finding("outlier", reason))));
                }
            }
        }
        self.outliers
            .retain(|connection, _| facts.processes.contains_key(connection));
        self.correlating.forget_all_but(&facts.processes);
        self.last = Some((now_ns, facts));
        (found, is_active)
    }
}

fn finding(detector: &str, reason: String) -> Finding {
    Finding {
        severity: SERVICE_SEVERITY,
        detector: detector.into(),
        reason,
    }
}

#[cfg(test)]
mod tests;
