// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::protocol::{FromProcess, Hello, TriggerSeverity};

use super::support::*;
use crate::engine::{Action, Event, Facts, Pressure};
use crate::limits::Limiter;
use crate::policy::Policy;

/// Processes with these connections, which come to the foreground one after the other and answer.
fn all_seen(bench: &mut Bench, connections: std::ops::RangeInclusive<u64>) {
    for connection in connections {
        bench.join(connection, hello("com.example.notes"));
        bench.foreground(connection, true);
        bench.answer_all();
        bench.pass(20 * SECOND);
    }
}

#[test]
fn a_ring_is_moved_only_after_its_loser_has_answered() {
    let mut bench = Bench::of("");
    all_seen(&mut bench, 1..=2);
    assert_eq!((bench.rings(1), bench.rings(2)), ((1, 1), (1, 1)));
    bench.foreground(1, false);
    bench.foreground(2, false);
    bench.join(3, hello("com.example.maps"));
    bench.answer_all();
    bench.pass(SECOND);
    // 2 left the foreground as late as 1, but came later.
    let actions = bench.foreground(3, true);
    assert_eq!(configured(&actions), [(1, 0)]);
    assert_eq!((bench.rings(1), bench.rings(3)), ((0, 1), (0, 0)));
    let actions = bench.held(1, 0);
    assert_eq!(configured(&actions), [(3, 1)]);
    assert_eq!((bench.rings(1), bench.rings(3)), ((0, 0), (1, 1)));
}

/// An app that shows an activity has the only ring; a service, that the app uses or that the system brings to the foreground, comes
/// after it.
#[test]
fn a_process_that_shows_an_activity_comes_before_services_in_the_foreground() {
    let activities = |bench: &mut Bench, connection, are_started| {
        bench.said(connection, FromProcess::Activities { are_started });
        bench.answer_all();
    };
    let ring = |bench: &Bench| (1..=2).map(|c| bench.rings(c).0).collect::<Vec<_>>();
    let start = |lines: &str| {
        let mut bench = Bench::of(&format!("[memory]\ncall-rings = 1\n{lines}"));
        all_seen(&mut bench, 1..=2);
        assert_eq!(ring(&bench), [0, 1]);
        bench
    };
    // Nothing is known of activities, as without the framework's patches: the newest one has it.
    let mut bench = start("");
    activities(&mut bench, 1, true);
    assert_eq!(ring(&bench), [1, 0]);
    // A service comes to the foreground once more.
    bench.foreground(2, false);
    bench.pass(20 * SECOND);
    bench.foreground(2, true);
    bench.answer_all();
    assert_eq!(ring(&bench), [1, 0]);
    // It shows an activity itself, later than the other one.
    activities(&mut bench, 2, true);
    assert_eq!(ring(&bench), [0, 1]);
    // An activity that stops moves no ring before the process leaves the foreground.
    activities(&mut bench, 2, false);
    assert_eq!(ring(&bench), [0, 1]);
    bench.foreground(2, false);
    bench.answer_all();
    assert_eq!(ring(&bench), [1, 0]);
    bench.pass(20 * SECOND);
    bench.foreground(2, true);
    bench.answer_all();
    assert_eq!(ring(&bench), [1, 0], "its service came back, no activity");

    // A process that records no events of activities cannot say that it has none.
    let lines = "[[record.override]]\nuid = 10002\ncategories = [\"waits\"]";
    let mut bench = start(lines);
    activities(&mut bench, 1, true);
    assert_eq!(ring(&bench), [0, 1]);
}

#[test]
fn an_answer_counts_for_the_last_configuration_only() {
    let mut bench = Bench::of("[memory]\nrings-per-process = 2");
    bench.join(1, hello("com.example.notes"));
    bench.answer_all();
    assert_eq!(configured(&bench.foreground(1, true)), [(1, 2)]);
    bench.join(2, hello("com.example.maps"));
    bench.pass(SECOND);
    assert_eq!(configured(&bench.foreground(2, true)), [(1, 0)]);
    // The answer to the configuration with 2 rings, before any was in use.
    assert_eq!(configured(&bench.held(1, 0)), []);
    assert_eq!(bench.rings(1), (0, 2));
    assert_eq!(configured(&bench.held(1, 0)), [(2, 2)]);
}

