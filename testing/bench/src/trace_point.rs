// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench trace-point`: the cost of a trace point in compiled code of a real ART.
//!
//! All variants of ART run at the same time, each in a process of its own that waits for commands
//! (`lab/bench/Main.java`). Each round measures every variant once for a few milliseconds, and the floor. Values of
//! the same round are compared, and the result is the median over the rounds. So another program
//! on the machine disturbs all variants alike, or one round.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{build, App, BuildOptions, Execution, Framework, Isa, Variant};
use hindsight_trace_format::container::Reader;
use hindsight_trace_format::slot::{Event, SLOT_BYTES};

use super::code_size::boot_image_text;
use super::floor::Floor;
use super::statistics::{median, median_of_pairs};
use super::subject::Subject;

/// Iterations of the measured method's loop.
const WORKS: [u32; 5] = [0, 1, 10, 100, 1000];
const ROUNDS: usize = 151;
/// ART's own tracer is so slow that fewer rounds and recursions suffice, and its buffer lasts.
const METHOD_TRACE_ROUNDS: usize = 7;
const METHOD_TRACE_RECURSIONS: u32 = 300;
const FLOOR_POINTS: usize = 200_000;
/// A call has an entry and an exit.
const POINTS_PER_CALL: f64 = 2.0;

/// The processes of a run. The names are used in metrics.
pub(crate) struct Subjects {
    /// Stock ART.
    pub(crate) stock: Subject,
    /// A second process of stock ART: its difference from the first is the machine's noise.
    pub(crate) stock_again: Subject,
    /// Patched ART, tracing off.
    pub(crate) off: Subject,
    /// Patched ART, tracing on.
    pub(crate) on: Subject,
}

/// Nanoseconds per call, per amount of work and round.
type Rounds = BTreeMap<u32, Vec<f64>>;

struct Timings {
    stock: Rounds,
    stock_again: Rounds,
    off: Rounds,
    on: Rounds,
    /// Nanoseconds per point.
    floor: Vec<f64>,
}

/// Compiles the measured program for both builds of ART, measures, and prints the main results. Returns all
/// metrics.
pub(crate) fn bench(checkout: &Path) -> Result<BTreeMap<String, f64>> {
    let stock = Device::open(Variant::Stock, checkout)?;
    let patched = Device::open(Variant::Hindsight, checkout)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let on = format!("trace=main,rewind=off,dir={}", scratch.path().display());
    let subjects = |inlining: bool| -> Result<Subjects> {
        Ok(Subjects {
            stock: Subject::start("stock", stock.command(inlining), false)?,
            stock_again: Subject::start("stock again", stock.command(inlining), false)?,
            off: Subject::start("off", patched.command(inlining), false)?,
            on: Subject::start("on", with_tracing(patched.command(inlining), &on), true)?,
        })
    };
    let method_trace = Subject::start("method trace", stock.command(false), false)?;
    let progress = |what: &str| eprintln!("bench: {what}");
    let mut metrics = run(
        subjects(false)?,
        subjects(true)?,
        method_trace,
        scratch.path(),
        &progress,
    )?;
    let text =
        |device: &Device| boot_image_text(&device.framework.boot_image().image, Isa::X86_64.name());
    let growth = text(&patched)? as f64 / text(&stock)? as f64;
    metrics.insert("boot_image_text_growth_pct".into(), (growth - 1.0) * 100.0);
    print(&metrics);
    Ok(metrics)
}

/// A build of ART with the measured program.
struct Device {
    framework: Framework,
    app: App,
}

impl Device {
    fn open(variant: Variant, checkout: &Path) -> Result<Self> {
        let lab = build(&BuildOptions::from_environment(Isa::X86_64, variant))?;
        let framework = Framework::build(&lab, &|step| eprintln!("bench: building {step}"))?;
        let app = framework.compile_app("bench", &checkout.join("lab/bench"))?;
        Ok(Device { framework, app })
    }

    fn command(&self, inlining: bool) -> Command {
        let mut command = self.framework.vm_command(&self.app, Execution::Jit);
        if !inlining {
            command.args(["-Xcompiler-option", "--inline-max-code-units=0"]);
        }
        command.arg("Main");
        // The environment may have tracing configured.
        command.env_remove("HINDSIGHT");
        // Stock ART complains that it has no native methods of Hindsight.
        command.env("ANDROID_LOG_TAGS", "*:s");
        command
    }
}

fn with_tracing(mut command: Command, configuration: &str) -> Command {
    command.env("HINDSIGHT", configuration);
    command
}

