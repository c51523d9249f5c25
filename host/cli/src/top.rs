// SPDX-License-Identifier: Apache-2.0
//! `hindsight top`

use std::cmp::Reverse;
use std::io::Write;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hindsight_analysis::{duration, top, By, Totals};
use serde::Serialize;

use crate::input::{Input, Select};
use crate::text::{self, column, Cell, Kind, Look, Page};
use crate::write_json;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// What to add calls up by
    #[arg(long, value_enum, default_value_t = Group::Method)]
    by: Group,
    /// What to rank by
    #[arg(long, short, value_enum, default_value_t = Sort::SelfTime)]
    sort: Sort,
    /// How many to show
    #[arg(long, short = 'n', default_value_t = 20, value_name = "ROWS")]
    limit: usize,
    /// Write JSON; times are in ns
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Group {
    /// The method that was called
    Method,
    /// Its class
    Class,
    /// The package of its class
    Package,
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
    by: By,
    threads: Vec<u32>,
    /// Self time of all, also of those that are not shown, ns.
    self_ns: u64,
    /// How many are not shown.
    more: usize,
    rows: &'a [Totals],
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let trace = arguments.input.read()?;
    let trace = arguments.select.apply(trace, &arguments.input.file)?;
    let by = match arguments.by {
        Group::Method => By::Method,
        Group::Class => By::Class,
        Group::Package => By::Package,
    };
    let mut totals = top(&trace.methods, &trace.threads, by);
    let whole: u64 = totals.iter().map(|t| t.self_ns).sum();
    let key = |t: &Totals| match arguments.sort {
        Sort::SelfTime => t.self_ns,
        Sort::Total => t.total_ns,
        Sort::Max => t.max_ns,
        Sort::Calls => t.calls,
    };
    // The name decides between equals, so that the same trace gives the same report.
    totals.sort_by(|a, b| {
        (Reverse(key(a)), &a.name, &a.signature).cmp(&(Reverse(key(b)), &b.name, &b.signature))
    });
    let known = totals.len();
    totals.truncate(arguments.limit);

    if arguments.json {
        return write_json(&Report {
            by,
            threads: trace.threads.iter().map(|t| t.tid).collect(),
            self_ns: whole,
            more: known - totals.len(),
            rows: &totals,
        });
    }
    let mut page = Page::new(look);
    if totals.is_empty() {
        page.plain("No call was recorded in what was asked about.")?;
        page.flush()?;
        return Ok(());
    }
    // Overloads can only be told apart by their parameters.
    let name = |t: &Totals| {
        let is_overload = |o: &Totals| o.name == t.name && o.signature != t.signature;
        let parameters = if totals.iter().any(is_overload) {
            t.parameters.as_str()
        } else {
            ""
        };
        format!("{}{parameters}", t.name)
    };
    let dim = page.palette.dim;
    let rows: Vec<Vec<Cell>> = totals
        .iter()
        .map(|t| {
            let row = [
                duration(t.self_ns),
                text::percent(t.self_ns, whole),
                duration(t.total_ns),
                duration(t.max_ns),
                text::count(t.calls),
                name(t),
            ];
            // Nobody has to speed up what waits for work.
            let style = if t.waits_for_work { dim } else { "" };
            row.map(|text| Cell::styled(text, style)).into()
        })
        .collect();
    let what = match by {
        By::Method => "method",
        By::Class => "class",
        By::Package => "package",
    };
    let columns = [
        column("self", Kind::Number),
        column("of all", Kind::Number),
        column("total", Kind::Number),
        column("longest", Kind::Number),
        column("calls", Kind::Number),
        column(what, Kind::Name),
    ];
    page.table(&columns, &rows)?;
    if known > totals.len() {
        let more = text::count((known - totals.len()) as u64);
        page.dim(&format!(
            "… and {more} more; --limit says how many are shown"
        ))?;
    }
    page.flush()?;
    Ok(())
}
