// SPDX-License-Identifier: Apache-2.0
//! Tests of stalls.

use super::*;
use crate::callees::{Callee, Others};
use crate::path::ChainCall;
use hindsight_decoder::Extension;
use hindsight_decoder::Trace;
use hindsight_testkit::{stall, Script, ThreadIndex, STALL_NS as WAIT_NS};

fn decode(script: &Script) -> Trace {
    Trace::decode("test".as_ref(), &script.encode()).unwrap()
}

fn ask(trace: &Trace, limit: usize, stall_ns: u64) -> Stalls {
    let question = Question { limit, stall_ns };
    stalls(trace, trace.main_thread().unwrap(), &question)
}

/// The first chain, however short.
fn first(trace: &Trace) -> Chain {
    ask(trace, 1, 0).chains.remove(0)
}

fn pair(method: &str, thread: &str) -> Option<(String, String)> {
    Some((method.into(), thread.into()))
}

fn names(calls: &[ChainCall]) -> Vec<&str> {
    calls
        .iter()
        .map(|l| l.method.rsplit_once("notes.").map_or(&*l.method, |m| m.1))
        .collect()
}

#[test]
fn the_chain_that_waited_and_the_method_that_slept_are_found() {
    let trace = decode(&stall());
    let chain = first(&trace);
    assert_eq!(
        names(&chain.calls),
        [
            "android.os.Handler.dispatchMessage",
            "NoteListScreen.handleMessage",
            "NoteListScreen.openNote",
            "NoteStore.find"
        ]
    );
    assert!(chain.held_ns > WAIT_NS && chain.held_ns < WAIT_NS + 2_000_000);
    assert_eq!(chain.last.longest_gap_ns, WAIT_NS);
    assert!(!chain.still_running);
    assert_eq!(
        chain.callers,
        ["com.example.notes.NotesApp.main", "android.os.Looper.loop"]
    );

    let evidence = &chain.evidence[0];
    assert_eq!(evidence.thread, "notes-sync");
    assert_eq!(
        names(&evidence.calls),
        [
            "android.os.Handler.dispatchMessage",
            "SyncWorker.handleMessage",
            "SyncWorker.save",
            "NoteStore.saveAll",
            "NoteFile.writeAll",
            "NoteFile.syncToFlash",
            "java.lang.Thread.sleep"
        ]
    );
    assert!(evidence.share > 0.98 && evidence.sleeps && evidence.same_class);
    let together = &evidence.calls[evidence.ended_together.unwrap()];
    assert_eq!(together.method, "com.example.notes.NoteStore.saveAll");
    assert_eq!(chain.activity, Activity::Unknown);
    assert_eq!(chain.lock_owner, None);
    // Times alone make a suspect, not a culprit.
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::NotRecorded)
    );
    let suspect = pair("com.example.notes.NoteFile.syncToFlash", "notes-sync");
    assert_eq!(chain.suspect, suspect);
}

/// A thread that takes short calls back need not wait when it records none.
#[test]
fn a_gap_of_a_thread_that_takes_short_calls_back_has_no_suspect() {
    let mut script = stall();
    take_back(&mut script, ThreadIndex::FIRST);
    let chain = first(&decode(&script));
    assert_eq!(chain.activity, Activity::Unknown);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::NotRecorded)
    );
    assert_eq!((chain.suspect, chain.evidence), (None, Vec::new()));
    assert_eq!(chain.last.taken_back_below_ns, Some(50_000));
    // A wait that is recorded has its explanation.
    let mut script = hindsight_testkit::recorded_owner();
    take_back(&mut script, ThreadIndex::FIRST);
    assert_eq!(first(&decode(&script)).culprit_reason, Reason::LockOwner);
}

#[test]
fn a_gap_of_a_thread_without_messages_is_a_stall_only_if_no_calls_were_taken_back() {
    let found = |takes_back: bool| {
        let mut s = Script::new("p");
        let run = s.method("a.Work.run", "()V");
        let main = s.thread(1, "main");
        s.at(main, 0).call(run, 500_000_000);
        if takes_back {
            take_back(&mut s, main);
        }
        let found = ask(&decode(&s), 1, 100_000_000);
        (found.stall, found.chains[0].activity)
    };
    assert_eq!(found(false), (Some(true), Activity::Unknown));
    assert_eq!(found(true), (None, Activity::Unknown));
}

