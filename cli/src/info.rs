// SPDX-License-Identifier: Apache-2.0
//! `hindsight info`

use std::io::{self, Write};

use anyhow::Result;
use clap::Args;
use hindsight_analysis::duration;
use hindsight_decoder::{Stats, Trace};
use jiff::Timestamp;
use serde::Serialize;

use crate::text::{self, Align};
use crate::{write_json, Input};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
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
    points: u64,
    span_ns: u64,
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
    const FOUND: [(&str, Get); 10] = [
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

fn report(trace: &Trace) -> Report {
    let facts = &trace.process;
    let taken = i64::try_from(trace.clock.reference().realtime_ns).ok();
    let taken = taken.and_then(|ns| Timestamp::from_nanosecond(ns.into()).ok());
    let threads: Vec<ThreadReport> = trace
        .threads
        .iter()
        .map(|t| ThreadReport {
            tid: t.tid,
            name: t.name.clone(),
            points: t.stats.points,
            span_ns: t.end_ns - t.start_ns,
            ring_bytes: t.ring_bytes,
            ring_used_bytes: t.stats.slots * 8,
            overwritten_slots: t.stats.overwritten_slots,
        })
        .collect();
    Report {
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
        span_ns: trace.end_ns() - trace.start_ns(),
        points: threads.iter().map(|t| t.points).sum(),
        methods: trace.methods.len(),
        threads,
        losses: losses(trace),
        extra: facts.extra.clone(),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.input.read()?;
    let report = report(&trace);
    if arguments.json {
        return write_json(&report);
    }
    let mut out = io::stdout().lock();
    write(&mut out, &report)?;
    Ok(())
}

fn write(out: &mut io::StdoutLock<'_>, r: &Report) -> io::Result<()> {
    let p = text::palette(out);
    let unknown_or = |s: &str| {
        if s.is_empty() {
            "unknown".to_owned()
        } else {
            s.to_owned()
        }
    };
    let mut facts = vec![
        (
            "process",
            format!("{} (pid {}, uid {})", unknown_or(&r.process), r.pid, r.uid),
        ),
        ("reason", unknown_or(&r.reason)),
        ("taken", r.taken_at.clone()),
        ("machine", {
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
            format!(
                "{}, counter {} at {rate}{traps}",
                unknown_or(&r.isa),
                unknown_or(&r.counter)
            )
        }),
        (
            "holds",
            format!(
                "{} trace points of {} methods, {} in all, {}",
                text::count(r.points),
                text::count(r.methods as u64),
                duration(r.span_ns),
                text::bytes(r.file_bytes)
            ),
        ),
    ];
    if r.raised_by != 0 {
        facts.insert(2, ("raised by", format!("thread {}", r.raised_by)));
    }
    for (key, value) in &r.extra {
        facts.push((key, value.clone()));
    }
    let width = facts
        .iter()
        .map(|(key, _)| key.chars().count())
        .max()
        .unwrap_or(0);
    for (key, value) in facts {
        writeln!(out, "{}{key:width$}{}  {value}", p.dim, p.reset)?;
    }
    writeln!(out)?;
    let rows: Vec<Vec<String>> = r
        .threads
        .iter()
        .map(|t| {
            let percent = t.ring_used_bytes * 100 / t.ring_bytes.max(1);
            vec![
                t.tid.to_string(),
                t.name.clone(),
                text::count(t.points),
                duration(t.span_ns),
                format!("{percent} % of {}", text::bytes(t.ring_bytes)),
            ]
        })
        .collect();
    let header = [
        ("tid", Align::Right),
        ("thread", Align::Left),
        ("points", Align::Right),
        ("span", Align::Right),
        ("ring", Align::Right),
    ];
    text::table(out, p, &header, &rows)?;
    writeln!(out)?;
    if r.losses.is_empty() {
        return writeln!(out, "Nothing was lost.");
    }
    let rows: Vec<Vec<String>> = r
        .losses
        .iter()
        .map(|l| vec![text::count(l.count), l.what.clone()])
        .collect();
    text::table(
        out,
        p,
        &[("count", Align::Right), ("not in the trace", Align::Left)],
        &rows,
    )
}
