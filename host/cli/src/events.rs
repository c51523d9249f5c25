// SPDX-License-Identifier: Apache-2.0
//! `hindsight events`: the events of threads other than calls, as a list.

use std::collections::HashMap;
use std::io;

use anyhow::{anyhow, Result};
use clap::Args;
use hindsight_analysis::{
    pairs, spans, End, FieldValue, Fields, PairKind, Pairs, SpanKind, Spans, Unmatched, Window,
};
use hindsight_decoder::catalogue::Category;
use hindsight_decoder::{Thread, ThreadEvent, ThreadKey, Trace};
use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::damage::{self, DamageReport};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{column, Kind, Look, Page};
use crate::select::Part;
use crate::words::{bytes, count, duration, time, unmatched_ends};

/// Of `--from`, which other commands explain for calls.
const FROM: &str = "Only events from this time on, and those that began what was still going on then: 1.5s or 200ms \
    after the trace's beginning, -2s before its end";
/// Of `--to`.
const TO: &str = "Only events before this time, written as for --from";

#[derive(Args)]
#[command(mut_arg("from", |arg| arg.help(FROM)), mut_arg("to", |arg| arg.help(TO)))]
pub(crate) struct Arguments {
    /// Only events of this category: waits, tasks, messages, frames, input, binder, runtime, resources, stacks, marks,
    /// lifecycle, rules or recording; may be given several times, or as a list with commas
    #[arg(long, short, value_name = "CATEGORY", value_delimiter = ',', value_parser = category)]
    category: Vec<Category>,
    /// The number of events to show
    #[arg(long, short = 'n', default_value_t = 100, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    part: Part,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn category(name: &str) -> Result<Category> {
    let names = Category::ALL.map(Category::name).join(", ");
    Category::from_name(name).ok_or_else(|| anyhow!("no category; there are {names}"))
}

/// An event that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Row {
    thread: usize,
    event: usize,
}

#[derive(Serialize)]
struct Report {
    /// CLOCK_BOOTTIME of the trace's beginning, ns.
    start_ns: u64,
    events: Vec<EventReport>,
    /// The number of events that are not shown.
    more: usize,
    /// Of the whole trace: events without the other end of their pair.
    unmatched: Vec<Unmatched>,
    damaged: Vec<DamageReport>,
}

#[derive(Serialize)]
struct EventReport {
    /// CLOCK_BOOTTIME, ns.
    at_ns: u64,
    tid: u32,
    ring: u32,
    thread: String,
    /// Its number among the thread's events.
    index: usize,
    /// The name of its constant.
    event: &'static str,
    category: &'static str,
    fields: Map<String, Value>,
    /// Of an event that begins or ends a wait, task, message …: how long that took, if both ends are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_ns: Option<u64>,
    /// The methods of a stack, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stack: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    from: Vec<EndReport>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    to: Vec<EndReport>,
}

/// The other end of a pair.
#[derive(Serialize)]
struct EndReport {
    kind: PairKind,
    tid: u32,
    ring: u32,
    index: usize,
    at_ns: u64,
}

/// A trace with all that is known of its events.
struct Facts<'a> {
    trace: &'a Trace,
    fields: Fields<'a>,
    pairs: Pairs,
    spans: Vec<Spans>,
    threads: HashMap<ThreadKey, usize>,
    /// For each event, its pairs: their indices, and whether it is the cause.
    ends: HashMap<End, Vec<(usize, bool)>>,
}

impl<'a> Facts<'a> {
    fn new(trace: &'a Trace) -> Self {
        let pairs = pairs(trace);
        let mut ends: HashMap<End, Vec<(usize, bool)>> = HashMap::new();
        for (i, pair) in pairs.pairs.iter().enumerate() {
            ends.entry(pair.from).or_default().push((i, true));
            ends.entry(pair.to).or_default().push((i, false));
        }
        Facts {
            trace,
            fields: Fields::new(trace),
            spans: trace.threads.iter().map(spans).collect(),
            threads: (0..trace.threads.len())
                .map(|i| (trace.threads[i].key, i))
                .collect(),
            pairs,
            ends,
        }
    }

