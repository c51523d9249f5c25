// SPDX-License-Identifier: Apache-2.0
//! The stalls of a thread, in words.

use std::fmt::{Result, Write};

use hindsight_analysis::{
    Activity, Callee, Chain, ChainCall, EventStall, Evidence, Missing, Others, Reason, Stalls,
};
use hindsight_decoder::Methods;
use unicode_width::UnicodeWidthStr;

use crate::event_stall::{account, of_wait};
use crate::page::Palette;
use crate::unknown::{not_traced, several, unclear, TRACE_IT};
use crate::words::{count, counted, duration, shorten, wrap};

/// How a text is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Colours.
    pub(crate) palette: Palette,
    /// Columns to a line, for a terminal; names are cut to fit. `None`: nothing is cut.
    pub(crate) width: Option<usize>,
    /// The number of calls of a chain to show, the outermost first.
    pub(crate) depth: Option<usize>,
    /// Whether runs of calls that say nothing new are shown one by one, such as calls of the platform by the platform.
    pub(crate) full: bool,
    /// Whether only a part of the trace's time is asked about.
    pub(crate) window: bool,
    /// Whether what begins with the trace may have begun before: only a part of its time is asked about, or was converted.
    pub(crate) beginning_is_cut: bool,
    /// Whether the newest part of the thread's ring is missing from a damaged file.
    pub(crate) end_is_missing: bool,
}

/// Sentences are wrapped here, however wide the terminal is.
const MAX_PROSE: usize = 100;
/// Columns before a tree of calls.
const MARGIN: usize = 4;
/// Indentation of a call relative to its caller, in columns.
const INDENT: usize = 2;
/// Width of a duration, in columns, including the space before it.
const TIME: usize = 10;
/// Columns that are kept for names, however deep the call.
const LEAST_NAME: usize = 36;
/// From this number on, successive calls that say nothing new are shown as one line.
const DULL: usize = 3;
/// Calls that are not listed one by one are worth a line if they took this part of the whole.
const LEAST_OTHERS: f64 = 0.01;
/// Time spent asleep or waiting is worth a sentence if it is this part of the whole.
const LEAST_WAITED: f64 = 0.1;
/// Most inlined methods that are named.
const MAX_INLINED: usize = 5;
/// Of longer lists of callers, only the ends are shown.
const MAX_CALLERS: usize = 6;

/// The stalls, or a sentence that there is none. Ends with a line break.
pub(crate) fn explain(stalls: &Stalls, layout: &Layout) -> String {
    let mut text = Text {
        out: String::new(),
        layout: *layout,
        unit: match (stalls.messages, stalls.events_only) {
            (true, _) => "message",
            (false, true) => "task",
            (false, false) => "call",
        },
    };
    // Writing to a string cannot fail.
    let _ = text.stalls(stalls);
    text.out
}

struct Text {
    out: String,
    layout: Layout,
    /// The name of a chain's first call: message, or call.
    unit: &'static str,
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

    fn stalls(&mut self, stalls: &Stalls) -> Result {
        if stalls.stall != Some(true) {
            return self.no_stall(stalls);
        }
        for (i, stall) in stalls.event_stalls.iter().enumerate() {
            self.separate(i)?;
            self.event_stall(stalls, stall)?;
        }
        for (i, chain) in stalls.chains.iter().enumerate() {
            self.separate(i)?;
            let what = self.what_took(chain);
            self.say(self.layout.palette.strong, &what)?;
            self.chain(chain)?;
        }
        Ok(())
    }

    /// A line before all stalls but the first.
    fn separate(&mut self, i: usize) -> Result {
        if i > 0 {
            let line = "─".repeat(72.min(self.layout.width.unwrap_or(72)));
            let Palette { dim, reset, .. } = self.layout.palette;
            writeln!(self.out, "\n{dim}{line}{reset}")?;
        }
        Ok(())
    }

