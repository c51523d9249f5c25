// SPDX-License-Identifier: Apache-2.0
//! The answer to the command `status`, as far as this crate needs it.

use std::path::PathBuf;

use serde::Deserialize;

/// The state of tracing in a process.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    /// The process.
    pub pid: u32,
    /// Whether tracing has switched itself off, because starts failed.
    #[serde(default)]
    pub switched_off: bool,
    /// The events that all threads record.
    #[serde(default)]
    pub events: Events,
    /// The rules.
    #[serde(default)]
    pub rules: Rules,
}

impl Status {
    /// The rule with this name.
    pub fn rule(&self, name: &str) -> Option<&RuleStatus> {
        self.rules.rules.iter().find(|rule| rule.name == name)
    }
}

/// The events that all threads record.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Events {
    /// The names of the categories that are on.
    #[serde(default)]
    pub categories: Vec<String>,
}

/// The rules of a process.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Rules {
    /// The file of those in force; `None`: there are none.
    pub file: Option<PathBuf>,
    /// Why the last file was refused, or empty.
    #[serde(default)]
    pub error: String,
    /// Each rule.
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
}

/// A rule of a process.
#[derive(Clone, Debug, Deserialize)]
pub struct RuleStatus {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: RuleState,
    /// Why it failed, or what its events may miss; empty if there is nothing to say.
    #[serde(default)]
    pub message: String,
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleState {
    /// Its events are recorded.
    On,
    /// Its class is not loaded yet.
    Waits,
    /// It cannot be followed.
    Failed,
}
