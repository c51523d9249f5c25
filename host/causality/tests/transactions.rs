// SPDX-License-Identifier: Apache-2.0
//! Transactions of scripted traces: roots, what belongs to them, critical paths, groups, crashes.

use hindsight_causality::transactions::{
    crashes, factors, group_crashes, groups, measure, outliers, patterns, variance, Component,
    CriticalPath, Frames, GroupBy, Measured, Paths, RootKind, StepKind, Transaction, TransactionId,
    Transactions,
};
use hindsight_causality::{Graph, Reason, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::{taps, Script, EPOCH};

const MS: u64 = 1_000_000;
const LOCK: u64 = 0;
const OBJECT: u64 = 1;
const SLEEP: u64 = 2;
const PARK: u64 = 3;
const POLL: u64 = 5;
const TIMED_OUT: u64 = 1;

struct Found {
    session: Session,
    graph: Graph,
    transactions: Transactions,
}

impl Found {
    fn of(scripts: &[&Script]) -> Self {
        let trace = |(i, s): (usize, &&Script)| {
            let name = format!("{i}.hindsight");
            (
                name.clone().into(),
                Trace::decode(name.as_ref(), &s.encode()).unwrap(),
            )
        };
        let session = Session::of(scripts.iter().enumerate().map(trace).collect());
        let graph = Graph::build(&session).unwrap();
        let transactions = Transactions::find(&session, &graph);
        Found {
            session,
            graph,
            transactions,
        }
    }

    fn paths(&self) -> Paths<'_> {
        Paths::new(&self.session, &self.graph, &self.transactions)
    }

    fn path(&self, id: u32) -> CriticalPath {
        self.paths().path(TransactionId(id)).unwrap()
    }

    fn get(&self, id: u32) -> &Transaction {
        self.transactions.get(TransactionId(id)).unwrap()
    }

    /// Kind, what and begin of each, ns after time 0.
    fn list(&self) -> Vec<(RootKind, &str, u64)> {
        let all = self.transactions.iter();
        all.map(|(_, t)| (t.kind, self.session.string(t.what), t.begin_ns - EPOCH))
            .collect()
    }

    /// Component, thread and length of each step.
    fn steps(&self, path: &CriticalPath) -> Vec<(Component, &str, u64)> {
        let steps = path.steps.iter();
        steps
            .map(|s| {
                let component = s.shares.largest().unwrap().0;
                (
                    component,
                    self.session.thread_name(s.thread),
                    s.end_ns - s.begin_ns,
                )
            })
            .collect()
    }
}

