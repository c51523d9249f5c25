// SPDX-License-Identifier: Apache-2.0
//! `hindsight info`: the process, why and when its trace was saved, its threads, and what is not in the trace.

use std::collections::HashMap;
use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use hindsight_analysis::{is_silent, spans, Spans};
use hindsight_decoder::{Mode, Stats, Thread, ThreadKey, Trace};
use jiff::Timestamp;
use serde::Serialize;

use crate::context::Context;
use crate::damage::{self, DamageReport};
use crate::event_rate::{self, Rate};
use crate::input::Input;
use crate::output::write_json;
use crate::page::{column, Cell, Kind, Look, Page};
use crate::rewinding::{self, Rewinding};
use crate::select::Select;
use crate::silent;
use crate::taken_back::{self, TakenBack};
use crate::words::{self, duration};

/// A full ring that covers less than this, ns, is too short for most questions.
const SHORT_NS: u64 = 1_000_000_000;
/// Number of methods listed for a short ring, the ones called most.
const FREQUENT: usize = 10;
/// log2 of the largest ring, bytes.
const MAX_RING_LOG2: u32 = 30;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    process: String,
    pid: u32,
    uid: u32,
    isa: String,
    reason: String,
    raised_by: u32,
    /// `None` if the file does not say.
    taken_at: Option<String>,
    counter: String,
    counter_hz: u64,
    counter_read_traps: bool,
    file_bytes: u64,
    span_ns: u64,
    /// The stretch between --from and --to, ns after the beginning of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ns: Option<(u64, u64)>,
    /// Whether a window or a number of levels is selected.
    #[serde(skip)]
    is_part: bool,
    /// Of all threads.
    #[serde(skip)]
    taken_back: Option<TakenBack>,
    points: u64,
    methods: usize,
    threads: Vec<ThreadReport>,
    losses: Vec<Loss>,
    damaged: Vec<DamageReport>,
    extra: Vec<(String, String)>,
    /// Of a report of the system service, if its file is beside the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Context>,
}

#[derive(Serialize)]
struct ThreadReport {
    tid: u32,
    /// Identifies the thread: ids and names may repeat.
    ring: u32,
    name: String,
    main: bool,
    points: u64,
    span_ns: u64,
    /// Calls in the selected part.
    calls: u64,
    /// Levels of calls in the selected part.
    levels: u32,
    /// What it recorded: `calls`, `events`, or at times each.
    mode: &'static str,
    /// Events other than calls in the selected part.
    events: u64,
    ring_bytes: u64,
    ring_used_bytes: u64,
    overwritten_slots: u64,
    /// Of a thread that recorded events only, and enough of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    event_rate: Option<Rate>,
    /// Of a full ring that covers less than a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    short: Option<Short>,
    /// Of a thread that takes short calls back.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_back: Option<TakenBack>,
    /// It recorded nothing since its ring was exchanged, as for an earlier report.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    silent: bool,
}

/// Why a full ring covers so little time.
#[derive(Serialize)]
struct Short {
    /// The ring's part of all slots that the thread wrote, 0 ..= 1.
    kept: f64,
    /// Trace points in a second, in this ring.
    points_per_second: u64,
    /// Space that a second of this takes, bytes.
    bytes_per_second: u64,
    /// What taking short calls back would give.
    rewinding: Vec<Rewinding>,
    /// The methods called most.
    frequent: Vec<Frequent>,
}

/// A method that is called often.
#[derive(Serialize)]
struct Frequent {
    method: String,
    calls: u64,
    /// Its part of the ring's trace points, 0 ..= 1.
    share: f64,
}

impl Short {
    fn of(trace: &Trace, thread: &Thread) -> Option<Self> {
        let span_ns = thread.end_ns - thread.start_ns;
        let stats = &thread.stats;
        let has_calls = thread.mode != Mode::Events;
        if !has_calls || stats.overwritten_slots == 0 || span_ns == 0 || span_ns >= SHORT_NS {
            return None;
        }
        let per_second = |n: u64| (n as f64 * 1e9 / span_ns as f64) as u64;
        let mut by_method: Vec<u64> = vec![0; trace.methods.len()];
        for method in &thread.calls.method {
            if let Some(count) = by_method.get_mut(method.0 as usize) {
                *count += 1;
            }
        }
        let mut frequent: Vec<Frequent> = trace
            .methods
            .iter()
            .zip(by_method)
            .filter(|(_, calls)| *calls > 0)
            .map(|((_, method), calls)| Frequent {
                method: method.full_name(),
                calls,
                // An entry and an exit.
                share: (2 * calls) as f64 / stats.trace_points.max(1) as f64,
            })
            .collect();
        frequent.sort_by(|a, b| b.calls.cmp(&a.calls).then(a.method.cmp(&b.method)));
        frequent.truncate(FREQUENT);
        Some(Short {
            kept: stats.slots as f64 / (stats.slots + stats.overwritten_slots) as f64,
            points_per_second: per_second(stats.trace_points),
            bytes_per_second: per_second(stats.slots * 8),
            rewinding: rewinding::simulate(thread),
            frequent,
        })
    }
}

