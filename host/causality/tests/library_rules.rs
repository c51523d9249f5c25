// SPDX-License-Identifier: Apache-2.0
//! What the events of the rules for libraries become in a graph.

use hindsight_causality::{EdgeClass, Graph, NodeKind, Reason, Rules, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::{Script, ThreadIndex};

const PUT: &str = "library:rxjava-array-put";
const TAKE: &str = "library:rxjava-array-take";

/// A producer, and a thread that takes what it put into a queue, in one task.
struct Queue {
    script: Script,
    producer: ThreadIndex,
    consumer: ThreadIndex,
    names: [u64; 2],
}

impl Queue {
    fn new() -> Self {
        let mut script = Script::new("com.example");
        let names = [PUT, TAKE].map(|name| script.string(name));
        let producer = script.events_thread(1, "producer", 1);
        let consumer = script.events_thread(2, "consumer", 2);
        Queue {
            script,
            producer,
            consumer,
            names,
        }
    }

    fn put(&mut self, at_ns: u64, object: u64) -> &mut Self {
        let call = [("name", self.names[0]), ("object", object)];
        self.script
            .at(self.producer, at_ns)
            .event(Extension::RuleBegin, &call)
            .after(1)
            .event(Extension::RuleEnd, &call);
        self
    }

    /// The queue's own number is known when the call begins, the element when it ends.
    fn take(&mut self, at_ns: u64, object: u64) -> &mut Self {
        let call = |object| [("name", self.names[1]), ("object", object)];
        self.script
            .at(self.consumer, at_ns)
            .event(Extension::RuleBegin, &call(90))
            .after(1)
            .event(Extension::RuleEnd, &call(object));
        self
    }

    fn task(&mut self, at_ns: u64, kind: Extension) -> &mut Self {
        self.script
            .at(self.consumer, at_ns)
            .event(kind, &[("task", 7)]);
        self
    }

    fn session(&self) -> Session {
        let trace = Trace::decode("t".as_ref(), &self.script.encode()).unwrap();
        Session::of(vec![("t".into(), trace)])
    }

    /// The edges of rules: the events of their ends.
    fn edges(&self) -> Vec<(u32, u32)> {
        let session = self.session();
        let graph = build(&session);
        let edges = graph.edge_ids().map(|e| graph.edge(e));
        let of_rules = edges.filter(|e| e.reason == Reason::Rule && e.class == EdgeClass::Strong);
        of_rules.map(|e| (e.from_event, e.to_event)).collect()
    }
}

fn build(session: &Session) -> Graph {
    let rules = Rules::default().with_libraries(session);
    let graph = Graph::build_with(session, &rules).unwrap();
    graph.check(session).unwrap();
    graph
}

#[test]
fn each_element_that_is_taken_begins_a_piece_of_work() {
    let mut queue = Queue::new();
    queue
        .put(10, 5)
        .put(20, 6)
        .task(30, Extension::TaskBegin)
        .take(40, 5)
        .take(50, 6)
        .take(60, 0)
        .task(70, Extension::TaskEnd);
    assert_eq!(queue.edges(), [(0, 2), (2, 4)]);
    let session = queue.session();
    let graph = build(&session);
    let consumer = session.thread_ids().nth(1).unwrap();
    let nodes = graph.nodes_of(consumer).map(|n| graph.node(n));
    let nodes: Vec<_> = nodes.map(|n| (n.kind, n.events())).collect();
    // After the empty queue, the task goes on by itself.
    let expected = [0..2, 2..4, 4..6, 6..8].map(|events| (NodeKind::Task, events));
    assert_eq!(nodes, expected);
}

#[test]
fn an_object_that_is_pending_twice_has_no_edge() {
    let mut queue = Queue::new();
    queue.put(10, 5).put(20, 5).take(30, 5).take(40, 5);
    assert_eq!(queue.edges(), []);
}

/// The first object's taking is not recorded; then another object has its identity hash.
#[test]
fn an_identity_that_is_used_again_has_no_edge() {
    let mut queue = Queue::new();
    queue
        .put(10, 5)
        .take(20, 5)
        .put(30, 5)
        .put(40, 5)
        .take(50, 5);
    assert_eq!(queue.edges(), [(0, 1)]);
}

#[test]
fn an_object_without_an_identity_has_no_edge() {
    let mut queue = Queue::new();
    queue.put(10, 0).take(20, 0);
    assert_eq!(queue.edges(), []);
}

#[test]
fn an_element_is_not_taken_before_it_is_put() {
    let mut queue = Queue::new();
    queue.take(10, 5).put(20, 5);
    assert_eq!(queue.edges(), []);
}

#[test]
fn other_traces_have_no_such_rules() {
    let mut script = Script::new("com.example");
    let name = script.string("queue-put");
    let thread = script.events_thread(1, "a", 1);
    script
        .at(thread, 10)
        .event(Extension::RuleBegin, &[("name", name)]);
    let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
    let session = Session::of(vec![("t".into(), trace)]);
    let own = "[[weak]]\nreason = \"lock\"";
    let own = Rules::parse(own).unwrap().with_libraries(&session);
    assert_eq!(own.len(), 1);
    assert!(!Rules::default()
        .with_libraries(&Queue::new().put(1, 1).session())
        .is_empty());
}

/// A coroutine that a thread pool runs: the pool's task is known to the class library, and has its cause.
#[test]
fn a_call_that_no_queue_of_a_library_led_to_is_a_part_of_its_task() {
    let nodes = |is_put: bool| {
        let mut script = Script::new("com.example");
        let put = [
            ("name", script.string("library:coroutines-put")),
            ("object", 5),
        ];
        let run = [
            ("name", script.string("library:coroutines-run")),
            ("object", 5),
        ];
        let caller = script.events_thread(1, "caller", 1);
        let pool = script.events_thread(2, "pool-1-thread-1", 2);
        script.at(caller, 10).event(Extension::UserMark, &[]);
        if is_put {
            script.at(caller, 11).event(Extension::RuleBegin, &put);
        }
        script
            .at(pool, 20)
            .event(Extension::TaskBegin, &[("task", 7)])
            .event(Extension::RuleBegin, &run)
            .event(Extension::UserMark, &[])
            .event(Extension::RuleEnd, &run)
            .event(Extension::TaskEnd, &[("task", 7)]);
        let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
        let session = Session::of(vec![("t".into(), trace)]);
        let graph = build(&session);
        let pool = session.thread_ids().nth(1).unwrap();
        let nodes = graph.nodes_of(pool).map(|n| graph.node(n));
        let nodes = nodes.map(|n| (n.first_event, n.end_event));
        nodes.collect::<Vec<_>>()
    };
    assert_eq!(nodes(false), vec![(0, 5)]);
    assert_eq!(nodes(true), vec![(0, 1), (1, 3), (3, 5)]);
}
