// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::protocol::{FromProcess, Hello, TakeOutcome, TriggerSeverity};

use super::support::*;
use crate::engine::{Action, Asked, Event, Outcome, Peer, Pressure, ProcessReport};
use crate::policy::{Level, Person};

fn ask(bench: &mut Bench, reply: u64, process: &str) -> Vec<Action> {
    let what = Asked::Report {
        process: process.into(),
        reason: "a tester saw it".into(),
    };
    bench.handle(Event::Asked { reply, what })
}

fn answer(actions: &[Action]) -> (u64, Result<&[ProcessReport], &str>) {
    let answers = actions.iter().filter_map(|action| match action {
        Action::Answer { reply, result } => {
            Some((*reply, result.as_deref().map_err(String::as_str)))
        }
        _ => None,
    });
    let answers: Vec<_> = answers.collect();
    assert_eq!(answers.len(), 1, "{actions:?}");
    answers[0]
}

#[test]
fn rings_that_are_read_while_consent_is_withdrawn_are_no_report_of_a_later_consent() {
    let mut bench = Bench::of("[reports]\nkilled = \"all\"");
    bench.join(1, hello("com.example.notes"));
    bench.answer_all();
    bench.said(1, slow());
    // It is being written.
    assert_eq!(writes(&bench.taken(1, 1)).len(), 1);
    for person in [Person::default(), agreed()] {
        let actions = bench.engine.set_person(bench.now(), person);
        bench.seen(actions);
        bench.answer_all();
    }
    // It has answered, and still has what was taken.
    assert_eq!(writes(&bench.handle(ended(1))), []);
    assert_eq!(writes(&bench.handle(kept(1))), []);
}

#[test]
fn a_process_that_calls_itself_like_the_id_of_another_one_is_not_meant() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    bench.join(2, hello("101"));
    bench.answer_all();
    assert_eq!(ask(&mut bench, 7, "101"), [take(1, 1)]);
}

#[test]
fn what_was_recorded_before_a_withdrawal_is_no_report_of_a_later_consent() {
    let full = || Person {
        agreed: Some(Level::Full),
        ..Person::default()
    };
    let consent = |bench: &mut Bench, person: Person| {
        let actions = bench.engine.set_person(bench.now(), person);
        bench.seen(actions)
    };
    // A process that the service has lost, frozen perhaps, cannot be told.
    for comes_back in [false, true] {
        let mut bench = Bench::of("[reports]\nkilled = \"all\"");
        consent(&mut bench, full());
        bench.join(1, hello("com.example.notes"));
        bench.answer_all();
        bench.handle(Event::Lost { connection: 1 });
        consent(&mut bench, Person::default());
        consent(&mut bench, full());
        if comes_back {
            let actions = bench.handle(Event::Joined {
                connection: 2,
                peer: Peer {
                    pid: 101,
                    uid: 10_001,
                },
                hello: hello("com.example.notes"),
                crash: None,
            });
            let told = configurations(&actions)[0].1;
            assert_eq!((told.categories, told.call_rings), (0, 0));
            // Only when it has answered, it has nothing of before any more.
            let actions = bench.said(2, FromProcess::Held { rings: 0 });
            assert_ne!(configurations(&actions)[0].1.categories, 0);
            bench.answer_all();
            assert_eq!(writes(&bench.handle(ended(2))).len(), 1);
        } else {
            assert_eq!(writes(&bench.handle(ended(1))), []);
        }
    }
}

#[test]
fn while_the_system_is_short_of_memory_a_request_says_so() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    bench.handle(Event::Pressure(Pressure::Full));
    assert_eq!(ask(&mut bench, 7, "com.example.notes"), []);
    let actions = bench.wake();
    let (reply, result) = answer(&actions);
    assert_eq!(reply, 7);
    assert!(
        result
            .unwrap_err()
            .contains("the system is short of memory"),
        "{result:?}"
    );
    let outcomes = bench.status().reports;
    assert_eq!(
        outcomes.into_iter().collect::<Vec<_>>(),
        [(Outcome::Pressure, 1)]
    );
}

#[test]
fn a_request_is_answered_when_all_its_reports_are_over() {
    let mut bench = Bench::of("[limits]\ndevice = 0");
    for connection in 1..=2 {
        bench.join(connection, hello("com.example.notes"));
    }
    bench.join(3, hello("com.example.maps"));
    assert_eq!(
        ask(&mut bench, 7, "com.example.notes"),
        [take(1, 1), take(2, 2)]
    );
    bench.taken(1, 1);
    let nothing = FromProcess::Taken {
        report: 2,
        outcome: TakeOutcome::Nothing,
    };
    assert!(bench.said(2, nothing).is_empty());
    let actions = bench.handle(kept(1));
    let nothing = ProcessReport {
        problem: Some("the process has recorded nothing".into()),
        ..written(2, 102)
    };
    assert_eq!(answer(&actions), (7, Ok(&[written(1, 101), nothing][..])));

    assert_eq!(ask(&mut bench, 8, "103"), [take(3, 3)]);
    bench.taken(3, 3);
    let actions = bench.handle(Event::Written {
        report: 3,
        is_kept: false,
    });
    let (reply, result) = answer(&actions);
    assert_eq!(reply, 8);
    assert!(result.unwrap_err().contains("log"), "{result:?}");
}

#[test]
fn a_request_that_cannot_be_met_names_the_remedy() {
    let mut bench = Bench::of("[[record.override]]\nuid = 10002\nenabled = false");
    for connection in 1..=2 {
        bench.join(connection, hello("com.example.notes"));
    }
    let cases = [
        ("com.example\n", "the status lists"),
        ("102", "consent"),
        ("999", "the status"),
    ];
    for (process, expected) in cases {
        let actions = ask(&mut bench, 1, process);
        let (_, result) = answer(&actions);
        assert!(result.unwrap_err().contains(expected), "{result:?}");
        assert!(!result.unwrap_err().contains('\n'));
    }
}

