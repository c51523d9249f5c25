// SPDX-License-Identifier: Apache-2.0
//! Nodes and edges of scripted traces, one kind after the other.

use hindsight_causality::{
    DropReason, EdgeClass, Graph, Node, NodeKind, Reason, Session, WaitKind, WaitResult,
};
use hindsight_decoder::{Extension, RingMode, Trace};
use hindsight_testkit::{Script, EPOCH};

const MS: u64 = 1_000_000;
const LOCK: u64 = 0;
const SLEEP: u64 = 2;
const PARK: u64 = 3;
const GC: u64 = 4;
const POLL: u64 = 5;
const THREAD: u64 = 1;

struct Built {
    session: Session,
    graph: Graph,
}

impl Built {
    fn of(scripts: &[&Script]) -> Self {
        let trace = |(i, s): (usize, &&Script)| {
            let name = format!("{i}.hindsight");
            let trace = Trace::decode(name.as_ref(), &s.encode()).unwrap();
            (name.into(), trace)
        };
        let session = Session::of(scripts.iter().enumerate().map(trace).collect());
        let graph = Graph::build(&session).unwrap();
        graph.check(&session).unwrap();
        Built { session, graph }
    }

    /// Name of the thread, kind, what, and events, of a node.
    fn node(&self, node: &Node) -> String {
        let what = self.session.string(node.what);
        let what = if what.is_empty() { "-" } else { what };
        let thread = self.session.thread_name(node.thread);
        let (kind, events) = (node.kind.name(), node.events());
        format!("{thread} {kind} {what} {events:?}")
    }

    fn nodes(&self) -> Vec<String> {
        let nodes = self.graph.node_ids();
        nodes.map(|n| self.node(&self.graph.node(n))).collect()
    }

    /// Begin and end, ns after time 0, of the nodes.
    fn times(&self) -> Vec<(u64, u64)> {
        let nodes = self.graph.node_ids().map(|n| self.graph.node(n));
        nodes
            .map(|n| (n.begin_ns - EPOCH, n.end_ns - EPOCH))
            .collect()
    }

    /// The edges but those along threads.
    fn edges(&self) -> Vec<String> {
        let edges = self.graph.edge_ids().map(|e| self.graph.edge(e));
        edges
            .filter(|e| e.reason != Reason::Next)
            .map(|e| {
                let name = |n| self.session.thread_name(self.graph.node(n).thread);
                let class = e.class.name();
                let reason = e.reason.name();
                let (from, to) = (name(e.from), name(e.to));
                format!(
                    "{class} {reason} {from}:{} {to}:{}",
                    e.from_event, e.to_event
                )
            })
            .collect()
    }
}

