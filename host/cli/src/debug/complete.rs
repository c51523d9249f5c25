// SPDX-License-Identifier: Apache-2.0
//! Completion of commands, options and names.

use std::collections::BTreeSet;

use hindsight_causality::NodeKind;
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::commands::{find, COMMANDS};
use crate::session::Opened;

/// What words may be completed to.
pub(super) struct Completions {
    threads: Vec<String>,
    processes: Vec<String>,
}

impl Completions {
    pub(super) fn of(opened: &Opened) -> Self {
        let session = &opened.session;
        let threads: BTreeSet<&str> = session
            .thread_ids()
            .map(|t| session.thread_name(t))
            .collect();
        let traces = 0..session.traces().len();
        let processes: BTreeSet<String> = traces
            .map(|t| hindsight_causality::story::process_name(session, t))
            .collect();
        Completions {
            threads: threads.into_iter().map(str::to_owned).collect(),
            processes: processes.into_iter().collect(),
        }
    }

    /// What the last word of `line` may become, and where it begins.
    fn words(&self, line: &str) -> (usize, Vec<String>) {
        let start = line.rfind(' ').map_or(0, |at| at + 1);
        let word = &line[start..];
        let possible: Vec<String> = if start == 0 {
            COMMANDS.iter().map(|c| c.name.to_owned()).collect()
        } else {
            let command = line.split_whitespace().next().unwrap_or_default();
            match find(command) {
                Ok(command) if command.name == "help" => {
                    COMMANDS.iter().map(|c| c.name.to_owned()).collect()
                }
                Ok(command) => self.values(command.options, word),
                Err(_) => Vec::new(),
            }
        };
        let fits = possible.into_iter().filter(|p| p.starts_with(word));
        (start, fits.collect())
    }

    fn values(&self, options: &[&str], word: &str) -> Vec<String> {
        let named = |option: &str, values: &[String]| -> Vec<String> {
            let quoted = |v: &String| match v.contains(' ') {
                true => format!("{option}\"{v}\""),
                false => format!("{option}{v}"),
            };
            values.iter().map(quoted).collect()
        };
        if word.starts_with("thread=") {
            return named("thread=", &self.threads);
        }
        if word.starts_with("process=") {
            return named("process=", &self.processes);
        }
        if word.starts_with("kind=") {
            return NodeKind::ALL
                .iter()
                .map(|k| format!("kind={}", k.name()))
                .collect();
        }
        options.iter().map(|o| (*o).to_owned()).collect()
    }
}

impl Completer for Completions {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.words(line.get(..at).unwrap_or(line)))
    }
}

impl Hinter for Completions {
    type Hint = String;
}

impl Highlighter for Completions {}
impl Validator for Completions {}
impl Helper for Completions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_options_and_names_are_completed() {
        let of = Completions {
            threads: vec!["main".into(), "two words".into()],
            processes: vec!["app".into()],
        };
        let words = |line: &str| of.words(line).1;
        assert_eq!(words("no"), ["nodes", "node"]);
        assert_eq!(words("help sl"), ["slice"]);
        assert_eq!(words("nodes th"), ["thread="]);
        assert_eq!(words("nodes thread=m"), ["thread=main"]);
        assert_eq!(
            words("nodes thread="),
            ["thread=main", "thread=\"two words\""]
        );
        assert_eq!(words("nodes limit=3 kind=me"), ["kind=message"]);
        assert!(words("nosuch x").is_empty());
    }
}