    fn event_stall(&mut self, stalls: &Stalls, stall: &EventStall) -> Result {
        let strong = self.layout.palette.strong;
        let end = match self.layout.window {
            true => "the end of the selected time",
            false => "the end of its recording",
        };
        let account = account(
            stall,
            &named(&stalls.thread, stalls.tid),
            end,
            self.layout.beginning_is_cut,
        );
        self.say(strong, &account.headline)?;
        for paragraph in account.paragraphs {
            writeln!(self.out)?;
            self.say("", &paragraph)?;
        }
        if let Some(conclusion) = account.conclusion {
            writeln!(self.out)?;
            self.say(strong, &conclusion)?;
        }
        Ok(())
    }

    fn no_stall(&mut self, stalls: &Stalls) -> Result {
        let strong = self.layout.palette.strong;
        let (thread, unit) = (named(&stalls.thread, stalls.tid), self.unit);
        let limit = duration(stalls.stall_ns);
        if let Some(longest) = stalls.chains.first().filter(|_| !stalls.named) {
            self.say(
                strong,
                "The methods of this trace have no names, so it cannot be told whether there was a stall: messages, and \
                 waiting for work, are recognized by names.",
            )?;
            let what = self.what_took(longest);
            self.say("", &what)?;
            return self.chain(longest);
        }
        let no_stall = match (stalls.damaged, self.layout.window) {
            (true, _) => format!(
                "No stall in the part that could be read ({})",
                duration(stalls.span_ns)
            ),
            (false, true) => "No stall in the selected time".to_owned(),
            (false, false) => "No stall".to_owned(),
        };
        if let Some(busy) = stalls.chains.first() {
            let at_least = match busy.began_before || busy.still_running {
                true => "at least ",
                false => "",
            };
            let held = duration(busy.held_ns);
            let what = match busy.activity {
                Activity::Unknown => format!(
                    "Whether there was a stall cannot be told: {thread} made one call of {at_least}{held}, and may have \
                     been busy itself:"
                ),
                _ => format!(
                    "{no_stall}: {thread} was busy itself for {at_least}{held}, in one call:"
                ),
            };
            self.say(strong, &what)?;
            self.chain(busy)?;
            return self.damaged(stalls);
        }
        let Some(longest) = stalls.longest_ns.map(duration) else {
            let what = match (stalls.waited_for_work, stalls.events_only) {
                (true, _) => format!("{no_stall}: {thread} waited for work most of the time."),
                (false, false) => format!("{no_stall}: {thread} recorded no call."),
                (false, true) if stalls.nothing_recorded => {
                    let when = match self.layout.window {
                        true => "in the selected time",
                        false => "while it was recorded",
                    };
                    format!(
                        "Whether there was a stall cannot be told: {thread} recorded neither a call nor a message, task or wait {when}."
                    )
                }
                (false, true) => {
                    format!("{no_stall}: {thread} recorded neither a message nor a task.")
                }
            };
            self.say(strong, &what)?;
            return self.damaged(stalls);
        };
        let at_least = match stalls.longest_is_cut {
            true => "at least ",
            false => "",
        };
        let what = format!("{no_stall}: the longest {unit} on {thread} took {at_least}{longest}.");
        self.say(strong, &what)?;
        if let Some(wait) = &stalls.outside {
            let waited = of_wait(wait);
            let waited = waited.strip_prefix("It ").unwrap_or(&waited);
            self.say("", &format!("But outside of its {unit}s it {waited}"))?;
        }
        self.damaged(stalls)?;
        let dim = self.layout.palette.dim;
        self.say(
            dim,
            &format!("A {unit} of {limit} or more is a stall; --stall sets another limit."),
        )
    }

    /// Says that a stall may be in a part of the ring that could not be read.
    fn damaged(&mut self, stalls: &Stalls) -> Result {
        if !stalls.damaged {
            return Ok(());
        }
        self.say(
            "",
            "The ring of this thread is damaged: whether there was a stall in the rest of it cannot be told.",
        )
    }