/// Facts of a thread from before a part of it is selected.
#[derive(Default)]
struct Whole {
    span_ns: u64,
    event_rate: Option<Rate>,
    short: Option<Short>,
    silent: bool,
    /// Number of events of the selected time, as `hindsight events` lists them.
    selected_events: usize,
}

#[derive(Serialize)]
struct Loss {
    what: String,
    count: u64,
}

/// Data that is not in the trace, by kind, added up over all threads.
fn losses(trace: &Trace) -> Vec<Loss> {
    type Get = fn(&Stats) -> u64;
    const FOUND: [(&str, Get); 13] = [
        ("older slots, overwritten because the ring was full", |s| {
            s.overwritten_slots
        }),
        (
            "slots of the oldest event, of which a part was overwritten by newer events",
            |s| s.cut_slots,
        ),
        ("calls that began before the trace", |s| s.open_starts),
        ("calls whose end was not seen", |s| s.open_ends),
        ("calls of methods without a symbol", |s| s.unnamed_entries),
        ("events of a kind that this program does not know", |s| {
            s.unknown_extensions
        }),
        (
            "slots without anchors, whose times may be late by whole wraps of the counter",
            |s| s.unbounded_slots,
        ),
        (
            "events with a wrong time, which are shown at the time of the next event",
            |s| s.contradicting_times,
        ),
        (
            "time marks (anchors) that do not fit the others and are ignored",
            |s| s.anchors_ignored,
        ),
        ("frames left by exceptions, more than credible", |s| {
            s.incredible_frames
        }),
        (
            "calls from before the trace that exceptions left, too many to show",
            |s| s.unshown_frames,
        ),
        (
            "gaps between two rings of a thread, the events of which are missing",
            |s| s.gaps,
        ),
        ("stacks of threads whose frames are not in the file", |s| {
            s.lost_stacks
        }),
    ];
    let of_file = trace.losses.counts.iter().map(|(what, count)| Loss {
        what: what.clone(),
        count: *count,
    });
    let found = FOUND.iter().map(|(what, get)| Loss {
        what: (*what).to_owned(),
        count: trace
            .threads
            .iter()
            .map(|t| get(&t.stats))
            .fold(0, u64::saturating_add),
    });
    of_file.chain(found).filter(|loss| loss.count > 0).collect()
}

fn report(trace: Trace, arguments: &Arguments) -> Result<Report> {
    let (start_ns, end_ns) = (trace.start_ns(), trace.end_ns());
    let selection = arguments.select.selection(&trace, &arguments.input.file)?;
    let of_thread = |t: &Thread| {
        let has = |spans: &Spans, i| selection.window.is_none_or(|w| w.has_event(t, spans, i));
        let spans = spans(t);
        let whole = Whole {
            span_ns: t.end_ns - t.start_ns,
            event_rate: Rate::of(t),
            short: Short::of(&trace, t),
            silent: is_silent(t),
            selected_events: (0..t.events.len()).filter(|&i| has(&spans, i)).count(),
        };
        (t.key, whole)
    };
    let mut whole: HashMap<ThreadKey, Whole> = trace.threads.iter().map(of_thread).collect();
    let main = trace.main_thread().map(|t| t.key);
    let damaged = damage::reports(&trace);
    let all_losses = losses(&trace);
    let trace = selection.apply(trace);
    let facts = &trace.process;
    let taken = i64::try_from(trace.clock.reference().realtime_ns).ok();
    let taken = taken.filter(|&ns| ns > 0);
    let taken = taken.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok());
    let threads: Vec<ThreadReport> = trace
        .threads
        .iter()
        .map(|t| (t, whole.remove(&t.key).unwrap_or_default()))
        .map(|(t, whole)| ThreadReport {
            tid: t.tid,
            ring: t.key.ring,
            name: t.name.clone(),
            main: Some(t.key) == main,
            points: t.stats.trace_points,
            span_ns: whole.span_ns,
            calls: t.calls.len() as u64,
            levels: t.calls.depth.iter().max().map_or(0, |d| d + 1),
            mode: t.mode.name(),
            events: whole.selected_events as u64,
            ring_bytes: t.ring_bytes,
            ring_used_bytes: t.stats.slots * 8,
            overwritten_slots: t.stats.overwritten_slots,
            event_rate: whole.event_rate,
            short: whole.short,
            silent: whole.silent,
            taken_back: TakenBack::of(t),
        })
        .collect();
    Ok(Report {
        process: facts.name.clone(),
        pid: facts.pid,
        uid: facts.uid,
        isa: facts.isa.clone(),
        reason: facts.reason.clone(),
        raised_by: facts.raised_by,
        taken_at: taken.map(|t| format!("{t:.3}")),
        counter: trace.clock.source().to_owned(),
        counter_hz: trace.clock.ticks_per_second(),
        counter_read_traps: trace.clock.read_traps(),
        file_bytes: trace.file_bytes,
        span_ns: end_ns - start_ns,
        window_ns: selection
            .window
            .map(|w| (w.from_ns - start_ns, w.to_ns.min(end_ns) - start_ns)),
        taken_back: TakenBack::of_trace(&trace),
        is_part: selection.window.is_some() || selection.depth.is_some(),
        points: threads.iter().map(|t| t.points).sum(),
        methods: trace.methods.len(),
        threads,
        losses: all_losses,
        damaged,
        extra: facts.extra.clone(),
        context: None,
    })
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let mut report = report(arguments.input.read()?, arguments)?;
    report.context = Context::beside(&arguments.input.file)?;
    if arguments.json {
        return write_json(&report);
    }
    Page::new(look).show(|page| {
        write(page, &report)?;
        let mut context = report.context.iter();
        context.try_for_each(|context| context.write(page))
    })
}

