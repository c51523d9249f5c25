// SPDX-License-Identifier: Apache-2.0
//! The answers that a diagnosis must find: `expected.toml` of the programs in `lab/causality/cases`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use hindsight_analysis::{pairs, spans, FieldValue, Fields, Pairs, Spans};
use hindsight_decoder::{Thread, ThreadEvent, Trace};
use hindsight_lab::cases::{Case, CaseProcess, Recording};
use serde::Deserialize;

/// The description of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Expected {
    /// The number of the requirement.
    pub requirement: String,
    /// What happens, in a sentence.
    pub about: String,
    /// The processes, in the order in which they start.
    pub process: Vec<CaseProcess>,
    /// The fields whose uses a diagnosis may ask for.
    #[serde(default)]
    pub watch: Vec<String>,
    /// The answer.
    pub answer: Answer,
    /// What the answer may leave open.
    #[serde(default)]
    pub unknown: Vec<Unknown>,
    /// What the recordings must have, so that the answer can be found.
    pub recorded: Vec<Fact>,
}

/// The cause of a stall.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Answer {
    /// The thread that does not move: the victim.
    pub victim: Party,
    /// Why it does not move.
    pub kind: Kind,
    /// The length of the stall, at least, in ms. A machine that does other work makes it longer.
    pub least_ms: u64,
    /// Who waits for whom, from the victim to the culprit, both included. One party if the victim itself is the culprit. If `kind`
    /// is `circular`, the last party waits for the first one.
    pub chain: Vec<Party>,
    /// The methods of the culprit's thread that may be named, all of them right.
    pub methods: Vec<String>,
    /// What began the work, or the wait.
    pub trigger: Trigger,
}

/// Why a thread does not move.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It computes.
    Busy,
    /// It waits for a thread, a process or a timeout.
    Blocked,
    /// It tests a condition in a loop.
    Yield,
    /// It waits for a thread that waits for it.
    Circular,
}

/// A thread, at the time of the stall.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Party {
    /// The name of its process in the case.
    pub process: String,
    /// Its name.
    pub thread: String,
    /// The class of the message or task that it runs.
    #[serde(default)]
    pub class: Option<String>,
    /// The code of the transaction that it serves.
    #[serde(default)]
    pub code: Option<u64>,
}

/// What began the work.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trigger {
    /// Its kind.
    pub kind: TriggerKind,
    /// The thread that sent the message, armed the timer …
    pub from: Party,
    /// The class of the message, of the receiver of the input event, or the class that was used for the first time.
    pub class: String,
}

/// The kinds of triggers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum TriggerKind {
    /// A message of another thread.
    Message,
    /// A message with a delay.
    Timer,
    /// A `FileObserver`.
    File,
    /// The initialization of a class.
    FirstUse,
    /// A one-way transaction of another process.
    Broadcast,
    /// Work of a screen that has ended.
    EarlierScreen,
    /// An input event.
    Input,
}

/// A fact that may stay unknown.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unknown {
    /// The fact.
    pub what: String,
    /// Why it is not recorded.
    pub why: String,
}

/// Events that a recording must have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Fact {
    /// The name of the process in the case.
    pub process: String,
    /// The name of the thread.
    pub thread: String,
    /// The event's name, as in docs/events.md.
    pub event: String,
    /// The values of its fields, as text. A thread's is its name.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// The least time from this event, which begins something, to its end, in ms.
    #[serde(default)]
    pub took_ms: u64,
    /// The thread with the other end of its pair, whose cause or effect it is; `PROCESS/THREAD` where that is another
    /// process.
    #[serde(default)]
    pub pair: Option<String>,
    /// Methods that its stack has, the inner ones first.
    #[serde(default)]
    pub stack: Vec<String>,
    /// How many such events there must be.
    #[serde(default = "one")]
    pub least: usize,
    /// Whether it is recorded only if the uses of the case's fields are.
    #[serde(default)]
    pub watched: bool,
}

fn one() -> usize {
    1
}

impl Expected {
    /// Reads the description of a case.
    ///
    /// # Errors
    /// If it cannot be read, or has other keys.
    pub fn of(case: &Case) -> Result<Expected> {
        let file = case.folder.join("expected.toml");
        let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{}", file.display()))
    }
}

/// The facts that the recordings of a case lack, in words.
///
/// # Errors
/// If a recording cannot be read.
pub fn missing(
    expected: &Expected,
    recordings: &[Recording],
    is_watched: bool,
) -> Result<Vec<String>> {
    let traces = recordings.iter().map(|recording| {
        let trace = Trace::open(&recording.file)
            .with_context(|| format!("{}", recording.file.display()))?;
        Ok((recording.process.as_str(), trace))
    });
    let traces: Vec<(&str, Trace)> = traces.collect::<Result<_>>()?;
    let processes: Vec<Process> = traces
        .iter()
        .map(|(name, trace)| Process {
            name,
            trace,
            fields: Fields::new(trace),
            pairs: pairs(trace),
        })
        .collect();
    let facts = expected.recorded.iter();
    let wanted = facts.filter(|fact| is_watched || !fact.watched);
    let lacking = wanted.filter_map(|fact| {
        let found = processes
            .iter()
            .filter(|process| process.name == fact.process)
            .map(|process| process.count(fact, &processes))
            .sum::<usize>();
        (found < fact.least).then(|| {
            format!(
                "{found} of {} events \"{}\" of {}/{}{}",
                fact.least,
                fact.event,
                fact.process,
                fact.thread,
                fact.details()
            )
        })
    });
    Ok(lacking.collect())
}

