// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench apps`: what tracing costs whole programs.
//!
//! - Stock ART and Hindsight's with tracing off are different processes: many pairs, which take turns in short rounds.
//! - Tracing of the main thread and of all threads is switched on and off in one process, by its control socket.
//! - ART's own method tracing is started once in processes of stock ART, and compared with the rounds before it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use hindsight_lab::Variant;

use crate::floor::Floor;
use crate::programs::{self, Device, Mode};
use crate::statistics::{interval_of_median, median};

mod art;
mod forms;
mod pairs;
mod rounds;
mod switched;

/// Prices of a point for which the cost of a program is told, ns: the one of the Hubble paper on a phone, and a cautious one.
const PRICES_NS: [(f64, &str); 2] = [(0.65, "0_65"), (3.0, "3")];

/// Options of the measurement.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these programs, with commas between them
    #[arg(long, value_delimiter = ',')]
    programs: Vec<String>,
    /// Pairs of processes, and half of the number of rounds in one process
    #[arg(long, default_value_t = 41)]
    rounds: usize,
    /// Only where the cost of off comes from: the same ART without trace points, with them, and without those of trivial
    /// methods, each against stock ART, compiled ahead of time
    #[arg(long)]
    off: bool,
    /// Few rounds: shows that everything works, its numbers mean nothing
    #[arg(long)]
    quick: bool,
}

type Metrics = BTreeMap<String, f64>;

/// Measures the programs, and prints each program's metrics when it has them.
pub(crate) fn bench(checkout: &Path, options: &Options) -> Result<Metrics> {
    let rounds = if options.quick { 3 } else { options.rounds };
    let programs = programs::dex(checkout, &options.programs)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let stock = Device::open(Variant::Stock, checkout, scratch.path(), &[])?;
    let patched = Device::open(Variant::Hindsight, checkout, scratch.path(), &[])?;
    let mut metrics = Metrics::new();
    if options.off {
        forms::measure(
            checkout,
            scratch.path(),
            &stock,
            &programs,
            rounds,
            &mut metrics,
        )?;
        return Ok(metrics);
    }
    let mut floor = Floor::new();
    for program in &programs {
        for (mode, suffix) in [(Mode::Ahead, ""), (Mode::Jit, "_jit")] {
            let name = format!("{}{suffix}", program.name);
            let installed = (
                stock.install(program, mode)?,
                patched.install(program, mode)?,
            );
            let measured = Measured {
                switched: switched::measure(&installed.1, rounds * 2, &mut floor)
                    .with_context(|| format!("{name}, with tracing"))?,
                art: art::measure(&installed.0, rounds.div_ceil(10))
                    .with_context(|| format!("{name}, with ART's tracing"))?,
                pairs: pairs::measure(&installed.0, &installed.1, rounds)
                    .with_context(|| format!("{name}, off"))?,
            };
            print(&name, &measured);
            measured.put(&name, &mut metrics);
        }
    }
    Ok(metrics)
}

/// The measurements of a program.
struct Measured {
    switched: switched::Costs,
    art: Vec<f64>,
    pairs: pairs::Costs,
}

impl Measured {
    /// Points a second of the program's own CPU time.
    fn points_per_second(&self) -> f64 {
        self.switched.points / self.switched.off_seconds
    }

    /// What a program costs more if a point takes this long, %.
    fn percent_at(&self, ns: f64) -> f64 {
        self.points_per_second() * ns * 1e-9 * 100.0
    }

    fn put(&self, name: &str, metrics: &mut Metrics) {
        let mut put = |what: String, value: f64| metrics.insert(format!("{name}_{what}"), value);
        for (what, percents) in [
            ("off_pct", &self.pairs.off),
            ("start_off_pct", &self.pairs.start),
            ("main_pct", &self.switched.main),
            ("all_pct", &self.switched.all),
            ("art_pct", &self.art),
        ] {
            let (low, high) = interval_of_median(percents);
            put(what.to_owned(), median(percents.iter().copied()));
            put(format!("{what}_low"), low);
            put(format!("{what}_high"), high);
        }
        for (what, value) in [
            ("points", self.switched.points),
            ("points_per_s", self.points_per_second()),
            ("point_ns", self.switched.point_ns),
            ("floor_ns", self.switched.floor_ns),
            ("floor_pct", self.percent_at(self.switched.floor_ns)),
            ("off_ms", self.switched.off_seconds * 1e3),
            ("start_stock_ms", self.pairs.start_stock_ms),
            ("memory_off_bytes", self.pairs.memory_bytes),
            ("memory_main_bytes", self.switched.memory_main_bytes),
            ("memory_all_bytes", self.switched.memory_all_bytes),
        ] {
            put(what.to_owned(), value);
        }
        for (ns, what) in PRICES_NS {
            put(format!("at_{what}_ns_pct"), self.percent_at(ns));
        }
    }
}

fn print(name: &str, measured: &Measured) {
    let percent = |values: &[f64]| {
        let (low, high) = interval_of_median(values);
        let middle = median(values.iter().copied());
        format!("{middle:.1} % ({low:.1} to {high:.1})")
    };
    let Measured {
        switched,
        art,
        pairs,
    } = measured;
    println!(
        "{name}: off {}, main thread {}, all threads {}, ART's tracing {}",
        percent(&pairs.off),
        percent(&switched.main),
        percent(&switched.all),
        percent(art)
    );
    println!(
        "{:>20}: {:.1} M points/s at {:.1} ns; at the floor of {:.1} ns {:.0} %, at 0.65 ns {:.1} %, at 3 ns {:.1} %",
        "price",
        measured.points_per_second() / 1e6,
        switched.point_ns,
        switched.floor_ns,
        measured.percent_at(switched.floor_ns),
        measured.percent_at(0.65),
        measured.percent_at(3.0)
    );
    println!(
        "{:>20}: start-up {:.0} ms, off {}; memory off {:+.1}, main {:+.1}, all {:+.1} MiB",
        "",
        pairs.start_stock_ms,
        percent(&pairs.start),
        pairs.memory_bytes / MIB,
        switched.memory_main_bytes / MIB,
        switched.memory_all_bytes / MIB
    );
}

const MIB: f64 = (1 << 20) as f64;
