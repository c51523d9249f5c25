// SPDX-License-Identifier: Apache-2.0
//! Memory in steps, and names that become known later.

use hindsight_trace_format::protocol::{FromProcess, FromService, Hello, TriggerSeverity};

use super::support::{configurations, hello, trigger, writes, Bench, MIB};
use crate::engine::{Action, Connection, Event, Peer};

/// Connections and bytes of all messages about room.
fn rooms(actions: &[Action]) -> Vec<(Connection, u64)> {
    let room = |action: &Action| match action {
        Action::Send {
            connection,
            message: FromService::Room { bytes },
        } => Some((*connection, *bytes)),
        _ => None,
    };
    actions.iter().filter_map(room).collect()
}

fn needs(mib: u64) -> FromProcess {
    FromProcess::Needs { bytes: mib * MIB }
}

fn name(name: &str) -> FromProcess {
    FromProcess::Name { name: name.into() }
}

/// Half of the 64 MiB is for all but rings, and half of that for one user id.
fn two_of_one_user() -> Bench {
    let mut bench = Bench::of("[memory]\nbudget-mib = 64\nuid-share = 50");
    bench.join_as(1, 7, hello("com.example.a"));
    bench.join_as(2, 7, hello("com.example.b"));
    bench
}

#[test]
fn a_process_gets_what_it_needs_as_far_as_its_user_may_have_it() {
    let mut bench = two_of_one_user();
    assert_eq!(rooms(&bench.said(1, needs(5))), [(1, 5 * MIB)]);
    assert_eq!(rooms(&bench.said(1, needs(5))), []);
    assert_eq!(rooms(&bench.said(1, needs(1))), [], "nothing is taken back");
    // 16 MiB for the user id, but for rounding: 2 of them has the other one.
    let given = rooms(&bench.said(1, needs(100)));
    let [(1, bytes)] = given[..] else {
        panic!("{given:?}");
    };
    assert!((13 * MIB..=14 * MIB).contains(&bytes), "{bytes}");
    assert_eq!(rooms(&bench.said(2, needs(3))), []);
    let status = bench.status();
    let second = &status.processes[1];
    assert_eq!(
        (second.other_bytes, second.needed_bytes),
        (2 * MIB, 3 * MIB)
    );
}

#[test]
fn room_takes_nobodys_ring() {
    // The largest copy is 16 MiB of rings, the room and 8 MiB for the report.
    for mib in [72, 88, 96, 104, 128] {
        let mut bench = Bench::with_report_bytes(&format!("[memory]\nbudget-mib = {mib}"));
        bench.join(1, hello("com.example.a"));
        bench.foreground(1, true);
        bench.answer_all();
        let before = bench.rings(1);
        bench.said(1, needs(20));
        bench.handle(Event::Woke);
        assert_eq!(bench.rings(1), before, "{mib} MiB");
        let memory = bench.status().memory;
        assert!(memory.demand_bytes <= memory.budget_bytes, "{memory:?}");
    }
}

#[test]
fn two_apps_that_ask_for_all_leave_room_for_others() {
    let mut bench = Bench::with_report_bytes("");
    for connection in 1..=2 {
        bench.join(connection, hello("com.example.greedy"));
        bench.said(connection, needs(100_000));
    }
    bench.join(3, hello("com.example.notes"));
    assert_eq!(rooms(&bench.said(3, needs(60))), [(3, 60 * MIB)]);
}

/// docs/policy.md has the formula: 4 rings, the room and what a report needs, in the rings' part of the budget.
#[test]
fn the_budget_that_one_ring_needs_is_as_documented_and_the_status_tells() {
    for (mib, fits) in [(84, true), (83, false), (512, true), (16, false)] {
        let mut bench = Bench::with_report_bytes(&format!("[memory]\nbudget-mib = {mib}"));
        bench.join(1, hello("com.example.a"));
        bench.foreground(1, true);
        bench.answer_all();
        assert_eq!(bench.rings(1).0, u32::from(fits), "{mib} MiB");
        let told = bench.status().processes.first().map(|p| p.ring_fits);
        // With 16 MiB, not even a report without rings could be written: the process is refused.
        assert_eq!(told, Some(fits).filter(|_| mib != 16), "{mib} MiB");
    }
}

