// SPDX-License-Identifier: Apache-2.0
//! Whether the transactions found from events alone are those that the calls of the same run show (AppInsight, OSDI 2012,
//! in its evaluation: it logged every method call besides, and looked for transactions that the light recording had missed).
//!
//! The n-th call of a step belongs to the transaction that the n-th call of the plan's first cause of the step is in: what the
//! main thread does for the user's input is one, everything else is what the thread `user` does.

use std::path::PathBuf;

use anyhow::Result;
use hindsight_causality::transactions::{RootKind, TransactionId, Transactions, Via};
use hindsight_causality::{EventId, Graph, Session, ThreadId};
use hindsight_decoder::{Calls, OpenOptions, Trace};

use super::plan::{Action, Plan, StepId, USER};
use super::truth::thread;

/// A call of the method that does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    begin_ns: u64,
    end_ns: u64,
    /// Index of the trace, and of the thread in it.
    place: (usize, usize),
}

/// What the comparison has found.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// Transactions that were found from events alone.
    pub(super) transactions: u64,
    /// Calls that were looked for in them.
    pub(super) calls: u64,
    /// What is otherwise by calls.
    pub(super) wrong: Vec<String>,
}

/// Compares the transactions of files with all calls with those of the same files without them, and with the calls.
pub(super) fn judge(files: &[PathBuf], plan: &Plan) -> Result<Coverage> {
    let mut traces = Vec::new();
    for file in files {
        traces.push((file.clone(), OpenOptions::default().open(file)?));
    }
    of_traces(traces, plan)
}

fn of_traces(mut traces: Vec<(PathBuf, Trace)>, plan: &Plan) -> Result<Coverage> {
    let calls = calls(traces.iter().map(|(_, trace)| trace), plan);
    let with_calls = Found::new(Session::of(traces.clone()))?;
    for (_, trace) in &mut traces {
        for thread in &mut trace.threads {
            thread.calls = Calls::default();
        }
    }
    let found = Found::new(Session::of(traces))?;
    let mut coverage = found.compare(&calls, plan);
    if found.outline() != with_calls.outline() {
        let text = "the transactions found from events alone are others than those with calls";
        coverage.wrong.push(text.to_owned());
    }
    Ok(coverage)
}

/// By step, the calls of it in the order of time.
fn calls<'t>(traces: impl Iterator<Item = &'t Trace>, plan: &Plan) -> Vec<Vec<Call>> {
    let mut found = vec![Vec::new(); plan.steps.len()];
    for (process, trace) in traces.enumerate() {
        let steps: Vec<Option<StepId>> = trace
            .methods
            .iter()
            .map(|(_, method)| {
                // These methods are never inlined: they catch exceptions.
                let is_entry = matches!(method.name.as_str(), "step" | "serve");
                plan.step_of_class(&method.class).filter(|_| is_entry)
            })
            .collect();
        for (index, thread) in trace.threads.iter().enumerate() {
            for call in thread.calls.iter() {
                if let Some(step) = steps.get(call.method.0 as usize).copied().flatten() {
                    found[step].push(Call {
                        begin_ns: call.start_ns,
                        end_ns: call.end_ns,
                        place: (process, index),
                    });
                }
            }
        }
    }
    for calls in &mut found {
        calls.sort_unstable();
    }
    found
}

/// The step that nothing but the user causes, from which a step follows.
fn first_cause(plan: &Plan, step: StepId) -> StepId {
    let last = plan.stall.chain.last().copied();
    let is_handed = plan.acts.iter().any(|act| act.hands.contains(&step));
    let starts = |by: StepId, step: StepId| {
        // The last step of the chain starts its partner's thread itself, unless the user does.
        let is_of_terminal = plan.stall.partner == Some(step) && Some(by) == last && !is_handed;
        plan.steps[by].actions.contains(&Action::Hand(step)) || is_of_terminal
    };
    let by = (0..plan.steps.len()).find(|&by| by != step && starts(by, step));
    by.map_or(step, |by| first_cause(plan, by))
}

/// The transactions of a session.
struct Found {
    session: Session,
    graph: Graph,
    transactions: Transactions,
}