    /// The first sentence: how long the message or call took, where and when.
    fn what_took(&self, chain: &Chain) -> String {
        let held = duration(chain.held_ns);
        let (thread, unit) = (named(&chain.thread, chain.tid), self.unit);
        let at_least = if chain.began_before { "at least " } else { "" };
        let end = match self.layout.window {
            true => "the end of the selected time",
            false if self.layout.end_is_missing => "the readable part of its ring ended",
            false => "the trace was taken",
        };
        if chain.still_running {
            let when = match self.layout.window {
                true => format!("at {end}"),
                false => format!("when {end}"),
            };
            return format!("One {unit} had run for {at_least}{held} on {thread} {when}:");
        }
        let until = match chain.ended_before_ns {
            0 => format!("until {end}"),
            ns => format!("until {} before {end}", duration(ns)),
        };
        format!("One {unit} took {at_least}{held} on {thread}, {until}:")
    }

    /// Where the time of a chain went, and who was waited for.
    fn chain(&mut self, chain: &Chain) -> Result {
        let Palette { strong, dim, .. } = self.layout.palette;
        writeln!(self.out)?;
        self.calls(&chain.callers, &chain.calls)?;
        writeln!(self.out)?;
        let Some(last) = chain.calls.last() else {
            return Ok(());
        };
        self.last(chain, last)?;
        if !chain.last.callees.is_empty() {
            writeln!(self.out)?;
            let mut rows = Vec::new();
            let least = (chain.held_ns as f64 * LEAST_OTHERS) as u64;
            let (callees, others) = (&chain.last.callees, chain.last.others);
            callee_rows(callees, others, least, 0, dim, &mut rows);
            self.rows(&rows)?;
        }
        self.inlined(last)?;
        for evidence in &chain.evidence {
            writeln!(self.out)?;
            self.evidence(evidence, last, chain.lock_owner.is_some())?;
        }
        if let Some(conclusion) = conclusion(chain) {
            writeln!(self.out)?;
            self.say(strong, &conclusion)?;
        }
        Ok(())
    }