#[test]
fn what_others_give_back_goes_to_who_waits_those_in_the_foreground_first() {
    let mut bench = two_of_one_user();
    bench.said(1, needs(100));
    bench.said(2, needs(100));
    bench.join_as(3, 7, hello("com.example.c"));
    assert_eq!(bench.status().processes.len(), 2, "there is no room for it");
    bench.foreground(2, true);
    let given = rooms(&bench.handle(Event::Ended { connection: 1 }));
    let [(2, bytes)] = given[..] else {
        panic!("{given:?}");
    };
    assert!((15 * MIB..=16 * MIB).contains(&bytes), "{bytes}");
}

#[test]
fn a_larger_budget_and_other_users_are_heard_at_once() {
    let mut bench = two_of_one_user();
    bench.said(1, needs(30));
    let more = bench.set_policy("[memory]\nbudget-mib = 256\nuid-share = 50");
    assert_eq!(rooms(&more), [(1, 30 * MIB)]);
    let peer = Peer { pid: 9, uid: 8 };
    bench.handle(Event::Joined {
        connection: 9,
        peer,
        hello: hello("com.example.z"),
        crash: None,
    });
    assert_eq!(rooms(&bench.said(9, needs(20))), [(9, 20 * MIB)]);
}

#[test]
fn until_its_name_is_known_a_process_is_recorded_as_the_app_with_the_least() {
    let mut bench = Bench::of(
        "[reports]\nkilled = \"all\"\n[[record.override]]\npackage = \"com.example.bank\"\nenabled = false",
    );
    let joined = bench.join(1, hello("zygote64"));
    let [(1, first)] = configurations(&joined)[..] else {
        panic!("{joined:?}");
    };
    assert_eq!((first.categories, first.call_rings), (0, 0));
    assert_eq!(
        bench.said(1, trigger("slow-message", TriggerSeverity::Slow)),
        []
    );
    assert_eq!(bench.said(1, name("<pre-initialized>")), []);
    let named = bench.said(1, name("com.example.notes"));
    assert_ne!(configurations(&named)[0].1.categories, 0);
    assert!(bench.status().processes[0].is_named);

    bench.join(2, hello("zygote64"));
    assert_eq!(bench.said(2, name("com.example.bank")), []);
    let ended = bench.handle(Event::Ended { connection: 2 });
    assert_eq!(writes(&ended), []);
}

#[test]
fn without_parts_about_apps_a_process_is_recorded_from_its_start() {
    let mut bench = Bench::of("[reports]\nkilled = \"all\"");
    let joined = bench.join(1, hello("zygote64"));
    assert_ne!(configurations(&joined)[0].1.categories, 0);
    assert_eq!(bench.said(1, name("com.example.notes")), []);
    let ended = bench.handle(Event::Ended { connection: 1 });
    let Some(Action::Write { about, .. }) = ended.first() else {
        panic!("{ended:?}");
    };
    assert_eq!(about.process, "com.example.notes");
}

#[test]
fn an_old_runtime_says_all_that_it_may_need_and_is_given_nothing_more() {
    let mut bench = Bench::of("[memory]\nbudget-mib = 512\nuid-share = 50");
    let old = Hello {
        versions: (1, 1),
        other_bytes: 76 * MIB,
        ..hello("com.example.old")
    };
    let joined = bench.join(1, old);
    let welcome = FromService::Welcome { version: 1 };
    assert!(joined
        .iter()
        .any(|action| matches!(action, Action::Send { message, .. } if *message == welcome)));
    assert_eq!(bench.status().processes[0].other_bytes, 76 * MIB);
    bench.foreground(1, true);
    assert_eq!(bench.answer_all(), 0);
    assert_eq!(bench.rings(1), (1, 1));
}
