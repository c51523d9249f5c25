// SPDX-License-Identifier: Apache-2.0
//! The state of the graph while it is written: its inputs, and outputs that several edges name.

use crate::build::ninja::Writer;
use crate::build::sanitize;
use crate::spec::{Interpreter, Isa, Spec, Target, Variant};
use hindsight_blueprint::{Tree, Variation};
use std::collections::BTreeSet;
use std::path::Path;

/// A graph while it is written.
pub(super) struct Graph<'a> {
    pub(super) spec: &'static Spec,
    pub(super) dir: &'a Path,
    pub(super) out: String,
    pub(super) isa: Isa,
    pub(super) variant: Variant,
    /// The static library of art-hooks, relative to the variant's folder.
    pub(super) hooks: Option<&'a str>,
    pub(super) tree: Tree,
    pub(super) variation: Variation,
    /// The precompiled headers that some file needs.
    pub(super) precompiled: BTreeSet<&'static str>,
    pub(super) ninja: Writer,
}

impl Graph<'_> {
    pub(super) fn asm_defines(&self) -> String {
        format!("{}/gen/asm_defines.h", self.out)
    }

    pub(super) fn precompiled_header(&self, name: &str) -> String {
        format!("{}/pch/{name}.pch", self.out)
    }

    pub(super) fn interpreter(&self, interpreter: &Interpreter) -> String {
        format!("{}/gen/{}", self.out, interpreter.output)
    }
}

/// The libraries and programs of an instruction set.
pub(super) fn targets(
    spec: &'static Spec,
    isa: Isa,
    variant: Variant,
) -> impl Iterator<Item = &'static Target> {
    spec.targets
        .iter()
        .filter(move |target| isa.is_native() || !spec.native_only.contains(&target.output))
        .filter(move |target| !variant.is_sanitized() || sanitize::includes(target))
}
