// SPDX-License-Identifier: Apache-2.0
//! Third-party programs for the oracle.

use std::path::Path;

use anyhow::Result;
use hindsight_lab::Lab;

use super::programs::Program;

/// The programs of `hindsight_verify::debian`.
pub(super) fn programs(
    lab: &Lab,
    checkout: &Path,
    folder: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Program>> {
    let programs = hindsight_verify::debian::programs(lab, checkout, folder, wanted)?;
    let programs = programs.into_iter().map(|program| Program {
        name: program.class.clone(),
        jar: program.jar,
        class: program.class,
        arguments: Vec::new(),
        libraries: String::new(),
        prints: program.prints,
        not_comparable: None,
        comparable: true,
    });
    Ok(programs.collect())
}