fn poll(number: u64) -> [(&'static str, u64); 2] {
    [("kind", POLL), ("number", number)]
}

#[test]
fn a_looper_has_a_node_for_each_message_and_one_for_each_poll() {
    let mut s = Script::new("p");
    let class = s.method("a.Handler.handleMessage", "()V");
    let (main, net) = (s.events_thread(1, "main", 1), s.events_thread(2, "net", 2));
    s.at(net, 5).event(
        Extension::MessageEnqueued,
        &[("message", 7), ("for thread", 1)],
    );
    s.at(main, 0)
        .event(Extension::WaitBegin, &poll(1))
        .at(10)
        .event(Extension::WaitEnd, &poll(1))
        .event(
            Extension::MessageDispatched,
            &[("message", 7), ("class", class)],
        )
        .extension(Extension::ThreadCpuTime, &[5])
        .after(10)
        .event(Extension::LockWait, &[("held by", 2), ("lock", 9)])
        .event(Extension::WaitBegin, &[("kind", LOCK), ("number", 2)])
        .after(10)
        .event(Extension::WaitEnd, &[("kind", LOCK), ("number", 2)])
        .after(10)
        .event(Extension::MessageDone, &[("message", 7)])
        .extension(Extension::ThreadCpuTime, &[9])
        .event(Extension::WaitBegin, &poll(3));
    s.stop_at(100);
    let built = Built::of(&[&s]);
    assert_eq!(
        built.nodes(),
        [
            "main idle - 0..2",
            "main message a.Handler 2..9",
            "main idle - 9..10",
            "net run - 0..1",
        ]
    );
    assert_eq!(built.times(), [(0, 10), (10, 40), (40, 100), (5, 100)]);
    assert_eq!(built.edges(), ["strong message net:0 main:2"]);
    let message = built.graph.node_ids().nth(1).unwrap();
    let waits = built.graph.waits_in(message);
    assert_eq!(waits.len(), 1);
    assert_eq!(
        (waits[0].kind, waits[0].result, waits[0].duration_ns()),
        (WaitKind::Lock, WaitResult::Signalled, 10)
    );
    // Nothing follows from idleness.
    assert_eq!(built.graph.edge_count(), 1);
    let last = built.graph.node(built.graph.node_ids().nth(2).unwrap());
    assert!(last.is_open);
}

#[test]
fn a_wait_outside_work_ends_a_node_and_its_end_follows_from_the_waker() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    let run = s.method("a.Loader.run", "()V");
    let wait = [("kind", PARK), ("number", 4)];
    s.at(a, 0)
        .event(
            Extension::TaskBegin,
            &[("task", 1), ("class", run), ("kind", THREAD)],
        )
        .at(10)
        .event(Extension::UserMark, &[])
        .at(20)
        .event(Extension::WaitBegin, &wait)
        .at(50)
        .event(Extension::WaitEnd, &wait)
        .at(50 + 3 * MS)
        .event(Extension::WaitBegin, &[("kind", SLEEP), ("number", 5)])
        .at(50 + 4 * MS)
        .event(
            Extension::WaitEnd,
            &[("kind", SLEEP), ("number", 5), ("result", 1)],
        )
        .event(Extension::UserMark, &[]);
    s.at(b, 40)
        .event(Extension::Wakes, &[("thread", 1), ("wait", 4)]);
    s.stop_at(50 + 5 * MS);
    let built = Built::of(&[&s]);
    assert_eq!(
        built.nodes(),
        [
            "a run a.Loader 0..2",
            "a wait a.Loader 2..4",
            // Three milliseconds without events.
            "a run a.Loader 4..4",
            "a wait a.Loader 4..6",
            "a run a.Loader 6..7",
            "b run - 0..1",
        ]
    );
    assert_eq!(built.times()[2], (50, 50 + 3 * MS));
    assert_eq!(
        built.edges(),
        [
            "strong wake-up b:0 a:3",
            "weak awaited by a:2 b:0",
            "strong resume a:3 a:3",
        ]
    );
    // The sleep ended by itself: what follows only comes after it.
    let next: Vec<_> = built
        .graph
        .edge_ids()
        .map(|e| built.graph.edge(e))
        .collect();
    let weak = next.iter().filter(|e| e.reason == Reason::Next);
    assert_eq!(weak.clone().count(), 3);
    assert!(weak.clone().all(|e| e.class == EdgeClass::Weak));
}

