// SPDX-License-Identifier: Apache-2.0
//! The part of `cargo xtask bench graph` that has to be a release build. Each command prints its results as one JSON
//! object: name, number.
//!
//!     graph_bench generate FOLDER GROUPS     writes GROUPS times the traces of 126 processes
//!     graph_bench build FOLDER               opens the traces, and builds their graph; the fastest of some runs
//!     graph_bench peak FOLDER                the same, once; and the memory that took
//!     graph_bench shapes                     the names of the worst shapes
//!     graph_bench shape NAME                 builds a graph of this shape, and asks questions of it

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use hindsight_causality::diagnosis::{beam, slice, BeamQuestion, SliceQuestion};
use hindsight_causality::{Graph, NodeId, Session};
use hindsight_testkit::System;

#[path = "../tests/shapes/mod.rs"]
mod shapes;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Results = Vec<(&'static str, f64)>;

/// Number of times that a graph is built; the fastest counts, because other load on the machine only slows one down.
const RUNS: usize = 5;
/// Number of nodes of which questions are asked.
const QUESTIONS: usize = 1_000;
/// The widest beam that is searched by default.
const WIDTH: usize = 10;
/// As many processes as in the log that the paper describes (Argus, USENIX ATC 2021), with about as many threads.
const PROCESSES: u32 = 126;
/// So many rounds of the generator give a graph of the size that the paper reports.
const ROUNDS: u32 = 270_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let results = match arguments[..] {
        ["generate", folder, groups] => generate(Path::new(folder), groups.parse()?)?,
        ["build", folder] => build(Path::new(folder), RUNS)?,
        ["peak", folder] => build(Path::new(folder), 1)?,
        ["shapes"] => shapes::SHAPES.map(|(name, size, _)| (name, size as f64)).into(),
        ["shape", name] => shape(name)?,
        _ => {
            return Err("usage: graph_bench generate FOLDER GROUPS | build FOLDER | peak FOLDER | shapes | shape NAME".into())
        }
    };
    let fields: Vec<String> = results
        .iter()
        .map(|(name, value)| format!("{name:?}: {value}"))
        .collect();
    writeln!(std::io::stdout(), "{{{}}}", fields.join(", "))?;
    Ok(())
}

fn generate(folder: &Path, groups: u32) -> Result<Results> {
    std::fs::create_dir_all(folder)?;
    let mut bytes = 0;
    for group in 0..groups {
        let system = System {
            seed: u64::from(group) + 1,
            processes: PROCESSES,
            first_pid: 1_000 + group * 100_000,
            rounds: ROUNDS,
            transactions_percent: 60,
            locks_percent: 20,
        };
        for (i, script) in system.scripts().iter().enumerate() {
            let path = folder.join(format!("{group:02}-{i:03}.hindsight"));
            script.write(&path)?;
            bytes += std::fs::metadata(&path)?.len();
        }
    }
    Ok(vec![
        ("files", f64::from(PROCESSES * groups)),
        ("file_bytes", bytes as f64),
    ])
}

fn build(folder: &Path, runs: usize) -> Result<Results> {
    let entries = std::fs::read_dir(folder)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    let start = Instant::now();
    let session = Session::open(&paths)?;
    let decode_s = start.elapsed().as_secs_f64();
    let mut build_s = f64::INFINITY;
    let mut build_cpu_s = f64::INFINITY;
    let mut first_build_s = None;
    let mut graph = Graph::default();
    for _ in 0..runs {
        drop(std::mem::take(&mut graph));
        let (start, start_cpu_s) = (Instant::now(), cpu_s());
        graph = Graph::build(&session)?;
        let run_s = start.elapsed().as_secs_f64();
        build_s = build_s.min(run_s);
        first_build_s.get_or_insert(run_s);
        build_cpu_s = build_cpu_s.min(cpu_s() - start_cpu_s);
    }
    let mut results = vec![
        ("vertices", graph.node_count() as f64),
        ("edges", graph.edge_count() as f64),
        ("events", session.event_count() as f64),
        ("threads", session.threads().len() as f64),
        ("decode_s", decode_s),
        ("build_s", build_s),
        // With the time in which the kernel provides the memory.
        ("first_build_s", first_build_s.unwrap_or(f64::NAN)),
        // The same where other programs take the processor at times.
        ("build_cpu_s", build_cpu_s),
        ("graph_bytes", graph.bytes() as f64),
    ];
    let slices = times_ms(&graph, |node, end_ns| {
        slice(&graph, node, end_ns, &SliceQuestion::default())
            .nodes
            .len()
    });
    let beams = times_ms(&graph, |node, end_ns| {
        beam(&graph, node, end_ns, BeamQuestion::of_width(WIDTH)).len()
    });
    results.push(("slice_ms_p99", slices));
    results.push(("beam_ms", beams));
    if let Some(bytes) = peak_bytes() {
        results.push(("peak_bytes", bytes));
    }
    Ok(results)
}

/// The graph of one of the worst shapes: how long it takes to build, and to ask each question, seconds.
fn shape(name: &str) -> Result<Results> {
    let all = shapes::SHAPES;
    let shape = all.into_iter().find(|&(n, ..)| n == name);
    let (_, size, session) = shape.ok_or("there is no such shape")?;
    let session = session(size);
    let mut start_s = cpu_s();
    let graph = Graph::build(&session)?;
    let mut results = vec![
        ("vertices", graph.node_count() as f64),
        ("edges", graph.edge_count() as f64),
        ("build", cpu_s() - start_s),
    ];
    start_s = cpu_s();
    shapes::ask(&session, &graph, |question| {
        let now_s = cpu_s();
        results.push((question, now_s - start_s));
        start_s = now_s;
    });
    results.extend(peak_bytes().map(|bytes| ("peak_bytes", bytes)));
    Ok(results)
}

/// The 99th percentile of the CPU times of a question that is asked of nodes all over the graph, ms.
fn times_ms(graph: &Graph, mut ask: impl FnMut(NodeId, u64) -> usize) -> f64 {
    let every = (graph.node_count() / QUESTIONS).max(1);
    let mut times: Vec<f64> = Vec::with_capacity(QUESTIONS);
    for node in graph.node_ids().skip(every / 2).step_by(every) {
        let end_ns = graph.node(node).end_ns;
        let start_s = cpu_s();
        std::hint::black_box(ask(node, end_ns));
        times.push((cpu_s() - start_s) * 1e3);
    }
    times.sort_by(f64::total_cmp);
    times
        .get(times.len() * 99 / 100)
        .copied()
        .unwrap_or(f64::NAN)
}

/// The CPU time of this thread so far, seconds.
fn cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process has used so far, bytes.
fn peak_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024.0)
}