fn write(page: &mut Page, r: &Report) -> io::Result<()> {
    let unknown_or = |s: &str| {
        if s.is_empty() {
            "unknown".to_owned()
        } else {
            s.to_owned()
        }
    };
    let hz = r.counter_hz as f64;
    let rate = if hz >= 1e9 {
        format!("{:.2} GHz", hz / 1e9)
    } else {
        format!("{:.1} MHz", hz / 1e6)
    };
    let traps = if r.counter_read_traps {
        ", which traps to the kernel when it is read"
    } else {
        ""
    };
    // Files of other formats say less.
    let process = unknown_or(&r.process);
    let process = match (r.taken_at.as_deref(), r.isa.is_empty()) {
        (None, true) => process,
        (Some(_), true) => format!("{process} (pid {})", r.pid),
        (_, false) => format!("{process} (pid {}, uid {})", r.pid, r.uid),
    };
    let mut facts = vec![("process", process)];
    if !r.reason.is_empty() {
        facts.push(("saved because", r.reason.clone()));
    }
    if r.raised_by != 0 {
        facts.push(("noticed by", format!("thread {}", r.raised_by)));
    }
    if let Some(taken_at) = &r.taken_at {
        facts.push(("saved", taken_at.clone()));
    }
    facts.extend([
        (
            "machine",
            format!(
                "{}, counter {} at {rate}{traps}",
                unknown_or(&r.isa),
                unknown_or(&r.counter)
            ),
        ),
        (
            "holds",
            format!(
                "{} of {} in {}, {}",
                words::counted(r.points, "trace point", "trace points"),
                words::counted(r.methods as u64, "method", "methods"),
                duration(r.span_ns),
                words::bytes(r.file_bytes)
            ),
        ),
    ]);
    for (key, value) in &r.extra {
        facts.push((key, value.clone()));
    }
    if let Some(device) = r.context.as_ref().and_then(Context::device) {
        facts.push(("device", device));
    }
    if let Some((from, to)) = r.window_ns {
        let window = format!("{} to {} after the beginning", duration(from), duration(to));
        facts.push(("selected", window));
    }
    page.facts(&facts)?;
    writeln!(page)?;
    // Rings are named where ids don't tell threads apart.
    let mut tids: Vec<u32> = r.threads.iter().map(|t| t.tid).collect();
    tids.sort_unstable();
    let repeated = tids.windows(2).any(|pair| pair[0] == pair[1]);
    // Only where some threads record events only.
    let modes = r.threads.iter().any(|t| t.mode != Mode::Calls.name());
    let rows: Vec<Vec<Cell>> = r
        .threads
        .iter()
        .map(|t| {
            let percent = t.ring_used_bytes * 100 / t.ring_bytes.max(1);
            let used = match percent {
                0 if t.ring_used_bytes > 0 => "under 1 %".to_owned(),
                100 if t.overwritten_slots > 0 => "all".to_owned(),
                percent => format!("{percent} %"),
            };
            let ring = repeated.then(|| Cell::from(format!("ring:{}", t.ring)));
            let mut row = vec![Cell::from(t.tid.to_string())];
            row.extend(ring);
            row.extend([
                t.name.clone().into(),
                duration(t.span_ns).into(),
                words::count(t.points).into(),
                words::count(t.calls).into(),
                t.levels.to_string().into(),
            ]);
            if modes {
                row.extend([t.mode.into(), words::count(t.events).into()]);
            }
            row.push(
                match t.ring_bytes {
                    0 => "no ring".to_owned(),
                    bytes => format!("{used} of {}", words::bytes(bytes)),
                }
                .into(),
            );
            row
        })
        .collect();
    let mut columns = vec![column("tid", Kind::Number)];
    columns.extend(repeated.then(|| column("ring", Kind::Text)));
    columns.extend([
        column("thread", Kind::Name),
        column("covers", Kind::Number),
        column("points", Kind::Number),
        column("calls", Kind::Number),
        column("levels", Kind::Number),
    ]);
    if modes {
        columns.extend([column("mode", Kind::Text), column("events", Kind::Number)]);
    }
    columns.push(column("ring used", Kind::Text));
    page.table(&columns, &rows)?;
    if r.is_part {
        let events = if modes { ", and events" } else { "" };
        let and = if modes { "," } else { " and" };
        page.dim(&format!(
            "The numbers of calls{and} levels{events} are of the selected part, all others of the whole recording."
        ))?;
    }
    let rates = r.threads.iter();
    let rates = rates.filter_map(|t| Some((t.tid, &*t.name, t.event_rate.as_ref()?)));
    event_rate::write(page, rates)?;
    for thread in &r.threads {
        write_short(page, thread)?;
    }
    taken_back::write(page, r.taken_back.as_ref())?;
    let silent = r.threads.iter().filter(|t| t.silent);
    let silent: Vec<_> = silent.map(|t| (&*t.name, t.tid)).collect();
    silent::write(page, &silent)?;
    if r.losses.is_empty() {
        if r.damaged.is_empty() && silent.is_empty() {
            writeln!(page)?;
            page.plain("Nothing was lost.")?;
        }
        return damage::write(page, &r.damaged);
    }
    writeln!(page)?;
    let rows: Vec<Vec<Cell>> = r
        .losses
        .iter()
        .map(|l| vec![words::count(l.count).into(), l.what.clone().into()])
        .collect();
    let columns = [
        column("count", Kind::Number),
        column("not in the trace", Kind::Prose),
    ];
    page.table(&columns, &rows)?;
    damage::write(page, &r.damaged)
}

