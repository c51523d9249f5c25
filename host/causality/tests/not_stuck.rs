// SPDX-License-Identifier: Apache-2.0
//! Threads that do not go on, and that nobody calls stuck: a server's that waits for work, and one of a program that starts. And
//! what is said of threads that a damaged file does not have.

mod common;

use common::stuck::*;
use common::{Logs, MS};
use hindsight_causality::diagnosis::StuckQuestion;
use hindsight_causality::story::{last_before, report, text, verdict, Block, Report};
use hindsight_causality::{Graph, Session};
use hindsight_decoder::{Damage, DamagedPart, Extension as E, Trace};

fn words(blocks: Vec<Block>) -> String {
    let words = blocks.into_iter().map(|b| match b {
        Block::Text(text) | Block::Strong(text) | Block::Item(text) => text,
        _ => String::new(),
    });
    words.collect::<Vec<_>>().join("\n")
}

fn chosen(report: &Report) -> (Option<bool>, String) {
    let chosen = report.chosen.map(|c| format!("{c:?}"));
    (report.stuck, chosen.unwrap_or_default())
}

fn is(stuck: bool, chosen: &str) -> (Option<bool>, String) {
    (Some(stuck), chosen.to_owned())
}

/// A server whose main thread waits until the end of the recording, after a wait for a lock of `lock_ms`.
fn server(lock_ms: u64) -> App {
    let mut server = App::new(200, "server");
    let holder = server.thread(201, "holder");
    server.script.at(holder, 5 * MS).event(E::UserMark, &[]);
    let mut r = server.script.at(server.main, 10 * MS);
    if lock_ms > 0 {
        lock_wait(&mut r, 1, 7, 201, 10 + lock_ms);
    }
    r.event(
        E::WaitBegin,
        &[("kind", OBJECT), ("number", 2), ("object", 0x55)],
    );
    server.script.stop_at(3_000 * MS);
    server
}

#[test]
fn a_main_thread_that_waits_for_work_is_not_stuck() {
    let logs = Logs::of(&[&server(0).script]);
    let report = logs.report();
    assert_eq!(chosen(&report), is(false, "Idle"));
    let said = words(text(&report));
    assert!(said.starts_with("No thread was stuck"), "{said}");
    assert!(said.contains("--thread") && said.contains("--at"), "{said}");
    // Who asks about the thread is told what it waits for.
    assert_eq!(chosen(&logs.report_of("server/main")), is(true, "Asked"));
    // A wait for a lock before is what somebody waited for.
    let locked = Logs::of(&[&server(300).script]).report();
    assert_eq!(chosen(&locked), is(true, "Longest"));
    assert!(locked.held_ns < 400 * MS, "{}", locked.held_ns);
    // A thread of another program that is stuck for a shorter time comes first.
    let mut app = App::new(100, "app");
    let draw = app.script.method("app.Draw.run", "()V");
    app.message((1, draw), 10, 210, |_| {});
    app.script.stop_at(3_000 * MS);
    let both = Logs::of(&[&server(0).script, &app.script]).report();
    assert_eq!(chosen(&both), is(true, "Longest"));
    assert_eq!(both.node.unwrap().what, "app.Draw");
}

/// Main is in its own code for 800 ms, and dispatches a message of 1 ms before that or after it.
fn start(message_ms: u64) -> Report {
    let mut app = App::new(100, "app");
    let handle = app.script.method("app.Screen.handle", "()V");
    if message_ms > 10 {
        let mut r = app.script.at(app.main, 10 * MS);
        r.event(E::UserMark, &[]);
    }
    app.message((1, handle), message_ms, message_ms + 1, |_| {});
    let mut r = app.script.at(app.main, (message_ms + 1).max(811) * MS);
    r.event(E::UserMark, &[]);
    app.script.stop_at(830 * MS);
    Logs::of(&[&app.script]).report()
}

#[test]
fn a_main_thread_that_starts_is_not_stuck() {
    let slow = start(810);
    assert_eq!(chosen(&slow), is(false, "Start"));
    let said = words(text(&slow));
    assert!(said.starts_with("No thread was stuck"), "{said}");
    assert!(said.contains("start"), "{said}");
    assert_eq!(chosen(&start(10)), is(true, "Longest"));
}

/// Main waits for a lock of thread 777, which the file does not have.
fn waits_for_absent(is_damaged: bool) -> String {
    let mut app = App::new(100, "app");
    let screen = app.script.method("app.Screen.handle", "()V");
    app.message((1, screen), 10, 1_000, |r| lock_wait(r, 1, 7, 777, 990));
    app.script.stop_at(1_100 * MS);
    let mut trace = Trace::decode("app".as_ref(), &app.script.encode()).unwrap();
    if is_damaged {
        trace.damaged.push(Damage {
            part: DamagedPart::Bytes { from: 1, to: 2 },
            reason: "they belong to no section".to_owned(),
        });
    }
    let session = Session::of(vec![("app.hindsight".into(), trace)]);
    let graph = Graph::build(&session).unwrap();
    let question = StuckQuestion::default();
    let found = hindsight_causality::diagnosis::diagnose(&session, &graph, &question);
    let report = report(&session, &graph, found.as_ref(), question.least_ns);
    words(verdict(&report))
}

#[test]
fn a_thread_that_a_damaged_file_does_not_have_may_have_been_recorded() {
    let whole = waits_for_absent(false);
    assert!(
        whole.contains("thread 777, which is not recorded"),
        "{whole}"
    );
    let damaged = waits_for_absent(true);
    assert!(
        damaged.contains("which is not in the part of the file that could be read"),
        "{damaged}"
    );
    assert!(!damaged.contains("larger rings"), "{damaged}");
    assert!(damaged.contains("Copy the file again"), "{damaged}");
}

/// Nothing is recorded at the time that is asked for: what was last before is said, not that events should be recorded.
#[test]
fn of_a_time_without_events_the_last_before_it_is_said() {
    let mut app = App::new(100, "app");
    let handle = app.script.method("app.Screen.handle", "()V");
    app.message((1, handle), 10, 210, |_| {});
    let mut later = App::new(200, "later");
    let mut r = later.script.at(later.main, 500 * MS);
    r.event(E::UserMark, &[]);
    let logs = Logs::of(&[&app.script, &later.script]);
    let at_ns = logs.session.trace(0).start_ns() + 390 * MS;
    let mut report = logs.ask(&StuckQuestion {
        at_ns: Some(at_ns),
        ..StuckQuestion::default()
    });
    assert_eq!((report.stuck, report.node.is_none()), (None, true));
    report.then = last_before(&logs.session, &logs.graph, None, at_ns);
    let said = words(text(&report));
    assert!(
        said.contains("message app.Screen, until 190 ms before"),
        "{said}"
    );
    assert!(!said.contains("events=all"), "{said}");
    let later = Some(logs.thread("later/main"));
    assert!(last_before(&logs.session, &logs.graph, later, at_ns).is_empty());
}
