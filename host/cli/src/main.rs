// SPDX-License-Identifier: Apache-2.0
//! `hindsight`: answers questions about saved traces, and turns traces into files for other tools.

mod batch;
mod context;
mod convert;
mod crashes;
mod damage;
mod debug;
mod device;
mod diagnose;
mod diff;
mod event_rate;
mod events;
mod export;
mod info;
mod input;
mod loops;
mod man;
mod matching;
mod open;
mod output;
mod page;
mod places;
mod progress;
mod record;
mod rewinding;
mod select;
mod session;
mod silent;
mod summary;
mod system;
mod taken_back;
mod top;
mod transactions;
mod watch;
mod why;
mod words;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::output::OutputError;

/// Answers questions about Hindsight's traces: why a thread stalled, which methods took the time, what got slower.
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
    look: page::Look,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Describes a trace: the process, why and when it was saved, its threads, and what is not in it
    Info(info::Arguments),
    /// Explains a stall: which chain of calls took the time, and which thread it waited for
    Why(why::Arguments),
    /// Says why a thread does not go on: whom it waited for, over any number of threads and processes, and what led to it
    Diagnose(diagnose::Arguments),
    /// Asks the questions of diagnose one by one, in a shell with history and completion, or from a script
    Debug(debug::Arguments),
    /// The old name of why
    #[command(hide = true)]
    Chains(why::Arguments),
    /// Ranks methods, classes or packages by the time they took
    Top(top::Arguments),
    /// Lists events: waits and who ended them, tasks, messages, frames, resources
    Events(events::Arguments),
    /// Finds what the user did and what it caused, with the path that made them wait
    Transactions(transactions::Arguments),
    /// Shows exceptions that nothing caught, with what the user did before and all that led to them
    Crashes(crashes::Arguments),
    /// Searches traces for known bad behaviour: call stacks with thresholds, from a TOML file
    Match(matching::Arguments),
    /// Compares traces before and after a change: which methods got slower, which calls are new
    Diff(diff::Arguments),
    /// Writes per-method statistics without personal data, safe to upload
    Summary(summary::Arguments),
    /// Records who reads and writes a field of a running process
    Watch(watch::Arguments),
    /// Records the calls of an app of a device for a while
    Record(record::Arguments),
    /// Shows and changes what hindsightd does on a device: status, policy, reports, recording switch
    Device(device::Arguments),
    /// Names the branch and the field that keep a loop of a traced method going
    Loops(loops::Arguments),
    /// Shows a trace in the Perfetto UI
    Open(open::Arguments),
    /// Writes a trace in the format of another tool, such as Perfetto
    Export(export::Arguments),
    /// Writes part of a trace, or the trace of another tool, as a .hindsight file or in any other format
    Convert(convert::Arguments),
    /// Writes completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Writes manual pages into a folder
    Man(man::Arguments),
}

/// Exit code on failure: 2 for `match` and `diff --exit-code`, whose 1 means "found"; else 1.
fn failure(command: &Command) -> ExitCode {
    match command {
        Command::Match(_) => ExitCode::from(matching::FAILED),
        Command::Diff(diff) => diff::failure(diff.exit_code),
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
        Command::Events(arguments) => events::run(&arguments, &cli.look),
        Command::Transactions(arguments) => transactions::run(&arguments, &cli.look),
        Command::Crashes(arguments) => crashes::run(&arguments, &cli.look),
        Command::Why(arguments) => why::run(&arguments, &cli.look),
        Command::Debug(arguments) => debug::run(&arguments, &cli.look),
        Command::Diagnose(arguments) => diagnose::run(&arguments, &cli.look),
        Command::Chains(arguments) => {
            anstream::eprintln!("note: hindsight chains is now called hindsight why");
            why::run(&arguments, &cli.look)
        }
        Command::Loops(arguments) => loops::run(&arguments, &cli.look),
        Command::Record(arguments) => record::run(&arguments),
        Command::Device(arguments) => device::run(&arguments, &cli.look),
        Command::Watch(arguments) => watch::run(&arguments, &cli.look),
        Command::Match(arguments) => return matching::run(&arguments, &cli.look),
        Command::Diff(arguments) => return diff::run(&arguments, &cli.look),
        Command::Summary(arguments) => return summary::run(&arguments, &cli.look),
        Command::Completions { shell } => {
            // Into memory first: the generator panics if its output is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hindsight", &mut script);
            let written = io::stdout().lock().write_all(&script);
            written.map_err(|e| OutputError(e).into())
        }
        Command::Man(arguments) => man::run(&arguments, Cli::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    // On wrong usage, this ends the program with exit code 2.
    let cli = Cli::parse();
    cli.look.color.write_global();
    let failure = failure(&cli.command);
    match run(cli) {
        Ok(code) => code,
        // The reader of our output has seen enough.
        Err(e) if output::is_closed_pipe(&e) => ExitCode::SUCCESS,
        Err(e) => {
            batch::print_error(&e);
            failure
        }
    }
}
