// SPDX-License-Identifier: Apache-2.0
//! Who held a lock, and since when, and which thread had an id.

use super::*;

/// The owner released the lock at once, and another thread got it.
#[test]
fn an_owner_that_released_the_lock_early_is_no_culprit() {
    let scene = |got: u64, until: u64| {
        let mut s = Scene::new();
        let (slow, quick) = (s.class("Slow"), s.class("Quick"));
        let wait: &[_] = &[("kind", LOCK), ("number", 1)];
        s.main_waits_for_lock(2)
            .thread(
                "first",
                &[
                    (500, TaskBegin, &[("task", 11), ("class", quick)]),
                    (2_005, Released, &[("lock", 0x55), ("waiters", 1)]),
                ],
            )
            .thread(
                "second",
                &[
                    (600, TaskBegin, &[("task", 12), ("class", slow)]),
                    (700, LockWait, &[("held by", 2), ("lock", 0x55)]),
                    (700, WaitBegin, wait),
                    (got, WaitEnd, wait),
                    (until, Released, &[("lock", 0x55), ("waiters", 1)]),
                    (703_000, TaskEnd, &[("task", 12)]),
                ],
            );
        s.ask()
    };
    let stall = scene(2_010, 701_990);
    assert_eq!(culprit(&stall), Some(("Slow", "second")));
    let wait = stall.wait.as_ref().unwrap();
    assert_eq!(wait.owner_since_ns, Some(5 * US));
    assert_eq!(wait.released_before_ns, Some(10 * US));
    // Who held it afterwards, in between or instead is not known.
    for (got, until) in [(2_010, 300_000), (600_000, 701_990), (1_000, 701_990)] {
        let stall = scene(got, until);
        assert_eq!(
            (culprit(&stall), stall.culprit_reason),
            (None, Reason::OwnerUnclear)
        );
        let wait = stall.wait.as_ref().unwrap();
        assert!(wait.owner_is_unclear);
        assert_eq!(party(wait), "first");
    }
}

/// A thread that did not wait for the lock may have got it at any time.
#[test]
fn of_the_last_of_two_releases_it_must_be_known_when_its_thread_got_the_lock() {
    let mut s = Scene::new();
    let (slow, quick) = (s.class("Slow"), s.class("Quick"));
    let releases: &[_] = &[("lock", 0x55), ("waiters", 1)];
    s.main_waits_for_lock(2).thread(
        "first",
        &[
            (500, TaskBegin, &[("task", 11), ("class", quick)]),
            (2_005, Released, releases),
        ],
    );
    s.sleeps("second", slow, 701_990, (701_990, Released, releases));
    let stall = s.ask();
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::OwnerUnclear)
    );
}

/// All that the owner did is recorded, but no release.
#[test]
fn an_owner_that_never_released_the_lock_is_no_culprit() {
    let mut s = Scene::new();
    let slow = s.class("Slow");
    s.main_waits_for_lock(2).thread(
        "owner",
        &[
            (500, TaskBegin, &[("task", 11), ("class", slow)]),
            (703_000, TaskEnd, &[("task", 11)]),
        ],
    );
    let stall = s.ask();
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::OwnerUnclear)
    );
    assert!(stall.wait.unwrap().owner_is_unclear);
}

/// The kernel gives ids of ended threads to new ones.
#[test]
fn a_thread_that_began_after_the_wait_is_not_its_owner() {
    let scene = |from: u64, lock: u64| {
        let mut s = Scene::new();
        let task = s.class("Task");
        let life: &[_] = &[("task", 11), ("class", task), ("kind", THREAD)];
        s.main_waits_for_lock(2).thread(
            "other",
            &[
                (from, TaskBegin, life),
                (701_990, Released, &[("lock", lock), ("waiters", 1)]),
                (704_000, TaskEnd, &life[..1]),
            ],
        );
        s.ask()
    };
    assert_eq!(culprit(&scene(1_000, 0x55)), Some(("Task", "other")));
    assert_eq!(culprit(&scene(100_000, 0x55)), None);
    let stall = scene(100_000, 0x56);
    assert_eq!(
        (culprit(&stall), stall.culprit_reason),
        (None, Reason::OwnerNotTraced)
    );
    let owner = stall.wait.unwrap().owner.unwrap();
    assert_eq!(
        (owner.thread, owner.missing),
        (None, Some(Missing::BeganLater))
    );
}

/// It ended before the wait for the lock began.
#[test]
fn a_thread_that_has_stopped_is_not_the_owner() {
    let scene = |last: Extension| {
        let mut s = Scene::new();
        s.main_waits_for_lock(2);
        let other = s.script.events_thread(2, "other", 2);
        (s.script.at(other, 500 * US))
            .event(WaitEnd, &[("kind", PARK), ("number", 1)])
            .at(900 * US)
            .event(last, &[]);
        s.script.end_thread(other, 950 * US);
        s.ask().wait.unwrap().owner.unwrap()
    };
    let stopped = scene(Extension::Stopped);
    assert_eq!((stopped.tid, stopped.thread), (2, None));
    // Its recording may end before it does.
    let cut = scene(Extension::CheckpointBegin);
    assert_eq!(cut.thread.as_deref(), Some("other"));
}

/// The owner waited since before, and the lock that it waited for changed hands before.
#[test]
fn a_release_before_the_wait_that_is_followed_keeps_its_time() {
    let mut s = Scene::new();
    let (slow, quick) = (s.class("Slow"), s.class("Quick"));
    let (one, other): (&[_], &[_]) = (&[("lock", 0x55)], &[("lock", 0x56)]);
    let wait: &[_] = &[("kind", LOCK), ("number", 1)];
    let of_other: &[_] = &[("held by", 3), ("lock", 0x56)];
    s.main_waits_for_lock(2)
        .thread(
            "owner",
            &[
                (400, TaskBegin, &[("task", 11), ("class", quick)]),
                (500, LockWait, of_other),
                (500, WaitBegin, wait),
                (701_600, WaitEnd, wait),
                (701_990, Released, one),
            ],
        )
        .thread(
            "first",
            &[
                (300, TaskBegin, &[("task", 12), ("class", quick)]),
                (1_500, Released, other),
            ],
        )
        .thread(
            "second",
            &[
                (300, TaskBegin, &[("task", 13), ("class", slow)]),
                (600, LockWait, of_other),
                (600, WaitBegin, wait),
                (1_510, WaitEnd, wait),
                (701_590, Released, other),
            ],
        );
    let stall = s.ask();
    assert_eq!(culprit(&stall), Some(("Slow", "second")));
    assert_eq!(stall.followed[0].owner_since_ns, Some(1_000 * US));
}
