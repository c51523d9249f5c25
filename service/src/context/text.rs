// SPDX-License-Identifier: Apache-2.0
//! The file as its parser sees it.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct File {
    pub(super) version: u32,
    #[serde(default)]
    pub(super) device: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) metrics: MetricsTable,
    #[serde(default)]
    pub(super) log: LogTable,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct MetricsTable {
    pub(super) names: Vec<String>,
    pub(super) samples: Vec<Vec<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LogTable {
    pub(super) lines: Vec<String>,
    pub(super) left_out: u64,
}