/// The thread takes calls back that are shorter than 50 µs.
fn take_back(script: &mut Script, thread: ThreadIndex) {
    script.taken_back(thread, 50_000, 1_000);
}

/// Main waits 500 ms in a.Main.need; a worker does `other` meanwhile.
fn waits(record: impl FnOnce(&mut Script)) -> Trace {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let need = s.method("a.Main.need", "()V");
    let main = s.thread(1, "main");
    s.at(main, 0).enter(dispatch).after(10).enter(need);
    record(&mut s);
    s.at(main, 500_000_010).exit().after(5).exit();
    decode(&s)
}

#[test]
fn the_owner_of_the_lock_outranks_what_merely_happened_meanwhile() {
    let trace = waits(|s| {
        let busy = s.method("b.Busy.run", "()V");
        let held = s.method("c.Store.save", "()V");
        let wait = s.method("java.lang.Object.wait", "()V");
        let other = s.thread(2, "busy");
        let owner = s.thread(3, "owner");
        s.at(other, 0).call(busy, 500_000_010);
        s.at(owner, 0).enter(held).enter(wait);
        lock_wait(s, 3);
    });
    let chain = first(&trace);
    let owner = chain.lock_owner.unwrap();
    assert_eq!((owner.tid, owner.thread.as_deref()), (3, Some("owner")));
    assert!(owner.traced && owner.lock == 0xabc);
    assert_eq!(chain.evidence[0].thread, "owner");
    assert!(chain.evidence[0].owns_lock);
    assert_eq!(chain.evidence[1].thread, "busy");
    assert_eq!(chain.activity, Activity::Waited);
    assert_eq!(chain.culprit, pair("c.Store.save", "owner"));
    assert_eq!(chain.culprit_reason, Reason::LockOwner);
}

/// Main waits for a lock of the thread `owner`.
fn lock_wait(s: &mut Script, owner: u64) {
    s.at(ThreadIndex::FIRST, 20)
        .extension(Extension::LockWait, &[owner, 0xabc]);
}

#[test]
fn the_waiting_thread_is_never_the_culprit() {
    let nobody = |trace: &Trace, reason: Reason| {
        let chain = first(trace);
        assert_eq!((&chain.culprit, &chain.suspect), (&None, &None));
        assert_eq!(chain.culprit_reason, reason);
        chain
    };
    let untraced = nobody(&waits(|s| lock_wait(s, 77)), Reason::OwnerNotTraced);
    let owner = untraced.lock_owner.unwrap();
    assert_eq!((owner.tid, owner.thread, owner.traced), (77, None, false));
    nobody(&waits(|_| ()), Reason::NotRecorded);
    // The owner is traced, but is at work on something else most of the time, or waits for work.
    for method in ["b.Short.run", "android.os.MessageQueue.next"] {
        let short = waits(|s| {
            let run = s.method(method, "()V");
            let owner = s.thread(3, "owner");
            let mut r = s.at(owner, 0);
            if method.starts_with('b') {
                r.call(run, 1_000).after(499_000_000).call(run, 1_000);
            } else {
                r.enter(run);
            }
            lock_wait(s, 3);
        });
        nobody(&short, Reason::OwnerUnclear);
    }
    // Two threads had the owner's id: it is not certain which one is meant.
    let reused = waits(|s| {
        let run = s.method("b.Busy.run", "()V");
        for name in ["first", "second"] {
            let owner = s.thread(3, name);
            s.at(owner, 0).call(run, 500_000_010);
        }
        lock_wait(s, 3);
    });
    let chain = first(&reused);
    assert_eq!(chain.culprit_reason, Reason::OwnerUnclear);
    assert_eq!(chain.lock_owner.unwrap().thread, None);
}