impl Found {
    fn new(session: Session) -> Result<Found> {
        let graph = Graph::build(&session)?;
        let transactions = Transactions::find(&session, &graph);
        Ok(Found {
            session,
            graph,
            transactions,
        })
    }

    /// All transactions and their members, in words.
    fn outline(&self) -> Vec<String> {
        let all = self.transactions.iter().map(|(id, transaction)| {
            let members = self.transactions.members_of(id).map(|(_, member)| member);
            let members: Vec<_> = members
                .map(|m| (m.node, m.first_event, m.end_event, m.via, m.is_shared))
                .collect();
            format!("{transaction:?}, {members:?}")
        });
        all.collect()
    }

    fn compare(&self, calls: &[Vec<Call>], plan: &Plan) -> Coverage {
        let mut coverage = Coverage {
            transactions: self.transactions.len() as u64,
            ..Coverage::default()
        };
        let root = plan.stall.chain[0];
        let marked = calls[root].iter().map(|call| self.marked_in(call));
        let marked: Vec<Vec<TransactionId>> = marked.collect();
        for (step, calls) in calls.iter().enumerate() {
            coverage.calls += calls.len() as u64;
            if calls.len() as u64 != plan.rounds {
                let text = format!("{} of {} calls of Step{step}", calls.len(), plan.rounds);
                coverage.wrong.push(format!("{text} are recorded"));
                continue;
            }
            for (round, call) in calls.iter().enumerate() {
                let found = match (step == root, first_cause(plan, step) == root) {
                    (true, _) => self.wrong_root(&marked[round]),
                    (false, true) => self.otherwise(call, marked.get(round).map(|m| &m[..])),
                    (false, false) => self.otherwise(call, None),
                };
                let on = thread(plan, step);
                let text = |what| format!("call {} of Step{step} on {on}: {what}", round + 1);
                coverage.wrong.extend(found.map(text));
            }
        }
        coverage
    }

    /// The transactions of the user's input that begin in a call.
    fn marked_in(&self, call: &Call) -> Vec<TransactionId> {
        let thread = self.thread(call);
        let begins = |id: TransactionId| {
            let mut members = self.transactions.members_of(id).map(|(_, member)| member);
            members.any(|member| match member.via {
                Via::Root(root) => {
                    let at_ns = self.session.event(root.event).map_or(0, |e| e.at_ns);
                    let is_inside = call.begin_ns <= at_ns && at_ns <= call.end_ns;
                    thread == Some(root.event.thread) && is_inside
                }
                _ => false,
            })
        };
        let marked = self.transactions.iter();
        let marked = marked.filter(|(_, t)| t.kind == RootKind::Mark);
        marked.map(|(id, _)| id).filter(|&id| begins(id)).collect()
    }

    fn wrong_root(&self, marked: &[TransactionId]) -> Option<String> {
        (marked.len() != 1).then(|| format!("{} transactions begin in it", marked.len()))
    }

    /// What is wrong with the transaction that a call is in: it must be this one of the user's input, or what the thread `user`
    /// does.
    fn otherwise(&self, call: &Call, marked: Option<&[TransactionId]>) -> Option<String> {
        let Some(id) = self.transaction_of(call) else {
            return Some("it is in no transaction".to_owned());
        };
        let about = self.transactions.get(id)?;
        let of_user = self.session.thread_name(about.thread) == USER;
        let is_right = match marked {
            Some(marked) => marked == [id],
            None => of_user && about.kind == RootKind::Other,
        };
        let kind = about.kind.name();
        (!is_right).then(|| format!("it is in transaction {}, {kind}", id.0))
    }

    fn thread(&self, call: &Call) -> Option<ThreadId> {
        self.session.threads_of(call.place.0).nth(call.place.1)
    }

