// SPDX-License-Identifier: Apache-2.0
//! Checks that every recorded exit has an entry: a test of the recording itself (`check-balance=DIR`).

use std::collections::BTreeSet;

use hindsight_trace_format::reverse::Slots;
use hindsight_trace_format::slot::{Event, Extension};

use crate::thread::taken::TakenRing;

/// The calls in a ring that never wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Balance {
    /// Events of all kinds.
    events: u64,
    /// Method entries.
    entries: u64,
    /// Frames that were left, by a return or an exception, without an entry.
    unmatched_exits: u64,
    /// Method of the newest entry before the first unmatched exit (0: none).
    first_unmatched_after: u64,
    /// Frames that were entered and not left.
    open: u64,
    /// Method of the innermost open frame (0: none).
    innermost_open: u64,
}

/// Follows the calls in `slots`, oldest first.
fn check(slots: Slots<'_>) -> Balance {
    let mut events: Vec<_> = slots.events().collect();
    events.reverse();
    let mut balance = Balance::default();
    let mut stack = Vec::new();
    let mut newest_entry = 0;
    for event in events {
        balance.events += 1;
        let mut left = 0;
        match event.event() {
            Event::Entry { .. } | Event::WideEntry => {
                balance.entries += 1;
                newest_entry = event.entered_method().unwrap_or(0);
                stack.push(newest_entry);
            }
            Event::Exit => left = 1,
            Event::Extension { number } if number == Extension::Unwound.number() => {
                left = event.payload(0).unwrap_or(0);
            }
            Event::Extension { .. } => {}
        }
        let matched = left.min(stack.len() as u64);
        stack.truncate(stack.len() - matched as usize);
        if left > matched {
            if balance.unmatched_exits == 0 {
                balance.first_unmatched_after = newest_entry;
            }
            balance.unmatched_exits += left - matched;
        }
    }
    balance.open = stack.len() as u64;
    balance.innermost_open = stack.last().copied().unwrap_or(0);
    balance
}

/// The sum of the checks of all rings.
#[derive(Default)]
pub(crate) struct Report {
    threads: u64,
    wrapped_threads: u64,
    events: u64,
    entries: u64,
    problems: Vec<(String, Balance)>,
    /// All methods entered.
    methods: BTreeSet<u64>,
}

impl Report {
    /// Checks a ring that no thread records into. `thread_ended`: all calls must have ended.
    pub(crate) fn add(&mut self, taken: &TakenRing, thread_ended: bool) {
        self.threads += 1;
        let wrapped = taken.header.position.laps != 0;
        self.wrapped_threads += u64::from(wrapped);
        let found = check(taken.slots());
        self.events += found.events;
        self.entries += found.entries;
        let entered = taken.slots().events().filter_map(|e| e.entered_method());
        self.methods.extend(entered);
        // If the ring continues another one, or has wrapped, its first exits belong to entries that are not in it.
        let unmatched = !taken.continues && !wrapped && found.unmatched_exits != 0;
        if unmatched || (thread_ended && found.open != 0) {
            let thread = format!("{} (tid {})", taken.header.name, taken.header.tid);
            self.problems.push((thread, found));
        }
    }

    /// The methods whose names [`text`](Self::text) needs, sorted.
    pub(crate) fn addresses(&self) -> Vec<u64> {
        self.methods.iter().copied().collect()
    }

    /// A summary line, then a line for each method without a name and for each thread that is not balanced.
    pub(crate) fn text<'a>(&self, name: impl Fn(u64) -> Option<&'a str>) -> String {
        let unknown: Vec<u64> = (self.methods.iter().copied())
            .filter(|address| name(*address).is_none())
            .collect();
        let name = |address| name(address).unwrap_or("?");
        let mut text = format!(
            "threads {} wrapped {} events {} entries {} unbalanced {} unknown {}\n",
            self.threads,
            self.wrapped_threads,
            self.events,
            self.entries,
            self.problems.len(),
            unknown.len()
        );
        for address in unknown {
            text += &format!("unknown: method {address:#x}\n");
        }
        for (thread, balance) in &self.problems {
            text += &format!(
                "unbalanced: thread {thread}: {} unmatched exits (first after {}), {} open (innermost {})\n",
                balance.unmatched_exits,
                name(balance.first_unmatched_after),
                balance.open,
                name(balance.innermost_open),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_trace_format::ring::Position;
    use hindsight_trace_format::slot::Slot;

    fn check_slots(slots: &[Slot]) -> Balance {
        let raw: Vec<u8> = slots.iter().flat_map(|s| s.0.to_le_bytes()).collect();
        check(Slots::new(
            &raw,
            Position {
                laps: 0,
                offset: raw.len() as u64,
            },
        ))
    }

    #[test]
    fn calls_that_return_and_calls_that_throw_are_balanced() {
        let balance = check_slots(&[
            Slot::entry(0x1000, 1),
            Slot::entry(0x2000, 2),
            Slot::entry(0x3000, 3),
            Slot(2),
            Slot::extension(Extension::Unwound, 4),
            Slot::exit(5),
        ]);
        assert_eq!(
            balance,
            Balance {
                events: 5,
                entries: 3,
                ..Default::default()
            }
        );
    }

    #[test]
    fn an_exit_too_many_and_a_frame_left_open_are_named() {
        let balance = check_slots(&[
            Slot::entry(0x1000, 1),
            Slot::exit(2),
            Slot::exit(3),
            Slot::entry(0x2000, 4),
        ]);
        assert_eq!(
            (balance.unmatched_exits, balance.first_unmatched_after),
            (1, 0x1000)
        );
        assert_eq!((balance.open, balance.innermost_open), (1, 0x2000));
    }

    #[test]
    fn methods_without_a_name_are_listed() {
        let mut report = Report::default();
        report.methods.extend([0x1000, 0x2000]);
        let text = report.text(|address| (address == 0x1000).then_some("A.a"));
        assert!(text.contains("unbalanced 0 unknown 1\n"), "{text}");
        assert!(text.ends_with("unknown: method 0x2000\n"), "{text}");
    }

    #[test]
    fn more_frames_unwound_than_there_were_do_not_wrap_around() {
        let balance = check_slots(&[Slot(u64::MAX), Slot::extension(Extension::Unwound, 4)]);
        assert_eq!(balance.unmatched_exits, u64::MAX);
    }
}