/// Over several hops the culprit is not known yet; a thread that waits itself is not it.
#[test]
fn an_owner_that_waits_for_a_lock_itself_is_no_culprit() {
    let trace = waits(|s| {
        let update = s.method("c.Index.update", "()V");
        let save = s.method("c.Store.save", "()V");
        let owner = s.thread(3, "owner");
        s.at(owner, 0)
            .enter(update)
            .after(15)
            .extension(Extension::LockWait, &[4, 0xdef])
            .at(500_000_000)
            .exit();
        let last = s.thread(4, "last");
        s.at(last, 0).call(save, 499_999_990);
        lock_wait(s, 3);
    });
    let chain = first(&trace);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::OwnerWaited)
    );
    let owner = &chain.evidence[0];
    assert!(owner.owns_lock);
    assert_eq!(owner.lock_owner.as_ref().unwrap().tid, 4);
}

/// The next one in the queue for a lock of the program's was parked as well.
#[test]
fn a_thread_that_was_parked_itself_is_no_culprit() {
    let next = |kind: u64| {
        parked(2, |s| {
            let run = s.method("b.Quick.run", "()V");
            let park = s.method("sun.misc.Unsafe.park", "()V");
            let worker = s.thread(2, "next");
            s.at(worker, 0)
                .enter(run)
                .after(10)
                .enter(park)
                .event(Extension::WaitBegin, &[("kind", kind), ("number", 1)])
                .at(450_000_000)
                .event(Extension::WokenBy, &[("by", 3)])
                .event(Extension::WaitEnd, &[("kind", kind), ("number", 1)])
                .exit()
                .at(499_999_000)
                .exit();
        })
    };
    let chain = next(3);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::WakerWaited)
    );
    let next_thread = &chain.evidence[0];
    assert_eq!(next_thread.waker.as_ref().unwrap().tid, 3);
    assert!(next_thread.waited_ns > 400_000_000);
    // A sleep is its own choice.
    assert_eq!(next(2).culprit, pair("b.Quick.run", "next"));
}

/// Main waits in Object.wait until the thread with the id `waker` wakes it, if that is not 0.
fn parked(waker: u64, record: impl FnOnce(&mut Script)) -> Chain {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let get = s.method("a.Future.get", "()V");
    let wait = s.method("java.lang.Object.wait", "()V");
    let main = s.thread(1, "main");
    s.at(main, 0).enter(dispatch).enter(get).enter(wait);
    record(&mut s);
    let mut r = s.at(main, 500_000_000);
    if waker != 0 {
        r.extension(Extension::WokenBy, &[waker]);
    }
    r.exit().after(5).exit().after(5).exit();
    first(&decode(&s))
}

#[test]
fn who_woke_a_thread_is_a_fact() {
    let work = |s: &mut Script| {
        let run = s.method("b.Loader.load", "()V");
        let worker = s.thread(2, "loader");
        s.at(worker, 0).call(run, 499_999_000);
    };
    let chain = parked(2, work);
    assert_eq!(chain.culprit, pair("b.Loader.load", "loader"));
    assert_eq!(chain.culprit_reason, Reason::Waker);
    assert!(chain.evidence[0].woke);
    let chain = parked(88, work);
    assert_eq!(chain.waker.unwrap().tid, 88);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::WakerNotTraced)
    );
    let chain = parked(0, |_| ());
    assert_eq!(chain.activity, Activity::Waited);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::NotRecorded)
    );
    let idle = parked(2, |s| {
        let next = s.method("android.os.MessageQueue.next", "()V");
        let worker = s.thread(2, "messenger");
        s.at(worker, 0).call(next, 499_999_000);
    });
    assert_eq!(
        (idle.culprit, idle.culprit_reason),
        (None, Reason::WakerUnclear)
    );
}

#[test]
fn a_thread_that_sleeps_was_held_up_by_nobody() {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let sleep = s.method("java.lang.Thread.sleep", "(J)V");
    let busy = s.method("b.Busy.run", "()V");
    let main = s.thread(1, "main");
    s.at(main, 0)
        .enter(dispatch)
        .call(sleep, 500_000_000)
        .exit();
    let other = s.thread(2, "busy");
    s.at(other, 0).call(busy, 499_999_999);
    let chain = first(&decode(&s));
    assert_eq!(chain.activity, Activity::Waited);
    assert_eq!((&chain.culprit, &chain.suspect), (&None, &None));
    assert_eq!(chain.culprit_reason, Reason::Slept);
}

