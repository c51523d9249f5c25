// SPDX-License-Identifier: Apache-2.0
//! The part of `cargo xtask bench host` that has to be a release build. Each command prints its results as one JSON
//! object: name, number.
//!
//!     host_bench generate FOLDER     writes workload.hindsight, method.trace with the same events as ART writes
//!                                    them, and a tiny.pftrace
//!     host_bench floor|decode|perfetto|parquet|art FOLDER
//!     host_bench peak FOLDER         decodes once; the memory that took

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Instant;

use hindsight_decoder::{art_trace, Flags, Trace};
use hindsight_export::{write, write_file, Format};
use hindsight_testkit::{ArtFile, ArtLayout, Workload};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Number of runs; the fastest counts, because other load on the machine only slows a run down.
const RUNS: usize = 15;
/// Runs of what takes a second or more.
const FEW_RUNS: usize = 3;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, folder] = &arguments[..] else {
        return Err("usage: host_bench COMMAND FOLDER".into());
    };
    let folder = Path::new(folder);
    let trace = folder.join("workload.hindsight");
    let results = match command.as_str() {
        "generate" => generate(&trace, &folder.join("method.trace"))?,
        "floor" => floor(&trace)?,
        "decode" => decode(&trace)?,
        "perfetto" => perfetto(&trace, &folder.join("workload.pftrace"))?,
        "parquet" => parquet(&trace, &folder.join("workload.parquet"))?,
        "art" => art(&folder.join("method.trace"))?,
        "peak" => peak(&trace)?,
        other => return Err(format!("there is no command {other}").into()),
    };
    let mut out = io::stdout().lock();
    let fields: Vec<String> = results
        .iter()
        .map(|(name, value)| format!("{name:?}: {value}"))
        .collect();
    writeln!(out, "{{{}}}", fields.join(", "))?;
    Ok(())
}

type Results = Vec<(&'static str, f64)>;

/// Seconds that the fastest of `runs` runs took.
fn best(runs: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    for _ in 0..runs {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn points(trace: &Trace) -> f64 {
    trace
        .threads
        .iter()
        .map(|t| t.stats.trace_points as f64)
        .sum()
}

fn calls(trace: &Trace) -> f64 {
    trace.threads.iter().map(|t| t.calls.len() as f64).sum()
}

fn generate(path: &Path, art: &Path) -> Result<Results> {
    Workload::default().script().write(path)?;
    let trace = Trace::open(path)?;
    let out = BufWriter::new(File::create(art)?);
    write_as_art(&trace, out)?;
    let tiny = Workload {
        ring_log2_bytes: 12,
        ..Workload::default()
    };
    let tiny = Trace::decode(path, &tiny.script().encode())?;
    let out = path.with_file_name("tiny.pftrace");
    write_file(&tiny, Format::Perfetto, &out)?;
    Ok(vec![("points", points(&trace)), ("slices", calls(&trace))])
}

/// The same calls as ART's own tracer would have recorded them: two clocks, in µs.
fn write_as_art(trace: &Trace, mut out: impl Write) -> Result<()> {
    let thread = &trace.threads[0];
    let mut file = ArtFile {
        threads: vec![(thread.tid, thread.name.clone())],
        methods: trace
            .methods
            .iter()
            .map(|(_, m)| [&m.class, &m.name, &m.signature, &m.source_file].map(String::clone))
            .collect(),
        ..ArtFile::default()
    };
    let us = |ns: u64| ((ns - thread.start_ns) / 1_000) as u32;
    let mut running = Vec::new();
    // ART has no entries of what began before.
    let known = |call: &hindsight_decoder::Call| !call.flags.contains(Flags::OPEN_START);
    let leave = |call: hindsight_decoder::Call, file: &mut ArtFile| {
        if !call.flags.contains(Flags::OPEN_END) && known(&call) {
            let at = us(call.end_ns);
            file.events.push((0, call.method.0 as usize, 1, at, at));
        }
    };
    for call in thread.calls.iter() {
        while running.len() > call.depth as usize {
            if let Some(ended) = running.pop() {
                leave(ended, &mut file);
            }
        }
        if known(&call) {
            let at = us(call.start_ns);
            file.events.push((0, call.method.0 as usize, 0, at, at));
        }
        running.push(call);
    }
    while let Some(ended) = running.pop() {
        leave(ended, &mut file);
    }
    out.write_all(&file.encode(ArtLayout::V3))?;
    out.flush()?;
    Ok(())
}

/// Reading the file, and looking at each of its bytes.
fn floor(path: &Path) -> Result<Results> {
    let mut bytes = Vec::new();
    let seconds = best(RUNS, || {
        bytes.clear();
        File::open(path)?.read_to_end(&mut bytes)?;
        let sum = bytes.chunks_exact(8).fold(0_u64, |sum, chunk| {
            chunk
                .iter()
                .fold(sum, |sum, &byte| sum.wrapping_add(u64::from(byte)))
        });
        black_box(sum);
        Ok(())
    })?;
    Ok(vec![
        ("read_floor_ms", seconds * 1e3),
        ("file_bytes", bytes.len() as f64),
    ])
}

fn decode(path: &Path) -> Result<Results> {
    let points = points(&Trace::open(path)?);
    let seconds = best(RUNS, || {
        black_box(&Trace::open(path)?);
        Ok(())
    })?;
    Ok(vec![
        ("decode_ms", seconds * 1e3),
        ("decode_points_per_s", points / seconds),
    ])
}

fn perfetto(path: &Path, out: &Path) -> Result<Results> {
    let trace = Trace::open(path)?;
    let mut bytes = 0;
    let seconds = best(RUNS, || {
        bytes = write(&trace, Format::Perfetto, &mut io::sink())?.bytes;
        Ok(())
    })?;
    write_file(&trace, Format::Perfetto, out)?;
    Ok(vec![
        ("perfetto_slices_per_s", calls(&trace) / seconds),
        ("perfetto_bytes_per_slice", bytes as f64 / calls(&trace)),
    ])
}

fn parquet(path: &Path, out: &Path) -> Result<Results> {
    let trace = Trace::open(path)?;
    let seconds = best(FEW_RUNS, || {
        write_file(&trace, Format::Parquet, out)?;
        Ok(())
    })?;
    Ok(vec![("parquet_slices_per_s", calls(&trace) / seconds)])
}

fn art(path: &Path) -> Result<Results> {
    let mut points = 0.0;
    let seconds = best(FEW_RUNS, || {
        let trace = art_trace::read(path)?.to_trace();
        points = self::points(&trace);
        Ok(())
    })?;
    let bytes = std::fs::metadata(path)?.len() as f64;
    Ok(vec![
        ("art_trace_points_per_s", points / seconds),
        ("art_trace_bytes_per_point", bytes / points),
    ])
}

/// The most memory that decoding the file took, its own mapped pages too, relative to its rings.
fn peak(path: &Path) -> Result<Results> {
    let trace = Trace::open(path)?;
    let rings: u64 = trace.threads.iter().map(|t| t.ring_bytes).sum();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .ok_or("/proc/self/status has no VmHWM")?;
    let peak: f64 = peak.trim().parse()?;
    Ok(vec![
        ("peak_memory_bytes", peak * 1024.0),
        ("peak_memory_ratio", peak * 1024.0 / rings as f64),
    ])
}
