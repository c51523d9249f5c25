// SPDX-License-Identifier: Apache-2.0
//! Known bad behaviour, described by patterns of call stacks with thresholds. `docs/signatures.md` describes the format.

use std::ops::Range;

use hindsight_decoder::{Calls, DamagedPart, Flags, MethodId, Methods, Mode, Trace};
use serde::{Deserialize, Serialize};
use toml::Spanned;
use wildmatch::WildMatch;

use crate::time::parse_duration;

/// Stands in a stack for any number of calls, also none.
const ANY: &str = "...";
/// Most patterns of a stack: each is a bit of a word.
const MAX_PATTERNS: usize = 64;

/// Why a file of signatures cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct SignatureError {
    /// Name of the file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The mistake, and the remedy.
    pub what: String,
}

/// A pattern of call stacks, and conditions on the time of its calls.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Its name.
    pub name: String,
    /// The remedy; may be empty.
    pub help: String,
    thread: WildMatch,
    stack: Vec<Frame>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug)]
struct Frame {
    pattern: WildMatch,
    /// Whether the pattern names the types of parameters.
    has_parameters: bool,
    /// Whether any calls may lie between this call and the call of the pattern before it.
    after_any: bool,
}

/// A quantity of the calls that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Their number.
    Calls,
    /// Their average time, ns.
    Mean,
    /// Time of the longest, ns.
    Max,
    /// Their time together, ns.
    Total,
    /// Their time together, relative to the time that the rings of their threads cover, in percent.
    Share,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

