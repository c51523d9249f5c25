// SPDX-License-Identifier: Apache-2.0
//! Compiles Java sources to dex jars, against the core classes of a build.

use super::lab::Lab;
use crate::error::{IoContext, Result};
use crate::layout::{join_paths, JAVAC_FLAGS};
use crate::util::{create_dir, remove, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Java code to be compiled for the lab. Paths are relative to the current folder, or absolute.
#[derive(Clone, Debug, Default)]
pub struct JavaLibrary {
    /// Source files to compile.
    pub sources: Vec<PathBuf>,
    /// Folders in which javac looks for the sources of further classes that these refer to, and compiles them, too.
    pub source_path: Vec<PathBuf>,
    /// Class files (folders or jars) to compile against; they do not become part of the result.
    pub class_path: Vec<PathBuf>,
    /// Class files (folders or jars, up to Java 17) to compile against; they become part of the result.
    pub class_jars: Vec<PathBuf>,
    /// Folders or jars whose other files become resources of the result.
    pub resources: Vec<PathBuf>,
    /// Whether the code may define classes of `java.*`, as a jar of the boot class path may.
    pub core_library: bool,
    /// The folder that keeps the class files for other libraries to compile against, if any.
    pub class_output: Option<PathBuf>,
}

impl Lab {
    /// Compiles Java sources and class files to a dex jar: javac against the core classes, then the
    /// lab's desugaring, then dx. The jar is written whole or not at all.
    ///
    /// # Errors
    /// If javac or dx fails; their messages are in the error.
    pub fn compile_java(&self, library: &JavaLibrary, output: &Path) -> Result<()> {
        let parent = match output.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        create_dir(parent)?;
        let work = tempfile::tempdir_in(parent).context("make a folder in", parent)?;
        let classes = match &library.class_output {
            Some(dir) => {
                // Old class files would become part of the result.
                remove(dir)?;
                dir.clone()
            }
            None => work.path().join("classes"),
        };
        create_dir(&classes)?;
        if !library.sources.is_empty() {
            let mut command = Command::new("javac");
            command
                .args(JAVAC_FLAGS)
                .args(["-proc:none", "-Xmaxerrs", "400"]);
            command.arg("-bootclasspath").arg(self.core_classes());
            let class_path: Vec<PathBuf> = library
                .class_path
                .iter()
                .chain(&library.class_jars)
                .cloned()
                .collect();
            // Without a class path, javac uses the current folder.
            let class_path = if class_path.is_empty() {
                vec![work.path().to_owned()]
            } else {
                class_path
            };
            command.arg("-cp").arg(join_paths(&class_path));
            if !library.source_path.is_empty() {
                command
                    .arg("-sourcepath")
                    .arg(join_paths(&library.source_path));
            }
            command.arg("-d").arg(&classes).args(&library.sources);
            run(
                command,
                &format!("compiling the Java sources of {}", output.display()),
            )?;
        }
        let mut command = Command::new("java");
        command.args([
            "-Xmx3g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
        ]);
        command
            .arg(self.tools_class_path())
            .arg("dev.hindsight.lab.dex.DexJar");
        command.arg("--output").arg(output);
        command.arg("--classes").arg(&classes);
        for jar in &library.class_jars {
            command.arg("--classes").arg(jar);
        }
        for resources in &library.resources {
            command.arg("--resources").arg(resources);
        }
        if library.core_library {
            command.arg("--core-library");
        }
        run(command, &format!("dexing {}", output.display())).map(drop)
    }
}
