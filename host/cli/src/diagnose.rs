// SPDX-License-Identifier: Apache-2.0
//! `hindsight diagnose`: why a thread does not go on, over any number of threads and processes.

use std::io::{self, Write as _};

use anyhow::Result;
use clap::Args;
use hindsight_analysis::parse_duration;
use hindsight_causality::diagnosis::{diagnose, StuckQuestion};
use hindsight_causality::story::{last_before, report, text, Block, Report};
use serde::Serialize;

use crate::batch::Failure;
use crate::output::write_json;
use crate::page::{Look, Page};
use crate::places::{find_thread, parse_time};
use crate::session::{Damaged, Inputs};
use crate::system::SystemReport;

#[derive(Args)]
#[command(
    after_help = "Each statement says whether it is recorded or inferred. A culprit is a recorded fact; otherwise it is \
                  unknown, and the text says what to record. Give the files of all processes that took part, and, if \
                  there is one, a file in which the same went well. hindsight debug asks the same questions one by \
                  one. Exit codes: 0 done; 1 a file or thread cannot be read; 2 wrong usage."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Inputs,
    /// The thread, by name or id, or PROCESS/THREAD; default: the main thread of the trace that was saved for a reason
    #[arg(long, short, value_name = "THREAD", help_heading = "Selection")]
    thread: Option<String>,
    /// A time at which it was stuck: 1.5s after the beginning, -200ms before the end
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    at: Option<String>,
    /// From this length on a thread is stuck, such as 50ms
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = stall_time, help_heading = "Selection")]
    stall: u64,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    report: Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SystemReport>,
    damaged: Vec<Damaged>,
    failed: Vec<Failure>,
}

pub(crate) fn stall_time(text: &str) -> Result<u64, String> {
    let ns = parse_duration(text).filter(|&ns| ns > 0);
    ns.ok_or_else(|| "not a duration: write 50ms or 1.5s".to_owned())
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let opened = arguments.input.open()?;
    let (session, graph) = (&opened.session, &opened.graph);
    let at = arguments.at.as_deref();
    let question = StuckQuestion {
        thread: (arguments.thread.as_deref())
            .map(|wanted| find_thread(session, wanted))
            .transpose()?,
        at_ns: at.map(|at| parse_time(session, at)).transpose()?,
        least_ns: arguments.stall,
    };
    let found = diagnose(session, graph, &question);
    let mut report = report(session, graph, found.as_ref(), arguments.stall);
    if let (None, Some(at_ns)) = (&found, question.at_ns) {
        report.then = last_before(session, graph, question.thread, at_ns);
    }
    if arguments.json {
        return write_json(&Output {
            report,
            system: opened.system(),
            damaged: opened.damaged,
            failed: opened.failed,
        });
    }
    Page::new(look).show(|page| {
        write_blocks(page, &text(&report))?;
        opened.write_missing(page)
    })
}

/// Writes a text, with an empty line between its parts.
pub(crate) fn write_blocks(page: &mut Page, blocks: &[Block]) -> io::Result<()> {
    let mut is_list = false;
    for (i, block) in blocks.iter().enumerate() {
        let continues = is_list && matches!(block, Block::Item(_));
        if i > 0 && !continues {
            writeln!(page)?;
        }
        is_list = matches!(block, Block::Item(_) | Block::Heading(_));
        match block {
            Block::Strong(text) => page.strong(text)?,
            Block::Heading(text) => page.plain(&format!("{text}:"))?,
            Block::Text(text) => page.plain(text)?,
            Block::Item(text) => page.item(text)?,
            Block::Calls(calls) => {
                for (depth, call) in calls.iter().enumerate() {
                    page.indented(call, 4 + 2 * depth.min(12))?;
                }
            }
        }
    }
    Ok(())
}