#[derive(Clone, Debug)]
struct Condition {
    measure: Measure,
    operator: Operator,
    /// A number, ns, or percent.
    value: f64,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    signature: Option<Vec<Spanned<RawSignature>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSignature {
    name: Spanned<String>,
    #[serde(default)]
    help: String,
    thread: Option<Spanned<String>>,
    stack: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    when: RawConditions,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConditions {
    calls: Option<Spanned<String>>,
    mean: Option<Spanned<String>>,
    max: Option<Spanned<String>>,
    total: Option<Spanned<String>>,
    share: Option<Spanned<String>>,
}

/// Parses a file of signatures; `file` is its name in errors.
///
/// # Errors
/// At the first mistake, with its line and the remedy.
pub fn parse_signatures(file: &str, text: &str) -> Result<Vec<Signature>, SignatureError> {
    let line = |span: Range<usize>| {
        let before = text.get(..span.start).unwrap_or(text);
        before.matches('\n').count() + 1
    };
    let error = |span: Range<usize>, what: String| SignatureError {
        file: file.to_owned(),
        line: line(span),
        what,
    };
    let raw: RawFile = toml::from_str(text).map_err(|e| {
        // The message may have several lines; the error has the place already.
        let what = e.message().trim().replace('\n', "; ");
        error(e.span().unwrap_or(0..0), what)
    })?;
    let raw = raw.signature.unwrap_or_default();
    if raw.is_empty() {
        let what = "there is no [[signature]] in it: add one, with a name and a stack";
        return Err(error(0..0, what.to_owned()));
    }
    let mut signatures: Vec<Signature> = Vec::new();
    for raw in raw {
        let raw = raw.into_inner();
        let name = raw.name.get_ref().trim();
        if name.is_empty() {
            return Err(error(raw.name.span(), "name is empty".into()));
        }
        if signatures.iter().any(|s| s.name == name) {
            let what = format!("there is another signature of the name {name:?}");
            return Err(error(raw.name.span(), what));
        }
        if let Some(thread) = raw.thread.as_ref().filter(|t| t.get_ref().is_empty()) {
            let what = "thread is empty: leave it out for any thread";
            return Err(error(thread.span(), what.into()));
        }
        let stack = frames(&raw.stack).map_err(|(span, what)| error(span, what))?;
        let conditions = conditions(&raw.when).map_err(|(span, what)| error(span, what))?;
        signatures.push(Signature {
            name: name.to_owned(),
            help: raw.help.trim().to_owned(),
            thread: WildMatch::new(raw.thread.as_ref().map_or("*", |t| t.get_ref())),
            stack,
            conditions,
        });
    }
    Ok(signatures)
}

type Wrong = (Range<usize>, String);

fn frames(stack: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<Frame>, Wrong> {
    let mut frames = Vec::new();
    // Any method may call the first one of the pattern.
    let mut after_any = true;
    for pattern in stack.get_ref() {
        let wrong = |what: &str| Err((pattern.span(), what.to_owned()));
        match pattern.get_ref().as_str() {
            ANY => {
                after_any = true;
                continue;
            }
            "" => return wrong("a pattern of the stack is empty; for any calls write \"...\""),
            text if text.chars().any(char::is_whitespace) && !text.contains('(') => {
                return wrong("a pattern of the stack holds a space; write package.Class.method")
            }
            text if text.contains('/') || text.contains(';') || text.contains("->") => {
                return wrong(
                    "a pattern of the stack is written as in a dex file; write package.Class.method",
                )
            }
            text => frames.push(Frame {
                pattern: WildMatch::new(text),
                has_parameters: text.contains('('),
                after_any,
            }),
        }
        after_any = false;
    }
    let wrong = |what: String| Err((stack.span(), what));
    match stack.get_ref().last() {
        None => wrong("stack is empty: name at least the method that is to be measured".into()),
        Some(last) if last.get_ref() == ANY => wrong(
            "the stack ends with \"...\": its last pattern names the method that is measured; \"*\" \
             matches any"
                .into(),
        ),
        Some(_) if frames.len() > MAX_PATTERNS => {
            wrong(format!("the stack has more than {MAX_PATTERNS} patterns"))
        }
        Some(_) => Ok(frames),
    }
}

fn conditions(raw: &RawConditions) -> Result<Vec<Condition>, Wrong> {
    let all = [
        (Measure::Calls, &raw.calls),
        (Measure::Mean, &raw.mean),
        (Measure::Max, &raw.max),
        (Measure::Total, &raw.total),
        (Measure::Share, &raw.share),
    ];
    let given = all.into_iter().filter_map(|(m, c)| Some((m, c.as_ref()?)));
    given
        .map(|(measure, condition)| {
            let text = condition.get_ref().trim();
            Condition::parse(measure, text).ok_or_else(|| {
                let example = match measure {
                    Measure::Calls => ">= 3",
                    Measure::Share => ">= 10 %",
                    _ => "> 100 ms",
                };
                let what = format!(
                    "{text:?} is no condition: write >=, >, <= or <, and a value, such as \"{example}\""
                );
                (condition.span(), what)
            })
        })
        .collect()
}

impl Condition {
    fn parse(measure: Measure, text: &str) -> Option<Self> {
        let operators = [
            (">=", Operator::AtLeast),
            ("<=", Operator::AtMost),
            (">", Operator::MoreThan),
            ("<", Operator::LessThan),
        ];
        let (value, operator) = operators
            .into_iter()
            .find_map(|(sign, operator)| Some((text.strip_prefix(sign)?.trim(), operator)))?;
        let value = match measure {
            Measure::Calls => value.parse::<u32>().ok()?.into(),
            Measure::Share => {
                let percent: f64 = value.strip_suffix('%')?.trim().parse().ok()?;
                Some(percent).filter(|p| (0.0..=100.0).contains(p))?
            }
            _ => parse_duration(value)? as f64,
        };
        Some(Condition {
            measure,
            operator,
            value,
            text: text.to_owned(),
        })
    }

    /// Whether the condition holds for the matching calls of a trace; `None` if that is not known.
    ///
    /// A sampled call was made once or more often, and its time is not known exactly. So sampled calls, and calls that
    /// they miss, can only add to the number of the exact ones, to their time together and to the longest.
    fn check(&self, found: &Found) -> Option<bool> {
        let holds = match self.measure {
            Measure::Calls => self.holds(found.value(Measure::Calls)),
            // Without calls there is no time to compare.
            _ => found.calls > 0 && self.holds(found.value(self.measure)),
        };
        let at_least = matches!(self.operator, Operator::AtLeast | Operator::MoreThan);
        let is_known = match self.measure {
            Measure::Calls => holds == at_least,
            Measure::Max | Measure::Total => found.calls > 0 && holds == at_least,
            Measure::Mean | Measure::Share => false,
        };
        (!found.is_inexact() || is_known).then_some(holds)
    }

    fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::AtLeast => value >= self.value,
            Operator::MoreThan => value > self.value,
            Operator::AtMost => value <= self.value,
            Operator::LessThan => value < self.value,
        }
    }
}

/// The result of looking for a signature in a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the signature.
    pub signature: String,
    /// Whether calls of its stack were found, and all conditions hold. False if that is `unknown`.
    pub matched: bool,
    /// Whether a match cannot be told; [`Finding::unknown_because`] says why.
    pub unknown: bool,
    /// Why a match cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_because: Option<Unknown>,
    /// The remedy; may be empty.
    pub help: String,
    /// Number of calls of the stack, without sampled ones, as are the times below. A call inside another one of the same
    /// signature doesn't count.
    pub calls: u64,
    /// Number of sampled calls of the stack, found in stacks of threads that recorded events only: so many calls or more
    /// were made.
    pub sampled_calls: u64,
    /// Their time together, ns.
    pub total_ns: u64,
    /// Their average time, ns.
    pub mean_ns: u64,
    /// Time of the longest, ns.
    pub max_ns: u64,
    /// Their time together, relative to the time that the rings of their threads cover, in percent.
    pub share: f64,
    /// The conditions, and whether they hold.
    pub conditions: Vec<Checked>,
    /// The longest call.
    pub longest: Option<Example>,
}

