// SPDX-License-Identifier: Apache-2.0
//! Tests of stalls of threads that record events only.

use super::*;
use crate::stalls::find::stalls;
use hindsight_testkit::{events_only, Recorder, Script, STALL_NS};

const POLL: u64 = 5;

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
    assert_eq!(stall.what, Some(SpanKind::Message));
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