    /// How the last call of the chain spent its time.
    fn last(&mut self, chain: &Chain, last: &ChainCall) -> Result {
        let gap = duration(chain.last.longest_gap_ns);
        let method = &last.method;
        let nothing = called_nothing(chain, method);
        let calls = !chain.last.callees.is_empty();
        let is_quiet = chain.last.longest_gap_ns.saturating_mul(2) > chain.held_ns;
        let computed = chain.used.map(|used| {
            format!(
                "The thread used {} of CPU time in the {}.",
                duration(used.cpu_ns),
                duration(chain.held_ns)
            )
        });
        // ART records a wait after it has tried to get the lock for a while.
        let recorded = match chain.last.recorded_wait_ns.map(duration) {
            Some(wait) if wait != gap => format!("was recorded, {wait} before it ended"),
            _ => "began".to_owned(),
        };
        let what = match (&chain.lock_owner, &chain.waker) {
            (Some(owner), _) => {
                let (lock, thread) = (owner.lock, other(owner.thread.as_deref(), owner.tid));
                let owned = format!("which {thread} owned when the wait {recorded}");
                format!("{method} called nothing for {gap}: it waited for the lock {lock:#x}, {owned}.")
            }
            (None, Some(waker)) => {
                let thread = other(waker.thread.as_deref(), waker.tid);
                format!("{method} called nothing for {gap}: it waited until {thread} woke it.")
            }
            (None, None) if chain.last.wait_kind.is_some() => {
                let wait = duration(chain.last.recorded_wait_ns.unwrap_or(0));
                let what = match chain.last.wait_kind.as_deref() {
                    Some("object") => format!("waited in Object.wait for {wait}"),
                    Some("sleep") => format!("slept for {wait}"),
                    Some("park") => format!("was parked for {wait}"),
                    Some("gc") => format!("waited for the garbage collector for {wait}"),
                    Some("transaction") => {
                        format!("waited for the reply to a transaction for {wait}")
                    }
                    _ => format!("waited for {wait}"),
                };
                format!("{method} called nothing for {gap}: the thread {what}.")
            }
            (None, None) if chain.last.recorded_wait_ns.is_some() => {
                let whose = match chain.last.lock_waits {
                    0 | 1 => "a lock whose owner was not recorded".to_owned(),
                    // No owner had the lock for most of the wait, or the owners were not recorded.
                    n => format!("locks, {} times", count(n)),
                };
                format!("{method} called nothing for {gap}: it waited for {whose}.")
            }
            _ => match chain.activity {
                Activity::Busy if !calls && is_quiet && computed.is_some() => format!(
                    "{nothing}: it computed. {}",
                    computed.unwrap_or_default()
                ),
                Activity::Busy if calls => format!(
                    "The thread continued to make calls: nothing held it up. {method} took its time in these:"
                ),
                Activity::Busy => format!(
                    "The thread continued to make calls, at the latest after {gap}: nothing held it up. {method} took \
                     {}, most of it in its own code.",
                    duration(last.ns)
                ),
                Activity::Waited if calls => format!("{method} made these calls:"),
                Activity::Waited if chain.last.sleeps => {
                    format!("{method} slept or waited {gap}.")
                }
                Activity::Waited => format!(
                    "The thread slept or waited for {} of that time, but not in one call. The deepest call that took \
                     most of the time is {method}: {}.",
                    duration(chain.waited_ns),
                    duration(last.ns)
                ),
                Activity::Unknown | Activity::Idle if calls => {
                    format!("{method} took its time in these calls:")
                }
                Activity::Unknown | Activity::Idle if computed.is_some() => {
                    format!("{nothing}. {}", computed.unwrap_or_default())
                }
                Activity::Unknown | Activity::Idle => {
                    format!("{nothing}. {}", computed_or_waited(chain))
                }
            },
        };
        // Waiting that the sentence does not name.
        let is_named = chain.activity == Activity::Waited && !calls;
        let is_much = chain.waited_ns as f64 >= LEAST_WAITED * chain.held_ns as f64;
        let slept = match !is_named && is_much && chain.waited_ns > 0 {
            true => format!(
                "The thread slept or waited for {} of the {}. ",
                duration(chain.waited_ns),
                duration(chain.held_ns)
            ),
            false => String::new(),
        };
        self.say("", &format!("{slept}{what}"))
    }

    /// The methods that ran in a call without trace points of their own.
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

    /// The calls of another thread while `waited` waited. If the owner of the lock is recorded, nothing is guessed.
    fn evidence(&mut self, e: &Evidence, waited: &ChainCall, owner_is_known: bool) -> Result {
        let thread = named(&e.thread, e.tid);
        self.say("", &format!("Meanwhile {thread} was in:"))?;
        writeln!(self.out)?;
        self.calls(&e.callers, &e.calls)?;
        writeln!(self.out)?;
        let Some(last) = e.calls.last() else {
            return Ok(());
        };
        let by = match e.method != last.method {
            true => format!(", called by {}", e.method),
            false => String::new(),
        };
        let (method, ns) = (&last.method, duration(last.ns));
        let percent = (e.share * 100.0).floor();
        let mut what = format!("It spent {ns}, {percent} % of that time, in {method}{by}.");
        if let Some(owner) = &e.lock_owner {
            let owner = other(owner.thread.as_deref(), owner.tid);
            what += &format!(" There it waited for a lock that {owner} owned.");
        }
        if let Some(together) = e.ended_together.and_then(|i| e.calls.get(i)) {
            let gap = duration(e.end_gap_ns.unsigned_abs());
            let when = if e.end_gap_ns < 0 { "after" } else { "before" };
            let method = match together.method.as_str() {
                Methods::NOT_RECORDED_NAME => "A call entered before the trace",
                method => method,
            };
            let waited = &waited.method;
            let ended = format!("{method} ended {gap} {when} {waited} continued");
            what += &match e.owns_lock || e.woke {
                fact if fact || owner_is_known => format!(" {ended}."),
                _ if e.same_class => format!(
                    " {ended}: it is a method of the same class, so most likely it held a lock that {waited} needs."
                ),
                _ => format!(" {ended}: most likely that ended the wait."),
            };
        }
        self.say("", &what)
    }