    /// The other ends of an event's pairs, and whether the event is their cause.
    fn others(&self, row: Row) -> impl Iterator<Item = (PairKind, bool, Row)> + '_ {
        let end = End {
            thread: self.trace.threads[row.thread].key,
            event: row.event,
        };
        let of = self.ends.get(&end).map_or(&[][..], Vec::as_slice);
        of.iter().filter_map(|&(pair, is_cause)| {
            let pair = &self.pairs.pairs[pair];
            let other = if is_cause { pair.to } else { pair.from };
            let row = Row {
                thread: *self.threads.get(&other.thread)?,
                event: other.event,
            };
            Some((pair.kind, is_cause, row))
        })
    }

    fn at_ns(&self, row: Row) -> u64 {
        self.trace.threads[row.thread].events[row.event].at_ns
    }

    fn took_ns(&self, row: Row) -> Option<u64> {
        let spans = &self.spans[row.thread];
        let begun = spans.begun_by(row.event);
        let span = begun.or_else(|| spans.ended_by(row.event))?;
        span.end.map(|_| span.duration_ns())
    }
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let trace = arguments.input.read()?;
    let selection = arguments.part.selection(&trace, &arguments.input.file)?;
    let facts = Facts::new(&trace);
    let is_selected = |thread: &Thread| {
        let threads = selection.threads.as_ref();
        threads.is_none_or(|keys| keys.contains(&thread.key))
    };
    let window: Option<Window> = selection.window;
    let is_in_window = |row: Row| {
        let (thread, spans) = (&trace.threads[row.thread], &facts.spans[row.thread]);
        window.is_none_or(|w| w.has_event(thread, spans, row.event))
    };
    let mut rows: Vec<Row> = Vec::new();
    for (thread, t) in trace
        .threads
        .iter()
        .enumerate()
        .filter(|(_, t)| is_selected(t))
    {
        for (event, e) in t.events.iter().enumerate() {
            let wanted = &arguments.category;
            let is_wanted = wanted.is_empty() || wanted.contains(&e.spec().category);
            let row = Row { thread, event };
            if is_wanted && is_in_window(row) {
                rows.push(row);
            }
        }
    }
    rows.sort_by_key(|&row| (facts.at_ns(row), row.thread, row.event));
    let known = rows.len();
    rows.truncate(arguments.limit as usize);
    let more = known - rows.len();
    if arguments.json {
        return write_json(&Report {
            start_ns: trace.start_ns(),
            events: rows.iter().map(|&row| report(&facts, row)).collect(),
            more,
            unmatched: facts.pairs.unmatched.clone(),
            damaged: damage::reports(&trace),
        });
    }
    let damaged = damage::reports(&trace);
    Page::new(look).show(|page| write(page, &facts, &rows, more, &damaged))
}

fn report(facts: &Facts, row: Row) -> EventReport {
    let thread = &facts.trace.threads[row.thread];
    let event = &thread.events[row.event];
    let key = |name: &str| name.to_lowercase().replace([' ', '-'], "_");
    let fields = facts.fields.of(event);
    let end = |kind: PairKind, row: Row| EndReport {
        kind,
        tid: facts.trace.threads[row.thread].tid,
        ring: facts.trace.threads[row.thread].key.ring,
        index: row.event,
        at_ns: facts.at_ns(row),
    };
    let ends = |cause: bool| {
        let others = facts.others(row).filter(move |(_, is, _)| *is == cause);
        others.map(|(kind, _, other)| end(kind, other)).collect()
    };
    EventReport {
        at_ns: event.at_ns,
        tid: thread.tid,
        ring: thread.key.ring,
        thread: thread.name.clone(),
        index: row.event,
        event: event.spec().identifier,
        category: event.spec().category.name(),
        fields: fields
            .map(|(f, value)| (key(f.name), to_json(facts.trace, value)))
            .collect(),
        took_ns: facts.took_ns(row),
        stack: stack(facts.trace, event),
        from: ends(false),
        to: ends(true),
    }
}

/// The methods of the stack that an event names, innermost first; none if it names none, or if the stack is not in the file.
fn stack(trace: &Trace, event: &ThreadEvent) -> Vec<String> {
    let Some(stack) = event.stack() else {
        return Vec::new();
    };
    let frames = trace.stacks.frames(stack);
    let names = frames.map(|frame| trace.methods.name(frame.method).into_owned());
    names.collect()
}

fn to_json(trace: &Trace, value: FieldValue) -> Value {
    match value {
        FieldValue::Text(text) => text.into(),
        FieldValue::Number(n) | FieldValue::Bytes(n) => n.into(),
        FieldValue::Duration(ns) | FieldValue::Time(ns) => ns.into(),
        // A number of 64 bits is not exact in every reader of JSON.
        FieldValue::Identity(id) => format!("{id:#x}").into(),
        FieldValue::Flag(flag) => flag.into(),
        FieldValue::Thread { tid, thread } => {
            let thread = thread.map(|i| &trace.threads[i]);
            json!({ "tid": tid, "ring": thread.map(|t| t.key.ring), "thread": thread.map(|t| &t.name) })
        }
    }
}

