// SPDX-License-Identifier: Apache-2.0
//! Whatever threads record, the graph of it holds what every graph holds.

use hindsight_causality::{Graph, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::{Script, System};
use proptest::prelude::*;

/// An event: thread, time since the thread's last event, kind, and its fields, from few numbers, so that many belong
/// together.
type Any = (usize, u64, Extension, [u64; 4]);

fn one_event() -> impl Strategy<Value = Any> {
    use Extension::{
        BinderReply, BinderSend, BinderServe, BinderServed, ItemPut, ItemTaken, LockWait,
        MessageDispatched, MessageDone, MessageEnqueued, Released, TaskBegin, TaskEnd,
        TaskSubmitted, WaitBegin, WaitEnd, Wakes,
    };
    let often = prop::sample::select(vec![
        BinderReply,
        BinderSend,
        BinderServe,
        BinderServed,
        ItemPut,
        ItemTaken,
        LockWait,
        MessageDispatched,
        MessageDone,
        MessageEnqueued,
        Released,
        TaskBegin,
        TaskEnd,
        TaskSubmitted,
        WaitBegin,
        WaitEnd,
        Wakes,
    ]);
    let all = prop::sample::select(Extension::all().collect::<Vec<_>>());
    let kind = prop_oneof![3 => often, 1 => all];
    let number = prop_oneof![8 => 0..3_u64, 1 => proptest::num::u64::ANY];
    (0..4_usize, 0..2_u64, kind, prop::array::uniform4(number))
}

/// The trace of a process whose four threads record these events.
fn script(pid: u32, events: &[Any]) -> Script {
    let mut s = Script::new("p");
    s.process.pid = pid;
    s.string("a name");
    s.method("a.Class.run", "()V");
    let threads = [1, 2, 3, 3].map(|tid| s.events_thread(tid, "t", u64::from(tid)));
    let mut now = [0_u64; 4];
    for &(thread, after, kind, fields) in events {
        now[thread] += after;
        // These say how times and stacks are to be read.
        if matches!(kind, Extension::FullTime) {
            continue;
        }
        let fields = kind.spec().fields.iter().zip(fields.iter().cycle());
        let fields: Vec<(&str, u64)> = fields.map(|(f, &n)| (f.name, n)).collect();
        s.at(threads[thread], now[thread]).event(kind, &fields);
    }
    s.stop_at(now.into_iter().max().unwrap_or(0) + 1);
    s
}

fn graph(scripts: &[Script]) -> (Session, Graph) {
    let trace = |s: &Script| Trace::decode("t".as_ref(), &s.encode()).unwrap();
    let traces = scripts.iter().map(|s| ("t".into(), trace(s)));
    let session = Session::of(traces.collect());
    let graph = Graph::build(&session).unwrap();
    (session, graph)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_holds_for_every_graph(
        one in prop::collection::vec(one_event(), 0..200),
        other in prop::collection::vec(one_event(), 0..100),
    ) {
        let (session, graph) = graph(&[script(100, &one), script(200, &other)]);
        prop_assert_eq!(graph.check(&session), Ok(()));
        // Every event is in one node at most, and all but those of the recording are in one.
        for thread in session.thread_ids() {
            for (i, event) in session.thread(thread).events.iter().enumerate() {
                let id = hindsight_causality::EventId { thread, event: i as u32 };
                let node = graph.node_of(id);
                let is_recording = event.spec().category == hindsight_decoder::catalogue::Category::Recording;
                prop_assert!(node.is_some() || is_recording, "{event:?}");
            }
        }
    }
}

#[test]
fn many_processes_make_one_graph() {
    let system = System {
        seed: 3,
        processes: 5,
        first_pid: 1_000,
        rounds: 400,
        transactions_percent: 60,
        locks_percent: 20,
    };
    let (session, graph) = graph(&system.scripts());
    graph.check(&session).unwrap();
    let count = |reason| {
        let edges = graph.edge_ids().map(|e| graph.edge(e));
        edges.filter(|e| e.reason == reason).count()
    };
    use hindsight_causality::Reason::{
        AwaitedBy, Item, Lock, Message, Reply, Task, Transaction, Wake,
    };
    assert_eq!(count(Message), 3 * 400);
    assert_eq!(count(Task), 400);
    assert_eq!(count(Item), 400);
    assert_eq!((count(Wake), count(AwaitedBy)), (400, 400));
    assert_eq!(count(Transaction), count(Reply));
    assert!(count(Transaction) > 100 && count(Lock) > 50);
    let unmatched: Vec<_> = graph
        .facts()
        .unmatched
        .iter()
        .map(|u| (u.kind, u.why))
        .collect();
    assert!(unmatched.is_empty(), "{unmatched:?}");
}
