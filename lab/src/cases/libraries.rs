// SPDX-License-Identifier: Apache-2.0
//! Libraries with queues of their own: Debian's packages with the drivers in `lab/causality/libraries`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{folders, run, Case, CaseOptions, CaseProcess, Recording};
use crate::error::{Error, Result};
use crate::run::{java_files, App, Framework, JavaLibrary};
use crate::util::{create_dir, read};

/// A program with its library, compiled.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its processes. Nothing is watched.
    pub case: Case,
    app: App,
}

/// The programs of `lab/causality/libraries`, and where they are run.
pub struct Libraries {
    framework: Framework,
    checkout: PathBuf,
    packages: PathBuf,
}

/// `program.toml`.
#[derive(Deserialize)]
struct Description {
    /// `PACKAGE/JAR`, with the folders of `sources.toml`.
    jars: Vec<PathBuf>,
    /// Folders of further sources, in the checkout.
    #[serde(default)]
    sources: Vec<PathBuf>,
    process: Vec<CaseProcess>,
}

impl Libraries {
    /// Downloads and unpacks the packages, unless they are there: 65 MB the first time.
    ///
    /// # Errors
    /// If a package cannot be downloaded.
    pub fn fetch(framework: &Framework, checkout: &Path) -> Result<Libraries> {
        let packages = framework.dir().join("libraries");
        create_dir(&packages)?;
        let data = checkout.join("lab/causality/libraries");
        framework.lab().unpack_binaries(&data, &packages)?;
        Ok(Libraries {
            framework: framework.clone(),
            checkout: checkout.to_owned(),
            packages,
        })
    }

    /// The names of the programs.
    ///
    /// # Errors
    /// If their folder cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let folders = folders(&self.data())?.into_iter();
        let names = folders.filter_map(|f| f.file_name()?.to_str().map(str::to_owned));
        Ok(names.collect())
    }

    /// Compiles a program with its library, unless that is up to date: some 20 seconds for a large one.
    ///
    /// # Errors
    /// If its description is wrong, or a compiler fails.
    pub fn compile(&self, name: &str) -> Result<Library> {
        let folder = self.data().join(name);
        let file = folder.join("program.toml");
        let description: Description = toml::from_str(&read(&file)?)
            .map_err(|error| Error::Other(format!("{}: {error}", file.display())))?;
        let jars: Vec<PathBuf> = description.jars.iter().map(|jar| self.jar(jar)).collect();
        let mut sources = java_files(&self.checkout.join("lab/causality/common"))?;
        sources.extend(java_files(&folder)?);
        for more in &description.sources {
            sources.extend(java_files(&self.checkout.join(more))?);
        }
        let library = JavaLibrary {
            sources,
            class_jars: jars.clone(),
            resources: jars,
            ..JavaLibrary::default()
        };
        let app = self
            .framework
            .compile_program(&format!("causality-{name}"), &library)?;
        let case = Case {
            name: name.to_owned(),
            folder,
            processes: description.process,
            watch: Vec::new(),
        };
        Ok(Library { case, app })
    }

    /// As [`Cases::run`](super::Cases::run).
    ///
    /// # Errors
    /// If a process fails or leaves no file, or the limit is over.
    pub fn run(
        &self,
        library: &Library,
        options: &CaseOptions,
        out: &Path,
    ) -> Result<Vec<Recording>> {
        run(&self.framework, &library.app, &library.case, options, out)
    }

    fn data(&self) -> PathBuf {
        self.checkout.join("lab/causality/libraries")
    }

    /// The unpacked `PACKAGE/JAR`.
    fn jar(&self, name: &Path) -> PathBuf {
        let package = name.parent().unwrap_or(Path::new(""));
        let jars = self.packages.join(package).join("usr/share/java");
        jars.join(name.file_name().unwrap_or_default())
    }
}
