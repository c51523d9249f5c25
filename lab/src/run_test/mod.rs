// SPDX-License-Identifier: Apache-2.0
//! `lab run-test`: ART's own run-tests (`art/test/NNN-*`), built, run and checked as AOSP's `art/test/run-test` does.
//!
//! A test is a folder with sources, `expected.txt` and, where the defaults don't do, its own `build`, `run` and `check`
//! scripts. Those scripts, `default-build` and `run-test-jar` are AOSP's and are used as they are (a handful of lines are
//! adapted, see [`scripts`]); what AOSP's top-level `run-test` does around them is done here, so that
//! * a test is built once and its build kept, whatever the mode and the variant of ART it then runs on ([`build`]);
//! * the Java tools stay warm in one JVM per worker instead of starting one JVM per call ([`tools`]);
//! * a test that hangs is killed with everything that it started ([`process`]).

mod build;
mod execute;
mod process;
mod report;
mod scripts;
mod suite;
mod tools;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

pub use report::{Outcome, Report, Status};
pub use tools::client as tool_client;

/// Where the lab's parts are; made by the lab's builder.
#[derive(Debug, Clone)]
pub struct Layout {
    /// ART's source tree, with `test/` and `tools/checker/`.
    pub art: PathBuf,
    /// AOSP's `ANDROID_HOST_OUT`: `bin`, `lib64`, `nativetest64`, `framework`, `com.android.runtime`, `com.android.tzdata`.
    pub host_out: PathBuf,
    /// Folder of the boot class path as the boot image names it (`-Xbootclasspath-locations`).
    pub boot_location: String,
    /// Stems of the boot class path's jars, in order, without `-hostdex.jar`.
    pub boot_modules: Vec<String>,
    /// Class files of the boot class path (folders or jars), for javac.
    pub boot_classes: Vec<PathBuf>,
    /// Class path of the lab's d8 (`dev.hindsight.lab.dex.D8`), with dx and ASM.
    pub dex_tools: Vec<PathBuf>,
    /// Files and folders that stand for the contents of the two above, which have new time stamps after each build.
    pub tool_inputs: Vec<PathBuf>,
    /// `lab/android-10/run-tests` of this repository.
    pub data: PathBuf,
    /// Folder for cached builds and logs.
    pub cache: PathBuf,
    /// What this ART is called in logs and reports, such as `stock` or `patched`.
    pub variant: String,
    /// The instruction set that the VM runs on.
    pub isa: crate::Isa,
    /// What stands in front of the VM on the command line: the emulator of another instruction set.
    pub emulator: Vec<String>,
    /// `ANDROID_HOST_OUT` of the programs that run on this machine, such as dex2oat, if not `host_out`.
    pub native_out: Option<PathBuf>,
    /// Compiler options for code that is loaded into the VM.
    pub native_code_flags: Vec<String>,
    /// Extra environment of every process of a test.
    pub environment: BTreeMap<String, String>,
}

impl Layout {
    /// The layout of a finished build.
    pub fn of(lab: &crate::Lab) -> Layout {
        let jars = lab.boot_class_path();
        let location = jars.first().map_or("", |j| j.location.as_str());
        let stem = |p: &Path| {
            p.file_name().map(|n| {
                n.to_string_lossy()
                    .trim_end_matches("-hostdex.jar")
                    .to_owned()
            })
        };
        let folders = &lab.folders;
        Layout {
            art: lab.source_dir("art"),
            host_out: lab.root().to_owned(),
            boot_location: Path::new(location)
                .parent()
                .unwrap_or(Path::new(""))
                .display()
                .to_string(),
            boot_modules: jars.iter().filter_map(|j| stem(&j.path)).collect(),
            boot_classes: std::env::split_paths(&lab.core_classes()).collect(),
            dex_tools: std::env::split_paths(&lab.tools_class_path()).collect(),
            tool_inputs: vec![
                folders.checkout.join("lab/tools/java"),
                folders.data.join("sources.toml"),
                folders.data.join("port/libcore"),
            ],
            data: folders.data.join("run-tests"),
            cache: folders.release.join("run-tests"),
            variant: lab.variant().name().to_owned(),
            isa: lab.isa,
            emulator: lab
                .launcher()
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            native_out: (!lab.isa.is_native()).then(|| lab.native_root()),
            native_code_flags: crate::graph::target_flags_at(lab.folders.spec, lab.isa, lab.dir())
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            environment: lab
                .extra_environment()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .chain(
                    folders
                        .spec
                        .modules_of_libcore
                        .iter()
                        .map(|(name, module)| {
                            let path = lab.root().join(module).display().to_string();
                            ((*name).to_owned(), path)
                        }),
                )
                .collect(),
        }
    }
}

impl Layout {
    /// The variant, with the instruction set if that is not this machine's.
    fn name(&self) -> String {
        if self.isa.is_native() {
            self.variant.clone()
        } else {
            format!("{}-{}", self.variant, self.isa.name())
        }
    }
}

