// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench matrix`: Figure 6 of the Hubble paper. A multiplication of matrices in tiles, which depends on the
//! processor's caches, with two trace points for each of its steps.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{Isa, JavaLibrary, Lab, Release, Variant};

use crate::ahead;
use crate::process::Process;
use crate::programs::{virtual_machine, Mode};
use crate::statistics::median;

/// The paper's tiles; matrices that are smaller use those that fit.
const TILES: [u64; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];
/// The least number of steps of a measurement, so that it takes some milliseconds.
const LEAST_STEPS: u64 = 1 << 24;

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Sizes of the matrices, with commas between them
    #[arg(long, value_delimiter = ',', default_value = "2048,256")]
    sizes: Vec<u64>,
    /// Rows of the result that are computed, of all that there are. The paper computes all: half an hour for each tile and
    /// run of 2048 x 2048 with tracing
    #[arg(long, default_value_t = 32)]
    rows: u64,
    /// Runs of each
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// One run, of few rows
    #[arg(long)]
    quick: bool,
}

type Metrics = BTreeMap<String, f64>;

pub(crate) fn bench(checkout: &Path, options: &Options) -> Result<Metrics> {
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let stock = Matrix::open(Variant::Stock, checkout, scratch.path())?;
    let patched = Matrix::open(Variant::Hindsight, checkout, scratch.path())?;
    let traced = format!("trace=main,rewind=off,dir={}", scratch.path().display());
    let (runs, rows) = if options.quick {
        (1, 4)
    } else {
        (options.runs, options.rows)
    };
    let mut metrics = Metrics::new();
    for &size in &options.sizes {
        println!(
            "{size} x {size}, ns for a step; traced: min / max / mean of {runs} runs\n{:>6} {:>9} {:>9} {:>9} {:>9}",
            "tile", "stock", "off", "traced", "off %"
        );
        let mut subjects = [
            Process::start(stock.command(size, ""))?,
            Process::start(patched.command(size, ""))?,
            Process::start(patched.command(size, &traced))?,
        ];
        for subject in &mut subjects {
            ensure!(subject.line()? == "ready", "it is not ready");
        }
        let tiles: Vec<u64> = TILES.into_iter().filter(|&tile| tile <= size).collect();
        let mut times = vec![<[Vec<f64>; 3]>::default(); tiles.len()];
        for run in 0..runs {
            for (&tile, times) in tiles.iter().zip(&mut times) {
                for next in 0..subjects.len() {
                    // They take turns in being the first.
                    let which = (next + run) % subjects.len();
                    times[which].push(step_ns(&mut subjects[which], size, tile, rows.min(size))?);
                }
            }
        }
        for (tile, times) in tiles.iter().zip(&times) {
            put(&mut metrics, &format!("n{size}_t{tile}"), *tile, times);
        }
        for subject in &mut subjects {
            subject.end()?;
        }
    }
    Ok(metrics)
}

/// CPU time of a step in ns.
fn step_ns(subject: &mut Process, size: u64, tile: u64, rows: u64) -> Result<f64> {
    let steps = rows * size * size;
    let times = LEAST_STEPS.div_ceil(steps);
    let before = subject.cpu_time()?;
    for _ in 0..times {
        subject.ask(&format!("{tile} {rows}"))?;
    }
    let used = subject.cpu_time()? - before;
    Ok(used.as_nanos() as f64 / (times * steps) as f64)
}

/// `times`: on stock ART, off, and traced, each of a run.
fn put(metrics: &mut Metrics, name: &str, tile: u64, times: &[Vec<f64>; 3]) {
    let [stock, off, traced] = times;
    let mut put = |what: &str, value: f64| {
        metrics.insert(format!("{name}_{what}"), value);
        value
    };
    for (what, times) in ["stock_ns", "off_ns", "traced_ns"].iter().zip(times) {
        put(what, median(times.iter().copied()));
    }
    // As in the paper: of the runs, each divided by the mean of those without tracing.
    let base = mean(off);
    let percents: Vec<f64> = traced.iter().map(|ns| (ns / base - 1.0) * 100.0).collect();
    let smallest = put(
        "min_pct",
        percents.iter().copied().fold(f64::INFINITY, f64::min),
    );
    let largest = put(
        "max_pct",
        percents.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    let middle = put("mean_pct", mean(&percents));
    let off_pct = put("off_pct", (base / mean(stock) - 1.0) * 100.0);
    println!(
        "{tile:>6} {:>9.2} {:>9.2} {:>9.2} {off_pct:>9.1}   {smallest:.0} / {largest:.0} / {middle:.0} %",
        median(stock.iter().copied()),
        median(off.iter().copied()),
        median(traced.iter().copied()),
    );
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The program on a build of ART.
struct Matrix {
    lab: Lab,
    jar: PathBuf,
}

impl Matrix {
    fn open(variant: Variant, checkout: &Path, folder: &Path) -> Result<Matrix> {
        let lab = Lab::open(Release::Android10, Isa::X86_64, variant)?;
        let folder = folder.join(variant.name());
        fs::create_dir_all(&folder)?;
        let jar = folder.join("matrix.jar");
        let library = JavaLibrary {
            sources: vec![checkout.join("lab/bench/Matrix.java")],
            ..JavaLibrary::default()
        };
        lab.compile_java(&library, &jar)?;
        // ART inlines a method that calls itself, too.
        let options = ["--inline-max-code-units=0"];
        ahead::compile(&lab, &lab.core_image(), &jar, &[], &options)?;
        Ok(Matrix { lab, jar })
    }

    fn command(&self, size: u64, configuration: &str) -> Command {
        let image = self.lab.core_image();
        let jars = [&*self.jar];
        let mut command = virtual_machine(&self.lab, &image, Mode::Ahead, &jars, configuration);
        command.args(["Matrix", &size.to_string()]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads_are_those_of_the_paper() {
        let mut metrics = Metrics::new();
        let times = [vec![2.0; 3], vec![2.0; 3], vec![3.0, 2.5, 3.5]];
        put(&mut metrics, "n", 16, &times);
        let of = |what: &str| metrics[&format!("n_{what}")];
        assert_eq!(
            (of("min_pct"), of("max_pct"), of("mean_pct")),
            (25.0, 75.0, 50.0)
        );
        assert_eq!((of("off_pct"), of("traced_ns")), (0.0, 3.0));
    }
}
