// SPDX-License-Identifier: Apache-2.0
//! `hindsight watch`: records who reads and writes a field of a running process.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use clap::{ArgGroup, Args, ValueEnum};
use hindsight_analysis::{accesses, parse_duration, AccessKind, Accesses};
use hindsight_control::{
    Access, AddedRule, AddedRules, BranchRule, ControlSocket, FieldRule, RuleState,
};
use hindsight_decoder::Trace;
use rustix::time::{clock_gettime, ClockId};
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::damage;
use crate::input::Reading;
use crate::loops;
use crate::output::{self, write_json};
use crate::page::{column, Kind, Look, Page};
use crate::words::{count, counted, duration, time};

#[derive(Args)]
#[command(
    group = ArgGroup::new("where").required(true).args(["lab", "device"]),
    after_help = "The process must record the events of the category rules (events=…+rules) and have a control socket \
        (socket=PATH). Methods that access the field are interpreted meanwhile. At the end the rules that were in force before \
        are in force again, also after Ctrl-C and after an error."
)]
pub(crate) struct Arguments {
    /// The process runs on this machine, in the lab
    #[arg(long)]
    lab: bool,
    /// The process runs on a device (not possible yet)
    #[arg(long)]
    device: bool,
    /// The process's id, or the path of its control socket
    #[arg(value_name = "PROCESS")]
    process: String,
    /// The fields, as the process names them: com.example.Flag.done; a nested class is Outer$Inner
    #[arg(value_name = "CLASS.FIELD", required_unless_present = "branches")]
    fields: Vec<String>,
    /// For how long, such as 5s; without it, until Ctrl-C
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    time: Option<Duration>,
    /// Which accesses are recorded
    #[arg(long, value_enum, default_value_t = Which::Both, value_name = "ACCESS")]
    access: Which,
    /// Record the field's values, too; the process must have been started with values=yes
    #[arg(long)]
    values: bool,
    /// Count the branches that this method takes, too; may be given several times
    #[arg(long, value_name = "CLASS.METHOD")]
    branches: Vec<String>,
    /// The app, for the fields that loops read, as for hindsight loops
    #[arg(long, value_name = "FILE", requires = "branches", value_hint = clap::ValueHint::FilePath)]
    dex: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Where to save the snapshot; without it, it stays in the process's folder
    #[arg(long, short, value_name = "FILE", help_heading = "Output", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write JSON; times are in ns
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Read,
    Written,
    Both,
}

fn time_limit(text: &str) -> Result<Duration> {
    let ns = parse_duration(text).filter(|&ns| ns > 0);
    let ns = ns.ok_or_else(|| anyhow!("no length of time; examples: 5s, 200ms, 1m30s"))?;
    Ok(Duration::from_nanos(ns))
}

#[derive(Serialize)]
struct Report {
    file: PathBuf,
    pid: u32,
    process: String,
    /// CLOCK_BOOTTIME of the trace's beginning and end, ns.
    start_ns: u64,
    end_ns: u64,
    /// CLOCK_BOOTTIME when the rules came into force, ns.
    watched_from_ns: u64,
    fields: Vec<FieldReport>,
    /// The methods of --branches.
    #[serde(skip_serializing_if = "Option::is_none")]
    branches: Option<loops::Report>,
}

#[derive(Serialize)]
struct FieldReport {
    field: String,
    /// Whether its class was loaded.
    class_loaded: bool,
    /// What may be missing, or empty.
    message: String,
    accesses: Vec<Accesses>,
}

