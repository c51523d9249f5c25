// SPDX-License-Identifier: Apache-2.0
//! Why a policy file is refused.

use std::ops::Range;

use toml::de::{DeTable, DeValue};
use toml::Spanned;

/// Why a policy file is refused: the place, the key, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the policy is refused: line {line}, column {column}{}: {problem}",
    of(key)
)]
pub struct PolicyError {
    /// Line of the file, from 1.
    pub line: usize,
    /// Column of the line, in characters, from 1.
    pub column: usize,
    /// The key, with the tables around it, such as `memory.budget-mib`; empty: none in particular.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub problem: String,
}

fn of(key: &str) -> String {
    match key {
        "" => String::new(),
        key => format!(", {key}"),
    }
}

impl PolicyError {
    /// At this byte of the text.
    pub(super) fn at(text: &str, byte: usize, problem: impl Into<String>) -> Self {
        let before = &text[..text.floor_char_boundary_of(byte)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        PolicyError {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
            key: key_at(text, byte),
            problem: problem.into(),
        }
    }

    /// By the parser's account.
    pub(super) fn of_parser(text: &str, error: &toml::de::Error) -> Self {
        let byte = error.span().map_or(0, |span| span.start);
        let problem = error.message().replace('\n', ", ");
        PolicyError::at(text, byte, problem)
    }
}

trait FloorCharBoundary {
    fn floor_char_boundary_of(&self, byte: usize) -> usize;
}

impl FloorCharBoundary for str {
    fn floor_char_boundary_of(&self, byte: usize) -> usize {
        let mut at = byte.min(self.len());
        while !self.is_char_boundary(at) {
            at -= 1;
        }
        at
    }
}

/// The key that this byte of the text belongs to, with the tables around it.
fn key_at(text: &str, byte: usize) -> String {
    let Ok(table) = DeTable::parse(text) else {
        return String::new();
    };
    let mut path = Vec::new();
    in_table(table.get_ref(), byte, &mut path);
    path.join(".")
}

fn has(span: &Range<usize>, byte: usize) -> bool {
    span.contains(&byte) || span.start == byte
}

/// Whether the byte is in the table; then `path` leads there. The deepest key wins, because a table's span may be its header only.
fn in_table(table: &DeTable<'_>, byte: usize, path: &mut Vec<String>) -> bool {
    let deeper = table.iter().any(|(key, value)| {
        path.push(key.get_ref().to_string());
        let found = in_value(value, byte, path) || has(&key.span(), byte);
        if !found {
            path.pop();
        }
        found
    });
    deeper
}

fn in_value(value: &Spanned<DeValue<'_>>, byte: usize, path: &mut Vec<String>) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => in_table(table, byte, path),
        DeValue::Array(array) => array.iter().any(|item| in_value(item, byte, path)),
        _ => false,
    };
    inside || has(&value.span(), byte)
}
