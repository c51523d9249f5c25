// SPDX-License-Identifier: Apache-2.0
//! Tests of stalls of threads that record events only.

use super::*;
use crate::evidence::Missing;
use crate::stalls::find::stalls;
use crate::stalls::model::{Activity, Reason};
use crate::stalls::timeline::THREAD;
use hindsight_decoder::Extension;
use hindsight_testkit::{events_only, transaction, Recorder, Script, STALL_NS};

const LOCK: u64 = Waiting::LOCK;
const SLEEP: u64 = Waiting::SLEEP;
const POLL: u64 = Waiting::POLL;

fn ask(script: &Script) -> Stalls {
    let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
    let main = trace.main_thread().unwrap();
    stalls(&trace, main, &Question::default())
}

#[test]
fn the_owner_the_sender_and_the_cpu_time_are_named_from_events_alone() {
    let found = ask(&events_only());
    assert_eq!(found.stall, Some(true));
    let stall = &found.event_stalls[0];
    assert_eq!(stall.what, SpanKind::Message);
    assert_eq!(stall.name, "com.example.notes.NoteListScreen");
    assert_eq!(stall.code, Some(2));
    assert_eq!(stall.waited_ns, STALL_NS);
    let sender = stall.sender.as_ref().unwrap();
    assert_eq!(sender.thread.as_deref(), Some("net"));
    assert_eq!(stall.sent_before_ns, Some(23_000));
    assert_eq!(stall.used.unwrap().cpu_ns, 720_000);
    let wait = stall.wait.as_ref().unwrap();
    assert_eq!((wait.kind.as_str(), wait.ns), ("lock", STALL_NS));
    assert_eq!(wait.released_before_ns, Some(20_000));
    let owner = wait.owner.as_ref().unwrap();
    assert_eq!(owner.doing, ["task com.example.notes.SaveTask"]);
    assert_eq!(owner.waits[0].kind, "sleep");
    let culprit = (
        "task com.example.notes.SaveTask".to_owned(),
        "pool-1-thread-1".to_owned(),
    );
    assert_eq!(stall.culprit, Some(culprit));
    assert_eq!(stall.culprit_reason, Reason::LockOwner);
}

/// A file that ends early, anywhere: what is not known is not said to be nothing.
#[test]
fn of_an_owner_whose_recording_is_damaged_that_is_said() {
    let bytes = events_only().encode();
    let (mut reasons, mut culprits) = (Vec::new(), Vec::new());
    for end in (0..bytes.len()).step_by(8) {
        let Ok(trace) = Trace::decode("t".as_ref(), &bytes[..end]) else {
            continue;
        };
        let Some(main) = trace.main_thread() else {
            continue;
        };
        let found = stalls(&trace, main, &Question::default());
        let Some(stall) = found.event_stalls.first() else {
            assert!(found.stall.is_none() || !found.damaged, "{end}");
            continue;
        };
        culprits.extend(stall.culprit.as_ref().map(|(what, _)| what.clone()));
        let wait = stall.wait.as_ref();
        let owner = wait.and_then(|w| w.owner.as_ref());
        if let (None, Some(owner)) = (&stall.culprit, owner) {
            reasons.push((stall.culprit_reason, owner.missing));
        }
    }
    assert!(reasons.contains(&(Reason::OwnerNotTraced, Some(Missing::FileDamaged))));
    assert!(reasons.contains(&(Reason::OwnerUnclear, Some(Missing::RingDamaged))));
    assert!(reasons.iter().all(|(_, missing)| missing.is_some()));
    assert!(culprits
        .iter()
        .any(|what| what == "a task of unknown class"));
}

