// SPDX-License-Identifier: Apache-2.0
//! What follows from a plan: the edges that its graph must have, and the threads that may wake each other.

use std::collections::{BTreeMap, BTreeSet};

use hindsight_causality::{EdgeClass, Reason};

use super::java::SERVER;
use super::plan::{Action, Awaiting, LaneKind, Plan, StepId, Terminal, Way, USER};

/// Where an end of an edge is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In a step that the recording names.
    Step(StepId),
    /// On a thread, in its own code: the thread's name, with the process's if it is not the program's own.
    Thread(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Step(step) => write!(f, "Step{step}"),
            Place::Thread(name) => write!(f, "thread {name}"),
        }
    }
}

/// An edge, without its time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) reason: Reason,
    pub(super) from: Place,
    pub(super) to: Place,
}

impl Link {
    /// How certain it is.
    pub(super) fn class(&self) -> EdgeClass {
        match self.reason {
            Reason::Lock | Reason::AwaitedBy => EdgeClass::Weak,
            _ => EdgeClass::Strong,
        }
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} from {} to {}",
            self.reason.name(),
            self.from,
            self.to
        )
    }
}

/// What must be in a graph, and what may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Truth {
    /// Edges that are certain, and how many there are.
    pub(super) links: BTreeMap<Link, u64>,
    /// Edges that may be there: on a thread that does not say what it does, both ends may be in one node.
    possible: BTreeSet<Link>,
    /// Places that meet: the one may wake the other, or wait for a lock of it, inside the queues that they use.
    meetings: BTreeSet<(Place, Place)>,
    /// Where threads begin and end: there they have the lock of their `ThreadGroup`.
    births: BTreeSet<Place>,
    /// The names of all threads of the plan.
    threads: BTreeSet<String>,
}

/// The name of the thread of a step, with the process's if it is not the program's own.
pub(super) fn thread(plan: &Plan, step: StepId) -> String {
    let name = &plan.lane(step).name;
    match plan.is_served(step) {
        true => format!("{SERVER}/{name}"),
        false => name.clone(),
    }
}

/// The place of a step.
pub(super) fn place(plan: &Plan, step: StepId) -> Place {
    match plan.lane(step).kind {
        LaneKind::Consumer | LaneKind::Service => Place::Thread(thread(plan, step)),
        _ => Place::Step(step),
    }
}

/// Where the thread of a step is while it waits for steps.
fn lane_place(plan: &Plan, step: StepId) -> Place {
    match plan.lane(step).kind {
        LaneKind::Own => Place::Step(step),
        _ => Place::Thread(thread(plan, step)),
    }
}

/// Derives what follows from a plan.
pub(super) fn derive(plan: &Plan) -> Truth {
    let mut truth = Truth::default();
    truth.threads.insert(USER.to_owned());
    truth
        .threads
        .extend((0..plan.steps.len()).map(|step| thread(plan, step)));
    for act in &plan.acts {
        for &step in &act.hands {
            truth.hand(plan, None, step);
        }
    }
    for step in 0..plan.steps.len() {
        for action in &plan.steps[step].actions {
            match *action {
                Action::Hand(child) => truth.hand(plan, Some(step), child),
                Action::Await(child) => truth.awaits(plan, step, child),
                Action::Terminal(Terminal::Circle) => truth.started(plan, step, Reason::Lock),
                Action::Terminal(Terminal::Late) => truth.started(plan, step, Reason::Wake),
                _ => {}
            }
        }
    }
    truth
}

impl Truth {
    /// Whether a thread is of the plan.
    pub(super) fn knows(&self, thread: &str) -> bool {
        self.threads.contains(thread)
    }

    /// Whether an edge may be there without being certain.
    pub(super) fn may_be(&self, link: &Link) -> bool {
        let inside = matches!(link.reason, Reason::Wake | Reason::AwaitedBy | Reason::Lock);
        let are_births = self.births.contains(&link.from) && self.births.contains(&link.to);
        inside && self.meetings.contains(&ordered(&link.from, &link.to))
            || link.reason == Reason::Lock && are_births
            || self.possible.contains(link)
    }

    fn link(&mut self, rounds: u64, reason: Reason, from: &Place, to: &Place) {
        let link = Link {
            reason,
            from: from.clone(),
            to: to.clone(),
        };
        if from == to {
            self.possible.insert(link);
            return;
        }
        *self.links.entry(link).or_default() += rounds;
    }

    fn meet(&mut self, one: &Place, other: &Place) {
        self.meetings.insert(ordered(one, other));
    }

    /// A step, or the user, hands a step over.
    fn hand(&mut self, plan: &Plan, by: Option<StepId>, step: StepId) {
        let from = match by {
            Some(by) => place(plan, by),
            None => Place::Thread(USER.to_owned()),
        };
        let (to, of_thread) = (place(plan, step), lane_place(plan, step));
        self.meet(&from, &of_thread);
        let way = plan.steps[step].way;
        let reason = match way {
            Way::Post | Way::Send => Reason::Message,
            Way::PostDelayed | Way::Schedule | Way::Arm => Reason::Timer,
            Way::Execute | Way::Submit | Way::Call | Way::RunAsync => Reason::Task,
            Way::Put => Reason::Item,
            Way::Mark => Reason::Post,
            Way::Transact => Reason::Transaction,
            Way::Start => Reason::ThreadStart,
        };
        if way == Way::Start {
            self.births.extend([from.clone(), to.clone()]);
        }
        self.link(plan.rounds, reason, &from, &to);
        // The queue of an executor, or of the program, is one of java.util.concurrent.
        if matches!(
            way,
            Way::Execute | Way::Submit | Way::Call | Way::RunAsync | Way::Mark
        ) {
            self.link(plan.rounds, Reason::Item, &from, &of_thread);
        }
    }

    /// A step waits for another one.
    fn awaits(&mut self, plan: &Plan, step: StepId, child: StepId) {
        let (from, to) = (place(plan, child), place(plan, step));
        self.meet(&from, &to);
        let reason = match plan.steps[child].awaiting {
            None => return,
            Some(Awaiting::Monitor) => Reason::Lock,
            Some(Awaiting::Transaction) => Reason::Reply,
            Some(Awaiting::Reply) => {
                self.link(plan.rounds, Reason::Item, &from, &to);
                Reason::Wake
            }
            Some(_) => Reason::Wake,
        };
        self.link(plan.rounds, reason, &from, &to);
    }

    /// A step starts a thread, which waits for a lock that the step has until the step's own wait has timed out; or for which
    /// the step waits, but in the last round not long enough.
    fn started(&mut self, plan: &Plan, step: StepId, reason: Reason) {
        let Some(other) = plan.stall.partner else {
            return;
        };
        let (own, of_other) = (place(plan, step), place(plan, other));
        self.meet(&own, &of_other);
        self.births.extend([own.clone(), of_other.clone()]);
        self.link(plan.rounds, Reason::ThreadStart, &own, &of_other);
        match reason {
            Reason::Lock => self.link(plan.rounds, reason, &own, &of_other),
            _ => self.link(plan.rounds - 1, reason, &of_other, &own),
        }
    }
}

fn ordered(a: &Place, b: &Place) -> (Place, Place) {
    match a <= b {
        true => (a.clone(), b.clone()),
        false => (b.clone(), a.clone()),
    }
}
