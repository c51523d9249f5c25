// SPDX-License-Identifier: Apache-2.0
//! Runs a program in all ways, and compares what was recorded with what ART's tracer saw.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use hindsight_decoder::art_trace::ArtTrace;
use hindsight_decoder::Trace;

use super::compare::{compare, compare_beginnings, Difference, Permitted};
use super::execute::{execute, read_reference};
use super::inlining::Inlined;
use super::programs::{Exempt, Program};
use super::rules::Permissions;
use super::sequences::{other_threads, recorded, reference, Name, Names, Step};
use super::{lock, Context, Counts, Mode, Tally};

/// How many steps before and after a difference are printed.
const SHOWN_STEPS: usize = 6;

/// What the comparison of a run came to.
pub(super) enum Outcome {
    /// There is no difference that may not be.
    Equal(Equal),
    /// What differs.
    Different(String),
    /// Not comparable, and why.
    Skipped(String),
}

/// What was compared.
#[derive(Default)]
pub(super) struct Equal {
    /// Steps of the reference.
    pub(super) events: usize,
    /// How often which method was in the reference only.
    pub(super) missing: Counts,
    /// … and in the recording only.
    pub(super) additional: Counts,
    /// Threads other than the main thread.
    pub(super) threads: usize,
    /// Whether it took a second run: 1 or 0.
    pub(super) again: usize,
}

/// Run-tests that allocate until there is no memory, which is earlier where compiled code or traces take some.
const OUT_OF_MEMORY: [&str; 2] = ["061-out-of-memory", "080-oom-throw-with-finalizer"];

/// A program and its reference, which is the interpreter's run, traced by both.
struct Check<'a> {
    context: &'a Context,
    program: &'a Program,
    folder: &'a Path,
    main: String,
    expected: Vec<Step>,
    names: Names,
    /// Whether a second run of the reference was as the first; found out when it is needed.
    same_again: Option<bool>,
}

impl Check<'_> {
    /// Runs the program in another way, and compares it with the reference. The run is kept in a folder of this name.
    fn compare_with_reference(&mut self, mode: Mode, folder: &str) -> Outcome {
        let run = match execute(
            self.context,
            self.program,
            mode,
            &self.folder.join(folder),
            false,
        ) {
            Ok(run) => run,
            Err(why) => return Outcome::Skipped(why.to_string()),
        };
        let boot = self.context.inlined.as_ref().map(|(_, inlined)| inlined);
        let inlined: Vec<&Inlined> = match &run.inlined {
            Some(of_program) => boot.into_iter().chain([of_program]).collect(),
            None => Vec::new(),
        };
        judge(
            &self.context.exempt,
            &self.main,
            mode,
            &inlined,
            &self.expected,
            &run.trace,
            &mut self.names,
        )
    }

    /// Why a difference between two runs need not be one between the tracers.
    fn excuse(&mut self) -> Option<&'static str> {
        let calls = |method| has_call(&self.expected, &self.names, method);
        if calls("java.lang.Thread.start()V") || calls("java.lang.System.runFinalization()V") {
            return Some(
                "they differ, and start threads or wait for one, whose timing may be what differs",
            );
        }
        // It takes another way if the calendar that it just made has the time that it sets.
        if calls("java.text.SimpleDateFormat.initializeDefaultCentury()V") {
            return Some("they differ, and make formats of dates, which look at the milliseconds");
        }
        let asks = |name| self.context.exempt.asks_for_mode(self.names.name(name));
        if enters(&self.expected, asks) {
            return Some("they differ, and ask how they are executed");
        }
        if OUT_OF_MEMORY.contains(&self.program.name.as_str()) {
            return Some("they differ, and run out of memory, sooner or later");
        }
        if !self.is_same_again() {
            return Some("they differ, as a second reference differs from the first");
        }
        None
    }

    fn is_same_again(&mut self) -> bool {
        if let Some(same) = self.same_again {
            return same;
        }
        let again = self.folder.join("again");
        let mut same = || -> Result<bool> {
            execute(self.context, self.program, Mode::Interpreter, &again, true)?;
            let second = reference(&read_reference(&again)?, &self.main, &mut self.names);
            Ok(second.as_ref() == Some(&self.expected))
        };
        let same = same().unwrap_or(false);
        self.same_again = Some(same);
        same
    }
}