#[test]
fn work_in_work_is_in_the_outermost_node() {
    let mut s = Script::new("p");
    let t = s.events_thread(1, "t", 1);
    s.at(t, 0)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .event(Extension::FrameBegin, &[("vsync", 5)])
        .event(Extension::FrameCallbacks, &[("type", 3)])
        .event(Extension::TraversalBegin, &[("window", 1)])
        .event(Extension::TraversalEnd, &[("window", 1)])
        .event(Extension::FrameEnd, &[("vsync", 5)])
        .event(Extension::MessageDone, &[("message", 1)])
        .event(Extension::InputBegin, &[("sequence", 1)])
        .event(Extension::InputEnd, &[("sequence", 1)])
        .event(Extension::LifecycleBegin, &[("activity", 1)])
        .event(Extension::LifecycleEnd, &[("activity", 1)])
        .event(Extension::BinderServe, &[("transaction", 0)])
        .event(Extension::BinderServed, &[("transaction", 0)])
        .event(Extension::UserBegin, &[("name", 0), ("id", 3)])
        .event(Extension::MessageDispatched, &[("message", 2)])
        .event(Extension::UserEnd, &[("name", 0), ("id", 3)])
        .event(Extension::MessageDone, &[("message", 2)]);
    let built = Built::of(&[&s]);
    let kinds: Vec<_> = (built.graph.node_ids())
        .map(|n| (built.graph.node(n).kind, built.graph.node(n).events()))
        .collect();
    assert_eq!(
        kinds,
        [
            (NodeKind::Message, 0..7),
            (NodeKind::Input, 7..9),
            (NodeKind::Lifecycle, 9..11),
            (NodeKind::Service, 11..13),
            (NodeKind::Marked, 13..16),
            (NodeKind::Run, 16..17),
        ]
    );
}

#[test]
fn no_node_goes_on_over_a_gap_in_the_recording_unless_its_end_follows() {
    let built = |second: u64, own_code: bool| {
        let mut s = Script::new("p");
        let first = s.events_thread(1, "t", 1);
        if own_code {
            s.at(first, MS).event(Extension::UserMark, &[("name", 0)]);
        } else {
            let message = [("message", 2)];
            (s.at(first, MS)).event(Extension::MessageDispatched, &message);
        }
        let third = s.next_part(first, RingMode::Events, 60 * MS);
        let header = s.header(third);
        (header.part, header.started_counter) = (2, EPOCH + 500 * MS);
        s.at(third, 500 * MS)
            .event(Extension::WaitEnd, &poll(7))
            .after(MS)
            .event(Extension::MessageDispatched, &[("message", 5)])
            .event(Extension::MessageDone, &[("message", 5)])
            .after(MS)
            .event(Extension::MessageDone, &[("message", second)]);
        s.stop_at(600 * MS);
        let built = Built::of(&[&s]);
        let ms = |(from, to): (u64, u64)| (from / MS, to / MS);
        built.times().into_iter().map(ms).collect::<Vec<_>>()
    };
    let after = [(500, 501), (501, 501), (501, 600)];
    for own_code in [false, true] {
        assert_eq!(built(99, own_code)[0], (1, 60), "{own_code}");
        assert_eq!(built(99, own_code)[1..], after, "{own_code}");
    }
    // Its end is known.
    assert_eq!(built(2, false), [(1, 502)]);
}

#[test]
fn maintenance_interrupts_a_node_and_causes_nothing() {
    let mut s = Script::new("p");
    let (a, gc) = (s.events_thread(1, "a", 1), s.events_thread(2, "gc", 2));
    let wait = |number| [("kind", GC), ("number", number)];
    s.at(a, 0)
        .event(Extension::TaskBegin, &[("task", 1)])
        .after(10)
        .extension(Extension::CheckpointBegin, &[])
        .after(10)
        .extension(Extension::CheckpointEnd, &[])
        .after(10)
        .event(Extension::WaitBegin, &wait(1))
        .after(10)
        .event(Extension::WaitEnd, &wait(1))
        .after(10)
        .event(Extension::TaskEnd, &[("task", 1)])
        .extension(Extension::CheckpointBegin, &[])
        .extension(Extension::CheckpointEnd, &[]);
    s.at(gc, 30)
        .extension(Extension::GcPauseBegin, &[])
        .after(5)
        .event(Extension::Wakes, &[("thread", 1), ("wait", 1)])
        .extension(Extension::GcPauseEnd, &[]);
    let built = Built::of(&[&s]);
    assert_eq!(
        built.nodes(),
        [
            "a task - 0..6",
            "a maintenance - 1..3",
            "a maintenance - 3..5",
            "a maintenance - 6..8",
            "gc maintenance - 0..3",
        ]
    );
    assert_eq!(built.graph.dropped(DropReason::Maintenance), 1);
    assert_eq!(built.edges(), Vec::<String>::new());
    let inside: Vec<bool> = built
        .graph
        .node_ids()
        .map(|n| built.graph.is_inside(n))
        .collect();
    assert_eq!(inside, [false, true, true, false, false]);
    let first = built.graph.node_ids().next().unwrap();
    let next = built.graph.next(first).unwrap();
    assert_eq!(next.0, 3);
    assert_eq!(built.graph.previous(next), Some(first));
}

