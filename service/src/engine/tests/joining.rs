// SPDX-License-Identifier: Apache-2.0
use hindsight_trace_format::protocol::{FromService, Hello, TriggerSeverity};

use super::support::*;
use crate::engine::{Action, Event, Facts, Peer};
use crate::limits::Limiter;
use crate::policy::Policy;

fn refusal(actions: &[Action]) -> &str {
    match actions {
        [Action::Send {
            connection: sent,
            message: FromService::Refused { reason },
        }, Action::Disconnect { connection }, Action::Forget { .. }]
            if sent == connection =>
        {
            reason
        }
        _ => panic!("not refused: {actions:?}"),
    }
}

#[test]
fn a_process_is_welcome_and_told_how_to_record() {
    let mut bench = Bench::of("");
    let actions = bench.join(1, hello("com.example.notes"));
    let welcome = Action::Send {
        connection: 1,
        message: FromService::Welcome { version: 2 },
    };
    assert_eq!(actions[0], welcome);
    assert_eq!(configured(&actions), [(1, 0)]);
    assert_eq!(actions.len(), 2);
    let (_, configuration) = configurations(&actions)[0];
    let expected = bench.engine.policy().record.categories;
    assert_eq!(configuration.categories, expected);
    assert_ne!(configuration.categories, 0);
}

#[test]
fn processes_that_cannot_be_read_are_refused() {
    let good = || hello("com.example.notes");
    let cases: [(&str, Hello); 7] = [
        (
            "versions 1 to 2",
            Hello {
                versions: (3, 4),
                ..good()
            },
        ),
        (
            "versions 1 to 2",
            Hello {
                versions: (0, 0),
                ..good()
            },
        ),
        (
            "memory is of version 9",
            Hello {
                memory_version: 9,
                ..good()
            },
        ),
        (
            "rings of 0 bytes",
            Hello {
                ring_bytes: 0,
                ..good()
            },
        ),
        (
            "not possible",
            Hello {
                ring_bytes: u64::MAX,
                ..good()
            },
        ),
        (
            "not possible",
            Hello {
                other_bytes: u64::MAX,
                ..good()
            },
        ),
        (
            "budget",
            Hello {
                other_bytes: 1 << 36,
                ..good()
            },
        ),
    ];
    for (expected, hello) in cases {
        let mut bench = Bench::of("");
        let actions = bench.join(1, hello);
        assert!(refusal(&actions).contains(expected), "{actions:?}");
        assert!(bench.handle(ended(1)).is_empty(), "it is forgotten");
        assert!(bench.status().processes.is_empty());
    }
}

#[test]
fn a_process_that_comes_with_more_rings_than_there_are_gives_them_back() {
    // Without a service it recorded by its own configuration: as many as there are in all are believed.
    for (held, is_welcome) in [(0, true), (2, true), (3, false), (u32::MAX, false)] {
        let mut bench = Bench::of("");
        let actions = bench.join(
            1,
            Hello {
                held,
                ..hello("com.example.notes")
            },
        );
        assert_eq!(!configured(&actions).is_empty(), is_welcome, "{held}");
        if !is_welcome {
            refusal(&actions);
        }
    }
    let mut bench = Bench::of("");
    bench.join(
        1,
        Hello {
            held: 1,
            ..hello("com.example.notes")
        },
    );
    bench.held(1, 1);
    let actions = bench.join(
        2,
        Hello {
            held: 2,
            ..hello("com.example.maps")
        },
    );
    // Refused, it would record nothing.
    assert_eq!(configured(&actions), [(2, 1)]);
    assert_eq!(bench.rings(2), (1, 2));
    // Nobody gets one of them before it has answered.
    bench.join(3, hello("com.example.mail"));
    assert_eq!(configured(&bench.foreground(3, true)), [(1, 0)]);
    assert_eq!(configured(&bench.held(1, 0)), []);
    assert_eq!(configured(&bench.held(2, 1)), [(3, 1)]);
}

