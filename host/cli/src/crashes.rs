// SPDX-License-Identifier: Apache-2.0
//! `hindsight crashes`: exceptions that nothing caught, with what led to them.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::Args;
use hindsight_causality::transactions::{
    crashes, group_crashes, Crash, CrashGroup, Frames, Paths, Recorded, Transactions,
};
use serde::Serialize;

use crate::batch::Failure;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::session::{Damaged, Inputs, Opened, ThreadReport, TraceReport};
use crate::system::SystemReport;
use crate::words::{counted, duration, shorten};

#[derive(Args)]
#[command(
    after_help = "The exception path leads from what the user did to the work that the exception ended, over threads, and \
                  then along the methods that the exception left. Crashes with the same path are one group."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// The number of groups to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "GROUPS", help_heading = "Selection", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    traces: Vec<TraceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SystemReport>,
    groups: Vec<GroupReport>,
    crashes: Vec<CrashReport>,
    /// What is not recorded, one sentence each.
    missing: Vec<&'static str>,
    damaged: Vec<Damaged>,
    failed: Vec<Failure>,
}

#[derive(Serialize)]
struct GroupReport {
    /// Identifies the group in other reports, too.
    key: String,
    /// Indices in `crashes`.
    crashes: Vec<usize>,
}

#[derive(Serialize)]
struct CrashReport {
    /// CLOCK_BOOTTIME, ns.
    at_ns: u64,
    #[serde(flatten)]
    thread: ThreadReport,
    exception: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<u32>,
    /// From the beginning of the transaction, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_ns: Option<u64>,
    /// The first cause first.
    causes: Vec<CauseReport>,
    /// Innermost first.
    frames: Vec<String>,
    /// `left`, `last_stack` or `not_recorded`.
    frames_are: &'static str,
    /// Index in `frames` of the outermost method of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    upcall: Option<usize>,
}

#[derive(Serialize)]
struct CauseReport {
    work: String,
    #[serde(flatten)]
    thread: ThreadReport,
    /// CLOCK_BOOTTIME of its beginning, ns.
    begin_ns: u64,
    /// How it was caused by the one before.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let opened = arguments.inputs.open()?;
    let found = Transactions::find(&opened.session, &opened.graph);
    let paths = Paths::new(&opened.session, &opened.graph, &found);
    let list = crashes(&opened.session, &opened.graph, &found, &paths);
    let groups = group_crashes(&opened.session, &opened.graph, &list);
    let recorded = Recorded::of(&opened.session, &found);
    let missing: Vec<_> = recorded.missing_crashes().into_iter().collect();
    if arguments.json {
        let group = |g: &CrashGroup| GroupReport {
            key: format!("{:016x}", g.key),
            crashes: g.crashes.clone(),
        };
        return write_json(&Report {
            traces: opened.traces(),
            system: opened.system(),
            groups: groups.iter().map(group).collect(),
            crashes: list.iter().map(|c| report(&opened, c)).collect(),
            missing,
            damaged: opened.damaged,
            failed: opened.failed,
        });
    }
    Page::new(look).show(|page| {
        page.plain(&format!(
            "{} in {}{}.",
            counted(
                list.len() as u64,
                "uncaught exception",
                "uncaught exceptions"
            ),
            counted(opened.session.traces().len() as u64, "trace", "traces"),
            match groups.len() {
                0 | 1 => String::new(),
                n => format!(", of {n} kinds"),
            }
        ))?;
        for group in groups.iter().take(arguments.limit as usize) {
            writeln!(page)?;
            write(page, &opened, &list, group)?;
        }
        page.more(groups.len().saturating_sub(arguments.limit as usize))?;
        if !missing.is_empty() {
            writeln!(page)?;
        }
        for sentence in &missing {
            page.dim(sentence)?;
        }
        opened.write_missing(page)
    })
}

fn report(opened: &Opened, crash: &Crash) -> CrashReport {
    let name = |id| opened.session.string(id).to_owned();
    let causes = crash.causes.iter().map(|(node, reason)| {
        let about = opened.graph.node(*node);
        CauseReport {
            work: opened.work(*node),
            thread: ThreadReport::of(opened, about.thread),
            begin_ns: about.begin_ns,
            by: reason.map(|r| r.name()),
        }
    });
    CrashReport {
        at_ns: crash.at_ns,
        thread: ThreadReport::of(opened, crash.event.thread),
        exception: name(crash.class),
        transaction: crash.transaction.map(|t| t.0),
        path_ns: crash.path.as_ref().map(|p| p.duration_ns()),
        causes: causes.collect(),
        frames: crash.frames.iter().map(|f| name(*f)).collect(),
        frames_are: match crash.frames_are {
            Frames::Left => "left",
            Frames::LastStack => "last_stack",
            Frames::NotRecorded => "not_recorded",
        },
        upcall: crash.upcall,
    }
}

/// A group, by its first crash.
fn write(page: &mut Page, opened: &Opened, list: &[Crash], group: &CrashGroup) -> io::Result<()> {
    let crash = &list[group.crashes[0]];
    let class = match opened.session.string(crash.class) {
        "" => "an exception of an unknown class",
        class => class,
    };
    let times = match group.crashes.len() as u64 {
        1 => String::new(),
        n => format!(", {n} times; the first one"),
    };
    let start_ns = opened.start_ns(crash.event.thread);
    page.strong(&format!(
        "{class}{times} on {}, {} {}",
        opened.thread(crash.event.thread),
        duration(crash.at_ns.saturating_sub(start_ns)),
        opened.origin(),
    ))?;
    for (i, (node, reason)) in crash.causes.iter().enumerate() {
        let about = opened.graph.node(*node);
        let work = format!("{} on {}", opened.work(*node), opened.thread(about.thread));
        let line = match reason {
            Some(reason) => format!("→ by a {}: {work}", reason.name()),
            None if i == 0 && crash.transaction.is_some() => format!("began with {work}"),
            None => format!("in {work}; what led to it is not recorded"),
        };
        page.indented(&line, 2)?;
    }
    if let Some(path) = &crash.path {
        let shares = path.shares();
        let largest = shares.largest().map_or(String::new(), |(component, ns)| {
            format!(", most of it {} ({})", component.name(), duration(ns))
        });
        let took = duration(path.duration_ns());
        page.indented(
            &format!("It took {took} from there to the exception{largest}."),
            2,
        )?;
    }
    let intro = match crash.frames_are {
        Frames::Left => "It left these methods, the innermost first:",
        Frames::LastStack => "The last stack that the thread took before; it may have been thrown elsewhere:",
        Frames::NotRecorded => {
            return page.indented(
                "The methods that it left are not recorded: a thread that records its calls shows them.",
                2,
            )
        }
    };
    page.indented(intro, 2)?;
    let room = page.width.map_or(usize::MAX, |w| w.saturating_sub(4));
    for (i, frame) in crash.frames.iter().enumerate() {
        let name = match opened.session.string(*frame) {
            "" => "(not named)",
            name => name,
        };
        let is_upcall = crash.upcall == Some(i);
        page.indented(&shorten(name, room), 4)?;
        if is_upcall && i + 1 < crash.frames.len() {
            page.indented("… called by the system", 4)?;
            break;
        }
    }
    Ok(())
}
