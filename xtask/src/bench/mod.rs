// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench NAME`: measurements, written to `target/bench/NAME.json`.

mod code_size;
mod control;
mod floor;
mod host;
mod machine;
mod sequences;
mod statistics;
mod subject;
mod trace_point;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use machine::Machine;

/// Which measurement.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Name {
    /// What a trace point costs in JIT-compiled code: Listing 1 of the Hubble paper.
    TracePoint,
    /// How much code trace points add to a boot image, on every instruction set.
    CodeSize,
    /// What each form of a trace point consists of and costs, next to other tracers.
    Sequences,
    /// How fast the host tools are: decoding, exports, first output.
    Host,
    /// For how long threads are held by a start, a snapshot and a stop.
    Control,
}

/// What `target/bench/NAME.json` holds.
#[derive(Serialize)]
struct Report {
    metrics: BTreeMap<String, f64>,
    machine: Machine,
}

/// Measures, prints, and writes the report.
pub(crate) fn run(name: Name, checkout: &Path) -> Result<()> {
    let (file, metrics) = match name {
        Name::Host => ("host.json", host::bench(checkout)?),
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
