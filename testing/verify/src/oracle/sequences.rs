// SPDX-License-Identifier: Apache-2.0
//! Traces as sequences of entries and exits.

use std::collections::HashMap;

use hindsight_decoder::art_trace::{Action, ArtTrace};
use hindsight_decoder::{Call, Flags, Method, MethodId, Methods, Trace};

/// Number of a method's name, the same in all sequences that share [`Names`].
pub(super) type Name = u32;

/// An entry or an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enter(Name),
    Exit(Name),
}

/// Methods by `class.name(signature)`, for comparing two processes.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<String, Name>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, method: Option<&Method>) -> Name {
        self.number_of(&match method {
            Some(method) => format!("{}{}", method.full_name(), method.signature),
            None => "<unknown>".to_owned(),
        })
    }

    /// The number of a name.
    pub(super) fn number_of(&mut self, name: &str) -> Name {
        *self
            .numbers
            .entry(name.to_owned())
            .or_insert_with_key(|name| {
                self.names.push(name.clone());
                (self.names.len() - 1) as Name
            })
    }

    fn numbers(&mut self, methods: &Methods) -> Vec<Name> {
        methods
            .iter()
            .map(|(_, method)| self.number(Some(method)))
            .collect()
    }

    /// All names, in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// `class.name(signature)`.
    pub(super) fn name(&self, number: Name) -> &str {
        self.names.get(number as usize).map_or("?", String::as_str)
    }
}

/// The name of a method that is missing in the list of ART's trace. No recorded method has it.
const NO_METHOD: &str = "<not listed>";

/// The events of ART's own tracer from the entry of `main` on; `main` is a name with its signature.
pub(super) fn reference(trace: &ArtTrace, main: &str, names: &mut Names) -> Option<Vec<Step>> {
    let thread = trace
        .threads
        .iter()
        .find(|thread| thread.name == "main" || thread.tid == trace.pid)?;
    let numbers = names.numbers(&trace.methods);
    let none = names.number_of(NO_METHOD);
    let mut steps = Vec::new();
    let mut depth = 0_usize;
    for event in &thread.events {
        let name = number(&numbers, event.method, none);
        match event.action {
            Action::Enter if depth > 0 || names.name(name) == main => {
                steps.push(Step::Enter(name));
                depth += 1;
            }
            Action::Exit | Action::Unwind if depth > 0 => {
                steps.push(Step::Exit(name));
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    (!steps.is_empty()).then_some(steps)
}

fn number(numbers: &[Name], method: MethodId, otherwise: Name) -> Name {
    numbers.get(method.0 as usize).copied().unwrap_or(otherwise)
}

/// The same of our trace of the main thread.
pub(super) fn recorded(trace: &Trace, main: &str, names: &mut Names) -> Option<Vec<Step>> {
    let unknown = names.number(None);
    let numbers = names.numbers(&trace.methods);
    let calls = &trace.main_thread()?.calls;
    let is_main =
        |index: &usize| names.name(number(&numbers, calls.get(*index).method, unknown)) == main;
    let first = (0..calls.len()).find(is_main)?;
    let bottom = calls.get(first).depth;
    let end = (first + 1..calls.len()).find(|&index| calls.get(index).depth <= bottom);
    let calls = (first..end.unwrap_or(calls.len())).map(|index| calls.get(index));
    Some(steps(calls, bottom, |method| {
        number(&numbers, method, unknown)
    }))
}

/// Entries and exits of calls in the order of their entries; calls without an end have no exit.
fn steps(
    calls: impl Iterator<Item = Call>,
    bottom: u32,
    number: impl Fn(MethodId) -> Name,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut stack: Vec<(Name, bool)> = Vec::new();
    let leave = |steps: &mut Vec<Step>, (name, ended): (Name, bool)| {
        if ended {
            steps.push(Step::Exit(name));
        }
    };
    for call in calls {
        while stack.len() > (call.depth.saturating_sub(bottom)) as usize {
            if let Some(top) = stack.pop() {
                leave(&mut steps, top);
            }
        }
        let name = number(call.method);
        steps.push(Step::Enter(name));
        stack.push((name, !call.flags.contains(Flags::OPEN_END)));
    }
    while let Some(top) = stack.pop() {
        leave(&mut steps, top);
    }
    steps
}

/// A thread other than the main thread, in both traces.
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) reference: Vec<Step>,
    pub(super) recorded: Vec<Step>,
    /// Whether both traces have its end.
    pub(super) ended: bool,
}

/// The other threads whose beginnings are in both traces: they began to run Java code while both tracers were on.
pub(super) fn other_threads(art: &ArtTrace, ours: &Trace, names: &mut Names) -> Vec<Pair> {
    let unknown = names.number(None);
    let none = names.number_of(NO_METHOD);
    let expected = names.numbers(&art.methods);
    let found = names.numbers(&ours.methods);
    let mut pairs = Vec::new();
    for thread in &ours.threads {
        if thread.tid == ours.process.pid || thread.stats.overwritten_slots > 0 {
            continue;
        }
        // ART's events have 16 bits of the id, so events of threads with equal bits are mixed.
        let same = |tid: u32| tid & 0xffff == thread.tid & 0xffff;
        let ours_too = ours.threads.iter().filter(|t| same(t.tid)).count();
        let mut theirs = art.threads.iter().filter(|t| same(t.tid));
        let (Some(other), None, 1) = (theirs.next(), theirs.next(), ours_too) else {
            continue;
        };
        let mut depth = 0_i64;
        let mut reference = Vec::new();
        for event in &other.events {
            let name = number(&expected, event.method, none);
            let (step, change) = match event.action {
                Action::Enter => (Step::Enter(name), 1),
                Action::Exit | Action::Unwind => (Step::Exit(name), -1),
            };
            depth += change;
            reference.push(step);
            if depth < 0 {
                break;
            }
        }
        let calls = &thread.calls;
        let open = |flag| (0..calls.len()).any(|index| calls.get(index).flags.contains(flag));
        // It began before the tracers.
        if depth < 0 || reference.is_empty() || calls.is_empty() || open(Flags::OPEN_START) {
            continue;
        }
        let recorded = steps(calls.iter(), 0, |method| number(&found, method, unknown));
        pairs.push(Pair {
            name: thread.name.clone(),
            reference,
            recorded,
            ended: depth == 0 && !open(Flags::OPEN_END),
        });
    }
    pairs
}