/// An input event down and up, which are one touch.
fn touch(sequence: u64, action: u64, class: u64) -> [(&'static str, u64); 4] {
    [
        ("sequence", sequence),
        ("action", action),
        ("type", 2),
        ("class", class),
    ]
}

#[test]
fn a_touch_is_one_transaction_from_down_to_up_and_the_next_one_interrupts_it() {
    let mut s = Script::new("p");
    let view = s.method("a.View.onTouch", "()V");
    let save = s.method("a.Save.run", "()V");
    let main = s.events_thread(1, "main", 1);
    let pool = s.events_thread(2, "pool", 2);
    let mut r = s.at(main, 0);
    for (at, sequence, action) in [(10, 1, 0), (20, 2, 2), (30, 3, 1), (60, 4, 0), (70, 5, 1)] {
        r.at(at * MS)
            .event(Extension::InputBegin, &touch(sequence, action, view));
        if sequence == 3 {
            r.event(Extension::TaskSubmitted, &[("task", 7), ("class", save)]);
        }
        r.at((at + 1) * MS)
            .event(Extension::InputEnd, &[("sequence", sequence)]);
    }
    s.at(pool, 31 * MS)
        .event(Extension::TaskBegin, &[("task", 7), ("class", save)])
        .after(59 * MS)
        .event(Extension::TaskEnd, &[("task", 7)]);
    s.stop_at(100 * MS);
    let found = Found::of(&[&s]);
    assert_eq!(
        found.list(),
        [
            (RootKind::Input, "a.View", 10 * MS),
            (RootKind::Input, "a.View", 60 * MS)
        ]
    );
    assert_eq!(found.get(0).interrupted_by, Some(TransactionId(1)));
    assert_eq!(found.get(1).interrupted_by, None);
    assert_eq!(found.get(0).end_ns, EPOCH + 90 * MS);
    // The path begins with the event of the touch that led to it.
    assert_eq!(found.path(0).begin_ns, EPOCH + 30 * MS);
    // After the second touch, the task goes on for 30 ms.
    let used = found.paths().used_after(TransactionId(0), EPOCH + 60 * MS);
    assert_eq!(used.total(), 30 * MS);
}

/// The main thread submits two tasks and waits for both; the second one ends later.
#[test]
fn a_path_goes_through_the_work_that_signalled_last() {
    let mut s = Script::new("p");
    let [view, quick, slow] =
        ["a.View.onTouch", "a.Quick.run", "a.Slow.run"].map(|m| s.method(m, "()V"));
    let main = s.events_thread(1, "main", 1);
    let pool: Vec<_> = (0..2)
        .map(|i| s.events_thread(2 + i, "pool", u64::from(i) + 2))
        .collect();
    let wait = |number| [("kind", PARK), ("number", number)];
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::TaskSubmitted, &[("task", 7), ("class", quick)])
        .event(Extension::TaskSubmitted, &[("task", 8), ("class", slow)])
        .event(Extension::WaitBegin, &wait(1))
        .at(21 * MS)
        .event(Extension::WaitEnd, &wait(1))
        .event(Extension::WaitBegin, &wait(2))
        .at(52 * MS)
        .event(Extension::WaitEnd, &wait(2))
        .after(MS / 2)
        .event(Extension::InputEnd, &[("sequence", 1)]);
    for (i, (task, class, until, number)) in [(7, quick, 20, 1), (8, slow, 50, 2)]
        .into_iter()
        .enumerate()
    {
        s.at(pool[i], 11 * MS)
            .event(Extension::TaskBegin, &[("task", task), ("class", class)])
            .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
            .at(until * MS)
            .event(
                Extension::WaitEnd,
                &[("kind", SLEEP), ("number", 1), ("result", TIMED_OUT)],
            )
            .event(Extension::Wakes, &[("thread", 1), ("wait", number)])
            .event(Extension::TaskEnd, &[("task", task)]);
    }
    s.stop_at(100 * MS);
    let found = Found::of(&[&s]);
    assert_eq!(found.transactions.len(), 1);
    let path = found.path(0);
    assert_eq!(
        found.steps(&path),
        [
            (Component::Queue, "pool", MS),
            (Component::Timer, "pool", 39 * MS),
            (Component::Runnable, "main", 2 * MS),
            (Component::Running, "main", MS / 2),
        ]
    );
}

#[test]
fn a_wait_that_other_work_ended_names_it_and_what_it_did() {
    let mut s = Script::new("p");
    let [view, save] = ["a.View.onTouch", "a.Save.run"].map(|m| s.method(m, "()V"));
    let (main, pool) = (s.events_thread(1, "main", 1), s.events_thread(2, "pool", 2));
    let lock = [("kind", LOCK), ("number", 1), ("object", 9)];
    s.at(pool, MS)
        .event(Extension::TaskBegin, &[("task", 7), ("class", save)])
        .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
        .at(30 * MS)
        .event(
            Extension::WaitEnd,
            &[("kind", SLEEP), ("number", 1), ("result", TIMED_OUT)],
        )
        .event(Extension::Released, &[("lock", 9), ("waiters", 1)])
        .event(Extension::TaskEnd, &[("task", 7)]);
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::LockWait, &[("held by", 2), ("lock", 9)])
        .event(Extension::WaitBegin, &lock)
        .at(31 * MS)
        .event(Extension::WaitEnd, &lock[..2])
        .event(Extension::InputEnd, &[("sequence", 1)]);
    s.stop_at(40 * MS);
    let found = Found::of(&[&s]);
    let at = found
        .list()
        .iter()
        .position(|t| t.0 == RootKind::Input)
        .unwrap();
    let path = found.path(at as u32);
    assert_eq!(path.shares()[Component::Lock], 21 * MS);
    let step = path
        .steps
        .iter()
        .find(|s| matches!(s.kind, StepKind::Wait(_)))
        .unwrap();
    let by = step.by.unwrap();
    assert_eq!(found.session.thread_name(by.thread), "pool");
    assert_eq!(
        found
            .session
            .string(found.graph.node(by.node.unwrap()).what),
        "a.Save"
    );
    assert_eq!(by.did[Component::Timer], 20 * MS);
}

