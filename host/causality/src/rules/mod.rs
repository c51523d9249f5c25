// SPDX-License-Identifier: Apache-2.0
//! What the user knows about the programs: rules that change the graph.

mod libraries;
mod list;
mod pattern;

use hindsight_decoder::library_rules;
use serde::Deserialize;
use toml::Spanned;

pub use list::RuleList;
use pattern::Text;
pub(crate) use pattern::{identity, Pattern};

use crate::graph::{EdgeClass, Reason};
use crate::session::Session;

/// The most rules of a file.
const MOST_RULES: usize = 256;
/// The largest file, bytes.
const MOST_BYTES: usize = 256 << 10;

/// Rules that change the graph of a session. They are read from a TOML file:
///
/// ```toml
/// # The thread takes requests of many clients from a queue, in one piece of work: each begins a node.
/// [[split]]
/// process = "com.example.server"
/// thread = "Batcher*"
/// event = "item taken"
///
/// # This work is a part of the node before it.
/// [[merge]]
/// event = "work begins"
/// name = "trace section *"
///
/// # The writer causes what the reader does: events of the same object, one for one. With `split = true` the effect begins a
/// # node of its own.
/// [[edge]]
/// from = { event = "rule begins", name = "queue-put" }
/// to = { event = "rule ends", name = "queue-take" }
/// identity = true
///
/// # A lock that hands work over: its edges are causes.
/// [[strong]]
/// reason = "lock"
/// from = { class = "com.example.Producer*" }
///
/// # Edges that lead nowhere.
/// [[weak]]
/// reason = "wake-up"
/// from = { thread = "Timer-*" }
/// [[ignore]]
/// reason = "next"
/// to = { thread = "Daemon*" }
///
/// # Waits of these threads do not end their nodes: they have low priority, and are stopped in the midst of their work.
/// [[priority]]
/// thread = "Background*"
/// ```
///
/// A pattern has `process`, `thread`, `event` (its name, as `hindsight events` shows it), `class`, `name` (of a mark or of a
/// rule of the device), and `stack` (a frame of the stack that was taken at the event). `*` stands for any text, `?` for one
/// character. What is left out fits everything. Of `strong`, `weak` and `ignore` a pattern is for nodes: it has `process`,
/// `thread` and `class`.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) split: Vec<Pattern>,
    pub(crate) merge: Vec<Pattern>,
    pub(crate) priority: Vec<Pattern>,
    pub(crate) edges: Vec<EdgeRule>,
    pub(crate) changes: Vec<ChangeRule>,
}

/// Joins two events.
#[derive(Clone, Debug)]
pub(crate) struct EdgeRule {
    pub(crate) from: Pattern,
    pub(crate) to: Pattern,
    /// Whether both events name the same identity.
    pub(crate) identity: bool,
    /// Whether the effect begins a node of its own, also inside work. If it begins a call, its end begins another one.
    pub(crate) split: bool,
}

/// Changes edges that there are.
#[derive(Clone, Debug)]
pub(crate) struct ChangeRule {
    pub(crate) reason: Option<Reason>,
    pub(crate) from: Pattern,
    pub(crate) to: Pattern,
    /// The new class; `None`: the edge is left out.
    pub(crate) class: Option<EdgeClass>,
}