#[test]
fn each_pair_is_an_edge_with_its_reason() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    let name = s.string("flag");
    s.at(a, 0)
        .event(Extension::TaskSubmitted, &[("task", 1)])
        .event(Extension::TaskSubmitted, &[("task", 2), ("kind", THREAD)])
        .event(Extension::TaskSubmitted, &[("task", 3), ("delay", 5)])
        .event(Extension::ItemPut, &[("item", 4)])
        .event(Extension::MessageEnqueued, &[("message", 5)])
        .event(Extension::CallbackPosted, &[("callback", 6)])
        .event(Extension::TraversalScheduled, &[("window", 7)])
        .event(Extension::UserPost, &[("id", 8)])
        .event(Extension::FieldWritten, &[("name", name), ("object", 1)])
        .after(1)
        .event(Extension::FieldWritten, &[("name", name), ("object", 1)])
        .event(Extension::MessageEnqueued, &[("message", 9), ("delay", 1)])
        .event(Extension::TaskSubmitted, &[("task", 10)])
        .event(Extension::Cancelled, &[("task", 10)])
        .event(Extension::Released, &[("lock", 3), ("waiters", 1)]);
    s.at(b, 10)
        .event(Extension::TaskBegin, &[("task", 2), ("kind", THREAD)])
        .event(Extension::ItemTaken, &[("item", 4)])
        .event(Extension::TaskBegin, &[("task", 1)])
        .event(Extension::TaskEnd, &[("task", 1)])
        .event(Extension::TaskBegin, &[("task", 3)])
        .event(Extension::TaskEnd, &[("task", 3)])
        .event(Extension::MessageDispatched, &[("message", 5)])
        .event(Extension::CallbackRun, &[("callback", 6)])
        .event(Extension::TraversalBegin, &[("window", 7)])
        .event(Extension::TraversalEnd, &[("window", 7)])
        .event(Extension::MessageDone, &[("message", 5)])
        .event(Extension::UserBegin, &[("id", 8)])
        .event(Extension::UserEnd, &[("id", 8)])
        .event(Extension::FieldRead, &[("name", name), ("object", 1)])
        .event(Extension::FieldRead, &[("name", name), ("object", 2)])
        .event(Extension::MessageDispatched, &[("message", 9)])
        .event(Extension::MessageDone, &[("message", 9)]);
    let built = Built::of(&[&s]);
    let mut edges = built.edges();
    edges.sort();
    assert_eq!(
        edges,
        [
            "strong field a:9 b:13",
            "strong frame callback a:5 b:7",
            "strong item a:3 b:1",
            "strong message a:4 b:6",
            "strong post a:7 b:11",
            "strong task a:0 b:2",
            "strong thread start a:1 b:0",
            "strong timer a:10 b:15",
            "strong timer a:2 b:4",
            "strong traversal a:6 b:8",
        ]
    );
}

