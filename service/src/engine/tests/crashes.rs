// SPDX-License-Identifier: Apache-2.0
//! Crashes: each has one report, whoever is told of it, and whatever comes after it.

use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{FromProcess, Hello, TakeOutcome, TriggerSeverity};
use hindsight_trace_format::shared::{Crash, CrashKind};

use super::support::*;
use crate::engine::{Action, Asked, Event, Facts, Peer};
use crate::limits::Limiter;
use crate::policy::Policy;

use TriggerSeverity::Fatal;

const ALL: &str = "[reports]\nkilled = \"all\"";

/// A crash that is noted in the memory.
fn noted(bench: &mut Bench, kind: CrashKind) -> Vec<Action> {
    let crash = Crash {
        kind,
        tid: 7,
        at_boottime_ns: bench.now_ns - SECOND,
    };
    let connection = 1;
    bench.handle(Event::Crashed { connection, crash })
}

fn end(bench: &mut Bench) -> Vec<Action> {
    assert_eq!(noted(bench, CrashKind::UncaughtException), []);
    bench.handle(ended(1))
}

fn told(bench: &mut Bench) -> Vec<Action> {
    bench.said(1, trigger("uncaught-exception", Fatal))
}

#[test]
fn an_end_has_its_cause_and_the_time_of_it() {
    for (kind, detector) in [
        (Some(CrashKind::UncaughtException), "uncaught-exception"),
        (Some(CrashKind::Signal(11)), "native-crash"),
        (None, "killed"),
    ] {
        let mut bench = seen("");
        let died_ns = bench.now_ns - kind.map_or(0, |_| SECOND);
        if let Some(kind) = kind {
            noted(&mut bench, kind);
        }
        let actions = bench.handle(ended(1));
        let [Action::Write { about, .. }] = &actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!(
            (about.detector.as_str(), about.at_boottime_ns),
            (detector, died_ns)
        );
        // However long the file takes.
        bench.pass(50 * SECOND);
        assert_eq!(bench.handle(kept(1)), [forget(1)]);
    }
}

#[test]
fn a_crash_counts_also_in_the_background_and_before_a_farewell() {
    for has_farewell in [false, true] {
        let mut bench = Bench::of("");
        bench.join(1, hello("com.example.notes"));
        if has_farewell {
            bench.said(1, FromProcess::Farewell);
        }
        let actions = end(&mut bench);
        let expected = (1, 1, "uncaught-exception", Consent::Content, true);
        assert_eq!(writes(&actions), [expected]);
    }
    for lines in [
        "enabled = false",
        "[reports]\nseverities = [\"slow\"]",
        "[limits]\ndevice = 0",
    ] {
        let mut bench = Bench::of(lines);
        bench.join(1, hello("com.example.notes"));
        assert_eq!(end(&mut bench), [forget(1)], "{lines}");
    }
}

#[test]
fn a_crash_that_was_told_has_no_second_report_when_a_dialog_ends_the_process() {
    for seconds in [0, 300] {
        let mut bench = seen(ALL);
        assert_eq!(told(&mut bench), [take(1, 1)]);
        bench.taken(1, 1);
        bench.handle(kept(1));
        bench.answer_all();
        bench.pass(seconds * SECOND);
        assert_eq!(writes(&end(&mut bench)), []);
    }
    // A process that lives on is killed for another reason.
    let mut bench = seen(ALL);
    told(&mut bench);
    bench.taken(1, 1);
    bench.handle(kept(1));
    bench.answer_all();
    bench.pass(3600 * SECOND);
    let killed = bench.handle(ended(1));
    assert_eq!(writes(&killed)[0].2, "killed");
}

