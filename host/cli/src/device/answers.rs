// SPDX-License-Identifier: Apache-2.0
//! The service's answers as JSON.

use anyhow::{ensure, Context as _, Result};
use hindsight_control::Device;
use serde_json::Value;

/// The one line of an answer, an object.
pub(super) fn object(lines: &[String]) -> Result<Value> {
    let line = lines.first().context("the service's answer is empty")?;
    let value: Value = serde_json::from_str(line).context("the service's answer is no JSON")?;
    ensure!(
        value.is_object(),
        "the service's answer is no object: {line}"
    );
    Ok(value)
}

/// The descriptions of all reports.
pub(super) fn reports(device: &Device) -> Result<Vec<Value>> {
    let lines = device.ask("reports", "", 0)?;
    let parse = |line: &String| serde_json::from_str(line);
    let reports: Result<Vec<Value>, _> = lines.iter().map(parse).collect();
    reports.context("the service's list of reports is no JSON")
}
