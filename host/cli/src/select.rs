// SPDX-License-Identifier: Apache-2.0
//! The part of a trace that a question is about: threads, a stretch of time, levels of calls.

use std::fmt;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use hindsight_analysis::{parse_duration, Selection, Window};
use hindsight_decoder::{DamagedPart, Thread, ThreadKey, Trace};
use wildmatch::WildMatch;

use crate::words::duration;

/// The part of a trace that is asked about.
#[derive(Args, Default)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Select {
    #[command(flatten)]
    part: Part,
    /// Only this number of levels of calls, the outermost first; deeper calls count as time of their callers
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
}

/// Threads, and a stretch of their time.
#[derive(Args, Default)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Part {
    /// Only this thread, by name or id; in names, * and ? stand for any characters; ring:N is the thread of one ring;
    /// may be given several times
    #[arg(long, short, value_name = "NAME|TID")]
    thread: Vec<String>,
    #[command(flatten)]
    time: Time,
}

/// A stretch of a trace.
#[derive(Args, Default)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Time {
    /// Only calls that ran from this time on: 1.5s or 200ms after the trace's beginning, -2s before its end
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = Offset::parse)]
    from: Option<Offset>,
    /// Only calls that ran before this time, written as for --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = Offset::parse)]
    to: Option<Offset>,
}

/// A time in a trace, relative to its beginning or end, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    AfterStart(u64),
    BeforeEnd(u64),
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Offset::AfterStart(ns) => f.write_str(&duration(*ns)),
            Offset::BeforeEnd(ns) => write!(f, "-{}", duration(*ns)),
        }
    }
}

impl Offset {
    fn parse(text: &str) -> Result<Self, String> {
        if text.contains(',') {
            return Err("not a time: write a decimal point, as in 2.5s".to_owned());
        }
        let (before_end, time) = match text.trim().strip_prefix('-') {
            Some(time) => (true, time),
            None => (false, text.trim()),
        };
        let ns = parse_duration(time).ok_or(
            "not a time: write 1.5s, 200ms or 1m30s after the trace's beginning, or -2s before its end",
        )?;
        Ok(if before_end {
            Offset::BeforeEnd(ns)
        } else {
            Offset::AfterStart(ns)
        })
    }

    /// CLOCK_BOOTTIME, ns.
    fn of(self, trace: &Trace) -> u64 {
        match self {
            Offset::AfterStart(ns) => trace.start_ns().saturating_add(ns),
            Offset::BeforeEnd(ns) => trace.end_ns().saturating_sub(ns),
        }
    }
}

impl Time {
    /// The selected time, if `--from` or `--to` is given.
    pub(crate) fn window(&self, trace: &Trace, file: &Path) -> Result<Option<Window>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let (start, end) = (trace.start_ns(), trace.end_ns());
        // Without `--to`, the selected time includes the end of the trace.
        let from_ns = self.from.map_or(start, |m| m.of(trace).max(start));
        let to_ns = match self.to {
            None | Some(Offset::BeforeEnd(0)) => end + 1,
            Some(to) => to.of(trace),
        };
        let whole = duration(end - start);
        let file = file.display();
        if let Some(from) = self.from {
            ensure!(
                from != Offset::BeforeEnd(0),
                "{file}: --from {from} is the end of the trace, after which nothing was recorded"
            );
            ensure!(
                from_ns <= end,
                "{file}: the trace is {whole} long; --from {from} is after its end"
            );
        }
        if let Some(to) = self.to {
            ensure!(
                to_ns > start,
                "{file}: the trace is {whole} long; --to {to} is not after its beginning"
            );
        }
        if let (Some(from), Some(to)) = (self.from, self.to) {
            ensure!(
                from_ns < to_ns,
                "{file}: --from {from} is not before --to {to}; the trace is {whole} long"
            );
        }
        Ok(Some(Window { from_ns, to_ns }))
    }
}

impl Select {
    /// Whether no part is chosen.
    pub(crate) fn is_everything(&self) -> bool {
        let Select { part, depth } = self;
        let Part { thread, time } = part;
        thread.is_empty() && time.from.is_none() && time.to.is_none() && depth.is_none()
    }

    /// The selection, for this trace.
    pub(crate) fn selection(&self, trace: &Trace, file: &Path) -> Result<Selection> {
        Ok(Selection {
            depth: self.depth,
            ..self.part.selection(trace, file)?
        })
    }

    /// Whether a damaged part may hold calls of the selected threads.
    pub(crate) fn concerns(&self, part: &DamagedPart) -> bool {
        let DamagedPart::Ring {
            thread, tid, name, ..
        } = part
        else {
            return true;
        };
        let selected = &self.part.thread;
        selected.is_empty()
            || selected.iter().any(|wanted| {
                let is_ring = *wanted == format!("ring:{}", thread.ring);
                let is_tid = tid.is_none_or(|tid| *wanted == tid.to_string());
                let is_name = name
                    .as_ref()
                    .is_none_or(|name| WildMatch::new(wanted).matches(name));
                is_ring || is_tid || is_name
            })
    }

