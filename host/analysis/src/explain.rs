// SPDX-License-Identifier: Apache-2.0
//! A chain of calls, in plain words.

use std::fmt::{Result, Write};

use crate::words::{count, duration, shorten, wrap};
use crate::{Callee, Chain, ChainCall, Evidence, Others};

/// What to write before and after the parts of a text that should stand out; empty for plain text.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    /// Before the most important words.
    pub strong: &'static str,
    /// Before what is only context.
    pub dim: &'static str,
    /// Before what is worse than it was.
    pub bad: &'static str,
    /// Before what is better than it was.
    pub good: &'static str,
    /// After any of them.
    pub reset: &'static str,
}

impl Palette {
    /// Plain text.
    pub const PLAIN: Palette = Palette {
        strong: "",
        dim: "",
        bad: "",
        good: "",
        reset: "",
    };
    /// For a terminal.
    pub const ANSI: Palette = Palette {
        strong: "\x1b[1m",
        dim: "\x1b[2m",
        bad: "\x1b[31m",
        good: "\x1b[32m",
        reset: "\x1b[0m",
    };
}

/// How a text is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// What stands out, and how.
    pub palette: Palette,
    /// Columns to a line, for a terminal; names are cut to fit. `None`: nothing is cut.
    pub width: Option<usize>,
    /// How many calls of a chain are listed, the outermost first.
    pub depth: Option<usize>,
    /// Whether calls are listed too that say nothing new, such as those of the platform by the platform.
    pub full: bool,
}

impl Layout {
    /// Plain text of any width.
    pub const PLAIN: Layout = Layout {
        palette: Palette::PLAIN,
        width: None,
        depth: None,
        full: false,
    };
}

/// Sentences are wrapped here, however wide the terminal is.
const MAX_PROSE: usize = 100;
/// Columns before a tree of calls.
const MARGIN: usize = 4;
/// Columns by which a call stands right of its caller.
const INDENT: usize = 2;
/// Columns of a duration, and of the space before it.
const TIME: usize = 10;
/// Columns that are kept for names, however deep the call.
const LEAST_NAME: usize = 36;
/// So many calls in a row that say nothing new are listed as one.
const DULL: usize = 3;
/// Calls beside those listed one by one are worth a line if they took this part of the whole.
const LEAST_OTHERS: f64 = 0.01;
/// So many methods are named that were inlined into one.
const MAX_INLINED: usize = 5;
/// Of longer lists of callers, only the ends are listed.
const MAX_CALLERS: usize = 6;

/// Says what held the thread up, and what other threads did meanwhile. Ends with a line break.
pub fn explain(chain: &Chain, palette: Palette) -> String {
    explain_with(
        chain,
        &Layout {
            palette,
            ..Layout::PLAIN
        },
    )
}

/// As [`explain`], laid out as asked.
pub fn explain_with(chain: &Chain, layout: &Layout) -> String {
    let mut text = Text {
        out: String::new(),
        layout: *layout,
    };
    // Writing to a string cannot fail.
    let _ = text.chain(chain);
    text.out
}

struct Text {
    out: String,
    layout: Layout,
}

/// A line of a tree of calls.
struct Row {
    level: usize,
    name: String,
    ns: Option<u64>,
    calls: Option<u64>,
    style: &'static str,
}

impl Text {
    /// A sentence, wrapped if it is for a terminal.
    fn say(&mut self, style: &str, sentence: &str) -> Result {
        let width = self.layout.width.map(|w| w.min(MAX_PROSE));
        let reset = if style.is_empty() {
            ""
        } else {
            self.layout.palette.reset
        };
        for line in wrap(sentence, width) {
            writeln!(self.out, "{style}{line}{reset}")?;
        }
        Ok(())
    }

    fn chain(&mut self, chain: &Chain) -> Result {
        let strong = self.layout.palette.strong;
        let held = duration(chain.held_ns);
        let Chain { thread, tid, .. } = chain;
        if chain.still_running {
            let what = format!("had been held for {held} when the trace was taken:");
            self.say(strong, &format!("Thread \"{thread}\" (tid {tid}) {what}"))?;
        } else {
            let until = match chain.ended_before_ns {
                0 => "until the trace was taken".to_owned(),
                ns => format!("until {} before the trace was taken", duration(ns)),
            };
            let what = format!("was held for {held}, {until}:");
            self.say(strong, &format!("Thread \"{thread}\" (tid {tid}) {what}"))?;
        }
        writeln!(self.out)?;
        self.calls(&chain.callers, &chain.calls)?;
        writeln!(self.out)?;

        let Some(last) = chain.calls.last() else {
            return Ok(());
        };
        if !chain.last.callees.is_empty() {
            self.say("", &format!("{} took its time in many calls:", last.method))?;
            writeln!(self.out)?;
            let mut rows = Vec::new();
            let dim = self.layout.palette.dim;
            let least = (chain.held_ns as f64 * LEAST_OTHERS) as u64;
            let (callees, others) = (&chain.last.callees, chain.last.others);
            callee_rows(callees, others, least, 0, dim, &mut rows);
            return self.rows(&rows);
        }
        self.last_call(chain, last)?;
        self.inlined(last)?;
        for evidence in &chain.evidence {
            writeln!(self.out)?;
            self.evidence(evidence, last)?;
        }
        if chain.evidence.is_empty() {
            let dim = self.layout.palette.dim;
            self.say(dim, "No other traced thread was busy all that time.")?;
        }
        if let Some((method, thread)) = &chain.culprit {
            writeln!(self.out)?;
            self.say(
                strong,
                &format!("Culprit: {method}, on thread \"{thread}\""),
            )?;
        }
        Ok(())
    }

