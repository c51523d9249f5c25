// SPDX-License-Identifier: Apache-2.0
//! `hindsight chains`, also called `hindsight why`

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use hindsight_analysis::{chains, explain};

use crate::{text, thread_or_main, write_json, Input};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// The thread that was held up, by id or name; the main thread by default
    #[arg(long, short)]
    thread: Option<String>,
    /// How many chains, the most telling first
    #[arg(long, short = 'n', default_value_t = 1)]
    limit: usize,
    /// Write JSON; times are in ns
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.input.read()?;
    let thread = thread_or_main(&trace, &arguments.input.file, arguments.thread.as_deref())?;
    let found = chains(&trace, thread, arguments.limit);
    if arguments.json {
        return write_json(&found);
    }
    let mut out = io::stdout().lock();
    let palette = text::palette(&out);
    if !trace.process.reason.is_empty() {
        writeln!(out, "Saved because: {}", trace.process.reason)?;
        writeln!(out)?;
    }
    for (i, chain) in found.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
            writeln!(out, "{}{}{}", palette.dim, "─".repeat(72), palette.reset)?;
        }
        write!(out, "{}", explain(chain, palette))?;
    }
    if found.is_empty() {
        writeln!(
            out,
            "Thread {:?} (tid {}) recorded no call that could have held it up.",
            thread.name, thread.tid
        )?;
    }
    Ok(())
}
