// SPDX-License-Identifier: Apache-2.0
//! `hindsight export`: a trace in the format of another tool.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Result};
use clap::{Args, ValueEnum};
use hindsight_export::{Written, MAX_LEVELS, PERFETTO_MAX_DEPTH};
use serde::Serialize;

use crate::damage;
use crate::input::Input;
use crate::output::{write_json, OutputError};
use crate::progress;
use crate::select::Select;
use crate::words;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// The format; default: the one that the name of OUTPUT says, or Perfetto
    #[arg(long, short, value_enum, help_heading = "Output")]
    format: Option<Format>,
    /// The file to write, or - for standard output; default: next to FILE
    #[arg(long, short, help_heading = "Output", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Report what was written as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Format {
    /// https://ui.perfetto.dev (.pftrace)
    Perfetto,
    /// Chrome's trace event JSON (.chrome.json)
    Chrome,
    /// https://profiler.firefox.com (.firefox.json.gz)
    Firefox,
    /// https://www.speedscope.app (.speedscope.json)
    Speedscope,
    /// Folded stacks, for flame graphs (.folded)
    Folded,
    /// pprof (.pb.gz)
    Pprof,
    /// Tables for DuckDB, DataFusion, pandas: a folder (.parquet)
    Parquet,
    /// Nanoscope's text format: one thread (.nanoscope.txt)
    Nanoscope,
    /// Hindsight's own format, for part of a trace (.hindsight)
    Hindsight,
}

impl From<Format> for hindsight_export::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Perfetto => hindsight_export::Format::Perfetto,
            Format::Chrome => hindsight_export::Format::Chrome,
            Format::Firefox => hindsight_export::Format::Firefox,
            Format::Speedscope => hindsight_export::Format::Speedscope,
            Format::Folded => hindsight_export::Format::Folded,
            Format::Pprof => hindsight_export::Format::Pprof,
            Format::Parquet => hindsight_export::Format::Parquet,
            Format::Nanoscope => hindsight_export::Format::Nanoscope,
            Format::Hindsight => hindsight_export::Format::Hindsight,
        }
    }
}

/// The contents of the output.
#[derive(Serialize)]
struct Report {
    output: PathBuf,
    format: String,
    threads: u64,
    calls: u64,
    calls_deeper_than_a_track: u64,
    /// Too deep for the format, or of threads that are left out.
    calls_left_out: u64,
    threads_left_out: u64,
    events_left_out: u64,
    /// Made of stacks, and not told from exact ones.
    unmarked_sampled_calls: u64,
    chains: u64,
    bytes: u64,
}

/// The format: by its name, or by the name of the output.
fn format_of(arguments: &Arguments) -> Result<hindsight_export::Format> {
    match (arguments.format, &arguments.output) {
        (Some(format), _) => Ok(format.into()),
        (None, Some(output)) if output != Path::new("-") => format_of_name(output),
        _ => Ok(hindsight_export::Format::Perfetto),
    }
}

/// The format that the name of a file says.
pub(crate) fn format_of_name(output: &Path) -> Result<hindsight_export::Format> {
    if let Some(format) = hindsight_export::Format::of_name(output) {
        return Ok(format);
    }
    let known: Vec<String> = hindsight_export::Format::ALL
        .iter()
        .map(|f| format!(".{}", f.extension()))
        .collect();
    bail!(
        "{}: no format has this extension: use one of {}, or hindsight export with --format",
        output.display(),
        known.join(", ")
    )
}

/// The name of a format, as `--format` takes it.
fn format_name(format: hindsight_export::Format) -> String {
    format!("{format:?}").to_lowercase()
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file = &arguments.input.file;
    let format = format_of(arguments)?;
    let trace = arguments.input.read()?;
    damage::note(&trace, file);
    let trace = arguments.select.apply(trace, file)?;
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => file.with_extension(format.extension()),
    };
    ensure!(
        output != *file,
        "{}: this is the input: name another output with --output",
        file.display()
    );
    if output == Path::new("-") {
        ensure!(
            !arguments.json,
            "--json writes its report to standard output, where the export goes too: choose a file as the output"
        );
        let mut out = io::stdout().lock();
        ensure!(
            format.is_text() || !out.is_terminal(),
            "the {} format is binary, and standard output is a terminal: choose a file with --output, or a pipe",
            format_name(format)
        );
        let written = hindsight_export::write(&trace, format, &mut out);
        let written = written.map_err(|e| match e {
            hindsight_export::Error::Write(e) => OutputError(e).into(),
            other => anyhow::Error::from(other),
        })?;
        note_differences(&written);
        return Ok(());
    }
    let spinner = progress::spinner(format!("writing {}", output.display()));
    let written = hindsight_export::write_file(&trace, format, &output)?;
    drop(spinner);
    if arguments.json {
        note_differences(&written);
        return write_json(&Report {
            output,
            format: format_name(format),
            threads: written.threads,
            calls: written.calls,
            calls_deeper_than_a_track: written.deep_calls,
            calls_left_out: written.left_out_calls + written.calls_of_left_out_threads,
            threads_left_out: written.left_out_threads,
            events_left_out: written.left_out_events,
            unmarked_sampled_calls: written.unmarked_sampled_calls,
            chains: written.chains,
            bytes: written.bytes,
        });
    }
    say(&output, &written);
    Ok(())
}

/// Reports on standard error what was written, and what its reader should know.
pub(crate) fn say(output: &Path, written: &Written) {
    anstream::eprintln!(
        "{}: {} of {}{}, {}",
        output.display(),
        words::counted(written.calls, "call", "calls"),
        words::counted(written.threads, "thread", "threads"),
        match written.chains {
            0 => String::new(),
            records => format!(" in {}", words::counted(records, "chain", "chains")),
        },
        words::bytes(written.bytes)
    );
    note_differences(written);
}

/// Notes on standard error if data of the trace is missing or not marked, or calls are on tracks of their own.
pub(crate) fn note_differences(written: &Written) {
    if written.left_out_threads > 0 {
        let (others, calls) = (written.left_out_threads, written.calls_of_left_out_threads);
        anstream::eprintln!(
            "note: this format holds one thread, which --thread chooses; left out: {} with {}",
            words::counted(others, "other thread", "other threads"),
            words::counted(calls, "call", "calls")
        );
    }
    if written.left_out_events > 0 {
        anstream::eprintln!(
            "note: this format has no events other than calls: {} of the thread are left out, and with them the stalls that they tell of",
            words::count(written.left_out_events)
        );
    }
    if written.unmarked_sampled_calls > 0 {
        anstream::eprintln!(
            "note: {} of the calls are made of stacks, so their times are not exact; this format cannot mark them",
            words::count(written.unmarked_sampled_calls)
        );
    }
    if written.left_out_calls > 0 {
        anstream::eprintln!(
            "note: {} calls are deeper than {MAX_LEVELS} levels: they are left out, and their time counts as time of their callers",
            words::count(written.left_out_calls)
        );
    }
    if written.deep_calls > 0 {
        anstream::eprintln!(
            "note: {} calls are deeper than the {PERFETTO_MAX_DEPTH} levels that Perfetto shows on one track: they are on tracks of their own below the thread's",
            words::count(written.deep_calls)
        );
    }
}
