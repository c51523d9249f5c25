// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::protocol::{FromService, Hello};

use super::support::*;
use crate::engine::{Action, Connection, Event};

/// Who is refused by these actions, and whether anybody is welcome.
fn outcome(actions: &[Action]) -> (Vec<Connection>, bool) {
    let refused = actions.iter().filter_map(|action| match action {
        Action::Send {
            connection,
            message: FromService::Refused { .. },
        } => Some(*connection),
        _ => None,
    });
    let welcome = |action: &Action| {
        matches!(
            action,
            Action::Send {
                message: FromService::Welcome { .. },
                ..
            }
        )
    };
    (refused.collect(), actions.iter().any(welcome))
}

fn seen_and_left(bench: &mut Bench, connection: Connection) {
    bench.foreground(connection, true);
    bench.answer_all();
    bench.foreground(connection, false);
    bench.answer_all();
    bench.pass(20 * SECOND);
}

/// Two apps that the user saw and left, the first one longer ago, and no place for a third process.
fn full(lines: &str) -> Bench {
    let mut bench = Bench::of(&format!(
        "[memory]\nbudget-mib = 4096\nprocesses = 2\n{lines}"
    ));
    for connection in 1..=2 {
        bench.join(connection, hello(&format!("com.example.app{connection}")));
        seen_and_left(&mut bench, connection);
    }
    settle(&mut bench);
    bench
}

/// All give back what they no longer may have.
fn settle(bench: &mut Bench) {
    bench.pass(20 * SECOND);
    bench.handle(Event::Woke);
    bench.answer_all();
}

#[test]
fn the_process_that_was_seen_longest_ago_gives_way() {
    type Change = fn(&mut Bench);
    let background = "[[record.override]]\npackage = \"com.example.app1\"\nbackground = true";
    // What is different about the first one, and who gives way then.
    let cases: [(&str, &str, Change, Connection); 7] = [
        ("nothing", "", |_| {}, 1),
        (
            "in the foreground",
            "",
            |bench| {
                bench.foreground(1, true);
                bench.answer_all();
            },
            2,
        ),
        (
            "seen later",
            "",
            |bench| {
                seen_and_left(bench, 1);
                settle(bench);
            },
            2,
        ),
        (
            "just left",
            "",
            |bench| {
                bench.foreground(1, true);
                bench.foreground(1, false);
                bench.answer_all();
            },
            2,
        ),
        ("recorded in the background", background, |_| {}, 2),
        (
            "a report",
            "",
            |bench| {
                let actions = bench.said(1, slow());
                assert_eq!(actions, [take(1, 1)]);
            },
            2,
        ),
        (
            "not connected",
            "",
            |bench| {
                bench.handle(Event::Lost { connection: 1 });
            },
            2,
        ),
    ];
    for (what, lines, change, expected) in cases {
        let mut bench = full(lines);
        change(&mut bench);
        let actions = bench.join(3, hello("com.example.new"));
        assert_eq!(outcome(&actions), (vec![expected], true), "{what}");
        let [Action::Send { .. }, disconnect, forget, ..] = &actions[..] else {
            panic!("{what}: {actions:?}");
        };
        let connection = expected;
        assert_eq!(*disconnect, Action::Disconnect { connection }, "{what}");
        assert_eq!(*forget, Action::Forget { connection }, "{what}");
        assert_eq!(bench.status().processes.len(), 2, "{what}");
        assert!(bench.handle(ended(expected)).is_empty(), "it is forgotten");
    }
}

#[test]
fn processes_do_not_take_each_others_places_in_turns() {
    let mut bench = full("");
    let join = |bench: &mut Bench, connection| {
        let actions = bench.join(connection, hello("com.example.new"));
        outcome(&actions)
    };
    // Those that have just joined stay: the third one that comes at once is refused.
    assert_eq!(join(&mut bench, 3), (vec![1], true));
    assert_eq!(join(&mut bench, 4), (vec![2], true));
    assert_eq!(join(&mut bench, 5), (vec![5], false));
    bench.pass(10 * SECOND);
    // Both were never seen: the first one goes.
    assert_eq!(join(&mut bench, 6), (vec![3], true));
}

#[test]
fn processes_of_the_system_do_not_give_way() {
    let mut bench = Bench::of("[memory]\nbudget-mib = 4096\nprocesses = 1");
    bench.join_as(1, 1000, hello("system_server"));
    settle(&mut bench);
    let actions = bench.join(2, hello("com.example.new"));
    assert_eq!(outcome(&actions), (vec![2], false));
}

#[test]
fn only_a_process_whose_place_is_enough_gives_way() {
    // Half of 64 MiB is for all but rings of calls, and half of that for one user id.
    let lines = "[memory]\nbudget-mib = 64\nuid-share = 50\nprocesses-per-uid = 2";
    let hello = |mib| Hello {
        other_bytes: mib * MIB,
        ring_bytes: MIB,
        ..hello("com.example.notes")
    };
    // User ids and sizes of those that are there, of the one that comes; who is refused, whether that one is welcome.
    let cases = [
        // Places of the user id 2.
        (vec![(1, 2), (2, 2), (2, 2)], (2, 2), vec![2], true),
        // Both, and its share of the memory: the smaller one's place would not be enough.
        (vec![(1, 10), (2, 1), (2, 14)], (2, 2), vec![3], true),
        (vec![(1, 10), (2, 14)], (2, 2), vec![2], true),
        // All memory: the first one's place would be too small.
        (vec![(1, 1), (2, 15), (3, 15)], (4, 10), vec![2], true),
        // Two would have to give way: none does.
        (
            vec![(1, 8), (2, 8), (3, 8), (4, 7)],
            (5, 15),
            vec![5],
            false,
        ),
    ];
    for (there, (uid, mib), refused, is_welcome) in cases {
        let mut bench = Bench::of(lines);
        for (connection, (uid, mib)) in (1..).zip(&there) {
            let actions = bench.join_as(connection, 10_000 + uid, hello(*mib));
            assert_eq!(outcome(&actions), (vec![], true), "{there:?}");
            bench.answer_all();
        }
        settle(&mut bench);
        let connection = there.len() as u64 + 1;
        let actions = bench.join_as(connection, 10_000 + uid, hello(mib));
        assert_eq!(outcome(&actions), (refused, is_welcome), "{there:?}");
    }
}
