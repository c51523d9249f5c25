// SPDX-License-Identifier: Apache-2.0
//! Compares a graph with the truth of its program.

use std::collections::BTreeMap;

use hindsight_causality::{Edge, Graph, Node, NodeId, NodeKind, Session, ThreadId};

use super::java::SERVER;
use super::plan::{LaneKind, Plan, StepId, USER};
use super::truth::{Link, Place, Truth};

/// What the comparison of a graph has found.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// Edges that are as they must be, by reason.
    pub(super) right: BTreeMap<&'static str, u64>,
    /// Edges that are as they may be.
    pub(super) possible: u64,
    /// Edges that are otherwise.
    pub(super) wrong: Vec<String>,
    /// Edges that are not in the graph.
    pub(super) missing: Vec<String>,
    /// Edges from or to threads that are not the program's own.
    pub(super) others: BTreeMap<String, u64>,
}

/// Compares the edges between threads, and those of work that a thread hands to itself.
pub(super) fn judge(session: &Session, graph: &Graph, plan: &Plan, truth: &Truth) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(error) = graph.check(session) {
        verdict.wrong.push(format!("the graph: {error}"));
    }
    let places = Places::new(session, plan);
    let Some(play) = places.play(graph) else {
        verdict.missing.push(format!("what the thread {USER} does"));
        return verdict;
    };
    let mut left = truth.links.clone();
    let mut rest = Vec::new();
    let edges = graph.edge_ids().map(|id| graph.edge(id));
    for edge in edges.filter(|e| e.from_ns >= play.begin_ns && e.from_ns <= play.end_ns) {
        let (from, to) = (graph.node(edge.from), graph.node(edge.to));
        if edge.reason.is_of_thread() {
            continue;
        }
        let link = Link {
            reason: edge.reason,
            from: places.of(&from),
            to: places.of(&to),
        };
        match left.get_mut(&link).filter(|count| **count > 0) {
            Some(count) => {
                *count -= 1;
                verdict.found(&link, &edge);
            }
            None => rest.push((link, edge)),
        }
    }
    for (link, edge) in rest {
        let names = (
            places.thread(graph, edge.from),
            places.thread(graph, edge.to),
        );
        verdict.rest(truth, &link, &edge, names);
    }
    for (link, count) in left.into_iter().filter(|(_, count)| *count > 0) {
        let missing = std::iter::repeat_n(format!("{link}"), count as usize);
        verdict.missing.extend(missing);
    }
    verdict
}

impl Verdict {
    /// An edge that must be there.
    fn found(&mut self, link: &Link, edge: &Edge) {
        if edge.class == link.class() {
            *self.right.entry(link.reason.name()).or_default() += 1;
        } else {
            self.wrong
                .push(format!("{link}: it is {}", edge.class.name()));
        }
    }

    /// An edge that is not among those that must be there.
    fn rest(&mut self, truth: &Truth, link: &Link, edge: &Edge, names: (&str, &str)) {
        if !truth.knows(names.0) || !truth.knows(names.1) {
            let what = format!("{} from {} to {}", edge.reason.name(), names.0, names.1);
            *self.others.entry(what).or_default() += 1;
        } else if truth.may_be(link) {
            self.possible += 1;
        } else {
            self.wrong.push(format!("{link}: it was not so"));
        }
    }
}

/// The places of nodes.
pub(super) struct Places<'a> {
    session: &'a Session,
    plan: &'a Plan,
    /// By thread of the session, its name.
    names: Vec<String>,
    /// By name of a thread of its own, its step.
    own: BTreeMap<&'a str, StepId>,
}

impl<'a> Places<'a> {
    /// The first trace is the program's own.
    pub(super) fn new(session: &'a Session, plan: &'a Plan) -> Self {
        let names = session.thread_ids().map(|id| {
            let name = session.thread_name(id);
            match session.about(id).trace() {
                0 => name.to_owned(),
                _ => format!("{SERVER}/{name}"),
            }
        });
        let own = (0..plan.steps.len()).filter(|&step| plan.lane(step).kind == LaneKind::Own);
        Places {
            session,
            plan,
            names: names.collect(),
            own: own
                .map(|step| (plan.lane(step).name.as_str(), step))
                .collect(),
        }
    }

    /// What the user does, from its first step to its last.
    pub(super) fn play(&self, graph: &Graph) -> Option<Node> {
        let mut threads = self.session.thread_ids();
        let user = threads.find(|id| self.names[id.0 as usize] == USER)?;
        let mut nodes = graph.nodes_of(user).map(|node| graph.node(node));
        nodes.find(|node| node.kind == NodeKind::Marked && !node.is_open)
    }

    /// The name of a thread.
    pub(super) fn name(&self, thread: ThreadId) -> &str {
        &self.names[thread.0 as usize]
    }

    /// The name of a node's thread.
    fn thread(&self, graph: &Graph, node: NodeId) -> &str {
        self.name(graph.node(node).thread)
    }