/// Whether a method is called.
fn has_call(steps: &[Step], names: &Names, method: &str) -> bool {
    enters(steps, |name| names.name(name) == method)
}

/// Whether such a method is.
fn enters(steps: &[Step], mut is: impl FnMut(Name) -> bool) -> bool {
    steps
        .iter()
        .any(|step| matches!(*step, Step::Enter(name) if is(name)))
}

/// Runs and compares; an error is one of the check itself.
pub(super) fn check_program(
    context: &Context,
    program: &Program,
    modes: &[Mode],
    tallies: &Mutex<BTreeMap<Mode, Tally>>,
) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = &fs::canonicalize(work.path())?;
    let skip_all = |why: &str| {
        for &mode in modes {
            let mut tallies = lock(tallies);
            tallies.entry(mode).or_default().skip(program, why);
        }
    };

    if let Some(why) = program.not_comparable {
        skip_all(why);
        return Ok(());
    }
    let first = folder.join("reference");
    let ours = execute(context, program, Mode::Interpreter, &first, true);
    let (ours, art) = match ours.and_then(|ours| Ok((ours.trace, read_reference(&first)?))) {
        Ok(pair) => pair,
        Err(why) => {
            skip_all(&why.to_string());
            return Ok(());
        }
    };
    let mut names = Names::default();
    let main = program.main();
    let Some(expected) = reference(&art, &main, &mut names) else {
        skip_all("ART's tracer did not see main");
        return Ok(());
    };
    if has_call(
        &expected,
        &names,
        "dalvik.system.VMDebug.stopMethodTracing()V",
    ) {
        skip_all("they stop ART's tracer themselves");
        return Ok(());
    }
    let mut check = Check {
        context,
        program,
        folder,
        main,
        expected,
        names,
        same_again: None,
    };

    for &mode in modes {
        let outcome = if mode == Mode::Interpreter {
            let (exempt, names) = (&context.exempt, &mut check.names);
            let of_main = judge(
                exempt,
                &check.main,
                mode,
                &[],
                &check.expected,
                &ours,
                names,
            );
            of_main.and(|| judge_threads(exempt, &art, &ours, names))
        } else {
            match check.compare_with_reference(mode, mode.name()) {
                // What the time is when it is asked for, for instance, may have made it take another way.
                Outcome::Different(what) => {
                    match check.compare_with_reference(mode, &format!("{}-again", mode.name())) {
                        Outcome::Equal(equal) => Outcome::Equal(Equal { again: 1, ..equal }),
                        _ => match check.excuse() {
                            Some(why) => Outcome::Skipped(why.to_owned()),
                            None => Outcome::Different(what),
                        },
                    }
                }
                outcome => outcome,
            }
        };
        if let (Outcome::Different(_), Some(keep)) = (&outcome, &context.keep) {
            let to = keep.join(format!("{}-{}", program.name, mode.name()));
            let of_mode = folder.join(mode.name());
            let from = if mode == Mode::Interpreter {
                &first
            } else {
                &of_mode
            };
            keep_traces(from, &first, &to)?;
        }
        let mut tallies = lock(tallies);
        let tally = tallies.entry(mode).or_default();
        match outcome {
            Outcome::Equal(equal) => tally.add(equal),
            Outcome::Different(what) => {
                tally.programs += 1;
                tally.differences += 1;
                println!("{} ({}): {what}", program.name, mode.name());
            }
            Outcome::Skipped(why) => tally.skip(program, &why),
        }
    }
    Ok(())
}

