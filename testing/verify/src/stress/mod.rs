// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify stress`: the threads of a program do things that are hard to record, while tracing is
//! started, stopped and put into snapshots from several sides; every file is decoded and checked.

mod actions;
pub(crate) mod dice;
mod files;
mod process;

use crate::rounds::{keep, now};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{run_test::Layout, BootJar, Isa, JavaLibrary, Lab, Release, Variant};

use actions::{Action, Outcome, Subject};
use dice::Dice;
use process::Process;

/// Options of `verify stress`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Duration
    #[arg(long, default_value_t = 40, conflicts_with = "minutes")]
    seconds: u64,
    /// The same in minutes
    #[arg(long)]
    minutes: Option<u64>,
    /// Seed of all sequences of actions; default: a new one for each run
    #[arg(long)]
    seed: Option<u64>,
    /// The sanitizer that the lab was built with
    #[arg(long, value_enum, default_value = "none", conflicts_with = "stock")]
    sanitizer: Sanitizer,
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Folder for logs and for files with findings; without it they are kept only if there are findings
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run the program on stock ART, without recording: shows whether a finding is Hindsight's
    #[arg(long)]
    stock: bool,
    /// Record all events, too, in rings of random sizes. The lock-free protocol, which has none, is left out
    #[arg(long, conflicts_with = "stock")]
    events: bool,
    /// Stop after the first round with a finding
    #[arg(long)]
    first: bool,
}

/// A tool that checks the program while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sanitizer {
    /// AddressSanitizer
    Address,
    /// None
    None,
}

/// Mode of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A JIT that compiles early, into a cache that is often full.
    Jit,
    /// The JIT compiles at the first call, and everything can be deoptimized.
    JitAtOnce,
    Interpreter,
}

/// The configuration of one process.
#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    seconds: u64,
    mode: Mode,
    /// log2 of the bytes of a ring.
    ring: u32,
    /// Whether all threads are traced from their start.
    all: bool,
    max_rings: u64,
    snapshot_at_exit: bool,
    /// Whether the process ends while its threads are at work.
    exit_at_work: bool,
    /// Whether threads are stopped by the lock-free protocol.
    lock_free: bool,
    /// log2 of the bytes of a ring for events, if all events are recorded.
    events: Option<u32>,
    /// Which calls are taken back.
    rewind: &'static str,
    seed: u64,
}

impl Round {
    /// The round of this number: a function of the seed.
    fn new(seed: u64, number: u64, seconds: u64) -> Round {
        let mut dice = Dice::new(seed, number << 8);
        // Each of the first rounds has another mode, so that a short run has all.
        let mode = match number {
            0 => Mode::Jit,
            1 => Mode::Interpreter,
            2 => Mode::JitAtOnce,
            _ => dice.pick(&[Mode::Jit, Mode::Jit, Mode::JitAtOnce, Mode::Interpreter]),
        };
        Round {
            number,
            seconds,
            mode,
            ring: dice.pick(&[12, 12, 13, 14, 16, 18, 20]),
            all: dice.below(4) != 0,
            max_rings: 2 + dice.below(8),
            snapshot_at_exit: dice.below(2) == 0,
            exit_at_work: number % 2 == 1,
            lock_free: dice.below(2) == 0,
            events: None,
            rewind: Dice::new(seed, number << 8 | 2).pick(&["off", "200ns", "2us", "all"]),
            seed,
        }
    }

    /// The same round with events.
    fn with_events(self) -> Round {
        let mut dice = Dice::new(self.seed, self.number << 8 | 1);
        Round {
            lock_free: false,
            events: Some(dice.pick(&[12, 13, 16])),
            ..self
        }
    }

    fn protocol(&self) -> &'static str {
        if self.lock_free {
            "lock-free"
        } else {
            "checkpoint"
        }
    }

    fn configuration(&self, folder: &Path) -> String {
        let folder = folder.display();
        let threads = if self.all {
            "trace=all,max-rings=unlimited".to_owned()
        } else {
            format!("trace=main,max-rings={}", self.max_rings)
        };
        let at_exit = if self.snapshot_at_exit { "yes" } else { "no" };
        let events = match self.events {
            Some(ring) => format!(",events=all,event-ring={ring}"),
            None => String::new(),
        };
        format!(
            "{threads},ring={},dir={folder},socket={folder}/socket,snapshot-at-exit={at_exit},protocol={},rewind={}{events}",
            self.ring,
            self.protocol(),
            self.rewind
        )
    }
}

