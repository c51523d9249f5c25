// SPDX-License-Identifier: Apache-2.0
//! How bad what happened is.

/// How bad it is that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TriggerSeverity {
    /// Somebody wants a trace.
    #[default]
    Requested,
    /// The user may have noticed.
    Slow,
    /// The user has waited.
    Stuck,
    /// The process ends.
    Fatal,
}

impl TriggerSeverity {
    /// All, the least severe first.
    pub const ALL: [TriggerSeverity; 4] = [
        TriggerSeverity::Requested,
        TriggerSeverity::Slow,
        TriggerSeverity::Stuck,
        TriggerSeverity::Fatal,
    ];

    /// Its name in policy files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            TriggerSeverity::Requested => "requested",
            TriggerSeverity::Slow => "slow",
            TriggerSeverity::Stuck => "stuck",
            TriggerSeverity::Fatal => "fatal",
        }
    }

    /// The severity with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.name() == name)
    }

    /// From a newer build, an unknown one is the least severe.
    pub(super) fn from_number(number: u32) -> Self {
        let found = Self::ALL.into_iter().find(|s| *s as u32 == number);
        found.unwrap_or_default()
    }
}
