// SPDX-License-Identifier: Apache-2.0
//! Recordings for a time.

use hindsight_trace_format::protocol::{FromProcess, TriggerSeverity};

use super::support::*;
use crate::engine::{Action, Asked, Event, ProcessReport};

fn record(bench: &mut Bench, reply: u64, package: &str, seconds: u32) -> Vec<Action> {
    let package = package.to_owned();
    let what = Asked::Record { package, seconds };
    bench.handle(Event::Asked { reply, what })
}

fn answers(actions: &[Action]) -> Vec<(u64, Result<&[ProcessReport], &str>)> {
    let answer = |action| match action {
        &Action::Answer { reply, ref result } => {
            Some((reply, result.as_deref().map_err(String::as_str)))
        }
        _ => None,
    };
    actions.iter().filter_map(answer).collect()
}

#[test]
fn a_recorded_package_gets_all_rings_and_leaves_a_report() {
    let mut bench = Bench::of("[memory]\ncall-rings = 3");
    bench.join(1, hello("com.example.maps"));
    bench.foreground(1, true);
    bench.answer_all();
    assert_eq!(bench.rings(1), (1, 1));
    bench.join(2, hello("com.example.notes"));
    bench.answer_all();
    assert_eq!(bench.rings(2), (0, 0), "it never was in the foreground");

    assert!(answers(&record(&mut bench, 7, "com.example.notes", 5)).is_empty());
    bench.answer_all();
    assert_eq!(bench.rings(2), (3, 3));
    assert_eq!(bench.rings(1), (0, 0));
    assert_eq!(bench.status().recordings[0].left_ns, 5 * SECOND);
    // Time passes also without an event.
    bench.now_ns += 2 * SECOND;
    assert_eq!(bench.status().recordings[0].left_ns, 3 * SECOND);

    assert_eq!(bench.wake(), [take(2, 1)]);
    bench.answer_all();
    bench.taken(2, 1);
    let actions = bench.handle(kept(1));
    assert_eq!(answers(&actions), [(7, Ok(&[written(1, 102)][..]))]);
    bench.answer_all();
    assert!(bench.status().recordings.is_empty());
    assert_eq!(bench.rings(2), (0, 0));
    assert_eq!(bench.rings(1), (1, 1));
}

#[test]
fn each_process_of_a_recorded_package_has_a_ring_before_any_has_more() {
    for (call_rings, of_each) in [(1, (1, 0)), (2, (1, 1)), (5, (4, 1))] {
        let mut bench = Bench::of(&format!("[memory]\ncall-rings = {call_rings}"));
        bench.join(1, hello("com.example.maps"));
        bench.foreground(1, true);
        bench.join(2, hello("com.example.notes"));
        bench.foreground(2, true);
        bench.join(3, hello("com.example.notes:remote"));
        bench.answer_all();
        record(&mut bench, 7, "com.example.notes", 5);
        bench.answer_all();
        bench.answer_all();
        assert_eq!(
            (bench.rings(2).0, bench.rings(3).0),
            of_each,
            "{call_rings}"
        );
        assert_eq!(bench.rings(1).0, 0, "{call_rings}");
    }
}

#[test]
fn a_recording_that_is_ended_leaves_its_reports_at_once() {
    let mut bench = Bench::of("");
    let end = |bench: &mut Bench, reply| {
        let package = "com.example.notes".to_owned();
        let what = Asked::EndRecording { package };
        bench.handle(Event::Asked { reply, what })
    };
    let actions = end(&mut bench, 6);
    let found = answers(&actions);
    let problem = found[0].1.unwrap_err();
    assert!(found[0].0 == 6 && problem.contains("no recording of"));
    record(&mut bench, 7, "com.example.notes", 600);
    bench.join(1, hello("com.example.notes"));
    bench.answer_all();
    let actions = end(&mut bench, 8);
    assert_eq!(answers(&actions), [(8, Ok(&[][..]))]);
    assert!(actions.contains(&take(1, 1)), "{actions:?}");
    // It is over.
    let actions = end(&mut bench, 9);
    assert!(answers(&actions)[0].1.is_err());
    bench.answer_all();
    bench.taken(1, 1);
    let actions = bench.handle(kept(1));
    assert_eq!(answers(&actions), [(7, Ok(&[written(1, 101)][..]))]);
    assert!(bench.status().recordings.is_empty());
}

#[test]
fn a_process_that_starts_later_or_has_another_process_name_is_recorded() {
    let mut bench = Bench::of("");
    record(&mut bench, 7, "com.example.notes", 5);
    bench.join(1, hello("com.example.notes:remote"));
    bench.join(2, hello("com.example.notesplus"));
    bench.answer_all();
    assert_eq!(bench.rings(1).0, 2);
    assert_eq!(bench.rings(2).0, 0);
}