/// Why it cannot be told whether a signature matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unknown {
    /// The trace is damaged, and the missing calls or names may change the answer.
    Damaged,
    /// Calls of its stack were found in stacks only: their number and times are not known exactly.
    Sampled,
    /// Its threads recorded events only.
    EventsOnly,
}

/// A condition, checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The quantity.
    pub measure: Measure,
    /// The condition as written: `>= 100 ms`.
    pub wanted: String,
    /// The value, in ns, percent, or calls.
    pub value: f64,
    /// Whether the condition is known to hold.
    pub holds: bool,
}

/// A call that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Thread id.
    pub tid: u32,
    /// The thread's ring, which identifies it: ids and names may repeat.
    pub ring: u32,
    /// Thread name.
    pub thread: String,
    /// When it began, ns after the beginning of the trace.
    pub at_ns: u64,
    /// Its duration, ns.
    pub ns: u64,
    /// Whether its end is in the trace.
    pub ended: bool,
    /// Whether it was found in stacks, so that its times are not exact.
    pub sampled: bool,
    /// Its callers, outermost first, and itself.
    pub stack: Vec<String>,
}

/// The calls of a signature's stack in a trace.
#[derive(Default)]
struct Found {
    /// Number of exact calls.
    calls: u64,
    /// Their time together, ns.
    total_ns: u64,
    /// The time that the rings of their threads cover, ns.
    span_ns: u64,
    /// The longest of them: its time, ns, index of its thread, and its index.
    longest: Option<(u64, usize, usize)>,
    /// Number of sampled calls.
    sampled: u64,
    /// The longest of them.
    longest_sampled: Option<(u64, usize, usize)>,
    /// Whether all of the signature's threads recorded events only, so that calls may be missing.
    events_only: bool,
}

impl Found {
    /// Whether there may be more calls than the exact ones.
    fn is_inexact(&self) -> bool {
        self.sampled > 0 || self.events_only
    }

    fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.calls).unwrap_or(0)
    }

    fn max_ns(&self) -> u64 {
        self.longest.map_or(0, |l| l.0)
    }

    fn share(&self) -> f64 {
        self.total_ns as f64 * 100.0 / self.span_ns.max(1) as f64
    }

    /// The least value that is known, of sampled calls their number only.
    fn value(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Calls => (self.calls + self.sampled) as f64,
            Measure::Mean => self.mean_ns() as f64,
            Measure::Max => self.max_ns() as f64,
            Measure::Total => self.total_ns as f64,
            Measure::Share => self.share(),
        }
    }
}

