// SPDX-License-Identifier: Apache-2.0
//! Random logs of two processes: questions about them end, give the same answer each time, and never name a waiting thread as
//! its own culprit.

mod common;

use common::{Logs, MS};
use hindsight_causality::diagnosis::{
    beam, diagnose, similar, slice, BeamQuestion, End, Role, SimilarQuestion, SliceQuestion,
    StuckQuestion, MOST_HOPS, WIDTHS,
};
use hindsight_causality::story::report;
use hindsight_causality::NodeId;
use hindsight_decoder::Extension as E;
use hindsight_testkit::Script;
use proptest::collection::vec;
use proptest::prelude::*;

const KINDS: [E; 26] = [
    E::WaitBegin,
    E::WaitEnd,
    E::WaitBegin,
    E::WaitEnd,
    E::LockWait,
    E::Wakes,
    E::WokenBy,
    E::Released,
    E::MessageEnqueued,
    E::MessageDispatched,
    E::MessageDone,
    E::TaskSubmitted,
    E::TaskBegin,
    E::TaskEnd,
    E::ItemPut,
    E::ItemTaken,
    E::BinderSend,
    E::BinderServe,
    E::BinderServed,
    E::BinderReply,
    E::InputBegin,
    E::InputEnd,
    E::FieldRead,
    E::FieldWritten,
    E::ThreadCpuTime,
    E::LifecycleBegin,
];

/// A thread, the time since its last event, a kind, and the numbers of the fields.
type Step = (usize, u64, usize, [u64; 4]);

fn step() -> impl Strategy<Value = Step> {
    let pause = prop_oneof![Just(0_u64), 1..2 * MS, 10 * MS..400 * MS];
    (
        0..6_usize,
        pause,
        0..KINDS.len(),
        prop::array::uniform4(0..4_u64),
    )
}

fn logs(steps: &[Step]) -> Logs {
    let mut scripts: Vec<Script> = (0..2).map(|p| Script::new(&format!("p{p}"))).collect();
    let mut threads = Vec::new();
    for i in 0..6_u32 {
        let script = &mut scripts[i as usize % 2];
        let names = ["main", "main", "a", "b", "c", "d"];
        let class = script.method(&format!("x.C{i}.run"), "()V");
        script.string(&format!("s{i}"));
        let tid = if i < 2 { 100 + 100 * i } else { i };
        threads.push((
            script.events_thread(tid, names[i as usize], u64::from(i)),
            class,
        ));
    }
    let mut at = [0_u64; 6];
    let tids = [100, 200, 2, 3];
    for &(thread, pause, kind, numbers) in steps {
        let kind = KINDS[kind];
        at[thread] += pause;
        let (index, class) = threads[thread];
        let fields = kind.spec().fields.iter().zip(numbers.iter().cycle());
        let fields: Vec<(&str, u64)> = fields
            .map(|(field, &number)| {
                let number = match field.name {
                    "class" => class,
                    "held by" | "by" | "thread" | "for thread" => tids[number as usize],
                    _ => number,
                };
                (field.name, number)
            })
            .collect();
        scripts[thread % 2]
            .at(index, at[thread])
            .event(kind, &fields);
    }
    let end = at.into_iter().max().unwrap_or(0) + MS;
    for script in &mut scripts {
        script.stop_at(end);
    }
    Logs::of(&scripts.iter().collect::<Vec<_>>())
}

/// Asks everything about a log, and returns the answers.
fn ask(logs: &Logs) -> String {
    let (session, graph) = (&logs.session, &logs.graph);
    let mut answers = String::new();
    let threads = session.thread_ids().map(Some).chain([None]);
    for thread in threads {
        let question = StuckQuestion {
            thread,
            least_ns: 1,
            ..StuckQuestion::default()
        };
        let Some(found) = diagnose(session, graph, &question) else {
            continue;
        };
        assert!(found.chain.hops.len() <= MOST_HOPS);
        if let End::Circle { first } = found.chain.end {
            let hops = &found.chain.hops[first..];
            assert_eq!(hops[hops.len() - 1].to, hops[0].from);
        }
        for pair in found.chain.hops.windows(2) {
            assert_eq!(pair[0].to, pair[1].from);
        }
        let stuck = found.found.stretch.thread;
        if let Some(culprit) = &found.verdict.culprit {
            assert!(culprit.certainty.is_recorded());
            if matches!(culprit.role, Role::Waited { .. }) {
                assert!(culprit.threads.iter().all(|t| t.thread != stuck));
            }
        }
        answers += &format!("{:?}\n", report(session, graph, Some(&found), 1));
    }
    for node in graph.node_ids().step_by(graph.node_count() / 8 + 1) {
        let end_ns = graph.node(node).end_ns;
        let found = slice(graph, node, end_ns, &SliceQuestion::default());
        assert!(found.nodes.contains(&node));
        let few = SliceQuestion {
            most: 3,
            weak: true,
        };
        assert!(slice(graph, node, end_ns, &few).nodes.len() <= 3);
        answers += &format!("{found:?}\n");
        for width in WIDTHS {
            let paths = beam(graph, node, end_ns, BeamQuestion::of_width(width));
            assert!(paths.len() <= width);
            for path in &paths {
                check_path(logs, &path.edges, node, &found.nodes);
            }
            answers += &format!("{paths:?}\n");
        }
        let question = SimilarQuestion {
            wait: None,
            least_ns: 0,
            preceding: 1,
            kinds: Vec::new(),
        };
        answers += &format!("{:?}\n", similar(session, graph, node, &question));
    }
    answers
}

/// A path is of edges that follow each other in time, ends at the node, and is in its slice.
fn check_path(logs: &Logs, edges: &[hindsight_causality::EdgeId], node: NodeId, slice: &[NodeId]) {
    let edges: Vec<_> = edges.iter().map(|&e| logs.graph.edge(e)).collect();
    for pair in edges.windows(2) {
        assert_eq!(pair[0].to, pair[1].from);
        assert!(pair[0].to_ns <= pair[1].from_ns);
    }
    assert_eq!(edges.last().map(|e| e.to), Some(node));
    assert!(edges.iter().all(|e| slice.contains(&e.from)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn questions_about_random_logs_end_and_repeat(steps in vec(step(), 0..160)) {
        let logs = logs(&steps);
        prop_assert_eq!(ask(&logs), ask(&logs));
    }
}
