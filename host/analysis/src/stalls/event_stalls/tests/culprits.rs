// SPDX-License-Identifier: Apache-2.0
//! Who is the culprit, and who is not. The main thread is busy with a message, and waits about 700 ms.

use super::*;
use crate::stalls::model::EventWait;
use hindsight_decoder::Extension::{
    BinderReply, BinderSend, BinderServe, BinderServed, LockWait, MessageDispatched, MessageDone,
    Released, RuleBegin, RuleEnd, Stack, TaskBegin, TaskEnd, WaitBegin, WaitEnd, Wakes, WokenBy,
};

const OBJECT: u64 = 1;
const PARK: u64 = 3;
/// Times are µs.
const US: u64 = 1_000;

type Event<'a> = (u64, Extension, &'a [(&'a str, u64)]);

/// A script with the thread `main` (tid 1), and others.
struct Scene {
    script: Script,
    threads: u64,
}

impl Scene {
    fn new() -> Self {
        let script = Script::new("p");
        Scene { script, threads: 0 }
    }

    fn class(&mut self, name: &str) -> u64 {
        self.script.method(&format!("{name}.run"), "()V")
    }

    /// A thread, whose id is its place among the threads, from 1.
    fn thread(&mut self, name: &str, events: &[Event<'_>]) -> &mut Self {
        self.threads += 1;
        let tid = u32::try_from(self.threads).unwrap();
        let thread = self.script.events_thread(tid, name, self.threads);
        for (at, kind, fields) in events {
            let mut recorder = self.script.at(thread, at * US);
            match (kind, fields) {
                (Stack, [(_, node), (_, reason)]) => recorder.extension(*kind, &[*node, *reason]),
                _ => recorder.event(*kind, fields),
            };
        }
        self
    }

    /// The main thread waits for a lock that thread `owner` holds.
    fn main_waits_for_lock(&mut self, owner: u64) -> &mut Self {
        self.thread(
            "main",
            &[
                (1_000, MessageDispatched, &[("message", 5)]),
                (2_000, LockWait, &[("held by", owner), ("lock", 0x55)]),
                (2_000, WaitBegin, &[("kind", LOCK), ("number", 1)]),
                (702_000, WaitEnd, &[("kind", LOCK), ("number", 1)]),
                (702_020, MessageDone, &[("message", 5)]),
            ],
        )
    }

    /// The main thread waits until thread `waker` wakes it.
    fn main_is_parked(&mut self, waker: u64) -> &mut Self {
        self.thread(
            "main",
            &[
                (1_000, MessageDispatched, &[("message", 5)]),
                (2_000, WaitBegin, &[("kind", PARK), ("number", 1)]),
                (702_000, WokenBy, &[("by", waker)]),
                (702_010, WaitEnd, &[("kind", PARK), ("number", 1)]),
                (702_020, MessageDone, &[("message", 5)]),
            ],
        )
    }

    /// Thread `name` sleeps in the task, and then does this.
    fn sleeps(&mut self, name: &str, task: u64, until: u64, then: Event<'_>) -> &mut Self {
        self.thread(
            name,
            &[
                (600, TaskBegin, &[("task", 90), ("class", task)]),
                (700, WaitBegin, &[("kind", SLEEP), ("number", 1)]),
                (
                    until - 100,
                    WaitEnd,
                    &[("kind", SLEEP), ("number", 1), ("result", 1)],
                ),
                then,
                (until + 200, TaskEnd, &[("task", 90)]),
            ],
        )
    }

    fn ask(&mut self) -> EventStall {
        self.script.stop_at(705_000 * US);
        ask(&self.script).event_stalls.remove(0)
    }
}

/// The culprit's last name, and its thread.
fn culprit(stall: &EventStall) -> Option<(&str, &str)> {
    let (what, thread) = stall.culprit.as_ref()?;
    Some((what.rsplit(['.', ' ']).next()?, thread))
}

fn party(wait: &EventWait) -> &str {
    wait.party().unwrap().thread.as_deref().unwrap()
}

/// A thread that runs one task after the other: the wait ended in another task than the one that took the time.
#[test]
fn of_several_tasks_it_is_the_one_that_took_the_time() {
    let mut s = Scene::new();
    let (slow, quick) = (s.class("Slow"), s.class("Quick"));
    s.main_is_parked(2).thread(
        "pool",
        &[
            (500, TaskBegin, &[("task", 11), ("class", slow)]),
            (900, WaitBegin, &[("kind", SLEEP), ("number", 1)]),
            (701_000, WaitEnd, &[("kind", SLEEP), ("number", 1)]),
            (701_100, TaskEnd, &[("task", 11)]),
            (701_200, TaskBegin, &[("task", 12), ("class", quick)]),
            (701_990, Wakes, &[("thread", 1), ("wait", 1)]),
            (702_500, TaskEnd, &[("task", 12)]),
        ],
    );
    assert_eq!(culprit(&s.ask()), Some(("Slow", "pool")));
    // The owner held the lock through several tasks.
    let mut s = Scene::new();
    let (life, slow, quick) = (s.class("Life"), s.class("Slow"), s.class("Quick"));
    let life: &[_] = &[("task", 1), ("class", life), ("kind", THREAD)];
    s.main_waits_for_lock(2).thread(
        "pool",
        &[
            (100, TaskBegin, life),
            (500, TaskBegin, &[("task", 11), ("class", quick)]),
            (2_100, TaskEnd, &[("task", 11)]),
            (2_200, TaskBegin, &[("task", 12), ("class", slow)]),
            (701_980, TaskEnd, &[("task", 12)]),
            (701_990, Released, &[("lock", 0x55), ("waiters", 1)]),
        ],
    );
    assert_eq!(culprit(&s.ask()), Some(("Slow", "pool")));
    // None of two tasks, nor what is left of the thread's life, took most of the time.
    let mut s = Scene::new();
    let (one, two) = (s.class("One"), s.class("Two"));
    s.main_waits_for_lock(2).thread(
        "pool",
        &[
            (100, TaskBegin, life),
            (500, TaskBegin, &[("task", 11), ("class", one)]),
            (340_000, TaskEnd, &[("task", 11)]),
            (360_000, TaskBegin, &[("task", 12), ("class", two)]),
            (701_980, TaskEnd, &[("task", 12)]),
            (701_990, Released, &[("lock", 0x55), ("waiters", 1)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::OwnerUnclear)
    );
}

/// The same of stacks: the one at the wake-up is of the quick task.
#[test]
fn a_method_of_another_task_is_no_culprit() {
    let mut s = Scene::new();
    let (slow, quick) = (s.class("Slow"), s.class("Quick"));
    let load = s.script.method("com.example.Slow.load", "()V");
    let [loads, _] = s.script.stack(&[(slow, 1), (load, 2)]);
    let [wakes, _] = s.script.stack(&[(quick, 1)]);
    s.main_is_parked(2).thread(
        "pool",
        &[
            (500, TaskBegin, &[("task", 11), ("class", slow)]),
            (900, WaitBegin, &[("kind", SLEEP), ("number", 1)]),
            (901, Stack, &[("node", loads), ("reason", 0)]),
            (701_000, WaitEnd, &[("kind", SLEEP), ("number", 1)]),
            (701_001, Stack, &[("node", loads), ("reason", 1)]),
            (701_100, TaskEnd, &[("task", 11)]),
            (701_200, TaskBegin, &[("task", 12), ("class", quick)]),
            (701_990, Wakes, &[("thread", 1), ("wait", 1)]),
            (701_991, Stack, &[("node", wakes), ("reason", 4)]),
            (702_500, TaskEnd, &[("task", 12)]),
        ],
    );
    assert_eq!(culprit(&s.ask()), Some(("load", "pool")));
}

/// The next one in the queue for a ReentrantLock was parked as well.
#[test]
fn a_waker_that_was_parked_itself_is_no_culprit() {
    let mut s = Scene::new();
    let (slow, quick) = (s.class("Slow"), s.class("Quick"));
    s.main_is_parked(3);
    let wakes: &[_] = &[("thread", 3), ("wait", 1)];
    s.sleeps("holder", slow, 651_000, (651_010, Wakes, wakes));
    s.thread(
        "next",
        &[
            (600, TaskBegin, &[("task", 12), ("class", quick)]),
            (1_600, WaitBegin, &[("kind", PARK), ("number", 1)]),
            (651_100, WokenBy, &[("by", 2)]),
            (651_110, WaitEnd, &[("kind", PARK), ("number", 1)]),
            (701_990, Wakes, &[("thread", 1), ("wait", 1)]),
            (702_500, TaskEnd, &[("task", 12)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(culprit(&stall), Some(("Slow", "holder")));
    assert_eq!(stall.culprit_reason, Reason::Waker);
    assert_eq!(party(stall.wait.as_ref().unwrap()), "next");
    let followed: Vec<&str> = stall.followed.iter().map(party).collect();
    assert_eq!(followed, ["holder"]);
}

#[test]
fn an_owner_or_a_server_that_waited_itself_is_no_culprit() {
    let scene = |is_server: bool, is_recorded: bool| {
        let mut s = Scene::new();
        let (slow, innocent) = (s.class("Slow"), s.class("Innocent"));
        let (begin, end) = match is_server {
            true => (BinderServe, BinderServed),
            false => (TaskBegin, TaskEnd),
        };
        let work: &[_] = match is_server {
            true => &[("transaction", 7)],
            false => &[("task", 7), ("class", innocent)],
        };
        if is_server {
            s.thread(
                "main",
                &[
                    (1_000, MessageDispatched, &[("message", 5)]),
                    (2_000, BinderSend, &[("transaction", 7), ("code", 5)]),
                    (702_000, BinderReply, &[("transaction", 7)]),
                    (702_020, MessageDone, &[("message", 5)]),
                ],
            );
        } else {
            s.main_waits_for_lock(2);
        }
        let woken: &[_] = match is_recorded {
            true => &[("by", 3)],
            false => &[("by", 9)],
        };
        s.thread(
            "innocent",
            &[
                (500, WaitBegin, &[("kind", PARK), ("number", 9)]),
                (510, WaitEnd, &[("kind", PARK), ("number", 9)]),
                (2_100, begin, work),
                (2_200, WaitBegin, &[("kind", PARK), ("number", 1)]),
                (701_500, WokenBy, woken),
                (701_500, WaitEnd, &[("kind", PARK), ("number", 1)]),
                (701_990, Released, &[("lock", 0x55), ("waiters", 1)]),
                (701_995, end, &work[..1]),
            ],
        );
        let wakes: &[_] = match is_recorded {
            true => &[("thread", 2), ("wait", 1)],
            false => &[("thread", 9), ("wait", 1)],
        };
        s.sleeps("holder", slow, 701_480, (701_490, Wakes, wakes));
        s.ask()
    };
    for is_server in [false, true] {
        let known = scene(is_server, true);
        assert_eq!(culprit(&known), Some(("Slow", "holder")));
        let unknown = scene(is_server, false);
        assert_eq!(
            (culprit(&unknown), unknown.culprit_reason),
            (None, Reason::WakerNotTraced)
        );
    }
}

#[test]
fn threads_that_wait_for_each_other_have_no_culprit() {
    let mut s = Scene::new();
    let task = s.class("Task");
    s.thread(
        "main",
        &[
            (1_000, MessageDispatched, &[("message", 5)]),
            (2_000, LockWait, &[("held by", 2), ("lock", 0x55)]),
            (2_000, WaitBegin, &[("kind", LOCK), ("number", 1)]),
        ],
    )
    .thread(
        "pool",
        &[
            (500, TaskBegin, &[("task", 11), ("class", task)]),
            (2_100, LockWait, &[("held by", 1), ("lock", 0x56)]),
            (2_100, WaitBegin, &[("kind", LOCK), ("number", 1)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::OwnerWaited)
    );
    assert!(stall.is_circle);
    let followed: Vec<&str> = stall.followed.iter().map(party).collect();
    assert_eq!(followed, ["main"]);
}

/// Waiting for work is no stall.
#[test]
fn of_a_thread_without_work_the_wait_for_a_lock_counts() {
    let mut s = Scene::new();
    let classes = ["Consumer", "Producer", "Holder"].map(|name| s.class(name));
    let life = |i: usize| [("task", i as u64 + 1), ("class", classes[i]), ("kind", 1)];
    s.thread(
        "consumer",
        &[
            (100, TaskBegin, &life(0)),
            (1_000, WaitBegin, &[("kind", OBJECT), ("number", 1)]),
            (401_000, WokenBy, &[("by", 2)]),
            (401_010, WaitEnd, &[("kind", OBJECT), ("number", 1)]),
            (402_000, LockWait, &[("held by", 3), ("lock", 0x55)]),
            (402_000, WaitBegin, &[("kind", LOCK), ("number", 2)]),
            (522_000, WaitEnd, &[("kind", LOCK), ("number", 2)]),
            (523_000, WaitBegin, &[("kind", OBJECT), ("number", 3)]),
        ],
    )
    .thread(
        "producer",
        &[
            (100, TaskBegin, &life(1)),
            (400_990, Wakes, &[("thread", 1), ("wait", 1)]),
        ],
    )
    .thread(
        "holder",
        &[
            (100, TaskBegin, &life(2)),
            (401_500, WaitBegin, &[("kind", SLEEP), ("number", 1)]),
            (521_900, WaitEnd, &[("kind", SLEEP), ("number", 1)]),
            (521_990, Released, &[("lock", 0x55), ("waiters", 1)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(culprit(&stall), Some(("Holder", "holder")));
    assert_eq!((stall.what, stall.held_ns), (SpanKind::Wait, 120_000 * US));
}

#[test]
fn a_waker_that_waited_for_work_itself_is_no_culprit() {
    let mut s = Scene::new();
    let quick = s.class("Quick");
    s.main_is_parked(2).thread(
        "pool",
        &[
            (1_600, WaitBegin, &[("kind", PARK), ("number", 1)]),
            (701_000, WaitEnd, &[("kind", PARK), ("number", 1)]),
            (701_010, TaskBegin, &[("task", 12), ("class", quick)]),
            (701_990, Wakes, &[("thread", 1), ("wait", 1)]),
            (702_500, TaskEnd, &[("task", 12)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::WakerWaited)
    );
    assert_eq!(stall.followed[0].party(), None);
}

/// A looper handles input in its poll.
#[test]
fn work_inside_a_poll_is_no_waiting() {
    let mut s = Scene::new();
    s.main_waits_for_lock(2).thread(
        "looper",
        &[
            (1_600, WaitBegin, &[("kind", POLL), ("number", 1)]),
            (1_700, Extension::InputBegin, &[("sequence", 4)]),
            (701_990, Released, &[("lock", 0x55), ("waiters", 1)]),
            (702_100, Extension::InputEnd, &[("sequence", 4)]),
            (702_200, WaitEnd, &[("kind", POLL), ("number", 1)]),
        ],
    );
    let (what, thread) = s.ask().culprit.unwrap();
    assert!(what.starts_with("input"), "{what}");
    assert_eq!(thread, "looper");
}

#[test]
fn a_call_that_a_rule_names_is_no_culprit() {
    let mut s = Scene::new();
    let slow = s.class("Slow");
    let put = s.script.string("Queue.put");
    s.main_waits_for_lock(2).thread(
        "pool",
        &[
            (500, TaskBegin, &[("task", 11), ("class", slow)]),
            (1_999, RuleBegin, &[("name", put), ("object", 3)]),
            (701_500, RuleEnd, &[("name", put), ("object", 3)]),
            (701_990, Released, &[("lock", 0x55), ("waiters", 1)]),
            (702_500, TaskEnd, &[("task", 11)]),
        ],
    );
    assert_eq!(culprit(&s.ask()), Some(("Slow", "pool")));
}

/// A thread that ends wakes who joins it after its task.
#[test]
fn a_thread_that_was_joined_is_a_culprit() {
    let mut s = Scene::new();
    let slow = s.class("Slow");
    let life: &[_] = &[("task", 11), ("class", slow), ("kind", THREAD)];
    s.main_is_parked(2).thread(
        "slow",
        &[
            (1_500, TaskBegin, life),
            (1_900, WaitBegin, &[("kind", SLEEP), ("number", 1)]),
            (701_000, WaitEnd, &[("kind", SLEEP), ("number", 1)]),
            (701_900, TaskEnd, &life[..1]),
            (701_990, Wakes, &[("thread", 1), ("wait", 1)]),
        ],
    );
    assert_eq!(culprit(&s.ask()), Some(("Slow", "slow")));
}

mod holders;