/// The program and its parts.
struct Built {
    lab: Lab,
    program: PathBuf,
    churn: PathBuf,
    hindsight: PathBuf,
    library: PathBuf,
}

/// The sums over all rounds, and the findings.
#[derive(Default)]
struct Totals {
    actions: AtomicU64,
    files: AtomicU64,
    events: AtomicU64,
    calls: AtomicU64,
    unbounded: AtomicU64,
    findings: Mutex<Vec<String>>,
}

impl Totals {
    fn found(&self, round: &Round, what: &str) {
        let text = format!("round {}: {what}", round.number);
        println!("finding: {text}");
        self.findings().push(text);
    }

    fn findings(&self) -> MutexGuard<'_, Vec<String>> {
        self.findings.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn count(&self) -> usize {
        self.findings().len()
    }
}

/// Runs the rounds and prints the findings. Returns whether there is none.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let seconds = options
        .minutes
        .map_or(options.seconds, |minutes| 60 * minutes);
    let seed = options
        .seed
        .unwrap_or_else(|| u64::from(std::process::id()) ^ now());
    let scratch = tempfile::tempdir()?;
    let built = build(options, checkout, scratch.path())?;
    println!("stress: {seconds} s, seed {seed} (again: --seed {seed} --seconds {seconds})");
    let totals = Totals::default();
    let started = Instant::now();
    let mut number = 0;
    let each = (seconds / 8).clamp(6, 40);
    let mut kept = None;
    while started.elapsed() < Duration::from_secs(seconds)
        && !(options.first && totals.count() != 0)
    {
        let mut round = Round::new(seed, number, each);
        if options.events {
            round = round.with_events();
        }
        let folder = scratch.path().join(number.to_string());
        fs::create_dir(&folder)?;
        let before = totals.count();
        stress(&built, options, &round, &folder, &totals)
            .with_context(|| format!("round {number}"))?;
        if totals.count() != before || options.keep.is_some() {
            let to = kept.get_or_insert_with(|| {
                options.keep.clone().unwrap_or_else(|| {
                    std::env::temp_dir().join(format!("hindsight-stress-{seed}"))
                })
            });
            keep(&folder, &to.join(number.to_string()))?;
        }
        fs::remove_dir_all(&folder)?;
        number += 1;
    }
    if let Some(kept) = kept {
        println!("logs and files are in {}", kept.display());
    }
    let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
    // Again, for a reader who sees the end of a long log only.
    for finding in totals.findings().iter() {
        println!("finding: {finding}");
    }
    println!(
        "{number} processes, {} calls of known callers, {} slots without bounds in time",
        get(&totals.calls),
        get(&totals.unbounded)
    );
    println!(
        "stress: {} s, {} actions, {} files, {} events, {} findings",
        started.elapsed().as_secs(),
        get(&totals.actions),
        get(&totals.files),
        get(&totals.events),
        totals.count()
    );
    Ok(totals.count() == 0)
}

/// Compiles the program and its native half.
fn build(options: &Options, checkout: &Path, folder: &Path) -> Result<Built> {
    let sanitized = options.sanitizer == Sanitizer::Address;
    let variant = match (options.stock, sanitized) {
        (true, _) => Variant::Stock,
        (false, true) => Variant::HindsightAddress,
        (false, false) => Variant::Hindsight,
    };
    let lab = Lab::open(Release::Android10, options.isa, variant)?;
    let source = checkout.join("lab/stress");
    let classes = folder.join("classes");
    let hindsight = folder.join("hindsight.jar");
    let library = JavaLibrary {
        sources: vec![checkout.join("art-hooks/java/dev/hindsight/Hindsight.java")],
        class_output: Some(classes.clone()),
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &hindsight)?;
    let program = folder.join("stress.jar");
    let library = JavaLibrary {
        sources: vec![source.join("Stress.java")],
        class_path: vec![classes],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &program)?;
    let churn = folder.join("churn.jar");
    let library = JavaLibrary {
        sources: vec![source.join("churn/Churn.java")],
        ..JavaLibrary::default()
    };
    lab.compile_java(&library, &churn)?;

    let library = folder.join("libstress.so");
    let mut compiler = Command::new("clang-14");
    compiler.args(["-shared", "-fPIC", "-O1", "-g", "-pthread", "-fuse-ld=lld"]);
    // Never unloaded: ART unloads libraries at its end, when signals may still arrive for the handler.
    compiler.arg("-Wl,-z,nodelete");
    compiler.args(Layout::of(&lab).native_code_flags);
    if sanitized {
        compiler.arg("-fsanitize=address");
    }
    // jni.h: Debian's android-libnativehelper-dev.
    compiler
        .arg("-I/usr/include/android/nativehelper")
        .arg("-o")
        .arg(&library)
        .arg(source.join("stress.c"));
    let output = compiler.output().context("cannot run clang-14")?;
    ensure!(
        output.status.success(),
        "compiling lab/stress/stress.c: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(Built {
        lab,
        program,
        churn,
        hindsight,
        library,
    })
}

