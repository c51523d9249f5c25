// SPDX-License-Identifier: Apache-2.0
//! Compares the critical path of the stall with the one of the plan.

use hindsight_causality::transactions::{
    CriticalPath, Paths, Step, StepKind, TransactionId, Transactions,
};
use hindsight_causality::{Graph, Session, WaitKind};

use super::judge::Places;
use super::plan::{Action, Plan};
use super::truth::{thread, Place};

/// So much of a stall's path must be where the plan says. On a busy machine, threads do not run at once.
const MOST: f64 = 0.8;

/// Checks the critical paths of all transactions. Returns what is wrong.
pub(super) fn judge(session: &Session, graph: &Graph, plan: &Plan) -> Vec<String> {
    let found = Transactions::find(session, graph);
    let paths = Paths::new(session, graph, &found);
    let mut wrong = Vec::new();
    for (id, _) in found.iter() {
        match paths.path(id) {
            Some(path) => wrong.extend(sums(&path)),
            None => wrong.push(format!("transaction {}: it has no critical path", id.0)),
        }
    }
    match stalled(session, graph, plan, &found).and_then(|id| paths.path_to(id, 0)) {
        Some(path) => wrong.extend(of_stall(&path, &Places::new(session, plan), plan)),
        None => wrong.push("the stall has no critical path".to_owned()),
    }
    wrong
}

/// What is otherwise in the path from the stall's input to its update: most of it must be spent in the last steps of the chain,
/// or in a wait for them.
///
/// The transaction has the steps that follow from its input. One that the user had handed over before belongs to another
/// transaction: the path may end in the wait for it, or for a step that waits for it. It also ends in a wait for a monitor.
fn of_stall(path: &CriticalPath, places: &Places, plan: &Plan) -> Option<String> {
    let chain = &plan.stall.chain;
    let is_handed = |pair: &[usize]| plan.steps[pair[0]].actions.contains(&Action::Hand(pair[1]));
    let other = chain.windows(2).position(|pair| !is_handed(pair));
    let from = other.unwrap_or(chain.len() - 1);
    let of = |index: usize| chain.get(index).map(|&step| thread(plan, step));
    let mut last: Vec<String> = (from..chain.len()).filter_map(of).collect();
    last.extend(plan.stall.partner.map(|step| thread(plan, step)));
    let waits_for_next = |index: usize, step: &Step| {
        let StepKind::Wait(wait) = step.kind else {
            return false;
        };
        let by = step.by.map(|by| places.name(by.thread));
        let is_next = of(index).as_deref() == Some(places.name(step.thread))
            && of(index + 1).as_deref() == by;
        is_next && (wait.kind == WaitKind::Lock || index + 1 >= from)
    };
    let is_right = |step: &&Step| {
        last.iter().any(|name| name == places.name(step.thread))
            || (0..chain.len()).any(|index| waits_for_next(index, step))
    };
    let right = path.steps.iter().filter(is_right);
    let ns: u64 = right.map(|step| step.end_ns - step.begin_ns).sum();
    let is_long = path.duration_ns() >= plan.stall.ms * 1_000_000 * 9 / 10;
    let is_most = ns as f64 >= MOST * path.duration_ns() as f64;
    (!is_long || !is_most).then(|| {
        let longest = path.steps.iter().max_by_key(|s| s.end_ns - s.begin_ns);
        format!(
            "the critical path of the stall: {} of {} ms are on {last:?}, stall of {} ms; most are on {}",
            ns / 1_000_000,
            path.duration_ns() / 1_000_000,
            plan.stall.ms,
            longest.map_or("no thread", |step| places.name(step.thread)),
        )
    })
}

/// What does not add up in a path.
fn sums(path: &CriticalPath) -> Option<String> {
    let mut at_ns = path.begin_ns;
    for step in &path.steps {
        if step.begin_ns != at_ns || step.shares.total() != step.end_ns - step.begin_ns {
            return Some(format!(
                "critical path of transaction {}: a step does not add up: {step:?}",
                path.transaction.0
            ));
        }
        at_ns = step.end_ns;
    }
    let is_whole = at_ns == path.end_ns && path.shares().total() == path.duration_ns();
    let id = path.transaction.0;
    (!is_whole).then(|| format!("critical path of transaction {id}: it does not add up"))
}

/// The transaction of the stall.
fn stalled(
    session: &Session,
    graph: &Graph,
    plan: &Plan,
    found: &Transactions,
) -> Option<TransactionId> {
    let places = Places::new(session, plan);
    let root = Place::Step(plan.stall.chain[0]);
    let main = session.main_thread(0)?;
    let node = graph
        .nodes_of(main)
        .filter(|&node| places.of(&graph.node(node)) == root)
        .max_by_key(|&node| graph.node(node).duration_ns())?;
    let is_of_stall = |id: TransactionId| {
        let root = found.members_of(id).next().map(|(_, member)| member.node);
        root == Some(node)
    };
    found.iter().map(|(id, _)| id).find(|&id| is_of_stall(id))
}
