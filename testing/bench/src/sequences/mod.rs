// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench sequences`: the instructions of each form of a trace point, its cycles by models of processors,
//! and its cost here, next to other tracers.
//!
//! Names of metrics: `<isa>_…` for the default form, `<isa>_<form>_…` for the others. An exit that replaces
//! a return instruction is counted without it. Calls of a stub are counted without the stub.

#[cfg_attr(
    not(target_arch = "x86_64"),
    expect(dead_code, reason = "for what is measured on x86-64")
)]
mod forms;
mod models;
#[cfg(target_arch = "x86_64")]
mod native;
#[cfg(target_arch = "x86_64")]
mod others;
mod paths;

use std::collections::BTreeMap;

use anyhow::Result;
use hindsight_codegen_check::{Disassembler, Instruction, Isa};

use forms::{isa_name, Form};
use models::Region;
use paths::{cost, is_return, path, Cost};

type Metrics = BTreeMap<String, f64>;

const ISAS: [Isa; 3] = [Isa::Aarch64, Isa::Thumb2, Isa::X86_64];

/// Counts, models, measures, and prints tables. Returns all metrics.
pub(crate) fn bench() -> Result<Metrics> {
    let mut metrics = Metrics::new();
    for isa in ISAS {
        let forms = forms::all(isa)?;
        let sides = sides(isa, &forms);
        print_counts(isa, &forms, &sides);
        for side in &sides {
            side.put(isa, &mut metrics);
        }
        put_off(isa, &forms, &sides, &mut metrics);
    }
    model(&mut metrics)?;
    #[cfg(target_arch = "x86_64")]
    measure(&mut metrics)?;
    Ok(metrics)
}

/// The entry or the exit of a form.
struct Side {
    form: &'static str,
    name: &'static str,
    /// The cost beyond code without a trace point.
    bytes: usize,
    on: Cost,
    off: Cost,
    on_text: Vec<String>,
    off_text: Vec<String>,
}

impl Side {
    fn put(&self, isa: Isa, metrics: &mut Metrics) {
        let prefix = prefix(isa, self.form) + "_" + self.name;
        let mut put = |name: &str, value: usize| {
            metrics.insert(format!("{prefix}_{name}"), value as f64);
        };
        put("bytes", self.bytes);
        put("on_instructions", self.on.instructions);
        put("on_loads", self.on.loads);
        put("on_stores", self.on.stores);
        put("off_instructions", self.off.instructions);
    }
}

/// The start of the names of a form's metrics.
fn prefix(isa: Isa, form: &str) -> String {
    match form {
        "inline" => isa_name(isa).to_owned(),
        other => format!("{}_{other}", isa_name(isa)),
    }
}

fn sides(isa: Isa, forms: &[Form]) -> Vec<Side> {
    let disassembler = Disassembler::new(isa);
    let mut sides = Vec::new();
    for form in forms {
        for (name, code, replaced) in [
            ("entry", &form.entry, 0),
            ("exit", &form.exit, form.exit_replaces),
        ] {
            let Some(code) = code else { continue };
            let instructions = disassembler.instructions(code);
            let [on, off] = [true, false].map(|is_on| path(&instructions, is_on));
            let text = |path: &[&Instruction]| {
                let counted = path.iter().filter(|i| replaced == 0 || !is_return(i));
                counted.map(|i| i.text.clone()).collect()
            };
            sides.push(Side {
                form: form.name,
                name,
                bytes: code.len() - replaced,
                on: cost(&on, replaced > 0),
                off: cost(&off, replaced > 0),
                on_text: text(&on),
                off_text: text(&off),
            });
        }
    }
    sides
}

/// `<isa>_off_instructions`: the larger of entry and exit.
fn put_off(isa: Isa, forms: &[Form], sides: &[Side], metrics: &mut Metrics) {
    for form in forms {
        let of_form = sides.iter().filter(|side| side.form == form.name);
        let off = of_form.map(|side| side.off.instructions).max();
        let name = prefix(isa, form.name) + "_off_instructions";
        metrics.insert(name, off.unwrap_or(0) as f64);
    }
}

fn print_counts(isa: Isa, forms: &[Form], sides: &[Side]) {
    println!(
        "\n## {}: instructions on/off (bytes), loads+stores on",
        isa_name(isa)
    );
    println!("\n| form | entry | exit |\n|---|---|---|");
    for form in forms {
        let cell = |name: &str| {
            let side = sides.iter().find(|s| s.form == form.name && s.name == name);
            side.map_or("".to_owned(), |s| {
                let (on, off) = (s.on, s.off.instructions);
                let (n, loads, stores) = (on.instructions, on.loads, on.stores);
                format!("{n}/{off} ({}), {loads}+{stores}", s.bytes)
            })
        };
        println!("| {} | {} | {} |", form.name, cell("entry"), cell("exit"));
    }
}