    /// The place of a node.
    pub(super) fn of(&self, node: &Node) -> Place {
        let thread = &self.names[node.thread.0 as usize];
        if let Some(&step) = self.own.get(thread.as_str()) {
            return Place::Step(step);
        }
        let step = self.plan.step_of_class(self.session.string(node.what));
        match step.filter(|&step| self.plan.lane(step).name == *thread) {
            Some(step) => Place::Step(step),
            None => Place::Thread(thread.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causality::plan::{Act, Action, Awaiting, Lane, Stall, Step, Terminal, Way};
    use crate::causality::truth::derive;
    use hindsight_decoder::{Extension, Trace};
    use hindsight_testkit::Script;

    /// The user posts a step to the main thread, which gives one to a pool and waits for it.
    fn plan() -> Plan {
        let lane = |kind, name: &str| Lane {
            kind,
            name: name.to_owned(),
        };
        let step = |lane, way, actions: &[Action]| Step {
            lane,
            way,
            awaiting: None,
            has_timeout: false,
            actions: actions.to_vec(),
        };
        let mut plan = Plan {
            package: "p".to_owned(),
            lanes: vec![lane(LaneKind::Main, "main"), lane(LaneKind::Pool, "pool-a")],
            steps: vec![
                step(0, Way::Post, &[Action::Hand(1), Action::Await(1)]),
                step(1, Way::Execute, &[]),
            ],
            acts: vec![Act {
                hands: vec![0],
                steps: vec![0, 1],
            }],
            rounds: 1,
            stall: Stall {
                chain: vec![0, 1],
                terminal: Terminal::Busy,
                partner: None,
                ms: 500,
            },
            has_staying_threads: false,
        };
        plan.steps[1].awaiting = Some(Awaiting::Latch);
        plan
    }

    /// A recording of it. The step of the pool is woken by another thread if `stranger` is its name.
    fn recorded(waker: &str) -> Session {
        let mut s = Script::new("p");
        let classes = [
            s.method("p.Step0.run", "()V"),
            s.method("p.Step1.run", "()V"),
        ];
        let play = s.string("play");
        let user = s.events_thread(1, USER, 1);
        let main = s.events_thread(2, "main", 2);
        let pool = s.events_thread(3, "pool-a", 3);
        let third = s.events_thread(4, waker, 4);
        let wakes = [("thread", 2), ("wait", 1)];
        let wait = [("kind", 3), ("number", 1)];
        s.at(user, 10)
            .event(Extension::UserBegin, &[("name", play), ("id", 1)])
            .event(
                Extension::MessageEnqueued,
                &[("message", 7), ("for thread", 2)],
            )
            .at(900)
            .event(Extension::UserEnd, &[("name", play), ("id", 1)]);
        s.at(main, 20)
            .event(
                Extension::MessageDispatched,
                &[("message", 7), ("class", classes[0])],
            )
            .after(10)
            .event(
                Extension::TaskSubmitted,
                &[("task", 9), ("class", classes[1])],
            )
            .event(Extension::ItemPut, &[("item", 5)])
            .after(10)
            .event(Extension::WaitBegin, &wait)
            .at(200)
            .event(Extension::WaitEnd, &wait)
            .event(Extension::MessageDone, &[("message", 7)]);
        s.at(pool, 30).event(Extension::ItemTaken, &[("item", 5)]);
        let ends = match waker {
            "pool-a" => pool,
            _ => third,
        };
        s.at(pool, 50)
            .event(Extension::TaskBegin, &[("task", 9), ("class", classes[1])]);
        s.at(ends, 190).event(Extension::Wakes, &wakes);
        s.at(pool, 210).event(Extension::TaskEnd, &[("task", 9)]);
        s.stop_at(1_000);
        let trace = Trace::decode("t".as_ref(), &s.encode()).unwrap();
        Session::of(vec![("t".into(), trace)])
    }

    /// Right, wrong and missing edges.
    fn counts(plan: &Plan, waker: &str) -> (u64, usize, usize) {
        let session = recorded(waker);
        let graph = Graph::build(&session).unwrap();
        let verdict = judge(&session, &graph, plan, &derive(plan));
        let right = verdict.right.values().sum();
        (right, verdict.wrong.len(), verdict.missing.len())
    }

    #[test]
    fn what_the_plan_says_is_right() {
        assert_eq!(counts(&plan(), "pool-a"), (4, 0, 0));
    }

    #[test]
    fn what_the_plan_says_otherwise_is_wrong_or_missing() {
        // Another thread ends the wait. It is one of the plan's with this name.
        assert_eq!(counts(&plan(), "stranger"), (3, 0, 1));
        let mut third = plan();
        third.lanes.push(Lane {
            kind: LaneKind::Looper,
            name: "looper-a".to_owned(),
        });
        third.steps.push(Step {
            lane: 2,
            ..third.steps[0].clone()
        });
        third.steps[2].actions.clear();
        assert_eq!(counts(&third, "looper-a"), (3, 2, 1));
        let mut other = plan();
        other.steps[1].way = Way::Put;
        assert_eq!(counts(&other, "pool-a"), (2, 2, 1));
        let mut nobody = plan();
        nobody.steps[0].actions.pop();
        assert_eq!(counts(&nobody, "pool-a"), (3, 2, 0));
        let mut more = plan();
        more.rounds = 2;
        assert_eq!(counts(&more, "pool-a"), (4, 0, 4));
    }
}
