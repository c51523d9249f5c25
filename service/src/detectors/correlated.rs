// SPDX-License-Identifier: Apache-2.0
//! Several metrics are over their limits at once.

use std::collections::BTreeMap;

use super::facts::Rates;
use crate::engine::Connection;
use crate::policy::Correlated;

/// A rule's state for a process.
#[derive(Debug, Default)]
struct State {
    /// Since when each condition is met, ns.
    since: Vec<Option<u64>>,
    /// No report until then, ns.
    quiet_until: u64,
}

/// The states of all rules, by rule and process.
#[derive(Debug, Default)]
pub(super) struct Correlating(BTreeMap<(usize, Connection), State>);

impl Correlating {
    /// Looks at the metrics of a process between two times, ns. Returns the name of a rule that fires, and the reason.
    pub(super) fn look(
        &mut self,
        rules: &[Correlated],
        connection: Connection,
        rates: &Rates,
        (then_ns, now_ns): (u64, u64),
    ) -> Option<(String, String)> {
        let mut fired = None;
        for (number, rule) in rules.iter().enumerate() {
            let state = self.0.entry((number, connection)).or_default();
            state.since.resize(rule.all.len(), None);
            let mut holds = true;
            for (condition, since) in rule.all.iter().zip(&mut state.since) {
                let value = rates.get(condition.metric);
                if value.is_some_and(|value| value > condition.over as f64) {
                    // The metric is of the time since the last look.
                    let since = *since.get_or_insert(then_ns);
                    holds &= now_ns.saturating_sub(since) >= condition.for_ns;
                } else {
                    *since = None;
                    holds = false;
                }
            }
            if holds && fired.is_none() && now_ns >= state.quiet_until {
                state.quiet_until = now_ns.saturating_add(rule.quiet_ns);
                fired = Some((rule.name.clone(), reason(rule, rates)));
            }
        }
        fired
    }

    /// Nobody knows whether any condition is still met.
    pub(super) fn interrupt(&mut self) {
        for state in self.0.values_mut() {
            state.since.fill(None);
        }
    }

    /// Forgets processes that are not seen any more.
    pub(super) fn forget_all_but<T>(&mut self, seen: &BTreeMap<Connection, T>) {
        self.0
            .retain(|(_, connection), _| seen.contains_key(connection));
    }
}

fn reason(rule: &Correlated, rates: &Rates) -> String {
    let conditions = rule.all.iter().map(|condition| {
        let value = rates.get(condition.metric).unwrap_or(0.0);
        let name = condition.metric.name();
        format!("{name} is {value:.0}, over {}", condition.over)
    });
    conditions.collect::<Vec<_>>().join(" and ")
}
