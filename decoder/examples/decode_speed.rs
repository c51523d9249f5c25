// SPDX-License-Identifier: Apache-2.0
//! Measures decode speed: `cargo run --release -p hindsight-decoder --example decode_speed [FILE…]`, by default of generated
//! traces; `--write FOLDER` writes them. CPU time on one core, best of several runs, and its ratio to the time of
//! reading all bytes once.

use std::hint::black_box;
use std::path::Path;

use hindsight_decoder::Trace;
use hindsight_testkit::Workload;

const RUNS: usize = 15;

/// CPU time of this thread, seconds.
fn now() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec on this stack; the call writes nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn best(mut run: impl FnMut()) -> f64 {
    (0..RUNS)
        .map(|_| {
            let start = now();
            run();
            now() - start
        })
        .fold(f64::INFINITY, f64::min)
}

fn measure(name: &str, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let trace = Trace::decode(Path::new(name), bytes)?;
    let points: u64 = trace.threads.iter().map(|t| t.stats.trace_points).sum();
    drop(trace);
    let read = best(|| {
        black_box(bytes.iter().fold(0_u64, |sum, &b| sum + u64::from(b)));
    });
    let decode = best(|| {
        black_box(Trace::decode(Path::new(name), bytes).is_ok());
    });
    println!(
        "{name:12} {points:9} points {:7.1} ms {:6.1} M points/s {:6.1} x reading",
        decode * 1e3,
        points as f64 / decode / 1e6,
        decode / read
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One worker, so that its time is this thread's.
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build_global()?;
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let folder = match &arguments[..] {
        [option, folder] if option == "--write" => Some(Path::new(folder)),
        _ => None,
    };
    if folder.is_none() && !arguments.is_empty() {
        for file in &arguments {
            measure(&file.to_string_lossy(), &std::fs::read(file)?)?;
        }
        return Ok(());
    }
    let workload = Workload::default();
    let native = Workload {
        native_per_mille: 100,
        ..workload
    };
    for (name, script) in [
        ("workload", workload.script()),
        ("natives", native.script()),
        ("random", hindsight_testkit::busy(25, 2, 8_000, 60)),
    ] {
        match folder {
            Some(folder) => script.write(&folder.join(format!("{name}.hindsight")))?,
            None => measure(name, &script.encode())?,
        }
    }
    Ok(())
}
