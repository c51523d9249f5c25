// SPDX-License-Identifier: Apache-2.0
//! `hindsight diff`: which methods got slower between two traces, or two sets of traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Result};
use clap::{Args, ValueEnum};
use hindsight_analysis::{
    CallChange, Compare, Comparison, Diff, MethodChange, Side, SideFacts, Unit, Verdict,
    SIGNIFICANT,
};
use serde::Serialize;

use crate::batch::{trace_files, Failure, Seen};
use crate::damage::{self, DamageReport};
use crate::input::Reading;
use crate::output::{unless_closed, write_json};
use crate::page::{column, Cell, Kind, Look, Page};
use crate::progress;
use crate::select::Select;
use crate::taken_back::{self, Limits, TakenBack};
use crate::words::{self, duration};

/// Narrower pages have no room for intervals.
const ROOM_FOR_INTERVALS: usize = 110;

#[derive(Args)]
#[command(
    after_help = "A folder stands for all .hindsight files in it. With three traces per side or more, each trace \
                  counts as one sample, which separates changes of the program from differences between any two runs.\n\
                  Exit codes: 0 done; 1 a file cannot be read; 2 wrong usage; with --exit-code: 0 nothing got \
                  slower, 1 something did, 2 something is wrong."
)]
pub(crate) struct Arguments {
    /// The trace before the change, or a folder of such traces
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    before: PathBuf,
    /// The trace after it, or a folder of such traces
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    after: PathBuf,
    /// The time of a call to compare
    #[arg(long, value_enum, default_value_t = Time::SelfTime)]
    time: Time,
    /// The smallest change of a method's mean time to report
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    min_change: f64,
    /// The number of rows of each kind to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Exit with code 1 if a method got slower
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    select: Select,
    /// Also show differences that chance explains
    #[arg(long, help_heading = "Output")]
    all: bool,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Time {
    /// Time in the method itself
    #[value(name = "self")]
    SelfTime,
    /// Time in the method and in the calls it made
    Total,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    let percent = number
        .parse::<f64>()
        .ok()
        .filter(|p| (0.0..=10_000.0).contains(p));
    Ok(percent.ok_or("not a percentage: write 5% or 0.5%")? / 100.0)
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<ExitCode> {
    let before = trace_files(&arguments.before)?;
    let after = trace_files(&arguments.after)?;
    let mut comparison = Comparison::new(match arguments.time {
        Time::SelfTime => Compare::SelfTime,
        Time::Total => Compare::Total,
    });
    let bar = progress::bar(before.len() + after.len());
    let mut damaged = Vec::new();
    let mut failed = Vec::new();
    let mut left_out = None;
    let mut limits = [Limits::default(), Limits::default()];
    for (side, files) in [(Side::Before, &before), (Side::After, &after)] {
        let mut added = 0;
        // The same trace on both sides is a comparison, too.
        let mut seen = Seen::default();
        for file in files {
            bar.set_message(file.display().to_string());
            if seen.repeats(file) {
                bar.inc(1);
                continue;
            }
            let trace = arguments.reading.read(file);
            match trace.and_then(|trace| arguments.select.apply(trace, file)) {
                Ok(trace) => {
                    comparison.add(side, &trace);
                    limits[usize::from(side == Side::After)].add(&trace);
                    taken_back::add(&mut left_out, TakenBack::of_trace(&trace));
                    added += 1;
                    damaged.extend(damage::reports(&trace).into_iter().map(|damage| Damaged {
                        file: file.display().to_string(),
                        damage,
                    }));
                }
                Err(e) => failed.push(Failure::report(file, &e)),
            }
            bar.inc(1);
        }
        // A comparison with nothing would say that everything is new, or gone.
        ensure!(
            added > 0,
            "no trace can be read on the side {}: see above",
            match side {
                Side::Before => arguments.before.display(),
                Side::After => arguments.after.display(),
            }
        );
        ensure!(
            !comparison.has_events_only(side),
            "nothing could be compared: {} recorded events only, so the number and the times of its calls are not known",
            match side {
                Side::Before => arguments.before.display(),
                Side::After => arguments.after.display(),
            }
        );
    }
    bar.finish_and_clear();
    let diff = comparison.diff(arguments.min_change);
    let slower = diff.methods.iter().any(|m| m.verdict == Verdict::Slower);
    let code = match arguments.exit_code {
        _ if !failed.is_empty() => failure(arguments.exit_code),
        asked => ExitCode::from(u8::from(asked && slower)),
    };
    let shown = if arguments.json {
        write_json(&Report {
            diff: &diff,
            damaged,
            failed,
        })
    } else {
        Page::new(look).show(|page| {
            write(page, &diff, arguments, &damaged)?;
            taken_back::write(page, left_out.as_ref())?;
            write_limits(page, &limits)
        })
    };
    unless_closed(shown)?;
    Ok(code)
}

/// The exit code on failure: with --exit-code, 1 is an answer.
pub(crate) fn failure(exit_code: bool) -> ExitCode {
    ExitCode::from(if exit_code { 2 } else { 1 })
}

#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    damaged: Vec<Damaged>,
    failed: Vec<Failure>,
}

/// A damaged part of one of the files.
#[derive(Serialize)]
struct Damaged {
    file: String,
    #[serde(flatten)]
    damage: DamageReport,
}

fn write(
    page: &mut Page,
    diff: &Diff,
    arguments: &Arguments,
    damaged: &[Damaged],
) -> io::Result<()> {
    let limit = arguments.limit as usize;
    let of = |wanted: &[Verdict]| -> Vec<&MethodChange> {
        let is_wanted = |m: &&MethodChange| wanted.contains(&m.verdict);
        diff.methods.iter().filter(is_wanted).collect()
    };
    let slower = of(&[Verdict::Slower]);
    let faster = of(&[Verdict::Faster]);
    let unsure = of(&[
        Verdict::TooFew,
        Verdict::SingleCalls,
        Verdict::Contradictory,
    ]);
    let chance = of(&[Verdict::Chance]);
    let (new, gone) = (&diff.new_calls, &diff.gone_calls);

    let methods = |n: usize| words::counted(n as u64, "method", "methods");
    let calls = |n: usize| words::counted(n as u64, "call", "calls");
    let number = |n: usize| words::count(n as u64);
    let verdict = if slower.len() + faster.len() + new.len() + gone.len() == 0 {
        "No method got slower or faster; no call is new or gone.".to_owned()
    } else {
        format!(
            "{} slower, {} faster; {} new, {} gone.",
            methods(slower.len()),
            number(faster.len()),
            calls(new.len()),
            number(gone.len())
        )
    };
    page.strong(&verdict)?;
    writeln!(page)?;
    page.facts(&[
        ("before", side(&arguments.before, &diff.before)),
        ("after", side(&arguments.after, &diff.after)),
    ])?;
    let unit = match diff.unit {
        Unit::Calls => {
            "With one or two traces per side this only compares these runs; to compare the programs, use folders of \
             three traces or more."
        }
        Unit::Traces => "Each trace counts as one sample.",
    };
    page.dim(unit)?;

    let time = match arguments.time {
        Time::SelfTime => "self time",
        Time::Total => "time",
    };
    let (bad, good) = (page.palette.bad, page.palette.good);
    let groups = [
        (format!("Slower, by {time} of a call"), slower, bad),
        (format!("Faster, by {time} of a call"), faster, good),
    ];
    for (title, changes, style) in &groups {
        write_methods(page, title, changes, Some(style), limit)?;
    }
    write_calls(page, "New calls", new, diff.after.traces, limit)?;
    write_calls(page, "Gone calls", gone, diff.before.traces, limit)?;
    write_methods(page, "Inconclusive", &unsure, None, limit)?;
    if arguments.all {
        write_methods(page, "Within chance", &chance, None, limit)?;
    }
    writeln!(page)?;
    let hidden = match chance.len() {
        0 => String::new(),
        n => format!(
            " Chance explains {}.",
            words::counted(n as u64, "other difference", "other differences")
        ),
    };
    page.dim(&format!(
        "{} on both sides, {} with enough calls for a test. Listed: changes of {} % or more with a corrected p of at \
         most {SIGNIFICANT}.{hidden}",
        methods(diff.compared_methods),
        words::count(diff.tested_methods as u64),
        (arguments.min_change * 1_000.0).round() / 10.0
    ))?;
    let unnamed = diff.before.unnamed_calls + diff.after.unnamed_calls;
    if unnamed > 0 {
        page.dim(&format!(
            "{} of methods without a symbol cannot be compared.",
            words::counted(unnamed, "call", "calls")
        ))?;
    }
    for (path, facts) in [
        (&arguments.before, &diff.before),
        (&arguments.after, &diff.after),
    ] {
        if let Some(left_out) = left_out(facts) {
            page.dim(&format!("{}: {left_out}", path.display()))?;
        }
    }
    for Damaged { file, damage } in damaged {
        page.dim(&format!("{file} is damaged: not in the trace: {damage}"))?;
    }
    Ok(())
}

/// Warns if the two sides took calls of different lengths back.
fn write_limits(page: &mut Page, [before, after]: &[Limits; 2]) -> io::Result<()> {
    if !before.differ(after) {
        return Ok(());
    }
    page.plain(&format!(
        "The sides left out short calls of different lengths (before: {}, after: {}): their numbers of calls and self times \
         cannot be compared.",
        before.text(),
        after.text()
    ))
}

/// What of a side is not compared, because it recorded no calls.
fn left_out(facts: &SideFacts) -> Option<String> {
    let parts = [
        (facts.events_only_traces, "other trace", "other traces"),
        (facts.events_only_threads, "other thread", "other threads"),
    ];
    let parts = parts.into_iter().filter(|&(n, ..)| n > 0);
    let parts: Vec<String> = parts
        .map(|(n, one, many)| words::counted(n as u64, one, many))
        .collect();
    let is_one = facts.events_only_traces + facts.events_only_threads == 1;
    let end = match is_one {
        true => "is not compared",
        false => "are not compared",
    };
    (!parts.is_empty()).then(|| format!("{} recorded events only and {end}.", parts.join(" and ")))
}

fn side(path: &Path, facts: &SideFacts) -> String {
    format!(
        "{}: {}, {} in {} of threads' time",
        path.display(),
        words::counted(facts.traces as u64, "trace", "traces"),
        words::counted(facts.calls, "call", "calls"),
        duration(facts.span_ns)
    )
}

/// `proven` is the style of rows that are slower or faster beyond chance; other rows give the reason why they are
/// inconclusive.
fn write_methods(
    page: &mut Page,
    title: &str,
    changes: &[&MethodChange],
    proven: Option<&'static str>,
    limit: usize,
) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    page.strong(title)?;
    let wide = page.width.is_none_or(|w| w >= ROOM_FOR_INTERVALS);
    let intervals = wide && proven.is_some();
    let reasons = proven.is_none() && changes.iter().any(|m| reason(m).is_some());
    let mut columns = vec![
        column("adds", Kind::Number),
        column("before", Kind::Number),
        column("after", Kind::Number),
        column("change", Kind::Number),
    ];
    if intervals {
        columns.push(column("95 % interval", Kind::Number));
    }
    columns.push(column("calls", Kind::Number));
    columns.push(column("method", Kind::Name));
    if reasons {
        columns.push(column("why not", Kind::Text));
    }
    let rows: Vec<Vec<Cell>> = changes
        .iter()
        .take(limit)
        .map(|m| {
            let mut row: Vec<Cell> = vec![
                Cell::styled(signed(m.effect_ns), proven.unwrap_or_default()),
                duration(m.before.mean_ns.round() as u64).into(),
                duration(m.after.mean_ns.round() as u64).into(),
                ratio(m.ratio).into(),
            ];
            if intervals {
                let interval = m
                    .interval
                    .map(|(low, high)| format!("{} … {}", ratio(low), ratio(high)));
                row.push(interval.unwrap_or_default().into());
            }
            row.push(calls(m).into());
            row.push(name(m, changes).into());
            if reasons {
                row.push(reason(m).unwrap_or_default().into());
            }
            row
        })
        .collect();
    page.table(&columns, &rows)?;
    page.more(changes.len().saturating_sub(limit))
}

