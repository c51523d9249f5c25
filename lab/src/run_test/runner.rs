// SPDX-License-Identifier: Apache-2.0
//! Runs the selected tests on several workers, and prints the results.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::layout::Layout;
use super::options::Options;
use super::report::{Outcome, Report, Status};
use super::scripts::Scripts;
use super::session::Session;
use super::suite::{read_names, Suite};
use super::{execute, process, tools};
use crate::spec::Variant;

/// Runs the tests and prints the results; the last line is `N passed, N failed, N skipped`.
///
/// Returns whether nothing failed.
///
/// The program must have called [`super::run_as_tool`] first.
pub fn run(layout: &Layout, options: &Options) -> Result<bool> {
    tools::check_client()?;
    if options.trace && layout.variant == Variant::Stock.name() {
        bail!("stock ART has no trace points: leave out --stock or --trace");
    }
    let suite = Suite::load(
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
            "no test matches: see the folders in {}",
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
    let scripts = Scripts::prepare(layout, work.join("top"))?;
    let unoptimized = read_names(&layout.data.join("dx-unoptimized.txt"))?
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
                "nothing was traced: {} is ART without Hindsight, or does not read the variable HINDSIGHT",
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

/// Removes the working folders of runs that were killed.
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

/// With more failures than this, none is run again: they are not due to timing.
const MAX_RETRIED: usize = 40;

/// Runs failed tests again, alone and with more time: several of ART's tests compare times, or give other threads one
/// second for a task. Prints and reports the tests that passed only then.
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
            // A recording must be right each time: the errors of the first run count.
            again.unbalanced = std::mem::take(&mut first.unbalanced);
            *first = again;
        }
    }
    Ok(())
}