/// Runs all models, and prints their results.
fn model(metrics: &mut Metrics) -> Result<()> {
    let Some((program, version)) = models::newest() else {
        println!("\nno llvm-mca: no modelled cycles (Debian: llvm)");
        return Ok(());
    };
    for (isa, processors) in [
        (Isa::Aarch64, &models::AARCH64[..]),
        (Isa::Thumb2, &models::THUMB2[..]),
    ] {
        let sides = sides(isa, &forms::all(isa)?);
        let mut regions = Vec::new();
        for side in &sides {
            for (state, text) in [("on", &side.on_text), ("off", &side.off_text)] {
                let name = format!("{}_{}_{state}", prefix(isa, side.form), side.name);
                let text = text.clone();
                regions.push(Region { name, text });
            }
        }
        println!("\n## {}: cycles by {program} ({version})", isa_name(isa));
        let mut columns = Vec::new();
        for processor in processors {
            match models::ask(&program, isa, processor, &regions) {
                Ok(modelled) => columns.push((processor, modelled)),
                Err(e) => println!("\nno model of {processor}: {e:#}"),
            }
        }
        let heads = columns.iter().map(|(processor, modelled)| {
            let model = &modelled.model;
            format!("{processor} ({model})")
        });
        let heads: Vec<String> = heads.collect();
        println!(
            "\n| | {} |\n|---|{}",
            heads.join(" | "),
            "---|".repeat(heads.len())
        );
        // Nearly all forms have the same exit while tracing is off.
        let mut off_row = None;
        for Region { name, .. } in &regions {
            let mut cells = Vec::new();
            for (processor, modelled) in &columns {
                let cycles = modelled.cycles[name];
                cells.push(format!("{cycles:.1}"));
                let processor = processor.replace('-', "_");
                metrics.insert(format!("{name}_cycles_{processor}"), cycles);
            }
            let row = cells.join(" | ");
            if name.ends_with("_off") {
                match &off_row {
                    Some(printed) if *printed == row => continue,
                    Some(_) => {}
                    None => off_row = Some(row.clone()),
                }
            }
            println!("| {name} | {row} |");
        }
    }
    Ok(())
}

/// Entry and exit.
#[cfg(target_arch = "x86_64")]
const POINTS_PER_CALL: f64 = 2.0;

/// Measures all x86-64 forms, then other tracers.
#[cfg(target_arch = "x86_64")]
fn measure(metrics: &mut Metrics) -> Result<()> {
    use super::statistics::{median, median_of_pairs};

    const ROUNDS: usize = 101;
    const CALLS: u64 = 10_000;

    let per_point = |call: f64, base: f64| (call - base) / POINTS_PER_CALL;
    let forms: Vec<Form> = forms::all(Isa::X86_64)?
        .into_iter()
        .map(|mut form| {
            if form.entry.is_none() {
                // Two points of the same kind, as the other point is another form's.
                form.entry = Some(Vec::new());
            }
            form
        })
        .collect();
    let mut thread = native::Thread::new()?;
    let (empty, floor) = (native::Subject::empty()?, native::Subject::floor()?);
    let subjects = forms.iter().map(native::Subject::new);
    let subjects = subjects.collect::<Result<Vec<_>>>()?;

    let (mut base, mut floors) = (Vec::new(), Vec::new());
    let mut times = vec![[Vec::new(), Vec::new()]; forms.len()];
    for _ in 0..ROUNDS {
        let empty = thread.measure(&empty, true, CALLS);
        base.push(empty);
        floors.push(per_point(thread.measure(&floor, true, CALLS), empty));
        for (subject, [on, off]) in subjects.iter().zip(&mut times) {
            on.push(thread.measure(subject, true, CALLS));
            off.push(thread.measure(subject, false, CALLS));
        }
    }
    let floor_ns = median(floors.iter().copied());
    metrics.insert("x86_64_native_floor_ns".into(), floor_ns);
    println!("\n## x86_64: ns a trace point here; floor (rdtsc, registers saved) {floor_ns:.2} ns");
    println!("\n| form | on, ns | on / floor | off, ns |\n|---|---|---|---|");
    for ((form, subject), [on, off]) in forms.iter().zip(&subjects).zip(&times) {
        // The whole cost of a form that has only an exit.
        let points = if form.entry.as_ref().is_some_and(Vec::is_empty) {
            1.0
        } else {
            2.0
        };
        let price = |call: f64, base: f64| (call - base) / points;
        let on_ns = median_of_pairs(on, &base, price);
        let off_ns = median_of_pairs(off, &base, price);
        let prices: Vec<f64> = on
            .iter()
            .zip(&base)
            .map(|(&on, &base)| price(on, base))
            .collect();
        let ratio = median_of_pairs(&prices, &floors, |on, floor| on / floor);
        let bytes = thread.bytes_per_call(subject, CALLS);
        anyhow::ensure!(bytes > 0, "the form {} writes nothing", form.name);
        println!("| {} | {on_ns:.2} | {ratio:.2} | {off_ns:.2} |", form.name);
        let prefix = format!("x86_64_native_{}", form.name);
        metrics.insert(format!("{prefix}_on_ns"), on_ns);
        metrics.insert(format!("{prefix}_on_over_floor"), ratio);
        metrics.insert(format!("{prefix}_off_ns"), off_ns);
    }

    for other in others::ALL {
        match other.measure() {
            Err(e) => println!("| {}: skipped, {e:#} | | | |", other.title),
            Ok(rounds) => {
                // Some have other processes that consume the data, which a busy machine delays: the
                // best tenth is their own cost.
                let best = |f: fn(&others::Round) -> f64| {
                    let mut values: Vec<f64> = rounds.iter().map(f).collect();
                    values.sort_by(f64::total_cmp);
                    values[values.len() / 10]
                };
                let on_ns = best(|[base, _, traced]| (traced - base) / POINTS_PER_CALL);
                let floor_ns = best(|[base, floor, _]| (floor - base) / POINTS_PER_CALL);
                let ratio = on_ns / floor_ns;
                println!("| {} | {on_ns:.2} | {ratio:.2} | |", other.title);
                let prefix = format!("x86_64_native_{}", other.name);
                metrics.insert(format!("{prefix}_on_ns"), on_ns);
                metrics.insert(format!("{prefix}_on_over_floor"), ratio);
                metrics.insert(format!("{prefix}_floor_ns"), floor_ns);
            }
        }
    }
    Ok(())
}
