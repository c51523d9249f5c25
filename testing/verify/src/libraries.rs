// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask verify cases --libraries`: the programs of `lab/causality/libraries` run in the lab, and no edge of their graphs
//! leads to another callback than the one that was handed over.

use std::fmt;
use std::path::Path;

use anyhow::{ensure, Result};
use hindsight_lab::cases::{Libraries, Library, Recording};
use hindsight_lab::run_test::Mode;
use hindsight_lab::Framework;
use hindsight_verify::callbacks::{judge, Verdict};

use crate::case_runs::{Options, Totals};

/// What is recorded.
const CONFIGURATION: &str = "events=all,rules=libraries";

/// What was found in all runs.
#[derive(Default)]
pub(crate) struct Callbacks {
    programs: u64,
    edges: u64,
    wrong: u64,
    found: u64,
    with_rules: u64,
    unknown: u64,
}

impl fmt::Display for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Callbacks {
            programs,
            edges,
            wrong,
            found,
            with_rules,
            unknown,
        } = self;
        write!(
            f,
            "libraries: {programs} programs, {edges} edges, {wrong} wrong, callbacks {found} found, {with_rules} with rules, {unknown} unknown"
        )
    }
}

/// Runs the programs, and compares what they know with the graphs of their recordings.
pub(crate) fn run(
    options: &Options,
    framework: &Framework,
    checkout: &Path,
    folder: &Path,
    totals: &mut Totals,
) -> Result<Callbacks> {
    let libraries = Libraries::fetch(framework, checkout)?;
    let mut all = Callbacks::default();
    for name in options.chosen(libraries.names()?)? {
        let library = libraries.compile(&name);
        all.programs += 1;
        for &mode in &options.mode {
            let result = match &library {
                Ok(library) => all.run(&libraries, library, options, mode, folder),
                Err(error) => Err(anyhow::anyhow!("{error}")),
            };
            totals.add(&name, mode, result);
        }
    }
    Ok(all)
}

impl Callbacks {
    fn run(
        &mut self,
        libraries: &Libraries,
        library: &Library,
        options: &Options,
        mode: Mode,
        folder: &Path,
    ) -> Result<String> {
        let out = folder.join(&library.case.name).join(mode.name());
        let how = options.how(mode, CONFIGURATION);
        let recorded = libraries.run(library, &how, &out)?;
        let files: Vec<_> = recorded.into_iter().map(|r: Recording| r.file).collect();
        let verdict = judge(&files)?;
        self.add(&verdict);
        let wrong = verdict.wrong.len();
        ensure!(
            wrong == 0,
            "{}; wrong:\n    {}",
            words(&verdict),
            verdict.wrong.join("\n    ")
        );
        Ok(words(&verdict))
    }

    fn add(&mut self, verdict: &Verdict) {
        self.edges += verdict.edges;
        self.wrong += verdict.wrong.len() as u64;
        self.found += verdict.found;
        self.with_rules += verdict.found_with_rules;
        self.unknown += verdict.unknown.values().sum::<u64>();
    }
}

fn words(verdict: &Verdict) -> String {
    let unknown = verdict.unknown.iter();
    let unknown = unknown.map(|(threads, count)| format!("; no path for {count} from {threads}"));
    format!(
        "{} edges between threads, {} of them lead to a callback, {} wrong; callbacks {} found, {} with rules, {} unknown{}",
        verdict.edges,
        verdict.judged,
        verdict.wrong.len(),
        verdict.found,
        verdict.found_with_rules,
        verdict.unknown.values().sum::<u64>(),
        unknown.collect::<String>()
    )
}
