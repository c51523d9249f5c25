// SPDX-License-Identifier: Apache-2.0
//! Processes that end, are lost, or come back.

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{FromProcess, Hello, TriggerSeverity};

use super::support::*;
use crate::engine::{Action, Event, Facts, MemoryFacts, Peer};
use crate::limits::Limiter;
use crate::policy::Policy;

use TriggerSeverity::{Fatal, Slow};

/// How a process ended, and whether that is worth a report.
#[test]
fn ends_worth_a_report() {
    // Policy, in the foreground until so many seconds before (None: never), farewell, a trigger before, detector of the report.
    let cases = [
        ("", Some(0), false, None, Some("killed")),
        ("", Some(1), false, None, Some("killed")),
        // Rings are kept for longer, but a swipe in the list of apps is no defect of theirs.
        ("", Some(3), false, None, None),
        ("[reports]\ngrace-seconds = 60", Some(3), false, None, None),
        ("", None, false, None, None),
        ("", Some(0), true, None, None),
        ("", Some(0), true, Some(Slow), None),
        ("", Some(0), true, Some(Fatal), Some("program")),
        ("", None, false, Some(Slow), Some("program")),
        (
            "[reports]\nkilled-seconds = 60",
            Some(50),
            false,
            None,
            Some("killed"),
        ),
        (
            "[reports]\nkilled = \"all\"",
            None,
            false,
            None,
            Some("killed"),
        ),
        ("[reports]\nkilled = \"all\"", None, true, None, None),
        ("[reports]\nkilled = \"none\"", Some(0), false, None, None),
        (
            "[reports]\nkilled = \"none\"",
            Some(0),
            false,
            Some(Slow),
            Some("program"),
        ),
        (
            "[reports]\nseverities = [\"slow\"]",
            Some(0),
            false,
            None,
            None,
        ),
        (
            "[record]\ncategories = []\n[memory]\ncall-rings = 0",
            Some(0),
            false,
            None,
            None,
        ),
        (
            "[record]\ncategories = []",
            Some(0),
            false,
            None,
            Some("killed"),
        ),
        ("[limits]\ndevice = 0", Some(0), false, None, None),
        ("enabled = false", Some(0), false, None, None),
    ];
    for case in cases {
        let (lines, seen, farewell, severity, expected) = case;
        let mut bench = Bench::of(lines);
        bench.join(1, hello("com.example.notes"));
        if let Some(seconds) = seen {
            bench.foreground(1, true);
            bench.answer_all();
            if seconds != 0 {
                bench.foreground(1, false);
                bench.pass(seconds * SECOND);
            }
        }
        if let Some(severity) = severity {
            assert_eq!(bench.said(1, trigger("program", severity)), [take(1, 1)]);
        }
        if farewell {
            bench.said(1, FromProcess::Farewell);
        }
        let actions = bench.handle(ended(1));
        let found: Vec<_> = writes(&actions)
            .iter()
            .map(|write| (write.2, write.4))
            .collect();
        let expected: Vec<_> = expected
            .map(|detector| (detector, true))
            .into_iter()
            .collect();
        assert_eq!(found, expected, "{case:?}");
        if expected.is_empty() {
            assert_eq!(actions, [forget(1)], "{case:?}");
        } else {
            assert_eq!(bench.handle(kept(1)), [forget(1)], "{case:?}");
        }
    }
}

/// What the report of a killed process says, by what was known of memory before its end, and by the policy.
#[test]
fn the_reason_of_a_killed_process_names_what_is_known_of_memory() {
    let short = MemoryFacts {
        some_percent: Some(35),
        full_percent: Some(12),
        oom_kills: Some(3),
    };
    let waits = "some work waited for it for 35 % of the last 10 s, all for 12 %";
    let plain = "the process was killed".to_owned();
    let known = format!("{plain} while memory was short ({waits})");
    for (lines, facts, expected) in [
        ("", MemoryFacts::default(), &plain),
        ("", short, &known),
        ("[reports]\nmemory-percent = 34", short, &known),
        ("[reports]\nmemory-percent = 35", short, &plain),
        ("[reports]\nmemory-percent = 100", short, &plain),
    ] {
        let mut bench = Bench::of(lines);
        bench.join(1, hello("com.example.notes"));
        bench.foreground(1, true);
        bench.answer_all();
        bench.handle(Event::Memory(facts));
        let actions = bench.handle(ended(1));
        let reasons: Vec<&String> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Write { about, .. } => Some(&about.reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, [expected], "{lines}");
    }
}

/// Such a process has no connection on which it could say farewell.
#[test]
fn a_lost_process_may_note_that_it_ends_by_itself() {
    for has_left in [false, true] {
        let mut bench = seen("[reports]\nkilled = \"all\"");
        bench.handle(Event::Lost { connection: 1 });
        if has_left {
            assert_eq!(bench.handle(Event::Left { connection: 1 }), []);
        }
        let actions = bench.handle(ended(1));
        assert_eq!(writes(&actions).len(), usize::from(!has_left));
    }
}