/// How tests are executed.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Everything interpreted (`-Xint`, dex code quickened).
    Interpreter,
    /// Interpreted at first, hot methods compiled.
    Jit,
    /// Compiled by dex2oat beforehand; checker tests compare the compiler's graphs too.
    Aot,
}

impl Mode {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Interpreter => "interpreter",
            Mode::Jit => "jit",
            Mode::Aot => "aot",
        }
    }
}

/// Arguments of `lab run-test`.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Tests, by name (`001-HelloWorld`) or number (`001`).
    #[arg(required_unless_present_any = ["all", "set"])]
    pub names: Vec<String>,
    /// All tests but those that AOSP or known-failures.toml says can't pass.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// The tests listed in FILE, one a line, `#` starts a comment.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "all"])]
    pub set: Option<PathBuf>,
    /// Interpreter, JIT or AOT.
    #[arg(long, value_enum, default_value_t = Mode::Aot)]
    pub mode: Mode,
    /// Trace every thread, and fail tests whose traces are not balanced.
    #[arg(long)]
    pub trace: bool,
    /// log2 of the bytes of each thread's ring, with --trace (default: 24, in 32-bit processes 22).
    #[arg(long, value_name = "N", requires = "trace")]
    pub ring: Option<u32>,
    /// Run the tests of known-failures.toml and of AOSP's knownfailures.json too.
    #[arg(long)]
    pub include_known: bool,
    /// Only tests whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// Tests at a time (default: as many as there are CPUs).
    #[arg(short = 'j', long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Seconds that a test may take to build, and again to run.
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    pub timeout: u64,
    /// Write the results to FILE (JSON).
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Name the tests that pass here and fail in the results in FILE, or the reverse; fail if one got worse.
    #[arg(long, value_name = "FILE")]
    pub compare_with: Option<PathBuf>,
    /// Don't run failed tests again, alone.
    #[arg(long)]
    pub no_retry: bool,
    /// Keep the working folders of all tests, not only their logs.
    #[arg(long)]
    pub keep: bool,
}

/// Everything a worker needs to know.
struct Session<'a> {
    layout: &'a Layout,
    options: &'a Options,
    scripts: scripts::Scripts,
    /// Tests whose checks fit what dx makes of their classes only if it does not optimize.
    unoptimized: BTreeSet<String>,
    /// Tests whose traces need not be balanced.
    unbalanced: BTreeSet<String>,
    /// Tests that load a JVMTI agent.
    agents: BTreeSet<String>,
    /// Logs of failed tests.
    logs: PathBuf,
    /// Parent of the tests' working folders.
    work: PathBuf,
}

/// Runs the tests and prints the results; the last line is `N passed, N failed, N skipped`.
///
/// Returns whether nothing failed.
pub fn run(layout: &Layout, options: &Options) -> Result<bool> {
    if options.trace && layout.variant == crate::Variant::Stock.name() {
        bail!("stock ART has no trace points: leave out --stock or --trace");
    }
    let suite = suite::Suite::load(
        &layout.art.join("test"),
        &layout.data.join("known-failures.toml"),
        layout.isa,
    )?;
    let selected = suite.select(options)?;
    let skipped: Vec<_> = selected
        .iter()
        .filter_map(|(t, s)| s.as_ref().map(|s| (t.clone(), s.clone())))
        .collect();
    let todo: Vec<_> = selected
        .into_iter()
        .filter(|(_, s)| s.is_none())
        .map(|(t, _)| t)
        .collect();
    if todo.is_empty() && skipped.is_empty() {
        bail!(
            "no test is called so: see {}",
            layout.art.join("test").display()
        );
    }
    let jobs = options
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
        .max(1);
    let suffix = if options.trace { "-traced" } else { "" };
    let logs = layout.cache.join("logs").join(format!(
        "{}-{}{suffix}",
        layout.name(),
        options.mode.name()
    ));
    let work = layout
        .cache
        .join("work")
        .join(std::process::id().to_string());
    for d in [&logs, &work] {
        std::fs::create_dir_all(d).with_context(|| format!("can't make {}", d.display()))?;
    }
    remove_stale_work(&layout.cache.join("work"));
    process::become_subreaper();
    let scripts = scripts::Scripts::prepare(layout, work.join("top"))?;
    let unoptimized = suite::read_names(&layout.data.join("dx-unoptimized.txt"))?
        .into_iter()
        .collect();
    let context = Session {
        layout,
        options,
        scripts,
        unoptimized,
        unbalanced: suite.unbalanced,
        agents: suite.jvmti,
        logs,
        work: work.clone(),
    };
    let report = run_all(&context, &todo, &skipped, jobs);
    if !options.keep {
        let _ = std::fs::remove_dir_all(&work);
    }
    let report = report?;
    if options.trace {
        println!("{}", report.trace_summary());
        if report.count(Status::Passed) != 0 && report.tests.values().all(|o| o.events.is_none()) {
            bail!(
                "nothing was traced: {} is ART without Hindsight, or ignores HINDSIGHT",
                layout.host_out.display()
            );
        }
    }
    if options.all {
        let name = format!("{}-{}{suffix}.json", layout.name(), options.mode.name());
        report.save(&layout.cache.join("results").join(name))?;
    }
    if let Some(f) = &options.report {
        report.save(f)?;
    }
    let mut good = report.count(Status::Failed) == 0;
    if let Some(f) = &options.compare_with {
        let worse = report.compare(&Report::load(f)?);
        good = worse == 0;
    }
    println!("{}", report.summary());
    Ok(good)
}

