// SPDX-License-Identifier: Apache-2.0
//! Checks the layout of the project: `cargo xtask check-layout`.
//!
//! - Crates depend on each other only in the direction that `docs/contributing.md` gives ([`crates`]).
//! - Device crates have few, listed dependencies and build with the oldest supported Rust ([`crates`]).
//! - No modules of a crate use each other's items in a cycle ([`modules`]).
//! - Every file that can carry a comment has its licence line ([`text`]).
//! - Links between documents lead to an existing file and heading, and paths in documents exist ([`links`]).

mod crates;
mod links;
mod modules;
mod problem;
mod text;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{ensure, Context as _, Result};
use cargo_metadata::MetadataCommand;

use problem::Problem;

fn main() -> ExitCode {
    let checkout = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from(env!("HINDSIGHT_CHECKOUT")), PathBuf::from);
    match check(&checkout) {
        Ok(report) => {
            for problem in &report.problems {
                println!("{problem}");
            }
            println!("{}", report.summary());
            if report.problems.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("check-layout: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The result of all checks of a checkout.
struct Report {
    crates: usize,
    modules: usize,
    problems: Vec<Problem>,
}

impl Report {
    fn summary(&self) -> String {
        format!(
            "layout: {} crates, {} modules, {} problems",
            self.crates,
            self.modules,
            self.problems.len()
        )
    }
}

/// Runs all checks on a checkout, which must be a git work tree with a cargo workspace in its root.
fn check(checkout: &Path) -> Result<Report> {
    let checkout = checkout
        .canonicalize()
        .with_context(|| format!("cannot find the checkout {}", checkout.display()))?;
    let metadata = MetadataCommand::new()
        .current_dir(&checkout)
        .no_deps()
        .exec()
        .context("cannot list the crates")?;
    let packages = metadata.workspace_packages();
    let mut problems = crates::check(&packages, &checkout)?;
    let (modules, cycles) = modules::check(&packages, &checkout)?;
    problems.extend(cycles);
    let files = text::read_all(&checkout, tracked_files(&checkout)?);
    problems.extend(text::licence_lines(&files));
    problems.extend(links::check(&files)?);
    problems.sort();
    Ok(Report {
        crates: packages.len(),
        modules,
        problems,
    })
}

/// All files in the checkout's git index, and new files that git does not ignore.
fn tracked_files(checkout: &Path) -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(checkout).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let output = git.output().context("cannot run git")?;
    ensure!(
        output.status.success(),
        "{git:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let list =
        String::from_utf8(output.stdout).context("git lists a file whose name is no UTF-8")?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