/// A message of 500 ms, in which the thread does this.
fn message(record: impl FnOnce(&mut Recorder<'_>)) -> EventStall {
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    let mut r = s.at(main, 0);
    r.event(Extension::MessageDispatched, &[("message", 1)])
        .extension(Extension::ThreadCpuTime, &[0]);
    record(&mut r);
    r.at(500_000_000)
        .event(Extension::MessageDone, &[("message", 1)]);
    ask(&s).event_stalls.remove(0)
}

#[test]
fn what_the_events_do_not_tell_is_not_claimed() {
    let unknown = message(|_| ());
    assert_eq!(unknown.activity, Activity::Unknown);
    assert_eq!(unknown.culprit_reason, Reason::NotRecorded);
    let computes = message(|r| {
        r.at(499_999_990)
            .extension(Extension::ThreadCpuTime, &[400_000_000]);
    });
    assert_eq!(computes.activity, Activity::Busy);
    assert_eq!(computes.culprit_reason, Reason::Busy);
    let sleeps = message(|r| {
        r.event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
            .at(499_000_000)
            .event(Extension::WaitEnd, &[("kind", SLEEP), ("number", 1)]);
    });
    assert_eq!(sleeps.culprit_reason, Reason::Slept);
    let lock = |owner: &[(&str, u64)]| {
        message(|r| {
            if !owner.is_empty() {
                r.event(Extension::LockWait, owner);
            }
            r.event(Extension::WaitBegin, &[("kind", LOCK), ("number", 1)])
                .at(499_000_000)
                .event(Extension::WaitEnd, &[("kind", LOCK), ("number", 1)]);
        })
    };
    assert_eq!(lock(&[]).culprit_reason, Reason::NotRecorded);
    let absent = lock(&[("held by", 9)]);
    assert_eq!(absent.culprit_reason, Reason::OwnerNotTraced);
    assert_eq!(absent.wait.unwrap().owner.unwrap().tid, 9);
}

#[test]
fn the_life_of_a_thread_is_no_stall_unless_it_computes() {
    let life = |cpu_ns: u64, tasks: u64| {
        let mut s = Script::new("p");
        let main = s.events_thread(1, "main", 1);
        let mut r = s.at(main, 0);
        r.event(Extension::TaskBegin, &[("task", 1), ("kind", THREAD)])
            .extension(Extension::ThreadCpuTime, &[0]);
        for task in 0..tasks {
            r.after(1_000)
                .event(Extension::TaskBegin, &[("task", 9 + task)])
                .after(120_000_000 * task)
                .event(Extension::TaskEnd, &[("task", 9 + task)]);
        }
        r.at(900_000_000)
            .extension(Extension::ThreadCpuTime, &[cpu_ns]);
        s.stop_at(900_000_010);
        ask(&s)
    };
    assert_eq!(life(1_000, 0).stall, Some(false));
    assert!(life(1_000, 0).waited_for_work);
    assert_eq!(
        life(800_000_000, 0).event_stalls[0].activity,
        Activity::Busy
    );
    // Its tasks count, one by one.
    let tasks = life(800_000_000, 2);
    assert_eq!(tasks.event_stalls.len(), 1);
    assert_eq!(tasks.event_stalls[0].held_ns, 120_000_000);
}

#[test]
fn of_a_thread_that_recorded_nothing_nothing_is_said() {
    let lives = |record: fn(&mut Recorder<'_>)| {
        let mut s = Script::new("p");
        let main = s.events_thread(1, "main", 1);
        let mut r = s.at(main, 0);
        r.extension(Extension::Started, &[0])
            .event(Extension::TaskBegin, &[("task", 1), ("kind", THREAD)]);
        record(&mut r);
        s.stop_at(900_000_000);
        let found = ask(&s);
        (found.stall, found.waited_for_work, found.nothing_recorded)
    };
    assert_eq!(lives(|_| ()), (None, false, true));
    let waits = lives(|r| {
        r.event(Extension::WaitBegin, &[("number", 1), ("kind", 1)]);
    });
    assert_eq!(waits, (Some(false), true, false));
    let hardly_waits = lives(|r| {
        r.event(Extension::WaitBegin, &[("number", 1), ("kind", 1)])
            .after(10)
            .event(Extension::WaitEnd, &[("number", 1), ("kind", 1)]);
    });
    assert_eq!(hardly_waits, (Some(false), false, false));
}

#[test]
fn an_owner_whose_recording_ends_before_the_wait_is_named() {
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    let owner = s.events_thread(2, "owner", 2);
    s.at(owner, 10).event(Extension::WaitEnd, &[("number", 1)]);
    s.at(main, 100)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .after(10)
        .event(Extension::LockWait, &[("held by", 2), ("lock", 7)])
        .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 1)])
        .after(500_000_000)
        .event(Extension::WaitEnd, &[("kind", LOCK), ("number", 1)])
        .event(Extension::MessageDone, &[("message", 1)]);
    s.header(owner).stopped_counter = s.header(main).started_counter + 50;
    let stall = ask(&s).event_stalls.remove(0);
    assert_eq!(stall.culprit_reason, Reason::OwnerUnclear);
    let party = stall.wait.unwrap().owner.unwrap();
    assert_eq!(party.thread.as_deref(), Some("owner"));
}