/// The command line of a round.
fn command(built: &Built, options: &Options, round: &Round, folder: &Path) -> Command {
    let lab = &built.lab;
    let image = match round.mode {
        Mode::Interpreter => lab.core_interpreter_image(),
        _ => lab.core_image(),
    };
    let hindsight = BootJar::new(built.hindsight.clone());
    let mut command = lab.dalvikvm_command_extended(&image, &[hindsight]);
    match round.mode {
        Mode::Interpreter => command.arg("-Xint"),
        Mode::Jit => command.args([
            "-Xusejit:true",
            "-Xjitthreshold:200",
            "-Xjitinitialsize:64K",
            "-Xjitmaxsize:256K",
        ]),
        Mode::JitAtOnce => command.args([
            "-Xusejit:true",
            "-Xjitthreshold:0",
            "-Xjitinitialsize:64K",
            "-Xcompiler-option",
            "--debuggable",
        ]),
    };
    command
        .args(["-Xmx128m", "-Xss512K"])
        .arg("-cp")
        .arg(&built.program)
        .arg("Stress")
        .arg((round.seed ^ round.number << 32 & i64::MAX as u64).to_string())
        .arg(round.seconds.to_string())
        .arg(folder)
        .arg(&built.churn)
        .arg(&built.library)
        .arg(if round.exit_at_work { "exit" } else { "join" })
        .arg(if options.stock { "stock" } else { "recorded" });
    if !options.stock {
        command.env("HINDSIGHT", round.configuration(folder));
    }
    command
        // Also shows the dump at SIGQUIT, if the process hangs.
        .env("ANDROID_LOG_TAGS", "*:i")
        .current_dir(folder);
    command
}

