// SPDX-License-Identifier: Apache-2.0
//! Similar nodes, slices, comparisons and beam search, of small logs whose answers are known.

mod common;

use common::{Logs, MS};
use hindsight_causality::diagnosis::{
    beam, compare, similar, slice, way, BeamQuestion, SimilarQuestion, SliceQuestion, Way,
};
use hindsight_causality::{NodeId, NodeKind, Reason, Wait};
use hindsight_decoder::Extension as E;
use hindsight_testkit::{Recorder, Script};

const OBJECT: u64 = 1;
const SIGNALLED: u64 = 0;
const TIMED_OUT: u64 = 1;

fn message(r: &mut Recorder<'_>, id: u64, class: u64, wait: (u64, u64, u64)) {
    let (object, ms, result) = wait;
    let of = [("kind", OBJECT), ("number", id)];
    r.event(E::MessageDispatched, &[("message", id), ("class", class)])
        .event(E::WaitBegin, &[of[0], of[1], ("object", object)])
        .after(ms * MS)
        .event(E::WaitEnd, &[of[0], of[1], ("result", result)])
        .event(E::MessageDone, &[("message", id)])
        .after(MS);
}

/// Main runs six messages, the last one of which waits in vain; worker ends the others' waits, when net tells it to.
fn logs() -> Logs {
    let mut s = Script::new("app");
    let [screen, other] = ["app.Screen.handle", "app.Other.handle"].map(|m| s.method(m, "()V"));
    let main = s.events_thread(1, "main", 1);
    let worker = s.events_thread(2, "worker", 2);
    let net = s.events_thread(3, "net", 3);
    let mut r = s.at(main, 10 * MS);
    message(&mut r, 1, screen, (7, 20, SIGNALLED));
    message(&mut r, 2, other, (7, 20, SIGNALLED));
    message(&mut r, 3, screen, (8, 20, SIGNALLED));
    message(&mut r, 4, screen, (7, 30, SIGNALLED));
    // It did something else first.
    r.event(E::UserMark, &[("name", 1)]);
    message(&mut r, 6, screen, (7, 2_000, TIMED_OUT));
    let task = [("task", 5), ("class", other)];
    let mut r = s.at(net, 75 * MS);
    r.event(E::TaskSubmitted, &task)
        .at(120 * MS)
        .event(E::WaitBegin, &[("kind", OBJECT), ("number", 1)]);
    s.at(worker, 78 * MS)
        .event(E::TaskBegin, &task)
        .at(102 * MS)
        .event(E::Wakes, &[("thread", 1), ("wait", 4)])
        .event(E::TaskEnd, &task[..1]);
    s.stop_at(2_200 * MS);
    Logs::of(&[&s])
}

fn messages(logs: &Logs) -> Vec<NodeId> {
    let nodes = logs.graph.nodes_of(logs.thread("app/main"));
    nodes
        .filter(|&n| logs.graph.node(n).kind == NodeKind::Message)
        .collect()
}

fn question(wait: Option<Wait>) -> SimilarQuestion {
    SimilarQuestion {
        wait,
        least_ns: 1_000 * MS,
        preceding: 0,
        kinds: Vec::new(),
    }
}

#[test]
fn similar_nodes_did_the_same_on_the_same_object_and_went_well() {
    let logs = logs();
    let messages = messages(&logs);
    let stuck = messages[4];
    let wait = logs.graph.waits_in(stuck)[0];
    let found = similar(&logs.session, &logs.graph, stuck, &question(Some(wait)));
    let nodes: Vec<NodeId> = found.nodes.iter().map(|s| s.node).collect();
    // Not the one of another class, nor the one that waited for another object. The nearest is first.
    assert_eq!(nodes, [messages[3], messages[0]]);
    // Nodes before both have to be alike, too: before the first message there was none.
    let preceded = SimilarQuestion {
        preceding: 1,
        ..question(Some(wait))
    };
    let found = similar(&logs.session, &logs.graph, stuck, &preceded);
    assert!(found.nodes.iter().all(|s| s.node != messages[0]));
    // Nothing is similar to a node that went as well as the others.
    let well = logs.graph.waits_in(messages[0])[0];
    assert_eq!(
        similar(
            &logs.session,
            &logs.graph,
            messages[0],
            &question(Some(well))
        )
        .count,
        0
    );
}

#[test]
fn the_comparison_finds_who_waited_of_those_that_led_to_the_end_before() {
    let logs = logs();
    let messages = messages(&logs);
    let well = logs.graph.waits_in(messages[3])[0];
    let found = compare(
        &logs.session,
        &logs.graph,
        messages[4],
        messages[3],
        Some(&well),
    );
    let name = |t| logs.session.thread_name(t);
    let threads: Vec<&str> = found.threads.iter().map(|&t| name(t)).collect();
    assert_eq!(threads, ["worker", "net"]);
    let different: Vec<&str> = found.found.iter().map(|d| name(d.thread)).collect();
    assert_eq!(different, ["net"]);
    assert!(found.found[0].wait.is_some());
    // Net gave worker no task this time.
    let missing = logs.graph.edge(found.missing.unwrap());
    let names = [missing.from, missing.to].map(|n| name(logs.graph.node(n).thread));
    assert_eq!((missing.reason, names), (Reason::Task, ["net", "worker"]));
    let report = logs.report();
    let should = report.missing.unwrap();
    assert_eq!((should.from.thread.as_str(), should.edge), ("net", "task"));
    assert!(!should.certainty.is_recorded());
    // A message that went well lacks nothing.
    let first = Some(logs.graph.waits_in(messages[2])[0]);
    let found = compare(
        &logs.session,
        &logs.graph,
        messages[3],
        messages[2],
        first.as_ref(),
    );
    assert_eq!(found.missing, None);
}