fn print(metrics: &BTreeMap<String, f64>) {
    println!(
        "JIT-compiled recursive method, inlining off; medians over {ROUNDS} rounds; noise: stock against itself"
    );
    println!(
        "{:>6} {:>12} {:>9} {:>14} {:>9} {:>14} {:>9}",
        "work", "stock ns", "noise %", "off ns/point", "off %", "on ns/point", "on %"
    );
    for work in WORKS {
        let m = |name: &str| metrics[&format!("{name}_w{work}")];
        println!(
            "{work:>6} {:>12.2} {:>9.2} {:>14.3} {:>9.2} {:>14.2} {:>9.2}",
            m("stock_call_ns"),
            m("noise_pct"),
            m("off_ns"),
            m("off_overhead_pct"),
            m("on_ns"),
            m("on_overhead_pct"),
        );
    }
    println!("\nthe same with ART's default inlining");
    println!(
        "{:>6} {:>12} {:>9} {:>9} {:>9}",
        "work", "stock ns", "noise %", "off %", "on %"
    );
    for work in WORKS {
        let m = |name: &str| metrics[&format!("{name}_w{work}_default_inlining")];
        println!(
            "{work:>6} {:>12.2} {:>9.2} {:>9.2} {:>9.2}",
            m("stock_call_ns"),
            m("noise_pct"),
            m("off_overhead_pct"),
            m("on_overhead_pct"),
        );
    }
    println!(
        "\nfloor (timer and 8-byte store): {:.2} ns; a trace point is {:.2} times that, and {:.1} bytes",
        metrics["floor_ns"], metrics["on_over_floor_w0"], metrics["bytes_per_point"]
    );
    println!(
        "ART's own method tracing: {:.0} ns a point, {:.0} times as much",
        metrics["art_tracing_ns_w0"], metrics["art_tracing_over_on_w0"]
    );
    println!(
        "machine code of the boot image: {:.1} % more",
        metrics["boot_image_text_growth_pct"]
    );
}

/// Measures with inlining off, as in the paper; with ART's default inlining; and with ART's own method tracing. Returns
/// the metrics by name.
pub(crate) fn run(
    mut no_inlining: Subjects,
    mut default_inlining: Subjects,
    mut method_trace: Subject,
    scratch: &Path,
    progress: &dyn Fn(&str),
) -> Result<BTreeMap<String, f64>> {
    let mut floor = Floor::new();
    progress("inlining off");
    let paper = measure(&mut no_inlining, &mut floor)?;
    progress("default inlining");
    let default = measure(&mut default_inlining, &mut floor)?;
    progress("ART's own method tracing");
    let art = measure_method_trace(&mut method_trace, scratch)?;
    progress("size of a trace point");
    let bytes_per_point = bytes_per_point(&mut no_inlining.on)?;

    let mut metrics = per_call(&paper, "");
    metrics.extend(per_point(&paper));
    // No cost of a point here: inlined calls have no trace points, so their number is unknown.
    metrics.extend(per_call(&default, "_default_inlining"));
    let stock_w0 = median(paper.stock[&0].iter().copied());
    let art_ns = (art - stock_w0) / POINTS_PER_CALL;
    metrics.insert("art_tracing_ns_w0".into(), art_ns);
    metrics.insert(
        "art_tracing_over_on_w0".into(),
        art_ns / metrics["on_ns_w0"],
    );
    metrics.insert("bytes_per_point".into(), bytes_per_point);
    Ok(metrics)
}

fn measure(subjects: &mut Subjects, floor: &mut Floor) -> Result<Timings> {
    let mut timings = Timings {
        stock: Rounds::new(),
        stock_again: Rounds::new(),
        off: Rounds::new(),
        on: Rounds::new(),
        floor: Vec::new(),
    };
    check_results(subjects)?;
    let mut recursions = BTreeMap::new();
    for work in WORKS {
        // The same number for all, from the slowest, so that equal amounts of work are compared. For an
        // empty method this also goes once around the ring, whose pages are touched here for the first time.
        let on = subjects.on.calibrate(work)?;
        if work == 0 {
            subjects.on.measure(work, LAP_RECURSIONS)?;
        }
        recursions.insert(work, on);
    }
    for round in 0..ROUNDS {
        timings.floor.push(floor.measure(FLOOR_POINTS));
        for work in WORKS {
            let n = recursions[&work];
            let mut order = [
                (&mut subjects.stock, &mut timings.stock),
                (&mut subjects.stock_again, &mut timings.stock_again),
                (&mut subjects.off, &mut timings.off),
                (&mut subjects.on, &mut timings.on),
            ];
            // The variants take turns in being the first after the change of process.
            let first = round % order.len();
            order.rotate_left(first);
            for (subject, rounds) in order {
                let ns = subject.measure(work, n)?;
                rounds.entry(work).or_default().push(ns);
            }
        }
    }
    Ok(timings)
}

/// Recursions that write more points than a default ring has slots (2^22).
const LAP_RECURSIONS: u32 = 220_000;

