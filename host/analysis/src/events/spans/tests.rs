// SPDX-License-Identifier: Apache-2.0
//! Which events begin and end spans.

use super::*;
use hindsight_decoder::{RingMode, Thread, Trace};
use hindsight_testkit::{Recorder, Script, EPOCH};

/// Kind, times since the beginning, and whether the end is recorded, of the spans of a thread.
fn of(record: impl FnOnce(&mut Recorder<'_>)) -> Vec<(SpanKind, u64, u64, bool)> {
    let mut s = Script::new("p");
    let t = s.events_thread(1, "t", 1);
    record(&mut s.at(t, 0));
    s.stop_at(1_000);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    of_thread(&trace.threads[0])
}

fn of_thread(thread: &Thread) -> Vec<(SpanKind, u64, u64, bool)> {
    let found = spans(thread);
    let span = |s: &Span| {
        (
            s.kind,
            s.start_ns - EPOCH,
            s.end_ns - EPOCH,
            s.end.is_some(),
        )
    };
    found.spans.iter().map(span).collect()
}

#[test]
fn begins_and_ends_are_joined_by_their_numbers() {
    let found = of(|r| {
        r.event(Extension::MessageDone, &[("message", 3)])
            .after(5)
            .event(Extension::MessageDispatched, &[("message", 7)])
            .after(10)
            .event(Extension::WaitBegin, &[("number", 1)])
            .after(10)
            .event(Extension::WaitEnd, &[("number", 1)])
            .after(10)
            .event(Extension::WaitBegin, &[("number", 2)])
            .after(10)
            .event(Extension::MessageDone, &[("message", 7)])
            .after(10)
            .event(Extension::TaskBegin, &[("task", 9)]);
    });
    assert_eq!(
        found,
        [
            (SpanKind::Message, 5, 45, true),
            (SpanKind::Wait, 15, 25, true),
            // Its end is missing.
            (SpanKind::Wait, 35, 45, false),
            (SpanKind::Task, 55, 1_000, false),
        ]
    );
}

#[test]
fn a_missing_end_swallows_neither_waits_nor_messages() {
    let wait = |kind, number| [("kind", kind), ("number", number)];
    let found = of(|r| {
        r.event(Extension::MessageDispatched, &[("message", 1)])
            .after(10)
            // Its end is missing, and so is that of the message.
            .event(Extension::WaitBegin, &wait(0, 1))
            .after(10)
            .event(Extension::WaitBegin, &wait(POLL, 2))
            .after(10)
            // While it polls, other code waits.
            .event(Extension::WaitBegin, &wait(1, 3))
            .after(10)
            .event(Extension::WaitEnd, &wait(1, 3))
            .after(10)
            .event(Extension::WaitEnd, &wait(POLL, 2))
            .event(Extension::MessageDispatched, &[("message", 2)])
            .after(10)
            .event(Extension::MessageDone, &[("message", 2)])
            .after(10)
            // It goes on.
            .event(Extension::WaitBegin, &wait(0, 4));
    });
    assert_eq!(
        found,
        [
            (SpanKind::Message, 0, 20, false),
            (SpanKind::Wait, 10, 20, false),
            (SpanKind::Wait, 20, 50, true),
            (SpanKind::Wait, 30, 40, true),
            (SpanKind::Message, 50, 60, true),
            (SpanKind::Wait, 70, 1_000, false),
        ]
    );
}

#[test]
fn pieces_of_work_of_the_program_may_overlap() {
    let found = of(|r| {
        let piece = |id| [("name", 1), ("id", id)];
        r.event(Extension::TaskBegin, &[("task", 9)])
            .event(Extension::UserBegin, &piece(1))
            .after(10)
            .event(Extension::UserBegin, &piece(2))
            .after(10)
            .event(Extension::UserEnd, &piece(1))
            .after(10)
            .event(Extension::TaskEnd, &[("task", 9)])
            .after(10)
            .event(Extension::UserEnd, &piece(2));
    });
    assert_eq!(
        found,
        [
            (SpanKind::Task, 0, 30, true),
            (SpanKind::Marked, 0, 20, true),
            (SpanKind::Marked, 10, 40, true),
        ]
    );
}

#[test]
fn calls_of_a_rules_method_are_nested() {
    let found = of(|r| {
        let call = [("name", 1), ("object", 7)];
        r.event(Extension::RuleBegin, &call)
            .after(10)
            .event(Extension::RuleBegin, &call)
            .after(10)
            .event(Extension::RuleEnd, &call)
            .after(10)
            .event(Extension::RuleEnd, &call);
    });
    assert_eq!(
        found,
        [
            (SpanKind::Rule, 0, 30, true),
            (SpanKind::Rule, 10, 20, true),
        ]
    );
}

#[test]
fn callbacks_of_a_frame_end_where_the_next_ones_begin() {
    let found = of(|r| {
        r.event(Extension::FrameBegin, &[("vsync", 5)])
            .event(Extension::FrameCallbacks, &[("type", 0)])
            .after(10)
            .event(Extension::FrameCallbacks, &[("type", 3)])
            .after(10)
            .event(Extension::FrameEnd, &[("vsync", 5)]);
    });
    assert_eq!(
        found,
        [
            (SpanKind::Frame, 0, 20, true),
            (SpanKind::FrameCallbacks, 0, 10, true),
            (SpanKind::FrameCallbacks, 10, 20, false),
        ]
    );
}

#[test]
fn many_begins_without_ends_are_read_quickly() {
    let found = of(|r| {
        for i in 0..100 {
            r.event(Extension::TaskBegin, &[("task", 1)])
                .event(Extension::UserBegin, &[("id", i)])
                .event(Extension::TaskEnd, &[("task", 2)]);
        }
    });
    assert_eq!(found.len(), 200);
}

/// Few running spans are looked at one by one, many are found by a map. Both find the same.
#[test]
fn many_running_spans_end_as_few_do() {
    let marked = |id| [("name", 1), ("id", id)];
    let nested = |around: u64| {
        let mut found = of(|r| {
            for i in 0..around {
                r.event(Extension::RuleBegin, &[("name", 9), ("object", i)]);
            }
            r.event(Extension::UserBegin, &marked(1))
                .event(Extension::TaskBegin, &[("task", 1)])
                .after(10)
                .event(Extension::UserBegin, &marked(1))
                .event(Extension::TaskBegin, &[("task", 1)])
                .event(Extension::RuleBegin, &[("name", 1), ("object", 2)])
                .after(10)
                // The rule's end is missing.
                .event(Extension::TaskEnd, &[("task", 1)])
                .event(Extension::UserEnd, &marked(1))
                .after(10)
                .event(Extension::UserEnd, &marked(2))
                .event(Extension::TaskEnd, &[("task", 1)])
                .after(10)
                .event(Extension::TaskEnd, &[("task", 1)])
                .event(Extension::TaskBegin, &[("task", 2)]);
        });
        found.drain(..around as usize);
        found
    };
    let few = nested(0);
    assert_eq!(
        few,
        [
            (SpanKind::Marked, 0, 1_000, false),
            (SpanKind::Task, 0, 30, true),
            (SpanKind::Marked, 10, 20, true),
            (SpanKind::Task, 10, 20, true),
            (SpanKind::Rule, 10, 20, false),
            (SpanKind::Task, 40, 1_000, false),
        ]
    );
    for around in 1..=2 * FEW as u64 {
        assert_eq!(nested(around), few, "{around} around it");
    }
}

/// A thread whose second ring is not in the file: these events before and after it. The gap is from 100 to 600 ns.
fn over_a_gap(
    before: impl FnOnce(&mut Recorder<'_>),
    after: impl FnOnce(&mut Recorder<'_>),
) -> Vec<(SpanKind, u64, u64, bool)> {
    let mut s = Script::new("p");
    let first = s.events_thread(1, "t", 1);
    before(&mut s.at(first, 0));
    let third = s.next_part(first, RingMode::Events, 100);
    let header = s.header(third);
    header.part += 1;
    header.started_counter = EPOCH + 600;
    after(&mut s.at(third, 600));
    s.stop_at(1_000);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    assert_eq!(trace.threads.len(), 1);
    of_thread(&trace.threads[0])
}

#[test]
fn what_runs_when_a_gap_begins_ends_there_unless_its_end_follows() {
    let found = over_a_gap(
        |r| {
            r.after(10)
                .event(Extension::MessageDispatched, &[("message", 2)])
                .after(10)
                .event(Extension::WaitBegin, &[("number", 2)]);
        },
        |r| {
            r.event(Extension::WaitEnd, &[("number", 5)])
                .after(10)
                .event(Extension::MessageDispatched, &[("message", 5)])
                .after(10)
                .event(Extension::MessageDone, &[("message", 5)]);
        },
    );
    assert_eq!(
        found,
        [
            (SpanKind::Message, 10, 100, false),
            (SpanKind::Wait, 20, 100, false),
            (SpanKind::Message, 610, 620, true),
        ]
    );
    let found = over_a_gap(
        |r| {
            r.after(10)
                .event(Extension::MessageDispatched, &[("message", 2)])
                .after(10)
                .event(Extension::TraversalBegin, &[("window", 9)]);
        },
        |r| {
            r.event(Extension::TraversalEnd, &[("window", 9)])
                .after(10)
                .event(Extension::MessageDone, &[("message", 2)]);
        },
    );
    // A window is drawn many times: the end may belong to another traversal.
    assert_eq!(
        found,
        [
            (SpanKind::Message, 10, 610, true),
            (SpanKind::Traversal, 20, 100, false),
        ]
    );
}

#[test]
fn many_spans_that_run_when_a_gap_begins_end_there() {
    let found = over_a_gap(
        |r| {
            for step in 0..12 {
                r.after(1).event(
                    Extension::LifecycleBegin,
                    &[("activity", 7), ("step", step)],
                );
            }
        },
        |r| {
            for step in 0..12 {
                r.after(1)
                    .event(Extension::LifecycleEnd, &[("activity", 7), ("step", step)]);
            }
        },
    );
    assert_eq!(found.len(), 12);
    assert!(
        found
            .iter()
            .all(|(.., end, ended)| (*end, *ended) == (100, false)),
        "{found:?}"
    );
}

#[test]
fn what_still_went_on_after_a_gap_goes_on_over_it() {
    let message = |id: u64| [("message", id)];
    let found = over_a_gap(
        |r| {
            r.after(10)
                .event(Extension::MessageDispatched, &message(2))
                .after(10)
                .event(Extension::WaitBegin, &[("number", 2)])
                .after(10)
                .event(Extension::UserMark, &[("name", 0)]);
        },
        |r| {
            // The third ring begins with what was under way.
            r.at(10)
                .event(Extension::MessageDispatched, &message(2))
                .at(600)
                .extension(Extension::PartBegins, &[])
                .after(10)
                .event(Extension::WaitBegin, &[("number", 9)]);
        },
    );
    assert_eq!(
        found,
        [
            (SpanKind::Message, 10, 1_000, false),
            (SpanKind::Wait, 20, 100, false),
            (SpanKind::Wait, 610, 1_000, false),
        ]
    );
}