pub(crate) fn run(arguments: &Arguments, look: &Look) -> Result<()> {
    if arguments.device {
        bail!("processes on a device cannot be watched yet: their control sockets serve only themselves and root; use --lab");
    }
    let socket = find(&arguments.process)?;
    let archive = loops::archive(&arguments.dex)?;
    let stop = stop_requests()?;
    let from_ns = boottime_ns();
    let mut added = AddedRules::put_into_force(&socket, &rules(arguments))?;
    let recorded = record(arguments, &socket, &added, &stop);
    let restored = added.restore().context("at the end");
    let (snapshot, states) = match (recorded, &restored) {
        (Ok(recorded), _) => recorded,
        (Err(e), Ok(())) => return Err(e),
        (Err(e), Err(other)) => bail!("{e:#}; {other:#}"),
    };
    let file = match &arguments.output {
        Some(output) => {
            move_file(&snapshot, output)?;
            output.clone()
        }
        None => snapshot,
    };
    let trace = arguments.reading.read(&file)?;
    let branches = loops::report(&trace, &archive, from_ns);
    let report = Report {
        file,
        pid: trace.process.pid,
        process: trace.process.name.clone(),
        start_ns: trace.start_ns(),
        end_ns: trace.end_ns(),
        watched_from_ns: from_ns,
        fields: fields(&trace, from_ns, added.rules(), states),
        branches: Some(branches).filter(|_| !arguments.branches.is_empty()),
    };
    match arguments.json {
        true => write_json(&report)?,
        false => Page::new(look).show(|page| {
            write(page, &report, !arguments.dex.is_empty())?;
            damage::write(page, &damage::reports(&trace))
        })?,
    }
    restored
}

/// The rules that the arguments ask for.
fn rules(arguments: &Arguments) -> Vec<AddedRule> {
    let access = match arguments.access {
        Which::Read => Access::Read,
        Which::Written => Access::Written,
        Which::Both => Access::Both,
    };
    let field = |field: &String| {
        AddedRule::Field(FieldRule {
            value: arguments.values,
            ..FieldRule::new(field, access)
        })
    };
    let method = |method: &String| AddedRule::Branches(BranchRule::new(method));
    let fields = arguments.fields.iter().map(field);
    fields
        .chain(arguments.branches.iter().map(method))
        .collect()
}

/// The accesses to the fields of the rules, whose states at the end are these.
fn fields(
    trace: &Trace,
    from_ns: u64,
    rules: &[AddedRule],
    states: Vec<(RuleState, String)>,
) -> Vec<FieldReport> {
    let report = |(rule, (state, message)): (&AddedRule, (RuleState, String))| match rule {
        AddedRule::Field(rule) => Some(FieldReport {
            field: rule.field.clone(),
            class_loaded: state == RuleState::On,
            message,
            accesses: accesses(trace, &rule.name, from_ns),
        }),
        AddedRule::Branches(_) => None,
    };
    rules.iter().zip(states).filter_map(report).collect()
}

/// The socket of a process that is named by its id, or by the socket.
fn find(process: &str) -> Result<ControlSocket> {
    match process.parse() {
        Ok(pid) => Ok(ControlSocket::of_process(pid)?),
        Err(_) if process.contains('/') => Ok(ControlSocket::at(Path::new(process))),
        Err(_) => bail!(
            "'{process}' is neither a process's id nor the path of a control socket, such as /tmp/app.socket"
        ),
    }
}

/// CLOCK_BOOTTIME, ns.
fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Receives something when the user wants to end. The second request ends this program at once.
fn stop_requests() -> Result<mpsc::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked || sender.send(()).is_err() {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            asked = true;
        }
    });
    Ok(receiver)
}

/// Waits while accesses are recorded, and saves them. Returns the snapshot, and the states of the rules at the end.
fn record(
    arguments: &Arguments,
    socket: &ControlSocket,
    added: &AddedRules,
    stop: &mpsc::Receiver<()>,
) -> Result<(PathBuf, Vec<(RuleState, String)>)> {
    for (rule, (state, message)) in added.rules().iter().zip(added.states()?) {
        let member = match rule {
            AddedRule::Field(rule) => &rule.field,
            AddedRule::Branches(rule) => &rule.method,
        };
        if state == RuleState::Waits {
            note(&format!(
                "the class of {member} is not loaded yet: it is watched from then on"
            ));
        }
        if !message.is_empty() {
            note(&format!("{member}: {message}"));
        }
    }
    let fields = [&arguments.fields[..], &arguments.branches[..]].concat();
    let fields = fields.join(", ");
    match arguments.time {
        Some(time) => {
            let time = time.min(Duration::from_secs(u32::MAX.into()));
            note(&format!("watching {fields}; Ctrl-C ends it earlier"));
            let _ = stop.recv_timeout(time);
        }
        None => {
            note(&format!("watching {fields} until Ctrl-C"));
            let _ = stop.recv();
        }
    }
    let states = added.states()?;
    let file = socket.snapshot(&format!("watch {fields}"))?;
    Ok((file, states))
}

