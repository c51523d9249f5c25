// SPDX-License-Identifier: Apache-2.0
//! Tests of what else is recorded of a stall.

use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::{Recorder, Script, ThreadIndex};

use crate::events::Waiting;
use crate::evidence::Missing;
use crate::stalls::find::stalls;
use crate::stalls::model::{EventStall, LongWait, Question, Reason, Stalls};

const MS: u64 = 1_000_000;
const LOCK: u64 = Waiting::LOCK;
const SLEEP: u64 = Waiting::SLEEP;

fn ask(script: &Script) -> Stalls {
    let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
    let main = trace.main_thread().unwrap();
    stalls(&trace, main, &Question::default())
}

/// A message of a second on the main thread, in which this happens.
fn message(record: impl FnOnce(&mut Script, ThreadIndex)) -> EventStall {
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    s.at(main, 0)
        .event(Extension::MessageDispatched, &[("message", 1)]);
    record(&mut s, main);
    s.at(main, 1_000 * MS)
        .event(Extension::MessageDone, &[("message", 1)]);
    ask(&s).event_stalls.remove(0)
}

/// A wait for a lock of this thread.
fn lock_wait(r: &mut Recorder<'_>, number: u64, owner: u64, (from, to): (u64, u64)) {
    let of = [("kind", LOCK), ("number", number)];
    r.at(from)
        .event(Extension::LockWait, &[("held by", owner)])
        .event(Extension::WaitBegin, &of)
        .at(to)
        .event(Extension::WaitEnd, &of);
}

fn sleep(r: &mut Recorder<'_>, number: u64, (from, to): (u64, u64)) {
    let of = [("kind", SLEEP), ("number", number)];
    r.at(from)
        .event(Extension::WaitBegin, &of)
        .at(to)
        .event(Extension::WaitEnd, &of);
}

fn owners(waits: &[LongWait]) -> Vec<(u32, u64, u64)> {
    let owner = |w: &LongWait| w.longest.owner.as_ref().unwrap().tid;
    waits
        .iter()
        .map(|w| (owner(w), w.count, w.ns / MS))
        .collect()
}

#[test]
fn waits_for_others_are_listed_by_who_held_them_up() {
    let stall = message(|s, main| {
        let mut r = s.at(main, 0);
        sleep(&mut r, 1, (MS, 301 * MS));
        sleep(&mut r, 6, (302 * MS, 602 * MS));
        lock_wait(&mut r, 2, 7, (610 * MS, 670 * MS));
        lock_wait(&mut r, 3, 8, (680 * MS, 830 * MS));
        lock_wait(&mut r, 4, 7, (840 * MS, 900 * MS));
        lock_wait(&mut r, 5, 9, (910 * MS, 990 * MS));
    });
    assert_eq!(stall.culprit_reason, Reason::Slept);
    assert_eq!(owners(&stall.long_waits), [(8, 1, 150), (7, 2, 120)]);
    let held_by = |w: &LongWait| w.held_by.as_ref().map(|h| h.tid);
    let held_by: Vec<_> = stall.long_waits.iter().map(held_by).collect();
    assert_eq!(held_by, [Some(8), Some(7)]);
}

#[test]
fn the_longest_wait_is_not_listed_twice() {
    let stall = message(|s, main| {
        let mut r = s.at(main, 0);
        lock_wait(&mut r, 1, 7, (MS, 600 * MS));
        lock_wait(&mut r, 2, 8, (610 * MS, 900 * MS));
    });
    assert_eq!(stall.wait.unwrap().owner.unwrap().tid, 7);
    assert_eq!(owners(&stall.long_waits), [(8, 1, 290)]);
}

/// A collection suspends all threads from 100 ms on.
fn pause(s: &mut Script, to: u64) {
    let collector = s.events_thread(5, "HeapTaskDaemon", 2);
    s.at(collector, 100 * MS)
        .event(Extension::GcPauseBegin, &[])
        .at(to)
        .event(Extension::GcPauseEnd, &[]);
}

#[test]
fn a_pause_of_all_threads_is_the_culprit_unless_the_thread_slept() {
    let stall = message(|s, _| pause(s, 800 * MS));
    assert_eq!(stall.culprit_reason, Reason::Paused);
    assert_eq!(stall.culprit.unwrap().1, "HeapTaskDaemon");
    let found = &stall.gc_pauses[0];
    assert_eq!((found.tid, found.count), (5, 1));
    assert_eq!((found.ns, found.outside_waits_ns), (700 * MS, 700 * MS));

    let slept = message(|s, main| {
        sleep(&mut s.at(main, 0), 1, (MS, 700 * MS));
        pause(s, 800 * MS);
    });
    assert_eq!(slept.culprit_reason, Reason::Slept);
    assert_eq!(slept.gc_pauses[0].outside_waits_ns, 100 * MS);

    let short = message(|s, _| pause(s, 190 * MS));
    assert_eq!(short.culprit_reason, Reason::NotRecorded);
    assert!(short.gc_pauses.is_empty());
}

/// It waits as long whether or not threads are suspended meanwhile.
#[test]
fn a_pause_inside_a_wait_that_it_did_not_prolong_is_no_culprit() {
    const OBJECT: u64 = 1;
    let scene = |timed_out: u64, until: u64| {
        message(|s, main| {
            let of = [("kind", OBJECT), ("number", 1)];
            s.at(main, MS)
                .event(Extension::WaitBegin, &of)
                .at(until)
                .event(Extension::WaitEnd, &[of[0], of[1], ("result", timed_out)]);
            pause(s, 800 * MS);
        })
    };
    assert_eq!(scene(1, 990 * MS).culprit_reason, Reason::NotRecorded);
    assert_eq!(scene(0, 990 * MS).culprit_reason, Reason::Paused);
    // A transaction that another process serves.
    let transaction = message(|s, main| {
        s.at(main, MS)
            .event(Extension::BinderSend, &[("transaction", 7)])
            .at(990 * MS)
            .event(Extension::BinderReply, &[("transaction", 7)]);
        pause(s, 800 * MS);
    });
    assert_eq!(transaction.culprit_reason, Reason::NotRecorded);
}

