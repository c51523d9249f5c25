// SPDX-License-Identifier: Apache-2.0
//! `hindsight info`

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use hindsight_analysis::duration;
use hindsight_decoder::{Stats, Trace};
use jiff::Timestamp;
use serde::Serialize;

use crate::input::{Input, Select};
use crate::text::{self, column, Cell, Kind, Look, Page};
use crate::write_json;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    select: Select,
    /// Write JSON; times are in ns
    #[arg(long)]
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
    taken_at: String,
    counter: String,
    counter_hz: u64,
    counter_read_traps: bool,
    file_bytes: u64,
    span_ns: u64,
    /// What --from and --to ask about, ns after the beginning of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ns: Option<(u64, u64)>,
    points: u64,
    methods: usize,
    threads: Vec<ThreadReport>,
    losses: Vec<Loss>,
    extra: Vec<(String, String)>,
}

#[derive(Serialize)]
struct ThreadReport {
    tid: u32,
    name: String,
    main: bool,
    points: u64,
    span_ns: u64,
    /// In what is asked about.
    calls: u64,
    /// Levels of calls, in what is asked about.
    levels: u32,
    ring_bytes: u64,
    ring_used_bytes: u64,
    overwritten_slots: u64,
}

#[derive(Serialize)]
struct Loss {
    what: String,
    count: u64,
}

/// What could not be told, over all threads.
fn losses(trace: &Trace) -> Vec<Loss> {
    type Get = fn(&Stats) -> u64;
    const FOUND: [(&str, Get); 11] = [
        ("slots overwritten by newer ones, as rings do", |s| {
            s.overwritten_slots
        }),
        ("slots of events cut by the wrap-around", |s| s.cut_slots),
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
        ("slots whose times contradict the anchors", |s| {
            s.contradicting_times
        }),
        ("anchors that contradict the others", |s| s.anchors_ignored),
        ("frames that an exception cannot have left", |s| {
            s.incredible_frames
        }),
        (
            "calls that exceptions left, from before the trace, too many to show",
            |s| s.unshown_frames,
        ),
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
    let whole: Vec<(u64, u64)> = trace
        .threads
        .iter()
        .map(|t| (u64::from(t.tid), t.end_ns - t.start_ns))
        .collect();
    let main_tid = trace.main_thread().map(|t| t.tid);
    let all_losses = losses(&trace);
    let trace = selection.apply(trace);
    let facts = &trace.process;
    let taken = i64::try_from(trace.clock.reference().realtime_ns).ok();
    let taken = taken.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok());
    let span_of = |tid: u32| {
        whole
            .iter()
            .find(|w| w.0 == u64::from(tid))
            .map_or(0, |w| w.1)
    };
    let threads: Vec<ThreadReport> = trace
        .threads
        .iter()
        .map(|t| ThreadReport {
            tid: t.tid,
            name: t.name.clone(),
            main: Some(t.tid) == main_tid,
            points: t.stats.trace_points,
            span_ns: span_of(t.tid),
            calls: t.calls.len() as u64,
            levels: t.calls.depth.iter().max().map_or(0, |d| d + 1),
            ring_bytes: t.ring_bytes,
            ring_used_bytes: t.stats.slots * 8,
            overwritten_slots: t.stats.overwritten_slots,
        })
        .collect();
    Ok(Report {
        process: facts.name.clone(),
        pid: facts.pid,
        uid: facts.uid,
        isa: facts.isa.clone(),
        reason: facts.reason.clone(),
        raised_by: facts.raised_by,
        taken_at: taken.map_or_else(|| "unknown".to_owned(), |t| format!("{t:.3}")),
        counter: trace.clock.source().to_owned(),
        counter_hz: trace.clock.ticks_per_second(),
        counter_read_traps: trace.clock.read_traps(),
        file_bytes: trace.file_bytes,
        span_ns: end_ns - start_ns,
        window_ns: selection
            .window
            .map(|w| (w.from_ns - start_ns, w.to_ns.min(end_ns) - start_ns)),
        points: threads.iter().map(|t| t.points).sum(),
        methods: trace.methods.len(),
        threads,
        losses: all_losses,
        extra: facts.extra.clone(),
    })
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    let report = report(arguments.input.read()?, arguments)?;
    if arguments.json {
        return write_json(&report);
    }
    let mut page = Page::new(look);
    write(&mut page, &report)?;
    page.flush()?;
    Ok(())
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
        ", whose reading traps to the kernel"
    } else {
        ""
    };
    let mut facts = vec![
        (
            "process",
            format!("{} (pid {}, uid {})", unknown_or(&r.process), r.pid, r.uid),
        ),
        ("saved because", unknown_or(&r.reason)),
        ("saved", r.taken_at.clone()),
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
                text::counted(r.points, "trace point", "trace points"),
                text::counted(r.methods as u64, "method", "methods"),
                duration(r.span_ns),
                text::bytes(r.file_bytes)
            ),
        ),
    ];
    if r.raised_by != 0 {
        facts.insert(2, ("noticed by", format!("thread {}", r.raised_by)));
    }
    for (key, value) in &r.extra {
        facts.push((key, value.clone()));
    }
    if let Some((from, to)) = r.window_ns {
        let window = format!("{} to {} after the beginning", duration(from), duration(to));
        facts.push(("asked about", window));
    }
    page.facts(&facts)?;
    writeln!(page)?;
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
            vec![
                t.tid.to_string().into(),
                t.name.clone().into(),
                duration(t.span_ns).into(),
                text::count(t.points).into(),
                text::count(t.calls).into(),
                t.levels.to_string().into(),
                format!("{used} of {}", text::bytes(t.ring_bytes)).into(),
            ]
        })
        .collect();
    let columns = [
        column("tid", Kind::Number),
        column("thread", Kind::Name),
        column("the last", Kind::Number),
        column("points", Kind::Number),
        column("calls", Kind::Number),
        column("levels", Kind::Number),
        column("ring used", Kind::Text),
    ];
    page.table(&columns, &rows)?;
    writeln!(page)?;
    if r.losses.is_empty() {
        return writeln!(page, "Nothing was lost.");
    }
    let rows: Vec<Vec<Cell>> = r
        .losses
        .iter()
        .map(|l| vec![text::count(l.count).into(), l.what.clone().into()])
        .collect();
    let columns = [
        column("count", Kind::Number),
        column("not in the trace", Kind::Prose),
    ];
    page.table(&columns, &rows)
}