/// Why a difference is inconclusive.
fn reason(m: &MethodChange) -> Option<&'static str> {
    match m.verdict {
        Verdict::TooFew => Some("too few"),
        Verdict::SingleCalls => Some("a few long calls"),
        Verdict::Contradictory => Some("most calls don't"),
        Verdict::Slower | Verdict::Faster | Verdict::Chance => None,
    }
}

fn calls(m: &MethodChange) -> String {
    let (before, after) = (m.before.calls, m.after.calls);
    if before == after {
        words::count(before)
    } else {
        format!("{} → {}", words::count(before), words::count(after))
    }
}

/// The method, with its parameters if there are overloads of it.
fn name(m: &MethodChange, all: &[&MethodChange]) -> String {
    let is_overload = |o: &&MethodChange| o.method == m.method && o.signature != m.signature;
    let parameters = if all.iter().any(is_overload) {
        m.parameters.as_str()
    } else {
        ""
    };
    format!("{}{parameters}", m.method)
}

fn write_calls(
    page: &mut Page,
    title: &str,
    changes: &[CallChange],
    traces: usize,
    limit: usize,
) -> io::Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    writeln!(page)?;
    page.strong(title)?;
    let mut columns = vec![column("time", Kind::Number), column("calls", Kind::Number)];
    if traces > 1 {
        columns.push(column("traces", Kind::Number));
    }
    columns.push(column("of", Kind::Name));
    columns.push(column("by", Kind::Name));
    columns.push(column("", Kind::Text));
    let rows: Vec<Vec<Cell>> = changes
        .iter()
        .take(limit)
        .map(|c| {
            let mut row: Vec<Cell> = vec![duration(c.ns).into(), words::count(c.calls).into()];
            if traces > 1 {
                row.push(format!("{} of {traces}", c.traces).into());
            }
            row.push(c.callee.clone().into());
            let caller = c.caller.clone();
            row.push(
                caller
                    .unwrap_or_else(|| "(outermost call)".to_owned())
                    .into(),
            );
            let by_chance = c.missed_by_chance > SIGNIFICANT;
            row.push(if by_chance { "maybe chance" } else { "" }.into());
            row
        })
        .collect();
    page.table(&columns, &rows)?;
    page.more(changes.len().saturating_sub(limit))
}

/// `+12.0 ms`, `-3.40 µs`
fn signed(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "+" };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// `+12 %`, `-40 %`, `×3.2`
fn ratio(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match ratio {
        r if !r.is_finite() => "from 0".to_owned(),
        r if r >= 99.5 => format!("×{}", words::count(r.round() as u64)),
        r if r >= 1.995 => format!("×{r:.1}"),
        _ if percent.abs() < 9.95 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_percentages_or_factors() {
        let expected = [
            (1.0, "+0.0 %"),
            (1.123, "+12 %"),
            (1.034, "+3.4 %"),
            (0.6, "-40 %"),
            (2.0, "×2.0"),
            (99.4, "×99.4"),
            (1_234.0, "×1 234"),
            (f64::INFINITY, "from 0"),
        ];
        for (value, text) in expected {
            assert_eq!(ratio(value), text);
        }
        assert_eq!(signed(-3_400), "-3.40 µs");
        assert_eq!((percent("0.5 %"), percent("7")), (Ok(0.005), Ok(0.07)));
        assert!(percent("-1").is_err() && percent("x").is_err() && percent("NaN").is_err());
    }
}