#[test]
fn a_lock_passed_on_is_weak_and_ambiguous() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    let wait = [("kind", LOCK), ("number", 1)];
    s.at(a, 10)
        .event(Extension::UserMark, &[])
        .event(Extension::LockWait, &[("held by", 2), ("lock", 9)])
        .event(Extension::WaitBegin, &wait)
        .after(20)
        .event(Extension::WaitEnd, &wait)
        .event(Extension::UserMark, &[]);
    s.at(b, 20)
        .event(Extension::Released, &[("lock", 9), ("waiters", 1)]);
    s.stop_at(100);
    let built = Built::of(&[&s]);
    assert_eq!(
        built.nodes(),
        [
            "a run - 0..1",
            "a wait - 1..4",
            "a run - 4..5",
            "b run - 0..1"
        ]
    );
    assert_eq!(
        built.edges(),
        ["weak lock b:0 a:3", "strong resume a:3 a:4"]
    );
    let lock = built.graph.edge(built.graph.edge_ids().next().unwrap());
    assert!(lock.is_ambiguous && lock.is_inferred);
}

#[test]
fn a_pools_thread_that_waits_for_work_is_idle() {
    let mut s = Script::new("p");
    let (pool, own) = (s.events_thread(1, "pool", 1), s.events_thread(2, "own", 2));
    let wait = |number, object| [("kind", PARK), ("number", number), ("object", object)];
    let end = |number| [("kind", PARK), ("number", number)];
    s.at(pool, 0)
        .event(Extension::TaskBegin, &[("task", 1), ("kind", THREAD)])
        .event(Extension::WaitBegin, &wait(1, 7))
        .after(10)
        .event(Extension::WaitEnd, &end(1))
        .event(Extension::ItemTaken, &[("item", 3)])
        .event(Extension::TaskBegin, &[("task", 5)])
        .after(10)
        .event(Extension::WaitBegin, &wait(2, 8))
        .after(10)
        .event(Extension::WaitEnd, &end(2))
        .event(Extension::TaskEnd, &[("task", 5)])
        .event(Extension::WaitBegin, &wait(3, 7));
    s.at(own, 0)
        .event(Extension::WaitBegin, &wait(1, 7))
        .after(10)
        .event(Extension::WaitEnd, &end(1));
    s.stop_at(100);
    let built = Built::of(&[&s]);
    assert_eq!(
        built.nodes(),
        [
            "pool run - 0..1",
            "pool idle - 1..3",
            "pool run - 3..4",
            "pool task - 4..8",
            "pool idle - 8..9",
            "own wait - 0..2",
        ]
    );
}

/// The two processes of a transaction: it is sent at 10 and served from 20 to 30 on the server's clock.
fn transaction() -> (Script, Script) {
    let (mut client, mut server) = (Script::new("client"), Script::new("server"));
    let a = client.events_thread(1, "a", 1);
    client
        .at(a, 10)
        .event(Extension::BinderSend, &[("transaction", 1 << 32 | 5)])
        .at(40)
        .event(Extension::BinderReply, &[("transaction", 1 << 32 | 5)])
        .event(Extension::UserMark, &[]);
    let b = server.events_thread(2, "b", 1);
    server
        .at(b, 20)
        .event(Extension::BinderServe, &[("transaction", 1 << 32 | 5)])
        .at(30)
        .event(Extension::BinderServed, &[("transaction", 1 << 32 | 5)]);
    (client, server)
}

#[test]
fn a_transaction_joins_two_processes() {
    let (client, server) = transaction();
    let built = Built::of(&[&client, &server]);
    assert_eq!(
        built.nodes(),
        ["a wait - 0..2", "a run - 2..3", "b service - 0..2"]
    );
    assert_eq!(
        built.edges(),
        [
            "strong transaction a:0 b:0",
            "strong reply b:1 a:1",
            "strong resume a:1 a:2",
        ]
    );
    let wait = built.graph.waits_of(hindsight_causality::ThreadId(0))[0];
    assert_eq!(
        (wait.kind, wait.result, wait.duration_ns()),
        (WaitKind::Transaction, WaitResult::Signalled, 30)
    );
}

