// SPDX-License-Identifier: Apache-2.0
//! The lab as a device: no boot, no log, and the configuration is in the environment.

use crate::target::Target;
use anyhow::{bail, ensure, Context as _, Result};
use hindsight_lab::{Isa, JavaLibrary, Lab, Release, Variant};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lab, built with `cargo xtask lab build`.
pub struct LabTarget {
    lab: Lab,
    traces: tempfile::TempDir,
    jar: PathBuf,
}

impl LabTarget {
    /// Opens the built lab.
    ///
    /// # Errors
    /// If it isn't built.
    pub fn new() -> Result<LabTarget> {
        Ok(LabTarget {
            lab: Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?,
            traces: tempfile::tempdir()?,
            jar: PathBuf::new(),
        })
    }

    /// Compiles the test program; also for devices, as no SDK is needed.
    ///
    /// # Errors
    /// If the compiler fails.
    pub fn compile(&self, java: &Path, jar: &Path) -> Result<()> {
        let library = JavaLibrary {
            sources: vec![java.to_owned()],
            ..JavaLibrary::default()
        };
        Ok(self.lab.compile_java(&library, jar)?)
    }
}

impl Target for LabTarget {
    fn name(&self) -> String {
        "lab x86_64".into()
    }

    fn boot(&mut self, _deadline: Duration) -> Result<()> {
        Ok(())
    }

    fn boot_oat(&self) -> Result<Vec<u8>> {
        let mut dirs = vec![self.lab.root().to_owned()];
        while let Some(dir) = dirs.pop() {
            for entry in
                std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?
            {
                let path = entry?.path();
                if path.is_dir() && !path.is_symlink() {
                    dirs.push(path);
                } else if path.file_name().is_some_and(|name| name == "core.oat") {
                    return Ok(std::fs::read(path)?);
                }
            }
        }
        bail!("no core.oat below {}", self.lab.root().display())
    }

    fn install(&mut self, jar: &Path) -> Result<()> {
        ensure!(jar.exists(), "{} is not there", jar.display());
        self.jar = std::path::absolute(jar)?;
        Ok(())
    }

    fn run(&self, class: &str, traced: bool) -> Result<String> {
        let mut command = self.lab.dalvikvm_command();
        command.arg("-cp").arg(&self.jar).arg(class);
        if traced {
            // The class that raises an anomaly is in the framework's jars, which dalvikvm has not.
            let config = format!(
                "trace=main,dir={},persist-at-exit=yes",
                self.traces.path().display()
            );
            command.env("HINDSIGHT", config);
        } else {
            command.env_remove("HINDSIGHT");
        }
        let output = command.output().context("cannot start dalvikvm")?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        ensure!(
            output.status.success(),
            "dalvikvm ended with {}: {text}",
            output.status
        );
        Ok(text)
    }

    fn traces(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(self.traces.path())? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "hindsight")
            {
                all.push(path.display().to_string());
            }
        }
        Ok(all)
    }

    fn pull(&self, path: &str) -> Result<Vec<u8>> {
        Ok(std::fs::read(path)?)
    }

    fn log(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
