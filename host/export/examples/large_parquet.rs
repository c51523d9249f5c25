// SPDX-License-Identifier: Apache-2.0
//! Whether the Parquet export of a large trace takes bounded memory:
//!
//!     cargo run --release -p hindsight-export --example large_parquet FOLDER [RINGS]
//!
//! writes a trace of RINGS full 32 MiB rings (default 25: 100 million trace points) into FOLDER, decodes it,
//! exports it, and prints times and the peak of its memory before and after the export.

use std::path::Path;
use std::time::Instant;

use hindsight_decoder::Trace;
use hindsight_export::{write_file, Format};
use hindsight_testkit::Workload;

/// The most memory this process had, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: large_parquet FOLDER [RINGS]";
    let folder = Path::new(arguments.first().ok_or(usage)?);
    let rings: u32 = match arguments.get(1) {
        Some(rings) => rings.parse()?,
        None => 25,
    };
    let file = folder.join("large.hindsight");
    if !file.exists() {
        let workload = Workload {
            threads: rings,
            ..Workload::default()
        };
        workload.script().write(&file)?;
        println!("written; run it again to measure the memory of decoding and exporting alone");
        return Ok(());
    }
    let start = Instant::now();
    let trace = Trace::open(&file)?;
    let points: u64 = trace.threads.iter().map(|t| t.stats.trace_points).sum();
    println!(
        "decoded {points} points of {} threads in {:.1} s, peak memory {} MiB",
        trace.threads.len(),
        start.elapsed().as_secs_f64(),
        peak_mib()
    );
    let start = Instant::now();
    let output = folder.join("large.parquet");
    let written = write_file(&trace, Format::Parquet, &output)?;
    println!(
        "exported {} calls into {} MiB in {:.1} s, peak memory {} MiB",
        written.calls,
        written.bytes >> 20,
        start.elapsed().as_secs_f64(),
        peak_mib()
    );
    Ok(())
}
