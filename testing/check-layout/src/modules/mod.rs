// SPDX-License-Identifier: Apache-2.0
//! Cycles between the modules of a crate.
//!
//! A module depends on another if it uses an item that the other defines, wherever the path to the item leads through
//! re-exports. Parent and child modules count. Tests do not, nor do `pub use` and `mod` alone. An inherent function
//! belongs to the module whose `impl` block has it. The compiler's name resolution is approximated from the syntax
//! (`syn`): items that macros define are known by their paths only, and methods where they are called on `self`.

mod cycles;
mod resolve;
mod syntax;
mod tree;
mod uses;

use std::path::Path;

use anyhow::Result;
use cargo_metadata::{Package, TargetKind};

use crate::crates::relative;
use crate::problem::Problem;

/// Checks the libraries and programs of all packages. Returns the number of modules, too.
pub(crate) fn check(packages: &[&Package], checkout: &Path) -> Result<(usize, Vec<Problem>)> {
    let mut count = 0;
    let mut problems = Vec::new();
    for package in packages {
        for target in &package.targets {
            let checked = [
                TargetKind::Lib,
                TargetKind::RLib,
                TargetKind::StaticLib,
                TargetKind::CDyLib,
            ]
            .iter()
            .chain([&TargetKind::ProcMacro, &TargetKind::Bin])
            .any(|kind| target.kind.contains(kind));
            if checked {
                let root = relative(target.src_path.as_std_path(), checkout);
                let krate = tree::Crate::load(checkout, &root)?;
                count += krate.nodes();
                problems.extend(cycles::find(&uses::edges(&krate), &krate));
            }
        }
    }
    Ok((count, problems))
}
