// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify cases`: the programs of `lab/causality` run in the lab, and their recordings have what a diagnosis needs to
//! find their causes; what the diagnosis says of them is counted.

use std::path::Path;

use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::cases::{Case, Cases, Recording};
use hindsight_lab::{Framework, Isa, Lab, Release, Variant};
use hindsight_verify::answers::{answer, Answer};
use hindsight_verify::expected::{missing, Expected};

use crate::case_runs::{Options, Totals};
use crate::libraries;

/// Runs the programs and prints what is not recorded. Returns whether nothing is missing.
pub(crate) fn run(options: &Options, checkout: &Path) -> Result<bool> {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify: building {step}"))?;
    let mut totals = Totals::default();
    let scratch = tempfile::tempdir()?;
    let folder = options.keep.as_deref().unwrap_or(scratch.path());
    let mut callbacks = None;
    let mut counted = String::new();
    if options.libraries {
        callbacks = Some(libraries::run(
            options,
            &framework,
            checkout,
            folder,
            &mut totals,
        )?);
    } else {
        let culprits = run_cases(options, &framework, checkout, folder, &mut totals)?;
        counted = format!(
            ", culprits {} right, {} unknown, {} wrong",
            culprits.right, culprits.unknown, culprits.wrong
        );
    }
    println!(
        "cases: {} runs, {} with problems{counted}",
        totals.runs, totals.problems
    );
    if let Some(callbacks) = callbacks {
        println!("{callbacks}");
    }
    Ok(totals.problems == 0 && totals.runs > 0)
}

fn run_cases(
    options: &Options,
    framework: &Framework,
    checkout: &Path,
    folder: &Path,
    totals: &mut Totals,
) -> Result<Culprits> {
    let mut culprits = Culprits::default();
    let cases = Cases::compile(framework, checkout)?;
    let names = cases.all().iter().map(|case| case.name.clone()).collect();
    for name in options.chosen(names)? {
        let case = cases.all().iter().find(|case| case.name == name);
        let case = case.context("a chosen case exists")?;
        for &mode in &options.mode {
            let out = folder.join(&name).join(mode.name());
            let recorded = cases.run(case, &options.how(mode, "events=all"), &out);
            let checked = recorded
                .map_err(Into::into)
                .and_then(|r| culprits.check(case, &r, options.watch));
            totals.add(&name, mode, checked);
        }
    }
    Ok(culprits)
}

/// How often the diagnosis named the right culprit, none, or a wrong one.
#[derive(Default)]
struct Culprits {
    right: u64,
    unknown: u64,
    wrong: u64,
}

impl Culprits {
    /// Fails if the diagnosis names a wrong culprit, or a recording lacks a fact of the case's description.
    fn check(&mut self, case: &Case, recordings: &[Recording], is_watched: bool) -> Result<String> {
        let expected = Expected::of(case)?;
        let answer = answer(&expected, recordings)?;
        match answer {
            Answer::Right => self.right += 1,
            Answer::Unknown => self.unknown += 1,
            Answer::Wrong(_) => self.wrong += 1,
        }
        let missing = missing(&expected, recordings, is_watched)?;
        let culprit = match answer {
            Answer::Right => "the right one",
            Answer::Unknown => "unknown",
            Answer::Wrong(what) => bail!("a wrong culprit: {what}"),
        };
        ensure!(missing.is_empty(), "not recorded: {}", missing.join("; "));
        Ok(format!("recorded; culprit: {culprit}"))
    }
}
