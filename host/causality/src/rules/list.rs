// SPDX-License-Identifier: Apache-2.0
//! Rules one by one, so that they can be added, shown, taken away and saved.

use std::fmt::Write as _;

use super::{Rules, RulesError};

/// One rule: its kind, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    /// Names such as `from.class`, and their values.
    says: Vec<(String, Said)>,
}

/// The value of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Text(String),
    Flag(bool),
}

/// Rules in an order of their own, each of which is known to make sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList {
    entries: Vec<Entry>,
}

impl RuleList {
    /// The rules of a file, sorted by their kinds. Its comments are not kept.
    ///
    /// # Errors
    /// As [`Rules::parse`].
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        Rules::parse(text)?;
        let refused = |message: String| RulesError { line: 1, message };
        let file: toml::Table = toml::from_str(text).map_err(|e| refused(e.to_string()))?;
        let mut entries = Vec::new();
        for (kind, rules) in &file {
            // All that the parser accepts is an array of tables.
            for rule in rules.as_array().into_iter().flatten() {
                let mut says = Vec::new();
                for (name, value) in rule.as_table().into_iter().flatten() {
                    collect(name, value, &mut says);
                }
                let kind = kind.clone();
                entries.push(Entry { kind, says });
            }
        }
        Ok(RuleList { entries })
    }

    /// A rule from words: its kind, then `NAME=VALUE`, such as `strong reason=lock from.class=app.Producer*`; of a flag the name
    /// alone.
    ///
    /// # Errors
    /// If there is no such kind or name, or a value makes no sense.
    pub fn of_words(words: &[String]) -> Result<Self, RulesError> {
        let refused = |message: String| RulesError { line: 1, message };
        let Some((kind, words)) = words.split_first() else {
            return Err(refused("the rule is empty: begin with its kind".to_owned()));
        };
        let is_name = |name: &str| {
            let mut letters = name.chars();
            !name.is_empty() && letters.all(|c| c.is_ascii_lowercase() || c == '.')
        };
        let mut says: Vec<(String, Said)> = Vec::new();
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Said::Text(value.to_owned())),
                None => (word.as_str(), Said::Flag(true)),
            };
            if !is_name(name) || says.iter().any(|(n, _)| n == name) {
                let word: String = word.chars().take(64).collect();
                return Err(refused(format!(
                    "{word:?} is no part of a rule, or there twice: write NAME=VALUE, as in reason=lock or from.class=app.*"
                )));
            }
            says.push((name.to_owned(), value));
        }
        if !is_name(kind) || kind.contains('.') {
            return Err(refused(
                "the kind comes first: split, merge, priority, edge, strong, weak or ignore"
                    .to_owned(),
            ));
        }
        let kind = kind.clone();
        let list = RuleList {
            entries: vec![Entry { kind, says }],
        };
        Rules::parse(&list.text())?;
        Ok(list)
    }

    /// Adds rules behind the others.
    ///
    /// # Errors
    /// If there are too many then; none is added.
    pub fn add(&mut self, other: RuleList) -> Result<(), RulesError> {
        let before = self.entries.len();
        self.entries.extend(other.entries);
        let checked = Rules::parse(&self.text());
        if checked.is_err() {
            self.entries.truncate(before);
        }
        checked.map(|_| ())
    }

    /// Takes the rule with this index away; whether there was one.
    pub fn remove(&mut self, index: usize) -> bool {
        let is_there = index < self.entries.len();
        if is_there {
            self.entries.remove(index);
        }
        is_there
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The words of each rule, as [`RuleList::of_words`] takes them.
    pub fn words(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        self.entries.iter().map(|entry| {
            let says = entry.says.iter().filter_map(|(name, said)| match said {
                Said::Text(text) => Some(format!("{name}={text}")),
                Said::Flag(true) => Some(name.clone()),
                Said::Flag(false) => None,
            });
            [entry.kind.clone()].into_iter().chain(says).collect()
        })
    }

    /// A rules file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "[[{}]]", entry.kind);
            for (name, said) in &entry.says {
                let _ = match said {
                    Said::Text(value) => writeln!(text, "{name} = {}", quoted(value)),
                    Said::Flag(flag) => writeln!(text, "{name} = {flag}"),
                };
            }
        }
        text
    }

    /// The rules, for the graph.
    ///
    /// # Errors
    /// Never, as each rule was checked.
    pub fn rules(&self) -> Result<Rules, RulesError> {
        Rules::parse(&self.text())
    }
}

