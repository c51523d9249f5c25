// SPDX-License-Identifier: Apache-2.0
//! Facts about the device. None of them is about one device only, but together they may tell it from most others: so the rarer
//! ones need more consent.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::policy::Level;
use crate::text::quoted;

/// Longest value, characters; longer ones are cut.
const MAX_VALUE: usize = 200;
/// Memory is rounded up to a multiple of this, MiB: the exact number differs by build and options of the kernel.
const MEMORY_STEP_MIB: u64 = 256;

/// A fact about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    /// What the maker calls it (`ro.product.model`).
    Model,
    /// Android's release (`ro.build.version.release`).
    Release,
    /// Number of processors.
    Cores,
    /// Memory, MiB, rounded up to 256.
    MemoryMib,
    /// The exact build (`ro.build.fingerprint`).
    Build,
    /// Release of the kernel, which owners of single devices may have built themselves.
    Kernel,
}

impl Fact {
    /// All facts, those first that need the least consent.
    pub const ALL: [Fact; 6] = [
        Fact::Model,
        Fact::Release,
        Fact::Cores,
        Fact::MemoryMib,
        Fact::Build,
        Fact::Kernel,
    ];

    /// Its name in files and texts.
    pub const fn name(self) -> &'static str {
        match self {
            Fact::Model => "model",
            Fact::Release => "release",
            Fact::Cores => "cores",
            Fact::MemoryMib => "memory-mib",
            Fact::Build => "build",
            Fact::Kernel => "kernel",
        }
    }

    /// The lowest level that allows it.
    pub const fn level(self) -> Level {
        match self {
            Fact::Model | Fact::Release | Fact::Cores | Fact::MemoryMib => Level::Summary,
            Fact::Build => Level::Signatures,
            Fact::Kernel => Level::Full,
        }
    }
}

/// What is known about the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts(BTreeMap<Fact, String>);

impl DeviceFacts {
    /// From a file of a ROM or of the lab: TOML, each fact a string.
    ///
    /// # Errors
    /// If it is none, or has a fact that is not known: the line, and what is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let facts: BTreeMap<Fact, String> =
            toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let mut all = DeviceFacts::default();
        for (fact, value) in facts {
            all.set(fact, &value);
        }
        Ok(all)
    }

    /// Adds a fact; an empty value is not known.
    pub fn set(&mut self, fact: Fact, value: &str) {
        let plain = |c: char| if c.is_control() { '?' } else { c };
        let value: String = value.trim().chars().take(MAX_VALUE).map(plain).collect();
        let value = match (fact, value.parse::<u64>()) {
            (Fact::MemoryMib, Ok(mib)) => {
                let steps = mib.div_ceil(MEMORY_STEP_MIB);
                steps.saturating_mul(MEMORY_STEP_MIB).to_string()
            }
            _ => value,
        };
        if !value.is_empty() {
            self.0.insert(fact, value);
        }
    }

    /// A fact; `None`: it is not known.
    pub fn get(&self, fact: Fact) -> Option<&str> {
        self.0.get(&fact).map(String::as_str)
    }

    /// These facts, and of others those that are not here.
    #[must_use]
    pub fn or(mut self, others: &DeviceFacts) -> Self {
        for (fact, value) in &others.0 {
            self.0.entry(*fact).or_insert_with(|| value.clone());
        }
        self
    }

    /// All that are known.
    pub fn iter(&self) -> impl Iterator<Item = (Fact, &str)> {
        self.0.iter().map(|(fact, value)| (*fact, value.as_str()))
    }

    pub(super) fn limited_to(mut self, level: Level) -> Self {
        self.0.retain(|fact, _| fact.level() <= level);
        self
    }

    pub(super) fn to_toml(&self) -> String {
        let mut text = String::from("[device]\n");
        for (fact, value) in self.iter() {
            let _ = writeln!(text, "{} = {}", fact.name(), quoted(value));
        }
        text
    }

    pub(super) fn from_names(names: BTreeMap<String, String>) -> Self {
        let mut facts = DeviceFacts::default();
        for fact in Fact::ALL {
            if let Some(value) = names.get(fact.name()) {
                facts.set(fact, value);
            }
        }
        facts
    }
}
