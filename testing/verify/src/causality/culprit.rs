// SPDX-License-Identifier: Apache-2.0
//! Compares the culprit that the diagnosis names with the one of the plan.

use hindsight_causality::diagnosis::{
    diagnose, place_of_wait, Activity, Culprit, Diagnosis, End, Role, StuckQuestion, Unknown,
};
use hindsight_causality::story::{self, UnknownReport};
use hindsight_causality::{Graph, Session, WaitResult};

use super::java;
use super::judge::Places;
use super::plan::{Plan, StepId, Terminal};
use super::truth::{place, thread, Place};

/// What the diagnosis says of a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is the one of the plan.
    Right,
    /// None is named, for this reason.
    Unknown(String),
    /// It is another one, or the stall is not found.
    Wrong(String),
}

/// Asks for the culprit of the stall, and compares.
pub(super) fn ask(session: &Session, graph: &Graph, plan: &Plan) -> Answer {
    let mut question = StuckQuestion::default();
    if java::served(plan).is_some() {
        // The main thread of the other process waits all the time.
        question.thread = session.main_thread(0);
    }
    match diagnose(session, graph, &question) {
        Some(diagnosis) => judge(session, graph, plan, &diagnosis),
        None => Answer::Wrong("no stall was found".to_owned()),
    }
}

fn judge(session: &Session, graph: &Graph, plan: &Plan, diagnosis: &Diagnosis) -> Answer {
    let places = Places::new(session, plan);
    let stuck = places.of(&graph.node(diagnosis.found.stretch.first));
    if stuck != Place::Step(plan.stall.chain[0]) {
        return Answer::Wrong(format!("{stuck} is said to be stuck"));
    }
    let verdict = &diagnosis.verdict;
    let last = plan.stall.chain[plan.stall.chain.len() - 1];
    let Some(culprit) = verdict.culprit.as_ref().or(verdict.suspect.as_ref()) else {
        return match says_timeout(session, graph, plan, diagnosis) {
            true => Answer::Right,
            false => unknown(session, graph, diagnosis),
        };
    };
    let partner = plan.stall.partner;
    let accused = culprit.threads.iter().map(|party| {
        let name = places.name(party.thread).to_owned();
        let work = party.work.map(|node| places.of(&graph.node(node)));
        (name, work)
    });
    for (name, work) in accused {
        let is = |step: StepId| {
            name == thread(plan, step)
                && work
                    .as_ref()
                    .is_none_or(|w| *w == place(plan, step) || matches!(w, Place::Thread(_)))
        };
        let is_right = match plan.stall.terminal {
            Terminal::Late => partner.is_some_and(is),
            Terminal::Yield | Terminal::Circle => is(last) || partner.is_some_and(is),
            _ => is(last),
        };
        if !is_right {
            let work = work.map_or(String::new(), |w| format!(", {w}"));
            return Answer::Wrong(format!("{name}{work}, {:?}", culprit.role));
        }
    }
    match fits(culprit, plan.stall.terminal) {
        true => Answer::Right,
        false => Answer::Wrong(format!("the right one, but {:?}", culprit.role)),
    }
}

/// None is named: why not, and what to record to know it, in the words of the report.
pub(super) fn unknown(session: &Session, graph: &Graph, diagnosis: &Diagnosis) -> Answer {
    let report = story::report(session, graph, Some(diagnosis), 0);
    let unknown = report.unknown.unwrap_or_else(|| UnknownReport {
        unknown: None,
        why: "the report does not say why".to_owned(),
        remedy: Vec::new(),
    });
    let remedy = unknown.remedy.first();
    let remedy = remedy.map_or("nothing is said to record", String::as_str);
    Answer::Unknown(format!("{}: {remedy}", unknown.why))
}

/// Whether the diagnosis says of a stall that ends in a timeout what is true of it: the last step's thread waited there, in that
/// step's code, nobody ended the wait, and its time was over.
///
/// The plan has nobody who would have ended it ([`Terminal::Timeout`]), so that a culprit would be wrong, and more cannot be said.
/// The same words are no right answer for any other terminal: there somebody should have ended the wait ([`Terminal::Late`]).
fn says_timeout(session: &Session, graph: &Graph, plan: &Plan, diagnosis: &Diagnosis) -> bool {
    let End::Unknown {
        thread: waiter,
        wait: Some(wait),
        why: Unknown::NobodyEndedIt,
        ..
    } = &diagnosis.chain.end
    else {
        return false;
    };
    let last = plan.stall.chain[plan.stall.chain.len() - 1];
    let calls = place_of_wait(session, graph, wait).map_or(Vec::new(), |place| place.calls);
    let mut classes = calls.iter().filter_map(|call| call.rsplit_once('.'));
    plan.stall.terminal == Terminal::Timeout
        && wait.result == WaitResult::TimedOut
        && Places::new(session, plan).name(*waiter) == thread(plan, last)
        && classes.any(|(class, _)| plan.step_of_class(class) == Some(last))
}

/// Whether what the culprit is said to have done is what the stall ends in.
fn fits(culprit: &Culprit, terminal: Terminal) -> bool {
    let activity = match culprit.role {
        Role::ItselfComputed => Activity::Computed,
        Role::ItselfSlept => Activity::Slept,
        Role::ItselfOutside => Activity::Outside,
        Role::Waited { activity, .. } => activity,
        Role::Circle { .. } => return terminal == Terminal::Circle,
        Role::Delayed { .. } => return terminal == Terminal::Timer,
    };
    match terminal {
        Terminal::Busy | Terminal::Late => matches!(activity, Activity::Computed | Activity::Ran),
        Terminal::Sleep | Terminal::Timeout => activity == Activity::Slept,
        // The thread that sets the field sleeps before; the one that tests it computes, or yields.
        Terminal::Yield => true,
        Terminal::Circle => activity == Activity::Slept,
        Terminal::Timer => false,
    }
}
