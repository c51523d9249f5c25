// SPDX-License-Identifier: Apache-2.0
//! Runs a program in all modes, and compares the recordings with the trace of ART's tracer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, Result};
use hindsight_decoder::art_trace::ArtTrace;
use hindsight_decoder::Trace;

use super::compare::{compare, compare_beginnings, Difference, Permitted};
use super::context::Context;
use super::execute::{execute, read_reference, Run, Tracers, MAIN_IS_LOST};
use super::inlining::Inlined;
use super::mode::Mode;
use super::outcome::{Counts, Equal, Outcome};
use super::programs::{Exempt, Program};
use super::rules::Permissions;
use super::sequences::{other_threads, recorded, reference, Name, Names, Step};
use super::tally::{lock, Tally};

/// The number of steps before and after a difference that are printed.
const SHOWN_STEPS: usize = 6;

/// Depth of calls beyond which a program is filling its stack, which takes more calls where frames are smaller.
const DEEP: usize = 1000;

/// Run-tests that allocate until memory is exhausted, which is earlier where compiled code or traces take some.
const OUT_OF_MEMORY: [&str; 2] = ["061-out-of-memory", "080-oom-throw-with-finalizer"];

/// Entries and exits that ART's tracer saw.
struct Reference {
    steps: Vec<Step>,
    tracers: Tracers,
    /// The folder of the run, in the folder of the check.
    folder: &'static str,
    /// Whether a second run of it equals the first; computed on demand.
    same_again: Option<bool>,
}

/// The folder of the run with both tracers.
const FIRST: &str = "reference";

/// The references for the runs of a program.
struct References {
    first: Reference,
    /// The reference that was verified ahead of time, if ahead-of-time compiled code has differed from the first.
    verified: Option<Reference>,
}

impl References {
    fn of(&mut self, mode: Mode) -> &mut Reference {
        match &mut self.verified {
            Some(verified) if mode.is_ahead() => verified,
            _ => &mut self.first,
        }
    }
}

/// A program and its references: runs in the interpreter with both tracers.
struct Check<'a> {
    context: &'a Context,
    exempt: Exempt,
    program: &'a Program,
    folder: &'a Path,
    main: String,
    names: Names,
    references: References,
}

