// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench NAME`: measurements, written to `target/bench/NAME.json`.

mod ahead;
mod apps;
mod code_size;
mod control;
mod demo;
mod detectors;
mod events;
mod floor;
mod graph;
mod history;
mod host;
mod machine;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod placement;
mod process;
mod programs;
mod rings;
mod sequences;
mod start_up;
mod statistics;
mod student;
mod subject;
mod trace_point;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde::Serialize;

use machine::Machine;

/// Measures, and writes target/bench/NAME.json
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench")]
struct Arguments {
    /// The measurement
    #[command(subcommand)]
    name: Name,
}

#[derive(clap::Subcommand)]
enum Name {
    /// The cost of a trace point in JIT-compiled code: Listing 1 of the Hubble paper
    TracePoint,
    /// The code that trace points add to a boot image, on every instruction set
    CodeSize,
    /// The instructions and the cost of each form of a trace point, next to other tracers
    Sequences,
    /// Building the graph of causes and effects of many processes, at the size that Argus reports, and at ten times that
    Graph(graph::Options),
    /// The speed of the host tools: decoding, exports, first output
    Host,
    /// The time for which a start, a snapshot and a stop hold a thread
    Control,
    /// The costs of events and of stacks: one by one, in whole programs, in memory
    Events,
    /// What the detectors in a process cost a message, a frame and a wait of the main thread
    Detectors,
    /// What tracing costs whole programs: run time, memory, start-up
    Apps(apps::Options),
    /// Tracing and the processor's caches: the multiplication of matrices of the Hubble paper
    Matrix(matrix::Options),
    /// What a trace point that is off costs the method of Listing 1, by where its code lies
    #[cfg(target_arch = "x86_64")]
    Placement,
    /// How many seconds of history fit into a MiB of a ring
    History(history::Options),
    /// Cold starts: what tracing costs them, and what they write into the ring
    StartUp(start_up::Options),
}

fn main() -> ExitCode {
    let name = Arguments::parse().name;
    let result = hindsight_lab::checkout_dir().map_err(anyhow::Error::from);
    match result.and_then(|checkout| run(&name, &checkout)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The contents of `target/bench/NAME.json`.
#[derive(Serialize)]
struct Report {
    metrics: BTreeMap<String, f64>,
    machine: Machine,
}

/// Measures, prints, and writes the report.
fn run(name: &Name, checkout: &Path) -> Result<()> {
    let (file, metrics) = match name {
        Name::Graph(options) => (options.file(), graph::bench(checkout, options)?),
        Name::Host => ("host.json", host::bench(checkout)?),
        Name::Apps(options) => ("apps.json", apps::bench(checkout, options)?),
        Name::Matrix(options) => ("matrix.json", matrix::bench(checkout, options)?),
        Name::StartUp(options) => ("start-up.json", start_up::bench(checkout, options)?),
        Name::History(options) => ("history.json", history::bench(checkout, options)?),
        #[cfg(target_arch = "x86_64")]
        Name::Placement => ("placement.json", placement::bench()?),
        Name::Detectors => ("detectors.json", detectors::bench(checkout)?),
        Name::Events => ("events.json", events::bench(checkout)?),
        Name::Control => ("control.json", control::bench(checkout)?),
        Name::Sequences => ("sequences.json", sequences::bench()?),
        Name::CodeSize => ("code-size.json", code_size::bench(checkout)?),
        Name::TracePoint => ("trace-point.json", trace_point::bench(checkout)?),
    };
    let report = Report {
        metrics,
        machine: Machine::current(),
    };
    let folder = checkout.join("target/bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(file);
    let temporary = path.with_extension("json.new");
    fs::write(&temporary, serde_json::to_vec_pretty(&report)?)
        .and_then(|()| fs::rename(&temporary, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nall metrics: target/bench/{file}");
    Ok(())
}