#[test]
fn an_answer_that_nobody_waits_for_gives_no_ring_back() {
    let mut bench = Bench::of("");
    let held = Hello {
        held: 2,
        ..hello("com.example.notes")
    };
    assert_eq!(configured(&bench.join(1, held)), [(1, 1)]);
    // It still has as many as before, and says later that it has fewer.
    bench.held(1, 2);
    bench.join(2, hello("com.example.maps"));
    bench.answer_all();
    bench.foreground(2, true);
    assert_eq!(configured(&bench.held(1, 1)), []);
    assert_eq!((bench.rings(1).1, bench.rings(2).1), (2, 0));
}

#[test]
fn rings_of_a_process_count_until_its_memory_is_forgotten() {
    for lost in [false, true] {
        let mut bench = Bench::of("[memory]\ncall-rings = 1");
        all_seen(&mut bench, 1..=1);
        bench.join(2, hello("com.example.maps"));
        if lost {
            bench.handle(Event::Lost { connection: 1 });
        }
        assert_eq!(bench.foreground(2, true).len(), usize::from(!lost));
        assert_eq!(bench.rings(2), (0, 0));
        bench.pass(SECOND);
        let is_written = !writes(&bench.handle(ended(1))).is_empty();
        // The user saw it when it was lost, a second ago.
        assert!(is_written);
        assert_eq!(bench.rings(2), (0, 0), "its ring is being read");
        let actions = bench.handle(kept(1));
        assert_eq!(configured(&actions), [(2, 1)]);
    }
}

#[test]
fn whoever_keeps_a_ring_is_disconnected_and_not_trusted() {
    let mut bench = Bench::of("[memory]\ncall-rings = 1");
    all_seen(&mut bench, 1..=1);
    bench.join(2, hello("com.example.maps"));
    bench.foreground(2, true);
    // More than it has been told, so it has not done it.
    assert_eq!(bench.held(1, 1), []);
    assert_eq!(bench.rings(1), (0, 1));
    let actions = bench.wake();
    assert_eq!(actions[0], Action::Disconnect { connection: 1 });
    // The other one gets a ring all the same: the budget has room for both.
    assert_eq!(configured(&actions), [(2, 1)]);
    assert_eq!((bench.rings(1), bench.rings(2)), ((0, 1), (1, 1)));
    assert_eq!(bench.held(1, 0), [], "nobody listens any more");
    assert_eq!(bench.wake_ns, None);
    bench.set_policy("[memory]\ncall-rings = 3");
    assert_eq!(bench.rings(2), (1, 1));
    // Another process of the same user id.
    bench.join_as(3, 10_001, hello("com.example.notes:sync"));
    assert_eq!(configured(&bench.foreground(3, true)), []);
    bench.handle(ended(1));
    assert_eq!(configured(&bench.handle(kept(1))), [(3, 1)]);
}

#[test]
fn absurd_answers_end_the_connection() {
    let mut bench = Bench::of("");
    all_seen(&mut bench, 1..=1);
    assert_eq!(
        bench.held(1, u32::MAX),
        [Action::Disconnect { connection: 1 }]
    );
    assert_eq!(bench.rings(1), (1, 1));
}

#[test]
fn claims_of_the_foreground_count_only_so_often() {
    let mut bench = Bench::of("[memory]\ncall-rings = 1");
    bench.join(1, hello("com.example.hostile"));
    bench.join(2, hello("com.example.maps"));
    bench.answer_all();
    let mut moved = 0;
    for _ in 0..100 {
        for connection in [2, 1] {
            bench.foreground(connection, false);
            let actions = bench.foreground(connection, true);
            moved += configured(&actions)
                .iter()
                .filter(|(_, rings)| *rings == 1)
                .count();
            moved += bench.answer_all();
            bench.pass(SECOND / 100);
        }
    }
    assert!((2..=12).contains(&moved), "{moved}");
    assert!(bench.wake_ns.is_some(), "a claim waits");
    // The last one counts when its time has come, if it still holds.
    bench.foreground(2, false);
    bench.answer_all();
    while bench.wake_ns.is_some() {
        bench.wake();
        bench.answer_all();
    }
    assert_eq!((bench.rings(1), bench.rings(2)), ((1, 1), (0, 0)));
}

#[test]
fn an_app_gets_a_second_ring_only_when_every_other_has_one() {
    let mut bench = Bench::of("");
    bench.join_as(1, 10_001, hello("com.example.maps"));
    bench.foreground(1, true);
    bench.pass(SECOND);
    for connection in [2, 3] {
        bench.join_as(connection, 10_666, hello("com.example.hostile"));
        bench.foreground(connection, true);
        bench.answer_all();
    }
    let rings = [1, 2, 3].map(|connection| bench.rings(connection).0);
    assert_eq!(rings, [1, 0, 1]);
}