#[test]
fn a_trace_of_another_boot_is_not_joined() {
    let (client, mut server) = transaction();
    let third = Script::new("third");
    // Its time of day is an hour later, at the same CLOCK_BOOTTIME.
    server.clocks.samples = vec![];
    let mut other = Trace::decode("s".as_ref(), &server.encode()).unwrap();
    let trace = |s: &Script| Trace::decode("t".as_ref(), &s.encode()).unwrap();
    let with_clock = hindsight_decoder::Trace {
        process: {
            other.process.extra = vec![("build.fingerprint".into(), "another".into())];
            other.process.clone()
        },
        ..other
    };
    let mut client = trace(&client);
    client.process.extra = vec![("build.fingerprint".into(), "one".into())];
    let session = Session::of(vec![
        ("c".into(), client),
        ("s".into(), with_clock),
        ("t".into(), trace(&third)),
    ]);
    let graph = Graph::build(&session).unwrap();
    graph.check(&session).unwrap();
    assert_eq!(session.apart(0), None);
    let why = session.apart(1).unwrap().words();
    assert!(why.contains("build.fingerprint differs"), "{why}");
    let between = graph.edge_ids().map(|e| graph.edge(e));
    assert_eq!(between.filter(|e| !e.reason.is_of_thread()).count(), 0);
}

#[test]
fn causes_of_each_other_at_one_time_are_no_causes() {
    let mut s = Script::new("p");
    let (a, b) = (s.events_thread(1, "a", 1), s.events_thread(2, "b", 2));
    s.at(a, 10)
        .event(Extension::MessageDispatched, &[("message", 1)])
        .event(Extension::MessageEnqueued, &[("message", 2)])
        .event(Extension::MessageDone, &[("message", 1)]);
    s.at(b, 10)
        .event(Extension::MessageDispatched, &[("message", 2)])
        .event(Extension::MessageEnqueued, &[("message", 1)])
        .event(Extension::MessageDone, &[("message", 2)]);
    let built = Built::of(&[&s]);
    assert_eq!(built.edges(), Vec::<String>::new());
    assert_eq!(built.graph.dropped(DropReason::Circular), 2);
}

#[test]
fn events_and_times_lead_back_to_their_nodes() {
    let built = Built::of(&[
        &hindsight_testkit::events_only(),
        &hindsight_testkit::transaction(),
    ]);
    for id in built.graph.node_ids() {
        let node = built.graph.node(id);
        for event in node.events() {
            let found = built.graph.node_of(hindsight_causality::EventId {
                thread: node.thread,
                event: event as u32,
            });
            let inner = found.unwrap();
            assert!(inner == id || built.graph.is_inside(inner));
        }
        let middle = node.begin_ns + node.duration_ns() / 2;
        let at = built.graph.node_at(node.thread, middle).unwrap();
        let at = built.graph.node(at);
        assert!(at.begin_ns <= middle && middle <= at.end_ns);
    }
}

#[test]
fn an_edge_between_nodes_with_uncommon_methods_in_common_is_boosted() {
    let class = |common: usize| {
        let mut s = Script::new("p");
        let t = s.events_thread(1, "t", 1);
        let methods: Vec<u64> = (0..6)
            .map(|i| s.method(&format!("a.C.m{i}"), "()V"))
            .collect();
        let stack = |s: &mut Script, methods: &[u64]| {
            let frames: Vec<(u64, u32)> = methods.iter().map(|&m| (m, 1)).collect();
            s.stack(&frames)
        };
        let one = stack(&mut s, &methods[..common]);
        let other = stack(&mut s, &methods);
        for (i, payload) in [one, other].into_iter().enumerate() {
            let task = [("task", 1 + i as u64)];
            s.at(t, 10 * i as u64)
                .event(Extension::TaskBegin, &task)
                .extension(Extension::Stack, &payload)
                .event(Extension::TaskEnd, &task);
        }
        let built = Built::of(&[&s]);
        let edges: Vec<_> = built
            .graph
            .edge_ids()
            .map(|e| built.graph.edge(e))
            .collect();
        assert_eq!((edges.len(), edges[0].reason), (1, Reason::Next));
        edges[0].class
    };
    assert_eq!(class(3), EdgeClass::Weak);
    assert_eq!(class(4), EdgeClass::Boosted);
}

