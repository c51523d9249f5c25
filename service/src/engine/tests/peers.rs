// SPDX-License-Identifier: Apache-2.0
//! Joint reports.

use hindsight_trace_format::protocol::{FromProcess, Hello, TriggerSeverity};
use hindsight_trace_format::shared::{Served, LONG_SERVING_NS};

use super::support::*;
use crate::engine::peers::may_join;
use crate::engine::{Action, Asked, Connection, Event, Outcome, Pressure, Service};

/// The process of this connection, with user id `uid`, has waited for the one of `server` for so long, and still does.
fn serving(bench: &Bench, server: Connection, client: Connection, uid: u32, ns: u64) -> Service {
    Service {
        connection: server,
        served: Served {
            pid: 100 + client as u32,
            uid,
            tid: 55,
            began_ns: bench.now_ns - ns,
            ended_ns: None,
        },
    }
}

/// The report of the first process is under way, and asks for its peers.
fn triggered(bench: &mut Bench) {
    assert_eq!(bench.said(1, slow()), [take(1, 1)]);
    assert_eq!(bench.looks, [(1, 1)]);
}

fn answer(bench: &mut Bench, services: Vec<Service>) -> Vec<Action> {
    bench.handle(Event::Serving {
        report: 1,
        connection: 1,
        services,
    })
}

/// Processes 1 to `most` of one user.
fn bench(lines: &str, most: Connection) -> Bench {
    let mut bench = Bench::of(lines);
    for connection in 1..=most {
        bench.join(connection, hello("com.example.notes"));
    }
    bench
}

fn group(actions: &[Action]) -> Vec<(u64, u64, String, TriggerSeverity, u32)> {
    let write = |action: &Action| match action {
        Action::Write { report, about, .. } => Some((
            *report,
            about.group,
            about.detector.clone(),
            about.severity,
            about.tid,
        )),
        _ => None,
    };
    actions.iter().filter_map(write).collect()
}

#[test]
fn a_process_that_another_one_waited_for_leaves_a_report_of_the_same_group() {
    let mut bench = bench("", 3);
    triggered(&mut bench);
    let services = vec![
        serving(&bench, 2, 1, 10_001, 2 * SECOND),
        // Another user id, a process that nobody asked about, and a short transaction.
        serving(&bench, 3, 1, 10_002, SECOND),
        serving(&bench, 3, 2, 10_003, SECOND),
        serving(&bench, 3, 1, 10_001, LONG_SERVING_NS - 1),
    ];
    assert_eq!(answer(&mut bench, services), [take(2, 2)]);
    let actions = bench.taken(1, 1);
    let expected = (1, 1, "slow-message".into(), TriggerSeverity::Slow, 7);
    assert_eq!(group(&actions), [expected]);
    bench.taken(2, 2);
    let actions = bench.handle(kept(1));
    let expected = (2, 1, "waited-for".into(), TriggerSeverity::Slow, 55);
    assert_eq!(group(&actions), [expected]);
    assert_eq!(bench.handle(kept(2)), [release(2, 2)]);
    // One of them was counted.
    assert_eq!(bench.status().limits.reports, 1);
    // A report of a peer asks for no peers of its own.
    assert_eq!(bench.looks, [(1, 1)]);
}

#[test]
fn the_first_report_of_a_group_counts_whatever_comes_of_it() {
    for (services, count) in [(vec![2], 1), (vec![], 0)] {
        let mut bench = bench("", 2);
        triggered(&mut bench);
        let serving = |server| serving(&bench, server, 1, 10_001, SECOND);
        let services = services.into_iter().map(serving).collect();
        answer(&mut bench, services);
        bench.taken(1, 1);
        let (report, is_kept) = (1, false);
        bench.handle(Event::Written { report, is_kept });
        assert_eq!(bench.status().limits.reports, count);
    }
}

#[test]
fn whom_a_peer_waited_for_is_a_peer() {
    let mut bench = bench("", 5);
    triggered(&mut bench);
    let services = vec![
        serving(&bench, 4, 3, 10_003, SECOND),
        serving(&bench, 3, 2, 10_002, SECOND),
        serving(&bench, 2, 1, 10_001, SECOND),
        serving(&bench, 1, 4, 10_004, SECOND),
        serving(&bench, 5, 4, 10_004, SECOND),
    ];
    let takes = answer(&mut bench, services);
    assert_eq!(takes, [take(2, 2), take(3, 3), take(4, 4)]);
}

#[test]
fn the_system_and_the_longest_waits_come_first() {
    let mut bench = bench("[reports]\npeers = 2", 3);
    bench.join_as(4, 1000, hello("system_server"));
    triggered(&mut bench);
    let services = vec![
        serving(&bench, 2, 1, 10_001, SECOND),
        serving(&bench, 3, 1, 10_001, 2 * SECOND),
        serving(&bench, 3, 1, 10_001, 3 * SECOND),
        serving(&bench, 4, 1, 10_001, SECOND),
    ];
    let takes = answer(&mut bench, services);
    // Reports are told in the order of their numbers.
    assert_eq!(takes, [take(4, 2), take(3, 3)]);
}