    /// The transaction that caused a call.
    fn transaction_of(&self, call: &Call) -> Option<TransactionId> {
        let thread = self.thread(call)?;
        let events = &self.session.thread(thread).events;
        let begun = events.partition_point(|e| e.at_ns <= call.begin_ns);
        let event = u32::try_from(begun.checked_sub(1)?).ok()?;
        let node = self.graph.node_of(EventId { thread, event });
        let node = node.or_else(|| self.graph.node_at(thread, call.begin_ns))?;
        let member = self.transactions.at(node, event)?;
        Some(self.transactions.member(member).transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causality::plan::{Act, Lane, LaneKind, Stall, Step, Terminal, Way};
    use hindsight_decoder::Extension;
    use hindsight_testkit::Script;

    /// The user posts a step to the main thread, which submits one; and submits another one.
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
        Plan {
            package: "p".to_owned(),
            lanes: vec![lane(LaneKind::Main, "main"), lane(LaneKind::Pool, "pool-a")],
            steps: vec![
                step(0, Way::Post, &[Action::Hand(1)]),
                step(1, Way::Execute, &[]),
                step(1, Way::Execute, &[]),
            ],
            acts: vec![Act {
                hands: vec![0, 2],
                steps: vec![0, 1, 2],
            }],
            rounds: 1,
            stall: Stall {
                chain: vec![0],
                terminal: Terminal::Busy,
                partner: None,
                ms: 500,
            },
            has_staying_threads: false,
        }
    }

    /// A recording of it. The first task of the pool is the one that the main thread submits, with this number.
    fn recorded(mark: &str, first_task: u64) -> Trace {
        let mut s = Script::new("p");
        let classes = [0, 1, 2].map(|n| s.method(&format!("p.Step{n}.run"), "()V"));
        let steps = [0, 1, 2].map(|n| s.method(&format!("p.Step{n}.step"), "()V"));
        let (play, input) = (s.string("play"), s.string(mark));
        let user = s.events_thread(1, USER, 1);
        let (main, pool) = (s.thread(2, "main"), s.thread(3, "pool-a"));
        let submitted = |n: usize| [("task", n as u64), ("class", classes[n])];
        s.at(user, 10)
            .event(Extension::UserBegin, &[("name", play), ("id", 1)])
            .event(
                Extension::MessageEnqueued,
                &[("message", 7), ("for thread", 2)],
            )
            .event(Extension::TaskSubmitted, &submitted(2))
            .at(900)
            .event(Extension::UserEnd, &[("name", play), ("id", 1)]);
        let message = [("message", 7), ("class", classes[0])];
        s.at(main, 20)
            .event(Extension::MessageDispatched, &message)
            .after(10)
            .enter(steps[0])
            .after(10)
            .event(Extension::UserMark, &[("name", input)])
            .after(10)
            .event(Extension::TaskSubmitted, &submitted(1))
            .after(10)
            .exit()
            .event(Extension::MessageDone, &[("message", 7)]);
        let mut at = 100;
        for n in [1, 2] {
            let task = if n == 1 { first_task } else { 2 };
            let begun = [("task", task), ("class", classes[n])];
            s.at(pool, at)
                .event(Extension::TaskBegin, &begun)
                .after(10)
                .call(steps[n], 10)
                .after(10)
                .event(Extension::TaskEnd, &[("task", task)]);
            at += 100;
        }
        s.stop_at(1_000);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    fn coverage(plan: &Plan, trace: Trace) -> (u64, Vec<String>) {
        let coverage = of_traces(vec![("t".into(), trace)], plan).unwrap();
        (coverage.calls, coverage.wrong)
    }

    #[test]
    fn the_transactions_are_those_that_the_calls_show() {
        assert_eq!(coverage(&plan(), recorded("input", 1)), (3, Vec::new()));
    }

    #[test]
    fn transactions_that_the_calls_do_not_show_are_noticed() {
        // The mark that begins a transaction is missing, so that its effects are in another one.
        let (_, wrong) = coverage(&plan(), recorded("other", 1));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(
            wrong[0].ends_with("0 transactions begin in it"),
            "{wrong:?}"
        );
        // That the main thread submitted the task is not recorded.
        let (_, wrong) = coverage(&plan(), recorded("input", 9));
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        // A call is not recorded.
        let mut more = plan();
        more.rounds = 2;
        assert_eq!(coverage(&more, recorded("input", 1)).1.len(), 3);
        // The plan has another cause.
        let mut other = plan();
        other.steps[0].actions.clear();
        other.acts[0].hands.push(1);
        assert_eq!(coverage(&other, recorded("input", 1)).1.len(), 1);
    }
}
