// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify stress`: the threads of a program do things that are hard to record, while tracing is
//! started, stopped and put into snapshots from several sides; every file is decoded and checked.

mod actions;
pub(crate) mod dice;
mod files;
mod options;
mod process;
mod program;
mod round;

use crate::rounds::{keep, now};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};

use actions::{Action, Outcome, Subject};
use dice::Dice;
pub(crate) use options::Options;
use options::Sanitizer;
use process::Process;
use program::{build, command, Built};
use round::Round;

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