#[test]
fn waits_of_long_ago_do_not_count() {
    let cases = [(0, true), (9, true), (11, false)];
    for (ended_s, is_peer) in cases {
        let mut bench = bench("", 2);
        triggered(&mut bench);
        let mut service = serving(&bench, 2, 1, 10_001, 20 * SECOND);
        service.served.ended_ns = Some(bench.now_ns - ended_s * SECOND);
        let takes = answer(&mut bench, vec![service]);
        assert_eq!(takes == [take(2, 2)], is_peer, "{ended_s} s");
    }
    // An end that was not noted, or nothing that ever began.
    for (took_s, is_peer) in [(600, true), (601, false)] {
        let mut bench = bench("", 2);
        triggered(&mut bench);
        let service = serving(&bench, 2, 1, 10_001, took_s * SECOND);
        let takes = answer(&mut bench, vec![service]);
        assert_eq!(takes == [take(2, 2)], is_peer, "{took_s} s");
    }
    // What a process says may be anything.
    for (began_ns, ended_ns) in [(u64::MAX, None), (u64::MAX, Some(1)), (0, Some(1))] {
        let mut bench = bench("", 2);
        triggered(&mut bench);
        let mut service = serving(&bench, 2, 1, 10_001, SECOND);
        (service.served.began_ns, service.served.ended_ns) = (began_ns, ended_ns);
        assert_eq!(answer(&mut bench, vec![service]), []);
    }
}

#[test]
fn consent_policy_pressure_and_queue_hold_for_peers() {
    let none = "[[record.override]]\nuid = 10002\nconsent = \"none\"";
    let cases = [
        (none, Outcome::NotAllowed),
        ("[reports]\nqueue = 1", Outcome::QueueFull),
        ("", Outcome::Pressure),
    ];
    for (lines, expected) in cases {
        let mut bench = bench(lines, 2);
        triggered(&mut bench);
        if expected == Outcome::Pressure {
            bench.handle(Event::Pressure(Pressure::Full));
        }
        let services = vec![
            serving(&bench, 2, 1, 10_001, SECOND),
            serving(&bench, 2, 1, 10_001, 2 * SECOND),
        ];
        assert_eq!(answer(&mut bench, services), [], "{lines}");
        let outcomes = bench.status().reports;
        assert_eq!(outcomes.get(&expected), Some(&1), "{outcomes:?}");
    }
    let mut bench = bench("[reports]\npeers = 0", 2);
    bench.said(1, slow());
    assert_eq!(bench.looks, []);
}

#[test]
fn a_peer_is_of_the_same_android_user_or_of_the_system() {
    let cases = [
        (10_001, 10_002, true),
        (10_001, 1_010_001, false),
        (1_010_001, 10_001, false),
        (1_010_001, 1_010_002, true),
        (1_010_001, 1000, true),
        (10_001, 1_001_000, true),
        (1000, 10_001, true),
        (1000, 1_010_001, false),
        (u32::MAX, 10_001, false),
    ];
    for (uid, other, may) in cases {
        assert_eq!(may_join(uid, other), may, "{uid} and {other}");
    }
    let mut bench = bench("", 1);
    bench.join_as(2, 1_010_001, hello("com.example.work"));
    triggered(&mut bench);
    let services = vec![serving(&bench, 2, 1, 10_001, SECOND)];
    assert_eq!(answer(&mut bench, services), []);
}

#[test]
fn a_killed_process_has_peers() {
    let mut bench = seen("[reports]\nkilled = \"all\"");
    bench.join(2, hello("com.example.store"));
    let actions = bench.handle(ended(1));
    assert_eq!(writes(&actions).len(), 1);
    assert_eq!(bench.looks, [(1, 1)]);
    let services = vec![serving(&bench, 2, 1, 10_001, SECOND)];
    assert_eq!(answer(&mut bench, services), [take(2, 2)]);
    bench.taken(2, 2);
    let actions = bench.handle(kept(1));
    // Nothing happened to the other one.
    let expected = (2, 1, "waited-for".into(), TriggerSeverity::Stuck, 55);
    assert_eq!(group(&actions), [expected]);
}

#[test]
fn what_a_peer_finds_itself_says_more() {
    // With little memory the second snapshot waits.
    let mut bench = bench("", 2);
    triggered(&mut bench);
    bench
        .engine
        .handle(bench.now(), Event::Pressure(Pressure::None));
    let services = vec![serving(&bench, 2, 1, 10_001, SECOND)];
    assert_eq!(answer(&mut bench, services), [take(2, 2)]);
    bench.said(2, trigger("late-frames", TriggerSeverity::Requested));
    bench.taken(1, 1);
    bench.taken(2, 2);
    let actions = bench.handle(kept(1));
    let expected = (2, 1, "late-frames".into(), TriggerSeverity::Requested, 7);
    assert_eq!(group(&actions), [expected]);
}

