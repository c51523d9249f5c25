// SPDX-License-Identifier: Apache-2.0
//! Logs whose shape makes simple algorithms take the square of their length.

use hindsight_causality::transactions::{Paths, Transactions};
use hindsight_causality::{DropReason, Graph, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::{Script, ThreadIndex};

mod shapes;

use shapes::{ask, SHAPES};

/// Large enough that the square of it takes minutes.
const MANY: u64 = 30_000;

fn all_paths(script: &Script) -> usize {
    let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
    let session = Session::of(vec![("t".into(), trace)]);
    let graph = Graph::build(&session).unwrap();
    let found = Transactions::find(&session, &graph);
    let paths = Paths::new(&session, &graph, &found);
    for (id, _) in found.iter() {
        let path = paths.path(id).unwrap();
        assert_eq!(path.shares().total(), path.duration_ns());
    }
    found.len()
}

fn wait(s: &mut Script, thread: ThreadIndex, at: u64, number: u64, ends: bool) {
    let wait = [("kind", 3), ("number", number)];
    let kind = if ends {
        Extension::WaitEnd
    } else {
        Extension::WaitBegin
    };
    s.at(thread, at).event(kind, &wait);
}

/// One message waits for one task, again and again: the path goes from thread to thread.
#[test]
fn a_message_that_waits_very_often() {
    let mut s = Script::new("p");
    let class = s.method("a.Screen.handleMessage", "()V");
    let (main, pool) = (s.thread(1, "main"), s.thread(2, "pool"));
    s.at(main, 0)
        .event(
            Extension::MessageDispatched,
            &[("message", 1), ("class", class)],
        )
        .event(Extension::TaskSubmitted, &[("task", 7), ("class", class)]);
    s.at(pool, 5)
        .event(Extension::TaskBegin, &[("task", 7), ("class", class)]);
    for i in 0..MANY {
        let at = 10 + 100 * i;
        wait(&mut s, main, at, i + 1, false);
        s.at(pool, at + 10)
            .event(Extension::Wakes, &[("thread", 1), ("wait", i + 1)]);
        wait(&mut s, pool, at + 11, i + 1, false);
        wait(&mut s, main, at + 20, i + 1, true);
        s.at(main, at + 30)
            .event(Extension::Wakes, &[("thread", 2), ("wait", i + 1)]);
        wait(&mut s, pool, at + 40, i + 1, true);
    }
    assert_eq!(all_paths(&s), 1);
}

/// Each message is pending for as long as it takes to dispatch all messages before it.
#[test]
fn a_queue_that_is_very_long() {
    let mut s = Script::new("p");
    let class = s.method("a.Screen.handleMessage", "()V");
    let (main, other) = (s.thread(1, "main"), s.thread(2, "other"));
    for i in 0..MANY {
        s.at(other, i).event(
            Extension::MessageEnqueued,
            &[("message", i + 1), ("for thread", 1)],
        );
    }
    for i in 0..MANY {
        let at = MANY + 100 * i;
        s.at(main, at)
            .event(
                Extension::MessageDispatched,
                &[("message", i + 1), ("class", class)],
            )
            .after(50)
            .event(Extension::MessageDone, &[("message", i + 1)]);
        wait(&mut s, main, at + 60, i + 1, false);
        wait(&mut s, main, at + 90, i + 1, true);
    }
    assert_eq!(all_paths(&s), MANY as usize);
}

/// A node with many marks and many effects.
#[test]
fn a_stretch_of_code_with_very_many_marks() {
    let mut s = Script::new("p");
    let class = s.method("a.Work.run", "()V");
    let name = s.string("input");
    let (main, pool) = (s.thread(1, "main"), s.thread(2, "pool"));
    for i in 0..MANY {
        let task = [("task", i + 1), ("class", class)];
        s.at(main, 100 * i)
            .event(Extension::UserMark, &[("name", name)])
            .after(10)
            .event(Extension::TaskSubmitted, &task);
        s.at(pool, 100 * i + 20)
            .event(Extension::TaskBegin, &task)
            .after(10)
            .event(Extension::TaskEnd, &task[..1]);
    }
    assert_eq!(all_paths(&s), MANY as usize);
}

/// Each shape is built, and all questions of it are answered. A step that takes the square of the length takes minutes here.
#[test]
fn the_worst_shapes() {
    for (name, full, session) in SHAPES {
        let session = session(MANY.min(full / 10) / 3);
        let graph = Graph::build(&session).unwrap();
        graph.check(&session).unwrap();
        let circular = graph.dropped(DropReason::Circular);
        assert_eq!(circular != 0, name == "circles", "{name}");
        ask(&session, &graph, |_| ());
    }
}
