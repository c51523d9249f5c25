// SPDX-License-Identifier: Apache-2.0
//! `hindsight top`

use std::cmp::Reverse;
use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use hindsight_analysis::{duration, MethodTotals};
use serde::Serialize;

use crate::text::{self, Align};
use crate::{find_thread, write_json, Input};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Only this thread, by id or name; all by default
    #[arg(long, short)]
    thread: Option<String>,
    /// How many methods
    #[arg(long, short = 'n', default_value_t = 20)]
    limit: usize,
    /// What to rank by
    #[arg(long, short, value_enum, default_value_t = Sort::SelfTime)]
    sort: Sort,
    /// Write JSON; times are in ns
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// Time in the method itself
    #[value(name = "self")]
    SelfTime,
    /// Time in the method and what it called
    Total,
    /// The longest call
    Max,
    /// How often it was called
    Calls,
}

#[derive(Serialize)]
struct Report<'a> {
    threads: Vec<u32>,
    methods: &'a [MethodTotals],
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.input.read()?;
    let threads = match &arguments.thread {
        Some(wanted) => vec![find_thread(&trace, &arguments.input.file, wanted)?],
        None => trace.threads.iter().collect(),
    };
    let mut totals = hindsight_analysis::top(&trace.methods, threads.iter().copied());
    let whole: u64 = totals.iter().map(|t| t.self_ns).sum();
    let key = |t: &MethodTotals| match arguments.sort {
        Sort::SelfTime => t.self_ns,
        Sort::Total => t.total_ns,
        Sort::Max => t.max_ns,
        Sort::Calls => t.calls,
    };
    // The name decides between equals, so that the same trace gives the same report.
    totals.sort_by(|a, b| {
        (Reverse(key(a)), &a.method, &a.signature).cmp(&(Reverse(key(b)), &b.method, &b.signature))
    });
    let known = totals.len();
    totals.truncate(arguments.limit);

    if arguments.json {
        return write_json(&Report {
            threads: threads.iter().map(|t| t.tid).collect(),
            methods: &totals,
        });
    }
    let mut out = io::stdout().lock();
    let palette = text::palette(&out);
    // Overloads can only be told apart by their parameters.
    let name = |t: &MethodTotals| {
        let is_overload = |o: &MethodTotals| o.method == t.method && o.signature != t.signature;
        let parameters = if totals.iter().any(is_overload) {
            t.parameters.as_str()
        } else {
            ""
        };
        format!("{}{parameters}", t.method)
    };
    let rows: Vec<Vec<String>> = totals
        .iter()
        .map(|t| {
            vec![
                duration(t.self_ns),
                format!("{:.1} %", t.self_ns as f64 * 100.0 / whole.max(1) as f64),
                duration(t.total_ns),
                duration(t.max_ns),
                text::count(t.calls),
                name(t),
            ]
        })
        .collect();
    let header = [
        ("self", Align::Right),
        ("of all", Align::Right),
        ("total", Align::Right),
        ("longest", Align::Right),
        ("calls", Align::Right),
        ("method", Align::Left),
    ];
    text::table(&mut out, palette, &header, &rows)?;
    if known > totals.len() {
        writeln!(
            out,
            "{}… and {} more; --limit says how many are shown{}",
            palette.dim,
            text::count((known - totals.len()) as u64),
            palette.reset
        )?;
    }
    Ok(())
}