#[test]
fn a_process_that_ends_meanwhile_leaves_its_rings() {
    for has_farewell in [false, true] {
        // Ends alone leave no reports here.
        let mut bench = Bench::of("[reports]\nkilled = \"none\"");
        record(&mut bench, 7, "com.example.notes", 5);
        bench.join(1, hello("com.example.notes"));
        bench.answer_all();
        if has_farewell {
            bench.said(1, FromProcess::Farewell);
        }
        let actions = bench.handle(ended(1));
        let begun = writes(&actions);
        assert_eq!(begun.len(), 1);
        assert_eq!(begun[0].2, "recorded");
        assert!(
            answers(&bench.handle(kept(1))).is_empty(),
            "others may come"
        );
        let actions = bench.wake();
        assert_eq!(answers(&actions), [(7, Ok(&[written(1, 101)][..]))]);
    }
}

#[test]
fn a_recorded_process_that_ends_by_itself_while_a_report_of_it_waits_leaves_its_rings() {
    let mut bench = Bench::of("[reports]\nkilled = \"none\"");
    record(&mut bench, 7, "com.example.notes", 5);
    bench.join(1, hello("com.example.notes"));
    bench.answer_all();
    assert_eq!(bench.said(1, slow()), [take(1, 1)]);
    bench.said(1, FromProcess::Farewell);
    let actions = bench.handle(ended(1));
    let begun = writes(&actions);
    assert_eq!(begun.len(), 1, "{begun:?}");
    bench.handle(kept(1));
    let actions = bench.wake();
    assert_eq!(answers(&actions), [(7, Ok(&[written(1, 101)][..]))]);
}

#[test]
fn what_cannot_be_recorded_is_an_error_with_its_remedy() {
    let mut bench =
        Bench::of("[[record.override]]\npackage = \"com.example.bank\"\nenabled = false");
    bench.join(1, hello("com.example.bank"));
    for (package, seconds, part) in [
        ("com.example.bank", 5, "no consent"),
        ("com.example.notes", 0, "1 to 600 s"),
        ("com.example.notes", 601, "1 to 600 s"),
    ] {
        let actions = record(&mut bench, 1, package, seconds);
        let found = answers(&actions);
        assert!(found[0].1.unwrap_err().contains(part), "{found:?}");
    }
    assert!(answers(&record(&mut bench, 2, "com.example.notes", 5)).is_empty());
    let actions = record(&mut bench, 3, "com.example.notes", 5);
    assert!(answers(&actions)[0].1.unwrap_err().contains("already"));
    // Nobody came.
    let actions = bench.wake();
    let found = answers(&actions);
    assert!(found[0].1.unwrap_err().contains("no process"), "{found:?}");

    // It came after the command.
    let mut bench =
        Bench::of("[[record.override]]\npackage = \"com.example.bank\"\nenabled = false");
    assert!(answers(&record(&mut bench, 6, "com.example.bank", 5)).is_empty());
    bench.join(1, hello("com.example.bank"));
    bench.answer_all();
    let actions = bench.wake();
    let found = answers(&actions);
    assert!(
        found[0].1.unwrap_err().contains("consent show"),
        "{found:?}"
    );

    // 16 MiB are too few for a ring, a snapshot and the service's copy.
    let mut bench = Bench::of("[memory]\nbudget-mib = 16\nuid-share = 50");
    bench.join(1, hello("com.example.notes"));
    record(&mut bench, 4, "com.example.notes", 5);
    bench.answer_all();
    let actions = bench.wake();
    let found = answers(&actions);
    assert!(found[0].1.unwrap_err().contains("budget-mib"), "{found:?}");
    let mut bench = Bench::of("enabled = false");
    let actions = record(&mut bench, 5, "com.example.notes", 5);
    assert!(answers(&actions)[0].1.unwrap_err().contains("switch on"));
}

#[test]
fn a_process_that_does_not_answer_is_named_with_the_likely_cause() {
    // Asked for the first time at the end, or disconnected before: the rings of the foreground were asked back.
    for was_lost in [false, true] {
        let mut bench = seen("");
        if was_lost {
            bench.handle(Event::Lost { connection: 1 });
        }
        record(&mut bench, 7, "com.example.notes", 5);
        let mut actions = bench.wake();
        if !was_lost {
            assert_eq!(actions, [take(1, 1)]);
            actions = bench.wake();
        }
        let [(7, Err(text))] = answers(&actions)[..] else {
            panic!("{actions:?}");
        };
        let is_named = text.contains("com.example.notes (pid 101)");
        assert!(is_named && text.contains("frozen"), "{text}");
    }
}

