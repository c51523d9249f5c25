// SPDX-License-Identifier: Apache-2.0
//! `hindsight top`: methods, classes or packages, ranked by the time they took.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hindsight_analysis::{top, By, Totals};
use serde::Serialize;

use crate::damage::{self, DamageReport};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{column, Cell, Kind, Look, Page};
use crate::select::Select;
use crate::taken_back::{self, TakenBack};
use crate::words::{self, duration};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Add calls up by method, class or package
    #[arg(long, value_enum, default_value_t = Group::Method)]
    by: Group,
    /// The time to rank by, or the number of calls
    #[arg(long, short, value_enum, default_value_t = Sort::SelfTime)]
    sort: Sort,
    /// The number of rows to show
    #[arg(long, short = 'n', default_value_t = 20, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Group {
    /// By method
    Method,
    /// By class; a nested class is a class of its own
    Class,
    /// By package
    Package,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// Time in the method itself
    #[value(name = "self")]
    SelfTime,
    /// Time in the method and in the calls it made
    Total,
    /// The longest call
    #[value(name = "longest", alias = "max")]
    Max,
    /// The number of calls
    Calls,
}

#[derive(Serialize)]
struct Report<'a> {
    by: By,
    /// Ids of the threads.
    threads: Vec<u32>,
    /// Their rings, in the same order: ids may repeat.
    rings: Vec<u32>,
    /// Self time of all rows, also of rows that are not shown, ns.
    self_ns: u64,
    /// The number of rows that are not shown.
    more: usize,
    rows: &'a [Totals],
    damaged: Vec<DamageReport>,
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
    // Overloads differ only in their parameters, also from methods whose rows are not shown.
    let mut overloads: HashMap<String, u32> = HashMap::new();
    for row in &totals {
        *overloads.entry(row.name.clone()).or_default() += 1;
    }
    totals.truncate(arguments.limit as usize);

    if arguments.json {
        return write_json(&Report {
            by,
            threads: trace.threads.iter().map(|t| t.tid).collect(),
            rings: trace.threads.iter().map(|t| t.key.ring).collect(),
            self_ns: whole,
            more: known - totals.len(),
            rows: &totals,
            damaged: damage::reports(&trace),
        });
    }
    let damaged = damage::reports(&trace);
    let left_out = TakenBack::of_trace(&trace);
    Page::new(look).show(|page| {
        write(page, by, &totals, &overloads, whole, known)?;
        taken_back::write(page, left_out.as_ref())?;
        damage::write(page, &damaged)
    })
}

fn write(
    page: &mut Page,
    by: By,
    totals: &[Totals],
    overloads: &HashMap<String, u32>,
    whole: u64,
    known: usize,
) -> io::Result<()> {
    if totals.is_empty() {
        return page.plain("The selected threads recorded no call in the selected time.");
    }
    let name = |t: &Totals| {
        let parameters = match overloads.get(&t.name) {
            Some(2..) => t.parameters.as_str(),
            _ => "",
        };
        let sampled = match t.sampled {
            0 => "",
            n if n == t.calls => " (sampled)",
            _ => " (partly sampled)",
        };
        format!("{}{parameters}{sampled}", t.name)
    };
    let dim = page.palette.dim;
    // Only where the trace has readings of the threads' counters.
    let has_used = totals.iter().any(|t| t.used.is_some());
    let has_sampled = totals.iter().any(|t| t.sampled > 0);
    let rows: Vec<Vec<Cell>> = totals
        .iter()
        .map(|t| {
            let mut row = vec![
                duration(t.self_ns),
                words::percent(t.self_ns, whole),
                duration(t.total_ns),
            ];
            if has_sampled {
                row.push(duration(t.total_ns.saturating_add(t.total_error_ns)));
            }
            row.extend([duration(t.max_ns), words::count(t.calls)]);
            if has_used {
                let cpu = t.used.map(|u| duration(u.cpu_ns));
                let allocated = t.used.map(|u| words::bytes(u.bytes));
                row.extend([cpu, allocated].map(Option::unwrap_or_default));
            }
            row.push(name(t));
            // A method that waits for work need not be made faster.
            let style = if t.waits_for_work { dim } else { "" };
            row.into_iter()
                .map(|text| Cell::styled(text, style))
                .collect()
        })
        .collect();
    let title = match by {
        By::Method => "method",
        By::Class => "class",
        By::Package => "package",
    };
    let mut columns = vec![
        column("self", Kind::Number),
        column("of all", Kind::Number),
        column("total", Kind::Number),
    ];
    if has_sampled {
        columns.push(column("at most", Kind::Number));
    }
    columns.extend([
        column("longest", Kind::Number),
        column("calls", Kind::Number),
    ]);
    if has_used {
        columns.extend([
            column("CPU", Kind::Number),
            column("allocated", Kind::Number),
        ]);
    }
    columns.push(column(title, Kind::Name));
    page.table(&columns, &rows)?;
    if has_used {
        page.dim(
            "CPU, allocated: of calls of 1 ms and more for which the thread's counters were read",
        )?;
    }
    if has_sampled {
        page.dim(
            "sampled: of calls made of stacks; the stacks around them show that they took no more than \"at most\"",
        )?;
    }
    page.more(known - totals.len())
}
