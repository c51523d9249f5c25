// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask bench detectors`: what the detectors in a process cost its main thread, by `runtime/examples/detector_costs.rs`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{ensure, Context as _, Result};

pub(super) fn bench(checkout: &Path) -> Result<BTreeMap<String, f64>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(checkout)
        .args(["run", "--quiet", "--release"])
        .args(["-p", "hindsight-runtime", "--example", "detector_costs"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(output.status.success(), "detector_costs: {}", output.status);
    let metrics: BTreeMap<String, f64> =
        serde_json::from_slice(&output.stdout).context("detector_costs printed no numbers")?;
    for (name, value) in &metrics {
        println!("{name:28} {value:.3}");
    }
    Ok(metrics)
}