/// Why a rules file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RulesError {
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong, and what helps.
    pub message: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    split: Vec<Spanned<Text>>,
    merge: Vec<Spanned<Text>>,
    priority: Vec<Spanned<Text>>,
    edge: Vec<Spanned<EdgeText>>,
    strong: Vec<Spanned<ChangeText>>,
    weak: Vec<Spanned<ChangeText>>,
    ignore: Vec<Spanned<ChangeText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeText {
    from: Text,
    to: Text,
    #[serde(default)]
    identity: bool,
    #[serde(default)]
    split: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText {
    reason: Option<String>,
    #[serde(default)]
    from: Text,
    #[serde(default)]
    to: Text,
}

impl Rules {
    /// From the text of a rules file.
    ///
    /// # Errors
    /// If it is no TOML, too large, or has a rule that makes no sense: the error names its line.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        if text.len() > MOST_BYTES {
            return Err(RulesError {
                line: 1,
                message: format!(
                    "the file has more than {} KiB: give fewer rules",
                    MOST_BYTES >> 10
                ),
            });
        }
        let error = |at: usize, message: String| RulesError {
            line: line(text, at),
            message,
        };
        let file: File = toml::from_str(text)
            .map_err(|e| error(e.span().map_or(0, |s| s.start), e.message().to_owned()))?;
        let events = |all: &[Spanned<Text>]| {
            let all = all.iter().map(|rule| {
                let of = of_events(rule.get_ref());
                of.map_err(|message| error(rule.span().start, message))
            });
            all.collect::<Result<Vec<_>, _>>()
        };
        let mut rules = Rules {
            split: events(&file.split)?,
            merge: events(&file.merge)?,
            ..Rules::default()
        };
        for rule in &file.priority {
            let of = of_threads(rule.get_ref());
            let of = of.map_err(|message| error(rule.span().start, message))?;
            rules.priority.push(of);
        }
        for rule in &file.edge {
            let of = EdgeRule::new(rule.get_ref());
            let of = of.map_err(|message| error(rule.span().start, message))?;
            rules.edges.push(of);
        }
        let changes = [
            (&file.strong, Some(EdgeClass::Strong)),
            (&file.weak, Some(EdgeClass::Weak)),
            (&file.ignore, None),
        ];
        for (all, class) in changes {
            for rule in all {
                let of = ChangeRule::new(rule.get_ref(), class);
                let of = of.map_err(|message| error(rule.span().start, message))?;
                rules.changes.push(of);
            }
        }
        match rules.len() > MOST_RULES {
            true => Err(error(
                0,
                format!("the file has more than {MOST_RULES} rules: use * to make one of several"),
            )),
            false => Ok(rules),
        }
    }

    /// These rules, after those for the queues of libraries if one of the traces has events of
    /// [their rules on the device](hindsight_decoder::library_rules).
    #[must_use]
    pub fn with_libraries(self, session: &Session) -> Self {
        let mut strings = session.traces().flat_map(|t| &t.strings.strings);
        match strings.any(|text| text.starts_with(library_rules::PREFIX)) {
            // A test parses the text.
            true => Rules::parse(libraries::TEXT)
                .unwrap_or_default()
                .and_then_those(self),
            false => self,
        }
    }

    /// These rules, and others after them.
    fn and_then_those(mut self, later: Self) -> Self {
        self.split.extend(later.split);
        self.merge.extend(later.merge);
        self.priority.extend(later.priority);
        self.edges.extend(later.edges);
        self.changes.extend(later.changes);
        self
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        let of_events = self.split.len() + self.merge.len() + self.priority.len();
        of_events + self.edges.len() + self.changes.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl EdgeRule {
    fn new(text: &EdgeText) -> Result<Self, String> {
        Ok(EdgeRule {
            from: of_events(&text.from)?,
            to: of_events(&text.to)?,
            identity: text.identity,
            split: text.split,
        })
    }
}

impl ChangeRule {
    fn new(text: &ChangeText, class: Option<EdgeClass>) -> Result<Self, String> {
        let reason = match &text.reason {
            None => None,
            Some(name) => Some(reason(name)?),
        };
        Ok(ChangeRule {
            reason,
            from: of_nodes(&text.from)?,
            to: of_nodes(&text.to)?,
            class,
        })
    }
}

fn reason(name: &str) -> Result<Reason, String> {
    let found = Reason::ALL.into_iter().find(|r| r.name() == name);
    found.ok_or_else(|| {
        let all: Vec<&str> = Reason::ALL.iter().map(|r| r.name()).collect();
        let name: String = name.chars().take(64).collect();
        let all = all.join(", ");
        format!("there is no reason \"{name}\": use one of {all}")
    })
}

fn of_events(text: &Text) -> Result<Pattern, String> {
    let pattern = Pattern::new(text)?;
    match pattern.has_event() {
        true => Ok(pattern),
        false => Err("the pattern has no event: add event = \"…\"".to_owned()),
    }
}

fn of_threads(text: &Text) -> Result<Pattern, String> {
    let pattern = Pattern::new(text)?;
    match pattern.is_of_threads() {
        true => Ok(pattern),
        false => Err("a priority is of threads: leave out event, class, name and stack".to_owned()),
    }
}

fn of_nodes(text: &Text) -> Result<Pattern, String> {
    let pattern = Pattern::new(text)?;
    match pattern.is_of_nodes() {
        true => Ok(pattern),
        false => Err("the pattern is of nodes: leave out event, name and stack".to_owned()),
    }
}

/// The line, from 1 on, of a place in a text.
fn line(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or_default();
    1 + before.iter().filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Rules::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_line_and_what_helps() {
        for (text, expected) in [
            ("[[split]]\nevent = ", "line 2: "),
            (
                "\n[[split]]\nthread = \"a\"",
                "line 2: the pattern has no event: add",
            ),
            (
                "[[split]]\nevent = \"nothing\"",
                "line 1: there is no event \"nothing\": ",
            ),
            (
                "[[split]]\nevent = \"mark\"\n[[cut]]\n",
                "line 3: unknown field `cut`, expected",
            ),
            (
                "[[weak]]\nreason = \"luck\"",
                "line 1: there is no reason \"luck\": use one of message",
            ),
            (
                "[[weak]]\nfrom = { event = \"mark\" }",
                "line 1: the pattern is of nodes: leave out",
            ),
            (
                "[[priority]]\nclass = \"A\"",
                "line 1: a priority is of threads: leave out",
            ),
        ] {
            let said = refused(text);
            assert!(said.starts_with(expected), "{text}: {said}");
        }
    }

    #[test]
    fn hostile_files_are_refused() {
        let long = format!(
            "[[split]]\nevent = \"mark\"\nthread = \"{}\"",
            "*a".repeat(400)
        );
        assert!(
            refused(&long).contains("more than 512 bytes"),
            "{}",
            refused(&long)
        );
        let many = "[[split]]\nevent = \"mark\"\n".repeat(257);
        assert!(
            refused(&many).contains("more than 256 rules"),
            "{}",
            refused(&many)
        );
        assert!(refused(&"#".repeat(300 << 10)).contains("more than 256 KiB"));
    }
}
