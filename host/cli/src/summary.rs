// SPDX-License-Identifier: Apache-2.0
//! `hindsight summary`

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};
use clap::Args;
use hindsight_analysis::{duration, Histogram, Part, Summary, SUMMARY_SCHEMA};

use crate::input::{read, Mapping, Select};
use crate::progress;
use crate::text::{self, column, Cell, Kind, Look, Page};
use crate::write_json;

/// Summaries of a fleet are larger than those of a trace, but not without bounds.
const MAX_BYTES: u64 = 256 << 20;
/// Rows of methods in the text.
const SHOWN: usize = 10;

#[derive(Args)]
pub(crate) struct Arguments {
    /// .hindsight files, or summaries, which are added up
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    mapping: Mapping,
    #[command(flatten)]
    select: Select,
    /// How many methods of the main thread, and of the others, are listed for each trace
    #[arg(long, short = 'n', default_value_t = 500, value_name = "METHODS")]
    limit: usize,
    /// Write JSON, as described in docs/summary.md, to this file
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write JSON, as described in docs/summary.md
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let mut sum = Summary::default();
    let bar = progress::bar(arguments.files.len());
    for file in &arguments.files {
        bar.set_message(file.display().to_string());
        sum.merge(&summary(file, arguments)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(output) = &arguments.output {
        write_file(output, &sum).with_context(|| format!("cannot write {}", output.display()))?;
    }
    if arguments.json {
        return write_json(&sum);
    }
    let mut page = Page::new(look);
    write(&mut page, &sum)?;
    page.flush()?;
    Ok(())
}

/// Of a trace, or one that was made earlier.
fn summary(file: &Path, arguments: &Arguments) -> Result<Summary> {
    if !is_json(file) {
        let trace = read(file, &arguments.mapping)?;
        let trace = arguments.select.apply(trace, file)?;
        return Ok(Summary::of(&trace, arguments.limit));
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
        text::bytes(MAX_BYTES)
    );
    let summary: Summary = serde_json::from_str(&json)
        .with_context(|| format!("{}: not a trace, and no summary", file.display()))?;
    ensure!(
        summary.schema == SUMMARY_SCHEMA,
        "{}: its schema is {:?}; this program reads {SUMMARY_SCHEMA:?}",
        file.display(),
        summary.schema
    );
    ensure!(
        arguments.select.is_everything(),
        "{}: of a summary, no part can be chosen: leave out --thread, --from, --to and --depth",
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
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(io::BufWriter::new(&mut file), sum)?;
    writeln!(file)?;
    file.persist(output)?;
    Ok(())
}

fn write(page: &mut Page, sum: &Summary) -> io::Result<()> {
    let named = |names: &std::collections::BTreeMap<String, u64>| {
        let all: Vec<String> = names
            .iter()
            .map(|(name, &n)| match sum.traces {
                1 => name.clone(),
                _ => format!("{name} ({})", text::count(n)),
            })
            .collect();
        all.join(", ")
    };
    page.facts(&[
        ("traces", text::count(sum.traces)),
        ("of", named(&sum.programs)),
        ("on", named(&sum.isas)),
    ])?;
    for (title, part) in [("Main thread", &sum.main), ("Other threads", &sum.others)] {
        if part.threads > 0 {
            writeln!(page)?;
            write_part(page, title, part)?;
        }
    }
    if !sum.stalls.is_empty() {
        writeln!(page)?;
        page.strong("What held main threads up")?;
        let rows: Vec<Vec<Cell>> = sum
            .stalls
            .iter()
            .take(SHOWN)
            .map(|s| {
                let unknown = || "?".to_owned();
                vec![
                    text::count(s.durations.count()).into(),
                    about(&s.durations, 0.5).into(),
                    about(&s.durations, 1.0).into(),
                    s.chain.last().cloned().unwrap_or_else(unknown).into(),
                    s.culprit.clone().unwrap_or_else(unknown).into(),
                ]
            })
            .collect();
        let columns = [
            column("times", Kind::Number),
            column("half under", Kind::Number),
            column("longest", Kind::Number),
            column("in", Kind::Name),
            column("culprit", Kind::Name),
        ];
        page.table(&columns, &rows)?;
    }
    writeln!(page)?;
    page.dim("That is all that --json and --output write: no threads' names, texts, paths, ids or times of day.")
}

/// Histograms know times to a quarter of an octave.
fn about(durations: &Histogram, part: f64) -> String {
    match durations.count() {
        0 => "–".to_owned(),
        _ => format!("~{}", duration(durations.quantile(part))),
    }
}

fn write_part(page: &mut Page, title: &str, part: &Part) -> io::Result<()> {
    let listed_calls: u64 = part
        .methods
        .iter()
        .map(|m| m.calls)
        .fold(0, u64::saturating_add);
    let threads = text::counted(part.threads, "thread", "threads");
    let calls = text::counted(
        listed_calls.saturating_add(part.unlisted.calls),
        "call",
        "calls",
    );
    let span = duration(part.span_ns);
    page.strong(&format!("{title}: {threads}, {span}, {calls}"))?;
    let rows: Vec<Vec<Cell>> = part
        .methods
        .iter()
        .take(SHOWN)
        .map(|m| {
            vec![
                duration(m.self_ns).into(),
                text::percent(m.self_ns, part.span_ns).into(),
                text::count(m.calls).into(),
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
        column("half under", Kind::Number),
        column("99 % under", Kind::Number),
        column("method", Kind::Name),
    ];
    page.table(&columns, &rows)?;
    if part.methods.len() > SHOWN {
        let more = text::count((part.methods.len() - SHOWN) as u64);
        page.dim(&format!("… and {more} more in the JSON"))?;
    }
    Ok(())
}
