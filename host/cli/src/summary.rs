// SPDX-License-Identifier: Apache-2.0
//! `hindsight summary`: per-method statistics without personal data, safe to upload.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use clap::Args;
use hindsight_analysis::{Histogram, Part, Summary, SUMMARY_SCHEMA};

use crate::batch::{Failure, Seen};
use crate::damage;
use crate::input::Reading;
use crate::output::{self, unless_closed, write_json};
use crate::page::{column, Cell, Kind, Look, Page};
use crate::progress;
use crate::select::Select;
use crate::taken_back::{self, TakenBack};
use crate::words::{self, duration};

/// Largest summary that is read, bytes: the sum of a fleet's summaries is far smaller.
const MAX_BYTES: u64 = 256 << 20;
/// Most rows of methods, and of stalls, in the text.
const SHOWN: usize = 10;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Traces, or summaries; they are added up
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// The number of methods to list for the main thread, and for the others, of each trace
    #[arg(long, short = 'n', default_value_t = 500, value_name = "METHODS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    select: Select,
    /// Write JSON, as described in docs/summary.md, to this file
    #[arg(long, short, help_heading = "Output", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write JSON, as described in docs/summary.md
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<ExitCode> {
    let mut sum = Summary::default();
    let mut failed = Vec::new();
    let bar = progress::bar(arguments.files.len());
    let mut seen = Seen::default();
    for file in &arguments.files {
        bar.set_message(file.display().to_string());
        // Summaries of different traces may be equal.
        if !is_json(file) && seen.repeats(file) {
            bar.inc(1);
            continue;
        }
        match summary(file, arguments) {
            Ok(summary) => sum.merge(&summary),
            Err(e) => failed.push(Failure::report(file, &e)),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let code = match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    };
    // A sum of nothing is no summary.
    if failed.len() == arguments.files.len() {
        return Ok(code);
    }
    if let Some(output) = &arguments.output {
        write_file(output, &sum)?;
    }
    let shown = if arguments.json {
        write_json(&sum)
    } else {
        Page::new(look).show(|page| {
            write(page, &sum)?;
            taken_back::write(page, TakenBack::of_summary(&sum).as_ref())
        })
    };
    unless_closed(shown)?;
    Ok(code)
}

/// The summary of a trace; or one that was made earlier.
fn summary(file: &Path, arguments: &Arguments) -> Result<Summary> {
    if !is_json(file) {
        let trace = arguments.reading.read(file)?;
        damage::note(&trace, file);
        let trace = arguments.select.apply(trace, file)?;
        return Ok(Summary::of(&trace, arguments.limit as usize));
    }
    let cannot = || format!("cannot read {}", file.display());
    let mut json = String::new();
    let input = std::fs::File::open(file).with_context(cannot)?;
    input
        .take(MAX_BYTES + 1)
        .read_to_string(&mut json)
        .with_context(cannot)?;
    ensure!(
        json.len() as u64 <= MAX_BYTES,
        "{}: more than {} is too long for a summary",
        file.display(),
        words::bytes(MAX_BYTES)
    );
    // A newer schema may lack fields of this one.
    let schema = serde_json::from_str::<serde_json::Value>(&json).ok();
    let schema = schema.and_then(|json| Some(json.get("schema")?.as_str()?.to_owned()));
    if let Some(schema) = schema {
        ensure!(
            schema == SUMMARY_SCHEMA,
            "{}: its schema is {schema:?}; this program reads {SUMMARY_SCHEMA:?}",
            file.display()
        );
    }
    let summary: Summary = serde_json::from_str(&json)
        .with_context(|| format!("{}: neither a trace nor a summary", file.display()))?;
    ensure!(
        arguments.select.is_everything(),
        "{}: no part of a summary can be selected: leave out --thread, --from, --to and --depth",
        file.display()
    );
    Ok(summary)
}

fn is_json(file: &Path) -> bool {
    let mut first = [0];
    let is_open = std::fs::File::open(file).and_then(|mut f| f.read_exact(&mut first));
    is_open.is_ok() && first == *b"{"
}

fn write_file(output: &Path, sum: &Summary) -> Result<()> {
    output::write_file(output, |file| {
        serde_json::to_writer_pretty(&mut *file, sum)?;
        writeln!(file)
    })
}

fn write(page: &mut Page, sum: &Summary) -> io::Result<()> {
    let named = |names: &std::collections::BTreeMap<String, u64>| {
        let all: Vec<String> = names
            .iter()
            .map(|(name, &n)| match sum.traces {
                1 => name.clone(),
                _ => format!("{name} ({})", words::count(n)),
            })
            .collect();
        all.join(", ")
    };
    let mut facts = vec![
        ("traces", words::count(sum.traces)),
        ("programs", named(&sum.programs)),
        ("instruction sets", named(&sum.isas)),
    ];
    if sum.damaged > 0 {
        let parts = words::counted(sum.damaged, "part", "parts");
        facts.push((
            "damaged",
            format!("{parts} of the traces, so calls are missing here"),
        ));
    }
    page.facts(&facts)?;
    for (title, part) in [("Main thread", &sum.main), ("Other threads", &sum.others)] {
        if part.threads > 0 {
            writeln!(page)?;
            write_part(page, title, part)?;
        }
    }
    if !sum.stalls.is_empty() {
        writeln!(page)?;
        page.strong("Stalls of main threads")?;
        let rows: Vec<Vec<Cell>> = sum
            .stalls
            .iter()
            .take(SHOWN)
            .map(|s| {
                let unknown = || "unknown".to_owned();
                vec![
                    words::count(s.durations.count()).into(),
                    about(&s.durations, 0.5).into(),
                    about(&s.durations, 1.0).into(),
                    s.chain.last().cloned().unwrap_or_else(unknown).into(),
                    s.culprit.clone().unwrap_or_else(unknown).into(),
                ]
            })
            .collect();
        let columns = [
            column("times", Kind::Number),
            column("median", Kind::Number),
            column("longest", Kind::Number),
            column("in", Kind::Name),
            column("culprit", Kind::Name),
        ];
        page.table(&columns, &rows)?;
    }
    writeln!(page)?;
    page.dim("--json and --output write such facts of more methods, and no others: no names of threads, texts, paths, ids or times of day.")
}

/// A quantile; histograms have times to a quarter of an octave.
fn about(durations: &Histogram, part: f64) -> String {
    match durations.count() {
        0 => "–".to_owned(),
        _ => format!("~{}", duration(durations.quantile(part))),
    }
}

/// A remark on threads whose calls are not counted.
fn events_only(threads: u64) -> String {
    match threads {
        1 => "1 thread recorded events only: its calls are not counted.".to_owned(),
        n => format!(
            "{} threads recorded events only: their calls are not counted.",
            words::count(n)
        ),
    }
}

fn write_part(page: &mut Page, title: &str, part: &Part) -> io::Result<()> {
    let listed_calls: u64 = part
        .methods
        .iter()
        .map(|m| m.calls)
        .fold(0, u64::saturating_add);
    let threads = words::counted(part.threads, "thread", "threads");
    let calls = words::counted(
        listed_calls.saturating_add(part.unlisted.calls),
        "call",
        "calls",
    );
    let span = duration(part.span_ns);
    page.strong(&format!("{title}: {threads}, {span}, {calls}"))?;
    if part.events_only > 0 {
        page.dim(&events_only(part.events_only))?;
    }
    if part.events_only == part.threads && part.methods.is_empty() {
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = part
        .methods
        .iter()
        .take(SHOWN)
        .map(|m| {
            vec![
                duration(m.self_ns).into(),
                words::percent(m.self_ns, part.span_ns).into(),
                words::count(m.calls).into(),
                about(&m.durations, 0.5).into(),
                about(&m.durations, 0.99).into(),
                m.method.clone().into(),
            ]
        })
        .collect();
    let columns = [
        column("self", Kind::Number),
        column("of time", Kind::Number),
        column("calls", Kind::Number),
        column("median", Kind::Number),
        column("p99", Kind::Number),
        column("method", Kind::Name),
    ];
    page.table(&columns, &rows)?;
    if part.methods.len() > SHOWN {
        let more = words::count((part.methods.len() - SHOWN) as u64);
        page.dim(&format!("{more} more in the JSON"))?;
    }
    Ok(())
}
