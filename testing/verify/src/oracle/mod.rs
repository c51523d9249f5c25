// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify oracle`: whether a program's main thread has recorded the entries and exits that ART's
//! own tracer sees. See `docs/verification.md`.

mod check;
mod compare;
mod debian;
mod execute;
mod images;
mod inlining;
mod programs;
mod rules;
mod sequences;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context as _, Result};
use hindsight_decoder::Trace;
use hindsight_lab::{BootImage, Isa, Lab, Release, Variant};

use check::{check_program, judge, judge_threads, Equal, Outcome};
use inlining::Inlined;
use programs::Program;
use sequences::{reference, Names};

/// Options of `verify oracle`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Only these programs: run-tests by name, our own by class
    names: Vec<String>,
    /// Only our own programs, not ART's run-tests nor Debian's packages
    #[arg(long)]
    own: bool,
    /// Only programs of Debian's Java packages
    #[arg(long, conflicts_with = "own")]
    debian: bool,
    /// Only the run-tests listed in FILE, one a line, `#` starts a comment
    #[arg(long, value_name = "FILE", conflicts_with_all = ["own", "debian"])]
    set: Option<PathBuf>,
    /// Only these ways of execution
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Mode::ALL)]
    mode: Vec<Mode>,
    /// How many programs run at the same time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// How long a run may take, in seconds
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Keep the traces of differences in this folder
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Run nothing: compare art.trace with the other traces in this folder, which --keep has made
    #[arg(long, requires = "main")]
    kept: Option<PathBuf>,
    /// The class of main in these
    #[arg(long)]
    main: Option<String>,
}

/// How a program is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Mode {
    /// Everything interpreted: both tracers look at the same run
    Interpreter,
    /// What is called is compiled at once, nothing inlined
    Jit,
    /// All compiled ahead of time, nothing inlined
    Aot,
    /// All compiled ahead of time, with inlining
    AotInlined,
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Interpreter, Mode::Jit, Mode::Aot, Mode::AotInlined];

    fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "jit",
            Mode::Aot => "aot",
            Mode::AotInlined => "aot-inlined",
        }
    }

    /// Whether the program has been compiled before it runs.
    fn is_ahead(self) -> bool {
        matches!(self, Mode::Aot | Mode::AotInlined)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// After how many programs a line says how far it has come.
const PROGRESS: usize = 25;

/// How often which method was called.
type Counts = BTreeMap<String, u64>;

/// What a mode came to.
#[derive(Default)]
struct Tally {
    programs: usize,
    events: usize,
    /// Other than main threads.
    threads: usize,
    differences: usize,
    /// Programs that took a second run.
    again: Vec<String>,
    /// Programs that are compared with a reference that has been verified ahead.
    verified: Vec<String>,
    /// Whether a program that can be compared was left out.
    failed: bool,
    /// Which programs were left out why.
    skipped: BTreeMap<String, Vec<String>>,
    missing: Counts,
    additional: Counts,
}

impl Tally {
    fn skip(&mut self, program: &Program, why: &str) {
        if program.comparable {
            self.failed = true;
        }
        let programs = self.skipped.entry(why.to_owned()).or_default();
        programs.push(program.name.clone());
    }

    fn add(&mut self, program: &Program, equal: Equal) {
        self.programs += 1;
        self.events += equal.events;
        self.threads += equal.threads;
        if equal.again {
            self.again.push(program.name.clone());
        }
        if equal.verified {
            self.verified.push(program.name.clone());
        }
        add(&mut self.missing, equal.missing);
        add(&mut self.additional, equal.additional);
    }
}

struct Context {
    lab: Lab,
    not_inlined: Option<BootImage>,
    inlined: Option<(BootImage, Inlined)>,
    exempt: programs::Exempt,
    /// What is preloaded into the VM.
    preload: Option<PathBuf>,
    timeout: Duration,
    keep: Option<PathBuf>,
}

/// Runs all programs in all ways; the result is whether there is no difference.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    if let (Some(kept), Some(main)) = (&options.kept, &options.main) {
        return compare_kept(kept, main, options, checkout);
    }
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)?;
    let folder = target(checkout, &lab);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (programs, others) = select(options, &lab, checkout, &folder)?;
    let wants = |mode| options.mode.contains(&mode).then_some(());
    let not_inlined = wants(Mode::Aot)
        .map(|()| images::without_inlining(&lab, &folder.join("not-inlined")))
        .transpose()?;
    let inlined = wants(Mode::AotInlined)
        .map(|()| images::with_inlining(&lab, &folder.join("inlined")))
        .transpose()?;
    let context = Context {
        not_inlined,
        inlined,
        exempt: programs::Exempt::of(&lab)?,
        preload: execute::same_time(&lab, checkout, &folder)?,
        lab,
        timeout: Duration::from_secs(options.timeout),
        keep: options.keep.clone(),
    };

    let tallies: Mutex<BTreeMap<Mode, Tally>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let errors: Mutex<Vec<anyhow::Error>> = Mutex::default();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(program) = programs.get(index) else {
                    break;
                };
                if index > 0 && index.is_multiple_of(PROGRESS) {
                    print_progress(index, programs.len(), started, &lock(&tallies));
                }
                if let Err(error) = check_program(&context, program, &options.mode, &tallies) {
                    lock(&errors).push(error.context(program.name.clone()));
                }
            });
        }
    });
    let errors = errors.into_inner().unwrap_or_else(|e| e.into_inner());
    for error in &errors {
        println!("error: {error:#}");
    }
    let tallies = tallies.into_inner().unwrap_or_else(|e| e.into_inner());
    let (mut events, mut differences, mut compared) = (0, 0, 0);
    let failed = tallies.values().any(|tally| tally.failed);
    for (mode, tally) in &tallies {
        report(*mode, tally);
        compared = compared.max(tally.programs);
        events += tally.events;
        differences += tally.differences;
    }
    if !others.is_empty() {
        println!(
            "not run: {} run-tests with a script of their own, or not built: {}",
            others.len(),
            others.join(" ")
        );
    }
    println!("oracle: {compared} programs, {events} events, {differences} differences");
    Ok(differences == 0 && errors.is_empty() && !failed && compared > 0)
}

