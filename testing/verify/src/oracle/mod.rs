// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify oracle`: compares the recorded entries and exits of a program's main thread with the trace of
//! ART's own tracer. See `testing/verify/README.md`.

mod check;
mod compare;
mod context;
mod debian;
mod execute;
mod images;
mod inlining;
mod mode;
mod options;
mod outcome;
mod programs;
mod rules;
mod select;
mod sequences;
mod tally;

pub(crate) use options::Options;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hindsight_decoder::Trace;
use hindsight_lab::{Lab, Release, Variant};

use check::{check_program, judge, judge_threads};
use context::Context;
use inlining::Inlined;
use mode::Mode;
use outcome::Outcome;
use select::{select, Sources};
use sequences::{reference, Names};
use tally::{lock, print_permitted, print_progress, report, Tally};

/// The number of programs between two lines of progress.
const PROGRESS: usize = 25;

/// Runs all programs in all modes. Returns whether there is no difference.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    if let (Some(kept), Some(main)) = (&options.kept, &options.main) {
        return compare_kept(kept, main, options, checkout);
    }
    let lab = Lab::open(Release::Android10, options.isa, Variant::Hindsight)?;
    let folder = target(checkout, &lab);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let (programs, others) = select(
        options,
        &Sources {
            own: &|| programs::own(&lab, checkout, &folder),
            debian: &|wanted| debian::programs(&lab, checkout, &folder, wanted),
            run_tests: &|| programs::run_tests(&lab),
        },
    )?;
    let wants = |mode| options.mode.contains(&mode).then_some(());
    let images = images::Images {
        lab: &lab,
        folder: &folder,
        trivial: options.trivial,
    };
    let not_inlined = wants(Mode::Aot)
        .map(|()| images.without_inlining())
        .transpose()?;
    let inlined = wants(Mode::AotInlined)
        .map(|()| images.with_inlining())
        .transpose()?;
    let context = Context {
        interpreter: images.interpreter()?,
        not_inlined,
        inlined,
        exempt: programs::Exempt::of(&lab, options.trivial)?,
        trivial: options.trivial,
        preload: execute::same_time(&lab, checkout, &folder)?,
        lab,
        events: options.events,
        rewind: options.rewind.clone(),
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
    let exempt = programs::Exempt::of(&lab, options.trivial)?;
    let exempt = exempt.with(&lab, &files(folder, "jar")?)?;
    let main = programs::main_of(class);
    let mut names = Names::default();
    let art = execute::read_reference(folder)?;
    let expected = reference(&art, &main, &mut names).context("ART's tracer did not see main")?;
    let mode = options.mode[0];
    let mut tables = Vec::new();
    if mode == Mode::AotInlined {
        let images = images::Images {
            lab: &lab,
            folder: &target(checkout, &lab),
            trivial: options.trivial,
        };
        tables.push(images.with_inlining()?.1);
        tables.push(images::read_kept(&folder.join(images::LOG))?);
    }
    let tables: Vec<&Inlined> = tables.iter().collect();
    let (mut programs, mut events, mut differences) = (0, 0, 0);
    for file in files(folder, "hindsight")? {
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

/// The files of a folder with this extension.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("{}", folder.display()))? {
        let file = entry?.path();
        if file.extension().is_some_and(|x| x == extension) {
            files.push(file);
        }
    }
    Ok(files)
}

/// The folder for images and jars.
fn target(checkout: &Path, lab: &Lab) -> PathBuf {
    checkout.join("target/verify/oracle").join(lab.isa().name())
}