fn note(text: &str) {
    anstream::eprintln!("note: {text}");
}

/// Moves a file, also to another file system.
fn move_file(from: &Path, to: &Path) -> Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    // On another file system. It gets its name when it is whole.
    let mut snapshot =
        fs::File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
    output::write_file(to, |file| io::copy(&mut snapshot, file).map(drop))
        .with_context(|| format!("the snapshot is {}", from.display()))?;
    // The process may keep more snapshots than it has to.
    let _ = fs::remove_file(from);
    Ok(())
}

fn write(page: &mut Page, report: &Report, has_dex: bool) -> io::Result<()> {
    let Report { pid, process, .. } = report;
    for field in &report.fields {
        page.strong(&format!("{} in {process} ({pid})", field.field))?;
        if !field.message.is_empty() {
            page.plain(&format!("Note: {}.", field.message))?;
        }
        write_accesses(page, report, field)?;
    }
    if let Some(branches) = &report.branches {
        loops::write(page, branches, has_dex)?;
    }
    page.dim(&format!("Saved in {}.", report.file.display()))
}

fn write_accesses(page: &mut Page, report: &Report, field: &FieldReport) -> io::Result<()> {
    if !field.class_loaded {
        return page.plain(
            "Its class was not loaded while it was watched: is the name right? A nested class is Outer$Inner.",
        );
    }
    if field.accesses.is_empty() {
        return page.plain(
            "No access was recorded. Accesses by reflection, Unsafe and VarHandle are not, nor those by code that was running \
             before.",
        );
    }
    let before_end = |a: &Accesses| duration(report.end_ns.saturating_sub(a.last_at_ns));
    let label = |a: &Accesses| format!("{} ({})", a.thread, a.tid);
    for (kind, verb, unit) in [
        (AccessKind::Written, "written", ("write", "writes")),
        (AccessKind::Read, "read", ("read", "reads")),
    ] {
        let of_kind = || field.accesses.iter().filter(|a| a.kind == kind);
        match of_kind().next() {
            Some(last) => page.plain(&format!(
                "Last {verb} by {}, {} before the end of the trace; {} by {}.",
                label(last),
                before_end(last),
                counted(of_kind().map(|a| a.count).sum(), unit.0, unit.1),
                counted(of_kind().count() as u64, "thread", "threads"),
            ))?,
            None => page.plain(&format!("No {} was recorded.", unit.0))?,
        }
    }
    let rows: Vec<_> = field
        .accesses
        .iter()
        .map(|a| {
            let kind = match a.kind {
                AccessKind::Written => "written",
                AccessKind::Read => "read",
            };
            let object = match a.object {
                0 => String::new(),
                object => format!("{object:#x}"),
            };
            vec![
                time(a.last_at_ns.saturating_sub(report.start_ns)).into(),
                label(a).into(),
                kind.into(),
                count(a.count).into(),
                object.into(),
                a.value.clone().unwrap_or_default().into(),
                place(a).into(),
            ]
        })
        .collect();
    let columns = [
        column("last at", Kind::Number),
        column("thread", Kind::Name),
        column("", Kind::Text),
        column("times", Kind::Number),
        column("object", Kind::Text),
        column("value", Kind::Text),
        column("in", Kind::Prose),
    ];
    page.table(&columns, &rows)
}

/// Where the last access was: the methods, innermost first, and the instruction in the first one.
fn place(access: &Accesses) -> String {
    let mut stack = access.stack.clone();
    if let (Some(first), Some(dex_pc)) = (stack.first_mut(), access.dex_pc) {
        *first = format!("{first} at {dex_pc:#06x}");
    }
    stack.join(" ← ")
}