#[test]
fn a_process_that_held_more_rings_comes_back_after_a_restart_and_gives_them_back() {
    let facts = Facts {
        person: agreed(),
        is_restart: true,
        first_report: 1,
        ..Facts::default()
    };
    let mut bench = Bench::with(Policy::default(), Limiter::fresh("boot"), facts);
    let held = |held| Hello {
        held,
        ..hello("com.example.notes")
    };
    // A recording had given it 4 of them; the policy has 2 in all, and one for each process.
    let actions = bench.join(1, held(4));
    assert_eq!(configured(&actions), [(1, 1)]);
    assert_eq!(configured(&bench.join(2, held(1))), [(2, 1)]);
    assert_eq!((bench.rings(1), bench.rings(2)), ((1, 4), (1, 1)));
    bench.held(1, 1);
    assert_eq!(bench.rings(1), (1, 1));
    // The budget holds also then.
    refusal(&bench.join(3, held(100)));
}

/// It joins again and again, and never answers; its processes end, lose their connections, or are disconnected.
#[test]
fn an_app_that_says_it_has_rings_does_not_keep_others_from_having_any() {
    for (is_restart, leaves) in [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1)] {
        let facts = Facts {
            person: agreed(),
            is_restart,
            first_report: 1,
            ..Facts::default()
        };
        let mut bench = Bench::with(Policy::default(), Limiter::fresh("boot"), facts);
        let mut welcome = Vec::new();
        let mut victims = 0;
        for round in 0..20 {
            let mut connection = 1000 * (round + 1);
            for held in (1..=64).rev() {
                for mib in [64, 32, 8, 1] {
                    connection += 1;
                    let hello = Hello {
                        held,
                        ring_bytes: mib * MIB,
                        other_bytes: 4096,
                        ..hello("com.example.notes")
                    };
                    let actions = bench.join_as(connection, 666, hello);
                    if !configured(&actions).is_empty() {
                        welcome.push(connection);
                    }
                }
            }
            // The time for its answers is not over.
            bench.pass(9 * SECOND);
            bench.handle(Event::Woke);
            let seen = round + 1;
            bench.join_as(seen, 10_002, hello("com.example.maps"));
            bench.held(seen, 0);
            bench.foreground(seen, true);
            victims += u32::from(bench.rings(seen).0 == 0);
            for (_, report, ..) in writes(&bench.handle(ended(seen))) {
                bench.handle(kept(report));
            }
            for connection in welcome.iter().copied() {
                match leaves {
                    0 => bench.handle(ended(connection)),
                    1 => bench.handle(Event::Lost { connection }),
                    _ => Vec::new(),
                };
            }
        }
        assert!(!welcome.is_empty(), "{is_restart}: it may be honest");
        // Then it is not believed any more.
        assert!(victims <= 8, "{is_restart}, {leaves}: {victims} of 20");
    }
}

#[test]
fn after_a_restart_only_the_first_process_of_a_user_id_may_bring_a_ring_beyond_its_share() {
    let facts = Facts {
        person: agreed(),
        is_restart: true,
        first_report: 1,
        ..Facts::default()
    };
    let mut bench = Bench::with(Policy::default(), Limiter::fresh("boot"), facts);
    // Of the built-in 256 MiB for rings, a sixth is 42 MiB.
    let mut join = |connection, uid, mib| {
        let hello = Hello {
            held: 1,
            ring_bytes: mib * MIB,
            ..hello("com.example.notes")
        };
        !configured(&bench.join_as(connection, uid, hello)).is_empty()
    };
    assert!(join(1, 10_666, 44));
    assert!(!join(2, 10_666, 33));
    assert!(join(3, 10_002, 8), "another user id");
}

#[test]
fn a_process_has_its_rings_again_on_its_next_connection() {
    let mut bench = Bench::of("[memory]\ncall-rings = 4\nrings-per-process = 4");
    bench.join(1, hello("com.example.notes"));
    bench.answer_all();
    bench.foreground(1, true);
    assert_eq!(bench.rings(1), (4, 4));
    for connection in 2..9 {
        bench.handle(Event::Lost {
            connection: connection - 1,
        });
        let peer = Peer {
            pid: 101,
            uid: 10_001,
        };
        let hello = Hello {
            held: 4,
            is_foreground: true,
            ..hello("com.example.notes")
        };
        let actions = bench.handle(Event::Joined {
            connection,
            peer,
            hello,
            crash: None,
        });
        assert_eq!(configured(&actions), [(connection, 4)]);
    }
}

