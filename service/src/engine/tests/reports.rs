// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::container::Consent;
use hindsight_trace_format::protocol::{
    FromProcess, FromService, Hello, TakeOutcome, TriggerSeverity,
};

use super::support::*;
use crate::engine::{Action, Event, Facts, Outcome, Pressure};
use crate::limits::Limiter;
use crate::policy::{Level, Person, Policy, UserType};

use TriggerSeverity::{Fatal, Requested, Slow, Stuck};

fn outcomes(bench: &Bench) -> Vec<(Outcome, u64)> {
    bench.status().reports.into_iter().collect()
}

#[test]
fn a_trigger_has_rings_taken_written_and_released() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    assert_eq!(bench.said(1, slow()), [take(1, 1)]);
    let actions = bench.taken(1, 1);
    let expected = (1, 1, "slow-message", Consent::Content, false);
    assert_eq!(writes(&actions), [expected]);
    assert_eq!(bench.handle(kept(1)), [release(1, 1)]);
    assert_eq!(bench.handle(ended(1)), [forget(1)]);
    assert_eq!(outcomes(&bench), [(Outcome::Kept, 1)]);
}

#[test]
fn the_list_is_saved_before_a_report_begins() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    let event = Event::Said {
        connection: 1,
        message: slow(),
    };
    let actions = bench.engine.handle(bench.now(), event);
    let Action::SaveLimits(text) = &actions[0] else {
        panic!("{actions:?}");
    };
    assert!(actions.contains(&take(1, 1)));
    let limiter = Limiter::load(text, "boot", bench.now_ns).unwrap();
    assert_eq!(limiter.next_report(), 2);
    let limits = &bench.engine.policy().limits;
    assert_eq!(limiter.reports(bench.now_ns, limits), 1);
}

#[test]
fn policy_consent_pressure_and_limits_refuse_triggers() {
    let person = |agreed| Person {
        agreed: Some(agreed),
        ..agreed_person()
    };
    let full = Level::Full;
    let cases = [
        ("", full, Slow, Outcome::Kept),
        ("enabled = false", full, Slow, Outcome::NotAllowed),
        ("", Level::None, Fatal, Outcome::NotAllowed),
        (
            "[[record.override]]\nuid = 10001\nconsent = \"none\"",
            full,
            Slow,
            Outcome::NotAllowed,
        ),
        (
            "[reports]\nseverities = [\"stuck\", \"fatal\"]",
            full,
            Slow,
            Outcome::Severity,
        ),
        (
            "[reports]\nseverities = [\"stuck\", \"fatal\"]",
            full,
            Stuck,
            Outcome::Kept,
        ),
        ("[limits]\ndevice = 0", full, Fatal, Outcome::DeviceLimit),
        ("[limits]\nper-uid = 0", full, Fatal, Outcome::UidLimit),
        (
            "[limits]\nper-detector = 0",
            full,
            Requested,
            Outcome::DetectorLimit,
        ),
    ];
    for (lines, agreed, severity, expected) in cases {
        let facts = Facts {
            person: person(agreed),
            ..Facts::default()
        };
        let policy = Policy::parse(&format!("version = 1\n{lines}")).unwrap();
        let mut bench = Bench::with(policy, Limiter::fresh("boot"), facts);
        bench.join(1, hello("com.example.notes"));
        bench.said(1, trigger("slow-message", severity));
        bench.taken(1, 1);
        bench.handle(kept(1));
        assert_eq!(outcomes(&bench), [(expected, 1)], "{lines}");
    }
    let mut bench = seen("");
    bench.handle(Event::Pressure(Pressure::Full));
    bench.said(1, slow());
    assert_eq!(outcomes(&bench), [(Outcome::Pressure, 1)]);
}

fn agreed_person() -> Person {
    Person {
        user: UserType::EndUser,
        ..Person::default()
    }
}

#[test]
fn a_report_has_no_more_strings_than_the_policy_allows() {
    let of =
        |level: &str| format!("[[record.override]]\npackage = \"com.*\"\nconsent = \"{level}\"");
    for (level, consent) in [
        ("summary", Consent::Structure),
        ("signatures", Consent::Names),
        ("full", Consent::Content),
    ] {
        let mut bench = seen(&of(level));
        let (_, configuration) = configurations(&bench.set_policy("enabled = false"))[0];
        assert_eq!(configuration.consent, Consent::Structure);
        bench.answer_all();
        bench.set_policy(&of(level));
        bench.said(1, slow());
        assert_eq!(writes(&bench.taken(1, 1))[0].3, consent);
    }
}

