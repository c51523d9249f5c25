// SPDX-License-Identifier: Apache-2.0
//! The policy: what is recorded, how much memory that may take, what is worth a report, and what the user agreed to.
//!
//! A policy is a TOML file with a version; what the file leaves out has the built-in value (`default.toml` here lists all keys
//! with these values). A file with any mistake is refused as a whole ([`PolicyError`] names line, key and remedy), and the
//! caller keeps the policy that it had. [`Trust`] decides whose policies are read at all.

mod base64;
mod consent;
mod detectors;
mod error;
mod file;
mod keys;
mod model;
mod selector;
mod signature;
mod signed;
mod trust;
mod unnamed;
mod value;

#[cfg(test)]
pub(crate) use base64::encode;
pub use consent::{is_region, ConsentRules, Level, Model, OfUser, Person, RegionRule, UserType};
pub use detectors::{
    Condition, Correlated, Detectors, Metric, Rule, ServiceDetector, ServiceSpec, SlowMethod,
    CORRELATED, SERVICE_DETECTORS, SERVICE_SEVERITY,
};
pub use error::PolicyError;
pub use file::{DEFAULT_TEXT, MAX_POLICY_BYTES, POLICY_VERSION};
pub use keys::{Keys, KEY_SUFFIX};
pub use model::{
    Killed, Limits, Memory, Override, Policy, Record, Recording, Reports, Select, Uploads,
    MAX_PROCESSES, MAX_PROCESSES_PER_UID, MAX_QUEUE,
};
pub use selector::{Package, Selector, FIRST_APP, UIDS_OF_A_USER};
pub use signed::SignatureError;
pub use trust::{Accepted, Admitted, Refused, Trust};

#[cfg(test)]
mod tests;
