// SPDX-License-Identifier: Apache-2.0
//! Compares the culprit that the diagnosis of a case names with the one of its description.

use anyhow::{Context as _, Result};
use hindsight_causality::diagnosis::{diagnose, Culprit, Diagnosis, Role, StuckQuestion};
use hindsight_causality::{Graph, Session, ThreadId};
use hindsight_lab::cases::Recording;

use crate::expected::{Expected, Kind, Party};

/// What the diagnosis says of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It names the culprit of the description.
    Right,
    /// It names none.
    Unknown,
    /// It names another one, or another thread is said to be stuck.
    Wrong(String),
}

/// Asks the recordings of a case for the culprit, with no question but the default one, and compares.
///
/// # Errors
/// If a recording cannot be read.
pub fn answer(expected: &Expected, recordings: &[Recording]) -> Result<Answer> {
    let files: Vec<_> = recordings.iter().map(|r| &r.file).collect();
    let session = Session::open(&files).context("the recordings")?;
    let graph = Graph::build(&session).context("the graph")?;
    let judge = Judge {
        session: &session,
        expected,
        recordings,
    };
    let found = diagnose(&session, &graph, &StuckQuestion::default());
    Ok(match found {
        Some(found) => judge.judge(&graph, &found),
        None => Answer::Wrong("no stall is found".to_owned()),
    })
}

struct Judge<'a> {
    session: &'a Session,
    expected: &'a Expected,
    recordings: &'a [Recording],
}

impl Judge<'_> {
    fn judge(&self, graph: &Graph, found: &Diagnosis) -> Answer {
        let answer = &self.expected.answer;
        let stuck = found.found.stretch.thread;
        let is_circle = answer.kind == Kind::Circular;
        // In a circle it does not matter with whom one begins.
        let mut victims = match is_circle {
            true => answer.chain.iter(),
            false => std::slice::from_ref(&answer.victim).iter(),
        };
        if !victims.any(|party| self.is(party, stuck)) {
            return Answer::Wrong(format!("{} is said to be stuck", self.name(stuck)));
        }
        let Some(culprit) = &found.verdict.culprit else {
            return Answer::Unknown;
        };
        let is_right = match is_circle {
            true => self.is_circle(culprit),
            false => self.is_last(graph, culprit),
        };
        match is_right {
            true => Answer::Right,
            false => Answer::Wrong(self.words(culprit)),
        }
    }

    /// Whether all threads of the circle are among the culprits, and one of the methods is named.
    fn is_circle(&self, culprit: &Culprit) -> bool {
        let answer = &self.expected.answer;
        let is_among = |party: &Party| culprit.threads.iter().any(|t| self.is(party, t.thread));
        let methods = culprit.threads.iter().filter_map(|t| t.method.as_ref());
        matches!(culprit.role, Role::Circle { .. })
            && answer.chain.iter().all(is_among)
            && methods.into_iter().any(|m| answer.methods.contains(m))
    }

    /// Whether the culprit is the last one of the chain, in one of the methods, or, if none is named, in its work.
    fn is_last(&self, graph: &Graph, culprit: &Culprit) -> bool {
        let answer = &self.expected.answer;
        let ([one], Some(last)) = (&culprit.threads[..], answer.chain.last()) else {
            return false;
        };
        let is_there = match (&one.method, &last.class) {
            (Some(method), _) => answer.methods.contains(method),
            (None, Some(class)) => one
                .work
                .is_some_and(|n| self.session.string(graph.node(n).what) == class),
            (None, None) => false,
        };
        self.is(last, one.thread) && is_there
    }

    fn is(&self, party: &Party, thread: ThreadId) -> bool {
        self.process(thread) == Some(&party.process)
            && self.session.thread_name(thread) == party.thread
    }

    /// The name of a thread's process in the case.
    fn process(&self, thread: ThreadId) -> Option<&String> {
        let file = self.session.file(self.session.about(thread).trace());
        let of_file = self.recordings.iter().find(|r| r.file == file);
        of_file.map(|r| &r.process)
    }

    fn name(&self, thread: ThreadId) -> String {
        let process = self.process(thread).map_or("?", |p| p);
        format!("{process}/{}", self.session.thread_name(thread))
    }

    fn words(&self, culprit: &Culprit) -> String {
        let threads = culprit.threads.iter().map(|t| {
            let method = t.method.as_deref().unwrap_or("no method");
            format!("{} in {method}", self.name(t.thread))
        });
        let threads: Vec<String> = threads.collect();
        format!("{}, {:?}", threads.join(" and "), culprit.role)
    }
}

#[cfg(test)]
mod tests {
    use hindsight_decoder::Extension as E;
    use hindsight_testkit::Script;

    use super::*;

    const MS: u64 = 1_000_000;
    const SLEEP: u64 = 2;
    const PARK: u64 = 3;

    /// What is said of a process whose main thread waits in this way for a second, in a message of `app.Screen`.
    fn asked(kind: u64, last: &str) -> Answer {
        let mut script = Script::new("app");
        let screen = script.method("app.Screen.handle", "()V");
        let main = script.events_thread(1, "main", 1);
        let wait = [("kind", kind), ("number", 1)];
        let ends = [("kind", kind), ("number", 1), ("result", 1)];
        script
            .at(main, 10 * MS)
            .event(E::MessageDispatched, &[("message", 1), ("class", screen)])
            .event(E::WaitBegin, &wait)
            .at(1_010 * MS)
            .event(E::WaitEnd, &ends)
            .event(E::MessageDone, &[("message", 1)]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("process.hindsight");
        std::fs::write(&file, script.encode()).unwrap();
        let process = "process".to_owned();
        let expected = format!(
            r#"
            requirement = ""
            about = ""
            process = [{{ name = "process", class = "app.Main" }}]
            recorded = []
            [answer]
            victim = {{ process = "process", thread = "main" }}
            kind = "blocked"
            least-ms = 1000
            chain = [{last}]
            methods = []
            trigger = {{ kind = "message", from = {{ process = "process", thread = "main" }}, class = "" }}
            "#
        );
        let expected: Expected = toml::from_str(&expected).unwrap();
        answer(&expected, &[Recording { process, file }]).unwrap()
    }

    #[test]
    fn another_culprit_than_that_of_the_description_is_wrong() {
        let main = r#"{ process = "process", thread = "main", class = "app.Screen" }"#;
        assert_eq!(asked(SLEEP, main), Answer::Right);
        assert_eq!(asked(PARK, main), Answer::Unknown);
        for other in [
            r#"{ process = "process", thread = "other", class = "app.Screen" }"#,
            r#"{ process = "process", thread = "main", class = "app.Other" }"#,
            r#"{ process = "other", thread = "main", class = "app.Screen" }"#,
        ] {
            assert!(matches!(asked(SLEEP, other), Answer::Wrong(_)), "{other}");
        }
    }
}