impl Signature {
    /// Looks for the signature's calls in a trace.
    pub fn find(&self, trace: &Trace) -> Finding {
        let found = self.found(trace);
        let checked: Vec<Option<bool>> = self.conditions.iter().map(|c| c.check(&found)).collect();
        let counts = self.conditions.iter().any(|c| c.measure == Measure::Calls);
        let is_called = match found.calls + found.sampled {
            0 if !counts && found.is_inexact() => None,
            calls => Some(calls > 0 || counts),
        };
        let mut answers = checked.iter().copied().chain([is_called]);
        let matched = answers.clone().all(|answer| answer == Some(true));
        let is_open = !matched && answers.all(|answer| answer != Some(false));
        // Calls that are missing cannot undo a match, except of a condition with an upper limit.
        let is_limit = |c: &Condition| matches!(c.operator, Operator::AtMost | Operator::LessThan);
        let may_change = !matched || self.conditions.iter().any(is_limit);
        let unknown = if may_change && self.may_miss_calls(trace) {
            Some(Unknown::Damaged)
        } else if is_open && found.sampled > 0 {
            Some(Unknown::Sampled)
        } else {
            is_open.then_some(Unknown::EventsOnly)
        };
        let conditions = self.conditions.iter().zip(checked);
        let conditions = conditions.map(|(c, holds)| Checked {
            measure: c.measure,
            wanted: c.text.clone(),
            value: found.value(c.measure),
            holds: holds == Some(true),
        });
        let longest = found.longest.or(found.longest_sampled);
        Finding {
            signature: self.name.clone(),
            matched: matched && unknown.is_none(),
            unknown: unknown.is_some(),
            unknown_because: unknown,
            help: self.help.clone(),
            calls: found.calls,
            sampled_calls: found.sampled,
            total_ns: found.total_ns,
            mean_ns: found.mean_ns(),
            max_ns: found.max_ns(),
            share: found.share(),
            conditions: conditions.collect(),
            longest: longest.map(|(ns, t, i)| example(trace, t, i, ns)),
        }
    }

    /// The calls of the signature's stack.
    fn found(&self, trace: &Trace) -> Found {
        let masks = self.masks(&trace.methods);
        let mut found = Found::default();
        let mut has_exact = false;
        for (t, thread) in trace.threads.iter().enumerate() {
            if !self.thread.matches(&thread.name) {
                continue;
            }
            match thread.mode {
                Mode::Events => found.events_only = true,
                Mode::Calls | Mode::Both => has_exact = true,
            }
            let mut called = false;
            self.matches(&thread.calls, &masks, |i| {
                let ns = thread.calls.end_ns[i] - thread.calls.start_ns[i];
                let is_sampled = thread.calls.flags[i].contains(Flags::SAMPLED);
                let longest = match is_sampled {
                    true => &mut found.longest_sampled,
                    false => &mut found.longest,
                };
                if longest.is_none_or(|(most, ..)| ns > most) {
                    *longest = Some((ns, t, i));
                }
                if is_sampled {
                    found.sampled += 1;
                    return;
                }
                called = true;
                found.calls += 1;
                found.total_ns += ns;
            });
            if called {
                found.span_ns += thread.end_ns - thread.start_ns;
            }
        }
        found.events_only &= !has_exact;
        found
    }

    /// Whether damage of the trace may hide calls of the signature's threads.
    fn may_miss_calls(&self, trace: &Trace) -> bool {
        trace.damaged.iter().any(|d| match &d.part {
            DamagedPart::Ring { name, .. } => {
                name.as_ref().is_none_or(|name| self.thread.matches(name))
            }
            DamagedPart::Symbols
            | DamagedPart::Clocks
            | DamagedPart::Table { .. }
            | DamagedPart::Bytes { .. } => true,
            _ => false,
        })
    }

    /// The patterns that each method matches; the last entry is for calls whose entry is not in the ring.
    fn masks(&self, methods: &Methods) -> Vec<u64> {
        let mask = |name: &str, parameters: &dyn Fn() -> String| {
            let mut mask = 0;
            for (i, frame) in self.stack.iter().enumerate() {
                let matches = if frame.has_parameters {
                    frame.pattern.matches(&format!("{name}{}", parameters()))
                } else {
                    frame.pattern.matches(name)
                };
                mask |= u64::from(matches) << i;
            }
            mask
        };
        let of_methods = methods
            .iter()
            .map(|(_, m)| mask(&m.full_name(), &|| m.parameters()));
        let unknown = mask(Methods::NOT_RECORDED_NAME, &String::new);
        of_methods.chain([unknown]).collect()
    }

