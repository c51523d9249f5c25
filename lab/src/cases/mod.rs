// SPDX-License-Identifier: Apache-2.0
//! Programs with known causes, and programs of others' libraries: `lab/causality`, which this runs in the lab.
//!
//! A case is a folder with Java sources and `expected.toml`: the processes, in the order in which they start, and the answer that a
//! diagnosis must find. [`Cases::run`] leaves one `.hindsight` file of each process.

mod libraries;
mod process;

pub use libraries::{Libraries, Library};

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, IoContext as _, Result};
use crate::run::{java_files, App, Execution, Framework, JavaLibrary};
use crate::util::{create_dir, read};

use process::Running;

/// A process of a case.
#[derive(Clone, Debug, Deserialize)]
pub struct CaseProcess {
    /// Its name in the case, and the name of its file.
    pub name: String,
    /// Its class with `main`.
    pub class: String,
}

/// A program with a known cause.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Its processes, in the order in which they start.
    pub processes: Vec<CaseProcess>,
    /// The fields, `package.Class.field`, whose uses a diagnosis may ask for.
    pub watch: Vec<String>,
}

/// The part of `expected.toml` that says what to run.
#[derive(Deserialize)]
struct Description {
    process: Vec<CaseProcess>,
    #[serde(default)]
    watch: Vec<String>,
}

/// What a process has left.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The process's name in the case.
    pub process: String,
    /// Its `.hindsight` file.
    pub file: PathBuf,
}

/// How a case is run.
#[derive(Clone, Debug)]
pub struct CaseOptions {
    /// How its code is executed.
    pub execution: Execution,
    /// What Hindsight records, without the folder: for instance `events=all`.
    pub configuration: String,
    /// Whether uses of [`Case::watch`]'s fields are events.
    pub watch: bool,
    /// The longest time that the case may take.
    pub limit: Duration,
}

/// All cases, compiled.
pub struct Cases {
    framework: Framework,
    app: App,
    cases: Vec<Case>,
}

impl Cases {
    /// Compiles the cases below `lab/causality` of a checkout, unless that is up to date.
    ///
    /// # Errors
    /// If a description is wrong, or a compiler fails.
    pub fn compile(framework: &Framework, checkout: &Path) -> Result<Cases> {
        let folder = checkout.join("lab/causality");
        let (common, cases) = (folder.join("common"), folder.join("cases"));
        let described = descriptions(&cases)?;
        let library = library(&[&common, &cases])?;
        Ok(Cases {
            app: framework.compile_program("causality-cases", &library)?,
            framework: framework.clone(),
            cases: described,
        })
    }

    /// Compiles the sources in these folders to a program in the folder `dir`, which no other run uses; the cases are in it.
    ///
    /// # Errors
    /// If a compiler fails.
    pub fn compile_in(
        dir: &Path,
        framework: &Framework,
        folders: &[&Path],
        cases: Vec<Case>,
    ) -> Result<Cases> {
        Ok(Cases {
            app: framework.compile_program_in(dir, "cases", &library(folders)?)?,
            framework: framework.clone(),
            cases,
        })
    }

    /// The cases, by name.
    pub fn all(&self) -> &[Case] {
        &self.cases
    }

    /// Runs a case, to its end. The folder is made if it does not exist; it gets `PROCESS.hindsight` and `PROCESS.txt`, the
    /// process's error output, of each process.
    ///
    /// # Errors
    /// If a process fails or leaves no file, or the limit is over.
    pub fn run(&self, case: &Case, options: &CaseOptions, out: &Path) -> Result<Vec<Recording>> {
        run(&self.framework, &self.app, case, options, out)
    }
}

/// The Java sources in these folders.
fn library(folders: &[&Path]) -> Result<JavaLibrary> {
    let mut sources = Vec::new();
    for folder in folders {
        sources.extend(java_files(folder)?);
    }
    Ok(JavaLibrary {
        sources,
        ..JavaLibrary::default()
    })
}

fn run(
    framework: &Framework,
    app: &App,
    case: &Case,
    options: &CaseOptions,
    out: &Path,
) -> Result<Vec<Recording>> {
    create_dir(out)?;
    let out = out.canonicalize().context("find", out)?;
    let shared = out.join("shared");
    create_dir(&shared)?;
    let mut configuration = format!("{},dir={}", options.configuration, shared.display());
    if options.watch {
        let rules = out.join("watch.rules");
        let lines = case.watch.iter().map(|field| format!("field {field}\n"));
        std::fs::write(&rules, lines.collect::<String>()).context("write", &rules)?;
        configuration.push_str(&format!(",rules={}", rules.display()));
    }
    let mut running = Running::new(&out, options.limit);
    for process in &case.processes {
        let mut command = framework.app_command(app, &process.class, options.execution);
        command.arg(&shared).args(running.ports());
        command.env("HINDSIGHT", &configuration);
        running.start(&process.name, command)?;
    }
    let files = running.finish()?;
    let recordings = case.processes.iter().zip(files).map(|(process, from)| {
        let file = out.join(&process.name).with_extension("hindsight");
        std::fs::rename(&from, &file).context("move", &from)?;
        Ok(Recording {
            process: process.name.clone(),
            file,
        })
    });
    recordings.collect()
}

/// The descriptions of the cases in a folder, by name.
fn descriptions(folder: &Path) -> Result<Vec<Case>> {
    let cases = folders(folder)?.into_iter().map(|folder| {
        let file = folder.join("expected.toml");
        let description: Description = toml::from_str(&read(&file)?)
            .map_err(|error| Error::Other(format!("{}: {error}", file.display())))?;
        let name = folder.file_name().unwrap_or_default();
        Ok(Case {
            name: name.to_string_lossy().into_owned(),
            folder,
            processes: description.process,
            watch: description.watch,
        })
    });
    cases.collect()
}

/// The folders in a folder, sorted.
fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).context("read", folder)? {
        let path = entry.context("read", folder)?.path();
        if path.is_dir() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
