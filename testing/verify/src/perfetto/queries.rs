// SPDX-License-Identifier: Apache-2.0
//! Questions to Perfetto's trace processor about a trace.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use serde_json::Value;

/// What a trace has.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Slices of calls, of calls from samples, and events.
    pub(super) calls: u64,
    pub(super) samples: u64,
    pub(super) events: u64,
    /// Threads with our slices since the scheduler's first event, and the ids of those among them that have no slice of it.
    pub(super) threads: u64,
    pub(super) apart: Vec<u64>,
    /// Calls that begin in the time of the scheduler's events, at most so many as are asked for.
    pub(super) begun: u64,
    /// Those among them whose thread does not run then: time in ns, and thread id.
    pub(super) not_running: Vec<(u64, u64)>,
    /// The scheduler's last event, ns.
    pub(super) last_switch_ns: u64,
    /// Errors that the trace processor counts.
    pub(super) errors: Vec<(String, u64)>,
    /// Processes with our slices.
    pub(super) pids: Vec<u64>,
    /// Triggers in the trace.
    pub(super) triggers: Vec<String>,
    /// Slices that are not closed.
    pub(super) unclosed: u64,
}

impl Answers {
    /// All slices of the data source.
    pub(super) fn slices(&self) -> u64 {
        self.calls + self.samples + self.events
    }
}

const COUNTS: &str = "select category, count(*) as n, sum(dur < 0) as unclosed from slice where category glob 'hindsight.*' group by category";
const ERRORS: &str =
    "select name, value from stats where severity in ('error', 'data_loss') and value > 0";
const PIDS: &str = "select distinct pid from slice join thread_track t on slice.track_id = t.id join thread using (utid) join process using (upid) where category glob 'hindsight.*'";
const THREADS: &str = "with ours as (select distinct utid from slice join thread_track t on slice.track_id = t.id where category = 'hindsight.call' and ts > (select min(ts) from sched)) select tid, exists (select 1 from sched where sched.utid = ours.utid) as joined from ours join thread using (utid)";
/// Times of the scheduler's events are in µs, rounded down.
const RUNNING: &str = "with begun as (select ts, utid from slice join thread_track t on slice.track_id = t.id where category = 'hindsight.call' and slice.arg_set_id is null and ts > (select min(ts) + 1000000 from sched) and ts < (select max(ts) from sched) order by slice.id desc limit 500) select begun.ts as ts, tid, exists (select 1 from sched s where s.utid = begun.utid and begun.ts >= s.ts - 2000 and begun.ts <= s.ts + s.dur + 2000) as running from begun join thread using (utid)";
const LAST_SWITCH: &str = "select max(ts) as ts from ftrace_event where name = 'sched_switch'";
const TRIGGERS: &str = "select str_value as name from metadata where name like '%trigger%' union select slice.name as name from slice join track on slice.track_id = track.id where track.name = 'Trace Triggers'";

/// Asks about a trace in a file.
pub(super) fn ask(checkout: &Path, trace: &Path) -> Result<Answers> {
    let all = [
        COUNTS,
        ERRORS,
        PIDS,
        THREADS,
        RUNNING,
        TRIGGERS,
        LAST_SWITCH,
    ];
    let mut child = Command::new("node")
        .arg(checkout.join("scripts/perfetto/query.mjs"))
        .arg(trace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run node; install Node.js 20 or newer")?;
    let input = child.stdin.take().context("no input")?;
    {
        let mut input = input;
        input.write_all((all.join("\n") + "\n").as_bytes())?;
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "query.mjs failed on {}",
        trace.display()
    );
    let text = String::from_utf8(output.stdout)?;
    let lines: Vec<Vec<Value>> = text
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect::<Result<_>>()?;
    ensure!(
        lines.len() == all.len(),
        "the trace processor answered: {text}"
    );
    Ok(answers(&lines))
}

fn number(row: &Value, name: &str) -> u64 {
    let value = &row[name];
    let text = value.as_str().and_then(|text| text.parse().ok());
    value.as_u64().or(text).unwrap_or(0)
}

fn answers(lines: &[Vec<Value>]) -> Answers {
    let texts = |rows: &[Value], name: &str| -> Vec<String> {
        let texts = rows.iter().filter_map(|row| row[name].as_str());
        texts.map(str::to_owned).collect()
    };
    let mut answers = Answers::default();
    for row in &lines[0] {
        let count = number(row, "n");
        answers.unclosed += number(row, "unclosed");
        match row["category"].as_str() {
            Some("hindsight.call") => answers.calls = count,
            Some("hindsight.sample") => answers.samples = count,
            _ => answers.events = count,
        }
    }
    let errors = lines[1].iter();
    answers.errors = errors
        .map(|row| {
            let name = row["name"].as_str().unwrap_or_default();
            (name.to_owned(), number(row, "value"))
        })
        .collect();
    answers.pids = lines[2].iter().map(|row| number(row, "pid")).collect();
    answers.threads = lines[3].len() as u64;
    let apart = lines[3].iter().filter(|row| number(row, "joined") == 0);
    answers.apart = apart.map(|row| number(row, "tid")).collect();
    answers.begun = lines[4].len() as u64;
    let not_running = lines[4].iter().filter(|row| number(row, "running") == 0);
    answers.not_running = not_running
        .map(|row| (number(row, "ts"), number(row, "tid")))
        .collect();
    answers.triggers = texts(&lines[5], "name");
    if let Some(row) = lines[6].first() {
        answers.last_switch_ns = number(row, "ts");
    }
    answers
}
