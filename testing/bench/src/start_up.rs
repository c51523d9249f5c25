// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench start-up`: what tracing costs the start of a program (section 8.3 of the Hubble paper): cold starts in
//! groups of stock ART, tracing off, and tracing on, a t-test of the pairs, and what a start writes into the ring.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hindsight_lab::{Execution, Variant};

use crate::demo::{self, Demo};
use crate::process::{ControlSocket, Process};
use crate::programs::{self, Device, Installed, Mode};
use crate::rings;
use crate::statistics::median;
use crate::student::p_of_more;

/// The programs besides the demo app.
const PROGRAMS: [&str; 3] = ["rhino", "h2", "jsoup"];
/// A difference with a smaller probability, in percent, would be called significant.
const SIGNIFICANT_PCT: f64 = 5.0;
/// Starts below the first are excellent, below the second good, others slow.
const CLASSES_MS: [f64; 2] = [500.0, 1000.0];

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Starts of each program in each variant
    #[arg(long, default_value_t = 30)]
    starts: usize,
    /// Three starts: shows that everything works, its numbers mean nothing
    #[arg(long)]
    quick: bool,
}

type Metrics = BTreeMap<String, f64>;

/// Stock ART, tracing off, tracing on.
const VARIANTS: [&str; 3] = ["stock", "off", "on"];

pub(crate) fn bench(checkout: &Path, options: &Options) -> Result<Metrics> {
    let starts = if options.quick { 3 } else { options.starts };
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let wanted = PROGRAMS.map(str::to_owned);
    let programs = programs::dex(checkout, &wanted)?;
    let devices = [Variant::Stock, Variant::Hindsight];
    let [stock, patched] =
        devices.map(|variant| Device::open(variant, checkout, scratch.path(), &[]));
    let (stock, patched) = (stock?, patched?);
    let demo =
        devices.map(|variant| Demo::open(variant, checkout, scratch.path(), Execution::Aot, &[]));
    let [demo_stock, demo] = demo;
    let mut subjects: Vec<(&str, [Box<dyn Program>; 2])> =
        vec![("demo", [Box::new(demo_stock?), Box::new(demo?)])];
    for program in &programs {
        let stock = stock.install(program, Mode::Ahead)?;
        let patched = patched.install(program, Mode::Ahead)?;
        subjects.push((program.name, [Box::new(stock), Box::new(patched)]));
    }

    let mut metrics = Metrics::new();
    let mut classes = [[0.0; 3]; VARIANTS.len()];
    for (name, subject) in &subjects {
        // The first start of each reads its files from the disk.
        for variant in 0..VARIANTS.len() {
            start(subject, variant, scratch.path())?;
        }
        let mut runs: [Vec<Start>; 3] = Default::default();
        for round in 0..starts {
            for next in 0..VARIANTS.len() {
                let variant = (next + round) % VARIANTS.len();
                let run = start(subject, variant, scratch.path())?;
                let class = CLASSES_MS
                    .iter()
                    .filter(|&&limit| run.wall_ms >= limit)
                    .count();
                classes[variant][class] += 1.0;
                runs[variant].push(run);
            }
        }
        put(&mut metrics, name, &runs);
    }
    for (variant, counts) in VARIANTS.iter().zip(classes) {
        for (class, count) in ["excellent", "good", "slow"].iter().zip(counts) {
            metrics.insert(format!("{variant}_{class}_starts"), count);
        }
        println!(
            "{variant}: {} starts below 500 ms, {} below 1 s, {} slower",
            counts[0], counts[1], counts[2]
        );
    }
    Ok(metrics)
}

/// A program that can be started.
trait Program {
    /// The command, with a configuration of tracing.
    fn command(&self, configuration: &str) -> Command;
    /// Waits until its start is complete.
    fn wait(&self, process: &mut Process) -> Result<()>;
}

/// Its start is complete when it has done its work for the first time.
impl Program for Installed<'_> {
    fn command(&self, configuration: &str) -> Command {
        self.worker(configuration)
    }

    fn wait(&self, process: &mut Process) -> Result<()> {
        process.line()?;
        process.ask("1").map(drop)
    }
}

/// Its start is complete when it has filled its list of notes.
impl Program for Demo {
    fn command(&self, configuration: &str) -> Command {
        self.command(configuration)
    }

    fn wait(&self, process: &mut Process) -> Result<()> {
        demo::wait_for_start(process)
    }
}

/// A start.
struct Start {
    wall_ms: f64,
    /// Of all threads.
    cpu_ms: f64,
    /// What the main thread wrote into its ring.
    written: rings::Written,
}

/// Starts a program and kills it.
fn start(subject: &[Box<dyn Program + '_>; 2], variant: usize, folder: &Path) -> Result<Start> {
    let program = &subject[variant.min(1)];
    let traced = variant == 2;
    let socket = folder.join("start-socket");
    let configuration = if traced {
        format!("trace=main,rewind=off,socket={}", socket.display())
    } else {
        String::new()
    };
    let command = program.command(&configuration);
    let begin = Instant::now();
    let mut process = Process::start(command)?;
    program.wait(&mut process)?;
    let wall_ms = begin.elapsed().as_secs_f64() * 1e3;
    let cpu_ms = process.cpu_time()?.as_secs_f64() * 1e3;
    let written = if traced {
        rings::take(&mut ControlSocket::connect(&socket)?, process.pid())?
    } else {
        rings::Written::default()
    };
    Ok(Start {
        wall_ms,
        cpu_ms,
        written,
    })
}

fn put(metrics: &mut Metrics, name: &str, runs: &[Vec<Start>; 3]) {
    let mut put = |what: String, value: f64| {
        metrics.insert(format!("{name}_{what}"), value);
        value
    };
    println!("{name}: cold starts, medians");
    let of = |runs: &[Start], f: fn(&Start) -> f64| runs.iter().map(f).collect::<Vec<f64>>();
    for (variant, runs) in VARIANTS.iter().zip(runs) {
        let wall = put(
            format!("{variant}_wall_ms"),
            median(of(runs, |s| s.wall_ms)),
        );
        let cpu = put(format!("{variant}_cpu_ms"), median(of(runs, |s| s.cpu_ms)));
        println!("{variant:>8}: {wall:.0} ms, {cpu:.0} ms of CPU time");
    }
    for (what, with, without) in [("off", &runs[1], &runs[0]), ("on", &runs[2], &runs[1])] {
        for (clock, f) in [
            ("wall", (|s| s.wall_ms) as fn(&Start) -> f64),
            ("cpu", |s| s.cpu_ms),
        ] {
            let p = p_of_more(&of(with, f), &of(without, f)) * 100.0;
            put(format!("{what}_{clock}_p_pct"), p);
            let verdict = if p < SIGNIFICANT_PCT {
                "longer"
            } else {
                "not significantly longer"
            };
            println!("{what:>8}: {verdict} ({clock}): p = {p:.2} %");
        }
    }
    let bytes = put(
        "ring_bytes".into(),
        median(of(&runs[2], |s| s.written.bytes() as f64)),
    );
    let calls = put(
        "invocations".into(),
        median(of(&runs[2], |s| s.written.calls() as f64)),
    );
    println!(
        "{:>8}: {:.2} MiB, {calls:.0} calls",
        "ring",
        bytes / f64::from(1 << 20)
    );
}