#[test]
fn runs_of_a_periodic_timer_are_transactions_of_their_own() {
    let mut s = Script::new("p");
    let [view, tick] = ["a.View.onTouch", "a.Tick.run"].map(|m| s.method(m, "()V"));
    let main = s.events_thread(1, "main", 1);
    let armed = |message| [("message", message), ("for thread", 1), ("delay", 20)];
    let mut r = s.at(main, 10 * MS);
    r.event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::MessageEnqueued, &armed(1))
        .after(MS)
        .event(Extension::InputEnd, &[("sequence", 1)]);
    for run in 1..=4 {
        r.at((10 + 21 * run) * MS)
            .event(
                Extension::MessageDispatched,
                &[("message", run), ("class", tick)],
            )
            .event(Extension::MessageEnqueued, &armed(run + 1))
            .after(MS)
            .event(Extension::MessageDone, &[("message", run)]);
    }
    s.stop_at(200 * MS);
    let found = Found::of(&[&s]);
    let kinds: Vec<RootKind> = found.list().iter().map(|t| t.0).collect();
    assert_eq!(kinds[0], RootKind::Input);
    assert_eq!(kinds[1..], [RootKind::Timer; 4]);
    // The touch ends when it has armed the timer; a run begins when it is due.
    assert_eq!(found.get(0).end_ns, EPOCH + 11 * MS);
    assert_eq!(found.get(1).begin_ns, EPOCH + 30 * MS);
    assert_eq!(found.path(1).shares()[Component::Queue], MS);
}

/// Fewer runs than that are a delay.
#[test]
fn a_single_delay_belongs_to_its_transaction() {
    let mut s = Script::new("p");
    let [view, later] = ["a.View.onTouch", "a.Later.run"].map(|m| s.method(m, "()V"));
    let main = s.events_thread(1, "main", 1);
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(
            Extension::MessageEnqueued,
            &[("message", 1), ("for thread", 1), ("delay", 20)],
        )
        .after(MS)
        .event(Extension::InputEnd, &[("sequence", 1)])
        .at(33 * MS)
        .event(
            Extension::MessageDispatched,
            &[("message", 1), ("class", later)],
        )
        .after(MS)
        .event(Extension::MessageDone, &[("message", 1)]);
    let found = Found::of(&[&s]);
    assert_eq!(found.transactions.len(), 1);
    let shares = found.path(0).shares();
    assert_eq!(
        (shares[Component::Timer], shares[Component::Queue]),
        (20 * MS, 3 * MS)
    );
}

#[test]
fn marks_stand_for_input_and_updates_where_the_system_records_none() {
    let mut s = Script::new("p");
    let names = ["input: tap", "inputs", "Update list", "input: swipe"].map(|n| s.string(n));
    let [screen] = ["a.Screen.handleMessage"].map(|m| s.method(m, "()V"));
    let (driver, main) = (
        s.events_thread(2, "driver", 2),
        s.events_thread(1, "main", 1),
    );
    let sent = |message| [("message", message), ("for thread", 1)];
    s.at(driver, 10 * MS)
        .event(Extension::UserMark, &[("name", names[0])])
        .event(Extension::MessageEnqueued, &sent(1))
        .after(MS)
        // No input: another word.
        .event(Extension::UserMark, &[("name", names[1])])
        .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 1)])
        .at(50 * MS)
        .event(
            Extension::WaitEnd,
            &[("kind", SLEEP), ("number", 1), ("result", TIMED_OUT)],
        )
        .event(Extension::UserMark, &[("name", names[3])])
        .event(Extension::MessageEnqueued, &sent(2));
    let mut r = s.at(main, 0);
    for (message, at) in [(1, 12), (2, 52)] {
        r.at(at * MS)
            .event(
                Extension::MessageDispatched,
                &[("message", message), ("class", screen)],
            )
            .after(MS)
            .event(Extension::UserMark, &[("name", names[2])])
            .after(MS)
            .event(Extension::MessageDone, &[("message", message)]);
    }
    let found = Found::of(&[&s]);
    assert_eq!(
        found.list(),
        [
            (RootKind::Mark, "input: tap", 10 * MS),
            (RootKind::Mark, "input: swipe", 50 * MS)
        ]
    );
    for (id, updated) in [(0, 13), (1, 53)] {
        assert_eq!(found.path(id).end_ns, EPOCH + updated * MS);
        assert_eq!(found.get(id).updates.len(), 1);
    }
}

