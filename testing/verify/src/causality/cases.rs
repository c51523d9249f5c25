// SPDX-License-Identifier: Apache-2.0
//! The programs of `lab/causality/cases`: the diagnosis must give the answers that are written beside them.

use std::path::Path;

use anyhow::Result;
use hindsight_causality::diagnosis::{diagnose, Culprit, Diagnosis, Role, StuckQuestion};
use hindsight_causality::{Graph, Session, ThreadId};
use hindsight_lab::cases::{Case, CaseOptions, Cases, Recording};
use hindsight_lab::Framework;
use hindsight_verify::expected::{Answer as Expected, Expected as Description, Kind, Party};

use super::culprit::{unknown, Answer};

/// The compiled cases.
pub(super) struct Compiled(Cases);

impl Compiled {
    /// Compiles the cases, unless that is up to date.
    pub(super) fn new(framework: &Framework, checkout: &Path) -> Result<Compiled> {
        Ok(Compiled(Cases::compile(framework, checkout)?))
    }

    /// The cases, by name.
    pub(super) fn all(&self) -> &[Case] {
        self.0.all()
    }

    /// Runs a case, and asks why the victim does not move.
    pub(super) fn ask(&self, case: &Case, options: &CaseOptions, out: &Path) -> Result<Answer> {
        let expected = Description::of(case)?;
        let recordings = self.0.run(case, options, out)?;
        let files: Vec<&Path> = recordings.iter().map(|r| r.file.as_path()).collect();
        let session = Session::open(&files)?;
        let graph = Graph::build(&session)?;
        let asked = Asked {
            session: &session,
            recordings: &recordings,
            expected: &expected.answer,
        };
        Ok(asked.answer(&graph))
    }
}

/// A case that has been run.
struct Asked<'a> {
    session: &'a Session,
    /// By trace.
    recordings: &'a [Recording],
    expected: &'a Expected,
}

impl Asked<'_> {
    fn answer(&self, graph: &Graph) -> Answer {
        let mut threads = self.session.thread_ids();
        let Some(victim) = threads.find(|&t| self.is(t, &self.expected.victim)) else {
            return Answer::Wrong("the victim is not recorded".to_owned());
        };
        let question = StuckQuestion {
            thread: Some(victim),
            ..StuckQuestion::default()
        };
        match diagnose(self.session, graph, &question) {
            Some(diagnosis) => self.judge(graph, &diagnosis),
            None => Answer::Wrong("no stall was found".to_owned()),
        }
    }

    /// Whether a thread is the one that the description means.
    fn is(&self, thread: ThreadId, party: &Party) -> bool {
        let recording = self.recordings.get(self.session.about(thread).trace());
        recording.is_some_and(|r| r.process == party.process)
            && self.session.thread_name(thread) == party.thread
    }

    fn judge(&self, graph: &Graph, diagnosis: &Diagnosis) -> Answer {
        let node = graph.node(diagnosis.found.stretch.first);
        let stuck = self.session.string(node.what);
        let victim = &self.expected.victim;
        if (victim.class.as_deref()).is_some_and(|class| class != stuck) {
            return Answer::Wrong(format!("{stuck} is said to be stuck"));
        }
        let verdict = &diagnosis.verdict;
        match verdict.culprit.as_ref().or(verdict.suspect.as_ref()) {
            Some(culprit) => match self.otherwise(graph, culprit) {
                Some(wrong) => Answer::Wrong(wrong),
                None => Answer::Right,
            },
            None => unknown(self.session, graph, diagnosis),
        }
    }

    /// What is said of the culprit, and is not so.
    fn otherwise(&self, graph: &Graph, culprit: &Culprit) -> Option<String> {
        let expected = self.expected;
        let is_circle = matches!(culprit.role, Role::Circle { .. });
        let may_be: &[Party] = match expected.kind {
            Kind::Circular => &expected.chain,
            _ => &expected.chain[expected.chain.len().saturating_sub(1)..],
        };
        for party in &culprit.threads {
            let name = self.session.thread_name(party.thread);
            let Some(meant) = may_be.iter().find(|p| self.is(party.thread, p)) else {
                // A circle leads over threads that only pass messages on.
                if is_circle && expected.kind == Kind::Circular {
                    continue;
                }
                return Some(format!("{name}, {:?}", culprit.role));
            };
            let is_last = expected.chain.last() == Some(meant);
            let method = party.method.as_ref().filter(|_| is_last);
            if let Some(method) = method.filter(|m| !expected.methods.contains(m)) {
                return Some(format!("{name}, in {method}, {:?}", culprit.role));
            }
            let class = party.work.map(|n| self.session.string(graph.node(n).what));
            let other = class.filter(|class| meant.class.as_deref().is_some_and(|m| m != *class));
            if let Some(class) = other {
                return Some(format!("{name}, {class}, {:?}", culprit.role));
            }
        }
        (is_circle != (expected.kind == Kind::Circular)).then(|| format!("{:?}", culprit.role))
    }
}