#[test]
fn pressure_takes_rings_from_the_background_first() {
    let mut bench = Bench::of("");
    all_seen(&mut bench, 1..=2);
    bench.foreground(1, false);
    let actions = bench.handle(Event::Pressure(Pressure::Some));
    assert_eq!(configured(&actions), [(1, 0)]);
    let actions = bench.handle(Event::Pressure(Pressure::Full));
    assert_eq!(configured(&actions), [(2, 0)]);
    bench.answer_all();
    let actions = bench.handle(Event::Pressure(Pressure::None));
    assert_eq!(configured(&actions), [(2, 1), (1, 1)]);
}

#[test]
fn the_budget_holds_rings_back() {
    // A ring of 8 MiB takes 8 MiB, as much for its snapshot, and 16 + 2 MiB for the service's copy.
    let needs = |rings: u64| 2 * (rings * 8 + 8 + (16 + 2));
    for (mib, rings) in [
        (needs(1) - 2, 0),
        (needs(1), 1),
        (needs(2) - 2, 1),
        (needs(2), 2),
    ] {
        let mut bench = Bench::of(&format!("[memory]\nbudget-mib = {mib}"));
        all_seen(&mut bench, 1..=2);
        let granted = bench.rings(1).0 + bench.rings(2).0;
        assert_eq!(u64::from(granted), rings, "{mib}");
    }
}

#[test]
fn memory_of_a_snapshot_counts_until_the_process_has_given_it_back() {
    // Room for one ring of each process, one snapshot, and the copy.
    let mut bench = Bench::of("[memory]\nbudget-mib = 84");
    all_seen(&mut bench, 1..=2);
    let slow = || trigger("slow-message", TriggerSeverity::Slow);
    assert_eq!(bench.said(1, slow()), [take(1, 1)]);
    assert_eq!(bench.said(2, slow()), [], "no room for a second one");
    assert_eq!(writes(&bench.taken(1, 1)).len(), 1);
    let actions = bench.handle(kept(1));
    assert_eq!(actions[0], release(1, 1));
    assert_eq!(configured(&actions), [(1, 1)], "for its answer");
    assert_eq!(bench.held(1, 1), [take(2, 2)]);
}

#[test]
fn only_whoever_was_in_the_foreground_gets_rings_unless_the_policy_says_so() {
    let mut bench = Bench::of("[[record.override]]\nuid = 10002\nbackground = true");
    for connection in 1..=2 {
        bench.join(connection, hello("com.example.notes"));
    }
    assert_eq!((bench.rings(1), bench.rings(2)), ((0, 0), (1, 1)));
}

#[test]
fn a_policy_reaches_running_processes_at_once() {
    let mut bench = Bench::of("");
    all_seen(&mut bench, 1..=2);
    let actions = bench.set_policy("enabled = false");
    let off = |c: &Configured| c.1.call_rings == 0 && c.1.categories == 0;
    assert!(configurations(&actions).iter().all(off));
    assert_eq!(configured(&actions), [(1, 0), (2, 0)]);
    let revisions: Vec<u64> = configurations(&actions)
        .iter()
        .map(|c| c.1.revision)
        .collect();
    bench.answer_all();
    let actions = bench.set_policy("[[record.override]]\nuid = 10002\nenabled = false");
    assert_eq!(configured(&actions), [(1, 1)]);
    assert!(configurations(&actions)[0].1.revision > revisions[1]);
    let actions = bench.set_policy("[record]\ncategories = [\"waits\"]");
    assert_eq!(configured(&actions), [(2, 1), (1, 1)]);
    assert!(configurations(&actions)
        .iter()
        .all(|c| c.1.categories == 0b11));
    assert!(
        bench
            .set_policy("[record]\ncategories = [\"waits\"]")
            .is_empty(),
        "nothing new"
    );
}

