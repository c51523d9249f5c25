// SPDX-License-Identifier: Apache-2.0
//! Scripted logs, one for each kind of stuck thread, with their answers.

mod common;

use common::stuck::*;
use common::{Logs, MS};
use hindsight_causality::diagnosis::{CircleKind, How, Kind, Role, StuckQuestion, TriggerKind};
use hindsight_causality::story::Report;
use hindsight_decoder::Extension as E;
use hindsight_testkit::{Recorder, ThreadIndex};

/// main waits for a lock of worker; worker waits for the reply of binder, of another process; binder waits for a lock of
/// database, which sleeps.
#[test]
fn a_chain_of_three_hops_over_two_processes_ends_at_who_slept() {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let task = app.script.method("app.Save.run", "()V");
    let worker = app.thread(101, "worker");
    let mut server = App::new(200, "server");
    let vacuum = server.script.method("server.Vacuum.run", "()V");
    let compact = server.script.method("server.Vacuum.compact", "()V");
    let stack = server.script.stack(&[(vacuum, 1), (compact, 2)]);
    let binder = server.thread(201, "binder");
    let database = server.thread(202, "database");
    app.message((1, screen), 10, 1_010, |r| {
        r.at(11 * MS);
        lock_wait(r, 1, 0x77, 101, 1_009);
    });
    let own = [("transaction", 9), ("code", 3)];
    let run = [("task", 5), ("class", task)];
    app.script
        .at(worker, 5 * MS)
        .event(E::TaskBegin, &run)
        .at(12 * MS)
        .event(E::BinderSend, &own)
        .at(1_005 * MS)
        .event(E::BinderReply, &own[..1])
        .at(1_008 * MS)
        .event(E::Released, &[("lock", 0x77), ("waiters", 1)])
        .event(E::TaskEnd, &run[..1]);
    app.script.stop_at(1_050 * MS);
    let mut r = server.script.at(binder, 13 * MS);
    r.event(E::BinderServe, &own).at(14 * MS);
    lock_wait(&mut r, 1, 0x88, 202, 1_002);
    r.at(1_003 * MS).event(E::BinderServed, &own[..1]);
    let job = [("task", 6), ("class", vacuum)];
    let mut r = server.script.at(database, 2 * MS);
    r.event(E::TaskBegin, &job).at(3 * MS);
    r.event(E::WaitBegin, &[("kind", SLEEP), ("number", 1)])
        .extension(E::Stack, &stack)
        .at(1_000 * MS)
        .event(
            E::WaitEnd,
            &[("kind", SLEEP), ("number", 1), ("result", TIMED_OUT)],
        )
        .extension(E::Stack, &stack)
        .at(1_001 * MS)
        .event(E::Released, &[("lock", 0x88), ("waiters", 1)])
        .event(E::TaskEnd, &job[..1]);
    server.script.stop_at(1_050 * MS);
    let report = Logs::of(&[&app.script, &server.script]).report();
    assert_eq!(report.kind, Some(Kind::Blocked));
    assert_eq!(
        chain(&report),
        [
            "main HeldLock worker",
            "worker Served binder",
            "binder HeldLock database"
        ]
    );
    assert_eq!(culprit(&report), ["database server.Vacuum.compact"]);
    let role = report.culprit.unwrap().role;
    assert!(
        matches!(
            role,
            Role::Waited {
                how: How::HeldLock,
                ..
            }
        ),
        "{role:?}"
    );
    // Without the server's file, nobody is named, and the text says what to record.
    let alone = Logs::of(&[&app.script]).report();
    assert_eq!((culprit(&alone), suspects(&alone)), (vec![], vec![]));
    let unknown = alone.unknown.unwrap();
    assert!(unknown.why.contains("transaction 3"), "{}", unknown.why);
    assert!(unknown.remedy[0].contains("serving process"));
}

/// Threads that wait for each other's locks for ever.
fn deadlock(threads: u64) -> Logs {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let others: Vec<ThreadIndex> = (1..threads)
        .map(|i| app.thread(100 + i as u32, &format!("t{i}")))
        .collect();
    let hold = |r: &mut Recorder<'_>, i: u64| {
        let owner = 100 + (i + 1) % threads;
        r.event(E::LockWait, &[("held by", owner), ("lock", 0x10 + i)])
            .event(
                E::WaitBegin,
                &[("kind", LOCK), ("number", 1), ("object", 0x10 + i)],
            );
    };
    let mut r = app.script.at(app.main, 10 * MS);
    r.event(E::MessageDispatched, &[("message", 1), ("class", screen)])
        .at(12 * MS);
    hold(&mut r, 0);
    for (i, &thread) in others.iter().enumerate() {
        hold(&mut app.script.at(thread, 11 * MS), i as u64 + 1);
    }
    app.script.stop_at(2_000 * MS);
    Logs::of(&[&app.script])
}

