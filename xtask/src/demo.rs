// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask demo`: traces an app with a stall, saves the trace, and explains it. See `docs/demo.md`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::start::{hindsight_program, service_program};
use anyhow::{bail, ensure, Context as _, Result};
use common::{ends_with_in_order, replace, succeed, why_as_json, KillOnDrop, Link, ATTEMPTS};
use hindsight_lab::{build, BuildOptions, Execution, Framework, Isa, Parts, Variant};
use serde::Deserialize;

mod common;
mod events;
mod killed;

/// The demo's program, below `lab/demo`.
const MAIN_CLASS: &str = "com.example.notes.NotesApp";
/// Lines of the program's output.
const TRACE_LINE: &str = "notes: trace: ";
const STALL_LINE: &str = "notes: stall: ";
/// The program itself gives up after 20 seconds.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The result that the source of the program in `lab/demo` implies: the main thread opens a note, and
/// `NoteStore.find` waits for the lock that `NoteStore.saveAll` holds while `NoteFile.syncToFlash` sleeps.
mod expected {
    pub(super) const WAITING: [&str; 2] = [
        "com.example.notes.NoteListScreen.openNote",
        "com.example.notes.NoteStore.find",
    ];
    pub(super) const HOLDING: [&str; 4] = [
        "com.example.notes.NoteStore.saveAll",
        "com.example.notes.NoteFile.writeAll",
        "com.example.notes.NoteFile.syncToFlash",
        "java.lang.Thread.sleep",
    ];
    /// The call among `HOLDING` with the lock, and the call that slept meanwhile.
    pub(super) const HOLDER: &str = "com.example.notes.NoteStore.saveAll";
    pub(super) const CULPRIT: &str = "com.example.notes.NoteFile.syncToFlash";
    pub(super) const THREAD: &str = "notes-sync";
    /// The watchdog's limit: a shorter stall would not have been reported.
    pub(super) const LIMIT_NS: u64 = 400_000_000;
}

/// Options of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How the app's code is executed.
    #[arg(long, value_enum, default_value_t = Mode::Aot)]
    mode: Mode,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm.
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Record events only, no calls: as on all threads of a phone.
    #[arg(long)]
    events: bool,
    /// Compare the result with the app's source; fail if it differs. With --events: the owner of the lock, the sender of the
    /// message, the CPU time, and the methods that stacks show.
    #[arg(long)]
    check: bool,
    /// Folder for demo.hindsight and demo.pftrace.
    #[arg(long, default_value = ".")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    Interpreter,
    Jit,
    Aot,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "JIT",
            Mode::Aot => "AOT",
        }
    }
}

impl From<Mode> for Execution {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Interpreter => Execution::Interpreter,
            Mode::Jit => Execution::Jit,
            Mode::Aot => Execution::Aot,
        }
    }
}

