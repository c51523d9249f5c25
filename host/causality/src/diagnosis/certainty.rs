// SPDX-License-Identifier: Apache-2.0
//! What is recorded, and what is inferred.

use serde::Serialize;

/// Why a fact is held to be true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "certainty")]
pub enum Certainty {
    /// Events say so.
    Recorded,
    /// It follows from other facts.
    Inferred {
        /// From which, in words.
        because: String,
    },
}

impl Certainty {
    /// Whether events say so.
    pub const fn is_recorded(&self) -> bool {
        matches!(self, Certainty::Recorded)
    }
}
