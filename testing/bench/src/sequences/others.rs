// SPDX-License-Identifier: Apache-2.0
//! Other tracers on this processor, around an empty C function: `compare.c`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context as _, Result};

const SOURCE: &str = include_str!("compare.c");
const LTTNG_HEADER: &str = include_str!("compare_lttng.h");

const ROUNDS: &str = "31";
const CALLS: &str = "20000";

/// A round's nanoseconds a call: without tracing, the floor, traced.
pub(super) type Round = [f64; 3];

/// A tracer.
#[derive(Clone, Copy)]
pub(super) struct Other {
    /// Its name in metrics.
    pub(super) name: &'static str,
    /// Its name in tables.
    pub(super) title: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    libraries: &'static [&'static str],
    /// Debian's packages.
    packages: &'static str,
    run: fn(&Path) -> Result<Option<Output>>,
}

pub(super) const ALL: [Other; 4] = [
    Other {
        name: "finstrument",
        title: "-finstrument-functions, minimal handlers",
        compiler: "gcc",
        flags: &["-DTRACE_CYG", "-finstrument-functions"],
        libraries: &[],
        packages: "gcc",
        run: plainly,
    },
    Other {
        name: "xray",
        title: "LLVM XRay, minimal handler",
        compiler: "clang++-14",
        flags: &[
            "-xc++",
            "-DTRACE_XRAY",
            "-fxray-instrument",
            "-fxray-instruction-threshold=1",
        ],
        libraries: &[],
        packages: "clang-14 libclang-rt-14-dev g++",
        run: plainly,
    },
    Other {
        name: "uftrace",
        title: "uftrace",
        compiler: "gcc",
        flags: &["-pg"],
        libraries: &[],
        packages: "gcc uftrace",
        run: under_uftrace,
    },
    Other {
        name: "lttng",
        title: "LTTng-UST",
        compiler: "gcc",
        flags: &["-DTRACE_LTTNG", "-I."],
        libraries: &["-llttng-ust", "-ldl"],
        packages: "gcc lttng-tools liblttng-ust-dev",
        run: under_lttng,
    },
];

impl Other {
    /// Builds the program and runs it. An error names the cause, in most cases a missing package.
    pub(super) fn measure(&self) -> Result<Vec<Round>> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let folder = folder.path();
        fs::write(folder.join("compare.c"), SOURCE)?;
        fs::write(folder.join("compare_lttng.h"), LTTNG_HEADER)?;
        let mut compiler = Command::new(self.compiler);
        compiler.current_dir(folder).arg("-O2").args(self.flags);
        compiler
            .args(["compare.c", "-o", "compare"])
            .args(self.libraries);
        let missing = || format!("not installed (Debian: {})", self.packages);
        let compiled = run(&mut compiler)?.with_context(missing)?;
        if !compiled.status.success() {
            let complaint = String::from_utf8_lossy(&compiled.stderr);
            let error = complaint.lines().find(|line| line.contains("error"));
            bail!("{}: {}", missing(), error.unwrap_or(&complaint));
        }
        let output = (self.run)(folder)?.with_context(missing)?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "it failed: {complaint}");
        let text = String::from_utf8_lossy(&output.stdout);
        let rounds: Vec<Round> = text.lines().filter_map(parse).collect();
        ensure!(
            rounds.len().to_string() == ROUNDS,
            "its output has too few lines: {text}"
        );
        Ok(rounds)
    }
}

fn parse(line: &str) -> Option<Round> {
    let mut numbers = line.split_whitespace().map(|n| n.parse().ok());
    Some([numbers.next()??, numbers.next()??, numbers.next()??])
}

/// `None` if the program is not installed.
fn run(command: &mut Command) -> Result<Option<Output>> {
    match command.output() {
        Ok(output) => Ok(Some(output)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).with_context(|| format!("cannot run {command:?}")),
    }
}

fn plainly(folder: &Path) -> Result<Option<Output>> {
    run(Command::new(folder.join("compare")).args([ROUNDS, CALLS]))
}

fn under_uftrace(folder: &Path) -> Result<Option<Output>> {
    let mut uftrace = Command::new("uftrace");
    uftrace.current_dir(folder).args(["record", "-d", "trace"]);
    run(uftrace.args(["./compare", ROUNDS, CALLS]))
}

/// The daemon that keeps LTTng's buffers; ended on drop.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // SIGTERM lets it remove its shared memory and end its helpers.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

fn under_lttng(folder: &Path) -> Result<Option<Output>> {
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(folder).env("LTTNG_HOME", folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let daemon = match command("lttng-sessiond").arg("--no-kernel").spawn() {
        Ok(child) => Daemon(child),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).context("cannot start lttng-sessiond"),
    };
    let session = format!("hindsight-{}", std::process::id());
    let lttng = |arguments: &[&str]| -> Result<bool> {
        Ok(command("lttng").args(arguments).status()?.success())
    };
    // Until the daemon answers.
    let patience = Instant::now() + Duration::from_secs(10);
    while !lttng(&["--no-sessiond", "create", &session, "--output=trace"])? {
        ensure!(Instant::now() < patience, "lttng-sessiond does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    let ready = lttng(&["enable-event", "--userspace", "hindsight_bench:*"])? && lttng(&["start"])?;
    ensure!(ready, "lttng does not start a session");
    let mut compare = Command::new(folder.join("compare"));
    let output = run(compare.args([ROUNDS, CALLS]).env("LTTNG_HOME", folder));
    lttng(&["destroy", &session])?;
    drop(daemon);
    output
}