#[test]
fn a_message_that_goes_on_is_a_stall_and_waiting_for_work_is_none() {
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    s.at(main, 0)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .after(10)
        .event(Extension::WaitBegin, &[("kind", 3), ("number", 1)]);
    s.stop_at(900_000_000);
    let stall = ask(&s).event_stalls.remove(0);
    assert!(stall.still_running);
    assert_eq!(stall.wait.unwrap().result, None);
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    s.at(main, 0)
        .event(Extension::WaitBegin, &[("kind", POLL), ("number", 1)])
        .at(900_000_000)
        .event(Extension::WaitEnd, &[("kind", POLL), ("number", 1)]);
    let found = ask(&s);
    assert_eq!((found.stall, found.event_stalls.len()), (Some(false), 0));
    assert!(found.waited_for_work);
}

/// The sender of a thread's longest work, and how long before it was sent, ns: thread 2 records `cause`, and the main thread
/// records its work.
fn sender(
    cause: (Extension, &[(&str, u64)]),
    record: impl FnOnce(&mut Recorder<'_>),
) -> Option<(String, u64)> {
    let mut s = Script::new("p");
    let main = s.events_thread(1, "main", 1);
    let other = s.events_thread(2, "other", 2);
    s.at(other, 10).event(cause.0, cause.1);
    record(&mut s.at(main, 1_000));
    s.stop_at(900_000_000);
    let stall = ask(&s).event_stalls.remove(0);
    assert_eq!(stall.sender.is_some(), stall.sent_before_ns.is_some());
    Some((stall.sender?.thread?, stall.sent_before_ns?))
}

#[test]
fn work_of_any_kind_has_a_sender() {
    let by_other = |before| Some(("other".to_owned(), before));
    let traversal = (Extension::TraversalScheduled, &[("window", 7)][..]);
    assert_eq!(
        sender(traversal, |r| {
            r.event(Extension::TraversalBegin, &[("window", 7)])
                .after(300_000_000)
                .event(Extension::TraversalEnd, &[("window", 7)]);
        }),
        by_other(990)
    );
    let transaction = (Extension::BinderSend, &[("transaction", 7)][..]);
    assert_eq!(
        sender(transaction, |r| {
            r.event(Extension::BinderServe, &[("transaction", 7)])
                .after(300_000_000)
                .event(Extension::BinderServed, &[("transaction", 7)]);
        }),
        by_other(990)
    );
}

#[test]
fn a_long_frame_was_sent_by_who_posted_the_callback_that_took_most_of_it() {
    let callback = (Extension::CallbackPosted, &[("callback", 7)][..]);
    let frame = |first: u64, then: u64| {
        sender(callback, |r| {
            r.event(Extension::FrameBegin, &[("vsync", 1)])
                .event(Extension::FrameCallbacks, &[("type", 1)])
                .after(10)
                .event(Extension::CallbackRun, &[("callback", 7), ("type", 1)])
                .after(first)
                .event(Extension::FrameCallbacks, &[("type", 3)])
                .after(then)
                .event(Extension::FrameEnd, &[("vsync", 1)]);
        })
    };
    let by_other = Some(("other".to_owned(), 1_000));
    assert_eq!(frame(300_000_000, 10), by_other);
    // Other callbacks took most of the time.
    assert_eq!(frame(10, 300_000_000), None);
}

#[test]
fn a_transaction_that_does_not_return_is_a_wait_for_who_serves_it() {
    const MS: u64 = 1_000_000;
    let found = ask(&transaction());
    let stall = &found.event_stalls[0];
    assert_eq!(stall.activity, Activity::Waited);
    assert_eq!(stall.waited_ns, 480 * MS);
    assert_eq!(stall.waits[0].kind, "transaction");
    let place = stall.place.as_ref().unwrap();
    assert_eq!(place.method, "com.example.notes.NoteListScreen.openNote");
    assert_eq!(place.calls[0], "android.os.Handler.dispatchMessage");
    let sender = stall.sender.as_ref().unwrap().place.as_ref().unwrap();
    assert_eq!(sender.method, "com.example.notes.Connection.deliver");
    let wait = stall.wait.as_ref().unwrap();
    assert_eq!((wait.kind.as_str(), wait.code), ("transaction", Some(5)));
    assert_eq!(wait.result.as_deref(), Some("returned"));
    assert_eq!(wait.served_ns, Some(470 * MS));
    let culprit = (
        "com.example.notes.NoteTable.read".to_owned(),
        "Binder:4200_1".to_owned(),
    );
    assert_eq!(stall.culprit, Some(culprit));
    assert_eq!(stall.culprit_reason, Reason::Waker);
}

/// A transaction of another process has no other end here.
#[test]
fn a_transaction_whose_server_is_not_recorded_is_a_wait_without_a_culprit() {
    let stall = message(|r| {
        r.event(Extension::BinderSend, &[("code", 5)])
            .at(480_000_000)
            .event(Extension::BinderReply, &[]);
    });
    assert_eq!(stall.activity, Activity::Waited);
    assert_eq!(stall.culprit_reason, Reason::NotRecorded);
    let wait = stall.wait.unwrap();
    assert_eq!(
        (wait.kind.as_str(), wait.waker, wait.served_ns),
        ("transaction", None, None)
    );
}

/// Main waits for a lock that `owner` holds, and releases with or without a stack; the owner's stacks, at these times, are of
/// these methods.
fn owned(stacks: &[(u64, &str)], released: bool) -> EventStall {
    let mut s = Script::new("p");
    let looper = s.method("android.os.Looper.loop", "()V");
    let main = s.events_thread(1, "main", 1);
    let owner = s.events_thread(2, "owner", 2);
    let mut at: Vec<(u64, [u64; 2])> = Vec::new();
    let mut methods: Vec<(&str, u64)> = Vec::new();
    for (ns, name) in stacks {
        let known = methods.iter().find(|(n, _)| n == name).map(|(_, m)| *m);
        let method = known.unwrap_or_else(|| s.method(name, "()V"));
        methods.push((name, method));
        let [node, _] = s.stack(&[(looper, 1), (method, 2)]);
        at.push((*ns, [node, 0]));
    }
    let mut r = s.at(owner, 0);
    let before = at.partition_point(|(ns, _)| *ns < 10);
    for (i, (ns, stack)) in at.iter().enumerate() {
        if i == before {
            r.at(10)
                .event(Extension::MessageDispatched, &[("message", 9)]);
        }
        r.at(*ns).extension(Extension::Stack, stack);
    }
    r.at(500_000_000);
    if released {
        r.event(Extension::Released, &[("lock", 7), ("waiters", 1)]);
    }
    r.event(Extension::MessageDone, &[("message", 9)]);
    s.at(main, 100)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .event(Extension::LockWait, &[("held by", 2), ("lock", 7)])
        .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 1)])
        .at(500_000_100)
        .event(Extension::WaitEnd, &[("kind", LOCK), ("number", 1)])
        .event(Extension::MessageDone, &[("message", 1)]);
    s.stop_at(900_000_000);
    ask(&s).event_stalls.remove(0)
}

