// SPDX-License-Identifier: Apache-2.0
//! Where waits may be missing from a file, a thread that used little CPU time is not said to have waited for no other one.

mod common;

use common::stuck::*;
use common::{Logs, MS};
use hindsight_causality::diagnosis::{Kind, StuckQuestion};
use hindsight_causality::story::{report, text, verdict, Block, Report};
use hindsight_causality::{Graph, Session};
use hindsight_decoder::{Damage, DamagedPart, Extension as E, Trace};

/// Main is in a message for 1 s with 2 ms of CPU time, and no wait of it is in the file. `others_wait`: of another thread there
/// is one. `damaged`: main's ring is.
fn hardly_ran(others_wait: bool, damaged: bool) -> Report {
    let mut app = App::new(100, "app");
    let find = app.script.method("app.Store.find", "()V");
    let stack = app.script.stack(&[(find, 1)]);
    app.message((1, find), 10, 1_010, |r| {
        cpu(r, 1);
        r.extension(E::Stack, &stack).at(1_008 * MS);
        r.extension(E::Stack, &stack);
        cpu(r, 3);
    });
    let other = app.thread(101, "other");
    let mut r = app.script.at(other, 10 * MS);
    if others_wait {
        wait(&mut r, PARK, 1, 0x55, 20, SIGNALLED);
    }
    app.script.stop_at(1_050 * MS);
    let mut trace = Trace::decode("app".as_ref(), &app.script.encode()).unwrap();
    if damaged {
        let main = trace.threads.iter().find(|t| t.name == "main").unwrap();
        trace.damaged.push(Damage {
            part: DamagedPart::Ring {
                thread: main.key,
                tid: Some(main.tid),
                name: Some(main.name.clone()),
                kept_slots: main.stats.slots,
                slots: Some(main.stats.slots),
            },
            reason: "a byte of it has changed".to_owned(),
        });
    }
    let session = Session::of(vec![("app.hindsight".into(), trace)]);
    let graph = Graph::build(&session).unwrap();
    let question = StuckQuestion::default();
    let found = hindsight_causality::diagnosis::diagnose(&session, &graph, &question);
    report(&session, &graph, found.as_ref(), question.least_ns)
}

fn words(blocks: Vec<Block>) -> String {
    let words = blocks.into_iter().map(|b| match b {
        Block::Text(text) | Block::Strong(text) | Block::Item(text) => text,
        _ => String::new(),
    });
    words.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_thread_whose_ring_is_damaged_is_not_to_blame_for_a_wait_that_may_be_missing() {
    let whole = hardly_ran(true, false);
    assert_eq!(whole.kind, Some(Kind::Outside));
    assert_eq!(culprit(&whole), ["main app.Store.find"]);
    let damaged = hardly_ran(true, true);
    assert_eq!(damaged.kind, Some(Kind::Unknown));
    assert!(damaged.culprit.is_none() && damaged.suspect.is_none());
    assert!(words(verdict(&damaged)).contains("its ring is damaged"));
    assert!(words(text(&damaged)).contains("in the part of its ring that can be read"));
}

#[test]
fn without_recorded_waits_nobody_is_said_to_have_waited_for_nothing() {
    let report = hardly_ran(false, false);
    assert_eq!(report.kind, Some(Kind::Unknown));
    assert!(report.culprit.is_none() && report.suspect.is_none());
    assert!(words(verdict(&report)).contains("no waits of its process are recorded"));
    assert!(!words(text(&report)).contains("waited 0 ns"));
}

/// A thread that was ready to run all the time, without a stack: what is recorded already is not asked for.
#[test]
fn what_is_recorded_is_not_asked_for() {
    let mut app = App::new(100, "app");
    let draw = app.script.method("app.Draw.run", "()V");
    app.message((1, draw), 10, 1_510, |r| {
        cpu(r, 1);
        r.event(E::ResourceUse, &[("involuntary switches", 2)]);
        r.at(1_500 * MS);
        cpu(r, 6);
        r.event(E::ResourceUse, &[("involuntary switches", 65)]);
    });
    app.script.stop_at(1_600 * MS);
    let report = Logs::of(&[&app.script]).report();
    let words = words(verdict(&report));
    assert!(
        words.contains("the processor was taken from it 63 times"),
        "{words}"
    );
    assert!(!words.contains("Record waits, CPU time"), "{words}");
}

/// A main thread that waits without end in its own code may be a server's: the text says so.
#[test]
fn a_wait_outside_of_work_may_be_one_for_work() {
    let of = |in_work: bool| {
        let mut app = App::new(100, "app");
        let run = app.script.method("app.Serve.run", "()V");
        let mut r = app.script.at(app.main, 10 * MS);
        if in_work {
            r.event(E::MessageDispatched, &[("message", 1), ("class", run)]);
        }
        r.event(
            E::WaitBegin,
            &[("kind", OBJECT), ("number", 1), ("object", 0x55)],
        );
        app.script.stop_at(1_050 * MS);
        words(verdict(&Logs::of(&[&app.script]).report_of("app/main")))
    };
    assert!(of(false).contains("it may wait for work"), "{}", of(false));
    assert!(!of(true).contains("it may wait for work"), "{}", of(true));
}

/// A thread that hardly had a processor: most of the time is not its code's.
#[test]
fn of_a_thread_without_a_processor_the_load_is_named() {
    let mut app = App::new(100, "app");
    let draw = app.script.method("app.Draw.run", "()V");
    let stack = app.script.stack(&[(draw, 1)]);
    app.message((1, draw), 10, 1_510, |r| {
        cpu(r, 1);
        r.event(E::ResourceUse, &[("involuntary switches", 2)]);
        r.extension(E::Stack, &stack).at(1_500 * MS);
        r.extension(E::Stack, &stack);
        cpu(r, 101);
        r.event(E::ResourceUse, &[("involuntary switches", 65)]);
    });
    app.script.stop_at(1_600 * MS);
    let report = Logs::of(&[&app.script]).report();
    assert_eq!(culprit(&report), ["main app.Draw.run"]);
    assert!(words(verdict(&report)).contains("Its code used 100 ms of the 1.50 s"));
}
