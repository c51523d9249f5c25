// SPDX-License-Identifier: Apache-2.0
//! What the graph of causes and effects says of stalls: the answer of `hindsight diagnose`, for the times that `why` asks about.

use hindsight_analysis::{Chain, EventStall, Reason, Stalls};
use hindsight_causality::diagnosis::{
    diagnose, diagnose_stretch, stretch_at, Chosen, Found, How, Role, StuckQuestion,
};
use hindsight_causality::story::{report, CulpritReport, Report};
use hindsight_causality::{Graph, Session, ThreadId};

/// The graph's answers about the stalls of a thread.
#[derive(Default)]
pub(super) struct Answers {
    /// Of each stall, in the order of [`Stalls::event_stalls`], or of [`Stalls::chains`]; `None` if the graph knows nothing of
    /// that time.
    pub(super) of_stalls: Vec<Option<Report>>,
    /// Without a stall of a thread that records events only: what else it did not go on in, if it is known who held it up.
    pub(super) instead: Option<Report>,
}

/// Who is named at the end of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one that the stall's own events or calls lead to: the graph does not know more, or names the same.
    Own,
    /// The one that the graph leads to, or nobody, because the graph says that it is not known.
    Graph,
    /// Nobody but the thread itself: what it also waited for is said, too.
    Itself,
}

impl Answers {
    /// Asks the graph about `found`, the stalls of `thread`; about other times, too, if there is none `anywhere`, rather than in a
    /// part of the time only.
    pub(super) fn ask(
        session: &Session,
        graph: &Graph,
        thread: ThreadId,
        found: &Stalls,
        anywhere: bool,
    ) -> Self {
        let of = |start_ns: u64, held_ns: u64| {
            let end_ns = start_ns.saturating_add(held_ns);
            let stretch = stretch_at(graph, thread, (start_ns, end_ns))?;
            let asked = Found {
                stretch,
                chosen: Chosen::Asked,
                is_long: true,
            };
            let diagnosis = diagnose_stretch(session, graph, asked);
            let verdict = &diagnosis.verdict;
            let is_known = verdict.culprit.is_some() || verdict.suspect.is_some();
            // Of a thread with calls it may have no more than an event now and then.
            let knows = is_known || found.events_only || !diagnosis.chain.hops.is_empty();
            knows.then(|| report(session, graph, Some(&diagnosis), found.stall_ns))
        };
        if found.stall != Some(true) {
            let instead = (anywhere && found.events_only)
                .then(|| of_thread(session, graph, thread, found.stall_ns));
            return Answers {
                instead: instead.flatten(),
                ..Answers::default()
            };
        }
        let told = found.event_stalls.iter().map(|s| (s.start_ns, s.held_ns));
        let chains = found.chains.iter().map(|c| (c.start_ns, c.held_ns));
        Answers {
            of_stalls: told.chain(chains).map(|(at, ns)| of(at, ns)).collect(),
            instead: None,
        }
    }

    /// The graph's answer about the stall with this index.
    pub(super) fn of_stall(&self, index: usize) -> Option<&Report> {
        self.of_stalls.get(index)?.as_ref()
    }

    /// Puts the culprits that the graph names into the places of those that are concluded without it.
    pub(super) fn put_into(&self, found: &mut Stalls) {
        for (i, stall) in found.event_stalls.iter_mut().enumerate() {
            if let Some(report) = self
                .of_stall(i)
                .filter(|r| of_events(stall, r) != Choice::Own)
            {
                (stall.culprit, stall.culprit_reason) = named(report, stall.culprit_reason);
            }
        }
        for (i, chain) in found.chains.iter_mut().enumerate() {
            if let Some(report) = self
                .of_stall(i)
                .filter(|r| of_calls(chain, r) != Choice::Own)
            {
                (chain.culprit, chain.culprit_reason) = named(report, chain.culprit_reason);
                chain.suspect = report
                    .suspect
                    .as_ref()
                    .and_then(pair)
                    .or(chain.suspect.take());
            }
        }
    }
}

/// What a thread did not go on in, outside of messages and tasks, if it is known who held it up.
fn of_thread(session: &Session, graph: &Graph, thread: ThreadId, least_ns: u64) -> Option<Report> {
    let question = StuckQuestion {
        thread: Some(thread),
        at_ns: None,
        least_ns,
    };
    let diagnosis = diagnose(session, graph, &question).filter(|d| d.found.is_long)?;
    let verdict = &diagnosis.verdict;
    let is_known = verdict.culprit.is_some() || verdict.suspect.is_some();
    is_known.then(|| report(session, graph, Some(&diagnosis), least_ns))
}

/// Who is named for a stall of a thread that records events only.
pub(super) fn of_events(stall: &EventStall, report: &Report) -> Choice {
    let itself = matches!(stall.culprit_reason, Reason::Busy | Reason::Slept);
    match (&report.culprit, &report.suspect, &stall.culprit) {
        // A deadlock is named as such.
        _ if !stall.circle.is_empty() => Choice::Own,
        (Some(culprit), _, Some(own)) if pair(culprit).as_ref() == Some(own) => Choice::Own,
        (Some(_), ..) | (_, Some(_), _) if itself => Choice::Itself,
        (Some(_), ..) | (_, Some(_), _) => Choice::Graph,
        // Pauses are no waits, and have no edges.
        (None, None, Some(_)) if stall.culprit_reason != Reason::Paused => Choice::Graph,
        (None, None, _) => Choice::Own,
    }
}

/// Who is named for a stall of a thread that records calls: they tell where the culprit was more exactly than stacks do.
pub(super) fn of_calls(chain: &Chain, report: &Report) -> Choice {
    let is_same = |culprit: &CulpritReport, own: &(String, String)| match &culprit.threads[..] {
        [one] => one.thread.thread == own.1,
        _ => false,
    };
    match (&report.culprit, &report.suspect, &chain.culprit) {
        (Some(culprit), _, Some(own)) if is_same(culprit, own) => Choice::Own,
        (Some(_), ..) if chain.culprit_reason == Reason::Slept => Choice::Itself,
        (Some(_), ..) | (None, Some(_), None) => Choice::Graph,
        (None, _, _) => Choice::Own,
    }
}

/// What a culprit did, and the name of its thread; `None` if it is several threads.
fn pair(culprit: &CulpritReport) -> Option<(String, String)> {
    match &culprit.threads[..] {
        [one] => Some((one.what()?, one.thread.thread.clone())),
        _ => None,
    }
}

/// The culprit that the graph names, and why; `before` is the reason without the graph.
fn named(report: &Report, before: Reason) -> (Option<(String, String)>, Reason) {
    let Some(culprit) = &report.culprit else {
        let reason = match before {
            Reason::LockOwner | Reason::Waker => Reason::NotRecorded,
            before => before,
        };
        return (None, reason);
    };
    let reason = match culprit.role {
        Role::Waited {
            how: How::HeldLock | How::GotLock,
            ..
        } => Reason::LockOwner,
        Role::Waited {
            how: How::EndedWait | How::Served,
            ..
        } => Reason::Waker,
        Role::ItselfComputed => Reason::Busy,
        Role::ItselfSlept => Reason::Slept,
        Role::Circle { .. } => Reason::Circle,
        Role::ItselfOutside | Role::Waited { .. } | Role::Delayed { .. } => Reason::Diagnosed,
    };
    (pair(culprit), reason)
}
