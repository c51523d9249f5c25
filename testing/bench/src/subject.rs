// SPDX-License-Identifier: Apache-2.0
//! A measured process: a variant of ART running `lab/bench`, which answers commands.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{bail, ensure, Context as _, Result};
use serde::Deserialize;

/// Duration of one measurement: so short that the scheduler seldom interrupts it, and that consecutive measurements
/// have the same conditions.
const TARGET_NANOS: f64 = 1.5e6;

/// A running variant.
pub(crate) struct Subject {
    name: &'static str,
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Ready {
    compiled: bool,
    tracing: bool,
}

#[derive(Deserialize)]
struct Measurement {
    calls: u64,
    ns: u64,
    result: i64,
}

#[derive(Deserialize)]
struct Snapshot {
    file: Option<PathBuf>,
}

impl Subject {
    /// Starts the process, and waits until the measured methods are compiled. `tracing` is the state that Hindsight
    /// must report.
    pub(crate) fn start(name: &'static str, mut command: Command, tracing: bool) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| format!("cannot start the variant {name}: {command:?}"))?;
        let commands = process.stdin.take().context("no standard input")?;
        let answers = BufReader::new(process.stdout.take().context("no standard output")?);
        let mut subject = Subject {
            name,
            process,
            commands,
            answers,
        };
        let ready: Ready = subject.answer()?;
        ensure!(
            ready.compiled,
            "the variant {name} runs without compiled code: is the JIT off?"
        );
        ensure!(
            ready.tracing == tracing,
            "the variant {name} should have tracing {}: is this ART built without Hindsight, or is HINDSIGHT set?",
            if tracing { "on" } else { "off" }
        );
        Ok(subject)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The number of recursions with this amount of work in the duration of one measurement.
    pub(crate) fn calibrate(&mut self, work: u32) -> Result<u32> {
        let mut recursions = 8;
        loop {
            let m = self.run(work, recursions)?;
            let ns = m.ns.max(1) as f64;
            if ns * 2.0 >= TARGET_NANOS || recursions >= 1 << 24 {
                return Ok(((f64::from(recursions) * TARGET_NANOS / ns) as u32).max(1));
            }
            recursions *= 2;
        }
    }

    /// Nanoseconds for a call, as the mean of `recursions` recursions.
    pub(crate) fn measure(&mut self, work: u32, recursions: u32) -> Result<f64> {
        let m = self.run(work, recursions)?;
        Ok(m.ns as f64 / m.calls as f64)
    }

    /// The result of the program, which must not depend on the variant.
    pub(crate) fn result(&mut self, work: u32, recursions: u32) -> Result<i64> {
        Ok(self.run(work, recursions)?.result)
    }

    /// Starts ART's own method tracing.
    pub(crate) fn start_method_trace(&mut self, file: &std::path::Path) -> Result<()> {
        let _: serde_json::Value = self.ask(&format!("method-trace {}", file.display()))?;
        Ok(())
    }

    /// Takes a snapshot of Hindsight's rings.
    pub(crate) fn snapshot(&mut self) -> Result<PathBuf> {
        let snapshot: Snapshot = self.ask("snapshot benchmark")?;
        snapshot
            .file
            .with_context(|| format!("the variant {} saved no trace", self.name))
    }

    fn run(&mut self, work: u32, recursions: u32) -> Result<Measurement> {
        self.ask(&format!("measure {work} {recursions}"))
    }

    fn ask<T: for<'de> Deserialize<'de>>(&mut self, command: &str) -> Result<T> {
        writeln!(self.commands, "{command}")
            .and_then(|()| self.commands.flush())
            .with_context(|| format!("the variant {} does not answer", self.name))?;
        self.answer()
    }

    fn answer<T: for<'de> Deserialize<'de>>(&mut self) -> Result<T> {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                let status = self.process.wait()?;
                bail!(
                    "the variant {} ended ({status}) instead of answering",
                    self.name
                );
            }
            // Libraries print lines of their own ("JNI_OnLoad called").
            if line.starts_with('{') {
                return serde_json::from_str(&line)
                    .with_context(|| format!("the variant {} answered {line:?}", self.name));
            }
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // A tracer that writes its file at exit would only take time.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
