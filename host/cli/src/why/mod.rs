// SPDX-License-Identifier: Apache-2.0
//! `hindsight why`: what stalled a thread, and who it waited for: from its calls and, where there are events, from the graph of
//! causes and effects.

mod answer;
mod asked;
mod chain;
mod conclude;
mod conclusion;
mod event_culprit;
mod event_stall;
mod explain;
mod text;
mod tree;
mod unknown;

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{ensure, Context, Result};
use clap::Args;
use hindsight_analysis::{parse_duration, stalls, Question, Selection, Stalls};
use hindsight_causality::story::Report as Diagnosis;
use hindsight_causality::{Graph, Session};
use hindsight_decoder::{is_perfetto_file, ThreadKey, Trace};
use serde::Serialize;

use self::answer::Answers;
use self::asked::asked;
use self::explain::explain;
use self::text::Layout;
use crate::damage::{self, DamageReport};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::select::Time;
use crate::session::read_rules;
use crate::system;
use crate::taken_back::{self, TakenBack};
use crate::words;

#[derive(Args)]
#[command(
    after_help = "A stall is a message that took 100 ms or more; on a thread that runs no messages, an outermost call \
                  that took as long without being busy. Exit codes: 0 done, with or without a stall; 1 a file or \
                  thread cannot be read; 2 wrong usage."
)]
pub(crate) struct Arguments {
    /// From this duration on a message is a stall, such as 50ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = stall_time)]
    stall: u64,
    /// The number of stalls to show, the most telling first
    #[arg(long, short = 'n', default_value_t = 1, value_name = "STALLS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Files of other processes that may have been waited for, and a Perfetto trace of the whole device
    // Before the other options, whose headings it would have.
    #[arg(index = 2, value_name = "OTHERS", value_hint = clap::ValueHint::FilePath)]
    others: Vec<PathBuf>,
    #[command(flatten)]
    input: Input,
    /// A TOML file of rules that correct the graph of causes and effects (docs/causality.md)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Reading")]
    rules: Option<PathBuf>,
    #[command(flatten)]
    time: Time,
    /// The thread, by name or id, or ring:N for the thread of one ring; default: the one that the trace was saved for, else main
    #[arg(long, short, value_name = "NAME|TID", help_heading = "Selection")]
    thread: Option<String>,
    /// Show only this number of calls of a chain, the outermost first
    #[arg(long, value_name = "CALLS", help_heading = "Output", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Show every call, also runs of calls that say nothing new
    #[arg(long, help_heading = "Output")]
    full: bool,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn stall_time(text: &str) -> Result<u64, String> {
    let ns = parse_duration(text).filter(|&ns| ns > 0);
    ns.ok_or_else(|| "not a duration: write 50ms or 1.5s".to_owned())
}

#[derive(Serialize)]
struct Report {
    /// Why the trace was saved; may be empty.
    reason: String,
    #[serde(flatten)]
    stalls: Stalls,
    /// How many levels of calls the file has, if deeper ones were removed when it was converted.
    #[serde(skip_serializing_if = "Option::is_none")]
    converted_depth: Option<u32>,
    /// What the graph of causes and effects says of each stall; `null` if it knows nothing of that time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnoses: Vec<Option<Diagnosis>>,
    /// Without a stall: what else the thread did not go on in.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
    damaged: Vec<DamageReport>,
}

/// The trace that is asked about, or the part of it, and those of other processes: on one clock.
struct Opened {
    session: Session,
    graph: Option<Graph>,
}

impl Arguments {
    /// Joins the traces. Without events there is no graph.
    fn open(&self, trace: Trace) -> Result<Opened> {
        let rules = self.rules.as_deref().map(read_rules).transpose()?;
        let mut traces = vec![(self.input.file.clone(), trace)];
        let mut device = None;
        for file in &self.others {
            if !is_perfetto_file(file) {
                traces.push((file.clone(), self.input.read_other(file)?));
                continue;
            }
            ensure!(
                device.is_none(),
                "{} is a second Perfetto trace: name one, or make one of both with cat",
                file.display()
            );
            device = Some((file.clone(), system::read(file)?));
        }
        let has_events = |t: &Trace| t.threads.iter().any(|t| !t.events.is_empty());
        let any = traces.iter().any(|(_, trace)| has_events(trace));
        // What does not fit is reported on standard error.
        let session = system::join(Session::of(traces), device, &mut Vec::new());
        let rules = rules.unwrap_or_default().rules()?.with_libraries(&session);
        let graph = any.then(|| Graph::build_with(&session, &rules));
        Ok(Opened {
            graph: graph.transpose()?,
            session,
        })
    }
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let file = &arguments.input.file;
    let whole = arguments.input.read()?;
    let key = asked(&whole, file, arguments.thread.as_deref())?.key;
    let window = arguments.time.window(&whole, file)?;
    // The other threads stay: they may have been waited for.
    let selection = Selection {
        window,
        ..Selection::default()
    };
    let opened = arguments.open(selection.apply(whole))?;
    let trace = opened.session.trace(0);
    let thread = trace.thread(key).context("no thread was traced")?;
    let question = Question {
        limit: arguments.limit as usize,
        stall_ns: arguments.stall,
    };
    let mut found = stalls(trace, thread, &question);
    let answers = opened.ask(key, &found, window.is_none());
    let depth = arguments.depth.map(|d| d as usize);
    if arguments.json {
        answers.put_into(&mut found);
        for chain in &mut found.chains {
            chain.calls.truncate(depth.unwrap_or(usize::MAX));
        }
        return write_json(&Report {
            reason: trace.process.reason.clone(),
            stalls: found,
            converted_depth: trace.levels(),
            diagnoses: answers.of_stalls,
            diagnosis: answers.instead,
            damaged: damage::reports(trace),
        });
    }
    let layout = Layout {
        depth,
        full: arguments.full,
        window: window.is_some(),
        beginning_is_cut: window.is_some() || hindsight_analysis::is_converted(trace),
        end_is_missing: thread.end_is_missing,
    };
    Page::new(look).show(|page| write(page, trace, &found, &answers, layout))
}

impl Opened {
    /// Asks the graph about the stalls of a thread of the first trace.
    fn ask(&self, key: ThreadKey, found: &Stalls, anywhere: bool) -> Answers {
        let key = ThreadKey {
            process: 0,
            ring: key.ring,
        };
        let thread = self.session.thread_with_key(key);
        let known = self.graph.as_ref().zip(thread);
        known.map_or_else(Answers::default, |(graph, thread)| {
            Answers::ask(&self.session, graph, thread, found, anywhere)
        })
    }
}

fn write(
    page: &mut Page,
    trace: &Trace,
    found: &Stalls,
    answers: &Answers,
    layout: Layout,
) -> io::Result<()> {
    let reason = &trace.process.reason;
    if !reason.is_empty() {
        page.plain(&format!("Saved because: {reason}"))?;
        writeln!(page)?;
    }
    if let Some(depth) = trace.levels() {
        page.plain(&format!(
            "This file has only the outermost {}: it was converted with --depth. Stalls may be missing, and a \
             call may seem to wait while it called something. The original trace tells more.",
            words::counted(depth.into(), "level of calls", "levels of calls")
        ))?;
        writeln!(page)?;
    }
    explain(page, found, answers, layout)?;
    taken_back::write(page, TakenBack::of_trace(trace).as_ref())?;
    damage::write(page, &damage::reports(trace))
}