#[test]
fn the_culprit_is_the_method_that_the_owners_stacks_show_for_most_of_the_wait() {
    let culprit = |stacks: &[(u64, &str)]| owned(stacks, true).culprit.unwrap().0;
    let save = "com.example.Store.save";
    assert_eq!(culprit(&[(1_000, save), (400_000_000, save)]), save);
    let task = "a message of unknown class";
    // Too short a part of the wait, two methods, or one of the platform.
    assert_eq!(culprit(&[(1_000, save), (200_000_000, save)]), task);
    assert_eq!(
        culprit(&[(1_000, save), (400_000_000, "com.example.Store.load")]),
        task
    );
    let sleep = "java.lang.Thread.sleep";
    assert_eq!(culprit(&[(1_000, sleep), (400_000_000, sleep)]), task);
    // Whether it went on since the message before is not known.
    assert_eq!(culprit(&[(5, save), (400_000_000, save)]), task);
}

#[test]
fn where_a_busy_stall_was_its_stacks_tell() {
    let mut s = Script::new("p");
    let names = [
        "android.os.Looper.loop",
        "com.example.A.handle",
        "com.example.B.draw",
    ];
    let [looper, handle, draw] = names.map(|name| s.method(name, "()V"));
    let main = s.events_thread(1, "main", 1);
    let draws = s.stack(&[(looper, 1), (handle, 2), (draw, 3)]);
    s.at(main, 10)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .extension(Extension::ThreadCpuTime, &[0])
        .at(50_000_000)
        .extension(Extension::Stack, &draws)
        .at(450_000_000)
        .extension(Extension::Stack, &draws)
        .at(500_000_000)
        .extension(Extension::ThreadCpuTime, &[490_000_000])
        .event(Extension::MessageDone, &[("message", 1)]);
    let stall = ask(&s).event_stalls.remove(0);
    assert_eq!(stall.culprit_reason, Reason::Busy);
    let place = stall.place.unwrap();
    assert_eq!(
        (place.method.as_str(), place.ns / 1_000_000),
        (names[2], 400)
    );
    assert_eq!(place.calls, &names[1..]);
}

