// SPDX-License-Identifier: Apache-2.0
//! The calls that the compiler inlined: read from the log of dex2oat with `-verbose:compiler`.
//!
//! The log has one line, indented by the depth of inlining, for each compiled method, for each call that the inliner
//! tries, and for its result. Calls that were inlined into a call that then was not inlined itself are not in the code.

use std::collections::HashMap;
use std::io::{BufRead, Write};

use anyhow::{Context as _, Result};

/// A method body in compiled code: the compiled method's own, or one inlined into it.
pub(super) type Body = u32;

/// The contents of a body.
#[derive(Default)]
struct Contents {
    /// Inlined calls, by the method as ART prints it.
    inlined: HashMap<String, Body>,
    /// Names with parameters, without classes, of calls that were not inlined.
    left: Vec<String>,
    /// Compiled by pattern, not by building a graph: its callees are unknown.
    pattern: bool,
}

/// A call that the inliner tries.
struct Attempt {
    /// Its name in the dex code.
    callee: String,
    body: Contents,
    /// The calls inlined into it.
    inlined: Vec<(String, Attempt)>,
}

impl Attempt {
    fn new(callee: &str) -> Attempt {
        Attempt {
            callee: callee.to_owned(),
            body: Contents::default(),
            inlined: Vec::new(),
        }
    }
}

/// The result for the calls of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// None is inlined.
    Called,
    /// All calls of the method in this body were inlined, with this body.
    Inlined(Body),
    /// Some were inlined.
    Both(Body),
}

/// The inlined calls of an image or a program.
#[derive(Default)]
pub(super) struct Inlined {
    compiled: HashMap<String, Body>,
    bodies: Vec<Contents>,
}

