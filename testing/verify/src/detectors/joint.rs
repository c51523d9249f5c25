// SPDX-License-Identifier: Apache-2.0
//! Two apps, one of which waits for the other: both leave a report of one group, and both files together name whom it waited for.

use std::path::Path;

use anyhow::{ensure, Context as _, Result};
use hindsight_causality::diagnosis::{diagnose, StuckQuestion};
use hindsight_causality::{Graph, Session};

use super::device::{Corpus, Report};

/// The detector of reports of processes that another one waited for.
const WAITED_FOR: &str = "waited-for";
/// The least time between two stacks of a thread of the process that serves, µs. It waits some µs after it has taken a stack for another
/// reason, and a wait that begins within this time of the thread's last stack has none until it ends.
const STACK_INTERVAL: &str = "stack-interval=1000/1";
/// Where the service of the corpus spends its time.
const CULPRIT: &str = "com.example.detectors.Store.readDisk";

/// A case of two apps.
pub(super) struct Joint {
    /// Its name.
    pub(super) name: &'static str,
    /// The detector that fires in the app that waits.
    detector: &'static str,
    /// Its rule.
    rules: &'static str,
    /// How long the transaction takes, ms.
    takes_ms: u64,
}

/// All cases of two apps.
pub(super) fn all() -> Vec<Joint> {
    vec![
        Joint {
            name: "waited-for",
            detector: "long-binder-wait",
            rules: "[detectors.long-binder-wait]\nlimit-ms = 2000",
            takes_ms: 2500,
        },
        // The transaction still goes on when the rings are taken.
        Joint {
            name: "waited-for-open",
            detector: "stuck-message",
            rules: "[detectors.stuck-message]\nlimit-ms = 2000",
            takes_ms: 8000,
        },
    ]
}

impl Joint {
    /// Runs it. Returns what was found.
    pub(super) fn run(&self, corpus: &Corpus) -> Result<String> {
        let device = corpus.start(self.name, self.rules)?;
        let mut server = device.app_with(STACK_INTERVAL)?;
        let port = server.serve()?;
        // Serves somebody else: it has no part in it.
        let mut other = device.app()?;
        other.serve()?;
        let mut client = device.app()?;
        client.ask(&format!("call {port} 1"))?;
        for app in [&server, &other, &client] {
            app.settle()?;
        }
        ensure!(device.reports()?.is_empty(), "there are reports already");
        client.ask(&format!("call {port} {}", self.takes_ms))?;
        device.wait_for_more_than(1)?;
        client.settle()?;
        let reports = device.reports()?;
        let of = |pid: u32, detector: &str| {
            let found = reports
                .iter()
                .find(|r| r.pid == pid && r.detector == detector);
            found.with_context(|| format!("no {detector} of process {pid}: {reports:?}"))
        };
        let waited = of(client.pid(), self.detector)?;
        let served = of(server.pid(), WAITED_FOR)?;
        ensure!(reports.len() == 2, "more reports than two: {reports:?}");
        let groups = [waited.group, served.group];
        ensure!(groups == [waited.report; 2], "the groups are {groups:?}");
        let traces = [device.trace(waited), device.trace(served)];
        let alone = Self::culprit(&traces[..1])?;
        ensure!(
            alone.as_deref() != Some(CULPRIT),
            "one file alone names the culprit"
        );
        let both = Self::culprit(&traces)?;
        ensure!(
            both.as_deref() == Some(CULPRIT),
            "both files name {both:?}, not {CULPRIT}"
        );
        Self::is_of_thread(&traces[1], served)?;
        Ok(format!(
            "{} and {} of one group, whose files name {CULPRIT}",
            waited.detector, served.reason
        ))
    }

    /// The method of the thread that the main thread of the first file waited for.
    fn culprit(traces: &[impl AsRef<Path>]) -> Result<Option<String>> {
        let traces: Vec<&Path> = traces.iter().map(AsRef::as_ref).collect();
        let session = Session::open(&traces)?;
        let graph = Graph::build(&session)?;
        let question = StuckQuestion {
            thread: session.main_thread(0),
            ..StuckQuestion::default()
        };
        let diagnosis = diagnose(&session, &graph, &question);
        let culprit = diagnosis.and_then(|diagnosis| diagnosis.verdict.culprit);
        Ok(culprit.and_then(|culprit| culprit.threads.into_iter().next()?.method))
    }

    /// The report names the thread that served.
    fn is_of_thread(trace: &Path, report: &Report) -> Result<()> {
        let trace = hindsight_decoder::Trace::open(trace)?;
        let thread = trace.threads.iter().find(|t| t.tid == report.tid);
        let name = thread.map(|thread| thread.name.as_str());
        ensure!(name == Some("binder"), "it is about thread {name:?}");
        Ok(())
    }
}
