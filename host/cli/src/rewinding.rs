// SPDX-License-Identifier: Apache-2.0
//! How far back a full ring would reach if its thread took short calls back.

use hindsight_decoder::{Flags, Thread, NO_PARENT};
use serde::Serialize;

/// Limits that are tried, ns.
const LIMITS_NS: [u64; 3] = [200, 1_000, 10_000];

/// The result for one limit.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rewinding {
    /// Calls shorter than this, in which nothing is recorded, are taken back, ns.
    shorter_than_ns: u64,
    /// How many of the trace's calls these are.
    calls: u64,
    /// The time that the ring would cover then, ns, if the thread went on like this.
    pub(crate) covers_ns: u64,
}

impl Rewinding {
    /// `rewind=` as in the configuration.
    pub(crate) fn option(&self) -> String {
        match self.shorter_than_ns % 1_000 {
            0 => format!("rewind={}us", self.shorter_than_ns / 1_000),
            _ => format!("rewind={}ns", self.shorter_than_ns),
        }
    }
}

/// Tries the limits above the one that the thread had.
pub(crate) fn simulate(thread: &Thread) -> Vec<Rewinding> {
    let span_ns = thread.end_ns - thread.start_ns;
    let slots = thread.stats.slots.max(1);
    let limits = LIMITS_NS.into_iter();
    limits
        .filter(|limit| *limit > thread.stats.rewind_below_ns)
        .map(|shorter_than_ns| {
            let calls = taken_back(thread, shorter_than_ns);
            // An entry and an exit each.
            let kept = slots.saturating_sub(2 * calls).max(1);
            Rewinding {
                shorter_than_ns,
                calls,
                covers_ns: (span_ns as f64 * slots as f64 / kept as f64) as u64,
            }
        })
        .collect()
}

/// How many calls would be taken back: short ones that end by returning, and in which neither an event nor a call is kept.
fn taken_back(thread: &Thread, shorter_than_ns: u64) -> u64 {
    const STAYS: u8 = Flags::OPEN_START.0 | Flags::OPEN_END.0 | Flags::BY_EXCEPTION.0;
    let calls = &thread.calls;
    let mut keeps = vec![false; calls.len()];
    let mut taken = 0;
    // Callers come before their calls.
    for i in (0..calls.len()).rev() {
        let call = calls.get(i);
        let next = thread.events.partition_point(|e| e.at_ns < call.start_ns);
        let has_event = (thread.events.get(next)).is_some_and(|e| e.at_ns <= call.end_ns);
        let is_short = call.duration_ns() < shorter_than_ns && call.flags.0 & STAYS == 0;
        if is_short && !has_event && !keeps[i] {
            taken += 1;
        } else if call.parent != NO_PARENT {
            keeps[call.parent as usize] = true;
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use hindsight_decoder::{Extension, Trace};
    use hindsight_testkit::Script;

    fn thread(script: &Script) -> Thread {
        let trace = Trace::decode(Path::new("test"), &script.encode()).expect("a sound file");
        trace.threads.into_iter().next().expect("one thread")
    }

    #[test]
    fn short_calls_are_taken_back_if_nothing_in_them_is_kept() {
        let mut s = Script::new("p");
        let main = s.thread(1, "main");
        let [outer, inner] = ["a.A.outer", "a.A.inner"].map(|m| s.method(m, "()V"));
        let mut r = s.at(main, 0);
        // Each of 300 ns: alone, around a short one, around a longer one, and with an event.
        r.enter(outer).after(300).exit();
        r.after(1)
            .enter(outer)
            .after(100)
            .enter(inner)
            .after(100)
            .exit();
        r.after(100).exit();
        r.after(1)
            .enter(outer)
            .after(20)
            .enter(inner)
            .after(250)
            .exit();
        r.after(30).exit();
        r.after(1).enter(outer).after(100);
        r.extension(Extension::MessageDone, &[1]).after(200).exit();
        // Still running.
        r.after(1).enter(outer);
        let thread = thread(&s);
        let calls: Vec<_> = [100, 101, 251, 300, 301, 10_000]
            .map(|limit| taken_back(&thread, limit))
            .into();
        assert_eq!(calls, [0, 1, 2, 2, 5, 5]);
    }

    #[test]
    fn the_ring_covers_more_by_the_slots_that_are_not_taken() {
        let mut s = Script::new("p");
        let main = s.thread(1, "main");
        let method = s.method("a.A.f", "()V");
        let mut r = s.at(main, 0);
        for i in 0..100 {
            // One of ten takes 5 µs, the others 100 ns.
            let ns = if i % 10 == 0 { 5_000 } else { 100 };
            r.after(100).enter(method).after(ns).exit();
        }
        let thread = thread(&s);
        let span = thread.end_ns - thread.start_ns;
        let found: Vec<_> = simulate(&thread)
            .into_iter()
            .map(|r| (r.option(), r.calls, r.covers_ns / span))
            .collect();
        let expected = [
            ("rewind=200ns", 90, 10),
            ("rewind=1us", 90, 10),
            ("rewind=10us", 100, 200),
        ];
        assert_eq!(found, expected.map(|(o, c, s)| (o.to_owned(), c, s)));
    }
}
