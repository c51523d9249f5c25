// SPDX-License-Identifier: Apache-2.0
//! Traces of several processes that are asked about together.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context as _, Result};
use clap::Args;
use hindsight_causality::story::process_name;
use hindsight_causality::{Graph, NodeId, NodeKind, RuleList, Session, ThreadId};
use hindsight_decoder::is_perfetto_file;
use serde::Serialize;

use crate::batch::{trace_files, Failure, Seen};
use crate::damage::{self, DamageReport};
use crate::input::Reading;
use crate::page::Page;
use crate::places::bounds;
use crate::system::{self, SystemReport};

/// The traces that are asked about.
#[derive(Args)]
pub(crate) struct Inputs {
    /// .hindsight files, or folders of such files: of one or of several processes; and one Perfetto trace of the whole device
    #[arg(required = true, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// A TOML file of rules that correct the graph: what is one piece of work, and what caused what (docs/causality.md)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Reading")]
    rules: Option<PathBuf>,
}

/// The traces that could be read, and their graph.
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) graph: Graph,
    /// The rules that the graph was made with.
    pub(crate) rules: RuleList,
    pub(crate) damaged: Vec<Damaged>,
    pub(crate) failed: Vec<Failure>,
}

impl Opened {
    /// The trace of the whole device.
    pub(crate) fn system(&self) -> Option<SystemReport> {
        SystemReport::of(&self.session)
    }
}

/// A damaged part of one of the files.
#[derive(Serialize)]
pub(crate) struct Damaged {
    file: String,
    #[serde(flatten)]
    damage: DamageReport,
}

/// A trace, in reports.
#[derive(Serialize)]
pub(crate) struct TraceReport {
    file: String,
    process: String,
    pid: u32,
    /// CLOCK_BOOTTIME of its beginning, ns.
    start_ns: u64,
    /// Why nothing joins it with the other traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    apart: Option<String>,
}

/// A thread, in reports.
#[derive(Serialize)]
pub(crate) struct ThreadReport {
    /// Index of its trace among `traces`; their number, if it is in the system trace only.
    trace: usize,
    tid: u32,
    ring: u32,
    thread: String,
}

impl ThreadReport {
    pub(crate) fn of(opened: &Opened, thread: ThreadId) -> Self {
        let about = opened.session.about(thread);
        ThreadReport {
            trace: about.trace().min(opened.session.traces().len()),
            tid: about.tid,
            ring: about.key.ring,
            thread: opened.session.thread_name(thread).to_owned(),
        }
    }
}

impl Inputs {
    pub(crate) fn open(&self) -> Result<Opened> {
        let rules = self.rules.as_deref().map(read_rules).transpose()?;
        let rules = rules.unwrap_or_default();
        let mut seen = Seen::default();
        let (mut traces, mut damaged, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        let mut device = None;
        for path in &self.paths {
            for file in trace_files(path)? {
                if seen.repeats(&file) {
                    continue;
                }
                if is_perfetto_file(&file) {
                    ensure!(
                        device.is_none(),
                        "{} is a second Perfetto trace: name one, or make one of both with cat",
                        file.display()
                    );
                    match system::read(&file) {
                        Ok(trace) => device = Some((file, trace)),
                        Err(e) => failed.push(Failure::report(&file, &e)),
                    }
                    continue;
                }
                match self.reading.read(&file) {
                    Ok(trace) => {
                        let of_file = damage::reports(&trace).into_iter();
                        damaged.extend(of_file.map(|damage| Damaged {
                            file: file.display().to_string(),
                            damage,
                        }));
                        traces.push((file, trace));
                    }
                    Err(e) => failed.push(Failure::report(&file, &e)),
                }
            }
        }
        ensure!(
            !traces.is_empty() || device.is_none(),
            "a Perfetto trace alone has no events of Java programs: name the .hindsight files of processes, too"
        );
        ensure!(!traces.is_empty(), "no trace can be read: see above");
        let session = system::join(Session::of(traces), device, &mut failed);
        let graph = Graph::build_with(&session, &rules.rules()?.with_libraries(&session))?;
        Ok(Opened {
            session,
            graph,
            rules,
            damaged,
            failed,
        })
    }
}

/// Reads a file of rules.
pub(crate) fn read_rules(path: &Path) -> Result<RuleList> {
    /// More than a file of rules may have, bytes.
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MOST).read_to_string(&mut text))
        .with_context(|| format!("cannot read {}", path.display()))?;
    RuleList::parse(&text).map_err(|e| anyhow!("{}: {e}", path.display()))
}

impl Opened {
    /// CLOCK_BOOTTIME from which times of a thread are counted, ns: the beginning of the earliest of the traces that are joined; of
    /// a trace that stands for itself, its own beginning.
    pub(crate) fn start_ns(&self, thread: ThreadId) -> u64 {
        match self.session.apart(self.session.about(thread).trace()) {
            None => bounds(&self.session).0,
            Some(_) => self.session.trace_of(thread).start_ns(),
        }
    }

    /// From where times are counted, as text.
    pub(crate) fn origin(&self) -> &'static str {
        match self.session.traces().len() {
            1 => "after the trace's beginning",
            _ => "after the beginning of the earliest trace",
        }
    }

    /// `main (4200)`; with several traces, with the name of the process.
    pub(crate) fn thread(&self, thread: ThreadId) -> String {
        let about = self.session.about(thread);
        let name = format!("{} ({})", self.session.thread_name(thread), about.tid);
        match self.session.traces().len() {
            1 if !self.session.is_outside(thread) => name,
            _ => format!("{name} of {}", process_name(&self.session, about.trace())),
        }
    }

    /// What a thread does in a node: `message com.example.Screen`.
    pub(crate) fn work(&self, node: NodeId) -> String {
        let about = self.graph.node(node);
        let what = self.session.string(about.what);
        match (about.kind, what) {
            (NodeKind::Run | NodeKind::Wait | NodeKind::Idle, "") => "its own code".to_owned(),
            (NodeKind::Run | NodeKind::Wait | NodeKind::Idle, what) => {
                format!("its own code, {what}")
            }
            (kind, "") => kind.name().to_owned(),
            (kind, what) => format!("{} {what}", kind.name()),
        }
    }

    pub(crate) fn traces(&self) -> Vec<TraceReport> {
        let report = |(i, trace): (usize, &hindsight_decoder::Trace)| TraceReport {
            file: self.session.file(i).display().to_string(),
            process: process_name(&self.session, i),
            pid: trace.process.pid,
            start_ns: trace.start_ns(),
            apart: self.session.apart(i).map(|a| a.words()),
        };
        self.session.traces().enumerate().map(report).collect()
    }

    /// Ends a report with what is not in the traces.
    pub(crate) fn write_missing(&self, page: &mut Page) -> io::Result<()> {
        for trace in self.traces() {
            if let Some(why) = &trace.apart {
                writeln!(page)?;
                page.dim(&format!("{} stands for itself: {why}.", trace.file))?;
            }
        }
        if let Some(system) = self.system() {
            system.write_missing(page)?;
        }
        if !self.damaged.is_empty() {
            writeln!(page)?;
            page.strong("Not in the traces, because files are damaged")?;
            for damaged in &self.damaged {
                page.indented(&format!("{}: {}", damaged.file, damaged.damage), 2)?;
            }
        }
        Ok(())
    }
}