#[test]
fn a_policy_that_allows_no_rings_holds_for_recordings() {
    let policy = "[[record.override]]\npackage = \"com.example.bank\"\nrings = 0";
    let mut bench = Bench::of(policy);
    bench.join(1, hello("com.example.bank"));
    let actions = record(&mut bench, 1, "com.example.bank", 5);
    let found = answers(&actions);
    assert!(
        found[0].1.unwrap_err().contains("no ring of calls"),
        "{found:?}"
    );
    // The process starts later.
    let mut bench = Bench::of(policy);
    assert!(answers(&record(&mut bench, 2, "com.example.bank", 5)).is_empty());
    bench.join(1, hello("com.example.bank"));
    bench.foreground(1, true);
    bench.answer_all();
    assert_eq!(bench.rings(1), (0, 0));
    let actions = bench.wake();
    let found = answers(&actions);
    assert!(
        found[0].1.unwrap_err().contains("no ring of calls"),
        "{found:?}"
    );
}

#[test]
fn a_recording_answers_with_all_reports_that_took_its_rings() {
    // What happens meanwhile, and the reports of the answer.
    for (case, expected) in [
        ("a stall", vec![1, 2]),
        ("a stall that no limit admits", vec![1]),
        ("another request", vec![1, 2]),
        ("a crash", vec![1, 2]),
        ("a stall, and a kill while it is read", vec![1, 2]),
        ("a crash, and an end while it is read", vec![1, 2]),
        ("a stall before it", vec![2]),
    ] {
        let lines = match case {
            "a stall that no limit admits" => "[limits]\ndevice = 0",
            _ => "[reports]\nkilled = \"none\"",
        };
        let mut bench = seen(lines);
        if case == "a stall before it" {
            bench.said(1, slow());
            bench.taken(1, 1);
            bench.handle(kept(1));
            bench.answer_all();
        }
        record(&mut bench, 7, "com.example.notes", 5);
        bench.answer_all();
        match case {
            "a stall before it" => {}
            "another request" => {
                let (process, reason) = ("101".into(), "why".into());
                let what = Asked::Report { process, reason };
                bench.handle(Event::Asked { reply: 8, what });
            }
            case if case.starts_with("a crash") => {
                bench.said(1, trigger("uncaught-exception", TriggerSeverity::Fatal));
            }
            _ => {
                bench.said(1, slow());
            }
        }
        bench.taken(1, 1);
        if case.ends_with("while it is read") {
            if case.starts_with("a crash") {
                bench.said(1, FromProcess::Farewell);
            }
            bench.handle(ended(1));
        }
        let mut all = bench.handle(kept(1));
        bench.answer_all();
        all.extend(bench.handle(kept(2)));
        let of_recording = |all: &[Action]| {
            let found = answers(all).into_iter().filter(|(reply, _)| *reply == 7);
            found.count()
        };
        assert_eq!(of_recording(&all), 0, "{case}: its time is not over");
        all.extend(bench.wake());
        for report in 1..=2 {
            all.extend(bench.taken(1, report));
            all.extend(bench.handle(kept(report)));
        }
        let found = answers(&all).into_iter().find(|(reply, _)| *reply == 7);
        let lines: Vec<ProcessReport> = expected.iter().map(|n| written(*n, 101)).collect();
        assert_eq!(found, Some((7, Ok(&lines[..]))), "{case}");
    }
}

#[test]
fn a_recording_whose_report_waits_for_another_one_goes_on_until_its_rings_are_taken() {
    for is_lost in [false, true] {
        let mut bench = seen("");
        record(&mut bench, 7, "com.example.notes", 5);
        bench.answer_all();
        bench.said(1, slow());
        bench.taken(1, 1);
        // The first report is still read when the time is over.
        assert_eq!(answers(&bench.wake()), []);
        let is_going_on = |bench: &Bench| bench.rings(1).0 > 1;
        assert!(is_going_on(&bench));
        if is_lost {
            let actions = bench.handle(Event::Lost { connection: 1 });
            assert_eq!(answers(&actions), [], "the first one will be written");
            assert!(!bench.engine.is_recording());
        }
        let actions = bench.handle(kept(1));
        bench.answer_all();
        if is_lost {
            let [(7, Ok([first, late]))] = answers(&actions)[..] else {
                panic!("{actions:?}");
            };
            assert_eq!(first, &written(1, 101));
            assert!(late
                .problem
                .as_ref()
                .is_some_and(|why| why.contains("frozen")));
            continue;
        }
        assert!(is_going_on(&bench) && bench.engine.is_recording());
        bench.taken(1, 2);
        assert!(!bench.engine.is_recording());
        let actions = bench.handle(kept(2));
        let expected = [written(1, 101), written(2, 101)];
        assert_eq!(answers(&actions), [(7, Ok(&expected[..]))]);
    }
}
