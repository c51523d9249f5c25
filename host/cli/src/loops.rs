// SPDX-License-Identifier: Apache-2.0
//! `hindsight loops`: which branch, and which field, keeps a loop of a traced method going.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hindsight_decoder::Trace;
use hindsight_loops::{loops, traced_calls, Archive, Exit, FieldName, Loop, Source, TracedCall};
use serde::Serialize;

use crate::damage::{self, DamageReport};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::words::{counted, duration, time};

#[derive(Args)]
#[command(
    mut_arg("file", |file| file.help("A .hindsight file, or a .memory file that a process left (shared-memory): only these have branches")),
    after_help = "The methods must have been traced by rules 'trace CLASS.METHOD': see docs/events.md, Branches."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The app: an APK, a jar with classes.dex, or a dex file; may be given several times. Names what the branches read
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    dex: Vec<PathBuf>,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// The loops of a trace.
#[derive(Serialize)]
pub(crate) struct Report {
    /// CLOCK_BOOTTIME of the trace's beginning and end, ns.
    start_ns: u64,
    end_ns: u64,
    calls: Vec<CallReport>,
    damaged: Vec<DamageReport>,
}

/// A call whose branches were traced, and its loops.
#[derive(Serialize)]
pub(crate) struct CallReport {
    tid: u32,
    thread: String,
    class: String,
    method: String,
    signature: String,
    /// Whether its end is recorded.
    has_ended: bool,
    /// Branches that were not told apart.
    others: u64,
    loops: Vec<Loop>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let trace = arguments.input.read()?;
    let archive = archive(&arguments.dex)?;
    let report = report(&trace, &archive, 0);
    match arguments.json {
        true => write_json(&report),
        false => Page::new(look).show(|page| {
            write(page, &report, !arguments.dex.is_empty())?;
            damage::write(page, &report.damaged)
        }),
    }
}

/// The dex files of all these files.
pub(crate) fn archive(files: &[PathBuf]) -> Result<Archive> {
    let mut archive = Archive::default();
    for file in files {
        archive.add(Path::new(file))?;
    }
    Ok(archive)
}

/// The loops of the methods whose branches were traced from `from_ns` on (CLOCK_BOOTTIME).
pub(crate) fn report(trace: &Trace, archive: &Archive, from_ns: u64) -> Report {
    let call = |call: TracedCall| CallReport {
        loops: loops(archive, &call),
        tid: call.tid,
        thread: call.thread,
        class: call.method.class,
        method: call.method.name,
        signature: call.method.signature,
        has_ended: call.has_ended,
        others: call.others,
    };
    Report {
        start_ns: trace.start_ns(),
        end_ns: trace.end_ns(),
        calls: traced_calls(trace, from_ns).into_iter().map(call).collect(),
        damaged: damage::reports(trace),
    }
}

/// Writes the loops. `has_dex`: whether any app's code was given.
pub(crate) fn write(page: &mut Page, report: &Report, has_dex: bool) -> io::Result<()> {
    if report.calls.is_empty() {
        page.plain(
            "No branches are recorded. Trace the method that loops: a line 'trace CLASS.METHOD' in the rules file.",
        )?;
    }
    for call in &report.calls {
        let (class, method) = (&call.class, &call.method);
        page.strong(&format!(
            "{class}.{method} in {} ({})",
            call.thread, call.tid
        ))?;
        if call.loops.is_empty() {
            page.plain("No loop went round in this call.")?;
        }
        for one in &call.loops {
            write_loop(page, report, call, one, has_dex)?;
        }
        if call.others != 0 {
            page.dim(&format!(
                "{} more were not told apart: the method has too many different ones.",
                counted(call.others, "branch", "branches")
            ))?;
        }
    }
    Ok(())
}

fn write_loop(
    page: &mut Page,
    report: &Report,
    call: &CallReport,
    one: &Loop,
    has_dex: bool,
) -> io::Result<()> {
    let (first, last) = one.recorded_ns;
    let since_start = |ns: u64| time(ns.saturating_sub(report.start_ns));
    let state = match call.has_ended {
        true => "the call has ended".to_owned(),
        false => format!(
            "the call was running at the end of the trace, {} later",
            duration(report.end_ns.saturating_sub(last))
        ),
    };
    page.plain(&format!(
        "The loop at {:#06x} went round {}, from {} to {}; {state}.",
        one.begin,
        counted(one.times, "time", "times"),
        since_start(first),
        since_start(last),
    ))?;
    let Some(exits) = &one.exits else {
        let why = match has_dex {
            true => "What ends it is not known: the files given with --dex do not have the method's code, or an exception's handler is part of the loop.",
            false => "Give the app with --dex to see which field ends it.",
        };
        return page.indented(why, 2);
    };
    if exits.is_empty() {
        page.indented("No branch on its way can leave it.", 2)?;
    }
    for exit in exits {
        page.indented(&sentence(exit), 2)?;
    }
    Ok(())
}

/// `It ends when a.Flag.done != 0 (branch at 0x0002, which never left it).`
fn sentence(exit: &Exit) -> String {
    let left = value(&exit.left, exit.left_is_computed);
    let condition = match exit.sense {
        Some(sense) => {
            let right = match exit.right.is_empty() {
                true => "0".to_owned(),
                false => value(&exit.right, exit.right_is_computed),
            };
            format!("when {left} {} {right}", sense.symbol())
        }
        None => format!("at a switch over {left}"),
    };
    let left_it = match exit.times {
        0 => "never left it".to_owned(),
        times => format!("left it {}", counted(times, "time", "times")),
    };
    format!(
        "It ends {condition} (the branch at {:#06x}, which {left_it}).",
        exit.at
    )
}

fn value(sources: &[Source], is_computed: bool) -> String {
    let parts: Vec<_> = sources.iter().map(source).collect();
    match (is_computed, parts.is_empty()) {
        (_, true) => "a value of the method's own".to_owned(),
        (true, _) => format!("a value computed from {}", parts.join(" and ")),
        (false, _) => parts.join(" or "),
    }
}

fn source(source: &Source) -> String {
    let name = |field: &FieldName| format!("{}.{}", field.class, field.name);
    match source {
        Source::Field { field, at, in_loop } => {
            format!("{} (read at {at:#06x}{})", name(field), place(*in_loop))
        }
        Source::Call {
            method,
            at,
            in_loop,
            returns,
        } => {
            let called = format!("{}.{}", method.class, method.name);
            let place = place(*in_loop);
            match returns {
                Some(field) => format!("{} (by {called}, called at {at:#06x}{place})", name(field)),
                None => format!("the result of {called} (called at {at:#06x}{place})"),
            }
        }
        Source::Constant { value } => value.to_string(),
        Source::Other => "a value of the method's own".to_owned(),
    }
}

fn place(in_loop: bool) -> &'static str {
    match in_loop {
        true => "",
        false => ", before the loop, which sees no change",
    }
}