/// Runs one process from its start to its end.
fn stress(
    built: &Built,
    options: &Options,
    round: &Round,
    folder: &Path,
    totals: &Totals,
) -> Result<()> {
    // Upper bounds for a busy machine.
    let slow = if options.isa.is_native() && options.sanitizer == Sanitizer::None {
        1
    } else {
        4
    };
    let patience = Duration::from_secs(60 * slow);
    let mut process = Process::start(&mut command(built, options, round, folder), folder)?;
    let socket = folder.join("socket");
    let subject = Subject {
        pid: process.pid(),
        socket: &socket,
        package: built.lab.isa().dalvikvm(),
        patience,
    };
    let over = AtomicBool::new(false);
    let ended = AtomicBool::new(false);
    let mut status = None;
    let result = std::thread::scope(|scope| -> Result<()> {
        let (subject, over, ended) = (&subject, &over, &ended);
        // Ends the other threads on every way out.
        let guard = Ended(&[over, ended]);
        let mut sides = Vec::new();
        scope.spawn(move || check_files(round, folder, ended, totals));
        let limit = Duration::from_secs(round.seconds) + 3 * patience;
        let started = Instant::now();
        loop {
            if let Some(exit) = process.ended()? {
                status = Some(exit);
                break;
            }
            let problem = match started.elapsed() > limit {
                true => Some(format!("it has not ended after {} s", limit.as_secs())),
                false => process.stuck(patience),
            };
            if let Some(problem) = problem {
                totals.found(round, &format!("a hang: {problem}"));
                process.dump(folder);
                process.end();
                break;
            }
            if process.has_started() && sides.is_empty() {
                // On stock ART there is no socket for the first two.
                for side in if options.stock { 2..3 } else { 0..3 } {
                    sides
                        .push(scope.spawn(move || act(side, round, folder, subject, over, totals)));
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop(guard);
        Ok(())
    });
    result?;
    for finding in process.findings() {
        totals.found(round, &finding);
    }
    if !process.has_started() && status.is_some() {
        let log = process.log_end();
        ensure!(round.number != 0, "the program does not start: {log}");
        totals.found(round, &format!("the program does not start: {log}"));
    }
    if let Some(status) = status.filter(|status| !status.success()) {
        totals.found(round, &format!("the program ended with {status}"));
    } else if status.is_some() && !process.is_done() {
        totals.found(round, "the program ended before its end");
    }
    println!(
        "round {}: {:?}, ring {}, {}, {}, {}: {} steps",
        round.number,
        round.mode,
        round.ring,
        if round.all {
            "all threads".to_owned()
        } else {
            format!("{} rings", round.max_rings)
        },
        round.protocol(),
        if round.exit_at_work {
            "ends at work"
        } else {
            "threads end first"
        },
        process.steps()
    );
    for digest in process.digests() {
        println!("    {digest}");
    }
    Ok(())
}

/// Sets flags when it is dropped.
struct Ended<'a>(&'a [&'a AtomicBool; 2]);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        for flag in self.0 {
            flag.store(true, Ordering::Release);
        }
    }
}

/// One side: a client of the socket, or the sender of signals. It logs each action before doing it.
fn act(
    side: u64,
    round: &Round,
    folder: &Path,
    subject: &Subject<'_>,
    over: &AtomicBool,
    totals: &Totals,
) {
    let mut dice = Dice::new(round.seed, round.number << 8 | (side + 1));
    let mut files = side << 32;
    let Ok(mut list) = fs::File::create(folder.join(format!("actions-{side}.txt"))) else {
        return;
    };
    while !over.load(Ordering::Acquire) {
        let (pause, action): (Duration, Action) = match side {
            2 => actions::signal(&mut dice),
            _ => actions::command(&mut dice, &mut files),
        };
        std::thread::sleep(pause);
        let _ = writeln!(list, "{action}");
        totals.actions.fetch_add(1, Ordering::Relaxed);
        match subject.perform(&action) {
            Outcome::Done => {}
            Outcome::NoSocket => std::thread::sleep(Duration::from_millis(20)),
            Outcome::Ends => {
                if !within(subject.patience, || over.load(Ordering::Acquire)) {
                    totals.found(
                        round,
                        &format!("'{action}': it says that it ends, and goes on"),
                    );
                }
            }
            Outcome::Finding(finding) => totals.found(round, &finding),
        }
    }
}

/// Waits so long until this is so. Returns whether it is.
fn within(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while !is_so() {
        if started.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

/// Checks files as they appear, and removes correct ones, until the process ends.
fn check_files(round: &Round, folder: &Path, ended: &AtomicBool, totals: &Totals) {
    let mut wrong = BTreeSet::new();
    loop {
        // Files that appear after this are found in the next turn.
        let last = ended.load(Ordering::Acquire);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|x| x != "hindsight") || wrong.contains(&path) {
                continue;
            }
            totals.files.fetch_add(1, Ordering::Relaxed);
            match files::check(&path) {
                Ok(counts) => {
                    totals.events.fetch_add(counts.events, Ordering::Relaxed);
                    totals.calls.fetch_add(counts.calls, Ordering::Relaxed);
                    totals
                        .unbounded
                        .fetch_add(counts.unbounded_slots, Ordering::Relaxed);
                    let _ = fs::remove_file(&path);
                }
                Err(problem) => {
                    let name = entry.file_name();
                    totals.found(round, &format!("{}: {problem}", name.to_string_lossy()));
                    wrong.insert(path);
                }
            }
        }
        if last {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_from_the_seed() {
        let text = |seed, number| format!("{:?}", Round::new(seed, number, 6));
        assert_eq!(text(1, 5), text(1, 5));
        let modes: Vec<_> = (0..3).map(|n| Round::new(9, n, 6).mode).collect();
        assert_eq!(modes, [Mode::Jit, Mode::Interpreter, Mode::JitAtOnce]);
    }
}