#[test]
fn a_deadlock_of_any_length_is_a_circle_and_recorded() {
    for threads in [2, 3, 12] {
        let report = deadlock(threads).report();
        assert_eq!(report.chain.len() as u64, threads);
        let culprit = report.culprit.unwrap();
        assert_eq!(culprit.threads.len() as u64, threads);
        let role = Role::Circle {
            circle: CircleKind::Deadlock,
            timeout_ns: 0,
        };
        assert_eq!(culprit.role, role);
    }
}

/// Nobody waited for a lock at the time that is asked for: the wait of another time is not the answer.
#[test]
fn a_time_is_not_answered_with_a_lock_wait_of_another_time() {
    let mut app = App::new(100, "app");
    let class = app.script.method("app.Screen.handle", "()V");
    let worker = app.thread(101, "worker");
    app.message((1, class), 10, 20, |_| {});
    app.message((2, class), 600, 610, |_| {});
    let mut r = app.script.at(worker, 500 * MS);
    lock_wait(&mut r, 1, 0x77, 100, 900);
    let logs = Logs::of(&[&app.script]);
    // The trace begins with its first event.
    let start_ns = logs.session.trace(0).start_ns();
    let at = |ms: u64| StuckQuestion {
        at_ns: Some(start_ns + (ms - 10) * MS),
        ..StuckQuestion::default()
    };
    let then = logs.ask(&at(15));
    let node = then.node.unwrap();
    assert_eq!(node.thread.thread, "main");
    assert_eq!(node.start_ns, start_ns);
    let during = logs.ask(&at(605)).node.unwrap();
    assert_eq!(during.thread.thread, "worker");
}

/// The browser's main thread waits 1,500 ms for an answer of the renderer's; that one waits for the browser's main thread.
#[test]
fn a_livelock_by_a_timeout_is_a_circle_with_one_inferred_step() {
    let mut browser = App::new(100, "browser");
    let key = browser.script.method("browser.Key.handle", "()V");
    let io = browser.thread(101, "io");
    let sync = browser.thread(102, "sync");
    let mut renderer = App::new(200, "renderer");
    let script = renderer.script.method("renderer.Script.handle", "()V");
    let timed = |r: &mut Recorder<'_>, number: u64, until_ms: u64, result: u64| {
        let begin = [
            ("kind", OBJECT),
            ("number", number),
            ("object", 0x55),
            ("timeout", 1_500 * MS),
        ];
        r.event(E::WaitBegin, &begin)
            .at(until_ms * MS)
            .event(E::WaitEnd, &[begin[0], begin[1], ("result", result)]);
    };
    // It went well: the renderer's message sends a transaction, and io, which serves it, wakes main.
    browser.message((1, key), 10, 31, |r| {
        r.at(11 * MS);
        timed(r, 1, 30, SIGNALLED);
    });
    let answer = [("transaction", 1), ("code", 7), ("one-way", 1)];
    renderer.message((1, script), 15, 22, |r| {
        r.at(20 * MS).event(E::BinderSend, &answer);
    });
    browser
        .script
        .at(io, 25 * MS)
        .event(E::BinderServe, &answer)
        .at(29 * MS)
        .event(E::Wakes, &[("thread", 100), ("wait", 1)])
        .event(E::BinderServed, &answer[..1]);
    // It does not: the renderer waits for help, which sync gives when main lets it.
    browser.message((2, key), 100, 1_610, |r| {
        r.at(101 * MS);
        timed(r, 2, 1_601, TIMED_OUT);
        r.at(1_602 * MS)
            .event(E::Wakes, &[("thread", 102), ("wait", 1)]);
    });
    let help = [("transaction", 2), ("code", 8)];
    renderer.message((2, script), 90, 1_620, |r| {
        r.at(95 * MS)
            .event(E::BinderSend, &help)
            .at(1_605 * MS)
            .event(E::BinderReply, &help[..1]);
    });
    let mut r = browser.script.at(sync, 96 * MS);
    r.event(E::BinderServe, &help);
    wait(&mut r, PARK, 1, 0x66, 1_603, SIGNALLED);
    r.event(E::BinderServed, &help[..1]);
    browser.script.stop_at(1_700 * MS);
    renderer.script.stop_at(1_700 * MS);
    let logs = Logs::of(&[&browser.script, &renderer.script]);
    let report = logs.report_of("browser/main");
    assert_eq!(
        chain(&report),
        [
            "main EndedBefore? main",
            "main Served sync",
            "sync EndedWait main"
        ]
    );
    assert_eq!(culprit(&report), [""; 0]);
    let suspect = report.suspect.as_ref().unwrap();
    let role = Role::Circle {
        circle: CircleKind::Livelock,
        timeout_ns: 1_500 * MS,
    };
    assert_eq!(suspect.role, role);
    let of = |i: usize| suspect.threads[i].thread.process.clone();
    assert_eq!((of(0), of(1)), ("browser".into(), "renderer".into()));
    assert_eq!(report.similar_count, 1);
    // From the other side, too.
    let other = logs.report_of("renderer/main");
    assert_eq!(other.suspect.unwrap().threads.len(), 3);
}

