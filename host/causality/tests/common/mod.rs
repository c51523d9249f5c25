// SPDX-License-Identifier: Apache-2.0
//! Scripts of several processes as a graph.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod stuck;

use hindsight_causality::diagnosis::{diagnose, StuckQuestion};
use hindsight_causality::story::{report, text, Report};
use hindsight_causality::{Graph, Session, ThreadId};
use hindsight_decoder::Trace;
use hindsight_testkit::Script;

pub(crate) const MS: u64 = 1_000_000;

pub(crate) struct Logs {
    pub(crate) session: Session,
    pub(crate) graph: Graph,
}

impl Logs {
    pub(crate) fn of(scripts: &[&Script]) -> Self {
        let trace = |script: &&Script| {
            let name = format!("{}.hindsight", script.process.name);
            let trace = Trace::decode(name.as_ref(), &script.encode()).unwrap();
            (name.into(), trace)
        };
        let session = Session::of(scripts.iter().map(trace).collect());
        let graph = Graph::build(&session).unwrap();
        graph.check(&session).unwrap();
        Logs { session, graph }
    }

    /// The thread `process/name`.
    pub(crate) fn thread(&self, name: &str) -> ThreadId {
        let of = |t: &ThreadId| {
            let process = &self.session.trace_of(*t).process.name;
            format!("{process}/{}", self.session.thread_name(*t)) == name
        };
        self.session.thread_ids().find(of).unwrap()
    }

    pub(crate) fn report(&self) -> Report {
        self.ask(&StuckQuestion::default())
    }

    pub(crate) fn report_of(&self, thread: &str) -> Report {
        self.ask(&StuckQuestion {
            thread: Some(self.thread(thread)),
            ..StuckQuestion::default()
        })
    }

    pub(crate) fn ask(&self, question: &StuckQuestion) -> Report {
        let found = diagnose(&self.session, &self.graph, question);
        let report = report(
            &self.session,
            &self.graph,
            found.as_ref(),
            question.least_ns,
        );
        assert!(!text(&report).is_empty());
        report
    }
}