#[test]
fn consent_that_is_withdrawn_ends_reports_that_are_not_written_yet() {
    let mut bench = Bench::of("");
    for connection in 1..=3 {
        bench.join(connection, hello("com.example.notes"));
        bench.said(connection, slow());
        bench.taken(connection, connection);
    }
    bench.join(4, hello("com.example.notes"));
    bench.said(4, slow());
    let actions = bench.engine.set_person(bench.now(), Person::default());
    let actions = bench.seen(actions);
    // The first one is being written.
    for connection in 2..=4 {
        assert!(actions.contains(&release(connection, connection)));
    }
    // Rings of before the withdrawal: nothing else is recorded before it has answered that it has none of them.
    let actions = bench.handle(kept(1));
    assert_eq!(actions[0], release(1, 1));
    assert_eq!(configurations(&actions)[0].1.categories, 0);
    assert_eq!(
        outcomes(&bench),
        [(Outcome::Kept, 1), (Outcome::Withdrawn, 3)]
    );
    assert_eq!(bench.handle(ended(2)), [forget(2)]);
}

#[test]
fn triggers_within_a_report_are_part_of_it() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    bench.said(1, slow());
    assert!(bench.said(1, trigger("late-frames", Slow)).is_empty());
    assert!(bench.said(1, trigger("stuck-message", Stuck)).is_empty());
    let actions = bench.taken(1, 1);
    assert_eq!(
        writes(&actions)[0].2,
        "stuck-message",
        "the most severe one gives the name"
    );
    assert!(bench.said(1, trigger("anr", Stuck)).is_empty());
    bench.handle(kept(1));
    assert_eq!(outcomes(&bench), [(Outcome::Kept, 1), (Outcome::Merged, 3)]);
}

#[test]
fn a_fatal_trigger_after_the_rings_were_taken_is_a_report_of_its_own() {
    // It goes on: another take. It is killed, or ends by itself: all rings.
    for (farewell, ends) in [(false, false), (false, true), (true, true)] {
        let mut bench = seen("");
        bench.said(1, slow());
        bench.taken(1, 1);
        assert!(bench
            .said(1, trigger("uncaught-exception", Fatal))
            .is_empty());
        bench.said(1, trigger("uncaught-exception", Fatal));
        if farewell {
            bench.said(1, FromProcess::Farewell);
        }
        if ends {
            assert!(bench.handle(ended(1)).is_empty());
        }
        let actions = bench.handle(kept(1));
        if ends {
            let expected = (1, 2, "uncaught-exception", Consent::Content, true);
            assert_eq!(writes(&actions), [expected]);
            assert_eq!(bench.handle(kept(2)), [forget(1)]);
        } else {
            assert_eq!(actions[0], release(1, 1));
            assert!(actions.contains(&take(1, 2)));
        }
    }
}

#[test]
fn one_process_is_read_at_a_time_the_most_severe_first() {
    let mut bench = Bench::of("");
    for (connection, severity) in [(1, Slow), (2, Requested), (3, Slow), (4, Fatal)] {
        bench.join(connection, hello("com.example.notes"));
        assert_eq!(
            bench.said(connection, trigger("x", severity)),
            [take(connection, connection)]
        );
        let actions = bench.taken(connection, connection);
        assert_eq!(writes(&actions).len(), usize::from(connection == 1));
    }
    let mut order = Vec::new();
    let mut last = 1;
    while let [Action::Send { .. }, rest @ ..] = bench.handle(kept(last)).as_slice() {
        let Some(write) = writes(rest).first().copied() else {
            break;
        };
        last = write.1;
        order.push(last);
    }
    assert_eq!(order, [4, 3, 2]);
}

#[test]
fn reports_that_wait_have_a_limit() {
    let mut bench = Bench::of("[reports]\nqueue = 2");
    for connection in 1..=5 {
        bench.join(connection, hello("com.example.notes"));
        bench.said(connection, slow());
        bench.taken(connection, connection);
    }
    // The first one is being written, two wait.
    assert_eq!(outcomes(&bench), [(Outcome::QueueFull, 2)]);
    let limits = bench.status().limits;
    assert_eq!(limits.reports, 3, "refused ones do not count");
}

#[test]
fn no_user_id_has_more_than_half_of_the_places_in_the_queue() {
    let mut bench =
        Bench::of("[reports]\nqueue = 4\n[limits]\ndevice = 99\nper-uid = 99\nper-detector = 99");
    for connection in 1..=5 {
        bench.join_as(connection, 666, hello("com.example.notes"));
        // It never takes its rings.
        bench.said(connection, slow());
    }
    assert_eq!(outcomes(&bench), [(Outcome::QueueFull, 3)]);
    bench.join(6, hello("com.example.maps"));
    let crash = trigger("uncaught-exception", TriggerSeverity::Fatal);
    assert_eq!(bench.said(6, crash), [take(6, 3)]);
}

#[test]
fn a_process_that_takes_nothing_is_left_alone() {
    for (outcome, expected) in [
        (TakeOutcome::Nothing, Outcome::Nothing),
        (TakeOutcome::Refused, Outcome::ProcessRefused),
    ] {
        let mut bench = seen("");
        bench.said(1, slow());
        let wrong = FromProcess::Taken { report: 9, outcome };
        assert!(bench.said(1, wrong).is_empty());
        let right = FromProcess::Taken { report: 1, outcome };
        assert!(bench.said(1, right.clone()).is_empty());
        assert!(bench.said(1, right).is_empty());
        assert_eq!(outcomes(&bench), [(expected, 1)]);
        assert_eq!(bench.status().processes[0].rings_taken, 0);
        assert_eq!(bench.wake_ns, None);
    }
}