#[test]
fn a_node_that_works_for_two_processes_is_to_be_split() {
    let mut server = Script::new("server");
    let binder = server.events_thread(30, "binder", 1);
    let worker = server.events_thread(31, "worker", 2);
    let mut clients = [Script::new("one"), Script::new("other")];
    for (i, client) in clients.iter_mut().enumerate() {
        let (id, at) = (5 + i as u64, 10 * (1 + i as u64));
        let t = client.events_thread(1 + i as u32, "main", 1);
        let sent = [("transaction", id), ("one-way", 1)];
        client.at(t, at).event(Extension::BinderSend, &sent);
        client.stop_at(100);
        server
            .at(binder, at + 1)
            .event(Extension::BinderServe, &sent)
            .event(Extension::ItemPut, &[("item", id)])
            .event(Extension::BinderServed, &[("transaction", id)]);
    }
    server
        .at(worker, 50)
        .event(Extension::ItemTaken, &[("item", 5)])
        .event(Extension::ItemTaken, &[("item", 6)]);
    server.stop_at(100);
    let [one, other] = &clients;
    let built = Built::of(&[&server, one, other]);
    let suggestions = built.graph.suggestions(&built.session);
    assert_eq!(suggestions.len(), 1);
    assert_eq!(suggestions[0].processes, ["one", "other"]);
    let rules = hindsight_causality::Rules::parse(&suggestions[0].rule).unwrap();
    let split = Graph::build_with(&built.session, &rules).unwrap();
    split.check(&built.session).unwrap();
    assert_eq!(split.node_count(), built.graph.node_count() + 1);
    assert_eq!(split.suggestions(&built.session), []);
}

/// `notifyAll` wakes two threads that wait for one object; a third one waits for another object, and a fourth is woken later.
#[test]
fn several_waits_for_one_object_that_end_together_are_a_herd() {
    const OBJECT: u64 = 1;
    let mut s = Script::new("p");
    let notifier = s.events_thread(1, "notifier", 1);
    let mut waiting = |tid: u32, object: u64, until: u64| {
        let t = s.events_thread(tid, &format!("w{tid}"), tid.into());
        let of = [("kind", OBJECT), ("number", 1), ("object", object)];
        s.at(t, 0)
            .event(Extension::WaitBegin, &of)
            .at(until)
            .event(Extension::WaitEnd, &[of[0], of[1], ("result", 0)]);
    };
    waiting(2, 7, 110);
    waiting(3, 7, 111);
    waiting(4, 8, 112);
    waiting(5, 7, 210);
    let wakes = |thread| [("thread", thread), ("wait", 1)];
    s.at(notifier, 100)
        .event(Extension::Wakes, &wakes(2))
        .extension(Extension::ThreadCpuTime, &[5])
        .event(Extension::Wakes, &wakes(3))
        .event(Extension::Wakes, &wakes(4))
        .event(Extension::UserMark, &[("name", 1)])
        .at(200)
        .event(Extension::Wakes, &wakes(5));
    s.stop_at(300);
    let built = Built::of(&[&s]);
    let edges = built.graph.edge_ids().map(|e| built.graph.edge(e));
    let mut herd: Vec<(&str, bool)> = edges
        .filter(|e| e.reason == Reason::Wake)
        .map(|e| {
            (
                built.session.thread_name(built.graph.node(e.to).thread),
                e.is_herd,
            )
        })
        .collect();
    herd.sort_unstable();
    assert_eq!(
        herd,
        [("w2", true), ("w3", true), ("w4", false), ("w5", false)]
    );
}