/// Says of a full ring how short its history is, why, and what to do.
fn write_short(page: &mut Page, t: &ThreadReport) -> io::Result<()> {
    let Some(short) = &t.short else {
        return Ok(());
    };
    writeln!(page)?;
    let kept = match short.kept * 100.0 {
        percent if percent < 0.1 => "less than 0.1 %".to_owned(),
        percent => format!("{percent:.1} %"),
    };
    let (name, tid) = (&t.name, t.tid);
    let mut text = format!(
        "The ring of thread \"{name}\" (tid {tid}) is full: it covers the last {}, {kept} of all slots that the thread \
         wrote. It has {} trace points per second, so a second takes {}.",
        duration(t.span_ns),
        words::count(short.points_per_second),
        words::bytes(short.bytes_per_second)
    );
    let wanted = short.bytes_per_second.checked_next_power_of_two();
    let log2 = wanted.map_or(MAX_RING_LOG2, u64::ilog2).min(MAX_RING_LOG2);
    if 1 << log2 > t.ring_bytes {
        let keeps = t.span_ns as f64 * (1u64 << log2) as f64 / t.ring_bytes as f64;
        text += &format!(
            " A ring of {} (ring={log2}) would cover about {} of this.",
            words::bytes(1 << log2),
            duration(keeps as u64)
        );
    }
    let helps = |r: &&Rewinding| r.covers_ns > t.span_ns + t.span_ns / 10;
    if short.rewinding.iter().any(|r| helps(&r)) {
        let each = short.rewinding.iter().filter(helps);
        let each = each.map(|r| format!("{} with {}", duration(r.covers_ns), r.option()));
        let each: Vec<_> = each.collect();
        text += &format!(
            " If short calls were taken back, this ring would cover about {}.",
            each.join(", ")
        );
    }
    page.plain(&text)?;
    let share: f64 = short.frequent.iter().map(|f| f.share).sum();
    let methods = words::counted(short.frequent.len() as u64, "method", "methods");
    page.plain(&format!(
        "The {methods} called most are {:.0} % of its trace points:",
        (share * 100.0).min(100.0)
    ))?;
    let rows: Vec<Vec<Cell>> = short
        .frequent
        .iter()
        .map(|f| {
            let share = format!("{:.1} %", (f.share * 100.0).min(100.0));
            vec![
                words::count(f.calls).into(),
                share.into(),
                f.method.clone().into(),
            ]
        })
        .collect();
    let columns = [
        column("calls", Kind::Number),
        column("of points", Kind::Number),
        column("method", Kind::Name),
    ];
    page.table(&columns, &rows)
}