/// A worker with a queue of its own is started by one touch, and works for another one.
#[test]
fn a_thread_that_was_woken_works_for_the_transaction_that_woke_it() {
    let mut s = Script::new("p");
    let [view, worker] = ["a.View.onTouch", "a.Worker.run"].map(|m| s.method(m, "()V"));
    let (main, own) = (
        s.events_thread(1, "main", 1),
        s.events_thread(2, "worker", 2),
    );
    let thread = [("task", 7), ("class", worker), ("kind", 1)];
    let wait = [("kind", OBJECT), ("number", 1)];
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::TaskSubmitted, &thread)
        .after(MS)
        .event(Extension::InputEnd, &[("sequence", 1)])
        .at(40 * MS)
        .event(Extension::InputBegin, &touch(2, 1, view))
        .event(Extension::Wakes, &[("thread", 2), ("wait", 1)])
        .after(MS)
        .event(Extension::InputEnd, &[("sequence", 2)]);
    s.at(own, 12 * MS)
        .event(Extension::TaskBegin, &thread)
        .after(MS)
        .event(Extension::WaitBegin, &wait)
        .at(41 * MS)
        .event(Extension::WaitEnd, &wait)
        .after(5 * MS)
        .event(Extension::WaitBegin, &[("kind", OBJECT), ("number", 2)]);
    s.stop_at(100 * MS);
    let found = Found::of(&[&s]);
    assert_eq!(found.transactions.len(), 2);
    assert_eq!(found.get(0).end_ns, EPOCH + 13 * MS);
    assert_eq!(found.get(1).end_ns, EPOCH + 46 * MS);
    assert_eq!(
        found.steps(&found.path(1)).last(),
        Some(&(Component::Unknown, "worker", 5 * MS))
    );
}

/// A touch starts two workers and waits for the first, which waits for the second, which waits for a task of nobody's.
#[test]
fn a_thread_that_is_waited_for_works_for_the_one_that_waits_whoever_woke_it() {
    let mut s = Script::new("p");
    let names = [
        "a.View.onTouch",
        "a.First.run",
        "a.Second.run",
        "a.Save.run",
    ];
    let [view, first, second, save] = names.map(|m| s.method(m, "()V"));
    let [main, one, two, pool] = [(1, "main"), (2, "first"), (3, "second"), (4, "pool")]
        .map(|(tid, name)| s.events_thread(tid, name, u64::from(tid)));
    let thread = |task, class| [("task", task), ("class", class), ("kind", 1)];
    let wait = [("kind", OBJECT), ("number", 1)];
    s.at(pool, 5 * MS)
        .event(Extension::TaskBegin, &[("task", 6), ("class", save)])
        .at(40 * MS)
        .event(Extension::Wakes, &[("thread", 3), ("wait", 1)])
        .after(MS)
        .event(Extension::TaskEnd, &[("task", 6)]);
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::TaskSubmitted, &thread(7, first))
        .event(Extension::WaitBegin, &wait)
        .at(44 * MS)
        .event(Extension::WaitEnd, &wait)
        .event(Extension::InputEnd, &[("sequence", 1)]);
    s.at(one, 11 * MS)
        .event(Extension::TaskBegin, &thread(7, first))
        .event(Extension::TaskSubmitted, &thread(8, second))
        .event(Extension::WaitBegin, &wait)
        .at(42 * MS)
        .event(Extension::WaitEnd, &wait)
        .at(43 * MS)
        .event(Extension::Wakes, &[("thread", 1), ("wait", 1)]);
    s.at(two, 12 * MS)
        .event(Extension::TaskBegin, &thread(8, second))
        .event(Extension::WaitBegin, &wait)
        .at(41 * MS)
        .event(Extension::WaitEnd, &wait)
        .event(Extension::Wakes, &[("thread", 2), ("wait", 1)]);
    s.stop_at(100 * MS);
    let found = Found::of(&[&s]);
    let touched = found.list().iter().position(|t| t.0 == RootKind::Input);
    let path = found.path(touched.unwrap() as u32);
    let waited = path.steps.iter().find(|s| s.shares[Component::Wait] > 0);
    let waited = waited.unwrap();
    assert_eq!(found.session.thread_name(waited.thread), "second");
    let by = waited.by.unwrap().thread;
    assert_eq!(found.session.thread_name(by), "pool");
    assert_eq!(path.shares()[Component::Wait], 29 * MS);
    assert_eq!(path.shares()[Component::Runnable], 2 * MS);
}

