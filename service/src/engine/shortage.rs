// SPDX-License-Identifier: Apache-2.0
//! How short memory was when a process was killed.
//!
//! The system does not say who killed a process, or why. It does say how short memory is, and how many processes the kernel has
//! killed for it: both are reported as facts about that time, and not as the reason of the end.

use super::event::{MemoryFacts, Pressure};

const SECOND_NS: u64 = 1_000_000_000;
/// The kernel's count is about this end if it rose so shortly before it, ns: as long as a level of pressure lasts.
const RECENT_NS: u64 = 10 * SECOND_NS;
/// A count that was last read longer ago tells nothing about one end, ns.
const STALE_NS: u64 = 60 * SECOND_NS;

/// The kernel's count of kills was found to be higher than at the reading before.
#[derive(Clone, Copy, Debug)]
struct Rise {
    by: u64,
    /// Between these readings, ns.
    from_ns: u64,
    to_ns: u64,
}

/// What is known of memory.
#[derive(Debug, Default)]
pub(super) struct Shortage {
    /// The last reading, and its time, ns.
    last: Option<(u64, MemoryFacts)>,
    rise: Option<Rise>,
}

impl Shortage {
    /// Memory is so short at this time, ns.
    pub(super) fn noted(&mut self, now_ns: u64, facts: MemoryFacts) {
        let before = self
            .last
            .and_then(|(at, facts)| Some((at, facts.oom_kills?)));
        if let (Some((from_ns, then)), Some(now)) = (before, facts.oom_kills) {
            if now > then {
                self.rise = Some(Rise {
                    by: now - then,
                    from_ns,
                    to_ns: now_ns,
                });
            }
        }
        self.last = Some((now_ns, facts));
    }

    /// What shows that memory is short at this time (ns), for people; `None`: nothing does, or nobody wants to know. `most_percent`:
    /// memory is short if some work waited for it for a larger share of the last 10 s; 100: it is never said.
    pub(super) fn text(&self, now_ns: u64, level: Pressure, most_percent: u32) -> Option<String> {
        if most_percent >= 100 {
            return None;
        }
        let since = |ns: u64| now_ns.saturating_sub(ns);
        let facts = self.last.filter(|(at, _)| since(*at) < RECENT_NS);
        let facts = facts.map_or_else(MemoryFacts::default, |(_, facts)| facts);
        let rise = self.rise.filter(|rise| {
            since(rise.to_ns) < RECENT_NS && rise.to_ns.saturating_sub(rise.from_ns) < STALE_NS
        });
        let is_short = level != Pressure::None
            || facts.some_percent.is_some_and(|some| some > most_percent)
            || rise.is_some();
        if !is_short {
            return None;
        }
        let mut parts = Vec::new();
        if level != Pressure::None {
            let whose = match level {
                Pressure::Full => "all",
                Pressure::Some | Pressure::None => "some",
            };
            parts.push(format!("the kernel's trigger for {whose} work fired"));
        }
        if let Some(some) = facts.some_percent {
            let full = facts.full_percent.map(|full| format!(", all for {full} %"));
            let full = full.unwrap_or_default();
            parts.push(format!(
                "some work waited for it for {some} % of the last 10 s{full}"
            ));
        }
        if let Some(rise) = rise {
            let seconds = since(rise.from_ns).div_ceil(SECOND_NS).max(1);
            parts.push(format!(
                "oom_kill rose by {} in the last {seconds} s",
                rise.by
            ));
        }
        Some(parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(some: u32, kills: u64) -> MemoryFacts {
        MemoryFacts {
            some_percent: Some(some),
            full_percent: Some(some / 2),
            oom_kills: Some(kills),
        }
    }

    /// Readings at these seconds, and what is said at the last one.
    fn text(readings: &[(u64, MemoryFacts)], level: Pressure) -> Option<String> {
        let mut shortage = Shortage::default();
        for (second, facts) in readings {
            shortage.noted(second * SECOND_NS, *facts);
        }
        let now = readings.last().map_or(0, |(second, _)| second * SECOND_NS);
        shortage.text(now, level, 10)
    }

    #[test]
    fn only_facts_of_the_time_of_the_end_count() {
        let unknown = MemoryFacts::default();
        let said = |readings: &[(u64, MemoryFacts)]| text(readings, Pressure::None);
        let waits = |percent: u32| {
            format!(
                "some work waited for it for {percent} % of the last 10 s, all for {} %",
                percent / 2
            )
        };
        for (readings, expected) in [
            (vec![], None),
            (vec![(5, unknown)], None),
            (vec![(5, facts(10, 3))], None),
            (vec![(5, facts(11, 3))], Some(waits(11))),
            // The first count is no rise, nor is one that could not be read before.
            (vec![(1, unknown), (5, facts(0, 3))], None),
            (vec![(1, facts(0, 3)), (5, facts(0, 3))], None),
            (
                vec![(1, facts(0, 3)), (5, facts(0, 5))],
                Some(format!("{}; oom_kill rose by 2 in the last 4 s", waits(0))),
            ),
            // An end shortly after the one that raised it, and one later.
            (
                vec![(1, facts(0, 3)), (5, facts(0, 5)), (9, facts(0, 5))],
                Some(format!("{}; oom_kill rose by 2 in the last 8 s", waits(0))),
            ),
            (
                vec![(1, facts(0, 3)), (5, facts(0, 5)), (15, facts(0, 5))],
                None,
            ),
            // Nobody can tell when it rose.
            (vec![(1, facts(0, 3)), (61, facts(0, 5))], None),
            (vec![(1, facts(0, 3)), (60, facts(0, 2))], None),
        ] {
            assert_eq!(said(&readings), expected, "{readings:?}");
        }
        let level = text(&[(5, unknown)], Pressure::Full);
        assert_eq!(level.unwrap(), "the kernel's trigger for all work fired");
    }

    #[test]
    fn a_reading_of_long_ago_says_nothing_and_a_policy_may_want_nothing() {
        let mut shortage = Shortage::default();
        shortage.noted(0, facts(90, 3));
        assert!(shortage.text(9 * SECOND_NS, Pressure::None, 10).is_some());
        assert_eq!(shortage.text(10 * SECOND_NS, Pressure::None, 10), None);
        assert_eq!(shortage.text(0, Pressure::Full, 100), None);
    }
}