#[test]
fn a_slice_has_what_came_before_and_not_what_came_after() {
    let logs = logs();
    let (graph, messages) = (&logs.graph, messages(&logs));
    let of = |node: NodeId, weak: bool| {
        let question = SliceQuestion { weak, most: 100 };
        let found = slice(graph, node, graph.node(node).end_ns, &question).nodes;
        let mut threads: Vec<&str> = found
            .iter()
            .map(|&n| logs.session.thread_name(graph.node(n).thread))
            .collect();
        threads.dedup();
        (found.len(), threads)
    };
    let (count, threads) = of(messages[3], false);
    assert_eq!((count, threads), (3, vec!["main", "net", "worker"]));
    // Only what the thread did before.
    let (_, threads) = of(messages[1], true);
    assert_eq!(threads, ["main"]);
    // Up to a time before its wait was ended, nothing of the others led to it.
    let early = graph.node(messages[3]).begin_ns;
    let strong = SliceQuestion {
        weak: false,
        most: 100,
    };
    assert_eq!(
        slice(graph, messages[3], early, &strong).nodes,
        [messages[3]]
    );
}

#[test]
fn the_beam_prefers_strong_edges() {
    let logs = logs();
    let (graph, messages) = (&logs.graph, messages(&logs));
    let node = messages[3];
    let end_ns = graph.node(node).end_ns;
    let paths = beam(graph, node, end_ns, BeamQuestion::of_width(3));
    let first = &paths[0];
    assert_eq!((first.penalty, first.edges.len()), (-2, 2));
    let origin = graph.edge(first.edges[0]).from;
    assert_eq!(logs.session.thread_name(graph.node(origin).thread), "net");
    assert!(paths.windows(2).all(|p| p[0].penalty <= p[1].penalty));
    assert_eq!(
        beam(graph, node, end_ns, BeamQuestion::of_width(1))[0],
        *first
    );
}

/// `first` wakes main early, and `second` later; `second` is woken by `first` in between; before that, `origin` wakes `first`.
#[test]
fn a_path_may_leave_a_node_later_than_the_shortest_one_does() {
    let mut s = Script::new("app");
    let work = s.method("app.Work.run", "()V");
    let names = ["main", "first", "second", "origin"];
    let threads = [1, 2, 3, 4].map(|tid| s.events_thread(tid, names[tid as usize - 1], tid.into()));
    let task = |id: u64| [("task", id), ("class", work)];
    let wait = |number| [("kind", OBJECT), ("number", number), ("result", SIGNALLED)];
    let wakes = |thread, wait| [("thread", thread), ("wait", wait)];
    s.at(threads[0], MS)
        .event(E::TaskBegin, &task(1))
        .event(E::WaitBegin, &wait(1)[..2])
        .at(12 * MS)
        .event(E::WaitEnd, &wait(1))
        .event(E::WaitBegin, &wait(2)[..2])
        .at(62 * MS)
        .event(E::WaitEnd, &wait(2))
        .at(90 * MS)
        .event(E::TaskEnd, &task(1)[..1]);
    s.at(threads[1], MS)
        .event(E::TaskBegin, &task(2))
        .at(10 * MS)
        .event(E::Wakes, &wakes(1, 1))
        .event(E::WaitBegin, &wait(1)[..2])
        .at(30 * MS)
        .event(E::WaitEnd, &wait(1))
        .at(50 * MS)
        .event(E::Wakes, &wakes(3, 1))
        .event(E::TaskEnd, &task(2)[..1]);
    s.at(threads[2], MS)
        .event(E::TaskBegin, &task(3))
        .event(E::WaitBegin, &wait(1)[..2])
        .at(52 * MS)
        .event(E::WaitEnd, &wait(1))
        .at(60 * MS)
        .event(E::Wakes, &wakes(1, 2))
        .event(E::TaskEnd, &task(3)[..1]);
    s.at(threads[3], MS)
        .event(E::TaskBegin, &task(4))
        .at(28 * MS)
        .event(E::Wakes, &wakes(2, 1))
        .event(E::TaskEnd, &task(4)[..1]);
    s.stop_at(100 * MS);
    let logs = Logs::of(&[&s]);
    let graph = &logs.graph;
    let node = |name: &str| {
        let thread = logs.thread(&format!("app/{name}"));
        let mut tasks = graph.nodes_of(thread);
        tasks
            .find(|&n| graph.node(n).kind == NodeKind::Task)
            .unwrap()
    };
    let between = |from: &str, to: &str| -> Option<Vec<NodeId>> {
        match way(graph, node(from), node(to)) {
            Way::Found(edges) => Some(edges.iter().map(|&e| graph.edge(e).from).collect()),
            Way::None | Way::TooLong => None,
        }
    };
    assert_eq!(between("first", "main"), Some(vec![node("first")]));
    let long = vec![node("origin"), node("first"), node("second")];
    assert_eq!(between("origin", "main"), Some(long));
    assert_eq!(between("main", "main"), Some(vec![]));
}