/// Main looks at a flag 60 times, asleep in between. `read` tells whether reads are recorded.
fn yield_loop(read: bool, record: impl FnOnce(&mut App, u64)) -> Report {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let flag = app.script.string("State.done");
    let of = move |r: &mut Recorder<'_>, count: u64| {
        for i in 0..count {
            if read {
                r.event(E::FieldRead, &[("name", flag), ("object", 3)]);
            }
            r.event(E::WaitBegin, &[("kind", SLEEP), ("number", i)])
                .after(20 * MS)
                .event(
                    E::WaitEnd,
                    &[("kind", SLEEP), ("number", i), ("result", TIMED_OUT)],
                );
        }
    };
    app.message((1, screen), 10, 60, |r| of(r, 2));
    app.message((2, screen), 100, 1_310, |r| of(r, 60));
    app.script.stop_at(1_400 * MS);
    record(&mut app, flag);
    Logs::of(&[&app.script]).report()
}

#[test]
fn of_a_yield_loop_on_a_flag_it_is_said_who_should_have_written_it() {
    let report = yield_loop(true, |app, flag| {
        let notify = app.thread(101, "notify");
        let other = app.thread(102, "other");
        let job = app.script.method("app.Index.run", "()V");
        let run = [("task", 5), ("class", job)];
        app.script
            .at(other, 70 * MS)
            .event(E::TaskBegin, &run)
            .at(1_350 * MS)
            .event(E::Released, &[("lock", 0x77), ("waiters", 1)])
            .event(E::TaskEnd, &run[..1]);
        let mut r = app.script.at(notify, 50 * MS);
        r.event(E::FieldWritten, &[("name", flag), ("object", 3)])
            .at(80 * MS);
        lock_wait(&mut r, 1, 0x77, 102, 1_352);
    });
    assert_eq!(report.kind, Some(Kind::Yield));
    assert_eq!(report.pauses, 60);
    assert_eq!(report.fields[0].field, "State.done");
    assert_eq!(
        chain(&report),
        ["main WroteField? notify", "notify HeldLock other"]
    );
    assert_eq!(
        (culprit(&report), suspects(&report)),
        (vec![], vec!["other".to_owned()])
    );
}

/// Main asks a flag until "notify" writes it; the last time that does not happen, because it sleeps. `seen`: the loops that end do
/// so after they have read what it wrote.
fn flags(loops: u64, seen: bool) -> Report {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let flag = app.script.string("State.done");
    let notify = app.thread(101, "notify");
    let field = [("name", flag), ("object", 3)];
    let pause = |r: &mut Recorder<'_>, i: u64| {
        let sleep = [("kind", SLEEP), ("number", i), ("result", TIMED_OUT)];
        // It looks at it several times between two pauses.
        for _ in 0..3 {
            r.event(E::FieldRead, &field);
        }
        r.event(E::WaitBegin, &sleep[..2])
            .after(20 * MS)
            .event(E::WaitEnd, &sleep);
    };
    for n in 1..=loops {
        app.message((n, screen), 100 * n, 100 * n + 50, |r| {
            r.event(E::FieldWritten, &field);
            (0..2).for_each(|i| pause(r, i));
            if seen {
                r.event(E::FieldRead, &field);
            }
        });
        (app.script.at(notify, (100 * n + 30) * MS)).event(E::FieldWritten, &field);
    }
    app.message((90, screen), 900, 2_110, |r| {
        r.event(E::FieldWritten, &field);
        (0..60).for_each(|i| pause(r, i));
    });
    let job = app.script.method("app.Job.run", "()V");
    let run = [("task", 5), ("class", job)];
    let mut r = app.script.at(notify, 860 * MS);
    r.event(E::TaskBegin, &run);
    wait(&mut r, SLEEP, 1, 0, 2_150, TIMED_OUT);
    r.event(E::TaskEnd, &run[..1]);
    app.script.stop_at(2_200 * MS);
    Logs::of(&[&app.script]).report()
}

