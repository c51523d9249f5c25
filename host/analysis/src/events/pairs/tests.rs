// SPDX-License-Identifier: Apache-2.0
//! Which events make pairs, and which make none.

use super::*;
use hindsight_decoder::Extension;
use hindsight_testkit::Script;

struct Found {
    trace: Trace,
    pairs: Pairs,
}

impl Found {
    fn of(s: &Script) -> Self {
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        let pairs = pairs(&trace);
        Found { trace, pairs }
    }

    /// Kind, name of the thread and index of the event, of both ends.
    fn pairs(&self) -> Vec<(PairKind, String, String)> {
        let end = |end: End| {
            let thread = self.trace.thread(end.thread).unwrap();
            format!("{}:{}", thread.name, end.event)
        };
        let pairs = self.pairs.pairs.iter();
        pairs.map(|p| (p.kind, end(p.from), end(p.to))).collect()
    }

    fn unmatched(&self) -> Vec<(PairKind, Side, Why, u64)> {
        let all = self.pairs.unmatched.iter();
        all.map(|u| (u.kind, u.side, u.why, u.count)).collect()
    }
}

fn pair(kind: PairKind, from: &str, to: &str) -> (PairKind, String, String) {
    (kind, from.into(), to.into())
}

#[test]
fn what_is_handed_over_is_joined_while_it_is_pending() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    s.at(a, 10)
        .event(Extension::TaskSubmitted, &[("task", 5)])
        .after(1)
        .event(Extension::MessageEnqueued, &[("message", 5)])
        .after(1)
        .event(Extension::UserPost, &[("id", 5)])
        .after(1)
        .event(Extension::BinderSend, &[("transaction", 5)])
        .after(1)
        .event(Extension::TaskSubmitted, &[("task", 6)])
        .after(1)
        .event(Extension::Cancelled, &[("task", 6)])
        .after(1)
        .event(Extension::ItemPut, &[("item", 5)])
        .after(1)
        .event(Extension::ItemPut, &[("item", 8)])
        .after(1)
        .event(Extension::Cancelled, &[("task", 8)]);
    s.at(b, 50)
        .event(Extension::TaskBegin, &[("task", 5)])
        .event(Extension::TaskBegin, &[("task", 5)])
        .event(Extension::MessageDispatched, &[("message", 5)])
        .event(Extension::UserBegin, &[("id", 5)])
        .event(Extension::BinderServe, &[("transaction", 5)])
        .event(Extension::BinderServed, &[("transaction", 5)])
        .event(Extension::ItemTaken, &[("item", 5)]);
    s.at(a, 60)
        .event(Extension::BinderReply, &[("transaction", 5)])
        .event(Extension::TaskSubmitted, &[("task", 7)]);
    let found = Found::of(&s);
    assert_eq!(
        found.pairs(),
        [
            pair(PairKind::Cancelled, "a:4", "a:5"),
            pair(PairKind::Cancelled, "a:7", "a:8"),
            pair(PairKind::Task, "a:0", "b:0"),
            pair(PairKind::Message, "a:1", "b:2"),
            pair(PairKind::Item, "a:6", "b:6"),
            pair(PairKind::Post, "a:2", "b:3"),
            pair(PairKind::Transaction, "a:3", "b:4"),
            pair(PairKind::Reply, "b:5", "a:9"),
        ]
    );
    assert_eq!(
        found.unmatched(),
        [
            (PairKind::Task, Side::From, Why::NotRecorded, 1),
            (PairKind::Task, Side::To, Why::NotRecorded, 1),
        ]
    );
}

#[test]
fn two_of_one_identity_are_no_pair() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    let submit = [("task", 5)];
    s.at(a, 10)
        .event(Extension::TaskSubmitted, &submit)
        .after(1)
        .event(Extension::TaskSubmitted, &submit);
    s.at(b, 50)
        .event(Extension::TaskBegin, &submit)
        .after(1)
        .event(Extension::TaskBegin, &submit);
    // Both have begun: the identity may be used again.
    s.at(a, 100).event(Extension::TaskSubmitted, &submit);
    s.at(b, 110).event(Extension::TaskBegin, &submit);
    let found = Found::of(&s);
    assert_eq!(found.pairs(), [pair(PairKind::Task, "a:2", "b:2")]);
    assert_eq!(
        found.unmatched(),
        [
            (PairKind::Task, Side::From, Why::Ambiguous, 2),
            (PairKind::Task, Side::To, Why::Ambiguous, 2),
        ]
    );
}

#[test]
fn ends_that_contradict_each_other_are_no_pair() {
    let mut s = Script::new("p");
    let (one, other) = (s.method("a.One.run", "()V"), s.method("a.Other.run", "()V"));
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    s.at(a, 10)
        .event(Extension::TaskSubmitted, &[("task", 5), ("class", one)])
        .event(Extension::TaskSubmitted, &[("task", 6), ("kind", 1)])
        .event(
            Extension::MessageEnqueued,
            &[("message", 7), ("for thread", 9)],
        )
        .event(
            Extension::MessageEnqueued,
            &[("message", 8), ("for thread", 9)],
        );
    s.at(b, 50)
        .event(Extension::TaskBegin, &[("task", 5), ("class", other)])
        .event(Extension::TaskBegin, &[("task", 6), ("kind", 2)])
        .event(Extension::MessageDispatched, &[("message", 7)]);
    let found = Found::of(&s);
    assert_eq!(found.pairs(), []);
    assert_eq!(
        found.unmatched(),
        [
            (PairKind::Task, Side::From, Why::Ambiguous, 2),
            (PairKind::Task, Side::To, Why::Ambiguous, 2),
            (PairKind::Message, Side::From, Why::Ambiguous, 1),
            (PairKind::Message, Side::From, Why::ThreadNotInFile, 1),
            (PairKind::Message, Side::To, Why::Ambiguous, 1),
        ]
    );
}

