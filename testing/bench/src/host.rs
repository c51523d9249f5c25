// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench host`: the speed of the host tools on a generated full ring of 32 MiB, next to tools that do
//! comparable work.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context as _, Result};

type Metrics = BTreeMap<String, f64>;
/// Names and values.
type Environment<'a> = &'a [(&'a str, &'a str)];

/// Number of runs of a whole program; the fastest counts.
const RUNS: usize = 5;

/// Measures all.
pub(super) fn bench(checkout: &Path) -> Result<Metrics> {
    let programs = build(checkout)?;
    let scratch = tempfile::Builder::new()
        .prefix("hindsight-bench-host")
        .tempdir()
        .context("no temporary folder")?;
    let folder = scratch.path();
    let one_core = [("RAYON_NUM_THREADS", "1")];
    let mut metrics = Metrics::new();
    let parts: [(&str, &str, Environment<'_>); 7] = [
        ("making the trace", "generate", &[]),
        ("reading the file", "floor", &one_core),
        ("decoding, on one core", "decode", &one_core),
        ("memory for decoding", "peak", &[]),
        (
            "ART's own trace of the same events, on one core",
            "art",
            &one_core,
        ),
        (
            "Perfetto, on two cores",
            "perfetto",
            &[("RAYON_NUM_THREADS", "2")],
        ),
        ("Parquet", "parquet", &[]),
    ];
    for (what, command, environment) in parts {
        eprintln!("bench host: {what}");
        put(&mut metrics, programs.bench(command, folder, environment)?);
    }
    let trace = folder.join("workload.hindsight");
    eprintln!("bench host: hindsight top");
    let seconds = first_output(&programs.hindsight, &trace)?;
    put(&mut metrics, [("top_first_output_s".to_owned(), seconds)]);

    eprintln!("bench host: others");
    let slices = metrics["slices"];
    match import(checkout, folder) {
        Ok(seconds) => put(
            &mut metrics,
            [
                ("perfetto_import_s".to_owned(), seconds),
                ("perfetto_import_slices_per_s".to_owned(), slices / seconds),
            ],
        ),
        Err(error) => println!("Perfetto's trace processor is left out: {error:#}"),
    }
    let dump = Command::new("dmtracedump");
    match seconds_if_there(dump, &[folder.join("method.trace")])? {
        Some(seconds) => {
            let points = metrics["points"];
            put(
                &mut metrics,
                [("dmtracedump_points_per_s".to_owned(), points / seconds)],
            );
        }
        None => println!("dmtracedump is left out: it is not installed (Debian: dmtracedump)"),
    }
    match uftrace(folder)? {
        Some(points_per_s) => put(
            &mut metrics,
            [("uftrace_dump_points_per_s".to_owned(), points_per_s)],
        ),
        None => println!("uftrace is left out: it, or gcc, is not installed (Debian: uftrace)"),
    }
    Ok(metrics)
}

fn put(metrics: &mut Metrics, results: impl IntoIterator<Item = (String, f64)>) {
    for (name, value) in results {
        println!("{name:30} {}", readable(value));
        metrics.insert(name, value);
    }
}

/// With significant digits only.
fn readable(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

struct Programs {
    hindsight: PathBuf,
    bench: PathBuf,
}

/// Release builds.
fn build(checkout: &Path) -> Result<Programs> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for arguments in [
        ["--package", "hindsight-cli", "--bin", "hindsight"],
        ["--package", "hindsight-export", "--example", "host_bench"],
    ] {
        let mut command = Command::new(&cargo);
        command
            .current_dir(checkout)
            .args(["build", "--quiet", "--release"])
            .args(arguments);
        let status = command
            .status()
            .with_context(|| format!("cannot run {command:?}"))?;
        ensure!(status.success(), "{command:?} failed ({status})");
    }
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => checkout.join(target),
        None => checkout.join("target"),
    };
    Ok(Programs {
        hindsight: target.join("release/hindsight"),
        bench: target.join("release/examples/host_bench"),
    })
}

