// SPDX-License-Identifier: Apache-2.0
//! `hindsight`: looks into traces that were saved, and turns them into files for other tools.

mod chains;
mod convert;
mod diff;
mod export;
mod info;
mod input;
mod man;
mod open;
mod progress;
mod signatures;
mod summary;
mod text;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

/// Looks into traces of the moments before something went wrong.
#[derive(Parser)]
#[command(
    name = "hindsight",
    version,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done; 1 a file or thread cannot be read, as the message says; 2 wrong usage. \
                  match and diff --exit-code have their own: see their help."
)]
struct Cli {
    #[command(flatten)]
    look: text::Look,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Says what a trace is of: the process, why and when it was saved, its threads, and what was lost
    Info(info::Arguments),
    /// Writes a trace in the format of another tool, such as Perfetto
    Export(export::Arguments),
    /// Writes part of a trace, or the trace of another tool, as a .hindsight file or in any other format
    Convert(convert::Arguments),
    /// Shows a trace in the Perfetto UI
    Open(open::Arguments),
    /// Ranks methods by the time they took
    Top(top::Arguments),
    /// Says in plain words which chain of calls held a thread up, and what other threads did meanwhile
    #[command(visible_alias = "why")]
    Chains(chains::Arguments),
    /// Looks for known bad behaviour: call stacks with thresholds, from a TOML file
    Match(signatures::Arguments),
    /// Compares traces before and after a change: which methods got slower, which calls are new
    Diff(diff::Arguments),
    /// Sums a trace up so that the sum may leave the device when the trace may not
    Summary(summary::Arguments),
    /// Writes completions for a shell
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
    /// Writes manual pages into a folder
    Man(man::Arguments),
}

fn write_json(value: &impl serde::Serialize) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// The code with which a command ends that could not do what it was asked for. Where code 1 is an answer,
/// that is another one.
fn failure(command: &Command) -> ExitCode {
    match command {
        Command::Match(_) => ExitCode::from(2),
        Command::Diff(diff) if diff.exit_code => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let done: Result<()> = match cli.command {
        Command::Info(arguments) => info::run(&arguments, &cli.look),
        Command::Export(arguments) => export::run(&arguments),
        Command::Convert(arguments) => convert::run(&arguments),
        Command::Open(arguments) => open::run(&arguments),
        Command::Top(arguments) => top::run(&arguments, &cli.look),
        Command::Chains(arguments) => chains::run(&arguments, &cli.look),
        Command::Match(arguments) => return signatures::run(&arguments, &cli.look),
        Command::Diff(arguments) => return diff::run(&arguments, &cli.look),
        Command::Summary(arguments) => summary::run(&arguments, &cli.look),
        Command::Completions { shell } => {
            // Into memory first: the generator panics if its output is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hindsight", &mut script);
            io::stdout().lock().write_all(&script)?;
            Ok(())
        }
        Command::Man(arguments) => man::run(&arguments, Cli::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    // Wrong usage has ended with exit code 2 in here.
    let cli = Cli::parse();
    cli.look.color.write_global();
    let failure = failure(&cli.command);
    match run(cli) {
        Ok(code) => code,
        // Whoever read our output has seen enough.
        Err(e) if is_broken_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            // Files that cannot be written are named where that fails: what remains is standard output.
            let e = match e.is::<io::Error>() {
                true => e.context("cannot write the result"),
                false => e,
            };
            let style = text::palette(&io::stderr());
            // Who closed standard error doesn't want to know.
            let _ = writeln!(
                io::stderr(),
                "{}hindsight:{} {}",
                style.strong,
                style.reset,
                with_causes(&e)
            );
            failure
        }
    }
}

/// The error and its causes in one line, without those that the error before has told already.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_kind =
        |e: &(dyn std::error::Error + 'static)| Some(e.downcast_ref::<io::Error>()?.kind());
    error
        .chain()
        .any(|e| io_kind(e) == Some(io::ErrorKind::BrokenPipe))
}
