// SPDX-License-Identifier: Apache-2.0
//! How fast traces are decoded and exported: `cargo run --release -p hindsight-export --example speed
//! [FILE]`, by default on a scripted trace that fills a ring of 32 MiB.
//!
//! Prints the best of several runs, on one core, and its ratio to the floor: reading the file once.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use hindsight_decoder::Trace;
use hindsight_export::{write, Format};

const RUNS: usize = 7;

fn best(mut run: impl FnMut()) -> Duration {
    let times = (0..RUNS).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (name, bytes) = match std::env::args_os().nth(1) {
        Some(path) => (path.to_string_lossy().into_owned(), std::fs::read(&path)?),
        None => (
            "scripted".to_owned(),
            hindsight_testkit::busy(25, 2, 8_000, 60).encode(),
        ),
    };
    let path = Path::new(&name);
    let trace = Trace::decode(path, &bytes)?;
    let points: u64 = trace.threads.iter().map(|t| t.stats.trace_points).sum();
    let calls: usize = trace.threads.iter().map(|t| t.calls.len()).sum();
    println!(
        "{name}: {points} points, {calls} calls, {} methods",
        trace.methods.len()
    );

    let floor = best(|| {
        let sum = bytes.chunks_exact(8).fold(0_u64, |sum, b| {
            sum.wrapping_add(u64::from(b[0]) + u64::from(b[7]))
        });
        black_box(sum);
    });
    let report = |what: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        println!(
            "{what:10} {:8.1} ms  {:6.1} M points/s  {:6.1} x floor",
            seconds * 1e3,
            points as f64 / seconds / 1e6,
            seconds / floor.as_secs_f64()
        );
    };
    report("floor", floor);
    report(
        "decode",
        best(|| {
            black_box(Trace::decode(path, &bytes).is_ok());
        }),
    );
    let mut perfetto_bytes = 0;
    report(
        "perfetto",
        best(|| {
            let written = write(&trace, Format::Perfetto, &mut std::io::sink());
            perfetto_bytes = written.map_or(0, |w| w.bytes);
        }),
    );
    println!(
        "perfetto   {:.1} bytes per trace point",
        perfetto_bytes as f64 / points.max(1) as f64
    );
    Ok(())
}
