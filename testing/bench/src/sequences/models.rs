// SPDX-License-Identifier: Apache-2.0
//! Cycles by llvm-mca's models of processors.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};
use hindsight_codegen_check::Isa;
use serde::Deserialize;

const ITERATIONS: u32 = 1000;

/// The modelled processors. Not every version of LLVM has a model of its own for each.
pub(super) const AARCH64: [&str; 7] = [
    "cortex-a53",
    "cortex-a55",
    "cortex-a510",
    "cortex-a76",
    "cortex-x1",
    "neoverse-n1",
    "neoverse-n2",
];
pub(super) const THUMB2: [&str; 2] = ["cortex-a53", "cortex-a57"];

/// A named sequence of instructions.
pub(super) struct Region {
    pub(super) name: String,
    pub(super) text: Vec<String>,
}

/// The result of a model.
pub(super) struct Modelled {
    /// The model that LLVM uses for the processor, by the names of its units.
    pub(super) model: String,
    /// Cycles for one run of each region, in a loop of itself.
    pub(super) cycles: BTreeMap<String, f64>,
}

/// The newest installed llvm-mca, and its version.
pub(super) fn newest() -> Option<(String, String)> {
    let versions = (14..30).rev().map(|version| format!("llvm-mca-{version}"));
    versions.chain(["llvm-mca".to_owned()]).find_map(|program| {
        let output = Command::new(&program).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.lines().find(|line| line.contains("version"))?;
        Some((program, version.trim().to_owned()))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    code_regions: Vec<CodeRegion>,
    target_info: TargetInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CodeRegion {
    name: String,
    summary_view: SummaryView,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SummaryView {
    iterations: f64,
    total_cycles: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TargetInfo {
    resources: Vec<String>,
}

/// Runs a model.
pub(super) fn ask(
    program: &str,
    isa: Isa,
    processor: &str,
    regions: &[Region],
) -> Result<Modelled> {
    let triple = match isa {
        Isa::Aarch64 => "aarch64-linux-gnu",
        Isa::Thumb2 => "thumbv8-linux-gnueabihf",
        Isa::X86_64 => "x86_64-linux-gnu",
    };
    let mut source = String::new();
    for Region { name, text } in regions {
        // The target's comment character: llvm-mca's marks are comments.
        let comment = if isa == Isa::Thumb2 { '@' } else { '#' };
        writeln!(
            source,
            "{comment} LLVM-MCA-BEGIN {name}\n{}",
            text.join("\n")
        )?;
        writeln!(source, "{comment} LLVM-MCA-END {name}")?;
    }
    let mut child = Command::new(program)
        .args(["-json", &format!("-iterations={ITERATIONS}")])
        .args([format!("-mtriple={triple}"), format!("-mcpu={processor}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    // llvm-mca reads all input before it answers.
    let mut input = child.stdin.take().context("no standard input")?;
    input.write_all(source.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or_default();
    ensure!(output.status.success(), "{complaint}");
    let report: Report = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("{program} -mcpu={processor} gave an unexpected answer: {complaint}")
    })?;
    ensure!(
        report.code_regions.len() == regions.len(),
        "{program} -mcpu={processor} took {} of {} sequences: {complaint}",
        report.code_regions.len(),
        regions.len()
    );
    let unit = report.target_info.resources.first();
    let model = unit
        .and_then(|unit| unit.split("Unit").next())
        .unwrap_or_default();
    let of = |region: CodeRegion| {
        let cycles = region.summary_view.total_cycles / region.summary_view.iterations;
        (region.name, cycles)
    };
    Ok(Modelled {
        model: model.to_owned(),
        cycles: report.code_regions.into_iter().map(of).collect(),
    })
}