#[test]
fn after_a_restart_rings_stay_where_they_are_until_all_processes_are_back() {
    let facts = Facts {
        person: agreed(),
        is_restart: true,
        first_report: 1,
        ..Facts::default()
    };
    let mut bench = Bench::with(Policy::default(), Limiter::fresh("boot"), facts);
    let with = |held| Hello {
        held,
        ..hello("com.example.notes")
    };
    assert_eq!(
        configured(&bench.join(
            1,
            Hello {
                is_foreground: true,
                ..with(0)
            }
        )),
        [(1, 0)]
    );
    assert_eq!(configured(&bench.join(2, with(1))), [(2, 1)]);
    let seen = Hello {
        is_foreground: true,
        ..with(1)
    };
    assert_eq!(configured(&bench.join(3, seen)), [(3, 1)]);
    bench.answer_all();
    assert_eq!(configured(&bench.wake()), [(2, 0)], "the oldest one");
    assert_eq!(configured(&bench.held(2, 0)), [(1, 1)]);
}

#[test]
fn a_process_that_says_farewell_keeps_its_ring_until_it_ends() {
    let mut bench = Bench::of("[memory]\ncall-rings = 1");
    all_seen(&mut bench, 1..=1);
    bench.said(1, FromProcess::Farewell);
    bench.join(2, hello("com.example.maps"));
    bench.foreground(2, true);
    let actions = bench.handle(ended(1));
    assert_eq!(actions[0], forget(1));
    assert_eq!(configured(&actions), [(2, 1)]);
}

#[test]
fn a_process_in_the_background_gives_its_rings_back_before_it_can_be_frozen() {
    for (lines, stays) in [
        ("", false),
        ("[[record.override]]\nuid = 10001\nbackground = true", true),
    ] {
        let mut bench = seen(lines);
        bench.foreground(1, false);
        assert_eq!(bench.rings(1), (1, 1), "the previous app, for a while");
        if stays {
            bench.pass(600 * SECOND);
            assert_eq!(bench.handle(Event::Woke), []);
            assert_eq!(bench.rings(1), (1, 1));
            continue;
        }
        let before_ns = bench.now_ns;
        assert_eq!(configured(&bench.wake()), [(1, 0)]);
        assert_eq!(bench.now_ns - before_ns, 5 * SECOND, "grace-seconds");
        bench.held(1, 0);
        assert_eq!(bench.wake_ns, None, "nothing is periodic");
        assert_eq!(configured(&bench.foreground(1, true)), [(1, 1)]);
        // It is back in time.
        bench.foreground(1, false);
        bench.pass(SECOND);
        bench.foreground(1, true);
        bench.answer_all();
        bench.pass(600 * SECOND);
        assert_eq!(bench.handle(Event::Woke), []);
        assert_eq!(bench.rings(1), (1, 1));
    }
}

#[test]
fn processes_that_do_not_answer_leave_the_others_their_rings() {
    let mut bench = Bench::of("");
    // More than there are rings in the system; each is frozen as soon as it leaves the foreground.
    for connection in 1..=6 {
        bench.join(connection, hello("com.example.notes"));
        bench.held(connection, 0);
        bench.foreground(connection, true);
        bench.held(connection, 1);
        assert_eq!(bench.rings(connection), (1, 1), "{connection}");
        bench.pass(60 * SECOND);
        bench.foreground(connection, false);
        bench.wake();
        bench.wake();
        assert_eq!(bench.rings(connection), (0, 1), "its memory counts");
    }
    // They hold memory: the budget has room for so many, and no more.
    let mut bench = Bench::of("[memory]\nbudget-mib = 84");
    for connection in 1..=2 {
        bench.join(connection, hello("com.example.notes"));
        bench.held(connection, 0);
        bench.foreground(connection, true);
        bench.held(connection, u32::from(connection == 1));
        assert_eq!(bench.rings(connection), (1, 1), "{connection}");
        bench.foreground(connection, false);
        bench.wake();
        bench.wake();
    }
    bench.join(3, hello("com.example.maps"));
    bench.held(3, 0);
    assert_eq!(configured(&bench.foreground(3, true)), []);
}

#[test]
fn what_a_report_needs_is_set_aside_before_rings() {
    let given = |report_bytes| {
        let facts = Facts {
            person: agreed(),
            report_bytes,
            ..Facts::default()
        };
        let policy = Policy::parse("version = 1\n[memory]\nbudget-mib = 256").unwrap();
        let mut bench = Bench::with(policy, Limiter::fresh("boot"), facts);
        configured(&bench.join(
            1,
            Hello {
                is_foreground: true,
                ..hello("com.example.notes")
            },
        ))
    };
    assert_eq!(given(8 * MIB), [(1, 1)]);
    assert_eq!(given(100 * MIB), [(1, 0)]);
    assert_eq!(given(256 * MIB), [], "no report of it could be written");
}
