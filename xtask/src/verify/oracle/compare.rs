// SPDX-License-Identifier: Apache-2.0
//! Two traces of one program as sequences of entries and exits, and the first difference between them.

use std::collections::{BTreeMap, HashMap};

use hindsight_decoder::art_trace::{Action, ArtTrace};
use hindsight_decoder::{Flags, Method, MethodId, Methods, Trace};

/// Number of a method's name, the same in all sequences that share [`Names`].
pub(super) type Name = u32;

/// An entry or an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enter(Name),
    Exit(Name),
}

/// Methods by `class.name(signature)`, so that those of two processes can be compared.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<String, Name>,
    names: Vec<String>,
}

impl Names {
    fn number(&mut self, method: Option<&Method>) -> Name {
        let name = match method {
            Some(method) => format!("{}{}", method.full_name(), method.signature),
            None => "<unknown>".to_owned(),
        };
        *self.numbers.entry(name).or_insert_with_key(|name| {
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

    /// `class.name(signature)`.
    pub(super) fn name(&self, number: Name) -> &str {
        self.names.get(number as usize).map_or("?", String::as_str)
    }
}

/// The events of ART's own tracer from the entry of `main` on, which is a method's name with its signature.
pub(super) fn reference(trace: &ArtTrace, main: &str, names: &mut Names) -> Option<Vec<Step>> {
    let numbers = names.numbers(&trace.methods);
    let number = |method: MethodId| numbers.get(method.0 as usize).copied().unwrap_or(Name::MAX);
    let thread = trace
        .threads
        .iter()
        .find(|thread| thread.name == "main" || thread.tid == trace.pid)?;
    let mut steps = Vec::new();
    let mut depth = 0_usize;
    for event in &thread.events {
        let name = number(event.method);
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

/// The same of our trace of the main thread.
pub(super) fn recorded(trace: &Trace, main: &str, names: &mut Names) -> Option<Vec<Step>> {
    let unknown = names.number(None);
    let numbers = names.numbers(&trace.methods);
    let number = |method: MethodId| numbers.get(method.0 as usize).copied().unwrap_or(unknown);
    let calls = &trace.main_thread()?.slices;
    let is_main = |index: &usize| names.name(number(calls.get(*index).method)) == main;
    let first = (0..calls.len()).find(is_main)?;
    let bottom = calls.get(first).depth;
    let mut steps = Vec::new();
    let mut stack: Vec<(Name, bool)> = Vec::new();
    let leave = |steps: &mut Vec<Step>, (name, ended): (Name, bool)| {
        if ended {
            steps.push(Step::Exit(name));
        }
    };
    for index in first..calls.len() {
        let call = calls.get(index);
        if index > first && call.depth <= bottom {
            break;
        }
        while stack.len() > (call.depth - bottom) as usize {
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
    Some(steps)
}

/// Where two sequences part.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// Index in the reference, and in what was recorded.
    pub(super) at: (usize, usize),
}

/// How often a method's calls were in the reference only, and in the recording only.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Permitted {
    pub(super) missing: BTreeMap<Name, u64>,
    pub(super) additional: BTreeMap<Name, u64>,
}

/// What may differ.
pub(super) struct Rules<'a> {
    /// Whether calls of a method may be in the reference only; what such a call calls may be missing with it.
    pub(super) may_miss: &'a dyn Fn(Name) -> bool,
    /// Whether a call of the first method may be in the recording only, inside of a call of the second.
    pub(super) may_add: &'a dyn Fn(Name, Name) -> bool,
    /// Whether a method of the reference may be what the recording calls by another name.
    pub(super) alias: &'a dyn Fn(Name, Name) -> bool,
}

/// How often a choice is taken back, at most.
const RETRIES: usize = 20_000;

/// In which sequences a frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Both,
    Reference,
    Recording,
}

struct Frame {
    /// Index of its caller, or [`NONE`].
    caller: usize,
    /// As the reference calls it, unless it is in the recording only.
    name: Name,
    /// As the recording calls it.
    recorded_name: Name,
    is_in: In,
}

const NONE: usize = usize::MAX;

/// Adds a frame, and returns its index.
fn push(
    frames: &mut Vec<Frame>,
    caller: usize,
    (name, recorded_name): (Name, Name),
    is_in: In,
) -> usize {
    frames.push(Frame {
        caller,
        name,
        recorded_name,
        is_in,
    });
    frames.len() - 1
}

/// Whether a call of `name` may be in the recording only, with `top` the innermost frame.
fn may_add(rules: &Rules<'_>, frames: &[Frame], mut top: usize, name: Name) -> bool {
    while let Some(frame) = frames.get(top) {
        if (rules.may_add)(name, frame.name) {
            return true;
        }
        top = frame.caller;
    }
    false
}

/// Compares what was recorded with the reference. Where the rules permit that a call is in one of them only, what
/// it calls has to be in both all the same.
///
/// A recorded call is taken for the first one in the reference that it can be. Where that leads to a
/// difference, the newest such choices are tried the other way.
pub(super) fn compare(
    reference: &[Step],
    recorded: &[Step],
    rules: &Rules<'_>,
) -> Result<Permitted, Difference> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut choices: Vec<(usize, usize, usize, usize)> = Vec::new();
    let mut furthest = (0, 0);
    let (mut at, mut other, mut top) = (0, 0, NONE);
    let mut retries = 0;
    let mut skip_now = false;
    while at < reference.len() || other < recorded.len() {
        let expected = reference.get(at).copied();
        let found = recorded.get(other).copied();
        let may_miss = |name| {
            let caller = frames.get(top);
            caller.is_some_and(|caller| caller.is_in == In::Reference) || (rules.may_miss)(name)
        };
        let fits = match (expected, found) {
            (Some(Step::Enter(name)), Some(Step::Enter(its)))
                if !skip_now && (name == its || (rules.alias)(name, its)) =>
            {
                if may_miss(name) {
                    choices.push((at, other, top, frames.len()));
                }
                top = push(&mut frames, top, (name, its), In::Both);
                (at, other) = (at + 1, other + 1);
                true
            }
            (_, Some(Step::Enter(name))) if !skip_now && may_add(rules, &frames, top, name) => {
                top = push(&mut frames, top, (name, name), In::Recording);
                other += 1;
                true
            }
            (Some(Step::Enter(name)), _) if may_miss(name) => {
                top = push(&mut frames, top, (name, name), In::Reference);
                at += 1;
                true
            }
            _ => match frames.get(top) {
                Some(frame) => {
                    let (in_reference, in_recording) =
                        (frame.is_in != In::Recording, frame.is_in != In::Reference);
                    let fits = (!in_reference || expected == Some(Step::Exit(frame.name)))
                        && (!in_recording || found == Some(Step::Exit(frame.recorded_name)));
                    if fits {
                        at += usize::from(in_reference);
                        other += usize::from(in_recording);
                        top = frame.caller;
                    }
                    fits
                }
                None => false,
            },
        };
        skip_now = false;
        if fits {
            continue;
        }
        furthest = furthest.max((at, other));
        retries += 1;
        let choice = if retries < RETRIES {
            choices.pop()
        } else {
            None
        };
        let Some((then, there, caller, length)) = choice else {
            return Err(Difference { at: furthest });
        };
        (at, other, top) = (then, there, caller);
        frames.truncate(length);
        skip_now = true;
    }
    let mut permitted = Permitted::default();
    for frame in &frames {
        let counts = match frame.is_in {
            In::Both => continue,
            In::Reference => &mut permitted.missing,
            In::Recording => &mut permitted.additional,
        };
        *counts.entry(frame.name).or_default() += 1;
    }
    Ok(permitted)
}

#[cfg(test)]
mod tests {
    use super::Step::{Enter, Exit};
    use super::*;

    /// Of the methods for which `may_miss` says so, calls may be missing; 9 may be added inside of 2.
    fn with(
        reference: &[Step],
        recorded: &[Step],
        may_miss: &dyn Fn(Name) -> bool,
    ) -> Result<Permitted, Difference> {
        let may_add = &|name, inside| name == 9 && inside == 2;
        // 70 is 7 by another name.
        let alias = &|name, its| name == 70 && its == 7;
        let rules = Rules {
            may_miss,
            may_add,
            alias,
        };
        compare(reference, recorded, &rules)
    }

    fn missing(name: Name) -> Result<Permitted, Difference> {
        Ok(Permitted {
            missing: BTreeMap::from([(name, 1)]),
            ..Permitted::default()
        })
    }

    const NOTHING: &dyn Fn(Name) -> bool = &|_| false;

    #[test]
    fn equal_sequences() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        assert_eq!(with(&steps, &steps, NOTHING), Ok(Permitted::default()));
    }

    #[test]
    fn a_missing_exit_or_an_additional_call_is_a_difference() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        let without = [Enter(1), Enter(2), Exit(1)];
        assert_eq!(
            with(&steps, &without, NOTHING),
            Err(Difference { at: (2, 2) })
        );
        assert!(with(&without, &steps, NOTHING).is_err());
        assert!(with(&steps[..3], &steps, &|_| true).is_err());
        assert!(with(&steps, &steps[..2], &|_| true).is_err());
    }