/// A worker takes what two touches put into a queue out of it: the second element when it has done what is to do for the first,
/// for which it may wait for the first touch.
#[test]
fn a_thread_that_takes_an_element_works_for_the_one_that_put_it() {
    for waits in [false, true] {
        let mut s = Script::new("p");
        let view = s.method("a.View.onTouch", "()V");
        let (main, own) = (
            s.events_thread(1, "main", 1),
            s.events_thread(2, "worker", 2),
        );
        let wait = |number| [("kind", OBJECT), ("number", number)];
        s.at(main, 10 * MS)
            .event(Extension::InputBegin, &touch(1, 1, view))
            .event(Extension::ItemPut, &[("item", 7)])
            .event(Extension::Wakes, &[("thread", 2), ("wait", 1)])
            .after(3 * MS)
            .event(Extension::Wakes, &[("thread", 2), ("wait", 2)])
            .event(Extension::InputEnd, &[("sequence", 1)])
            .at(15 * MS)
            .event(Extension::InputBegin, &touch(2, 1, view))
            .event(Extension::ItemPut, &[("item", 8)])
            .after(MS)
            .event(Extension::InputEnd, &[("sequence", 2)]);
        let mut worker = s.at(own, 5 * MS);
        worker
            .event(Extension::WaitBegin, &wait(1))
            .at(12 * MS)
            .event(Extension::WaitEnd, &wait(1))
            .event(Extension::ItemTaken, &[("item", 7)]);
        if waits {
            worker
                .event(Extension::WaitBegin, &wait(2))
                .at(20 * MS)
                .event(Extension::WaitEnd, &wait(2));
        }
        worker
            .at(21 * MS)
            .event(Extension::ItemTaken, &[("item", 8)])
            .after(4 * MS)
            .event(Extension::WaitBegin, &wait(3));
        s.stop_at(100 * MS);
        let found = Found::of(&[&s]);
        assert_eq!(found.transactions.len(), 2, "{waits}");
        assert_eq!(found.get(0).end_ns, EPOCH + 21 * MS, "{waits}");
        assert_eq!(found.get(1).end_ns, EPOCH + 25 * MS, "{waits}");
        let all = (0..2).flat_map(|id| found.transactions.members_of(TransactionId(id)));
        assert!(all.into_iter().all(|(_, m)| !m.is_shared), "{waits}");
    }
}

/// A thread that a touch starts sends a transaction, outside of any work.
#[test]
fn what_a_thread_asks_another_process_for_in_its_own_code_is_of_its_transaction() {
    let (mut s, mut r) = (Script::new("p"), Script::new("server"));
    let [view, worker] = ["a.View.onTouch", "a.Worker.run"].map(|m| s.method(m, "()V"));
    let (main, own) = (
        s.events_thread(1, "main", 1),
        s.events_thread(2, "worker", 2),
    );
    let binder = r.events_thread(9, "binder", 1);
    let thread = [("task", 7), ("class", worker), ("kind", 1)];
    let transaction = [("transaction", 5), ("code", 3)];
    s.at(main, 10 * MS)
        .event(Extension::InputBegin, &touch(1, 1, view))
        .event(Extension::TaskSubmitted, &thread)
        .after(MS)
        .event(Extension::InputEnd, &[("sequence", 1)]);
    s.at(own, 12 * MS)
        .event(Extension::TaskBegin, &thread)
        .after(MS)
        .event(Extension::BinderSend, &transaction)
        .at(30 * MS)
        .event(Extension::BinderReply, &transaction[..1])
        .after(MS)
        .event(Extension::TaskEnd, &[("task", 7), ("kind", 1)]);
    r.at(binder, 15 * MS)
        .event(Extension::BinderServe, &transaction)
        .at(28 * MS)
        .event(Extension::BinderServed, &transaction[..1]);
    s.stop_at(100 * MS);
    r.stop_at(100 * MS);
    let found = Found::of(&[&s, &r]);
    let kinds: Vec<RootKind> = found.list().iter().map(|t| t.0).collect();
    assert_eq!(kinds, [RootKind::Input]);
}