#[test]
fn a_trace_without_a_stall_says_so() {
    let mut s = Script::new("p");
    let looper = s.method("android.os.Looper.loop", "()V");
    let next = s.method("android.os.MessageQueue.next", "()V");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(looper);
    for ms in [1, 7, 3] {
        r.call(dispatch, ms * 1_000_000)
            .after(10)
            .call(next, 400_000_000);
    }
    let trace = decode(&s);
    let found = ask(&trace, 9, STALL_NS);
    assert!(found.stall == Some(false) && found.messages);
    assert_eq!((found.longest_ns, found.chains), (Some(7_000_000), vec![]));
    let found = ask(&trace, 9, 3_000_000);
    let held: Vec<u64> = found.chains.iter().map(|c| c.held_ns).collect();
    assert_eq!(found.stall, Some(true));
    assert_eq!(held, [7_000_000, 3_000_000]);
}

#[test]
fn a_thread_that_computes_or_waits_for_work_has_no_stall() {
    let mut s = Script::new("p");
    let names = [
        "a.Parser.run",
        "a.Parser.token",
        "java.lang.Daemons$HeapTaskDaemon.runInternal",
        "dalvik.system.VMRuntime.runHeapTasks",
        "java.lang.Object.wait",
        "java.util.concurrent.ThreadPoolExecutor.getTask",
        "jdk.internal.misc.Unsafe.park",
    ];
    let [run, token, daemon, heap_tasks, wait, task, park] = names.map(|n| s.method(n, "()V"));
    let computing = s.thread(1, "main");
    let mut r = s.at(computing, 0);
    r.exit().enter(run);
    for _ in 0..1_000 {
        r.call(token, 300_000);
    }
    let idle = s.thread(2, "HeapTaskDaemon");
    s.at(idle, 0).enter(daemon).enter(heap_tasks);
    let pool = s.thread(3, "pool-1");
    let mut r = s.at(pool, 0);
    r.enter(run);
    for _ in 0..10 {
        r.enter(task).call(park, 25_000_000).exit().call(token, 400);
    }
    let waiting = s.thread(4, "ReferenceQueueDaemon");
    s.at(waiting, 0).enter(daemon).enter(wait);
    let await_stall = s.method("dev.hindsight.Watchdog.awaitStall", "()V");
    let watchdog = s.thread(5, "hindsight-watchdog");
    s.at(watchdog, 0).enter(run).enter(await_stall).enter(wait);
    let trace = decode(&s);
    let of = |thread: usize| stalls(&trace, &trace.threads[thread], &Question::default());
    let busy = of(0);
    assert!(busy.stall == Some(false) && !busy.messages);
    let chain = &busy.chains[0];
    assert_eq!(
        (chain.activity, chain.culprit_reason),
        (Activity::Busy, Reason::Busy)
    );
    assert_eq!((&chain.culprit, &chain.suspect), (&None, &None));
    assert_eq!(chain.last.callees[0].method, "a.Parser.token");
    for idle in [of(1), of(2), of(3), of(4)] {
        assert!(
            idle.stall == Some(false) && idle.waited_for_work,
            "{idle:?}"
        );
        assert_eq!((idle.longest_ns, idle.chains), (None, vec![]));
    }
}

/// Waiting for work, for instance, is recognized by names.
#[test]
fn without_names_no_stall_is_claimed() {
    let mut s = Script::new("p");
    let main = s.thread(1, "main");
    s.at(main, 0)
        .enter(0x1234_5000)
        .call(0x1234_5678, 500_000_000);
    let found = ask(&decode(&s), 1, STALL_NS);
    assert!(found.stall.is_none() && !found.named);
    assert_eq!(found.chains[0].held_ns, 500_000_000);
    let mut empty = Script::new("p");
    empty.thread(1, "main");
    let found = ask(&decode(&empty), 1, STALL_NS);
    assert!(found.named && found.chains.is_empty());
}

#[test]
fn a_message_that_computes_for_long_is_a_stall() {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let bind = s.method("a.Row.bind", "()V");
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(dispatch);
    for _ in 0..1_000 {
        r.call(bind, 300_000);
    }
    r.exit();
    let found = ask(&decode(&s), 1, STALL_NS);
    assert!(found.stall == Some(true) && found.messages);
    assert_eq!(found.chains[0].activity, Activity::Busy);
}