    /// What the last call of the chain did.
    fn last_call(&mut self, chain: &Chain, last: &ChainCall) -> Result {
        let gap = duration(chain.last.longest_gap_ns);
        let method = &last.method;
        match &chain.lock_owner {
            Some(owner) => {
                let name = match &owner.thread {
                    Some(name) => format!("\"{name}\" (tid {})", owner.tid),
                    None => format!("{}, whose ring is not in the trace", owner.tid),
                };
                let lock = owner.lock;
                let what = format!("waited {gap} for the lock {lock:#x}, held by thread {name}.");
                self.say("", &format!("{method} {what}"))
            }
            None if chain.last.sleeps => self.say("", &format!("{method} slept or waited {gap}.")),
            None => {
                let what = format!("called nothing for {gap}: it waited, or computed.");
                self.say("", &format!("{method} {what}"))
            }
        }
    }

    /// What ran in a call without being seen.
    fn inlined(&mut self, call: &ChainCall) -> Result {
        if call.inlined.is_empty() {
            return Ok(());
        }
        let mut names = call.inlined.clone();
        let more = names.len().saturating_sub(MAX_INLINED);
        names.truncate(MAX_INLINED);
        if more > 0 {
            names.push(format!("and {} more", count(more as u64)));
        }
        let (dim, names) = (self.layout.palette.dim, names.join(", "));
        self.say(
            dim,
            &format!("Inlined into it, and so part of that time: {names}."),
        )
    }

    fn evidence(&mut self, e: &Evidence, waited: &ChainCall) -> Result {
        self.say(
            "",
            &format!("Meanwhile thread \"{}\" (tid {}) was in:", e.thread, e.tid),
        )?;
        writeln!(self.out)?;
        self.calls(&e.callers, &e.calls)?;
        writeln!(self.out)?;
        let Some(last) = e.calls.last() else {
            return Ok(());
        };
        let own = e.calls.iter().rev().find(|l| l.own);
        let by = match own.filter(|own| own.method != last.method) {
            Some(own) => format!(", called by {}", own.method),
            None => String::new(),
        };
        let did = if e.sleeps { "slept" } else { "was" };
        let (method, ns) = (&last.method, duration(last.ns));
        let percent = (e.share * 100.0).floor();
        self.say(
            "",
            &format!("It {did} in {method} for {ns} ({percent} %){by}."),
        )?;
        let Some(together) = e.ended_together.and_then(|i| e.calls.get(i)) else {
            return Ok(());
        };
        let conclusion = if e.owns_lock {
            "it held the lock"
        } else if e.same_class {
            "it is a method of the same class, so most likely it held the lock"
        } else {
            "most likely it was waited for"
        };
        let gap = duration(e.end_gap_ns.unsigned_abs());
        let when = if e.end_gap_ns < 0 { "after" } else { "before" };
        let (method, waited) = (&together.method, &waited.method);
        self.say(
            "",
            &format!("{method} ended {gap} {when} {waited} went on: {conclusion}."),
        )
    }