fn tapped() -> Found {
    Found::of(&[&taps()])
}

fn of_group<'m>(measured: &'m [Measured], ids: &[TransactionId]) -> Vec<&'m Measured> {
    measured.iter().filter(|m| ids.contains(&m.id)).collect()
}

#[test]
fn taps_are_one_group_with_two_outliers_for_different_reasons() {
    let found = tapped();
    let paths = found.paths();
    let measured = measure(&found.session, &found.graph, &found.transactions, &paths);
    let by_graph = groups(
        &found.session,
        &found.graph,
        &found.transactions,
        GroupBy::Graph,
    );
    let taps = &by_graph[0];
    assert_eq!(taps.transactions.len(), 12);
    assert_eq!(
        found.session.string(taps.handler),
        "com.example.notes.LoadNote"
    );
    let of_taps = of_group(&measured, &taps.transactions);

    let outliers = outliers(&of_taps);
    assert_eq!(outliers.len(), 2);
    let number = |id: TransactionId| taps.transactions.iter().position(|t| *t == id).unwrap();
    assert_eq!((number(outliers[0].id), number(outliers[1].id)), (7, 9));
    assert_eq!(outliers[0].blamed, [Component::Network]);
    assert!(outliers[0].by_mean && outliers[0].by_median);
    // The first one hides the second one from the mean.
    assert_eq!(outliers[1].blamed, [Component::Lock]);
    assert!(!outliers[1].by_mean && outliers[1].by_median);

    let variance = variance(&of_taps).unwrap();
    let sum: f64 = variance.parts.iter().map(|p| p.1).sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert_eq!(variance.parts[0].0, Component::Network);
    assert!(variance.parts[0].1 > 0.9, "{variance:?}");

    let found_patterns = patterns(&found.session, &found.transactions, &paths, taps, &of_taps);
    assert_eq!(found_patterns.paths.len(), 1);
    assert_eq!(found_patterns.paths[0].count, 12);
    assert_eq!(found_patterns.interrupted, 0);
    assert_eq!(found_patterns.serial_requests, None);
    assert_eq!(found_patterns.first_use, None);
}

#[test]
fn too_few_transactions_have_no_outliers_and_no_variance() {
    let found = tapped();
    let measured = measure(
        &found.session,
        &found.graph,
        &found.transactions,
        &found.paths(),
    );
    let slow = measured.iter().max_by_key(|m| m.path_ns).unwrap();
    let others = measured
        .iter()
        .filter(|m| m.id != slow.id && m.requests == 1);
    let few: Vec<&Measured> = others.take(3).chain([slow]).collect();
    assert_eq!(outliers(&few), []);
    assert_eq!(variance(&few), None);
}

