// SPDX-License-Identifier: Apache-2.0
//! `hindsight`: looks into traces that were saved, and turns them into files for other tools.

mod chains;
mod export;
mod info;
mod text;
mod top;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use hindsight_decoder::{Thread, Trace};

/// Looks into traces of the moments before something went wrong.
#[derive(Parser)]
#[command(name = "hindsight", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says what a trace is of: the process, why and when it was saved, its threads, and what was lost
    Info(info::Arguments),
    /// Writes a trace in the format of another tool, such as Perfetto
    Export(export::Arguments),
    /// Ranks methods by the time they took
    Top(top::Arguments),
    /// Says in plain words which chain of calls held a thread up, and what other threads did meanwhile
    #[command(visible_alias = "why")]
    Chains(chains::Arguments),
    /// Writes completions for a shell
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

/// The trace, and where results go.
#[derive(Args)]
struct Input {
    /// A .hindsight file
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
}

impl Input {
    fn read(&self) -> Result<Trace> {
        Ok(Trace::open(&self.file)?)
    }
}

/// The thread that is asked for by id or name.
fn find_thread<'a>(trace: &'a Trace, file: &Path, wanted: &str) -> Result<&'a Thread> {
    let by_tid = wanted
        .parse()
        .ok()
        .and_then(|tid: u32| trace.threads.iter().find(|t| t.tid == tid));
    let by_name = || trace.threads.iter().find(|t| t.name == wanted);
    match by_tid.or_else(by_name) {
        Some(thread) => Ok(thread),
        None if trace.threads.is_empty() => bail!("{}: no thread was traced", file.display()),
        None => {
            let present: Vec<String> = trace
                .threads
                .iter()
                .map(|t| format!("{} ({})", t.tid, t.name))
                .collect();
            bail!(
                "{}: there is no thread {wanted:?} in the trace; there are {}",
                file.display(),
                present.join(", ")
            )
        }
    }
}

/// The thread that is asked for, or the main thread, or the first.
fn thread_or_main<'a>(trace: &'a Trace, file: &Path, wanted: Option<&str>) -> Result<&'a Thread> {
    match wanted {
        Some(wanted) => find_thread(trace, file, wanted),
        None => trace
            .main_thread()
            .or(trace.threads.first())
            .with_context(|| format!("{}: no thread was traced", file.display())),
    }
}

fn write_json(value: &impl serde::Serialize) -> Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Info(arguments) => info::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Chains(arguments) => chains::run(&arguments),
        Command::Completions { shell } => {
            // Into memory first: the generator panics if its output is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hindsight", &mut script);
            io::stdout().lock().write_all(&script)?;
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    // Wrong usage has ended with exit code 2 in here.
    let cli = Cli::parse();
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            let style = text::palette(&io::stderr());
            anstream::eprintln!("{}hindsight:{} {e:#}", style.strong, style.reset);
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_kind =
        |e: &(dyn std::error::Error + 'static)| Some(e.downcast_ref::<io::Error>()?.kind());
    error
        .chain()
        .any(|e| io_kind(e) == Some(io::ErrorKind::BrokenPipe))
}