/// Builds the missing parts, runs the app, saves its trace, and explains it with the tool.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<()> {
    let lab = build(&BuildOptions {
        parts: Parts::Programs,
        ..BuildOptions::from_environment(options.isa, Variant::Hindsight)
    })?;
    let framework = Framework::build(&lab, &|step| eprintln!("demo: building {step}"))?;
    let app = framework.compile_app("notes", &checkout.join("lab/demo"))?;
    let hindsight = hindsight_program(checkout)?;

    eprintln!("demo: running the app, {} mode", options.mode.name());
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = fs::canonicalize(scratch.path())?;
    let recorded = if options.events {
        "events=all"
    } else {
        "trace=all"
    };
    let command = || {
        let mut command = framework.app_command(&app, MAIN_CLASS, options.mode.into());
        command.arg(&folder);
        command.env("HINDSIGHT", format!("{recorded},dir={}", folder.display()));
        command
    };
    let trace = options.out.join("demo.hindsight");
    let perfetto = options.out.join("demo.pftrace");
    replace(&run_app(command())?, &trace)?;
    if options.check {
        // On a loaded machine the main thread may try to get the lock all the time, instead of waiting for it.
        for _ in 1..ATTEMPTS {
            let Err(problem) = check_trace(&hindsight, &trace, options) else {
                break;
            };
            println!("demo: another attempt: {problem:#}");
            replace(&run_app(command())?, &trace)?;
        }
    }
    println!("\n$ hindsight why {}", trace.display());
    succeed(Command::new(&hindsight).arg("why").arg(&trace))?;
    println!(
        "\n$ hindsight export {} --output {}",
        trace.display(),
        perfetto.display()
    );
    succeed(
        Command::new(&hindsight)
            .arg("export")
            .arg(&trace)
            .arg("--output")
            .arg(&perfetto),
    )?;
    if options.check && options.events {
        check_trace(&hindsight, &trace, options)?;
        println!(
            "demo: the owner of the lock, the sender of the message and the CPU time agree with the app's source"
        );
    } else if options.check {
        check_trace(&hindsight, &trace, options)?;
        let chain = longest_chain(&hindsight, &trace)?;
        println!("demo: the result agrees with the app's source");
        check_in_perfetto(&chain, &perfetto, checkout)?;
        println!("demo: Perfetto's trace processor finds the same calls");
    }
    if !options.events {
        let app = |folder: &Path| {
            let mut command = framework.app_command(&app, MAIN_CLASS, options.mode.into());
            let (service, dir) = (folder.join("apps"), folder.display());
            let configuration = format!("trace=all,service={},dir={dir}", service.display());
            command.arg(folder).env("HINDSIGHT", configuration);
            command
        };
        let killed = options.out.join("demo-killed.hindsight");
        killed::run(app, &service_program(checkout)?, &hindsight, &killed)?;
        if options.check {
            println!("demo: the killed app's report agrees with the app's source");
        }
    }
    println!(
        "\nTo see it: open https://ui.perfetto.dev and drop {} onto it (the trace stays on this machine).\n\
         To ask more: {} top {}",
        perfetto.display(),
        hindsight.strip_prefix(checkout).unwrap_or(&hindsight).display(),
        trace.display()
    );
    Ok(())
}

/// Compares what `hindsight why` finds with the app's source.
fn check_trace(hindsight: &Path, trace: &Path, options: &Options) -> Result<()> {
    match options.events {
        true => events::check(&why_as_json(hindsight, trace)?),
        false => check(&longest_chain(hindsight, trace)?),
    }
}

/// Runs the app to its end, prints its output, and returns the file that it saved.
fn run_app(mut command: Command) -> Result<PathBuf> {
    let mut app = KillOnDrop(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?,
    );
    let output = app.0.stdout.take().context("the app has no output")?;
    let (lines, received) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });

    let mut saved = None;
    let mut stalled = false;
    let end = std::time::Instant::now() + TIME_LIMIT;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        match received.recv_timeout(left) {
            Ok(line) => {
                // Not printed: the folder is removed after the demo.
                if let Some(path) = line.strip_prefix(TRACE_LINE) {
                    saved = Some(PathBuf::from(path));
                } else {
                    stalled |= line.starts_with(STALL_LINE);
                    println!("{line}");
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("the app did not end within {} s", TIME_LIMIT.as_secs())
            }
        }
    }
    let status = app.0.wait()?;
    ensure!(status.success(), "the app failed ({status})");
    ensure!(stalled, "the app ended without a stall");
    let saved = saved.context("the app did not say where its trace is")?;
    ensure!(
        saved.exists(),
        "the app's stall was not traced: is this ART built with Hindsight, and HINDSIGHT not overridden?"
    );
    Ok(saved)
}

/// The stalls that `hindsight why --json` finds.
#[derive(Deserialize)]
struct Stalls {
    chains: Vec<Chain>,
}

/// The facts of a stall that are compared.
#[derive(Deserialize)]
struct Chain {
    thread: String,
    held_ns: u64,
    callers: Vec<String>,
    links: Vec<Link>,
    evidence: Vec<Evidence>,
    /// Method and thread.
    culprit: Option<(String, String)>,
}

#[derive(Deserialize)]
struct Evidence {
    thread: String,
    callers: Vec<String>,
    links: Vec<Link>,
    /// Index of the link that ended with the wait.
    ended_together: Option<usize>,
}

fn longest_chain(hindsight: &Path, trace: &Path) -> Result<Chain> {
    let json = why_as_json(hindsight, trace)?;
    let stalls: Stalls = serde_json::from_slice(&json).context("hindsight why wrote other JSON")?;
    stalls
        .chains
        .into_iter()
        .next()
        .with_context(|| format!("{} holds no stall", trace.display()))
}

