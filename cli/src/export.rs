// SPDX-License-Identifier: Apache-2.0
//! `hindsight export`

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use hindsight_export::{Options, PERFETTO_MAX_DEPTH};

use crate::{find_thread, text, Input};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// For which tool
    #[arg(long, short, value_enum, default_value_t = Format::Perfetto)]
    format: Format,
    /// Where to write, or - for standard output; next to FILE by default
    #[arg(long, short, value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Only this thread, by id or name; all by default, or the main thread where the format holds one
    #[arg(long, short)]
    thread: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// https://ui.perfetto.dev
    Perfetto,
    /// Nanoscope's text format: one thread
    Nanoscope,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let file = &arguments.input.file;
    let trace = arguments.input.read()?;
    let format = match arguments.format {
        Format::Perfetto => hindsight_export::Format::Perfetto,
        Format::Nanoscope => hindsight_export::Format::Nanoscope,
    };
    let tid = match &arguments.thread {
        Some(wanted) => Some(find_thread(&trace, file, wanted)?.tid),
        None => None,
    };
    let options = Options { tid };
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None => file.with_extension(format.extension()),
    };
    if output == Path::new("-") {
        hindsight_export::write(&trace, format, &options, &mut io::stdout().lock())?;
        return Ok(());
    }
    let summary = hindsight_export::write_file(&trace, format, &options, &output)?;
    anstream::eprintln!(
        "{}: {} calls of {} {}, {}",
        output.display(),
        text::count(summary.slices),
        summary.threads,
        if summary.threads == 1 {
            "thread"
        } else {
            "threads"
        },
        text::bytes(summary.bytes)
    );
    if summary.deep_slices > 0 {
        anstream::eprintln!(
            "note: {} calls are deeper than the {PERFETTO_MAX_DEPTH} levels that Perfetto shows on one track; they are on tracks of their own below the thread's",
            text::count(summary.deep_slices)
        );
    }
    Ok(())
}