/// Removes what runs that were killed have left.
fn remove_stale_work(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for e in entries.flatten() {
        let pid = e.file_name().to_string_lossy().parse::<u32>();
        if pid.is_ok_and(|p| !Path::new("/proc").join(p.to_string()).exists()) {
            let _ = std::fs::remove_dir_all(e.path());
        }
    }
}

fn run_all(
    context: &Session,
    todo: &[String],
    skipped: &[(String, String)],
    jobs: usize,
) -> Result<Report> {
    let started = Instant::now();
    let bar = ProgressBar::new(todo.len() as u64);
    bar.set_style(
        ProgressStyle::with_template("{elapsed_precise} [{bar:32}] {pos}/{len} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.enable_steady_tick(Duration::from_millis(500));
    let plain = bar.is_hidden();
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let broken: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for worker in 0..jobs.min(todo.len()).max(1) {
            let (bar, next, failed, outcomes, broken) = (&bar, &next, &failed, &outcomes, &broken);
            scope.spawn(move || {
                let server = tools::Server::new(context.layout, worker);
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(name) = todo.get(i) else { break };
                    if broken.lock().is_ok_and(|b| b.is_some()) {
                        break;
                    }
                    match execute::test(context, name, &server, 1) {
                        Ok(o) => {
                            if o.status == Status::Failed {
                                let line = format!(
                                    "FAILED {name} ({}): {}; log: {}",
                                    context.options.mode.name(),
                                    o.reason.as_deref().unwrap_or("?"),
                                    context.logs.join(format!("{name}.log")).display()
                                );
                                if plain {
                                    println!("{line}");
                                } else {
                                    bar.println(line);
                                }
                                failed.fetch_add(1, Ordering::Relaxed);
                            }
                            if let Ok(mut m) = outcomes.lock() {
                                m.insert(name.clone(), o);
                            }
                        }
                        Err(e) => {
                            if let Ok(mut b) = broken.lock() {
                                b.get_or_insert(e.context(format!("test {name}")));
                            }
                            break;
                        }
                    }
                    bar.inc(1);
                    let f = failed.load(Ordering::Relaxed);
                    bar.set_message(if f == 0 {
                        name.clone()
                    } else {
                        format!("{f} failed, {name}")
                    });
                    if plain && bar.position() % 25 == 0 {
                        println!(
                            "{}/{} tests, {f} failed, {} s",
                            bar.position(),
                            todo.len(),
                            started.elapsed().as_secs()
                        );
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    if let Some(e) = broken.into_inner().ok().flatten() {
        return Err(e);
    }
    let mut tests = outcomes.into_inner().unwrap_or_default();
    if !context.options.no_retry {
        retry_failed(context, &mut tests)?;
    }
    for (t, why) in skipped {
        let agent = context.agents.contains(t);
        let outcome = Outcome::skipped(why);
        tests.insert(t.clone(), Outcome { agent, ..outcome });
    }
    Ok(Report {
        variant: context.layout.name(),
        mode: context.options.mode,
        trace: context.options.trace,
        seconds: started.elapsed().as_secs_f64(),
        tests,
    })
}

/// More failures than this are no matter of chance.
const MAX_RETRIED: usize = 40;

/// Runs failed tests again, alone and with more time: several of ART's tests compare times, or give other threads a
/// second for something. Which ones passed only then is printed, and is in the report.
fn retry_failed(context: &Session, tests: &mut BTreeMap<String, Outcome>) -> Result<()> {
    let is_failed = |o: &Outcome| o.status == Status::Failed;
    let failed: Vec<String> = tests
        .iter()
        .filter(|(_, o)| is_failed(o))
        .map(|(t, _)| t.clone())
        .collect();
    if failed.len() > MAX_RETRIED {
        return Ok(());
    }
    let server = tools::Server::new(context.layout, 0);
    for name in failed {
        let mut again =
            execute::test(context, &name, &server, 2).with_context(|| format!("test {name}"))?;
        let Some(first) = tests.get_mut(&name) else {
            continue;
        };
        if again.status == Status::Passed {
            println!(
                "PASSED {name} alone, after: {}",
                first.reason.as_deref().unwrap_or("?")
            );
            again.first_failure = first.reason.take();
            // A recording is right each time.
            again.unbalanced = std::mem::take(&mut first.unbalanced);
            *first = again;
        }
    }
    Ok(())
}

fn io_context(what: &str, path: &Path) -> String {
    format!("can't {what} {}", path.display())
}