#[test]
fn a_report_waits_for_memory_only_so_long() {
    let mut bench = seen("");
    bench.handle(Event::Pressure(Pressure::Some));
    bench.said(1, slow());
    bench.taken(1, 1);
    bench.join(2, hello("com.example.notes"));
    bench.said(2, slow());
    bench.said(
        2,
        FromProcess::Taken {
            report: 2,
            outcome: TakeOutcome::Nothing,
        },
    );
    bench.handle(kept(1));
    bench.answer_all();
    // A snapshot of the largest process that is there needs this much; with less, nothing is taken.
    bench.set_policy("[memory]\nbudget-mib = 16");
    bench.said(1, slow());
    assert!(!bench.wake().is_empty());
    assert!(
        outcomes(&bench).contains(&(Outcome::NoMemory, 1)),
        "{:?}",
        outcomes(&bench)
    );
}

#[test]
fn texts_of_processes_are_tamed() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example\n\u{1b}[2J"));
    bench.said(1, trigger("../../etc/Passwd", Slow));
    let actions = bench.taken(1, 1);
    assert_eq!(writes(&actions)[0].2, "other");
    let [Action::Write { about, .. }] = actions.as_slice() else {
        panic!("{actions:?}");
    };
    assert_eq!(about.process, "com.example??[2J");
    assert!(about.at_boottime_ns <= bench.now_ns);
}

#[test]
fn as_much_is_read_as_the_process_was_given() {
    let limits = |actions: &[Action]| {
        let write = actions.iter().find_map(|action| match action {
            Action::Write { limits, .. } => Some(*limits),
            _ => None,
        });
        write.expect("no report")
    };
    // Rings of 1 GiB that it never got: its memory may say what it likes.
    let mut bench = Bench::of("[reports]\nkilled = \"all\"");
    let large = Hello {
        ring_bytes: 1 << 30,
        ..hello("com.example.hostile")
    };
    bench.join(1, large);
    bench.foreground(1, true);
    bench.answer_all();
    assert_eq!(bench.rings(1), (0, 0));
    let read = limits(&bench.handle(ended(1)));
    assert_eq!(
        (read.all_rings, read.ring, read.other),
        (2 * MIB, 2 * MIB, 2 * MIB)
    );
    // The ring in use, and the one that is taken.
    let mut bench = seen("");
    bench.said(1, slow());
    let read = limits(&bench.taken(1, 1));
    assert_eq!(
        (read.all_rings, read.ring, read.other),
        (18 * MIB, 8 * MIB, 2 * MIB)
    );
}

#[test]
fn reports_that_come_to_nothing_do_not_use_the_limits_up() {
    let lines = "[limits]\ndevice = 4\nper-uid = 4\nper-detector = 4\ndevice-per-detector = 4";
    let mut bench = seen(lines);
    let begin = |bench: &mut Bench| {
        let actions = bench.said(1, slow());
        let taken = actions.iter().find_map(|action| match action {
            Action::Send {
                message: FromService::Take { report },
                ..
            } => Some(*report),
            _ => None,
        });
        let ends = taken.is_some_and(|report| !bench.taken(1, report).is_empty());
        taken.filter(|_| ends)
    };
    let written = |bench: &mut Bench, report, is_kept| {
        bench.handle(Event::Written { report, is_kept });
        bench.answer_all();
        bench.status().limits.reports
    };
    let first = begin(&mut bench).unwrap();
    assert_eq!(written(&mut bench, first, true), 1);
    // The disk is full: as often as the limit, they do not count.
    for attempt in 0..4 {
        let report = begin(&mut bench).unwrap();
        assert_eq!(written(&mut bench, report, false), 1, "{attempt}");
    }
    let report = begin(&mut bench).unwrap();
    assert_eq!(written(&mut bench, report, false), 2);
    // The disk has room again, and the limit is the one of written reports.
    bench.pass(3600 * SECOND);
    for count in 3..=4 {
        let report = begin(&mut bench).unwrap();
        assert_eq!(written(&mut bench, report, true), count);
    }
    assert_eq!(begin(&mut bench), None);
}

#[test]
fn a_process_that_has_nothing_or_ends_gives_its_place_back() {
    for outcome in [TakeOutcome::Nothing, TakeOutcome::Refused] {
        let mut bench = seen("");
        bench.said(1, slow());
        assert_eq!(bench.status().limits.reports, 1);
        let report = 1;
        bench.said(1, FromProcess::Taken { report, outcome });
        assert_eq!(bench.status().limits.reports, 0, "{outcome:?}");
    }
    let mut bench = seen("");
    bench.said(1, slow());
    bench.said(1, FromProcess::Farewell);
    bench.handle(ended(1));
    assert_eq!(bench.status().limits.reports, 0);
}
