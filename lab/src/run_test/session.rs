// SPDX-License-Identifier: Apache-2.0
//! The state that all workers of one run share.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::layout::Layout;
use super::options::Options;
use super::scripts::Scripts;

/// The state that all workers share.
pub(super) struct Session<'a> {
    pub(super) layout: &'a Layout,
    pub(super) options: &'a Options,
    pub(super) scripts: Scripts,
    /// Tests whose checks match dx's code only without its optimizer.
    pub(super) unoptimized: BTreeSet<String>,
    /// Tests whose traces may be unbalanced.
    pub(super) unbalanced: BTreeSet<String>,
    /// Tests that load a JVMTI agent.
    pub(super) agents: BTreeSet<String>,
    /// Logs of failed tests.
    pub(super) logs: PathBuf,
    /// Parent of the tests' working folders.
    pub(super) work: PathBuf,
}