/// A thread waits from 100 to 200 with this result; others claim to have woken it at these times.
fn woken(result: u64, claims: &[(u64, u64)]) -> Found {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    s.at(a, 100)
        .event(Extension::WaitBegin, &[("number", 4), ("kind", 3)])
        .after(100)
        .event(Extension::WaitEnd, &[("number", 4), ("result", result)]);
    s.at(b, 1).extension(Extension::UserMark, &[0]);
    for &(at, wait) in claims {
        s.at(b, at)
            .event(Extension::Wakes, &[("thread", 1), ("wait", wait)]);
    }
    s.stop_at(1_000);
    Found::of(&s)
}

#[test]
fn a_wake_up_is_the_one_that_ended_the_wait() {
    assert_eq!(
        woken(0, &[(150, 4)]).pairs(),
        [pair(PairKind::Wake, "b:1", "a:1")]
    );
    // Interrupted.
    assert_eq!(woken(2, &[(150, 4)]).pairs().len(), 1);
    let why = |result, claims: &[(u64, u64)]| -> Vec<(Why, u64)> {
        let found = woken(result, claims);
        assert_eq!(found.pairs(), []);
        let unmatched = found.unmatched().into_iter();
        unmatched.map(|(_, _, why, n)| (why, n)).collect()
    };
    // Timed out; too late; which wait is not known; a wait that is not recorded; two at once.
    assert_eq!(why(1, &[(150, 4)]), [(Why::NotTheCause, 1)]);
    assert_eq!(why(0, &[(250, 4)]), [(Why::NotTheCause, 1)]);
    assert_eq!(why(0, &[(150, 0)]), [(Why::WaitNotKnown, 1)]);
    assert_eq!(why(0, &[(150, 5)]), [(Why::NotRecorded, 1)]);
    assert_eq!(why(0, &[(150, 4), (151, 4)]), [(Why::Ambiguous, 2)]);
    // The second one came when the wait was over.
    let found = woken(0, &[(150, 4), (250, 4)]);
    assert_eq!(found.pairs(), [pair(PairKind::Wake, "b:1", "a:1")]);
}

#[test]
fn a_reused_thread_id_means_the_thread_of_that_time() {
    let mut s = Script::new("p");
    let waker = s.events_thread(9, "waker", 9);
    for (i, name) in ["first", "second"].into_iter().enumerate() {
        let start = 1_000 * i as u64;
        let t = s.events_thread(1, name, 1 + i as u64);
        s.header(t).started_counter += start;
        s.at(t, start)
            .event(Extension::WaitBegin, &[("number", 1)])
            .after(100)
            .event(Extension::WaitEnd, &[("number", 1)]);
        s.end_thread(t, start + 500);
        s.at(waker, start + 50)
            .event(Extension::Wakes, &[("thread", 1), ("wait", 1)]);
    }
    let found = Found::of(&s);
    assert_eq!(
        found.pairs(),
        [
            pair(PairKind::Wake, "waker:0", "first:1"),
            pair(PairKind::Wake, "waker:1", "second:1"),
        ]
    );
}

/// A thread waits for the lock of thread 2; these threads release it at these times.
fn released(by: &[(u32, u64)]) -> Found {
    let mut s = Script::new("p");
    let a = s.events_thread(1, "a", 1);
    s.at(a, 100)
        .event(Extension::LockWait, &[("held by", 2), ("lock", 77)])
        .event(Extension::WaitBegin, &[("number", 1), ("object", 77)])
        .after(100)
        .event(Extension::WaitEnd, &[("number", 1)]);
    for &(tid, at) in by {
        let t = s.events_thread(tid, &format!("t{tid}"), u64::from(tid));
        s.at(t, at)
            .event(Extension::Released, &[("lock", 77), ("waiters", 1)]);
    }
    s.stop_at(1_000);
    Found::of(&s)
}

#[test]
fn a_lock_was_released_by_its_recorded_owner() {
    let lock = [pair(PairKind::Lock, "t2:0", "a:2")];
    assert_eq!(released(&[(2, 150)]).pairs(), lock);
    let why = |by: &[(u32, u64)]| {
        let found = released(by);
        assert_eq!(found.pairs(), []);
        found.unmatched()[0].2
    };
    assert_eq!(why(&[]), Why::ThreadNotInFile);
    assert_eq!(why(&[(2, 250)]), Why::NotRecorded);
    // Another thread had the lock in between.
    assert_eq!(why(&[(2, 150), (3, 170)]), Why::Ambiguous);
    assert_eq!(why(&[(3, 170)]), Why::Ambiguous);
}
