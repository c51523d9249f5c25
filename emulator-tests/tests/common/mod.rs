// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests of the suite.

use hindsight_emulator_tests::junit::{Case, Outcome};

/// The steps that failed, with their error messages.
pub(crate) fn failures(cases: &[Case]) -> Vec<(&str, &str)> {
    cases
        .iter()
        .filter_map(|case| match &case.outcome {
            Outcome::Failed(text) => Some((case.name, text.as_str())),
            _ => None,
        })
        .collect()
}