/// How the circle of the test goes on.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Nothing,
    /// All waits end.
    Ends,
    /// Thread 2 releases the lock 1 before it waits.
    Released,
    /// Its own recording begins only when it waits.
    BeginsLater,
}

/// Threads 1 to 3 wait for locks of these threads.
fn circle(owners: [u64; 3], then: Then) -> Vec<u32> {
    let mut s = Script::new("p");
    let names = ["main", "b", "c"];
    for (tid, owner) in (1..).zip(owners) {
        let t = s.events_thread(tid, names[tid as usize - 1], u64::from(tid));
        let of = [("kind", LOCK), ("number", 1)];
        let lock = u64::from(tid);
        let mut r = s.at(t, 0);
        if then != Then::BeginsLater {
            r.event(Extension::CheckpointBegin, &[])
                .event(Extension::CheckpointEnd, &[]);
        }
        r.at(u64::from(tid) * MS);
        r.event(Extension::MessageDispatched, &[("message", 1)]);
        if then == Then::Released && tid == 2 {
            r.event(Extension::Released, &[("lock", 1), ("waiters", 1)]);
        }
        r.event(Extension::LockWait, &[("held by", owner), ("lock", lock)])
            .event(Extension::WaitBegin, &of);
        if then == Then::Ends {
            r.at(999 * MS).event(Extension::WaitEnd, &of);
        }
    }
    s.stop_at(1_000 * MS);
    let stall = ask(&s).event_stalls.remove(0);
    stall.circle.iter().map(|t| t.tid).collect()
}

#[test]
fn threads_that_wait_for_each_other_are_a_circle() {
    assert_eq!(circle([2, 1, 0], Then::Nothing), [1, 2]);
    assert_eq!(circle([2, 3, 1], Then::Nothing), [1, 2, 3]);
    // Main waits for threads that wait for each other.
    assert_eq!(circle([2, 3, 2], Then::Nothing), [2, 3]);
    assert!(circle([2, 3, 9], Then::Nothing).is_empty());
    assert!(circle([2, 1, 0], Then::Ends).is_empty());
    // The lock may be another thread's since.
    assert!(circle([2, 1, 0], Then::Released).is_empty());
    // Thread 2 may be another one than the owner, whose id it has.
    assert!(circle([2, 1, 0], Then::BeginsLater).is_empty());
}

#[test]
fn of_an_owner_whose_ring_is_too_small_that_is_said() {
    let stall = |events: u64| {
        message(|s, main| {
            s.ring_log2_bytes(12);
            let owner = s.events_thread(7, "owner", 2);
            let mut r = s.at(owner, 0);
            r.event(Extension::TaskBegin, &[("task", 1)]);
            for i in 0..events {
                r.at(2 * MS + i)
                    .event(Extension::CheckpointBegin, &[])
                    .event(Extension::CheckpointEnd, &[]);
            }
            lock_wait(&mut s.at(main, 0), 1, 7, (MS, 990 * MS));
        })
    };
    let missing = |stall: EventStall| stall.wait.unwrap().owner.unwrap().missing;
    assert_eq!(missing(stall(10)), None);
    assert_eq!(missing(stall(10_000)), Some(Missing::Overwritten));
}

/// Its older rings fell out of the spool.
#[test]
fn of_an_owner_whose_older_rings_are_missing_that_is_said() {
    let stall = |part: u32| {
        message(|s, main| {
            let owner = s.events_thread(7, "owner", 2);
            s.header(owner).part = part;
            s.at(owner, 2 * MS)
                .event(Extension::CheckpointBegin, &[])
                .event(Extension::CheckpointEnd, &[]);
            lock_wait(&mut s.at(main, 0), 1, 7, (MS, 990 * MS));
        })
    };
    let owner = |stall: EventStall| stall.wait.unwrap().owner.unwrap();
    let cut = owner(stall(3));
    assert_eq!(
        (cut.thread.as_deref(), cut.missing),
        (Some("owner"), Some(Missing::Overwritten))
    );
    let whole = owner(stall(0));
    assert_eq!(
        (whole.thread, whole.missing),
        (None, Some(Missing::BeganLater))
    );
}

#[test]
fn a_long_wait_for_a_lock_outside_of_messages_is_found() {
    let outside = |to: u64| {
        let mut s = Script::new("p");
        let main = s.events_thread(1, "main", 1);
        let mut r = s.at(main, 0);
        r.event(Extension::MessageDispatched, &[("message", 1)])
            .at(MS)
            .event(Extension::MessageDone, &[("message", 1)]);
        lock_wait(&mut r, 1, 7, (2 * MS, to));
        ask(&s).outside
    };
    let wait = outside(900 * MS).unwrap();
    assert_eq!((wait.ns, wait.owner.unwrap().tid), (898 * MS, 7));
    assert_eq!(outside(50 * MS), None);
    // In a message it is that message's stall.
    let stall = message(|s, main| lock_wait(&mut s.at(main, 0), 1, 7, (MS, 900 * MS)));
    assert_eq!(stall.culprit_reason, Reason::OwnerNotTraced);
}
