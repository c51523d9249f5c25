// SPDX-License-Identifier: Apache-2.0
//! `hindsight debug`: the questions of `hindsight diagnose` one by one, in a shell or from a script.

mod ask;
mod commands;
mod complete;
mod rules;
mod search;
mod shell;
mod show;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Read as _};
use std::path::PathBuf;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use complete::Completions;
use shell::{Shell, Turn};

use crate::page::Look;
use crate::session::Inputs;

#[derive(Args)]
#[command(
    after_help = "Without --script, and with input that is no terminal, the commands are read from there. help lists them. A \
                  script ends at its first error. Exit codes: 0 done; 1 a file cannot be read, or a command of a script \
                  failed; 2 wrong usage."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    inputs: Inputs,
    /// Read commands from this file, one a line, and end
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Selection")]
    script: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let mut shell = Shell::new(arguments.inputs.open()?);
    if let Some(script) = &arguments.script {
        let cannot_read = || format!("cannot read {}", script.display());
        let file = fs::File::open(script).with_context(cannot_read)?;
        let name = script.display().to_string();
        return run_script(&mut shell, io::BufReader::new(file), &name, look);
    }
    if !io::stdin().is_terminal() {
        return run_script(&mut shell, io::stdin().lock(), "standard input", look);
    }
    interact(&mut shell, look)
}

/// The longest line of a script, bytes.
const LONGEST_LINE: usize = 64 << 10;

/// Runs the commands of a script as they come, each after a line that repeats it.
fn run_script(shell: &mut Shell, mut script: impl BufRead, name: &str, look: &Look) -> Result<()> {
    for number in 1_u64.. {
        let at = || format!("{name}, line {number}");
        let mut line = Vec::new();
        let mut part = script.by_ref().take(LONGEST_LINE as u64 + 1);
        part.read_until(b'\n', &mut line).with_context(at)?;
        if line.is_empty() {
            break;
        }
        ensure!(
            line.len() <= LONGEST_LINE,
            "{}: it has more than {} KiB: is this a script?",
            at(),
            LONGEST_LINE >> 10
        );
        let Ok(line) = std::str::from_utf8(&line) else {
            bail!("{}: it is no text (UTF-8)", at());
        };
        let command = without_comment(line).trim();
        if command.is_empty() {
            continue;
        }
        shell::print(look, &[format!("> {command}")])?;
        let turn = shell.run(command, look);
        match turn.with_context(|| format!("{}: {command}", at()))? {
            Turn::GoOn => {}
            Turn::End => break,
        }
    }
    Ok(())
}

/// A line up to a `#` that begins a word outside of quotation marks.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in line.char_indices() {
        match quote {
            Some(q) if q == c && before != '\\' => quote = None,
            Some(_) => {}
            None if c == '#' && before.is_whitespace() => return &line[..at],
            None if c == '"' || c == '\'' => quote = Some(c),
            None => {}
        }
        before = c;
    }
    line
}

/// Where the history of commands is kept.
fn history() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    Some(state.or_else(home)?.join("hindsight/debug-history"))
}

fn interact(shell: &mut Shell, look: &Look) -> Result<()> {
    let config = Config::builder()
        .max_history_size(1_000)?
        .auto_add_history(true)
        .build();
    let mut editor: Editor<Completions, FileHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Completions::of(shell.opened())));
    let history = history();
    if let Some(file) = &history {
        // There is none at first.
        let _ = editor.load_history(file);
    }
    shell::print(look, &shell.greeting())?;
    loop {
        match editor.readline("hindsight> ") {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => match shell.run(line.trim(), look) {
                Ok(Turn::GoOn) => {}
                Ok(Turn::End) => break,
                Err(e) if crate::output::is_closed_pipe(&e) => return Err(e),
                Err(e) => anstream::eprintln!("error: {e:#}"),
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(e) => return Err(e.into()),
        }
    }
    if let Some(file) = &history {
        let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
        let saved = folder
            .map_err(Into::into)
            .and_then(|()| editor.save_history(file));
        if let Err(e) = saved {
            anstream::eprintln!(
                "note: the history cannot be saved in {}: {e}",
                file.display()
            );
        }
    }
    Ok(())
}
