// SPDX-License-Identifier: Apache-2.0
//! What is asked about: files, threads, stretches of time, levels of calls.

use std::cell::OnceCell;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use hindsight_analysis::{duration, parse_duration, Selection, Window};
use hindsight_decoder::{Thread, Trace};
use wildmatch::WildMatch;

use crate::progress;

/// The trace that is asked about.
#[derive(Args)]
pub(crate) struct Input {
    /// A .hindsight file, a .trace file of ART's own method tracing, Nanoscope's text, or the published layout
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    mapping: Mapping,
}

/// How names that were shortened are translated back.
#[derive(Args, Default)]
pub(crate) struct Mapping {
    /// The mapping.txt that R8 or ProGuard wrote when it shortened the program's names
    #[arg(long = "mapping", value_name = "MAPPING", value_hint = clap::ValueHint::FilePath)]
    mapping: Option<PathBuf>,
    /// Read once, for all traces.
    #[arg(skip)]
    read: OnceCell<hindsight_decoder::Mapping>,
}

impl Mapping {
    fn apply(&self, trace: &mut Trace) -> Result<()> {
        let Some(file) = &self.mapping else {
            return Ok(());
        };
        let mapping = match self.read.get() {
            Some(mapping) => mapping,
            None => {
                let mapping = hindsight_decoder::Mapping::read(file)?;
                self.read.get_or_init(|| mapping)
            }
        };
        let found = trace.deobfuscate(mapping);
        if found.methods == 0 && !trace.methods.is_empty() {
            // Who closed standard error doesn't want to know.
            let _ = writeln!(
                io::stderr(),
                "note: {} names none of the trace's methods: is it of the same build?",
                file.display()
            );
        }
        Ok(())
    }
}

impl Input {
    pub(crate) fn read(&self) -> Result<Trace> {
        read(&self.file, &self.mapping)
    }
}

/// Decodes a file; says so if that takes long.
pub(crate) fn read(file: &Path, mapping: &Mapping) -> Result<Trace> {
    let _spinner = progress::spinner(format!("decoding {}", file.display()));
    let mut trace = Trace::open(file)?;
    mapping.apply(&mut trace)?;
    Ok(trace)
}

/// The part of a trace that is asked about.
#[derive(Args, Default)]
pub(crate) struct Select {
    /// Only this thread, by id or name; * and ? stand for any characters; may be given several times
    #[arg(long, short, value_name = "NAME|TID")]
    thread: Vec<String>,
    #[command(flatten)]
    time: Time,
    /// Only so many levels of calls, the outermost first; deeper calls count as time of their callers
    #[arg(long, value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
}

/// A stretch of a trace.
#[derive(Args, Default)]
pub(crate) struct Time {
    /// Only what ran from this time on: 1.5s or 200ms after the trace's beginning, -2s before its end
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = Moment::parse)]
    from: Option<Moment>,
    /// Only what ran before this time, written as for --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = Moment::parse)]
    to: Option<Moment>,
}

/// A time in a trace, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    AfterStart(u64),
    BeforeEnd(u64),
}

impl Moment {
    fn parse(text: &str) -> Result<Self, String> {
        let (before_end, time) = match text.trim().strip_prefix('-') {
            Some(time) => (true, time),
            None => (false, text.trim()),
        };
        let ns = parse_duration(time).ok_or(
            "not a time: write 1.5s, 200ms or 1m30s after the trace's beginning, or -2s before its end",
        )?;
        Ok(if before_end {
            Moment::BeforeEnd(ns)
        } else {
            Moment::AfterStart(ns)
        })
    }

    /// CLOCK_BOOTTIME, ns.
    fn of(self, trace: &Trace) -> u64 {
        match self {
            Moment::AfterStart(ns) => trace.start_ns().saturating_add(ns),
            Moment::BeforeEnd(ns) => trace.end_ns().saturating_sub(ns),
        }
    }
}

impl Time {
    /// The stretch that is asked for, if any.
    pub(crate) fn window(&self, trace: &Trace, file: &Path) -> Result<Option<Window>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let (start, end) = (trace.start_ns(), trace.end_ns());
        // The end of the trace belongs to what is asked for unless said otherwise.
        let from_ns = self.from.map_or(start, |m| m.of(trace).max(start));
        let to_ns = self.to.map_or(end + 1, |m| m.of(trace));
        let whole = duration(end - start);
        ensure!(
            from_ns <= end,
            "{}: the trace is {whole} long; --from {} is after its end",
            file.display(),
            duration(from_ns - start)
        );
        ensure!(
            from_ns < to_ns,
            "{}: --from {} is not before --to {}; the trace is {whole} long",
            file.display(),
            duration(from_ns - start),
            duration(to_ns.saturating_sub(start))
        );
        Ok(Some(Window { from_ns, to_ns }))
    }
}

impl Select {
    /// Whether no part is chosen.
    pub(crate) fn is_everything(&self) -> bool {
        let Select {
            thread,
            time,
            depth,
        } = self;
        thread.is_empty() && time.from.is_none() && time.to.is_none() && depth.is_none()
    }

    /// The selection, for this trace.
    pub(crate) fn selection(&self, trace: &Trace, file: &Path) -> Result<Selection> {
        let tids = if self.thread.is_empty() {
            None
        } else {
            let mut tids = Vec::new();
            for wanted in &self.thread {
                tids.extend(find_threads(trace, file, wanted)?.iter().map(|t| t.tid));
            }
            Some(tids)
        };
        Ok(Selection {
            tids,
            window: self.time.window(trace, file)?,
            depth: self.depth,
        })
    }

    /// The part of the trace that is asked about.
    pub(crate) fn apply(&self, trace: Trace, file: &Path) -> Result<Trace> {
        Ok(self.selection(&trace, file)?.apply(trace))
    }
}

/// The threads that are asked for by id or name; at least one.
fn find_threads<'a>(trace: &'a Trace, file: &Path, wanted: &str) -> Result<Vec<&'a Thread>> {
    let tid: Option<u32> = wanted.parse().ok();
    let by_tid = trace.threads.iter().filter(|t| Some(t.tid) == tid);
    let mut found: Vec<&Thread> = by_tid.collect();
    if found.is_empty() {
        let pattern = WildMatch::new(wanted);
        found.extend(trace.threads.iter().filter(|t| pattern.matches(&t.name)));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    if trace.threads.is_empty() {
        bail!("{}: no thread was traced", file.display());
    }
    let name = |t: &Thread| format!("{} ({})", t.tid, t.name);
    let present: Vec<String> = trace.threads.iter().map(name).collect();
    bail!(
        "{}: there is no thread {wanted:?} in the trace; there are {}",
        file.display(),
        present.join(", ")
    )
}

/// The thread that is asked for by id or name: the first, if there are several.
fn find_thread<'a>(trace: &'a Trace, file: &Path, wanted: &str) -> Result<&'a Thread> {
    Ok(find_threads(trace, file, wanted)?[0])
}

/// The thread that is asked for, or the main thread, or the first.
pub(crate) fn thread_or_main<'a>(
    trace: &'a Trace,
    file: &Path,
    wanted: Option<&str>,
) -> Result<&'a Thread> {
    match wanted {
        Some(wanted) => find_thread(trace, file, wanted),
        None => trace
            .main_thread()
            .or(trace.threads.first())
            .with_context(|| format!("{}: no thread was traced", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_write_them() {
        let after = |ns| Ok(Moment::AfterStart(ns));
        let before = |ns| Ok(Moment::BeforeEnd(ns));
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
            assert_eq!(Moment::parse(text).map_err(drop), moment, "{text}");
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
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }
}