#[test]
fn a_peer_that_is_killed_meanwhile_leaves_a_report_of_its_end() {
    for (is_seen, detector) in [(true, "killed"), (false, "waited-for")] {
        let mut bench = bench("", 2);
        bench.foreground(2, is_seen);
        bench.answer_all();
        triggered(&mut bench);
        let services = vec![serving(&bench, 2, 1, 10_001, SECOND)];
        assert_eq!(answer(&mut bench, services), [take(2, 2)]);
        let actions = bench.handle(ended(2));
        let found = group(&actions);
        assert_eq!((found.len(), found[0].2.as_str()), (1, detector));
        assert_eq!((found[0].0, found[0].1), (2, 1), "one report, of the group");
    }
}

#[test]
fn peers_leave_half_of_the_queue_to_what_happens_to_processes_themselves() {
    let mut bench = bench("[reports]\nqueue = 6", 5);
    triggered(&mut bench);
    let services = (2..=4).map(|server| serving(&bench, server, 1, 10_001, SECOND));
    let services = services.collect();
    assert_eq!(answer(&mut bench, services), [take(2, 2), take(3, 3)]);
    let outcomes = bench.status().reports;
    assert_eq!(outcomes.get(&Outcome::QueueFull), Some(&1));
    assert_eq!(bench.said(5, slow()), [take(5, 4)]);
}

#[test]
fn an_app_takes_one_place_of_a_group() {
    // What a process notes may be anything: as if it had served for the longest time.
    let mut bench = bench("[reports]\npeers = 3", 3);
    for connection in 4..=6 {
        bench.join_as(connection, 10_666, hello("com.example.hostile"));
    }
    // Another process of the app that waits.
    bench.join_as(7, 10_001, hello("com.example.notes"));
    triggered(&mut bench);
    let mut services: Vec<Service> = (4..=6)
        .map(|server| serving(&bench, server, 1, 10_001, 600 * SECOND))
        .collect();
    services.extend((2..=3).map(|server| serving(&bench, server, 1, 10_001, SECOND)));
    services.push(serving(&bench, 7, 1, 10_001, SECOND));
    // Nor by those that say they serve its processes.
    services.push(serving(&bench, 5, 4, 10_666, 600 * SECOND));
    let mut taken: Vec<u64> = Vec::new();
    for action in answer(&mut bench, services) {
        if let Action::Send { connection, .. } = action {
            taken.push(connection);
        }
    }
    assert_eq!(taken, [7, 4, 2], "the app itself first, then one of each");
}

#[test]
fn a_report_that_is_over_or_another_ones_has_no_peers() {
    let mut bench = bench("", 3);
    triggered(&mut bench);
    let services = |bench: &Bench| vec![serving(bench, 2, 1, 10_001, SECOND)];
    let wrong = Event::Serving {
        report: 1,
        connection: 3,
        services: services(&bench),
    };
    assert_eq!(bench.handle(wrong), []);
    bench.taken(1, 1);
    bench.handle(kept(1));
    let late = services(&bench);
    assert_eq!(answer(&mut bench, late), []);
}

#[test]
fn reports_of_one_request_are_a_group() {
    for severity in [TriggerSeverity::Slow, TriggerSeverity::Requested] {
        one_request_after(trigger("program", severity));
    }
}

/// One of the processes has a report under way for another reason.
fn one_request_after(trigger: FromProcess) {
    let mut bench = bench("", 3);
    bench.said(1, trigger);
    let what = Asked::Report {
        process: "com.example.notes".into(),
        reason: "why".into(),
    };
    bench.handle(Event::Asked { reply: 1, what });
    let mut groups = Vec::new();
    for (connection, report) in [(1, 1), (2, 3), (3, 4)] {
        groups.extend(group(&bench.taken(connection, report)));
    }
    // They are written one after the other.
    for report in [1, 3, 4, 2] {
        groups.extend(group(&bench.handle(kept(report))));
        bench.answer_all();
        groups.extend(group(&bench.taken(1, 2)));
    }
    groups.sort_unstable();
    let groups: Vec<(u64, u64)> = groups.iter().map(|g| (g.0, g.1)).collect();
    assert_eq!(groups, [(1, 1), (2, 2), (3, 2), (4, 2)]);
}

#[test]
fn a_process_that_has_nothing_does_not_hold_up_the_group() {
    let mut bench = bench("", 1);
    let small = Hello {
        ring_bytes: 0,
        ..hello("com.example.notes")
    };
    bench.join(2, small);
    triggered(&mut bench);
    let services = vec![serving(&bench, 2, 1, 10_001, SECOND)];
    answer(&mut bench, services);
    bench.handle(ended(2));
    let actions = bench.taken(1, 1);
    assert_eq!(group(&actions).len() + usize::from(actions.is_empty()), 1);
}