/// Main runs `calls` (method, ns) in a message, one after the other.
fn message(calls: &[(&str, u64)]) -> Trace {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let ids: Vec<u64> = calls.iter().map(|(m, _)| s.method(m, "()V")).collect();
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(dispatch);
    for ((_, ns), id) in calls.iter().zip(ids) {
        r.call(id, *ns);
    }
    r.exit();
    decode(&s)
}

#[test]
fn a_message_that_waits_for_a_queue_is_a_stall() {
    let queue = "java.util.concurrent.LinkedBlockingQueue.take";
    let found = ask(&message(&[(queue, 900_000_000)]), 1, STALL_NS);
    assert_eq!(found.stall, Some(true));
    let chain = &found.chains[0];
    assert_eq!(chain.activity, Activity::Waited);
    assert!(chain.last.sleeps && chain.waited_ns == 900_000_000);
}

#[test]
fn the_tasks_of_a_pool_are_looked_at_one_by_one() {
    let mut s = Script::new("p");
    let names = [
        "java.util.concurrent.ThreadPoolExecutor.runWorker",
        "java.util.concurrent.ThreadPoolExecutor.getTask",
        "a.Net.load",
    ];
    let [worker, next, load] = names.map(|n| s.method(n, "()V"));
    let pool = s.thread(1, "pool-1");
    s.at(pool, 0)
        .enter(worker)
        .call(next, 1_500_000_000)
        .call(load, 900_000_000)
        .call(next, 100_000_000);
    let found = ask(&decode(&s), 9, STALL_NS);
    assert_eq!(found.stall, Some(true));
    let held: Vec<u64> = found.chains.iter().map(|c| c.held_ns).collect();
    assert_eq!(held, [900_000_000]);
}

#[test]
fn a_lock_event_explains_only_the_time_after_it() {
    let at = |ns: &[u64], owners: &[u64]| {
        first(&waits(|s| {
            let held = s.method("c.Store.save", "()V");
            for owner in [3, 4] {
                let thread = s.thread(owner, &format!("owner-{owner}"));
                s.at(thread, 0).call(held, 500_000_010);
            }
            for (&ns, &owner) in ns.iter().zip(owners) {
                s.at(ThreadIndex::FIRST, ns)
                    .extension(Extension::LockWait, &[owner, 0xabc]);
            }
        }))
    };
    let late = at(&[499_000_000], &[3]);
    assert_eq!(late.activity, Activity::Unknown);
    assert_eq!((late.lock_owner, late.culprit), (None, None));
    let early = at(&[100_000_010], &[3]);
    assert_eq!(early.last.recorded_wait_ns, Some(400_000_000));
    assert_eq!(early.culprit, pair("c.Store.save", "owner-3"));
    // The second owner had the lock for most of the time.
    let second = at(&[20, 100_000_000], &[3, 4]);
    assert_eq!(second.culprit, pair("c.Store.save", "owner-4"));
    // Neither had.
    let both = at(&[20, 250_000_010], &[3, 4]);
    assert_eq!((both.activity, both.lock_owner), (Activity::Waited, None));
    assert_eq!(both.last.lock_waits, 2);
}

#[test]
fn many_sleeps_that_the_thread_chose_are_a_sleep() {
    let calls = [
        ("java.lang.Thread.sleep", 6_000_000),
        ("a.A.work", 4_000_000),
    ];
    let chain = first(&message(&calls.repeat(60)));
    assert_eq!(chain.culprit_reason, Reason::Slept);
    assert_eq!(chain.slept_ns, 360_000_000);
}

#[test]
fn a_method_without_a_name_is_no_culprit() {
    let trace = waits(|s| {
        let owner = s.thread(3, "owner");
        s.at(owner, 0).call(0x600e_5a70, 500_000_010);
        lock_wait(s, 3);
    });
    let chain = first(&trace);
    assert_eq!(
        (chain.culprit, chain.culprit_reason),
        (None, Reason::OwnerUnnamed)
    );
}