#[test]
fn a_request_ends_with_a_lost_process() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    ask(&mut bench, 2, "101");
    let actions = bench.handle(Event::Lost { connection: 1 });
    assert!(answer(&actions).1.unwrap_err().contains("did not answer"));
    // It is still there, and cannot be asked: the system may have frozen it.
    for process in ["101", "com.example.notes"] {
        let actions = ask(&mut bench, 3, process);
        let (_, result) = answer(&actions);
        assert!(result.unwrap_err().contains("frozen"), "{result:?}");
    }
    // And the report is made when the process is killed.
    assert_eq!(writes(&bench.handle(ended(1)))[0].2, "requested");
}

/// The answer to a request is a report that has what was there when somebody asked.
#[test]
fn a_request_is_answered_with_rings_that_are_taken_after_it() {
    // The report under way waits for memory, its rings are being taken, are taken, or are read.
    for stage in 0..4 {
        let mut bench = seen("[memory]\nbudget-mib = 128");
        bench.join(2, hello("com.example.maps"));
        bench.said(2, slow());
        bench.taken(2, 1);
        if stage == 0 {
            bench.set_policy("[memory]\nbudget-mib = 16");
        }
        bench.said(1, slow());
        if stage > 1 {
            bench.taken(1, 2);
        }
        if stage > 2 {
            assert_eq!(writes(&bench.handle(kept(1)))[0].1, 2);
        }
        assert_eq!(ask(&mut bench, 7, "com.example.notes"), []);
        assert_eq!(ask(&mut bench, 8, "101"), [], "both share one");
        bench.set_policy("[memory]\nbudget-mib = 128");
        let (mut all, mut is_asked) = (Vec::new(), false);
        for report in 1..=3 {
            all.extend(bench.taken(1, report));
            all.extend(bench.handle(kept(report)));
            bench.answer_all();
            let answers = all.iter().filter(|a| matches!(a, Action::Answer { .. }));
            is_asked = answers.count() == 2;
            assert_eq!(
                is_asked,
                report >= if stage == 0 { 2 } else { 3 },
                "{stage}"
            );
        }
        assert!(is_asked);
        let last = all.iter().rev().find_map(|action| match action {
            Action::Write { about, .. } => Some(about.reason.as_str()),
            _ => None,
        });
        let asked = "a tester saw it; after that, requested: a tester saw it";
        let shared = format!("a message took 900 ms; after that, requested: {asked}");
        assert_eq!(
            last,
            Some(if stage == 0 { &shared } else { asked }),
            "{stage}"
        );
    }
}

#[test]
fn a_request_that_waits_for_another_report_ends_with_the_process() {
    // It cannot be told anything any more, it ends by itself, it is killed, or consent is withdrawn.
    for case in 0..4 {
        let mut bench = seen("[reports]\nkilled = \"all\"");
        bench.said(1, slow());
        bench.taken(1, 1);
        assert_eq!(ask(&mut bench, 7, "101"), []);
        let mut actions = match case {
            0 => bench.handle(Event::Lost { connection: 1 }),
            1 | 2 => {
                if case == 1 {
                    bench.said(1, FromProcess::Farewell);
                }
                bench.handle(ended(1))
            }
            _ => bench.set_policy("enabled = false"),
        };
        actions.extend(bench.handle(kept(1)));
        actions.extend(bench.handle(kept(2)));
        let (reply, result) = answer(&actions);
        let killed = [written(2, 101)];
        let expected: Result<&[ProcessReport], &str> = match case {
            0 => Err("did not answer"),
            1 => Err("ended first"),
            2 => Ok(&killed),
            _ => Err("consent"),
        };
        match (result, expected) {
            (Err(why), Err(part)) => assert!(why.contains(part), "{case}: {why}"),
            (found, expected) => assert_eq!(found, expected, "{case}"),
        }
        assert_eq!(reply, 7);
        let of_end = writes(&actions).into_iter().map(|w| (w.1, w.2));
        let expected = Some((2, "killed")).filter(|_| case == 2);
        assert_eq!(
            of_end.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{case}"
        );
    }
}

#[test]
fn a_trigger_may_become_part_of_a_requested_report() {
    let mut bench = Bench::of("");
    bench.join(1, hello("com.example.notes"));
    ask(&mut bench, 1, "101");
    bench.said(1, trigger("slow-message", TriggerSeverity::Slow));
    let actions = bench.taken(1, 1);
    let [Action::Write { about, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    let reason = "a message took 900 ms; before that, requested: a tester saw it";
    let found = (about.detector.as_str(), about.reason.as_str());
    assert_eq!(found, ("slow-message", reason));
}

#[test]
fn requests_that_wait_have_a_limit() {
    let mut bench = Bench::of("");
    bench.join(
        1,
        Hello {
            is_foreground: true,
            ..hello("com.example.notes")
        },
    );
    for reply in 1..=16 {
        let actions = ask(&mut bench, reply, "101");
        assert_eq!(actions.len(), usize::from(reply == 1));
    }
    let actions = ask(&mut bench, 17, "101");
    assert!(answer(&actions).1.unwrap_err().contains("try again"));
    let actions = bench.wake();
    let answers = actions
        .iter()
        .filter(|a| matches!(a, Action::Answer { .. }));
    assert_eq!(answers.count(), 16, "the process does not answer");
}