    /// Calls `found` with each call whose stack matches, except calls inside another one that does.
    fn matches(&self, calls: &Calls, masks: &[u64], mut found: impl FnMut(usize)) {
        let last = 1u64 << (self.stack.len() - 1);
        let after_any = self.stack.iter().enumerate();
        let after_any: u64 = after_any.map(|(i, f)| u64::from(f.after_any) << i).sum();
        // For each running call: the patterns that it can stand for, and the ones that it or a caller can.
        let mut stack: Vec<(u64, u64)> = Vec::new();
        let mut inside_of = u32::MAX;
        for i in 0..calls.len() {
            let depth = calls.depth[i];
            stack.truncate(depth as usize);
            let MethodId(method) = calls.method[i];
            let mask = masks[(method as usize).min(masks.len() - 1)];
            let (here, above) = stack.last().copied().unwrap_or((0, 0));
            let next = 1 | (above << 1 & after_any) | (here << 1 & !after_any);
            let here = mask & next;
            stack.push((here, above | here));
            if depth <= inside_of {
                inside_of = u32::MAX;
            }
            if here & last != 0 && inside_of == u32::MAX {
                inside_of = depth;
                found(i);
            }
        }
    }
}

fn example(trace: &Trace, t: usize, i: usize, ns: u64) -> Example {
    let thread = &trace.threads[t];
    let calls = &thread.calls;
    Example {
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        at_ns: calls.start_ns[i] - trace.start_ns().min(calls.start_ns[i]),
        ns,
        ended: !calls.flags[i].contains(Flags::OPEN_END),
        sampled: calls.flags[i].contains(Flags::SAMPLED),
        stack: calls
            .path_to(i)
            .into_iter()
            .map(|i| trace.methods.name(calls.method[i]).into_owned())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hindsight_decoder::Extension;
    use hindsight_testkit::{stall, Script};

    fn stall_trace() -> Trace {
        Trace::decode("t".as_ref(), &stall().encode()).unwrap()
    }

    fn find(trace: &Trace, toml: &str) -> Finding {
        let signatures = parse_signatures("s.toml", toml).unwrap();
        signatures[0].find(trace)
    }

    const CULPRIT: &str = r#"
        [[signature]]
        name = "flash"
        thread = "notes-*"
        stack = ["android.os.Handler.dispatchMessage", "...", "*.NoteStore.*", "...", "*.NoteFile.syncToFlash"]
        when = { calls = ">= 1", mean = "> 500 ms", max = "> 0.5s", total = ">= 700ms", share = "> 10%" }
    "#;

    #[test]
    fn the_culprit_of_the_stall_is_found() {
        let finding = find(&stall_trace(), CULPRIT);
        assert!(finding.matched, "{finding:?}");
        assert_eq!(finding.calls, 1);
        assert!(finding.max_ns > 700_000_000 && finding.mean_ns == finding.max_ns);
        let longest = finding.longest.unwrap();
        assert_eq!(longest.thread, "notes-sync");
        let last = longest.stack.last().unwrap();
        assert_eq!(last, "com.example.notes.NoteFile.syncToFlash");
        assert!(longest.ended);
    }

    #[test]
    fn sampled_calls_answer_only_for_the_least_number() {
        let mut script = Script::new("p");
        let [f, g] = ["C.f", "C.g"].map(|name| script.method(name, "()V"));
        let t = script.events_thread(1, "main", 1);
        for (at, method) in [(0, f), (500_000_000, f), (600_000_000, g), (700_000_000, f)] {
            let payload = script.stack(&[(method, 1)]);
            script.at(t, at).extension(Extension::Stack, &payload);
        }
        let other = script.thread(2, "exact");
        script.at(other, 0).call(f, 300_000_000);
        let trace = Trace::decode("t".as_ref(), &script.encode()).unwrap();
        let ask = |thread: &str, stack: &str, when: &str| {
            let toml = format!(
                "[[signature]]\nname = \"s\"\nthread = {thread:?}\nstack = [{stack:?}]\nwhen = {{ {when} }}\n"
            );
            let finding = find(&trace, &toml);
            (finding.matched, finding.unknown_because)
        };
        let sampled = (false, Some(Unknown::Sampled));
        for (when, expected) in [
            ("", (true, None)),
            ("calls = '>= 2'", (true, None)),
            ("calls = '>= 3'", sampled),
            ("calls = '< 2'", (false, None)),
            ("calls = '< 3'", sampled),
            ("max = '> 100 ms'", sampled),
            ("max = '< 100 ms'", sampled),
            ("mean = '> 1 ms'", sampled),
            ("share = '> 1 %'", sampled),
            ("calls = '< 2', max = '> 1 s'", (false, None)),
        ] {
            assert_eq!(ask("main", "C.f", when), expected, "{when}");
        }
        // An exact call is enough for a least time.
        for (when, expected) in [
            ("max = '> 100 ms', total = '>= 300 ms'", (true, None)),
            ("max = '> 400 ms'", sampled),
            ("max = '< 200 ms'", (false, None)),
            ("max = '< 400 ms'", sampled),
            ("mean = '> 1 ms'", sampled),
        ] {
            assert_eq!(ask("*", "C.f", when), expected, "{when}");
        }
        // No stack has it; the thread may have called it all the same.
        let events_only = (false, Some(Unknown::EventsOnly));
        for when in ["", "calls = '< 1'", "calls = '> 0'", "max = '> 1 ms'"] {
            assert_eq!(ask("main", "C.h", when), events_only, "{when}");
        }
        assert_eq!(ask("*", "C.h", ""), (false, None));
        assert_eq!(ask("*", "C.h", "calls = '< 1'"), (true, None));
    }

    #[test]
    fn damage_that_may_hide_calls_leaves_the_answer_open() {
        let part = |trace: &Trace, name: &str| DamagedPart::Ring {
            thread: trace.threads[0].key,
            tid: None,
            name: Some(name.into()),
            kept_slots: 0,
            slots: None,
        };
        let ask = |name: &str, old: &str, new: &str| {
            let mut trace = stall_trace();
            trace.damaged.push(hindsight_decoder::Damage {
                part: part(&trace, name),
                reason: "cut".into(),
            });
            let found = find(&trace, &CULPRIT.replace(old, new));
            (found.matched, found.unknown)
        };
        // More calls cannot undo a match, unless a condition has an upper limit.
        assert_eq!(ask("notes-x", "", ""), (true, false));
        assert_eq!(ask("notes-x", "\">= 1\"", "\"<= 1\""), (false, true));
        assert_eq!(ask("notes-x", "*.NoteStore.*", "*.Other.*"), (false, true));
        // A thread that the signature is not about.
        assert_eq!(ask("other", "*.NoteStore.*", "*.Other.*"), (false, false));
    }

    #[test]
    fn each_condition_the_thread_and_the_stack_count() {
        let trace = stall_trace();
        let changes = [
            ("\">= 1\"", "\">= 2\""),
            ("> 500 ms", "< 500 ms"),
            ("> 0.5s", "> 5 s"),
            (">= 700ms", "<= 700ms"),
            ("> 10%", "> 90%"),
            ("notes-*", "main"),
            ("*.NoteStore.*", "*.NoteStore.find"),
            ("\"*.NoteFile.syncToFlash\"", "\"*.NoteFile.sync\""),
            // Without the dots, calls must follow each other.
            ("\"*.NoteStore.*\", \"...\"", "\"*.NoteStore.*\""),
        ];
        for (from, to) in changes {
            assert!(CULPRIT.contains(from), "{from}");
            let finding = find(&trace, &CULPRIT.replace(from, to));
            assert!(!finding.matched, "{from} -> {to}");
        }
    }

    fn nested() -> Trace {
        let mut s = Script::new("p");
        let (f, g, h) = (
            s.method("C.f", "(I)V"),
            s.method("C.g", "(J)V"),
            s.method("C.h", "()V"),
        );
        let t = s.thread(1, "main");
        // f { f { g(5) h(5) { g(5) } } } g(5)
        let mut r = s.at(t, 0);
        r.enter(f).enter(f).call(g, 5).enter(h).after(5).call(g, 5);
        r.exit().exit().exit().call(g, 5);
        Trace::decode("t".as_ref(), &s.encode()).unwrap()
    }

    #[test]
    fn stacks_are_matched_call_by_call() {
        let trace = nested();
        let calls = |stack: &str| {
            let toml = format!("[[signature]]\nname = \"s\"\nstack = [{stack}]");
            find(&trace, &toml).calls
        };
        assert_eq!(calls(r#""C.g""#), 3);
        assert_eq!(calls(r#""C.f", "C.g""#), 1);
        assert_eq!(calls(r#""C.f", "...", "C.g""#), 2);
        assert_eq!(calls(r#""C.f", "C.h", "C.g""#), 1);
        assert_eq!(calls(r#""C.f", "C.f", "...", "C.g""#), 2);
        assert_eq!(calls(r#""C.f", "C.f", "C.f", "...", "C.g""#), 0);
        assert_eq!(calls(r#""C.h", "...", "C.f""#), 0);
        // The inner one is part of the outer one.
        assert_eq!(calls(r#""C.f""#), 1);
        assert_eq!(calls(r#""C.?(int)""#), 1);
        assert_eq!(calls(r#""C.*(long)""#), 3);
        assert_eq!(calls(r#""...", "*""#), 2);
    }

    #[test]
    fn a_signature_may_ask_for_a_missing_call() {
        let trace = nested();
        let matched = |stack: &str, when: &str| {
            let toml =
                format!("[[signature]]\nname = \"s\"\nstack = [\"{stack}\"]\nwhen = {{ {when} }}");
            find(&trace, &toml).matched
        };
        assert!(matched("C.absent", "calls = '< 1'"));
        assert!(!matched("C.g", "calls = '< 1'"));
        assert!(!matched("C.absent", "mean = '< 1s'"));
        assert!(!matched("C.absent", "calls = '< 1', mean = '< 1s'"));
        assert!(!matched("C.absent", ""));
        assert!(matched("C.g", ""));
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        let head = "# comment\n[[signature]]\nname = \"s\"\n";
        let good = "stack = [\"C.f\"]\n";
        let expected = [
            ("", 1, "there is no [[signature]]"),
            ("signature = 5", 1, "invalid type"),
            ("[[signature]]\nname = \"s\"", 1, "missing field `stack`"),
            ("[[signature]]\nstack = [", 2, ""),
            (&format!("{head}{good}stak = 1"), 5, "unknown field `stak`"),
            (
                &format!("{head}{good}when.men = '> 1s'"),
                5,
                "unknown field `men`",
            ),
            (
                &format!("{head}{good}when.mean = '> 1'"),
                5,
                "is no condition",
            ),
            (&format!("{head}{good}when.mean = '1s'"), 5, "\"> 100 ms\""),
            (&format!("{head}{good}when.calls = '>= 1s'"), 5, "\">= 3\""),
            (
                &format!("{head}{good}when.share = '> 101 %'"),
                5,
                "\">= 10 %\"",
            ),
            (&format!("{head}{good}\nthread = ''"), 6, "thread is empty"),
            (&format!("{head}stack = []"), 4, "stack is empty"),
            (&format!("{head}stack = [\n 'C.f',\n '']"), 6, "empty"),
            (&format!("{head}stack = ['C.f', '...']"), 4, "ends with"),
            (&format!("{head}stack = ['a b']"), 4, "holds a space"),
            (&format!("{head}stack = ['La/B;->c']"), 4, "dex"),
            (&format!("{head}{good}{head}{good}"), 7, "another signature"),
            (
                &format!("[[signature]]\nname = ' '\n{good}"),
                2,
                "name is empty",
            ),
        ];
        for (toml, line, what) in expected {
            let error = parse_signatures("s.toml", toml).unwrap_err();
            assert_eq!(
                (error.line, &*error.file),
                (line, "s.toml"),
                "{toml}\n{error}"
            );
            assert!(error.what.contains(what), "{toml}\n{error}");
        }
        let many = "'C.f', ".repeat(65);
        let toml = format!("{head}stack = [{many}]");
        assert!(parse_signatures("s", &toml)
            .unwrap_err()
            .what
            .contains("more than 64"));
    }
}