impl Fact {
    fn details(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.fields {
            text.push_str(&format!(", {name} {value}"));
        }
        if self.took_ms > 0 {
            text.push_str(&format!(", of at least {} ms", self.took_ms));
        }
        if let Some(other) = &self.pair {
            text.push_str(&format!(", in a pair with {other}"));
        }
        if !self.stack.is_empty() {
            text.push_str(&format!(", in {}", self.stack.join(" ← ")));
        }
        text
    }
}

/// Whether what an event begins takes as long as a fact says; also if its end is not recorded.
fn is_long_enough(spans: &Spans, event: usize, fact: &Fact) -> bool {
    let took = spans.begun_by(event).map_or(0, |span| span.duration_ns());
    took >= fact.took_ms * 1_000_000
}

/// A process of a case, with what its recording says.
struct Process<'a> {
    name: &'a str,
    trace: &'a Trace,
    fields: Fields<'a>,
    pairs: Pairs,
}

impl Process<'_> {
    fn count(&self, fact: &Fact, all: &[Process]) -> usize {
        let threads = self.trace.threads.iter();
        let threads = threads.filter(|thread| thread.name == fact.thread);
        threads
            .map(|thread| {
                let spans = spans(thread);
                let events = thread.events.iter().enumerate();
                let fitting = events.filter(|(index, event)| {
                    event.spec().name == fact.event
                        && self.has_fields(event, fact)
                        && is_long_enough(&spans, *index, fact)
                        && self.has_stack(event, fact)
                        && self.has_pair(thread, *index, fact, all)
                });
                fitting.count()
            })
            .sum()
    }

    fn has_fields(&self, event: &ThreadEvent, fact: &Fact) -> bool {
        let values: BTreeMap<&str, FieldValue> = self
            .fields
            .of(event)
            .map(|(field, value)| (field.name, value))
            .collect();
        fact.fields.iter().all(|(name, text)| {
            let value = values.get(name.as_str());
            value.is_some_and(|value| self.text(value) == *text)
        })
    }

    fn text(&self, value: &FieldValue) -> String {
        match value {
            FieldValue::Text(text) => text.clone(),
            FieldValue::Number(n) | FieldValue::Bytes(n) => n.to_string(),
            FieldValue::Identity(id) => format!("{id:#x}"),
            FieldValue::Duration(ns) | FieldValue::Time(ns) => ns.to_string(),
            FieldValue::Flag(flag) => flag.to_string(),
            FieldValue::Thread { tid, thread } => match thread {
                Some(index) => self.trace.threads[*index].name.clone(),
                None => tid.to_string(),
            },
        }
    }

    fn has_stack(&self, event: &ThreadEvent, fact: &Fact) -> bool {
        if fact.stack.is_empty() {
            return true;
        }
        let Some(stack) = event.stack() else {
            return false;
        };
        let mut frames = self.trace.stacks.frames(stack);
        let name = |frame: hindsight_decoder::Frame| self.trace.methods.name(frame.method);
        let mut wanted = fact.stack.iter();
        wanted.all(|method| frames.any(|frame| name(frame) == method.as_str()))
    }

    fn has_pair(&self, thread: &Thread, index: usize, fact: &Fact, all: &[Process]) -> bool {
        let Some(other) = &fact.pair else {
            return true;
        };
        if let Some((process, name)) = other.split_once('/') {
            return all
                .iter()
                .filter(|p| p.name == process)
                .any(|p| p.has_same_transaction(name, &thread.events[index]));
        }
        let ends = self.pairs.pairs.iter().filter_map(|pair| {
            let is_end =
                |end: &hindsight_analysis::End| end.thread == thread.key && end.event == index;
            if is_end(&pair.from) {
                Some(pair.to)
            } else {
                is_end(&pair.to).then_some(pair.from)
            }
        });
        let name = |end: hindsight_analysis::End| self.trace.thread(end.thread).map(|t| &t.name);
        ends.filter_map(name).any(|name| name == other)
    }

    /// Whether a thread has an event with the identity of the same transaction.
    fn has_same_transaction(&self, thread: &str, event: &ThreadEvent) -> bool {
        let identity = event.get("transaction");
        let threads = self.trace.threads.iter().filter(|t| t.name == thread);
        let mut events = threads.flat_map(|t| &t.events);
        identity != 0
            && events.any(|other| {
                other.spec().name.starts_with("transaction") && other.get("transaction") == identity
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::Script;

    /// Two processes: in one a thread sends a message to another, which sends a transaction to the other process.
    fn recordings(folder: &std::path::Path) -> Vec<Recording> {
        let mut app = Script::new("app");
        let run = app.method("a.Task.run", "()V");
        let inner = app.method("a.Task.inner", "()V");
        let (main, sender) = (
            app.events_thread(1, "main", 1),
            app.events_thread(2, "sender", 2),
        );
        app.at(sender, 10).event(
            Extension::MessageEnqueued,
            &[("message", 5), ("for thread", 1)],
        );
        let stack = app.stack(&[(run, 0), (inner, 0)]);
        app.at(main, 20)
            .event(
                Extension::MessageDispatched,
                &[("message", 5), ("class", run), ("what", 7)],
            )
            .after(1)
            .event(Extension::BinderSend, &[("transaction", 9), ("code", 3)])
            .after(1)
            .extension(Extension::Stack, &stack)
            .after(8_000_000)
            .event(Extension::MessageDone, &[("message", 5)]);
        let mut other = Script::new("other");
        let server = other.events_thread(3, "server", 1);
        other
            .at(server, 30)
            .event(Extension::BinderServe, &[("transaction", 9), ("code", 3)]);
        let write = |name: &str, script: &Script| {
            let file = folder.join(name);
            std::fs::write(&file, script.encode()).unwrap();
            Recording {
                process: name.to_owned(),
                file,
            }
        };
        vec![write("app", &app), write("other", &other)]
    }

    fn expected(fact: &str) -> Expected {
        let text = format!(
            r#"
            requirement = "A"
            about = "It waits."
            process = [{{ name = "app", class = "a.App" }}]
            [answer]
            victim = {{ process = "app", thread = "main" }}
            kind = "blocked"
            least-ms = 1
            chain = [{{ process = "app", thread = "main" }}]
            methods = ["a.Task.run"]
            trigger = {{ kind = "first-use", from = {{ process = "app", thread = "main" }}, class = "a.Task" }}
            [[recorded]]
            process = "app"
            thread = "main"
            {fact}
            "#
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn a_fact_is_missing_if_one_of_its_conditions_is_not_met() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let dispatched = "event = \"message dispatched\"";
        let sent = "event = \"transaction sent\"";
        let stack = "event = \"stack\"";
        let facts = [
            (dispatched, "", true),
            (
                dispatched,
                "fields = { class = \"a.Task\", what = \"7\" }",
                true,
            ),
            (
                dispatched,
                "fields = { class = \"a.Task\", what = \"8\" }",
                false,
            ),
            (dispatched, "fields = { class = \"b.Task\" }", false),
            (dispatched, "took-ms = 7", true),
            (dispatched, "took-ms = 9", false),
            (dispatched, "pair = \"sender\"", true),
            (dispatched, "pair = \"main\"", false),
            (dispatched, "least = 2", false),
            (sent, "pair = \"other/server\"", true),
            (sent, "pair = \"other/main\"", false),
            (sent, "pair = \"app/server\"", false),
            (stack, "stack = [\"a.Task.inner\", \"a.Task.run\"]", true),
            (stack, "stack = [\"a.Task.run\", \"a.Task.inner\"]", false),
            (stack, "stack = [\"a.Task.other\"]", false),
            (
                "event = \"message done\"",
                "stack = [\"a.Task.run\"]",
                false,
            ),
        ];
        for (event, condition, is_met) in facts {
            let expected = expected(&format!("{event}\n{condition}"));
            let missing = missing(&expected, &recordings, false).unwrap();
            assert_eq!(
                missing.is_empty(),
                is_met,
                "{event}, {condition}: {missing:?}"
            );
        }
    }

    #[test]
    fn watched_facts_count_only_where_fields_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        let recordings = recordings(folder.path());
        let expected = expected("event = \"field written\"\nwatched = true");
        assert!(missing(&expected, &recordings, false).unwrap().is_empty());
        assert_eq!(missing(&expected, &recordings, true).unwrap().len(), 1);
    }

    #[test]
    fn the_descriptions_of_all_cases_can_be_read() {
        let folder = format!("{}/lab/causality/cases", env!("HINDSIGHT_CHECKOUT"));
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().path().join("expected.toml");
            let text = std::fs::read_to_string(&file).unwrap();
            let expected: Expected = toml::from_str(&text).unwrap();
            let answer = &expected.answer;
            assert_eq!(answer.chain[0], answer.victim, "{}", file.display());
            assert!(!answer.methods.is_empty() && !expected.recorded.is_empty());
            let is_process =
                |party: &Party| expected.process.iter().any(|p| p.name == party.process);
            assert!(answer.chain.iter().all(is_process), "{}", file.display());
            assert!(is_process(&answer.trigger.from), "{}", file.display());
            count += 1;
        }
        // Argus's eleven and Hubble's two: A-64 and A-65 are seven of them.
        assert_eq!(count, 13);
    }
}