    /// One line for each call, indented by depth, with the times in a column.
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
        let width = ends.map(|(row, name)| indent(row) + name.width());
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
            let padding = width - indent - name.width();
            let time = duration(ns);
            write!(self.out, "{style}{name}{reset}{:padding$}  {time:>8}", "")?;
            if let Some(calls) = row.calls {
                let word = if calls == 1 { "call" } else { "calls" };
                write!(self.out, "  {:>digits$} {word}", count(calls))?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }
}

/// Whether a call says nothing new: a call of the platform amid others, or of the same method as its caller.
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
        // Several of these need not be of the same method.
        if before.method == Methods::NOT_RECORDED_NAME {
            return format!("… {} more calls entered before the trace", dull.len());
        }
        return format!("… {} calls of itself", dull.len());
    }
    let mut packages: Vec<&str> = Vec::new();
    for call in dull {
        let class = call.method.rsplit_once('.').map_or("", |(class, _)| class);
        let package = class.rsplit_once('.').map_or(class, |(package, _)| package);
        // A method without a name has no package.
        if !package.is_empty() && !packages.contains(&package) {
            packages.push(package);
        }
    }
    if packages.is_empty() {
        return format!("… {} calls", dull.len());
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
    // Below a call whose callees all took little time, they aren't worth a line.
    if others.calls > 0 && others.ns >= least && !callees.is_empty() {
        rows.push(Row {
            level,
            name: format!(
                "… {}",
                counted(others.methods, "other method", "other methods")
            ),
            ns: Some(others.ns),
            calls: Some(others.calls),
            style: dim,
        });
    }
}

/// `thread "main" (tid 4200)`
fn named(name: &str, tid: u32) -> String {
    format!("thread \"{name}\" (tid {tid})")
}

/// A thread that an event names by its id.
fn other(name: Option<&str>, tid: u32) -> String {
    match name {
        Some(name) => named(name, tid),
        None => format!("thread {tid}"),
    }
}

/// The beginning of a sentence: for how long the last call of a chain made no call that would be in the trace.
fn called_nothing(chain: &Chain, method: &str) -> String {
    let gap = duration(chain.last.longest_gap_ns);
    match chain.last.taken_back_below_ns {
        None => format!("{method} called nothing for {gap}"),
        Some(u64::MAX) => format!("{method} made no call that was kept for {gap}"),
        Some(ns) => format!(
            "{method} called nothing that took {} or longer for {gap}",
            duration(ns)
        ),
    }
}

/// What a thread without recorded calls may have done.
fn computed_or_waited(chain: &Chain) -> String {
    let short = match chain.last.taken_back_below_ns {
        None => {
            let advice = match chain.cost_recorded {
                true => "",
                false => " (events=waits+resources records it)",
            };
            return format!("Whether it waited or computed is not recorded{advice}.");
        }
        Some(u64::MAX) => "made calls that were left out".to_owned(),
        Some(ns) => format!("made calls shorter than {}", duration(ns)),
    };
    let advice = match chain.cost_recorded {
        true => "which is not recorded",
        false => "events=waits+resources records which",
    };
    format!("It computed, {short}, or waited: {advice}.")
}

