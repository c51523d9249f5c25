// SPDX-License-Identifier: Apache-2.0
//! Compiles the programs of plans, and runs them in the lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::cases::{Case, CaseOptions, CaseProcess, Cases};
use hindsight_lab::run_test::Mode;
use hindsight_lab::{Execution, Framework, Isa, Lab, Release, Variant};

use super::java::{self, PROGRAM, SERVER};
use super::plan::Plan;

/// The compiled programs.
pub(super) struct Programs(Cases);

/// The lab's framework, which is built unless that is up to date.
pub(super) fn framework() -> Result<Framework> {
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let framework = Framework::build(&lab, &|step| eprintln!("verify: building {step}"))?;
    Ok(framework)
}

/// How a program is run.
pub(super) struct Round {
    pub(super) mode: Mode,
    /// Beside the size of rings.
    pub(super) configuration: &'static str,
    pub(super) limit: Duration,
}

impl Round {
    /// For the runner.
    pub(super) fn options(&self) -> CaseOptions {
        CaseOptions {
            execution: match self.mode {
                Mode::Interpreter => Execution::Interpreter,
                Mode::Jit => Execution::Jit,
                Mode::Aot => Execution::Aot,
            },
            configuration: format!(
                "event-ring=17,event-rings=4096,event-spool=27,{}",
                self.configuration
            ),
            watch: false,
            limit: self.limit,
        }
    }
}

impl Programs {
    /// Writes and compiles the programs of all plans.
    pub(super) fn compile(
        framework: &Framework,
        checkout: &Path,
        scratch: &Path,
        plans: &[&Plan],
    ) -> Result<Programs> {
        let sources = scratch.join("sources");
        for plan in plans {
            let folder = sources.join(&plan.package);
            fs::create_dir_all(&folder)?;
            for (name, text) in java::sources(plan) {
                let file = folder.join(name);
                fs::write(&file, text).with_context(|| format!("{}", file.display()))?;
            }
        }
        let shared = checkout.join("lab/causality");
        let (common, random) = (shared.join("common"), shared.join("random"));
        let cases = plans.iter().map(|plan| case(plan, &sources)).collect();
        let folders: [&Path; 3] = [&common, &random, &sources];
        // In a folder of its own: another run has other programs of the same names.
        let compiled = scratch.join("compiled");
        let cases = Cases::compile_in(&compiled, framework, &folders, cases)?;
        Ok(Programs(cases))
    }

    /// Runs a program, to its end. Returns its files: that of the program's own process first.
    pub(super) fn run(&self, plan: &Plan, round: &Round, folder: &Path) -> Result<Vec<PathBuf>> {
        let case = self.0.all().iter().find(|case| case.name == plan.package);
        let case = case.context("the program has not been compiled")?;
        let recordings = self.0.run(case, &round.options(), folder)?;
        // Processes start with the server.
        Ok(recordings.into_iter().rev().map(|r| r.file).collect())
    }
}

/// The files of a program that was run before: that of its own process first.
pub(super) fn files(plan: &Plan, folder: &Path) -> Result<Vec<PathBuf>> {
    let names = case(plan, folder).processes.into_iter().rev();
    let files: Vec<PathBuf> = names
        .map(|process| folder.join(process.name).with_extension("hindsight"))
        .collect();
    ensure!(
        files.iter().all(|file| file.is_file()),
        "no files in {}",
        folder.display()
    );
    Ok(files)
}

fn case(plan: &Plan, sources: &Path) -> Case {
    let process = |name: &str, class: &str| CaseProcess {
        name: name.to_owned(),
        class: format!("{}.{class}", plan.package),
    };
    let server = java::served(plan).map(|_| process(SERVER, "Server"));
    Case {
        name: plan.package.clone(),
        folder: sources.join(&plan.package),
        processes: server
            .into_iter()
            .chain([process(PROGRAM, "Main")])
            .collect(),
        watch: Vec::new(),
    }
}