impl Check<'_> {
    /// Runs the program in another mode than the reference, a second time after a difference, and compares it.
    fn check(&mut self, mode: Mode) -> Outcome {
        let run = match self.run(mode, mode.name()) {
            Ok(run) => run,
            Err(why) => return Outcome::Skipped(why.to_string()),
        };
        let outcome = self.judge(mode, &run);
        let Outcome::Different(mut what, mut depth) = outcome else {
            return outcome;
        };
        if mode.is_ahead() && self.references.verified.is_none() && self.verify().is_ok() {
            match self.judge(mode, &run) {
                Outcome::Different(other, at) => (what, depth) = (other, at),
                outcome => return outcome,
            }
        }
        // The clock, for instance, may have made it take another way.
        if let Ok(run) = self.run(mode, &format!("{}-again", mode.name())) {
            if let Outcome::Equal(equal) = self.judge(mode, &run) {
                return Outcome::Equal(Equal {
                    again: true,
                    ..equal
                });
            }
        }
        match self.excuse(mode, depth) {
            Some(why) => Outcome::Skipped(why.to_owned()),
            None => Outcome::Different(what, depth),
        }
    }

    /// Runs the program; the run is kept in a folder of this name.
    fn run(&self, mode: Mode, folder: &str) -> Result<Run> {
        let folder = self.folder.join(folder);
        execute(self.context, self.program, mode, &folder, Tracers::Ours)
    }

    fn judge(&mut self, mode: Mode, run: &Run) -> Outcome {
        let boot = self.context.inlined.as_ref().map(|(_, inlined)| inlined);
        let inlined: Vec<&Inlined> = match &run.inlined {
            Some(of_program) => boot.into_iter().chain([of_program]).collect(),
            None => Vec::new(),
        };
        let reference = self.references.of(mode);
        let outcome = judge(
            &self.exempt,
            &self.main,
            mode,
            &inlined,
            &reference.steps,
            &run.trace,
            &mut self.names,
        );
        match outcome {
            Outcome::Equal(equal) => Outcome::Equal(Equal {
                verified: reference.tracers == Tracers::BothVerifiedAhead,
                ..equal
            }),
            outcome => outcome,
        }
    }

    /// The trace of ART's tracer of another run.
    fn run_reference(&mut self, folder: &'static str, tracers: Tracers) -> Result<Vec<Step>> {
        let to = self.folder.join(folder);
        execute(self.context, self.program, Mode::Interpreter, &to, tracers)?;
        reference(&read_reference(&to)?, &self.main, &mut self.names).context(NO_MAIN)
    }

    /// Makes the reference that is verified ahead of time.
    fn verify(&mut self) -> Result<()> {
        let (folder, tracers) = ("verified", Tracers::BothVerifiedAhead);
        self.references.verified = Some(Reference {
            steps: self.run_reference(folder, tracers)?,
            tracers,
            folder,
            same_again: None,
        });
        Ok(())
    }

    /// A reason why two runs may differ although the tracers agree.
    fn excuse(&mut self, mode: Mode, depth: usize) -> Option<&'static str> {
        if depth > DEEP {
            return Some("they differ, where they fill their stack, with more or fewer frames");
        }
        let steps = &self.references.of(mode).steps;
        let calls = |method| has_call(steps, &self.names, method);
        if calls("java.lang.Thread.start()V") || calls("java.lang.System.runFinalization()V") {
            return Some(
                "they differ, and start threads or wait for one, whose timing may be what differs",
            );
        }
        // Its way depends on whether the clock has advanced since it made its calendar.
        if calls("java.text.SimpleDateFormat.initializeDefaultCentury()V") {
            return Some("they differ, and make formats of dates, which look at the milliseconds");
        }
        let asks = |name| self.context.exempt.asks_for_mode(self.names.name(name));
        if enters(steps, asks) {
            return Some("they differ, and ask how they are executed");
        }
        if OUT_OF_MEMORY.contains(&self.program.name.as_str()) {
            return Some("they differ, and run out of memory, sooner or later");
        }
        if !self.is_same_again(mode) {
            return Some("they differ, as a second reference differs from the first");
        }
        None
    }

    fn is_same_again(&mut self, mode: Mode) -> bool {
        let first = self.references.of(mode);
        if let Some(same) = first.same_again {
            return same;
        }
        let (folder, tracers) = match first.tracers {
            Tracers::BothVerifiedAhead => ("verified-again", first.tracers),
            _ => ("again", Tracers::Both),
        };
        let again = self.run_reference(folder, tracers);
        let first = self.references.of(mode);
        let same = again.is_ok_and(|again| again == first.steps);
        first.same_again = Some(same);
        same
    }
}

const NO_MAIN: &str = "ART's tracer did not see main";

/// Whether a method is called.
fn has_call(steps: &[Step], names: &Names, method: &str) -> bool {
    enters(steps, |name| names.name(name) == method)
}

/// Whether a method with the property is called.
fn enters(steps: &[Step], mut is: impl FnMut(Name) -> bool) -> bool {
    steps
        .iter()
        .any(|step| matches!(*step, Step::Enter(name) if is(name)))
}

/// Runs and compares a program. An error is a failure of the check itself.
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
    let first = folder.join(FIRST);
    let run = || execute(context, program, Mode::Interpreter, &first, Tracers::Both);
    let mut ours = run();
    if matches!(&ours, Err(why) if why.to_string() == MAIN_IS_LOST) {
        fs::remove_dir_all(&first)?;
        ours = run();
    }
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
        skip_all(NO_MAIN);
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
        exempt: context.exempt.with(&context.lab, &program.jars())?,
        program,
        folder,
        main,
        names,
        references: References {
            first: Reference {
                steps: expected,
                tracers: Tracers::Both,
                folder: FIRST,
                same_again: None,
            },
            verified: None,
        },
    };

    for &mode in modes {
        let outcome = if mode == Mode::Interpreter {
            let (exempt, names) = (&check.exempt, &mut check.names);
            let steps = &check.references.first.steps;
            let of_main = judge(exempt, &check.main, mode, &[], steps, &ours, names);
            of_main.and(|| judge_threads(exempt, &art, &ours, names))
        } else {
            check.check(mode)
        };
        if let (Outcome::Different(..), Some(keep)) = (&outcome, &context.keep) {
            let to = keep.join(format!("{}-{}", program.name, mode.name()));
            let of_mode = folder.join(mode.name());
            let from = if mode == Mode::Interpreter {
                &first
            } else {
                &of_mode
            };
            keep_traces(from, &folder.join(check.references.of(mode).folder), &to)?;
        }
        let mut tallies = lock(tallies);
        let tally = tallies.entry(mode).or_default();
        match outcome {
            Outcome::Equal(equal) => tally.add(program, equal),
            Outcome::Different(what, _) => {
                tally.programs += 1;
                tally.differences += 1;
                println!("{} ({}): {what}", program.name, mode.name());
            }
            Outcome::Skipped(why) => tally.skip(program, &why),
        }
    }
    Ok(())
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
        (recording, "jar"),
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