/// A relevant line of the log.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Building(&'a str),
    Try(usize, &'a str),
    Inlined(usize, &'a str),
    Pattern(usize, &'a str),
    Failed(usize),
}

impl Inlined {
    /// Reads a log. Copies the relevant lines to `kept`.
    pub(super) fn read(log: impl BufRead, mut kept: Option<&mut dyn Write>) -> Result<Inlined> {
        let mut inlined = Inlined::default();
        // Several threads compile, each one method at a time.
        let mut threads: HashMap<String, Vec<Attempt>> = HashMap::new();
        for line in log.split(b'\n') {
            let line = line.context("cannot read dex2oat's log")?;
            let line = String::from_utf8_lossy(&line);
            let Some((thread, what)) = parse(&line) else {
                continue;
            };
            if let Some(kept) = &mut kept {
                writeln!(kept, "{line}").context("cannot keep dex2oat's log")?;
            }
            let stack = threads.entry(thread.to_owned()).or_default();
            if let Line::Building(method) = what {
                inlined.finish(stack);
                stack.push(Attempt::new(method));
            } else {
                step(stack, &what);
            }
        }
        for stack in threads.values_mut() {
            inlined.finish(stack);
        }
        Ok(inlined)
    }

    /// The number of compiled methods.
    pub(super) fn len(&self) -> usize {
        self.compiled.len()
    }

    /// The body of a compiled method.
    pub(super) fn compiled(&self, method: &str) -> Option<Body> {
        self.compiled.get(method).copied()
    }

    /// The result for a body's calls of a method.
    pub(super) fn fate(&self, body: Body, callee: &str) -> Fate {
        let contents = &self.bodies[body as usize];
        match contents.inlined.get(callee) {
            None => Fate::Called,
            Some(&inner) if contents.left.iter().any(|left| left == plain(callee)) => {
                Fate::Both(inner)
            }
            Some(&inner) => Fate::Inlined(inner),
        }
    }

    /// Whether the body's callees are unknown, as the compiler recognized it by a pattern.
    pub(super) fn is_pattern(&self, body: Body) -> bool {
        self.bodies[body as usize].pattern
    }

    /// Adds a compiled method from its stack of attempts.
    fn finish(&mut self, stack: &mut Vec<Attempt>) {
        close(stack, 1);
        if let Some(method) = stack.pop() {
            let name = method.callee.clone();
            let body = self.add(method, None);
            self.compiled.insert(name, body);
        }
    }

    /// Adds a body, or adds to one. Two inlined calls of one method in the same body are merged.
    fn add(&mut self, attempt: Attempt, to: Option<Body>) -> Body {
        let body = to.unwrap_or_else(|| {
            self.bodies.push(Contents::default());
            (self.bodies.len() - 1) as Body
        });
        let contents = &mut self.bodies[body as usize];
        contents.pattern |= attempt.body.pattern;
        contents.left.extend(attempt.body.left);
        for (name, inner) in attempt.inlined {
            let known = self.bodies[body as usize].inlined.get(&name).copied();
            let inner = self.add(inner, known);
            self.bodies[body as usize].inlined.insert(name, inner);
        }
        body
    }
}

/// Adds a line to a thread's attempts; the first one is the compiled method.
fn step(stack: &mut Vec<Attempt>, line: &Line<'_>) {
    match *line {
        Line::Building(_) => {}
        Line::Try(depth, callee) => {
            close(stack, depth + 1);
            // Otherwise the beginning is missing.
            if stack.len() == depth + 1 {
                stack.push(Attempt::new(callee));
            }
        }
        // It stays open until the next one, as another try may follow.
        Line::Failed(depth) => close(stack, depth + 2),
        Line::Inlined(depth, callee) | Line::Pattern(depth, callee) => {
            close(stack, depth + 2);
            if stack.len() != depth + 2 {
                return;
            }
            if let Some(mut attempt) = stack.pop() {
                attempt.body.pattern = matches!(line, Line::Pattern(..));
                if let Some(caller) = stack.last_mut() {
                    caller.inlined.push((callee.to_owned(), attempt));
                }
            }
        }
    }
}

/// Ends the attempts above the lowest `keep`: they did not succeed.
fn close(stack: &mut Vec<Attempt>, keep: usize) {
    while stack.len() > keep.max(1) {
        if let (Some(attempt), Some(caller)) = (stack.pop(), stack.last_mut()) {
            caller.body.left.push(plain(&attempt.callee).to_owned());
        }
    }
}

/// Name and parameters of `int a.B.name(int, long)`, without class: a call may be of another class's method.
fn plain(method: &str) -> &str {
    let end = method.find('(').unwrap_or(method.len());
    let start = method[..end].rfind('.').map_or(0, |dot| dot + 1);
    &method[start..]
}

/// The thread and the meaning of a line, if it is relevant.
fn parse(line: &str) -> Option<(&str, Line<'_>)> {
    let (head, text) = line.split_once("] ")?;
    // `dex2oat I 11-21 17:08:43 PID TID inliner.cc:479`
    let mut fields = head.rsplit(' ');
    let (place, thread) = (fields.next()?, fields.next()?);
    let (file, _) = place.split_once(':')?;
    if file == "optimizing_compiler.cc" {
        let method = text.strip_prefix("Building ")?;
        // One of the 46 intrinsics that are compiled as methods, too.
        let method = method.strip_prefix("intrinsic graph ").unwrap_or(method);
        return Some((thread, Line::Building(method)));
    }
    if file != "inliner.cc" {
        return None;
    }
    let said = text.trim_start();
    // See `HInliner::DepthString`: an odd space makes up for a number of three digits.
    let depth = (text.len() - said.len()) / 2;
    let line = if let Some(callee) = said.strip_prefix("Try inlinining call: ") {
        Line::Try(depth, callee)
    } else if let Some(what) = said.strip_prefix("Success: ") {
        match what.strip_prefix("Successfully replaced pattern of invoke ") {
            Some(callee) => Line::Pattern(depth, callee),
            None => Line::Inlined(depth, what),
        }
    } else if said.starts_with("Fail: ") {
        Line::Failed(depth)
    } else {
        return None;
    };
    Some((thread, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of threads 7 and 8; the text after `|` is as dex2oat indents it.
    fn log(lines: &[&str]) -> Inlined {
        let lines: Vec<String> = lines
            .iter()
            .map(|line| {
                let (place, text) = line.split_once('|').unwrap_or_default();
                let (thread, place) = place.split_once(' ').unwrap_or_default();
                format!("dex2oat I 11-21 17:08:43 100 {thread} {place}] {text}\n")
            })
            .collect();
        Inlined::read(lines.concat().as_bytes(), None).unwrap_or_default()
    }

    const BUILDING: &str = "7 optimizing_compiler.cc:876|Building void A.a()";

    #[test]
    fn what_was_inlined_and_what_was_not() {
        let inlined = log(&[
            BUILDING,
            "7 inliner.cc:479| Try inlinining call: int B.b(int)",
            "7 inliner.cc:479|   Try inlinining call: void C.c()",
            "7 inliner.cc:1533|  Success: void C.c()",
            "7 inliner.cc:1533|Success: int B.b(int)",
            "7 inliner.cc:479| Try inlinining call: void D.d()",
            "7 inliner.cc:606| Fail: no reason",
        ]);
        let a = inlined.compiled("void A.a()").unwrap();
        let Fate::Inlined(b) = inlined.fate(a, "int B.b(int)") else {
            panic!("b was inlined");
        };
        assert!(matches!(inlined.fate(b, "void C.c()"), Fate::Inlined(_)));
        assert_eq!(inlined.fate(a, "void C.c()"), Fate::Called);
        assert_eq!(inlined.fate(a, "void D.d()"), Fate::Called);
    }

    #[test]
    fn what_was_inlined_into_a_call_that_was_not_is_not_inlined() {
        let inlined = log(&[
            BUILDING,
            "7 inliner.cc:479| Try inlinining call: void B.b()",
            "7 inliner.cc:479|   Try inlinining call: void C.c()",
            "7 inliner.cc:1533|  Success: void C.c()",
            "7 inliner.cc:1700|Fail: too big",
            "7 inliner.cc:479| Try inlinining call: void D.d()",
            "7 inliner.cc:1463|Success: Successfully replaced pattern of invoke void D.d()",
        ]);
        let a = inlined.compiled("void A.a()").unwrap();
        assert_eq!(inlined.fate(a, "void B.b()"), Fate::Called);
        assert_eq!(inlined.fate(a, "void C.c()"), Fate::Called);
        let Fate::Inlined(d) = inlined.fate(a, "void D.d()") else {
            panic!("d was inlined");
        };
        assert!(inlined.is_pattern(d) && !inlined.is_pattern(a));
    }

    #[test]
    fn a_method_of_which_some_calls_were_inlined() {
        let inlined = log(&[
            BUILDING,
            "7 inliner.cc:479| Try inlinining call: int B.b(int)",
            "7 inliner.cc:1533|Success: int B.b(int)",
            // A call of what B overrides, which may be B's.
            "7 inliner.cc:479| Try inlinining call: java.lang.Object Base.b(int)",
            "7 inliner.cc:606| Fail: no reason",
        ]);
        let a = inlined.compiled("void A.a()").unwrap();
        assert!(matches!(inlined.fate(a, "int B.b(int)"), Fate::Both(_)));
    }

    #[test]
    fn threads_are_told_apart() {
        let inlined = log(&[
            BUILDING,
            "7 inliner.cc:479| Try inlinining call: void B.b()",
            "8 optimizing_compiler.cc:876|Building void E.e()",
            "8 inliner.cc:479| Try inlinining call: void F.f()",
            "7 inliner.cc:1533|Success: void B.b()",
            "8 inliner.cc:606| Fail: no reason",
        ]);
        let (a, e) = (
            inlined.compiled("void A.a()"),
            inlined.compiled("void E.e()"),
        );
        let (a, e) = (a.unwrap(), e.unwrap());
        assert!(matches!(inlined.fate(a, "void B.b()"), Fate::Inlined(_)));
        assert_eq!(inlined.fate(e, "void F.f()"), Fate::Called);
        assert_eq!(inlined.len(), 2);
    }
}