/// The values below a name. The parser knows tables in tables only.
fn collect(name: &str, value: &toml::Value, says: &mut Vec<(String, Said)>) {
    match value {
        toml::Value::String(text) => says.push((name.to_owned(), Said::Text(text.clone()))),
        toml::Value::Boolean(flag) => says.push((name.to_owned(), Said::Flag(*flag))),
        toml::Value::Table(table) => {
            for (inner, value) in table {
                match value {
                    toml::Value::String(text) => {
                        says.push((format!("{name}.{inner}"), Said::Text(text.clone())));
                    }
                    toml::Value::Boolean(flag) => {
                        says.push((format!("{name}.{inner}"), Said::Flag(*flag)));
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    const FILE: &str = "# A comment.\n[[strong]]\nreason = \"lock\"\nfrom = { class = \"app.P*\" }\n[[edge]]\nfrom.event = \
                        \"mark\"\nto = { event = \"mark\", name = \"a \\\"b\\\" \\u0007\" }\nidentity = true\n";

    #[test]
    fn rules_are_the_same_as_a_file_as_words_and_as_text() {
        let list = RuleList::parse(FILE).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!(RuleList::parse(&list.text()).unwrap(), list);
        let all: Vec<Vec<String>> = list.words().collect();
        assert_eq!(
            all[1],
            words("strong from.class=app.P* reason=lock"),
            "{all:?}"
        );
        assert_eq!(all[0][3], "to.event=mark");
        assert_eq!(all[0][4], "to.name=a \"b\" \u{7}");
        let mut again = RuleList::default();
        for rule in &all {
            again.add(RuleList::of_words(rule).unwrap()).unwrap();
        }
        assert_eq!(again.text(), list.text());
        assert_eq!(again.rules().unwrap().len(), 2);
        assert!(again.remove(0) && !again.remove(1));
        assert_eq!(again.len(), 1);
    }

    #[test]
    fn rules_of_words_that_make_no_sense_are_refused() {
        for (rule, expected) in [
            ("nosuch thread=a", "unknown field `nosuch`"),
            ("split thread=a", "the pattern has no event: add"),
            ("strong reason=luck", "there is no reason \"luck\""),
            ("strong colour=red", "unknown field `colour`"),
            ("weak reason=lock reason=lock", "there twice"),
            ("weak Reason=lock", "is no part of a rule"),
            ("weak identity", "unknown field `identity`"),
            ("[[weak]] reason=lock", "the kind comes first"),
        ] {
            let error = RuleList::of_words(&words(rule)).unwrap_err();
            assert!(error.message.contains(expected), "{rule}: {error}");
        }
        assert!(RuleList::of_words(&[]).is_err());
        let hostile = ["weak".to_owned(), "a\n[[ignore]]\nb=c".to_owned()];
        assert!(RuleList::of_words(&hostile).is_err());
    }

    #[test]
    fn rules_beyond_the_most_are_not_added() {
        let one = RuleList::of_words(&words("ignore reason=lock")).unwrap();
        let mut list = RuleList::default();
        for _ in 0..super::super::MOST_RULES {
            list.add(one.clone()).unwrap();
        }
        let error = list.add(one).unwrap_err();
        assert!(error.message.contains("more than 256 rules"), "{error}");
        assert_eq!(list.len(), super::super::MOST_RULES);
    }
}