/// Compares the recording of the main thread with the reference. Calls in `inlined` may be missing.
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
        if exempt.is_left_out(main) != Some(false) {
            return Outcome::Skipped("their main method is trivial, and not recorded".to_owned());
        }
        return Outcome::Different("main was not recorded".to_owned(), 0);
    };
    let result = compare(
        expected,
        &found,
        &Permissions::new(names, exempt, mode != Mode::Interpreter, inlined),
    );
    outcome(result, expected, &found, names, exempt)
}

/// Compares the other threads of a run with both tracers.
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
            match outcome(result, &pair.reference, &pair.recorded, names, exempt) {
                Outcome::Equal(equal) => Outcome::Equal(Equal {
                    threads: 1,
                    ..equal
                }),
                Outcome::Different(what, depth) => {
                    Outcome::Different(format!("thread '{}' {what}", pair.name), depth)
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
    exempt: &Exempt,
) -> Outcome {
    match result {
        Ok(mut permitted) => {
            let mut left_out = 0;
            permitted.missing.retain(|&name, &mut n| {
                let is_left_out = exempt.is_left_out(names.name(name)) != Some(false);
                left_out += if is_left_out { n } else { 0 };
                !is_left_out
            });
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
                left_out,
                threads: 0,
                again: false,
                verified: false,
            })
        }
        Err(difference) => {
            let (a, b) = difference.at;
            let what = format!(
                "after {a} of {} events of ART's tracer and {b} of {} of ours:\n  ART  {}\n  ours {}",
                expected.len(),
                found.len(),
                excerpt(expected, a, names),
                excerpt(found, b, names)
            );
            Outcome::Different(what, depth(&expected[..a]))
        }
    }
}

/// The number of open calls after some steps.
fn depth(steps: &[Step]) -> usize {
    steps.iter().fold(0, |depth: usize, step| match step {
        Step::Enter(_) => depth + 1,
        Step::Exit(_) => depth.saturating_sub(1),
    })
}

/// The steps around a marked index.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(tracers: Tracers) -> Reference {
        Reference {
            steps: Vec::new(),
            tracers,
            folder: FIRST,
            same_again: None,
        }
    }

    #[test]
    fn the_depth_of_a_difference() {
        let recursion = |n| [vec![Step::Enter(1); n], vec![Step::Exit(1); n]].concat();
        let mut names = Names::default();
        names.number_of("a");
        names.number_of("b");
        let (expected, found) = (recursion(DEEP + 1), recursion(DEEP + 2));
        let rules = Exempt::for_tests(&[], &[]);
        let result = compare(
            &expected,
            &found,
            &Permissions::new(&names, &rules, true, &[]),
        );
        let of = |result| match outcome(result, &expected, &found, &names, &rules) {
            Outcome::Different(_, depth) => depth,
            _ => 0,
        };
        assert_eq!(of(result), DEEP + 1);
        // The depth at the difference, not the largest one.
        let at = (2 * DEEP, 2 * DEEP);
        assert_eq!(of(Err(Difference { at })), 2);
    }

    #[test]
    fn only_what_was_compiled_ahead_is_compared_with_what_was_verified_ahead() {
        let mut references = References {
            first: reference(Tracers::Both),
            verified: None,
        };
        assert!(Mode::ALL.map(|mode| references.of(mode).tracers) == [Tracers::Both; 4]);
        references.verified = Some(reference(Tracers::BothVerifiedAhead));
        for mode in [Mode::Interpreter, Mode::Jit] {
            assert!(references.of(mode).tracers == Tracers::Both);
        }
        for mode in [Mode::Aot, Mode::AotInlined] {
            assert!(references.of(mode).tracers == Tracers::BothVerifiedAhead);
        }
    }
}
