// SPDX-License-Identifier: Apache-2.0
//! What rules do to a graph.

use hindsight_causality::{DropReason, Graph, NodeKind, Rules, Session};
use hindsight_decoder::{Extension, Trace};
use hindsight_testkit::Script;

const PARK: u64 = 3;

/// A thread takes two elements, of two clients, from a queue in one task; then it waits, and runs on.
fn session() -> Session {
    let mut s = Script::new("com.example.server");
    let put = s.string("queue-put");
    let take = s.string("queue-take");
    let client = s.events_thread(1, "client", 1);
    let server = s.events_thread(2, "Batcher-1", 2);
    let wait = [("kind", PARK), ("number", 1)];
    s.at(client, 0)
        .event(Extension::ItemPut, &[("item", 5)])
        .event(Extension::RuleEnd, &[("name", put), ("object", 8)])
        .after(1)
        .event(Extension::UserMark, &[]);
    s.at(client, 60)
        .event(Extension::Wakes, &[("thread", 2), ("wait", 1)])
        .event(Extension::RuleEnd, &[("name", put), ("object", 9)])
        .event(Extension::RuleEnd, &[("name", put), ("object", 9)]);
    s.at(server, 10)
        .event(Extension::TaskBegin, &[("task", 7)])
        .event(Extension::ItemTaken, &[("item", 4)])
        .after(10)
        .event(Extension::ItemTaken, &[("item", 5)])
        .event(Extension::RuleBegin, &[("name", take), ("object", 8)])
        .event(Extension::TaskEnd, &[("task", 7)])
        .after(10)
        .event(Extension::UserMark, &[])
        .event(Extension::WaitBegin, &wait)
        .after(40)
        .event(Extension::WaitEnd, &wait)
        .event(Extension::RuleBegin, &[("name", take), ("object", 9)])
        .event(Extension::UserBegin, &[("id", 1)])
        .event(Extension::UserEnd, &[("id", 1)]);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    Session::of(vec![("t".into(), trace)])
}

fn build(rules: &str) -> (Session, Graph) {
    let session = session();
    let rules = Rules::parse(rules).unwrap();
    let graph = Graph::build_with(&session, &rules).unwrap();
    graph.check(&session).unwrap();
    (session, graph)
}

/// Kind and events of the server's nodes.
fn nodes(rules: &str) -> Vec<(NodeKind, std::ops::Range<usize>)> {
    let (session, graph) = build(rules);
    let server = session.thread_ids().nth(1).unwrap();
    let nodes = graph.nodes_of(server).map(|n| graph.node(n));
    nodes.map(|n| (n.kind, n.events())).collect()
}

/// The edges that are not along threads.
fn edges(rules: &str) -> Vec<String> {
    let (_, graph) = build(rules);
    let edges = graph.edge_ids().map(|e| graph.edge(e));
    let edges = edges.filter(|e| !e.reason.is_of_thread());
    edges
        .map(|e| {
            let (class, reason) = (e.class.name(), e.reason.name());
            format!("{class} {reason} {} {}", e.from_event, e.to_event)
        })
        .collect()
}

const OF_TASK: std::ops::Range<usize> = 0..5;

#[test]
fn without_rules() {
    use NodeKind::{Marked, Run, Task, Wait};
    assert_eq!(
        nodes(""),
        [
            (Task, OF_TASK),
            (Run, 5..6),
            (Wait, 6..8),
            (Run, 8..9),
            (Marked, 9..11)
        ]
    );
    assert_eq!(
        edges(""),
        [
            "strong item 0 2",
            "strong wake-up 3 7",
            "weak awaited by 6 3"
        ]
    );
}

#[test]
fn split_begins_a_node_inside_work() {
    let rules =
        "[[split]]\nprocess = \"com.example.*\"\nthread = \"Batcher-?\"\nevent = \"item taken\"";
    assert_eq!(
        nodes(rules)[..4],
        [
            (NodeKind::Task, 0..1),
            (NodeKind::Task, 1..2),
            (NodeKind::Task, 2..5),
            (NodeKind::Run, 5..6),
        ]
    );
    let other = "[[split]]\nprocess = \"org.*\"\nevent = \"item taken\"";
    assert_eq!(nodes(other), nodes(""));
}

#[test]
fn merge_joins_work_with_the_node_before() {
    let rules = "[[merge]]\nevent = \"work begins\"";
    assert_eq!(nodes(rules)[3..], [(NodeKind::Run, 8..11)]);
}

#[test]
fn priority_keeps_a_node_over_its_waits() {
    let rules = "[[priority]]\nthread = \"Batcher*\"";
    assert_eq!(
        nodes(rules),
        [
            (NodeKind::Task, OF_TASK),
            (NodeKind::Run, 5..9),
            (NodeKind::Marked, 9..11)
        ]
    );
}

#[test]
fn edge_joins_events_of_one_identity_one_for_one() {
    let rules = r#"
        [[edge]]
        from = { event = "rule ends", name = "queue-put" }
        to = { event = "rule begins", name = "queue-take" }
        identity = true
    "#;
    // Two were put with the identity 9: it is not certain which of them was taken.
    let with: Vec<String> = edges(rules);
    assert_eq!(
        with.iter()
            .filter(|e| e.contains("rule"))
            .collect::<Vec<_>>(),
        ["strong rule 1 3"]
    );
}

#[test]
fn edges_become_strong_or_weak_or_are_left_out() {
    let weak = "[[weak]]\nreason = \"wake-up\"\nto = { thread = \"Batcher*\" }";
    assert!(edges(weak).contains(&"weak wake-up 3 7".to_owned()));
    let strong = format!("{weak}\n[[strong]]\nreason = \"awaited by\"");
    assert!(edges(&strong).contains(&"strong awaited by 6 3".to_owned()));
    let ignore = "[[ignore]]\nreason = \"item\"\n[[ignore]]\nreason = \"awaited by\"";
    assert_eq!(edges(ignore), ["strong wake-up 3 7"]);
    assert_eq!(build(ignore).1.dropped(DropReason::Ignored), 2);
    let other = "[[ignore]]\nfrom = { class = \"a.B\" }";
    assert_eq!(edges(other), edges(""));
}

/// A split in a wait would give its time to a node that does not have the wait: the thread would seem not to have waited.
#[test]
fn a_wait_in_work_is_not_split() {
    let mut s = Script::new("app");
    let main = s.events_thread(1, "main", 1);
    let wait = [("kind", PARK), ("number", 1)];
    s.at(main, 10)
        .event(Extension::TaskBegin, &[("task", 7)])
        .event(Extension::UserMark, &[])
        .event(Extension::WaitBegin, &wait)
        .event(Extension::ThreadCpuTime, &[("CPU time", 1)])
        .after(900)
        .event(Extension::WaitEnd, &wait)
        .event(Extension::ThreadCpuTime, &[("CPU time", 2)])
        .event(Extension::TaskEnd, &[("task", 7)]);
    let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
    let session = Session::of(vec![("t".into(), trace)]);
    let rules = Rules::parse("[[split]]\nevent = \"CPU time\"\n").unwrap();
    let graph = Graph::build_with(&session, &rules).unwrap();
    graph.check(&session).unwrap();
    let tasks = graph
        .node_ids()
        .filter(|&n| graph.node(n).kind == NodeKind::Task);
    let waits: Vec<usize> = tasks.map(|n| graph.waits_in(n).len()).collect();
    assert_eq!(waits, [1, 0], "split at the reading after the wait only");
    let of = |n| graph.node(hindsight_causality::NodeId(n));
    assert!(of(0).end_ns - of(0).begin_ns >= 900);
}