/// A stack is taken when a wake-up is recorded; others are at other times.
#[test]
fn where_the_waker_was_at_the_wake_up_its_stack_says() {
    let waker = |reason: u64| {
        let mut s = Script::new("p");
        let done = s.method("com.example.Loader.done", "()V");
        let main = s.events_thread(1, "main", 1);
        let waker = s.events_thread(2, "waker", 2);
        let [node, _] = s.stack(&[(done, 1)]);
        s.at(main, 100)
            .event(Extension::MessageDispatched, &[("message", 1)])
            .event(Extension::WaitBegin, &[("kind", 1), ("number", 3)])
            .at(500_000_000)
            .event(Extension::WokenBy, &[("by", 2)])
            .event(Extension::WaitEnd, &[("kind", 1), ("number", 3)])
            .event(Extension::MessageDone, &[("message", 1)]);
        s.at(waker, 100_000_000)
            .event(Extension::TaskBegin, &[("task", 5)])
            .at(499_999_000)
            .event(Extension::Wakes, &[("thread", 1), ("wait", 3)])
            .after(50)
            .extension(Extension::Stack, &[node, reason])
            .after(50)
            .event(Extension::TaskEnd, &[("task", 5)]);
        s.stop_at(900_000_000);
        let stall = ask(&s).event_stalls.remove(0);
        // It was there at one time, which does not say that it was for long.
        assert_eq!(stall.culprit.unwrap().0, "a task of unknown class");
        let place = stall.wait.unwrap().waker.unwrap().place;
        place.map(|place| place.method)
    };
    assert_eq!(waker(4).as_deref(), Some("com.example.Loader.done"));
    assert_eq!(waker(2), None);
}

mod culprits;