fn check_results(subjects: &mut Subjects) -> Result<()> {
    for work in WORKS {
        let expected = subjects.stock.result(work, 10)?;
        for subject in [&mut subjects.off, &mut subjects.on] {
            let result = subject.result(work, 10)?;
            ensure!(
                result == expected,
                "the variant {} computes {result} where stock computes {expected}",
                subject.name()
            );
        }
    }
    Ok(())
}

/// Nanoseconds per call of an empty method, while ART's own tracer records it.
fn measure_method_trace(subject: &mut Subject, scratch: &Path) -> Result<f64> {
    subject.start_method_trace(&scratch.join("method.trace"))?;
    let mut rounds = Vec::new();
    for _ in 0..METHOD_TRACE_ROUNDS {
        rounds.push(subject.measure(0, METHOD_TRACE_RECURSIONS)?);
    }
    Ok(median(rounds))
}

/// Saves the ring, and counts the bytes of its slots and the trace points in them.
fn bytes_per_point(subject: &mut Subject) -> Result<f64> {
    let file = subject.snapshot()?;
    let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let reader = Reader::new(&bytes)?;
    let mut slots = 0_usize;
    let mut points = 0_usize;
    for index in reader.ring_indices() {
        if let Some(ring) = reader.ring(index)? {
            slots += ring.slots().len();
            points += ring
                .slots()
                .events()
                .filter(|e| {
                    matches!(
                        e.event(),
                        Event::Entry { .. } | Event::WideEntry | Event::Exit
                    )
                })
                .count();
        }
    }
    ensure!(points > 0, "{} holds no trace points", file.display());
    Ok((slots * SLOT_BYTES) as f64 / points as f64)
}

/// The cost of a call, and the percentage that tracing adds.
fn per_call(timings: &Timings, suffix: &str) -> BTreeMap<String, f64> {
    let percent = |traced: f64, stock: f64| (traced / stock - 1.0) * 100.0;
    let mut metrics = BTreeMap::new();
    let mut put = |name: String, value: f64| metrics.insert(name + suffix, value);
    for work in WORKS {
        let (stock, off, on) = (
            &timings.stock[&work],
            &timings.off[&work],
            &timings.on[&work],
        );
        put(
            format!("stock_call_ns_w{work}"),
            median(stock.iter().copied()),
        );
        put(
            format!("noise_pct_w{work}"),
            median_of_pairs(&timings.stock_again[&work], stock, percent),
        );
        put(
            format!("off_overhead_pct_w{work}"),
            median_of_pairs(off, stock, percent),
        );
        put(
            format!("on_overhead_pct_w{work}"),
            median_of_pairs(on, stock, percent),
        );
    }
    metrics
}

/// The cost of a trace point in nanoseconds, and in floors.
fn per_point(timings: &Timings) -> BTreeMap<String, f64> {
    let price = |traced: f64, stock: f64| (traced - stock) / POINTS_PER_CALL;
    let mut metrics = BTreeMap::new();
    for work in WORKS {
        let (stock, off, on) = (
            &timings.stock[&work],
            &timings.off[&work],
            &timings.on[&work],
        );
        metrics.insert(
            format!("off_ns_w{work}"),
            median_of_pairs(off, stock, price),
        );
        metrics.insert(format!("on_ns_w{work}"), median_of_pairs(on, stock, price));
    }
    let on: Vec<f64> = timings.on[&0]
        .iter()
        .zip(&timings.stock[&0])
        .map(|(&on, &stock)| price(on, stock))
        .collect();
    // `on_over_floor_w0` may be below 1: while the processor waits for the timer, it does the work of the call itself,
    // which `price` subtracts.
    metrics.insert("floor_ns".into(), median(timings.floor.iter().copied()));
    metrics.insert(
        "on_over_floor_w0".into(),
        median_of_pairs(&on, &timings.floor, |on, floor| on / floor),
    );
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_half_of_what_a_call_costs_more() {
        let rounds = |w0: f64| {
            WORKS
                .iter()
                .map(|&work| (work, vec![w0 + f64::from(work); 3]))
                .collect()
        };
        let timings = Timings {
            stock: rounds(2.0),
            stock_again: rounds(2.1),
            off: rounds(2.5),
            on: rounds(26.0),
            floor: vec![10.0; 3],
        };
        let mut metrics = per_call(&timings, "");
        metrics.extend(per_point(&timings));
        assert!((metrics["noise_pct_w0"] - 5.0).abs() < 1e-9);
        assert_eq!(metrics["off_ns_w0"], 0.25);
        assert_eq!(metrics["on_ns_w0"], 12.0);
        assert_eq!(metrics["on_over_floor_w0"], 1.2);
        // Work 10: 12.0 ns a call on stock, 12.5 when off.
        assert!((metrics["off_overhead_pct_w10"] - 4.166).abs() < 0.01);
    }
}
