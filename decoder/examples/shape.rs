// SPDX-License-Identifier: Apache-2.0
//! Prints the properties of traces that decide how fast they are decoded and exported, next to the
//! properties of the benchmarks' workload.
//!
//! `cargo run --release -p hindsight-decoder --example shape [FILE.hindsight…]`

use std::path::Path;

use hindsight_decoder::{Thread, Trace};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!(
        "{:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>8}  trace",
        "points",
        "methods",
        "90 % of",
        "leaves",
        "in turn",
        "depth",
        "p95",
        "max",
        "other",
        "ns/point"
    );
    for path in std::env::args_os().skip(1) {
        let trace = Trace::open(path.as_ref())?;
        for thread in &trace.threads {
            row(
                thread,
                &format!("{} {}", path.to_string_lossy(), thread.name),
            );
        }
    }
    let workload = hindsight_testkit::Workload::default().script().encode();
    row(
        &Trace::decode(Path::new("workload"), &workload)?.threads[0],
        "the benchmark's",
    );
    Ok(())
}

fn row(thread: &Thread, name: &str) {
    let calls = &thread.calls;
    let count = calls.len().max(1) as f64;
    let mut by_method = std::collections::HashMap::new();
    for method in &calls.method {
        *by_method.entry(method).or_insert(0_usize) += 1;
    }
    let mut counts: Vec<usize> = by_method.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let popular = counts.iter().take_while(|&&n| {
        sum += n;
        sum * 10 < calls.len() * 9
    });
    let popular = popular.count() + 1;
    let calls_nothing = |i: usize| calls.depth.get(i + 1).is_none_or(|&d| d <= calls.depth[i]);
    let leaves = (0..calls.len()).filter(|&i| calls_nothing(i)).count();
    // Calls of the same method as the call before.
    let again = (1..calls.len())
        .filter(|&i| calls.depth[i] == calls.depth[i - 1])
        .filter(|&i| calls.method[i] == calls.method[i - 1])
        .count();
    let mut depths = calls.depth.clone();
    depths.sort_unstable();
    let mean = depths.iter().map(|&d| f64::from(d)).sum::<f64>() / count;
    println!(
        "{:9} {:7} {:7} {:6.1}% {:6.1}% {:7.1} {:7} {:7} {:7} {:8.1}  {name}",
        thread.stats.trace_points,
        counts.len(),
        popular,
        leaves as f64 * 100.0 / count,
        again as f64 * 100.0 / count,
        mean,
        depths.get(depths.len() * 95 / 100).copied().unwrap_or(0),
        depths.last().copied().unwrap_or(0),
        thread.events.len(),
        (thread.end_ns - thread.start_ns) as f64 / thread.stats.trace_points.max(1) as f64,
    );
}