/// The culprit, or the reason why none is known.
fn conclusion(chain: &Chain) -> Option<String> {
    let owner = chain.lock_owner.as_ref();
    let waker = chain.waker.as_ref();
    let owner_name = owner.map_or_else(String::new, |o| other(o.thread.as_deref(), o.tid));
    let waker_name = waker.map_or_else(String::new, |w| other(w.thread.as_deref(), w.tid));
    let culprit = chain.culprit.as_ref();
    let culprit = culprit.map(|(method, thread)| format!("{method}, on thread \"{thread}\""));
    let culprit = culprit.unwrap_or_else(|| "unknown".to_owned());
    let idle = chain.evidence.first().is_some_and(|e| e.idle);
    let waited = |role: &str, name: &str, tid: u32| {
        let itself = chain.evidence.first();
        let of = |thread: &Option<String>, tid| other(thread.as_deref(), tid);
        let what = match itself.map(|e| (&e.lock_owner, &e.waker, e.waited_ns)) {
            Some((Some(o), ..)) => {
                format!("for a lock itself, which {} owned", of(&o.thread, o.tid))
            }
            Some((None, Some(w), ns)) => {
                let waker = of(&w.thread, w.tid);
                format!(
                    "itself for {} of that time, until {waker} woke it",
                    duration(ns)
                )
            }
            Some((None, None, ns)) => format!("itself for {} of that time", duration(ns)),
            None => "itself".to_owned(),
        };
        format!("{name} {role}, but waited {what}. For more: hindsight why --thread {tid}")
    };
    let unclear = |role: &str, name: &str, missing: Option<Missing>| match idle {
        true if missing != Some(Missing::RingDamaged) => {
            format!("{name} {role}, but waited for work for most of that time.")
        }
        _ => {
            let nothing = ("made", "no call that lasted most of the wait");
            unclear(role, name, nothing, missing)
        }
    };
    let text = match chain.culprit_reason {
        Reason::LockOwner => format!("{culprit}, which owned the lock."),
        Reason::Waker => format!("{culprit}, which ended the wait."),
        Reason::OwnerNotTraced => {
            let missing = owner.and_then(|o| o.missing);
            let why = not_traced("owned the lock", &owner_name, missing, TRACE_IT);
            format!("unknown: {why}")
        }
        Reason::WakerNotTraced => {
            let missing = waker.and_then(|w| w.missing);
            let why = not_traced("ended the wait", &waker_name, missing, TRACE_IT);
            format!("unknown: {why}")
        }
        Reason::OwnerUnnamed => {
            format!("unknown: {owner_name} owned the lock, in methods without a name.")
        }
        Reason::WakerUnnamed => {
            format!("unknown: {waker_name} ended the wait, in methods without a name.")
        }
        Reason::OwnerWaited => {
            let tid = owner.map_or(0, |o| o.tid);
            format!("unknown: {}", waited("owned the lock", &owner_name, tid))
        }
        Reason::WakerWaited => {
            let tid = waker.map_or(0, |w| w.tid);
            format!("unknown: {}", waited("ended the wait", &waker_name, tid))
        }
        Reason::OwnerUnclear => match owner {
            Some(owner) if owner.ring.is_some() => {
                let role = "owned the lock when the wait began";
                format!("unknown: {}", unclear(role, &owner_name, owner.missing))
            }
            owner => format!(
                "unknown: {}",
                several("the owner of the lock", owner.map_or(0, |o| o.tid))
            ),
        },
        Reason::WakerUnclear => match waker {
            Some(waker) if waker.ring.is_some() => {
                let why = unclear("ended the wait", &waker_name, waker.missing);
                format!("unknown: {why}")
            }
            waker => format!(
                "unknown: {}",
                several("the thread that ended the wait", waker.map_or(0, |w| w.tid))
            ),
        },
        Reason::Slept => {
            // The call that slept in its callees, for most of the sleep.
            let slept = |c: &&ChainCall| c.own && (c.ns - c.self_ns.min(c.ns)) * 2 > chain.slept_ns;
            let own = chain.calls.iter().rev().find(slept);
            let by = own.map_or_else(String::new, |c| format!(": {} made it sleep", c.method));
            return Some(format!("No other thread held it up{by}."));
        }
        Reason::Busy | Reason::Paused => return None,
        Reason::NotRecorded => {
            if let Some((method, thread)) = &chain.suspect {
                return Some(format!(
                    "Suspect: {method}, on thread \"{thread}\". That is concluded from times alone: the trace does not \
                     record which thread was waited for."
                ));
            }
            match chain.activity {
                Activity::Waited => {
                    "unknown: the trace does not record which thread was waited for.".to_owned()
                }
                _ => "unknown: the trace does not record whether the thread waited, or for whom."
                    .to_owned(),
            }
        }
    };
    Some(format!("Culprit: {text}"))
}
