// SPDX-License-Identifier: Apache-2.0
//! Names for the generated constants.

use hindsight_trace_format::catalogue::{
    FieldKind, CATALOGUE, FRAME_CALLBACKS, STACK_REASONS, TASK_KINDS, VALUE_TYPES, WAIT_KINDS,
    WAIT_RESULTS,
};

/// The choices that several events share.
const SHARED: [(&str, &[&str]); 6] = [
    ("wait kind", WAIT_KINDS),
    ("wait result", WAIT_RESULTS),
    ("task kind", TASK_KINDS),
    ("frame callback", FRAME_CALLBACKS),
    ("stack reason", STACK_REASONS),
    ("value type", VALUE_TYPES),
];

/// Every table of choices, with its name in words.
pub(super) fn choices() -> Vec<(String, &'static [&'static str])> {
    let mut tables: Vec<(String, &[&str])> = Vec::new();
    for spec in CATALOGUE {
        for field in spec.fields {
            let FieldKind::Choice(values) = field.kind else {
                continue;
            };
            let name = match SHARED.iter().find(|(_, shared)| *shared == values) {
                Some((name, _)) => (*name).to_owned(),
                None => format!("{} {}", words(spec.identifier), field.name),
            };
            if !tables.iter().any(|(known, _)| *known == name) {
                tables.push((name, values));
            }
        }
    }
    tables
}

/// `WaitBegin` as words: `wait begin`.
pub(super) fn words(identifier: &str) -> String {
    let mut text = String::new();
    for c in identifier.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The words of a name: `fork-join` has two.
fn split(name: &str) -> impl Iterator<Item = String> + '_ {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// `ForkJoin`.
pub(super) fn camel(name: &str) -> String {
    split(name)
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

/// `fork_join`.
pub(super) fn snake(name: &str) -> String {
    split(name).collect::<Vec<_>>().join("_")
}

/// An event's description in one line.
pub(super) fn line(description: &str) -> String {
    description.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The lines of a comment with this text, each at most `width` characters long after the prefix.
pub(super) fn comment(prefix: &str, text: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length == 0 || length + 1 + word.len() > width {
            if length > 0 {
                lines.push('\n');
            }
            lines.push_str(prefix);
            length = 0;
        }
        lines.push(' ');
        lines.push_str(word);
        length += 1 + word.len();
    }
    lines.push('\n');
    lines
}
