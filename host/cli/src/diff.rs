// SPDX-License-Identifier: Apache-2.0
//! `hindsight diff`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{ensure, Context, Result};
use clap::{Args, ValueEnum};
use hindsight_analysis::{
    duration, CallChange, Compare, Comparison, Diff, MethodChange, Side, SideFacts, Unit, Verdict,
    SIGNIFICANT,
};

use crate::input::{read, Mapping, Select};
use crate::progress;
use crate::text::{self, column, Cell, Kind, Look, Page};
use crate::write_json;

/// Narrower pages have no room for intervals.
const ROOM_FOR_INTERVALS: usize = 110;

#[derive(Args)]
#[command(
    after_help = "A folder stands for all .hindsight files in it. From three traces a side on, whole traces are \
                  compared, which tells what differs between versions from what differs between any two runs.\n\
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
    #[command(flatten)]
    mapping: Mapping,
    #[command(flatten)]
    select: Select,
    /// Which time of a call to compare
    #[arg(long, value_enum, default_value_t = Time::SelfTime)]
    time: Time,
    /// Changes of a method's mean time below this don't count
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = percent)]
    min_change: f64,
    /// How many rows of each kind to show
    #[arg(long, short = 'n', default_value_t = 10, value_name = "ROWS")]
    limit: usize,
    /// Also show differences that chance explains
    #[arg(long)]
    all: bool,
    /// Exit with code 1 if a method got slower
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// Write JSON; times are in ns
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Time {
    /// Time in the method itself: where the time goes
    #[value(name = "self")]
    SelfTime,
    /// Time in the method and what it called
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
    let before = traces(&arguments.before)?;
    let after = traces(&arguments.after)?;
    let mut comparison = Comparison::new(match arguments.time {
        Time::SelfTime => Compare::SelfTime,
        Time::Total => Compare::Total,
    });
    let bar = progress::bar(before.len() + after.len());
    for (side, files) in [(Side::Before, &before), (Side::After, &after)] {
        for file in files {
            bar.set_message(file.display().to_string());
            let trace = read(file, &arguments.mapping)?;
            let trace = arguments.select.apply(trace, file)?;
            comparison.add(side, &trace);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let diff = comparison.diff(arguments.min_change);
    let slower = diff.methods.iter().any(|m| m.verdict == Verdict::Slower);
    let code = ExitCode::from(u8::from(arguments.exit_code && slower));
    let shown = if arguments.json {
        write_json(&diff)
    } else {
        write(&mut Page::new(look), &diff, arguments).map_err(Into::into)
    };
    match shown {
        Err(e) if !crate::is_broken_pipe(&e) => Err(e),
        _ => Ok(code),
    }
}

/// The traces that a path stands for.
fn traces(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot = || format!("cannot read the folder {}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(cannot)? {
        let file = entry.with_context(cannot)?.path();
        if file.extension().is_some_and(|e| e == "hindsight") {
            files.push(file);
        }
    }
    ensure!(
        !files.is_empty(),
        "{}: the folder holds no .hindsight files",
        path.display()
    );
    files.sort();
    Ok(files)
}

fn write(page: &mut Page, diff: &Diff, arguments: &Arguments) -> io::Result<()> {
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

    let methods = |n: usize| text::counted(n as u64, "method", "methods");
    let calls = |n: usize| text::counted(n as u64, "call", "calls");
    let number = |n: usize| text::count(n as u64);
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
            "One or two traces a side: what differs, differs between these runs. To learn whether \
             the program differs, compare folders of three or more traces."
        }
        Unit::Traces => "Whole traces are compared: differences are more than those between runs.",
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
        write_methods(page, title, changes, Some(style), arguments.limit)?;
    }
    write_calls(page, "New calls", new, diff.after.traces, arguments.limit)?;
    write_calls(
        page,
        "Gone calls",
        gone,
        diff.before.traces,
        arguments.limit,
    )?;
    write_methods(
        page,
        "Different, but not for sure",
        &unsure,
        None,
        arguments.limit,
    )?;
    if arguments.all {
        write_methods(page, "Within chance", &chance, None, arguments.limit)?;
    }
    writeln!(page)?;
    let hidden = match chance.len() {
        0 => String::new(),
        1 => " One other difference is no more than chance.".to_owned(),
        n => format!(
            " {} other differences are no more than chance.",
            text::count(n as u64)
        ),
    };
    page.dim(&format!(
        "{} on both sides, {} with enough calls for a test; changes from {} % on count, at a corrected p of \
         {SIGNIFICANT}.{hidden}",
        methods(diff.compared_methods),
        text::count(diff.tested_methods as u64),
        (arguments.min_change * 1_000.0).round() / 10.0
    ))?;
    let unnamed = diff.before.unnamed_calls + diff.after.unnamed_calls;
    if unnamed > 0 {
        page.dim(&format!(
            "{} of methods without a symbol could not be compared.",
            text::counted(unnamed, "call", "calls")
        ))?;
    }
    page.flush()
}

fn side(path: &Path, facts: &SideFacts) -> String {
    format!(
        "{}: {}, {} in {} of threads' time",
        path.display(),
        text::counted(facts.traces as u64, "trace", "traces"),
        text::counted(facts.calls, "call", "calls"),
        duration(facts.span_ns)
    )
}

/// `proven`: how what got slower or faster for sure is shown; other rows say why it isn't sure.
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
        columns.push(column("95 % sure", Kind::Number));
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
    more(page, changes.len(), limit)
}

/// Why a difference is not told as slower or faster.
fn reason(m: &MethodChange) -> Option<&'static str> {
    match m.verdict {
        Verdict::TooFew => Some("too few"),
        Verdict::SingleCalls => Some("single calls"),
        Verdict::Contradictory => Some("most calls don't"),
        Verdict::Slower | Verdict::Faster | Verdict::Chance => None,
    }
}

fn calls(m: &MethodChange) -> String {
    let (before, after) = (m.before.calls, m.after.calls);
    if before == after {
        text::count(before)
    } else {
        format!("{} → {}", text::count(before), text::count(after))
    }
}

/// Overloads can only be told apart by their parameters.
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
            let mut row: Vec<Cell> = vec![duration(c.ns).into(), text::count(c.calls).into()];
            if traces > 1 {
                row.push(format!("{} of {traces}", c.traces).into());
            }
            row.push(c.callee.clone().into());
            let caller = c.caller.clone();
            row.push(caller.unwrap_or_else(|| "nobody".to_owned()).into());
            let by_chance = c.missed_by_chance > SIGNIFICANT;
            row.push(if by_chance { "maybe chance" } else { "" }.into());
            row
        })
        .collect();
    page.table(&columns, &rows)?;
    more(page, changes.len(), limit)
}

fn more(page: &mut Page, all: usize, limit: usize) -> io::Result<()> {
    if all <= limit {
        return Ok(());
    }
    let more = text::count((all - limit) as u64);
    page.dim(&format!(
        "… and {more} more; --limit says how many are shown"
    ))
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
        r if r >= 99.5 => format!("×{}", text::count(r.round() as u64)),
        r if r >= 1.995 => format!("×{r:.1}"),
        _ if percent.abs() < 9.95 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_people_say_them() {
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
