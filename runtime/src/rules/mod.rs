// SPDX-License-Identifier: Apache-2.0
//! Rules: methods whose calls, and fields whose accesses, are events, without a change of the program.

mod parse;

use std::io::Read;
use std::path::{Path, PathBuf};

use hindsight_trace_format::library_rules;

pub use parse::{parse, Identity, Rule, Target, MAX_RULES};

use parse::MAX_FILE;

/// The state of a rule in the managed runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleState {
    /// Its events are recorded.
    On,
    /// Its class is not loaded yet.
    Waits,
    /// It cannot be followed.
    Failed,
}

impl RuleState {
    /// The state's name in the status.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            RuleState::On => "on",
            RuleState::Waits => "waits",
            RuleState::Failed => "failed",
        }
    }
}

/// How the managed runtime follows a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleReport {
    /// The state.
    pub state: RuleState,
    /// Why the rule failed, or what its events may miss; empty if there is nothing to say.
    pub message: String,
}

/// A rule, and the number of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedRule {
    /// The rule.
    pub rule: Rule,
    /// The number of its name among the strings of the trace.
    pub number: u32,
}

/// The rules that are in force, and where they come from.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The file; `None` if rules are off.
    pub(crate) file: Option<PathBuf>,
    /// Why the file could not be used, or empty.
    pub(crate) error: String,
    /// The rules of the file.
    pub(crate) rules: Vec<NumberedRule>,
    /// Methods that detectors watch.
    pub(crate) watched: Vec<NumberedRule>,
}

impl Rules {
    /// All rules, those of the file first.
    pub(crate) fn all(&self) -> Vec<NumberedRule> {
        self.rules.iter().chain(&self.watched).cloned().collect()
    }
}

/// Reads and parses a file, or the rules for libraries if the path is their [name](library_rules::NAME).
///
/// # Errors
/// A message that names the file and, if one is wrong, the line.
pub(crate) fn read(path: &Path) -> Result<Vec<Rule>, String> {
    if path == Path::new(library_rules::NAME) {
        return parse(library_rules::TEXT).map_err(|e| format!("{}:{e}", path.display()));
    }
    let file = std::fs::File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    parse(&text).map_err(|e| format!("{}:{e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_for_libraries_are_there_under_their_name() {
        let rules = read(Path::new("libraries")).unwrap();
        let names = rules.iter().map(|rule| rule.name.as_str());
        let others = names.filter(|name| !name.starts_with(library_rules::PREFIX));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&str>::new());
        // Some are left for the rules that `hindsight watch` adds.
        assert!(
            (20..MAX_RULES - 8).contains(&rules.len()),
            "{}",
            rules.len()
        );
        assert!(read(Path::new("other")).is_err());
    }
}