/// Compares the traces in a folder that `--keep` has made.
fn compare_kept(folder: &Path, class: &str, options: &Options, checkout: &Path) -> Result<bool> {
    // Only for the lists in its sources, which are the same in both variants.
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)
        .or_else(|_| Lab::open(Release::Android10, options.isa, Variant::Stock))?;
    let exempt = programs::Exempt::of(&lab)?;
    let main = programs::main_of(class);
    let mut names = Names::default();
    let art = execute::read_reference(folder)?;
    let expected = reference(&art, &main, &mut names).context("ART's tracer did not see main")?;
    let mode = options.mode[0];
    let mut tables = Vec::new();
    if mode == Mode::AotInlined {
        let images = target(checkout, &lab).join("inlined");
        tables.push(images::with_inlining(&lab, &images)?.1);
        tables.push(images::read_kept(&folder.join(images::LOG))?);
    }
    let tables: Vec<&Inlined> = tables.iter().collect();
    let (mut programs, mut events, mut differences) = (0, 0, 0);
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_none_or(|x| x != "hindsight") {
            continue;
        }
        programs += 1;
        let trace = Trace::open(&file)?;
        println!("{}:", file.display());
        let mut outcome = judge(&exempt, &main, mode, &tables, &expected, &trace, &mut names);
        if mode == Mode::Interpreter {
            outcome = outcome.and(|| judge_threads(&exempt, &art, &trace, &mut names));
        }
        match outcome {
            Outcome::Equal(equal) => {
                events += equal.events;
                print_permitted(&equal.missing, &equal.additional);
            }
            Outcome::Different(what, _) | Outcome::Skipped(what) => {
                differences += 1;
                println!("{what}");
            }
        }
    }
    println!("oracle: {programs} traces, {events} events, {differences} differences");
    Ok(differences == 0 && programs > 0)
}

/// The programs that the options ask for, and the names of those that cannot be run here.
fn select(
    options: &Options,
    lab: &Lab,
    checkout: &Path,
    folder: &Path,
) -> Result<(Vec<Program>, Vec<String>)> {
    let (mut programs, mut others) = (Vec::new(), Vec::new());
    let named = |name: &str| options.names.is_empty() || options.names.iter().any(|n| n == name);
    let ours = options.set.is_none();
    if ours && !options.debian {
        programs.extend(programs::own(lab, checkout, folder)?);
    }
    if ours && !options.own {
        programs.extend(debian::programs(lab, checkout, folder, named)?);
    }
    if !options.own && !options.debian {
        let (mut tests, scripted) = programs::run_tests(lab)?;
        let mut missing: Vec<String> = scripted.into_iter().collect();
        if let Some(set) = &options.set {
            let text = fs::read_to_string(set).with_context(|| format!("{}", set.display()))?;
            missing = keep_listed(&text, &mut tests);
        }
        others.extend(missing);
        programs.extend(tests);
    }
    programs.retain(|program| named(&program.name));
    others.retain(|name| named(name));
    ensure!(
        !programs.is_empty() && programs.len() + others.len() >= options.names.len(),
        "some of {:?} are no programs of the oracle (a run-test has to have been built: see \
         docs/verification.md)",
        options.names
    );
    Ok((programs, others))
}

