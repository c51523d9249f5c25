// SPDX-License-Identifier: Apache-2.0
//! `hindsight match`: known bad behaviour, by signatures.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use hindsight_analysis::{
    parse_signatures, Checked, Example, Finding, Measure, Signature, Unknown,
};
use serde::Serialize;

use crate::batch::Failure;
use crate::damage::{self, DamageReport};
use crate::input::{ensure_file, Reading};
use crate::output::{unless_closed, write_json};
use crate::page::{Look, Page};
use crate::progress;
use crate::select::Select;
use crate::taken_back::{self, TakenBack};
use crate::words::{self, count, duration, shorten};

/// Largest file of signatures, bytes: they are written by hand.
const MAX_BYTES: u64 = 1 << 20;
/// Most calls of a stack that are shown, the innermost ones.
const MAX_STACK: usize = 10;

#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 no signature matched; 1 at least one did; 2 a file cannot be read, or is so damaged \
                  that a match cannot be told, or has only stacks of its threads, whatever the others hold, or wrong \
                  usage.\n\
                  docs/signatures.md describes the format of signatures."
)]
pub(crate) struct Arguments {
    /// Traces
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// A TOML file of signatures; may be given several times
    #[arg(long, short, required = true, value_name = "TOML", value_hint = clap::ValueHint::FilePath)]
    signatures: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    select: Select,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    file: String,
    matched: bool,
    findings: Vec<Finding>,
    damaged: Vec<DamageReport>,
    #[serde(skip)]
    taken_back: Option<TakenBack>,
    /// Why the file cannot be read; then there are no findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<ExitCode> {
    let mut signatures = Vec::new();
    for file in &arguments.signatures {
        signatures.extend(read_signatures(file)?);
    }
    let mut reports = Vec::new();
    let bar = progress::bar(arguments.files.len());
    for file in &arguments.files {
        bar.set_message(file.display().to_string());
        reports.push(report(file, arguments, &signatures));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let failed = |r: &Report| r.error.is_some() || r.findings.iter().any(|finding| finding.unknown);
    let code = match reports.iter().any(failed) {
        true => FAILED,
        false => u8::from(reports.iter().any(|r| r.matched)),
    };
    let shown = if arguments.json {
        write_json(&reports)
    } else {
        Page::new(look).show(|page| write(page, &reports))
    };
    unless_closed(shown)?;
    Ok(ExitCode::from(code))
}

/// The exit code on failure: 1 is an answer.
pub(crate) const FAILED: u8 = 2;

/// The report on one file. A file that cannot be read does not keep the others from being searched.
fn report(file: &Path, arguments: &Arguments, signatures: &[Signature]) -> Report {
    let mut report = Report {
        file: file.display().to_string(),
        matched: false,
        findings: Vec::new(),
        damaged: Vec::new(),
        taken_back: None,
        error: None,
    };
    let trace = arguments.reading.read(file);
    match trace.and_then(|trace| arguments.select.apply(trace, file)) {
        Ok(mut trace) => {
            report.damaged = damage::reports(&trace);
            report.taken_back = TakenBack::of_trace(&trace);
            // Damage of rings that are not selected does not matter.
            trace.damaged.retain(|d| arguments.select.concerns(&d.part));
            report.findings = signatures.iter().map(|s| s.find(&trace)).collect();
            report.matched = report.findings.iter().any(|f| f.matched);
        }
        Err(e) => report.error = Some(Failure::report(file, &e).error),
    }
    report
}

fn read_signatures(file: &Path) -> Result<Vec<Signature>> {
    ensure_file(file)?;
    let cannot = || format!("cannot read {}", file.display());
    let length = std::fs::metadata(file).with_context(cannot)?.len();
    anyhow::ensure!(
        length <= MAX_BYTES,
        "{}: {} is too long for a file of signatures",
        file.display(),
        words::bytes(length)
    );
    let text = std::fs::read_to_string(file).with_context(cannot)?;
    Ok(parse_signatures(&file.display().to_string(), &text)?)
}

fn write(page: &mut Page, reports: &[Report]) -> io::Result<()> {
    // A file that could not be read has been reported on standard error.
    let readable = reports.iter().filter(|r| r.error.is_none());
    for (i, report) in readable.enumerate() {
        if i > 0 {
            writeln!(page)?;
        }
        if reports.len() > 1 {
            page.strong(&report.file)?;
        }
        let (matched, others): (Vec<&Finding>, Vec<&Finding>) =
            report.findings.iter().partition(|f| f.matched);
        for finding in &matched {
            write_match(page, finding)?;
        }
        for finding in &others {
            let palette = page.palette;
            let (dim, reset) = (palette.dim, palette.reset);
            let (answer, why) = match finding.unknown_because {
                Some(reason) => ("unknown ", why_unknown(reason).to_owned()),
                None => ("no match", why_not(finding)),
            };
            writeln!(
                page,
                "{dim}{answer}{reset}  {}{dim}: {why}{reset}",
                finding.signature
            )?;
        }
        let all = words::counted(report.findings.len() as u64, "signature", "signatures");
        page.dim(&format!("{} of {all} matched.", matched.len()))?;
        taken_back::write(page, report.taken_back.as_ref())?;
        damage::write(page, &report.damaged)?;
    }
    Ok(())
}

fn write_match(page: &mut Page, f: &Finding) -> io::Result<()> {
    let (bad, strong, reset) = (page.palette.bad, page.palette.strong, page.palette.reset);
    writeln!(page, "{bad}MATCH{reset}     {strong}{}{reset}", f.signature)?;
    let condition = |measure: Measure| {
        let checked = f.conditions.iter().find(|c| c.measure == measure);
        checked.map_or_else(String::new, |c| format!(" ({})", c.wanted))
    };
    let sampled = words::counted(
        f.sampled_calls,
        "call found in stacks",
        "calls found in stacks",
    );
    let calls = match (f.calls, f.sampled_calls) {
        (calls, 0) => words::counted(calls, "call", "calls"),
        (0, _) => sampled,
        (calls, _) => format!("{} and {sampled}", words::counted(calls, "call", "calls")),
    };
    let facts = [
        format!("{calls}{}", condition(Measure::Calls)),
        format!("mean {}{}", duration(f.mean_ns), condition(Measure::Mean)),
        format!("longest {}{}", duration(f.max_ns), condition(Measure::Max)),
        format!(
            "together {}{}",
            duration(f.total_ns),
            condition(Measure::Total)
        ),
        format!("{:.1} % of the time{}", f.share, condition(Measure::Share)),
    ];
    let shown = if f.calls == 0 { &facts[..1] } else { &facts };
    page.indented(&format!("{}.", shown.join(", ")), 10)?;
    if let Some(longest) = &f.longest {
        write_stack(page, longest)?;
    }
    if !f.help.is_empty() {
        page.indented(&f.help, 10)?;
    }
    writeln!(page)
}

fn write_stack(page: &mut Page, e: &Example) -> io::Result<()> {
    let at = match e.at_ns {
        0 => "at the beginning".to_owned(),
        ns => format!("{} after the beginning", duration(ns)),
    };
    let open = if e.ended {
        ""
    } else {
        ", its end was not seen"
    };
    let (thread, tid) = (&e.thread, e.tid);
    let ns = duration(e.ns);
    let ns = match e.sampled {
        true => format!("about {ns}"),
        false => ns,
    };
    page.indented(
        &format!("The longest: {ns} on thread \"{thread}\" (tid {tid}), {at}{open}:"),
        10,
    )?;
    let hidden = e.stack.len().saturating_sub(MAX_STACK);
    let (dim, reset) = (page.palette.dim, page.palette.reset);
    if hidden > 0 {
        let calls = words::counted(hidden as u64, "call", "calls");
        writeln!(page, "            {dim}… {calls} above{reset}")?;
    }
    for (level, method) in e.stack[hidden..].iter().enumerate() {
        let indent = 12 + 2 * level;
        let room = page
            .width
            .map_or(usize::MAX, |w| w.saturating_sub(indent).max(20));
        writeln!(page, "{:indent$}{}", "", shorten(method, room))?;
    }
    Ok(())
}

/// The value of a condition, as text.
fn value(checked: &Checked) -> String {
    match checked.measure {
        Measure::Calls => count(checked.value as u64),
        Measure::Share => format!("{:.1} %", checked.value),
        _ => duration(checked.value as u64),
    }
}

fn why_unknown(reason: Unknown) -> &'static str {
    match reason {
        Unknown::Damaged => "calls or names may be missing",
        Unknown::Sampled => {
            "its calls were found in stacks, which do not tell exactly how many there were and how long they took"
        }
        Unknown::EventsOnly => "its threads recorded events only, and no stack has such a call",
    }
}

/// The conditions that don't hold.
fn why_not(f: &Finding) -> String {
    if f.calls == 0 {
        return "no such call".to_owned();
    }
    let failed = f.conditions.iter().filter(|c| !c.holds);
    let failed: Vec<String> = failed
        .map(|c| {
            let measure = match c.measure {
                Measure::Calls => "calls",
                Measure::Mean => "mean",
                Measure::Max => "longest",
                Measure::Total => "together",
                Measure::Share => "share",
            };
            format!("{measure} {}, not {}", value(c), c.wanted)
        })
        .collect();
    failed.join("; ")
}