#[test]
fn facts_of_devices_explain_differences() {
    // Two devices of each of two models; the second one is slower, and the number of the device explains nothing.
    let device = |model: &str, serial: u64, ms: u64| {
        let mut s = Script::new("p");
        s.process.extra = vec![
            ("model".to_owned(), model.to_owned()),
            ("serial".to_owned(), serial.to_string()),
        ];
        // Traces of one process are snapshots of each other.
        s.process.pid = 100 + serial as u32;
        let view = s.method("a.View.onTouch", "()V");
        let main = s.events_thread(1, "main", 1);
        let mut r = s.at(main, 0);
        for i in 0..4 {
            r.after(50 * MS)
                .event(Extension::InputBegin, &touch(i, 1, view))
                .after(ms * MS + i * 100_000)
                .event(Extension::InputEnd, &[("sequence", i)]);
        }
        s
    };
    let scripts = [
        device("old", 1, 9),
        device("new", 2, 5),
        device("old", 3, 9),
        device("new", 4, 5),
    ];
    let found = Found::of(&scripts.each_ref());
    let measured = measure(
        &found.session,
        &found.graph,
        &found.transactions,
        &found.paths(),
    );
    let groups = groups(
        &found.session,
        &found.graph,
        &found.transactions,
        GroupBy::Handler,
    );
    assert_eq!((groups.len(), groups[0].transactions.len()), (1, 16));
    let of_group: Vec<(&Transaction, &Measured)> = measured
        .iter()
        .map(|m| (found.transactions.get(m.id).unwrap(), m))
        .collect();
    let factors = factors(&found.session, &[of_group]);
    let model = factors.iter().find(|f| f.name == "model").unwrap();
    assert!(model.explained > 0.99 && model.q < 1e-6, "{model:?}");
    let values: Vec<(&str, usize)> = model.values.iter().map(|v| (v.0.as_str(), v.1)).collect();
    assert_eq!(values, [("new", 8), ("old", 8)]);
    assert!(factors.iter().all(|f| f.name != "isa"));
}

#[test]
fn a_crash_leads_back_to_the_tap() {
    let found = tapped();
    let crashes = crashes(
        &found.session,
        &found.graph,
        &found.transactions,
        &found.paths(),
    );
    assert_eq!(crashes.len(), 1);
    let crash = &crashes[0];
    assert_eq!(
        found.session.string(crash.class),
        "java.lang.IllegalStateException"
    );
    let causes: Vec<(&str, Option<Reason>)> = crash
        .causes
        .iter()
        .map(|(n, r)| (found.session.string(found.graph.node(*n).what), *r))
        .collect();
    assert_eq!(
        causes,
        [
            ("android.view.ViewRootImpl$WindowInputEventReceiver", None),
            ("com.example.notes.LoadNote", Some(Reason::Task)),
        ]
    );
    assert!(crash.is_asynchronous());
    assert_eq!(crash.frames_are, Frames::NotRecorded);
    let path = crash.path.as_ref().unwrap();
    assert_eq!(path.end_ns, crash.at_ns);
    assert_eq!(path.shares().total(), path.duration_ns());
    // The exception ends its work.
    let transaction = found.transactions.get(crash.transaction.unwrap()).unwrap();
    assert_eq!(
        (transaction.end_ns, transaction.is_unfinished),
        (crash.at_ns, false)
    );
}

#[test]
fn a_crash_has_the_calls_that_the_exception_left() {
    let mut s = Script::new("p");
    let class = s.method("a.Broken.<init>", "()V");
    let [run, parse, split, other] = [
        "java.lang.Thread.run",
        "a.Parser.parse",
        "a.Parser.split",
        "a.Parser.other",
    ]
    .map(|m| s.method(m, "()V"));
    for i in 0..2 {
        let t = s.thread(10 + i, "worker");
        s.at(t, 10 * MS)
            .enter(run)
            .after(10)
            .enter(parse)
            .after(10)
            .enter(other)
            .after(10)
            // It is caught in parse.
            .unwind(1)
            .after(10)
            .enter(split)
            .after(u64::from(i) * MS + 10)
            .unwind(3)
            .after(5)
            .event(Extension::Uncaught, &[("class", class)]);
    }
    let found = Found::of(&[&s]);
    let crashes = crashes(
        &found.session,
        &found.graph,
        &found.transactions,
        &found.paths(),
    );
    let names: Vec<&str> = crashes[0]
        .frames
        .iter()
        .map(|&f| found.session.string(f))
        .collect();
    assert_eq!(
        names,
        ["a.Parser.split", "a.Parser.parse", "java.lang.Thread.run"]
    );
    assert_eq!(crashes[0].upcall, Some(1));
    let grouped = group_crashes(&found.session, &found.graph, &crashes);
    assert_eq!(grouped.len(), 1);
    assert_eq!(grouped[0].crashes, [0, 1]);
}