    #[test]
    fn only_permitted_calls_may_be_missing() {
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let without_2 = [Enter(1), Enter(3), Exit(3), Exit(1)];
        assert_eq!(with(&steps, &without_2, &|name| name == 2), missing(2));
        assert!(with(&steps, &without_2, &|name| name == 3).is_err());
        // Half a call cannot be missing.
        let without_entry = [Enter(1), Enter(3), Exit(3), Exit(2), Exit(1)];
        assert!(with(&steps, &without_entry, &|name| name == 2).is_err());
    }

    #[test]
    fn a_call_may_be_a_later_one_of_the_same_method() {
        // The outer call of 2 is missing, the inner one was recorded.
        #[rustfmt::skip]
        let steps = [Enter(1), Enter(2), Enter(2), Exit(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let inner = [Enter(1), Enter(2), Exit(2), Enter(3), Exit(3), Exit(1)];
        assert_eq!(with(&steps, &inner, &|name| name == 2), missing(2));
    }

    #[test]
    fn a_call_may_be_added_where_the_rules_say_so_only() {
        let steps = [Enter(1), Enter(2), Exit(2), Exit(1)];
        let inside = [Enter(1), Enter(2), Enter(9), Exit(9), Exit(2), Exit(1)];
        let found = with(&steps, &inside, NOTHING);
        assert_eq!(found.map(|p| p.additional), Ok(BTreeMap::from([(9, 1)])));
        let outside = [Enter(1), Enter(9), Exit(9), Enter(2), Exit(2), Exit(1)];
        assert!(with(&steps, &outside, NOTHING).is_err());
    }

    #[test]
    fn what_a_missing_call_calls_may_be_missing_with_it() {
        let steps = [Enter(1), Enter(2), Enter(3), Exit(3), Exit(2), Exit(1)];
        let without = [Enter(1), Exit(1)];
        assert!(with(&steps, &without, &|name| name == 2).is_ok());
        assert!(with(&steps, &without, &|name| name == 3).is_err());
    }

    #[test]
    fn another_name_of_a_method() {
        let steps = [Enter(1), Enter(70), Exit(70), Exit(1)];
        let named = |name| [Enter(1), Enter(name), Exit(name), Exit(1)];
        assert_eq!(with(&steps, &named(7), NOTHING), Ok(Permitted::default()));
        assert!(with(&steps, &named(8), NOTHING).is_err());
        assert!(with(&named(7), &steps, NOTHING).is_err());
    }
}
