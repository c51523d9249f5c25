// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench graph`: the graph of causes and effects of 126 processes, of the size that Argus reports (2,749,628
//! nodes and 3,606,657 edges), and of ten times as many processes. Their traces are written to disk, opened and decoded;
//! decoding and building are timed apart, both on one core.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};

type Metrics = BTreeMap<String, f64>;

/// The sizes: what their metrics end with, and how many times 126 processes.
const SIZES: [(&str, u32); 2] = [("2_7m", 1), ("27m", 10)];

/// glibc keeps the memory of one build for the next one. In a virtual machine that gives free memory back to its host, the
/// first use of each page costs several seconds a gigabyte: that is not the graph's work. `first_build_s` includes it.
const KEEPS_MEMORY: [(&str, &str); 2] = [
    ("MALLOC_MMAP_MAX_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", "1000000000000"),
];

/// What to measure.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Leave out ten times as many processes, which take 12 GB of memory
    #[arg(long)]
    small: bool,
    /// Measure graphs of the worst shapes instead: all nodes on one thread, one lock, a chain, circles, a star
    #[arg(long)]
    shapes: bool,
}

impl Options {
    /// The file that the numbers go into.
    pub(super) fn file(&self) -> &'static str {
        match self.shapes {
            true => "graph-shapes.json",
            false => "graph.json",
        }
    }
}

/// Measures all.
pub(super) fn bench(checkout: &Path, options: &Options) -> Result<Metrics> {
    let program = build(checkout)?;
    if options.shapes {
        return shapes(&program);
    }
    let mut metrics = Metrics::new();
    let sizes = SIZES
        .iter()
        .take(if options.small { 1 } else { SIZES.len() });
    for (name, groups) in sizes {
        let scratch = tempfile::Builder::new()
            .prefix("hindsight-bench-graph")
            .tempdir()
            .context("no temporary folder")?;
        let folder = scratch.path();
        eprintln!("bench graph: {name}: writing the traces");
        let groups = groups.to_string();
        let files = run(&program, &["generate"], Some(folder), Some(&groups))?;
        eprintln!("bench graph: {name}: building the graph");
        let built = run(&program, &["build"], Some(folder), None)?;
        eprintln!("bench graph: {name}: memory");
        let peak = run(&program, &["peak"], Some(folder), None)?;
        let all = files.into_iter().chain(built);
        for (metric, value) in all.filter(|(metric, _)| metric != "peak_bytes") {
            put(&mut metrics, &metric, name, value);
        }
        if let Some(&bytes) = peak.get("peak_bytes") {
            put(&mut metrics, "peak_bytes", name, bytes);
        }
    }
    // Of the graph that is compared with the paper's.
    for metric in ["vertices", "edges", "slice_ms_p99", "beam_ms"] {
        if let Some(&value) = metrics.get(&format!("{metric}_2_7m")) {
            metrics.insert(metric.to_owned(), value);
        }
    }
    // How many times as long ten times as many processes take.
    for metric in ["build_s", "build_cpu_s"] {
        let of = |size: &str| metrics.get(&format!("{metric}_{size}")).copied();
        if let (Some(small), Some(large)) = (of("2_7m"), of("27m")) {
            put(&mut metrics, metric, "growth", large / small);
        }
    }
    Ok(metrics)
}

/// Graphs of the worst shapes: the times of building and of each question, seconds.
fn shapes(program: &Path) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    for (name, size) in run(program, &["shapes"], None, None)? {
        eprintln!("bench graph: {name}: {size:.0} times");
        for (metric, value) in run(program, &["shape", &name], None, None)? {
            put(&mut metrics, &name, &metric, value);
        }
    }
    Ok(metrics)
}

fn put(metrics: &mut Metrics, metric: &str, size: &str, value: f64) {
    let name = format!("{metric}_{size}");
    println!("{name:24} {value:.3}");
    metrics.insert(name, value);
}

/// A release build of `host/causality/examples/graph_bench.rs`.
fn build(checkout: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(&cargo);
    command
        .current_dir(checkout)
        .args(["build", "--quiet", "--release"])
        .args([
            "--package",
            "hindsight-causality",
            "--example",
            "graph_bench",
        ]);
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed ({status})");
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => checkout.join(target),
        None => checkout.join("target"),
    };
    Ok(target.join("release/examples/graph_bench"))
}

fn run(
    program: &Path,
    command: &[&str],
    folder: Option<&Path>,
    last: Option<&str>,
) -> Result<Metrics> {
    let output = Command::new(program)
        .args(command)
        .args(folder)
        .args(last)
        .env("RAYON_NUM_THREADS", "1")
        .envs(
            if command == ["build"] {
                &KEEPS_MEMORY[..]
            } else {
                &[]
            }
            .iter()
            .copied(),
        )
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        output.status.success(),
        "graph_bench {} failed ({})",
        command.join(" "),
        output.status
    );
    serde_json::from_slice(&output.stdout).context("graph_bench printed no numbers")
}
