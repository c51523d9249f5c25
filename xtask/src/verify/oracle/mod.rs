// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify oracle`: whether a program's main thread has recorded the entries and exits that ART's
//! own tracer sees. See `docs/verification.md`.

mod compare;
mod programs;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_decoder::{art_trace, Trace};
use hindsight_lab::{BootImage, BootImageSpec, Isa, Lab, Release, Variant};

use compare::{compare, recorded, reference, Names, Rules, Step};
use programs::Program;

/// Options of `verify oracle`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The instruction set: x86_64, or under qemu-user arm64 or arm
    #[arg(long, default_value = "x86_64")]
    isa: Isa,
    /// Only these programs: run-tests by name, our own by class
    names: Vec<String>,
    /// Only our own programs, not ART's run-tests
    #[arg(long)]
    own: bool,
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
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mode::AotInlined => "aot-inlined",
            other => other.name(),
        })
    }
}

/// Size of ART's buffer: 4.7 million events. It drops what doesn't fit, and says so.
const REFERENCE_BYTES: usize = 64 << 20;
/// Size of our ring, log2 of its bytes: room for more than that.
const RING: u32 = 27;
/// How many steps before and after a difference are printed.
const SHOWN_STEPS: usize = 6;
/// What keeps the compiler from inlining.
const NO_INLINING: &str = "--inline-max-code-units=0";

/// How often which method was called.
type Counts = BTreeMap<String, u64>;

/// What the comparison of a run came to.
enum Outcome {
    /// So many steps of the reference, and how often which method was missing, or additional.
    Equal(usize, Counts, Counts),
    /// What differs.
    Different(String),
    /// Not comparable, and why.
    Skipped(String),
}

#[derive(Default)]
struct Tally {
    programs: usize,
    events: usize,
    differences: usize,
    skipped: BTreeMap<String, usize>,
    missing: Counts,
    additional: Counts,
}

struct Context {
    lab: Lab,
    not_inlined: Option<BootImage>,
    exempt: programs::Exempt,
    timeout: Duration,
    keep: Option<PathBuf>,
}

/// Runs all programs in all ways; the result is whether there is no difference.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    if let (Some(kept), Some(main)) = (&options.kept, &options.main) {
        return compare_kept(kept, main, options);
    }
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)?;
    let folder = checkout
        .join("target/verify/oracle")
        .join(options.isa.name());
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut programs = programs::own(&lab, checkout, &folder)?;
    if !options.own {
        programs.extend(programs::run_tests(&lab)?);
    }
    if !options.names.is_empty() {
        programs.retain(|program| options.names.contains(&program.name));
        ensure!(
            programs.len() >= options.names.len(),
            "some of {:?} are no programs of the oracle (a run-test has to have been built: see \
             docs/verification.md)",
            options.names
        );
    }
    let not_inlined = if options.mode.contains(&Mode::Aot) {
        Some(image_without_inlining(&lab, &folder)?)
    } else {
        None
    };
    let context = Context {
        not_inlined,
        exempt: programs::Exempt::of(&lab)?,
        lab,
        timeout: Duration::from_secs(options.timeout),
        keep: options.keep.clone(),
    };

    let tallies: Mutex<BTreeMap<Mode, Tally>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let errors: Mutex<Vec<anyhow::Error>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = check_program(&context, program, &options.mode, &tallies) {
                        lock(&errors).push(error.context(program.name.clone()));
                    }
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
    for (mode, tally) in &tallies {
        report(*mode, tally);
        compared = compared.max(tally.programs);
        events += tally.events;
        differences += tally.differences;
    }
    println!("oracle: {compared} programs, {events} events, {differences} differences");
    Ok(differences == 0 && errors.is_empty() && compared > 0)
}