    /// The part of the trace that is asked about.
    pub(crate) fn apply(&self, trace: Trace, file: &Path) -> Result<Trace> {
        Ok(self.selection(&trace, file)?.apply(trace))
    }
}

impl Part {
    /// The selection, for this trace.
    pub(crate) fn selection(&self, trace: &Trace, file: &Path) -> Result<Selection> {
        let threads = if self.thread.is_empty() {
            None
        } else {
            let mut keys: Vec<ThreadKey> = Vec::new();
            for wanted in &self.thread {
                keys.extend(find_threads(trace, file, wanted)?.iter().map(|t| t.key));
            }
            Some(keys)
        };
        Ok(Selection {
            threads,
            window: self.time.window(trace, file)?,
            depth: None,
        })
    }
}

/// The threads that are asked for by id, ring or name; at least one.
fn find_threads<'a>(trace: &'a Trace, file: &Path, wanted: &str) -> Result<Vec<&'a Thread>> {
    let find = |is: &dyn Fn(&Thread) -> bool| -> Vec<&'a Thread> {
        trace.threads.iter().filter(|t| is(t)).collect()
    };
    let tid: Option<u32> = wanted.parse().ok();
    let ring: Option<u32> = wanted.strip_prefix("ring:").and_then(|r| r.parse().ok());
    let pattern = WildMatch::new(wanted);
    let has_ring = |t: &Thread| {
        let mut rings = t.parts.iter().map(|p| p.ring).chain([t.key.ring]);
        rings.any(|r| Some(r) == ring)
    };
    let mut found = find(&|t| Some(t.tid) == tid || has_ring(t));
    if found.is_empty() {
        found = find(&|t| pattern.matches(&t.name));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if trace.threads.is_empty() {
        bail!("{}: no thread was traced", file.display());
    }
    let name = |t: &Thread| match wanted.starts_with("ring:") {
        true => format!("ring:{} ({})", t.key.ring, t.name),
        false => format!("{} ({})", t.tid, t.name),
    };
    let present: Vec<String> = trace.threads.iter().map(name).collect();
    bail!(
        "{}: there is no thread {wanted:?} in the trace; there are {}",
        file.display(),
        present.join(", ")
    )
}

/// The wanted thread, or the main thread, or the first. If several threads have the wanted name or id, the first one is
/// taken, and a note names the others.
pub(crate) fn thread_or_main<'a>(
    trace: &'a Trace,
    file: &Path,
    wanted: Option<&str>,
) -> Result<&'a Thread> {
    let Some(wanted) = wanted else {
        return trace
            .main_thread()
            .or(trace.threads.first())
            .with_context(|| format!("{}: no thread was traced", file.display()));
    };
    let found = find_threads(trace, file, wanted)?;
    let name = |t: &&Thread| format!("\"{}\" (tid {}, ring:{})", t.name, t.tid, t.key.ring);
    if found.len() > 1 {
        let others: Vec<String> = found[1..].iter().map(name).collect();
        anstream::eprintln!(
            "note: {wanted} is {} threads: this is about {}; the others are {}",
            found.len(),
            name(&found[0]),
            others.join(", ")
        );
    }
    Ok(found[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_trace_is_the_end_of_the_recording() {
        let trace = hindsight_testkit::events_only().encode();
        let trace = Trace::decode("t".as_ref(), &trace).unwrap();
        let window = |from: Option<&str>, to: Option<&str>| {
            let offset = |text: &str| Offset::parse(text).unwrap();
            let time = Time {
                from: from.map(offset),
                to: to.map(offset),
            };
            time.window(&trace, "t".as_ref())
        };
        let whole = window(Some("0"), None).unwrap();
        assert_eq!(window(None, Some("-0s")).unwrap(), whole);
        let error = window(Some("-0s"), None).unwrap_err().to_string();
        assert!(
            error.contains("after which nothing was recorded"),
            "{error}"
        );
    }

    #[test]
    fn times_are_written_as_people_write_them() {
        let after = |ns| Ok(Offset::AfterStart(ns));
        let before = |ns| Ok(Offset::BeforeEnd(ns));
        let expected = [
            ("1.5s", after(1_500_000_000)),
            ("200ms", after(200_000_000)),
            ("200 ms", after(200_000_000)),
            ("10us", after(10_000)),
            ("10µs", after(10_000)),
            ("7ns", after(7)),
            ("1m30s", after(90_000_000_000)),
            ("0", after(0)),
            ("-2s", before(2_000_000_000)),
            ("-0", before(0)),
        ];
        for (text, moment) in expected {
            assert_eq!(Offset::parse(text).map_err(drop), moment, "{text}");
        }
        for text in [
            "",
            "-",
            "5",
            "1.5",
            "s",
            "--2s",
            "2 parsecs",
            "1s ago",
            "1e3s",
        ] {
            assert!(Offset::parse(text).is_err(), "{text}");
        }
    }
}
