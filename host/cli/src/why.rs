// SPDX-License-Identifier: Apache-2.0
//! `hindsight why`: which chain of calls stalled a thread, and who it waited for.

use std::io::Write;

use anyhow::{Context, Result};
use clap::Args;
use hindsight_analysis::{parse_duration, stalls, Question, Selection, Stalls};
use serde::Serialize;

use crate::damage::{self, DamageReport};
use crate::explain::{explain, Layout};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::select::{thread_or_main, Time};
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
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    time: Time,
    /// The thread, by name or id, or ring:N for the thread of one ring; default: the main thread
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
    damaged: Vec<DamageReport>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let file = &arguments.input.file;
    let trace = arguments.input.read()?;
    let key = thread_or_main(&trace, file, arguments.thread.as_deref())?.key;
    let window = arguments.time.window(&trace, file)?;
    // The other threads stay: they may have been waited for.
    let selection = Selection {
        window,
        ..Selection::default()
    };
    let trace = selection.apply(trace);
    let thread = trace.thread(key).context("no thread was traced")?;
    let question = Question {
        limit: arguments.limit as usize,
        stall_ns: arguments.stall,
    };
    let mut found = stalls(&trace, thread, &question);
    let depth = arguments.depth.map(|d| d as usize);
    if arguments.json {
        for chain in &mut found.chains {
            chain.calls.truncate(depth.unwrap_or(usize::MAX));
        }
        return write_json(&Report {
            reason: trace.process.reason.clone(),
            stalls: found,
            converted_depth: trace.levels(),
            damaged: damage::reports(&trace),
        });
    }
    let page = Page::new(look);
    let layout = Layout {
        palette: page.palette,
        width: page.width,
        depth,
        full: arguments.full,
        window: window.is_some(),
        beginning_is_cut: window.is_some() || hindsight_analysis::is_converted(&trace),
        end_is_missing: thread.end_is_missing,
    };
    let damaged = damage::reports(&trace);
    page.show(|page| {
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
        write!(page, "{}", explain(&found, &layout))?;
        taken_back::write(page, TakenBack::of_trace(&trace).as_ref())?;
        damage::write(page, &damaged)
    })
}