/// Compares the traces in a folder that `--keep` has made.
fn compare_kept(folder: &Path, class: &str, options: &Options) -> Result<bool> {
    // Only for the lists in its sources, which are the same in both variants.
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)
        .or_else(|_| Lab::open(Release::Android10, options.isa, Variant::Stock))?;
    let exempt = programs::Exempt::of(&lab)?;
    let main = programs::main_of(class);
    let mut names = Names::default();
    let art = read_reference(&folder.join("art.trace"))?;
    let expected = reference(&art, &main, &mut names).context("ART's tracer did not see main")?;
    let (mut programs, mut events, mut differences) = (0, 0, 0);
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_none_or(|x| x != "hindsight") {
            continue;
        }
        programs += 1;
        let trace = Trace::open(&file)?;
        println!("{}:", file.display());
        match judge(
            &exempt,
            &main,
            options.mode[0],
            &expected,
            &trace,
            &mut names,
        ) {
            Outcome::Equal(steps, missing, additional) => {
                events += steps;
                print_permitted(&missing, &additional);
            }
            Outcome::Different(what) | Outcome::Skipped(what) => {
                differences += 1;
                println!("{what}");
            }
        }
    }
    println!("oracle: {programs} traces, {events} events, {differences} differences");
    Ok(differences == 0 && programs > 0)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn report(mode: Mode, tally: &Tally) {
    println!(
        "{:>12}: {} programs, {} events, {} differences",
        mode.name(),
        tally.programs,
        tally.events,
        tally.differences,
    );
    print_permitted(&tally.missing, &tally.additional);
    for (why, n) in &tally.skipped {
        println!("{:>14}{n} programs left out: {why}", "");
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

/// A boot image in which no method is inlined.
fn image_without_inlining(lab: &Lab, folder: &Path) -> Result<BootImage> {
    let image = BootImage {
        image: folder.join("image/core.art"),
        ..lab.core_image()
    };
    let file = folder.join("image").join(lab.isa().name()).join("core.art");
    let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let tools = ["bin/dex2oat", "lib64/libart-compiler.so", "lib64/libart.so"];
    let newest = tools
        .iter()
        .filter_map(|tool| modified(&lab.root().join(tool)))
        .max();
    if modified(&file).is_some_and(|made| newest.is_none_or(|newest| made > newest)) {
        return Ok(image);
    }
    eprintln!("verify: compiling a boot image without inlining");
    Ok(lab.build_boot_image(&BootImageSpec {
        jars: lab.boot_class_path(),
        filter: "speed".to_owned(),
        image: image.image,
        options: vec![NO_INLINING.into()],
    })?)
}

fn check_program(
    context: &Context,
    program: &Program,
    modes: &[Mode],
    tallies: &Mutex<BTreeMap<Mode, Tally>>,
) -> Result<()> {
    let work = tempfile::tempdir().context("cannot make a temporary folder")?;
    let work = fs::canonicalize(work.path()).map(|path| (work, path))?;
    let folder = &work.1;
    let jar = folder.join("program.jar");
    fs::copy(&program.jar, &jar).with_context(|| format!("{}", program.jar.display()))?;

    let first = folder.join("reference");
    fs::create_dir(&first)?;
    // The interpreter's run is traced by both; it is the reference of the other modes, too.
    let art = first.join("art.trace");
    let ours = execute(
        context,
        program,
        Mode::Interpreter,
        &jar,
        &first,
        Some(&art),
    );
    let (ours, art) = match ours.and_then(|ours| Ok((ours, read_reference(&art)?))) {
        Ok(pair) => pair,
        Err(why) => {
            let mut tallies = lock(tallies);
            for &mode in modes {
                let tally = tallies.entry(mode).or_default();
                *tally.skipped.entry(short(&why)).or_default() += 1;
            }
            return Ok(());
        }
    };
    let mut names = Names::default();
    let Some(expected) = reference(&art, &program.main(), &mut names) else {
        let why = "ART's tracer did not see main".to_owned();
        for &mode in modes {
            let mut tallies = lock(tallies);
            *tallies
                .entry(mode)
                .or_default()
                .skipped
                .entry(why.clone())
                .or_default() += 1;
        }
        return Ok(());
    };

    for &mode in modes {
        let outcome = if mode == Mode::Interpreter {
            judge(
                &context.exempt,
                &program.main(),
                mode,
                &expected,
                &ours,
                &mut names,
            )
        } else {
            let own = folder.join(mode.name());
            fs::create_dir(&own)?;
            match execute(context, program, mode, &jar, &own, None) {
                Ok(trace) => judge(
                    &context.exempt,
                    &program.main(),
                    mode,
                    &expected,
                    &trace,
                    &mut names,
                ),
                Err(why) => Outcome::Skipped(short(&why)),
            }
        };
        let outcome = match outcome {
            Outcome::Different(_)
                if mode != Mode::Interpreter
                    && !is_deterministic(context, program, &jar, folder, &expected, &mut names) =>
            {
                Outcome::Skipped("they are not deterministic".to_owned())
            }
            outcome => outcome,
        };
        if let (Outcome::Different(_), Some(keep)) = (&outcome, &context.keep) {
            let from = if mode == Mode::Interpreter {
                &first
            } else {
                &folder.join(mode.name())
            };
            let to = keep.join(format!("{}-{}", program.name, mode.name()));
            fs::create_dir_all(&to)?;
            for file in fs::read_dir(from)?.chain(fs::read_dir(&first)?).flatten() {
                if file
                    .path()
                    .extension()
                    .is_some_and(|x| x == "hindsight" || x == "trace")
                {
                    fs::copy(file.path(), to.join(file.file_name()))?;
                }
            }
        }
        let mut tallies = lock(tallies);
        let tally = tallies.entry(mode).or_default();
        match outcome {
            Outcome::Equal(steps, missing, additional) => {
                tally.programs += 1;
                tally.events += steps;
                add(&mut tally.missing, missing);
                add(&mut tally.additional, additional);
            }
            Outcome::Different(what) => {
                tally.programs += 1;
                tally.differences += 1;
                println!("{} ({}): {what}", program.name, mode.name());
            }
            Outcome::Skipped(why) => *tally.skipped.entry(why).or_default() += 1,
        }
    }
    Ok(())
}

fn add(to: &mut Counts, counts: Counts) {
    for (name, n) in counts {
        *to.entry(name).or_default() += n;
    }
}

/// Without what is different for each program.
fn short(error: &anyhow::Error) -> String {
    error.to_string()
}

/// Whether a second reference is as the first was.
fn is_deterministic(
    context: &Context,
    program: &Program,
    jar: &Path,
    folder: &Path,
    expected: &[Step],
    names: &mut Names,
) -> bool {
    let again = folder.join("again");
    if fs::create_dir_all(&again).is_err() {
        return false;
    }
    let art = again.join("art.trace");
    let mut same = || -> Result<bool> {
        execute(context, program, Mode::Interpreter, jar, &again, Some(&art))?;
        let second = reference(&read_reference(&art)?, &program.main(), names);
        Ok(second.as_deref() == Some(expected))
    };
    same().unwrap_or(false)
}

fn read_reference(file: &Path) -> Result<art_trace::ArtTrace> {
    let Ok(trace) = art_trace::read(file) else {
        bail!("ART's tracer wrote no file (they abort, halt or are killed)");
    };
    ensure!(
        !trace.overflow,
        "they have more events than ART's tracer holds"
    );
    Ok(trace)
}

fn judge(
    exempt: &programs::Exempt,
    main: &str,
    mode: Mode,
    expected: &[Step],
    trace: &Trace,
    names: &mut Names,
) -> Outcome {
    let Some(found) = recorded(trace, main, names) else {
        return Outcome::Different("main was not recorded".to_owned());
    };
    let may_miss = |name| {
        let name = names.name(name);
        exempt.is_critical_native(name) || exempt.is_intrinsic(name) || mode == Mode::AotInlined
    };
    // ART's tracer doesn't see native static methods while their class is being initialized: until it is, calls
    // go through the resolution trampoline, straight to the code, past the tracer's stub.
    let may_add = |name, inside| {
        let class = |name| names.name(name).split('(').next()?.rsplit_once('.');
        match (class(name), class(inside)) {
            (Some((of, _)), Some((initialized, "<clinit>"))) => of == initialized,
            _ => false,
        }
    };
    // ART's tracer lists the interface's method in place of a proxy's, so that the proxy's has no name.
    let alias = |name, its| {
        names.name(name).starts_with("<method ") && programs::is_of_proxy(names.name(its))
    };
    let rules = Rules {
        may_miss: &may_miss,
        may_add: &may_add,
        alias: &alias,
    };
    match compare(expected, &found, &rules) {
        Ok(permitted) => {
            let named = |counts: BTreeMap<compare::Name, u64>| -> Counts {
                counts
                    .iter()
                    .map(|(&name, &n)| (names.name(name).to_owned(), n))
                    .collect()
            };
            let (missing, additional) = (named(permitted.missing), named(permitted.additional));
            Outcome::Equal(expected.len(), missing, additional)
        }
        Err(difference) => {
            let (a, b) = difference.at;
            Outcome::Different(format!(
                "after {a} of {} events of ART's tracer and {b} of {} of ours:\n  ART  {}\n  ours {}",
                expected.len(),
                found.len(),
                excerpt(expected, a, names),
                excerpt(&found, b, names)
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

/// Runs a program to its end, and reads what was recorded. An error says why that can't be compared.
fn execute(
    context: &Context,
    program: &Program,
    mode: Mode,
    jar: &Path,
    folder: &Path,
    reference: Option<&Path>,
) -> Result<Trace> {
    let lab = &context.lab;
    let (image, option) = match mode {
        Mode::Interpreter => (lab.core_interpreter_image(), "-Xint"),
        Mode::Jit => (lab.core_interpreter_image(), "-Xusejit:true"),
        Mode::Aot => {
            let image = context.not_inlined.clone();
            (image.context("there is no image")?, "-Xusejit:false")
        }
        Mode::AotInlined => (lab.core_image(), "-Xusejit:false"),
    };
    let mut class_path = jar.to_owned();
    if matches!(mode, Mode::Aot | Mode::AotInlined) {
        class_path = folder.join("program.jar");
        fs::copy(jar, &class_path)?;
        let oat = folder.join("oat").join(lab.isa().name());
        fs::create_dir_all(&oat)?;
        let mut compiler = lab.dex2oat_command_with(&image);
        compiler
            .arg(format!("--dex-file={}", class_path.display()))
            .arg(format!("--oat-file={}", oat.join("program.odex").display()))
            .args(["--compiler-filter=speed", "--class-loader-context=PCL[]"])
            .args(["--host", "-j1"]);
        if mode == Mode::Aot {
            compiler.arg(NO_INLINING);
        }
        if lab.isa().is_native() {
            compiler.arg("--instruction-set-features=runtime");
        }
        let log = folder.join("dex2oat.txt");
        let done = finish(&mut compiler, &log, context.timeout)?;
        ensure!(done == Some(true), "dex2oat fails");
    }
    let mut command = lab.dalvikvm_command_with(&image);
    command
        .arg(option)
        .arg("-Djava.library.path=".to_owned() + &program.libraries);
    if mode == Mode::Jit {
        command.args(["-Xjitthreshold:0", "-Xcompiler-option", NO_INLINING]);
    }
    if let Some(file) = reference {
        command
            .arg("-Xmethod-trace")
            .arg(format!("-Xmethod-trace-file:{}", file.display()))
            .arg(format!("-Xmethod-trace-file-size:{REFERENCE_BYTES}"));
    }
    command
        .arg("-cp")
        .arg(&class_path)
        .arg(&program.class)
        .args(&program.arguments);
    command.current_dir(folder).env("DEX_LOCATION", folder);
    command.env(
        "HINDSIGHT",
        format!(
            "trace=main,ring={RING},persist-at-exit=yes,dir={}",
            folder.display()
        ),
    );
    let log = folder.join("output.txt");
    ensure!(
        finish(&mut command, &log, context.timeout)?.is_some(),
        "they take too long"
    );
    let mut traces = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|x| x == "hindsight"));
    let (Some(file), None) = (traces.next(), traces.next()) else {
        bail!("they write no trace, or several (they abort, halt, or start processes)");
    };
    let trace = Trace::open(&file)?;
    let main = trace
        .main_thread()
        .context("their main thread has no ring at the end")?;
    ensure!(
        main.stats.overwritten_slots == 0,
        "they have more events than the ring holds"
    );
    Ok(trace)
}

/// Whether a command succeeded; `None` if it had to be killed.
fn finish(command: &mut Command, log: &Path, limit: Duration) -> Result<Option<bool>> {
    let output = fs::File::create(log)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