#[test]
fn a_crash_whose_report_is_under_way_has_no_other_one() {
    for step in 0..3 {
        let mut bench = seen(ALL);
        told(&mut bench);
        if step > 0 {
            let written = bench.taken(1, 1);
            assert_eq!(writes(&written).len(), 1);
        }
        let mut actions = end(&mut bench);
        if step == 0 {
            let expected = (1, 1, "uncaught-exception", Consent::Content, true);
            assert_eq!(writes(&actions), [expected], "it has all rings");
        }
        actions = bench.handle(kept(1));
        assert_eq!(actions, [forget(1)], "step {step}");
    }
}

#[test]
fn a_crash_whose_report_fails_has_one_at_its_end() {
    let mut bench = seen(ALL);
    told(&mut bench);
    let outcome = TakeOutcome::Refused;
    bench.said(1, FromProcess::Taken { report: 1, outcome });
    let actions = end(&mut bench);
    assert_eq!(writes(&actions)[0].2, "uncaught-exception");
}

#[test]
fn a_crash_during_a_snapshot_has_a_report_of_its_own() {
    // Told, or only noted; while the rings are taken, or while they are written.
    for (is_told, is_written) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut bench = seen(ALL);
        assert_eq!(bench.said(1, slow()), [take(1, 1)]);
        if is_written {
            assert_eq!(writes(&bench.taken(1, 1)).len(), 1);
        }
        if is_told {
            assert_eq!(told(&mut bench), []);
        }
        let mut all = end(&mut bench);
        for report in 1..=2 {
            all.extend(bench.handle(kept(report)));
        }
        let crashes: Vec<_> = writes(&all).into_iter().filter(|w| w.4).collect();
        let of_crash = |w: &&(u64, u64, &str, Consent, bool)| w.2 == "uncaught-exception";
        assert_eq!(
            crashes.iter().filter(of_crash).count(),
            1,
            "{is_told} {is_written}: {all:?}"
        );
        assert_eq!(all.last(), Some(&forget(1)), "{is_told} {is_written}");
    }
}

#[test]
fn whoever_is_closed_after_it_did_not_respond_leaves_one_report() {
    let anr = || trigger("anr", TriggerSeverity::Stuck);
    let mut bench = seen("");
    assert_eq!(bench.said(1, anr()), [take(1, 1)]);
    bench.taken(1, 1);
    bench.handle(kept(1));
    bench.answer_all();
    // The user closes it in the dialog of the system.
    bench.pass(20 * SECOND);
    assert_eq!(bench.handle(ended(1)), [forget(1)]);
    // A crash is another thing.
    let mut bench = seen("");
    bench.said(1, anr());
    bench.taken(1, 1);
    bench.handle(kept(1));
    bench.answer_all();
    assert_eq!(writes(&end(&mut bench))[0].2, "uncaught-exception");
    // The report failed, or it was long ago: the end is the last chance.
    for (is_kept, seconds) in [(false, 1), (true, 601)] {
        let mut bench = seen("");
        bench.said(1, anr());
        bench.taken(1, 1);
        bench.handle(Event::Written { report: 1, is_kept });
        bench.answer_all();
        bench.pass(seconds * SECOND);
        assert_eq!(writes(&bench.handle(ended(1)))[0].2, "killed");
    }
}