/// Compares the stall with the source of the program.
fn check(chain: &Chain) -> Result<()> {
    let names =
        |links: &[Link]| -> Vec<String> { links.iter().map(|link| link.method.clone()).collect() };
    let waiting = names(&chain.links);
    ensure!(
        chain.thread == "main",
        "the thread that was held up is {:?}, not main",
        chain.thread
    );
    ensure!(
        ends_with_in_order(&waiting, &expected::WAITING),
        "the main thread's chain is {waiting:?}; it must end with {:?}",
        expected::WAITING
    );
    ensure!(
        chain.held_ns > expected::LIMIT_NS,
        "the stall took {} ns, less than the watchdog's limit",
        chain.held_ns
    );
    let evidence = chain
        .evidence
        .first()
        .context("no other thread is said to have been busy")?;
    ensure!(
        evidence.thread == expected::THREAD,
        "the blamed thread is {:?}; it must be {:?}",
        evidence.thread,
        expected::THREAD
    );
    let holding = names(&evidence.links);
    ensure!(
        ends_with_in_order(&holding, &expected::HOLDING),
        "the blamed chain is {holding:?}; it must contain {:?} in this order",
        expected::HOLDING
    );
    let holder = evidence
        .ended_together
        .and_then(|i| holding.get(i))
        .map(String::as_str);
    ensure!(
        holder == Some(expected::HOLDER),
        "the call said to hold the lock is {holder:?}; it must be {:?}",
        expected::HOLDER
    );
    let culprit = chain
        .culprit
        .as_ref()
        .map(|(method, thread)| (method.as_str(), thread.as_str()));
    ensure!(
        culprit == Some((expected::CULPRIT, expected::THREAD)),
        "hindsight why names the culprit {culprit:?}; it must be {:?}",
        (expected::CULPRIT, expected::THREAD)
    );
    Ok(())
}

/// A call in Perfetto's trace processor.
#[derive(Deserialize)]
struct Slice {
    name: String,
    dur: i64,
}

/// Looks up both chains in the exported trace with Perfetto's own trace processor: the names from the thread's outermost
/// call on and the length of the stall must be equal.
fn check_in_perfetto(chain: &Chain, perfetto: &Path, checkout: &Path) -> Result<()> {
    let path = |callers: &[String], links: &[Link]| -> Vec<String> {
        callers
            .iter()
            .cloned()
            .chain(links.iter().map(|link| link.method.clone()))
            .collect()
    };
    let waiting = path(&chain.callers, &chain.links);
    let slices = slices_on_path(&chain.thread, &waiting, perfetto, checkout)?;
    let head = &slices[chain.callers.len()];
    ensure!(
        u64::try_from(head.dur) == Ok(chain.held_ns),
        "{} takes {} ns in Perfetto, but {} ns in the trace",
        head.name,
        head.dur,
        chain.held_ns
    );
    let evidence = chain
        .evidence
        .first()
        .context("no other thread is said to have been busy")?;
    let holding = path(&evidence.callers, &evidence.links);
    slices_on_path(&evidence.thread, &holding, perfetto, checkout).map(drop)
}

/// The longest call of a thread with the name and depth of the end of `path`, and its callers, outermost first. An
/// error if their names are not `path`.
fn slices_on_path(
    thread: &str,
    path: &[String],
    perfetto: &Path,
    checkout: &Path,
) -> Result<Vec<Slice>> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let leaf = path.last().context("an empty chain")?;
    let sql = format!(
        "with leaf as (select slice.* from slice join thread_track on slice.track_id = thread_track.id \
         join thread using (utid) where thread.name = {} and slice.name = {} and slice.depth = {} \
         order by slice.dur desc limit 1) \
         select name, dur from (select name, dur, depth from leaf union all \
         select a.name, a.dur, a.depth from ancestor_slice((select id from leaf)) a) order by depth",
        quoted(thread),
        quoted(leaf),
        path.len() - 1
    );
    let mut command = Command::new("node");
    command
        .arg(checkout.join("scripts/perfetto/query.mjs"))
        .arg(perfetto)
        .arg(sql);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run node")?;
    ensure!(
        output.status.success(),
        "the query of {} failed",
        perfetto.display()
    );
    let slices: Vec<Slice> =
        serde_json::from_slice(&output.stdout).context("Perfetto's trace processor answered")?;
    let names: Vec<&str> = slices.iter().map(|slice| slice.name.as_str()).collect();
    ensure!(
        names == path,
        "on thread {thread:?}, Perfetto shows {names:?} where the trace has {path:?}"
    );
    Ok(slices)
}
