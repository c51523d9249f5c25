// SPDX-License-Identifier: Apache-2.0
//! Programs from Debian's packages, compiled ahead of time, that `Repeat.java` runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};

use super::lab_subject::{Samples, Subject};
use super::switched;

/// A program of Debian's, compiled.
pub(super) struct Program<'a> {
    subject: &'a Subject,
    jar: PathBuf,
    class: String,
}

impl Program<'_> {
    pub(super) fn compile<'a>(
        subject: &'a Subject,
        jar: &Path,
        class: &str,
    ) -> Result<Program<'a>> {
        let copy = subject.folder.join(class).with_extension("jar");
        fs::copy(jar, &copy).with_context(|| format!("{}", jar.display()))?;
        subject.compile_ahead(&copy)?;
        Ok(Program {
            subject,
            jar: copy,
            class: class.to_owned(),
        })
    }

    /// Runs the main method of the class. Needs further arguments.
    fn command(&self, configuration: &str) -> Command {
        let class_path = [self.jar.as_path(), self.subject.own.as_path()];
        let mut command = self.subject.command(&class_path, configuration);
        command.arg("Repeat").current_dir(&self.subject.folder);
        command
    }

    /// Runs the program this often.
    fn run(&self, times: u32, configuration: &str) -> Result<()> {
        let output = (self.command(configuration))
            .args([&times.to_string(), &self.class])
            .stdin(Stdio::null())
            .output()
            .context("cannot run dalvikvm")?;
        ensure!(
            output.status.success(),
            "it ends with {}:\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
        Ok(())
    }

    /// How much more CPU time it takes with all events than without, %.
    pub(super) fn cost(&self, name: &str) -> Result<Vec<(String, f64)>> {
        let socket = self.subject.folder.join("socket");
        let configuration = format!("events=off,socket={}", socket.display());
        let mut command = self.command(&configuration);
        let log = fs::File::create(self.subject.folder.join("log.txt"))?;
        command.args(["asked", &self.class]).stderr(log);
        Ok(switched::cost(command, &socket)?.metrics(name))
    }

    /// Bytes in the file for each stack, after the table has merged what they have in common.
    pub(super) fn bytes_per_sample(&self) -> Result<Vec<(String, f64)>> {
        // A program of one thread, which seldom waits: checkpoints take most stacks.
        self.run(
            1000,
            "events=all,stack-interval=100,event-spool=26,snapshot-at-exit=yes",
        )?;
        let samples = Samples::read(&self.subject.trace()?)?;
        ensure!(
            samples.stacks >= 100,
            "only {} stacks are recorded",
            samples.stacks
        );
        Ok(vec![(
            "bytes_per_sample_rhino".to_owned(),
            samples.bytes as f64 / samples.stacks as f64,
        )])
    }
}
