// SPDX-License-Identifier: Apache-2.0
//! `hindsight chains`, also called `hindsight why`

use std::io::Write;

use anyhow::Result;
use clap::Args;
use hindsight_analysis::{chains_in, explain_with, Layout};

use crate::input::{thread_or_main, Input, Time};
use crate::text::{Look, Page};
use crate::write_json;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The thread that was held up, by id or name; the main thread by default
    #[arg(long, short, value_name = "NAME|TID")]
    thread: Option<String>,
    #[command(flatten)]
    time: Time,
    /// Tell only so many calls of a chain, the outermost first
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Tell every call, also those that say nothing new
    #[arg(long)]
    full: bool,
    /// How many chains, the most telling first
    #[arg(long, short = 'n', default_value_t = 1, value_name = "CHAINS")]
    limit: usize,
    /// Write JSON; times are in ns
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let file = &arguments.input.file;
    let trace = arguments.input.read()?;
    let thread = thread_or_main(&trace, file, arguments.thread.as_deref())?;
    let window = arguments.time.window(&trace, file)?;
    let mut found = chains_in(&trace, thread, window, arguments.limit);
    let depth = arguments.depth.map(|d| d as usize);
    if arguments.json {
        for chain in &mut found {
            chain.calls.truncate(depth.unwrap_or(usize::MAX));
        }
        return write_json(&found);
    }
    let mut page = Page::new(look);
    let layout = Layout {
        depth,
        full: arguments.full,
        ..page.layout()
    };
    if !trace.process.reason.is_empty() {
        page.plain(&format!("Saved because: {}", trace.process.reason))?;
        writeln!(page)?;
    }
    for (i, chain) in found.iter().enumerate() {
        if i > 0 {
            writeln!(page)?;
            page.dim(&"─".repeat(72.min(page.width.unwrap_or(72))))?;
        }
        write!(page, "{}", explain_with(chain, &layout))?;
    }
    if found.is_empty() {
        let (name, tid) = (&thread.name, thread.tid);
        let when = if window.is_some() {
            " in that time"
        } else {
            ""
        };
        page.plain(&format!(
            "Thread {name:?} (tid {tid}) recorded no call that could have held it up{when}."
        ))?;
    }
    page.flush()?;
    Ok(())
}