impl Programs {
    /// Runs one command of `host/export/examples/host_bench.rs`.
    fn bench(&self, command: &str, folder: &Path, environment: Environment<'_>) -> Result<Metrics> {
        let output = Command::new(&self.bench)
            .arg(command)
            .arg(folder)
            .envs(environment.iter().copied())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("cannot run {}", self.bench.display()))?;
        ensure!(
            output.status.success(),
            "host_bench {command} failed ({})",
            output.status
        );
        serde_json::from_slice(&output.stdout)
            .with_context(|| format!("host_bench {command} printed no numbers"))
    }
}

/// Seconds of the fastest of some runs.
fn best(mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Seconds from the start of `hindsight top` to the first byte of its output.
fn first_output(hindsight: &Path, trace: &Path) -> Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut child = Command::new(hindsight)
            .arg("top")
            .arg(trace)
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run {}", hindsight.display()))?;
        let mut out = child.stdout.take().context("no standard output")?;
        out.read_exact(&mut [0])
            .context("hindsight top printed nothing")?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        out.read_to_end(&mut Vec::new())?;
        let status = child.wait()?;
        ensure!(status.success(), "hindsight top failed ({status})");
    }
    Ok(fastest)
}

/// Seconds that Perfetto's own trace processor takes to import an exported trace, without its start.
fn import(checkout: &Path, folder: &Path) -> Result<f64> {
    let seconds = |trace: &str| -> Result<f64> {
        let mut fastest = f64::INFINITY;
        for _ in 0..2 {
            let mut command = Command::new("node");
            command
                .arg(checkout.join("scripts/perfetto/query.mjs"))
                .arg(folder.join(trace))
                .arg("select count(*) as slices from slice")
                .stdout(Stdio::null());
            let start = Instant::now();
            let status = command.status().context("cannot run node")?;
            ensure!(status.success(), "query.mjs failed ({status})");
            fastest = fastest.min(start.elapsed().as_secs_f64());
        }
        Ok(fastest)
    };
    // The first run downloads its parts.
    let start = seconds("tiny.pftrace")?;
    Ok(seconds("workload.pftrace")? - start)
}

/// Seconds until a program has ended; `None` if it is not installed.
fn seconds_if_there(mut command: Command, arguments: &[PathBuf]) -> Result<Option<f64>> {
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    match command.status() {
        Ok(status) => {
            ensure!(status.success(), "{command:?} failed ({status})");
            Ok(Some(start.elapsed().as_secs_f64()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot run {command:?}")),
    }
}

/// Calls that the traced C program makes.
const UFTRACE_CALLS: u64 = 1 << 20;

/// Trace points a second of `uftrace dump`, with the trace of a C program, since it reads no other traces. `None` if
/// it, or a compiler, is not installed.
fn uftrace(folder: &Path) -> Result<Option<f64>> {
    let source = folder.join("calls.c");
    let program = folder.join("calls");
    let data = folder.join("uftrace.data");
    std::fs::write(
        &source,
        format!(
            "int sum;\nvoid leaf(int i) {{ sum += i; }}\n\
             int main(void) {{ for (int i = 0; i < {UFTRACE_CALLS}; i++) leaf(i); return 0; }}\n"
        ),
    )?;
    let mut compile = Command::new("gcc");
    compile.args(["-O0", "-pg", "-o"]).arg(&program);
    if seconds_if_there(compile, &[source])?.is_none() {
        return Ok(None);
    }
    let mut record = Command::new("uftrace");
    record.args(["record", "--no-libcall", "-d"]).arg(&data);
    if seconds_if_there(record, &[program])?.is_none() {
        return Ok(None);
    }
    let seconds = best(|| {
        let mut dump = Command::new("uftrace");
        dump.args(["dump", "-d"]);
        seconds_if_there(dump, std::slice::from_ref(&data)).map(drop)
    })?;
    Ok(Some(2.0 * UFTRACE_CALLS as f64 / seconds))
}