/// The deepest named method did not hold the lock itself: a call below it did, whose name is missing.
#[test]
fn a_method_above_a_nameless_call_is_no_culprit() {
    let owned_in = |owns_lock: bool| {
        let trace = waits(|s| {
            let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
            let save = s.method("c.Store.save", "()V");
            let owner = s.thread(3, "owner");
            s.at(owner, 0)
                .enter(dispatch)
                .enter(save)
                .call(0x600e_5a70, 500_000_010)
                .exit()
                .exit();
            if owns_lock {
                lock_wait(s, 3);
            }
        });
        first(&trace)
    };
    let known = owned_in(true);
    let nothing = (None, Reason::OwnerUnnamed);
    assert_eq!((known.culprit, known.culprit_reason), nothing);
    assert_eq!(owned_in(false).suspect, None);
}

/// In a damaged ring the looper may have no name.
#[test]
fn messages_that_a_nameless_call_dispatches_are_messages() {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let work = s.method("a.A.work", "()V");
    let main = s.thread(1, "main");
    // Two calls whose entries are not in the ring, and a message in the inner one.
    let mut r = s.at(main, 0);
    r.call(work, 100);
    r.after(10).enter(dispatch).after(5).enter(0x600e_5a70);
    // A message in a message is part of it.
    r.call(dispatch, 300_000_000).exit().exit();
    r.after(20_000_000).call(dispatch, 200).exit().exit();
    let trace = decode(&s);
    let found = ask(&trace, 3, STALL_NS);
    assert!(found.messages);
    assert_eq!(found.chains.len(), 1);
    let chain = &found.chains[0];
    assert_eq!(chain.calls[0].method, "android.os.Handler.dispatchMessage");
    assert_eq!(chain.held_ns, 300_000_005);
    assert_eq!(chain.callers.len(), 2);
}

#[test]
fn a_damaged_ring_without_a_stall_does_not_tell() {
    let mut trace = message(&[("a.A.work", 1_000)]);
    let thread = trace.threads[0].key;
    trace.damaged.push(hindsight_decoder::Damage {
        part: hindsight_decoder::DamagedPart::Ring {
            thread,
            tid: Some(1),
            name: Some("main".into()),
            kept_slots: 4,
            slots: Some(9),
        },
        reason: "cut".into(),
    });
    let found = ask(&trace, 1, STALL_NS);
    assert!(found.stall.is_none() && found.damaged);
}

#[test]
fn threads_that_wait_for_work_are_no_evidence() {
    let trace = waits(|s| {
        let idle = s.method("android.os.MessageQueue.next", "()V");
        let other = s.thread(2, "idle");
        s.at(other, 0).call(idle, 500_000_010);
    });
    assert_eq!(first(&trace).evidence, []);
}

#[test]
fn since_android_12_messages_are_run_by_loop_once() {
    let mut s = Script::new("p");
    let names = [
        "android.os.Looper.loop",
        "android.os.Looper.loopOnce",
        "android.os.MessageQueue.next",
        "a.Screen.open",
    ];
    let [looper, once, next, open] = names.map(|n| s.method(n, "()V"));
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(looper);
    for ms in [200, 5] {
        r.enter(once).call(next, 300_000_000);
        r.call(open, ms * 1_000_000).exit();
    }
    let found = ask(&decode(&s), 9, STALL_NS);
    let held: Vec<u64> = found.chains.iter().map(|c| c.held_ns).collect();
    assert_eq!(held, [200_000_000]);
}

#[test]
fn a_stall_that_goes_on_comes_first_although_an_older_one_was_longer() {
    let mut s = Script::new("p");
    let dispatch = s.method("android.os.Handler.dispatchMessage", "()V");
    let main = s.thread(1, "main");
    s.at(main, 0)
        .call(dispatch, 900_000_000)
        .after(8_000_000_000)
        .enter(dispatch);
    s.stop_at(9_400_000_000);
    let trace = decode(&s);
    let all = ask(&trace, 5, STALL_NS).chains;
    assert_eq!(all.len(), 2);
    assert!(all[0].still_running);
    assert_eq!(all[0].held_ns, 500_000_000);
    assert_eq!(all[1].held_ns, 900_000_000);
}

