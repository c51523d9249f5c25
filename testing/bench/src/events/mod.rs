// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench events`: what events and stacks cost: one by one, whole programs, and memory.

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
        put(&mut metrics, subject.stacks(code)?);
    }
    put(&mut metrics, subject.memory()?);
    let folder = checkout.join("target/bench/events");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, driver) in PROGRAMS {
        let programs = debian::programs(&subject.lab, checkout, &folder, &|class| class == driver)?;
        let program = (programs.first())
            .with_context(|| format!("Debian's program for {driver} is not installed"))?;
        let program = Program::compile(&subject, &program.jar, driver)?;
        if name == "rhino" {
            put(&mut metrics, program.bytes_per_sample()?);
        }
        put(&mut metrics, program.cost(name)?);
    }
    put(&mut metrics, subject.storm(checkout)?);
    Ok(metrics)
}

fn put(metrics: &mut Metrics, results: impl IntoIterator<Item = (String, f64)>) {
    for (name, value) in results {
        println!("{name:28} {value:.3}");
        metrics.insert(name, value);
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