/// Keeps the programs that a list names, one a line; the result is those that are not there.
fn keep_listed(list: &str, programs: &mut Vec<Program>) -> Vec<String> {
    let listed = list.lines().filter_map(|line| line.split('#').next());
    let mut listed: Vec<&str> = listed.map(str::trim).filter(|n| !n.is_empty()).collect();
    programs.retain(|program| listed.contains(&program.name.as_str()));
    listed.retain(|name| programs.iter().all(|program| program.name != *name));
    listed.into_iter().map(str::to_owned).collect()
}

/// Where images and jars are kept.
fn target(checkout: &Path, lab: &Lab) -> PathBuf {
    checkout.join("target/verify/oracle").join(lab.isa().name())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// How far it has come, with what has been compared.
fn print_progress(
    index: usize,
    programs: usize,
    started: Instant,
    tallies: &BTreeMap<Mode, Tally>,
) {
    let seconds = started.elapsed().as_secs();
    let modes: Vec<String> = tallies
        .iter()
        .map(|(mode, tally)| {
            let (programs, events) = (tally.programs, tally.events);
            format!("{mode} {programs}/{events}/{}", tally.differences)
        })
        .collect();
    eprintln!(
        "verify: {index}/{programs} programs, {seconds} s; programs/events/differences: {}",
        modes.join(", ")
    );
}

fn report(mode: Mode, tally: &Tally) {
    let threads = match tally.threads {
        0 => String::new(),
        n => format!(" of main threads and {n} others"),
    };
    println!(
        "{:>12}: {} programs, {} events{threads}, {} differences",
        mode.name(),
        tally.programs,
        tally.events,
        tally.differences,
    );
    for (programs, what) in [
        (
            &tally.again,
            "took another way in one run, and the reference's in the next",
        ),
        (
            &tally.verified,
            "differ from the first reference, and equal one that was verified ahead",
        ),
    ] {
        let n = programs.len();
        if n > 0 {
            println!("{:>14}{n} of the programs {what}:", "");
            println!("{:>16}{}", "", programs.join(" "));
        }
    }
    print_permitted(&tally.missing, &tally.additional);
    for (why, programs) in &tally.skipped {
        let n = programs.len();
        println!("{:>14}{n} programs left out: {why}", "");
        println!("{:>16}{}", "", programs.join(" "));
    }
}

/// What was in one of the traces only, as is permitted: how often, and mostly what.
fn print_permitted(missing: &Counts, additional: &Counts) {
    for (what, counts) in [
        ("only seen by ART's tracer", missing),
        ("only seen by ours", additional),
    ] {
        let calls: u64 = counts.values().sum();
        println!(
            "{:>14}{what}: {calls} calls of {} methods",
            "",
            counts.len()
        );
        let mut most: Vec<_> = counts.iter().collect();
        most.sort_by_key(|(_, &n)| std::cmp::Reverse(n));
        for (name, n) in most.iter().take(8) {
            println!("{:>16}{n} {name}", "");
        }
    }
}

fn add(to: &mut Counts, counts: Counts) {
    for (name, n) in counts {
        *to.entry(name).or_default() += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_set_lists_and_nobody_has_is_told() {
        let program = |name: &str| Program {
            name: name.to_owned(),
            jar: PathBuf::new(),
            class: "Main".to_owned(),
            arguments: Vec::new(),
            libraries: String::new(),
            prints: None,
            not_comparable: None,
            comparable: false,
        };
        let mut programs = vec![program("001-a"), program("002-b")];
        let missing = keep_listed("# all\n\n002-b # why\n003-c\n", &mut programs);
        assert_eq!(missing, ["003-c"]);
        assert_eq!(programs.len(), 1);
        assert_eq!(programs[0].name, "002-b");
    }
}