/// Main waits from 1000 to 1500 ms in a.Store.find; a worker in a.Store.save until `end_ms`, of which
/// it sleeps until `slept_ms`.
fn saves(class: &str, slept_ms: u64, end_ms: u64) -> Chain {
    let mut s = Script::new("p");
    let looper = s.method("android.os.Looper.loop", "()V");
    let next = s.method("android.os.MessageQueue.next", "()V");
    let open = s.method("a.Screen.open", "()V");
    let find = s.method("a.Store.find", "()V");
    let run = s.method("a.Worker.run", "()V");
    let save = s.method(&format!("{class}.save"), "()V");
    let sleep = s.method("java.lang.Thread.sleep", "(J)V");
    let main = s.thread(1, "main");
    let worker = s.thread(2, "worker");
    const MS: u64 = 1_000_000;
    let mut r = s.at(main, 0);
    // Longer than the stall, but no message.
    r.enter(looper)
        .call(next, 900 * MS)
        .at(999 * MS)
        .enter(open)
        .at(1_000 * MS);
    r.call(find, 500 * MS).after(MS).exit().enter(next);
    let mut r = s.at(worker, 0);
    r.enter(run)
        .at(990 * MS)
        .enter(save)
        .call(sleep, (slept_ms - 990) * MS);
    r.at(end_ms * MS).exit();
    s.stop_at(3_000 * MS);
    first(&decode(&s))
}

#[test]
fn a_looper_into_which_dispatch_was_inlined_still_runs_messages() {
    let chain = saves("a.Store", 1_498, 1_499);
    assert_eq!(names(&chain.calls), ["a.Screen.open", "a.Store.find"]);
    let evidence = &chain.evidence[0];
    // A call that goes on afterwards is context.
    assert_eq!(evidence.callers, ["a.Worker.run"]);
    assert_eq!(
        names(&evidence.calls),
        ["a.Store.save", "java.lang.Thread.sleep"]
    );
    assert_eq!(
        (evidence.ended_together, evidence.same_class),
        (Some(0), true)
    );
    assert_eq!(chain.suspect, pair("a.Store.save", "worker"));
}

#[test]
fn slow_work_after_the_sleep_does_not_hide_the_lock_holder() {
    assert!(saves("a.Store", 1_459, 1_499).evidence[0].same_class);
}

#[test]
fn between_unlocking_and_returning_the_holder_may_be_held_up_itself() {
    assert!(saves("a.Store", 1_490, 1_504).evidence[0].same_class);
}

#[test]
fn without_a_common_class_a_call_that_ended_later_is_no_cause() {
    let later = saves("a.Other", 1_503, 1_504);
    assert_eq!(later.evidence[0].ended_together, None);
    assert_eq!((later.culprit, later.suspect), (None, None));
    let earlier = saves("a.Other", 1_498, 1_499);
    assert_eq!(earlier.evidence[0].ended_together, Some(0));
}

#[test]
fn a_call_that_ended_long_before_is_no_cause() {
    assert!(saves("a.Store", 1_400, 1_401)
        .evidence
        .iter()
        .all(|e| e.ended_together.is_none()));
}

#[test]
fn in_a_ring_that_lost_the_looper_messages_are_outermost_calls() {
    let mut s = Script::new("p");
    let next = s.method("android.os.MessageQueue.next", "()V");
    let open = s.method("a.Screen.open", "()V");
    let main = s.thread(1, "main");
    s.at(main, 0)
        .call(next, 900)
        .after(1)
        .call(open, 500)
        .after(1)
        .enter(next);
    assert_eq!(names(&first(&decode(&s)).calls), ["a.Screen.open"]);
}

#[test]
fn where_no_call_dominates_the_callees_are_summed_up() {
    let mut s = Script::new("p");
    let (main_method, a, b) = (
        s.method("C.main", "()V"),
        s.method("C.a", "()V"),
        s.method("C.b", "()V"),
    );
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(main_method);
    for _ in 0..10 {
        r.call(a, 3_000).call(b, 2_000);
    }
    r.exit();
    let trace = decode(&s);
    let chain = first(&trace);
    assert_eq!(chain.calls.len(), 1);
    let callee = |method: &str, ns| Callee {
        method: method.into(),
        calls: 10,
        ns,
        ..Callee::default()
    };
    assert_eq!(
        chain.last.callees,
        [callee("C.a", 30_000), callee("C.b", 20_000)]
    );
}