    /// One call a line, indented by depth, times in a column of their own.
    fn calls(&mut self, callers: &[String], calls: &[ChainCall]) -> Result {
        let Palette { strong, dim, .. } = self.layout.palette;
        let mut rows: Vec<Row> = Vec::new();
        let row = |rows: &mut Vec<Row>, name: String, ns, style| {
            let level = rows.len();
            rows.push(Row {
                level,
                name,
                ns,
                calls: None,
                style,
            });
        };
        let kept = MAX_CALLERS / 2;
        let hidden = if !self.layout.full && callers.len() > MAX_CALLERS {
            kept..callers.len() - kept
        } else {
            0..0
        };
        for (i, caller) in callers.iter().enumerate() {
            if i == hidden.start && !hidden.is_empty() {
                row(&mut rows, format!("… {} calls …", hidden.len()), None, dim);
            }
            if !hidden.contains(&i) {
                row(&mut rows, caller.clone(), None, dim);
            }
        }
        let shown = self.layout.depth.unwrap_or(usize::MAX).min(calls.len());
        let mut i = 0;
        while i < shown {
            let dull = if self.layout.full {
                0
            } else {
                (i..shown).take_while(|&k| is_dull(calls, k)).count()
            };
            if dull >= DULL {
                let name = folded(&calls[i - 1], &calls[i..i + dull]);
                row(&mut rows, name, Some(calls[i].ns), dim);
                i += dull;
                continue;
            }
            let style = if i + 1 == calls.len() { strong } else { "" };
            row(&mut rows, calls[i].method.clone(), Some(calls[i].ns), style);
            i += 1;
        }
        if shown < calls.len() {
            let deeper = calls.len() - shown;
            let noun = if deeper == 1 { "call" } else { "calls" };
            let name = format!("… {deeper} deeper {noun}");
            row(&mut rows, name, Some(calls[shown].ns), dim);
        }
        self.rows(&rows)
    }

    fn rows(&mut self, rows: &[Row]) -> Result {
        // Deep calls must not push names out of a terminal.
        let most = self.layout.width.map_or(usize::MAX, |width| {
            width.saturating_sub(MARGIN + LEAST_NAME + TIME)
        });
        let indent = |row: &Row| (row.level * INDENT).min(most);
        let calls_column = rows.iter().any(|r| r.calls.is_some());
        let name_end = self.layout.width.map_or(usize::MAX, |width| {
            let taken = MARGIN + if calls_column { 2 * TIME } else { TIME };
            width.saturating_sub(taken).max(LEAST_NAME)
        });
        let names: Vec<String> = rows
            .iter()
            .map(|row| shorten(&row.name, name_end.saturating_sub(indent(row))))
            .collect();
        let ends = rows.iter().zip(&names);
        let width = ends.map(|(row, name)| indent(row) + name.chars().count());
        let width = width.max().unwrap_or(0);
        let digits = rows.iter().filter_map(|r| r.calls).map(|n| count(n).len());
        let digits = digits.max().unwrap_or(0);
        for (row, name) in rows.iter().zip(&names) {
            let indent = indent(row);
            let reset = if row.style.is_empty() {
                ""
            } else {
                self.layout.palette.reset
            };
            let style = row.style;
            write!(self.out, "{:MARGIN$}{:indent$}", "", "")?;
            let Some(ns) = row.ns else {
                writeln!(self.out, "{style}{name}{reset}")?;
                continue;
            };
            let rest = width - indent;
            let time = duration(ns);
            write!(self.out, "{style}{name:rest$}{reset}  {time:>8}")?;
            if let Some(calls) = row.calls {
                let word = if calls == 1 { "call" } else { "calls" };
                write!(self.out, "  {:>digits$} {word}", count(calls))?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }
}

/// Whether a call says nothing new: one of the platform amid others, or of the same method as its caller.
fn is_dull(calls: &[ChainCall], i: usize) -> bool {
    let (Some(before), Some(after)) = (i.checked_sub(1).map(|b| &calls[b]), calls.get(i + 1))
    else {
        return false;
    };
    let call = &calls[i];
    call.method == before.method || (!call.own && !before.own && !after.own)
}

/// `… 12 calls of itself`, `… 7 calls in android.view, androidx.recyclerview.widget`
fn folded(before: &ChainCall, dull: &[ChainCall]) -> String {
    if dull.iter().all(|l| l.method == before.method) {
        return format!("… {} calls of itself", dull.len());
    }
    let mut packages: Vec<&str> = Vec::new();
    for call in dull {
        let class = call.method.rsplit_once('.').map_or("", |(class, _)| class);
        let package = class.rsplit_once('.').map_or(class, |(package, _)| package);
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    let more = if packages.len() > 2 { ", …" } else { "" };
    packages.truncate(2);
    format!("… {} calls in {}{more}", dull.len(), packages.join(", "))
}

fn callee_rows(
    callees: &[Callee],
    others: Others,
    least: u64,
    level: usize,
    dim: &'static str,
    rows: &mut Vec<Row>,
) {
    for callee in callees {
        rows.push(Row {
            level,
            name: callee.method.clone(),
            ns: Some(callee.ns),
            calls: Some(callee.calls),
            style: "",
        });
        callee_rows(&callee.callees, callee.others, least, level + 1, dim, rows);
    }
    // Below a call whose callees all took little, they aren't worth a line.
    if others.calls > 0 && others.ns >= least && !callees.is_empty() {
        let methods = if others.methods == 1 {
            "method"
        } else {
            "methods"
        };
        rows.push(Row {
            level,
            name: format!("… {} other {methods}", count(others.methods)),
            ns: Some(others.ns),
            calls: Some(others.calls),
            style: dim,
        });
    }
}