#[test]
fn polling_is_suspected() {
    let mut s = Script::new("p");
    let view = s.method("a.View.onTouch", "()V");
    let main = s.events_thread(1, "main", 1);
    let mut r = s.at(main, 10 * MS);
    r.event(Extension::InputBegin, &touch(1, 1, view));
    for number in 1..=5 {
        r.event(Extension::WaitBegin, &[("kind", SLEEP), ("number", number)])
            .after(10 * MS)
            .event(
                Extension::WaitEnd,
                &[("kind", SLEEP), ("number", number), ("result", TIMED_OUT)],
            );
    }
    r.event(Extension::InputEnd, &[("sequence", 1)]);
    // A looper waits for work, and nothing is wrong with that.
    r.event(Extension::WaitBegin, &[("kind", POLL), ("number", 6)]);
    let found = Found::of(&[&s]);
    let path = found.path(0);
    assert_eq!(path.polling.len(), 1);
    assert_eq!((path.polling[0].times, path.polling[0].ns), (5, 50 * MS));
}

/// A loop of `Thread.yield` has no waits: its stacks end there.
#[test]
fn polling_by_yields_is_suspected() {
    const NATIVE_CALL: u64 = 3;
    for (method, is_loop) in [("java.lang.Thread.yield", true), ("a.View.draw", false)] {
        let mut s = Script::new("p");
        let view = s.method("a.View.onTouch", "()V");
        let inner = s.method(method, "()V");
        let [node, _] = s.stack(&[(view, 1), (inner, 2)]);
        let main = s.events_thread(1, "main", 1);
        s.at(main, 10 * MS)
            .event(Extension::InputBegin, &touch(1, 1, view))
            .extension(Extension::ThreadCpuTime, &[MS])
            .extension(Extension::ResourceUse, &[0, 0, 5, 9])
            .after(20 * MS)
            .extension(Extension::Stack, &[node, NATIVE_CALL])
            .after(70 * MS)
            .extension(Extension::ThreadCpuTime, &[3 * MS])
            .extension(Extension::ResourceUse, &[0, 0, 5, 11])
            .event(Extension::InputEnd, &[("sequence", 1)]);
        let path = Found::of(&[&s]).path(0);
        let polling: Vec<_> = path.polling.iter().map(|p| (p.yields, p.ns / MS)).collect();
        let expected = [(true, 90)];
        assert_eq!(polling, expected[..usize::from(is_loop)], "{method}");
    }
}

/// A native method of the class library returns after the thread has waited once; then two do.
#[test]
fn a_wait_in_the_kernel_is_inferred_from_the_only_native_call() {
    const NATIVE_CALL: u64 = 3;
    for calls in 1..=2 {
        let mut s = Script::new("p");
        let [view, read, run] = [
            "a.View.onTouch",
            "java.net.SocketInputStream.socketRead0",
            "a.Client.read",
        ]
        .map(|m| s.method(m, "()V"));
        let [node, _] = s.stack(&[(run, 1), (read, 2)]);
        let main = s.events_thread(1, "main", 1);
        let mut r = s.at(main, 10 * MS);
        r.event(Extension::InputBegin, &touch(1, 1, view))
            .extension(Extension::ThreadCpuTime, &[MS])
            .extension(Extension::ResourceUse, &[0, 0, 5, 0])
            .after(90 * MS);
        for _ in 0..calls {
            r.extension(Extension::Stack, &[node, NATIVE_CALL])
                .after(MS);
        }
        r.extension(Extension::ThreadCpuTime, &[3 * MS])
            .extension(Extension::ResourceUse, &[0, 0, 6, 0])
            .event(Extension::InputEnd, &[("sequence", 1)]);
        let found = Found::of(&[&s]);
        let path = found.path(0);
        let (network, unknown) = (
            path.shares()[Component::Network],
            path.shares()[Component::Unknown],
        );
        let inferred = path.steps[0].inferred.map(|m| found.session.string(m));
        match calls {
            1 => {
                assert_eq!((network, unknown), (89 * MS, 0));
                assert_eq!(inferred, Some("java.net.SocketInputStream.socketRead0"));
            }
            _ => {
                assert_eq!((network, unknown), (0, 90 * MS));
                assert_eq!(inferred, None);
            }
        }
    }
}