#[test]
fn callees_are_a_tree_of_the_calls_that_took_the_time() {
    let mut s = Script::new("p");
    let names = ["C.main", "C.a", "C.b", "C.c", "C.small"];
    let [main_method, a, b, c, small] = names.map(|n| s.method(n, "()V"));
    let main = s.thread(1, "main");
    let mut r = s.at(main, 0);
    r.enter(main_method);
    for _ in 0..10 {
        r.enter(a).call(c, 2_000).call(small, 1).exit();
        r.enter(b).after(1_000).call(c, 1_000).exit();
        r.call(small, 1);
    }
    r.exit();
    let chain = first(&decode(&s));
    let small = Others {
        methods: 1,
        calls: 10,
        ns: 10,
    };
    let c = |ns| Callee {
        method: "C.c".into(),
        calls: 10,
        ns,
        ..Callee::default()
    };
    let with = |method: &str, ns, callee, others| Callee {
        method: method.into(),
        calls: 10,
        ns,
        callees: vec![callee],
        others,
    };
    let expected = [
        with("C.a", 20_010, c(20_000), small),
        with("C.b", 20_000, c(10_000), Others::default()),
    ];
    assert_eq!(chain.last.callees, expected);
    assert_eq!(chain.last.others, small);
}

#[test]
fn a_chain_is_cut_at_the_edges_of_the_window() {
    let mut s = Script::new("p");
    let (a, b) = (s.method("C.a", "()V"), s.method("C.b", "()V"));
    let main = s.thread(1, "main");
    s.at(main, 0).call(a, 900_000_000).after(10).call(b, 500);
    let trace = decode(&s);
    let start_ns = trace.threads[0].start_ns;
    let held = |from, to| -> Vec<(u64, bool, bool)> {
        let window = crate::Window {
            from_ns: start_ns + from,
            to_ns: start_ns + to,
        };
        let selection = crate::Selection {
            window: Some(window),
            ..Default::default()
        };
        let found = ask(&selection.apply(trace.clone()), 9, 1).chains;
        let facts = |c: &Chain| (c.held_ns, c.began_before, c.still_running);
        found.iter().map(facts).collect()
    };
    let window = crate::Window {
        from_ns: start_ns + 5,
        to_ns: start_ns + 10,
    };
    let selection = crate::Selection {
        window: Some(window),
        ..Default::default()
    };
    assert!(ask(&selection.apply(trace.clone()), 1, STALL_NS).longest_is_cut);
    assert_eq!(held(0, 10), [(10, false, true)]);
    assert_eq!(held(5, 10), [(5, true, true)]);
    assert_eq!(held(900_000_000, 900_000_010), []);
    assert_eq!(held(900_000_001, 900_000_020), [(10, false, true)]);
}

/// Main is in a.Main.need for 500 ms, and records this meanwhile.
fn recorded(record: impl FnOnce(&mut hindsight_testkit::Recorder<'_>)) -> Chain {
    first(&waits(|s| {
        let mut r = s.at(ThreadIndex::FIRST, 20);
        r.extension(Extension::ThreadCpuTime, &[0]);
        record(&mut r);
    }))
}

#[test]
fn recorded_waits_and_cpu_time_tell_whether_a_quiet_thread_waited_or_computed() {
    const PARK: u64 = 3;
    let parked = recorded(|r| {
        r.event(Extension::WaitBegin, &[("kind", PARK), ("number", 1)])
            .at(499_000_000)
            .event(Extension::WaitEnd, &[("kind", PARK), ("number", 1)]);
    });
    assert_eq!(parked.activity, Activity::Waited);
    assert_eq!(parked.last.wait_kind.as_deref(), Some("park"));
    assert_eq!(parked.waited_ns, 498_999_980);
    let cpu = |ns: u64| {
        recorded(|r| {
            r.at(499_999_000).extension(Extension::ThreadCpuTime, &[ns]);
        })
    };
    let computed = cpu(480_000_000);
    assert_eq!(computed.activity, Activity::Busy);
    assert_eq!(computed.culprit_reason, Reason::Busy);
    assert_eq!(computed.used.unwrap().cpu_ns, 480_000_000);
    assert_eq!(cpu(10_000_000).activity, Activity::Unknown);
    let slept = recorded(|r| {
        r.event(Extension::WaitBegin, &[("kind", 2), ("number", 1)])
            .at(499_000_000)
            .event(Extension::WaitEnd, &[("kind", 2), ("number", 1)]);
    });
    assert_eq!(slept.culprit_reason, Reason::Slept);
}