#[test]
fn who_ended_all_earlier_loops_by_writing_the_field_is_a_recorded_fact() {
    let report = flags(2, true);
    assert_eq!(chain(&report), ["main WroteField notify"]);
    assert_eq!(culprit(&report), ["notify app.Job"]);
    for (loops, seen) in [(1, true), (2, false)] {
        let report = flags(loops, seen);
        assert_eq!(chain(&report), ["main WroteField? notify"]);
        assert_eq!(culprit(&report), [""; 0]);
        assert_eq!(suspects(&report), ["notify"]);
    }
}

#[test]
fn a_flag_that_is_written_late_is_a_recorded_cause() {
    let report = yield_loop(true, |app, flag| {
        let notify = app.thread(101, "notify");
        let job = app.script.method("app.Load.run", "()V");
        let run = [("task", 5), ("class", job)];
        let mut r = app.script.at(notify, 70 * MS);
        r.event(E::TaskBegin, &run);
        cpu(&mut r, 1);
        r.at(1_280 * MS)
            .event(E::FieldWritten, &[("name", flag), ("object", 3)])
            .event(E::TaskEnd, &run[..1]);
        cpu(&mut r, 1_201);
    });
    assert_eq!(chain(&report), ["main WroteField notify"]);
    assert_eq!(culprit(&report), ["notify app.Load"]);
}

#[test]
fn of_a_yield_loop_without_fields_the_next_step_is_said() {
    let report = yield_loop(false, |_, _| ());
    assert_eq!(report.kind, Some(Kind::Yield));
    assert_eq!((culprit(&report), suspects(&report)), (vec![], vec![]));
    let remedy = report.unknown.unwrap().remedy.join(" ");
    assert!(
        remedy.contains("hindsight watch --lab SOCKET CLASS.FIELD"),
        "{remedy}"
    );
}

/// Main asks a daemon, and waits for the reply; the daemon's thread computes.
#[test]
fn a_synchronous_call_ends_at_the_daemon_that_computed() {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let mut daemon = App::new(200, "authd");
    let check = daemon.script.method("authd.Rights.check", "()V");
    let stack = daemon.script.stack(&[(check, 2)]);
    let worker = daemon.thread(201, "worker");
    let own = [("transaction", 9), ("code", 2)];
    app.message((1, screen), 10, 1_200, |r| {
        r.at(11 * MS)
            .event(E::BinderSend, &own)
            .at(1_190 * MS)
            .event(E::BinderReply, &own[..1]);
    });
    let mut r = daemon.script.at(worker, 12 * MS);
    r.event(E::BinderServe, &own);
    cpu(&mut r, 1);
    r.extension(E::Stack, &stack)
        .at(1_180 * MS)
        .extension(E::Stack, &stack);
    cpu(&mut r, 1_160);
    r.event(E::BinderServed, &own[..1]);
    app.script.stop_at(1_300 * MS);
    daemon.script.stop_at(1_300 * MS);
    let report = Logs::of(&[&app.script, &daemon.script]).report();
    assert_eq!(chain(&report), ["main Served worker"]);
    assert_eq!(culprit(&report), ["worker authd.Rights.check"]);
}

/// Main computes for 1.6 s in a message that `record` sent.
fn busy(record: impl FnOnce(&mut App)) -> Report {
    let mut app = App::new(100, "app");
    let parse = app.script.method("app.Parse.run", "()V");
    record(&mut app);
    app.message((9, parse), 500, 2_100, |r| {
        cpu(r, 10);
        r.at(2_099 * MS);
        cpu(r, 1_590);
    });
    app.script.stop_at(2_200 * MS);
    Logs::of(&[&app.script]).report()
}