impl Outcome {
    /// Both must hold.
    pub(super) fn and(self, other: impl FnOnce() -> Outcome) -> Outcome {
        let Outcome::Equal(mut equal) = self else {
            return self;
        };
        match other() {
            Outcome::Equal(more) => {
                equal.events += more.events;
                equal.threads += more.threads;
                super::add(&mut equal.missing, more.missing);
                super::add(&mut equal.additional, more.additional);
                Outcome::Equal(equal)
            }
            other => other,
        }
    }
}

/// Copies what `--kept` needs; the recording replaces one of the same name.
fn keep_traces(recording: &Path, reference: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for (from, wanted) in [
        (recording, "hindsight"),
        (recording, "log"),
        (reference, "trace"),
    ] {
        for file in fs::read_dir(from)?.flatten() {
            if file.path().extension().is_some_and(|x| x == wanted) {
                fs::copy(file.path(), to.join(file.file_name()))?;
            }
        }
    }
    Ok(())
}

/// Compares what the main thread recorded with the reference. `inlined` is what compiled code need not record.
pub(super) fn judge(
    exempt: &Exempt,
    main: &str,
    mode: Mode,
    inlined: &[&Inlined],
    expected: &[Step],
    trace: &Trace,
    names: &mut Names,
) -> Outcome {
    let Some(found) = recorded(trace, main, names) else {
        return Outcome::Different("main was not recorded".to_owned());
    };
    let result = compare(
        expected,
        &found,
        &Permissions::new(names, exempt, mode != Mode::Interpreter, inlined),
    );
    outcome(result, expected, &found, names)
}

/// Compares the other threads of a run that both tracers looked at.
pub(super) fn judge_threads(
    exempt: &Exempt,
    art: &ArtTrace,
    ours: &Trace,
    names: &mut Names,
) -> Outcome {
    let pairs = other_threads(art, ours, names);
    let mut all = Outcome::Equal(Equal::default());
    for pair in &pairs {
        let how = if pair.ended {
            compare
        } else {
            compare_beginnings
        };
        all = all.and(|| {
            let rules = Permissions::new(names, exempt, false, &[]);
            let result = how(&pair.reference, &pair.recorded, &rules);
            match outcome(result, &pair.reference, &pair.recorded, names) {
                Outcome::Equal(equal) => Outcome::Equal(Equal {
                    threads: 1,
                    ..equal
                }),
                Outcome::Different(what) => {
                    Outcome::Different(format!("thread '{}' {what}", pair.name))
                }
                skipped => skipped,
            }
        });
    }
    all
}

fn outcome(
    result: Result<Permitted, Difference>,
    expected: &[Step],
    found: &[Step],
    names: &Names,
) -> Outcome {
    match result {
        Ok(permitted) => {
            let named = |counts: BTreeMap<Name, u64>| -> Counts {
                counts
                    .iter()
                    .map(|(&name, &n)| (names.name(name).to_owned(), n))
                    .collect()
            };
            Outcome::Equal(Equal {
                events: expected.len(),
                missing: named(permitted.missing),
                additional: named(permitted.additional),
                threads: 0,
                again: 0,
            })
        }
        Err(difference) => {
            let (a, b) = difference.at;
            Outcome::Different(format!(
                "after {a} of {} events of ART's tracer and {b} of {} of ours:\n  ART  {}\n  ours {}",
                expected.len(),
                found.len(),
                excerpt(expected, a, names),
                excerpt(found, b, names)
            ))
        }
    }
}

/// The steps around an index, which is marked.
fn excerpt(steps: &[Step], at: usize, names: &Names) -> String {
    let first = at.saturating_sub(SHOWN_STEPS);
    let last = (at + SHOWN_STEPS).min(steps.len());
    let mut text = String::new();
    for (index, step) in steps.iter().enumerate().take(last).skip(first) {
        let mark = if index == at { " >>> " } else { " " };
        let (sign, name) = match *step {
            Step::Enter(name) => ('+', name),
            Step::Exit(name) => ('-', name),
        };
        let name = names.name(name);
        let name = name.split('(').next().unwrap_or(name);
        text.push_str(&format!("{mark}{sign}{name}"));
    }
    if last == steps.len() {
        text.push_str(" END");
    }
    text
}