#[test]
fn a_process_that_says_it_took_rings_for_its_next_report_is_not_believed() {
    let mut bench = seen("");
    assert_eq!(bench.said(1, slow()), [take(1, 1)]);
    // It crashes while rings are taken: that is a second report.
    bench.said(1, trigger("uncaught-exception", TriggerSeverity::Fatal));
    bench.handle(Event::Lost { connection: 1 });
    let peer = Peer {
        pid: 101,
        uid: 10_001,
    };
    let mut back = |connection, taken| {
        bench.handle(Event::Joined {
            connection,
            peer,
            hello: Hello {
                held: 2,
                taken,
                ..hello("com.example.notes")
            },
            crash: None,
        })
    };
    // Nobody has told it to take rings for the second one: it gets them back before others are taken.
    let actions = back(2, 2);
    let takes = actions.iter().filter(|action| {
        let told = [release(2, 2), take(2, 1)];
        told.contains(action)
    });
    let takes: Vec<_> = takes.cloned().collect();
    assert_eq!(takes, [release(2, 2), take(2, 1)], "{actions:?}");
    assert!(writes(&actions).is_empty());
    // The first one it has taken.
    let actions = back(3, 1);
    assert_eq!(writes(&actions).len(), 1, "{actions:?}");
}

#[test]
fn a_user_cannot_take_all_places() {
    let mut bench = Bench::of("[memory]\nbudget-mib = 4096\nprocesses = 6\nprocesses-per-uid = 4");
    let mut join = |connection, uid| {
        let peer = Peer {
            pid: connection as u32,
            uid,
        };
        let hello = hello("com.example.notes");
        bench.handle(Event::Joined {
            connection,
            peer,
            hello,
            crash: None,
        })
    };
    for connection in 1..=4 {
        assert_eq!(configured(&join(connection, 666)).len(), 1);
    }
    assert!(refusal(&join(5, 666)).contains("processes-per-uid"));
    for connection in 6..=7 {
        assert_eq!(configured(&join(connection, 7)).len(), 1);
    }
    assert!(refusal(&join(8, 8)).contains("6 processes"));
}

#[test]
fn the_budget_leaves_room_for_rings_and_for_other_users() {
    // Half of 64 MiB is for events, and half of that for one user id.
    let mut bench = Bench::of("[memory]\nbudget-mib = 64\nuid-share = 50");
    let mut join = |connection, uid, mib| {
        let peer = Peer {
            pid: connection as u32,
            uid,
        };
        let other_bytes = mib * MIB;
        let hello = Hello {
            other_bytes,
            ring_bytes: MIB,
            ..hello("com.example.notes")
        };
        let actions = bench.handle(Event::Joined {
            connection,
            peer,
            hello,
            crash: None,
        });
        !configured(&actions).is_empty()
    };
    assert!(!join(1, 666, 17));
    assert!(join(2, 666, 10));
    assert!(!join(3, 666, 7));
    assert!(join(4, 7, 15));
    assert!(!join(5, 8, 15));
    assert!(join(6, 8, 6));
}

#[test]
fn a_process_has_one_connection() {
    let mut bench = Bench::of("");
    let peer = Peer {
        pid: 5,
        uid: 10_005,
    };
    let hello = || hello("com.example.notes");
    let join = |connection| Event::Joined {
        connection,
        peer,
        hello: hello(),
        crash: None,
    };
    bench.handle(join(1));
    let actions = bench.handle(join(2));
    assert_eq!(
        actions[..2],
        [Action::Disconnect { connection: 1 }, forget(1)]
    );
    bench.handle(Event::Lost { connection: 2 });
    let actions = bench.handle(join(3));
    assert_eq!(actions[0], forget(2));
    assert_eq!(bench.status().processes.len(), 1);
    assert!(bench.handle(join(3)).is_empty(), "a second hello");
}