#[test]
fn a_busy_thread_is_said_to_compute_and_what_began_it() {
    let enqueue = |delay: u64| [("message", 9), ("for thread", 100), ("delay", delay)];
    let posted = busy(|app| {
        let user = app.thread(101, "user");
        let mut r = app.script.at(user, 499 * MS);
        r.event(E::MessageEnqueued, &enqueue(0));
    });
    assert_eq!(posted.kind, Some(Kind::Busy));
    assert_eq!(culprit(&posted), ["main app.Parse"]);
    assert_eq!(posted.culprit.unwrap().role, Role::ItselfComputed);
    let trigger = posted.trigger.unwrap();
    assert_eq!(
        (trigger.kind, trigger.from.thread.as_str()),
        (TriggerKind::Message, "user")
    );
    let timer = busy(|app| {
        let class = app.script.method("app.Window.handle", "()V");
        app.message((8, class), 100, 110, |r| {
            r.at(105 * MS).event(E::MessageEnqueued, &enqueue(390));
        });
    });
    let trigger = timer.trigger.unwrap();
    assert_eq!(
        (trigger.kind, trigger.work.unwrap().what.as_str()),
        (TriggerKind::Timer, "app.Window")
    );
    let file = busy(|app| {
        let class = app
            .script
            .method("android.os.FileObserver$ObserverThread.run", "()V");
        let observer = app.thread(101, "FileObserver");
        let mut r = app.script.at(observer, 100 * MS);
        r.event(E::TaskBegin, &[("task", 1), ("class", class), ("kind", 1)])
            .at(499 * MS)
            .event(E::MessageEnqueued, &enqueue(0));
    });
    assert_eq!(file.trigger.unwrap().kind, TriggerKind::File);
}

#[test]
fn what_is_not_recorded_is_unknown_with_a_reason() {
    let of = |record: &dyn Fn(&mut App, u64)| {
        let mut app = App::new(100, "app");
        let screen = app.script.method("app.Screen.handle", "()V");
        record(&mut app, screen);
        app.script.stop_at(1_100 * MS);
        let report = Logs::of(&[&app.script]).report();
        assert_eq!((culprit(&report), suspects(&report)), (vec![], vec![]));
        report.unknown.unwrap().why
    };
    // The owner is not in the file.
    let absent = of(&|app, screen| {
        app.message((1, screen), 10, 1_000, |r| lock_wait(r, 1, 7, 777, 990));
    });
    assert!(absent.contains("thread 777"), "{absent}");
    // Nothing ended the wait.
    let nobody = of(&|app, screen| {
        app.message((1, screen), 10, 1_000, |r| {
            wait(r, OBJECT, 1, 5, 990, TIMED_OUT)
        });
    });
    assert!(nobody.contains("nothing ended"), "{nobody}");
    // The lock changed hands, and who had it is not recorded.
    let changed = of(&|app, screen| {
        let other = app.thread(101, "other");
        app.script.at(other, 1_095 * MS).event(E::UserMark, &[]);
        let first = app.script.at(other, MS).now();
        assert_eq!(first, MS);
        app.message((1, screen), 10, 1_000, |r| lock_wait(r, 1, 7, 101, 990));
    });
    assert!(!changed.is_empty());
}

/// The kernel counts `sched_yield` as if the processor had been taken: without a stack, a yield loop is not told from a thread
/// that computes on a busy machine.
#[test]
fn without_a_stack_a_thread_that_lost_its_processor_is_not_said_to_compute() {
    let of = |method: Option<&str>| {
        let mut app = App::new(100, "app");
        let screen = app.script.method("app.Screen.handle", "()V");
        let stack = method.map(|name| {
            let run = app.script.method("app.Screen.run", "()V");
            let innermost = app.script.method(name, "()V");
            app.script.stack(&[(run, 1), (innermost, 2)])
        });
        app.message((1, screen), 10, 1_510, |r| {
            cpu(r, 1);
            r.event(E::ResourceUse, &[("involuntary switches", 2)]);
            for at_ms in [20, 1_500] {
                r.at(at_ms * MS);
                if let Some(stack) = stack {
                    r.extension(E::Stack, &stack);
                }
            }
            cpu(r, 6);
            r.event(E::ResourceUse, &[("involuntary switches", 65)]);
        });
        app.script.stop_at(1_600 * MS);
        let report = Logs::of(&[&app.script]).report();
        (report.kind, culprit(&report))
    };
    assert_eq!(of(None), (Some(Kind::Unknown), vec![]));
    assert_eq!(
        of(Some("java.lang.Thread.yield")),
        (Some(Kind::Yield), vec![])
    );
    let computed = vec!["main app.Parser.next".to_owned()];
    assert_eq!(of(Some("app.Parser.next")), (Some(Kind::Busy), computed));
}