#[test]
fn a_process_killed_while_it_is_read_is_read_again() {
    let mut bench = seen("");
    bench.said(1, slow());
    bench.taken(1, 1);
    assert!(bench.handle(ended(1)).is_empty());
    let actions = bench.handle(kept(1));
    assert_eq!(writes(&actions), [(1, 2, "killed", Consent::Content, true)]);
    assert_eq!(bench.handle(kept(2)), [forget(1)]);
}

#[test]
fn the_time_for_answers_does_not_pass_while_the_device_sleeps() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    bench.said(1, slow());
    bench.pass(9 * SECOND);
    for hours in [1, 5] {
        bench.now_ns += hours * 3600 * SECOND;
        let actions = bench.handle(Event::Slept(hours * 3600 * SECOND));
        assert_eq!(actions, []);
    }
    assert_eq!(bench.wake_ns, Some(bench.now_ns + SECOND));
    assert_ne!(writes(&bench.taken(1, 1)), []);
}

#[test]
fn a_process_that_does_not_answer_is_read_when_it_is_killed() {
    for is_lost in [false, true] {
        let mut bench = Bench::of("[reports]\nkilled = \"none\"");
        bench.join(1, hello("com.example.notes"));
        bench.said(1, slow());
        if is_lost {
            bench.handle(Event::Lost { connection: 1 });
        } else {
            assert_eq!(bench.wake(), [Action::Disconnect { connection: 1 }]);
        }
        assert_eq!(bench.wake_ns, None);
        bench.pass(3600 * SECOND);
        let actions = bench.handle(ended(1));
        let expected = (1, 1, "slow-message", Consent::Content, true);
        assert_eq!(writes(&actions), [expected]);
    }
}

#[test]
fn rings_that_an_earlier_service_had_taken_are_written_or_released() {
    let restarted = |is_restart| {
        let facts = Facts {
            person: agreed(),
            is_restart,
            first_report: 5,
            // That service ended between the file and the release.
            stored: [3].into(),
            ..Facts::default()
        };
        Bench::with(Policy::default(), Limiter::fresh("boot"), facts)
    };
    let with = |taken| Hello {
        taken,
        held: 2,
        ..hello("com.example.notes")
    };
    // The number is one of an earlier service, or cannot be.
    for (is_restart, taken, is_written) in [
        (true, 4, true),
        (true, 3, false),
        (true, 5, false),
        (true, u64::MAX, false),
        (false, 4, false),
    ] {
        let mut bench = restarted(is_restart);
        let actions = bench.join(1, with(taken));
        if is_written {
            assert_eq!(
                writes(&actions),
                [(1, 5, "unfinished", Consent::Content, false)]
            );
            assert_eq!(bench.handle(kept(5))[0], release(1, taken));
        } else {
            assert!(actions.contains(&release(1, taken)), "{actions:?}");
            assert_eq!(writes(&actions), []);
        }
    }
    // Often enough is too often.
    let mut bench = restarted(true);
    let mut written = 0;
    for connection in 1..=20 {
        let actions = bench.join_as(connection, 10_000, with(4));
        written += writes(&actions).len();
        bench.handle(kept(4 + connection));
        bench.answer_all();
        bench.handle(ended(connection));
    }
    assert_eq!(written, 4);
}

#[test]
fn a_process_that_comes_back_goes_on_with_its_report() {
    // The take was not answered, was answered and not read, or is being read.
    for stage in 0..3 {
        let mut bench = seen("");
        let again = |taken| Hello {
            taken,
            held: 1 + u32::from(taken != 0),
            ..hello("com.example.notes")
        };
        if stage == 1 {
            bench.join(9, hello("com.example.maps"));
            bench.said(9, slow());
            bench.taken(9, 1);
        }
        let report = 1 + u64::from(stage == 1);
        bench.said(1, slow());
        if stage != 0 {
            bench.taken(1, report);
        }
        bench.handle(Event::Lost { connection: 1 });
        let peer = Peer {
            pid: 101,
            uid: 10_001,
        };
        let hello = again(if stage == 0 { 0 } else { report });
        let actions = bench.handle(Event::Joined {
            connection: 2,
            peer,
            hello,
            crash: None,
        });
        match stage {
            0 => assert!(actions.contains(&take(2, 1))),
            1 => assert_eq!(writes(&bench.handle(kept(1)))[0].1, report),
            _ => {
                assert!(!actions.contains(&release(2, 1)), "it is still read");
                bench.said(2, trigger("late-frames", Slow));
                assert_eq!(writes(&actions), []);
                let actions = bench.handle(kept(1));
                assert!(actions.contains(&forget(1)));
                assert!(actions.contains(&release(2, 1)));
                assert!(actions.contains(&take(2, 2)));
            }
        }
    }
}