#[test]
fn a_signal_is_not_taken_for_an_exception_that_the_process_has_survived() {
    // How far the report of the exception is when the process ends, and what it ends by.
    let signal = CrashKind::Signal(11);
    let both = "crash: signal 11; before that, uncaught-exception: a message took 900 ms";
    for (stage, kind, expected) in [
        ("taking", signal, vec![("native-crash", both)]),
        (
            "written",
            signal,
            vec![("native-crash", "crash: signal 11")],
        ),
        ("written", CrashKind::UncaughtException, vec![]),
        ("failed", signal, vec![("native-crash", "crash: signal 11")]),
    ] {
        let mut bench = seen(ALL);
        told(&mut bench);
        if stage != "taking" {
            bench.taken(1, 1);
            let (report, is_kept) = (1, stage == "written");
            bench.handle(Event::Written { report, is_kept });
            bench.answer_all();
        }
        bench.pass(2 * SECOND);
        noted(&mut bench, kind);
        let actions = bench.handle(ended(1));
        let found: Vec<_> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Write { about, .. } => {
                    assert_eq!(about.at_boottime_ns, bench.now_ns - SECOND);
                    Some((about.detector.as_str(), about.reason.as_str()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(found, expected, "{stage}");
    }
}

#[test]
fn a_crash_whose_report_the_end_of_the_service_has_cut_off_keeps_its_name() {
    use TriggerSeverity::Slow;
    let exception = CrashKind::UncaughtException;
    // What the process has noted, how many seconds before, the policy, the report's name and severity, and whether the kill after it
    // is another thing.
    for (kind, seconds, lines, expected, severity, is_other) in [
        (Some(exception), 3, ALL, "uncaught-exception", Fatal, false),
        (Some(exception), 59, ALL, "uncaught-exception", Fatal, false),
        // Rings are taken for something else a while later.
        (Some(exception), 60, ALL, "unfinished", Slow, true),
        // For a signal none are.
        (
            Some(CrashKind::Signal(11)),
            3,
            ALL,
            "unfinished",
            Slow,
            true,
        ),
        (None, 0, ALL, "unfinished", Slow, true),
        (
            Some(exception),
            3,
            "[reports]\nkilled = \"all\"\nseverities = [\"slow\"]",
            "unfinished",
            Slow,
            false,
        ),
    ] {
        let facts = Facts {
            person: agreed(),
            is_restart: true,
            first_report: 5,
            ..Facts::default()
        };
        let policy = Policy::parse(&format!("version = 1\n{lines}")).unwrap();
        let mut bench = Bench::with(policy, Limiter::fresh("boot"), facts);
        let crash = kind.map(|kind| Crash {
            kind,
            tid: 7,
            at_boottime_ns: bench.now_ns - seconds * SECOND,
        });
        let actions = bench.handle(Event::Joined {
            connection: 1,
            peer: Peer { pid: 101, uid: 7 },
            hello: Hello {
                taken: 4,
                held: 2,
                ..hello("com.example.notes")
            },
            crash,
        });
        let about = actions.iter().find_map(|action| match action {
            Action::Write { about, .. } => Some(about),
            _ => None,
        });
        let about = about.expect("no report");
        let case = (kind, seconds, lines);
        assert_eq!(
            (about.detector.as_str(), about.severity),
            (expected, severity),
            "{case:?}"
        );
        if severity == Fatal {
            let crash = crash.unwrap();
            assert_eq!((about.tid, about.at_boottime_ns), (7, crash.at_boottime_ns));
        }
        bench.handle(kept(5));
        bench.answer_all();
        if let Some(crash) = crash {
            let connection = 1;
            bench.handle(Event::Crashed { connection, crash });
        }
        let actions = bench.handle(ended(1));
        assert_eq!(writes(&actions).len(), usize::from(is_other), "{case:?}");
    }
}

#[test]
fn the_note_of_a_crash_counts_if_its_report_fails_while_a_lesser_one_waits() {
    for (is_kept, expected) in [(false, "native-crash"), (true, "requested")] {
        let mut bench = Bench::of("");
        bench.join(1, hello("com.example.notes"));
        bench.answer_all();
        bench.said(1, trigger("native-crash", TriggerSeverity::Fatal));
        bench.taken(1, 1);
        let process = "com.example.notes".to_owned();
        let what = Asked::Report {
            process,
            reason: "a tester saw it".into(),
        };
        bench.handle(Event::Asked { reply: 7, what });
        bench.handle(Event::Written { report: 1, is_kept });
        let crash = Crash {
            kind: CrashKind::Signal(11),
            tid: 101,
            at_boottime_ns: bench.now_ns,
        };
        bench.handle(Event::Crashed {
            connection: 1,
            crash,
        });
        let actions = bench.handle(ended(1));
        assert_eq!(writes(&actions)[0].2, expected);
    }
}