/// Messages of classes without names are not held to be the same.
#[test]
fn messages_of_classes_without_names_are_not_alike() {
    let of = |named: bool| {
        let mut app = App::new(100, "app");
        let first = app.script.method("app.First.handle", "()V");
        let second = app.script.method("app.Second.handle", "()V");
        app.message((1, first), 10, 20, |_| {});
        app.message((2, second), 30, 40, |_| {});
        app.message((3, first), 500, 1_510, |_| {});
        app.script.stop_at(1_600 * MS);
        if !named {
            app.script.symbols.clear();
        }
        Logs::of(&[&app.script]).report().similar_count
    };
    assert_eq!((of(true), of(false)), (1, 1));
}

#[test]
fn a_thread_that_waits_for_work_is_followed_to_who_sent_it_late() {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let load = app.script.method("app.Load.run", "()V");
    let plan = app.script.method("app.Plan.run", "()V");
    let pool = app.thread(101, "pool");
    let planner = app.thread(102, "planner");
    app.message((1, screen), 10, 1_000, |r| {
        r.at(11 * MS);
        wait(r, PARK, 1, 5, 990, SIGNALLED);
    });
    let own = [("task", 4), ("class", load)];
    let mut r = app.script.at(pool, MS);
    wait(&mut r, PARK, 1, 9, 960, SIGNALLED);
    r.event(E::TaskBegin, &own)
        .at(985 * MS)
        .event(E::Wakes, &[("thread", 100), ("wait", 1)])
        .event(E::TaskEnd, &own[..1]);
    let job = [("task", 6), ("class", plan)];
    let mut r = app.script.at(planner, 2 * MS);
    r.event(E::TaskBegin, &job);
    cpu(&mut r, 1);
    r.at(955 * MS)
        .event(E::TaskSubmitted, &own)
        .event(E::Wakes, &[("thread", 101), ("wait", 1)])
        .event(E::TaskEnd, &job[..1]);
    cpu(&mut r, 940);
    app.script.stop_at(1_100 * MS);
    let report = Logs::of(&[&app.script]).report();
    assert_eq!(
        chain(&report),
        ["main EndedWait pool", "pool SentWork planner"]
    );
    assert_eq!(culprit(&report), ["planner app.Plan"]);
}

/// Main waits for a lock of `starter`, which starts a thread and waits for it until its time is over.
fn started(record: impl FnOnce(&mut App, ThreadIndex)) -> Report {
    const THREAD: u64 = 1;
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    let job = app.script.method("app.Job.run", "()V");
    let (starter, job_thread) = (app.thread(101, "starter"), app.thread(102, "job"));
    app.message((1, screen), 10, 700, |r| {
        r.at(11 * MS);
        lock_wait(r, 1, 0x41, 101, 650);
    });
    let life = [("task", 9), ("class", job), ("kind", THREAD)];
    let mut r = app.script.at(starter, 5 * MS);
    r.event(E::TaskSubmitted, &life).at(12 * MS);
    wait(&mut r, PARK, 1, 0x55, 640, TIMED_OUT);
    r.at(649 * MS)
        .event(E::Released, &[("lock", 0x41), ("waiters", 1)]);
    let mut r = app.script.at(job_thread, 6 * MS);
    r.event(E::TaskBegin, &life);
    record(&mut app, job_thread);
    app.script.stop_at(800 * MS);
    Logs::of(&[&app.script]).report()
}

#[test]
fn who_starts_a_thread_and_waits_in_vain_waits_for_that_thread() {
    let late = started(|app, job| {
        let mut r = app.script.at(job, 7 * MS);
        cpu(&mut r, 0);
        r.at(645 * MS);
        cpu(&mut r, 638);
        r.event(E::Wakes, &[("thread", 101), ("wait", 0)]);
    });
    let hops = ["main HeldLock starter", "starter WasGivenWork? job"];
    assert_eq!(chain(&late), hops);
    assert_eq!(suspects(&late), ["job"]);
    let circle = started(|app, job| {
        let mut r = app.script.at(job, 8 * MS);
        lock_wait(&mut r, 1, 0x41, 101, 655);
    });
    assert_eq!(chain(&circle)[..2], hops);
    assert_eq!(suspects(&circle), ["starter", "job"]);
}
