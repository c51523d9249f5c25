// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench events`: what events and stacks cost: one by one, whole programs, and memory.
//!
//! What cannot be measured here is left out, and the reason is printed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use hindsight_lab::{Isa, Lab, Release, Variant};
use hindsight_verify::debian;

use lab_subject::{Code, Subject};
use program::Program;

mod lab_subject;
mod program;
mod switched;

type Metrics = BTreeMap<String, f64>;

/// The names of the programs' metrics, and the drivers in `lab/oracle/debian`.
const PROGRAMS: [(&str, &str); 4] = [
    ("rhino", "RhinoScript"),
    ("h2", "H2Database"),
    ("antlr", "AntlrTool"),
    ("gson", "GsonTree"),
];

pub(super) fn bench(checkout: &Path) -> Result<Metrics> {
    let mut metrics = Metrics::new();
    put(&mut metrics, micro(checkout)?);
    let lab = Lab::open(Release::Android10, Isa::X86_64, Variant::Hindsight)?;
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let subject = Subject::compile(lab, checkout, scratch.path())?;
    for code in [Code::Ahead, Code::Jit, Code::WalkedByArt] {
        optional(&mut metrics, "stacks of 32 frames", subject.stacks(code));
    }
    optional(&mut metrics, "memory of 50 threads", subject.memory());
    let folder = checkout.join("target/bench/events");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, driver) in PROGRAMS {
        let program = debian::programs(&subject.lab, checkout, &folder, &|class| class == driver)
            .and_then(|programs| {
                let program = programs.into_iter().next().context("there is none")?;
                Program::compile(&subject, &program.jar, driver)
            });
        let program = match program {
            Ok(program) => program,
            Err(error) => {
                println!("{name} is left out: {error:#}");
                continue;
            }
        };
        if name == "rhino" {
            optional(&mut metrics, "bytes a stack", program.bytes_per_sample());
        }
        optional(&mut metrics, name, program.cost(name));
    }
    optional(&mut metrics, "messages", subject.storm(checkout));
    Ok(metrics)
}

fn put(metrics: &mut Metrics, results: impl IntoIterator<Item = (String, f64)>) {
    for (name, value) in results {
        println!("{name:28} {value:.3}");
        metrics.insert(name, value);
    }
}

/// Adds what was measured, or says why it is not.
fn optional(metrics: &mut Metrics, what: &str, result: Result<Vec<(String, f64)>>) {
    match result {
        Ok(results) => put(metrics, results),
        Err(error) => println!("{what} is left out: {error:#}"),
    }
}

/// The recorder alone, by `runtime/examples/event_costs.rs`.
fn micro(checkout: &Path) -> Result<Metrics> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(checkout)
        .args(["run", "--quiet", "--release"])
        .args(["-p", "hindsight-runtime", "--example", "event_costs"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "event_costs: {}", output.status);
    serde_json::from_slice(&output.stdout).context("event_costs printed no numbers")
}