fn label(thread: &Thread) -> String {
    format!("{} ({})", thread.name, thread.tid)
}

/// The value of a field as text; times are after the trace's beginning.
fn words(trace: &Trace, value: &FieldValue) -> String {
    match value {
        FieldValue::Text(text) => text.clone(),
        FieldValue::Number(n) => count(*n),
        FieldValue::Bytes(n) => bytes(*n),
        FieldValue::Duration(ns) => duration(*ns),
        FieldValue::Time(ns) => match ns.checked_sub(trace.start_ns()) {
            Some(after) => format!("at {}", time(after)),
            None => format!("{} before the trace", duration(trace.start_ns() - ns)),
        },
        FieldValue::Identity(id) => format!("{id:#x}"),
        FieldValue::Flag(true) => "yes".to_owned(),
        FieldValue::Flag(false) => "no".to_owned(),
        FieldValue::Thread { tid, thread } => match thread {
            Some(i) => label(&trace.threads[*i]),
            None => format!("thread {tid}, not in the file"),
        },
    }
}

/// What is known of an event besides its name.
fn details(facts: &Facts, row: Row) -> String {
    let trace = facts.trace;
    let event = &trace.threads[row.thread].events[row.event];
    let mut parts: Vec<String> = facts
        .fields
        .of(event)
        .map(|(field, value)| format!("{} {}", field.name, words(trace, &value)))
        .collect();
    let stack = stack(trace, event);
    if !stack.is_empty() {
        /// More would not fit into a line.
        const SHOWN: usize = 3;
        let shown = &stack[..stack.len().min(SHOWN)];
        let more = match stack.len() - shown.len() {
            0 => String::new(),
            more => format!(" ← {} more", count(more as u64)),
        };
        parts.push(format!("in {}{more}", shown.join(" ← ")));
    }
    if let Some(span) = facts.spans[row.thread].begun_by(row.event) {
        let took = duration(span.duration_ns());
        parts.push(match span.end {
            Some(_) => format!("took {took}"),
            // One type ends where the next begins; the last one ends with the frame.
            None if span.kind == SpanKind::FrameCallbacks => format!("took {took}"),
            None => "its end is not recorded".to_owned(),
        });
    } else if let Some(span) = facts.spans[row.thread].ended_by(row.event) {
        parts.push(format!("after {}", duration(span.duration_ns())));
    }
    for (kind, is_cause, other) in facts.others(row) {
        let thread = &trace.threads[other.thread];
        let name = thread.events[other.event].spec().name;
        let apart = duration(facts.at_ns(row).abs_diff(facts.at_ns(other)));
        let what = match kind {
            PairKind::Lock => "the lock: ",
            _ => "",
        };
        parts.push(match is_cause {
            true => format!("→ {what}{} {name} {apart} later", label(thread)),
            false => format!("← {what}{} {name} {apart} before", label(thread)),
        });
    }
    parts.join(", ")
}

fn write(
    page: &mut Page,
    facts: &Facts,
    rows: &[Row],
    more: usize,
    damaged: &[DamageReport],
) -> io::Result<()> {
    if rows.is_empty() {
        page.plain("No events are recorded in this part of the trace.")?;
        return damage::write(page, damaged);
    }
    let start = facts.trace.start_ns();
    let cells: Vec<_> = rows
        .iter()
        .map(|&row| {
            let thread = &facts.trace.threads[row.thread];
            let event = &thread.events[row.event];
            vec![
                time(event.at_ns.saturating_sub(start)).into(),
                label(thread).into(),
                event.spec().name.into(),
                details(facts, row).into(),
            ]
        })
        .collect();
    let columns = [
        column("time", Kind::Number),
        column("thread", Kind::Name),
        column("event", Kind::Text),
        column("details", Kind::Prose),
    ];
    page.table(&columns, &cells)?;
    page.more(more)?;
    let unmatched = &facts.pairs.unmatched;
    if !unmatched.is_empty() {
        let parts = unmatched.iter().map(|u| {
            let ends = unmatched_ends(u);
            format!("{}, {ends} ({})", u.kind.name(), u.why.words())
        });
        let parts: Vec<_> = parts.collect();
        page.dim(&format!(
            "Events of the whole trace without the other end of their pair: {}.",
            parts.join("; ")
        ))?;
    }
    damage::write(page, damaged)
}
